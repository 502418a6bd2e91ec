"""Counts beside words, so that answers can be counted and found by position.

A summed node has two counts beside each of its 32 words: the number of *answers* below it, and the
number of *rows*, in which each answer occurs as often as its multiplicity. Rows are 0 unless
requested.

| relation | summed nodes | the counts beside a word |
| --- | --- | --- |
| summed index or rule | hubs of its last column | of the entries below: 1, the count |
| ordered pairs v → {w: count} | leaves, hubs | of the entries below: N(w), and count * M(w) |
| ordered map v → 1 | leaves | N(v) and M(v), products over the factors of v |
| ranked map v → 1 | all nodes of the trie | the same, and above the leaves the sums below |

A block entry has no room for counts. They are 1 and its count in an index; elsewhere they are
looked up by id when a block is searched or becomes a hub. So a change of an entry's counts costs a
word or two in a leaf, and more only in hubs.

A count that does not fit sets the fault `OVERFLOW`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import (
    Words,
    bit,
    checked_add,
    checked_multiply,
    load,
    store,
    trailing_zeros,
)
from triegs.store.kernels.blocks import entry_key, entry_word, room_of
from triegs.store.kernels.free import has_room
from triegs.store.kernels.layout import (
    BITS,
    DIGIT,
    EMPTIED,
    EPOCH,
    FANOUT,
    FAULTS,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    NODE_CLASS,
    OFFSET,
    OVERFLOW,
    PATH,
    SPLIT,
    SPLIT_SHIFT,
    SPLIT_STACK,
    SUMMED_CLASS,
)
from triegs.store.kernels.relations import (
    leave_empty_sets,
    mark_word,
    note_entry,
    open_path,
    push_log,
    set_fault,
    tuple_get,
)
from triegs.store.kernels.sets import own_path, set_get, summed_set_change
from triegs.store.kernels.trie import find_leaf, trie_get, trie_leaf

# Where the counts of an id are. COUNTED: a map holds its count, and it is one answer. SETS: they
# are those of the set below it in an index. BESIDE: beside its word. ENTRY: it is an entry of an
# index.
COUNTED, SETS, BESIDE, ENTRY = 1, 2, 3, 4
# ANSWERED: one map has the answers, another the rows. LOOKED_UP: both by a whole tuple.
ANSWERED, LOOKED_UP = 5, 6
ANSWERS, ROWS = FANOUT, 2 * FANOUT  # distance of the counts from their word


@inlined
def add(words: Words, a: int, b: int) -> int:
    total, overflow = checked_add(a, b)
    if overflow:
        set_fault(words, OVERFLOW)
    return total


@inlined
def times(words: Words, a: int, b: int) -> int:
    product, overflow = checked_multiply(a, b)
    if overflow:
        set_fault(words, OVERFLOW)
    return product


# Reading


@inlined
def set_counts(words: Words, reference: int) -> tuple[int, int]:
    """The number of entries of a set of a summed index, and the sum of their counts."""
    rows = 0
    if reference & 1:
        answers = 0
        for at in range(reference - 1 + HEAD, reference - 1 + HEAD + FANOUT):
            answers += load(words, at + ANSWERS)
            rows = add(words, rows, load(words, at + ROWS))
        return answers, rows
    header = load(words, reference + 1)
    size, room = header & LOW, room_of(header)
    if room == 0:
        return size, size
    start = reference + HEAD + room
    for at in range(start, start + size):
        rows = add(words, rows, load(words, at))
    return size, rows


@inlined
def counts_of(words: Words, kind: int, at: int) -> tuple[int, int]:
    """Answers and rows of an id whose word is at an address."""
    word = load(words, at)
    if kind == COUNTED:
        return 1 if word != 0 else 0, word
    if kind == ANSWERED:
        return word, 1
    if kind == SETS:
        return set_counts(words, word)
    return load(words, at + ANSWERS), load(words, at + ROWS)


@inlined
def counts_at(words: Words, kind: int, root: int, key: int) -> tuple[int, int]:
    """Answers and rows of an id, in the relation with this root."""
    return counts_of(words, kind, find_leaf(words, root, key) + HEAD + (key & DIGIT))


@inlined
def entry_counts(
    words: Words, kind: int, root: int, key: int, count: int, has_rows: int
) -> tuple[int, int]:
    """Answers and rows of a set entry: those of its id, times its count."""
    if kind == ENTRY:
        return 1, count
    answers, rows = counts_at(words, kind, root, key)
    return answers, times(words, count, rows) if has_rows else 0


# Changing


@inlined
def add_beside(words: Words, at: int, answers: int, rows: int) -> None:
    store(words, at + ANSWERS, add(words, load(words, at + ANSWERS), answers))
    store(words, at + ROWS, add(words, load(words, at + ROWS), rows))


@inlined
def add_in_hubs(
    words: Words, reference: int, shift: int, key: int, answers: int, rows: int
) -> None:
    """Add to the counts on the path to an id, whose hubs belong to this epoch."""
    while reference & 1:
        at = reference - 1 + HEAD + ((key >> shift) & DIGIT)
        add_beside(words, at, answers, rows)
        reference = load(words, at)
        shift += BITS


@kernel
def fill_split(words: Words, y: int, old: int, kind: int, root: int, has_rows: int) -> None:
    """Give a block that became a hub, possibly with further hubs below, the counts of all its
    entries; of `y`, which is changing, those of its old count.
    """
    hub, shift = load(words, SPLIT), load(words, SPLIT_SHIFT)
    store(words, SPLIT, 0)
    top = SPLIT_STACK
    store(words, top, hub)
    store(words, top + 1, load(words, hub + 1) & LOW)
    while top >= SPLIT_STACK:
        children = load(words, top + 1)
        if children == 0:
            top -= 2
            continue
        store(words, top + 1, children & (children - 1))
        child = load(words, load(words, top) + HEAD + trailing_zeros(children))
        if child & 1:
            top += 2
            store(words, top, child - 1)
            store(words, top + 1, load(words, child) & LOW)
            continue
        header = load(words, child + 1)
        room = room_of(header)
        for index in range(header & LOW):
            key = entry_key(words, child, room, index)
            count = old if key == y else entry_word(words, child, room, index)
            if count != 0:
                answers, rows = entry_counts(words, kind, root, key, count, has_rows)
                add_in_hubs(words, hub | 1, shift, key, answers, rows)


@inlined
def change_pair(
    words: Words, at: int, y: int, value: int, answers: int, rows: int, kind: int, root: int,
    has_rows: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Add to the count of an id in the set at an address, and to the counts in its hubs.

    The id has `answers` answers, and `rows` rows per count; `kind` and `root` locate those of all
    other ids. Returns the count before and after, and the change in the set's answers and rows.
    """
    store(words, SPLIT, 0)
    old, new = summed_set_change(words, at, y, value)
    sign = (1 if new != 0 else 0) - (1 if old != 0 else 0)
    more_answers, more_rows = sign * answers, times(words, value, rows)
    reference = load(words, at)
    if reference & 1:
        if load(words, SPLIT) != 0:
            fill_split(words, y, old, kind, root, has_rows)
        add_in_hubs(words, reference, 0, y, more_answers, more_rows)
    return old, new, more_answers, more_rows


