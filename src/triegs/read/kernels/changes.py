"""The answers whose multiplicity differs between two versions, each once, into columns.

An answer consists of *entries* of relations, and its multiplicity is the product of their weights.
It has changed only if one of its entries has. So each entry of the enumeration gets a *phase*: the
differences of its relation are *seeds*; from a seed the levels of the phase ascend to the entries
above it, and descend to all others. Entries before the phase's own must be the same in both
versions, so an answer is found only in the phase of its first changed entry.

Seeds with a weight in the new version are followed there, which gives all answers that the new
version has. Those with a weight in the old version are followed there, for the answers that are
gone. The version being followed is *here*, the other one *there*. Seeds that exist in one version
only are followed apart from the others, because the multiplicity there is then zero, and nothing is
looked up there. So the seeds in memory are followed in four *passes*.

The answers of a pass are gathered and expanded like those of a snapshot, in chunks
(`triegs.read.kernels.expansion`), with the seeds as the first level; its set of columns are those
of the relation. Some entries do not count, because they are different there or because a check
excludes them; they are dropped from the chunk.

The table is `[phases, (offset of a phase)…]`. A phase is `[columns, new root, old root, weighs,
levels]`; without columns its only seed is the whole result. Its levels follow, rows as in
`triegs.read.kernels.answers` with another meaning of some words: `USE`, how an entry is used;
checks instead of factors; `FLAGS`, whether the level is deep, and whether its entries must be the
same there; `OLD_ROOT_AT`. A level of seeds has its further columns for keys. A check is `[new root,
old root, keys, first key, weighs, is same]`. Keys are levels, or columns of the seeds: -1 is the
first.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Numbers, Words, load, store, write_run
from triegs.read.kernels.answers import (
    HELD,
    INTERFACE,
    INTERFACE_AT,
    LEVEL,
    MOST,
    NEXT,
    ROOT_AT,
    SET,
    SINCE,
    TRIE,
    USUAL,
    VALUE,
    WEIGHT,
    base_of,
    build_chunk,
    show,
)
from triegs.read.kernels.change_levels import (
    DIFFERENCES_AT,
    FACTOR_NEW,
    FACTOR_OLD,
    HERE,
    INDEX,
    IS_LAST,
    IS_MIXED,
    IS_SHARED,
    MOST_SEEDS,
    NO_LEVEL,
    OLD_ROOT_AT,
    OTHER_SET,
    OTHER_WEIGHT,
    OTHER_WORD,
    OVERFLOWN,
    PASS,
    PASSES,
    PHASE,
    PHASE_WORDS,
    SEED,
    SEEDS,
    SIDE,
    THERE,
    admit_entries,
    find_pair,
    find_roots,
    gather_changes,
    mark_heavy,
    needs_other,
    pass_checks,
    seed_at,
    words_of,
)
from triegs.read.kernels.differences import (
    KEY,
    NEW,
    OLD,
    column_at,
    next_difference,
    open_difference,
)
from triegs.read.kernels.expansion import (
    CAPACITY,
    COLUMN,
    KEYS,
    LEVEL_WORDS,
    OTHER_WEIGHTS,
    OTHERS,
    POSITIONS_AT,
    WEIGHTS,
    WORDS,
    build_weights,
    find_fitting,
    has_weights,
    parent_of,
    section,
    weigh,
    write_chunk,
    write_weights,
)
from triegs.store.kernels.cursors import WORD, set_first, take_set, take_trie, trie_first


@kernel
def try_changes(
    words: Words, old: Words, new: Words, levels: Words, count: int, state: Words, integers: Words,
    scratch: Words, shown: Numbers, level: int, room: int,
) -> int:  # fmt: skip
    """Gather a chunk, as large as possible; returns the number of its rows, -1 if a single entry is
    too large.
    """
    base = base_of(level)
    usual = load(state, base + USUAL)
    first = load(state, base + NEXT)
    size = min(load(state, base + HELD) - first, load(state, base + MOST))
    if usual > room:
        store(state, base + USUAL, 0)  # the next one may be smaller
        return -1
    if usual > 0:
        size = min(size, max(room // usual, 1))
    while size > 0:
        until = first + size
        largest = gather_changes(
            words, old, new, levels, count, state, scratch, level, first, until
        )
        if largest >= 0:
            rows = build_chunk(levels, count, state, integers, scratch, shown, level, size, largest)
            if rows >= 0:
                return rows
        size //= 2
        store(state, base + MOST, max(size, 1))
    return -1


@inlined
def weight_of(state: Words, level: int, word: int, whole: int) -> int:
    """The product of the weights of fixed entries, here or there."""
    return load(state, base_of(level - 1) + word) if level > 0 else load(state, whole)


@kernel
def open_queue(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, level: int
) -> None:
    """Place the cursor of a level before its first entry; earlier levels are fixed."""
    row, base = LEVEL_WORDS * level, base_of(level)
    kind = load(levels, row)
    store(state, base + NEXT, 0)
    store(state, base + HELD, 0)
    if kind == SEED:
        return
    here, there = find_roots(
        old, new, levels, row + ROOT_AT, row + OLD_ROOT_AT, load(state, SIDE),
        needs_other(levels, state, row),
    )  # fmt: skip
    if kind == TRIE:
        trie_first(words, state, base, here)
    else:
        if kind == SET:
            count, first = load(levels, row + INTERFACE), load(levels, row + INTERFACE_AT)
            here, there = find_pair(
                words, levels, state, scratch, level, level, 0, here, there, count, first, True
            )
        else:
            above = base_of(parent_of(levels, level))
            here, there = load(state, above + WORD), load(state, above + OTHER_WORD)
        set_first(words, state, base, here)
    if not needs_other(levels, state, row):
        there = here
    store(state, base + OTHER_SET, there)
    store(state, base + IS_SHARED, 1 if here == there else 0)


@kernel
def fill_change_queue(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, level: int
) -> bool:
    """Take the next entries of a level; false if there are none. Seeds are queued by a pass."""
    row, base = LEVEL_WORDS * level, base_of(level)
    kind, most = load(levels, row), load(state, base + MOST)
    keys, found = section(level, KEYS), words_of(levels, level)
    held, taken = 0, 1
    while held == 0 and taken > 0 and kind != SEED:
        if kind == TRIE:
            taken = take_trie(words, state, base, scratch, keys, found, most)
        else:
            taken = take_set(words, state, base, scratch, keys, found, most)
        held = admit_entries(
            words, old, new, levels, state, scratch, level, level, 0, 0, taken,
            load(state, base + OTHER_SET), load(state, base + IS_SHARED) != 0,
        )  # fmt: skip
    store(state, base + NEXT, 0)
    store(state, base + HELD, held)
    return held > 0


@kernel
def fix_change(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, level: int,
    filled: int,
) -> None:  # fmt: skip
    """Fix the next entry of a level's queue, and open the next level below it."""
    base = base_of(level)
    entry = load(state, base + NEXT)
    store(state, base + NEXT, entry + 1)
    if level == 0:
        store(state, INDEX, entry)
    store(state, base + VALUE, load(scratch, section(level, KEYS) + entry))
    store(state, base + WORD, load(scratch, section(level, WORDS) + entry))
    store(state, base + OTHER_WORD, load(scratch, section(level, OTHERS) + entry))
    weight = load(scratch, section(level, WEIGHTS) + entry)
    other = load(scratch, section(level, OTHER_WEIGHTS) + entry)
    store(state, base + WEIGHT, weigh(weight_of(state, level, WEIGHT, HERE), weight))
    before = weight_of(state, level, OTHER_WEIGHT, THERE)
    store(state, base + OTHER_WEIGHT, weigh(before, other))
    store(state, base + SINCE, filled)
    open_queue(words, old, new, levels, state, scratch, level + 1)


