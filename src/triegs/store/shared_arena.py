"""An arena that other processes read where it is."""

from __future__ import annotations

from triegs.errors import StateError
from triegs.jit.words import Words
from triegs.shared_memory import allocate_shared
from triegs.store.kernels.layout import START
from triegs.store.kernels.memory import (
    SMALLEST_RESERVE_WORDS,
    begin_arena,
    measure_machine_words,
    slack_words,
)


def make_shared_arena(limit_words: int | None) -> Words:
    """An empty arena in shared memory; `limit_words` bounds the size of its nodes.

    It can never move, so it has the address space of the whole machine, or at least of all that the
    limit allows. `StateError` if the system refuses that.
    """
    machine = measure_machine_words()
    least = SMALLEST_RESERVE_WORDS
    if limit_words is not None:
        least = START + limit_words + slack_words(limit_words)
    wanted = max(machine, least)
    while True:
        try:
            words = allocate_shared("arena", wanted)
            return begin_arena(words, wanted if limit_words is None else START + limit_words)
        except (OSError, ValueError, OverflowError) as problem:
            if wanted == least:
                raise StateError(
                    f"shared memory needs {8 * wanted:,} bytes of address space: {problem}; "
                    f"set a memory_limit, or leave out shared_memory"
                ) from problem
            wanted = max(least, wanted // 2)
