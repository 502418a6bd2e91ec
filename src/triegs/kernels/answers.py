"""Enumeration into columns: an odometer of cursors, one per variable of the head.

A row of levels is `[kind, root, keys, first key, column, weighs, factors, first factor]`:

- kind `TRIE`: the first ids of a relation; `SET`: the ids below the values of some levels before;
  `INSIDE`: the ids below the entry of the level before;
- root: which word of the root vector leads to the relation;
- keys: the levels whose values lead to the set;
- weighs: whether the word of an entry multiplies the multiplicity;
- factors: relations by values of this level and those before, whose counts multiply it too; each
  is `[root, keys, first key]`.

Outer columns are written only when their level moves on, a whole stretch at a time. The entries of
the last level are copied block by block; where they do not depend on the level before, they are
gathered in a *tile* once and copied for each of its values.

With a table of integers, `(value, INTEGER)` by id, columns get values in the place of ids; an id
that is no integer sets `MISFIT`.
"""

from __future__ import annotations

from triegs.kernels.cursors import (
    BLOCK,
    CAPACITY,
    KEY,
    PLACE,
    SIZE,
    WORD,
    set_first,
    set_next,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.kernels.jit import inlined, kernel
from triegs.kernels.layout import HEAD
from triegs.kernels.sets import set_get
from triegs.kernels.trie import trie_get
from triegs.kernels.words import Words, checked_multiply, load, store

TRIE, SET, INSIDE = 0, 1, 2
LEVEL_WORDS = 8
FACTOR_WORDS = 3

# The state: some words, then a stretch per level, its cursor first.
PHASE, FACTOR, MISFIT = 0, 1, 2  # FACTOR multiplies every answer
# Whether the last level is a tile, where in it we are, its size, and the set that it was made of.
TILED, TILE_PLACE, TILE_SIZE, TILE_OF = 3, 4, 5, 6
NEW, RUNNING, DONE = 0, 1, 2
STATE_HEAD = 8
TILE = 1024  # entries of a tile at most; keys first, then words
INTEGER = -1  # as in triegs.dictionary.arrays
STATE_WORDS = 40
# After the cursor: value, multiplicity so far, first row of the value; how often the level moved;
# and of its set, how often the level of its key had moved then, and where it is.
VALUE, WEIGHT, SINCE, MOVED, SEEN, REFERENCE = 32, 33, 34, 35, 36, 37


@inlined
def weigh(a: int, b: int) -> int:
    """The product of two multiplicities; negative if it does not fit, as all products of it."""
    product, overflow = checked_multiply(a, b)
    return -1 if overflow else product


@inlined
def base_of(level: int) -> int:
    return STATE_HEAD + STATE_WORDS * level


@inlined
def find_below(
    words: Words, roots: Words, levels: Words, state: Words, root: int, keys: int, first: int
) -> int:
    """The word that the values of some levels lead to in a relation."""
    word = load(roots, root)
    for number in range(keys):
        value = load(state, base_of(load(levels, first + number)) + VALUE)
        word = trie_get(words, word, value) if number == 0 else set_get(words, word, value)
    return word


@inlined
def open_level(words: Words, roots: Words, levels: Words, state: Words, level: int) -> None:
    row = LEVEL_WORDS * level
    kind, root = load(levels, row), load(levels, row + 1)
    if kind == TRIE:
        trie_first(words, state, base_of(level), load(roots, root))
    elif kind == SET:
        base = base_of(level)
        keys, first = load(levels, row + 2), load(levels, row + 3)
        moved = load(state, base_of(load(levels, first)) + MOVED)
        if keys > 1 or load(state, base + SEEN) != moved:
            below = find_below(words, roots, levels, state, root, keys, first)
            store(state, base + SEEN, moved)
            store(state, base + REFERENCE, below)
        set_first(words, state, base, load(state, base + REFERENCE))
    else:
        set_first(words, state, base_of(level), load(state, base_of(level - 1) + WORD))


@inlined
def move_level(words: Words, levels: Words, state: Words, level: int) -> bool:
    if load(levels, LEVEL_WORDS * level) == TRIE:
        return trie_next(words, state, base_of(level))
    return set_next(words, state, base_of(level))


@inlined
def take_value(words: Words, roots: Words, levels: Words, state: Words, level: int) -> None:
    """The level's cursor stands on an entry: note its value and the multiplicity so far."""
    row, base = LEVEL_WORDS * level, base_of(level)
    store(state, base + VALUE, load(state, base + KEY))
    store(state, base + MOVED, load(state, base + MOVED) + 1)
    weight = load(state, base_of(level - 1) + WEIGHT) if level > 0 else load(state, FACTOR)
    if load(levels, row + 5):
        weight = weigh(weight, load(state, base + WORD))
    for number in range(load(levels, row + 6)):
        factor = load(levels, row + 7) + FACTOR_WORDS * number
        keys, first = load(levels, factor + 1), load(levels, factor + 2)
        count = find_below(words, roots, levels, state, load(levels, factor), keys, first)
        weight = weigh(weight, count)
    store(state, base + WEIGHT, weight)


@inlined
def show(integers: Words, state: Words, key: int) -> int:
    """What a column gets for an id."""
    if integers.size == 0:
        return key
    if load(integers, 2 * key + 1) != INTEGER:
        store(state, MISFIT, 1)
    return load(integers, 2 * key)


@inlined
def write_stretch(
    levels: Words, state: Words, integers: Words, level: int, out: Words, rows: int, end: int
) -> None:
    """The level's value, in all rows since it was taken."""
    base = base_of(level)
    start = load(levels, LEVEL_WORDS * level + 4) * rows
    value = show(integers, state, load(state, base + VALUE))
    for row in range(load(state, base + SINCE), end):
        store(out, start + row, value)
    store(state, base + SINCE, end)


@inlined
def open_from(
    words: Words, roots: Words, levels: Words, state: Words, level: int, last: int
) -> bool:
    """Open the levels from here on, the last one before its first entry; false if one is empty,
    which only the root of another component can be.
    """
    while True:
        open_level(words, roots, levels, state, level)
        if level == last:
            return True
        if not move_level(words, levels, state, level):
            return False
        take_value(words, roots, levels, state, level)
        level += 1


@inlined
def is_apart(levels: Words, last: int) -> bool:
    """Whether the entries of the last level are the same for all values of the one before."""
    row = LEVEL_WORDS * last
    if last == 0 or load(levels, row) != SET:
        return False
    for number in range(load(levels, row + 2)):
        if load(levels, load(levels, row + 3) + number) == last - 1:
            return False
    return True


@kernel
def load_tile(words: Words, state: Words, integers: Words, base: int, tile: Words) -> None:
    """Gather the set that a cursor stands before, unless it is too large."""
    size = 0
    while True:
        block = load(state, base + BLOCK) + HEAD
        count, room = load(state, base + SIZE), load(state, base + CAPACITY)
        if size + count > TILE:
            store(state, TILED, 0)
            return
        for place in range(count):
            store(tile, size + place, show(integers, state, load(words, block + place)))
            store(tile, TILE + size + place, load(words, block + room + place))
        size += count
        if not set_next_block(words, state, base):
            break
    store(state, TILED, 1)
    store(state, TILE_SIZE, size)


@inlined
def open_last(
    words: Words, roots: Words, levels: Words, state: Words, integers: Words, last: int, tile: Words
) -> None:
    """The levels before have moved: the last one's entries may be others."""
    reference = load(state, base_of(last) + REFERENCE)
    if reference != load(state, TILE_OF):
        store(state, TILE_OF, reference)
        load_tile(words, state, integers, base_of(last), tile)
        if load(state, TILED) == 0:
            open_level(words, roots, levels, state, last)
    store(state, TILE_PLACE, 0)


@inlined
def write_entries(
    source: Words, at: int, counts_at: int, taken: int, weight: int, is_shown: bool,
    integers: Words, state: Words, out: Words, keys: int, counts: int,
) -> None:  # fmt: skip
    """Some entries of the last level, one per row; `is_shown` if they are what columns get."""
    if is_shown:
        for step in range(taken):
            store(out, keys + step, load(source, at + step))
    else:
        for step in range(taken):
            store(out, keys + step, show(integers, state, load(source, at + step)))
    if weight == 1:
        for step in range(taken):
            store(out, counts + step, load(source, counts_at + step))
    else:
        for step in range(taken):
            store(out, counts + step, weigh(weight, load(source, counts_at + step)))


@inlined
def write_pairs(
    words: Words, levels: Words, state: Words, integers: Words, tile: Words, level: int,
    out: Words, rows: int, keys: int, counts: int, filled: int,
) -> int:  # fmt: skip
    """The tile for each further entry of the level's block, while whole tiles fit; returns the
    rows filled by then. One short loop per entry: it is what most rows of most results cost.
    """
    base = base_of(level)
    column = load(levels, LEVEL_WORDS * level + 4) * rows
    above = load(state, base_of(level - 1) + WEIGHT) if level > 0 else load(state, FACTOR)
    size, place = load(state, TILE_SIZE), load(state, base + PLACE)
    at, room = load(state, base + BLOCK) + HEAD, load(state, base + CAPACITY)
    end = min(load(state, base + SIZE), place + (rows - filled) // size)
    while place < end:
        value = show(integers, state, load(words, at + place))
        weight = weigh(above, load(words, at + room + place))
        if weight == 1:
            for step in range(size):
                store(out, column + filled + step, value)
                store(out, keys + filled + step, load(tile, step))
                store(out, counts + filled + step, load(tile, TILE + step))
        else:
            for step in range(size):
                store(out, column + filled + step, value)
                store(out, keys + filled + step, load(tile, step))
                product = weigh(weight, load(tile, TILE + step))
                store(out, counts + filled + step, product)
        filled += size
        place += 1
    store(state, base + PLACE, place)
    store(state, base + SINCE, filled)
    return filled


@kernel
def fill_answers(
    words: Words, roots: Words, levels: Words, count: int, state: Words, integers: Words,
    tile: Words, out: Words, rows: int, columns: int,
) -> int:  # fmt: skip
    """Write the next answers: `rows` words per column, then the multiplicities, negative where
    64 bits do not hold them. Returns how many; fewer than `rows` means the end.
    """
    last = count - 1
    base, row = base_of(last), LEVEL_WORDS * last
    is_plain = load(levels, row) != TRIE and load(levels, row + 5) and load(levels, row + 6) == 0
    has_tile = is_plain and is_apart(levels, last)
    before = LEVEL_WORDS * (last - 1)
    has_pairs = has_tile and load(levels, before) != TRIE and load(levels, before + 6) == 0
    if has_pairs and load(levels, before + 5) == 0:
        has_pairs = False
    keys, counts = load(levels, row + 4) * rows, columns * rows
    filled = 0
    if load(state, PHASE) == DONE:
        return 0
    if load(state, PHASE) == NEW:
        store(state, PHASE, RUNNING)
        if not open_from(words, roots, levels, state, 0, last):
            store(state, PHASE, DONE)
            return 0
        if has_tile:
            open_last(words, roots, levels, state, integers, last, tile)
    for level in range(last):
        store(state, base_of(level) + SINCE, 0)
    while filled < rows:
        weight = load(state, FACTOR)
        if last > 0:
            weight = load(state, base_of(last - 1) + WEIGHT)
        if load(state, TILED):
            place = load(state, TILE_PLACE)
            taken = min(load(state, TILE_SIZE) - place, rows - filled)
            write_entries(
                tile, place, TILE + place, taken, weight, True, integers, state, out,
                keys + filled, counts + filled,
            )  # fmt: skip
            filled += taken
            store(state, TILE_PLACE, place + taken)
            if place + taken < load(state, TILE_SIZE):
                break
            if has_pairs:
                write_stretch(levels, state, integers, last - 1, out, rows, filled)
                filled = write_pairs(
                    words, levels, state, integers, tile, last - 1, out, rows, keys, counts, filled
                )
        elif is_plain:
            place, size = load(state, base + PLACE), load(state, base + SIZE)
            if place < size:
                taken = min(size - place, rows - filled)
                at = load(state, base + BLOCK) + HEAD + place
                write_entries(
                    words, at, at + load(state, base + CAPACITY), taken, weight, False, integers,
                    state, out, keys + filled, counts + filled,
                )  # fmt: skip
                filled += taken
                store(state, base + PLACE, place + taken)
                continue
            if set_next_block(words, state, base):
                continue
        elif move_level(words, levels, state, last):
            take_value(words, roots, levels, state, last)
            store(out, keys + filled, show(integers, state, load(state, base + VALUE)))
            store(out, counts + filled, load(state, base + WEIGHT))
            filled += 1
            continue
        level = last - 1
        while level >= 0:
            write_stretch(levels, state, integers, level, out, rows, filled)
            if move_level(words, levels, state, level):
                break
            level -= 1
        if level < 0:
            store(state, PHASE, DONE)
            break
        take_value(words, roots, levels, state, level)
        if has_tile and level == last - 1:
            if load(state, TILED):
                store(state, TILE_PLACE, 0)
            else:
                open_level(words, roots, levels, state, last)
            continue
        if not open_from(words, roots, levels, state, level + 1, last):
            store(state, PHASE, DONE)
            break
        if has_tile:
            open_last(words, roots, levels, state, integers, last, tile)
    for level in range(last):
        write_stretch(levels, state, integers, level, out, rows, filled)
    return filled