@kernel
def write_seeds(
    levels: Words, state: Words, integers: Words, scratch: Words, first: int, until: int,
    out: Numbers, stride: int, filled: int,
) -> None:  # fmt: skip
    """Write the further columns of the seeds of a chunk."""
    at = load(levels, INTERFACE_AT)
    for number in range(load(levels, INTERFACE)):
        values = seed_at(state, 1 + number)
        to = load(levels, at + number) * stride + filled
        for entry in range(first, until):
            row = load(scratch, POSITIONS_AT + entry)
            size = load(scratch, POSITIONS_AT + entry + 1) - row
            write_run(out, to + row, show(integers, state, load(scratch, values + entry)), size)


@kernel
def write_fixed(
    levels: Words, state: Words, integers: Words, scratch: Words, level: int, out: Numbers,
    stride: int, end: int,
) -> None:  # fmt: skip
    """Write the values of a fixed level to all rows since it was fixed."""
    base = base_of(level)
    since = load(state, base + SINCE)
    store(state, base + SINCE, end)
    if end == since:
        return
    start = load(levels, LEVEL_WORDS * level + COLUMN) * stride
    value = show(integers, state, load(state, base + VALUE))
    write_run(out, start + since, value, end - since)
    if load(levels, LEVEL_WORDS * level) == SEED:
        for number in range(load(levels, INTERFACE)):
            start = load(levels, load(levels, INTERFACE_AT) + number) * stride
            value = load(scratch, seed_at(state, 1 + number) + load(state, INDEX))
            write_run(out, start + since, show(integers, state, value), end - since)


