"""Reads the measures of many groups at once, and finds the groups that differ in two versions.

A key is a tuple of `width` ids; keys are stored consecutively.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, load, store, trailing_zeros
from triegs.maintain.kernels.sort_keys import KIND_SHIFT, KINDS, reverse_digits
from triegs.read.kernels.differences import KEY as CHANGED
from triegs.read.kernels.differences import column_at, next_difference, open_difference
from triegs.store.kernels.blocks import entry_key, entry_word, room_of
from triegs.store.kernels.cursors import (
    CURSOR_WORDS,
    KEY,
    WORD,
    set_first,
    set_next,
    trie_first,
    trie_next,
)
from triegs.store.kernels.layout import HEAD, LOW
from triegs.store.kernels.relations import tuple_get

Bytes = NDArray[np.uint8]
CURSOR = CURSOR_WORDS
DECIMAL_DIGIT, SMALL_DIGIT = 1, 1 << 20  # as in `triegs.maintain.digits`
INTEGERS, DECIMALS, OTHERS = range(3)
BILLION = 10**9
QUOTE, MINUS, POINT, ZERO = 34, 45, 46, 48
QUOTIENT_BYTES = 1 + 1 + 19 + 1 + 18  # quotation mark, sign, digits, point, places


@kernel
def read_counts(words: Words, root: int, keys: Words, width: int, counts: Words) -> None:
    """The count of each key; 0 for one that is not there."""
    for index in range(counts.size):
        store(counts, index, tuple_get(words, root, keys[index * width :], width))


@kernel
def read_decimals(
    words: Words, root: int, keys: Words, width: int, cursor: Words, parts: Words, kinds: Words
) -> None:
    """For each key of a sum: its digit of 9 decimal places, and the kind of its digits other than
    the whole one, `INTEGERS` if there are none, `DECIMALS` for that digit, or `OTHERS`.
    """
    for index in range(kinds.size):
        below = tuple_get(words, root, keys[index * width :], width)
        part, kind = 0, INTEGERS
        if below != 0:
            if width == 0:
                trie_first(words, cursor, 0, below)
            else:
                set_first(words, cursor, 0, below)
            while trie_next(words, cursor, 0) if width == 0 else set_next(words, cursor, 0):
                digit = load(cursor, KEY)
                if digit == DECIMAL_DIGIT:
                    kind = max(kind, DECIMALS)
                elif digit == SMALL_DIGIT:
                    part = load(cursor, WORD)
                else:
                    kind = OTHERS
        store(parts, index, part)
        store(kinds, index, kind)


@kernel
def write_quotients(
    whole: Words, parts: Words, divisors: Words, suffix: Bytes, scratch: Words, offsets: Words,
    data: Bytes,
) -> None:  # fmt: skip
    """Write ``(whole + part / 10**9) / divisor``, truncated to 18 places, as canonical decimals
    between a quotation mark and the suffix.

    A row takes at most `QUOTIENT_BYTES` and the suffix. Numbers must be below 2**62 and divisors
    below 2**59, so that nothing overflows. `scratch` has 18 words.
    """
    at = 0
    for row in range(whole.size):
        store(offsets, row, at)
        integer, part = load(whole, row), load(parts, row)
        divisor = load(divisors, row)
        carry = part // BILLION
        integer, part = integer + carry, part - carry * BILLION
        is_negative = integer < 0
        if is_negative:
            integer = -integer
            if part > 0:
                integer, part = integer - 1, BILLION - part
        quotient = integer // divisor
        left = integer - quotient * divisor
        unit, places = BILLION, 0
        for digit_index in range(18):  # long division, digit by digit
            left *= 10
            if unit > 1:
                unit //= 10
                left += part // unit
                part %= unit
            digit = left // divisor
            left -= digit * divisor
            store(scratch, digit_index, digit)
            if digit != 0:
                places = digit_index + 1
        data[at] = QUOTE
        at += 1
        if is_negative and (quotient != 0 or places != 0):
            data[at] = MINUS
            at += 1
        size, rest = 1, quotient
        while rest >= 10:
            rest //= 10
            size += 1
        for index in range(at + size - 1, at - 1, -1):
            data[index] = ZERO + quotient % 10
            quotient //= 10
        at += size
        if places != 0:
            data[at] = POINT
            at += 1
            for index in range(places):
                data[at + index] = ZERO + load(scratch, index)
            at += places
        for index in range(suffix.size):
            data[at + index] = suffix[index]
        at += suffix.size
    store(offsets, whole.size, at)


# Extremes: a measure of values has a second relation, with the sort key of a value before it.


@inlined
def find_best(words: Words, block: int, kind: int, is_last: bool) -> int:
    """The word of the lowest or highest sort key of a kind in a block; 0 if there is none."""
    header = load(words, block + 1)
    best, found = 0, 0
    room = room_of(header)
    for index in range(header & LOW):
        sort_key = reverse_digits(entry_key(words, block, room, index))
        if sort_key >> KIND_SHIFT == kind and (found == 0 or (sort_key > best) == is_last):
            best, found = sort_key, entry_word(words, block, room, index)
    return found


@kernel
def find_extreme(words: Words, reference: int, kind: int, is_last: bool) -> int:
    """The set of values with the lowest or highest sort key of a kind; 0 if there is none."""
    if reference & 1:  # the first digit is the kind and one more bit
        first = reference - 1 + HEAD + 2 * kind
        low, high = load(words, first), load(words, first + 1)
        reference = (high or low) if is_last else (low or high)
    while reference & 1:
        children = load(words, reference) & LOW
        digit = trailing_zeros(children)
        while is_last and children & (children - 1) != 0:
            children &= children - 1
            digit = trailing_zeros(children)
        reference = load(words, reference - 1 + HEAD + digit)
    return find_best(words, reference, kind, is_last)


@kernel
def list_extremes(
    words: Words, root: int, keys: Words, width: int, is_last: bool, cursor: Words, ids: Words
) -> int:
    """Write the values of a key that may be its lowest or highest: of each kind those with the best
    sort_key. Returns their number, which may be more than there is room for.
    """
    below = tuple_get(words, root, keys, width)
    count = 0
    for kind in range(KINDS):
        set_first(words, cursor, 0, find_extreme(words, below, kind, is_last))
        while set_next(words, cursor, 0):
            if count < ids.size:
                store(ids, count, load(cursor, KEY))
            count += 1
    return count


@kernel
def read_extremes(
    words: Words, root: int, keys: Words, width: int, is_last: bool, cursor: Words, ids: Words,
    counts: Words,
) -> None:  # fmt: skip
    """For each key the number of values that may be its lowest or highest, and one of them."""
    for index in range(ids.size):
        key, one = keys[index * width : index * width + width], ids[index : index + 1]
        store(counts, index, list_extremes(words, root, key, width, is_last, cursor, one))


@kernel
def open_changed(words: Words, state: Words, old: int, new: int) -> None:
    """Position before the first difference of two versions of a measure."""
    open_difference(words, state, 0, old, new)


@kernel
def list_changed(words: Words, state: Words, columns: int, width: int, keys: Words) -> int:
    """Write the keys of the next entries that differ; returns their number. Fewer than there is
    room for means the end. Of adjacent equal keys one is written.
    """
    most = keys.size // width
    count = 0
    while count < most and next_difference(words, state, 0, columns, True):
        is_new = count == 0
        for column in range(width):
            key = load(state, column_at(0, column) + CHANGED)
            if not is_new and key != load(keys, (count - 1) * width + column):
                is_new = True
            store(keys, count * width + column, key)
        if is_new:
            count += 1
    return count
