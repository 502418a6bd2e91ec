"""Converts table columns to columns of terms; each distinct cell is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.events.mapping.encoding import encode_names
from triegs.events.mapping.literals import quote, read_typed, write_texts
from triegs.events.mapping.model import TYPES, Constant, Filled, Form

Words = NDArray[np.int64]
#: The code of a row without a term.
NOTHING = -1
#: Texts sampled, and the share of distinct ones above which every text is read.
SAMPLED, MOSTLY = 1_024, 0.9


class Terms(NamedTuple):
    """A column of terms: ``codes`` are indices into ``terms``, `NOTHING` for null cells.

    ``problems`` describes invalid cells by row.
    """

    codes: Words
    terms: Any
    problems: dict[int, str]


class Coded(NamedTuple):
    """A column as distinct values, and the index of each row's value."""

    codes: Words
    values: Any


class Cells:
    """The columns of a batch by name. Terms shared by several templates are made once."""

    def __init__(self, columns: Mapping[str, Any], rows: int) -> None:
        self._columns = columns
        self._rows = rows
        self._coded: dict[str, Coded] = {}
        self._texts: dict[str, Any] = {}
        self._made: dict[Any, Terms] = {}

    def make(self, template: Constant | Filled) -> Terms:
        """The terms of a term template. Cost: the rows, plus the distinct cells."""
        found = self._made.get(template)
        if found is None:
            found = self._made[template] = self._make(template)
        return found

    def _make(self, template: Constant | Filled) -> Terms:
        if isinstance(template, Constant):
            return Terms(np.zeros(self._rows, np.int64), pa.array([template.term]), {})
        if len(template.columns) == 1:
            name = template.columns[0]
            codes, values = self._code(name)
            texts = self._write(name)
        else:
            codes, texts = self._join(template)
            values = None
        if template.form is Form.IRI:
            terms, bad = self._write_iris(template, texts), None
        elif template.form is Form.WHOLE_IRI:
            terms, bad = _read_iris(texts)
        else:
            terms, bad = self._write_literals(template, values, texts)
        problems = (
            {} if bad is None or not bad.any() else _describe_problems(template, codes, texts, bad)
        )
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
        """The texts of the distinct cells of a column."""
        found = self._texts.get(name)
        if found is None:
            try:
                found = self._texts[name] = write_texts(self._code(name).values)
            except TypeError as problem:
                raise TypeError(f"{name}: {problem}") from None
        return found

    def _join(self, template: Filled) -> tuple[Words, Any]:
        """Distinct texts of several cells; null if any cell is null."""
        parts: list[Any] = []
        for before, name in zip(template.texts, template.columns, strict=False):
            texts = self._write(name)
            if template.form is Form.IRI:
                texts = encode_names(texts)
            codes = self._code(name).codes
            parts += [before, texts.take(pa.array(codes, mask=codes < 0))]
        joined = pc.binary_join_element_wise(*parts, template.texts[-1], "")
        return code_column(joined)

    def _write_iris(self, template: Filled, texts: Any) -> Any:
        if len(template.columns) > 1:
            return pc.binary_join_element_wise("<", texts, ">", "")
        first, last = template.texts
        return pc.binary_join_element_wise(f"<{first}", encode_names(texts), f"{last}>", "")

    def _write_literals(
        self, template: Filled, values: Any, texts: Any
    ) -> tuple[Any, NDArray[np.bool_] | None]:
        if len(template.columns) == 1 and not template.is_cell:
            texts = pc.binary_join_element_wise(template.texts[0], texts, template.texts[1], "")
            values = None
        if template.datatype in TYPES and template.datatype != "string":
            return read_typed(values, texts, template.datatype)
        tail = f"@{template.language}" if template.language else ""
        if template.datatype not in ("", "string"):
            tail = f"^^<{template.datatype}>"
        return quote(texts, tail), None


def code_column(column: Any) -> Coded:
    """Distinct values, and the index of each row's value.

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
                f"a {column.type} column cannot be mapped; give strings, numbers, booleans, dates "
                "or timestamps"
            ) from None
    indices = column.indices.cast(pa.int64())
    codes = indices.fill_null(NOTHING) if indices.null_count else indices
    return Coded(codes.to_numpy(), column.dictionary)


def _is_mostly_distinct(column: Any) -> bool:
    """Whether finding equal texts would cost more than reading each, judged by a sample.

    A wrong guess costs time only.
    """
    if len(column) < SAMPLED or not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        return False
    return len(column.slice(0, SAMPLED).unique()) > MOSTLY * SAMPLED


def _read_iris(texts: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Cells that contain IRIs, with or without brackets."""
    bare = pc.replace_substring_regex(texts, "^<(.*)>$", r"\1")
    pattern = r'^[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*$'
    good = pc.match_substring_regex(bare, pattern).fill_null(True)
    return pc.binary_join_element_wise("<", bare, ">", ""), ~good.to_numpy(zero_copy_only=False)


def _describe_problems(
    template: Filled, codes: Words, texts: Any, bad: NDArray[np.bool_]
) -> dict[int, str]:
    """Problems by row. Cost: a Python step per malformed row."""
    wanted = "IRI" if template.form is Form.WHOLE_IRI else template.datatype
    columns = ", ".join(template.columns)
    rows = np.flatnonzero((codes >= 0) & bad[codes])
    found = {}
    for row in rows.tolist():
        text = repr(texts[int(codes[row])].as_py())
        shown = text if len(text) <= 80 else text[:77] + "…"
        found[row] = f"{columns}: {shown} is not a valid {wanted}"
    return found
