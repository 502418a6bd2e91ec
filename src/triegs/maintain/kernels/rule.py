"""RULE: one table-driven step for every join. Nothing is compiled per query.

    out(head) = the sum over all other variables of the product of the inputs

is kept by differences. For each input in turn its changed tuples are *seeds*; the inputs before it
are read as they are now, those after it as they were, from the roots of the last version. So every
occurrence of a relation is a seed once, and one edge may play several roles.

An input is a chain of words: its root, the set below its first column, and so on, up to its count.
A seed binds variables; *probes* follow the other inputs by these, from word to word. Each *level*
binds one variable more. Its *sources* are the inputs that have the variable: a single one is
walked, several are intersected, variable by variable, which is what makes the join worst-case
optimal. What is left is emitted with its weight. Emissions are sorted, those of one head summed,
and only then applied: the keys come in order, and what cancels out touches nothing.

A weight that does not fit is `TOO_LARGE` from then on, and a fault if it is emitted: a product with
a zero does not overflow.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    Words,
    bit,
    checked_add,
    checked_multiply,
    copy_words,
    load,
    population,
    prefetch,
    store,
    trailing_zeros,
)
from triegs.maintain.kernels.tables import (
    BOTH,
    CHECK_COUNT,
    CHECK_JUDGE,
    CHECK_REGS_AT,
    CHECK_WORDS,
    COUNT,
    D_ARITY,
    D_CHECKS,
    D_CHECKS_AT,
    D_FROM,
    D_LEVELS,
    D_LEVELS_AT,
    D_NUMBER,
    D_ORBIT,
    D_PROBES,
    D_PROBES_AT,
    D_REGS_AT,
    D_ROOTS,
    D_ROOTS_AT,
    D_SIDE,
    D_SLOT,
    D_USE,
    DELTA_WORDS,
    ENTRIES,
    ENTRY_WORDS,
    LEADS,
    LEVEL_CHECKS,
    LEVEL_CHECKS_AT,
    LEVEL_IS_SHOWN,
    LEVEL_REG,
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    LEVEL_WORDS,
    NOW,
    PROBE_IN,
    PROBE_IS_TRIE,
    PROBE_OUT,
    PROBE_REG,
    PROBE_USE,
    PROBE_WORDS,
    ROOT_IS_OLD,
    ROOT_SLOT,
    ROOT_USE,
    ROOT_WORD,
    ROOT_WORDS,
    RULE_ARITY,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    RULE_HEAD_AT,
    RULE_IS_LISTED_ONLY,
    RULE_IS_SUMMED,
    RULE_KEYS,
    RULE_KEYS_LIST,
    RULE_LIST,
    RULE_ORDERS,
    RULE_ORDERS_AT,
    RULE_SYMMETRY_AT,
    SOURCE_IN,
    SOURCE_IS_TRIE,
    SOURCE_OUT,
    SOURCE_USE,
    SOURCE_WORDS,
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
    ADDED,
    BUCKETS,
    BUFFER_WORDS,
    CHANGED,
    DIGIT_BITS,
    EMITTED,
    END,
    FRAMES,
    GROUPS,
    IDS,
    KEY,
    LEAF,
    LEAF_IDS,
    LEVEL_STATE,
    LEVELS,
    MOST_GROUPS,
    NEXT,
    OTHER_KEY,
    RANK_MASK,
    RANKS,
    RAW,
    RUNS,
    RUNS_END,
    SCRATCH,
    SEED_FIRST,
    SEED_ORBIT,
    SEED_RANK,
    SEED_SECOND,
    SIEVE,
    SIEVE_WORDS,
    STRIDE,
    SYMMETRY,
    UNMERGED,
    VALUES,
    WEIGHT,
    WORDS_AT,
)
from triegs.store.kernels.arena import drop
from triegs.store.kernels.cursors import (
    BLOCK,
    CAPACITY,
    SIZE,
    WORD,
    set_first,
    set_next,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.free import allocate, has_room
from triegs.store.kernels.layout import (
    BITS,
    DIGIT,
    EPOCH,
    FAULTS,
    HEAD,
    LARGEST,
    LOG_FULL,
    LOW,
    NODE_CLASS,
    OVERFLOW,
    SLOTS,
    SMALLEST,
)
from triegs.store.kernels.order_statistics import summed_change
from triegs.store.kernels.relations import (
    mark_word,
    set_fault,
    tuple_change,
    tuple_get,
)
from triegs.store.kernels.sets import class_for, find_entry, set_change, set_get, set_place
from triegs.store.kernels.trie import find_leaf, trie_get, trie_leaf

TOO_LARGE = -1 << 63  # a weight that does not fit
ID_BITS = 31
ID = (1 << ID_BITS) - 1
RANK_FACTOR = 0x5BD1E995  # with 31 bits, so that a product with an id does not overflow
FEW = 24  # so many emissions are sorted by insertion
LEAST_DIGIT_BITS = 8
FEW_IDS = 12  # above this size the two masks let too many ids pass
LINE_WORDS = 8  # of a cache line
MOST_FETCHED = 32  # at most so many emissions of a set have their blocks prefetched
NOT_DONE = -1 << 62


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
def passes(
    table: Words, work: Words, verdicts: Words, asked: Words, checks: int, checks_at: int
) -> bool:
    """Whether judges accept the values of registers."""
    for number in range(checks):
        check = checks_at + CHECK_WORDS * number
        judge, count = load(table, check + CHECK_JUDGE), load(table, check + CHECK_COUNT)
        regs = load(table, check + CHECK_REGS_AT)
        if count == 1:
            if not accepts_id(verdicts, asked, judge, load(work, VALUES + load(table, regs))):
                return False
        else:
            for each in range(count):
                store(work, IDS + each, load(work, VALUES + load(table, regs + each)))
            if not accepts_tuple(verdicts, asked, judge, work[IDS:], count):
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
def place_rank(key: int, mask: int) -> int:
    return ((((key >> 20) ^ key) & ID) * RANK_FACTOR >> 16) & mask


@inlined
def find_rank(work: Words, a: int, b: int) -> int:
    """The rank of a changed pair; 0 if it has not changed."""
    key = ((a << ID_BITS) | b) + 1
    ranks, mask = load(work, RANKS), load(work, RANK_MASK)
    place = place_rank(key, mask)
    while True:
        found = load(work, ranks + 2 * place)
        if found == key:
            return load(work, ranks + 2 * place + 1)
        if found == 0:
            return 0
        place = (place + 1) & mask


@kernel
def rank_pairs(words: Words, log: Words, lists: Words, work: Words, table: Words) -> None:
    """Number the changed pairs of a list, into the buffer that sorting will use."""
    changed = load(table, load(work, SYMMETRY) + SYM_LIST)
    start, end = load(lists, 2 * changed), load(lists, 2 * changed + 1)
    size = 4
    while 4 * size < 2 * (end - start):  # an entry is 4 words; twice as many places
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
        place = place_rank(key, mask)
        while load(work, ranks + 2 * place) != 0:
            place = (place + 1) & mask
        store(work, ranks + 2 * place, key)
        store(work, ranks + 2 * place + 1, at)


@kernel
def emit_images(
    words: Words, table: Words, work: Words, arity: int, head_at: int, weight: int
) -> None:
    """Emit an answer with all its images, unless it is found from another seed, too.

    That is the changed pair of the lowest rank; if it plays several roles, the first of them up to
    renaming, and then the least of the images that have it in that role.
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
    """Whether an earlier image is the same."""
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
    """A digit of the two ids of a word, packed without the unused bits between them."""
    return ((((pair >> ID_BITS) << low_bits) | (pair & ID)) >> shift) & mask


