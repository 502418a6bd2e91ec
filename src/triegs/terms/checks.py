"""Checks the invariants of `triegs.terms.arrays`. For tests: cost O(everything)."""

from __future__ import annotations

import numpy as np

from triegs.terms.arrays import (
    FREE,
    FREE_IDS,
    HEAP_LIVE,
    HEAP_USED,
    INTEGER,
    INTEGERS,
    LIMBO,
    LISTED,
    NAMED,
    TEXTS,
    TOP,
    Arrays,
    Words,
)
from triegs.terms.spelling import hash_bytes, is_canonical, read_integer
from triegs.terms.table import find_integers, find_text
from triegs.terms.term import canonical_term
from triegs.terms.term_cache import TermCache


class DictionaryCorrupt(AssertionError):
    """A dictionary violates an invariant; names it and the location."""


def check_dictionary(arrays: Arrays, held: list[Words], cache: TermCache) -> None:
    _check_ids(arrays, held)
    _check_counts(arrays)
    _check_texts(arrays)
    _check_integers(arrays)
    _check_cache(arrays, cache)


def _demand(truth: object, invariant: int, message: str) -> None:
    if not truth:
        raise DictionaryCorrupt(f"invariant {invariant}: {message}")


def _check_ids(arrays: Arrays, held: list[Words]) -> None:
    top = int(arrays.meta[TOP])
    free = arrays.free[: arrays.meta[FREE_IDS]]
    listed = np.concatenate([arrays.limbo[: arrays.meta[LIMBO]], *held])
    for name, ids, state in (("free", free, FREE), ("listed", listed, LISTED)):
        _demand(len(np.unique(ids)) == len(ids), 1, f"an id is {name} twice")
        marked = np.flatnonzero(arrays.states[:top] == state)
        _demand(np.array_equal(np.sort(ids), marked), 1, f"marks and list of {name} ids differ")
    _demand(not arrays.states[top:].any(), 1, "an id beyond the top is in use")


def _check_counts(arrays: Arrays) -> None:
    top = int(arrays.meta[TOP])
    _demand((arrays.counts[:top] >= 0).all(), 2, "a count is negative")
    named = int(np.count_nonzero(arrays.counts[:top]))
    _demand(named == arrays.meta[NAMED], 2, f"{named} ids are named")
    idle = (arrays.counts[:top] == 0) & (arrays.states[:top] != FREE)
    _demand((arrays.states[:top][idle] == LISTED).all(), 2, "an unnamed id is not listed")


def _find_used(arrays: Arrays, integers: bool) -> list[int]:
    top = int(arrays.meta[TOP])
    chosen = (arrays.spans[:top, 1] == INTEGER) == integers
    used: list[int] = np.flatnonzero((arrays.states[:top] != FREE) & chosen).tolist()
    return used


def _check_texts(arrays: Arrays) -> None:
    used = _find_used(arrays, integers=False)
    entries = int(np.count_nonzero(arrays.texts))
    _demand(entries == len(used) == arrays.meta[TEXTS], 3, f"{entries} of {len(used)} texts")
    heap, spans, end = arrays.heap, arrays.spans, int(arrays.meta[HEAP_USED])
    total = 0
    # A message costs more than what it is about, so each is made only where it is needed.
    for identity, (start, length) in zip(used, spans[used].tolist(), strict=True):
        total += length
        stop = start + length
        if stop > end:
            _demand(False, 4, f"text of {identity} is not in the heap")
        found = find_text(
            arrays.texts, spans, heap, heap, start, stop, hash_bytes(heap, start, stop)
        )
        if found != identity:
            _demand(False, 3, f"the text of {identity} is found under {found}")
        text = heap[start:stop].tobytes().decode()
        if not is_canonical(heap, start, stop) and canonical_term(text) != text:
            _demand(False, 3, f"the text of {identity} is not canonical: {text[:80]!r}")
        if length > 44 and text.endswith("#integer>") and read_integer(heap, start, stop)[0]:
            _demand(False, 3, f"the integer {identity} is kept as text")
    _demand(total == arrays.meta[HEAP_LIVE], 4, f"{total} bytes of text live")


def _check_integers(arrays: Arrays) -> None:
    used = np.array(_find_used(arrays, integers=True), np.int64)
    entries = int(np.count_nonzero(arrays.integers[:, 1]))
    _demand(entries == len(used) == arrays.meta[INTEGERS], 3, f"{entries} of {len(used)} integers")
    found = np.empty_like(used)
    find_integers(arrays.integers, arrays.spans[used, 0].copy(), found)
    _demand(np.array_equal(found, used), 3, "an integer is found under another id")


def _check_cache(arrays: Arrays, cache: TermCache) -> None:
    cached = np.fromiter(cache.texts.values(), np.int64, len(cache.texts))
    is_free = arrays.states[cached] == FREE
    is_marked = arrays.cached[cached] != 0
    if is_free.any() or not is_marked.all():
        for place, (text, identity) in enumerate(cache.texts.items()):
            _demand(not is_free[place], 3, f"{text!r} is cached under a free id")
            _demand(is_marked[place], 3, f"{text!r} is cached, but {identity} is not marked")
    for value, identity in cache.integers.items():
        span = arrays.spans[identity].tolist()
        alive = arrays.states[identity] != FREE and arrays.cached[identity]
        _demand(alive and span == [value, INTEGER], 3, f"{value} is cached under another id")
