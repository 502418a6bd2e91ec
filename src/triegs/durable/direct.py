"""The usual records, each of which one call of a kernel lays out and writes.

They have few fields, rows whose terms are short, and a file of the operating system. All others are
written by `triegs.durable.log.Log.append`, with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from triegs.durable.columns import ALIGNED
from triegs.durable.files import find_write
from triegs.durable.frames import FRAME_MAGIC, FRAME_SIZE, find_checksum
from triegs.durable.log import Log
from triegs.durable.record_kernel import (
    BEFORE,
    BUFFER,
    CHECKSUM,
    CODES,
    COMMON_END,
    DEFINED,
    DEFINED_SIZE,
    END,
    EPOCH,
    FIELD,
    HEAP,
    HEAP_SIZE,
    INTEGERS,
    INTEGERS_END,
    KIND,
    LENGTH,
    MAGIC,
    OFFSETS,
    PATIENCE,
    RECORD_WORDS,
    ROWS,
    SPACE,
    SPANS,
    SPANS_SIZE,
    TEMPLATE,
    TEXT,
    TEXTS,
    TEXTS_END,
    TIMES,
    TIMES_SIZE,
    WRITE,
    write_record,
)
from triegs.durable.terms import Definer
from triegs.durable.undefined import ROOM
from triegs.jit.words import Words
from triegs.maintain.pace import Pace
from triegs.terms.arrays import Arrays
from triegs.terms.dictionary import Dictionary

#: Records with more rows are not worth the memory that is kept for the next one.
MOST_ROWS = 10_000
# Words for the arrays of a record: for any, and for each row, whose terms may be new.
LEAST_WORDS, ROW_WORDS = 256, ROOM + 16
#: Bytes for what precedes the arrays.
TEXT_BYTES = 1024
DIGITS = 20  # of a number, with its sign
LONGEST = TEXT_BYTES - FRAME_SIZE - ALIGNED  # text
MOST_TEMPLATES = 64
#: A write that took longer has the next one release the lock of the interpreter.
LONG_NS = 250_000
TICK_EVERY = 256  # records: then the length of a tick is found again
NO_ROWS: Words = np.empty((0, 4), np.int64)
NO_TIMES: Words = np.empty(0, np.int64)
#: Values of fields that are in the template.
PLAIN = (bool, str, type(None))


class DirectRecords:
    """Writes the usual records; `count` is their number so far."""

    def __init__(self, log: Log, words: Dictionary, terms: Definer, limit: int | None) -> None:
        self.count = 0
        self._log = log
        self._words = words
        self._terms = terms
        self._limit = limit
        self._told = np.zeros(RECORD_WORDS, np.int64)
        told = self._told_words = self._told.data  # a memoryview is faster for single words
        told[MAGIC] = int.from_bytes(FRAME_MAGIC, "little")
        told[CHECKSUM], told[WRITE] = find_checksum(), find_write()
        told[BEFORE] = TEXT_BYTES // ALIGNED
        told[PATIENCE] = -1  # until the length of a tick is known
        self._pace = Pace()
        self.is_possible = told[CHECKSUM] != 0 and told[WRITE] != 0
        self._buffer = np.empty(0, np.int64)
        self._text = np.empty(TEXT_BYTES // ALIGNED, np.int64)
        told[TEXT] = int(self._text.ctypes.data)
        #: What the template is for: kind, columns, names of fields, and their values, with `int` in
        #: place of numbers.
        self._shape: list[Any] = []
        # What the words have the addresses of; kept, so that it stays there.
        self._arrays: Arrays | None = None
        self._defined = NO_TIMES
        #: Those that the words have.
        self._fields: Mapping[str, Any] | None = None
        self._templates: dict[tuple[Any, ...], Template] = {}

    def write(
        self, kind: int, epoch: int, fields: Mapping[str, Any], rows: Words = NO_ROWS,
        times: Words = NO_TIMES,
    ) -> int | None:  # fmt: skip
        """Write a record; returns its sequence number, or None if it is not a usual one.

        Fields that are those of the last record, not just equal ones, are not read again.
        """
        if not self.is_possible:
            return None
        told = self._told_words
        is_known = fields is self._fields and kind == told[KIND]
        shape = [kind, rows is not NO_ROWS, times is not NO_TIMES]
        if not is_known and not self._take_fields(fields, shape):
            return None
        told[EPOCH], told[KIND] = epoch, kind
        size = LEAST_WORDS + ROW_WORDS * len(rows)
        if told[SPACE] < size:
            self._buffer = np.empty(TEXT_BYTES // ALIGNED + size, np.int64)
            told[BUFFER], told[SPACE] = int(self._buffer.ctypes.data), size
        if self._words.arrays is not self._arrays:
            self._follow_arrays()
        told[TIMES_SIZE] = 0
        if times is not NO_TIMES:
            told[TIMES], told[TIMES_SIZE] = int(times.ctypes.data), len(times)
        sequence = self._log.append_directly(told, write_record, self._told, rows)
        if sequence is not None:
            if self.count % TICK_EVERY == 0:
                tick = self._pace.find_tick()
                told[PATIENCE] = int(LONG_NS * 1e-9 / tick) if tick else -1
            self.count += 1
        return sequence

    def _take_fields(self, fields: Mapping[str, Any], shape: list[Any]) -> bool:
        """Take the fields of a record, whose shape begins so; returns whether they are usual."""
        self._fields = None
        told, at = self._told_words, FIELD
        shape += fields  # their names, in this order
        for value in fields.values():
            kind_of_value = type(value)
            if kind_of_value is int and at < ROWS:
                told[at] = value
                at += 1
                shape.append(int)
            elif kind_of_value in PLAIN:
                shape.append(value)
            else:
                return False
        if shape != self._shape and not self._choose(shape, fields):
            return False
        self._fields = fields
        return True

    def _follow_arrays(self) -> None:
        """The dictionary has other arrays."""
        self._arrays = arrays = self._words.arrays
        # At least as long as it has to be for as long as the dictionary has these arrays.
        self._defined = defined = self._terms.find_defined()
        told = self._told_words
        told[SPANS], told[SPANS_SIZE] = int(arrays.spans.ctypes.data), arrays.spans.size
        told[HEAP], told[HEAP_SIZE] = int(arrays.heap.ctypes.data), arrays.heap.size
        told[DEFINED], told[DEFINED_SIZE] = int(defined.ctypes.data), defined.size

    def _choose(self, shape: list[Any], fields: Mapping[str, Any]) -> bool:
        """Take the template for records of a shape; returns whether there is one."""
        template = self._templates.get(tuple(shape))
        if template is None:
            template = Template(write_template(fields, self._limit, shape[1], shape[2]))
            if not template.fits:
                return False
            if len(self._templates) == MOST_TEMPLATES:
                self._templates.clear()
            self._templates[tuple(shape)] = template
        told = self._told_words
        told[TEMPLATE] = template.address
        told[COMMON_END], told[INTEGERS_END], told[TEXTS_END], told[END] = template.ends
        self._shape = shape
        return True


class Template:
    """The text of a record, with codes for its numbers; `ends` are those of its parts."""

    def __init__(self, parts: Sequence[str]) -> None:
        text = "".join(parts)
        self.ends = tuple(accumulate(map(len, parts)))
        self.fits = len(text) + DIGITS * sum(each < chr(CODES) for each in text) <= LONGEST
        # JSON is written in ASCII, with escapes for bytes that could be codes.
        self._bytes = np.frombuffer(text.encode("ascii"), np.uint8)
        self.address = int(self._bytes.ctypes.data)


def write_template(
    fields: Mapping[str, Any], limit: int | None, has_rows: bool, has_times: bool
) -> Sequence[str]:
    """The parts of a template, see `triegs.durable.record_kernel`."""
    always = {} if limit is None else {"limit": json.dumps(limit)}
    numbers = map(chr, range(FIELD, ROWS))
    values = {
        "epoch": chr(EPOCH), **always,
        **{k: next(numbers) if type(v) is int else json.dumps(v) for k, v in fields.items()},
    }  # fmt: skip
    begin = f"[{{{', '.join(f'{json.dumps(k)}: {v}' for k, v in values.items())}}},["
    if not has_rows:
        return begin, "", "", "]]"
    rows, integers, texts = chr(ROWS), chr(INTEGERS), chr(TEXTS)
    return (
        f'{begin}["rows","<i4",[{rows}, 3]]',
        f',["term_integers","<i8",[{integers}]],["term_integer_ids","<i4",[{integers}]]',
        (
            f',["term_text_ids","<i4",[{texts}]],["term_offsets","<i8",[{chr(OFFSETS)}]]'
            f',["term_texts","|u1",[{chr(LENGTH)}]]'
        ),
        f',["times","<i8",[{rows}]]]]' if has_times else "]]",
    )
