"""Kernels that run a window structure over events, and time each step."""

from __future__ import annotations

from triegs.aggregates.swag.kernels.daba import query_window, slide_event
from triegs.aggregates.swag.kernels.states import store_state
from triegs.aggregates.swag.operators import Values
from triegs.aggregates.swag.templates import KERNEL, template
from triegs.jit.words import Words, prefetch, read_ticks, store

AHEAD = 256  # rows


@template(KERNEL)
def run_steps(
    words: Words, headers: Words, times: Words, values: Values, width: int, out: Words
) -> None:
    """A step is an insertion, the evictions that it causes, and a query."""
    for row in range(len(times)):
        slide_event(words, headers, 0, times[row], values[row], width)
        store_state(out, 0, query_window(words, headers, 0))


@template(KERNEL)
def run_updates(
    words: Words, headers: Words, times: Words, values: Values, width: int, out: Words
) -> None:
    """The same, with one query at the end."""
    for row in range(len(times)):
        slide_event(words, headers, 0, times[row], values[row], width)
    store_state(out, 0, query_window(words, headers, 0))


@template(KERNEL)
def time_steps(
    words: Words, headers: Words, times: Words, values: Values, width: int, out: Words, ticks: Words
) -> None:
    """Each step with the ticks that it took. Events are read ahead: to wait for them is no part of
    a step.
    """
    for row in range(len(times)):
        prefetch(times, row + AHEAD)
        prefetch(values, row + AHEAD)
        prefetch(ticks, row + AHEAD)
        start = read_ticks()
        slide_event(words, headers, 0, times[row], values[row], width)
        store_state(out, 0, query_window(words, headers, 0))
        store(ticks, row, read_ticks() - start)


@template(KERNEL)
def time_nothing(ticks: Words) -> int:
    """What the clock itself costs: for each row, and in all."""
    first = read_ticks()
    for row in range(len(ticks)):
        start = read_ticks()
        store(ticks, row, read_ticks() - start)
    return read_ticks() - first