@merged
def sort_by_digit(
    work: Words, count: int, stride: int, word: int, low_bits: int, shift: int, width: int
) -> None:
    """One stable pass, into the other buffer."""
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
        place = load(work, bucket)
        store(work, bucket, place + 1)
        there = target + place * stride
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


@merged
def sort_emissions(work: Words) -> None:
    """Sort by head, ascending, least significant digit first; unused high bits are skipped.

    Few emissions use narrow digits, because every pass clears one bucket per digit value.
    """
    count, stride = load(work, EMITTED), load(work, STRIDE)
    if count <= FEW:
        sort_few(work, count, stride)
        return
    most = DIGIT_BITS
    while most > LEAST_DIGIT_BITS and count < 1 << most:
        most -= 1
    for word in range(stride - 2, -1, -1):
        used = 0
        raw = load(work, RAW) + word
        for at in range(raw, raw + count * stride, stride):
            used |= load(work, at)
        low_bits = count_bits(used & ID)
        bits = low_bits + count_bits(used >> ID_BITS)
        digits = (bits + most - 1) // most
        for digit in range(digits):
            width = (bits + digits - 1) // digits
            sort_by_digit(work, count, stride, word, low_bits, digit * width, width)


@merged
def merge_emissions(words: Words, work: Words) -> None:
    """Sum those of one head; what cancels out goes."""
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


# Meetings of sets


@inlined
def estimate(words: Words, reference: int) -> int:
    """About how many ids a set has: exact for a block, by its first branch for a hub."""
    scale = 1
    while reference & 1:
        children = load(words, reference) & LOW
        scale *= population(children)
        reference = load(words, reference - 1 + HEAD + trailing_zeros(children))
    return scale * (load(words, reference + 1) & LOW)


@inlined
def filter_few(words: Words, x: int, x_size: int, y: int, y_size: int) -> int:
    """As `filter_many`, with two 64-bit masks that stay in registers."""
    low, high = 0, 0
    for at in range(y + HEAD, y + HEAD + y_size):
        key = load(words, at)
        low |= bit(key & 63)
        high |= bit((key >> 6) & 63)
    found = 0
    for place in range(x_size):
        key = load(words, x + HEAD + place)
        found |= ((low >> (key & 63)) & (high >> ((key >> 6) & 63)) & 1) << place
    return found


