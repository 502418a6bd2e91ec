"""The levels of a phase of changes: their tables, and how their entries are gathered.

See `triegs.read.kernels.changes`, which follows seeds through these levels.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import LINE_WORDS, Words, load, prefetch, store
from triegs.read.kernels.answers import (
    INTERFACE,
    INTERFACE_AT,
    MISFIT,
    ROOT_AT,
    SET,
    STATE_HEAD,
    STATE_WORDS,
    TRIE,
    VALUE,
    base_of,
)
from triegs.read.kernels.expansion import (
    ABOVE,
    BEGIN,
    CAPACITY,
    FIRST,
    IS_HEAVY,
    KEYS,
    LEVEL_WORDS,
    OTHER_WEIGHTS,
    OTHERS,
    START,
    STRIDE,
    UNTIL,
    WEIGHTS,
    WORDS,
    meta,
    parent_of,
    scratch_words,
    section,
    span_of,
    weigh,
)
from triegs.store.kernels.cursors import WORD, copy_set, take_trie, trie_first
from triegs.store.kernels.layout import DIGIT, HEAD
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import find_leaf, trie_get

SEED = 3  # a kind of level, beside those of answers
PHASE_WORDS, CHECK_WORDS = 5, 6
USE, CHECKS, CHECKS_AT, FLAGS, OLD_ROOT_AT = 5, 6, 7, 10, 11
SAME, DEEP = 1, 2
# Uses of an entry: it only leads further; it is the first section of an entry; its presence counts;
# its weight counts.
LEADS, BEGINS, COUNTS_AS_ONE, WEIGHS = 0, 1, 2, 3

# Words of the state; its ranges of levels are those of answers. `SEEDS` are in memory, of which the
# pass follows some; `INDEX` is the one that is fixed.
PHASE = 0
FACTOR_OLD, FACTOR_NEW, OVERFLOWN, PASS, SEEDS, IS_LAST, MOST_SEEDS, INDEX = range(8, 16)
# The number of the earlier version, or that of none; whether the new one is the earlier; the
# version being followed, and whether seeds also exist there.
EARLIER, IS_BACKWARDS, SIDE, IS_MIXED, DIFFERENCES_AT, SEEDS_AT = range(16, 22)
HERE, THERE = 22, 23  # what multiplies every answer, if the whole result is the seed; else 1
assert THERE < STATE_HEAD
assert MISFIT == 2
NEVER = -1
NO_LEVEL = -1
PASSES = 4
# More words of a level: the multiplicity and the word of its fixed entry there; the set that its
# cursor reads, as it is there, and whether that is the same one.
OTHER_WEIGHT, OTHER_WORD, OTHER_SET, IS_SHARED = 38, 41, 42, 43
assert IS_SHARED < STATE_WORDS


def change_words(levels: int, columns: int) -> int:
    """The scratch memory: that of levels, then the seeds that a pass follows, their columns and
    two weights, and the same for all seeds in memory.
    """
    return scratch_words(levels) + 2 * (columns + 2) * STRIDE


@inlined
def seed_at(state: Words, number: int) -> int:
    """A section of seeds: the columns of those of the pass, their weights here and there; then the
    columns of all, their weights in the old and the new version.
    """
    return load(state, SEEDS_AT) + STRIDE * number


@inlined
def find_value(
    levels: Words, state: Words, scratch: Words, top: int, level: int, entry: int, wanted: int
) -> int:
    """The value of a level, or of a column of the seeds, for an entry of the same level or of one
    below it.
    """
    if wanted >= top:
        while level != wanted:
            entry = load(scratch, section(level, ABOVE) + entry)
            level = parent_of(levels, level)
        return load(scratch, section(level, KEYS) + entry)
    if wanted >= 0:
        return load(state, base_of(wanted) + VALUE)
    if top > 0:
        entry = load(state, INDEX)
    else:
        while level != 0:
            entry = load(scratch, section(level, ABOVE) + entry)
            level = parent_of(levels, level)
    return load(scratch, seed_at(state, -1 - wanted) + entry)


@inlined
def get_sets(words: Words, here: int, there: int, value: int, state: Words) -> tuple[int, int]:
    """The sets below an id in two versions of a trie. A set of the later version that is no younger
    than the earlier version also belongs to the earlier one.
    """
    if load(state, IS_BACKWARDS) == load(state, SIDE):
        later, earlier = here, there
    else:
        later, earlier = there, here
    found = trie_get(words, later, value)
    if later == earlier or (found != 0 and load(words, found & ~1) <= load(state, EARLIER)):
        return found, found
    other = trie_get(words, earlier, value)
    return (found, other) if later == here else (other, found)


@kernel
def find_pair(
    words: Words, levels: Words, state: Words, scratch: Words, top: int, level: int, entry: int,
    here: int, there: int, keys: int, first: int, is_set: bool,
) -> tuple[int, int]:  # fmt: skip
    """The words that the values of some levels lead to from two roots; shared words are looked up
    once. `is_set` says that these words are sets.
    """
    for number in range(keys):
        wanted = load(levels, first + number)
        value = find_value(levels, state, scratch, top, level, entry, wanted)
        if number == 0 and (keys > 1 or is_set):
            here, there = get_sets(words, here, there, value, state)
        else:
            is_shared = here == there
            found = trie_get(words, here, value) if number == 0 else set_get(words, here, value)
            if is_shared:
                there = found
            else:
                there = (
                    trie_get(words, there, value) if number == 0 else set_get(words, there, value)
                )
            here = found
    return here, there


@inlined
def find_roots(
    old: Words, new: Words, levels: Words, new_at: int, old_at: int, is_old: int, needs: bool
) -> tuple[int, int]:
    """The roots of a relation here and there; the same if there is not needed."""
    here = load(old, load(levels, old_at)) if is_old else load(new, load(levels, new_at))
    if not needs:
        return here, here
    return here, load(new, load(levels, new_at)) if is_old else load(old, load(levels, old_at))


@kernel
def pass_checks(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, top: int,
    level: int, entry: int,
) -> bool:  # fmt: skip
    """Multiply an entry by what has no level of its own; false if a check excludes it."""
    row = LEVEL_WORDS * level
    is_mixed, side = load(state, IS_MIXED), load(state, SIDE)
    check = load(levels, row + CHECKS_AT)
    at, other_at = section(level, WEIGHTS) + entry, section(level, OTHER_WEIGHTS) + entry
    for _ in range(load(levels, row + CHECKS)):
        keys, first = load(levels, check + 2), load(levels, check + 3)
        is_same = load(levels, check + 5)
        here, there = find_roots(
            old, new, levels, check, check + 1, side, is_same != 0 or is_mixed != 0
        )
        weight, other = find_pair(
            words, levels, state, scratch, top, level, entry, here, there, keys, first, False
        )
        if weight == 0:
            return False
        if load(levels, check + 4) == 0:
            weight, other = 1, 1 if other != 0 else 0
        if is_same and weight != other:
            return False
        store(scratch, at, weigh(load(scratch, at), weight))
        store(scratch, other_at, weigh(load(scratch, other_at), other))
        check += CHECK_WORDS
    return True


@inlined
def words_of(levels: Words, level: int) -> int:
    """The section that receives the words of a level's entries: weights, or what leads further."""
    is_weight = load(levels, LEVEL_WORDS * level + USE) == WEIGHS
    return section(level, WEIGHTS if is_weight else WORDS)


