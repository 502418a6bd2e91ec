"""Kernels on the bytes of one term: its hash, its integer value, whether it is canonical.

All take ``data`` (UTF-8 bytes), ``start`` and ``end``. They are a fast path for common terms;
anything else is left to `triegs.terms.term`, the single authority on spelling.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined, kernel
from triegs.terms.arrays import Bytes, Word
from triegs.terms.jit import wrapping

INTEGER_SUFFIX = np.frombuffer(b'"^^<http://www.w3.org/2001/XMLSchema#integer>', np.uint8).copy()
STRING_SUFFIX = np.frombuffer(b"http://www.w3.org/2001/XMLSchema#string", np.uint8).copy()
# Lengths of the shortest and longest canonical 64-bit integer: 0 and -9223372036854775808.
_SHORTEST = 2 + len(INTEGER_SUFFIX)
_LONGEST = 21 + len(INTEGER_SUFFIX)

_MIX_1 = np.uint64(0x9E3779B185EBCA87)
_MIX_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_ROUND = np.uint64(29)
_TAIL = np.uint64(33)
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_5, _6, _7 = np.uint64(5), np.uint64(6), np.uint64(7)
_8, _16, _24, _32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
_40, _48, _56 = np.uint64(40), np.uint64(48), np.uint64(56)


@inlined
def load_word(data: Bytes, at: Word) -> Word:
    """Eight bytes as one number; unsigned indices let the compiler use a single load."""
    i = np.uint64(at)
    return (
        np.uint64(data[i])
        | np.uint64(data[i + _1]) << _8
        | np.uint64(data[i + _2]) << _16
        | np.uint64(data[i + _3]) << _24
        | np.uint64(data[i + _4]) << _32
        | np.uint64(data[i + _5]) << _40
        | np.uint64(data[i + _6]) << _48
        | np.uint64(data[i + _7]) << _56
    )


@wrapping
def hash_bytes(data: Bytes, start: Word, end: Word) -> Word:
    """31 well-mixed bits."""
    state = np.uint64(end - start) * _MIX_1
    at = start
    while at + 8 <= end:
        state = (state ^ load_word(data, at)) * _MIX_2
        state ^= state >> _ROUND
        at += 8
    rest = np.uint64(0)
    while at < end:
        rest = (rest << _8) | np.uint64(data[np.uint64(at)])
        at += 1
    state = (state ^ rest) * _MIX_1
    state ^= state >> _32
    state *= _MIX_2
    return np.int64(state >> _TAIL)


@wrapping
def hash_integer(value: Word) -> Word:
    """31 well-mixed bits."""
    state = np.uint64(value) * _MIX_1
    state ^= state >> _32
    state *= _MIX_2
    return np.int64(state >> _TAIL)


@inlined
def equal_bytes(
    left: Bytes, left_start: Word, right: Bytes, right_start: Word, length: Word
) -> bool:
    at = 0
    while at + 8 <= length:
        if load_word(left, left_start + at) != load_word(right, right_start + at):
            return False
        at += 8
    while at < length:
        if left[left_start + at] != right[right_start + at]:
            return False
        at += 1
    return True


@inlined
def copy_bytes(target: Bytes, offset: Word, source: Bytes, start: Word, length: Word) -> None:
    # A loop: slice assignment allocates if source and target might overlap.
    for at in range(length):
        target[np.uint64(offset + at)] = source[np.uint64(start + at)]


@inlined
def may_be_integer(data: Bytes, start: Word, end: Word) -> bool:
    """Quickly rule out nearly all terms that are not an ``xsd:integer``: ``"…er>``."""
    return bool(
        _SHORTEST <= end - start <= _LONGEST
        and data[start] == 34
        and data[end - 1] == 62
        and data[end - 2] == 114
        and data[end - 3] == 101
    )


@kernel
def read_integer(data: Bytes, start: Word, end: Word) -> tuple[bool, Word]:
    """Whether this is a canonical 64-bit ``xsd:integer``, and its value.

    ``"05"``, ``"+5"``, ``"-0"`` and larger integers are different terms, kept as text.
    """
    suffix = end - len(INTEGER_SUFFIX)
    if not equal_bytes(data, suffix, INTEGER_SUFFIX, 0, len(INTEGER_SUFFIX)):
        return False, 0
    at = start + 1
    negative = data[at] == 45
    if negative:
        at += 1
    digits = suffix - at
    if digits < 1 or digits > 19 or (data[at] == 48 and (digits > 1 or negative)):
        return False, 0
    # Accumulated as a negative number: the minimum has no positive counterpart. Only the last of
    # 19 digits can overflow.
    value = np.int64(0)
    while at < suffix:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return False, 0
        if at == suffix - 1 and digits == 19:
            limit = 8 if negative else 7
            if value < -922337203685477580 or (value == -922337203685477580 and digit > limit):
                return False, 0
        value = value * 10 - digit
        at += 1
    return True, value if negative else -value


