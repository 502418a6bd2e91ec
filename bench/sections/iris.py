"""Slides per second with IRIs: maintaining and reading all answers, against joining again.

The engine gets strings and gives Arrow dictionary columns of strings; Polars gets the same strings
and keeps categorical columns. The rate of reading is also set against that of ids alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.answers import check
from bench.iris import IriBed, digest_iris
from bench.report import Figure
from bench.run import NO_PEER, Bench, LeftOut
from bench.sections.beds import WORKLOADS, find_peer
from bench.timing import Rival, Samples, take_turns

READING = {
    "path3 f8": 2.5, "path3 f3": 2.0, "star5 b3": 2.5, "spider4x2 b2": 2.0, "reply": 2.5,
}  # fmt: skip
#: IRIs should come at no less than the rate of ids.
RATE = 1.0
#: Slides of one turn.
READ, COMPARED, JOINED = 4, 6, 2


def measure_iris(bench: Bench) -> Iterator[Figure]:
    peer_class = find_peer("polars_categories", "PolarsCategories")
    sizes = bench.settings
    for name, make in WORKLOADS.items():
        bench.say(f"slides of {name} with IRIs")
        workload = make(window=sizes.window, slide=sizes.slide, seed=sizes.seed)
        bed = IriBed(workload)
        bed.load()
        for slide in bed.draw(2):
            bed.apply(slide)
            bed.window.apply(slide)
            bed.read("ids"), bed.read("ntriples")
        bed.check()
        peer = None if peer_class is None else peer_class(workload, bed.window)
        yield from _measure(bench, name, bed, peer)
    if peer_class is None:
        raise LeftOut(f"the peer's columns. {NO_PEER}")


def _measure(bench: Bench, name: str, bed: IriBed, peer: Any) -> Iterator[Figure]:
    reading, rate = Rival(), Rival()
    for turn in take_turns(bench.settings.seconds):
        slides = bed.draw(COMPARED + READ)
        rate.add_turn(*_compare(bed, slides[:COMPARED], turn))
        read, full = Samples(), Samples()
        for slide in slides[COMPARED:]:  # results are dropped: the next one uses their memory
            read.time(bed.apply_and_read, slide, "ntriples")
        found = digest_iris(bed.read("ntriples"))
        if peer:
            for slide in slides[:-JOINED]:
                peer.take(slide)
            for slide in slides[-JOINED:]:
                full.time(peer.apply_and_read, slide)
            check(found, peer.digest(peer.read()), f"{name} against the peer")
        for slide in slides:
            bed.window.apply(slide)
        bed.check(found)
        reading.add_turn(read, full if peer else read)  # without a peer no ratio is shown
    yield Figure(name, "maintain and read IRIs /s", reading.ours.rate)
    yield Figure(name, "read IRIs /s", rate.ours.rate)
    yield Figure(name, "read ids /s", rate.theirs.rate)
    yield Figure(name, "IRIs : ids", rate.ratio, "x", RATE)
    if peer:
        yield Figure(name, "Polars categorical /s", reading.theirs.rate)
        yield Figure(name, "IRIs : Polars", reading.ratio, "x", READING[name])


def _compare(bed: IriBed, slides: list[Any], turn: int) -> tuple[Samples, Samples]:
    """Reading as IRIs and as ids after each slide; who comes first alternates."""
    iris, ids = Samples(), Samples()
    for place, slide in enumerate(slides):
        bed.apply(slide)
        if (place + turn) % 2:
            ids.time(bed.read, "ids")
            iris.time(bed.read, "ntriples")
        else:
            iris.time(bed.read, "ntriples")
            ids.time(bed.read, "ids")
    return iris, ids
