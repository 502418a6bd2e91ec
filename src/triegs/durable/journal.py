"""The journal: every call that changes an engine is one record, written before it is executed.

An engine is deterministic, so the log has its inputs: rows and events by ids with the definitions
of new terms (`triegs.durable.terms`), watermarks, queries, holds. A record is written first, and
undone if the call fails. A call is one record together with the positions of its inputs, so after a
crash all of it is there or nothing; only `each_slide` has one record for the watermark and one for
each slide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from threading import Lock
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triegs.durable.columns import NO_COLUMNS, Columns, lay_out, pack
from triegs.durable.direct import MOST_ROWS, DirectRecords
from triegs.durable.log import Log
from triegs.durable.terms import Definer
from triegs.jit.words import Words
from triegs.terms.dictionary import Dictionary
from triegs.windows.encoding import NO_ID, Events

NO_NOTES: dict[str, dict[str, Any]] = {}


class Kind(IntEnum):
    """The kinds of records. The numbers are part of the format."""

    REGISTER = 1
    CLOSE = 2
    APPLY = 3
    PUSH = 4
    MOVE = 5
    SLIDE = 6
    NOTE = 7
    ADVANCE = 8
    AGGREGATE = 9
    CLOSE_AGGREGATE = 10
    RULES = 11


#: Kinds of records without columns that are written often.
BRIEF = (Kind.ADVANCE, Kind.MOVE, Kind.SLIDE)


class Recording:
    """A written record whose change is being made. A class, because a context manager made from a
    generator costs every epoch some microseconds more.
    """

    __slots__ = ("_journal", "_noted", "_segment", "_sequence")

    def __init__(
        self, journal: Journal, sequence: int, segment: int, noted: dict[str, dict[str, Any]]
    ) -> None:
        self._journal = journal
        self._sequence = sequence
        self._segment = segment
        self._noted = noted

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        journal = self._journal
        if kind is not None:
            journal.log.undo(self._sequence)
            return
        journal._segment = self._segment
        journal.last = self._sequence
        if self._noted:
            journal._settle(self._noted)


class Journal:
    """Writes the records of one engine. It belongs to the updater.

    Notes are committed with the next record: `positions`, which are named values such as input
    offsets, and `holds`, the epochs held by name. Holds are noted from any thread.
    """

    def __init__(
        self, log: Log, words: Dictionary, identities: Dictionary, limit: int | None = None
    ) -> None:
        self.log = log
        # Every record has the memory limit that applied to it, if any.
        self._always = {} if limit is None else {"limit": limit}
        self.positions: dict[str, Any] = {}
        self.last = log.last
        self._noted: dict[str, dict[str, Any]] = {
            "positions": {}, "holds": {}, "stopped": {}, "refusing": {},
        }  # fmt: skip
        self._lock = Lock()
        self._segment = 0
        self._is_refused = False  # whether the log refused the last record
        self._terms = Definer(words, "term")
        self._identities = Definer(identities, "identity")
        self.direct = DirectRecords(log, words, self._terms, limit)
        words.on_free.append(self._terms.forget)
        identities.on_free.append(self._identities.forget)

    def note(self, positions: Mapping[str, Any]) -> None:
        """Commit a copy of these positions with the next record; raises for what JSON cannot
        represent.
        """
        kept = json.loads(json.dumps(dict(positions)))
        with self._lock:
            self._noted["positions"].update(kept)

    def forget(self, names: Sequence[str]) -> None:
        """Remove positions that are not written yet."""
        with self._lock:
            for name in names:
                self._noted["positions"].pop(name, None)

    def drop(self) -> None:
        """The change that positions belong to failed: forget them."""
        with self._lock:
            self._noted["positions"].clear()

    def note_hold(self, name: str, epoch: int | None) -> None:
        """An epoch is held under a name, or with None the name is released."""
        with self._lock:
            self._noted["holds"][name] = epoch

    def note_stop(self, sequence: int, slides: int) -> None:
        """A record stopped early: only that many of its slides were published. This is written with
        the next record at the latest, so no change ever builds on more than was done.
        """
        with self._lock:
            self._noted["stopped"][str(sequence)] = slides

    def note_refusing(self, sequence: int, slides: Sequence[int]) -> None:
        """These slides of a record, counted from 0, refused their events for lack of memory."""
        with self._lock:
            self._noted["refusing"][str(sequence)] = list(slides)

    def flush(self, epoch: int) -> None:
        """Write the notes, if any."""
        if any(self._noted.values()):
            with self.record(Kind.NOTE, epoch, {}):
                pass

    def note_epoch(self, epoch: int) -> None:
        """Write the number of the newest epoch alone: a change that failed has published it, and
        the notes belong to the next change.
        """
        self._is_refused = True
        self.last = self.log.append(Kind.NOTE, pack({"epoch": epoch, **self._always}, NO_COLUMNS))
        self._is_refused = False

    def close(self, epoch: int) -> None:
        """Write the remaining holds; positions are only written with a change.

        Not if the last record was refused, because holds may belong to it: of an output written up
        to a held epoch and its hold, both are kept or neither.
        """
        self.drop()
        if not self._is_refused:
            self.flush(epoch)

    def record(
        self, kind: Kind, epoch: int, fields: Mapping[str, Any], columns: Columns = NO_COLUMNS
    ) -> Recording:
        """Write a record; make its change within a ``with``, where an exception undoes it."""
        if kind in BRIEF and (recording := self._record_directly(kind, epoch, fields)):
            return recording
        noted = self._copy_notes() if any(self._noted.values()) else {}
        # If this fails, the definitions of the record are lost: then everything is defined again.
        segment, self._segment = self._segment, 0
        self._is_refused = True
        written = {"epoch": epoch, **self._always, **fields, **noted}
        sequence = self.log.append(kind, pack(written, columns))
        self._is_refused = False
        return Recording(self, sequence, segment, noted)

    def record_rows(self, epoch: int, rows: Words, fields: Mapping[str, Any]) -> Recording:
        """The `record` of an epoch of rows."""
        if len(rows) <= MOST_ROWS:
            recording = self._record_directly(Kind.APPLY, epoch, fields, rows)
            if recording is not None:
                return recording
        return self.record(Kind.APPLY, epoch, fields, self.describe_rows(rows))

    def record_events(self, epoch: int, events: Events, fields: Mapping[str, Any]) -> Recording:
        """The `record` of timed events."""
        rows, times, ids = events.rows, events.times, events.ids
        has_ids = len(ids) and (ids != NO_ID).any()
        if events.kept is None and len(rows) <= MOST_ROWS and not has_ids:
            times = np.ascontiguousarray(times, np.int64)
            recording = self._record_directly(Kind.PUSH, epoch, fields, rows, times)
            if recording is not None:
                return recording
        return self.record(Kind.PUSH, epoch, fields, self.describe_events(events))

    def _record_directly(
        self, kind: Kind, epoch: int, fields: Mapping[str, Any], *columns: Words
    ) -> Recording | None:
        """Write a usual record with few calls, because the kernels of an epoch leave little of the
        interpreter in the caches. None if it is not a usual one.
        """
        if any(self._noted.values()):
            return None
        segment = self.log.prepare()
        if segment != self._segment:
            self._begin_record()
        self._segment = 0
        is_refused, self._is_refused = self._is_refused, True
        sequence = self.direct.write(kind, epoch, fields, *columns)
        self._is_refused = is_refused if sequence is None else False
        if sequence is None:
            self._segment = segment
            return None
        return Recording(self, sequence, segment, NO_NOTES)

    def _copy_notes(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {what: dict(values) for what, values in self._noted.items() if values}

    def _settle(self, noted: dict[str, dict[str, Any]]) -> None:
        """These notes are written: drop all that are not newer."""
        self.positions.update(noted.get("positions", {}))
        with self._lock:
            for what, values in noted.items():
                now = self._noted[what]
                self._noted[what] = {
                    k: v for k, v in now.items() if k not in values or v != values[k]
                }

    def define(self, ids: Words) -> Columns:
        """The definitions that the next record needs for these terms."""
        self._begin_record()
        return lay_out(self._terms.define(ids))

    def describe_rows(self, rows: Words) -> Columns:
        """Rows ``(change, subject, predicate, object)`` as columns of the next record."""
        self._begin_record()
        return self._terms.write_rows(rows)

    def describe_events(self, events: Events) -> Columns:
        """Timed events as columns of the next record, with their rows if some were malformed."""
        rows = self.describe_rows(events.rows)
        found: dict[str, NDArray[Any]] = {"times": events.times}
        if len(events.ids) and (events.ids != NO_ID).any():
            found["ids"] = events.ids.astype(np.int32)
            found.update(self._identities.define(events.ids))
        if events.kept is not None:
            found["places"] = events.kept
        return rows + lay_out(found)

    def _begin_record(self) -> None:
        """Find out in which segment the next record is: in a new one, nothing is defined."""
        segment = self.log.prepare()
        if segment != self._segment:
            self._segment = segment
            self._terms.begin()
            self._identities.begin()
