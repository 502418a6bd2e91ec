"""DABA Lite: a queue with its aggregate, in constant time per operation in the worst case.

After Tangwongsan, Hirzel and Schneider, "In-order sliding-window aggregation in worst-case
constant time" (VLDB Journal 30, 2021). The queue is a chain of blocks. Five positions split it,
oldest event first::

    F ....... L ....... R ....... A ....... B ....... E
      to B       to R      plain     to B      plain

A slot *to X* has the aggregate of its event and all later ones before X; a *plain* slot has its
own state. Two aggregates are kept beside: ``MIDDLE`` of R … B and ``BACK`` of B … E. So the
aggregate of all is that of slot F and ``BACK``. Invariants, where |XY| is the number of slots:

1. |LR| = |RA|.
2. The queue is empty, or |LB| + 1 = |FB| − |BE|.

Each insertion or eviction unbalances (2) by one, and `restore` moves one slot from ``L … R`` and
one from ``R … A`` to the sublists of final aggregates, which takes two combinations. When
``L … B`` is empty, ``F … B`` and ``B … E`` have equal length and become ``L … R`` and ``R … A``.

A block is ``[previous or next free, next, times, states]``. A window without events has no block.
"""

from __future__ import annotations

from typing import Any

from triegs.aggregates.swag.kernels.pool import free_block, has_room, take_block
from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.operators import State, Values
from triegs.aggregates.swag.templates import (
    IDENTITY,
    INLINED,
    KERNEL,
    WIDTH,
    combine,
    lift,
    template,
)
from triegs.jit.jit import inlined
from triegs.jit.words import Words, load, prefetch, store

SLOTS = 64  # of a block
NEXT, TIMES = 1, 2
# The header of a window. A position is a block and a slot.
COUNT, LAST_TIME, F, L, R, A, B, E, MIDDLE = 0, 1, 2, 4, 6, 8, 10, 12, 14


@template(INLINED)
def get_header_words() -> int:
    return MIDDLE + 2 * WIDTH


@template(INLINED)
def get_block_words() -> int:
    return TIMES + SLOTS * (1 + WIDTH)


@template(INLINED)
def find_state(headers: Words, position: int) -> int:
    return load(headers, position) + TIMES + SLOTS + load(headers, position + 1) * WIDTH


@inlined
def are_equal(headers: Words, one: int, other: int) -> bool:
    return load(headers, one) == load(headers, other) and load(headers, one + 1) == load(
        headers, other + 1
    )


@inlined
def set_position(headers: Words, target: int, source: int) -> None:
    store(headers, target, load(headers, source))
    store(headers, target + 1, load(headers, source + 1))


@template(INLINED)
def move_forward(words: Words, headers: Words, position: int) -> None:
    block, slot = load(headers, position), load(headers, position + 1) + 1
    following = load(words, block + NEXT)
    if slot == SLOTS:
        store(headers, position, following)
        slot = 0
        prefetch(words, load(words, following + NEXT))
    # One block ahead, so that no step of a large window waits for memory.
    prefetch(words, following + TIMES + SLOTS + slot * WIDTH)
    store(headers, position + 1, slot)


@template(INLINED)
def move_back(words: Words, headers: Words, position: int) -> None:
    block, slot = load(headers, position), load(headers, position + 1)
    before = load(words, block)
    if slot == 0:
        store(headers, position, before)
        slot = SLOTS
        prefetch(words, load(words, before))
    prefetch(words, before + TIMES + SLOTS + (slot - 1) * WIDTH)
    store(headers, position + 1, slot - 1)


@template(INLINED)
def restore(words: Words, headers: Words, at: int) -> None:
    """Restore invariant 2 after one insertion or eviction."""
    if are_equal(headers, at + F, at + B):  # at most one event
        for position in (L, R, A, B):
            set_position(headers, at + position, at + E)
        store_state(headers, at + MIDDLE + WIDTH, IDENTITY)
        return
    if are_equal(headers, at + L, at + B):
        set_position(headers, at + L, at + F)
        set_position(headers, at + A, at + E)
        set_position(headers, at + B, at + E)
        store_state(headers, at + MIDDLE, load_state(headers, at + MIDDLE + WIDTH, IDENTITY))
        store_state(headers, at + MIDDLE + WIDTH, IDENTITY)
    if are_equal(headers, at + L, at + R):
        move_forward(words, headers, at + L)
        set_position(headers, at + R, at + L)
        set_position(headers, at + A, at + L)
        return
    slot = find_state(headers, at + L)
    middle = load_state(headers, at + MIDDLE, IDENTITY)
    store_state(words, slot, combine(load_state(words, slot, IDENTITY), middle))
    move_forward(words, headers, at + L)
    after = IDENTITY
    if not are_equal(headers, at + A, at + B):
        after = load_state(words, find_state(headers, at + A), IDENTITY)
    move_back(words, headers, at + A)
    slot = find_state(headers, at + A)
    store_state(words, slot, combine(load_state(words, slot, IDENTITY), after))


@template(INLINED)
def start_queue(words: Words, headers: Words, at: int) -> None:
    block = take_block(words, 0, get_block_words())
    for position in (F, L, R, A, B, E):
        store(headers, at + position, block)
        store(headers, at + position + 1, 0)
    store_state(headers, at + MIDDLE, IDENTITY)
    store_state(headers, at + MIDDLE + WIDTH, IDENTITY)


