"""Sort keys: integers in the order of values, by which an index finds the terms in a range.

A sort key has `SORT_KEY_BITS` bits. The highest four are the kind of the value, the rest is the
value itself, rounded down. So values of one kind are ordered like their sort keys, except that
close values may share one. Terms without an order have the sort key 0.

A range is found in two steps: the index yields all terms whose sort keys may be in it, and a judge
decides about those near its bounds. Values of type xsd:float have a kind of their own, because
comparing an exact number with one rounds it to a float. So have times without a time zone: they
compare with others if they are hours apart. Two kinds that differ only in their last bit are
comparable in this way, and of the other kind a wider range is taken.

Sets distribute ids by their low bits first, so a set of sort keys stores them with their digits in
reverse order: then its hubs are ordered by value.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined, kernel, merged, short_kernel
from triegs.jit.words import Words, bit, load, store, trailing_zeros
from triegs.maintain.kernels.tables import (
    CONSTANT,
    IS_COARSE,
    IS_EQUAL_TO,
    IS_LOWER,
    LEVEL_RANGES,
    LEVEL_RANGES_AT,
    RANGE_INTERCEPT,
    RANGE_KIND,
    RANGE_LIMIT,
    RANGE_REG,
    RANGE_SIDE,
    RANGE_SLOPE,
    RANGE_SPREAD,
    RANGE_WORDS,
    SORTED,
    TERMS,
)
from triegs.maintain.kernels.verdicts import (
    BOOLEAN,
    COARSE,
    DATE_TIME,
    DOUBLE,
    EXACT,
    FINE,
    FLOAT,
    FLOATS_PER_DOUBLE,
    FLOOR,
    FRACTION,
    KEY,
    LEAST_DOUBLE,
    LEAST_FLOAT,
    OTHER,
    SINGLE,
    TEXT,
    VALUE_JUDGE,
    as_double,
    read_key,
    request_one,
    value_at,
)
from triegs.maintain.kernels.work import (
    HIGH_BOUND,
    IS_SURE,
    LOW_BOUND,
    NEXT_HIGH,
    NEXT_LOW,
    RANGE_ROOT,
    SURE_HIGH,
    SURE_LOW,
    VALUES,
)
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import (
    BLOCK,
    BLOCK_ROOM,
    DEPTH,
    NEXT_ENTRY,
    SIZE,
    STACK,
    WORD,
    open_block,
)
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.layout import BITS, DIGIT, HEAD, LOW

SORT_KEY_BITS = 60
KIND_SHIFT = 56
PAYLOAD = (1 << KIND_SHIFT) - 1
MIDDLE = 1 << (KIND_SHIFT - 1)
TOP_SHIFT = SORT_KEY_BITS - BITS
# Kinds of sort keys. Those of times have the order of the classes of values.
UNORDERED, NUMBERS, FLOATS, TIMES, BOOLEANS, TEXTS = 0, 2, 3, 4, 8, 10
KINDS = 11

KEY_SHIFT = 8  # bits of the key of a number that a sort key has no room for
TEXT_SHIFT = 7
SECOND_BITS = 16  # of a sort key: parts of a second
SECOND_PART = 10**18 >> SECOND_BITS
SECONDS = 1 << (KIND_SHIFT - SECOND_BITS)
ZONES = 15 * 3600 << SECOND_BITS  # more than a time zone differs from UTC

_FIFTEENS = (1 << 15) - 1 | ((1 << 15) - 1) << 30
_OUTER = 31 | 31 << 15 | 31 << 30 | 31 << 45
_MIDDLES = _OUTER << 5


@inlined
def reverse_digits(sort_key: int) -> int:
    """A sort key with its twelve digits in reverse order; its own inverse."""
    sort_key = sort_key >> 30 | (sort_key & ((1 << 30) - 1)) << 30
    sort_key = sort_key >> 15 & _FIFTEENS | (sort_key & _FIFTEENS) << 15
    return sort_key >> 10 & _OUTER | sort_key & _MIDDLES | (sort_key & _OUTER) << 10


@inlined
def as_word(number: float) -> int:
    word: int = np.float64(number).view(np.int64)  # type: ignore[assignment]
    return word


@inlined
def sort_number(number: float, kind: int) -> int:
    """The sort key of a double, which must not be NaN."""
    bits = as_word(number + 0.0)  # no -0.0
    key = bits ^ ((bits >> 63) & ((1 << 63) - 1))
    return kind << KIND_SHIFT | (key >> KEY_SHIFT) + MIDDLE


@inlined
def read_number(sort_key: int) -> float:
    """The least double with this sort key; for the lowest numbers NaN, which is below them."""
    return read_key(((sort_key & PAYLOAD) - MIDDLE) << KEY_SHIFT)


@short_kernel
def make_sort_key(verdicts: Words, at: int) -> int:
    """The sort key of the value at an offset."""
    value_class, key = load(verdicts, at), load(verdicts, at + KEY)
    if value_class in (EXACT, SINGLE, DOUBLE):
        return NUMBERS << KIND_SHIFT | (key >> KEY_SHIFT) + MIDDLE
    if value_class == FLOAT:
        return FLOATS << KIND_SHIFT | (key >> KEY_SHIFT) + MIDDLE
    if value_class >= DATE_TIME:
        seconds = min(max(load(verdicts, at + FLOOR) + (SECONDS >> 1), 0), SECONDS - 1)
        parts = load(verdicts, at + FRACTION) // SECOND_PART
        return (TIMES + value_class - DATE_TIME) << KIND_SHIFT | seconds << SECOND_BITS | parts
    if value_class == BOOLEAN:
        return BOOLEANS << KIND_SHIFT | load(verdicts, at + FLOOR)
    if value_class == TEXT:
        return TEXTS << KIND_SHIFT | key >> TEXT_SHIFT
    return key if value_class == OTHER else UNORDERED


@kernel
def write_sort_keys(verdicts: Words, requests: Words, ids: Words, keys: Words) -> None:
    """Write the sort keys of ids, as sets store them; requests values that are missing."""
    for index in range(ids.size):
        at = value_at(verdicts, load(ids, index))
        if at == 0:
            request_one(requests, VALUE_JUDGE, load(ids, index))
        else:
            store(keys, index, reverse_digits(make_sort_key(verdicts, at)))


@inlined
def write_key(
    table: Words, work: Words, source: int, target: int, columns_at: int, width: int,
    verdicts: Words,
) -> None:  # fmt: skip
    """Write a tuple of `work` as the key of a sorted relation. All values must be known."""
    for index in range(width):
        column = load(table, columns_at + index)
        if column == CONSTANT:
            value = 0
        elif column & SORTED:
            at = value_at(verdicts, load(work, source + (column & ~SORTED)))
            value = reverse_digits(make_sort_key(verdicts, at))
        else:
            value = load(work, source + column)
        store(work, target + index, value)


@inlined
def request_values(
    table: Words, ids: Words, start: int, columns_at: int, width: int, verdicts: Words,
    requests: Words,
) -> None:  # fmt: skip
    """Request the values that `write_key` needs."""
    for index in range(width):
        column = load(table, columns_at + index)
        if column & SORTED:
            key = load(ids, start + (column & ~SORTED))
            if value_at(verdicts, key) == 0:
                request_one(requests, VALUE_JUDGE, key)


# Ranges


@inlined
def clamp(payload: int) -> int:
    return min(max(payload, 0), PAYLOAD)


@short_kernel
def bound_range(table: Words, row: int, sort_key: int, kind: int) -> tuple[int, int, int, int]:
    """The lowest and highest sort key of a kind that may satisfy a comparison with the value of a
    sort key; and the lowest and highest that certainly do. Either is (1, 0) if there is none.
    """
    own = sort_key >> KIND_SHIFT
    how = load(table, row + RANGE_KIND)
    low = high = sort_key
    start, end = kind << KIND_SHIFT, kind << KIND_SHIFT | PAYLOAD
    if kind >> 1 != own >> 1:
        return 1, 0, 1, 0
    if own >> 1 == NUMBERS >> 1:
        if how != TERMS or kind != own:
            number = read_number(sort_key)
            size = abs(number)
            limit = as_double(load(table, row + RANGE_LIMIT))
            is_coarse = kind != NUMBERS or own != NUMBERS or how == IS_COARSE
            if not size <= (limit * FLOATS_PER_DOUBLE if is_coarse else limit):  # also for NaN
                return start, end, 1, 0
            if how != TERMS:
                slope = as_double(load(table, row + RANGE_SLOPE))
                number = slope * number + as_double(load(table, row + RANGE_INTERCEPT))
                size = abs(slope) * size + as_double(load(table, row + RANGE_SPREAD))
            error = size * COARSE + LEAST_FLOAT if is_coarse else size * FINE + LEAST_DOUBLE
            low, high = sort_number(number - error, kind), sort_number(number + error, kind)
    elif how != TERMS:
        return 1, 0, 1, 0
    elif kind != own:
        payload = sort_key & PAYLOAD
        low, high = start | clamp(payload - ZONES), start | clamp(payload + ZONES)
    side = load(table, row + RANGE_SIDE)
    if side == IS_EQUAL_TO:
        return low, high, 1, 0
    if side == IS_LOWER:
        return low, end, high + 1, end
    return start, high, start, low - 1


@inlined
def push_hub(words: Words, work: Words, base: int, depth: int, hub: int, edges: int) -> None:
    """Enter a hub. `edges` says whether it contains the lower (1) and the upper (2) bound."""
    shift = TOP_SHIFT - BITS * depth
    children = load(words, hub + 1) & LOW
    if edges & 1:
        first = (load(work, base + LOW_BOUND) >> shift) & DIGIT
        children &= ~(bit(first) - 1)
    if edges & 2:
        last = (load(work, base + HIGH_BOUND) >> shift) & DIGIT
        children &= bit(last + 1) - 1
    top = base + STACK + 2 * depth
    store(work, top, hub)
    store(work, top + 1, children | edges << 32)
    store(work, base + DEPTH, depth + 1)


@inlined
def is_between(work: Words, base: int, sort_key: int) -> bool:
    if load(work, base + LOW_BOUND) <= sort_key <= load(work, base + HIGH_BOUND):
        return True
    return load(work, base + NEXT_LOW) <= sort_key <= load(work, base + NEXT_HIGH)


@kernel
def start_range(words: Words, work: Words, base: int, reference: int) -> None:
    """Position before the first sort key of a set within the two pairs of bounds."""
    store(work, base + DEPTH, 0)
    store(work, base + NEXT_ENTRY, 0)
    store(work, base + SIZE, 0)
    store(work, base + RANGE_ROOT, 0)
    if reference & 1:
        store(work, base + RANGE_ROOT, reference - 1)
        if load(work, base + LOW_BOUND) <= load(work, base + HIGH_BOUND):
            push_hub(words, work, base, 0, reference - 1, 3)
    else:
        open_block(words, work, base, reference)


@merged
def open_range(
    words: Words, table: Words, work: Words, level: int, base: int, reference: int,
    verdicts: Words, requests: Words,
) -> None:  # fmt: skip
    """Position before the first sort key of a set that all comparisons of a level allow.

    A hub is searched once for each of the two kinds of sort keys, a block once for both.
    """
    ranges, first = load(table, level + LEVEL_RANGES), load(table, level + LEVEL_RANGES_AT)
    start_range(words, work, base, 0)
    kind = -1
    for number in range(ranges):
        row = first + RANGE_WORDS * number
        key = load(work, VALUES + load(table, row + RANGE_REG))
        at = value_at(verdicts, key)
        if at == 0:
            request_one(requests, VALUE_JUDGE, key)
            return
        sort_key = make_sort_key(verdicts, at)
        if kind < 0:
            kind = sort_key >> KIND_SHIFT
            if kind == UNORDERED:
                return
            for other in range(3):  # two kinds, and what is certain of the first
                bound, which = base + LOW_BOUND + 2 * other, kind ^ (other & 1)
                store(work, bound, which << KIND_SHIFT)
                store(work, bound + 1, which << KIND_SHIFT | PAYLOAD)
        for other in range(2):
            bound = base + LOW_BOUND + 2 * other
            low, high, sure_low, sure_high = bound_range(table, row, sort_key, kind ^ other)
            store(work, bound, max(load(work, bound), low))
            store(work, bound + 1, min(load(work, bound + 1), high))
            if other == 0:
                bound = base + SURE_LOW
                store(work, bound, max(load(work, bound), sure_low))
                store(work, bound + 1, min(load(work, bound + 1), sure_high))
    start_range(words, work, base, reference)


@merged
def range_next(words: Words, work: Words, base: int) -> bool:
    """Advance to the next sort key in the range; false at the end."""
    while True:
        entry, size = load(work, base + NEXT_ENTRY), load(work, base + SIZE)
        block, room = load(work, base + BLOCK), load(work, base + BLOCK_ROOM)
        while entry < size:
            key = entry_key(words, block, room, entry)
            sort_key = reverse_digits(key)
            if is_between(work, base, sort_key):
                is_sure = load(work, base + SURE_LOW) <= sort_key <= load(work, base + SURE_HIGH)
                store(work, base + IS_SURE, 1 if is_sure else 0)
                store(work, base + CURSOR_KEY, key)
                store(work, base + WORD, entry_word(words, block, room, entry))
                store(work, base + NEXT_ENTRY, entry + 1)
                return True
            entry += 1
        store(work, base + NEXT_ENTRY, size)
        depth = load(work, base + DEPTH)
        if depth == 0:
            root = load(work, base + RANGE_ROOT)
            if root == 0:
                return False
            store(work, base + RANGE_ROOT, 0)
            store(work, base + LOW_BOUND, load(work, base + NEXT_LOW))
            store(work, base + HIGH_BOUND, load(work, base + NEXT_HIGH))
            if load(work, base + LOW_BOUND) > load(work, base + HIGH_BOUND):
                return False
            push_hub(words, work, base, 0, root, 3)
            continue
        top = base + STACK + 2 * (depth - 1)
        children = load(work, top + 1)
        edges = children >> 32
        children &= LOW
        if children == 0:
            store(work, base + DEPTH, depth - 1)
            continue
        digit = trailing_zeros(children)
        store(work, top + 1, children & (children - 1) | edges << 32)
        shift = TOP_SHIFT - BITS * (depth - 1)
        below = 0
        if edges & 1 and (load(work, base + LOW_BOUND) >> shift) & DIGIT == digit:
            below |= 1
        if edges & 2 and (load(work, base + HIGH_BOUND) >> shift) & DIGIT == digit:
            below |= 2
        child = load(words, load(work, top) + HEAD + digit)
        if child & 1:
            push_hub(words, work, base, depth, child - 1, below)
        else:
            open_block(words, work, base, child)
