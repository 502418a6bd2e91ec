"""Validates columns from outside before they are used.

Kernels, and most of Arrow, trust offsets and indices. In a damaged file, or with a faulty producer,
they may point anywhere. Every incoming column is therefore checked once, at the cost of a pass over
its offsets and text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_TEXTS = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


class DamagedColumn(ValueError):
    """A column with inconsistent buffers; none of it can be used."""


def clean_column(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    r"""The column with invalid UTF-8 replaced by null, and a mask of those rows (None if none).

    Takes an Arrow array or chunked array. Raises `DamagedColumn`. Linear, and fast for valid data.

    >>> raw = pa.array([b"<a:a>", b"\xff"])
    >>> column, is_bad = clean_column(pa.Array.from_buffers(pa.string(), 2, raw.buffers()))
    >>> column.to_pylist(), is_bad.tolist()
    (['<a:a>', None], [False, True])
    """
    if not isinstance(column, pa.ChunkedArray):
        return _clean(column)
    chunks = column.chunks
    found = [_clean(part) for part in chunks]
    if all(part is chunk for (part, _), chunk in zip(found, chunks, strict=True)):
        return column, None
    masks = [np.zeros(len(part), np.bool_) if bad is None else bad for part, bad in found]
    is_bad = np.concatenate(masks)
    return pa.chunked_array([part for part, _ in found]), is_bad if is_bad.any() else None


def _clean(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    kind = column.type
    try:
        try:
            column.validate(full=True)
        except pa.ArrowException:
            if kind in _TEXTS:
                return _clean_texts(column)
            if pa.types.is_dictionary(kind):
                return _clean_dictionary(column)
            raise
    except pa.ArrowException as problem:
        text = str(problem).partition("\n")[0]
        raise DamagedColumn(f"the column is damaged: {text}") from problem
    return column, None


def _clean_texts(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Clean texts that failed validation; as bytes they may be valid."""
    raw = _reinterpret(column, _TEXTS[column.type])
    raw.validate(full=True)
    is_bad = np.array([not is_utf8(value) for value in raw.to_pylist()], np.bool_)
    kept = pc.if_else(pa.array(is_bad), pa.scalar(None, raw.type), raw)
    return _reinterpret(kept, column.type), is_bad


def _clean_dictionary(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    indices = column.indices
    indices.validate(full=True)
    bounds = pc.min_max(indices)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is not None and (least < 0 or most >= len(column.dictionary)):
        raise DamagedColumn("the column is damaged: an index is beyond its dictionary")
    words, is_bad = _clean(column.dictionary)
    if is_bad is None:
        return pa.DictionaryArray.from_arrays(indices, words), None
    codes = indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
    rows = np.append(is_bad, False)[codes]
    kept = pc.if_else(pa.array(rows), pa.scalar(None, indices.type), indices)
    return pa.DictionaryArray.from_arrays(kept, words.fill_null("")), rows if rows.any() else None


def _reinterpret(column: Any, kind: Any) -> Any:
    """Reinterpret the buffers as another type, without checks."""
    return pa.Array.from_buffers(kind, len(column), column.buffers(), -1, column.offset)


def is_utf8(value: bytes | None) -> bool:
    r"""
    >>> is_utf8(b"x"), is_utf8(None), is_utf8(b"\xff")
    (True, True, False)
    """
    try:
        str(value or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True
