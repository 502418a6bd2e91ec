"""Which terms of a record the segment has not defined yet."""

from __future__ import annotations

from triegs.dictionary.arrays import UNBORN
from triegs.kernels.jit import kernel
from triegs.kernels.words import Words


@kernel
def find_undefined(
    rows: Words, skipped: int, births: Words, stamps: Words, first: int, stamp: int, found: Words
) -> int:
    """The terms of some rows that need a definition, each once; -1 is no term. So many columns
    are skipped.

    `stamps` has by id the record that defined it last; `first` is the first record of the segment,
    `stamp` this one. A term that nothing holds yet may have the id of one that went.
    """
    count = 0
    for row in range(rows.shape[0]):
        for column in range(skipped, rows.shape[1]):
            term = rows[row, column]
            if term < 0:
                continue
            last = stamps[term]
            if last < first or (births[term] == UNBORN and last != stamp):
                stamps[term] = stamp
                found[count] = term
                count += 1
    return count
