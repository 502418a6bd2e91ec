"""Enumeration into columns: chunk by chunk, each expanded level by level.

A row of levels is `[kind, root, keys, first key, column, weighs, factors, first factor, parent,
end, is deep, 0]`:

- kind `TRIE`: the first ids of a relation; `SET`: the ids below the values of some earlier levels;
  `INSIDE`: the ids below the entry of the parent;
- root: the word of the root vector that leads to the relation;
- keys: the levels whose values lead to the set;
- weighs: whether the word of an entry multiplies the multiplicity;
- factors: relations keyed by values of this level and earlier ones, whose counts also multiply it;
  each is `[root, keys, first key]`;
- parent and end: the tree of levels, see `triegs.read.kernels.expansion`; all keys are ancestors;
- is deep: whether a key of the level, or of one below it, is neither its own value nor its
  parent's.

Each level has a cursor and a *queue*, the next entries of the cursor. A chunk is the next entries
of one level's queue, with those of all later levels; the values of earlier levels are *fixed*. It
is as large as its gathered levels and the room in the columns allow. If a single entry is too
large, it is fixed, too, and the next level has the chunks below it, until its cursor ends. So the
work between two answers is bounded by the capacity of a chunk. Chunks start small, so the first
answers come at once.

With a table of integers, `(value, INTEGER)` by id, columns receive values instead of ids; an id
that is not an integer sets `MISFIT`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Numbers, Words, load, prefetch, store, write_run
from triegs.read.kernels.expansion import (
    ABOVE,
    CAPACITY,
    COLUMN,
    FIRST,
    IS_HEAVY,
    KEYS,
    LEVEL_WORDS,
    POSITIONS_AT,
    RUNS,
    START,
    UNTIL,
    WEIGHTS,
    WORDS,
    build_tables,
    build_weights,
    find_fitting,
    has_weights,
    meta,
    parent_of,
    section,
    side_at,
    size_chunk,
    span_of,
    weigh,
    write_chunk,
    write_weights,
)
from triegs.read.kernels.runs import append_value, write_runs
from triegs.store.kernels.cursors import (
    KEY,
    WORD,
    copy_set,
    set_first,
    set_next,
    take_set,
    take_trie,
    trie_first,
    trie_next,
    trie_seek,
)
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import trie_get

TRIE, SET, INSIDE = 0, 1, 2
ROOT_AT, INTERFACE, INTERFACE_AT = 1, 2, 3
WEIGHS, FACTORS, FACTORS_AT, IS_DEEP = 5, 6, 7, 10
FACTOR_WORDS = 3

# The state: some words, then one range per level, its cursor first.
PHASE, FACTOR, MISFIT = 0, 1, 2  # FACTOR multiplies every answer
LEVEL, IS_PLAIN = 3, 4  # the level of the chunks; whether all multiplicities so far are one
# The first level begins at this id and, unless it is 0, ends before that one.
FIRST_KEY, END_KEY = 5, 6
FORM = 7  # how answers are written: every row; as runs, `triegs.read.kernels.runs`; not at all
FLAT, FACTORISED, COUNTED = 0, 1, 2
NEW, RUNNING, DONE = 0, 1, 2
STATE_HEAD = 24  # changes use more of these words
INTEGER = -1  # as in triegs.terms.arrays
STATE_WORDS = 44
# After the cursor: value and multiplicity of the fixed entry, and its first row; the next entry of
# the queue and its end; the reference of the level's set; the total below it, for positions; the
# maximum size of a chunk, and how many rows an entry had.
VALUE, WEIGHT, SINCE, NEXT, HELD, REFERENCE, TOTAL, MOST, USUAL = 32, 33, 34, 35, 36, 37, 38, 39, 40


@inlined
def base_of(level: int) -> int:
    return STATE_HEAD + STATE_WORDS * level


@inlined
def find_below(
    words: Words, roots: Words, levels: Words, state: Words, root: int, keys: int, first: int
) -> int:
    """The word that the values of some fixed levels lead to in a relation."""
    word = load(roots, root)
    for number in range(keys):
        value = load(state, base_of(load(levels, first + number)) + VALUE)
        word = trie_get(words, word, value) if number == 0 else set_get(words, word, value)
    return word


@inlined
def find_gathered(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, top: int, level: int,
    entry: int, root: int, keys: int, first: int,
) -> int:  # fmt: skip
    """The same for an entry of a gathered level and its ancestors."""
    word = load(roots, root)
    for number in range(keys):
        wanted = load(levels, first + number)
        if wanted < top:
            value = load(state, base_of(wanted) + VALUE)
        else:
            at, index = level, entry
            while at != wanted:
                index = load(scratch, section(at, ABOVE) + index)
                at = parent_of(levels, at)
            value = load(scratch, section(at, KEYS) + index)
        word = trie_get(words, word, value) if number == 0 else set_get(words, word, value)
    return word


@inlined
def open_level(words: Words, roots: Words, levels: Words, state: Words, level: int) -> None:
    """Place the cursor of a level before its first entry; earlier levels are fixed."""
    row, base = LEVEL_WORDS * level, base_of(level)
    kind, root = load(levels, row), load(levels, row + 1)
    if kind == TRIE:
        trie_first(words, state, base, load(roots, root))
    else:
        if kind == SET:
            keys, first = load(levels, row + INTERFACE), load(levels, row + INTERFACE_AT)
            reference = find_below(words, roots, levels, state, root, keys, first)
        else:
            reference = load(state, base_of(parent_of(levels, level)) + WORD)
        store(state, base + REFERENCE, reference)
        set_first(words, state, base, reference)
    store(state, base + NEXT, 0)
    store(state, base + HELD, 0)


@inlined
def move_level(words: Words, levels: Words, state: Words, level: int) -> bool:
    if load(levels, LEVEL_WORDS * level) == TRIE:
        return trie_next(words, state, base_of(level))
    return set_next(words, state, base_of(level))


@inlined
def weight_above(state: Words, level: int) -> int:
    """The product of the weights of fixed entries."""
    return load(state, base_of(level - 1) + WEIGHT) if level > 0 else load(state, FACTOR)


@inlined
def take_value(words: Words, roots: Words, levels: Words, state: Words, level: int) -> None:
    """Fix the entry at the level's cursor."""
    row, base = LEVEL_WORDS * level, base_of(level)
    store(state, base + VALUE, load(state, base + KEY))
    weight = weight_above(state, level)
    if load(levels, row + WEIGHS):
        weight = weigh(weight, load(state, base + WORD))
    for number in range(load(levels, row + FACTORS)):
        factor = load(levels, row + FACTORS_AT) + FACTOR_WORDS * number
        keys, first = load(levels, factor + 1), load(levels, factor + 2)
        count = find_below(words, roots, levels, state, load(levels, factor), keys, first)
        weight = weigh(weight, count)
    store(state, base + WEIGHT, weight)


