"""One update per epoch: `Engine.apply` of a list of one tuple, with integers and with strings; and
one timed event: `Engine.push` of it, and `Engine.advance` by one slide, in which another expires.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

import pyarrow as pa

from bench.answers import check, imply_digest
from bench.iris import IriBed
from bench.report import Figure, Sense
from bench.run import Bench
from bench.sections.windows import WindowedBed
from bench.subject import Bed
from bench.timing import Samples, take_turns
from triegs.workloads import Slide, path3

#: Microseconds: the median and the 99th of a hundred.
GOALS = {"strings": (8.0, 35.0), "integers": (6.0, 30.0)}
TIMED = "integers, push and advance"
Update = tuple[str, object, str, object]
Event = tuple[int, object, str, object]


def measure_single(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    beds = {"strings": IriBed(workload).load(), "integers": Bed(workload).load()}
    samples = {kind: Samples() for kind in beds}
    timed, timed_samples = WindowedBed(workload, slide=1), Samples()
    timed.load(settings.large_seconds)
    for turn in take_turns(settings.seconds):
        bench.say("single updates")
        for kind, bed in beds.items():
            (slide,) = bed.draw(1)
            updates = list_updates(slide)
            gc.collect()
            gc.freeze()  # what the benchmark itself keeps is no work for the collector
            _apply_each(bed, updates, samples[kind] if turn else Samples())
            gc.unfreeze()
            bed.window.apply(slide)
        events = list_events(timed.make_events(next(timed.stream)))
        gc.collect()
        gc.freeze()
        _push_each(timed, events, timed_samples if turn else Samples())
        gc.unfreeze()
    for kind, bed in beds.items():
        expected = imply_digest(workload.atoms, workload.head, bed.window.edges)
        check(bed.digest(), expected, f"single updates, {kind}")
        middle, tail = GOALS[kind]
        found = samples[kind]
        yield Figure(kind, "median µs", 1e6 * found.middle, "", middle, Sense.AT_MOST)
        yield Figure(kind, "p99 µs", 1e6 * found.percentile(0.99), "", tail, Sense.AT_MOST)
        yield Figure(kind, "updates", len(found.seconds))
    timed.check()
    yield Figure(TIMED, "median µs", 1e6 * timed_samples.middle)
    yield Figure(TIMED, "p99 µs", 1e6 * timed_samples.percentile(0.99))
    yield Figure(TIMED, "updates", len(timed_samples.seconds))


def list_updates(slide: Slide) -> list[Update]:
    """The rows of a slide as tuples, deletions and insertions in turn."""
    table = slide.table
    subjects, objects = table["subject"].to_pylist(), table["object"].to_pylist()
    signs = ["+" if op > 0 else "-" for op in slide.ops.tolist()]
    rows = list(zip(signs, subjects, table["predicate"].to_pylist(), objects, strict=True))
    half = len(rows) // 2
    return [row for pair in zip(rows[:half], rows[half:], strict=True) for row in pair]


def list_events(table: pa.Table) -> list[Event]:
    """The rows of a table as tuples."""
    names = ("time", "subject", "predicate", "object")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _push_each(bed: WindowedBed, events: list[Event], samples: Samples) -> None:
    push, advance, note = bed.engine.push, bed.engine.advance, samples.seconds.append
    for event in events:
        start = perf_counter()
        push([event])
        advance(event[0])
        note(perf_counter() - start)


def _apply_each(bed: Bed, updates: list[Update], samples: Samples) -> None:
    apply, note = bed.engine.apply, samples.seconds.append
    for update in updates:  # no call between the clock and the engine: each would show
        start = perf_counter()
        apply([update])
        note(perf_counter() - start)
