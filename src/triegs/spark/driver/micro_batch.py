"""Spark's micro-batches into the engine, each exactly once, and the engine's answers to the sinks.

After a crash, Spark repeats a batch with the same number. The engine's log has the batch number in
one record with the events, so a repeated batch is not applied again. Until a batch is delivered to
its sinks, each of its epochs is held by name, and the log has these holds, too: after a restart the
same changes are delivered, epoch by epoch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import MultiplicityOverflow, StateError
from triegs.events.mapping.rows import count_rows
from triegs.maintain.standing import Refused
from triegs.spark.answers import (
    CHANGES,
    SNAPSHOT,
    Sink,
    label,
    list_readable,
    read_answers,
    read_changes,
    write_once,
)
from triegs.spark.cells import select_columns
from triegs.spark.driver.label_codes import code_labels, decode_labels, list_labels
from triegs.spark.encoded_batch import (
    SPARK_SCHEMA,
    Checked,
    decode_batches,
    make_checker,
    make_encoder,
)

messages = logging.getLogger("triegs.spark")
#: The engine position of the last batch, and the hold of the last epoch delivered to sinks. Later
#: epochs of a batch are held under this name and their number.
POSITION = HOLD = "spark"
#: A field of that position, fixed by the format of the log: the last batch delivered to all sinks.
DELIVERED = "told"
NOTHING = {"batch": -1, DELIVERED: -1}
#: A batch with at most this many rows is checked in the driver.
FEW_ROWS = 1 << 14
#: The weight of the last batch in the measured rate.
NEWEST = 0.3


class Timing(NamedTuple):
    """The seconds of a batch: until Spark has collected it, decoding, in the engine, until the log
    is synced, and in the sinks.
    """

    collect: float
    open: float
    engine: float
    commit: float
    sinks: float


class MicroBatchRunner:
    """Runs the micro-batches of one pipeline; Spark calls it with one batch at a time."""

    def __init__(
        self,
        engine: Engine,
        sinks: Mapping[str, list[Sink]],
        columns: Mapping[str, str],
        home: Path,
        *,
        is_timed: bool,
        stream: str | None,
        has_integers: bool = False,
        firsts: Mapping[str, list[int]] | None = None,
    ) -> None:
        self._engine = engine
        self.queries: dict[str, StandingQuery] = dict(engine.queries)
        self._sinks = sinks
        #: The first batch of each sink, in which it also gets the answers so far.
        self._firsts = firsts or {name: [0] * len(each) for name, each in sinks.items()}
        self._columns = columns
        self._home = home
        self._is_timed = is_timed
        self._stream = stream
        self._labels = list_labels(query.query for query in self.queries.values())
        self._has_integers = has_integers
        self._is_small: bool | None = None  # of the last batch; unknown before the first
        noted = engine.positions.get(POSITION, dict(NOTHING))
        # Checkpoints are allowed only between batches, because they drop epochs.
        self._is_between = noted[DELIVERED] == noted["batch"]
        self.figures: dict[str, Any] = {
            "batches": 0, "rows": 0, "quarantined": 0, "refused": 0, "replayed": 0, "changes": 0,
            "rows_per_s": None, "batch": None, "timing": None,
        }  # fmt: skip
        engine.pace_checkpoints(lambda: self._is_between)
        if self._is_between:
            self._move_hold()  # no change is undelivered, and new queries have no older epoch
        else:
            self._hold_newest()

    def take(self, frame: Any, batch: int) -> None:
        """Apply a batch, and deliver its changes to the sinks."""
        noted = self._check_number(batch)
        self._is_between = False
        marks = [perf_counter()]
        rows = 0
        if batch == noted["batch"]:
            self.figures["replayed"] += 1
            marks += [perf_counter()] * 2
            if noted[DELIVERED] < batch:
                self._publish_slides(batch)
        else:
            collected = self._collect(frame, f"batch {batch}")
            marks.append(perf_counter())
            events, bad = self._open(collected)
            self._quarantine(bad, batch)
            rows = sum(map(count_rows, events))
            self._is_small = rows <= FEW_ROWS
            marks.append(perf_counter())
            self._apply(events, {**noted, "batch": batch})
        marks.append(perf_counter())
        self._engine.sync()
        marks.append(perf_counter())
        if noted[DELIVERED] < batch:
            self._deliver(batch, frame.sparkSession)
            self._settle({**noted, "batch": batch, DELIVERED: batch})
        marks.append(perf_counter())
        self._is_between = True
        self._engine.checkpoint(if_due=True)
        self._measure(batch, rows, marks)

    def _collect(self, frame: Any, batch_name: str) -> pa.Table | list[Checked]:
        """The encoded rows of a batch. Executors encode them, but running their Python takes a
        tenth of a second, and some seconds the first time. So if the last batch was small, this one
        is checked in the driver; the first one is counted. Integer events need little Python, so
        they are checked in the driver, too. The result is the same.
        """
        if self._is_small is None and not self._has_integers:
            self._is_small = frame.limit(FEW_ROWS + 1).count() <= FEW_ROWS
        if self._has_integers:
            name = self._columns["predicate"]
            rows = code_labels(frame, self._columns, self._labels).toArrow()
            batches = decode_labels(rows.combine_chunks(), name, self._labels)
        elif self._is_small:
            batches = iter(select_columns(frame, self._columns).toArrow().to_batches())
        else:
            encode = make_encoder(
                self._columns, is_timed="time" in self._columns, batch_name=batch_name
            )
            picked = select_columns(frame, self._columns)
            return picked.mapInArrow(encode, SPARK_SCHEMA).toArrow()
        check = make_checker(self._columns, is_timed="time" in self._columns, batch_name=batch_name)
        return list(check(batches))

    @staticmethod
    def _open(collected: pa.Table | list[Checked]) -> tuple[list[pa.Table], list[pa.Table]]:
        """Tables of events, and of malformed rows."""
        if isinstance(collected, pa.Table):
            return decode_batches(collected)
        events = [found.table for found in collected if not found.is_bad]
        return events, [found.table for found in collected if found.is_bad]

    def _check_number(self, batch: int) -> dict[str, Any]:
        """The recorded position, if this batch is the last one or the next."""
        noted: dict[str, Any] = self._engine.positions.get(POSITION, dict(NOTHING))
        given = read_query_id(self._home)
        known = noted.setdefault("query", given)
        if known != given:
            raise StateError(
                f"Spark's checkpoint in {self._home} does not belong to the engine's state (query "
                f"{given}, not {known}); remove both, or restore the old checkpoint"
            )
        last = noted["batch"]
        if batch > last + 1:
            raise StateError(
                f"the engine has batches up to {last}, and Spark continues with batch {batch}: the "
                f"engine's state is older than Spark's checkpoint in {self._home}"
            )
        if batch < last:
            raise StateError(
                f"the engine has batches up to {last}, and Spark repeats batch {batch}: Spark's "
                f"checkpoint in {self._home} is older than the engine's state"
            )
        return dict(noted)

    def _quarantine(self, bad: list[pa.Table], batch: int) -> None:
        if bad:
            table = pa.concat_tables(bad)
            write_once(self._home / "quarantine", batch, table)
            self.figures["quarantined"] += table.num_rows
            first = table.slice(0, 1).to_pylist()[0]
            messages.warning(
                "batch %d: %d malformed rows quarantined in %s; first: %s: %s",
                batch, table.num_rows, self._home / "quarantine", first["reason"], first["record"],
            )  # fmt: skip

    def _apply(self, events: list[pa.Table], noted: dict[str, Any]) -> None:
        engine = self._engine
        if not events:
            engine.note({POSITION: noted}, now=True)
            return
        engine.note({POSITION: noted})
        batch = noted["batch"]
        table = pa.concat_tables(events)
        if self._is_timed:
            pushed = engine.push(table, self._stream)
            self._note_refused(batch, pushed.refused, pushed.first)
            self._publish_slides(batch)
        else:
            if "time" in self._columns:
                table = table.drop_columns(["time"])
            report = engine.apply(table)
            self._note_refused(batch, report.refused, 0)

    def _note_refused(self, batch: int, refused: Sequence[Refused], first: int) -> None:
        if refused:
            self.figures["refused"] += len(refused)
            number, reason = refused[0]
            messages.info(
                "batch %d: %d events refused; first, number %d: %s",
                batch, len(refused), number - first, reason,
            )  # fmt: skip

    def _publish_slides(self, batch: int) -> None:
        """Publish all due slides, and hold every epoch until it is delivered."""
        self._hold_newest()
        if self._is_timed and self._engine.find_end() is not None:
            for published in self._engine.each_slide():
                self._note_refused(batch, published.refused, 0)
                self._hold_newest()

    def _hold_newest(self) -> None:
        if self._sinks:
            hold_newest(self._engine)

    def _list_undelivered(self) -> list[int]:
        """The last delivered epoch, and those after it."""
        held = [epoch for name, epoch in self._engine.holds.items() if _is_ours(name)]
        return sorted({*held, self._engine.epoch})

    def _deliver(self, batch: int, session: Any) -> None:
        epochs = self._list_undelivered()
        for name, sinks in self._sinks.items():
            query = self.queries[name]
            try:
                if query.error is not None:
                    raise query.error
                self._deliver_changes(query, sinks, epochs, batch, session)
                self._deliver_snapshots(query, sinks, batch, session)
            except MultiplicityOverflow as problem:
                message = f"the sink of {name!r}: {problem}"
                raise MultiplicityOverflow(message, problem.view) from problem

    def _deliver_changes(
        self, query: StandingQuery, sinks: list[Sink], epochs: list[int], batch: int, session: Any
    ) -> None:
        given = zip(sinks, self._firsts[query.name], strict=True)
        changed = [(sink, first == batch) for sink, first in given if sink.what == CHANGES]
        if not changed:
            return
        has_new = any(is_new for _, is_new in changed)
        if has_new:  # the query may also be newer than some of these epochs
            epochs = list_readable(query, epochs)
        changes = read_changes(query, epochs)
        self.figures["changes"] += changes.num_rows
        whole = pa.concat_tables([read_answers(query, epochs[0]), changes]) if has_new else changes
        for sink, is_new in changed:
            sink.write(whole if is_new else changes, batch, session)

    @staticmethod
    def _deliver_snapshots(
        query: StandingQuery, sinks: list[Sink], batch: int, session: Any
    ) -> None:
        for sink in sinks:
            if sink.what == SNAPSHOT and batch % sink.every == 0:
                with query.snapshot() as snapshot:
                    sink.write(label(snapshot.to_arrow(compact=True), snapshot), batch, session)

    def _settle(self, noted: dict[str, Any]) -> None:
        """Record the delivery: the next changes start from the newest epoch."""
        engine = self._engine
        self._move_hold()
        engine.note({POSITION: noted}, now=True)
        engine.sync()

    def _move_hold(self) -> None:
        """Hold only the newest epoch: the next changes start there."""
        for name in [name for name in self._engine.holds if _is_ours(name)]:
            self._engine.release(name)
        self._engine.hold(HOLD)

    def _measure(self, batch: int, rows: int, marks: list[float]) -> None:
        figures = self.figures
        timing = Timing(*(after - before for before, after in pairwise(marks)))
        if rows:
            now = rows / sum(timing)
            before = figures["rows_per_s"]
            figures["rows_per_s"] = now if before is None else before + NEWEST * (now - before)
        figures["batches"] += 1
        figures["rows"] += rows
        figures["batch"] = batch
        figures["timing"] = timing._asdict()


def hold_newest(engine: Engine) -> None:
    """Hold the newest epoch until it is delivered to the sinks."""
    newest = engine.epoch
    if newest not in (epoch for name, epoch in engine.holds.items() if _is_ours(name)):
        engine.hold(f"{HOLD} {newest}", newest)


def _is_ours(name: str) -> bool:
    return name == HOLD or name.startswith(f"{HOLD} ")


def read_query_id(home: Path) -> str:
    """The id of the query, from Spark's checkpoint."""
    found: str = json.loads((home / "spark" / "metadata").read_text(encoding="utf-8"))["id"]
    return found
