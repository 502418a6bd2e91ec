"""The window grows tenfold, twice: slides per second, and bytes."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report import Figure
from bench.run import Bench
from bench.sections.large import load_within
from bench.subject import Bed
from bench.timing import Samples, take_turns
from triegs.workloads import path3

SLIDES = 20


def measure_growth(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    beds: dict[int, Bed] = {}
    window = settings.window
    while window <= settings.large_window:
        bench.say(f"loading a window of {window:,}")
        beds[window] = Bed(path3(8, window=window, slide=settings.slide, seed=settings.seed))
        load_within(beds[window], settings.large_seconds)
        window *= 10
    samples = {window: Samples() for window in beds}
    for turn in take_turns(settings.seconds):
        bench.say("slides")
        for window, bed in beds.items():
            target = samples[window] if turn else Samples()  # the first turn compiles
            for slide in bed.draw(SLIDES):
                target.time(bed.apply, slide)
                bed.window.apply(slide)
    for window, bed in beds.items():
        bench.say(f"checking a window of {window:,}")
        bed.check()
        row = f"path3 f8, {window:,}"
        yield Figure(row, "maintain /s", samples[window].rate)
        first = samples[settings.window].middle
        yield Figure(row, "share of the first", 100 * first / samples[window].middle, "%")
        yield Figure(row, "bytes/edge", bed.count_bytes() / window)