@inlined
def filter_many(words: Words, work: Words, x: int, x_size: int, y: int, y_size: int) -> int:
    """A bitmap of the entries of block x whose ids may be in block y.

    Compares the ten lowest bits of the ids.
    """
    for at in range(SIEVE, SIEVE + SIEVE_WORDS):
        store(work, at, 0)
    for at in range(y + HEAD, y + HEAD + y_size):
        key = load(words, at)
        sieve = SIEVE + ((key >> 6) & (SIEVE_WORDS - 1))
        store(work, sieve, load(work, sieve) | bit(key & 63))
    found = 0
    for place in range(x_size):
        key = load(words, x + HEAD + place)
        sieve = load(work, SIEVE + ((key >> 6) & (SIEVE_WORDS - 1)))
        found |= ((sieve >> (key & 63)) & 1) << place
    return found


@inlined
def meet_blocks(
    words: Words, work: Words, x: int, y: int, top: int, stride: int, x_word: int, y_word: int
) -> int:
    x_header, y_header = load(words, x + 1), load(words, y + 1)
    x_size, y_size = x_header & LOW, y_header & LOW
    x_words = x + HEAD + (SMALLEST << (x_header >> 32))
    y_words = y + HEAD + (SMALLEST << (y_header >> 32))
    if x_size <= 2:
        found = bit(x_size) - 1
    elif y_size <= FEW_IDS:
        found = filter_few(words, x, x_size, y, y_size)
    else:
        found = filter_many(words, work, x, x_size, y, y_size)
    while found != 0:
        place = trailing_zeros(found)
        found &= found - 1
        key = load(words, x + HEAD + place)
        there = find_entry(words, y, y_size, key)
        if there < y_size:
            store(work, top, key)
            store(work, top + x_word, load(words, x_words + place))
            store(work, top + y_word, load(words, y_words + there))
            top += stride
    return top


@inlined
def get_below(words: Words, reference: int, key: int, depth: int) -> int:
    """The word of an id in a part of a set that has so many hubs above it."""
    digits = key >> (BITS * depth)
    while reference & 1:
        reference = load(words, reference - 1 + HEAD + (digits & DIGIT))
        digits >>= BITS
    return set_get(words, reference, key)


@inlined
def probe_block(
    words: Words, work: Words, block: int, hub: int, depth: int, top: int, stride: int,
    block_word: int, hub_word: int,
) -> int:  # fmt: skip
    """The ids of a block that are also below a hub."""
    header = load(words, block + 1)
    own = block + HEAD + (SMALLEST << (header >> 32))
    for place in range(header & LOW):
        key = load(words, block + HEAD + place)
        word = get_below(words, hub, key, depth)
        if word != 0:
            store(work, top, key)
            store(work, top + block_word, load(words, own + place))
            store(work, top + hub_word, word)
            top += stride
    return top


@merged
def meet_sets(
    words: Words, work: Words, x: int, y: int, top: int, stride: int, x_word: int, y_word: int
) -> int:
    """Write the ids that two sets share as a run, with their words at these places of an entry;
    returns its end, or -1 if there is no room.

    Hubs spread ids by the same bits: their bitmaps are intersected, and only children that both
    have are entered.
    """
    depth = 0
    while True:
        if x & y & 1:
            both = load(words, x) & load(words, y) & LOW
            frame = FRAMES + 4 * depth
            store(work, frame, x - 1 + HEAD)
            store(work, frame + 1, y - 1 + HEAD)
            store(work, frame + 2, both)
            while both != 0:  # so that the misses of all children overlap
                digit = trailing_zeros(both)
                prefetch(words, load(words, x - 1 + HEAD + digit))
                prefetch(words, load(words, y - 1 + HEAD + digit))
                both &= both - 1
            depth += 1
        else:
            if top + (SMALLEST << LARGEST) * stride > load(work, RUNS_END):
                return -1
            if x & 1:
                top = probe_block(words, work, y, x, depth, top, stride, y_word, x_word)
            elif y & 1:
                top = probe_block(words, work, x, y, depth, top, stride, x_word, y_word)
            else:
                top = meet_blocks(words, work, x, y, top, stride, x_word, y_word)
        frame = FRAMES + 4 * depth - 4
        while depth > 0 and load(work, frame + 2) == 0:
            depth -= 1
            frame -= 4
        if depth == 0:
            return top
        children = load(work, frame + 2)
        store(work, frame + 2, children & (children - 1))
        digit = trailing_zeros(children)
        x = load(words, load(work, frame) + digit)
        y = load(words, load(work, frame + 1) + digit)


@inlined
def follow(words: Words, word: int, is_trie: int, key: int) -> int:
    if is_trie:
        return trie_get(words, word, key)
    return set_get(words, word, key)


@inlined
def open_walk(words: Words, work: Words, base: int, word: int, is_trie: int) -> None:
    if is_trie:
        trie_first(words, work, base, word)
    else:
        set_first(words, work, base, word)


@inlined
def walk_on(words: Words, work: Words, base: int, is_trie: int) -> bool:
    if is_trie:
        return trie_next(words, work, base)
    return set_next(words, work, base)


