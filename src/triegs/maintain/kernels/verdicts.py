"""The verdicts of filters that kernels look up, and their requests for missing ones.

A *judge* is one filter expression over some variables. `triegs.maintain.judges` evaluates it, and
kernels refer to it by number. All judges share one array::

    IDS        number of ids that the planes below have room for
    VALUES     offset of the values of terms, 0 if no judge compares two variables
    DIRECTORY  from here on, by judge number, the offset of its row

A row begins with `ROW_HEAD` words, followed by data according to its `FORM`:

PLANES      One variable. For each 64 ids a word of "known" bits and a word of "yes" bits.
TABLE       Several variables: a hash table with linear probing, never more than half full. An entry
            is ``stamp << 1 | yes`` and the ids, two to a word. It is valid only with the stamp of
            the row, so a new stamp empties the table.
COMPARISON  Comparisons such as ``?x < ?y`` and ``?x + 5 < ?y``, decided by the values of the two
            terms; undecided cases are looked up in the table that follows. With arithmetic, the
            sum ``left factor * left + right factor * right + offset`` is compared with 0.

The value of a term is `VALUE_WORDS` words: its class, a number as floor and 10**18ths, and a key
that orders like doubles; for a text its first eight bytes, for an OTHER value its sort key, see
`triegs.maintain.kernels.sort_keys`. Values are requested under the judge number `VALUE_JUDGE`.

A kernel that finds no verdict writes a request into ``requests`` and assumes "no". Its caller then
has all requests answered and runs it again. ``requests[0]`` is the first free word; a request is
``judge, count, id...``; one that does not fit is made in the next run.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, bit, checked_add, checked_multiply, load, store

IDS, VALUES, DIRECTORY = range(3)
VALUE_JUDGE = 0

FORM, COUNT, STAMP, SLOTS, LEFT, RIGHT, ACCEPTED, UNDECIDED = range(8)
# Comparisons with arithmetic: the form of the factors and the offset, which are doubles; bounds of
# the size of all constants, and of numbers that do not overflow; and the same factors and offset as
# integers, if they are.
(
    LINEAR, LEFT_FACTOR, RIGHT_FACTOR, OFFSET, SPREAD, LIMIT, LEFT_WHOLE, RIGHT_WHOLE, OFFSET_WHOLE
) = range(8, 17)  # fmt: skip
ROW_HEAD = 17
PLANES, TABLE, COMPARISON = range(3)
NOT_LINEAR, DOUBLES, SINGLES, WHOLES = range(4)
# Relative errors of sums of doubles, and of those that are rounded to xsd:float.
FINE, COARSE = 2.0**-42, 2.0**-20
LEAST_DOUBLE, LEAST_FLOAT = 1e-300, 1e-25  # errors of numbers that are too small to be exact
FLOATS_PER_DOUBLE = 1e-270  # the largest float, compared with the largest double

VALUE_CLASS, FLOOR, FRACTION, KEY = range(4)
VALUE_WORDS = 4

# Classes of values. A term of class IDENTITY (an IRI, a blank node, a text with a language) equals
# another only if they are the same term, and so does a TEXT. OPAQUE is a literal without a value.
# EXACT numbers are integers and decimals, SINGLE those that rounding to xsd:float preserves. The
# last bit of a moment says whether it has a time zone. OTHER are numbers with too many digits.
NOT_READ, IDENTITY, TEXT, OPAQUE, OTHER, BOOLEAN, EXACT, SINGLE, FLOAT, DOUBLE, NAN = range(11)
DATE_TIME, ZONED_DATE_TIME, DATE, ZONED_DATE = range(12, 16)

# Possible results of a comparison, as bits of ACCEPTED and UNDECIDED. DIFFERENT values are
# unordered, TEXTS are different and ordered, ERROR is neither equal nor different.
LESS, EQUAL, GREATER, SAME, DIFFERENT, TEXTS, ERROR, UNSURE = (1 << n for n in range(8))

_ID_BITS = 31
_ID_MASK = (1 << _ID_BITS) - 1
_FACTOR = 0x5BD1E995  # 31 bits, so that a product with an id does not overflow


@short_kernel
def request_one(requests: Words, judge: int, key: int) -> None:
    at = load(requests, 0)
    if at + 3 <= requests.size:
        store(requests, at, judge)
        store(requests, at + 1, 1)
        store(requests, at + 2, key)
        store(requests, 0, at + 3)


@short_kernel
def request_tuple(requests: Words, judge: int, ids: Words, start: int, count: int) -> None:
    at = load(requests, 0)
    if at + 2 + count <= requests.size:
        store(requests, at, judge)
        store(requests, at + 1, count)
        for index in range(count):
            store(requests, at + 2 + index, load(ids, start + index))
        store(requests, 0, at + 2 + count)


@inlined
def accepts_id(verdicts: Words, requests: Words, judge: int, key: int) -> bool:
    """Whether a one-variable judge accepts this id; if unknown, false with a request queued."""
    if key < load(verdicts, IDS):
        at = load(verdicts, DIRECTORY + judge) + ROW_HEAD + 2 * (key >> 6)
        if (load(verdicts, at) >> (key & 63)) & 1 != 0:
            return (load(verdicts, at + 1) >> (key & 63)) & 1 != 0
    request_one(requests, judge, key)
    return False


@short_kernel
def accepts_tuple(verdicts: Words, requests: Words, judge: int, ids: Words, count: int) -> bool:
    """Whether a judge accepts the first `count` ids; if unknown, false with a request queued."""
    return accepts_at(verdicts, requests, judge, ids, 0, count)


@short_kernel
def accepts_at(
    verdicts: Words, requests: Words, judge: int, ids: Words, start: int, count: int
) -> bool:
    """`accepts_tuple` for ids that begin at an offset of their array."""
    row = load(verdicts, DIRECTORY + judge)
    form = load(verdicts, row + FORM)
    if form == PLANES:
        return accepts_id(verdicts, requests, judge, load(ids, start))
    if form == COMPARISON:
        left = load(ids, start + load(verdicts, row + LEFT))
        right = load(ids, start + load(verdicts, row + RIGHT))
        left_at, right_at = value_at(verdicts, left), value_at(verdicts, right)
        if left_at == 0 or right_at == 0:
            if left_at == 0:
                request_one(requests, VALUE_JUDGE, left)
            if right_at == 0:
                request_one(requests, VALUE_JUDGE, right)
            return False
        if load(verdicts, row + LINEAR) == NOT_LINEAR:
            outcome = compare_values(verdicts, left_at, right_at, left == right)
        else:
            outcome = compare_sum(verdicts, row, left_at, right_at)
        if outcome & load(verdicts, row + UNDECIDED) == 0:
            return outcome & load(verdicts, row + ACCEPTED) != 0
    at = find_tuple(verdicts, row, ids, start, count)
    word, stamp = load(verdicts, at), load(verdicts, row + STAMP)
    if word >> 1 == stamp:
        return word & 1 != 0
    request_tuple(requests, judge, ids, start, count)
    return False


# Values


@inlined
def value_at(verdicts: Words, key: int) -> int:
    """The offset of a term's value, 0 if it is not yet known."""
    if key >= load(verdicts, IDS):
        return 0
    at = load(verdicts, VALUES) + VALUE_WORDS * key
    return at if load(verdicts, at) != NOT_READ else 0


