"""A kernel that lays out a record, computes its checksum, and writes it.

One array of words tells it where everything is. The text of the record comes from a template, in
which a byte below `CODES` stands for the number in the word of that index.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from triegs.durable.undefined import forget_term, write_rows, write_texts
from triegs.jit.jit import kernel, short_kernel
from triegs.jit.words import (
    Words,
    call_write,
    checksum_bytes,
    edit_bytes,
    edit_halves,
    edit_words,
    load,
    read_ticks,
    release_lock,
    store,
    store_half,
    take_lock,
)
from triegs.terms.arrays import Bytes

# Numbers in the text: the epoch, and those of the fields. Then results, which are in it, too: rows,
# integers, texts, offsets of texts and bytes of texts that the record has. What the head of its
# frame has. The file, the offset of the record, and up to where there is room. Addresses of
# functions. The address of a buffer, and its words before the arrays and for these. The address of
# the template; the ends of its parts, which are for all records, for integers, for texts, and for
# all again; and the address of room for the text. The ticks that the last write took, and those up
# to which the next one keeps the lock of the interpreter. Addresses and sizes: of the times of the
# rows, if any; of the spans and the heap of the dictionary; of which of its terms are defined.
# These are no arguments, because a call takes a tenth of a microsecond for each array.
(
    EPOCH, FIELD, FIELD_2, FIELD_3, ROWS, INTEGERS, TEXTS, OFFSETS, LENGTH, MAGIC, SEQUENCE, KIND,
    FILE, OFFSET, ROOM, CHECKSUM, WRITE, BUFFER, BEFORE, SPACE, TEMPLATE, COMMON_END, INTEGERS_END,
    TEXTS_END, END, TEXT, TICKS, PATIENCE, TIMES, TIMES_SIZE, SPANS, SPANS_SIZE, HEAP, HEAP_SIZE,
    DEFINED, DEFINED_SIZE, RECORD_WORDS,
) = range(37)  # fmt: skip
CODES = 32  # those in a template are the first ones
FRAME_WORDS = 3
# Returned in place of a size: nothing was done, or a part of the record may be written. Either way
# the record defines nothing.
DECLINED, TORN = 0, -1


@kernel
def write_number(octets: Bytes, at: int, number: int) -> int:
    """Write a number but the least in decimal; returns the end."""
    if number < 0:
        octets[at] = 45
        at += 1
        number = -number
    end = at + 1
    rest = number // 10
    while rest != 0:
        end += 1
        rest //= 10
    for index in range(end - 1, at - 1, -1):
        octets[index] = 48 + number % 10
        number //= 10
    return end


@kernel
def write_text(told: Words, template: Bytes, first: int, last: int, octets: Bytes, at: int) -> int:
    """Write a part of a template; returns the end."""
    for index in range(first, last):
        code = int(template[index])
        if code < CODES:
            at = write_number(octets, at, load(told, code))
        else:
            octets[at] = code
            at += 1
    return at


@kernel
def write_whole_text(told: Words, whole: Words) -> int:
    """Write the text, padded to words, and before it its length, directly before the arrays of a
    record. Returns the word at which that begins.
    """
    before = load(told, BEFORE)
    template = edit_bytes(load(told, TEMPLATE), load(told, END))
    # Elsewhere first, because only its length tells where it begins.
    text = edit_bytes(load(told, TEXT), 8 * before)
    end = write_text(told, template, 0, load(told, COMMON_END), text, 0)
    if load(told, INTEGERS) != 0:
        end = write_text(
            told, template, load(told, COMMON_END), load(told, INTEGERS_END), text, end
        )
    if load(told, TEXTS) != 0:
        end = write_text(told, template, load(told, INTEGERS_END), load(told, TEXTS_END), text, end)
    end = write_text(told, template, load(told, TEXTS_END), load(told, END), text, end)
    for index in range(end, end + (-end & 7)):
        text[index] = 0
    words = (end + 7) >> 3
    source = edit_words(load(told, TEXT), words)
    first = before - words
    for index in range(words):
        store(whole, first + index, load(source, index))
    store(whole, first - 1, end)
    return first - 1


@kernel
def frame_and_write(told: Words, whole: Words, first: int, size: int) -> int:
    """Write the head of a frame of so many bytes at a word, then the frame to the file; returns its
    size, `DECLINED` or `TORN`.
    """
    begin = load(told, OFFSET)
    if begin + size > load(told, ROOM):
        return DECLINED
    store(whole, first + 1, load(told, SEQUENCE))
    store_half(whole, 2 * first + 4, load(told, KIND))
    store_half(whole, 2 * first + 5, size - 8 * FRAME_WORDS)
    start = load(told, BUFFER) + 8 * first
    store_half(whole, 2 * first, load(told, MAGIC))
    store_half(whole, 2 * first + 1, checksum_bytes(load(told, CHECKSUM), start + 8, size - 8))
    is_long = load(told, TICKS) > load(told, PATIENCE)
    lock = release_lock() if is_long else 0
    started = read_ticks()
    written = call_write(load(told, WRITE), load(told, FILE), start, size, begin)
    store(told, TICKS, read_ticks() - started)
    if is_long:
        take_lock(lock)
    return size if written == size else TORN


@kernel
def forget_halves(defined: Words, ids: NDArray[Any]) -> None:
    for term in ids:
        forget_term(defined, term)


@short_kernel
def write_record(told: Words, rows: Words) -> int:
    """Write a record of rows ``(change, subject, predicate, object)`` and as many times or none;
    returns its size, `DECLINED` or `TORN`.

    Cost: one pass over the rows, the new terms, a checksum and one system call. Other threads may
    run Python during that if the last one took long: a lock that changes hands would take longer.
    """
    size = rows.shape[0]
    times = edit_words(load(told, TIMES), load(told, TIMES_SIZE))
    spans = edit_words(load(told, SPANS), load(told, SPANS_SIZE))
    defined = edit_words(load(told, DEFINED), load(told, DEFINED_SIZE))
    before, space = load(told, BEFORE), load(told, SPACE)
    whole = edit_words(load(told, BUFFER), before + space)
    begin = load(told, BUFFER) + 8 * before
    body, halves = edit_words(begin, space), edit_halves(begin, 2 * space)
    integers, texts, length = write_rows(rows, spans, defined, body, halves)
    # These are at the end, where nothing may overwrite them.
    new_integers = halves[2 * space - integers :]
    new_texts = halves[2 * space - 3 * size - texts : 2 * space - 3 * size]
    used = ((3 * size + 1) >> 1) + integers + ((integers + 1) >> 1)
    text_words = ((texts + 1) >> 1) + texts + 1 + ((length + 7) >> 3) if texts != 0 else 0
    found = DECLINED
    if used + text_words + times.size <= space - 3 * size:
        if texts != 0:
            octets = edit_bytes(begin, 8 * space)
            heap = edit_bytes(load(told, HEAP), load(told, HEAP_SIZE))
            used = write_texts(new_texts, spans, heap, body, halves, octets, used)
        for index in range(times.size):
            store(body, used + index, load(times, index))
        used += times.size
        store(told, ROWS, size)
        store(told, INTEGERS, integers)
        store(told, TEXTS, texts)
        store(told, OFFSETS, texts + 1)
        store(told, LENGTH, length)
        first = write_whole_text(told, whole) - FRAME_WORDS
        found = frame_and_write(told, whole, first, 8 * (before - first + used))
    if found <= 0:
        forget_halves(defined, new_integers)
        forget_halves(defined, new_texts)
    return found
