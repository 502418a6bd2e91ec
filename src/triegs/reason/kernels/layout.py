"""The words that the kernels of a closure share: facts, plans, and what is under way.

A fact has `T_STRIDE` halves of words in one array: its predicate and four columns, what states it,
until when it holds, and its links. *Until when* is the number of a bucket: buckets are numbered by
the times at which their facts leave, so numbers compare as times do. A fact that does not hold has
`GONE`.

A *generator* is a fact of a transitive relation that something else than the rule of transitivity
supports, or did. Such a rule joins generators with all facts, not all with all.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from triegs.terms.jit import wrapping

#: An integer; an element of an array has no static type.
Word: TypeAlias = Any

# The halves of a fact.
PREDICATE, COLUMN = 0, 1  # four columns
STATED, EVENTS = 5, 6  # how many static statements and events state it
LEAVES = 7  # the bucket of the last of its events
HOLDS = 8  # the bucket until which it holds
TOUCHED = 9  # 1 + its place among the facts that this epoch touches, or 0
MARKS = 10
NEXT, PREVIOUS = 11, 12  # in its bucket, or the next free fact
FIELDS = 13  # then two links per index
DOUBTED, AXIOM, GENERATOR = 1, 2, 4  # marks

GONE = -1
MOST = (1 << 31) - 1  # in half a word
FOREVER = MOST  # of static statements and axioms
LASTING = FOREVER - 1  # of events that never leave
NO_LEAVING = 1 << 62  # in place of a time: the event never leaves
STATIC_ROW = -(1 << 62)  # in place of a time: the row is a static statement

# The words before the tables of a program.
T_INDEXES, T_STRIDE, T_MASKS, T_FORWARD, T_BACKWARD, T_AXIOMS, T_TRANSITIVE = range(7)
PROGRAM_WORDS = 8
NO_MASK = -1
GENERATORS = 16  # in a mask: the index has only generators
ANY_TERM = -1  # in the table of transitive rules: of a predicate that is no triple
NEEDS_GENERATOR, IS_TRANSITIVE = 1, 2  # of a plan: begins with generators; concludes none
PLAN_WORDS, TRIGGER_WORDS, STEP_WORDS, HEAD_WORDS = 2, 9, 10, 9
UNUSED, CONSTANT, BIND, CHECK = range(4)  # the operations of a column
LOOK_UP = -1  # a step whose columns are all known
PREDICATE_KEY, TYPE_KEY = 1, 2

# What is under way, and how full the arrays are.
(
    M_FRESH, M_FREE, M_LIVE, M_CAPACITY, M_FLOOR, M_OLD_FLOOR, M_BUCKET, M_BUCKETS, M_HEAP,
    M_TOUCHED, M_DOUBTED, M_PHASE, M_AT, M_SHOWS_STATIC, M_REFUSED, M_OUT, M_HAS_AXIOMS, M_APPLIED,
    M_TIME, M_DERIVED, M_JOINED, M_RETRACTED, M_ROWS, M_STALE, M_HEADS,
) = range(25)  # fmt: skip
META_WORDS = 25

# Phases of an epoch, in order.
AXIOMS, APPLY, SUPPORT, EXPIRE, DOUBT, FORGET, RESTORE, SEED, SATURATE, EMIT, DONE = range(11)
# Why a kernel returned before the end.
FINISHED, NO_FACTS, NO_HEAP, NO_BUCKETS, NO_OUT, TOO_MANY = range(6)

TOUCH_WORDS = 5  # the fact, and its words STATED, EVENTS, LEAVES, HOLDS before
SCRATCH_WORDS = 64 + 2 * 40


@wrapping
def hash_key(a: Word, b: Word, c: Word) -> Word:
    """A hash of three words, not negative."""
    found = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(29)) ^ np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(32)) ^ np.uint64(c)) * np.uint64(0x94D049BB133111EB)
    return np.int64((found ^ (found >> np.uint64(31))) >> np.uint64(1))


@wrapping
def hash_columns(predicate: Word, a: Word, b: Word, c: Word, d: Word) -> Word:
    """A hash of a predicate and four columns, not negative."""
    found = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(predicate)
    found = (found ^ (found >> np.uint64(29)) ^ np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(32)) ^ np.uint64(c)) * np.uint64(0x94D049BB133111EB)
    found = (found ^ (found >> np.uint64(31)) ^ np.uint64(d)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((found ^ (found >> np.uint64(32))) >> np.uint64(1))
