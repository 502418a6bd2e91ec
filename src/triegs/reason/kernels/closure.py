"""One epoch of a closure: a single call, which stops only to have arrays grown.

1. Apply the changed statements, and count what states each fact.
2. Expire: facts whose bucket has left are gone. No rule runs.
3. Doubt each fact whose statement went before its bucket, and each that such a fact supported until
   that bucket; then restore those that still hold (delete and re-derive).
4. Saturate: facts that hold longer than before meet the others, those that hold longest first, so
   each is expanded once.
5. Emit the difference of weights of each triple that was touched.

`end_epoch` makes the epoch final, or undoes it.
"""

from __future__ import annotations

from triegs.jit.jit import kernel, short_kernel
from triegs.jit.words import Ids, Words, release_lock, take_lock
from triegs.reason.kernels.facts import (
    add_fact,
    find_bucket,
    find_fact,
    has_heads,
    make_generator,
    remove_fact,
    set_holds,
    touch_fact,
)
from triegs.reason.kernels.join import (
    ASK,
    BEST,
    HEAP_FACT,
    HEAP_SHIFT,
    RAISE,
    RETRACT,
    find_support,
    pop_heap,
    push_heap,
    run_plans,
)
from triegs.reason.kernels.layout import (
    APPLY,
    AXIOM,
    AXIOMS,
    COLUMN,
    DONE,
    DOUBT,
    DOUBTED,
    EMIT,
    EVENTS,
    EXPIRE,
    FINISHED,
    FOREVER,
    FORGET,
    GONE,
    HOLDS,
    LEAVES,
    M_APPLIED,
    M_AT,
    M_BUCKET,
    M_BUCKETS,
    M_DOUBTED,
    M_FLOOR,
    M_FRESH,
    M_HAS_AXIOMS,
    M_HEAP,
    M_OLD_FLOOR,
    M_OUT,
    M_PHASE,
    M_REFUSED,
    M_RETRACTED,
    M_ROWS,
    M_SHOWS_STATIC,
    M_STALE,
    M_TIME,
    M_TOUCHED,
    MARKS,
    MOST,
    NEXT,
    NO_BUCKETS,
    NO_FACTS,
    NO_HEAP,
    NO_OUT,
    PREDICATE,
    RESTORE,
    SATURATE,
    SEED,
    STATED,
    STATIC_ROW,
    SUPPORT,
    T_AXIOMS,
    T_BACKWARD,
    T_FORWARD,
    T_STRIDE,
    TOO_MANY,
    TOUCH_WORDS,
    TOUCHED,
    Word,
)

FEW_ROWS = 64  # an epoch this small ends sooner than a lock changes hands


@kernel
def find_floor(buckets: Words, meta: Words) -> Word:
    """The first bucket that has not left at the epoch's time."""
    low, high = meta[M_BUCKET], meta[M_BUCKETS]
    mask = len(buckets) // 2 - 1
    while low < high and buckets[2 * (low & mask)] <= meta[M_TIME]:
        low += 1
    return low


@kernel
def state_axioms(
    program: Words, facts: Ids, primary: Ids, heads: Words, touched: Ids, meta: Words
) -> Word:
    start = program[T_AXIOMS]
    for number in range(program[start]):
        at = start + 1 + 5 * number
        predicate, a, b = program[at], program[at + 1], program[at + 2]
        c, d = program[at + 3], program[at + 4]
        fact = find_fact(facts, primary, program[T_STRIDE], predicate, a, b, c, d)
        if fact < 0:
            fact = add_fact(program, facts, primary, heads, meta, predicate, a, b, c, d)
            if fact < 0:
                return NO_FACTS
        touch_fact(facts, program[T_STRIDE], touched, meta, fact)
        facts[fact * program[T_STRIDE] + MARKS] |= AXIOM
    return FINISHED


