# ruff: noqa: T201
"""Nanoseconds per operation of the packed structures, by size and batch.

Run it on a quiet core: `python bench/micro/trie.py [--quick]`. Keys are dense, and updates draw
them at random. They change counts of entries that stay, or, in the second table, remove one entry
and add another in turn. A batch is an epoch, published and reclaimed with nobody holding a version.
Compiling and filling are not timed. In brackets stand the figures of a trial, the aim of these
kernels; for the state of the machine, a copy of 64 MB is timed as well. The second table has
hubs too: one id with many neighbours, and 300,000 pairs whose first ids are drawn evenly or by
Zipf's law.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import numba
import numpy as np

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load
from triegs.store.kernels.cursors import (
    CURSOR_WORDS,
    KEY,
    WORD,
    set_first,
    set_next,
    trie_first,
    trie_next,
)
from triegs.store.kernels.epochs import publish_epoch
from triegs.store.kernels.layout import BUMP, CLASSES, FREE_COUNT, SLOT_WORDS, SLOTS, START
from triegs.store.kernels.memory import make_arena
from triegs.store.kernels.relations import adjacency_change, adjacency_get, map_change, map_get
from triegs.store.room import CLASS_WORDS

BATCHES = (1, 16, 256, 10_000)
EXPECTED = {
    ("map", 100_000): (52, 34, 29, 18, 4.2),
    ("map", 1_000_000): (75, 86, 52, 44, 12),
    ("adjacency", 100_000): (114, 87, 81, 72, 35),
    ("adjacency", 1_000_000): (316, 301, 249, 240, 125),
}
FAN_OUT = 8


@kernel
def update_map(
    words: Words, keys: Words, start: int, end: int, batch: int, roots: Words, holds: Words
) -> None:
    """Add each key's delta, an epoch per batch. Rows of `keys`: id, -, delta."""
    for first in range(start, end, batch):
        for row in range(first, min(first + batch, end)):
            map_change(words, SLOTS, load(keys, 3 * row), load(keys, 3 * row + 2), False)
        publish_epoch(words, roots, holds)


@kernel
def update_adjacency(
    words: Words, keys: Words, start: int, end: int, batch: int, roots: Words, holds: Words
) -> None:
    for first in range(start, end, batch):
        for row in range(first, min(first + batch, end)):
            at = 3 * row
            adjacency_change(
                words, SLOTS, load(keys, at), load(keys, at + 1), load(keys, at + 2), False
            )
        publish_epoch(words, roots, holds)


@kernel
def read_map(words: Words, keys: Words, start: int, end: int) -> int:
    total = 0
    root = load(words, SLOTS)
    for row in range(start, end):
        total += map_get(words, root, load(keys, 3 * row))
    return total


@kernel
def read_adjacency(words: Words, keys: Words, start: int, end: int) -> int:
    total = 0
    root = load(words, SLOTS)
    for row in range(start, end):
        total += adjacency_get(words, root, load(keys, 3 * row), load(keys, 3 * row + 1))
    return total


@kernel
def sum_map(words: Words, cursor: Words) -> int:
    total = 0
    trie_first(words, cursor, 0, load(words, SLOTS))
    while trie_next(words, cursor, 0):
        total += load(cursor, WORD) ^ load(cursor, KEY)
    return total


@kernel
def sum_adjacency(words: Words, cursor: Words) -> int:
    total = 0
    trie_first(words, cursor, 0, load(words, SLOTS))
    while trie_next(words, cursor, 0):
        set_first(words, cursor, CURSOR_WORDS, load(cursor, WORD))
        while set_next(words, cursor, CURSOR_WORDS):
            total += load(cursor, CURSOR_WORDS + WORD) ^ load(cursor, CURSOR_WORDS + KEY)
    return total


