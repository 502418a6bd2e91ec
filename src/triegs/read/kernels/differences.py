"""The entries in which two versions of a relation differ, without visiting shared nodes.

Versions share every node that no epoch between them has touched, so a node found at the same
position on both sides is skipped. The rest is scanned side by side: tries and hubs by digit, blocks
by entry. The cost is the size of the difference times the height of the path.

A cursor is a range of `difference_words(columns)` words in an array owned by the reader. It starts
with `open_difference`; each `next_difference` that returns true leaves, for each column, an id in
word `KEY` of its range, and in the last one the two counts in `OLD` and `NEW`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, short_kernel
from triegs.jit.words import Words, load, store, trailing_zeros
from triegs.store.kernels.cursors import CURSOR_WORDS, set_first, set_next
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.cursors import WORD as CURSOR_WORD
from triegs.store.kernels.layout import BITS, DIGIT, HEAD, HEIGHT_SHIFT, LOW, OFFSET
from triegs.store.kernels.sets import set_get

# A cursor is the current column, then a range per column: its state, frames, and for a set one
# cursor over the entries of a subset that is a block on at least one side.
KEY, OLD, NEW = 0, 1, 2
DEPTH = 3  # frames on the stack
OLD_HEIGHT, NEW_HEIGHT = 4, 5  # of a trie
MODE = 4  # of a set: the current mode
OLD_PART, NEW_PART, SHIFT = 5, 6, 7  # of a set: the current subset, and the bits used above it
FRAMES = 8
FRAME_WORDS = 5  # old node, new node, children left, id so far, height
MOST_FRAMES = 7
ENTRIES = FRAMES + FRAME_WORDS * MOST_FRAMES
COLUMN_WORDS = ENTRIES + CURSOR_WORDS
HUBS, ADDED, REMOVED = 0, 1, 2


def difference_words(columns: int) -> int:
    return 1 + COLUMN_WORDS * columns


@short_kernel
def share_roots(old: Words, new: Words, at: Words) -> bool:
    """Whether two root vectors have the same words at these indices."""
    for number in range(at.size):
        offset = load(at, number)
        if load(old, offset) != load(new, offset):
            return False
    return True


@inlined
def column_at(base: int, column: int) -> int:
    return base + 1 + COLUMN_WORDS * column


# Tries


@inlined
def children_of(words: Words, node: int, height: int, own: int) -> int:
    """The children of a node as seen from that height; a lower trie acts as the first child."""
    if height > own:
        return 1 if node != 0 else 0
    return load(words, node + 1) & LOW


@inlined
def child_of(words: Words, node: int, height: int, own: int, digit: int) -> int:
    if height > own:
        return node if digit == 0 else 0
    return load(words, node + HEAD + digit)


@inlined
def push_nodes(
    words: Words, state: Words, at: int, old: int, new: int, prefix: int, height: int
) -> None:
    depth = load(state, at + DEPTH)
    frame = at + FRAMES + FRAME_WORDS * depth
    children = children_of(words, old, height, load(state, at + OLD_HEIGHT)) | children_of(
        words, new, height, load(state, at + NEW_HEIGHT)
    )
    store(state, frame, old)
    store(state, frame + 1, new)
    store(state, frame + 2, children)
    store(state, frame + 3, prefix)
    store(state, frame + 4, height)
    store(state, at + DEPTH, depth + 1)


@inlined
def open_tries(words: Words, state: Words, at: int, old: int, new: int) -> None:
    """Position before the first difference of two tries, given by their roots."""
    store(state, at + DEPTH, 0)
    if old != new:
        old_height, new_height = old >> HEIGHT_SHIFT, new >> HEIGHT_SHIFT
        store(state, at + OLD_HEIGHT, old_height)
        store(state, at + NEW_HEIGHT, new_height)
        height = max(old_height, new_height)
        push_nodes(words, state, at, old & OFFSET, new & OFFSET, 0, height)


@inlined
def next_child(state: Words, at: int) -> tuple[int, int, int]:
    """The next child of the nodes on the stack: depth, frame and digit; depth 0 at the end."""
    depth = load(state, at + DEPTH)
    while depth != 0:
        frame = at + FRAMES + FRAME_WORDS * (depth - 1)
        children = load(state, frame + 2)
        if children != 0:
            store(state, frame + 2, children & (children - 1))
            return depth, frame, trailing_zeros(children)
        depth -= 1
        store(state, at + DEPTH, depth)
    return 0, 0, 0


@inlined
def next_in_tries(words: Words, state: Words, at: int) -> bool:
    """Advance to the next id whose words differ, in ascending order; false at the end."""
    while True:
        depth, frame, digit = next_child(state, at)
        if depth == 0:
            return False
        height = load(state, frame + 4)
        old = child_of(words, load(state, frame), height, load(state, at + OLD_HEIGHT), digit)
        new = child_of(words, load(state, frame + 1), height, load(state, at + NEW_HEIGHT), digit)
        if old == new:
            continue
        key = (load(state, frame + 3) << BITS) | digit
        if height == 0:
            store(state, at + KEY, key)
            store(state, at + OLD, old)
            store(state, at + NEW, new)
            return True
        push_nodes(words, state, at, old, new, key, height - 1)


# Sets


@inlined
def get_below(words: Words, reference: int, key: int, shift: int) -> int:
    """The word of an id in a subset whose hubs above have used the given number of bits."""
    digits = key >> shift
    while reference & 1:
        reference = load(words, reference - 1 + HEAD + (digits & DIGIT))
        digits >>= BITS
    return set_get(words, reference, key)


@inlined
def enter_parts(words: Words, state: Words, at: int, old: int, new: int, shift: int) -> None:
    """Scan two subsets: child by child if both are hubs, else entry by entry."""
    if old & new & 1:
        depth = load(state, at + DEPTH)
        frame = at + FRAMES + FRAME_WORDS * depth
        store(state, frame, old - 1)
        store(state, frame + 1, new - 1)
        store(state, frame + 2, (load(words, old) | load(words, new)) & LOW)
        store(state, at + DEPTH, depth + 1)
        store(state, at + MODE, HUBS)
    else:
        store(state, at + OLD_PART, old)
        store(state, at + NEW_PART, new)
        store(state, at + SHIFT, shift)
        store(state, at + MODE, ADDED)
        set_first(words, state, at + ENTRIES, new)


@inlined
def open_sets(words: Words, state: Words, at: int, old: int, new: int) -> None:
    """Position before the first difference of two sets, given by their references."""
    store(state, at + DEPTH, 0)
    enter_parts(words, state, at, old, new, 0)


@inlined
def next_in_sets(words: Words, state: Words, at: int) -> bool:
    """Advance to the next id whose words differ; false at the end."""
    while True:
        mode = load(state, at + MODE)
        if mode != HUBS:
            if not set_next(words, state, at + ENTRIES):
                if mode == ADDED:
                    store(state, at + MODE, REMOVED)
                    set_first(words, state, at + ENTRIES, load(state, at + OLD_PART))
                else:
                    store(state, at + MODE, HUBS)
                continue
            key, word = (
                load(state, at + ENTRIES + CURSOR_KEY),
                load(state, at + ENTRIES + CURSOR_WORD),
            )
            shift = load(state, at + SHIFT)
            if mode == ADDED:
                old, new = get_below(words, load(state, at + OLD_PART), key, shift), word
                differs = old != new
            else:  # entries on both sides were met from the new one
                old, new = word, get_below(words, load(state, at + NEW_PART), key, shift)
                differs = new == 0
            if differs:
                store(state, at + KEY, key)
                store(state, at + OLD, old)
                store(state, at + NEW, new)
                return True
            continue
        depth, frame, digit = next_child(state, at)
        if depth == 0:
            return False
        old = load(words, load(state, frame) + HEAD + digit)
        new = load(words, load(state, frame + 1) + HEAD + digit)
        if old != new:
            enter_parts(words, state, at, old, new, BITS * depth)


# Relations


@inlined
def open_difference(words: Words, state: Words, base: int, old: int, new: int) -> None:
    """Position before the first difference of two versions of a relation, given by their roots."""
    store(state, base, 0)
    open_tries(words, state, column_at(base, 0), old, new)


@inlined
def next_difference(words: Words, state: Words, base: int, columns: int, weighs: bool) -> bool:
    """Advance to the next tuple whose counts differ; false at the end.

    Without `weighs`, only tuples that exist on just one side are reported.
    """
    column = load(state, base)
    while column >= 0:
        at = column_at(base, column)
        if column == 0:
            found = next_in_tries(words, state, at)
        else:
            found = next_in_sets(words, state, at)
        if not found:
            column -= 1
        elif column < columns - 1:
            column += 1
            open_sets(
                words, state, column_at(base, column), load(state, at + OLD), load(state, at + NEW)
            )
        elif weighs or (load(state, at + OLD) == 0) != (load(state, at + NEW) == 0):
            store(state, base, column)
            return True
    store(state, base, -1)
    return False
