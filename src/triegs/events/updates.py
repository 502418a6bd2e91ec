"""Encodes updates, given as tuples or Arrow tables, as rows of ids.

Malformed rows are refused individually, with a reason. Signs and columns follow the same rules as
in files.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.errors import InputError, InvalidUpdate
from triegs.events.context import TERMS, choose_columns
from triegs.events.event_columns import show_cell
from triegs.events.signs import CHANGES, explain_sign, read_signs
from triegs.maintain.standing import Refused
from triegs.reasons import Reason, Why, shorten
from triegs.terms.dictionary import Dictionary
from triegs.terms.validation import DamagedColumn, clean_column

OP = "op"
#: The columns of an update, in the order of its row.
ENCODED = (OP, *TERMS)
_WORD = np.dtype(np.int64)
_FORM = "an update must be (sign, subject, predicate, object), not "


class Batch(NamedTuple):
    """Encoded updates and refusals.

    ``rows`` has the columns change (1 or -1), subject, predicate, object; ``kept`` has the index of
    each row in the given updates, or None if all were kept.
    """

    rows: NDArray[np.int64]
    kept: NDArray[np.int64] | None
    refused: list[Refused]


def encode_tuples(dictionary: Dictionary, updates: Iterable[Sequence[Any]]) -> Batch:
    """Encode ``(sign, subject, predicate, object)`` tuples.

    >>> encode_tuples(Dictionary(), [("+", "<a:a>", "<a:p>", 1), (-1, "<a:a>", "<a:p>", 2)])
    Batch(rows=array([[ 1,  0,  1,  2],
           [-1,  0,  1,  3]]), kept=None, refused=[])
    >>> encode_tuples(Dictionary(), [("?", 1, 2, 3), ("+", 1, 2, 3)]).refused
    [Refused(row=0, reason="bad op: the sign must be + or - (or 1 or -1), not '?'")]
    """
    encode = dictionary.encode_one
    if type(updates) is list and len(updates) == 1:  # much faster for a single update
        try:
            sign, subject, predicate, obj = updates[0]
            row = (CHANGES[sign], encode(subject), encode(predicate), encode(obj))
            return Batch(np.array(row, _WORD, ndmin=2), None, [])
        except (KeyError, TypeError, ValueError):
            pass  # explained below
    numbers: list[int] = []
    refused: list[Refused] = []
    index = -1
    for index, update in enumerate(updates):
        try:
            sign, subject, predicate, obj = update
            numbers += (CHANGES[sign], encode(subject), encode(predicate), encode(obj))
        except (KeyError, TypeError, ValueError):
            refused.append(Refused(index, _explain(dictionary, update)))
    # `array` converts a list of integers much faster than NumPy.
    rows = np.array(array("q", numbers), _WORD).reshape(-1, 4)
    return Batch(rows, _list_kept(index + 1, refused), refused)


def _list_kept(given: int, refused: list[Refused]) -> NDArray[np.int64] | None:
    """The indices of updates that were not refused; None if none was refused."""
    if not refused:
        return None
    kept = np.ones(given, np.bool_)
    kept[[index for index, _ in refused]] = False
    return np.flatnonzero(kept)


def _explain(dictionary: Dictionary, update: Any) -> Why:
    """Why a tuple was refused."""
    try:
        parts = [] if isinstance(update, str) else list(update)
    except TypeError:
        parts = []
    if len(parts) != 4:
        return Reason.BAD_ROW.describe(_FORM + shorten(update))
    try:
        is_sign = parts[0] in CHANGES
    except TypeError:
        is_sign = False
    if not is_sign:
        return explain_sign(parts[0])
    for name, term in zip(TERMS, parts[1:], strict=True):
        if term is None:
            return Reason(f"no {name}").describe()
        try:
            dictionary.encode_one(term)
        except (TypeError, ValueError) as problem:
            return Reason.BAD_TERM.describe(f"{name}: {problem}")
    raise AssertionError(f"nothing is wrong with {update!r}")


def check_many(given: Any, form: str, file: str) -> None:
    """Reject iterables that are not batches: strings, paths, mappings, and single updates.

    `file` is a hint on how to read files.

    >>> check_many(("+", 1, "<a:p>", 2), "updates", "…")
    Traceback (most recent call last):
    triegs.errors.InvalidUpdate: expected a list of updates, not one; write [('+', 1, ...)]
    """
    if isinstance(given, str | PathLike):
        raise InvalidUpdate(f"{form} must be tuples or a table, not {given!r}; {file}")
    if isinstance(given, bytes | bytearray | memoryview):
        raise InvalidUpdate(f"{form} must be tuples or a table, not bytes; {file}")
    if isinstance(given, Mapping):
        raise InvalidUpdate(f"{form} must be tuples or a table; convert it: pyarrow.table(…)")
    if not isinstance(given, Iterable):
        raise InvalidUpdate(f"{form} must be tuples or a table, not {shorten(given)}")
    if isinstance(given, tuple) and given:
        first = given[0]
        if isinstance(first, str) or not isinstance(first, Sequence | np.ndarray):
            raise InvalidUpdate(f"expected a list of {form}, not one; write [{shorten(given)}]")


def encode_table(dictionary: Dictionary, updates: Any) -> Batch:
    """Encode the columns subject, predicate, object and ``op`` (all ``+`` if missing).

    Takes a table, a record batch, or any object with ``__arrow_c_stream__``. Signs are strings or
    integers. A missing or damaged column, or one of an unsupported type, raises `InvalidUpdate`.

    >>> import pyarrow as pa
    >>> table = pa.table({"subject": [1, 2], "predicate": ["<a:p>", "p"], "object": [2, 1]})
    >>> encode_table(Dictionary(), table)
    Batch(rows=array([[1, 0, 2, 1]]), kept=array([0]), refused=[Refused(row=1, ...)])
    """
    table = updates if isinstance(updates, pa.Table) else pa.table(updates)
    columns, reasons = take_columns(table, (OP, *TERMS))
    return encode_columns(dictionary, columns, table.num_rows, reasons)


def take_columns(
    table: pa.Table, names: Sequence[str], needed: Sequence[str] = TERMS
) -> tuple[dict[str, Any], dict[int, Why]]:
    """The named columns of a table, and the rows with invalid UTF-8. Those that `encode_columns`
    encodes are not validated yet.

    `InvalidUpdate` if a column is missing, ambiguous or damaged.
    """
    columns: dict[str, Any] = {}
    reasons: dict[int, Why] = {}
    wanted = {name: name for name in names}
    try:
        found = choose_columns(table.schema.names, "the table", wanted, needed)
    except InputError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from None
    for name, number in found.items():
        columns[name] = table.column(number)
        if name not in ENCODED:
            columns[name], texts = _clean(columns[name], name)
            reasons = {**texts, **reasons}
    return columns, reasons


def _clean(column: Any, name: str) -> tuple[Any, dict[int, Why]]:
    """A validated column, and the rows with invalid UTF-8."""
    try:
        column, is_bad = clean_column(column)
    except DamagedColumn as problem:
        raise InvalidUpdate(f"{name}: {problem}; nothing changed") from None
    if is_bad is None:
        return column, {}
    return column, dict.fromkeys(np.flatnonzero(is_bad).tolist(), Reason.NOT_UTF8.describe(name))


def encode_columns(
    dictionary: Dictionary, columns: Mapping[str, Any], count: int, reasons: dict[int, Why]
) -> Batch:
    """Encode `count` rows, except those in `reasons`; more reasons are added to it."""
    rows = np.empty((count, 4), np.int64)
    left = dictionary.encode_rows([columns.get(name) for name in ENCODED], rows)
    if left:
        _encode_left(dictionary, dict(columns), [ENCODED[number] for number in left], rows, reasons)
    if not reasons:
        return Batch(rows, None, [])
    refused = [Refused(row, reason) for row, reason in sorted(reasons.items())]
    kept = _list_kept(len(rows), refused)
    return Batch(rows[kept], kept, refused)


def _encode_left(
    dictionary: Dictionary, columns: dict[str, Any], names: Sequence[str],
    rows: NDArray[np.int64], reasons: dict[int, Why],
) -> None:  # fmt: skip
    """Validate and encode the columns that need more than a kernel."""
    for name in reversed(names):  # invalid UTF-8 comes first, that of the first column before all
        columns[name], texts = _clean(columns[name], name)
        reasons.update(texts)
    try:
        for name in names:
            number, column = ENCODED.index(name), columns[name]
            if name == OP:
                rows[:, 0] = 1
                if read_signs(column, rows):
                    for row in np.flatnonzero(rows[:, 0] == 0).tolist():
                        reasons.setdefault(row, explain_sign(show_cell(column[row])))
                continue
            for row, problem in _encode(dictionary, column, name, rows[:, number]):
                if show_cell(column[row]) is None:
                    reasons.setdefault(row, Reason(f"no {name}").describe())
                else:
                    reasons.setdefault(row, Reason.BAD_TERM.describe(f"{name}: {problem}"))
    except TypeError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from None


def _encode(
    dictionary: Dictionary, column: Any, name: str, out: NDArray[np.int64]
) -> list[tuple[int, str]]:
    try:
        return list(dictionary.encode_into(column, out))
    except TypeError as problem:
        raise TypeError(f"{name}: {problem}") from None
    except pa.ArrowInvalid as problem:  # an unknown time zone
        raise TypeError(f"{name}: {str(problem).partition(chr(10))[0]}") from None
