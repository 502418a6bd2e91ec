"""Which terms of a record the segment has not defined yet."""

from __future__ import annotations

from triegs.dictionary.arrays import INTEGER, UNBORN
from triegs.kernels.jit import kernel
from triegs.kernels.words import Words


@kernel
def find_undefined(
    rows: Words, skipped: int, births: Words, spans: Words, stamps: Words, first: int, stamp: int,
    found: Words, values: Words,
) -> tuple[int, int]:  # fmt: skip
    """The terms of some rows that need a definition, each once; -1 is no term. So many columns
    are skipped. Returns how many they are, and how many of them are no integers; `values` has
    those that are.

    `stamps` has by id the record that defined it last; `first` is the first record of the segment,
    `stamp` this one. A term that nothing holds yet may have the id of one that went.
    """
    count = texts = 0
    for row in range(rows.shape[0]):
        for column in range(skipped, rows.shape[1]):
            term = rows[row, column]
            if term < 0:
                continue
            last = stamps[term]
            if last < first or (births[term] == UNBORN and last != stamp):
                stamps[term] = stamp
                found[count] = term
                values[count] = spans[term, 0]
                texts += spans[term, 1] != INTEGER
                count += 1
    return count, texts
