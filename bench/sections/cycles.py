"""Cyclic patterns over one label: triegs takes the slide in, the others join the window again.

The triangle also meets Python sets that use its symmetry and keep the same answers, hubs by Zipf's
law, and a window ten times as large under the same slide, where joining again pays for the window
and maintaining for the slide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isqrt
from statistics import median

from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Runner, Stream, hold_contest, run_in_turns
from bench.peers.python_views import TriangleSets
from bench.report import Figure, Sense
from bench.run import Bench, Settings
from triegs.workloads import Workload, clique4, diamond, rectangle, triangle

POLARS, DUCKDB, SETS = "Polars again", "DuckDB again", TriangleSets.name
Make = Callable[..., Workload]
#: The shape, its fan-out, and how many times faster than each peer. Hubs are to be ahead of all.
SHAPES: list[tuple[Make, int, dict[str, float], dict[str, float]]] = [
    (triangle, 30, {}, {POLARS: 10.0, DUCKDB: 4.0, SETS: 2.0}),
    (triangle, 10, {"zipf": 0.8}, {POLARS: 1.0, DUCKDB: 1.0, SETS: 1.0}),
    (rectangle, 8, {}, {POLARS: 10.0}),
    (diamond, 8, {}, {POLARS: 8.0}),
    (clique4, 30, {}, {POLARS: 10.0}),
]
LARGER = 10
LARGER_GOALS = {POLARS: 80.0, DUCKDB: 50.0}
GROWTH_GOAL = 1.5


def measure_cycles(bench: Bench) -> Iterator[Figure]:
    for make, fan_out, more, goals in SHAPES:
        workload = _make(make, fan_out, bench.settings, **more)
        bench.say(f"slides of {workload.name}")
        entries = [(Triegs, Consumer.NONE), *_list_peers(goals)]
        ours, *theirs = hold_contest(Stream(workload), entries, bench.settings.seconds / 2)
        yield from show_contest(workload.name, ours, theirs, goals)
    yield from _measure_larger(bench)


def _measure_larger(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    streams = [
        Stream(_make(triangle, 30, settings, window=times * settings.window))
        for times in (1, LARGER)
    ]
    bench.say(f"loading {streams[1].workload.name}, {streams[1].workload.window:,} edges")
    small, large, *theirs = run_in_turns(
        [
            *(Runner(Triegs, Consumer.NONE, stream) for stream in streams),
            *(Runner(*peer, streams[1]) for peer in _list_peers(LARGER_GOALS)),
        ],
        settings.seconds,
    )
    row = f"{streams[1].workload.name}, {streams[1].workload.window:,}"
    yield from show_contest(row, large, theirs, LARGER_GOALS)
    growth = small.is_faster_than(large)
    yield Figure(row, "of the small window's", growth, "x", GROWTH_GOAL, Sense.AT_MOST, "growth")


def _make(make: Make, fan_out: int, settings: Settings, **more: float) -> Workload:
    window = int(more.pop("window", settings.window))
    sizes = {"window": window, "slide": settings.slide, "seed": settings.seed}
    return make(limit_fan_out(fan_out, settings.window), **sizes, **more)


def limit_fan_out(fan_out: int, window: int) -> int:
    """A tiny window has not enough nodes for the fan-out: half of all pairs may have an edge."""
    return min(fan_out, isqrt(window // 2))


def _list_peers(goals: Mapping[str, float]) -> list[tuple[type[Contender], Consumer]]:
    found, _ = find_peers()
    peers: list[tuple[type[Contender], Consumer]] = [
        (found[name], Consumer.FULL) for name in (POLARS, DUCKDB) if name in found
    ]
    return [*peers, (TriangleSets, Consumer.NONE)] if SETS in goals else peers


def show_contest(
    row: str, ours: Runner, theirs: list[Runner], goals: Mapping[str, float]
) -> Iterator[Figure]:
    """Milliseconds of CPU time a slide, and how many times faster triegs is than whom; then both by
    the wall clock, without goals.
    """
    answers = max((runner.rows for runner in theirs), default=0)
    if answers:
        yield Figure(row, "answers", answers, table="ms a slide")
    for runner in (ours, *theirs):
        milliseconds = 1e3 / runner.slides_per_second
        yield Figure(row, f"{runner.name} ms", milliseconds, table="ms a slide")
    for runner in theirs:
        ratio, goal = ours.is_faster_than(runner), goals.get(runner.name)
        yield Figure(row, f"than {runner.name}", ratio, "x", goal, table="faster")
    for runner in (ours, *theirs):
        milliseconds = 1e3 * median(runner.wall_middles.values())
        yield Figure(row, f"{runner.name} wall ms", milliseconds, table="wall ms a slide")
    for runner in theirs:
        ratio = ours.is_faster_by_wall(runner)
        yield Figure(row, f"than {runner.name}, wall", ratio, "x", table="faster by wall clock")
