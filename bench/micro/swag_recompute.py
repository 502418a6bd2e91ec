"""Recomputation, a peer of the window structures: a ring of states that each query folds."""

from __future__ import annotations

from typing import Any

from bench.micro.swag_two_stacks import HEAD, MASK, TAIL
from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.operators import State
from triegs.aggregates.swag.templates import IDENTITY, INLINED, WIDTH, combine, lift, template
from triegs.jit.words import Words, load, store


@template(INLINED)
def find_state(headers: Words, position: int) -> int:
    return (position & load(headers, MASK)) * (1 + WIDTH)


@template(INLINED)
def slide_event(words: Words, headers: Words, at: int, time: int, value: Any, width: int) -> None:
    place = find_state(headers, load(headers, TAIL))
    store(words, place, time)
    store_state(words, place + 1, lift(value))
    store(headers, TAIL, load(headers, TAIL) + 1)
    while load(words, find_state(headers, load(headers, HEAD))) <= time - width:
        store(headers, at + HEAD, load(headers, HEAD) + 1)


@template(INLINED)
def query_window(words: Words, headers: Words, at: int) -> State:
    state = IDENTITY
    for position in range(load(headers, at + HEAD), load(headers, at + TAIL)):
        place = find_state(headers, position) + 1
        state = combine(state, load_state(words, place, IDENTITY))
    return state
