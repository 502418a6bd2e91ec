"""Where a run stands, noted in the engine's directory, so that the next run goes on there.

What an epoch or a push has taken of the input is one record with it. What was written is noted
behind it, so after the death of the process the last epoch may be written again, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from triegs.engine import Engine
from triegs.inputs import Source
from triegs.mapping.rows import count_rows
from triegs.run.epochs import Published
from triegs.run.refusals import Refusals
from triegs.run.reporter import Reporter, RunQuery

#: Names of what is noted. Streams and files have theirs behind it.
STREAM, FILE, STATIC = "run stream ", "run file ", "run static "
REPORTED, TIME, QUERIES = "run told", "run time", "run queries"


def name_hold(query: str) -> str:
    """The hold of the epoch that the next changes of a query are from."""
    return f"run {query}"


def read_start(positions: Mapping[str, Any], stream: str | None) -> dict[str, Any]:
    """Where the source of a stream goes on, for `triegs.inputs.open_input`."""
    noted = positions.get(STREAM + (stream or ""), {})
    front = f"{FILE}{stream or ''} "
    files = {name[len(front) :]: e for name, e in positions.items() if name.startswith(front)}
    return {"tick": 0, "files": files, **noted}


class StreamProgress:
    """The batches of one stream, and how far they were taken."""

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
        """What is to be noted with the record that takes so many rows of the last batch, and with
        it all before. Cost: the files that were opened since the last time.
        """
        source = self._source
        began = source.began
        name, entries = began["name"], source.entries
        found = {FILE + f"{self._stream} {each}": entry for each, entry in entries.items()}
        if rows < self._rows:
            place = dict(began["place"])
            place["skip"] = place.get("skip", 0) + rows
            if name is not None:
                entry = {**entries[name], "place": place, "whole": False}
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
        """How many of the malformed records that come next are in the quarantine file already."""
        before = sum(self._noted["quarantined"].values())
        told = sum(self._source.report.quarantined.values()) - before
        return {STREAM + self._stream: {**self._noted, "told": told}}

    def describe_end(self) -> dict[str, Any]:
        """The input was read to its end."""
        if not self._source.began:
            return {}  # there was nothing to be opened
        return self.describe(self._rows)


@dataclass(slots=True)
class Bookmarks:
    """Notes for one run what it took and what it wrote; `resume` goes on from them."""

    engine: Engine
    tracks: Mapping[str | None, StreamProgress]
    reporter: Reporter
    refusals: Refusals

    def note(self, stream: str | None, rows: int, time: int | None = None) -> None:
        """The next record takes the input up to that row of the stream's last batch."""
        self.engine.note({**self.tracks[stream].describe(rows), TIME: time})

    def keep(self) -> None:
        """What is due was written: the next run does not write it again."""
        engine, reporter = self.engine, self.reporter
        move_holds(engine, reporter.asked)
        told = {
            **reporter.describe(),
            "epoch": engine.epoch,
            "outputs": reporter.outputs.measure(),
        }
        engine.note({REPORTED: told}, now=True)

    @property
    def events(self) -> int:
        """How many events all runs have taken."""
        return sum(track.taken for track in self.tracks.values())

    def rest(self) -> None:
        """Between two batches: a checkpoint may begin."""
        if self.is_ready():
            self.engine.checkpoint(if_due=True)

    def is_ready(self) -> bool:
        """Whether what the next changes are from is the newest epoch, which a checkpoint keeps."""
        newest = self.engine.epoch
        if self.engine.positions[REPORTED]["epoch"] != newest:
            return False
        return all(
            each.before is None or each.before.epoch == newest or each.query.error is not None
            for each in self.reporter.asked
        )

    def finish(self, is_left: bool) -> None:
        """The run ends, `is_left` before its input did."""
        for track in self.tracks.values():
            self.engine.note(track.describe_quarantined() if is_left else track.describe_end())
        self.keep()

    def resume(self) -> Published | None:
        """Go on as the run before; the epoch that it may have died before writing, if there is."""
        positions, newest = self.engine.positions, self.engine.epoch
        told = positions.get(REPORTED)
        if told is None:
            self.engine.note({REPORTED: {"epoch": newest}}, now=True)
            return None
        with self.reporter.asked[0].query.snapshot() as snapshot:
            time = positions.get(TIME) if snapshot.time is None else snapshot.time
        last = Published(newest, time)
        self.reporter.resume(told, last)
        # The engine knows it also of an epoch that no run came to tell of.
        figures = self.engine.metrics()
        windows = figures["windows"]
        self.refusals.total += figures["refused"] + windows["refused"] + windows["ahead"]
        return None if told["epoch"] == newest else last


def move_holds(engine: Engine, asked: Iterable[RunQuery]) -> None:
    """Hold, by name, the epochs that the next changes are from."""
    holds = engine.holds
    for each in asked:
        name = name_hold(each.query.name)
        if each.before is not None and holds.get(name) != each.before.epoch:
            if name in holds:
                engine.release(name)
            engine.hold(name, each.before.epoch)


def note_epoch(engine: Engine, more: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Make an epoch that no run writes, such as that of a query; `more` is noted with it."""
    told = engine.positions.get(REPORTED, {})
    before = {**told, "epoch": told.get("epoch", engine.epoch)}
    # An epoch that was not written yet is not passed over because of this one.
    step = before["epoch"] == engine.epoch
    engine.note({**more, REPORTED: {**before, "epoch": before["epoch"] + step}})
    try:
        found = make()
    except BaseException:
        engine.note({REPORTED: before, **dict.fromkeys(more)})
        raise
    if step and engine.epoch == before["epoch"]:  # there was none to be made
        engine.note({REPORTED: before}, now=True)
    return found


def find_sizes(positions: Mapping[str, Any]) -> Mapping[str, int]:
    """The files that earlier runs wrote, and how long they were."""
    found: Mapping[str, int] = positions.get(REPORTED, {}).get("outputs", {})
    return found