@kernel
def drop_unchanged(
    out: Numbers, width: int, stride: int, counts: Words, first: int, end: int
) -> int:
    """Drop the rows whose change is 0; returns the end of the others."""
    to = first
    for row in range(first, end):
        change = load(counts, row)
        if change != 0:
            if to != row:
                store(counts, to, change)
                for column in range(width):
                    at = column * stride
                    store(out, at + to, load(out, at + row))  # type: ignore[arg-type]
            to += 1
    return to


@kernel
def write_changes(
    levels: Words, count: int, state: Words, scratch: Words, level: int, until: int, counts: Words,
    others: Words, filled: int, is_distinct: bool,
) -> bool:  # fmt: skip
    """Write the changes of a chunk's rows; returns whether one may be 0."""
    rows = load(scratch, POSITIONS_AT + until)
    is_old, is_mixed = load(state, SIDE), load(state, IS_MIXED)
    weight = weight_of(state, level, WEIGHT, HERE)
    other = weight_of(state, level, OTHER_WEIGHT, THERE)
    sign = -1 if is_old else 1
    build_weights(levels, count, scratch, level, WEIGHTS)
    is_heavy = weight != 1 or has_weights(levels, count, scratch, level)
    if not is_heavy and not is_mixed:
        write_run(counts, filled, sign, rows)
        return False
    write_weights(levels, count, scratch, level, until, weight, counts, filled, WEIGHTS)
    least = 0
    for row in range(filled, filled + rows):
        least = min(least, load(counts, row))
    if is_mixed:
        for each in range(level, count):
            mark_heavy(scratch, each, OTHER_WEIGHTS)
        build_weights(levels, count, scratch, level, OTHER_WEIGHTS)
        write_weights(levels, count, scratch, level, until, other, others, 0, OTHER_WEIGHTS)
        for row in range(rows):
            least = min(least, load(others, row))
    if least < 0:
        store(state, OVERFLOWN, 1)
    for row in range(filled, filled + rows):
        there = load(others, row - filled) if is_mixed else 0
        change = load(counts, row)
        if is_distinct:
            change = sign if there == 0 else 0
        elif is_old:
            change = -change if there == 0 else 0
        else:
            change -= there
        store(counts, row, change)
    return is_mixed != 0


@kernel
def take_differences(
    words: Words, table: Words, phase: int, state: Words, scratch: Words, columns: int
) -> int:
    """Bring the next seeds into memory; returns their number."""
    base, most = load(state, DIFFERENCES_AT), load(state, MOST_SEEDS)
    weighs = load(table, phase + 3) != 0
    old_at, new_at = seed_at(state, 2 * columns + 2), seed_at(state, 2 * columns + 3)
    old_factor, new_factor = load(state, FACTOR_OLD), load(state, FACTOR_NEW)
    taken = 0
    if columns == 0:
        store(scratch, old_at, old_factor)
        store(scratch, new_at, new_factor)
        store(state, IS_LAST, 1)
        return 1
    while taken < most:
        if not next_difference(words, state, base, columns, weighs):
            store(state, IS_LAST, 1)
            break
        for column in range(columns):
            at = seed_at(state, columns + 2 + column) + taken
            store(scratch, at, load(state, column_at(base, column) + KEY))
        last = column_at(base, columns - 1)
        before, now = load(state, last + OLD), load(state, last + NEW)
        if not weighs:
            before, now = min(before, 1), min(now, 1)
        store(scratch, old_at + taken, weigh(old_factor, before))
        store(scratch, new_at + taken, weigh(new_factor, now))
        taken += 1
    store(state, MOST_SEEDS, min(4 * most, CAPACITY))
    return taken