@inlined
def order(left: int, right: int) -> int:
    return LESS if left < right else EQUAL if left == right else GREATER


@inlined
def compare_values(verdicts: Words, left_at: int, right_at: int, is_same: bool) -> int:
    """The comparison result of two values as one bit, as defined by `triegs.sparql.values`."""
    left, right = load(verdicts, left_at), load(verdicts, right_at)
    are_exact = EXACT <= left <= SINGLE and EXACT <= right <= SINGLE
    if are_exact or (left == right and (left == BOOLEAN or left >= DATE_TIME)):
        outcome = order(load(verdicts, left_at + FLOOR), load(verdicts, right_at + FLOOR))
        if outcome == EQUAL:
            outcome = order(load(verdicts, left_at + FRACTION), load(verdicts, right_at + FRACTION))
        return outcome
    if left == OTHER or right == OTHER:
        return UNSURE
    if left == IDENTITY or right == IDENTITY:
        return SAME if is_same else DIFFERENT
    if left == OPAQUE or right == OPAQUE:
        return SAME if is_same else ERROR
    if left == TEXT and right == TEXT:
        return EQUAL if is_same else TEXTS
    if EXACT <= left <= DOUBLE and EXACT <= right <= DOUBLE:
        # Comparing an exact number with an xsd:float rounds it to a float.
        if (left == EXACT and right == FLOAT) or (left == FLOAT and right == EXACT):
            return UNSURE
        return order(load(verdicts, left_at + KEY), load(verdicts, right_at + KEY))
    if left >= DATE_TIME and right >= DATE_TIME and left >> 1 == right >> 1:
        return UNSURE  # one has no time zone: the result depends on their distance
    return DIFFERENT


