"""Relations: tuples of ids to counts, as a trie for the first id and sets for the others.

| arity | what its slot leads to |
| --- | --- |
| 0 | the count itself |
| 1, a *map* | a trie to counts |
| 2, an *adjacency* | a trie to sets of counts |
| 3 and more | a trie to sets of sets … of counts |

A relation is stored in a *slot*, two words of the arena: root, and number of entries. Readers take
the root (of a version, or of the slot), writers the address of the slot. Every change first calls
`has_room`; if refused, it changes nothing and sets the fault `FULL`.

Logged changes serve epochs that process what has changed: the high half of a leaf's bitmap flags
the ids touched in this epoch, and the first touch appends `(id, word before)` to a log. Such leaves
are not pruned at once, which would lose flags: `sweep_log` does it at the end. Within one epoch a
slot takes logged changes or plain ones, not both.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, bit, checked_add, load, store
from triegs.store.kernels.free import has_room
from triegs.store.kernels.layout import (
    DIGIT,
    EMPTIED,
    EPOCH,
    FAULTS,
    HEAD,
    LOG_FULL,
    LOW,
    NODE_CLASS,
    OVERFLOW,
    PATH,
    SLOT_WORDS,
    SLOTS,
)
from triegs.store.kernels.sets import set_change, set_get, set_offset
from triegs.store.kernels.trie import find_leaf, trie_get, trie_leaf, trie_prune


@inlined
def slot_at(slot: int) -> int:
    """The address of a slot."""
    return SLOTS + SLOT_WORDS * slot


@inlined
def set_fault(words: Words, fault: int) -> None:
    store(words, FAULTS, load(words, FAULTS) | fault)


@inlined
def note_entry(words: Words, slot: int, old: int, new: int) -> None:
    """Update the number of entries."""
    if (old == 0) != (new == 0):
        store(words, slot + 1, load(words, slot + 1) + (1 if old == 0 else -1))


@inlined
def change_word(words: Words, at: int, value: int, put: bool) -> tuple[int, int]:
    """Add to a count or set it; a sum that does not fit changes nothing and sets a fault."""
    old = load(words, at)
    new = value
    if not put:
        new, overflow = checked_add(old, value)
        if overflow:
            set_fault(words, OVERFLOW)
            return old, old
    store(words, at, new)
    return old, new


@inlined
def mark_word(words: Words, slot: int, leaf: int, key: int, old: int, new: int) -> None:
    """Update the bitmap after a leaf word changed, and prune the leaf if it is empty."""
    if (old == 0) != (new == 0):
        children = load(words, leaf + 1) ^ bit(key & DIGIT)
        store(words, leaf + 1, children)
        if children & LOW == 0:
            trie_prune(words, slot, key, NODE_CLASS)


# Maps


@short_kernel
def map_get(words: Words, root: int, key: int) -> int:
    return trie_get(words, root, key)


@inlined
def map_change(words: Words, slot: int, key: int, value: int, put: bool) -> tuple[int, int]:
    """Add to the count of an id, or set it; returns the count before and after."""
    if value == 0:
        old = trie_get(words, load(words, slot), key)
        if old == 0 or not put:
            return old, old
    if not has_room(words):
        return 0, 0
    leaf = trie_leaf(words, slot, key, NODE_CLASS, NODE_CLASS)
    old, new = change_word(words, leaf + HEAD + (key & DIGIT), value, put)
    note_entry(words, slot, old, new)
    mark_word(words, slot, leaf, key, old, new)
    return old, new


# Adjacencies


@short_kernel
def adjacency_get(words: Words, root: int, x: int, y: int) -> int:
    return set_get(words, trie_get(words, root, x), y)


@inlined
def adjacency_change(
    words: Words, slot: int, x: int, y: int, value: int, put: bool
) -> tuple[int, int]:
    """Add to the count of a pair, or set it; returns the count before and after."""
    if value == 0:
        old = set_get(words, trie_get(words, load(words, slot), x), y)
        if old == 0 or not put:
            return old, old
    if not has_room(words):
        return 0, 0
    leaf = trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS)
    at = leaf + HEAD + (x & DIGIT)
    before = load(words, at)
    old, new = set_change(words, at, y, value, put)
    note_entry(words, slot, old, new)
    mark_word(words, slot, leaf, x, before, load(words, at))
    return old, new


# Any arity


@short_kernel
def tuple_get(words: Words, root: int, key: Words, length: int) -> int:
    """The word below the first ids of a tuple: the count, or a set; the root itself for no ids."""
    if length == 0:
        return root
    word = trie_get(words, root, load(key, 0))
    for level in range(1, length):
        word = set_get(words, word, load(key, level))
    return word


@inlined
def open_path(words: Words, slot: int, key: Words, arity: int) -> tuple[int, int, int]:
    """Make the way to a tuple writable and record it in `PATH`; returns the leaf of the first id,
    the offset of the reference to the last set, and the word of the first id before.
    """
    x = load(key, 0)
    leaf = trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS)
    at = leaf + HEAD + (x & DIGIT)
    before = load(words, at)
    store(words, PATH, at)
    for level in range(1, arity - 1):
        at = set_offset(words, at, load(key, level))
        store(words, PATH + level, at)
    return leaf, at, before


@inlined
def leave_empty_sets(words: Words, key: Words, arity: int) -> None:
    """Remove the ids of empty sets from the sets above, after a change at the end of `PATH`."""
    level = arity - 2
    while level > 0 and load(words, load(words, PATH + level)) == 0:
        level -= 1
        set_change(words, load(words, PATH + level), load(key, level + 1), 0, True)


@short_kernel
def tuple_change(
    words: Words, slot: int, key: Words, arity: int, value: int, put: bool
) -> tuple[int, int]:
    """Add to the count of a tuple, or set it; returns the count before and after."""
    if arity == 0:
        old, new = change_word(words, slot, value, put)
        note_entry(words, slot, old, new)
        return old, new
    if arity == 1:
        return map_change(words, slot, load(key, 0), value, put)
    if arity == 2:
        return adjacency_change(words, slot, load(key, 0), load(key, 1), value, put)
    if value == 0:
        old = tuple_get(words, load(words, slot), key, arity)
        if old == 0 or not put:
            return old, old
    if not has_room(words):
        return 0, 0
    leaf, at, before = open_path(words, slot, key, arity)
    old, new = set_change(words, at, load(key, arity - 1), value, put)
    leave_empty_sets(words, key, arity)
    note_entry(words, slot, old, new)
    mark_word(words, slot, leaf, load(key, 0), before, load(words, load(words, PATH)))
    return old, new


# Logged changes. A log is an array whose first word is the index of its first free word.


@inlined
def push_log(words: Words, log: Words, key: int, old: int) -> None:
    top = load(log, 0)
    if top + 2 > log.size:
        set_fault(words, LOG_FULL)
        return
    store(log, top, key)
    store(log, top + 1, old)
    store(log, 0, top + 2)


@inlined
def map_add_logged(words: Words, log: Words, slot: int, key: int, value: int) -> int:
    """Add to the count of an id; its first touch in this epoch logs `(id, count before)`."""
    return map_add_at(words, log, slot, find_leaf(words, load(words, slot), key), key, value)


@inlined
def map_add_at(words: Words, log: Words, slot: int, leaf: int, key: int, value: int) -> int:
    """The same, for an id whose leaf has just been found, perhaps before additions to other ids.

    If the leaf is this epoch's and the id stays there, no node changes but this one.
    """
    digit = key & DIGIT
    at = leaf + HEAD + digit
    old = load(words, at)
    new, overflow = checked_add(old, value)
    is_kept = old != 0 and new != 0 and not overflow
    if value == 0 or not is_kept or load(words, leaf) != load(words, EPOCH):
        return map_change_logged(words, log, slot, key, value)
    store(words, at, new)
    children = load(words, leaf + 1)
    if children & bit(digit + 32) == 0:
        push_log(words, log, key, old)
        store(words, leaf + 1, children | bit(digit + 32))
    return new


@short_kernel
def map_change_logged(words: Words, log: Words, slot: int, key: int, value: int) -> int:
    """The same, whatever the leaf and the count."""
    if value == 0:
        return trie_get(words, load(words, slot), key)
    if not has_room(words):
        return 0
    leaf = trie_leaf(words, slot, key, NODE_CLASS, NODE_CLASS)
    digit = key & DIGIT
    old, new = change_word(words, leaf + HEAD + digit, value, False)
    children = load(words, leaf + 1)
    marked = children | bit(digit + 32)
    if (old == 0) != (new == 0):
        marked ^= bit(digit)
        store(words, slot + 1, load(words, slot + 1) + (1 if old == 0 else -1))
        if marked & LOW == 0:
            store(words, EMPTIED, 1)
    if children & bit(digit + 32) == 0:
        push_log(words, log, key, old)
    if marked != children:
        store(words, leaf + 1, marked)
    return new


@short_kernel
def adjacency_add_logged(words: Words, log: Words, slot: int, x: int, y: int, value: int) -> int:
    """Add to the count of a pair; logs `(x, was there)` when `x` first appears or disappears."""
    if value == 0:
        return set_get(words, trie_get(words, load(words, slot), x), y)
    if not has_room(words):
        return 0
    leaf = trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS)
    digit = x & DIGIT
    at = leaf + HEAD + digit
    before = load(words, at)
    old, new = set_change(words, at, y, value, False)
    note_entry(words, slot, old, new)
    if (before == 0) != (load(words, at) == 0):
        children = load(words, leaf + 1) ^ bit(digit)
        if children & bit(digit + 32) == 0:
            push_log(words, log, x, 0 if before == 0 else 1)
        store(words, leaf + 1, children | bit(digit + 32))
        if children & LOW == 0:
            store(words, EMPTIED, 1)
    return new


@kernel
def sweep_log(words: Words, log: Words, start: int, end: int, slot: int, leaf_class: int) -> None:
    """After the logged changes of a slot: prune the leaves that became empty.

    There are such leaves only if `EMPTIED` was set meanwhile.
    """
    for entry in range(start, end, 2):
        key = load(log, entry)
        leaf = find_leaf(words, load(words, slot), key)
        if leaf != 0 and load(words, leaf + 1) & LOW == 0:
            trie_prune(words, slot, key, leaf_class)
