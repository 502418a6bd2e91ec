# ruff: noqa: T201
"""Does an aggregate do? The same stream and window, read four ways.

Run it with `python -m bench.micro.aggregate_only [--quick]`. Payments of many accounts go through a
window that slides 100 times; after each slide the result by account is read as Arrow.

- *aggregate*: `Engine.aggregate`, which keeps no answers;
- *query*: the registered query ``SELECT ?who (SUM(?v) AS ?r) { ?who :paid ?v } GROUP BY ?who``;
- *answers*: the registered query ``SELECT ?who ?v { ?who :paid ?v }``, its answers read and
  aggregated by Polars;
- *recompute*: the events of the window, kept in NumPy arrays, aggregated by Polars.

Figures are milliseconds per slide, the median: for publishing the slide and for reading the result.
Events are pushed before; what that takes is the same for all but *recompute*. Answers are checked
at each slide.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from triegs import Engine, Window

PREFIXES = {"": "http://ex/"}
PAID = "<http://ex/paid>"
SLIDE_MS = 1_000
SLIDES = 60
MOST_SECONDS = 10.0  # per figure
FUNCTIONS = ("count", "sum", "min", "max")
DISPLACEMENT = 0.1


class Workload(NamedTuple):
    """Events by arrival, and the numbers that describe them."""

    accounts: int
    per_slide: int
    slides_in_window: int
    times: Any
    who: Any
    values: Any

    @property
    def window(self) -> Window:
        return Window(SLIDE_MS * self.slides_in_window, slide=SLIDE_MS)


def draw(accounts: int, per_slide: int, slides_in_window: int, order: str) -> Workload:
    random = np.random.default_rng(7)
    count = per_slide * (slides_in_window + SLIDES)
    times = np.arange(count) * SLIDE_MS // per_slide + 1
    if order == "displaced":
        late = random.uniform(0, DISPLACEMENT * SLIDE_MS * slides_in_window, count)
        times = times[np.argsort(times + late, kind="stable")]
    who, values = random.integers(0, accounts, count), random.integers(0, 10_000, count)
    return Workload(accounts, per_slide, slides_in_window, times, who, values)


class Timed(NamedTuple):
    publish: float
    read: float


def fold(frame: Any, function: str) -> dict[int, int]:
    column = pl.col("v")
    chosen = {"count": pl.len(), "sum": column.sum(), "min": column.min(), "max": column.max()}
    found = frame.group_by("who").agg(chosen[function].alias("r"))
    return dict(zip(found["who"].to_list(), found["r"].to_list(), strict=True))


def run_engine(
    work: Workload, make: Callable[[Engine], Callable[[], Any]], check: Callable[[int, Any], None]
) -> Timed:
    engine = Engine(prefixes=PREFIXES)
    read = make(engine)
    table = pa.table({
        "time": pa.array(work.times), "subject": pa.array(work.who),
        "predicate": pa.array([PAID] * len(work.times)).dictionary_encode(),
        "object": pa.array(work.values),
    })  # fmt: skip
    engine.push(table)
    first = work.slides_in_window * SLIDE_MS
    engine.advance(to=first)
    read()
    publish, reading = [], []
    for slide in range(1, SLIDES + 1):
        start = perf_counter()
        engine.advance(to=first + slide * SLIDE_MS)
        middle = perf_counter()
        found = read()
        publish.append(middle - start)
        reading.append(perf_counter() - middle)
        check(first + slide * SLIDE_MS, found)
        if sum(publish) + sum(reading) > MOST_SECONDS:
            break
    engine.close()
    return Timed(float(np.median(publish)) * 1e3, float(np.median(reading)) * 1e3)


def make_aggregate(work: Workload, function: Any) -> Callable[[Engine], Callable[[], Any]]:
    def make(engine: Engine) -> Callable[[], Any]:
        found = engine.aggregate(
            "?who :paid ?v", ["?who"], function, work.window, value="?v", numbers="integer"
        )
        return lambda: found.read(terms="python").table

    return make


def make_query(work: Workload, function: str) -> Callable[[Engine], Callable[[], Any]]:
    def make(engine: Engine) -> Callable[[], Any]:
        called = f"{function.upper()}(?v) AS ?value"
        query = engine.register(
            f"SELECT ?who ({called}) {{ ?who :paid ?v }} GROUP BY ?who", window=work.window
        )

        def read() -> Any:
            with query.snapshot() as snapshot:
                return snapshot.to_arrow("python")

        return read

    return make


def make_answers(work: Workload, function: str) -> Callable[[Engine], Callable[[], Any]]:
    def make(engine: Engine) -> Callable[[], Any]:
        query = engine.register("SELECT ?who ?v { ?who :paid ?v }", window=work.window)

        def read() -> Any:
            with query.snapshot() as snapshot:
                table = snapshot.to_arrow("python")
            frame: Any = pl.from_arrow(table)
            m, v = pl.col("multiplicity"), pl.col("v")
            chosen = {"count": m.sum(), "sum": (v * m).sum(), "min": v.min(), "max": v.max()}
            return frame.group_by("who").agg(chosen[function].alias("value")).to_arrow()

        return read

    return make


def run_recompute(work: Workload, function: str) -> Timed:
    order = np.argsort(work.times, kind="stable")
    times, who, values = work.times[order], work.who[order], work.values[order]
    spent = []
    first = work.slides_in_window * SLIDE_MS
    for slide in range(1, SLIDES + 1):
        start = perf_counter()
        now = first + slide * SLIDE_MS
        low, high = np.searchsorted(times, [now - work.window.width, now], side="right")
        fold(pl.DataFrame({"who": who[low:high], "v": values[low:high]}), function)
        spent.append(perf_counter() - start)
    return Timed(0.0, float(np.median(spent)) * 1e3)


def make_check(work: Workload, function: str) -> Callable[[int, Any], None]:
    """Compares a result with that of the window's events, at every tenth slide."""

    def check(now: int, found: Any) -> None:
        if now // SLIDE_MS % 10:
            return
        is_in = (work.times > now - work.window.width) & (work.times <= now)
        expected = fold(pl.DataFrame({"who": work.who[is_in], "v": work.values[is_in]}), function)
        rows = zip(found.column("who").to_pylist(), found.column("value").to_pylist(), strict=True)
        assert dict(rows) == expected, (function, now)

    return check


def main(quick: bool) -> None:
    print(f"# {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print("| ms per slide | accounts | in, out | window | aggregate | query | answers | recompute |"
          " query / aggregate |")  # fmt: skip
    print("| --- " * 9 + "|")
    shapes = [(1_000, 1_000, 30), (100, 10_000, 30), (10_000, 1_000, 300)]
    for accounts, per_slide, slides in shapes[: 1 if quick else None]:
        for order in ("in order", "displaced"):
            work = draw(accounts, per_slide, slides, order)
            for function in FUNCTIONS:
                check = make_check(work, function)
                found = [
                    run_engine(work, make(work, function), check)
                    for make in (make_aggregate, make_query, make_answers)
                ]
                found.append(run_recompute(work, function))
                ratio = sum(found[1]) / sum(found[0])
                cells = [f"{each.publish:.2f} + {each.read:.2f}" for each in found]
                print(
                    f"| {function}, {order} | {accounts:,} | {per_slide:,} | "
                    f"{per_slide * slides:,} | {' | '.join(cells)} | {ratio:.1f}x |",
                    flush=True,
                )


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