@kernel
def apply_rows(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, touched: Ids,
    meta: Words, rows: Words, leaves: Words, refused: Words,
) -> Word:  # fmt: skip
    """Judge rows ``(change, s, p, o)`` in order, each a static statement or an event."""
    stride = program[T_STRIDE]
    for row in range(meta[M_AT], meta[M_ROWS]):
        meta[M_AT] = row
        change, a, b, c = rows[4 * row], rows[4 * row + 1], rows[4 * row + 2], rows[4 * row + 3]
        fact = find_fact(facts, primary, stride, 0, a, b, c, 0)
        if fact < 0:
            if change < 0:
                refused[meta[M_REFUSED]] = row
                meta[M_REFUSED] += 1
                continue
            fact = add_fact(program, facts, primary, heads, meta, 0, a, b, c, 0)
            if fact < 0:
                return NO_FACTS
            touch_fact(facts, stride, touched, meta, fact)
        base = fact * stride
        if leaves[row] == STATIC_ROW:
            if facts[base + STATED] + change < 0:
                refused[meta[M_REFUSED]] = row
                meta[M_REFUSED] += 1
                continue
            if facts[base + STATED] + change > MOST:
                return TOO_MANY
            touch_fact(facts, stride, touched, meta, fact)
            facts[base + STATED] += change
            continue
        if facts[base + EVENTS] + change < 0:
            refused[meta[M_REFUSED]] = row
            meta[M_REFUSED] += 1
            continue
        if facts[base + EVENTS] + change > MOST:
            return TOO_MANY
        bucket = GONE
        if change > 0:
            bucket = find_bucket(buckets, meta, leaves[row])
            if bucket < 0:
                return NO_BUCKETS
        touch_fact(facts, stride, touched, meta, fact)
        facts[base + EVENTS] += change
        if facts[base + EVENTS] == 0:
            facts[base + LEAVES] = GONE
        else:
            facts[base + LEAVES] = max(facts[base + LEAVES], bucket)
    return FINISHED


@kernel
def doubt_unsupported(
    program: Words, facts: Ids, heads: Words, touched: Ids, doubted: Ids, meta: Words
) -> Word:
    """Doubt the facts that held by a statement which is gone although its bucket is not.

    What is stated now becomes a generator before any fact is restored: a new statement keeps a fact
    from doubt, and other facts may hold by it alone.
    """
    stride = program[T_STRIDE]
    for at in range(meta[M_AT], meta[M_APPLIED]):
        meta[M_AT] = at
        if not has_heads(program, heads, meta):
            return NO_FACTS
        record = at * TOUCH_WORDS
        base = touched[record] * stride
        marks = facts[base + MARKS]
        before = find_support(touched[record + 1], touched[record + 2], touched[record + 3], marks)
        after = find_support(
            facts[base + STATED], facts[base + EVENTS], facts[base + LEAVES], marks
        )
        holds = touched[record + 4]
        if holds >= meta[M_FLOOR] and after < before and before >= holds:
            facts[base + MARKS] = marks | DOUBTED
            doubted[meta[M_DOUBTED]] = touched[record]
            meta[M_DOUBTED] += 1
        if after >= meta[M_FLOOR]:
            make_generator(program, facts, heads, meta, touched[record])
    return FINISHED


@kernel
def expire_buckets(facts: Ids, stride: Word, buckets: Words, touched: Ids, meta: Words) -> None:
    """What is in the buckets below the floor is gone. Cost: what leaves."""
    mask = len(buckets) // 2 - 1
    for bucket in range(meta[M_BUCKET], meta[M_FLOOR]):
        fact = buckets[2 * (bucket & mask) + 1]
        while fact >= 0:
            following = facts[fact * stride + NEXT]
            if facts[fact * stride + EVENTS] > 0 and facts[fact * stride + LEAVES] < meta[M_FLOOR]:
                meta[M_STALE] += 1
            touch_fact(facts, stride, touched, meta, fact)
            set_holds(facts, stride, buckets, fact, GONE)
            fact = following


@kernel
def restore_doubted(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words,
) -> Word:  # fmt: skip
    """Raise each doubted fact to what still supports it."""
    stride = program[T_STRIDE]
    for at in range(meta[M_AT], meta[M_DOUBTED]):
        meta[M_AT] = at
        if meta[M_HEAP] == len(heap):
            return NO_HEAP
        fact = doubted[at]
        base = fact * stride
        scratch[BEST] = find_support(
            facts[base + STATED], facts[base + EVENTS], facts[base + LEAVES], facts[base + MARKS]
        )
        if scratch[BEST] < FOREVER:
            run_plans(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                program[T_BACKWARD], fact, ASK,
            )  # fmt: skip
        if scratch[BEST] >= meta[M_FLOOR]:
            set_holds(facts, stride, buckets, fact, scratch[BEST])
            push_heap(heap, meta, scratch[BEST], fact)
    return FINISHED


