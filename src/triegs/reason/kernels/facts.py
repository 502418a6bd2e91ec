"""Facts: found by all columns in a hash table, by some of them in chains, by bucket in lists.

``primary`` has ``1 + fact`` in open addressing. ``heads`` has ``1 + fact * indexes + index`` for
the first fact of each chain; the key of an entry is read from its fact. Both are at most half full,
and keep linear probing without tombstones: what follows a removed entry moves up. Facts stay in
place and in their chains until the epoch ends, also those that are gone, so chains can be followed
while facts are added.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Ids, Words
from triegs.reason.kernels.layout import (
    ANY_TERM,
    COLUMN,
    EVENTS,
    FIELDS,
    GENERATOR,
    GENERATORS,
    GONE,
    HOLDS,
    LASTING,
    LEAVES,
    M_BUCKET,
    M_BUCKETS,
    M_CAPACITY,
    M_FLOOR,
    M_FREE,
    M_FRESH,
    M_HEADS,
    M_LIVE,
    M_TOUCHED,
    MARKS,
    NEXT,
    NO_LEAVING,
    NO_MASK,
    PREDICATE,
    PREVIOUS,
    STATED,
    T_INDEXES,
    T_MASKS,
    T_STRIDE,
    T_TRANSITIVE,
    TOUCH_WORDS,
    TOUCHED,
    Word,
    hash_columns,
)

CHAINED = 64  # is added to the predicate in the hash of a chain, times the index


@inlined
def hash_chain(
    predicate: Word, index: Word, mask: Word, a: Word, b: Word, c: Word, d: Word
) -> Word:
    """The hash of a chain by those columns that its mask has."""
    return hash_columns(
        predicate * CHAINED + index + 1,
        a if mask & 1 else 0, b if mask & 2 else 0, c if mask & 4 else 0, d if mask & 8 else 0,
    )  # fmt: skip


@inlined
def find_mask(program: Words, predicate: Word, index: Word) -> Word:
    return program[program[T_MASKS] + predicate * program[T_INDEXES] + index]


@kernel
def find_fact(
    facts: Ids, primary: Ids, stride: Word, predicate: Word, a: Word, b: Word, c: Word, d: Word
) -> Word:
    """The number of a fact, gone or not; -1 if there is none."""
    mask = len(primary) - 1
    at = hash_columns(predicate, a, b, c, d) & mask
    while primary[at] != 0:
        fact = primary[at] - 1
        base = fact * stride
        if (
            facts[base + COLUMN] == a and facts[base + COLUMN + 1] == b
            and facts[base + COLUMN + 2] == c and facts[base + COLUMN + 3] == d
            and facts[base + PREDICATE] == predicate
        ):  # fmt: skip
            return fact
        at = (at + 1) & mask
    return -1


@kernel
def find_chain(
    program: Words, facts: Ids, heads: Words, predicate: Word, index: Word,
    a: Word, b: Word, c: Word, d: Word,
) -> Word:  # fmt: skip
    """The place in `heads` of a chain, or of the free entry where it would be."""
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    columns = find_mask(program, predicate, index)
    mask = len(heads) - 1
    at = hash_chain(predicate, index, columns, a, b, c, d) & mask
    while heads[at] != 0:
        entry = heads[at] - 1
        if entry % indexes == index:
            base = entry // indexes * stride
            if (
                facts[base + PREDICATE] == predicate
                and (columns & 1 == 0 or facts[base + COLUMN] == a)
                and (columns & 2 == 0 or facts[base + COLUMN + 1] == b)
                and (columns & 4 == 0 or facts[base + COLUMN + 2] == c)
                and (columns & 8 == 0 or facts[base + COLUMN + 3] == d)
            ):
                return at
        at = (at + 1) & mask
    return at


@kernel
def link_chains(program: Words, facts: Ids, heads: Words, meta: Words, fact: Word) -> None:
    """Put a fact at the beginning of its chains."""
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    base = fact * stride
    predicate = facts[base + PREDICATE]
    for index in range(indexes):
        columns = find_mask(program, predicate, index)
        if columns == NO_MASK:
            break
        if columns & GENERATORS == 0 or facts[base + MARKS] & GENERATOR:
            link_chain(program, facts, heads, meta, fact, index)


@kernel
def link_chain(
    program: Words, facts: Ids, heads: Words, meta: Words, fact: Word, index: Word
) -> None:
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    base = fact * stride
    at = find_chain(
        program, facts, heads, facts[base + PREDICATE], index, facts[base + COLUMN],
        facts[base + COLUMN + 1], facts[base + COLUMN + 2], facts[base + COLUMN + 3],
    )  # fmt: skip
    link = base + FIELDS + 2 * index
    facts[link + 1] = -1
    if heads[at] == 0:
        facts[link] = -1
        meta[M_HEADS] += 1
    else:
        first = (heads[at] - 1) // indexes
        facts[link] = first
        facts[first * stride + FIELDS + 2 * index + 1] = fact
    heads[at] = 1 + fact * indexes + index


@kernel
def make_generator(program: Words, facts: Ids, heads: Words, meta: Words, fact: Word) -> None:
    """Mark a fact of a transitive relation as a generator. It stays one while it is there: more
    generators than necessary cost joins, and no answer. The caller has checked `has_heads`.
    """
    base = fact * program[T_STRIDE]
    if facts[base + MARKS] & GENERATOR:
        return
    start, predicate = program[T_TRANSITIVE], facts[base + PREDICATE]
    for number in range(program[start]):
        at = start + 1 + 2 * number
        term = program[at + 1]
        if program[at] == predicate and (term == ANY_TERM or term == facts[base + COLUMN + 1]):
            facts[base + MARKS] |= GENERATOR
            for index in range(program[T_INDEXES]):
                columns = find_mask(program, predicate, index)
                if columns == NO_MASK:
                    break
                if columns & GENERATORS:
                    link_chain(program, facts, heads, meta, fact, index)
            return


@inlined
def has_heads(program: Words, heads: Words, meta: Words) -> bool:
    """Whether a fact can begin a chain in each index, twice, with half of the entries left free."""
    return bool(2 * (meta[M_HEADS] + 2 * program[T_INDEXES]) <= len(heads))


@kernel
def add_fact(
    program: Words, facts: Ids, primary: Ids, heads: Words, meta: Words,
    predicate: Word, a: Word, b: Word, c: Word, d: Word,
) -> Word:  # fmt: skip
    """A new fact, which does not hold yet; -1 if there is no room."""
    stride = program[T_STRIDE]
    if not has_heads(program, heads, meta):
        return -1
    fact = meta[M_FREE]
    if fact >= 0:
        meta[M_FREE] = facts[fact * stride + NEXT]
    elif meta[M_FRESH] < meta[M_CAPACITY]:
        fact = meta[M_FRESH]
        meta[M_FRESH] += 1
    else:
        return -1
    meta[M_LIVE] += 1
    base = fact * stride
    facts[base + PREDICATE] = predicate
    facts[base + COLUMN] = a
    facts[base + COLUMN + 1] = b
    facts[base + COLUMN + 2] = c
    facts[base + COLUMN + 3] = d
    facts[base + STATED] = 0
    facts[base + EVENTS] = 0
    facts[base + LEAVES] = GONE
    facts[base + HOLDS] = GONE
    facts[base + TOUCHED] = 0
    facts[base + MARKS] = 0
    put_primary(facts, primary, stride, fact)
    link_chains(program, facts, heads, meta, fact)
    return fact


@inlined
def put_primary(facts: Ids, primary: Ids, stride: Word, fact: Word) -> None:
    mask = len(primary) - 1
    base = fact * stride
    at = hash_columns(
        facts[base + PREDICATE], facts[base + COLUMN], facts[base + COLUMN + 1],
        facts[base + COLUMN + 2], facts[base + COLUMN + 3],
    ) & mask  # fmt: skip
    while primary[at] != 0:
        at = (at + 1) & mask
    primary[at] = 1 + fact


@kernel
def remove_fact(
    program: Words, facts: Ids, primary: Ids, heads: Words, meta: Words, fact: Word
) -> None:
    """Take a fact that is gone out of its chains and of the table, and free its place."""
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    base = fact * stride
    predicate = facts[base + PREDICATE]
    for index in range(indexes):
        columns = find_mask(program, predicate, index)
        if columns == NO_MASK:
            break
        if columns & GENERATORS and facts[base + MARKS] & GENERATOR == 0:
            continue
        link = base + FIELDS + 2 * index
        following, before = facts[link], facts[link + 1]
        if following >= 0:
            facts[following * stride + FIELDS + 2 * index + 1] = before
        if before >= 0:
            facts[before * stride + FIELDS + 2 * index] = following
            continue
        at = find_chain(
            program, facts, heads, predicate, index, facts[base + COLUMN], facts[base + COLUMN + 1],
            facts[base + COLUMN + 2], facts[base + COLUMN + 3],
        )  # fmt: skip
        if following >= 0:
            heads[at] = 1 + following * indexes + index
        else:
            remove_head(program, facts, heads, at)
            meta[M_HEADS] -= 1
    remove_primary(facts, primary, stride, fact)
    facts[base + NEXT] = meta[M_FREE]
    facts[base + PREDICATE] = -1
    meta[M_FREE] = fact
    meta[M_LIVE] -= 1


@kernel
def remove_primary(facts: Ids, primary: Ids, stride: Word, fact: Word) -> None:
    mask = len(primary) - 1
    base = fact * stride
    hole = hash_columns(
        facts[base + PREDICATE], facts[base + COLUMN], facts[base + COLUMN + 1],
        facts[base + COLUMN + 2], facts[base + COLUMN + 3],
    ) & mask  # fmt: skip
    while primary[hole] != 1 + fact:
        hole = (hole + 1) & mask
    at = hole
    while True:
        at = (at + 1) & mask
        if primary[at] == 0:
            break
        there = (primary[at] - 1) * stride
        home = hash_columns(
            facts[there + PREDICATE], facts[there + COLUMN], facts[there + COLUMN + 1],
            facts[there + COLUMN + 2], facts[there + COLUMN + 3],
        ) & mask  # fmt: skip
        if (at - home) & mask >= (at - hole) & mask:
            primary[hole] = primary[at]
            hole = at
    primary[hole] = 0


@kernel
def remove_head(program: Words, facts: Ids, heads: Words, hole: Word) -> None:
    """Remove an entry of `heads`; entries behind it move up."""
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    mask = len(heads) - 1
    at = hole
    while True:
        at = (at + 1) & mask
        if heads[at] == 0:
            break
        entry = heads[at] - 1
        index, base = entry % indexes, entry // indexes * stride
        predicate = facts[base + PREDICATE]
        home = hash_chain(
            predicate, index, find_mask(program, predicate, index), facts[base + COLUMN],
            facts[base + COLUMN + 1], facts[base + COLUMN + 2], facts[base + COLUMN + 3],
        ) & mask  # fmt: skip
        if (at - home) & mask >= (at - hole) & mask:
            heads[hole] = heads[at]
            hole = at
    heads[hole] = 0


@kernel
def touch_fact(facts: Ids, stride: Word, touched: Ids, meta: Words, fact: Word) -> None:
    """Note the state of a fact before the epoch changes it, once."""
    base = fact * stride
    if facts[base + TOUCHED] == 0:
        at = meta[M_TOUCHED] * TOUCH_WORDS
        touched[at] = fact
        touched[at + 1] = facts[base + STATED]
        touched[at + 2] = facts[base + EVENTS]
        touched[at + 3] = facts[base + LEAVES]
        touched[at + 4] = facts[base + HOLDS]
        meta[M_TOUCHED] += 1
        facts[base + TOUCHED] = meta[M_TOUCHED]


@kernel
def set_holds(facts: Ids, stride: Word, buckets: Words, fact: Word, holds: Word) -> None:
    """Change until when a fact holds, and move it to that bucket."""
    base = fact * stride
    mask = len(buckets) // 2 - 1
    before = facts[base + HOLDS]
    if 0 <= before < LASTING:
        following, previous = facts[base + NEXT], facts[base + PREVIOUS]
        if following >= 0:
            facts[following * stride + PREVIOUS] = previous
        if previous >= 0:
            facts[previous * stride + NEXT] = following
        else:
            buckets[2 * (before & mask) + 1] = following
    facts[base + HOLDS] = holds
    if 0 <= holds < LASTING:
        at = 2 * (holds & mask) + 1
        first = buckets[at]
        facts[base + NEXT] = first
        facts[base + PREVIOUS] = -1
        if first >= 0:
            facts[first * stride + PREVIOUS] = fact
        buckets[at] = fact


@kernel
def find_bucket(buckets: Words, meta: Words, leaves: Word) -> Word:
    """The bucket of events that leave at a time; -1 if there is no room for a new one.

    Events of a window come in the order in which they leave, so a new bucket is the last one. For
    an earlier time without a bucket, the next one is too late, which is corrected when the last
    statement of a fact goes while its bucket has not.
    """
    if leaves >= NO_LEAVING:
        return LASTING
    low, high = meta[M_BUCKET], meta[M_BUCKETS]
    mask = len(buckets) // 2 - 1
    if low == high or leaves > buckets[2 * ((high - 1) & mask)]:
        if high - low > mask:
            return -1
        buckets[2 * (high & mask)] = leaves
        buckets[2 * (high & mask) + 1] = -1
        meta[M_BUCKETS] = high + 1
        return high
    while low < high:
        middle = (low + high) // 2
        if buckets[2 * (middle & mask)] < leaves:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def fill_primary(facts: Ids, primary: Ids, stride: Word, meta: Words) -> None:
    """Fill a new, empty table."""
    for fact in range(meta[M_FRESH]):
        if facts[fact * stride + PREDICATE] >= 0:
            put_primary(facts, primary, stride, fact)


@kernel
def move_heads(program: Words, facts: Ids, heads: Words, grown: Words) -> None:
    """Move all entries to a larger, empty table."""
    stride, indexes = program[T_STRIDE], program[T_INDEXES]
    mask = len(grown) - 1
    for old in range(len(heads)):
        if heads[old] == 0:
            continue
        entry = heads[old] - 1
        index, base = entry % indexes, entry // indexes * stride
        predicate = facts[base + PREDICATE]
        at = hash_chain(
            predicate, index, find_mask(program, predicate, index), facts[base + COLUMN],
            facts[base + COLUMN + 1], facts[base + COLUMN + 2], facts[base + COLUMN + 3],
        ) & mask  # fmt: skip
        while grown[at] != 0:
            at = (at + 1) & mask
        grown[at] = heads[old]


@kernel
def renumber_buckets(facts: Ids, stride: Word, buckets: Words, meta: Words) -> None:
    """Number the buckets from the beginning again, so that numbers stay below half a word. Each
    keeps its place in the table.
    """
    less = meta[M_BUCKET] - (meta[M_BUCKET] & (len(buckets) // 2 - 1))
    for fact in range(meta[M_FRESH]):
        base = fact * stride
        if facts[base + PREDICATE] >= 0:
            for field in (LEAVES, HOLDS):
                if 0 <= facts[base + field] < LASTING:
                    facts[base + field] -= less
    meta[M_BUCKET] -= less
    meta[M_BUCKETS] -= less
    meta[M_FLOOR] -= less
