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

Most seeds exist in one version alone. Then no multiplicity there is carried, and all levels below
an entry are gathered at once and expanded as in `triegs.read.kernels.expansion`, each set once; an
entry that must be the same in both versions and is not is left out. If a chunk is too large, or a
multiplicity there is carried, the levels have one entry at a time.

The table is `[phases, maximum levels, (first word of a phase)…]`. A phase is `[columns, old root,
new root, first position, weighs, levels, first level, checks, first check]`; without columns its
only seed is the whole result. A level is `[kind, old root, new root, keys, position, first key,
use, is same, parent, end, checks, first check]`, where kind is `TRIE`, `SET` or `INSIDE` as in
`triegs.read.kernels.answers`, the keys are positions in the row, `use` is how an entry is used, and
parent and end are those of `triegs.read.kernels.expansion`; before the first level there is a row
for the seed. A check is `[old root, new root, keys, first key, weighs, is same]`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Numbers, Words, load, store, write_run
from triegs.read.kernels.answers import INSIDE, MISFIT, TRIE, show, show_entries
from triegs.read.kernels.differences import (
    KEY,
    NEW,
    OLD,
    column_at,
    get_at,
    next_difference,
    open_difference,
)
from triegs.read.kernels.expansion import (
    ABOVE,
    CAPACITY,
    COLUMN,
    FIRST,
    IS_HEAVY,
    KEYS,
    LEVEL_WORDS,
    PRODUCTS,
    START,
    UNTIL,
    WEIGHTS,
    WORDS,
    build_tables,
    meta,
    parent_of,
    section,
    size_chunk,
    span_of,
    weigh,
    write_below,
    write_weights,
)
from triegs.store.kernels.cursors import (
    CURSOR_WORDS,
    copy_set,
    set_first,
    set_next,
    take_trie,
    trie_first,
    trie_next,
)
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.cursors import WORD as CURSOR_WORD
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import trie_get

