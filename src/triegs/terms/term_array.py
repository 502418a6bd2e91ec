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
        #: By id, the span of its entry.
        self._spans = np.empty((0, 2), np.int64)
        #: The ids whose entries change.
        self._changed = np.empty(0, np.int64)
        self._offsets = np.zeros(1, np.int32)
        self._data = np.empty(0, np.uint8)
        #: The entries of the newest array, which is the longest one in these buffers.
        self._count = 0
        self._array: Any = pa.nulls(0, pa.string())

    @property
    def bytes(self) -> int:
        buffers = (self._spans, self._changed, self._offsets, self._data)
        return sum(each.nbytes for each in buffers)

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
                # Arrays that were replaced show no change any more.
                if self._array is not None and load_arrays() is arrays:
                    return self._array
                self._array = None
            return None

    def shrink(self, ids: int) -> None:
        """Forget an array of far more ids than there are now."""
        if self._count > 16 * max(ids, LEAST_SHARED) and self._lock.acquire(blocking=False):
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
        self._reserve(top)
        spans = self._spans
        number, count = find_changed(
            arrays.spans, arrays.states, arrays.births, len(arrays.heap), known, top, spans,
            self._changed,
        )  # fmt: skip
        if is_known and not number and count == known and self._array is not None:
            return True
        changed = self._changed[:number]
        is_behind = is_known and known <= count and (not number or changed[0] >= known)
        old_offsets, old_data = self._offsets, self._data
        offsets, data = old_offsets, old_data
        if not is_behind or count >= len(offsets):
            offsets = allocate(count + count // 8 + 1, np.int32)
            is_behind = False
        size = int(place_texts(spans, changed, count, known, old_offsets, offsets, is_behind))
        if size > MOST_BYTES:
            self.clear()
            return False
        if not is_behind or size > len(data):
            data = allocate(size + size // 8, np.uint8)
            is_behind = False
        write_texts(
            spans[:count], changed, old_offsets, old_data, arrays.heap, offsets, data, is_behind
        )
        is_stable = is_unchanged(arrays.spans, arrays.states, arrays.births, count, spans)
        self._heap, self._offsets, self._data = arrays.heap, offsets, data
        self._count = count
        self._array = self._wrap(size) if is_stable else None
        return True

    def _reserve(self, ids: int) -> None:
        if ids > len(self._spans):
            spans = np.empty((ids + ids // 8, 2), np.int64)
            spans[: self._count] = self._spans[: self._count]
            self._spans, self._changed = spans, np.empty(len(spans), np.int64)

    def _wrap(self, size: int) -> Any:
        offsets = pa.py_buffer(self._offsets[: self._count + 1])
        data = pa.py_buffer(self._data[:size])
        return pa.Array.from_buffers(pa.string(), self._count, [None, offsets, data])


@kernel
def find_changed(
    spans: Words,
    states: Bytes,
    births: Words,
    heap_size: Word,
    known: Word,
    top: Word,
    noted: Words,
    changed: Words,
) -> tuple[Word, Word]:
    """Note the spans of terms in use, and `HOLE` for other ids; list ids whose span is not as
    noted, or not ``known``.

    Returns how many are listed, and how many ids there are up to the last term; ids behind that
    are not listed.
    """
    number, listed, count = 0, 0, 0
    for term in range(top):
        start, length = np.int64(0), np.int64(HOLE)
        if states[term] != FREE and births[term] != UNBORN:
            start, length = spans[term, 0], spans[term, 1]
            if length != INTEGER and (start < 0 or length < 0 or start + length > heap_size):
                start, length = np.int64(0), np.int64(HOLE)  # it is being written
        if term >= known or noted[term, 0] != start or noted[term, 1] != length:
            noted[term, 0] = start
            noted[term, 1] = length
            changed[number] = term
            number += 1
        if length != HOLE:
            count, listed = term + 1, number
    return listed, count


@kernel
def place_texts(
    spans: Words,
    changed: Words,
    count: Word,
    known: Word,
    old_offsets: Indices,
    offsets: Indices,
    is_behind: bool,
) -> Word:
    """Write the offsets of all entries, or of those behind the known ones; returns the bytes of
    all texts, even if they do not fit the offsets.
    """
    term = known if is_behind else 0
    offsets[term] = old_offsets[term] if is_behind else 0
    size = np.int64(offsets[term])
    for at in range(len(changed) + 1):
        end = changed[at] if at < len(changed) else count
        if end > term:
            shift = size - old_offsets[term]
            for same in range(term + 1, end + 1):
                offsets[same] = old_offsets[same] + shift
            size = old_offsets[end] + shift
        if end < count:
            if spans[end, 1] == HOLE:
                size += len(HOLE_START) + count_digits(end) + 1
            else:
                size += measure_term(spans[end, 0], spans[end, 1])
            offsets[end + 1] = size
        term = end + 1
    return size


@kernel
def write_texts(
    spans: Words,
    changed: Words,
    old_offsets: Indices,
    old_data: Bytes,
    heap: Bytes,
    offsets: Indices,
    data: Bytes,
    is_behind: bool,
) -> None:
    """Write the texts: those of changed ids from the heap, the others, unless they are there
    already, from the old array.
    """
    term, count = 0, len(spans)
    for at in range(len(changed) + 1):
        end = changed[at] if at < len(changed) else count
        if end > term and not is_behind:
            start = np.int64(offsets[term])
            copy_bytes(data, start, old_data, np.int64(old_offsets[term]), offsets[end] - start)
        if end < count:
            start, after = np.int64(offsets[end]), np.int64(offsets[end + 1])
            if spans[end, 1] == HOLE:
                write_hole(end, data, start, after)
            else:
                write_term(spans[end, 0], spans[end, 1], heap, data, start, after)
        term = end + 1


@kernel
def write_hole(term: Word, data: Bytes, start: Word, end: Word) -> None:
    copy_bytes(data, start, HOLE_START, 0, len(HOLE_START))
    data[end - 1] = 62
    rest = term
    for at in range(end - 2, start + len(HOLE_START) - 1, -1):
        data[at] = 48 + rest % 10
        rest //= 10


@kernel
def is_unchanged(spans: Words, states: Bytes, births: Words, count: Word, noted: Words) -> bool:
    """Whether all noted terms are still in use, with the same spans."""
    gone = 0
    for term in range(count):
        gone += noted[term, 1] != HOLE and (
            states[term] == FREE
            or births[term] == UNBORN
            or spans[term, 0] != noted[term, 0]
            or spans[term, 1] != noted[term, 1]
        )
    return gone == 0
