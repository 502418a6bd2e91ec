"""The journal: every call that changes an engine becomes one record before it is carried out.

An engine does the same again when it is told the same again, so the log has what it was told: rows
and events by ids with the terms that are new (`triegs.durable.terms`), watermarks, queries, holds.
A record is written first, and taken back if what it announces fails. Each epoch is one record with
the positions of inputs, so both are there after a crash or neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triegs.dictionary import Dictionary
from triegs.durable.columns import pack
from triegs.durable.log import Log
from triegs.durable.terms import Definer
from triegs.kernels.words import Words
from triegs.windows.encoding import Events


class Kind(IntEnum):
    """What a record tells. The numbers are part of the format."""

    REGISTER = 1
    CLOSE = 2
    APPLY = 3
    PUSH = 4
    MOVE = 5
    SLIDE = 6
    NOTE = 7


Arrays = Mapping[str, NDArray[Any]]
NOTHING: Arrays = {}


class Journal:
    """Writes the records of one engine. It belongs to the updater.

    What is noted goes with the next record: `positions`, values by name, such as where an input
    stands; and `holds`, the epochs that are held by name. Holds are noted from any thread.
    """

    def __init__(self, log: Log, words: Dictionary, identities: Dictionary) -> None:
        self.log = log
        self.positions: dict[str, Any] = {}
        self.last = log.last
        self._noted: dict[str, dict[str, Any]] = {"positions": {}, "holds": {}}
        self._lock = Lock()
        self._segment = self._first = self._stamp = 0
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

    def note_hold(self, name: str, epoch: int | None) -> None:
        """An epoch is held under a name, or that name is let go."""
        with self._lock:
            self._noted["holds"][name] = epoch

    def flush(self, epoch: int) -> None:
        """Write what was noted, if there is anything."""
        if any(self._noted.values()):
            with self.record(Kind.NOTE, epoch, {}):
                pass

    @contextmanager
    def record(
        self, kind: Kind, epoch: int, fields: Mapping[str, Any], arrays: Arrays = NOTHING
    ) -> Iterator[None]:
        """Write a record, then do what it tells; an exception takes it back."""
        noted = self._copy_notes()
        # Unless all goes well, what the record defined is not: then define everything anew.
        segment, self._segment = self._segment, 0
        sequence = self.log.append(kind, pack({"epoch": epoch, **fields, **noted}, arrays))
        try:
            yield
        except BaseException:
            self.log.undo(sequence)
            raise
        self._segment = segment
        self.last = sequence
        if noted:
            self._settle(noted)

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

    def define(self, ids: Words) -> dict[str, NDArray[Any]]:
        """The definitions that the next record must have for these terms."""
        return self._terms.define(ids.reshape(1, -1), 0, *self._next_stamp())

    def describe_rows(self, rows: Words) -> dict[str, NDArray[Any]]:
        """Rows ``(change, subject, predicate, object)`` as arrays of the next record."""
        defined = self._terms.define(rows, 1, *self._next_stamp())
        return {"rows": rows.astype(np.int32), **defined}

    def describe_events(self, events: Events) -> dict[str, NDArray[Any]]:
        """Timed events as arrays of the next record; places where some were malformed."""
        found = {"times": events.times, **self.describe_rows(events.rows)}
        if len(events.ids) and int(events.ids.max()) >= 0:
            found["ids"] = events.ids.astype(np.int32)
            ids = events.ids.reshape(-1, 1)
            found.update(self._identities.define(ids, 0, self._first, self._stamp))
        if events.places is not None:
            found["places"] = events.places
        return found

    def _next_stamp(self) -> tuple[int, int]:
        """The stamps of the first record in the segment that the next one goes to, and of that."""
        segment = self.log.prepare()
        self._stamp += 1
        if segment != self._segment:
            self._segment, self._first = segment, self._stamp
        return self._first, self._stamp
