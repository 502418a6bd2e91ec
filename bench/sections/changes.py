"""The changes of a slide: against peers, among ten times as many answers, and where there are none.

Rows per second count signed changes, with the slide that brings them taken in. The growth test
gives one engine nine copies of the window with other nodes beside it, so the same answers change
among ten times as many; only the difference of the two snapshots is timed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answers import Digest, WrongAnswer, check
from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Stream, hold_contest
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed, digest_table
from bench.timing import Rival, Samples, take_turns
from triegs.workloads import Workload, path3
from triegs.workloads.stream import name_iri

NAME = "changes"
#: How many times the rows per second of each peer.
GOALS = {"DuckDB delta SQL": 10.0, "dict delta join": 12.0}
GROWTH_GOAL, EMPTY_GOAL_US = 1.3, 20.0
COPIES = 9
#: Farther than any two nodes of one window are apart.
OFFSET = 10_000_000_000


def measure_changes(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    yield from _against_peers(bench, Stream(workload))
    yield from _among_more(bench, Stream(workload))
    yield from _of_nothing(bench, Stream(workload))
    yield from _while_watched(bench, workload)


def _against_peers(bench: Bench, stream: Stream) -> Iterator[Figure]:
    bench.say("changes against peers")
    peers, _ = find_peers()
    kinds: list[type[Contender]] = [Triegs, *(peers[name] for name in GOALS if name in peers)]
    entries = [(kind, Consumer.CHANGES) for kind in kinds]
    ours, *theirs = hold_contest(stream, entries, 2 * bench.settings.seconds)
    series = bench.series[NAME] = {"rows a second": {}}
    for runner in (ours, *theirs):
        slides = runner.slides_per_second
        rate = series["rows a second"][runner.name] = runner.rows * slides
        yield Figure(runner.name, "changes a slide", runner.rows, table="against peers")
        yield Figure(runner.name, "ms a slide", 1e3 / slides, table="against peers")
        yield Figure(runner.name, "M rows/s", rate / 1e6, table="against peers")
    for runner in theirs:
        ratio = ours.is_faster_than(runner) * ours.rows / runner.rows
        yield Figure(
            runner.name, "triegs is faster by", ratio, "x", GOALS[runner.name],
            table="against peers",
        )  # fmt: skip


class _Differing:
    """An engine whose two newest epochs are compared after each slide."""

    def __init__(self, stream: Stream, copies: int) -> None:
        self._contender = Triegs(stream.workload, stream.load, Consumer.CHANGES)
        self._stream = stream
        self._number = 0
        for copy in range(1, copies + 1):
            self._contender.engine.apply(_move_nodes(stream.load.table, copy * OFFSET))
        self._last: Any = self._contender.query.snapshot()

    def answers(self) -> int:
        return int(self._last.support())

    def run(self, samples: Samples) -> pa.Table:
        self._number += 1
        self._contender.take(self._stream[self._number])
        newest = self._contender.query.snapshot()
        rows = samples.time(_list_changes, newest, self._last)
        self._last.close()
        self._last = newest
        return rows

    def check(self, rows: pa.Table) -> None:
        digests = self._stream.imply_digests([self._number - 1, self._number])
        expected = digests[self._number] - digests[self._number - 1]
        found = digest_table(rows) if rows.num_rows else Digest(0, 0)
        check(found, expected, f"changes of slide {self._number}")


def _among_more(bench: Bench, stream: Stream) -> Iterator[Figure]:
    bench.say("changes among ten times as many answers")
    few, many = _Differing(stream, 0), _Differing(stream, COPIES)
    rival = Rival()
    rows: list[pa.Table] = []
    for turn in take_turns(bench.settings.seconds, least=3):
        samples = Samples(process_time), Samples(process_time)
        for _ in range(4):
            rows = [bed.run(taken) for bed, taken in zip((few, many), samples, strict=True)]
        if turn:
            rival.add_turn(*samples)
    for bed, found in zip((few, many), rows, strict=True):
        bed.check(found)
    row = ""
    for bed, taken in ((few, rival.ours), (many, rival.theirs)):
        row = f"{bed.answers():,} answers"
        yield Figure(row, "changes", rows[0].num_rows, table="among more")
        yield Figure(row, "difference ms", 1e3 * taken.middle, table="among more")
    yield Figure(
        row, "costs more by", rival.ratio, "x", GROWTH_GOAL, Sense.AT_MOST, "among more"
    )  # fmt: skip


def _of_nothing(bench: Bench, stream: Stream) -> Iterator[Figure]:
    """Two epochs between which no answer changed: an empty one, and one of another label."""
    bench.say("differences without changes")
    table = "nothing changed"
    contender = Triegs(stream.workload, stream.load, Consumer.CHANGES)
    engine, query = contender.engine, contender.query
    epochs = {
        "an empty epoch": [],
        "an edge of another label": [("+", 1, name_iri("other"), 2)],
    }
    for row, updates in epochs.items():
        looking, listing = Samples(process_time), Samples(process_time)
        for _ in range(400):
            with query.snapshot() as before:
                engine.apply(updates)
                with query.snapshot() as after:
                    is_empty = looking.time(lambda a, b: a.diff(b).is_empty(), after, before)
                    rows = listing.time(_list_changes, after, before)
            if rows.num_rows or not is_empty:
                raise WrongAnswer(f"{row}: {rows.num_rows} changes")
        value = 1e6 * looking.middle
        yield Figure(row, "is_empty(), µs", value, "", EMPTY_GOAL_US, Sense.AT_MOST, table)
        yield Figure(row, "to_arrow(), µs", 1e6 * listing.middle, table=table)


def _while_watched(bench: Bench, workload: Workload) -> Iterator[Figure]:
    """What an epoch costs the updater, by who follows; followers read outside the clock."""
    bench.say("epochs that are followed")
    followers = {
        "nobody": _Followed(workload),
        "retain_epochs=8": _Followed(workload, retain_epochs=8),
        "a subscriber": _Followed(workload, is_subscribed=True),
    }
    rivals = {row: Rival() for row in followers}
    for turn in take_turns(bench.settings.seconds, least=3):
        taken = {row: each.run(8) for row, each in followers.items()}
        for row, rival in rivals.items():
            if turn:  # the first turn warms up
                rival.add_turn(taken["nobody"], taken[row])
    for row, rival in rivals.items():
        followers[row].bed.check()
        yield Figure(row, "epoch µs", 1e6 * rival.theirs.middle, table="who follows")
        yield Figure(row, "of nobody's", rival.ratio, "x", table="who follows")


class _Followed:
    """A loaded engine, and perhaps a subscriber that is told each epoch."""

    def __init__(
        self, workload: Workload, *, retain_epochs: int = 0, is_subscribed: bool = False
    ) -> None:
        self.bed = Bed(workload, retain_epochs=retain_epochs).load()
        query: Any = self.bed.query
        self._subscription = query.subscribe(snapshot=False) if is_subscribed else None

    def run(self, slides: int) -> Samples:
        samples = Samples(process_time)
        for slide in self.bed.draw(slides):
            samples.time(self.bed.apply, slide)
            self.bed.window.apply(slide)
            if self._subscription is not None:
                while (event := self._subscription.poll()) is not None:
                    if hasattr(event, "to_arrow"):
                        event.to_arrow(terms="ids")
        return samples


def _list_changes(newest: Any, last: Any) -> pa.Table:
    return newest.diff(last).to_arrow(terms="python")


def _move_nodes(table: pa.Table, offset: int) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in ("subject", "object"):
            moved = pa.array(table[name].to_numpy().astype(np.int64) + offset)
            table = table.set_column(place, name, moved)
    return table
