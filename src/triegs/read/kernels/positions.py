"""From a position to its answer, by the counts of `triegs.store.kernels.order_statistics`, in the
order in which `triegs.read.kernels.answers` enumerates.

With the values of some levels chosen, each entry of the next level has its own answers below, and
each of these is combined with all combinations of the *open* levels: later levels that begin a
component, or whose keys are already chosen. So the descent divides the position by the product of
the open levels' totals, and searches the quotient in the sums of the level. An entry with count c
has c times the rows below it, and the rows of one answer are adjacent: once the entry is chosen,
the remaining position is divided by c.

A row of counts is, by level, `[kind, root, rows, all answers, all rows, keys, first key]`: where
the counts of its entries are, and the word of the root vector that leads there; for a level that
begins a component, the ranking. Counts that are `LOOKED_UP`, by the values of some levels and the
entry's own, have one relation for the answers and another for the rows of an entry, or -1 if the
entry is one answer or its count is its rows; and two more with the totals of all entries. The sets
of the first two relations are summed.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Ids, Words, load, store, trailing_zeros
from triegs.read.kernels.answers import (
    INSIDE,
    INTERFACE,
    INTERFACE_AT,
    LEVEL,
    MOST,
    PHASE,
    REFERENCE,
    RUNNING,
    TOTAL,
    TRIE,
    VALUE,
    WEIGHT,
    base_of,
    find_below,
    move_level,
    open_level,
    take_value,
    weight_above,
)
from triegs.read.kernels.expansion import COLUMN, LEVEL_WORDS, parent_of
from triegs.store.kernels.blocks import entry_key, entry_word, room_of
from triegs.store.kernels.cursors import (
    DEPTH,
    HEIGHT,
    NEXT_ENTRY,
    STACK,
    open_block,
)
from triegs.store.kernels.layout import (
    BITS,
    DIGIT,
    FANOUT,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    OFFSET,
)
from triegs.store.kernels.order_statistics import (
    BESIDE,
    ENTRY,
    LOOKED_UP,
    ROWS,
    counts_at,
    entry_counts,
    set_counts,
)
from triegs.store.kernels.sets import set_get

NUMBER_KIND, COUNT_ROOT, COUNT_ROWS, COUNT_ALL, COUNT_ALL_ROWS = range(5)
COUNT_KEYS, COUNT_KEYS_AT = 5, 6
COUNT_WORDS = 7


@inlined
def find_child(words: Words, node: int, far: int, left: int) -> tuple[int, int, int]:
    """The digit that contains a position, the remainder, and the children from that digit on."""
    children = load(words, node + 1) & LOW
    while True:
        digit = trailing_zeros(children)
        below = load(words, node + HEAD + far + digit)
        if left < below or children & (children - 1) == 0:
            return digit, left, children
        left -= below
        children &= children - 1


@inlined
def seek_trie(words: Words, cursor: Words, base: int, root: int, far: int, left: int) -> int:
    """Place a cursor before the id at a position in a ranked map; returns the remainder."""
    node = root & OFFSET
    height = root >> HEIGHT_SHIFT
    key, depth = 0, 0
    while True:
        digit, left, children = find_child(words, node, far, left)
        top = base + STACK + 3 * depth
        depth += 1
        store(cursor, top, node)
        store(cursor, top + 1, children if height == 0 else children & (children - 1))
        store(cursor, top + 2, key)
        if height == 0:
            break
        key = (key << BITS) | digit
        node = load(words, node + HEAD + digit)
        height -= 1
    store(cursor, base + DEPTH, depth)
    store(cursor, base + HEIGHT, 0)
    return left


@inlined
def seek_set(
    words: Words, cursor: Words, base: int, reference: int, far: int, left: int, kind: int,
    root: int,
) -> int:  # fmt: skip
    """Place a cursor before the entry that contains a position; returns the remainder."""
    depth = 0
    while reference & 1:
        digit, left, children = find_child(words, reference - 1, far, left)
        store(cursor, base + STACK + 2 * depth, reference - 1)
        store(cursor, base + STACK + 2 * depth + 1, children & (children - 1))
        depth += 1
        reference = load(words, reference - 1 + HEAD + digit)
    store(cursor, base + DEPTH, depth)
    open_block(words, cursor, base, reference)
    header = load(words, reference + 1)
    size, room = header & LOW, room_of(header)
    entry = 0
    while entry < size - 1:
        key, count = (
            entry_key(words, reference, room, entry), entry_word(words, reference, room, entry)
        )  # fmt: skip
        answers, rows = entry_counts(words, kind, root, key, count, far != FANOUT)
        below = answers if far == FANOUT else rows
        if left < below:
            break
        left -= below
        entry += 1
    store(cursor, base + NEXT_ENTRY, entry)
    return left


@inlined
def sum_digit(words: Words, reference: int, shift: int, digit: int) -> int:
    """The counts of the ids with that digit, in a set or at its level below hubs."""
    if reference & 1:
        return load(words, reference - 1 + HEAD + ROWS + digit)
    header = load(words, reference + 1)
    room, total = room_of(header), 0
    for entry in range(header & LOW):
        if (entry_key(words, reference, room, entry) >> shift) & DIGIT == digit:
            total += entry_word(words, reference, room, entry)
    return total


@kernel
def seek_looked_up(
    words: Words, roots: Words, numbers: Words, state: Words, level: int, far: int, left: int
) -> int:
    """Like `seek_set`, by counts that are stored in another set with the same ids.

    Both sets order their ids by digits down to their blocks, which may differ.
    """
    row, base = COUNT_WORDS * level, base_of(level)
    root = load(numbers, row + (COUNT_ROOT if far == FANOUT else COUNT_ROWS))
    reference = load(state, base + REFERENCE)
    if root < 0:
        return seek_set(words, state, base, reference, far, left, ENTRY, 0)
    keys, first = load(numbers, row + COUNT_KEYS), load(numbers, row + COUNT_KEYS_AT)
    found = find_below(words, roots, numbers, state, root, keys, first)
    depth = shift = 0
    beside = found
    while reference & 1:
        hub = reference - 1
        children = load(words, hub + 1) & LOW
        digit = trailing_zeros(children)
        children &= children - 1
        below = sum_digit(words, beside, shift, digit)
        while left >= below and children != 0:
            left -= below
            digit = trailing_zeros(children)
            children &= children - 1
            below = sum_digit(words, beside, shift, digit)
        store(state, base + STACK + 2 * depth, hub)
        store(state, base + STACK + 2 * depth + 1, children)
        depth += 1
        shift += BITS
        reference = load(words, hub + HEAD + digit)
        if beside & 1:
            beside = load(words, beside - 1 + HEAD + digit)
    store(state, base + DEPTH, depth)
    open_block(words, state, base, reference)
    header = load(words, reference + 1)
    entry, last, room = 0, (header & LOW) - 1, room_of(header)
    while entry < last:
        below = set_get(words, found, entry_key(words, reference, room, entry))
        if left < below:
            break
        left -= below
        entry += 1
    store(state, base + NEXT_ENTRY, entry)
    return left


@inlined
def sum_trie(words: Words, root: int, far: int) -> int:
    """The total below a ranked map."""
    total = 0
    if root != 0:
        start = (root & OFFSET) + HEAD + far
        for at in range(start, start + FANOUT):
            total += load(words, at)
    return total


@inlined
def sum_level(
    words: Words, roots: Words, levels: Words, numbers: Words, state: Words, level: int, far: int
) -> None:
    """Open a level whose earlier values are chosen, and record the total below it."""
    row, base = LEVEL_WORDS * level, base_of(level)
    open_level(words, roots, levels, state, level)
    root = load(roots, load(levels, row + 1))
    number = COUNT_WORDS * level
    if load(levels, row) == TRIE:
        total = sum_trie(words, root, far)
    elif load(numbers, number) == LOOKED_UP:
        at = load(numbers, number + (COUNT_ALL if far == FANOUT else COUNT_ALL_ROWS))
        keys, first = load(numbers, number + COUNT_KEYS), load(numbers, number + COUNT_KEYS_AT)
        total = find_below(words, roots, numbers, state, at, keys, first)
    else:
        if load(numbers, number) == ENTRY:
            answers, rows = set_counts(words, load(state, base + REFERENCE))
        else:
            above = load(state, base_of(load(levels, load(levels, row + INTERFACE_AT))) + VALUE)
            answers, rows = counts_at(words, BESIDE, root, above)
        total = answers if far == FANOUT else rows
    store(state, base + TOTAL, total)


@inlined
def last_key(levels: Words, level: int) -> int:
    """The last of the levels whose values lead to the set of a level; -1 if it begins a component.

    Given these levels, the set is the same for all entries of every later level: it is *open*
    there.
    """
    row = LEVEL_WORDS * level
    if load(levels, row) == INSIDE:
        return parent_of(levels, level)
    last = -1
    for number in range(load(levels, row + INTERFACE)):
        last = max(last, load(levels, load(levels, row + INTERFACE_AT) + number))
    return last


@inlined
def seek(
    words: Words, roots: Words, levels: Words, numbers: Words, count: int, state: Words, left: int,
    far: int,
) -> int:  # fmt: skip
    """Prepare the state to produce the answer at a position; returns the remaining position."""
    last = count - 1
    for level in range(count):
        if load(levels, LEVEL_WORDS * level) == TRIE:
            sum_level(words, roots, levels, numbers, state, level, far)
    for level in range(count):
        row, base = LEVEL_WORDS * level, base_of(level)
        others = 1
        for other in range(level + 1, count):
            if last_key(levels, other) < level:
                others *= load(state, base_of(other) + TOTAL)
        quotient = left // others
        left -= quotient * others
        if load(levels, row) == TRIE:
            root = load(roots, load(levels, row + 1))
            rest = seek_trie(words, state, base, root, far, quotient)
        elif load(numbers, COUNT_WORDS * level) == LOOKED_UP:
            rest = seek_looked_up(words, roots, numbers, state, level, far, quotient)
        else:
            kind = load(numbers, COUNT_WORDS * level)
            root = load(roots, load(numbers, COUNT_WORDS * level + COUNT_ROOT))
            reference = load(state, base + REFERENCE)
            rest = seek_set(words, state, base, reference, far, quotient, kind, root)
        left += rest * others
        if level < last:
            move_level(words, levels, state, level)
            take_value(words, roots, levels, state, level)
            if far != FANOUT:
                left //= load(state, base + WEIGHT) // weight_above(state, level)
            for other in range(level + 1, count):
                if last_key(levels, other) == level:
                    sum_level(words, roots, levels, numbers, state, other, far)
        store(state, base + MOST, 1)
    store(state, PHASE, RUNNING)
    store(state, LEVEL, last)
    return left


@kernel
def seek_answer(
    words: Words, roots: Words, levels: Words, numbers: Words, count: int, state: Words,
    position: int,
) -> None:  # fmt: skip
    """Make `fill_answers` continue with the answer at a position, which must exist."""
    seek(words, roots, levels, numbers, count, state, position, FANOUT)


@kernel
def pick_answers(
    words: Words, roots: Words, levels: Words, numbers: Words, count: int, state: Words,
    positions: Words, by_rows: bool, out: Ids, counts: Words,
) -> None:  # fmt: skip
    """Write the answers at some positions, of answers or of rows, and their multiplicities."""
    last, rows = count - 1, positions.size
    for row in range(rows):
        far = 2 * FANOUT if by_rows else FANOUT
        seek(words, roots, levels, numbers, count, state, load(positions, row), far)
        move_level(words, levels, state, last)
        take_value(words, roots, levels, state, last)
        for level in range(count):
            column = load(levels, LEVEL_WORDS * level + COLUMN)
            store(out, column * rows + row, load(state, base_of(level) + VALUE))  # type: ignore[arg-type]
        store(counts, row, load(state, base_of(last) + WEIGHT))
