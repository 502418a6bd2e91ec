"""The record of an epoch of rows: its own way of writing gives the bytes of the general one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.durable.disk import PowerDisk

from triegs.durable.columns import BEFORE, RecordBuffer, unpack
from triegs.durable.frames import FRAME_SIZE
from triegs.durable.journal import Journal, Kind
from triegs.durable.log import Log
from triegs.durable.terms import TEXT_ROOM
from triegs.durable.undefined import ROOM
from triegs.terms.dictionary import Dictionary

FOLDER = Path("/log")
TERMS = st.sampled_from([0, 1, 2, -7, 2**40, -(2**62)]) | st.sampled_from(["<a:p>", '"é"@en'])
ROWS = st.lists(st.tuples(st.sampled_from([1, -1]), TERMS, TERMS, TERMS), max_size=9)
EPOCHS = st.tuples(ROWS, st.booleans(), st.none() | st.integers(-(2**62), 2**62), st.integers(0, 9))
INTEGERS = [(1, 0, 1, 2), (-1, 0, 1, -7)]


class Written:
    """A dictionary and a log, to which epochs are written in one of two ways."""

    def __init__(self, limit: int | None) -> None:
        self.words = Dictionary()
        self.disk = PowerDisk()
        self.log, _ = Log.open(self.disk, FOLDER, sync="never", segment_bytes=2_000)
        self.journal = Journal(self.log, self.words, Dictionary(), limit)

    def write(self, epoch: int, drawn: tuple, is_short: bool) -> None:
        drawn_rows, strict, time, malformed = drawn
        rows = np.empty((len(drawn_rows), 4), np.int64)
        for place, (change, *terms) in enumerate(drawn_rows):
            rows[place] = [change, *self.words.encode_terms(terms)]
        if is_short:
            recording = self.journal.record_rows(epoch, rows, strict, time, malformed)
        else:
            fields = {"strict": strict, "time": time, "malformed": malformed}
            columns = self.journal.describe_rows(rows)
            recording = self.journal.record(Kind.APPLY, epoch, fields, columns)
        with recording:
            self.words.settle(np.abs(rows), epoch)
        # All terms go, and the next ones get their ids.
        self.words.settle(np.abs(rows) * [-1, 1, 1, 1], epoch + 1)
        self.words.collect(epoch + 1)


@pytest.mark.property
@given(st.lists(EPOCHS, max_size=6), st.none() | st.integers(0, 2**50), st.sets(st.integers(0, 5)))
@example([(INTEGERS, False, None, 0)] * 3, None, set())
@example([(INTEGERS, False, 0, 0), (INTEGERS, True, 1, 1), ([], False, 1, 0)], 1 << 30, {1})
def test_both_ways_write_the_same_bytes(epochs, limit, noted):
    short, general = Written(limit), Written(limit)
    for epoch, drawn in enumerate(epochs):
        for written, is_short in ((short, True), (general, False)):
            if epoch in noted:
                written.journal.note({"at": epoch})
            written.write(epoch, drawn, is_short)
    found = [
        [(record.sequence, record.kind, bytes(record.payload)) for record in written.log.read()]
        for written in (short, general)
    ]
    assert found[0] == found[1]
    for (_, _, payload), (_, strict, time, malformed) in zip(found[0], epochs, strict=True):
        fields = unpack(payload).fields
        assert (fields["strict"], fields["time"], fields["malformed"]) == (strict, time, malformed)
        assert fields.get("limit") == limit


def test_the_memory_of_many_rows_is_not_kept(monkeypatch):
    written, general = Written(None), Written(None)
    monkeypatch.setattr("triegs.durable.journal.FEW_ROWS", 1)
    for epoch, size in enumerate([1, 500, 2, 1]):
        drawn = [(1, number, 2, 3) for number in range(size)], False, None, 0
        written.write(epoch, drawn, True)
        general.write(epoch, drawn, False)
    assert len(written.journal._rows.take(0)[0]) == ROOM + TEXT_ROOM
    payloads = [[bytes(record.payload) for record in one.log.read()] for one in (written, general)]
    assert payloads[0] == payloads[1]


def test_a_text_that_is_too_long_for_the_buffer():
    buffer = RecordBuffer()
    buffer.take(10)
    most = BEFORE - FRAME_SIZE - 8
    assert len(buffer.put_before(b" " * most, FRAME_SIZE, 16)) == BEFORE + 16
    with pytest.raises(ValueError, match="no room"):
        buffer.put_before(b" " * (most + 1), FRAME_SIZE, 16)
