"""Rules over a window of a university: events per second, one event per epoch, two threads, wider
windows, and offered load; against deriving each window anew, owlrl and reasonable.

The rules are the 170 of ``LUBM_L.dlog`` if the environment variable ``LUBM_RULES`` names that file,
else the set ``rdfs-plus`` over the workload's schema. Closures are checked against one derived from
scratch.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time, thread_time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from bench.answers import WrongAnswer
from bench.report import Figure, Sense
from bench.run import Bench
from bench.sections.reasoning_peers import measure_peers
from bench.timing import Rival, Samples, take_turns
from triegs import Engine, Window
from triegs.maintain import at_once as at_once_module
from triegs.maintain import compiled as compiled_module
from triegs.reason import closure as closure_module
from triegs.reason.closure import Closure
from triegs.reason.sets import read_rules
from triegs.reason.tables import write_program
from triegs.terms import dictionary as dictionary_module
from triegs.terms import row_encoding as encoding_module
from triegs.terms.dictionary import Dictionary
from triegs.workloads import get

RULES_VARIABLE = "LUBM_RULES"
WINDOW, BATCH, SLIDE = 5_000, 256, 100
CHUNK, EPOCHS = 16, 96  # batches in a larger push; epochs in a turn of two threads
EVENTS = 100_000  # about one university
SINGLES = 4_000
RATE_GOAL, MIDDLE_GOAL, TAIL_GOAL = 50_000, 40.0, 78.0
SCRATCH_GOAL, THREADS_GOAL = 20.0, 1.8
WIDTHS = (5_000, 50_000, 500_000)
LEAST_TURNS = 3
#: A closure without work: what `push` and `advance` cost by themselves.
NO_MATCHES = "nothing(X) :- TE(X, <urn:nowhere>, X)."
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.1)  # of what one core can do


class Rules(NamedTuple):
    """What the section runs: rules as an option, their name, and the schema that they need."""

    source: str
    name: str
    static: pa.Table | None


def choose_rules() -> Rules:
    path = os.environ.get(RULES_VARIABLE, "")
    if path and Path(path).exists():
        return Rules(path, "LUBM_L", None)
    return Rules("rdfs-plus", "rdfs-plus", get("university").static_table())


def draw_events(count: int, seed: int) -> pa.Table:
    """One event per millisecond, beginning with 1."""
    batches = list(get("university").events(count, seed))
    return pa.Table.from_batches(batches).select(["time", "subject", "predicate", "object"])


class Stream:
    """An engine with rules and a window of so many events, fed batch by batch; each batch is an
    epoch. A push has so many batches.
    """

    def __init__(
        self, rules: Rules, events: pa.Table, window: int, batch: int, batches: int = 1
    ) -> None:
        self.engine = Engine(rules=rules.source, window=Window(window, slide=batch))
        if rules.static is not None:
            signs = pa.array(["+"] * rules.static.num_rows)
            self.engine.apply(rules.static.append_column("op", signs))
        self.events = events
        self.batch = batch
        self.size = batch * batches
        self.place = 0
        #: Made before they are pushed, so that only the engine's work is measured.
        self.tables: deque[pa.Table] = deque()
        #: Single events come as tuples, for which that is the faster way.
        self.rows = list(zip(*events.to_pydict().values(), strict=True)) if batch == 1 else []

    def load(self, count: int) -> Stream:
        while self.place < count:
            self.step()
        return self

    def prepare(self, steps: int) -> Stream:
        """Make the tables of so many steps; at the end of the events, begin again later."""
        if self.rows:
            return self
        place = self.place + sum(table.num_rows for table in self.tables)
        whole = len(self.events) - len(self.events) % self.size
        for start in range(place, place + steps * self.size, self.size):
            table = self.events.slice(start % whole, self.size)
            times = pa.array(np.arange(start + 1, start + 1 + self.size))
            self.tables.append(table.set_column(0, "time", times))
        return self

    def step(self) -> None:
        """Push batches and publish their slides."""
        if self.rows:
            event = self.rows[self.place]
            self.place += 1
            self.engine.push([event])
            self.engine.advance(self.place)
            return
        if not self.tables:
            self.prepare(1)
        table = self.tables.popleft()
        self.place += table.num_rows
        self.engine.push(table)
        self.engine.advance(self.place)

    def run(self, count: int) -> None:
        for _ in range(count):
            self.step()


class Stage:
    """The closure alone, without events, terms and queries: what rules cost an epoch."""

    def __init__(self, rules: Rules, events: pa.Table, window: int, slide: int) -> None:
        self.words = Dictionary()
        self.program = write_program(read_rules(rules.source), self.words.encode_one)
        columns = [self.words.encode(events[name]).ids for name in events.column_names[1:]]
        self.rows = np.stack([np.ones(len(events), np.int64), *columns], axis=1)
        self.static = np.empty((0, 4), np.int64)
        if rules.static is not None:
            ids = [self.words.encode(column).ids for column in rules.static.columns]
            self.static = np.stack([np.ones(rules.static.num_rows, np.int64), *ids], axis=1)
        self.window, self.slide = window, slide
        self.closure = self.make_closure()
        self.place = 0

    def make_closure(self) -> Closure:
        found = Closure(self.program, abs)
        found.change(self.static)
        found.keep()
        return found

    def step(self) -> None:
        """Slide by so many events."""
        first, place = self.place - self.window, self.place
        gone = self.rows[max(0, first) : max(0, first + self.slide)].copy()
        gone[:, 0] = -1
        rows = np.concatenate([gone, self.rows[place : place + self.slide]])
        leaves = np.full(len(rows), place + self.window + self.slide, np.int64)
        self.place += self.slide
        self.closure.change(rows, leaves, self.place)
        self.closure.keep()

    def derive(self) -> Closure:
        """The closure of the window, from nothing."""
        found = self.make_closure()
        found.change(self.rows[max(0, self.place - self.window) : self.place])
        found.keep()
        return found

    def check(self) -> None:
        """What is kept is what is derived."""
        again = self.derive()
        for number in range(len(self.program.predicates)):
            kept, new = (each.read_facts(number) for each in (self.closure, again))
            if set(map(tuple, kept.tolist())) != set(map(tuple, new.tolist())):
                raise WrongAnswer(f"the closure has other facts of predicate {number}")


def spin(count: int = 200_000) -> int:
    """A loop that only computes: what the processor gives at the moment."""
    found = 0
    for number in range(count):
        found ^= number * number
    return found


def measure_reasoning(bench: Bench) -> Iterator[Figure]:
    rules = choose_rules()
    events = draw_events(EVENTS, bench.settings.seed)
    bench.say(f"{rules.name}: events per second")
    yield from _measure_rate(bench, rules, events)
    bench.say("one event per epoch")
    yield from _measure_single(rules, events)
    bench.say("against deriving anew")
    yield from _measure_scratch(bench, rules, events)
    bench.say("two threads")
    yield from _measure_threads(bench, rules, events)
    bench.say("wider windows")
    yield from _measure_widths(bench, rules)
    bench.say("other reasoners")
    yield from measure_peers(events.slice(0, WINDOW))


def _measure_rate(bench: Bench, rules: Rules, events: pa.Table) -> Iterator[Figure]:
    stream = Stream(rules, events, WINDOW, BATCH).load(2 * WINDOW)
    batches, spins = Samples(process_time), Samples(process_time)
    for _ in take_turns(bench.settings.seconds, LEAST_TURNS):
        spins.time(spin)
        stream.prepare(20)
        for _ in range(20):
            batches.time(stream.step)
    row = f"{rules.name}, batches of {BATCH}"
    yield Figure(row, "events/s", BATCH / batches.middle, "", RATE_GOAL)
    yield Figure(row, "spin ms", spins.middle * 1e3)
    bench.series["reasoning"] = _draw_loads(batches.seconds)


def _measure_single(rules: Rules, events: pa.Table) -> Iterator[Figure]:
    whole = Stream(rules, events, WINDOW, 1)
    stage = Stage(rules, events, WINDOW, 1)
    bare = Stream(Rules(NO_MATCHES, "", None), events, WINDOW, 1)
    rows: list[tuple[str, Callable[[], object], bool]] = [
        (f"{rules.name}, closure alone", stage.step, True),
        (f"{rules.name}, push and advance", whole.step, False),
        ("one rule without matches, push and advance", bare.step, False),
    ]
    for name, step, is_goal in rows:
        for _ in range(WINDOW + 500):
            step()
        samples = Samples()
        for _ in range(SINGLES):
            samples.time(step)
        goals = (MIDDLE_GOAL, TAIL_GOAL) if is_goal else (None, None)
        for share, goal in zip((0.5, 0.99), goals, strict=True):
            yield Figure(
                name, f"p{share * 100:g} µs", samples.percentile(share) * 1e6, "", goal,
                Sense.AT_MOST, "one event per epoch",
            )  # fmt: skip
    stage.check()


def _measure_scratch(bench: Bench, rules: Rules, events: pa.Table) -> Iterator[Figure]:
    stage = Stage(rules, events, WINDOW, SLIDE)
    while stage.place < 2 * WINDOW:
        stage.step()
    rival = Rival()
    for _ in take_turns(bench.settings.seconds, LEAST_TURNS):
        ours, theirs = Samples(process_time), Samples(process_time)
        for _ in range(5):
            ours.time(stage.step)
        theirs.time(stage.derive)
        stage.check()
        rival.add_turn(ours, theirs)
    row = f"window {WINDOW:,}, slide {SLIDE}"
    yield Figure(row, "slide ms", rival.ours.middle * 1e3, table="against deriving anew")
    yield Figure(row, "anew ms", rival.theirs.middle * 1e3, table="against deriving anew")
    yield Figure(row, "ratio", rival.ratio, "x", SCRATCH_GOAL, table="against deriving anew")


def _measure_threads(bench: Bench, rules: Rules, events: pa.Table) -> Iterator[Figure]:
    """Two engines in two threads against one, beside loops that only compute: what the machine
    gives two threads at the moment.
    """
    table = "threads"
    pairs = {
        batches: [Stream(rules, events, WINDOW, BATCH, batches).load(2 * WINDOW) for _ in range(2)]
        for batches in (1, CHUNK)
    }
    ratios: dict[str, list[float]] = {}
    spin_without_lock(1)
    for _ in take_turns(bench.settings.seconds, LEAST_TURNS):
        for batches, streams in pairs.items():
            name = f"engines, pushes of {batches * BATCH:,}"
            steps = EPOCHS // batches
            works = [partial(stream.run, steps) for stream in streams]
            before = [partial(stream.prepare, 2 * steps) for stream in streams]
            ratios.setdefault(name, []).append(_compare_threads(works, before))
        spins = [partial(spin_without_lock, 100_000_000) for _ in range(2)]
        ratios.setdefault("loops that only compute", []).append(_compare_threads(spins))
    for name, found in ratios.items():
        goal = THREADS_GOAL if name.startswith("engines") else None
        yield Figure(name, "two : one", float(np.median(found)), "x", goal, table=table)
    for batches, streams in pairs.items():
        held = _measure_lock(streams[0].prepare(EPOCHS // batches), EPOCHS // batches)
        name = f"engines, pushes of {batches * BATCH:,}"
        yield Figure(name, "lock held", held * 100, "%", table=table)


@njit(nogil=True)
def spin_without_lock(count: int) -> int:
    found = 0
    for number in range(count):
        found ^= number * number + (found >> 3)
    return found


def _measure_lock(stream: Stream, steps: int) -> float:
    """The share of a stream's processor time outside the kernels that release the interpreter's
    lock: two threads together cannot do more than its inverse.
    """
    spent = 0.0
    places = [
        (closure_module, "run_closure"),
        (closure_module, "end_epoch"),
        (at_once_module, "run_epoch"),
        (compiled_module, "run_epoch"),
        (encoding_module, "encode_rows"),
        (dictionary_module, "sift"),
    ]
    saved = [(module, name, getattr(module, name)) for module, name in places]

    def measure(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            nonlocal spent
            start = thread_time()
            found = kernel(*given)
            spent += thread_time() - start
            return found

        return run

    try:
        for module, name, kernel in saved:
            setattr(module, name, measure(kernel))
        start = thread_time()
        stream.run(steps)
        return 1 - spent / (thread_time() - start)
    finally:
        for module, name, kernel in saved:
            setattr(module, name, kernel)


def _compare_threads(
    works: Sequence[Callable[[], object]], before: Sequence[Callable[[], object]] = ()
) -> float:
    """How many times the work of one thread two do in the same time. Each alone, one before and one
    after both together, so that a machine that becomes slower or faster meanwhile counts twice.
    """
    for prepare in before:
        prepare()
    alone = _time_threads(works[:1])
    together = _time_threads(works)
    alone += _time_threads(works[1:])
    return alone / together


def _time_threads(works: Sequence[Callable[[], object]]) -> float:
    threads = [Thread(target=work) for work in works]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter() - start


def _measure_widths(bench: Bench, rules: Rules) -> Iterator[Figure]:
    """Cost of an event as the window grows: the joins meet more facts, in more memory."""
    for width in WIDTHS:
        events = draw_events(width + 100 * BATCH, bench.settings.seed)
        stage = Stage(rules, events, width, BATCH)
        while stage.place < width:
            stage.step()
        samples = Samples(process_time)
        joined, start = stage.closure.measure()["joined"], stage.place
        for _ in range(90):
            samples.time(stage.step)
        row, count = f"window {width:,}", stage.place - start
        more = stage.closure.measure()
        table = "as the window grows"
        yield Figure(row, "µs/event", samples.middle / BATCH * 1e6, table=table)
        yield Figure(row, "facts joined/event", (more["joined"] - joined) / count, table=table)
        yield Figure(row, "MiB", more["bytes"] / 2**20, table=table)


def _draw_loads(seconds: list[float]) -> dict[str, Any]:
    """Latency by offered rate: measured batches, served one after the other as they arrive."""
    service = np.array(seconds)
    capacity = BATCH / float(service.mean())
    found: dict[str, list[float]] = {"rate": [], "p50": [], "p99": []}
    for load in LOADS:
        arrivals = np.arange(2_000) * BATCH / (load * capacity)
        end, waits = 0.0, []
        for arrival, each in zip(arrivals, np.resize(service, len(arrivals)), strict=True):
            end = max(end, arrival) + each
            waits.append(end - arrival)
        found["rate"].append(load * capacity)
        found["p50"].append(float(np.percentile(waits, 50)) * 1e3)
        found["p99"].append(float(np.percentile(waits, 99)) * 1e3)
    return {"capacity": capacity, **found}
