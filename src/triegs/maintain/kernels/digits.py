"""Finds the terms of an epoch whose digits are not known yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store

ANY = -1  # instead of a predicate


@kernel
def list_fresh(
    updates: Words, predicate: int, column: int, known: NDArray[np.bool_], fresh: Words, count: int
) -> int:
    """Append to `fresh` the ids that the insertions with a predicate have in a column, unless they
    are known, and mark them as known.

    Returns the new number of ids in `fresh`. If the largest id is beyond `known`, nothing changes,
    and the result is -1 minus that id.
    """
    largest = 0
    for at in range(0, updates.size, 4):
        if predicate == ANY or load(updates, at + 2) == predicate:
            largest = max(largest, load(updates, at + column))
    if largest >= known.size:
        return -1 - largest
    for at in range(0, updates.size, 4):
        if load(updates, at) > 0 and (predicate == ANY or load(updates, at + 2) == predicate):
            term = load(updates, at + column)
            if not known[term]:
                known[term] = True
                store(fresh, count, term)
                count += 1
    return count