@inlined
def as_double(word: int) -> float:
    return float(np.int64(word).view(np.float64))


@inlined
def read_key(key: int) -> float:
    """The double that a key orders."""
    return as_double(key ^ ((key >> 63) & ((1 << 63) - 1)))


@short_kernel
def compare_sum(verdicts: Words, row: int, left_at: int, right_at: int) -> int:
    """The comparison of a sum with 0: by doubles if it is not too close, else by integers if all
    parts are.
    """
    left, right = load(verdicts, left_at), load(verdicts, right_at)
    if left in (OTHER, NAN) or right in (OTHER, NAN):
        return UNSURE
    if not (EXACT <= left <= DOUBLE and EXACT <= right <= DOUBLE):
        return ERROR
    linear = load(verdicts, row + LINEAR)
    x, y = read_key(load(verdicts, left_at + KEY)), read_key(load(verdicts, right_at + KEY))
    is_coarse = linear == SINGLES or left == FLOAT or right == FLOAT
    limit = as_double(load(verdicts, row + LIMIT))
    if max(abs(x), abs(y)) > (limit * FLOATS_PER_DOUBLE if is_coarse else limit):
        return UNSURE
    x *= as_double(load(verdicts, row + LEFT_FACTOR))
    y *= as_double(load(verdicts, row + RIGHT_FACTOR))
    total = x + y + as_double(load(verdicts, row + OFFSET))
    size = abs(x) + abs(y) + as_double(load(verdicts, row + SPREAD))
    error = size * COARSE + LEAST_FLOAT if is_coarse else size * FINE + LEAST_DOUBLE
    if total > error:
        return GREATER
    if total < -error:
        return LESS
    if linear != WHOLES or left > SINGLE or right > SINGLE:
        return UNSURE
    if load(verdicts, left_at + FRACTION) != 0 or load(verdicts, right_at + FRACTION) != 0:
        return UNSURE
    first, is_first_large = checked_multiply(
        load(verdicts, row + LEFT_WHOLE), load(verdicts, left_at + FLOOR)
    )
    second, is_second_large = checked_multiply(
        load(verdicts, row + RIGHT_WHOLE), load(verdicts, right_at + FLOOR)
    )
    both, is_sum_large = checked_add(first, second)
    exact, is_large = checked_add(both, load(verdicts, row + OFFSET_WHOLE))
    if is_first_large or is_second_large or is_sum_large or is_large:
        return UNSURE
    return order(exact, 0)


# Tables


@inlined
def entry_words(count: int) -> int:
    return 1 + ((count + 1) >> 1)


@inlined
def pair_of(ids: Words, start: int, count: int, index: int) -> int:
    """Two ids in one word; a missing second id is 0."""
    second = load(ids, start + index + 1) if index + 1 < count else 0
    return load(ids, start + index) << _ID_BITS | second


@short_kernel
def find_tuple(verdicts: Words, row: int, ids: Words, start: int, count: int) -> int:
    """The offset of the entry of these ids, or of the free entry where it belongs."""
    mixed = 0
    for index in range(count):
        product = (mixed ^ load(ids, start + index)) * _FACTOR
        mixed = (product >> 23) & _ID_MASK
    stamp, last = load(verdicts, row + STAMP), load(verdicts, row + SLOTS) - 1
    size = entry_words(count)
    slot = mixed & last
    while True:
        at = row + ROW_HEAD + slot * size
        if load(verdicts, at) >> 1 != stamp:
            return at
        is_found = True
        for index in range(0, count, 2):
            if load(verdicts, at + 1 + (index >> 1)) != pair_of(ids, start, count, index):
                is_found = False
                break
        if is_found:
            return at
        slot = (slot + 1) & last


