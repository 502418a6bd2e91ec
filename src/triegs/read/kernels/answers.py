"""Enumeration into columns: an odometer of cursors, one per variable of the head.

A row of levels is `[kind, root, keys, first key, column, weighs, factors, first factor]`:

- kind `TRIE`: the first ids of a relation; `SET`: the ids below the values of some earlier levels;
  `INSIDE`: the ids below the entry of the previous level;
- root: the word of the root vector that leads to the relation;
- keys: the levels whose values lead to the set;
- weighs: whether the word of an entry multiplies the multiplicity;
- factors: relations keyed by values of this level and earlier ones, whose counts also multiply it;
  each is `[root, keys, first key]`.

Outer columns are written only when their level advances, a whole range at a time. The entries of
the last level are copied block by block. If the last level, or the last two, are the same for all
values of the level before, they are gathered once into a *tile*, which is copied for each value.

With a table of integers, `(value, INTEGER)` by id, columns receive values instead of ids; an id
that is not an integer sets `MISFIT`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, checked_multiply, load, store
from triegs.store.kernels.cursors import (
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
from triegs.store.kernels.layout import HEAD
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import trie_get

TRIE, SET, INSIDE = 0, 1, 2
LEVEL_WORDS = 8
FACTOR_WORDS = 3

# The state: some words, then one range per level, its cursor first.
PHASE, FACTOR, MISFIT = 0, 1, 2  # FACTOR multiplies every answer
# Whether there is a tile now, the position in it, its size, and the sets it was made from.
TILED, TILE_PLACE, TILE_SIZE, TILE_OF, TILE_OF_TOO = 3, 4, 5, 6, 7
NEW, RUNNING, DONE = 0, 1, 2
STATE_HEAD = 8
# Maximum rows of a tile. It holds ids of the last level, multiplicities, and ids of the level
# before if that is included; then come the two sets, ids and counts each.
TILE = 1024
TILE_WORDS = 7 * TILE
INTEGER = -1  # as in triegs.terms.arrays
STATE_WORDS = 40
# After the cursor: value, multiplicity so far, first row of the value; how often the level
# advanced; and for its set, how often the level of its key had advanced then, and the set's
# reference.
VALUE, WEIGHT, SINCE, MOVED, SEEN, REFERENCE = 32, 33, 34, 35, 36, 37


@inlined
def weigh(a: int, b: int) -> int:
    """The product of two multiplicities; negative if it does not fit, as are all products of it.

    Two factors that do not fit give a product that does not fit.
    """
    product, overflow = checked_multiply(a, b)
    return -1 if overflow or (a & b) < 0 else product


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
    """Record the value and the multiplicity of the entry at the level's cursor."""
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
    """The word that a column receives for an id."""
    if integers.size == 0:
        return key
    if load(integers, 2 * key + 1) != INTEGER:
        store(state, MISFIT, 1)
    return load(integers, 2 * key)


@inlined
def write_stretch(
    levels: Words, state: Words, integers: Words, level: int, out: Words, rows: int, end: int
) -> None:
    """Write the level's value to all rows since it was taken."""
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
def is_free(levels: Words, level: int, least: int) -> bool:
    """Whether a level is a set with plain weights that depends only on levels before `least`."""
    row = LEVEL_WORDS * level
    if load(levels, row) != SET or load(levels, row + 5) == 0 or load(levels, row + 6) != 0:
        return False
    for number in range(load(levels, row + 2)):
        if load(levels, load(levels, row + 3) + number) >= least:
            return False
    return True


@inlined
def choose_depth(levels: Words, last: int) -> int:
    """The number of last levels that are the same for all values of the level before them."""
    if last < 1 or not is_free(levels, last, last - 1):
        return 0
    if last > 1 and is_free(levels, last, last - 2) and is_free(levels, last - 1, last - 2):
        return 2
    return 1


@inlined
def gather(
    words: Words, state: Words, integers: Words, level: int, tile: Words, keys: int, counts: int
) -> int:
    """Copy the entries of a level's set; returns their number, or -1 if there are too many."""
    base = base_of(level)
    size = 0
    while True:
        block = load(state, base + BLOCK) + HEAD
        found, room = load(state, base + SIZE), load(state, base + CAPACITY)
        if size + found > TILE:
            return -1
        for place in range(found):
            store(tile, keys + size + place, show(integers, state, load(words, block + place)))
            store(tile, counts + size + place, load(words, block + room + place))
        size += found
        if not set_next_block(words, state, base):
            return size


