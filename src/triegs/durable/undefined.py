"""Rows and terms as a record has them, and which terms it must define."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from triegs.dictionary.arrays import INTEGER, UNBORN
from triegs.kernels.jit import inlined, kernel
from triegs.kernels.words import Words

#: More words than `write_rows` needs for a row of three terms: for each of them half a word, half a
#: word for its id if it is defined, half a word to keep that meanwhile, and its value.
ROOM = 9


@inlined
def is_undefined(term: int, births: Words, stamps: NDArray[Any], stamp: int) -> bool:
    """Whether record `stamp` of a segment must define a term. `stamps` has by id the record that
    did so last, or 0. A term that nothing holds yet may have the id of one that went.
    """
    last = stamps[term]
    return bool(last == 0 or (births[term] == UNBORN and last != stamp))


@kernel
def find_undefined(
    ids: Words, births: Words, stamps: NDArray[Any], stamp: int, found: Words
) -> int:
    """The terms among these that need a definition, each once; -1 is no term. Returns how many."""
    count = 0
    for term in ids:
        if term >= 0 and is_undefined(term, births, stamps, stamp):
            stamps[term] = stamp
            found[count] = term
            count += 1
    return count


@kernel
def write_rows(
    rows: Words, births: Words, spans: Words, stamps: NDArray[Any], stamp: int, body: Words,
    halves: NDArray[Any],
) -> tuple[int, int]:  # fmt: skip
    """Three numbers of 32 bits for a row, and behind them the terms that need a definition, each
    once, if all are integers: their values, then their ids. `halves` is `body` by halves of words.

    The subject of a row that deletes is its complement. Returns how many terms are defined, and how
    many of them are no integers; their ids are the last halves, too, in the order from the end.
    """
    size = rows.shape[0]
    values = (3 * size + 1) // 2
    end = len(halves)
    count = texts = 0
    for row in range(size):
        subject = rows[row, 1]
        halves[3 * row] = subject if rows[row, 0] > 0 else ~subject
        halves[3 * row + 1] = rows[row, 2]
        halves[3 * row + 2] = rows[row, 3]
        for column in range(1, 4):
            term = rows[row, column]
            if is_undefined(term, births, stamps, stamp):
                stamps[term] = stamp
                body[values + count] = spans[term, 0]
                texts += spans[term, 1] != INTEGER
                count += 1
                halves[end - count] = term
    if size % 2:
        halves[3 * size] = 0
    ids = 2 * (values + count)
    for place in range(count):
        halves[ids + place] = halves[end - 1 - place]
    if count % 2:
        halves[ids + count] = 0
    return count, texts
