"""Columns of a table to columns of terms: each distinct cell is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.mapping.encoding import encode_names
from triegs.mapping.literals import quote, read_typed, write_texts
from triegs.mapping.model import TYPES, Constant, Filled, Form

Words = NDArray[np.int64]
#: A row without a term.
NOTHING = -1
#: Texts that are looked at, and the share of distinct ones from which on each is read.
SAMPLED, MOSTLY = 1_024, 0.9


class Terms(NamedTuple):
    """A column of terms: ``codes`` are places in ``terms``, `NOTHING` where a cell is null.

    ``problems`` has what is wrong with rows, if anything is: which cell, and what it should be.
    """

    codes: Words
    terms: Any
    problems: dict[int, str]


class Coded(NamedTuple):
    """A column as distinct values, and which one each row has."""

    codes: Words
    values: Any


class Cells:
    """The columns of one batch by name; what several templates share is made once."""

    def __init__(self, columns: Mapping[str, Any], rows: int) -> None:
        self._columns = columns
        self._rows = rows
        self._coded: dict[str, Coded] = {}
        self._texts: dict[str, Any] = {}
        self._made: dict[Any, Terms] = {}

    def make(self, place: Constant | Filled) -> Terms:
        """The terms of a place of a template. Cost: the rows, and the distinct cells."""
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = self._make(place)
        return found

    def _make(self, place: Constant | Filled) -> Terms:
        if isinstance(place, Constant):
            return Terms(np.zeros(self._rows, np.int64), pa.array([place.term]), {})
        if len(place.columns) == 1:
            name = place.columns[0]
            codes, values = self._code(name)
            texts = self._write(name)
        else:
            codes, texts = self._join(place)
            values = None
        if place.form is Form.IRI:
            terms, bad = self._write_iris(place, texts), None
        elif place.form is Form.WHOLE_IRI:
            terms, bad = _read_iris(texts)
        else:
            terms, bad = self._write_literals(place, values, texts)
        problems = {} if bad is None or not bad.any() else _tell(place, codes, texts, bad)
        return Terms(codes, terms, problems)

    def _code(self, name: str) -> Coded:
        found = self._coded.get(name)
        if found is None:
            try:
                found = self._coded[name] = code_column(self._columns[name])
            except TypeError as problem:
                raise TypeError(f"{name}: {problem}") from None
        return found

    def _write(self, name: str) -> Any:
        """The texts of a column's distinct cells."""
        found = self._texts.get(name)
        if found is None:
            try:
                found = self._texts[name] = write_texts(self._code(name).values)
            except TypeError as problem:
                raise TypeError(f"{name}: {problem}") from None
        return found

    def _join(self, place: Filled) -> tuple[Words, Any]:
        """Distinct texts of several cells; a null in one is a null of all."""
        parts: list[Any] = []
        for before, name in zip(place.texts, place.columns, strict=False):
            texts = self._write(name)
            if place.form is Form.IRI:
                texts = encode_names(texts)
            codes = self._code(name).codes
            parts += [before, texts.take(pa.array(codes, mask=codes < 0))]
        joined = pc.binary_join_element_wise(*parts, place.texts[-1], "")
        return code_column(joined)

    def _write_iris(self, place: Filled, texts: Any) -> Any:
        if len(place.columns) > 1:
            return pc.binary_join_element_wise("<", texts, ">", "")
        first, last = place.texts
        return pc.binary_join_element_wise(f"<{first}", encode_names(texts), f"{last}>", "")

    def _write_literals(
        self, place: Filled, values: Any, texts: Any
    ) -> tuple[Any, NDArray[np.bool_] | None]:
        if len(place.columns) == 1 and not place.is_cell:
            texts = pc.binary_join_element_wise(place.texts[0], texts, place.texts[1], "")
            values = None
        if place.datatype in TYPES and place.datatype != "string":
            return read_typed(values, texts, place.datatype)
        tail = f"@{place.language}" if place.language else ""
        if place.datatype not in ("", "string"):
            tail = f"^^<{place.datatype}>"
        return quote(texts, tail), None


def code_column(column: Any) -> Coded:
    """Distinct values, and which one each row has.

    >>> codes, values = code_column(pa.array(["a", None, "b", "a"]))
    >>> codes.tolist(), values.to_pylist()
    ([0, -1, 1, 0], ['a', 'b'])
    """
    if pa.types.is_dictionary(column.type) and (
        column.dictionary.null_count or pa.types.is_dictionary(column.dictionary.type)
    ):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if _is_mostly_distinct(column):
        codes = np.arange(len(column))
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = NOTHING
            column = column.fill_null("")
        return Coded(codes, column)
    if not pa.types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise TypeError(
                f"a column of {column.type} has no texts; give strings, numbers, booleans, dates "
                "or timestamps"
            ) from None
    indices = column.indices.cast(pa.int64())
    codes = indices.fill_null(NOTHING) if indices.null_count else indices
    return Coded(codes.to_numpy(), column.dictionary)


def _is_mostly_distinct(column: Any) -> bool:
    """Whether to look for equal texts would cost more than to read each of them: the first ones
    tell. What is then read twice is a little time, and nothing else.
    """
    if len(column) < SAMPLED or not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        return False
    return len(column.slice(0, SAMPLED).unique()) > MOSTLY * SAMPLED


def _read_iris(texts: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Cells that are IRIs as they stand, with or without brackets."""
    bare = pc.replace_substring_regex(texts, "^<(.*)>$", r"\1")
    pattern = r'^[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*$'
    good = pc.match_substring_regex(bare, pattern).fill_null(True)
    return pc.binary_join_element_wise("<", bare, ">", ""), ~good.to_numpy(zero_copy_only=False)


def _tell(place: Filled, codes: Words, texts: Any, bad: NDArray[np.bool_]) -> dict[int, str]:
    """What is wrong, row by row. A Python step for each row that is malformed."""
    wanted = "IRI" if place.form is Form.WHOLE_IRI else place.datatype
    columns = ", ".join(place.columns)
    rows = np.flatnonzero((codes >= 0) & bad[codes])
    found = {}
    for row in rows.tolist():
        text = repr(texts[int(codes[row])].as_py())
        shown = text if len(text) <= 80 else text[:77] + "…"
        found[row] = f"{columns}: {shown} is no {wanted}"
    return found