@inlined
def mark_touched(
    words: Words, log: Words, leaf: int, key: int, before: int, old: int, new: int
) -> None:
    """Update the bitmap after a leaf word or its counts changed, and log the first touch."""
    children = load(words, leaf + 1)
    flag = bit((key & DIGIT) + 32)
    marked = children | flag
    if (old == 0) != (new == 0):
        marked ^= bit(key & DIGIT)
        if marked & LOW == 0:
            store(words, EMPTIED, 1)
    if children & flag == 0:
        push_log(words, log, key, before)
    if marked != children:
        store(words, leaf + 1, marked)


@short_kernel
def summed_add_logged(words: Words, log: Words, slot: int, x: int, y: int, value: int) -> int:
    """Add to the count of a pair of a summed index; the first touch logs `(x, was there)`."""
    if value == 0:
        return set_get(words, trie_get(words, load(words, slot), x), y)
    if not has_room(words):
        return 0
    leaf = trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS)
    at = leaf + HEAD + (x & DIGIT)
    before = load(words, at)
    old, new, _, _ = change_pair(words, at, y, value, 1, 1, ENTRY, 0, 1)
    note_entry(words, slot, old, new)
    mark_touched(words, log, leaf, x, 1 if before != 0 else 0, before, load(words, at))
    return new