@kernel
def admit_entries(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, top: int,
    level: int, above: int, start: int, size: int, other_set: int, is_shared: bool,
) -> int:  # fmt: skip
    """Weigh the gathered entries from `start` to `size`, and drop those that do not count; returns
    the end of the rest. `above` is the entry of the parent.
    """
    row = LEVEL_WORDS * level
    use, is_same = load(levels, row + USE), load(levels, row + FLAGS) & SAME != 0
    kind, checks = load(levels, row), load(levels, row + CHECKS)
    keys, found, others = section(level, KEYS), words_of(levels, level), section(level, OTHERS)
    weights, other_weights = section(level, WEIGHTS), section(level, OTHER_WEIGHTS)
    to = start
    for index in range(start, size):
        key, word = load(scratch, keys + index), load(scratch, found + index)
        other = word
        if not is_shared:
            if kind == TRIE:
                other = trie_get(words, other_set, key)
            else:
                other = set_get(words, other_set, key)
        weight, other_weight = 1, 1
        if use == WEIGHS:
            weight, other_weight = word, other
        elif use == COUNTS_AS_ONE and other == 0:
            other_weight = 0
        if is_same and weight != other_weight:
            continue
        store(scratch, keys + to, key)
        store(scratch, found + to, word)
        store(scratch, others + to, other)
        store(scratch, weights + to, weight)
        store(scratch, other_weights + to, other_weight)
        store(scratch, section(level, ABOVE) + to, above)
        if checks == 0 or pass_checks(words, old, new, levels, state, scratch, top, level, to):
            to += 1
    return to


@inlined
def needs_other(levels: Words, state: Words, row: int) -> bool:
    """Whether the entries of a level are also looked up in the other version."""
    is_same = load(levels, row + FLAGS) & SAME != 0
    return load(levels, row + USE) != LEADS and (is_same or load(state, IS_MIXED) != 0)