# Answering


@kernel
def count_requests(requests: Words, sizes: Words) -> None:
    """Add up the number of ids in the requests to each judge."""
    at = 1
    while at < load(requests, 0):
        judge, count = load(requests, at), load(requests, at + 1)
        store(sizes, judge, load(sizes, judge) + count)
        at += 2 + count


@kernel
def group_requests(requests: Words, starts: Words, ids: Words) -> None:
    """Copy the ids of each request to the section of its judge."""
    at = 1
    while at < load(requests, 0):
        judge, count = load(requests, at), load(requests, at + 1)
        to = load(starts, judge)
        for index in range(count):
            store(ids, to + index, load(requests, at + 2 + index))
        store(starts, judge, to + count)
        at += 2 + count


@kernel
def put_bits(verdicts: Words, row: int, ids: Words, answers: Words) -> None:
    """Store answers (1 yes, 0 no) for ids that the planes have room for."""
    for index in range(ids.size):
        key = load(ids, index)
        at, mask = row + ROW_HEAD + 2 * (key >> 6), bit(key & 63)
        store(verdicts, at, load(verdicts, at) | mask)
        yes = load(verdicts, at + 1)
        store(verdicts, at + 1, yes | mask if load(answers, index) != 0 else yes & ~mask)


@kernel
def put_values(verdicts: Words, ids: Words, values: Words) -> None:
    """Store the values of terms, `VALUE_WORDS` each."""
    for index in range(ids.size):
        at = load(verdicts, VALUES) + VALUE_WORDS * load(ids, index)
        for word in range(VALUE_WORDS):
            store(verdicts, at + word, load(values, VALUE_WORDS * index + word))


@kernel
def put_tuples(verdicts: Words, row: int, ids: Words, answers: Words) -> None:
    """Store answers for tuples, stored consecutively in ``ids``; the table must have room."""
    count, stamp = load(verdicts, row + COUNT), load(verdicts, row + STAMP)
    for index in range(answers.size):
        start = index * count
        at = find_tuple(verdicts, row, ids, start, count)
        store(verdicts, at, stamp << 1 | (1 if load(answers, index) != 0 else 0))
        for half in range(0, count, 2):
            store(verdicts, at + 1 + (half >> 1), pair_of(ids, start, count, half))


@kernel
def move_tuples(old: Words, old_row: int, verdicts: Words, row: int, ids: Words) -> None:
    """Copy the entries of a table into one of another size; ``ids`` is scratch for a tuple."""
    count, stamp = load(old, old_row + COUNT), load(old, old_row + STAMP)
    size = entry_words(count)
    for slot in range(load(old, old_row + SLOTS)):
        source = old_row + ROW_HEAD + slot * size
        if load(old, source) >> 1 == stamp:
            for index in range(count):
                pair = load(old, source + 1 + (index >> 1))
                store(ids, index, pair & _ID_MASK if index & 1 else pair >> _ID_BITS)
            at = find_tuple(verdicts, row, ids, 0, count)
            for word in range(size):
                store(verdicts, at + word, load(old, source + word))


@kernel
def forget_ids(verdicts: Words, judges: int, ids: Words) -> None:
    """Discard all verdicts on these ids, for the judge numbers below a bound."""
    room, values = load(verdicts, IDS), load(verdicts, VALUES)
    for judge in range(judges):
        row = load(verdicts, DIRECTORY + judge)
        if row == 0 or load(verdicts, row + FORM) != PLANES:
            continue
        for index in range(ids.size):
            key = load(ids, index)
            if key < room:
                at = row + ROW_HEAD + 2 * (key >> 6)
                store(verdicts, at, load(verdicts, at) & ~bit(key & 63))
    if values != 0:
        for index in range(ids.size):
            if load(ids, index) < room:
                store(verdicts, values + VALUE_WORDS * load(ids, index), NOT_READ)


@kernel
def judge_rows(
    verdicts: Words, requests: Words, judge: int, rows: Words, count: int, answers: Words
) -> None:
    """The verdicts on tuples, stored consecutively in ``rows``."""
    for index in range(answers.size):
        is_yes = accepts_at(verdicts, requests, judge, rows, index * count, count)
        store(answers, index, 1 if is_yes else 0)
