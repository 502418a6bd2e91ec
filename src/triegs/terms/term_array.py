"""All terms of a dictionary as one Arrow array by id, which the columns of large results share.

The indices of such a column are ids, so that reading it neither looks terms up nor copies them. The
reader makes the array, never the updater: an epoch costs the same whether results are read or not.

* **Growth.** New ids extend the buffers in place, beyond the end of arrays already handed out.
* **Reuse.** Once an id stands for another term, or for none, the next reader makes new buffers;
  what stayed is copied in long runs. A table keeps the buffers that it was read with, for good.
* **Holes.** An id without a term has a text that no term has, so that all entries are different:
  pandas refuses an equal or null category. No row of a result refers to it.

**Threads.** The updater may intern and free terms meanwhile. A term that a reader's snapshot holds
is born and not free, and its span does not change (invariants 4 and 5 of `triegs.terms.arrays`).
Any other term is taken only if it is born and not free both before and after the texts were copied,
with the same span; else the array is made again. So an entry is a whole term or a hole, and all
terms existed at one moment, which makes them different. A span stands for one text as long as the
heap is the same, which tells the next reader what has changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.jit.jit import kernel
from triegs.terms.arrays import FREE, INTEGER, TOP, UNBORN, Arrays, Bytes, Word, Words
from triegs.terms.decoder import (
    LEAST_SHARED,
    MOST_BYTES,
    Indices,
    allocate,
    count_digits,
    measure_term,
    write_term,
)
from triegs.terms.spelling import copy_bytes

# The length in the span of an id without a term.
HOLE = -2
HOLE_START = np.frombuffer(b"<triegs:free:", np.uint8).copy()

# A try fails if a term came or went meanwhile, which the next one takes into account.
TRIES = 4


class TermArray:
    """The array of one dictionary. From any thread.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> words.acquire(words.encode_terms(["<http://ex/a>", 7]))
    >>> TermArray().load(lambda: words.arrays).to_pylist()
    ['<http://ex/a>', '"7"^^<http://www.w3.org/2001/XMLSchema#integer>']
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        """Forget the array; those handed out stay as they are."""
        self._heap: Bytes | None = None
        self._spans = np.empty((0, 2), np.int64)
        self._offsets = np.zeros(1, np.int32)
        self._data = np.empty(0, np.uint8)
        #: The entries of the newest array, and of the longest one in these buffers.
        self._count = self._written = 0
        self._array: Any = pa.nulls(0, pa.string())

    @property
    def bytes(self) -> int:
        return self._spans.nbytes + self._offsets.nbytes + self._data.nbytes

    def load(self, load_arrays: Callable[[], Arrays]) -> Any:
        """An Arrow array with the term of each id that is in use in a snapshot of the caller.

        None if the texts take more than 2 GiB, or if terms come and go too fast. Cost: the ids; if
        one of them was reused or freed since the last call, also the bytes of all texts.
        """
        with self._lock:
            for _ in range(TRIES):
                arrays = load_arrays()
                if not self._renew(arrays):
                    return None
                if self._array is not None:
                    return self._array
            return None

    def shrink(self, ids: int) -> None:
        """Forget an array of far more ids than there are now."""
        if self._written > 16 * max(ids, LEAST_SHARED) and self._lock.acquire(blocking=False):
            try:
                self.clear()
            finally:
                self._lock.release()

    def _renew(self, arrays: Arrays) -> bool:
        """Make the array anew where necessary; None in its place if terms changed meanwhile.

        Returns False if the texts do not fit.
        """
        is_known = arrays.heap is self._heap
        known = self._count if is_known else 0
        # The counters are shared by all sizes of the other arrays.
        top = min(int(arrays.meta[TOP]), len(arrays.spans), len(arrays.births), len(arrays.states))
        spans = np.empty((top, 2), np.int64)
        same, count = note_spans(
            arrays.spans, arrays.states, arrays.births, len(arrays.heap), self._spans[:known], spans
        )
        if is_known and same == count == known and self._array is not None:
            return True
        is_behind = is_known and same == known == self._written
        offsets = self._offsets if is_behind else allocate(0, np.int32)
        if count + 1 > len(offsets):
            is_behind = False
            offsets = allocate(count + count // 8 + 1, np.int32)
        start = same if is_behind else 0
        if not is_behind:
            offsets[0] = 0
        size = int(measure_array(spans[:count], start, offsets))
        if size > MOST_BYTES:
            self.clear()
            return False
        data = self._data
        if not is_behind or size > len(data):
            data = allocate(size + size // 8, np.uint8)
            if is_behind:  # the offsets are in place, the texts are not
                data[: offsets[start]] = self._data[: offsets[start]]
        write_array(
            spans[:count], self._spans[:known], self._offsets, self._data, arrays.heap,
            start, offsets, data,
        )  # fmt: skip
        is_stable = is_unchanged(arrays.spans, arrays.states, arrays.births, spans[:count])
        self._heap, self._spans, self._offsets, self._data = arrays.heap, spans, offsets, data
        self._count = count
        self._written = max(count, self._written) if is_behind else count
        self._array = self._wrap(size) if is_stable else None
        return True

    def _wrap(self, size: int) -> Any:
        offsets = pa.py_buffer(self._offsets[: self._count + 1])
        data = pa.py_buffer(self._data[:size])
        return pa.Array.from_buffers(pa.string(), self._count, [None, offsets, data])


@kernel
def note_spans(
    spans: Words, states: Bytes, births: Words, heap_size: Word, before: Words, noted: Words
) -> tuple[Word, Word]:
    """Copy the spans of terms in use, and `HOLE` for other ids.

    Returns how many are as before up to the first that is not, and how many there are up to the
    last term.
    """
    same, count = len(noted), 0
    for term in range(len(noted)):
        start, length = np.int64(0), np.int64(HOLE)
        if states[term] != FREE and births[term] != UNBORN:
            start, length = spans[term, 0], spans[term, 1]
            if length != INTEGER and (start < 0 or length < 0 or start + length > heap_size):
                start, length = np.int64(0), np.int64(HOLE)  # it is being written
            else:
                count = term + 1
        noted[term, 0] = start
        noted[term, 1] = length
        if same > term and (
            term >= len(before) or before[term, 0] != start or before[term, 1] != length
        ):
            same = term
    return min(same, count), count


@kernel
def measure_array(spans: Words, start: Word, offsets: Indices) -> Word:
    """Write the offsets behind ``start``, as far as they fit; returns the bytes of all texts."""
    size = np.int64(offsets[start])
    for term in range(start, len(spans)):
        if spans[term, 1] == HOLE:
            size += len(HOLE_START) + count_digits(term) + 1
        else:
            size += measure_term(spans[term, 0], spans[term, 1])
        offsets[term + 1] = size
    return size


@kernel
def write_array(
    spans: Words,
    before: Words,
    old_offsets: Indices,
    old_data: Bytes,
    heap: Bytes,
    start: Word,
    offsets: Indices,
    data: Bytes,
) -> None:
    """Write the texts behind ``start``: from the heap, or from the old array if they are there."""
    term = start
    while term < len(spans):
        end = term
        while (
            end < len(spans)
            and end < len(before)
            and spans[end, 0] == before[end, 0]
            and spans[end, 1] == before[end, 1]
        ):
            end += 1
        at = np.int64(offsets[term])
        if end > term:
            copy_bytes(data, at, old_data, np.int64(old_offsets[term]), offsets[end] - at)
            term = end
            continue
        if spans[term, 1] == HOLE:
            write_hole(term, data, at, np.int64(offsets[term + 1]))
        else:
            write_term(spans[term, 0], spans[term, 1], heap, data, at, np.int64(offsets[term + 1]))
        term += 1


@kernel
def write_hole(term: Word, data: Bytes, start: Word, end: Word) -> None:
    copy_bytes(data, start, HOLE_START, 0, len(HOLE_START))
    data[end - 1] = 62
    rest = term
    for at in range(end - 2, start + len(HOLE_START) - 1, -1):
        data[at] = 48 + rest % 10
        rest //= 10


@kernel
def is_unchanged(spans: Words, states: Bytes, births: Words, noted: Words) -> bool:
    """Whether all noted terms are still in use, with the same spans."""
    for term in range(len(noted)):
        if noted[term, 1] != HOLE and (
            states[term] == FREE
            or births[term] == UNBORN
            or spans[term, 0] != noted[term, 0]
            or spans[term, 1] != noted[term, 1]
        ):
            return False
    return True
