"""The answers whose multiplicity differs between two versions, each once, into columns.

An answer consists of *entries* of relations, and its multiplicity is the product of their weights.
It has changed only if one of its entries has. So each entry of the enumeration gets a *phase*: the
differences of its relation are seeds; from a seed the levels of the phase ascend to the entries
above it, and descend to all others. Entries before the phase's own must be the same in both
versions, so an answer is found only in the phase of its first changed entry.

A seed with a weight in the new version is followed there first, which gives all answers that the
new version has. If it has a weight in the old version, it is then followed there, for the answers
that are gone. The version being followed is *here*, the other one *there*. Both multiplicities are
carried along; the one there is looked up only while it is nonzero.

The table is `[phases, maximum levels, (first word of a phase)…]`. A phase is `[columns, old root,
new root, first position, weighs, levels, first level, checks, first check]`; without columns its
only seed is the whole result. A level is `[kind, old root, new root, keys, first key, position,
use, is same, checks, first check]`, where kind is `TRIE`, `SET` or `INSIDE` as in
`triegs.read.kernels.answers`, the keys are positions in the row, and `use` is how an entry is used.
A check is `[old root, new root, keys, first key, weighs, is same]`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Numbers, Words, load, store, write_run
from triegs.read.kernels.answers import INSIDE, MISFIT, SET, TRIE, show
from triegs.read.kernels.differences import (
    KEY,
    NEW,
    OLD,
    column_at,
    next_difference,
    open_difference,
)
from triegs.read.kernels.expansion import weigh
from triegs.store.kernels.cursors import (
    BLOCK,
    CAPACITY,
    CURSOR_WORDS,
    NEXT_ENTRY,
    SIZE,
    set_first,
    set_next,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.cursors import WORD as CURSOR_WORD
from triegs.store.kernels.layout import HEAD, LOW, SMALLEST
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import trie_get

TABLE_HEAD = 2
PHASE_WORDS, SEED_LEVEL_WORDS, CHECK_WORDS = 9, 10, 6
# Uses of a level's entry: it only leads further; it is the first section of an entry; its presence
# counts; its weight counts.
LEADS, BEGINS, COUNTS_AS_ONE, WEIGHS = 0, 1, 2, 3

# The state: some words, the values by position, the levels, and the cursor over differences.
# `triegs.read.kernels.answers.show` sets `MISFIT` for a term that is not an integer.
PHASE, LEVEL, IS_OLD, FACTOR_OLD, FACTOR_NEW, OVERFLOWN = 0, 1, 3, 4, 5, 6
IS_SEEDED, DIFFERENCES_AT = 7, 8  # for a phase without columns; the offset of that cursor
# The number of the earlier version, or that of none, and whether the new one is the earlier.
EARLIER, IS_BACKWARDS = 9, 10
NEVER = -1
VALUES = 11
assert MISFIT == 2
# A level's range: its cursor, the first row of its value, the multiplicities here and there, the
# two sets it scans, and the words of its entry.
SINCE, HERE, THERE = CURSOR_WORDS, CURSOR_WORDS + 1, CURSOR_WORDS + 2
SET_HERE, SET_THERE = CURSOR_WORDS + 3, CURSOR_WORDS + 4
WORD_HERE, WORD_THERE = CURSOR_WORDS + 5, CURSOR_WORDS + 6
RANGE_WORDS = CURSOR_WORDS + 8
NO_LEVEL = -1


def state_words(width: int, levels: int) -> int:
    """The offset of the cursor over differences: after the values and the ranges of levels."""
    return VALUES + width + RANGE_WORDS * levels


@inlined
def range_at(width: int, level: int) -> int:
    return VALUES + width + RANGE_WORDS * level


@inlined
def get_sets(
    words: Words, here: int, there: int, value: int, state: Words, side: int
) -> tuple[int, int]:
    """The sets below an id in two versions of a trie. A set of the later version that is no younger
    than the earlier version also belongs to the earlier one.
    """
    if load(state, IS_BACKWARDS) == side:
        later, earlier = here, there
    else:
        later, earlier = there, here
    found = trie_get(words, later, value)
    if later == earlier or (found != 0 and load(words, found & ~1) <= load(state, EARLIER)):
        return found, found
    other = trie_get(words, earlier, value)
    return (found, other) if later == here else (other, found)


@inlined
def find_both(
    words: Words, here: int, there: int, table: Words, keys: int, first: int, state: Words,
    side: int, is_set: bool,
) -> tuple[int, int]:  # fmt: skip
    """The words that the values of some positions lead to, here and there; shared words are looked
    up once. `is_set` says that these words are sets.
    """
    if keys > 1 or (keys == 1 and is_set):
        value = load(state, VALUES + load(table, first))
        here, there = get_sets(words, here, there, value, state, side)
    elif keys == 1:
        value = load(state, VALUES + load(table, first))
        is_shared = here == there
        here = trie_get(words, here, value)
        there = here if is_shared else trie_get(words, there, value)
    for number in range(1, keys):
        value = load(state, VALUES + load(table, first + number))
        is_shared = here == there
        here = set_get(words, here, value)
        there = here if is_shared else set_get(words, there, value)
    return here, there


@kernel
def pass_checks(
    words: Words, here: Words, there: Words, table: Words, count: int, first: int, state: Words,
    at: int, side: int,
) -> bool:  # fmt: skip
    """Multiply by the entries that have no level of their own; false if one excludes the answer."""
    for number in range(count):
        check = first + CHECK_WORDS * number
        keys, key = load(table, check + 2), load(table, check + 3)
        weighs, is_same = load(table, check + 4), load(table, check + 5)
        root = load(here, load(table, check + 1 - side))
        other = load(state, at + THERE)
        root_there = root
        if is_same or other != 0:
            root_there = load(there, load(table, check + side))
        weight, weight_there = find_both(
            words, root, root_there, table, keys, key, state, side, False
        )
        if weight == 0:
            return False
        if not weighs:
            weight, weight_there = 1, 1 if weight_there != 0 else 0
        if is_same and weight != weight_there:
            return False
        store(state, at + HERE, weigh(load(state, at + HERE), weight))
        store(state, at + THERE, weigh(other, weight_there))
    return True


@inlined
def open_seed(words: Words, old: Words, new: Words, table: Words, phase: int, state: Words) -> None:
    store(state, IS_OLD, 1)
    store(state, IS_SEEDED, 0)
    if load(table, phase) > 0:
        old_root, new_root = load(old, load(table, phase + 1)), load(new, load(table, phase + 2))
        open_difference(words, state, load(state, DIFFERENCES_AT), old_root, new_root)


@inlined
def next_seed(words: Words, table: Words, phase: int, state: Words, width: int) -> bool:
    """Advance to the next seed, or to the same one in the old version; false at the end."""
    columns, base, at = load(table, phase), load(state, DIFFERENCES_AT), range_at(width, 0)
    while True:
        if load(state, IS_OLD) == 0:
            store(state, IS_OLD, 1)
        elif columns == 0:
            if load(state, IS_SEEDED):
                return False
            store(state, IS_SEEDED, 1)
            store(state, IS_OLD, 0)
        else:
            if not next_difference(words, state, base, columns, load(table, phase + 4) != 0):
                return False
            store(state, IS_OLD, 0)
        old, new = load(state, FACTOR_OLD), load(state, FACTOR_NEW)
        if columns > 0:
            last = column_at(base, columns - 1)
            weight_old, weight_new = load(state, last + OLD), load(state, last + NEW)
            if load(table, phase + 4) == 0:
                weight_old, weight_new = min(weight_old, 1), min(weight_new, 1)
            old, new = weigh(old, weight_old), weigh(new, weight_new)
        is_old = load(state, IS_OLD)
        here, there = (old, new) if is_old else (new, old)
        if here == 0:
            continue
        for column in range(columns):
            target = load(table, load(table, phase + 3) + column)
            store(state, VALUES + target, load(state, column_at(base, column) + KEY))
        store(state, at + HERE, here)
        store(state, at + THERE, there)
        return True


@inlined
def open_change_level(
    words: Words, here: Words, there: Words, table: Words, row: int, state: Words, width: int,
    level: int, side: int,
) -> None:  # fmt: skip
    at = range_at(width, level)
    kind = load(table, row)
    if kind == INSIDE:
        found = load(state, at - RANGE_WORDS + WORD_HERE)
        found_there = load(state, at - RANGE_WORDS + WORD_THERE)
    else:
        keys, first = load(table, row + 3), load(table, row + 4)
        root = load(here, load(table, row + 2 - side))
        root_there = root
        is_carried = load(state, at - RANGE_WORDS + THERE) != 0
        if load(table, row + 6) != LEADS and (is_carried or load(table, row + 7)):
            root_there = load(there, load(table, row + 1 + side))
        found, found_there = find_both(
            words, root, root_there, table, keys, first, state, side, True
        )
    store(state, at + SET_HERE, found)
    store(state, at + SET_THERE, found_there)
    if kind == TRIE:
        trie_first(words, state, at, found)
    else:
        set_first(words, state, at, found)


@inlined
def take_entry(
    words: Words, here: Words, there: Words, table: Words, row: int, state: Words, at: int,
    side: int,
) -> bool:  # fmt: skip
    """Record the entry at the level's cursor; false if this phase must skip it."""
    key, word = load(state, at + CURSOR_KEY), load(state, at + CURSOR_WORD)
    store(state, VALUES + load(table, row + 5), key)
    word_there = word
    set_there = load(state, at + SET_THERE)
    if set_there != load(state, at + SET_HERE):
        if load(table, row) == TRIE:
            word_there = trie_get(words, set_there, key)
        else:
            word_there = set_get(words, set_there, key)
    store(state, at + WORD_HERE, word)
    store(state, at + WORD_THERE, word_there)
    weight = load(state, at - RANGE_WORDS + HERE)
    weight_there = load(state, at - RANGE_WORDS + THERE)
    use = load(table, row + 6)
    if use > BEGINS:
        if use == COUNTS_AS_ONE:
            word, word_there = 1, 1 if word_there != 0 else 0
        if load(table, row + 7) and word != word_there:
            return False
        weight, weight_there = weigh(weight, word), weigh(weight_there, word_there)
    store(state, at + HERE, weight)
    store(state, at + THERE, weight_there)
    return pass_checks(
        words, here, there, table, load(table, row + 8), load(table, row + 9), state, at, side
    )


