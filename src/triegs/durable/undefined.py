"""Kernels: the rows of a record, and the terms that it must define."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from triegs.jit.jit import kernel, short_kernel
from triegs.jit.words import Words
from triegs.terms.arrays import INTEGER

#: More words than `write_rows` needs for a row of three terms. Each takes half a word and, if it is
#: defined, half a word for its id, half a word of scratch, and one for its value.
ROOM = 9


@kernel
def find_undefined(ids: Words, defined: NDArray[Any], found: Words) -> int:
    """Find the terms that need a definition, each once; -1 is no term. Returns how many.

    `defined` has by id whether the segment defines it.
    """
    count = 0
    for term in ids:
        if term >= 0 and not defined[term]:
            defined[term] = 1
            found[count] = term
            count += 1
    return count


@short_kernel
def write_rows(
    rows: Words, spans: Words, defined: NDArray[Any], body: Words, halves: NDArray[Any]
) -> tuple[int, int]:
    """Write three 32-bit numbers per row and then, if all terms that need a definition are
    integers, their values and their ids, each once. `halves` is `body` by half words.

    A deletion has the complement of its subject. Returns how many terms are defined, and how many
    of them are not integers; their ids are also in the last half words, from the end.
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
            if not defined[term]:
                defined[term] = 1
                body[values + count] = spans[term, 0]
                texts += spans[term, 1] != INTEGER
                count += 1
                halves[end - count] = term
    if size % 2:
        halves[3 * size] = 0
    ids = 2 * (values + count)
    for number in range(count):
        halves[ids + number] = halves[end - 1 - number]
    if count % 2:
        halves[ids + count] = 0
    return count, texts