def time_best(run: Callable[[], object], operations: int, repeats: int = 3) -> float:
    """Nanoseconds per operation, the best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best / operations * 1e9


def draw_hub(size: int, updates: int) -> tuple[Words, Words]:
    """All pairs of one id."""
    neighbours = np.random.default_rng(size).permutation(2 * size)[: size + updates]
    rows = np.ones((len(neighbours), 3), np.int64)
    rows[:, 1] = neighbours
    return rows[:size], rows[size:]


def draw_skewed(exponent: float, size: int, updates: int) -> tuple[Words, Words]:
    """Pairs whose first id of rank r has a chance in proportion to 1 / r ** exponent."""
    random = np.random.default_rng(7)
    ids = size // FAN_OUT
    weights = 1 / np.arange(1, ids + 1) ** exponent
    rows = np.ones((size + updates, 3), np.int64)
    rows[:, 0] = random.choice(ids, size + updates, p=weights / weights.sum())
    rows[:, 1] = random.integers(0, ids, size + updates)
    return rows[:size], rows[size:]


def draw_changes(kind: str, size: int, updates: int, seed: int) -> tuple[Words, Words]:
    """Rows (x, y, delta): what fills the structure, then removals and additions in turn.

    The additions of one run come back as removals of the next, in the order of a queue.
    """
    random = np.random.default_rng(seed)
    space = 2 * size
    if kind == "map":
        keys = random.permutation(space)[: size + updates]
        pairs = np.stack([keys, np.zeros_like(keys)], axis=1)
    else:
        xs = random.integers(0, size // FAN_OUT, size + updates)
        pairs = np.stack([xs, np.arange(size + updates)], axis=1)
        pairs[:, 1] = random.permutation(pairs[:, 1]) % max(size // FAN_OUT, 1)
        _, first = np.unique(pairs, axis=0, return_index=True)
        pairs = pairs[np.sort(first)]
    ones = np.ones((len(pairs), 1), np.int64)
    rows = np.concatenate([pairs, ones], axis=1).astype(np.int64)
    return rows[:size], rows[size:]


def make_updates(live: Words, fresh: Words, count: int) -> Words:
    """Alternately the oldest live row out and a fresh row in; then all of it back."""
    half = min(count // 4, len(fresh), len(live))
    out, back = live[:half].copy(), fresh[:half].copy()
    out[:, 2] = -1
    forth = np.stack([out, back], axis=1).reshape(-1, 3)
    undo = forth.copy()
    undo[:, 2] *= -1
    return np.ascontiguousarray(np.concatenate([forth, undo]))


def make_touches(live: Words, count: int) -> Words:
    """One more for random live rows, then one less."""
    more = live[np.random.default_rng(2).integers(0, len(live), count // 2)]
    return np.ascontiguousarray(np.concatenate([more, more * np.array([1, 1, -1])]))


def measure_updates(kind: str, live: Words, changes: Words) -> tuple[Words, list[float]]:
    """The arena filled with the live rows; the figure of each batch size, then bytes per entry."""
    changes, count = changes.reshape(-1), len(changes)
    update = update_map if kind == "map" else update_adjacency
    words = make_arena()
    roots, holds = np.zeros(SLOT_WORDS, np.int64), np.zeros(0, np.int64)
    fill = np.ascontiguousarray(live).reshape(-1)
    update(words, fill, 0, len(live), 4096, roots, holds)
    entries = int(words[SLOTS + 1])
    used = int(words[BUMP]) - START
    free = sum(int(words[FREE_COUNT + c]) * CLASS_WORDS[c] for c in range(CLASSES))
    figures = [
        time_best(partial(update, words, changes, 0, count, batch, roots, holds), count)
        for batch in BATCHES
    ]
    assert words[SLOTS + 1] == entries  # what a run changes it takes back
    return words, [*figures, (used - free) * 8 / entries]


def measure(kind: str, size: int, updates: int) -> Iterator[float]:
    """The figure of each batch size, then a read, an element of iteration, bytes per entry."""
    live, _ = draw_changes(kind, size, updates, seed=size)
    words, (*figures, used) = measure_updates(kind, live, make_touches(live, updates))
    yield from figures
    read = read_map if kind == "map" else read_adjacency
    total = sum_map if kind == "map" else sum_adjacency
    probes = np.random.default_rng(1).permutation(live)[:updates].reshape(-1)
    probes = np.ascontiguousarray(probes)
    hits = len(probes) // 3
    assert read(words, probes, 0, hits) == hits
    yield time_best(lambda: read(words, probes, 0, hits), hits)
    cursor = np.zeros(2 * CURSOR_WORDS, np.int64)
    total(words, cursor)
    yield time_best(lambda: total(words, cursor), len(live))
    yield used


def warm_up() -> None:
    for kind in ("map", "adjacency"):
        list(measure(kind, 1_000, 1_000))


def main(quick: bool) -> None:
    start = perf_counter()
    warm_up()
    print(f"# {platform.processor() or platform.machine()}, Python {platform.python_version()}, "
          f"numba {numba.__version__}; warm-up {perf_counter() - start:.1f} s")  # fmt: skip
    source = np.ones(1 << 23, np.int64)
    target = np.zeros_like(source)
    copying = time_best(lambda: np.copyto(target, source), source.size)
    print(f"# copying 64 MB: {copying:.2f} ns per word\n")
    print("| ns per operation (trial) | 1 | 16 | 256 | 10k | read | iterate | bytes/entry |")
    print("| --- " * 8 + "|")
    for (kind, size), expected in EXPECTED.items():
        if quick and size > 100_000:
            continue
        updates = 100_000 if quick else 400_000
        *figures, iterate, used = measure(kind, size, updates)
        cells = [f"{f:.0f} ({e})" for f, e in zip(figures, expected, strict=True)]
        cells += [f"{iterate:.1f}", f"{used:.0f}"]
        print(f"| {kind}, {size:,} | " + " | ".join(cells) + " |", flush=True)
    print("\n| ns per operation | 1 | 16 | 256 | 10k | bytes/entry |")
    print("| --- " * 6 + "|")
    hubs = {f"hub, {size:,}": draw_hub(size, size // 2) for size in (1_000, 30_000, 1_000_000)}
    skews = {f"pairs, s = {s}": draw_skewed(s, 300_000, 100_000) for s in (0.0, 0.8, 1.2)}
    plain = {
        f"{kind}, {size:,}": draw_changes(kind, size, 200_000, size) for kind, size in EXPECTED
    }
    for name, (live, fresh) in (plain | hubs | skews).items():
        kind = "map" if name.startswith("map") else "adjacency"
        _, found = measure_updates(kind, live, make_updates(live, fresh, 100_000))
        print(f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in found) + " |", flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
