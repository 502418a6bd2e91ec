"""Kernels that find statements and fields in a byte buffer and copy them into columns.

`split_statements` reads N-Triples and N-Quads, `split_fields` CSV and TSV. For each record they
write the extent of its line and the start and end of each field (a *span*); no bytes are copied.
They handle only the common syntax. A line they cannot decide is marked `UNUSUAL` and left to
pyoxigraph. A kernel may be incomplete, but it must never accept what pyoxigraph rejects, nor find
different terms.

`measure_column` and `copy_column` turn spans into the buffers of an Arrow array.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined, kernel
from triegs.terms.arrays import Bytes, Word, Words
from triegs.terms.spelling import (
    STRING_SUFFIX,
    copy_bytes,
    equal_bytes,
    find_closing_quote,
    is_alphanumeric,
    measure_character,
)

# Line states.
PLAIN, UNUSUAL = 0, 1
# Errors in a line of fields.
OPEN_QUOTE, TEXT_AFTER_QUOTE, WRONG_WIDTH = 2, 3, 4

RDF_PREFIX = np.frombuffer(b"http://www.w3.org/1999/02/22-rdf-syntax-ns#", np.uint8).copy()
_PLAIN_IN_IRI = np.zeros(256, np.uint8)
_PLAIN_IN_IRI[
    list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/?")
] = 1


@inlined
def is_end(byte: Word) -> bool:
    return bool(byte == 10 or byte == 13)


@inlined
def skip_blanks(data: Bytes, at: Word, end: Word) -> Word:
    while at < end and (data[at] == 32 or data[at] == 9):
        at += 1
    return at


@inlined
def find_line_end(data: Bytes, at: Word, end: Word) -> Word:
    while at < end and not is_end(data[at]):
        at += 1
    return at


@inlined
def pass_line_end(data: Bytes, at: Word, end: Word, is_last: bool) -> Word:
    """Start of the next line, -1 if not known yet. A line ends with LF, CR LF or CR."""
    if at == end:
        return at if is_last else -1
    if data[at] == 10:
        return at + 1
    if at + 1 == end:
        return end if is_last else -1
    return at + 2 if data[at + 1] == 10 else at + 1


# N-Triples and N-Quads ---------------------------------------------------------------------------


@inlined
def is_hexadecimal(byte: Word) -> bool:
    return bool(48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102)


@kernel
def find_iri_end(data: Bytes, at: Word, end: Word) -> Word:
    """Offset of the ``>`` that closes the absolute IRI starting here; -1 if unsure."""
    if at >= end or not (97 <= data[at] | 32 <= 122):
        return -1
    while at < end and (is_alphanumeric(data[at]) or data[at] in (43, 45, 46)):
        at += 1
    if at + 2 >= end or data[at] != 58:
        return -1
    at += 1
    if data[at] == 47 and data[at + 1] == 47:
        # A host of letters, digits, dots and hyphens, perhaps a port; no user, no IP literal.
        at += 2
        while at < end and (is_alphanumeric(data[at]) or data[at] in (45, 46)):
            at += 1
        if at < end and data[at] == 58:
            at += 1
            while at < end and 48 <= data[at] <= 57:
                at += 1
        if at >= end or data[at] not in (35, 47, 62, 63):
            return -1
    marks = 0
    while at < end:
        byte = data[at]
        if _PLAIN_IN_IRI[byte]:
            at += 1
        elif byte == 62:
            return at
        elif byte == 35:
            marks += 1
            if marks > 1:
                return -1
            at += 1
        elif byte == 37:
            if at + 2 >= end or not (is_hexadecimal(data[at + 1]) and is_hexadecimal(data[at + 2])):
                return -1
            at += 3
        elif 0xC3 <= byte <= 0xEC:
            # U+00C0 to U+CFFF, all valid in IRIs; rarer characters are left to pyoxigraph.
            size = measure_character(data, at, end)
            if size == 0:
                return -1
            at += size
        else:
            return -1
    return -1


@inlined
def find_label_end(data: Bytes, at: Word, end: Word) -> Word:
    """End of the blank node label starting here; -1 if unsure."""
    if at >= end or not (is_alphanumeric(data[at]) or data[at] == 95):
        return -1
    while at < end and (is_alphanumeric(data[at]) or data[at] == 95 or data[at] == 45):
        at += 1
    if at < end and (data[at] >= 128 or data[at] == 58):
        return -1
    if at + 1 < end and data[at] == 46 and data[at + 1] not in (9, 10, 13, 32):
        return -1  # the dot may belong to the label
    return at


@inlined
def find_language_end(data: Bytes, at: Word, end: Word) -> Word:
    """End of a tag like ``en`` or ``en-gb``; -1 for all others, which have more rules."""
    start = at
    while at < end and 97 <= data[at] <= 122:
        at += 1
    if not 2 <= at - start <= 3:
        return -1
    if at < end and data[at] == 45:
        start = at + 1
        at = start
        while at < end and 97 <= data[at] <= 122:
            at += 1
        if at - start != 2:
            return -1
    if at < end and (is_alphanumeric(data[at]) or data[at] == 45):
        return -1
    return at


@kernel
def find_literal_end(data: Bytes, at: Word, end: Word) -> tuple[Word, Word]:
    """End of the literal whose opening quote is here, and where to continue; -1 if unsure.

    The two differ where ``^^xsd:string`` is dropped from the term.
    """
    quote = find_closing_quote(data, at + 1, end)
    if quote < 0:
        return -1, -1
    after = quote + 1
    if after < end and data[after] == 64:
        after = find_language_end(data, after + 1, end)
        return after, after
    if after < end and data[after] == 94:
        if after + 3 >= end or data[after + 1] != 94 or data[after + 2] != 60:
            return -1, -1
        start = after + 3
        close = find_iri_end(data, start, end)
        if close < 0:
            return -1, -1
        size = close - start
        if size == len(STRING_SUFFIX) and equal_bytes(data, start, STRING_SUFFIX, 0, size):
            return after, close + 1
        if size > len(RDF_PREFIX) and equal_bytes(data, start, RDF_PREFIX, 0, len(RDF_PREFIX)):
            return -1, -1  # rdf:langString needs a language
        return close + 1, close + 1
    return after, after


@kernel
def find_term(data: Bytes, at: Word, end: Word, may_be_literal: bool) -> tuple[Word, Word]:
    """Like `find_literal_end`, for any term."""
    if at + 1 >= end:
        return -1, -1
    byte = data[at]
    if byte == 60:
        close = find_iri_end(data, at + 1, end)
        return (close + 1, close + 1) if close >= 0 else (-1, -1)
    if byte == 95 and data[at + 1] == 58:
        close = find_label_end(data, at + 2, end)
        return close, close
    if byte == 34 and may_be_literal:
        return find_literal_end(data, at, end)
    return -1, -1


@inlined
def scan_statement(
    data: Bytes, at: Word, end: Word, has_graph: bool, spans: Words, row: Word
) -> Word:
    """Write the spans of the statement starting here; end of its line, or -1 if unsure."""
    for part in range(4):
        if part == 3:
            spans[row, 3, 0] = spans[row, 3, 1] = at
            if not has_graph or at >= end or data[at] == 46:
                break
        if part == 1 and data[at] != 60:
            return -1
        close, after = find_term(data, at, end, part == 2)
        if close < 0:
            return -1
        spans[row, part, 0] = at
        spans[row, part, 1] = close
        at = skip_blanks(data, after, end)
        if at >= end:
            return -1
    if at >= end or data[at] != 46:
        return -1
    at = skip_blanks(data, at + 1, end)
    return at if at == end or is_end(data[at]) else -1


@kernel
def split_statements(
    data: Bytes,
    start: Word,
    is_last: bool,
    has_graph: bool,
    spans: Words,
    lines: Words,
    states: Bytes,
) -> tuple[Word, Word, Word]:
    """Find records; returns their number, the offset of the first unread line, and lines read.

    Per record, ``spans`` gets start and end of subject, predicate, object and graph (empty for the
    default graph), ``lines`` gets start, end and number of its line (from 0), and ``states`` gets
    `PLAIN` or `UNUSUAL`. Empty lines and comments are skipped. Without ``is_last``, more bytes may
    follow.
    """
    end = len(data)
    at = start
    row = 0
    number = 0
    while at < end and row < len(states):
        first = skip_blanks(data, at, end)
        if first < end and not (is_end(data[first]) or data[first] == 35):
            stop = scan_statement(data, first, end, has_graph, spans, row)
            states[row] = PLAIN
            if stop < 0:
                states[row] = UNUSUAL
                stop = find_line_end(data, first, end)
            is_record = 1
        else:
            stop = find_line_end(data, first, end)
            is_record = 0
        follow = pass_line_end(data, stop, end, is_last)
        if follow < 0:
            break
        lines[row, 0] = at
        lines[row, 1] = stop
        lines[row, 2] = number
        row += is_record
        number += 1
        at = follow
    return row, at, number


# Lines and fields --------------------------------------------------------------------------------


@kernel
def split_lines(data: Bytes, start: Word, is_last: bool, lines: Words) -> tuple[Word, Word, Word]:
    """Like `split_statements`, for whole lines that are not blank."""
    end = len(data)
    at = start
    row = 0
    number = 0
    while at < end and row < len(lines):
        first = skip_blanks(data, at, end)
        stop = find_line_end(data, first, end)
        follow = pass_line_end(data, stop, end, is_last)
        if follow < 0:
            break
        lines[row, 0] = first
        lines[row, 1] = stop
        lines[row, 2] = number
        row += first < stop
        number += 1
        at = follow
    return row, at, number


@kernel
def split_fields(
    data: Bytes,
    start: Word,
    is_last: bool,
    form: tuple[Word, Word, bool],
    wanted: Words,
    spans: Words,
    lines: Words,
    states: Bytes,
) -> tuple[Word, Word, Word]:
    """Like `split_statements`, for lines of fields.

    ``form`` is the delimiter, the quote (-1 for none), and whether a quoted field may span several
    lines. ``wanted`` gives the span index of each field of a line, or -1. The end of a span is
    inverted if the field has doubled quotes. Empty lines are skipped.
    """
    delimiter, quote, may_span_lines = form
    end = len(data)
    at = start
    row = 0
    number = 0
    while at < end and row < len(states):
        begin = at
        state = PLAIN
        field = 0
        inner_lines = 0
        is_cut = False
        while True:
            doubled = False
            if quote >= 0 and at < end and data[at] == quote:
                first = at + 1
                at = first
                while True:
                    while at < end and data[at] != quote and not is_end(data[at]):
                        at += 1
                    if at >= end:
                        state, is_cut = OPEN_QUOTE, True
                        break
                    if data[at] != quote:
                        if not may_span_lines:
                            state = OPEN_QUOTE
                            break
                        inner_lines += data[at] == 10 or at + 1 >= end or data[at + 1] != 10
                        at += 1
                    elif at + 1 < end and data[at + 1] == quote:
                        doubled = True
                        at += 2
                    else:
                        break
                last = at
                if state == PLAIN:
                    at += 1
                    if at < end and data[at] != delimiter and not is_end(data[at]):
                        state = TEXT_AFTER_QUOTE
            else:
                first = at
                while at < end and data[at] != delimiter and not is_end(data[at]):
                    at += 1
                last = at
            if state != PLAIN:
                break
            if field < len(wanted) and wanted[field] >= 0:
                spans[row, wanted[field], 0] = first
                spans[row, wanted[field], 1] = ~last if doubled else last
            field += 1
            if at >= end or data[at] != delimiter:
                break
            at += 1
        if state == PLAIN and field != len(wanted):
            state = WRONG_WIDTH
        if is_cut and not is_last:
            at = begin
            break
        if state == OPEN_QUOTE and may_span_lines:
            # Never closed: only the line that opens it is lost.
            at = begin
            inner_lines = 0
        stop = find_line_end(data, at, end)
        follow = pass_line_end(data, stop, end, is_last)
        if follow < 0:
            at = begin
            break
        states[row] = state
        lines[row, 0] = begin
        lines[row, 1] = stop
        lines[row, 2] = number
        row += begin < stop
        number += 1 + inner_lines
        at = follow
    return row, at, number


# Columns -----------------------------------------------------------------------------------------


@kernel
def measure_column(
    data: Bytes, extra: Bytes, spans: Words, part: Word, rows: Words, added: Word, offsets: Words
) -> Word:
    """Write the text offsets of the given rows; returns how many of them are blank nodes.

    A span beyond the end of ``data`` lies in ``extra``. A blank node takes ``added`` more bytes
    (-1: plain text, without blank nodes).
    """
    size = len(data)
    total = 0
    blanks = 0
    offsets[0] = 0
    for index in range(len(rows)):
        start = spans[rows[index], part, 0]
        end = spans[rows[index], part, 1]
        if end < 0:
            end = ~end
            at = start
            while at < end:
                total += 1
                at += 2 if data[at] == 34 else 1
        else:
            total += end - start
            if added >= 0 and end > start:
                first = data[start] if start < size else extra[start - size]
                if first == 95:
                    total += added
                    blanks += 1
        offsets[index + 1] = total
    return blanks


@kernel
def copy_column(
    data: Bytes,
    extra: Bytes,
    spans: Words,
    part: Word,
    rows: Words,
    prefix: Bytes,
    offsets: Words,
    target: Bytes,
) -> None:
    """Copy texts to the offsets of `measure_column`; ``prefix`` replaces ``_:`` of labels."""
    size = len(data)
    for index in range(len(rows)):
        start = spans[rows[index], part, 0]
        end = spans[rows[index], part, 1]
        at = offsets[index]
        length = offsets[index + 1] - at
        if end < 0:
            end = ~end
            while start < end:
                target[at] = data[start]
                at += 1
                start += 2 if data[start] == 34 else 1
            continue
        if length > end - start:
            copy_bytes(target, at, prefix, 0, len(prefix))
            at += len(prefix)
            start += 2
        if start < size:
            copy_bytes(target, at, data, start, end - start)
        else:
            copy_bytes(target, at, extra, start - size, end - start)