@template(INLINED)
def insert_event(words: Words, headers: Words, at: int, time: int, value: Any) -> None:
    """Append an event. The pool must have room for two blocks."""
    if load(headers, at + E) == 0:
        start_queue(words, headers, at)
    block, slot = load(headers, at + E), load(headers, at + E + 1)
    state = lift(value)
    store(words, block + TIMES + slot, time)
    store_state(words, block + TIMES + SLOTS + slot * WIDTH, state)
    back = load_state(headers, at + MIDDLE + WIDTH, IDENTITY)
    store_state(headers, at + MIDDLE + WIDTH, combine(back, state))
    store(headers, at + COUNT, load(headers, at + COUNT) + 1)
    store(headers, at + LAST_TIME, time)
    if slot + 1 == SLOTS:
        fresh = take_block(words, 0, get_block_words())
        store(words, block + NEXT, fresh)
        store(words, fresh, block)
        store(headers, at + E, fresh)
        slot = -1
    store(headers, at + E + 1, slot + 1)
    restore(words, headers, at)


@template(INLINED)
def evict_event(words: Words, headers: Words, at: int) -> None:
    """Remove the oldest event of a window that has one."""
    block, slot = load(headers, at + F), load(headers, at + F + 1) + 1
    following = load(words, block + NEXT)
    if slot == SLOTS:
        store(headers, at + F, following)
        free_block(words, 0, block)
        slot = 0
        prefetch(words, load(words, following + NEXT))
    prefetch(words, following + TIMES + slot)
    prefetch(words, following + TIMES + SLOTS + slot * WIDTH)
    store(headers, at + F + 1, slot)
    count = load(headers, at + COUNT) - 1
    store(headers, at + COUNT, count)
    if count == 0:
        free_block(words, 0, load(headers, at + E))
        store(headers, at + E, 0)
    else:
        restore(words, headers, at)


@template(INLINED)
def get_oldest_time(words: Words, headers: Words, at: int) -> int:
    return load(words, load(headers, at + F) + TIMES + load(headers, at + F + 1))


@template(INLINED)
def query_window(words: Words, headers: Words, at: int) -> State:
    if load(headers, at + COUNT) == 0:
        return IDENTITY
    front = load_state(words, find_state(headers, at + F), IDENTITY)
    return combine(front, load_state(headers, at + MIDDLE + WIDTH, IDENTITY))


@template(INLINED)
def find_header(groups: Words, row: int) -> int:
    """The header of the group of a row; no groups stand for group 0."""
    if len(groups) == 0:
        return 0
    return load(groups, row) * get_header_words()


@template(KERNEL)
def insert_rows(words: Words, headers: Words, groups: Words, times: Words, values: Values) -> int:
    """Append events, each to the window of its group. Returns how many were appended: fewer than
    given if one is older than the last of its group, or the pool is full.
    """
    for row in range(len(times)):
        at = find_header(groups, row)
        time = load(times, row)
        if time < load(headers, at + LAST_TIME) or not has_room(words, 2 * get_block_words()):
            return row
        insert_event(words, headers, at, time, values[row])
    return len(times)


@template(KERNEL)
def evict_rows(words: Words, headers: Words, groups: Words, counts: Words) -> None:
    """Evict the oldest events, for each row a number of its group."""
    for row in range(len(counts)):
        at = find_header(groups, row)
        for _ in range(min(load(counts, row), load(headers, at + COUNT))):
            evict_event(words, headers, at)


@template(KERNEL)
def evict_until(words: Words, headers: Words, groups: int, time: int) -> int:
    """Evict all events of the first groups at or before a time. Returns how many."""
    evicted = 0
    for group in range(groups):
        at = group * get_header_words()
        while load(headers, at + COUNT) != 0 and get_oldest_time(words, headers, at) <= time:
            evict_event(words, headers, at)
            evicted += 1
    return evicted


@template(KERNEL)
def query_rows(words: Words, headers: Words, groups: Words, out: Words) -> None:
    """Write the state of the window of each group."""
    for row in range(len(out) // WIDTH):
        store_state(out, row * WIDTH, query_window(words, headers, find_header(groups, row)))


@template(INLINED)
def slide_event(words: Words, headers: Words, at: int, time: int, value: Any, width: int) -> None:
    """Append an event and evict those at or before its time minus `width`."""
    insert_event(words, headers, at, time, value)
    while get_oldest_time(words, headers, at) <= time - width:
        evict_event(words, headers, at)


@template(KERNEL)
def slide_rows(
    words: Words, headers: Words, at: int, times: Words, values: Values, width: int, out: Words
) -> int:
    """Slide over events; write the state after each if `out` has room. Returns how many events
    were appended.
    """
    for row in range(len(times)):
        time = load(times, row)
        if time < load(headers, at + LAST_TIME) or not has_room(words, 2 * get_block_words()):
            return row
        slide_event(words, headers, at, time, values[row], width)
        if len(out) > 0:
            store_state(out, row * WIDTH, query_window(words, headers, at))
    return len(times)
