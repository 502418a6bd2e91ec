"""Accumulators of doubles: fixed-point numbers wide enough for every sum.

An accumulator is a row of words: counts of the values that no digit can show, then *digits* of 32
bits in words of 64. Digit i has the weight 2**(32 · (FIRST + i) − 1074); 2**-1074 is the smallest
double. Adding a double with a multiplicity changes four digits, and is the exact inverse of
removing it. Carries are deferred: a digit may exceed 32 bits until `PENDING`, the number of
additions since the last `carry_digits`, reaches its limit.

`WIDE` digits hold any sum whose multiplicities add up to less than 2**63. A row can have fewer, for
values of similar size: `FIRST` then follows the first value, and `add_value` reports a value that
does not fit.
"""

from __future__ import annotations

import math

import numpy as np

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, checked_add, load, store

# The counts: of NaN, of both infinities, of −0, and of all other values.
FIRST, PENDING, NANS, POSITIVE, NEGATIVE, NEGATIVE_ZEROS, OTHERS, LINK, DIGITS = range(9)
WIDE = 70
# The words of a value, times a multiplicity, span five digits; its sums, six.
SPAN = 6
MASK = (1 << 32) - 1
MOST_PENDING = 1 << 28  # an addition changes a digit by less than 2**34

ADDED, OUT_OF_RANGE, OVERFLOW = 0, 1, 2


@inlined
def get_bits(value: float) -> int:
    bits: int = np.float64(value).view(np.int64)  # type: ignore[assignment]
    return bits


@inlined
def shift_digit(words: Words, at: int, amount: int) -> None:
    store(words, at, load(words, at) + amount)


@short_kernel
def carry_digits(words: Words, at: int, digits: int) -> None:
    """Bring all digits but the last into 0 … 2**32 − 1; the last keeps the sign."""
    carry = 0
    for i in range(at + DIGITS, at + DIGITS + digits - 1):
        digit = load(words, i) + carry
        carry = digit >> 32
        store(words, i, digit & MASK)
    shift_digit(words, at + DIGITS + digits - 1, carry)
    store(words, at + PENDING, 0)


@inlined
def is_zero(words: Words, at: int, digits: int) -> bool:
    """Whether all digits are zero. Without deferred carries, this means that the sum is."""
    seen = 0
    for i in range(at + DIGITS, at + DIGITS + digits):
        seen |= load(words, i)
    return seen == 0


@inlined
def add_multiple(words: Words, at: int, position: int, mantissa: int, factor: int) -> None:
    """Add mantissa · factor · 2**position, for a factor of at most 31 bits and a sign."""
    at += position >> 5
    shift = position & 31
    low, high = mantissa & MASK, mantissa >> 32
    sign, size = 1, factor
    if factor < 0:
        sign, size = -1, -factor
    first = ((low << shift) & MASK) * size
    second = (((low >> (32 - shift)) | (high << shift)) & MASK) * size
    third = (high >> (32 - shift)) * size
    shift_digit(words, at, sign * (first & MASK))
    shift_digit(words, at + 1, sign * ((first >> 32) + (second & MASK)))
    shift_digit(words, at + 2, sign * ((second >> 32) + (third & MASK)))
    shift_digit(words, at + 3, sign * (third >> 32))


@inlined
def find_count(value: float, bits: int) -> int:
    """Which count a value belongs to."""
    if value != value:
        return NANS
    if bits & 0x7FFFFFFFFFFFFFFF == 0x7FF << 52:
        return POSITIVE if bits > 0 else NEGATIVE
    if value == 0.0 and bits != 0:
        return NEGATIVE_ZEROS
    return OTHERS


