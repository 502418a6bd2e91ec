"""The journal: every call that changes an engine becomes one record before it is carried out.

An engine does the same again when it is told the same again, so the log has what it was told: rows
and events by ids with the terms that are new (`triegs.durable.terms`), watermarks, queries, holds.
A record is written first, and taken back if what it announces fails. A call is one record with the
positions of inputs, so all of it is there after a crash or nothing; only `each_slide` has one for
the watermark and one for each slide.
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

from triegs.dictionary import Dictionary
from triegs.durable.columns import NO_COLUMNS, Columns, lay_out, pack
from triegs.durable.log import Log
from triegs.durable.terms import Definer
from triegs.kernels.words import Words
from triegs.windows.encoding import NO_ID, Events


class Kind(IntEnum):
    """What a record tells. The numbers are part of the format."""

    REGISTER = 1
    CLOSE = 2
    APPLY = 3
    PUSH = 4
    MOVE = 5
    SLIDE = 6
    NOTE = 7
    ADVANCE = 8


class Recording:
    """A record that was written, until what it tells is done. A class of its own, because one
    with a generator takes some microseconds more of every epoch.
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

    What is noted goes with the next record: `positions`, values by name, such as where an input
    stands; and `holds`, the epochs that are held by name. Holds are noted from any thread.
    """

    def __init__(
        self, log: Log, words: Dictionary, identities: Dictionary, limit: int | None = None
    ) -> None:
        self.log = log
        # Every record has the memory limit that it is made under, if there is one.
        self._always = {} if limit is None else {"limit": limit}
        self.positions: dict[str, Any] = {}
        self.last = log.last
        self._noted: dict[str, dict[str, Any]] = {
            "positions": {}, "holds": {}, "stopped": {}, "refusing": {},
        }  # fmt: skip
        self._lock = Lock()
        self._segment = self._stamp = 0
        self._is_refused = False  # the log did not take the last record
        self._terms = Definer(words, "term")
        self._identities = Definer(identities, "identity")

    def note(self, positions: Mapping[str, Any]) -> None:
        """Let these positions go with the next record, as they are now; what JSON cannot say is
        refused here.
        """
        kept = json.loads(json.dumps(dict(positions)))
        with self._lock:
            self._noted["positions"].update(kept)

    def forget(self, names: Sequence[str]) -> None:
        """Take positions back that are not written."""
        with self._lock:
            for name in names:
                self._noted["positions"].pop(name, None)

    def drop(self) -> None:
        """The change that positions were to go with was not made: they would tell of it."""
        with self._lock:
            self._noted["positions"].clear()

    def note_hold(self, name: str, epoch: int | None) -> None:
        """An epoch is held under a name, or that name is let go."""
        with self._lock:
            self._noted["holds"][name] = epoch

    def note_stop(self, sequence: int, slides: int) -> None:
        """What a record tells was not done to its end: so many of its slides were published. This
        goes with the next record at the latest, so nothing is ever done upon more than was.
        """
        with self._lock:
            self._noted["stopped"][str(sequence)] = slides

    def note_refusing(self, sequence: int, slides: Sequence[int]) -> None:
        """These of the slides that a record tells of had no room for the events that they would
        bring, counted from 0.
        """
        with self._lock:
            self._noted["refusing"][str(sequence)] = list(slides)

    def flush(self, epoch: int) -> None:
        """Write what was noted, if there is anything."""
        if any(self._noted.values()):
            with self.record(Kind.NOTE, epoch, {}):
                pass

    def close(self, epoch: int) -> None:
        """Write what is still to be written: holds, since positions go with a change only.

        Not if the last record was refused, because holds may belong to what it told: of an output
        that was written up to a held epoch, both are kept or neither.
        """
        self.drop()
        if not self._is_refused:
            self.flush(epoch)

    def record(
        self, kind: Kind, epoch: int, fields: Mapping[str, Any], columns: Columns = NO_COLUMNS
    ) -> Recording:
        """Write a record; then do what it tells within a ``with``: an exception takes it back."""
        noted = self._copy_notes() if any(self._noted.values()) else {}
        # Unless all goes well, what the record defined is not: then define everything anew.
        segment, self._segment = self._segment, 0
        self._is_refused = True
        told = {"epoch": epoch, **self._always, **fields, **noted}
        sequence = self.log.append(kind, pack(told, columns))
        self._is_refused = False
        return Recording(self, sequence, segment, noted)

    def _copy_notes(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {what: dict(values) for what, values in self._noted.items() if values}

    def _settle(self, noted: dict[str, dict[str, Any]]) -> None:
        """These notes are written: let go of all that are not newer."""
        self.positions.update(noted.get("positions", {}))
        with self._lock:
            for what, values in noted.items():
                now = self._noted[what]
                self._noted[what] = {
                    k: v for k, v in now.items() if k not in values or v != values[k]
                }

    def define(self, ids: Words) -> Columns:
        """The definitions that the next record must have for these terms."""
        return lay_out(self._terms.define(ids, self._next_stamp()))

    def describe_rows(self, rows: Words) -> Columns:
        """Rows ``(change, subject, predicate, object)`` as columns of the next record."""
        return self._terms.write_rows(rows, self._next_stamp())

    def describe_events(self, events: Events) -> Columns:
        """Timed events as columns of the next record; places where some were malformed."""
        rows = self.describe_rows(events.rows)
        found: dict[str, NDArray[Any]] = {"times": events.times}
        if len(events.ids) and (events.ids != NO_ID).any():
            found["ids"] = events.ids.astype(np.int32)
            found.update(self._identities.define(events.ids, self._stamp))
        if events.places is not None:
            found["places"] = events.places
        return rows + lay_out(found)

    def _next_stamp(self) -> int:
        """The number of the next record among those of its segment that define terms."""
        segment = self.log.prepare()
        if segment != self._segment:
            self._segment, self._stamp = segment, 0
            self._terms.begin()
            self._identities.begin()
        self._stamp += 1
        return self._stamp
