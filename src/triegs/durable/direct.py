"""The usual record of an epoch of rows, which one call of a kernel lays out and writes."""

from __future__ import annotations

import numpy as np

from numpy.typing import NDArray

from triegs.durable.columns import ALIGNED, BEFORE, WRITTEN, RecordBuffer
from triegs.durable.files import find_write
from triegs.durable.frames import FRAME_MAGIC, FRAME_SIZE, find_checksum
from triegs.durable.log import Log
from triegs.durable.row_record import (
    ALL_END,
    BEFORE as BEFORE_WORDS,
    BUFFER,
    CHECKSUM,
    END,
    EPOCH,
    FILE,
    INTEGERS,
    INTEGERS_END,
    KIND,
    LENGTH,
    MAGIC,
    MALFORMED,
    OFFSET,
    OFFSETS,
    RECORD_WORDS,
    ROOM,
    ROWS,
    SEQUENCE,
    SPACE,
    TEMPLATE,
    TEXT,
    TEXTS,
    TEXTS_END,
    TIME,
    WRITE,
    write_record,
)
from triegs.durable.terms import TEXT_ROOM, Definer
from triegs.durable.undefined import ROOM as ROW_ROOM
from triegs.jit.words import Words
from triegs.terms.dictionary import Dictionary

LEAST_WORDS, WORDS_PER_ROW = 256, ROW_ROOM + TEXT_ROOM

CODED = 8  # words whose numbers are in a text
DIGITS = 20  # of a number, at most


class DirectRecords:
    """Writes records of rows; `count` is their number so far."""

    def __init__(self, log: Log, words: Dictionary, terms: Definer, limit: int | None) -> None:
        self.count = 0
        self._log = log
        self._words = words
        self._terms = terms
        self._limit = "" if limit is None else f', "limit": {limit}'
        self._buffer = RecordBuffer()
        self._told = np.zeros(RECORD_WORDS, np.int64)
        told = self._numbers = self._told.data
        told[MAGIC] = int.from_bytes(FRAME_MAGIC, "little")
        told[CHECKSUM], told[WRITE] = find_checksum(), find_write()
        told[BEFORE_WORDS] = BEFORE // ALIGNED
        self._is_possible = told[CHECKSUM] != 0 and told[WRITE] != 0
        self._templates: dict[tuple[bool, bool], NDArray[np.uint8]] = {}
        self._template: tuple[bool, bool] | None = None

    def write(
        self, kind: int, epoch: int, rows: Words, strict: bool, time: int | None, malformed: int
    ) -> int | None:
        """Write the record of an epoch; returns its sequence number, or None if there is none."""
        if not self._is_possible:
            return None
        told = self._numbers
        is_timed = time is not None
        if (strict, is_timed) != self._template:
            self._choose(strict, is_timed)
        told[EPOCH], told[KIND], told[MALFORMED] = epoch, kind, malformed
        if is_timed:
            told[TIME] = time
        size = LEAST_WORDS + WORDS_PER_ROW * len(rows)
        if size > told[SPACE]:
            self._grow(size)
        words = self._words.arrays
        sequence = self._log.append_directly(
            told, write_record, self._told, rows, words.spans, words.heap, self._terms.find_defined()
        )
        if sequence is not None:
            self.count += 1
        return sequence

    def _grow(self, size: int) -> None:
        told = self._numbers
        told[SPACE] = len(self._buffer.take(size)[0])
        told[BUFFER] = self._buffer.address

    def _choose(self, strict: bool, is_timed: bool) -> None:
        told = self._numbers
        ends = []
        whole = ""
        for part in write_template(self._limit, strict, is_timed):
            whole += part
            ends.append(len(whole))
        told[ALL_END], told[INTEGERS_END], told[TEXTS_END], told[END] = ends
        encoded = whole.encode()
        assert len(encoded) + CODED * DIGITS <= BEFORE - FRAME_SIZE - 2*ALIGNED
        room = np.zeros(2 * BEFORE, np.uint8)
        room[:len(encoded)] = np.frombuffer(encoded, np.uint8)
        self._templates[strict, is_timed] = room
        told[TEMPLATE] = room.ctypes.data
        told[TEXT] = told[TEMPLATE] + BEFORE
        self._template = strict, is_timed


def write_template(limit: str, strict: bool, is_timed: bool) -> tuple[str, ...]:
    """The parts of the text of a record, with codes for numbers."""
    time = chr(TIME) if is_timed else "null"
    return (
        f'[{{"epoch": {chr(EPOCH)}{limit}, "strict": {WRITTEN[strict]}, "time": {time}, '
        f'"malformed": {chr(MALFORMED)}}},[["rows","<i4",[{chr(ROWS)}, 3]]',
        f',["term_integers","<i8",[{chr(INTEGERS)}]],["term_integer_ids","<i4",[{chr(INTEGERS)}]]',
        f',["term_text_ids","<i4",[{chr(TEXTS)}]],["term_offsets","<i8",[{chr(OFFSETS)}]]'
        f',["term_texts","|u1",[{chr(LENGTH)}]]',
        "]]",
    )