@kernel
def mark_heavy(scratch: Words, level: int, kind: int) -> None:
    """Record whether a weight of a level's own entries is not one."""
    others, weights = 0, section(level, kind)
    for entry in range(load(scratch, meta(level) + FIRST), load(scratch, meta(level) + UNTIL)):
        others |= load(scratch, weights + entry) ^ 1
    store(scratch, meta(level) + IS_HEAVY, 1 if others != 0 else 0)


@kernel
def gather_entries(
    words: Words, old: Words, new: Words, levels: Words, state: Words, scratch: Words, top: int,
    level: int,
) -> int:  # fmt: skip
    """Gather the sets of a level for all entries of its parent; returns the number of entries, or
    -1 if there are too many.
    """
    row, parent = LEVEL_WORDS * level, parent_of(levels, level)
    kind, keys, start = load(levels, row), section(level, KEYS), section(level, START)
    found, theirs = words_of(levels, level), section(level, BEGIN)
    count, first_key = load(levels, row + INTERFACE), load(levels, row + INTERFACE_AT)
    first, until = span_of(levels, scratch, top, level)
    needs = needs_other(levels, state, row)
    here, there = find_roots(
        old, new, levels, row + ROOT_AT, row + OLD_ROOT_AT, load(state, SIDE), needs
    )
    is_deep = load(levels, row + FLAGS) & DEEP != 0
    # Sections of an entry lead further in both versions, so both of their words are kept.
    is_plain = load(levels, row + CHECKS) == 0 and load(state, IS_MIXED) == 0
    is_plain = is_plain and not (needs and load(levels, row + USE) == BEGINS)
    size = 0
    if kind == TRIE:
        trie_first(words, scratch, 0, here)
        taken = take_trie(words, scratch, 0, scratch, keys, found, CAPACITY + 1)
        if taken > CAPACITY:
            return -1
        store(scratch, start, 0)
        size = admit_entries(
            words, old, new, levels, state, scratch, top, level, 0, 0, taken, there, here == there
        )
        store(scratch, start + 1, size)
        return size
    # All sets at once: lookups wait for memory, and these do not wait for each other.
    if kind == SET and count == 1:
        wanted = load(levels, first_key)
        for entry in range(first, until):
            value = find_value(levels, state, scratch, top, parent, entry, wanted)
            prefetch(words, find_leaf(words, here, value) + HEAD + (value & DIGIT))
    for entry in range(first, until):
        if kind == SET:
            ours, other = find_pair(
                words, levels, state, scratch, top, parent, entry, here, there, count, first_key,
                True,
            )  # fmt: skip
        elif parent < top:
            ours = load(state, base_of(parent) + WORD)
            other = load(state, base_of(parent) + OTHER_WORD)
        else:
            ours = load(scratch, section(parent, WORDS) + entry)
            other = load(scratch, section(parent, OTHERS) + entry)
        prefetch(words, ours)
        prefetch(words, ours + LINE_WORDS)
        store(scratch, start + entry, ours)
        store(scratch, theirs + entry, other if needs else ours)
    for entry in range(first, until):
        ours, other = load(scratch, start + entry), load(scratch, theirs + entry)
        store(scratch, start + entry, size)
        taken = copy_set(
            words, scratch, 0, ours, scratch, keys + size, found + size, CAPACITY - size
        )
        if taken < 0:
            return -1
        if is_plain and ours == other:  # all of them count, by their words alone
            if is_deep:
                for index in range(size, size + taken):
                    store(scratch, section(level, ABOVE) + index, entry)
            size += taken
        else:
            size = admit_entries(
                words, old, new, levels, state, scratch, top, level, entry, size, size + taken,
                other, ours == other,
            )  # fmt: skip
    store(scratch, start + until, size)
    return size


@kernel
def gather_changes(
    words: Words, old: Words, new: Words, levels: Words, count: int, state: Words, scratch: Words,
    top: int, first: int, until: int,
) -> int:  # fmt: skip
    """Gather all levels after the top for some entries of its queue; returns the size of the
    largest level, or -1 if it is too large.
    """
    store(scratch, meta(top) + FIRST, first)
    store(scratch, meta(top) + UNTIL, until)
    mark_heavy(scratch, top, WEIGHTS)
    most = until - first
    for level in range(top + 1, count):
        size = gather_entries(words, old, new, levels, state, scratch, top, level)
        if size < 0:
            return -1
        row = LEVEL_WORDS * level
        store(scratch, meta(level) + FIRST, 0)
        store(scratch, meta(level) + UNTIL, size)
        store(scratch, meta(level) + IS_HEAVY, 0)
        if load(levels, row + USE) == WEIGHS or load(levels, row + CHECKS) != 0:
            mark_heavy(scratch, level, WEIGHTS)
        most = max(most, size)
    return most