@inlined
def change_of(here: int, there: int, is_old: int, is_distinct: bool) -> int:
    """The change of an answer with these multiplicities; 0 if none or reported elsewhere."""
    if is_old:
        if there != 0:
            return 0
        return -1 if is_distinct else -here
    if is_distinct:
        return 1 if there == 0 else 0
    return here - there


@inlined
def write_value(
    table: Words, phase: int, state: Words, width: int, level: int, integers: Words, out: Numbers,
    stride: int, end: int,
) -> None:  # fmt: skip
    """Write a level's value to all rows since it was taken."""
    at = range_at(width, level)
    start = load(state, at + SINCE)
    store(state, at + SINCE, end)
    if start == end:
        return
    if level > 0:
        row = load(table, phase + 6) + SEED_LEVEL_WORDS * (level - 1)
        first, count = row + 5, 1
    else:
        first, count = load(table, phase + 3), load(table, phase)
    for number in range(count):
        column = load(table, first + number)
        value = show(integers, state, load(state, VALUES + column))
        write_run(out, column * stride + start, value, end - start)


@inlined
def write_block(
    words: Words, state: Words, at: int, integers: Words, out: Numbers, keys: int, counts: Words,
    filled: int, room: int, factor: int, is_distinct: bool,
) -> int:  # fmt: skip
    """Write entries of the last level's block while there is room; returns their number."""
    entry = load(state, at + NEXT_ENTRY)
    taken = min(load(state, at + SIZE) - entry, room)
    entries = load(state, at + BLOCK) + HEAD + entry
    weights = entries + load(state, at + CAPACITY)
    for step in range(taken):
        store(out, keys + step, show(integers, state, load(words, entries + step)))  # type: ignore[arg-type]
    if is_distinct:
        for step in range(taken):
            store(counts, filled + step, factor)
    elif factor == 1:
        for step in range(taken):
            store(counts, filled + step, load(words, weights + step))
    elif factor == -1:
        for step in range(taken):
            store(counts, filled + step, -load(words, weights + step))
    else:
        for step in range(taken):
            change = weigh(abs(factor), load(words, weights + step))
            if change < 0:
                store(state, OVERFLOWN, 1)
            store(counts, filled + step, change if factor > 0 else -change)
    store(state, at + NEXT_ENTRY, entry + taken)
    return taken


