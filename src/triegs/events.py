"""Updates as they are given, to updates by ids: tuples, or columns of an Arrow table.

What is malformed is refused row by row, with the reason; the rest goes on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.dictionary import Dictionary
from triegs.dictionary.columns import buffer_texts
from triegs.errors import InvalidUpdate
from triegs.kernels.jit import brief
from triegs.maintain.standing import Refused

# How a sign may be written, and the change of the count that it means.
CHANGES: dict[Any, int] = {"+": 1, "-": -1, 1: 1, -1: -1}
COLUMNS = ("subject", "predicate", "object")
OP = "op"
_WORD = np.dtype(np.int64)
_INT8 = pa.int8().id
NO_SIGN = "the sign is '+' or '-' (or 1 or -1), not "


class Batch(NamedTuple):
    """Updates by ids, and what was refused.

    ``rows`` has the columns change (1 or -1), subject, predicate, object; ``places`` the place of
    each row in what was given, or None if every row was kept.
    """

    rows: NDArray[np.int64]
    places: NDArray[np.int64] | None
    refused: list[Refused]


def encode_tuples(dictionary: Dictionary, updates: Iterable[Sequence[Any]]) -> Batch:
    """``(sign, subject, predicate, object)`` each.

    >>> encode_tuples(Dictionary(), [("+", "<a:a>", "<a:p>", 1), (-1, "<a:a>", "<a:p>", 2)])
    Batch(rows=array([[ 1,  0,  1,  2],
           [-1,  0,  1,  3]]), places=None, refused=[])
    >>> encode_tuples(Dictionary(), [("?", 1, 2, 3), ("+", 1, 2, 3)]).refused
    [Refused(place=0, reason="the sign is '+' or '-' (or 1 or -1), not '?'")]
    """
    encode = dictionary.encode_one
    if type(updates) is list and len(updates) == 1:  # by far the quickest way for one
        try:
            sign, subject, predicate, obj = updates[0]
            row = (CHANGES[sign], encode(subject), encode(predicate), encode(obj))
            return Batch(np.array(row, _WORD, ndmin=2), None, [])
        except (KeyError, TypeError, ValueError):
            pass  # below it is told why
    numbers: list[int] = []
    refused: list[Refused] = []
    place = -1
    for place, update in enumerate(updates):
        try:
            sign, subject, predicate, obj = update
            numbers += (CHANGES[sign], encode(subject), encode(predicate), encode(obj))
        except (KeyError, TypeError, ValueError) as problem:
            refused.append(Refused(place, _explain(update, problem)))
    # By way of `array`, which takes a list of integers in far quicker than NumPy.
    rows = np.array(array("q", numbers), _WORD).reshape(-1, 4)
    return Batch(rows, _list_kept(place + 1, refused), refused)


def _list_kept(given: int, refused: list[Refused]) -> NDArray[np.int64] | None:
    """The places of what was not refused, None if nothing was."""
    if not refused:
        return None
    kept = np.ones(given, np.bool_)
    kept[[place for place, _ in refused]] = False
    return np.flatnonzero(kept)


def _explain(update: Any, problem: Exception) -> str:
    """Why a tuple was refused."""
    try:
        parts = [] if isinstance(update, str) else list(update)
    except TypeError:
        parts = []
    if len(parts) != 4:
        return f"an update is (sign, subject, predicate, object), not {_shorten(update)}"
    try:
        is_good = parts[0] in CHANGES
    except TypeError:
        is_good = False
    return str(problem) if is_good else NO_SIGN + _shorten(parts[0])


def check_many(given: Any, form: str, file: str) -> None:
    """Refuse what is no batch, though Python would iterate over it: a text, a path, a mapping, or
    one update where a list of them is wanted. `file` says how a file is read.

    >>> check_many(("+", 1, "<a:p>", 2), "updates", "…")
    Traceback (most recent call last):
    triegs.errors.InvalidUpdate: this is one of them; give a list of updates: [('+', 1, ...)]
    """
    if isinstance(given, str | PathLike):
        raise InvalidUpdate(f"{form} are tuples or a table, not {given!r}; {file}")
    if isinstance(given, bytes | bytearray | memoryview):
        raise InvalidUpdate(f"{form} are tuples or a table, not bytes; {file}")
    if isinstance(given, Mapping):
        raise InvalidUpdate(f"{form} are tuples or a table; make one of it: pyarrow.table(…)")
    if not isinstance(given, Iterable):
        raise InvalidUpdate(f"{form} are tuples or a table, not {_shorten(given)}")
    if isinstance(given, tuple) and given:
        first = given[0]
        if isinstance(first, str) or not isinstance(first, Sequence | np.ndarray):
            raise InvalidUpdate(f"this is one of them; give a list of {form}: [{_shorten(given)}]")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def encode_table(dictionary: Dictionary, updates: Any) -> Batch:
    """The columns subject, predicate, object, and ``op`` (all ``+`` if it is not there).

    Takes a table or record batch, and whatever else has ``__arrow_c_stream__``. Signs are strings
    or integers. A table that lacks a column, or has one of a type without terms or signs, is
    `InvalidUpdate` as a whole.

    >>> import pyarrow as pa
    >>> table = pa.table({"subject": [1, 2], "predicate": ["<a:p>", "p"], "object": [2, 1]})
    >>> encode_table(Dictionary(), table)
    Batch(rows=array([[1, 0, 2, 1]]), places=array([0]), refused=[Refused(place=1, ...)])
    """
    table = updates if isinstance(updates, pa.Table) else pa.table(updates)
    schema = table.schema
    rows = np.empty((table.num_rows, 4), np.int64)
    reasons: dict[int, str] = {}
    for number, name in enumerate(COLUMNS, 1):
        column = table.column(_find_column(schema, name))
        try:
            problems = dictionary.encode_into(column, rows[:, number])
        except TypeError as problem:
            raise InvalidUpdate(f"{name}: {problem}; nothing changed") from None
        for place, reason in problems:
            reasons.setdefault(place, f"{name}: {reason}")
    op = _find_column(schema, OP, needed=False)
    if op < 0:
        rows[:, 0] = 1
    elif _write_changes(table.column(op), rows):
        for place in np.flatnonzero(rows[:, 0] == 0).tolist():
            sign = table.column(op)[place].as_py()
            reasons.setdefault(place, NO_SIGN + _shorten(sign))
    if not reasons:
        return Batch(rows, None, [])
    refused = [Refused(place, reason) for place, reason in sorted(reasons.items())]
    places = _list_kept(len(rows), refused)
    return Batch(rows[places], places, refused)


def _find_column(schema: pa.Schema, name: str, needed: bool = True) -> int:
    found: int = schema.get_field_index(name)
    if found < 0:
        is_double = name in schema.names
        if is_double or needed:
            number = "more than one" if is_double else "no"
            has = ", ".join(schema.names[:20]) or "none"
            raise InvalidUpdate(
                f"the table has {number} column {name}; its columns: {has}; nothing changed"
            )
    return found


def _write_changes(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> int:
    """Write the changes that a column of signs means, 0 for what is none; how many are 0."""
    if column.num_chunks == 1:
        return _write_part(column.chunk(0), rows)
    bad = 0
    start = 0
    for part in column.chunks:
        bad += _write_part(part, rows[start : start + len(part)])
        start += len(part)
    return bad


def _write_part(part: pa.Array, rows: NDArray[np.int64]) -> int:
    kind = part.type
    if kind.id == _INT8 and part.null_count == 0:
        return int(copy_changes(part.to_numpy(), rows))
    if pa.types.is_integer(kind):
        values = (part.fill_null(0) if part.null_count else part).to_numpy()
        changes = np.where(values == 1, 1, np.where(values == -1, -1, 0)).astype(np.int8)
        changes.flags.writeable = False  # as Arrow's own buffers are: one kernel for all
        return int(copy_changes(changes, rows))
    if pa.types.is_dictionary(kind):
        return _write_coded(part, rows)
    if pa.types.is_string_view(kind):
        part = part.cast(pa.large_string())
    if pa.types.is_string(part.type) or pa.types.is_large_string(part.type):
        return int(read_signs(*buffer_texts(part), rows))
    if pa.types.is_null(kind):
        rows[:, 0] = 0
        return len(rows)
    raise InvalidUpdate(f"{OP} is of strings or integers, not of {kind}; nothing changed")


def _write_coded(part: pa.Array, rows: NDArray[np.int64]) -> int:
    """The same for a dictionary of signs; a null has the place behind the last one."""
    signs = part.dictionary
    ways = np.zeros((len(signs) + 1, 4), np.int64)
    _write_part(signs, ways[:-1])
    places = part.indices
    if places.null_count:
        places = places.cast("int64").fill_null(len(signs))
    changes = ways[places.to_numpy(), 0]
    rows[:, 0] = changes
    return len(changes) - int(np.count_nonzero(changes))


@brief
def copy_changes(values: NDArray[np.int8], rows: NDArray[np.int64]) -> int:
    """Signs given as numbers; returns how many are none, which become 0."""
    bad = 0
    for row in range(len(values)):
        value = values[row]
        good = (value == 1) | (value == -1)
        rows[row, 0] = value if good else 0
        bad += not good
    return bad


@brief
def read_signs(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    valid: NDArray[np.uint8],
    rows: NDArray[np.int64],
) -> int:
    """Signs given as texts, in the buffers of `triegs.dictionary.columns`; as `copy_changes`."""
    bad = 0
    for row in range(len(rows)):
        change = 0
        if offsets[row + 1] - offsets[row] == 1 and (len(valid) == 0 or valid[row] != 0):
            sign = data[offsets[row]]
            change = 1 if sign == 43 else -1 if sign == 45 else 0
        rows[row, 0] = change
        bad += change == 0
    return bad