@kernel
def seed(facts: Ids, stride: Word, buckets: Words, heap: Words, touched: Ids, meta: Words) -> Word:
    """Raise the facts that hold longer by what states them now."""
    for at in range(meta[M_AT], meta[M_APPLIED]):
        meta[M_AT] = at
        if meta[M_HEAP] == len(heap):
            return NO_HEAP
        fact = touched[at * TOUCH_WORDS]
        base = fact * stride
        support = find_support(
            facts[base + STATED], facts[base + EVENTS], facts[base + LEAVES], facts[base + MARKS]
        )
        if support >= meta[M_FLOOR] and support > facts[base + HOLDS]:
            set_holds(facts, stride, buckets, fact, support)
            push_heap(heap, meta, support, fact)
    return FINISHED


@kernel
def saturate(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words,
) -> Word:  # fmt: skip
    """Expand facts, those that hold longest first, until nothing holds longer than before."""
    stride = program[T_STRIDE]
    while meta[M_HEAP] > 0:
        holds, fact = heap[0] >> HEAP_SHIFT, heap[0] & HEAP_FACT
        if facts[fact * stride + HOLDS] == holds:
            # It stays first until it is expanded, because no conclusion holds longer: so a stop
            # for lack of room loses nothing.
            outcome = run_plans(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                program[T_FORWARD], fact, RAISE,
            )  # fmt: skip
            if outcome != FINISHED:
                return outcome
        pop_heap(heap, meta)
    return FINISHED


@kernel
def weigh(stated: Word, events: Word, holds: Word, shows_static: Word) -> Word:
    """The weight of a triple: the number of its statements, else 1 if it is derived. A graph
    without the static graph shows no static statement, nor what follows from these alone.
    """
    count = events + (stated if shows_static else 0)
    if count > 0:
        return count
    if shows_static:
        return 1 if holds != GONE else 0
    return 1 if 0 <= holds < FOREVER else 0


@kernel
def emit_changes(facts: Ids, stride: Word, touched: Ids, meta: Words, out: Words) -> None:
    shows = meta[M_SHOWS_STATIC]
    count = 0
    for at in range(meta[M_TOUCHED]):
        record = at * TOUCH_WORDS
        base = touched[record] * stride
        if facts[base + PREDICATE] != 0:
            continue
        before = weigh(touched[record + 1], touched[record + 2], touched[record + 4], shows)
        after = weigh(facts[base + STATED], facts[base + EVENTS], facts[base + HOLDS], shows)
        if after != before:
            out[4 * count] = after - before
            out[4 * count + 1] = facts[base + COLUMN]
            out[4 * count + 2] = facts[base + COLUMN + 1]
            out[4 * count + 3] = facts[base + COLUMN + 2]
            count += 1
    meta[M_OUT] = count


@kernel
def run_phases(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words, rows: Words, leaves: Words,
    refused: Words, out: Words,
) -> Word:  # fmt: skip
    """Run the phases of an epoch from where it stopped."""
    stride = program[T_STRIDE]
    outcome = FINISHED
    while meta[M_PHASE] != DONE:
        phase = meta[M_PHASE]
        if phase == AXIOMS:
            if meta[M_HAS_AXIOMS] == 0:
                outcome = state_axioms(program, facts, primary, heads, touched, meta)
                if outcome == FINISHED:
                    meta[M_HAS_AXIOMS] = 2  # for this epoch
        elif phase == APPLY:
            outcome = apply_rows(
                program, facts, primary, heads, buckets, touched, meta, rows, leaves, refused
            )
            if outcome == FINISHED:
                meta[M_APPLIED] = meta[M_TOUCHED]
                meta[M_FLOOR] = find_floor(buckets, meta)
        elif phase == SUPPORT:
            outcome = doubt_unsupported(program, facts, heads, touched, doubted, meta)
        elif phase == EXPIRE:
            expire_buckets(facts, stride, buckets, touched, meta)
        elif phase == DOUBT:
            at = 0
            while at < meta[M_DOUBTED]:
                run_plans(
                    program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                    program[T_FORWARD], doubted[at], RETRACT,
                )  # fmt: skip
                at += 1
        elif phase == FORGET:
            for at in range(meta[M_DOUBTED]):
                touch_fact(facts, stride, touched, meta, doubted[at])
                set_holds(facts, stride, buckets, doubted[at], GONE)
            meta[M_RETRACTED] += meta[M_DOUBTED]
        elif phase == RESTORE:
            outcome = restore_doubted(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch
            )
        elif phase == SEED:
            outcome = seed(facts, stride, buckets, heap, touched, meta)
        elif phase == SATURATE:
            outcome = saturate(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch
            )
        elif phase == EMIT:
            if len(out) < 4 * meta[M_TOUCHED]:
                return NO_OUT
            emit_changes(facts, stride, touched, meta, out)
        if outcome != FINISHED:
            return outcome
        meta[M_PHASE] = phase + 1
        meta[M_AT] = 0
    return FINISHED