@merged
def gather(words: Words, table: Words, work: Words, level: int, base: int, start: int) -> int:
    """The ids that all sources of a level have, as a run of `[id, word of each source…]`; returns
    its end. The two smallest sets meet, all others are asked for what is left.
    """
    count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
    stride = 1 + count
    best, second = -1, -1
    least, less = 0, 0
    for number in range(count):
        source = first + SOURCE_WORDS * number
        word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
        if word == 0:
            return start
        if load(table, source + SOURCE_IS_TRIE):
            continue
        size = number if count == 2 else estimate(words, word)  # two meet in any order
        if best < 0 or size < least:
            second, less = best, least
            best, least = number, size
        elif second < 0 or size < less:
            second, less = number, size
    walked = max(best, 0)  # tries alone: one of them is walked
    source = first + SOURCE_WORDS * walked
    x = load(work, WORDS_AT + load(table, source + SOURCE_IN))
    if second >= 0:
        other = first + SOURCE_WORDS * second
        y = load(work, WORDS_AT + load(table, other + SOURCE_IN))
        end = meet_sets(words, work, x, y, start, stride, 1 + best, 1 + second)
        if end < 0:
            set_fault(words, LOG_FULL)
            return start
    else:
        end = start
        is_trie = load(table, source + SOURCE_IS_TRIE)
        open_walk(words, work, base, x, is_trie)
        while walk_on(words, work, base, is_trie):
            if end + stride > load(work, RUNS_END):
                set_fault(words, LOG_FULL)
                return start
            store(work, end, load(work, base + CURSOR_KEY))
            store(work, end + 1 + walked, load(work, base + WORD))
            end += stride
    for number in range(count):
        if number in (walked, second):
            continue
        source = first + SOURCE_WORDS * number
        word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
        is_trie = load(table, source + SOURCE_IS_TRIE)
        kept = start
        for at in range(start, end, stride):
            found = follow(words, word, is_trie, load(work, at))
            if found != 0:
                for each in range(stride):
                    store(work, kept + each, load(work, at + each))
                store(work, kept + 1 + number, found)
                kept += stride
        end = kept
    return end


# Levels


@merged
def walk_last(
    words: Words, table: Words, work: Words, verdicts: Words, asked: Words, level: int, base: int,
    weight: int, arity: int, head_at: int,
) -> None:  # fmt: skip
    """The last level, with one source: all its entries, block by block."""
    source = load(table, level + LEVEL_SOURCES_AT)
    register = VALUES + load(table, level + LEVEL_REG)
    is_shown = load(table, level + LEVEL_IS_SHOWN)
    checks, checks_at = load(table, level + LEVEL_CHECKS), load(table, level + LEVEL_CHECKS_AT)
    use = load(table, source + SOURCE_USE)
    word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
    total = 0
    if load(table, source + SOURCE_IS_TRIE):
        trie_first(words, work, base, word)
        while trie_next(words, work, base):
            store(work, register, load(work, base + CURSOR_KEY))
            if checks == 0 or passes(table, work, verdicts, asked, checks, checks_at):
                product = weigh(weight, load(work, base + WORD), use)
                if is_shown:
                    emit(words, table, work, arity, head_at, product)
                else:
                    total = add(total, product)
    else:
        set_first(words, work, base, word)
        while True:
            block, size = load(work, base + BLOCK) + HEAD, load(work, base + SIZE)
            room = load(work, base + CAPACITY)
            for place in range(size):
                store(work, register, load(words, block + place))
                if checks == 0 or passes(table, work, verdicts, asked, checks, checks_at):
                    product = weigh(weight, load(words, block + room + place), use)
                    if is_shown:
                        emit(words, table, work, arity, head_at, product)
                    else:
                        total = add(total, product)
            if not set_next_block(words, work, base):
                break
    if not is_shown and total != 0:
        emit(words, table, work, arity, head_at, total)


@merged
def tell_run(
    words: Words, table: Words, work: Words, verdicts: Words, asked: Words, level: int, start: int,
    end: int, weight: int, arity: int, head_at: int,
) -> None:  # fmt: skip
    """The last level, with several sources: all entries of its run."""
    count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
    register = VALUES + load(table, level + LEVEL_REG)
    is_shown = load(table, level + LEVEL_IS_SHOWN)
    checks, checks_at = load(table, level + LEVEL_CHECKS), load(table, level + LEVEL_CHECKS_AT)
    total = 0
    for at in range(start, end, 1 + count):
        store(work, register, load(work, at))
        if checks != 0 and not passes(table, work, verdicts, asked, checks, checks_at):
            continue
        product = weight
        for number in range(count):
            use = load(table, first + SOURCE_WORDS * number + SOURCE_USE)
            product = weigh(product, load(work, at + 1 + number), use)
        if is_shown:
            emit(words, table, work, arity, head_at, product)
        else:
            total = add(total, product)
    if not is_shown and total != 0:
        emit(words, table, work, arity, head_at, total)