@short_kernel
def add_value(words: Words, at: int, digits: int, value: float, count: int) -> int:
    """Add a value `count` times, or remove it if `count` is negative; |count| ≤ 2**62.

    Returns `ADDED`, or changes nothing and returns `OUT_OF_RANGE` if the digits do not reach, or
    `OVERFLOW` if a count does not fit a word.
    """
    bits = get_bits(value)
    which = find_count(value, bits)
    total, overflows = checked_add(load(words, at + which), count)
    if overflows:
        return OVERFLOW
    if which != OTHERS or value == 0.0:
        store(words, at + which, total)
        return ADDED
    exponent, mantissa = (bits >> 52) & 0x7FF, bits & ((1 << 52) - 1)
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    shift = exponent - (load(words, at + FIRST) << 5)
    if shift < 0 or (shift >> 5) + SPAN > digits:
        carry_digits(words, at, digits)
        if not is_zero(words, at, digits):
            return OUT_OF_RANGE
        first = max((exponent >> 5) - 1, 0)  # leaves room for one digit below
        store(words, at + FIRST, first)
        shift = exponent - (first << 5)
    if load(words, at + PENDING) >= MOST_PENDING:
        carry_digits(words, at, digits)
    store(words, at + PENDING, load(words, at + PENDING) + 1)
    store(words, at + which, total)
    size = count if bits >= 0 else -count
    if -(1 << 31) < size < 1 << 31:
        add_multiple(words, at + DIGITS, shift, mantissa, size)
    else:
        high = size >> 31
        add_multiple(words, at + DIGITS, shift, mantissa, size - (high << 31))
        add_multiple(words, at + DIGITS, shift + 31, mantissa, high)
    return ADDED


@short_kernel
def merge_rows(words: Words, at: int, digits: int, other: Words, source: int, width: int) -> int:
    """Add the accumulator at `source`, of `width` digits, to the one at `at`; results as
    `add_value`. A value in one and its removal in the other cancel.
    """
    for i in range(NANS, OTHERS + 1):
        if checked_add(load(words, at + i), load(other, source + i))[1]:
            return OVERFLOW
    if digits < WIDE and load(words, at + PENDING) == 0 and is_zero(words, at, digits):
        store(words, at + FIRST, load(other, source + FIRST))
    distance = load(other, source + FIRST) - load(words, at + FIRST)
    end = digits if distance <= 0 or digits == WIDE else digits - 1  # leaves room for carries
    for i in range(width):
        if load(other, source + DIGITS + i) != 0 and not 0 <= distance + i < end:
            return OUT_OF_RANGE
    pending = load(words, at + PENDING) + load(other, source + PENDING) + 1
    if pending > MOST_PENDING:
        carry_digits(words, at, digits)
        pending = load(other, source + PENDING) + 1
    store(words, at + PENDING, pending)
    for i in range(width):
        amount = load(other, source + DIGITS + i)
        if amount != 0:
            shift_digit(words, at + DIGITS + distance + i, amount)
    for i in range(NANS, OTHERS + 1):
        shift_digit(words, at + i, load(other, source + i))
    return ADDED


@inlined
def round_magnitude(high: int, middle: int, low: int, rest: bool, top: int) -> float:
    """The double nearest to (high · 2**64 + middle · 2**32 + low + rest) · 2**(32 · (top − 2) −
    1074), where high is not 0 and rest is more than nothing and less than one.
    """
    length = 0
    while high >> length != 0:
        length += 1
    shift = length + 9  # leaves 55 bits: the mantissa, a bit for halves and one below
    if shift <= 32:
        kept = (high << (64 - shift)) | (middle << (32 - shift)) | (low >> shift)
        rest = rest or low & ((1 << shift) - 1) != 0
    else:
        kept = (high << (64 - shift)) | (middle >> (shift - 32))
        rest = rest or low != 0 or middle & ((1 << (shift - 32)) - 1) != 0
    mantissa, tail = kept >> 2, kept & 3
    if tail == 3 or (tail == 2 and (rest or mantissa & 1 == 1)):
        mantissa += 1
    exponent = 32 * (top - 2) - 1074 + shift + 2
    if exponent > 971 or (exponent == 971 and mantissa == 1 << 53):
        return np.inf
    # Exact: what is below 2**-1074 in a subnormal is zero.
    return math.ldexp(float(mantissa), int(exponent))


