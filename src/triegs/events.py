"""Updates as they are given, to updates by ids: tuples, or columns of an Arrow table.

What is malformed is refused row by row, with the reason; the rest goes on. Signs, and which columns
a table must have, are read as in files.
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
from triegs.dictionary.sound import Unsound, clean_column
from triegs.errors import InputError, InvalidUpdate
from triegs.inputs.shaping import show_cell
from triegs.inputs.signs import CHANGES, explain_sign, read_signs
from triegs.inputs.work import TERMS, choose_columns
from triegs.maintain.standing import Refused
from triegs.reasons import Reason, Why, shorten

OP = "op"
_WORD = np.dtype(np.int64)
_FORM = "an update is (sign, subject, predicate, object), not "


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
    [Refused(place=0, reason="bad op: the sign is + or - (or 1 or -1), not '?'")]
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
        except (KeyError, TypeError, ValueError):
            refused.append(Refused(place, _explain(dictionary, update)))
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


def _explain(dictionary: Dictionary, update: Any) -> Why:
    """Why a tuple was refused."""
    try:
        parts = [] if isinstance(update, str) else list(update)
    except TypeError:
        parts = []
    if len(parts) != 4:
        return Reason.BAD_ROW.tell(_FORM + shorten(update))
    try:
        is_sign = parts[0] in CHANGES
    except TypeError:
        is_sign = False
    if not is_sign:
        return explain_sign(parts[0])
    for name, term in zip(TERMS, parts[1:], strict=True):
        if term is None:
            return Reason(f"no {name}").tell()
        try:
            dictionary.encode_one(term)
        except (TypeError, ValueError) as problem:
            return Reason.BAD_TERM.tell(f"{name}: {problem}")
    raise AssertionError(f"nothing is wrong with {update!r}")


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
        raise InvalidUpdate(f"{form} are tuples or a table, not {shorten(given)}")
    if isinstance(given, tuple) and given:
        first = given[0]
        if isinstance(first, str) or not isinstance(first, Sequence | np.ndarray):
            raise InvalidUpdate(f"this is one of them; give a list of {form}: [{shorten(given)}]")


def encode_table(dictionary: Dictionary, updates: Any) -> Batch:
    """The columns subject, predicate, object, and ``op`` (all ``+`` if it is not there).

    Takes a table or record batch, and whatever else has ``__arrow_c_stream__``. Signs are strings
    or integers. A table that lacks a column, or has one that is damaged or of a type without terms
    or signs, is `InvalidUpdate` as a whole.

    >>> import pyarrow as pa
    >>> table = pa.table({"subject": [1, 2], "predicate": ["<a:p>", "p"], "object": [2, 1]})
    >>> encode_table(Dictionary(), table)
    Batch(rows=array([[1, 0, 2, 1]]), places=array([0]), refused=[Refused(place=1, ...)])
    """
    table = updates if isinstance(updates, pa.Table) else pa.table(updates)
    columns, reasons = take_columns(table, (OP, *TERMS))
    return encode_columns(dictionary, columns, table.num_rows, reasons)


def take_columns(
    table: pa.Table, names: Sequence[str], needed: Sequence[str] = TERMS
) -> tuple[dict[str, Any], dict[int, Why]]:
    """The columns of a table that there are, fit for use, and which rows have text that is none.

    `InvalidUpdate` if one is missing, there twice or damaged.
    """
    columns: dict[str, Any] = {}
    reasons: dict[int, Why] = {}
    wanted = {name: name for name in names}
    try:
        places = choose_columns(table.schema.names, "the table", wanted, needed)
    except InputError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from None
    for name, place in places.items():
        try:
            columns[name], is_bad = clean_column(table.column(place))
        except Unsound as problem:
            raise InvalidUpdate(f"{name}: {problem}; nothing changed") from None
        if is_bad is not None:
            for row in np.flatnonzero(is_bad).tolist():
                reasons.setdefault(row, Reason.NOT_UTF8.tell(name))
    return columns, reasons


def encode_columns(
    dictionary: Dictionary, columns: Mapping[str, Any], count: int, reasons: dict[int, Why]
) -> Batch:
    """Updates of so many rows, those in `reasons` excepted, to which others are added."""
    rows = np.empty((count, 4), np.int64)
    rows[:, 0] = 1
    try:
        if OP in columns and read_signs(columns[OP], rows):
            for place in np.flatnonzero(rows[:, 0] == 0).tolist():
                reasons.setdefault(place, explain_sign(show_cell(columns[OP][place])))
        for number, name in enumerate(TERMS, 1):
            for place, problem in _encode(dictionary, columns[name], name, rows[:, number]):
                if show_cell(columns[name][place]) is None:
                    reasons.setdefault(place, Reason(f"no {name}").tell())
                else:
                    reasons.setdefault(place, Reason.BAD_TERM.tell(f"{name}: {problem}"))
    except TypeError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from None
    if not reasons:
        return Batch(rows, None, [])
    refused = [Refused(place, reason) for place, reason in sorted(reasons.items())]
    places = _list_kept(len(rows), refused)
    return Batch(rows[places], places, refused)


def _encode(
    dictionary: Dictionary, column: Any, name: str, out: NDArray[np.int64]
) -> list[tuple[int, str]]:
    try:
        return list(dictionary.encode_into(column, out))
    except TypeError as problem:
        raise TypeError(f"{name}: {problem}") from None
    except pa.ArrowInvalid as problem:  # a zone that nobody knows
        raise TypeError(f"{name}: {str(problem).partition(chr(10))[0]}") from None
