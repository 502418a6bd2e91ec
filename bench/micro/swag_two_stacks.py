"""The two-stacks queue, a peer of DABA Lite: amortised constant time, with steps of linear time.

New states go onto the back stack. When the front stack is empty, an eviction moves everything
there and computes all its suffix aggregates. The queue is a ring of fixed capacity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.operators import State
from triegs.aggregates.swag.templates import IDENTITY, INLINED, WIDTH, combine, lift, template
from triegs.jit.words import Words, load, store

# The header; positions count up and are reduced to the ring by `MASK`.
HEAD, MIDDLE, TAIL, MASK, BACK = 0, 1, 2, 3, 4


def make_arrays(capacity: int, width: int) -> tuple[Words, Words]:
    size = 1 << capacity.bit_length()
    headers = np.zeros(BACK + width, np.int64)
    headers[MASK] = size - 1
    words = np.empty(size * (1 + width), np.int64)
    words.fill(0)  # takes the memory now: first touches are no part of a step
    return words, headers


@template(INLINED)
def find_entry(headers: Words, position: int) -> int:
    return (position & load(headers, MASK)) * (1 + WIDTH)


@template(INLINED)
def flip(words: Words, headers: Words) -> None:
    state = IDENTITY
    for position in range(load(headers, TAIL) - 1, load(headers, MIDDLE) - 1, -1):
        place = find_entry(headers, position) + 1
        state = combine(load_state(words, place, IDENTITY), state)
        store_state(words, place, state)
    store(headers, MIDDLE, load(headers, TAIL))
    store_state(headers, BACK, IDENTITY)


@template(INLINED)
def slide_event(words: Words, headers: Words, at: int, time: int, value: Any, width: int) -> None:
    if load(headers, at + TAIL) == 0:
        store_state(headers, BACK, IDENTITY)
    state = lift(value)
    place = find_entry(headers, load(headers, TAIL))
    store(words, place, time)
    store_state(words, place + 1, state)
    store_state(headers, BACK, combine(load_state(headers, BACK, IDENTITY), state))
    store(headers, TAIL, load(headers, TAIL) + 1)
    while load(words, find_entry(headers, load(headers, HEAD))) <= time - width:
        if load(headers, HEAD) == load(headers, MIDDLE):
            flip(words, headers)
        store(headers, HEAD, load(headers, HEAD) + 1)


@template(INLINED)
def query_window(words: Words, headers: Words, at: int) -> State:
    back = load_state(headers, at + BACK, IDENTITY)
    if load(headers, HEAD) == load(headers, MIDDLE):
        return back
    front = load_state(words, find_entry(headers, load(headers, HEAD)) + 1, IDENTITY)
    return combine(front, back)