@inlined
def show(integers: Words, state: Words, key: int) -> int:
    """The number that a column receives for an id."""
    if integers.size == 0:
        return key
    if load(integers, 2 * key + 1) != INTEGER:
        store(state, MISFIT, 1)
    return load(integers, 2 * key)


@kernel
def show_entries(
    scratch: Words, shown: Numbers, state: Words, integers: Words, level: int, first: int,
    until: int,
) -> None:  # fmt: skip
    """Write what columns show for the entries of a level."""
    keys, values = section(level, KEYS), side_at(level, 0)
    if integers.size == 0:
        for entry in range(first, until):
            store(shown, values + entry, load(scratch, keys + entry))  # type: ignore[arg-type]
    else:
        for entry in range(first, until):
            value = show(integers, state, load(scratch, keys + entry))
            store(shown, values + entry, value)  # type: ignore[arg-type]


@inlined
def write_stretch(
    levels: Words, count: int, state: Words, integers: Words, scratch: Words, level: int,
    out: Numbers, stride: int, end: int,
) -> None:  # fmt: skip
    """Write the value of a fixed level to all rows since it was fixed."""
    base, form = base_of(level), load(state, FORM)
    since = load(state, base + SINCE)
    store(state, base + SINCE, end)
    if form == COUNTED or end == since:
        return
    value = show(integers, state, load(state, base + VALUE))
    if form == FACTORISED:
        append_value(levels, count, scratch, level, out, stride, value, end)
    else:
        start = load(levels, LEVEL_WORDS * level + COLUMN) * stride
        write_run(out, start + since, value, end - since)