@merged
def run_levels(
    words: Words, table: Words, work: Words, verdicts: Words, asked: Words, levels: int,
    levels_at: int, weight: int, arity: int, head_at: int,
) -> None:  # fmt: skip
    """An odometer over the levels. Runs of deeper levels stand behind those of higher ones."""
    last = levels - 1
    number, top = 0, load(work, RUNS)
    is_new = True
    while number >= 0:
        level, base = levels_at + LEVEL_WORDS * number, LEVELS + LEVEL_STATE * number
        count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
        is_trie = load(table, first + SOURCE_IS_TRIE)
        if is_new:
            is_new = False
            if count == 1 and number == last:
                walk_last(words, table, work, verdicts, asked, level, base, weight, arity, head_at)
                number -= 1
                continue
            end = top
            if count == 1:
                word = load(work, WORDS_AT + load(table, first + SOURCE_IN))
                open_walk(words, work, base, word, is_trie)
            else:
                end = gather(words, table, work, level, base, top)
                if number == last:
                    tell_run(
                        words, table, work, verdicts, asked, level, top, end, weight, arity,
                        head_at,
                    )  # fmt: skip
                    number -= 1
                    continue
            store(work, base + NEXT, top)
            store(work, base + END, end)
            store(work, base + WEIGHT, weight)
        at, top = load(work, base + NEXT), load(work, base + END)
        if count == 1:
            is_found = walk_on(words, work, base, is_trie)
        else:
            is_found = at < top
        if not is_found or load(words, FAULTS) != 0:
            number -= 1
            continue
        weight = load(work, base + WEIGHT)
        if count == 1:
            key, word = load(work, base + CURSOR_KEY), load(work, base + WORD)
            store(work, WORDS_AT + load(table, first + SOURCE_OUT), word)
            weight = weigh(weight, word, load(table, first + SOURCE_USE))
        else:
            store(work, base + NEXT, at + 1 + count)
            key = load(work, at)
            for each in range(count):
                source, word = first + SOURCE_WORDS * each, load(work, at + 1 + each)
                store(work, WORDS_AT + load(table, source + SOURCE_OUT), word)
                weight = weigh(weight, word, load(table, source + SOURCE_USE))
        store(work, VALUES + load(table, level + LEVEL_REG), key)
        checks = load(table, level + LEVEL_CHECKS)
        if checks != 0 and not passes(
            table, work, verdicts, asked, checks, load(table, level + LEVEL_CHECKS_AT)
        ):
            continue
        number += 1
        is_new = True


# Deltas


@inlined
def read_use(word: int, use: int) -> int:
    if use == COUNT:
        return word
    return 1 if word != 0 else 0


@inlined
def load_roots(words: Words, roots: Words, table: Words, work: Words, delta: int) -> int:
    """Start every other input; returns the product of those without columns."""
    weight = 1
    at = load(table, delta + D_ROOTS_AT)
    for _ in range(load(table, delta + D_ROOTS)):
        slot, use = load(table, at + ROOT_SLOT), load(table, at + ROOT_USE)
        root = load(words, slot)
        if load(table, at + ROOT_IS_OLD):
            root = load(roots, slot - SLOTS) if slot - SLOTS < roots.size else 0
        store(work, WORDS_AT + load(table, at + ROOT_WORD), root)
        if root == 0:
            return 0
        if use != LEADS:
            weight = weigh(weight, root, use)
        at += ROOT_WORDS
    return weight


@merged
def run_delta(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, delta: int, arity: int, head_at: int, roots: Words, verdicts: Words, asked: Words,
) -> None:  # fmt: skip
    """Emit what the changes of one input do."""
    is_entries = load(table, delta + D_FROM) == ENTRIES
    number, width = load(table, delta + D_NUMBER), load(table, delta + D_ARITY)
    use, slot = load(table, delta + D_USE), load(table, delta + D_SLOT)
    if is_entries:
        start, end, stride = load(bounds, number), load(bounds, number + 1), ENTRY_WORDS
    else:
        start, end = load(lists, 2 * number), load(lists, 2 * number + 1)
        stride = 2 if width == 1 else width + 2
    if start == end:
        return
    side = load(table, delta + D_SIDE)
    store(work, SEED_ORBIT, load(table, delta + D_ORBIT))
    factor = load_roots(words, roots, table, work, delta)
    if factor == 0:
        return
    regs_at = load(table, delta + D_REGS_AT)
    checks, checks_at = load(table, delta + D_CHECKS), load(table, delta + D_CHECKS_AT)
    probes, probes_at = load(table, delta + D_PROBES), load(table, delta + D_PROBES_AT)
    levels, levels_at = load(table, delta + D_LEVELS), load(table, delta + D_LEVELS_AT)
    for at in range(start, end, stride):
        if is_entries:
            weight = load(entries, at + max(width, 2))
            for column in range(width):
                store(work, VALUES + load(table, regs_at + column), load(entries, at + column))
        else:
            before = load(log, at + width)
            now = load(log, at + width + 1) if width != 1 else 0
            if width == 1:
                now = trie_get(words, load(words, slot), load(log, at))
            weight = read_use(now, use) - read_use(before, use)
            if side != BOTH:
                weight = now if side == NOW else -before
                store(work, SEED_FIRST, load(log, at))
                store(work, SEED_SECOND, load(log, at + 1))
                store(work, SEED_RANK, at)
            for column in range(width):
                store(work, VALUES + load(table, regs_at + column), load(log, at + column))
        if weight == 0:
            continue
        weight = weigh(weight, factor, COUNT)
        if checks != 0 and not passes(table, work, verdicts, asked, checks, checks_at):
            continue
        probe = probes_at
        is_found = True
        for _ in range(probes):
            key = load(work, VALUES + load(table, probe + PROBE_REG))
            word = load(work, WORDS_AT + load(table, probe + PROBE_IN))
            word = follow(words, word, load(table, probe + PROBE_IS_TRIE), key)
            if word == 0:
                is_found = False
                break
            store(work, WORDS_AT + load(table, probe + PROBE_OUT), word)
            weight = weigh(weight, word, load(table, probe + PROBE_USE))
            probe += PROBE_WORDS
        if not is_found:
            continue
        if levels == 0:
            emit(words, table, work, arity, head_at, weight)
        else:
            run_levels(
                words, table, work, verdicts, asked, levels, levels_at, weight, arity, head_at
            )
        if load(words, FAULTS) != 0:
            return


