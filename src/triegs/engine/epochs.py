"""Epochs of updates: `Engine.apply` and `Engine.load`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.engine.report import LoggedReport, Report
from triegs.engine.state import FEW_TERMS, EngineState
from triegs.errors import InvalidUpdate
from triegs.events.load import read_statements
from triegs.events.mapping.rows import SAME_ROW
from triegs.events.signs import CHANGES
from triegs.events.updates import Batch, check_many, encode_table, encode_tuples
from triegs.jit.words import Words
from triegs.maintain.standing import NO_EVENT, Epoch, Refused
from triegs.windows.encoding import read_time
from triegs.windows.rows import RowReading, judge_rows, read_rows


class UpdateOptions(NamedTuple):
    """The options of `Engine.apply`."""

    strict: bool = False
    time: Any = None
    mapping: str | Iterable[str] | None = None
    columns: Mapping[str, str] | None = None


#: Without options: not made anew for each update.
PLAIN = UpdateOptions()
#: Of the record of an epoch without options or malformed updates.
PLAIN_FIELDS: Mapping[str, Any] = {"strict": False, "time": None, "malformed": 0}
#: Of an epoch whose only update is refused.
REFUSED_ONE = (Refused(0, NO_EVENT),)


class Epochs:
    """Applies batches of updates, each as one epoch."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._row = np.zeros(4, np.int64)  # of an epoch of one update
        self._row_words = self._row.data
        self._rows = self._row.reshape(1, 4)

    def apply(self, updates: Any, options: UpdateOptions) -> Report:
        state = self._state
        state.begin_update()
        few = 1
        try:
            if options is PLAIN and type(updates) is list and len(updates) == 1:
                few = FEW_TERMS
                report = self._apply_one(updates[0])
                if report is not None:
                    return report
            strict, time, _, _ = options
            if time is not None:
                state.windows.take_times()
                batch = self.encode(updates, options)
                state.clock.begin(time)
                try:
                    return self._apply_batch(batch, strict, read_time(time))
                finally:
                    state.clock.end()
            batch = self.encode(updates, options)
            if len(batch.rows) <= FEW_TERMS:
                few = FEW_TERMS
            return self._apply_batch(batch, strict)
        except BaseException:
            state.drop_notes()
            raise
        finally:
            state.end_update(few)

    def load(self, source: Any, format_name: str | None) -> Report:
        state = self._state
        with state.update():
            try:
                batch = read_statements(state.dictionary, source, format_name)
                return self._apply_batch(batch, strict=False)
            except BaseException:
                state.drop_notes()
                raise
            finally:
                state.free_terms()

    def apply_again(self, batch: Batch, strict: bool, time: int | None, malformed: int) -> None:
        """Apply an epoch that was read from the log."""
        state = self._state
        with state.update():
            try:
                if time is None:
                    self._apply_batch(batch, strict)
                else:
                    state.windows.take_times()
                    state.clock.begin(time)
                    try:
                        self._apply_batch(batch, strict)
                    finally:
                        state.clock.end()
                state.refused += malformed
            finally:
                state.free_terms()

    def encode(self, updates: Any, options: UpdateOptions) -> Batch:
        """Updates by ids."""
        state = self._state
        read = None
        if options.mapping is not None or options.columns:
            reading = RowReading(options.mapping, options.columns, state.base, state.prefixes)
            read = read_rows(updates, reading, f"epoch {state.epoch + 1}", 0, is_timed=False)
            updates = read.table
        if not hasattr(updates, "__arrow_c_stream__"):
            check_many(updates, "updates", "load reads a file")
            return encode_tuples(state.dictionary, updates)
        batch = encode_table(state.dictionary, updates)
        if isinstance(updates, pa.Table) and SAME_ROW in updates.schema.names:
            batch = judge_rows(batch, updates, state.windows.reasoning.count, options.strict)
        return batch if read is None else read.index_batch(batch)

    def _apply_one(self, update: Sequence[Any]) -> Report | None:
        """An epoch of one valid update, by the shortest path; None if it does not qualify."""
        state = self._state
        windows = state.windows
        if windows.is_used or windows.reasoning.is_used:
            return None
        encode, row = state.dictionary.encode_one, self._row_words
        try:
            sign, subject, predicate, obj = update
            row[0] = CHANGES[sign]
            row[1], row[2], row[3] = encode(subject), encode(predicate), encode(obj)
        except (KeyError, TypeError, ValueError):
            return None  # the long path says what is wrong
        if state.journal is None:
            epoch = state.core.apply_one(self._row)
        else:
            done = None
            with state.journal.record_rows(state.epoch, self._rows, PLAIN_FIELDS):
                epoch = state.core.apply_one(self._row)
                if epoch is None:
                    done = state.core.apply(self._rows.copy(), counts=True)
            if done is not None:
                return self.conclude(Batch(self._rows, None, []), done)
        if epoch is None:
            return None
        found, version = epoch
        if found:
            state.refused += 1
        else:
            state.updates += 1
        if state.is_watched:
            state.end_epoch()
        return self._report(version.number - state.clock.first, REFUSED_ONE if found else ())

    def _apply_batch(self, batch: Batch, strict: bool, time: int | None = None) -> Report:
        state = self._state
        check_batch(batch, strict)
        rows, _, malformed = batch
        if state.journal is None:
            version, refused = self._apply_rows(rows, strict)
        else:
            fields = PLAIN_FIELDS
            if strict or time is not None or malformed:
                fields = {"strict": strict, "time": time, "malformed": len(malformed)}
            with state.journal.record_rows(state.epoch, rows, fields):
                version, refused = self._apply_rows(rows, strict)
        return self.conclude(batch, Epoch(version, refused))

    def conclude(self, batch: Batch, epoch: Epoch) -> Report:
        """The epoch of a batch was published: count it, notify, and report."""
        state = self._state
        version, refused = epoch
        rows, kept_rows, malformed = batch
        state.updates += len(rows) - len(refused)
        if refused or malformed:
            if kept_rows is not None:
                refused = tuple(Refused(int(kept_rows[row]), why) for row, why in refused)
            refused = tuple(sorted([*malformed, *refused]))
            state.refused += len(refused)
        if state.is_watched:
            state.end_epoch()
        return self._report(version.number - state.clock.first, refused)

    def _apply_rows(self, rows: Words, strict: bool) -> Epoch:
        """Apply rows to the static graph, and count their terms."""
        state = self._state
        if not state.windows.is_used and not state.windows.reasoning.is_used:
            return state.core.apply(rows, strict, counts=True)
        epoch = state.windows.apply_static(rows, strict)
        kept = np.delete(rows, [row for row, _ in epoch.refused], axis=0)
        state.dictionary.settle(kept, epoch.version.number)
        return epoch

    def _report(self, epoch: int, refused: tuple[Refused, ...]) -> Report:
        journal = self._state.journal
        if journal is None:
            return Report(epoch, refused)
        found = LoggedReport(epoch, refused)
        found._journal, found._sequence = journal, journal.last
        return found


def check_batch(batch: Batch, is_strict: bool) -> None:
    """Refuse a strict epoch with malformed updates."""
    if batch.refused and is_strict:
        message = f"{len(batch.refused)} updates are malformed; nothing changed"
        raise InvalidUpdate(message, tuple(batch.refused))