@inlined
def weigh_entries(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, top: int, level: int,
    size: int,
) -> None:  # fmt: skip
    """Record the weights of gathered entries, whose words are there, and whether one is not 1."""
    row, weights = LEVEL_WORDS * level, section(level, WEIGHTS)
    weighs, factors = load(levels, row + WEIGHS), load(levels, row + FACTORS)
    if factors:
        for entry in range(size):
            weight = load(scratch, weights + entry) if weighs else 1
            for number in range(factors):
                factor = load(levels, row + FACTORS_AT) + FACTOR_WORDS * number
                count = find_gathered(
                    words, roots, levels, state, scratch, top, level, entry, load(levels, factor),
                    load(levels, factor + 1), load(levels, factor + 2),
                )  # fmt: skip
                weight = weigh(weight, count)
            store(scratch, weights + entry, weight)
    others = 0
    if weighs or factors:
        for entry in range(size):
            others |= load(scratch, weights + entry) ^ 1
    store(scratch, meta(level) + IS_HEAVY, 1 if others != 0 else 0)


@inlined
def list_references(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, top: int, level: int
) -> None:
    """Look up the set of a level for each entry of its parent. All at once: lookups wait for
    memory, and these do not wait for each other.
    """
    row, start, parent = LEVEL_WORDS * level, section(level, START), parent_of(levels, level)
    root, keys = load(levels, row + ROOT_AT), load(levels, row + INTERFACE)
    first_key = load(levels, row + INTERFACE_AT)
    first, until = span_of(levels, scratch, top, level)
    if load(levels, row) == INSIDE:
        for entry in range(first, until):
            if parent < top:
                reference = load(state, base_of(parent) + WORD)
            else:
                reference = load(scratch, section(parent, WORDS) + entry)
            store(scratch, start + entry, reference)
    elif parent >= top and keys == 1 and load(levels, first_key) == parent:
        trie, above = load(roots, root), section(parent, KEYS)
        for entry in range(first, until):
            reference = trie_get(words, trie, load(scratch, above + entry))
            prefetch(words, reference)
            store(scratch, start + entry, reference)
    else:
        for entry in range(first, until):
            reference = find_gathered(
                words, roots, levels, state, scratch, top, parent, entry, root, keys, first_key
            )
            store(scratch, start + entry, reference)


@kernel
def gather_level(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, top: int, level: int
) -> int:
    """Gather the sets of a level for all entries of its parent; returns the number of entries, or
    -1 if there are too many.
    """
    row = LEVEL_WORDS * level
    keys, start = section(level, KEYS), section(level, START)
    found = section(level, WEIGHTS if load(levels, row + WEIGHS) else WORDS)
    first, until = span_of(levels, scratch, top, level)
    size = 0
    if load(levels, row) == TRIE:
        trie_first(words, scratch, 0, load(roots, load(levels, row + 1)))
        size = take_trie(words, scratch, 0, scratch, keys, found, CAPACITY + 1)
        if size > CAPACITY:
            return -1
        store(scratch, start, 0)
    else:
        list_references(words, roots, levels, state, scratch, top, level)
        for entry in range(first, until):
            reference = load(scratch, start + entry)
            store(scratch, start + entry, size)
            taken = copy_set(
                words, scratch, 0, reference, scratch, keys + size, found + size, CAPACITY - size
            )
            if taken < 0:
                return -1
            size += taken
    store(scratch, start + until, size)
    if load(levels, row + IS_DEEP):
        above = section(level, ABOVE)
        for entry in range(first, until):
            for child in range(load(scratch, start + entry), load(scratch, start + entry + 1)):
                store(scratch, above + child, entry)
    store(scratch, meta(level) + FIRST, 0)
    store(scratch, meta(level) + UNTIL, size)
    weigh_entries(words, roots, levels, state, scratch, top, level, size)
    return size


