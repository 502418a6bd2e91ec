"""One thing varies at a time on the path of three edges: window, slide, fan-out, skew, batch.

The window sweep keeps the slide, so what changes stays as large while the result grows. The slide
sweep keeps the window, so the share of answers that change grows to all of them. The batch sweep
cuts the same updates into epochs of other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Runner, Stream, hold_contest
from bench.report import Figure
from bench.run import Bench, Settings
from bench.sections.consumers import show_ratio
from bench.sections.single import list_updates
from bench.subject import Bed, apply_table
from bench.timing import Samples
from triegs.workloads import Workload, path3

NAME = "sweeps"
#: Per consumer, who is in a sweep beside triegs: the best of each kind.
RIVALS = {
    Consumer.CHANGES: ("DuckDB delta SQL", "dict delta join"),
    Consumer.FULL: ("Polars again", "DuckDB again"),
}


class Sweep(NamedTuple):
    """What varies, over which values, and the workload for a value."""

    axis: str
    values: Callable[[Settings], list[float]]
    make: Callable[[Settings, float], Workload]


def _path3(settings: Settings, fan_out: float = 8, **sizes: float) -> Workload:
    window = int(sizes.get("window", settings.window))
    slide = int(sizes.get("slide", settings.slide))
    zipf = sizes.get("zipf", 0.0)
    return path3(fan_out, window=window, slide=slide, seed=settings.seed, zipf=zipf)


SWEEPS = {
    "window": Sweep(
        "edges in the window",
        lambda s: [s.window // 10, s.window // 3 // s.slide * s.slide, s.window, 3 * s.window,
                   10 * s.window],
        lambda s, value: _path3(s, window=value),
    ),
    "slide": Sweep(
        "edges in a slide",
        lambda s: [s.window // n for n in (1000, 300, 100, 30, 10, 3) if s.window % n == 0],
        lambda s, value: _path3(s, slide=value),
    ),
    "fan-out": Sweep(
        "edges of a label at a node",
        lambda _: [1, 2, 4, 8, 16],
        _path3,
    ),
    "skew": Sweep(
        "exponent of Zipf's law",
        lambda _: [0.0, 0.2, 0.4, 0.6, 0.8],
        lambda s, value: _path3(s, 3, zipf=value),
    ),
}  # fmt: skip


def measure_sweeps(bench: Bench) -> Iterator[Figure]:
    peers, _ = find_peers()
    entries: list[tuple[type[Contender], Consumer]] = [(Triegs, Consumer.NONE)]
    for consumer, rivals in RIVALS.items():
        kinds: list[type[Contender]] = [Triegs, *(peers[name] for name in rivals if name in peers)]
        entries += [(kind, consumer) for kind in kinds if consumer in kind.consumers]
    series = bench.series[NAME] = {}
    for name, sweep in SWEEPS.items():
        points = series[name] = {
            "axis": sweep.axis,
            "x": [],
            "answers": [],
            "changes": [],
            "ms": {},
        }
        for value in sweep.values(bench.settings):
            if value > bench.settings.large_window:
                break
            bench.say(f"{sweep.axis}: {value:g}")
            try:
                stream = Stream(sweep.make(bench.settings, value))
            except ValueError:  # a tiny window has not enough edges for this fan-out
                continue
            runners = hold_contest(stream, entries, bench.settings.seconds / 3)
            rows = {runner.consumer: runner.rows for runner in runners}
            column = f"{value:,g}" if value < 1000 else f"{value:,.0f}"
            yield Figure("answers", column, rows[Consumer.FULL], table=name)
            yield Figure("changes of a slide", column, rows[Consumer.CHANGES], table=name)
            yield from _show(name, column, runners)
            points["x"].append(value)
            points["answers"].append(rows[Consumer.FULL])
            points["changes"].append(rows[Consumer.CHANGES])
            for runner in runners:
                line = f"{runner.name}, {runner.consumer.value}"
                points["ms"].setdefault(line, []).append(1e3 / runner.slides_per_second)
    yield from _sweep_batches(bench)


def _show(name: str, column: str, runners: list[Runner]) -> Iterator[Figure]:
    ours = {runner.consumer: runner for runner in runners if runner.kind is Triegs}
    for runner in runners:
        note = ""
        if runner.kind is not Triegs and runner.consumer in ours:
            note = f" ({show_ratio(ours[runner.consumer].is_faster_than(runner))})"
        row = f"{runner.name}, {runner.consumer.value}"
        yield Figure(row, column, runner.slides_per_second, table=name, note=note)


def _sweep_batches(bench: Bench) -> Iterator[Figure]:
    """Updates per second when an epoch has so many: as Arrow columns, and as tuples."""
    settings = bench.settings
    workload = _path3(settings, slide=settings.window // 3)
    points = bench.series[NAME]["batch"] = {"axis": "updates in an epoch", "x": [], "rate": {}}
    for size in (1, 10, 100, 1_000, 10_000):
        bench.say(f"updates in an epoch: {size:,}")
        row = f"{size:,}"
        if 2 * workload.slide < 2 * size:
            break
        points["x"].append(size)
        for form in ("Arrow", "tuples"):
            bed = Bed(workload).load()
            (slide,) = bed.draw(1)
            updates = list_updates(slide)
            table = _list_as_table(updates)
            epochs = min(len(updates) // size, max(4, 40_000 // size))
            samples = Samples()
            for start in range(0, len(updates), size):
                is_timed = len(samples.seconds) < epochs
                if form == "Arrow":
                    part = table.slice(start, size)
                    (samples if is_timed else Samples()).time(apply_table, bed.engine, part)
                else:
                    some = updates[start : start + size]
                    (samples if is_timed else Samples()).time(bed.engine.apply, some)
            bed.window.apply(slide)
            bed.check()
            rate = size * samples.rate
            points["rate"].setdefault(form, []).append(rate)
            yield Figure(row, f"{form}, k updates/s", rate / 1e3, table="batch")


def _list_as_table(updates: list[tuple[str, object, str, object]]) -> pa.Table:
    ops, subjects, predicates, objects = zip(*updates, strict=True)
    return pa.table(
        {
            "op": pa.array(ops),
            "subject": pa.array(subjects),
            "predicate": pa.array(predicates).dictionary_encode(),
            "object": pa.array(objects),
        }
    )
