"""Emissions of a rule: weights, the images of symmetric answers, sorting and netting.

An emission is `[ids in pairs…, weight]`. Emissions are sorted, summed by head, and only then
applied, see `triegs.maintain.kernels.output`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    Words,
    bit,
    checked_add,
    checked_multiply,
    checked_subtract,
    load,
    store,
)
from triegs.maintain.kernels.tables import (
    CHECK_COUNT,
    CHECK_JUDGE,
    CHECK_REGS_AT,
    CHECK_WORDS,
    COUNT,
    SYM_IMAGES,
    SYM_IMAGES_AT,
    SYM_INPUT_FIRST,
    SYM_INPUT_ORBIT,
    SYM_INPUT_SECOND,
    SYM_INPUT_WORDS,
    SYM_INPUTS,
    SYM_INPUTS_AT,
    SYM_LIST,
    SYM_VARIABLES,
)
from triegs.maintain.kernels.verdicts import accepts_id, accepts_tuple
from triegs.maintain.kernels.work import (
    BUCKETS,
    BUFFER_WORDS,
    DIGIT_BITS,
    EMITTED,
    IDS,
    KEY,
    OTHER_KEY,
    RANK_MASK,
    RANKS,
    RAW,
    SCRATCH,
    SEED_FIRST,
    SEED_ORBIT,
    SEED_RANK,
    SEED_SECOND,
    STRIDE,
    SYMMETRY,
    VALUES,
)
from triegs.store.kernels.layout import (
    LOG_FULL,
    OVERFLOW,
)
from triegs.store.kernels.relations import (
    set_fault,
)

TOO_LARGE = -1 << 63  # a weight that does not fit
ID_BITS = 31
ID = (1 << ID_BITS) - 1
RANK_FACTOR = 0x5BD1E995  # 31 bits, so that a product with an id does not overflow
FEW = 24  # up to this many emissions are sorted by insertion
LEAST_DIGIT_BITS = 8


# Weights


@inlined
def weigh(weight: int, word: int, use: int) -> int:
    if use != COUNT or word == 1:
        return weight
    product, overflow = checked_multiply(weight, word)
    if overflow or weight == TOO_LARGE:
        return TOO_LARGE
    return product


@inlined
def add(a: int, b: int) -> int:
    total, overflow = checked_add(a, b)
    if overflow or a == TOO_LARGE or b == TOO_LARGE:
        return TOO_LARGE
    return total


@inlined
def subtract(a: int, b: int) -> int:
    difference, overflow = checked_subtract(a, b)
    return TOO_LARGE if overflow else difference


@inlined
def passes(
    table: Words, work: Words, verdicts: Words, requests: Words, checks: int, checks_at: int
) -> bool:
    """Whether judges accept the values of registers."""
    for number in range(checks):
        check = checks_at + CHECK_WORDS * number
        judge, count = load(table, check + CHECK_JUDGE), load(table, check + CHECK_COUNT)
        regs = load(table, check + CHECK_REGS_AT)
        if count == 1:
            if not accepts_id(verdicts, requests, judge, load(work, VALUES + load(table, regs))):
                return False
        else:
            for each in range(count):
                store(work, IDS + each, load(work, VALUES + load(table, regs + each)))
            if not accepts_tuple(verdicts, requests, judge, work[IDS:], count):
                return False
    return True


# Emissions: `[ids in pairs…, weight]`.


@inlined
def read_head(table: Words, work: Words, at: int, image: int) -> int:
    register = load(table, at)
    if image != 0:
        register = load(table, image + register)
    return load(work, VALUES + register)


@inlined
def hash_pair(key: int, mask: int) -> int:
    return ((((key >> 20) ^ key) & ID) * RANK_FACTOR >> 16) & mask


@inlined
def find_rank(work: Words, a: int, b: int) -> int:
    """The rank of a changed pair; 0 if it has not changed."""
    key = ((a << ID_BITS) | b) + 1
    ranks, mask = load(work, RANKS), load(work, RANK_MASK)
    slot = hash_pair(key, mask)
    while True:
        found = load(work, ranks + 2 * slot)
        if found == key:
            return load(work, ranks + 2 * slot + 1)
        if found == 0:
            return 0
        slot = (slot + 1) & mask


@kernel
def rank_pairs(words: Words, log: Words, lists: Words, work: Words, table: Words) -> None:
    """Rank the changed pairs of a list, in the buffer that sorting uses later."""
    changed = load(table, load(work, SYMMETRY) + SYM_LIST)
    start, end = load(lists, 2 * changed), load(lists, 2 * changed + 1)
    size = 4
    while 4 * size < 2 * (end - start):  # an entry is 4 words; twice as many slots
        size *= 2
    if 2 * size > load(work, BUFFER_WORDS):
        set_fault(words, LOG_FULL)
        return
    ranks, mask = load(work, SCRATCH), size - 1
    store(work, RANKS, ranks)
    store(work, RANK_MASK, mask)
    for at in range(ranks, ranks + 2 * size):
        store(work, at, 0)
    for at in range(start, end, 4):
        key = ((load(log, at) << ID_BITS) | load(log, at + 1)) + 1
        slot = hash_pair(key, mask)
        while load(work, ranks + 2 * slot) != 0:
            slot = (slot + 1) & mask
        store(work, ranks + 2 * slot, key)
        store(work, ranks + 2 * slot + 1, at)


@kernel
def emit_images(
    words: Words, table: Words, work: Words, arity: int, head_at: int, weight: int
) -> None:
    """Emit an answer with all its images, unless another seed finds it.

    The responsible seed is the changed pair with the lowest rank. If it plays several roles, the
    first role up to renaming counts, and then the least of the images that have the pair in that
    role.
    """
    symmetry = load(work, SYMMETRY)
    first, second = load(work, SEED_FIRST), load(work, SEED_SECOND)
    orbit, rank = load(work, SEED_ORBIT), load(work, SEED_RANK)
    at = load(table, symmetry + SYM_INPUTS_AT)
    role = -1
    for _ in range(load(table, symmetry + SYM_INPUTS)):
        a = load(work, VALUES + load(table, at + SYM_INPUT_FIRST))
        b = load(work, VALUES + load(table, at + SYM_INPUT_SECOND))
        own = load(table, at + SYM_INPUT_ORBIT)
        if a == first and b == second:
            if own < orbit:
                return
        else:
            other = find_rank(work, a, b)
            if other != 0 and other < rank:
                return
        if role < 0 and own == orbit:
            role = at  # the first input of an orbit is the one that seeds bind
        at += SYM_INPUT_WORDS
    images, variables = load(table, symmetry + SYM_IMAGES), load(table, symmetry + SYM_VARIABLES)
    image = load(table, symmetry + SYM_IMAGES_AT)
    is_fixed = False
    for _ in range(1, images):
        image += variables
        order = 0
        for variable in range(variables):
            mine = load(work, VALUES + variable)
            its = load(work, VALUES + load(table, image + variable))
            if mine != its:
                order = 1 if its > mine else -1
                break
        if order == 0:
            is_fixed = True
        elif order < 0:
            a = load(table, image + load(table, role + SYM_INPUT_FIRST))
            b = load(table, image + load(table, role + SYM_INPUT_SECOND))
            if load(work, VALUES + a) == first and load(work, VALUES + b) == second:
                return
    image = load(table, symmetry + SYM_IMAGES_AT)
    for number in range(images):
        if not (is_fixed and is_repeated(table, work, symmetry, number)):
            put_emission(words, table, work, arity, head_at, image, weight)
        image += variables


@kernel
def is_repeated(table: Words, work: Words, symmetry: int, number: int) -> bool:
    """Whether an earlier image is identical."""
    variables = load(table, symmetry + SYM_VARIABLES)
    start = load(table, symmetry + SYM_IMAGES_AT)
    image = start + number * variables
    for other in range(start, image, variables):
        is_same = True
        for variable in range(variables):
            mine = load(work, VALUES + load(table, image + variable))
            if load(work, VALUES + load(table, other + variable)) != mine:
                is_same = False
                break
        if is_same:
            return True
    return False


@inlined
def open_emissions(work: Words, arity: int) -> None:
    store(work, EMITTED, 0)
    store(work, STRIDE, (arity + 1) // 2 + 1)


@inlined
def emit(words: Words, table: Words, work: Words, arity: int, head_at: int, weight: int) -> None:
    if weight == TOO_LARGE:
        set_fault(words, OVERFLOW)
        return
    if load(work, SYMMETRY) != 0:
        emit_images(words, table, work, arity, head_at, weight)
        return
    put_emission(words, table, work, arity, head_at, 0, weight)


@inlined
def emit_next(
    words: Words, table: Words, work: Words, arity: int, head_at: int, weight: int
) -> None:
    """As `emit`, for seeds that may arrive in the order of the head: an emission with the head of
    the last one is added to it.
    """
    count, stride = load(work, EMITTED), load(work, STRIDE)
    emit(words, table, work, arity, head_at, weight)
    at = load(work, RAW) + count * stride
    if count == 0 or load(work, EMITTED) != count + 1:
        return
    for word in range(at, at + stride - 1):
        if load(work, word) != load(work, word - stride):
            return
    total = add(load(work, at - 1), weight)
    if total != TOO_LARGE:
        store(work, at - 1, total)
        store(work, EMITTED, count)


@inlined
def put_emission(
    words: Words, table: Words, work: Words, arity: int, head_at: int, image: int, weight: int
) -> None:
    """Write an emission, or its image under a renaming of registers."""
    count, stride = load(work, EMITTED), load(work, STRIDE)
    offset = count * stride
    if offset + stride > load(work, BUFFER_WORDS):
        set_fault(words, LOG_FULL)
        return
    at = load(work, RAW) + offset
    for column in range(0, arity, 2):
        pair = read_head(table, work, head_at + column, image)
        if column + 1 < arity:
            pair = (pair << ID_BITS) | read_head(table, work, head_at + column + 1, image)
        store(work, at, pair)
        at += 1
    store(work, at, weight)
    store(work, EMITTED, count + 1)


@inlined
def unpack(work: Words, at: int, arity: int) -> None:
    """The ids of an emission, as a tuple."""
    for column in range(0, arity, 2):
        pair = load(work, at)
        at += 1
        if column + 1 < arity:
            store(work, KEY + column, pair >> ID_BITS)
            store(work, KEY + column + 1, pair & ID)
        else:
            store(work, KEY + column, pair)


@merged
def sort_few(work: Words, count: int, stride: int) -> None:
    raw, spare = load(work, RAW), load(work, SCRATCH)
    for each in range(1, count):
        here = raw + stride * each
        for word in range(stride):
            store(work, spare + word, load(work, here + word))
        at = here - stride
        while at >= raw:
            order = 0
            for word in range(stride - 1):
                a, b = load(work, at + word), load(work, spare + word)
                if a != b:
                    order = 1 if a > b else -1
                    break
            if order <= 0:
                break
            for word in range(stride):
                store(work, at + stride + word, load(work, at + word))
            at -= stride
        for word in range(stride):
            store(work, at + stride + word, load(work, spare + word))


@inlined
def read_digit(pair: int, low_bits: int, shift: int, mask: int) -> int:
    """A digit of the two ids in a word, packed without the high bits of the second."""
    low = pair & (bit(low_bits) - 1)
    return ((((pair >> ID_BITS) << low_bits) | low) >> shift) & mask


@merged
def sort_by_digit(
    work: Words, count: int, stride: int, word: int, low_bits: int, shift: int, width: int
) -> None:
    """One stable sorting pass, into the other buffer."""
    source, target = load(work, RAW), load(work, SCRATCH)
    mask = (1 << width) - 1
    for bucket in range(mask + 2):
        store(work, BUCKETS + bucket, 0)
    for at in range(source + word, source + word + count * stride, stride):
        bucket = BUCKETS + read_digit(load(work, at), low_bits, shift, mask) + 1
        store(work, bucket, load(work, bucket) + 1)
    for bucket in range(BUCKETS, BUCKETS + mask + 1):
        store(work, bucket + 1, load(work, bucket + 1) + load(work, bucket))
    for at in range(source, source + count * stride, stride):
        bucket = BUCKETS + read_digit(load(work, at + word), low_bits, shift, mask)
        index = load(work, bucket)
        store(work, bucket, index + 1)
        there = target + index * stride
        store(work, there, load(work, at))
        store(work, there + 1, load(work, at + 1))
        for each in range(2, stride):
            store(work, there + each, load(work, at + each))
    store(work, RAW, target)
    store(work, SCRATCH, source)


@inlined
def count_bits(word: int) -> int:
    bits = 0
    while word >> bits != 0:
        bits += 1
    return bits


@inlined
def sort_emissions(work: Words) -> None:
    """Sort by head, ascending."""
    sort_columns(work, 2 * (load(work, STRIDE) - 1))


@kernel
def sort_columns(work: Words, columns: int) -> None:
    """Sort by the leading columns, ascending and stable, least significant digit first.

    High bits that are equal in all emissions are skipped. Few emissions use narrow digits, because
    every pass clears one bucket per digit value.
    """
    count, stride = load(work, EMITTED), load(work, STRIDE)
    if count <= FEW:
        sort_few(work, count, stride)
        return
    most = DIGIT_BITS
    while most > LEAST_DIGIT_BITS and count < 1 << most:
        most -= 1
    for word in range((columns - 1) // 2, -1, -1):
        raw = load(work, RAW) + word
        some, every = 0, load(work, raw)
        for at in range(raw, raw + count * stride, stride):
            some |= load(work, at)
            every &= load(work, at)
        varying = some ^ every
        if 2 * word + 1 == columns:  # the second id of this word is not a key
            varying = (varying >> ID_BITS) << ID_BITS
        low_bits = count_bits(varying & ID)
        bits = low_bits + count_bits(varying >> ID_BITS)
        digits = (bits + most - 1) // most
        for digit in range(digits):
            width = (bits + digits - 1) // digits
            sort_by_digit(work, count, stride, word, low_bits, digit * width, width)


@merged
def rearrange(work: Words, table: Words, order: int, arity: int) -> int:
    """Put the columns of all emissions into the order of another relation of the output.

    `OTHER_KEY` holds the current order. Returns the number of leading columns to sort by: behind
    them the columns keep their relative order, by which equal emissions are sorted already.
    """
    for column in range(arity):
        wanted, found = load(table, order + 1 + column), 0
        while load(work, OTHER_KEY + found) != wanted:
            found += 1
        store(work, IDS + column, found)
    for column in range(arity):
        store(work, OTHER_KEY + column, load(table, order + 1 + column))
    stride, raw = load(work, STRIDE), load(work, RAW)
    for at in range(raw, raw + load(work, EMITTED) * stride, stride):
        unpack(work, at, arity)
        for column in range(0, arity, 2):
            pair = load(work, KEY + load(work, IDS + column))
            if column + 1 < arity:
                pair = (pair << ID_BITS) | load(work, KEY + load(work, IDS + column + 1))
            store(work, at + (column >> 1), pair)
    columns = arity - 1
    while columns > 0 and load(work, IDS + columns - 1) < load(work, IDS + columns):
        columns -= 1
    return columns


@merged
def merge_emissions(words: Words, work: Words) -> None:
    """Sum the emissions of each head, and drop those that cancel."""
    count, stride = load(work, EMITTED), load(work, STRIDE)
    raw = load(work, RAW)
    kept, at = raw, raw
    end = raw + count * stride
    while at < end:
        total = load(work, at + stride - 1)
        following = at + stride
        while following < end:
            is_same = True
            for word in range(stride - 1):
                is_same = is_same and load(work, following + word) == load(work, at + word)
            if not is_same:
                break
            total = add(total, load(work, following + stride - 1))
            following += stride
        if total == TOO_LARGE:
            set_fault(words, OVERFLOW)
        if total != 0:
            for word in range(stride - 1):
                store(work, kept + word, load(work, at + word))
            store(work, kept + stride - 1, total)
            kept += stride
        at = following
    store(work, EMITTED, (kept - raw) // stride)
