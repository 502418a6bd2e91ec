"""Batches of Spark into the engine, each exactly once, and its answers to the sinks.

Spark gives a batch again after a crash, with the same number. The number is one record with the
events of the batch in the engine's log, so a batch that is in there is not taken again. Until its
sinks have been told, every epoch of a batch is held by name, which the log keeps as well: whoever
takes over tells the same changes, epoch by epoch.
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
from triegs.maintain.standing import Refused
from triegs.mapping.rows import count_rows
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
from triegs.spark.coding import code_labels, decode_labels, list_labels
from triegs.spark.parcels import (
    SPARK_SCHEMA,
    Checked,
    make_checker,
    make_packer,
    open_parcels,
)

messages = logging.getLogger("triegs.spark")
#: The position that has the batches, and the hold of the epoch up to which sinks were told. The
#: other epochs of a batch are held by that name and their number.
POSITION = HOLD = "spark"
#: A batch of so many rows is checked in the driver.
FEW_ROWS = 1 << 14
#: How much of the measured rate the last batch is.
NEWEST = 0.3


class Timing(NamedTuple):
    """The seconds of a batch: in Spark up to the last parcel, opening these, in the engine, until
    the log has it, and in the sinks.
    """

    collect: float
    open: float
    engine: float
    commit: float
    sinks: float


class Feed:
    """Takes the batches of one pipeline; Spark calls it, one batch at a time."""

    def __init__(
        self,
        engine: Engine,
        queries: Mapping[str, StandingQuery],
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
        self._queries = queries
        self._sinks = sinks
        #: The first batch of each sink, in which it gets the answers from before, too.
        self._firsts = firsts or {name: [0] * len(each) for name, each in sinks.items()}
        self._columns = columns
        self._home = home
        self._is_timed = is_timed
        self._stream = stream
        self._labels = list_labels(query.query for query in queries.values())
        self._has_integers = has_integers
        self._is_small: bool | None = None  # the last batch; before the first, nobody knows
        noted = engine.positions.get(POSITION, {"batch": -1, "told": -1})
        # Between two batches, so that a checkpoint loses no epoch that is needed.
        self._is_between = noted["told"] == noted["batch"]
        self.figures: dict[str, Any] = {
            "batches": 0, "rows": 0, "quarantined": 0, "refused": 0, "replayed": 0, "changes": 0,
            "rows_per_s": None, "batch": None, "timing": None,
        }  # fmt: skip
        engine.pace_checkpoints(lambda: self._is_between)
        if self._is_between:
            self._move_hold()  # nothing has changed since, and new queries have no older epoch
        else:
            self._hold_newest()

    def take(self, frame: Any, batch: int) -> None:
        """Take a batch, and tell the sinks of it. Spark calls, one batch at a time."""
        noted = self._check_number(batch)
        self._is_between = False
        marks = [perf_counter()]
        rows = 0
        if batch == noted["batch"]:
            self.figures["replayed"] += 1
            marks += [perf_counter()] * 2
            if noted["told"] < batch:
                self._publish_slides(batch)
        else:
            collected = self._collect(frame, f"batch {batch}")
            marks.append(perf_counter())
            events, bad = self._open(collected)
            self._set_aside(bad, batch)
            rows = sum(map(count_rows, events))
            self._is_small = rows <= FEW_ROWS
            marks.append(perf_counter())
            self._apply(events, {**noted, "batch": batch})
        marks.append(perf_counter())
        self._engine.sync()
        marks.append(perf_counter())
        if noted["told"] < batch:
            self._tell(batch, frame.sparkSession)
            self._settle({**noted, "batch": batch, "told": batch})
        marks.append(perf_counter())
        self._is_between = True
        self._engine.checkpoint(if_due=True)
        self._measure(batch, rows, marks)

    def _collect(self, frame: Any, place: str) -> pa.Table | list[Checked]:
        """The parcels of a batch. Executors make them; but to have their Python do so takes a tenth
        of a second, and some seconds the first time. So if the last batch was small, this one is
        taken for small, too; the first one is looked at. Nor is there much for Python to do if all
        ends are integers. Whoever makes them, they are the same.
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
            pack = make_packer(self._columns, is_timed="time" in self._columns, place=place)
            picked = select_columns(frame, self._columns)
            return picked.mapInArrow(pack, SPARK_SCHEMA).toArrow()
        check = make_checker(self._columns, is_timed="time" in self._columns, place=place)
        return list(check(batches))

    @staticmethod
    def _open(collected: pa.Table | list[Checked]) -> tuple[list[pa.Table], list[pa.Table]]:
        """Tables of events, and of malformed rows."""
        if isinstance(collected, pa.Table):
            return open_parcels(collected)
        events = [found.table for found in collected if not found.is_bad]
        return events, [found.table for found in collected if found.is_bad]

    def _check_number(self, batch: int) -> dict[str, Any]:
        """What the engine's directory knows, if this batch is the last one or the next."""
        noted: dict[str, Any] = self._engine.positions.get(POSITION, {"batch": -1, "told": -1})
        given = read_query_id(self._home)
        known = noted.setdefault("query", given)
        if known != given:
            raise StateError(
                f"the checkpoint of Spark in {self._home} is not the one that the engine's state "
                f"belongs to (query {given}, not {known}); remove both, or bring the old one back"
            )
        last = noted["batch"]
        if batch > last + 1:
            raise StateError(
                f"the engine has the batches up to {last}, and those before {batch} do not come "
                f"again: its state is older than the checkpoint of Spark in {self._home}"
            )
        if batch < last:
            raise StateError(
                f"the engine has the batches up to {last}: the checkpoint of Spark in {self._home} "
                f"has gone back"
            )
        return dict(noted)

    def _set_aside(self, bad: list[pa.Table], batch: int) -> None:
        if bad:
            table = pa.concat_tables(bad)
            write_once(self._home / "quarantine", batch, table)
            self.figures["quarantined"] += table.num_rows
            first = table.slice(0, 1).to_pylist()[0]
            messages.warning(
                "batch %d: %d rows are malformed and in %s; the first: %s: %s",
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
            place, reason = refused[0]
            messages.info(
                "batch %d: %d events are refused; the first, number %d: %s",
                batch, len(refused), place - first, reason,
            )  # fmt: skip

    def _publish_slides(self, batch: int) -> None:
        """Publish what is due, and hold every epoch until the sinks were told."""
        self._hold_newest()
        if self._is_timed and self._engine.find_end() is not None:
            for published in self._engine.each_slide():
                self._note_refused(batch, published.refused, 0)
                self._hold_newest()

    def _hold_newest(self) -> None:
        if self._sinks:
            hold_newest(self._engine)

    def _list_epochs(self) -> list[int]:
        """Those that the sinks were not told of, behind the last one that they were."""
        held = [epoch for name, epoch in self._engine.holds.items() if _is_ours(name)]
        return sorted({*held, self._engine.epoch})

    def _tell(self, batch: int, session: Any) -> None:
        epochs = self._list_epochs()
        for name, sinks in self._sinks.items():
            query = self._queries[name]
            try:
                if query.error is not None:
                    raise query.error
                self._tell_changes(query, sinks, epochs, batch, session)
                self._tell_snapshots(query, sinks, batch, session)
            except MultiplicityOverflow as problem:
                message = f"the sink of {name!r}: {problem}"
                raise MultiplicityOverflow(message, problem.view) from problem

    def _tell_changes(
        self, query: StandingQuery, sinks: list[Sink], epochs: list[int], batch: int, session: Any
    ) -> None:
        given = zip(sinks, self._firsts[query.name], strict=True)
        changed = [(sink, first == batch) for sink, first in given if sink.what == CHANGES]
        if not changed:
            return
        has_new = any(is_new for _, is_new in changed)
        if has_new:  # the query, too, may be newer than some of these epochs
            epochs = list_readable(query, epochs)
        changes = read_changes(query, epochs)
        self.figures["changes"] += changes.num_rows
        whole = pa.concat_tables([read_answers(query, epochs[0]), changes]) if has_new else changes
        for sink, is_new in changed:
            sink.write(whole if is_new else changes, batch, session)

    @staticmethod
    def _tell_snapshots(query: StandingQuery, sinks: list[Sink], batch: int, session: Any) -> None:
        for sink in sinks:
            if sink.what == SNAPSHOT and batch % sink.every == 0:
                with query.snapshot() as snapshot:
                    sink.write(label(snapshot.to_arrow(), snapshot), batch, session)

    def _settle(self, noted: dict[str, Any]) -> None:
        """The sinks have it: the next changes are from the newest epoch."""
        engine = self._engine
        self._move_hold()
        engine.note({POSITION: noted}, now=True)
        engine.sync()

    def _move_hold(self) -> None:
        """Hold the newest epoch alone: the next changes are from there."""
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
    """Hold the newest epoch until sinks were told of it."""
    newest = engine.epoch
    if newest not in (epoch for name, epoch in engine.holds.items() if _is_ours(name)):
        engine.hold(f"{HOLD} {newest}", newest)


def _is_ours(name: str) -> bool:
    return name == HOLD or name.startswith(f"{HOLD} ")


def read_query_id(home: Path) -> str:
    """The id that Spark gave to a query when it made its checkpoint."""
    found: str = json.loads((home / "spark" / "metadata").read_text(encoding="utf-8"))["id"]
    return found