@inlined
def measure_character(data: Bytes, at: Word, end: Word) -> Word:
    """Bytes of the non-ASCII UTF-8 character starting here; 0 if it is invalid.

    Also 0 for U+FFFE and U+FFFF, which the canonical spelling escapes.
    """
    first = np.int64(data[at])
    size = 0
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
    elif 0xF0 <= first <= 0xF4:
        size = 4
    if size == 0 or at + size > end:
        return 0
    for more in range(1, size):
        if data[at + more] & 0xC0 != 0x80:
            return 0
    second = np.int64(data[at + 1])
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    if first == 0xEF and second == 0xBF and data[at + 2] >= 0xBE:
        return 0
    return size


@inlined
def is_alphanumeric(byte: Word) -> bool:
    return bool(97 <= byte <= 122 or 65 <= byte <= 90 or 48 <= byte <= 57)


@kernel
def is_plain_iri(data: Bytes, start: Word, end: Word) -> bool:
    """Whether the bytes between ``<`` and ``>`` are an IRI without escapes."""
    at = start
    while at < end:
        byte = data[at]
        if byte >= 128:
            size = measure_character(data, at, end)
            if size == 0:
                return False
            at += size
            continue
        # space and controls, " < > \ ^ ` { | }
        if byte <= 32 or byte in (34, 60, 62, 92, 94, 96, 123, 124, 125):
            return False
        at += 1
    return True


@kernel
def is_plain_label(data: Bytes, start: Word, end: Word) -> bool:
    """Whether this is an ASCII blank node label."""
    if start >= end or data[start] == 45 or data[start] == 46 or data[end - 1] == 46:
        return False
    for at in range(start, end):
        byte = data[at]
        if not is_alphanumeric(byte) and byte not in (95, 58, 45, 46):
            return False
    return True


@kernel
def is_plain_language(data: Bytes, start: Word, end: Word) -> bool:
    """Whether this is a lower-case language tag."""
    letters = 0
    first = True
    for at in range(start, end):
        byte = data[at]
        if byte == 45:
            if letters == 0:
                return False
            letters = 0
            first = False
        elif 97 <= byte <= 122 or (not first and 48 <= byte <= 57):
            letters += 1
        else:
            return False
    return letters > 0


@kernel
def find_closing_quote(data: Bytes, start: Word, end: Word) -> Word:
    """End of the text of a literal if its spelling is canonical, else -1."""
    at = start
    while at < end:
        byte = data[at]
        if byte == 34:
            return at
        if byte == 92:
            # \" \\ \b \f \n \r \t; all other escapes are not canonical
            if at + 1 >= end or data[at + 1] not in (34, 92, 98, 102, 110, 114, 116):
                return -1
            at += 2
        elif byte < 32 or byte == 127:
            return -1
        elif byte < 128:
            at += 1
        else:
            size = measure_character(data, at, end)
            if size == 0:
                return -1
            at += size
    return -1


@kernel
def is_canonical(data: Bytes, start: Word, end: Word) -> bool:
    """True only for a canonical term; False means undecided: use `triegs.terms.term`."""
    if end - start < 2:
        return False
    first = data[start]
    if first == 60:
        return data[end - 1] == 62 and is_plain_iri(data, start + 1, end - 1)
    if first == 95:
        return data[start + 1] == 58 and is_plain_label(data, start + 2, end)
    if first != 34:
        return False
    quote = find_closing_quote(data, start + 1, end)
    if quote < 0:
        return False
    at = quote + 1
    if at == end:
        return True
    if data[at] == 64:
        return is_plain_language(data, at + 1, end)
    if end - at < 4 or data[at] != 94 or data[at + 1] != 94 or data[at + 2] != 60:
        return False
    if data[end - 1] != 62 or not is_plain_iri(data, at + 3, end - 1):
        return False
    datatype = end - at - 4
    return datatype != len(STRING_SUFFIX) or not equal_bytes(
        data, at + 3, STRING_SUFFIX, 0, datatype
    )
