"""Decodes ids to terms: the readers' side of a dictionary.

**Threads.** A reader loads the writer's current `Arrays` once per call and reads only terms of a
snapshot that it holds. Those terms are not free, so neither their spans nor their bytes change
(invariants 4 and 5 of `triegs.terms.arrays`), and replaced arrays stay unchanged. A `Decoder`
itself belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, DTypeLike, NDArray

from triegs.jit.jit import inlined, kernel
from triegs.terms.arrays import INTEGER, TOP, Arrays, Bytes, Word, Words
from triegs.terms.native_words import NativeBatch
from triegs.terms.spelling import INTEGER_SUFFIX, copy_bytes
from triegs.terms.term import XSD
from triegs.terms.values import TermForm, read_value

# A dictionary larger than this, and than twice the batch, is restarted, so that the cost per batch
# of a long result stays constant.
MOST_TERMS = 1 << 17

# More bytes need 64-bit offsets.
MOST_BYTES = 2**31 - 1

# Results of fewer rows, or of fewer rows for each id, have dictionaries of their own. For those,
# making dictionaries takes little time, and readers would pay for terms that no row has.
LEAST_SHARED = 1 << 12
ROWS_PER_ID = 4

# Rows that are judged at once.
BLOCK_ROWS = 128

Indices = NDArray[np.int32]
Number = TypeVar("Number", bound=np.generic)


class Decoder:
    """Decodes the batches of one snapshot; batches share a dictionary where possible.

    It caches terms by id, so it is valid only while its snapshot is held.

    ``load`` returns the arrays to read, and ``load_all`` the array of all terms, if columns may
    share it (`triegs.terms.term_array`): every row must then have a term. ``load_values`` returns
    the native values of a batch, if they are noted by id (`triegs.terms.value_array`). A batch
    costs O(rows), plus O(bytes) for terms that are new to this decoder.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> decoder = words.decoder()
    >>> decoder.decode([words.encode_one(7), words.encode_one("<http://ex/a>")]).to_pylist()
    ['"7"^^<http://www.w3.org/2001/XMLSchema#integer>', '<http://ex/a>']
    """

    def __init__(
        self,
        load: Callable[[], Arrays],
        base: str = "",
        load_all: Callable[[], Any] | None = None,
        load_values: Callable[[ArrayLike], NativeBatch | None] | None = None,
    ) -> None:
        self.load = load
        self.load_all = load_all
        self.load_values = load_values
        self.base = base
        self._single: dict[int, str] = {}
        self._begin()

    def decode(self, ids: ArrayLike) -> Any:
        """An Arrow dictionary array of N-Triples strings; id -1 (no term) becomes null.

        The dictionary contains only terms that this decoder has decoded. `IndexError` for an id
        that was never assigned.
        """
        found = keep_narrow(ids)
        indices = allocate(len(found), np.int32)
        has_gaps, terms = self._index(found, indices)
        column = wrap(indices, indices < 0 if has_gaps else None)
        return pa.DictionaryArray.from_arrays(column, terms, safe=False)

    def share(self, rows: int) -> Any:
        """The array of all terms by id, for a result of that many rows.

        None if the columns of such a result have dictionaries of their own, each with exactly the
        terms of its column: if it is small by itself, or compared with the number of ids.
        """
        if self.load_all is None or rows < LEAST_SHARED:
            return None
        ids = int(self.load().meta[TOP])
        return None if rows < ROWS_PER_ID * ids else self.load_all()

    def decode_values(self, ids: ArrayLike, form: TermForm | str) -> NDArray[np.object_]:
        """Like `decode`, as an object array with `None` for -1. A Python step per distinct term."""
        column = Decoder(self.load).decode(ids)
        chosen = TermForm(form)
        values = np.empty(len(column.dictionary) + 1, np.object_)  # the last entry is null
        for index, term in enumerate(column.dictionary.to_pylist()):
            values[index] = read_value(term, chosen)
        taken: NDArray[np.object_] = values[column.indices.fill_null(-1).to_numpy()]
        return taken

    def decode_one(self, identity: int, form: TermForm | str = TermForm.NTRIPLES) -> Any:
        """One term; `IndexError` if the id was never assigned. Cached terms cost a lookup."""
        if form is not TermForm.NTRIPLES:
            return read_term(self.load(), identity, form)
        term = self._single.get(identity)
        if term is None:
            if len(self._single) >= MOST_TERMS:
                self._single.clear()
            term = self._single[identity] = read_term(self.load(), identity, form)
        return term

    def _begin(self) -> None:
        """Start a new dictionary."""
        self._codes = np.zeros(0, np.int32)  # by id: index in the dictionary + 1
        self._met: list[Words] = []
        self._texts = Texts()
        self._terms: Any = pa.nulls(0, pa.string())  # `pa.array` of a list would import pandas

    def _index(self, ids: Words | Indices, indices: Indices) -> tuple[bool, Any]:
        """Write the dictionary index of each id, -1 for no term. Returns whether a row has no
        term, and the dictionary.
        """
        arrays = self.load()
        if len(self._terms) > max(MOST_TERMS, 2 * len(ids)):
            codes = self._codes
            for part in self._met:  # clearing all would touch an entry for every id
                codes[part] = 0
            self._begin()
            self._codes = codes
        if len(self._codes) < len(arrays.counts):
            codes = np.zeros(len(arrays.counts), np.int32)
            codes[: len(self._codes)] = self._codes
            self._codes = codes
        known = len(self._terms)
        fresh = np.empty(min(len(ids), len(self._codes)), np.int64)
        found, has_gaps = index_ids(ids, self._codes[: arrays.meta[TOP]], known, fresh, indices)
        if found < 0:
            self._begin()
            raise IndexError(f"{int(ids[-found - 1])} is not the id of a term")
        if found:
            self._met.append(fresh[:found].copy())
            if self._texts.add(arrays, fresh[:found]):
                self._terms = self._texts.to_arrow()
            elif known:
                self._begin()
                return self._index(ids, indices)
            else:  # this batch alone needs 64-bit offsets
                self._begin()
                return bool(has_gaps), build_texts(arrays, fresh[:found])
        return bool(has_gaps), self._terms


class Terms(NamedTuple):
    """A mask of 64-bit integers, the integers, and the texts of the other terms."""

    is_integer: NDArray[np.bool_]
    integers: Words
    texts: Any


class Texts:
    """An append-only buffer of texts; arrays already handed to Arrow stay valid.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words, texts = Dictionary(), Texts()
    >>> ids = np.array(words.encode_terms(["<http://ex/a>", "<http://ex/b>"]))
    >>> texts.add(words.decoder().load(), ids), texts.to_arrow().to_pylist()
    (True, ['<http://ex/a>', '<http://ex/b>'])
    """

    def __init__(self) -> None:
        self._offsets = np.zeros(1, np.int32)
        self._data = np.empty(0, np.uint8)
        self._count = 0
        self._size = 0

    def add(self, arrays: Arrays, ids: Words) -> bool:
        """Append the texts of ids; returns False, adding nothing, if they need 64-bit offsets."""
        offsets = np.empty(len(ids) + 1, np.int64)
        size = self._size + int(measure_terms(arrays.spans, ids, offsets))
        if size > MOST_BYTES:
            return False
        count = self._count + len(ids)
        self._offsets = enlarge(self._offsets, count + 1, self._count + 1)
        self._data = enlarge(self._data, size, self._size)
        write_terms(arrays.spans, arrays.heap, ids, offsets, self._data[self._size :])
        self._offsets[self._count : count + 1] = offsets + self._size
        self._count, self._size = count, size
        return True

    def to_arrow(self) -> Any:
        offsets = pa.py_buffer(self._offsets[: self._count + 1])
        data = pa.py_buffer(self._data[: self._size])
        return pa.Array.from_buffers(pa.string(), self._count, [None, offsets, data])


def allocate(count: int, kind: DTypeLike) -> NDArray[Any]:
    """An array in memory of Arrow's pool, to hand to Arrow.

    The pool reuses memory; pages fresh from the system are zeroed on first use, which takes many
    times as long as filling them.
    """
    size = np.dtype(kind).itemsize
    return np.frombuffer(pa.allocate_buffer(max(1, count) * size), kind)[:count]


def wrap(values: NDArray[Any], nulls: NDArray[np.bool_] | None = None) -> Any:
    """An Arrow array of these numbers, without a copy if they are contiguous.

    `pa.array` would import pandas, which takes longer than all the rest of a start.

    >>> wrap(np.array([1, 2, 3]), np.array([False, True, False])).to_pylist()
    [1, None, 3]
    """
    bits = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, data])


def narrow(ids: NDArray[Any]) -> Indices:
    """The ids in 32 bits, without a copy if they have them."""
    if ids.dtype == np.int32:
        return ids
    narrowed: Indices = allocate(len(ids), np.int32)
    narrowed[:] = ids
    return narrowed


def point(ids: NDArray[Any], terms: Any) -> Any:
    """A dictionary column whose indices are ids."""
    return pa.DictionaryArray.from_arrays(wrap(narrow(ids)), terms, safe=False)


def enlarge(array: NDArray[Number], least: int, used: int) -> NDArray[Number]:
    """The array, or a copy of its used part in an array of at least twice the size."""
    if least <= len(array):
        return array
    larger: NDArray[Number] = allocate(max(least, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


def to_words(ids: ArrayLike) -> Words:
    """The ids in the array layout that the kernels are compiled for."""
    words = np.ascontiguousarray(ids, np.int64)
    return words if words.flags.writeable else words.copy()


def keep_narrow(ids: ArrayLike) -> Words | Indices:
    """The same for kernels that take ids of 32 bits, too: most results have them, and widening
    takes as long as reading the rows.

    >>> [keep_narrow(np.array([1], kind)).dtype.name for kind in (np.int32, np.int64, np.uint8)]
    ['int32', 'int64', 'int64']
    """
    found = np.asarray(ids)
    if found.dtype == np.int32 and found.flags.writeable and found.flags.c_contiguous:
        return found
    return to_words(found)


def read_term(arrays: Arrays, identity: int, form: TermForm | str) -> Any:
    if not 0 <= identity < arrays.meta[TOP]:
        raise IndexError(f"{identity} is not the id of a term")
    start, length = arrays.spans[identity].tolist()
    if length == INTEGER:
        if form == TermForm.PYTHON:
            return start
        text = f'"{start}"^^<{XSD}integer>'
    else:
        text = arrays.heap[start : start + length].tobytes().decode()
    return text if form is TermForm.NTRIPLES else read_value(text, TermForm(form))


def read_terms(arrays: Arrays, ids: Words) -> Terms:
    spans = arrays.spans[ids]
    is_integer = spans[:, 1] == INTEGER
    texts = build_texts(arrays, ids[~is_integer])
    return Terms(is_integer, spans[is_integer, 0], texts)


def build_texts(arrays: Arrays, ids: Words) -> Any:
    """The terms of these ids as an Arrow array of large strings."""
    offsets = np.empty(len(ids) + 1, np.int64)
    size = measure_terms(arrays.spans, ids, offsets)
    data = np.empty(size, np.uint8)
    write_terms(arrays.spans, arrays.heap, ids, offsets, data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(ids), buffers)


@kernel
def index_ids(
    ids: Words | Indices, codes: Indices, known: Word, fresh: Words, indices: Indices
) -> tuple[Word, Word]:
    """Write dictionary indices of rows, and new ids into ``fresh``.

    Returns the number of new ids, or -1 - row for a bad id, and whether a row has no term. Outer
    variables repeat for many rows, and most ids are known after the first batch: blocks of either
    kind take a fast path, without a branch per row.
    """
    found = 0
    has_gaps = 0
    for start in range(0, len(ids), BLOCK_ROWS):
        # Of a slice, the compiler knows that no row is negative.
        part = ids[start : start + BLOCK_ROWS]
        out = indices[start : start + BLOCK_ROWS]
        least = part[0]
        most = part[0]
        for row in range(len(part)):
            least = min(least, part[row])
            most = max(most, part[row])
        if least >= 0 and most < len(codes):
            if least == most and codes[least] != 0:
                out[:] = codes[least] - 1
                continue
            lowest = np.int32(1)
            for row in range(len(part)):
                code = codes[np.uint32(part[row])]
                lowest = min(lowest, code)
                out[row] = code - np.int32(1)
            if lowest != 0:
                continue
        for row in range(len(part)):
            term = part[row]
            if term == -1:
                has_gaps = 1
                out[row] = -1
                continue
            if term < 0 or term >= len(codes):
                return -1 - (start + row), has_gaps
            if codes[term] == 0:
                fresh[found] = term
                found += 1
                codes[term] = known + found
            out[row] = codes[term] - 1
    return found, has_gaps


@inlined
def count_digits(value: Word) -> Word:
    """Characters of a decimal number, including the sign."""
    digits = 2 if value < 0 else 1
    rest = value if value < 0 else -value  # the minimum has no positive counterpart
    while rest < -9:
        rest = rest // 10 + (rest % 10 != 0)
        digits += 1
    return digits


@inlined
def measure_term(start: Word, length: Word) -> Word:
    """The bytes of the text of a term, given its span."""
    if length == INTEGER:
        return 1 + count_digits(start) + len(INTEGER_SUFFIX)
    return length


@inlined
def write_term(start: Word, length: Word, heap: Bytes, data: Bytes, at: Word, end: Word) -> None:
    if length == INTEGER:
        write_integer(start, data, at, end)
    else:
        copy_bytes(data, at, heap, start, length)


@kernel
def measure_terms(spans: Words, ids: Words, offsets: Words) -> Word:
    size = np.int64(0)
    offsets[0] = 0
    for index in range(len(ids)):
        size += measure_term(spans[ids[index], 0], spans[ids[index], 1])
        offsets[index + 1] = size
    return size


@kernel
def write_terms(spans: Words, heap: Bytes, ids: Words, offsets: Words, data: Bytes) -> None:
    for index in range(len(ids)):
        start, length = spans[ids[index], 0], spans[ids[index], 1]
        write_term(start, length, heap, data, offsets[index], offsets[index + 1])


@kernel
def write_integer(value: Word, data: Bytes, start: Word, end: Word) -> None:
    at = end - len(INTEGER_SUFFIX)
    copy_bytes(data, at, INTEGER_SUFFIX, 0, len(INTEGER_SUFFIX))
    data[start] = 34
    if value < 0:
        data[start + 1] = 45
    rest = value if value < 0 else -value
    while True:
        last = rest % 10
        rest = rest // 10 + (last != 0)
        at -= 1
        data[at] = 58 - last if last else 48
        if rest == 0:
            break