@kernel
def make_tile(
    words: Words, state: Words, integers: Words, last: int, depth: int, tile: Words
) -> None:
    """Gather the levels of the tile, which are open, unless they are too large together."""
    store(state, TILED, 0)
    if depth == 1:
        size = gather(words, state, integers, last, tile, 0, TILE)
        if size >= 0:
            store(state, TILED, 1)
            store(state, TILE_SIZE, size)
        return
    inner = gather(words, state, integers, last, tile, 3 * TILE, 4 * TILE)
    outer = gather(words, state, integers, last - 1, tile, 5 * TILE, 6 * TILE)
    if inner < 0 or outer < 0 or inner * outer > TILE:
        return
    row = 0
    for first in range(outer):
        value, weight = load(tile, 5 * TILE + first), load(tile, 6 * TILE + first)
        for second in range(inner):
            store(tile, row, load(tile, 3 * TILE + second))
            store(tile, TILE + row, weigh(weight, load(tile, 4 * TILE + second)))
            store(tile, 2 * TILE + row, value)
            row += 1
    store(state, TILED, 1)
    store(state, TILE_SIZE, row)


@inlined
def open_tile(
    words: Words, roots: Words, levels: Words, state: Words, integers: Words, last: int,
    depth: int, tile: Words, filled: int,
) -> None:  # fmt: skip
    """Update the tile after an earlier level advanced. Without a tile, its levels are opened."""
    for level in range(last - depth + 1, last + 1):
        open_level(words, roots, levels, state, level)
    inner = load(state, base_of(last) + REFERENCE)
    outer = load(state, base_of(last - 1) + REFERENCE) if depth == 2 else inner
    if inner != load(state, TILE_OF) or outer != load(state, TILE_OF_TOO):
        store(state, TILE_OF, inner)
        store(state, TILE_OF_TOO, outer)
        make_tile(words, state, integers, last, depth, tile)
    store(state, TILE_PLACE, 0)
    if load(state, TILED) == 0:
        for level in range(last - depth + 1, last):
            store(state, base_of(level) + SINCE, filled)
        open_from(words, roots, levels, state, last - depth + 1, last)


@inlined
def write_tile(
    tile: Words, depth: int, place: int, taken: int, weight: int, out: Words, keys: int, too: int,
    counts: int,
) -> None:  # fmt: skip
    """Write some rows of the tile."""
    if depth == 2:
        for step in range(taken):
            store(out, too + step, load(tile, 2 * TILE + place + step))
    if weight == 1:
        for step in range(taken):
            store(out, keys + step, load(tile, place + step))
            store(out, counts + step, load(tile, TILE + place + step))
    else:
        for step in range(taken):
            store(out, keys + step, load(tile, place + step))
            store(out, counts + step, weigh(weight, load(tile, TILE + place + step)))


