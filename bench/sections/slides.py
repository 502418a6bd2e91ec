"""Slides per second: keeping the answers, keeping and reading them, and computing them anew.

Maintaining is `Engine.apply` of a slide alone. Reading adds a snapshot of the full result in Arrow
columns: integers as integers (`python`), flat or factorised; ids; or the default form. The peer
takes the slide into its window and joins it again. All ratios are against the peer's full result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.answers import Digest, WrongAnswer, check
from bench.report import Figure
from bench.run import NO_PEER, Bench, LeftOut
from bench.sections.beds import each_bed, find_peer
from bench.subject import Bed, digest_table
from bench.timing import Rival, Samples, take_turns
from triegs.workloads import Slide

MAINTAINING = {
    "path3 f8": 35.0, "path3 f3": 14.0, "star5 b3": 40.0, "spider4x2 b2": 40.0, "reply": 20.0,
}  # fmt: skip
READING = {
    "path3 f8": 2.5, "path3 f3": 2.0, "star5 b3": 2.5, "spider4x2 b2": 2.0, "reply": 2.5,
}  # fmt: skip
#: Of a factorised result, on every shape.
FACTORISED = 4.0
#: Slides of one turn: only maintained, then read as values, factorised, then read as ids.
MAINTAINED, READ, READ_RUNS, READ_IDS = 16, 4, 4, 2


def measure_slides(bench: Bench) -> Iterator[Figure]:
    peer_class = find_peer()
    for name, bed in each_bed(bench):
        bench.say(f"slides of {name}")
        peer = None if peer_class is None else peer_class(bed.workload, bed.window)
        yield from _measure(bench, name, bed, peer)
    if peer_class is None:
        raise LeftOut(f"the peer's columns. {NO_PEER}")


def _measure(bench: Bench, name: str, bed: Bed, peer: Any) -> Iterator[Figure]:
    maintaining, reading, factorised = Rival(), Rival(), Rival()
    ids, count = Samples(), Samples()
    for _ in take_turns(bench.settings.seconds):
        slides = bed.draw(MAINTAINED + READ + READ_RUNS + READ_IDS)
        kept, read, runs, rows = _take_our_turn(bed, slides, ids)
        answers = bed.read("python")
        if digest_table(bed.read_runs()) != digest_table(answers):
            raise WrongAnswer(f"{name}: a factorised result has other answers")
        if rows != answers.num_rows:
            raise WrongAnswer(f"{name}: {rows} rows of ids, {answers.num_rows} of values")
        found = digest_table(answers)
        full = read  # without a peer no ratio is shown
        if peer:
            full, theirs = _take_their_turn(bed, slides, peer, count)
            check(found, theirs, f"{name} against the peer")
        else:
            for slide in slides:
                bed.window.apply(slide)
        bed.check(found)
        maintaining.add_turn(kept, full)
        reading.add_turn(read, full)
        factorised.add_turn(runs, full)
    default = Samples()
    for slide in bed.draw(5):
        default.time(bed.apply_and_read, slide, "ntriples")
        bed.window.apply(slide)
    bed.check()
    yield Figure(name, "maintain /s", maintaining.ours.rate)
    yield Figure(name, "and read /s", reading.ours.rate)
    yield Figure(name, "and read runs /s", factorised.ours.rate)
    yield Figure(name, "and read ids /s", ids.rate)
    yield Figure(name, "and read default /s", default.rate)
    if peer:
        yield Figure(name, "Polars /s", maintaining.theirs.rate)
        yield Figure(name, "Polars count /s", count.rate)
        yield Figure(name, "maintain : Polars", maintaining.ratio, "x", MAINTAINING[name])
        yield Figure(name, "and read : Polars", reading.ratio, "x", READING[name])
        yield Figure(name, "and read runs : Polars", factorised.ratio, "x", FACTORISED)


def _take_our_turn(
    bed: Bed, slides: list[Slide], ids: Samples
) -> tuple[Samples, Samples, Samples, int]:
    """Maintaining, reading both layouts, and the rows of the last slide's answers as ids."""
    kept, read, runs = Samples(), Samples(), Samples()
    rows = -1
    for place, slide in enumerate(slides):
        if place < MAINTAINED:
            kept.time(bed.apply, slide)
        elif place < MAINTAINED + READ:
            read.time(bed.apply_and_read, slide, "python")
        elif place < MAINTAINED + READ + READ_RUNS:
            runs.time(bed.apply_and_read_runs, slide)
        else:
            rows = ids.time(bed.apply_and_read, slide, "ids").num_rows
    return kept, read, runs, rows


def _take_their_turn(
    bed: Bed, slides: list[Slide], peer: Any, count: Samples
) -> tuple[Samples, Digest]:
    """The same slides for the peer: counts and full results in turn, and the last of these."""
    full = Samples()
    answers = None
    for place, slide in enumerate(slides):
        left = len(slides) - place
        if left > READ + READ_IDS:
            bed.window.apply(slide)
        elif left % 2 == 0:
            total = count.time(peer.apply_and_count, slide)
            if left == 2 and total != peer.read().height:
                raise WrongAnswer(f"{bed.workload.name}: the peer counts {total}")
        else:
            answers = full.time(peer.apply_and_read, slide)
    return full, peer.digest(answers)
