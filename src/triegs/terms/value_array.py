"""Native values of terms by id, so that a term is parsed once, however often it is read.

The reader makes the array, never the updater: an epoch costs the same whether results are read or
not. By id it notes the span of the term that was parsed, a code for its kind, and its value as a
word (`triegs.terms.native_words`). A read compares the spans of its ids with the noted ones, which
tells freed and reused ids, and parses only terms that differ. Canonical 64-bit integers are not
noted: their spans have their values.

**Threads.** Only terms that the reader's snapshot holds are parsed, so the updater changes neither
their spans nor their bytes (invariants 4 and 5 of `triegs.terms.arrays`). A term whose span is not
the same afterwards is not noted. A span stands for one text as long as the heap is the same.

**Compaction.** A new heap gives every term another span. What was noted is then compared with the
texts of the new heap, and kept where they are equal. Terms that are not held may change meanwhile;
as in `triegs.terms.term_array`, they are kept only if they are born and not free, with the same
span before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triegs.jit.jit import kernel
from triegs.terms.arrays import FREE, INTEGER, TOP, UNBORN, Arrays, Bytes, Word, Words
from triegs.terms.decoder import LEAST_SHARED, Indices, allocate, build_texts, keep_narrow
from triegs.terms.native import INTEGER_SHAPE, Shape, Sort, read_cell
from triegs.terms.native_words import Codes, Kind, NativeBatch, pack_cell

# The columns of the array.
START, LENGTH, CODE, WORD = range(4)

# Codes without a kind, of 64-bit integers in canonical form, and of IRIs and blank nodes. `SPARE`
# is for kinds beyond `MOST_KINDS`.
UNKNOWN, UNBOUND, SPARE, CANONICAL, NODE = range(5)
_FIRST_KINDS = {CANONICAL: Kind(INTEGER_SHAPE, True), NODE: Kind(Shape(Sort.TERM), False)}
MOST_KINDS = 1 << 12

# A try parses all that is new to it, so a second one fails only if an id is not held.
TRIES = 3

# Small batches do not make an array for more ids.
FEW_IDS = 1 << 16

QUOTE = ord('"')


class ValueArray:
    """The array of one dictionary. From any thread.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> found = ValueArray(lambda: words.arrays).gather(words.encode_terms([2.5, 7, 2.5]))
    >>> found.write(found.join(None)).to_pylist()
    [2.5, 7.0, 2.5]
    """

    def __init__(self, load: Callable[[], Arrays]) -> None:
        self._load = load
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all values."""
        self._heap: Bytes | None = None
        self._notes = np.zeros((0, 4), np.int64)
        self._kinds = dict(_FIRST_KINDS)
        self._codes = {kind: code for code, kind in _FIRST_KINDS.items()}

    @property
    def bytes(self) -> int:
        return self._notes.nbytes

    def gather(self, ids: ArrayLike) -> NativeBatch | None:
        """The values of these ids, which the caller's snapshot holds; -1 for unbound.

        None if they must be read from the terms: if the batch is small for the number of ids, or
        an id has no term. Cost: the rows, plus a Python step for each literal that was not read
        before.
        """
        chosen = keep_narrow(ids)
        words, codes = allocate(len(chosen), np.int64), allocate(len(chosen), np.uint16)
        fresh = np.empty(len(chosen), np.int64)
        with self._lock:
            for _ in range(TRIES):
                arrays = self._load()
                # The counters are shared by all sizes of the other arrays.
                top = min(int(arrays.meta[TOP]), len(arrays.spans))
                if not self._reserve(top, len(chosen)):
                    return None
                self._follow(arrays, top)
                seen = np.zeros(CANONICAL + len(self._kinds), np.uint8)
                found = gather_words(
                    chosen, arrays.spans[:top], self._notes, words, codes, seen, fresh
                )
                if found < 0:
                    return None
                if found == 0:
                    return self._wrap(words, codes, seen)
                self._parse(arrays, np.unique(fresh[:found]))
        return None

    def shrink(self, ids: int) -> None:
        """Forget an array of far more ids than there are now."""
        is_large = len(self._notes) > 16 * max(ids, LEAST_SHARED)
        if is_large and self._lock.acquire(blocking=False):
            try:
                self.clear()
            finally:
                self._lock.release()

    def _reserve(self, ids: int, rows: int) -> bool:
        """Make room for so many ids; returns False if that is not worthwhile."""
        if ids > len(self._notes):
            if ids > FEW_IDS and rows < LEAST_SHARED:
                return False
            notes = np.zeros((ids + ids // 8, 4), np.int64)
            notes[: len(self._notes)] = self._notes
            self._notes = notes
        return True

    def _follow(self, arrays: Arrays, top: int) -> None:
        """Keep what was noted of terms that are the same in a new heap."""
        if arrays.heap is self._heap:
            return
        notes = self._notes.copy()
        if self._heap is not None:
            count = min(top, len(notes), len(arrays.states), len(arrays.births))
            spans = arrays.spans[:count].copy()
            is_kept = arrays.births[:count] != UNBORN
            is_kept &= arrays.states[:count] != FREE
            compare_texts(spans, arrays.heap, notes, self._heap, is_kept)
            is_kept &= arrays.states[:count] != FREE
            is_kept &= (arrays.spans[:count] == spans).all(axis=1)
            notes[:count, : LENGTH + 1] = spans
            notes[:count, CODE] *= is_kept
            notes[count:, CODE] = UNKNOWN
        self._notes, self._heap = notes, arrays.heap

    def _parse(self, arrays: Arrays, ids: Words) -> None:
        """Note the terms of these ids. A node needs no parsing."""
        notes = np.zeros((len(ids), 4), np.int64)
        spans = notes[:, : LENGTH + 1]
        spans[:] = arrays.spans[ids]
        is_literal = arrays.heap[notes[:, START]] == QUOTE
        texts = build_texts(arrays, ids[is_literal]).to_pylist()
        packed = [pack_cell(read_cell(text)) for text in texts]
        notes[:, CODE] = NODE
        notes[is_literal, CODE] = [self._find_code(kind) for kind, _ in packed]
        notes[is_literal, WORD] = [word for _, word in packed]
        is_same = (arrays.spans[ids] == spans).all(axis=1) & (arrays.states[ids] != FREE)
        self._notes[ids[is_same]] = notes[is_same]

    def _find_code(self, kind: Kind) -> int:
        code = self._codes.get(kind)
        if code is None:
            if len(self._kinds) >= MOST_KINDS:
                return SPARE
            code = CANONICAL + len(self._kinds)
            self._kinds[code], self._codes[kind] = kind, code
        return code

    def _wrap(self, words: Words, codes: Codes, seen: Bytes) -> NativeBatch | None:
        if seen[SPARE]:
            return None
        kinds = {code: self._kinds[code] for code in np.flatnonzero(seen).tolist() if code > SPARE}
        return NativeBatch(words, codes, kinds, codes == UNBOUND if seen[UNBOUND] else None)


@kernel
def gather_words(
    ids: Words | Indices,
    spans: Words,
    notes: Words,
    words: Words,
    codes: Codes,
    seen: Bytes,
    fresh: Words,
) -> Word:
    """Write the noted words and codes of rows, mark the codes, and list ids that are not noted.

    Returns how many are listed, perhaps some several times, or -1 if an id has no term. A row that
    repeats the one before needs no lookup.
    """
    found = 0
    last = ~ids[0] if len(ids) > 0 else 0
    word, code = np.int64(0), np.int64(UNKNOWN)
    for row in range(len(ids)):
        term = ids[row]
        if term != last:
            last = term
            word, code = np.int64(0), np.int64(UNBOUND)
            if term != -1:
                if term < 0 or term >= len(spans):
                    return -1
                start, length = spans[term, 0], spans[term, 1]
                if length == INTEGER:
                    word, code = start, np.int64(CANONICAL)
                elif notes[term, START] == start and notes[term, LENGTH] == length:
                    word, code = notes[term, WORD], notes[term, CODE]
                else:
                    code = np.int64(UNKNOWN)
                if code == UNKNOWN:
                    fresh[found] = term
                    found += 1
            seen[code] = 1
        words[row] = word
        codes[row] = code
    return found


@kernel
def compare_texts(
    spans: Words, heap: Bytes, notes: Words, old_heap: Bytes, is_kept: NDArray[np.bool_]
) -> None:
    """Clear the marks of ids whose text is not the noted one."""
    for term in range(len(is_kept)):
        start, length, old_start = spans[term, 0], spans[term, 1], notes[term, START]
        is_same = is_kept[term] and notes[term, CODE] != UNKNOWN and notes[term, LENGTH] == length
        is_same = is_same and start >= 0 and start + length <= len(heap)
        if is_same:
            for at in range(length):
                if heap[start + at] != old_heap[old_start + at]:
                    is_same = False
                    break
        is_kept[term] = is_same