@inlined
def write_pairs(
    words: Words, levels: Words, state: Words, integers: Words, tile: Words, depth: int,
    level: int, out: Words, rows: int, keys: int, too: int, counts: int, filled: int,
) -> int:  # fmt: skip
    """Write the tile for each further entry of a block while it fits; returns the rows filled."""
    base = base_of(level)
    column = load(levels, LEVEL_WORDS * level + 4) * rows
    above = load(state, base_of(level - 1) + WEIGHT) if level > 0 else load(state, FACTOR)
    size, place = load(state, TILE_SIZE), load(state, base + PLACE)
    at, room = load(state, base + BLOCK) + HEAD, load(state, base + CAPACITY)
    end = min(load(state, base + SIZE), place + (rows - filled) // size)
    while place < end:
        value = show(integers, state, load(words, at + place))
        weight = weigh(above, load(words, at + room + place))
        # One loop over all columns: sizes are small, and every loop has a start-up cost.
        if weight == 1 and depth == 1:
            for step in range(size):
                store(out, column + filled + step, value)
                store(out, keys + filled + step, load(tile, step))
                store(out, counts + filled + step, load(tile, TILE + step))
        elif weight == 1:
            for step in range(size):
                store(out, column + filled + step, value)
                store(out, keys + filled + step, load(tile, step))
                store(out, counts + filled + step, load(tile, TILE + step))
                store(out, too + filled + step, load(tile, 2 * TILE + step))
        else:
            for step in range(size):
                store(out, column + filled + step, value)
            at_keys, at_counts = keys + filled, counts + filled
            write_tile(tile, depth, 0, size, weight, out, at_keys, too + filled, at_counts)
        filled += size
        place += 1
    store(state, base + PLACE, place)
    store(state, base + SINCE, filled)
    return filled


@inlined
def write_entries(
    words: Words, at: int, room: int, taken: int, weight: int, integers: Words, state: Words,
    out: Words, keys: int, counts: int,
) -> None:  # fmt: skip
    """Write some entries of a block, one per row."""
    for step in range(taken):
        store(out, keys + step, show(integers, state, load(words, at + step)))
    for step in range(taken):
        store(out, counts + step, weigh(weight, load(words, at + room + step)))


@inlined
def open_below(
    words: Words, roots: Words, levels: Words, state: Words, integers: Words, level: int,
    last: int, depth: int, tile: Words, filled: int,
) -> bool:  # fmt: skip
    """Open all levels from here on, ending in a tile where possible."""
    pair = last - depth
    if depth == 0 or level > pair:
        return open_from(words, roots, levels, state, level, last)
    if not open_from(words, roots, levels, state, level, pair):
        return False
    if not move_level(words, levels, state, pair):
        return False
    take_value(words, roots, levels, state, pair)
    open_tile(words, roots, levels, state, integers, last, depth, tile, filled)
    return True


@kernel
def fill_answers(
    words: Words, roots: Words, levels: Words, count: int, state: Words, integers: Words,
    tile: Words, out: Words, rows: int, columns: int,
) -> int:  # fmt: skip
    """Write the next answers: `rows` words per column, then the multiplicities, negative if they
    exceed 64 bits. Returns the number of answers; fewer than `rows` means the end.
    """
    last = count - 1
    base, row = base_of(last), LEVEL_WORDS * last
    is_plain = load(levels, row) != TRIE and load(levels, row + 5) and load(levels, row + 6) == 0
    depth = choose_depth(levels, last)
    pair = last - depth
    before = LEVEL_WORDS * pair
    has_pairs = depth > 0 and load(levels, before) != TRIE and load(levels, before + 6) == 0
    if has_pairs and load(levels, before + 5) == 0:
        has_pairs = False
    keys, counts = load(levels, row + 4) * rows, columns * rows
    too = load(levels, row - LEVEL_WORDS + 4) * rows if depth == 2 else 0
    filled = 0
    if load(state, PHASE) == DONE:
        return 0
    for level in range(last):
        store(state, base_of(level) + SINCE, 0)
    if load(state, PHASE) == NEW:
        store(state, PHASE, RUNNING)
        if not open_below(words, roots, levels, state, integers, 0, last, depth, tile, 0):
            store(state, PHASE, DONE)
            return 0
    while filled < rows:
        level = last - 1
        if load(state, TILED):
            place, weight = load(state, TILE_PLACE), load(state, base_of(pair) + WEIGHT)
            taken = min(load(state, TILE_SIZE) - place, rows - filled)
            write_tile(
                tile, depth, place, taken, weight, out, keys + filled, too + filled,
                counts + filled,
            )  # fmt: skip
            filled += taken
            store(state, TILE_PLACE, place + taken)
            if place + taken < load(state, TILE_SIZE):
                break
            level = pair
            if has_pairs:
                write_stretch(levels, state, integers, pair, out, rows, filled)
                filled = write_pairs(
                    words, levels, state, integers, tile, depth, pair, out, rows, keys, too,
                    counts, filled,
                )  # fmt: skip
        elif is_plain:
            place, size = load(state, base + PLACE), load(state, base + SIZE)
            if place < size:
                taken = min(size - place, rows - filled)
                weight = load(state, FACTOR)
                if last > 0:
                    weight = load(state, base_of(last - 1) + WEIGHT)
                at = load(state, base + BLOCK) + HEAD + place
                write_entries(
                    words, at, load(state, base + CAPACITY), taken, weight, integers, state, out,
                    keys + filled, counts + filled,
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
        while level >= 0:
            write_stretch(levels, state, integers, level, out, rows, filled)
            if move_level(words, levels, state, level):
                break
            level -= 1
        if level < 0:
            store(state, PHASE, DONE)
            break
        take_value(words, roots, levels, state, level)
        if level == pair and load(state, TILED):
            store(state, TILE_PLACE, 0)
        elif not open_below(
            words, roots, levels, state, integers, level + 1, last, depth, tile, filled
        ):
            store(state, PHASE, DONE)
            break
    end = pair + 1 if load(state, TILED) else last
    for level in range(end):
        write_stretch(levels, state, integers, level, out, rows, filled)
    return filled
