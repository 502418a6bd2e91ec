"""A kernel that lays out the record of an epoch of rows, computes its checksum, and writes it.

One array of words tells it where everything is. The text of the record comes from a template, in
which a byte below 32 is replaced by the number in the word of that index.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from triegs.durable.undefined import forget_term, write_rows, write_texts
from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import (
    Words,
    call_write,
    checksum_bytes,
    edit_bytes,
    edit_halves,
    edit_words,
    load,
    release_lock,
    store,
    store_half,
    take_lock,
)
from triegs.terms.arrays import Bytes

# The numbers in the text: of the epoch, its time, and its malformed updates; then results: rows,
# integers, texts, offsets of texts and bytes of texts. What the head of the frame has. The file,
# the offset of the record, and up to where there is room. Addresses of functions. The address of
# the buffer, its words before the arrays, and its words for these. The address of the template; the
# ends of its parts, which are for all records, for integers, for texts, and for all again; and the
# address of room for the text.
(
    EPOCH, TIME, MALFORMED, ROWS, INTEGERS, TEXTS, OFFSETS, LENGTH, MAGIC, SEQUENCE, KIND,
    FILE, OFFSET, ROOM, CHECKSUM, WRITE, BUFFER, BEFORE, SPACE, TEMPLATE, ALL_END,
    INTEGERS_END, TEXTS_END, END, TEXT, RECORD_WORDS,
) = range(26)  # fmt: skip
CODES = 32  # bytes of a template below this are the indices of words
FRAME_WORDS = 3
# Returned in place of a size: nothing was done, or a part of the record may be written. Either way
# no definition counts as written.
DECLINED, TORN = 0, -1


@inlined
def write_number(octets: Bytes, at: int, number: int) -> int:
    """Write a number in decimal; returns the end."""
    if number < 0:
        octets[at] = 45
        at += 1
    end = at
    rest = number
    while True:
        end += 1
        # By the sign: the least number has no negative.
        rest = rest // 10 if rest >= 0 else -(-rest // 10)
        if rest == 0:
            break
    rest = number
    for place in range(end - 1, at - 1, -1):
        less = rest // 10 if rest >= 0 else -(-rest // 10)
        octets[place] = 48 + abs(rest - 10 * less)
        rest = less
    return end


@kernel
def write_text(told: Words, template: Bytes, first: int, last: int, octets: Bytes, at: int) -> int:
    """Write a part of a template; returns the end."""
    for place in range(first, last):
        code = int(template[place])
        if code < CODES:
            at = write_number(octets, at, load(told, code))
        else:
            octets[at] = code
            at += 1
    return at


@kernel
def forget_halves(defined: Words, ids: NDArray[Any]) -> None:
    for term in ids:
        forget_term(defined, term)


@short_kernel
def write_record(
    told: Words, rows: Words, spans: Words, heap: Bytes, defined: Words
) -> int:
    """Write a record; returns its size, `DECLINED` or `TORN`. Cost: one pass over the rows, the new
    terms, a checksum and one system call, during which other threads may run Python.
    """
    size = rows.shape[0]
    before, space = load(told, BEFORE), load(told, SPACE)
    whole = edit_words(load(told, BUFFER), before + space)
    begin = load(told, BUFFER) + 8 * before
    body, halves = edit_words(begin, space), edit_halves(begin, 2 * space)
    octets = edit_bytes(begin, 8 * space)
    count, texts, length = write_rows(rows, spans, defined, body, halves)
    new_integers = halves[2 * space - count :]
    new_texts = halves[2 * space - 3 * size - texts : 2 * space - 3 * size]
    used = ((3 * size + 1) >> 1) + count + ((count + 1) >> 1)
    if texts != 0:
        end = used + ((texts + 1) >> 1) + texts + 1 + ((length + 7) >> 3)
        if 2 * end > 2 * space - 6 * size:
            forget_halves(defined, new_integers)
            forget_halves(defined, new_texts)
            return DECLINED
        used = write_texts(new_texts, spans, heap, body, halves, octets, used)
    begin = load(told, OFFSET)
    store(told, ROWS, size)
    store(told, INTEGERS, count)
    store(told, TEXTS, texts)
    store(told, OFFSETS, texts + 1)
    store(told, LENGTH, length)
    template = edit_bytes(load(told, TEMPLATE), load(told, END))
    text = edit_bytes(load(told, TEXT), 8 * before)
    at = write_text(told, template, 0, load(told, ALL_END), text, 0)
    if count != 0:
        at = write_text(told, template, load(told, ALL_END), load(told, INTEGERS_END), text, at)
    if texts != 0:
        at = write_text(told, template, load(told, INTEGERS_END), load(told, TEXTS_END), text, at)
    at = write_text(told, template, load(told, TEXTS_END), load(told, END), text, at)
    text_bytes = at
    while at & 7 != 0:
        text[at] = 0
        at += 1
    text_words = at >> 3
    source = edit_words(load(told, TEXT), before)
    first = before - text_words
    for place in range(text_words):
        store(whole, first + place, load(source, place))
    store(whole, first - 1, text_bytes)
    first -= 1 + FRAME_WORDS
    bytes_ = 8 * (before - first + used)
    if load(told, OFFSET) + bytes_ <= load(told, ROOM):
        store(whole, first + 1, load(told, SEQUENCE))
        store_half(whole, 2 * first + 4, load(told, KIND))
        store_half(whole, 2 * first + 5, bytes_ - 8 * FRAME_WORDS)
        start = load(told, BUFFER) + 8 * first
        checksum = checksum_bytes(load(told, CHECKSUM), start + 8, bytes_ - 8)
        store_half(whole, 2 * first, load(told, MAGIC))
        store_half(whole, 2 * first + 1, checksum)
        lock = release_lock()
        written = call_write(
            load(told, WRITE), load(told, FILE), start, bytes_, load(told, OFFSET)
        )
        take_lock(lock)
        if written == bytes_:
            return written
        bytes_ = TORN
    else:
        bytes_ = DECLINED
    forget_halves(defined, new_integers)
    forget_halves(defined, new_texts)
    return bytes_