@kernel
def next_pass(
    words: Words, old: Words, new: Words, table: Words, phase: int, levels: Words, state: Words,
    scratch: Words,
) -> bool:  # fmt: skip
    """Queue the seeds of the next pass that has any; false at the end of the phase."""
    columns = load(table, phase)
    while True:
        number = load(state, PASS) + 1
        if number == PASSES:
            if load(state, IS_LAST):
                return False
            found = take_differences(words, table, phase, state, scratch, columns)
            store(state, SEEDS, found)
            number = 0
        store(state, PASS, number)
        is_old, is_mixed = number >> 1, number & 1
        store(state, SIDE, is_old)
        store(state, IS_MIXED, is_mixed)
        held = 0
        for seed in range(load(state, SEEDS)):
            before = load(scratch, seed_at(state, 2 * columns + 2) + seed)
            now = load(scratch, seed_at(state, 2 * columns + 3) + seed)
            here, there = (before, now) if is_old else (now, before)
            if here == 0 or (there != 0) != (is_mixed != 0):
                continue
            if columns == 0:
                store(state, HERE, here)
                store(state, THERE, there)
                open_queue(words, old, new, levels, state, scratch, 0)
                return True
            for column in range(columns):
                value = load(scratch, seed_at(state, columns + 2 + column) + seed)
                store(scratch, seed_at(state, column) + held, value)
            store(scratch, section(0, KEYS) + held, load(scratch, seed_at(state, 0) + held))
            store(scratch, section(0, WEIGHTS) + held, here)
            store(scratch, section(0, OTHER_WEIGHTS) + held, there)
            if pass_checks(words, old, new, levels, state, scratch, 0, 0, held):
                held += 1
        if held > 0:
            store(state, base_of(0) + NEXT, 0)
            store(state, base_of(0) + HELD, held)
            return True


@kernel
def open_phase(
    words: Words, old: Words, new: Words, table: Words, number: int, state: Words, count: int
) -> None:
    phase = load(table, 1 + number)
    for level in range(count):
        store(state, base_of(level) + MOST, 4)
        store(state, base_of(level) + USUAL, 0)
    store(state, PASS, PASSES - 1)
    store(state, HERE, 1)
    store(state, THERE, 1)
    store(state, IS_LAST, 0)
    store(state, MOST_SEEDS, 16)
    if load(table, phase) > 0:
        new_root, old_root = load(new, load(table, phase + 1)), load(old, load(table, phase + 2))
        open_difference(words, state, load(state, DIFFERENCES_AT), old_root, new_root)


@kernel
def fill_changes(
    words: Words, old: Words, new: Words, table: Words, state: Words, integers: Words,
    scratch: Words, shown: Numbers, out: Numbers, counts: Words, rows: int, width: int,
    is_distinct: bool,
) -> int:  # fmt: skip
    """Write the next changed answers to columns of `rows + WIDE` numbers, and their changes to
    `counts`, which has twice as many. Returns their number; fewer than `rows` means the end.

    `OVERFLOWN` is set if a multiplicity does not fit.
    """
    stride = out.size // width
    others = counts[stride:]
    filled, number, level = 0, load(state, PHASE), load(state, LEVEL)
    while filled < rows and number < load(table, 0):
        phase = load(table, 1 + number)
        count = load(table, phase + 4)
        levels = table[phase + PHASE_WORDS :]
        if level == NO_LEVEL:
            if load(state, PASS) == PASSES:
                open_phase(words, old, new, table, number, state, count)
            if not next_pass(words, old, new, table, phase, levels, state, scratch):
                store(state, PASS, PASSES)
                number += 1
                continue
            level = 0
        base = base_of(level)
        if load(state, base + NEXT) == load(state, base + HELD) and not fill_change_queue(
            words, old, new, levels, state, scratch, level
        ):
            level -= 1  # from the first one to `NO_LEVEL`
            if level >= 0:
                write_fixed(levels, state, integers, scratch, level, out, stride, filled)
            continue
        first, room = load(state, base + NEXT), rows - filled
        until = first
        found = try_changes(
            words, old, new, levels, count, state, integers, scratch, shown, level, room
        )
        if found >= 0:
            until = find_fitting(scratch, level, room)
        if until == first:
            fix_change(words, old, new, levels, state, scratch, level, filled)
            level += 1
            continue
        write_chunk(levels, count, scratch, shown, level, until, out, stride, filled)
        if load(levels, LEVEL_WORDS * level) == SEED:
            write_seeds(levels, state, integers, scratch, first, until, out, stride, filled)
        end = filled + load(scratch, POSITIONS_AT + until)
        may_drop = write_changes(
            levels, count, state, scratch, level, until, counts, others, filled, is_distinct
        )
        store(state, base + NEXT, until)
        if may_drop:
            # Rows of fixed levels are written first, because dropping moves all columns.
            for each in range(level):
                write_fixed(levels, state, integers, scratch, each, out, stride, end)
            end = drop_unchanged(out, width, stride, counts, filled, end)
            for each in range(level):
                store(state, base_of(each) + SINCE, end)
        filled = end
    if level != NO_LEVEL and number < load(table, 0):
        levels = table[load(table, 1 + number) + PHASE_WORDS :]
        for each in range(level):
            write_fixed(levels, state, integers, scratch, each, out, stride, filled)
            store(state, base_of(each) + SINCE, 0)
    store(state, PHASE, number)
    store(state, LEVEL, level)
    return filled