# The output


@inlined
def has_log(words: Words, log: Words, count: int) -> bool:
    if load(log, 0) + count <= log.size:
        return True
    set_fault(words, LOG_FULL)
    return False


@inlined
def list_change(words: Words, log: Words, work: Words, width: int, before: int, now: int) -> None:
    """Log the first ids of the tuple at hand."""
    if not has_log(words, log, width + 2):
        return
    top = load(log, 0)
    for column in range(width):
        store(log, top + column, load(work, KEY + column))
    store(log, top + width, before)
    if width == 1:
        store(log, 0, top + 2)
    else:
        store(log, top + width + 1, now)
        store(log, 0, top + width + 2)


@inlined
def is_same_set(work: Words, at: int, other: int, stride: int) -> bool:
    """Whether two emissions differ in the last column only."""
    for word in range(stride - 2):
        if load(work, at + word) != load(work, other + word):
            return False
    last = stride - 2  # where an id alone has no high bits
    return load(work, at + last) >> ID_BITS == load(work, other + last) >> ID_BITS


@inlined
def last_id(work: Words, at: int, stride: int, arity: int) -> int:
    pair = load(work, at + stride - 2)
    return pair if arity & 1 else pair & ID


@inlined
def read_column(work: Words, at: int, column: int, arity: int) -> int:
    """One id of an emission."""
    pair = load(work, at + (column >> 1))
    if column & 1:
        return pair & ID
    return pair >> ID_BITS if column + 1 < arity else pair


@inlined
def fetch_set(words: Words, reference: int, digits: int) -> None:
    """Prefetch the words that a search in a set reads first."""
    start = reference & ~1
    prefetch(words, start)
    if reference & 1:
        prefetch(words, start + HEAD + (digits & DIGIT))
    else:
        prefetch(words, start + LINE_WORDS)


@merged
def list_groups(work: Words, at: int, end: int, stride: int) -> int:
    """Record where the next groups of emissions start, one group per set; returns their number.

    `GROUPS` holds two words per group, followed by the end of the last group.
    """
    count = 0
    while at < end and count < MOST_GROUPS:
        store(work, GROUPS + 2 * count, at)
        count += 1
        first = at
        at += stride
        while at < end and is_same_set(work, first, at, stride):
            at += stride
    store(work, GROUPS + 2 * count, at)
    return count


@merged
def fetch_groups(words: Words, work: Words, root: int, count: int, stride: int, arity: int) -> None:
    """Prefetch the sets of all groups level by level, so that their cache misses overlap."""
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        x = read_column(work, load(work, group), 0, arity)
        place = find_leaf(words, root, x) + HEAD + (x & DIGIT)
        prefetch(words, place)
        store(work, group + 1, place)
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        reference = load(words, load(work, group + 1))
        fetch_set(words, reference, read_column(work, load(work, group), 1, arity))
        store(work, group + 1, reference)
    for column in range(1, arity - 1):
        for group in range(GROUPS, GROUPS + 2 * count, 2):
            at = load(work, group)
            key = read_column(work, at, column, arity)
            reference = set_get(words, load(work, group + 1), key)
            fetch_set(words, reference, read_column(work, at, column + 1, arity))
            store(work, group + 1, reference)
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        hub = load(work, group + 1) - 1
        if hub & 1 == 0:
            at, end = load(work, group), load(work, group + 2)
            for here in range(at, min(end, at + MOST_FETCHED * stride), stride):
                key = last_id(work, here, stride, arity)
                fetch_set(words, load(words, hub + HEAD + (key & DIGIT)), key >> BITS)


@inlined
def count_shared(work: Words, at: int, arity: int) -> int:
    """How many leading columns, the last excluded, an emission shares with the tuple in `KEY`."""
    shared = 0
    while shared < arity - 1 and read_column(work, at, shared, arity) == load(work, KEY + shared):
        shared += 1
    return shared


