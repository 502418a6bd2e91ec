"""Reads the measures of many groups at once, and finds the groups that differ in two versions.

A key is a tuple of `width` ids; keys are stored consecutively.
"""

from __future__ import annotations

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store
from triegs.read.kernels.differences import KEY as CHANGED
from triegs.read.kernels.differences import column_at, next_difference, open_difference
from triegs.store.kernels.relations import tuple_get


@kernel
def read_counts(words: Words, root: int, keys: Words, width: int, counts: Words) -> None:
    """The count of each key; 0 for one that is not there."""
    for place in range(counts.size):
        store(counts, place, tuple_get(words, root, keys[place * width :], width))


@kernel
def open_changed(words: Words, state: Words, old: int, new: int) -> None:
    """Position before the first difference of two versions of a measure."""
    open_difference(words, state, 0, old, new)


@kernel
def list_changed(words: Words, state: Words, columns: int, width: int, keys: Words) -> int:
    """Write the keys of the next entries that differ; returns their number. Fewer than there is
    room for means the end. Of adjacent equal keys one is written.
    """
    most = keys.size // width
    count = 0
    while count < most and next_difference(words, state, 0, columns, True):
        is_new = count == 0
        for column in range(width):
            key = load(state, column_at(0, column) + CHANGED)
            if not is_new and key != load(keys, (count - 1) * width + column):
                is_new = True
            store(keys, count * width + column, key)
        if is_new:
            count += 1
    return count
