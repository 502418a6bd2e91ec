"""An interval join of two streams: comments within a time after a post, ten for each post.

triegs and the join by `bisect` take the slide in and give the changes of the answers. DuckDB joins
the window again. Names are integers, apart from times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.answers import Numbers, WrongAnswer
from bench.peers.interval_bisect import Change, IntervalBisect
from bench.report import Figure
from bench.run import Bench
from bench.subject import Engine, apply_table
from bench.timing import Rival, Samples, take_turns

MATCHES, GAP = 10, 10  # of an event; between two events of a stream
WIDTH = MATCHES * GAP
DUCKDB_GOAL, BISECT_GOAL = 20.0, 3.0
TURN_SLIDES = 4
NAMES = 1 << 40  # posts are named from here, comments from twice this number
LABELS = ("http://ex/post", "http://ex/comment")
QUERY = f"""PREFIX : <http://ex/>
SELECT ?post ?comment {{ ?post :post ?t1 . ?comment :comment ?t2
  FILTER(?t1 < ?t2 && ?t2 <= ?t1 + {WIDTH}) }}"""
TABLE = "interval join"


class Step(NamedTuple):
    """The events of a slide: signs, whether each is a post, times and names."""

    signs: Numbers
    is_post: Numbers
    times: Numbers
    names: Numbers

    @property
    def table(self) -> pa.Table:
        labels = pa.array([f"<{label}>" for label in LABELS])
        codes = pa.array(1 - self.is_post, pa.int32())
        return pa.table({
            "op": pa.array(self.signs.astype(np.int8)), "subject": pa.array(self.names),
            "predicate": pa.DictionaryArray.from_arrays(codes, labels),
            "object": pa.array(self.times),
        })  # fmt: skip


class Events:
    """Two streams in a window: an event of each every `GAP`, at random times in between."""

    def __init__(self, window: int, slide: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._count, self._slide = 0, slide
        self.live = self._draw(window)

    def advance(self) -> Step:
        """The oldest events go, and new ones come."""
        new = self._draw(self._slide)
        old = Step(*(column[: len(new.signs)] for column in self.live))
        self.live = Step(*(
            np.concatenate([column[len(new.signs) :], more])
            for column, more in zip(self.live, new, strict=True)
        ))  # fmt: skip
        old = old._replace(signs=-old.signs)
        return Step(*(np.concatenate(both) for both in zip(old, new, strict=True)))

    def _draw(self, count: int) -> Step:
        numbers = np.repeat(np.arange(self._count, self._count + count), 2)
        self._count += count
        is_post = np.tile([1, 0], count)
        times = numbers * GAP + self._random.integers(0, GAP, 2 * count)
        return Step(np.ones(2 * count, np.int64), is_post, times, numbers + NAMES * (2 - is_post))


def measure_interval_join(bench: Bench) -> Iterator[Figure]:
    bench.say("interval join")
    settings = bench.settings
    window = max(4 * MATCHES, settings.window)
    events = Events(window, max(1, settings.slide), settings.seed)
    engine: Any = Engine("multigraph")
    query = engine.register(QUERY)
    apply_table(engine, events.live.table)
    bisected, database = IntervalBisect(WIDTH), open_database()
    change_bisected(bisected, events.live)
    recomputing, by_hand = Rival(), Rival()
    last = query.snapshot()
    for turn in take_turns(settings.seconds):
        ours, theirs, hand = (Samples(process_time) for _ in range(3))
        for _ in range(TURN_SLIDES):
            step = events.advance()
            table = step.table

            def take(table: pa.Table = table, last: Any = last) -> tuple[Any, pa.Table]:
                apply_table(engine, table)
                newest = query.snapshot()
                return newest, newest.diff(last).to_arrow(terms="python")

            newest, rows = ours.time(take)
            last.close()
            last = newest
            changes = hand.time(change_bisected, bisected, step)
            check_changes(rows, changes)
        found = last.to_arrow(terms="python")
        pairs = imply_pairs(events.live)
        if count_pairs(found) != pairs:
            raise WrongAnswer("interval join: triegs has other pairs")
        if turn:  # the first turn compiles and loads libraries
            by_hand.add_turn(ours, hand)
        if database is not None:
            again = theirs.time(join_again, database, events.live)
            if count_pairs(again) != pairs:
                raise WrongAnswer("interval join: DuckDB has other pairs")
            if turn:
                recomputing.add_turn(ours, theirs)
    row = f"{2 * window:,} events, {MATCHES} matches"
    yield Figure(row, "changes /s", by_hand.ours.rate, table=TABLE)
    yield Figure(row, "than bisect", by_hand.ratio, "x", BISECT_GOAL, table=TABLE)
    if database is not None:
        yield Figure(row, "than DuckDB again", recomputing.ratio, "x", DUCKDB_GOAL, table=TABLE)


def change_bisected(bisected: IntervalBisect, step: Step) -> list[Change]:
    changes: list[Change] = []
    for sign, is_post, time, name in zip(*(c.tolist() for c in step), strict=True):
        changes += bisected.change(bool(is_post), time, name, sign)
    return changes


def join_again(database: Any, live: Step) -> pa.Table:
    for name, kind in (("post", 1), ("comment", 0)):
        rows = live.is_post == kind
        database.show(name, {"t": live.times[rows], "name": live.names[rows]})
    return database.ask(
        "SELECT p.name AS post, c.name AS comment FROM post p JOIN comment c "
        f"ON p.t < c.t AND c.t <= p.t + {WIDTH}"
    )


def open_database() -> Any | None:
    """DuckDB, if it is installed."""
    try:
        from bench.peers.duckdb_sql import Database
    except ModuleNotFoundError as missing:
        if missing.name != "duckdb":
            raise
        return None
    return Database()


# Judging


def imply_pairs(live: Step) -> Counter[tuple[int, int]]:
    """The pairs of the window, by searching the times of comments for those of posts."""
    rows = live.is_post == 1
    order = np.argsort(live.times[~rows])
    times, comments = live.times[~rows][order], live.names[~rows][order].tolist()
    starts = np.searchsorted(times, live.times[rows], "right").tolist()
    ends = np.searchsorted(times, live.times[rows] + WIDTH, "right").tolist()
    posts = live.names[rows].tolist()
    found: Counter[tuple[int, int]] = Counter()
    for post, start, end in zip(posts, starts, ends, strict=True):
        found.update((post, comment) for comment in comments[start:end])
    return found


def count_pairs(rows: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(rows["post"].to_pylist(), rows["comment"].to_pylist(), strict=True))


def check_changes(rows: pa.Table, changes: list[Change]) -> None:
    """Pairs that come and go within the slide cancel."""
    expected: Counter[tuple[int, int]] = Counter()
    for first, second, sign in changes:
        expected[first, second] += sign
    signs = rows.column(rows.num_columns - 1).to_pylist()
    pairs = zip(rows["post"].to_pylist(), rows["comment"].to_pylist(), strict=True)
    found = dict(zip(pairs, signs, strict=True))
    if found != {pair: sign for pair, sign in expected.items() if sign}:
        raise WrongAnswer("interval join: triegs has other changes")