@short_kernel
def run_closure(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words, rows: Words, leaves: Words,
    refused: Words, out: Words,
) -> Word:  # fmt: skip
    """Run an epoch, or go on with it after arrays have grown. Returns `FINISHED`, or which array
    has no room.
    """
    if meta[M_PHASE] == AXIOMS:
        meta[M_OLD_FLOOR] = meta[M_FLOOR]
        meta[M_AT] = meta[M_HEAP] = meta[M_TOUCHED] = meta[M_DOUBTED] = meta[M_REFUSED] = 0
        if meta[M_ROWS] <= FEW_ROWS and meta[M_HAS_AXIOMS] == 1:
            return run_phases(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                rows, leaves, refused, out,
            )  # fmt: skip
    lock = release_lock()
    outcome = run_phases(
        program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch, rows,
        leaves, refused, out,
    )  # fmt: skip
    take_lock(lock)
    return outcome


@short_kernel
def end_epoch(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, touched: Ids,
    doubted: Ids, meta: Words, is_kept: Word,
) -> None:  # fmt: skip
    """Make the changes of an epoch final, or undo them. Cost: what it touched."""
    if meta[M_TOUCHED] <= FEW_ROWS:
        settle(program, facts, primary, heads, buckets, touched, doubted, meta, is_kept)
        return
    lock = release_lock()
    settle(program, facts, primary, heads, buckets, touched, doubted, meta, is_kept)
    take_lock(lock)


@kernel
def settle(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, touched: Ids,
    doubted: Ids, meta: Words, is_kept: Word,
) -> None:  # fmt: skip
    stride = program[T_STRIDE]
    for at in range(meta[M_DOUBTED]):
        facts[doubted[at] * stride + MARKS] &= ~DOUBTED
    for at in range(meta[M_TOUCHED]):
        record = at * TOUCH_WORDS
        fact = touched[record]
        base = fact * stride
        facts[base + TOUCHED] = 0
        if is_kept == 0:
            facts[base + STATED] = touched[record + 1]
            facts[base + EVENTS] = touched[record + 2]
            facts[base + LEAVES] = touched[record + 3]
            if facts[base + HOLDS] != touched[record + 4]:
                set_holds(facts, stride, buckets, fact, touched[record + 4])
    for at in range(meta[M_TOUCHED]):
        fact = touched[at * TOUCH_WORDS]
        if facts[fact * stride + HOLDS] == GONE:
            remove_fact(program, facts, primary, heads, meta, fact)
    if is_kept == 0:
        meta[M_FLOOR] = meta[M_OLD_FLOOR]
        if meta[M_HAS_AXIOMS] == 2:
            meta[M_HAS_AXIOMS] = 0
    elif meta[M_HAS_AXIOMS] == 2:
        meta[M_HAS_AXIOMS] = 1
    meta[M_BUCKET] = meta[M_FLOOR]
    meta[M_PHASE] = AXIOMS
    meta[M_TOUCHED] = meta[M_DOUBTED] = meta[M_HEAP] = 0


@kernel
def dump_facts(
    facts: Ids, stride: Word, meta: Words, predicate: Word, is_stated: Word, out: Words
) -> Word:
    """Write ``(weight, four columns)`` of each fact of a predicate; with `is_stated` only triples
    that are stated without events. Returns how many; without room, only counts.
    """
    count = 0
    for fact in range(meta[M_FRESH]):
        base = fact * stride
        if facts[base + PREDICATE] != predicate:
            continue
        if is_stated:
            weight = facts[base + STATED]
        elif predicate != 0:
            weight = 1
        else:
            weight = weigh(
                facts[base + STATED], facts[base + EVENTS], facts[base + HOLDS],
                meta[M_SHOWS_STATIC],
            )  # fmt: skip
        if weight > 0:
            if 5 * count + 5 <= len(out):
                out[5 * count] = weight
                for column in range(4):
                    out[5 * count + 1 + column] = facts[base + COLUMN + column]
            count += 1
    return count