@short_kernel
def summed_change(words: Words, slot: int, key: Words, arity: int, value: int) -> tuple[int, int]:
    """Like `tuple_change`, adding to a tuple of a relation whose last column has summed hubs."""
    if value == 0:
        old = tuple_get(words, load(words, slot), key, arity)
        return old, old
    if not has_room(words):
        return 0, 0
    leaf, at, before = open_path(words, slot, key, arity)
    old, new, _, _ = change_pair(words, at, load(key, arity - 1), value, 1, 1, ENTRY, 0, 1)
    leave_empty_sets(words, key, arity)
    note_entry(words, slot, old, new)
    mark_word(words, slot, leaf, load(key, 0), before, load(words, load(words, PATH)))
    return old, new


@kernel
def fill_summed(
    words: Words, key: Words, slot: int, columns: Words, count: int, arity: int
) -> None:
    """Insert tuples with counts, given as columns, into an empty relation with summed hubs."""
    for row in range(count):
        for column in range(arity):
            store(key, column, load(columns, count * column + row))
        summed_change(words, slot, key, arity, load(columns, count * arity + row))
        if load(words, FAULTS) != 0:
            return


@short_kernel
def ordered_add_logged(
    words: Words, log: Words, slot: int, v: int, w: int, value: int, answers: int, rows: int,
    kind: int, root: int, has_rows: int,
) -> None:  # fmt: skip
    """Add to the count of an ordered pair, given the answers and rows of its `w`; the first touch
    of `v` logs it with its previous answers.
    """
    if not has_room(words):
        return
    leaf = trie_leaf(words, slot, v, NODE_CLASS, SUMMED_CLASS)
    at = leaf + HEAD + (v & DIGIT)
    before, known = load(words, at), load(words, at + ANSWERS)
    old, new, more_answers, more_rows = change_pair(
        words, at, w, value, answers, rows, kind, root, has_rows
    )
    add_beside(words, at, more_answers, more_rows)
    note_entry(words, slot, old, new)
    mark_touched(words, log, leaf, v, known, before, load(words, at))


@short_kernel
def counts_add_logged(
    words: Words, log: Words, slot: int, v: int, w: int, answers: int, rows: int
) -> None:
    """Add to the counts of a pair that stays; the first touch of `v` logs it."""
    if not has_room(words):
        return
    leaf = trie_leaf(words, slot, v, NODE_CLASS, SUMMED_CLASS)
    at = leaf + HEAD + (v & DIGIT)
    word, known = load(words, at), load(words, at + ANSWERS)
    if word & 1:
        own_path(words, at, w, load(words, EPOCH), SUMMED_CLASS)
        add_in_hubs(words, load(words, at), 0, w, answers, rows)
    add_beside(words, at, answers, rows)
    mark_touched(words, log, leaf, v, known, word, word)


@inlined
def counts_put_logged(
    words: Words, log: Words, slot: int, key: int, answers: int, rows: int, inner: int
) -> None:
    """Set the counts of an id in an ordered or ranked map; an id without answers is removed."""
    if not has_room(words):
        return
    leaf = trie_leaf(words, slot, key, inner, SUMMED_CLASS)
    at = leaf + HEAD + (key & DIGIT)
    word, known = load(words, at), load(words, at + ANSWERS)
    more_answers, more_rows = answers - known, rows - load(words, at + ROWS)
    new = 1 if answers != 0 else 0
    store(words, at, new)
    store(words, at + ANSWERS, answers)
    store(words, at + ROWS, rows)
    note_entry(words, slot, word, new)
    mark_touched(words, log, leaf, key, known, word, new)
    if inner == SUMMED_CLASS:
        root = load(words, slot)
        shift = (root >> HEIGHT_SHIFT) * BITS
        node = root & OFFSET
        while shift > 0:
            above = node + HEAD + ((key >> shift) & DIGIT)
            add_beside(words, above, more_answers, more_rows)
            node = load(words, above)
            shift -= BITS


@short_kernel
def ordered_put(words: Words, log: Words, slot: int, key: int, answers: int, rows: int) -> None:
    counts_put_logged(words, log, slot, key, answers, rows, NODE_CLASS)


@short_kernel
def ranked_put(words: Words, log: Words, slot: int, key: int, answers: int, rows: int) -> None:
    counts_put_logged(words, log, slot, key, answers, rows, SUMMED_CLASS)