@kernel
def gather_chunk(
    words: Words, roots: Words, levels: Words, count: int, state: Words, scratch: Words, top: int,
    first: int, until: int,
) -> int:  # fmt: skip
    """Gather all levels after the top for some entries of its queue; returns the size of the
    largest level, or -1 if it is too large.
    """
    store(scratch, meta(top) + FIRST, first)
    store(scratch, meta(top) + UNTIL, until)
    most = until - first
    for level in range(top + 1, count):
        size = gather_level(words, roots, levels, state, scratch, top, level)
        if size < 0:
            return -1
        most = max(most, size)
    return most


@kernel
def fill_queue(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, level: int
) -> bool:
    """Take the next entries of a level's cursor; false if there are none."""
    row, base = LEVEL_WORDS * level, base_of(level)
    keys, most = section(level, KEYS), load(state, base + MOST)
    found = section(level, WEIGHTS if load(levels, row + WEIGHS) else WORDS)
    if load(levels, row) == TRIE:
        taken = take_trie(words, state, base, scratch, keys, found, most)
    else:
        taken = take_set(words, state, base, scratch, keys, found, most)
    end = load(state, END_KEY)
    if level == 0 and end != 0:
        while taken > 0 and load(scratch, keys + taken - 1) >= end:
            taken -= 1
    store(state, base + NEXT, 0)
    store(state, base + HELD, taken)
    weigh_entries(words, roots, levels, state, scratch, level, level, taken)
    return taken > 0


@kernel
def fix_entry(
    words: Words, roots: Words, levels: Words, state: Words, scratch: Words, level: int, filled: int
) -> None:
    """Fix the next entry of a level's queue, and open the next level below it."""
    row, base = LEVEL_WORDS * level, base_of(level)
    entry = load(state, base + NEXT)
    store(state, base + NEXT, entry + 1)
    store(state, base + VALUE, load(scratch, section(level, KEYS) + entry))
    store(state, base + WORD, load(scratch, section(level, WORDS) + entry))
    weight = weight_above(state, level)
    if load(levels, row + WEIGHS) or load(levels, row + FACTORS):
        weight = weigh(weight, load(scratch, section(level, WEIGHTS) + entry))
    store(state, base + WEIGHT, weight)
    store(state, base + SINCE, filled)
    open_level(words, roots, levels, state, level + 1)


@inlined
def begin(words: Words, roots: Words, levels: Words, count: int, state: Words) -> bool:
    """Open the first level; false if a component is empty, so that there are no answers."""
    for level in range(count):
        store(state, base_of(level) + MOST, 1)
        row = LEVEL_WORDS * level
        if load(levels, row) == TRIE and load(roots, load(levels, row + 1)) == 0:
            return False
    open_level(words, roots, levels, state, 0)
    if load(state, FIRST_KEY) != 0:
        root = load(roots, load(levels, ROOT_AT))
        trie_seek(words, state, base_of(0), root, load(state, FIRST_KEY))
    store(state, LEVEL, 0)
    return True


