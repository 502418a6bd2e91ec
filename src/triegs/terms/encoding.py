"""Encodes columns (Arrow, NumPy, sequences) as ids and a list of problems."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.errors import BadTerm
from triegs.terms.arrays import Words
from triegs.terms.columns import (
    buffer_texts,
    is_text,
    mark_valid,
    read_indices,
    read_integers,
    require_values,
    scope_texts,
    to_arrow,
    write_column,
)
from triegs.terms.interning import Interner
from triegs.terms.table import (
    BAD,
    MISSING,
    UNSURE,
    find_integers,
    find_texts,
    intern_integers,
    intern_texts,
    take_ids,
)

_INT64, _DICTIONARY = pa.int64().id, pa.dictionary(pa.int32(), pa.string()).id
# Up to this many dictionary texts are looked up faster in Python than by a kernel.
_FEW_TEXTS = 16


class Problem(NamedTuple):
    """A value of a column that is not a term."""

    position: int
    reason: str


class Encoded(NamedTuple):
    """A column as ids; -1 for the rows in `problems`."""

    ids: Words
    problems: list[Problem]


class ColumnEncoder:
    """Encodes columns into the arrays of an `Interner`."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner

    def encode(self, column: Any, scope: str, create: bool) -> Encoded:
        if isinstance(column, (list, tuple)) or (
            isinstance(column, np.ndarray) and column.dtype == np.object_
        ):
            return self._encode_values(column, scope, create)
        parts = [self._encode_array(part, scope, create) for part in to_arrow(column)]
        if len(parts) == 1:
            return parts[0]
        problems = []
        before = 0
        for ids, found in parts:
            problems += [Problem(before + position, reason) for position, reason in found]
            before += len(ids)
        empty: Words = np.empty(0, np.int64)
        return Encoded(np.concatenate([empty, *(ids for ids, _ in parts)]), problems)

    def encode_into(self, column: Any, out: Words) -> list[Problem]:
        """Encode an Arrow column into ``out``, which may be a column of a larger array.

        The common cases, integers and a few distinct texts without nulls, are written in place;
        all others are encoded and copied.
        """
        if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
            column = column.chunk(0)
        kind = column.type
        if isinstance(column, pa.Array) and column.null_count == 0:
            if kind.id == _INT64:
                self._seek_integers(column.to_numpy(), out, create=True)
                return []
            if kind.id == _DICTIONARY and len(column.dictionary) <= _FEW_TEXTS:
                ids = self._encode_few(column.dictionary)
                if ids is not None:
                    take_ids(ids, read_indices(column), out)
                    return []
        ids, problems = self.encode(column, "", create=True)
        out[:] = ids
        return problems

    def _encode_few(self, texts: Any) -> Words | None:
        """A few texts through the cache; None if they are not texts, or malformed."""
        if not is_text(texts.type):
            return None
        cached = self._interner.cache.texts
        seek = self._interner.seek
        ids = []
        try:
            listed = texts.to_pylist()
        except UnicodeDecodeError:
            return None
        for text in listed:
            found = cached.get(text)
            if found is None:
                try:
                    found = seek(text, "", create=True)
                except BadTerm:
                    return None
            ids.append(found)
        return np.array(ids, np.int64)

    def _encode_values(self, values: Collection[object], scope: str, create: bool) -> Encoded:
        ids = np.empty(len(values), np.int64)
        problems = []
        seek = self._interner.seek
        for position, value in enumerate(values):
            try:
                ids[position] = max(seek(value, scope, create), BAD)
            except BadTerm as error:
                ids[position] = BAD
                reason = "null" if value is None else str(error)
                problems.append(Problem(position, reason))
        return Encoded(ids, problems)

    def _encode_array(self, column: Any, scope: str, create: bool) -> Encoded:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._encode_texts(scope_texts(column, scope), create)
        if pa.types.is_string_view(kind):
            return self._encode_texts(scope_texts(column.cast(pa.large_string()), scope), create)
        if pa.types.is_integer(kind):
            return self._encode_integers(column, create)
        if pa.types.is_dictionary(kind):
            return self._encode_dictionary(column, scope, create)
        require_values(kind)
        if pa.types.is_floating(kind):
            return self._encode_floats(column, create)
        if pa.types.is_decimal(kind) and kind.bit_width < 128:  # which Arrow supports less well
            column = column.cast(pa.decimal128(kind.precision, kind.scale))
        return self._encode_dictionary(column.dictionary_encode(), scope, create)

    def _encode_texts(self, column: Any, create: bool) -> Encoded:
        buffers = buffer_texts(column)
        ids = np.empty(len(column), np.int64)
        data, offsets = buffers.data, buffers.offsets
        misses = find_texts(self._interner.arrays, data, offsets, buffers.valid, ids)
        problems = [Problem(int(row), "null") for row in np.flatnonzero(ids == BAD)]
        if misses == 0:
            return Encoded(ids, problems)
        unsure: NDArray[np.intp] = np.flatnonzero(ids == MISSING)
        if create:
            row = intern_texts(self._interner.arrays, data, offsets, ids, 0)
            while row < len(ids):
                self._interner.reserve(int(offsets[row + 1] - offsets[row]))
                row = intern_texts(self._interner.arrays, data, offsets, ids, row)
            unsure = np.flatnonzero(ids == UNSURE)
            if len(unsure) == 0:
                return Encoded(ids, problems)
        # Non-canonical spellings are looked up in a cache; new and malformed ones are parsed. One
        # Python step per distinct text.
        distinct = column.take(pa.array(unsure)).dictionary_encode()
        found = self._encode_odd_texts(distinct.dictionary, create)
        codes = distinct.indices.to_numpy(zero_copy_only=False)
        ids[unsure] = found.ids[codes]
        return Encoded(ids, sorted(problems + _spread(found.problems, codes, unsure)))

    def _encode_odd_texts(self, texts: Any, create: bool) -> Encoded:
        values: list[object] = []
        wrong: dict[int, str] = {}
        for row, text in enumerate(texts.cast(pa.large_binary())):
            try:
                values.append(text.as_py().decode())
            except UnicodeDecodeError as error:
                values.append("")
                wrong[row] = f"not UTF-8: {error.reason} at byte {error.start}"
        ids, problems = self._encode_values(values, "", create)
        return Encoded(ids, [Problem(row, wrong.get(row, reason)) for row, reason in problems])

    def _encode_integers(self, column: Any, create: bool) -> Encoded:
        values, large = read_integers(column)
        ids = np.empty(len(values), np.int64)
        odd = np.flatnonzero(large)
        nulls = np.flatnonzero(mark_valid(column) == 0)
        if len(odd) or len(nulls):
            plain = np.ones(len(values), np.bool_)
            plain[odd] = plain[nulls] = False
            ids[nulls] = BAD
            unsigned = [int(value) & 2**64 - 1 for value in values[odd]]
            ids[odd] = self._encode_values(unsigned, "", create).ids
            chosen = values[plain]
            chosen.flags.writeable = False  # like Arrow's buffers: one compiled kernel
            found = np.empty(len(chosen), np.int64)
            self._seek_integers(chosen, found, create)
            ids[plain] = found
        else:
            self._seek_integers(values, ids, create)
        return Encoded(ids, [Problem(int(row), "null") for row in nulls])

    def _seek_integers(self, values: Words, out: Words, create: bool) -> None:
        if not create:
            find_integers(self._interner.arrays.integers, values, out)
            return
        row = intern_integers(values, out, 0, *self._interner.arrays)
        while row < len(out):
            self._interner.reserve(0)
            row = intern_integers(values, out, row, *self._interner.arrays)

    def _encode_floats(self, column: Any, create: bool) -> Encoded:
        # Compared by bits: 0.0 and -0.0 are different terms.
        width = column.type.bit_width
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        bits = values.view(np.dtype(f"i{width // 8}"))
        distinct, codes = np.unique(bits, return_inverse=True)
        found = self._encode_values(write_column(pa.array(distinct.view(values.dtype))), "", create)
        ids = found.ids[codes]
        if column.null_count == 0:
            return Encoded(ids, [])
        nulls = mark_valid(column) == 0
        ids[nulls] = BAD
        return Encoded(ids, [Problem(int(row), "null") for row in np.flatnonzero(nulls)])

    def _encode_dictionary(self, column: Any, scope: str, create: bool) -> Encoded:
        values = column.dictionary
        if len(values) > 2 * len(column) + 16:  # a slice of a larger column
            column = column.cast(column.type.value_type).dictionary_encode()
            values = column.dictionary
        kind = values.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(kind):
            found = self._encode_array(values, scope, create)
        else:
            found = self._encode_values(write_column(values), scope, create)
        indices = column.indices
        codes = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(values) == 0:
            ids = np.full(len(column), BAD, np.int64)
        else:
            ids = found.ids[codes]
        problems = []
        if indices.null_count:
            nulls = np.flatnonzero(mark_valid(indices) == 0)
            ids[nulls] = BAD
            codes[nulls] = -1
            problems = [Problem(int(row), "null") for row in nulls]
        if found.problems:
            rows = np.arange(len(ids))
            problems = sorted(problems + _spread(found.problems, codes, rows))
        return Encoded(ids, problems)


def _spread(problems: list[Problem], codes: Any, rows: Any) -> list[Problem]:
    """Repeat the problems of distinct values for each row that has one of them."""
    reasons = dict(problems)
    bad = np.isin(codes, np.array(list(reasons), np.int64))
    return [
        Problem(int(row), reasons[int(code)])
        for row, code in zip(rows[bad], codes[bad], strict=True)
    ]