@inlined
def get_at(words: Words, reference: int, index: int, key: int) -> int:
    """The word of an id that most likely is at this index of a block, as in another version."""
    if reference & 1 == 0:
        header = load(words, reference + 1)
        if index < header & LOW and load(words, reference + HEAD + index) == key:
            return load(words, reference + HEAD + (SMALLEST << (header >> 32)) + index)
    return set_get(words, reference, key)


@inlined
def write_pairs(
    words: Words, here: Words, there: Words, table: Words, phase: int, state: Words, width: int,
    level: int, integers: Words, out: Numbers, counts: Words, rows: int, filled: int, side: int,
) -> int:  # fmt: skip
    """Write the entries of the last two levels, for an answer that exists only here, while they are
    blocks that fit; returns the rows filled by then. The level's own steps handle the remainder.
    """
    at = range_at(width, level)
    row = load(table, phase + 6) + SEED_LEVEL_WORDS * (level - 1)
    below = row + SEED_LEVEL_WORDS
    own_column, last_column = load(table, row + 5), load(table, below + 5)
    weighs, checks, first_check = load(table, row + 6), load(table, row + 8), load(table, row + 9)
    key_column, is_same = load(table, load(table, below + 4)), load(table, below + 7)
    root = load(here, load(table, below + 2 - side))
    other = load(there, load(table, below + 1 + side))
    stride = out.size // width
    column, keys = own_column * stride, last_column * stride
    factor = load(state, at - RANGE_WORDS + HERE)
    sign = -1 if side else 1
    key = load(state, VALUES + key_column)
    found = found_there = 0
    if not is_same:
        other = root
    if key_column != own_column:
        found, found_there = get_sets(words, root, other, key, state, side)
    entry, size = load(state, at + NEXT_ENTRY), load(state, at + SIZE)
    block = load(state, at + BLOCK) + HEAD
    capacity = load(state, at + CAPACITY)
    while entry < size:
        value = load(words, block + entry)
        weight = factor
        if weighs == WEIGHS:
            weight = weigh(weight, load(words, block + capacity + entry))
        if checks:
            store(state, VALUES + own_column, value)
            store(state, at + HERE, weight)
            store(state, at + THERE, 0)
            if not pass_checks(words, here, there, table, checks, first_check, state, at, side):
                entry += 1
                continue
            weight = load(state, at + HERE)
        if key_column == own_column:
            found, found_there = get_sets(words, root, other, value, state, side)
        if found == 0:
            entry += 1
            continue
        header = load(words, found + 1)
        taken = header & LOW
        if found & 1 or weight != 1 or taken > rows - filled:
            break
        entries = found + HEAD
        weights = entries + (SMALLEST << (header >> 32))
        shown = show(integers, state, value)
        if found == found_there:
            # One loop over all columns: sizes are small, and every loop has a start-up cost.
            for step in range(taken):
                store(out, column + filled + step, shown)  # type: ignore[arg-type]
                last = load(words, entries + step)
                store(out, keys + filled + step, show(integers, state, last))  # type: ignore[arg-type]
                store(counts, filled + step, sign * load(words, weights + step))
            filled += taken
        else:
            for step in range(taken):
                last, count = load(words, entries + step), load(words, weights + step)
                if get_at(words, found_there, step, last) == count:
                    store(out, column + filled, shown)  # type: ignore[arg-type]
                    store(out, keys + filled, show(integers, state, last))  # type: ignore[arg-type]
                    store(counts, filled, sign * count)
                    filled += 1
        entry += 1
    store(state, at + NEXT_ENTRY, entry)
    store(state, at + SINCE, filled)
    return filled


