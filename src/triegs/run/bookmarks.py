"""Records the progress of a run in the engine's directory, so that the next run can resume.

Input offsets are committed in the same log record as the epoch or push that consumed them. A marker
of what was written follows, so after a crash at most the last epoch is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from triegs.engine import Engine
from triegs.events import Source
from triegs.events.mapping.rows import count_rows
from triegs.run.epochs import Published
from triegs.run.refusals import Refusals
from triegs.run.reporter import Reporter, RunQuery

#: Names of committed values; streams and files append their own name.
STREAM, FILE, STATIC = "run stream ", "run file ", "run static "
REPORTED, TIME, QUERIES = "run told", "run time", "run queries"


def name_hold(query: str) -> str:
    """The name of the hold on the epoch from which the next changes of a query start."""
    return f"run {query}"


def read_start(positions: Mapping[str, Any], stream: str | None) -> dict[str, Any]:
    """The position to resume a stream from, for `triegs.events.open_input`."""
    noted = positions.get(STREAM + (stream or ""), {})
    front = f"{FILE}{stream or ''} "
    files = {name[len(front) :]: e for name, e in positions.items() if name.startswith(front)}
    return {"tick": 0, "files": files, **noted}


class StreamProgress:
    """Iterates over the batches of a stream and tracks how far they were consumed."""

    def __init__(self, stream: str | None, source: Source, positions: Mapping[str, Any]) -> None:
        self._stream = stream or ""
        self._source = source
        noted = positions.get(STREAM + self._stream, {})
        self._rows = 0
        self._batch: pa.RecordBatch | None = None
        self.taken: int = noted.get("events", 0)
        self._noted = {"tick": 0, "quarantined": {}, "events": self.taken, **noted}
        self._before = self.taken  # events before the last batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._source:
            if self._batch is not None:
                self._before += count_rows(self._batch)
            self._batch, self._rows = batch, batch.num_rows
            yield batch

    def describe(self, rows: int) -> dict[str, Any]:
        """The values to commit with a record that consumes `rows` rows of the last batch.

        Cost: the files opened since the previous call.
        """
        source = self._source
        began = source.began
        name, entries = began["name"], source.entries
        found = {FILE + f"{self._stream} {each}": entry for each, entry in entries.items()}
        if rows < self._rows:
            position = dict(began["place"])
            position["skip"] = position.get("skip", 0) + rows
            if name is not None:
                entry = {**entries[name], "place": position, "whole": False}
                found[FILE + f"{self._stream} {name}"] = entry
            self._noted = {"tick": began["tick"], "quarantined": began["quarantined"]}
        else:
            quarantined = dict(source.report.quarantined)
            self._noted = {"tick": source.position.get("tick", 0), "quarantined": quarantined}
        taken = 0 if self._batch is None else count_rows(self._batch.slice(0, rows))
        self._noted["events"] = self.taken = self._before + taken
        for each in [each for each in entries if each != name]:
            del entries[each]
        return {**found, **self.describe_quarantined()}

    def describe_quarantined(self) -> dict[str, Any]:
        """How many of the next malformed records the quarantine file already contains."""
        before = sum(self._noted["quarantined"].values())
        written = sum(self._source.report.quarantined.values()) - before
        return {STREAM + self._stream: {**self._noted, "told": written}}

    def describe_end(self) -> dict[str, Any]:
        """The values to commit once the input is read to its end."""
        if not self._source.began:
            return {}  # nothing was opened
        return self.describe(self._rows)


@dataclass(slots=True)
class Bookmarks:
    """Records what a run consumed and wrote; `resume` continues from there."""

    engine: Engine
    tracks: Mapping[str | None, StreamProgress]
    reporter: Reporter
    refusals: Refusals

    def note(self, stream: str | None, rows: int, time: int | None = None) -> None:
        """Commit, with the next record, the input up to that row of the stream's last batch."""
        self.engine.note({**self.tracks[stream].describe(rows), TIME: time})

    def commit(self) -> None:
        """Record that everything due was written, so that the next run does not repeat it."""
        engine, reporter = self.engine, self.reporter
        move_holds(engine, reporter.queries)
        reported = {
            **reporter.describe(),
            "epoch": engine.epoch,
            "outputs": reporter.outputs.measure(),
        }
        engine.note({REPORTED: reported}, now=True)

    @property
    def events(self) -> int:
        """The number of events that all runs consumed."""
        return sum(track.taken for track in self.tracks.values())

    def checkpoint(self) -> None:
        """Start a checkpoint if one is due. Called between batches."""
        if self.is_ready():
            self.engine.checkpoint(if_due=True)

    def is_ready(self) -> bool:
        """Whether the next changes start from the newest epoch, which a checkpoint retains."""
        newest = self.engine.epoch
        if self.engine.positions[REPORTED]["epoch"] != newest:
            return False
        return all(
            each.before is None or each.before.epoch == newest or each.query.error is not None
            for each in self.reporter.queries
        )

    def finish(self, is_left: bool) -> None:
        """End the run; `is_left` if before the end of its input."""
        for track in self.tracks.values():
            self.engine.note(track.describe_quarantined() if is_left else track.describe_end())
        self.commit()

    def resume(self) -> Published | None:
        """Resume the previous run; returns an epoch that it may not have written."""
        positions, newest = self.engine.positions, self.engine.epoch
        reported = positions.get(REPORTED)
        if reported is None:
            self.engine.note({REPORTED: {"epoch": newest}}, now=True)
            return None
        with self.reporter.queries[0].query.snapshot() as snapshot:
            time = positions.get(TIME) if snapshot.time is None else snapshot.time
        last = Published(newest, time)
        self.reporter.resume(reported, last)
        # The engine's counts include an epoch that no run reported.
        figures = self.engine.metrics()
        windows = figures["windows"]
        self.refusals.total += figures["refused"] + windows["refused"] + windows["ahead"]
        return None if reported["epoch"] == newest else last


def move_holds(engine: Engine, queries: Iterable[RunQuery]) -> None:
    """Hold the epochs from which the next changes start."""
    holds = engine.holds
    for each in queries:
        name = name_hold(each.query.name)
        if each.before is not None and holds.get(name) != each.before.epoch:
            if name in holds:
                engine.release(name)
            engine.hold(name, each.before.epoch)


def note_epoch(engine: Engine, more: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Create an epoch that no run writes, such as a registration, and commit `more` with it."""
    reported = engine.positions.get(REPORTED, {})
    before = {**reported, "epoch": reported.get("epoch", engine.epoch)}
    # Do not skip an earlier epoch that is still unwritten.
    step = before["epoch"] == engine.epoch
    engine.note({**more, REPORTED: {**before, "epoch": before["epoch"] + step}})
    try:
        found = make()
    except BaseException:
        kept = {name: engine.positions.get(name) for name in more}
        engine.note({**kept, REPORTED: before})
        if step and engine.epoch > before["epoch"]:
            engine.note({REPORTED: {**before, "epoch": engine.epoch}}, now=True)
        raise
    # None was created, or the graph of a window was filled or emptied in one of its own.
    if step and engine.epoch != before["epoch"] + 1:
        engine.note({REPORTED: {**before, "epoch": engine.epoch}}, now=True)
    return found


def find_sizes(positions: Mapping[str, Any]) -> Mapping[str, int]:
    """The output files of earlier runs and their sizes."""
    found: Mapping[str, int] = positions.get(REPORTED, {}).get("outputs", {})
    return found
