"""Reads the measures of many groups at once, and finds the groups that differ in two versions.

A key is a tuple of `width` ids; keys are stored consecutively.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store
from triegs.read.kernels.differences import KEY as CHANGED
from triegs.read.kernels.differences import column_at, next_difference, open_difference
from triegs.store.kernels.cursors import (
    BLOCK,
    CURSOR_WORDS,
    KEY,
    SIZE,
    WORD,
    set_first,
    set_next,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.store.kernels.layout import HEAD
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
    for place in range(counts.size):
        store(counts, place, tuple_get(words, root, keys[place * width :], width))


@kernel
def read_decimals(
    words: Words, root: int, keys: Words, width: int, cursor: Words, parts: Words, kinds: Words
) -> None:
    """For each key of a sum: its digit of 9 decimal places, and the kind of its digits other than
    the whole one, `INTEGERS` if there are none, `DECIMALS` for that digit, or `OTHERS`.
    """
    for place in range(kinds.size):
        below = tuple_get(words, root, keys[place * width :], width)
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
        store(parts, place, part)
        store(kinds, place, kind)


@kernel
def list_values(
    words: Words, root: int, keys: Words, width: int, cursor: Words, ends: Words, ids: Words
) -> None:
    """The ids that follow each key, which has at least one column, and where those of each end."""
    count = 0
    for place in range(ends.size):
        below = tuple_get(words, root, keys[place * width :], width)
        if below != 0:
            set_first(words, cursor, 0, below)
            while True:
                block, size = load(cursor, BLOCK) + HEAD, load(cursor, SIZE)
                for each in range(size):
                    store(ids, count + each, load(words, block + each))
                count += size
                if not set_next_block(words, cursor, 0):
                    break
        store(ends, place, count)


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
        for place in range(18):  # long division, digit by digit
            left *= 10
            if unit > 1:
                unit //= 10
                left += part // unit
                part %= unit
            digit = left // divisor
            left -= digit * divisor
            store(scratch, place, digit)
            if digit != 0:
                places = place + 1
        data[at] = QUOTE
        at += 1
        if is_negative and (quotient != 0 or places != 0):
            data[at] = MINUS
            at += 1
        size, rest = 1, quotient
        while rest >= 10:
            rest //= 10
            size += 1
        for place in range(at + size - 1, at - 1, -1):
            data[place] = ZERO + quotient % 10
            quotient //= 10
        at += size
        if places != 0:
            data[at] = POINT
            at += 1
            for place in range(places):
                data[at + place] = ZERO + load(scratch, place)
            at += places
        for place in range(suffix.size):
            data[at + place] = suffix[place]
        at += suffix.size
    store(offsets, whole.size, at)


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