@short_kernel
def round_digits(words: Words, at: int, digits: int) -> float:
    """The double nearest to the digits, ties to even. Does not change the row."""
    carry = 0
    for i in range(digits):
        carry = (load(words, at + DIGITS + i) + carry) >> 32
    sign = -1 if carry < 0 else 1
    carry, top = 0, -1
    high, middle, low, rest = 0, 0, 0, False
    last, before, below = 0, 0, False  # the two digits below this one, and the rest of them
    for i in range(digits):
        digit = sign * load(words, at + DIGITS + i) + carry
        carry = digit >> 32
        digit &= MASK
        if digit != 0:
            high, middle, low, rest, top = digit, last, before, below, i
        below = below or before != 0
        last, before = digit, last
    if top < 0:
        return 0.0
    return sign * round_magnitude(high, middle, low, rest, top + load(words, at + FIRST))


@short_kernel
def round_row(words: Words, at: int, digits: int) -> float:
    """The sum of the values present, as IEEE 754 has it for an exact addition rounded once.

    The result is −0 if all values are −0. No value at all gives 0.
    """
    up, down = load(words, at + POSITIVE) != 0, load(words, at + NEGATIVE) != 0
    if load(words, at + NANS) != 0 or (up and down):
        return np.nan
    if up or down:
        return np.inf if up else -np.inf
    total = round_digits(words, at, digits)
    if total == 0.0 and load(words, at + OTHERS) == 0 and load(words, at + NEGATIVE_ZEROS) != 0:
        return -0.0
    return total


@kernel
def add_rows(
    rows: Words, wide: Words, digits: int, groups: Words, values: Words, counts: Words, start: int
) -> int:
    """Add the bits of doubles to the accumulators of their groups: `LINK` of a row is 0, or 1 plus
    the number of the wide row that replaces it. Returns the first row that is not added, and the
    result of it in the high bits.
    """
    row_words, wide_words = DIGITS + digits, DIGITS + WIDE
    for row in range(start, len(groups)):
        at = load(groups, row) * row_words
        value = np.int64(load(values, row)).view(np.float64)
        link = load(rows, at + LINK)
        if link == 0:
            result = add_value(rows, at, digits, value, load(counts, row))
        else:
            result = add_value(wide, (link - 1) * wide_words, WIDE, value, load(counts, row))
        if result != ADDED:
            return (result << 48) | row
    return len(groups)


@kernel
def merge_groups(
    rows: Words, wide: Words, digits: int, other: Words, other_wide: Words, start: int, end: int
) -> int:
    """Add accumulators of equal numbers. Both sides have wide rows, and results are, as in
    `add_rows`.
    """
    row_words, wide_words = DIGITS + digits, DIGITS + WIDE
    for group in range(start, end):
        at = group * row_words
        link, source = load(rows, at + LINK), load(other, at + LINK)
        result = OUT_OF_RANGE
        if source == 0 and link == 0:
            result = merge_rows(rows, at, digits, other, at, digits)
        elif source == 0:
            result = merge_rows(wide, (link - 1) * wide_words, WIDE, other, at, digits)
        elif link != 0:
            other_at = (source - 1) * wide_words
            result = merge_rows(wide, (link - 1) * wide_words, WIDE, other_wide, other_at, WIDE)
        if result != ADDED:
            return (result << 48) | group
    return end


@kernel
def round_rows(rows: Words, wide: Words, digits: int, groups: Words, out: Words) -> None:
    """Write the bits of the sum of each group."""
    row_words, wide_words = DIGITS + digits, DIGITS + WIDE
    for row in range(len(groups)):
        at = load(groups, row) * row_words
        link = load(rows, at + LINK)
        if link == 0:
            total = round_row(rows, at, digits)
        else:
            total = round_row(wide, (link - 1) * wide_words, WIDE)
        store(out, row, get_bits(total))
