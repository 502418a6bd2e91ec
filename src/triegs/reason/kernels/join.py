"""Joins: all ways in which one fact and others that hold make a plan's premises true.

The value of a join is the minimum of the buckets of its facts: until when all of them hold. A join
that stops for lack of room can be repeated, because raising a fact twice is raising it once.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Ids, Words
from triegs.reason.kernels.facts import (
    add_fact,
    find_chain,
    find_fact,
    has_heads,
    make_generator,
    set_holds,
    touch_fact,
)
from triegs.reason.kernels.layout import (
    AXIOM,
    BIND,
    CHECK,
    COLUMN,
    CONSTANT,
    DOUBTED,
    EVENTS,
    FIELDS,
    FINISHED,
    FOREVER,
    GENERATOR,
    GONE,
    HOLDS,
    IS_TRANSITIVE,
    LEAVES,
    LOOK_UP,
    M_DERIVED,
    M_DOUBTED,
    M_FLOOR,
    M_HEAP,
    M_JOINED,
    MARKS,
    NEEDS_GENERATOR,
    NO_FACTS,
    NO_HEAP,
    PLAN_WORDS,
    PREDICATE,
    PREDICATE_KEY,
    STATED,
    STEP_WORDS,
    T_INDEXES,
    T_STRIDE,
    TRIGGER_WORDS,
    TYPE_KEY,
    Word,
    hash_key,
)

# What a join does with a conclusion: raise it, doubt it, or only find until when it holds.
RAISE, RETRACT, ASK = range(3)
VARIABLES, CURSORS, LOWS, BEST = 0, 64, 104, 143  # in the scratch words
# A word of the heap: until when a fact holds, above its number.
HEAP_SHIFT = 31
HEAP_FACT = (1 << HEAP_SHIFT) - 1


@inlined
def find_support(stated: Word, events: Word, leaves: Word, marks: Word) -> Word:
    """Until when a fact holds by what states it."""
    if stated > 0 or marks & AXIOM:
        return FOREVER
    return leaves if events > 0 else GONE


@kernel
def match_columns(program: Words, at: Word, facts: Ids, base: Word, scratch: Words) -> bool:
    """Whether a fact matches the columns of an atom; binds its variables."""
    for column in range(4):
        operation, value = program[at + 2 * column], program[at + 2 * column + 1]
        term = facts[base + COLUMN + column]
        if operation == CONSTANT:
            if term != value:
                return False
        elif operation == BIND:
            scratch[VARIABLES + value] = term
        elif operation == CHECK:
            if term != scratch[VARIABLES + value]:
                return False
        else:
            break
    return True


@inlined
def read_column(program: Words, at: Word, column: Word, scratch: Words) -> Word:
    """The value of a column that is known; anything for one that is not."""
    operation, value = program[at + 2 * column], program[at + 2 * column + 1]
    if operation == CONSTANT:
        return value
    if operation == CHECK:
        return scratch[VARIABLES + value]
    return 0


@kernel
def open_step(
    program: Words, facts: Ids, primary: Ids, heads: Words, scratch: Words, step: Word
) -> Word:
    """The first fact that may match a step, given what is bound; -1 if there is none."""
    predicate, index, at = program[step], program[step + 1], step + 2
    a = read_column(program, at, 0, scratch)
    b = read_column(program, at, 1, scratch)
    c = read_column(program, at, 2, scratch)
    d = read_column(program, at, 3, scratch)
    if index == LOOK_UP:
        return find_fact(facts, primary, program[T_STRIDE], predicate, a, b, c, d)
    entry = heads[find_chain(program, facts, heads, predicate, index, a, b, c, d)]
    return -1 if entry == 0 else (entry - 1) // program[T_INDEXES]


@kernel
def push_heap(heap: Words, meta: Words, holds: Word, fact: Word) -> None:
    """Add a fact to expand; the caller has checked that there is room."""
    at = meta[M_HEAP]
    meta[M_HEAP] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] >> HEAP_SHIFT >= holds:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = np.int64(holds) << np.int64(HEAP_SHIFT) | np.int64(fact)


@kernel
def pop_heap(heap: Words, meta: Words) -> None:
    """Remove the first entry, which has the greatest bucket."""
    size = meta[M_HEAP] - 1
    meta[M_HEAP] = size
    last = heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] >> HEAP_SHIFT > heap[child] >> HEAP_SHIFT:
            child += 1
        if heap[child] >> HEAP_SHIFT <= last >> HEAP_SHIFT:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last


@kernel
def conclude(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words, at: Word, low: Word, action: Word,
    flags: Word,
) -> Word:  # fmt: skip
    """Take a conclusion that holds until `low`."""
    stride = program[T_STRIDE]
    predicate = program[at]
    a = read_column(program, at + 1, 0, scratch)
    b = read_column(program, at + 1, 1, scratch)
    c = read_column(program, at + 1, 2, scratch)
    d = read_column(program, at + 1, 3, scratch)
    fact = find_fact(facts, primary, stride, predicate, a, b, c, d)
    if action == RETRACT:
        if fact >= 0:
            base = fact * stride
            holds, marks = facts[base + HOLDS], facts[base + MARKS]
            if holds >= meta[M_FLOOR] and low >= holds and marks & DOUBTED == 0:
                support = find_support(
                    facts[base + STATED], facts[base + EVENTS], facts[base + LEAVES], marks
                )
                if support < holds:
                    facts[base + MARKS] = marks | DOUBTED
                    doubted[meta[M_DOUBTED]] = fact
                    meta[M_DOUBTED] += 1
        return FINISHED
    if not has_heads(program, heads, meta):
        return NO_FACTS
    if fact >= 0 and facts[fact * stride + HOLDS] >= low:
        if flags & IS_TRANSITIVE == 0:
            make_generator(program, facts, heads, meta, fact)
        return FINISHED
    if meta[M_HEAP] == len(heap):
        return NO_HEAP
    if fact < 0:
        fact = add_fact(program, facts, primary, heads, meta, predicate, a, b, c, d)
        if fact < 0:
            return NO_FACTS
    if flags & IS_TRANSITIVE == 0:
        make_generator(program, facts, heads, meta, fact)
    touch_fact(facts, stride, touched, meta, fact)
    set_holds(facts, stride, buckets, fact, low)
    push_heap(heap, meta, low, fact)
    meta[M_DERIVED] += 1
    return FINISHED


@kernel
def run_plan(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words, plan: Word, fact: Word,
    action: Word,
) -> Word:  # fmt: skip
    """Run a plan that begins with a fact. `ASK` leaves the greatest value in ``scratch[BEST]``."""
    stride, floor = program[T_STRIDE], meta[M_FLOOR]
    base = fact * stride
    first = plan + PLAN_WORDS
    if program[first] != facts[base + PREDICATE]:
        return FINISHED
    steps, flags = program[plan], program[plan + 1]
    if flags & NEEDS_GENERATOR and facts[base + MARKS] & GENERATOR == 0:
        return FINISHED
    if not match_columns(program, first + 1, facts, base, scratch):
        return FINISHED
    first += TRIGGER_WORDS
    head = first + steps * STEP_WORDS
    low = FOREVER if action == ASK else facts[base + HOLDS]
    if steps == 0:
        return conclude(
            program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch, head,
            low, action, flags,
        )  # fmt: skip
    scratch[LOWS] = low
    scratch[CURSORS] = open_step(program, facts, primary, heads, scratch, first)
    depth = 0
    while depth >= 0:
        candidate = scratch[CURSORS + depth]
        if candidate < 0:
            depth -= 1
            continue
        step = first + depth * STEP_WORDS
        index, there = program[step + 1], candidate * stride
        if index == LOOK_UP:
            scratch[CURSORS + depth] = -1
        else:
            scratch[CURSORS + depth] = facts[there + FIELDS + 2 * index]
        meta[M_JOINED] += 1
        holds = facts[there + HOLDS]
        if holds < floor or not match_columns(program, step + 2, facts, there, scratch):
            continue
        low = min(scratch[LOWS + depth], holds)
        if depth + 1 < steps:
            depth += 1
            scratch[LOWS + depth] = low
            scratch[CURSORS + depth] = open_step(
                program, facts, primary, heads, scratch, first + depth * STEP_WORDS
            )
        elif action == ASK:
            scratch[BEST] = max(scratch[BEST], low)
            if low == FOREVER:
                break
        else:
            outcome = conclude(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                head, low, action, flags,
            )  # fmt: skip
            if outcome != FINISHED:
                return outcome
    return FINISHED


@kernel
def find_plans(program: Words, dispatch: Word, kind: Word, a: Word, b: Word) -> Word:
    """The place of the range of plans for a predicate term, or for one and an object; -1 if there
    are none.
    """
    mask = program[dispatch]
    at = hash_key(kind, a, b) & mask
    while True:
        entry = dispatch + 1 + 5 * at
        if program[entry] == 0:
            return -1
        if program[entry] == kind and program[entry + 1] == a and program[entry + 2] == b:
            return entry + 3
        at = (at + 1) & mask


@kernel
def run_plans(
    program: Words, facts: Ids, primary: Ids, heads: Words, buckets: Words, heap: Words,
    touched: Ids, doubted: Ids, meta: Words, scratch: Words, dispatch: Word, fact: Word,
    action: Word,
) -> Word:  # fmt: skip
    """Run all plans that may begin with a fact."""
    base = fact * program[T_STRIDE]
    predicate = facts[base + PREDICATE]
    for way in range(3):
        if way == 0:
            found = dispatch + 1 + 5 * (program[dispatch] + 1) + 2 * predicate
        elif predicate != 0:
            break
        elif way == 1:
            found = find_plans(program, dispatch, PREDICATE_KEY, facts[base + COLUMN + 1], 0)
        else:
            found = find_plans(
                program, dispatch, TYPE_KEY, facts[base + COLUMN + 1], facts[base + COLUMN + 2]
            )
        if found < 0:
            continue
        for listed in range(program[found], program[found + 1]):
            outcome = run_plan(
                program, facts, primary, heads, buckets, heap, touched, doubted, meta, scratch,
                program[listed], fact, action,
            )  # fmt: skip
            if outcome != FINISHED:
                return outcome
    return FINISHED