TABLE_HEAD = 2
PHASE_WORDS, CHECK_WORDS = 9, 6
KEYS_AT, USE, IS_SAME, CHECKS, CHECKS_AT = 5, 6, 7, 10, 11
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
            place = load(table, load(table, phase + 3) + column)
            store(state, VALUES + place, load(state, column_at(base, column) + KEY))
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
        keys, first = load(table, row + 3), load(table, row + KEYS_AT)
        root = load(here, load(table, row + 2 - side))
        root_there = root
        is_carried = load(state, at - RANGE_WORDS + THERE) != 0
        if load(table, row + USE) != LEADS and (is_carried or load(table, row + IS_SAME)):
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
    store(state, VALUES + load(table, row + COLUMN), key)
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
    use = load(table, row + USE)
    if use > BEGINS:
        if use == COUNTS_AS_ONE:
            word, word_there = 1, 1 if word_there != 0 else 0
        if load(table, row + IS_SAME) and word != word_there:
            return False
        weight, weight_there = weigh(weight, word), weigh(weight_there, word_there)
    store(state, at + HERE, weight)
    store(state, at + THERE, weight_there)
    return pass_checks(
        words,
        here,
        there,
        table,
        load(table, row + CHECKS),
        load(table, row + CHECKS_AT),
        state,
        at,
        side,
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
def row_of(table: Words, phase: int, level: int) -> int:
    return load(table, phase + 6) + LEVEL_WORDS * level


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
        first, count = row_of(table, phase, level) + COLUMN, 1
    else:
        first, count = load(table, phase + 3), load(table, phase)
    for number in range(count):
        place = load(table, first + number)
        value = show(integers, state, load(state, VALUES + place))
        write_run(out, place * stride + start, value, end - start)


@inlined
def recall_values(
    tree: Words, state: Words, scratch: Words, top: int, level: int, entry: int
) -> None:
    """Make the values of a gathered entry and of those above it the current ones."""
    while level > top:
        key = load(scratch, section(level, KEYS) + entry)
        store(state, VALUES + load(tree, LEVEL_WORDS * level + COLUMN), key)
        entry = load(scratch, section(level, ABOVE) + entry)
        level = parent_of(tree, level)


@inlined
def find_sets(
    words: Words, here: Words, there: Words, table: Words, tree: Words, state: Words,
    scratch: Words, width: int, top: int, level: int, entry: int, side: int,
) -> tuple[int, int]:  # fmt: skip
    """The sets of a level below an entry of its parent, whose values are the current ones. The one
    there is looked up only if entries must be the same.
    """
    row, parent = LEVEL_WORDS * level, parent_of(tree, level)
    if load(tree, row) == INSIDE:
        if parent <= top:
            at = range_at(width, parent)
            return load(state, at + WORD_HERE), load(state, at + WORD_THERE)
        found = load(scratch, section(parent, WORDS) + entry)
        return found, load(scratch, section(parent, PRODUCTS) + entry)
    root = load(here, load(tree, row + 2 - side))
    root_there = root
    if load(tree, row + IS_SAME) and load(tree, row + USE) != LEADS:
        root_there = load(there, load(tree, row + 1 + side))
    keys, first = load(tree, row + 3), load(tree, row + KEYS_AT)
    return find_both(words, root, root_there, table, keys, first, state, side, True)


@inlined
def keep_entries(
    words: Words, here: Words, there: Words, table: Words, tree: Words, state: Words,
    scratch: Words, width: int, level: int, size: int, taken: int, found: int, found_there: int,
    side: int,
) -> int:  # fmt: skip
    """Leave out entries that this phase must skip, and record the weights of the others; returns
    the number of entries kept.
    """
    row, at = LEVEL_WORDS * level, range_at(width, level)
    use, checks, first_check = (
        load(tree, row + USE), load(tree, row + CHECKS), load(tree, row + CHECKS_AT),
    )  # fmt: skip
    keys, inner = section(level, KEYS) + size, section(level, WORDS) + size
    weights, others = section(level, WEIGHTS) + size, section(level, PRODUCTS) + size
    is_trie, is_same = load(tree, row) == TRIE, load(tree, row + IS_SAME)
    kept = 0
    for place in range(taken):
        key, word = load(scratch, keys + place), load(scratch, inner + place)
        word_there = word
        if is_same and found != found_there:
            if is_trie:
                word_there = trie_get(words, found_there, key)
            else:
                word_there = get_at(words, found_there, place, key)
            if word_there == 0 or (use == WEIGHS and word != word_there):
                continue
        weight = word if use == WEIGHS else 1
        if checks:
            store(state, VALUES + load(tree, row + COLUMN), key)
            store(state, at + HERE, weight)
            store(state, at + THERE, 0)
            if not pass_checks(words, here, there, table, checks, first_check, state, at, side):
                continue
            weight = load(state, at + HERE)
        store(scratch, keys + kept, key)
        store(scratch, inner + kept, word)
        store(scratch, others + kept, word_there)
        store(scratch, weights + kept, weight)
        kept += 1
    return kept


@kernel
def gather_changes(
    words: Words, here: Words, there: Words, table: Words, tree: Words, state: Words,
    scratch: Words, width: int, top: int, level: int, side: int,
) -> int:  # fmt: skip
    """Gather the sets of a level below a chunk, for answers that do not exist there; returns the
    number of entries, or -1 if there are too many.
    """
    start, above, parent = section(level, START), section(level, ABOVE), parent_of(tree, level)
    keys, inner = section(level, KEYS), section(level, WORDS)
    row = LEVEL_WORDS * level
    is_plain = load(tree, row + CHECKS) == 0 and load(tree, row + USE) == WEIGHS
    first, until = span_of(tree, scratch, top, level)
    size = 0
    for entry in range(first, until):
        store(scratch, start + entry, size)
        recall_values(tree, state, scratch, top, parent, entry)
        found, found_there = find_sets(
            words, here, there, table, tree, state, scratch, width, top, level, entry, side
        )
        is_whole = is_plain and (found == found_there or load(tree, row + IS_SAME) == 0)
        to = section(level, WEIGHTS) if is_whole else inner
        if load(tree, row) == TRIE:
            trie_first(words, scratch, 0, found)
            taken = take_trie(words, scratch, 0, scratch, keys + size, to + size,
                              CAPACITY - size + 1)  # fmt: skip
            if taken > CAPACITY - size:
                return -1
        else:
            taken = copy_set(
                words, scratch, 0, found, scratch, keys + size, to + size, CAPACITY - size
            )
            if taken < 0:
                return -1
        if not is_whole:
            taken = keep_entries(
                words, here, there, table, tree, state, scratch, width, level, size, taken, found,
                found_there, side,
            )  # fmt: skip
        for place in range(size, size + taken):
            store(scratch, above + place, entry)
        size += taken
    store(scratch, start + until, size)
    others = 0
    for entry in range(size):
        others |= load(scratch, section(level, WEIGHTS) + entry) ^ 1
    store(scratch, meta(level) + FIRST, 0)
    store(scratch, meta(level) + UNTIL, size)
    store(scratch, meta(level) + IS_HEAVY, 1 if others != 0 else 0)
    return size


@kernel
def try_expansion(
    words: Words, here: Words, there: Words, table: Words, tree: Words, levels: int, state: Words,
    integers: Words, scratch: Words, shown: Numbers, width: int, top: int, side: int,
) -> int:  # fmt: skip
    """Gather all levels below the entry of a level; returns the number of rows, or -1 if there are
    too many.
    """
    store(scratch, meta(top) + FIRST, 0)
    store(scratch, meta(top) + UNTIL, 1)
    store(scratch, meta(top) + IS_HEAVY, 0)
    for level in range(top + 1, levels):
        size = gather_changes(
            words, here, there, table, tree, state, scratch, width, top, level, side
        )
        if size <= 0:
            return size
        show_entries(scratch, shown, state, integers, level, 0, size)
    if not build_tables(tree, levels, scratch, shown, top):
        return -1
    return size_chunk(tree, levels, scratch, top)


@kernel
def sign_changes(
    state: Words, counts: Words, start: int, end: int, side: int, is_distinct: bool
) -> None:
    """From multiplicities that only one version has to changes."""
    sign = -1 if side else 1
    for row in range(start, end):
        weight = load(counts, row)
        if weight < 0:
            store(state, OVERFLOWN, 1)
        store(counts, row, sign if is_distinct else sign * weight)


@inlined
def open_phase(table: Words, phase: int, tree: Words) -> int:
    """Copy the levels of a phase; returns their number, with the seed."""
    levels = load(table, phase + 5) + 1
    for word in range(LEVEL_WORDS * levels):
        store(tree, word, load(table, load(table, phase + 6) + word))
    return levels


@kernel
def fill_changes(
    words: Words, old: Words, new: Words, table: Words, state: Words, integers: Words, tree: Words,
    scratch: Words, shown: Numbers, out: Numbers, counts: Words, rows: int, width: int,
    is_distinct: bool,
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
    levels = open_phase(table, phase, tree) if number < load(table, 0) else 0
    for each in range(load(table, 1)):
        store(state, range_at(width, each) + SINCE, 0)
    while filled < rows and number < load(table, 0):
        if level == NO_LEVEL:
            phase = load(table, TABLE_HEAD + number)
            levels = open_phase(table, phase, tree)
            open_seed(words, old, new, table, phase, state)
            level = 0
        last = levels - 1
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
            row = row_of(table, phase, level)
            if load(table, row) == TRIE:
                found = trie_next(words, state, at)
            else:
                found = set_next(words, state, at)
            if not found:
                level -= 1
                continue
            if not take_entry(words, here, there, table, row, state, at, side):
                continue
        weight, other = load(state, at + HERE), load(state, at + THERE)
        if level < last and other == 0:
            size = try_expansion(
                words, here, there, table, tree, levels, state, integers, scratch, shown, width,
                level, side,
            )  # fmt: skip
            if size == 0:
                continue
            if 0 < size <= rows - filled:
                write_below(tree, levels, scratch, shown, level, 1, out, stride, filled)
                write_weights(tree, levels, scratch, level, 1, weight, counts, filled)
                sign_changes(state, counts, filled, filled + size, side, is_distinct)
                filled += size
                continue
        if level < last:
            level += 1
            row = row_of(table, phase, level)
            open_change_level(words, here, there, table, row, state, width, level, side)
            store(state, range_at(width, level) + SINCE, filled)
            continue
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
