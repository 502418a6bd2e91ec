"""A window a hundred times as large: how much of its own rate the engine keeps."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from bench.report import Figure
from bench.run import Bench, LeftOut
from bench.sections.beds import keep_bed
from bench.subject import Bed
from bench.timing import Rival, Samples, take_turns
from triegs.workloads import path3

GOAL = 50.0
SLIDES = 20


def measure_large(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    small = keep_bed(bench, "path3 f8")
    bench.say(f"loading a window of {settings.large_window:,}")
    large = Bed(path3(8, window=settings.large_window, slide=settings.slide, seed=settings.seed))
    seconds = load_within(large, settings.large_seconds)
    bench.say("slides of the large window")
    rival = Rival()
    for _ in take_turns(settings.seconds / 2):
        turn = []
        for bed in (large, small):
            samples = Samples()
            for slide in bed.draw(SLIDES):
                samples.time(bed.apply, slide)
                bed.window.apply(slide)
            turn.append(samples)
        rival.add_turn(*turn)
    bench.say("checking the large window")
    large.check()
    small.check()
    row = f"path3 f8, {settings.large_window:,}"
    yield Figure(row, "load M edges/s", settings.large_window / seconds / 1e6)
    yield Figure(row, "maintain /s", rival.ours.rate)
    yield Figure(row, f"at {settings.window:,} /s", rival.theirs.rate)
    yield Figure(row, "share of that", 100 * rival.ratio, "%", GOAL)


def load_within(bed: Bed, seconds: float) -> float:
    """Load the window and say how long it took; `LeftOut` if it takes too long."""
    start = perf_counter()
    for _ in bed.load_parts():
        if perf_counter() - start > seconds:
            raise LeftOut(
                f"{bed.workload.name} with {bed.workload.window:,} edges did not load in "
                f"{seconds:g} s; --large-seconds waits longer"
            )
    return perf_counter() - start