@merged
def change_block(
    words: Words, work: Words, at: int, first: int, end: int, stride: int, arity: int
) -> int:
    """Apply emissions to a set that is empty or a block, and write the new block once.

    Old counts go to the scratch buffer. Returns the change in the number of entries; `NOT_DONE`,
    with nothing changed, if the set would become a hub or a sum overflows.
    """
    block = load(words, at)
    header = load(words, block + 1)
    size, size_class = header & LOW, header >> 32
    own = block + HEAD + (SMALLEST << size_class)
    olds = load(work, SCRATCH)
    gone, inserted = 0, 0
    for here in range(first, end, stride):
        key, change = last_id(work, here, stride, arity), load(work, here + stride - 1)
        place = find_entry(words, block, size, key)
        old = 0
        if place == size:
            if inserted == SMALLEST << LARGEST:
                return NOT_DONE
            store(work, ADDED + 2 * inserted, key)
            store(work, ADDED + 2 * inserted + 1, change)
            inserted += 1
        else:
            old = load(words, own + place)
            new, overflow = checked_add(old, change)
            if overflow:
                set_fault(words, OVERFLOW)
                return NOT_DONE
            store(work, CHANGED + place, new)
            gone |= bit(place)
        store(work, olds, old)
        olds += 1
    left = size
    changed = gone
    while changed != 0:
        place = trailing_zeros(changed)
        changed &= changed - 1
        if load(work, CHANGED + place) == 0:
            left -= 1
    count = left + inserted
    if count > SMALLEST << LARGEST:
        return NOT_DONE
    if count == 0:
        if size != 0:
            drop(words, block, size_class)
            store(words, at, 0)
        return -size
    capacity = SMALLEST << size_class
    new_class = size_class
    if size == 0 or count > capacity or (size_class > 0 and count <= capacity >> 2):
        new_class = class_for(count)
    target = allocate(words, new_class)
    keys, counts = target + HEAD, target + HEAD + (SMALLEST << new_class)
    store(words, target, load(words, EPOCH))
    store(words, target + 1, count | (new_class << 32))
    if gone == 0:
        copy_words(words, keys, block + HEAD, size)
        copy_words(words, counts, own, size)
        keys += size
        counts += size
    else:
        for place in range(size):
            word = load(words, own + place)
            if (gone >> place) & 1:
                word = load(work, CHANGED + place)
                if word == 0:
                    continue
            store(words, keys, load(words, block + HEAD + place))
            store(words, counts, word)
            keys += 1
            counts += 1
    for number in range(inserted):
        store(words, keys + number, load(work, ADDED + 2 * number))
        store(words, counts + number, load(work, ADDED + 2 * number + 1))
    if size != 0:
        drop(words, block, size_class)
    store(words, at, target)
    return count - size


@merged
def change_set(
    words: Words, work: Words, at: int, first: int, end: int, stride: int, arity: int
) -> int:
    """Apply emissions to one set; returns the change in the number of its entries."""
    more = NOT_DONE
    if end - first > stride and load(words, at) & 1 == 0:
        more = change_block(words, work, at, first, end, stride, arity)
    if more != NOT_DONE:
        return more
    more = 0
    olds = load(work, SCRATCH)
    for here in range(first, end, stride):
        if not has_room(words):
            break
        key, change = last_id(work, here, stride, arity), load(work, here + stride - 1)
        old, new = set_change(words, at, key, change, False)
        more += (1 if new != 0 else 0) - (1 if old != 0 else 0)
        store(work, olds, old)
        olds += 1
    return more


@merged
def apply_in_order(
    words: Words, log: Words, work: Words, table: Words, step: int, slot: int, arity: int
) -> None:
    """Apply the sums to a relation of two or more columns, one set at a time.

    Emissions are sorted, so those of one set are adjacent, and each descent resumes at the first
    column that differs.
    """
    stride, raw = load(work, STRIDE), load(work, RAW)
    end = raw + load(work, EMITTED) * stride
    is_listed = load(table, step + RULE_LIST) >= 0
    orders = load(table, step + RULE_ORDERS)
    shared, group, groups_end = 0, 0, 0
    store(work, LEAF_IDS, -1)
    at = raw
    while at < end:
        if group == groups_end:
            count = list_groups(work, at, end, stride)
            group, groups_end = GROUPS, GROUPS + 2 * count
            if count > 1:
                fetch_groups(words, work, load(words, slot), count, stride, arity)
        group += 2
        following = load(work, group)
        if not has_room(words):
            return
        shared = min(shared, count_shared(work, at, arity))
        unpack(work, at, arity)
        x = load(work, KEY)
        if shared == 0:
            if x >> BITS != load(work, LEAF_IDS):
                store(work, LEAF, trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS))
                store(work, LEAF_IDS, x >> BITS)
            store(work, FRAMES, load(work, LEAF) + HEAD + (x & DIGIT))
            shared = 1
        top = load(work, FRAMES)
        before = load(words, top)
        place = load(work, FRAMES + shared - 1)
        for level in range(shared, arity - 1):
            place = set_place(words, place, load(work, KEY + level))
            store(work, FRAMES + level, place)
        more = change_set(words, work, place, at, following, stride, arity)
        level = arity - 2
        while level > 0 and load(words, load(work, FRAMES + level)) == 0:
            level -= 1  # the set became empty: its id leaves the set above
            set_change(words, load(work, FRAMES + level), load(work, KEY + level + 1), 0, True)
        shared = level + 1
        store(words, slot + 1, load(words, slot + 1) + more)
        after = load(words, top)
        mark_word(words, slot, load(work, LEAF), x, before, after)
        if after == 0:  # the leaf may have been pruned
            shared = 0
            store(work, LEAF_IDS, -1)
        if load(words, FAULTS) != 0:
            return
        if is_listed or orders > 1:
            olds = load(work, SCRATCH)
            for here in range(at, following, stride):
                store(work, KEY + arity - 1, last_id(work, here, stride, arity))
                change, old = load(work, here + stride - 1), load(work, olds)
                change_orders(words, work, table, step, arity, change)
                if is_listed:
                    list_change(words, log, work, arity, old, old + change)
                if load(words, FAULTS) != 0:
                    return
                olds += 1
        at = following