@inlined
def has_pairs(table: Words, phase: int, state: Words, width: int, level: int) -> bool:
    """Whether `write_pairs` may continue at this level: two sets, the last with plain weights, and
    nothing to carry for the other version.
    """
    at = range_at(width, level)
    row = load(table, phase + 6) + SEED_LEVEL_WORDS * (level - 1)
    below = row + SEED_LEVEL_WORDS
    use = load(table, row + 6)
    is_shared = load(state, at + SET_HERE) == load(state, at + SET_THERE)
    return bool(
        load(state, at - RANGE_WORDS + THERE) == 0
        and load(table, row) != TRIE
        and (use == LEADS or (use == WEIGHS and is_shared))
        and load(table, below) == SET and load(table, below + 3) == 1
        and load(table, below + 6) == WEIGHS and load(table, below + 8) == 0
    )  # fmt: skip


@kernel
def fill_changes(
    words: Words, old: Words, new: Words, table: Words, state: Words, integers: Words,
    out: Numbers, counts: Words, rows: int, width: int, is_distinct: bool,
) -> int:  # fmt: skip
    """Write the next changed answers to columns of `rows + WIDE` numbers, and the signed changes to
    `counts`.

    Returns their number; fewer than `rows` means the end. A multiplicity that does not fit sets
    `OVERFLOWN`. With a table of integers, columns hold values as in `triegs.read.kernels.answers`.
    """
    filled = 0
    stride = out.size // width
    number, level = load(state, PHASE), load(state, LEVEL)
    phase = load(table, TABLE_HEAD + number) if number < load(table, 0) else 0
    for each in range(load(table, 1)):
        store(state, range_at(width, each) + SINCE, 0)
    while filled < rows and number < load(table, 0):
        if level == NO_LEVEL:
            phase = load(table, TABLE_HEAD + number)
            open_seed(words, old, new, table, phase, state)
            level = 0
        last = load(table, phase + 5)
        at = range_at(width, level)
        write_value(table, phase, state, width, level, integers, out, stride, filled)
        if level == 0 and not next_seed(words, table, phase, state, width):
            number += 1
            level = NO_LEVEL
            continue
        side = load(state, IS_OLD)
        here, there = (old, new) if side else (new, old)
        if level == 0:
            found = pass_checks(
                words, here, there, table, load(table, phase + 7), load(table, phase + 8), state,
                at, side,
            )  # fmt: skip
            if not found:
                continue
        else:
            row = load(table, phase + 6) + SEED_LEVEL_WORDS * (level - 1)
            is_shared = load(state, at + SET_HERE) == load(state, at + SET_THERE)
            if (
                level == last and is_shared and load(table, row) != TRIE
                and load(table, row + 6) == WEIGHS and load(table, row + 8) == 0
            ):  # fmt: skip
                weight = load(state, at - RANGE_WORDS + HERE)
                other = load(state, at - RANGE_WORDS + THERE)
                if weight < 0 or other < 0:
                    store(state, OVERFLOWN, 1)
                factor = change_of(weight, other, side, is_distinct)
                keys = load(table, row + 5) * stride
                while factor != 0 and filled < rows:
                    filled += write_block(
                        words, state, at, integers, out, keys + filled, counts, filled,
                        rows - filled, factor, is_distinct,
                    )  # fmt: skip
                    if filled < rows and not set_next_block(words, state, at):
                        factor = 0
                store(state, at + SINCE, filled)
                if factor == 0:
                    level -= 1
                continue
            if (
                level == last - 1
                and not is_distinct
                and has_pairs(table, phase, state, width, level)
            ):
                filled = write_pairs(
                    words, here, there, table, phase, state, width, level, integers, out, counts,
                    rows, filled, side,
                )  # fmt: skip
                if filled == rows:
                    continue
            if load(table, row) == TRIE:
                found = trie_next(words, state, at)
            else:
                found = set_next(words, state, at)
            if not found:
                level -= 1
                continue
            if not take_entry(words, here, there, table, row, state, at, side):
                continue
        if level < last:
            level += 1
            row = load(table, phase + 6) + SEED_LEVEL_WORDS * (level - 1)
            open_change_level(words, here, there, table, row, state, width, level, side)
            store(state, range_at(width, level) + SINCE, filled)
            continue
        weight, other = load(state, at + HERE), load(state, at + THERE)
        if weight < 0 or other < 0:
            store(state, OVERFLOWN, 1)
        change = change_of(weight, other, side, is_distinct)
        if change != 0:
            store(counts, filled, change)
            filled += 1
    if number < load(table, 0) and level != NO_LEVEL:
        for each in range(level + 1):
            write_value(table, phase, state, width, each, integers, out, stride, filled)
    store(state, PHASE, number)
    store(state, LEVEL, level)
    return filled
