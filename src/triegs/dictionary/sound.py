"""Columns that come from outside, before anybody relies on them.

Kernels, and most of Arrow, go where offsets and indices point to. Those of a damaged file, or of a
program with an error, may point anywhere. So every column is looked at once, when it comes in; it
costs a pass over its offsets and its text.
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


class Unsound(ValueError):
    """A column whose parts do not fit together: it is damaged, and nothing of it can be used."""


def clean_column(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    r"""The column without text that is not UTF-8, which becomes null; and which rows had it.

    The rows are None if there is none. `Unsound` if the column is damaged. Takes an Arrow array or
    a chunked one. Linear, and quick where all is well.

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
        raise Unsound(f"the column is damaged: {text}") from problem
    return column, None


def _clean_texts(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Of texts with which something is wrong; as bytes they may be sound."""
    raw = _rename(column, _TEXTS[column.type])
    raw.validate(full=True)
    is_bad = np.array([not is_utf8(value) for value in raw.to_pylist()], np.bool_)
    kept = pc.if_else(pa.array(is_bad), pa.scalar(None, raw.type), raw)
    return _rename(kept, column.type), is_bad


def _clean_dictionary(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    indices = column.indices
    indices.validate(full=True)
    bounds = pc.min_max(indices)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is not None and (least < 0 or most >= len(column.dictionary)):
        raise Unsound("the column is damaged: an index is beyond its dictionary")
    words, is_bad = _clean(column.dictionary)
    if is_bad is None:
        return pa.DictionaryArray.from_arrays(indices, words), None
    places = indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
    rows = np.append(is_bad, False)[places]
    kept = pc.if_else(pa.array(rows), pa.scalar(None, indices.type), indices)
    return pa.DictionaryArray.from_arrays(kept, words.fill_null("")), rows if rows.any() else None


def _rename(column: Any, kind: Any) -> Any:
    """The same buffers as another type; nothing is looked at."""
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