@inlined
def change_orders(
    words: Words, work: Words, table: Words, step: int, arity: int, change: int
) -> None:
    """Apply a change of the tuple in `KEY` to all output relations but the first."""
    order = load(table, step + RULE_ORDERS_AT)
    for _ in range(1, load(table, step + RULE_ORDERS)):
        order += 1 + arity
        for column in range(arity):
            value = load(work, KEY + load(table, order + 1 + column))
            store(work, OTHER_KEY + column, value)
        tuple_change(words, load(table, order), work[OTHER_KEY:], arity, change, False)


@merged
def apply_emissions(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int
) -> None:
    """Bring the sums into all relations of the output, and list what changed."""
    arity, stride = load(table, step + RULE_ARITY), load(work, STRIDE)
    changed = load(table, step + RULE_LIST)
    is_listed_only = load(table, step + RULE_IS_LISTED_ONLY)
    is_summed = load(table, step + RULE_IS_SUMMED)
    slot = load(table, load(table, step + RULE_ORDERS_AT))
    start = load(log, 0)
    if arity > 1 and not is_summed and not is_listed_only:
        apply_in_order(words, log, work, table, step, slot, arity)
    else:
        raw = load(work, RAW)
        for at in range(raw, raw + load(work, EMITTED) * stride, stride):
            unpack(work, at, arity)
            change = load(work, at + stride - 1)
            if is_listed_only:
                new = tuple_get(words, load(words, slot), work[KEY:], arity)
                old = new - change
            else:
                if is_summed:
                    old, new = summed_change(words, slot, work[KEY:], arity, change)
                else:
                    old, new = tuple_change(words, slot, work[KEY:], arity, change, False)
                change_orders(words, work, table, step, arity, change)
            if changed >= 0:
                list_change(words, log, work, arity, old, new)
            if load(words, FAULTS) != 0:
                return
    if changed >= 0:
        store(lists, 2 * changed, start)
        store(lists, 2 * changed + 1, load(log, 0))


@merged
def list_keys_of(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, roots: Words
) -> None:
    """List the keys, of the first columns, that came or went. Equal ones stand together."""
    arity, stride = load(table, step + RULE_ARITY), load(work, STRIDE)
    keys, changed = load(table, step + RULE_KEYS), load(table, step + RULE_KEYS_LIST)
    slot = load(table, load(table, step + RULE_ORDERS_AT))
    root = load(words, slot)
    old_root = load(roots, slot - SLOTS) if slot - SLOTS < roots.size else 0
    raw = load(work, RAW)
    store(lists, 2 * changed, load(log, 0))
    for column in range(keys):
        store(work, OTHER_KEY + column, -1)
    for at in range(raw, raw + load(work, EMITTED) * stride, stride):
        unpack(work, at, arity)
        is_new = keys == 0 and at == raw
        for column in range(keys):
            value = load(work, KEY + column)
            if value != load(work, OTHER_KEY + column):
                is_new = True
                store(work, OTHER_KEY + column, value)
        if is_new:
            before = tuple_get(words, old_root, work[KEY:], keys) != 0
            now = tuple_get(words, root, work[KEY:], keys) != 0
            if before != now:
                list_change(words, log, work, keys, 1 if before else 0, 1 if now else 0)
    store(lists, 2 * changed + 1, load(log, 0))


@kernel
def step_rule(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, step: int, roots: Words, verdicts: Words, asked: Words,
) -> bool:  # fmt: skip
    """Keep the output of a rule; false, with nothing changed, if judges were asked."""
    arity, head_at = load(table, step + RULE_ARITY), load(table, step + RULE_HEAD_AT)
    open_emissions(work, arity)
    store(work, SYMMETRY, load(table, step + RULE_SYMMETRY_AT))
    if load(work, SYMMETRY) != 0:
        rank_pairs(words, log, lists, work, table)
    for number in range(load(table, step + RULE_DELTAS)):
        delta = load(table, step + RULE_DELTAS_AT) + DELTA_WORDS * number
        run_delta(
            words, log, lists, work, bounds, entries, table, delta, arity, head_at, roots,
            verdicts, asked,
        )  # fmt: skip
        if load(words, FAULTS) != 0:
            return True
    if load(asked, 0) > 1:
        return False
    store(work, UNMERGED, load(work, EMITTED))
    if load(work, EMITTED) > 0:
        sort_emissions(work)
        merge_emissions(words, work)
        if load(words, FAULTS) == 0:
            apply_emissions(words, log, lists, work, table, step)
        if load(words, FAULTS) == 0 and load(table, step + RULE_KEYS_LIST) >= 0:
            list_keys_of(words, log, lists, work, table, step, roots)
    return True