@kernel
def build_chunk(
    levels: Words, count: int, state: Words, integers: Words, scratch: Words, shown: Numbers,
    level: int, size: int, largest: int,
) -> int:  # fmt: skip
    """Build the tables of a gathered chunk; returns the number of its rows, -1 if a table is too
    large. The next chunk may be larger if this one, of so many entries, has small levels.
    """
    base = base_of(level)
    for each in range(level, count):
        start, end = load(scratch, meta(each) + FIRST), load(scratch, meta(each) + UNTIL)
        show_entries(scratch, shown, state, integers, each, start, end)
    if not build_tables(levels, count, scratch, shown, level):
        return -1
    rows = size_chunk(levels, count, scratch, level)
    store(state, base + USUAL, (rows + size - 1) // size)
    if size == load(state, base + MOST) and 3 * largest < CAPACITY:
        store(state, base + MOST, 2 * size)
    return rows


@kernel
def try_chunk(
    words: Words, roots: Words, levels: Words, count: int, state: Words, integers: Words,
    scratch: Words, shown: Numbers, level: int, room: int,
) -> int:  # fmt: skip
    """Gather a chunk, as large as possible; returns the number of its rows, -1 if a single entry is
    too large.
    """
    base = base_of(level)
    usual = load(state, base + USUAL)
    if usual > room:
        store(state, base + USUAL, 0)  # the next one may be smaller
        return -1
    first = load(state, base + NEXT)
    size = min(load(state, base + HELD) - first, load(state, base + MOST))
    if usual > 0:
        size = min(size, max(room // usual, 1))
    while size > 0:
        until = first + size
        largest = gather_chunk(words, roots, levels, count, state, scratch, level, first, until)
        if largest >= 0:
            rows = build_chunk(levels, count, state, integers, scratch, shown, level, size, largest)
            if rows >= 0:
                build_weights(levels, count, scratch, level, WEIGHTS)
                return rows
        size //= 2
        store(state, base + MOST, max(size, 1))
    return -1


@kernel
def fill_answers(
    words: Words, roots: Words, levels: Words, count: int, state: Words, integers: Words,
    scratch: Words, shown: Numbers, out: Numbers, counts: Words, rows: int,
) -> int:  # fmt: skip
    """Write the next answers to columns of `rows + WIDE` numbers, and their multiplicities, which
    are negative if they exceed 64 bits, to `counts`, unless `IS_PLAIN` says that all are one.

    Returns the number of answers; fewer than `rows` means the end. If they are only counted,
    nothing is written.
    """
    form, filled = load(state, FORM), 0
    stride = out.size // (2 * count if form == FACTORISED else count)
    if load(state, PHASE) == NEW:
        store(state, PHASE, RUNNING)
        if not begin(words, roots, levels, count, state):
            store(state, PHASE, DONE)
    if load(state, PHASE) == DONE:
        return 0
    store(state, IS_PLAIN, 1)
    for level in range(count):
        store(state, base_of(level) + SINCE, 0)
        store(scratch, meta(level) + RUNS, 0)
    level = load(state, LEVEL)
    while filled < rows:
        base = base_of(level)
        if load(state, base + NEXT) == load(state, base + HELD) and not fill_queue(
            words, roots, levels, state, scratch, level
        ):
            if level == 0:
                store(state, PHASE, DONE)
                break
            level -= 1
            write_stretch(levels, count, state, integers, scratch, level, out, stride, filled)
            continue
        first, room = load(state, base + NEXT), rows - filled
        until = first
        found = try_chunk(words, roots, levels, count, state, integers, scratch, shown, level, room)
        if found >= 0:
            until = find_fitting(scratch, level, room)
        if until == first:
            fix_entry(words, roots, levels, state, scratch, level, filled)
            level += 1
            continue
        if form == FLAT:
            write_chunk(levels, count, scratch, shown, level, until, out, stride, filled)
        elif form == FACTORISED:
            write_runs(levels, count, scratch, shown, level, until, out, stride, filled)
        weight = weight_above(state, level)
        if load(state, IS_PLAIN) and (weight != 1 or has_weights(levels, count, scratch, level)):
            store(state, IS_PLAIN, 0)
            write_run(counts, 0, 1, filled if form != COUNTED else 0)
        if load(state, IS_PLAIN) == 0 and form != COUNTED:
            write_weights(levels, count, scratch, level, until, weight, counts, filled, WEIGHTS)
        filled += load(scratch, POSITIONS_AT + until)
        store(state, base + NEXT, until)
    for each in range(level):
        write_stretch(levels, count, state, integers, scratch, each, out, stride, filled)
    store(state, LEVEL, level)
    return filled
