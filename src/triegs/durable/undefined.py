"""Kernels: the rows of a record, and the terms that it must define."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, bit, load, store
from triegs.terms.arrays import INTEGER, Bytes
from triegs.terms.spelling import copy_bytes

#: More words than `write_rows` needs for a row of three terms. Each takes half a word and, if it is
#: defined, half a word for its id, one for its value, and half a word of scratch of each kind.
ROOM = 10


@inlined
def define_term(defined: Words, term: int) -> bool:
    """Note that the segment defines a term; returns whether it did not before. `defined` has a bit
    for each id.
    """
    word = load(defined, term >> 6)
    if (word >> (term & 63)) & 1:
        return False
    store(defined, term >> 6, word | bit(term & 63))
    return True


@inlined
def forget_term(defined: Words, term: int) -> None:
    store(defined, term >> 6, load(defined, term >> 6) & ~bit(term & 63))


@short_kernel
def forget_terms(defined: Words, ids: Words) -> None:
    """Terms behind those that there were when `defined` was made are not defined."""
    known = 64 * len(defined)
    for term in ids:
        if term < known:
            forget_term(defined, term)


@kernel
def find_undefined(ids: Words, defined: Words, found: Words) -> int:
    """Find the terms that need a definition, each once; -1 is no term. Returns how many."""
    count = 0
    for term in ids:
        if term >= 0 and define_term(defined, term):
            found[count] = term
            count += 1
    return count


@short_kernel
def write_rows(
    rows: Words, spans: Words, defined: Words, body: Words, halves: NDArray[Any]
) -> tuple[int, int, int]:
    """Write three 32-bit numbers per row, and then the values and the ids of the integers that need
    a definition, each once. `halves` is `body` by half words, `spans` those of the dictionary one
    after the other.

    A deletion has the complement of its subject. Returns how many integers are defined, how many
    texts need a definition, and the length of those. The ids of the texts are in the last half
    words but three per row, from the end.
    """
    size = rows.shape[0]
    values = (3 * size + 1) // 2
    end = len(halves)
    texts_end = end - 3 * size
    count = texts = length = 0
    for row in range(size):
        subject = rows[row, 1]
        halves[3 * row] = subject if rows[row, 0] > 0 else ~subject
        halves[3 * row + 1] = rows[row, 2]
        halves[3 * row + 2] = rows[row, 3]
        for column in range(1, 4):
            term = rows[row, column]
            if define_term(defined, term):
                if spans[2 * term + 1] == INTEGER:
                    body[values + count] = spans[2 * term]
                    count += 1
                    halves[end - count] = term
                else:
                    length += spans[2 * term + 1]
                    texts += 1
                    halves[texts_end - texts] = term
    if size % 2:
        halves[3 * size] = 0
    ids = 2 * (values + count)
    for number in range(count):
        halves[ids + number] = halves[end - 1 - number]
    if count % 2:
        halves[ids + count] = 0
    return count, texts, length


@short_kernel
def write_texts(
    ids: Words, spans: Words, heap: Bytes, body: Words, halves: NDArray[Any], octets: Bytes,
    start: int,
) -> int:  # fmt: skip
    """Write the ids of texts, the offsets of their bytes and the bytes, from a word of `body` on;
    `octets` is `body` by bytes, `spans` is as above. Returns the word after them.
    """
    count = len(ids)
    for number in range(count):
        halves[2 * start + number] = ids[number]
    if count % 2:
        halves[2 * start + count] = 0
    offsets = start + (count + 1) // 2
    begin = 8 * (offsets + count + 1)
    end = begin
    body[offsets] = 0
    for number in range(count):
        term = ids[number]
        copy_bytes(octets, end, heap, spans[2 * term], spans[2 * term + 1])
        end += spans[2 * term + 1]
        body[offsets + 1 + number] = end - begin
    while end % 8:
        octets[end] = 0
        end += 1
    return end // 8
