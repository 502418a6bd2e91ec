"""What keeping numbers costs and gives: `keep=["count", "slice"]` beside liveness alone.

Two engines take the same slides in turn, one of which keeps numbers; the share is its rate by the
other's. Then a star of a billion answers, none of them stored, is read by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answers import WrongAnswer
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed, Engine
from bench.timing import Rival, Samples, take_turns
from triegs.options import KeepName
from triegs.workloads import Workload, path3, star5

KEPT: list[KeepName] = ["count", "slice"]
SHARES = {"path3 f8": 1 / 3, "star5 b3": 1 / 2}
TURN_SLIDES = 16
ARMS, RAYS = 5, 64  # of the star: 64 ** 5 answers
READS = 1000
ONE_GOAL_US, SAMPLE_GOAL_MS = 20.0, 5.0


def measure_payloads(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    sizes = {"window": settings.window, "slide": settings.slide, "seed": settings.seed}
    for name, workload in {"path3 f8": path3(8, **sizes), "star5 b3": star5(**sizes)}.items():
        bench.say(f"slides of {name}")
        yield from _measure_updates(bench, name, workload)
    bench.say("positions of a large star")
    yield from _measure_reads()


def _measure_updates(bench: Bench, name: str, workload: Workload) -> Iterator[Figure]:
    plain, kept = Bed(workload).load(), Bed(workload, keep=KEPT).load()
    rival = Rival()
    for _ in take_turns(bench.settings.seconds):
        times: dict[Bed, Samples] = {plain: Samples(), kept: Samples()}
        for slides in zip(plain.draw(TURN_SLIDES), kept.draw(TURN_SLIDES), strict=True):
            for bed, slide in zip(times, slides, strict=True):
                times[bed].time(bed.apply, slide)
                bed.window.apply(slide)
        rival.add_turn(times[kept], times[plain])
        with kept.query.snapshot() as snapshot, plain.query.snapshot() as scanned:
            found = snapshot.count(), snapshot.support()
            if found != (scanned.count(), scanned.support()):
                raise WrongAnswer(f"{name}: the kept count and support are {found}")
    kept.check()
    yield Figure(name, "liveness /s", rival.theirs.rate)
    yield Figure(name, "count and slice /s", rival.ours.rate)
    yield Figure(name, "share", rival.ratio, "", SHARES[name])


def _measure_reads() -> Iterator[Figure]:
    query = make_star(ARMS, RAYS)
    one, sample, weighted = Samples(), Samples(), Samples()
    random = Random(1)
    with query.snapshot() as snapshot:
        size = len(snapshot)
        if (size, snapshot.count()) != (RAYS**ARMS, RAYS**ARMS):
            raise WrongAnswer(f"a star of {RAYS**ARMS:,} answers has {size:,}")
        places = [random.randrange(size) for _ in range(READS)]
        answers = [one.time(snapshot.__getitem__, place) for place in places]
        check_distinct(answers, places)
        for seed in range(20):
            sample.time(draw, snapshot, seed, False)
            weighted.time(draw, snapshot, seed, True)
    row = f"star of {size:,}"
    yield Figure(row, "one answer µs", one.middle * 1e6, "", ONE_GOAL_US, Sense.AT_MOST)
    yield Figure(row, "sample(1000) ms", sample.middle * 1e3, "", SAMPLE_GOAL_MS, Sense.AT_MOST)
    yield Figure(row, "weighted ms", weighted.middle * 1e3, "", SAMPLE_GOAL_MS, Sense.AT_MOST)


def draw(snapshot: Any, seed: int, is_weighted: bool) -> pa.Table:
    return snapshot.sample(READS, weighted=is_weighted, seed=seed).to_arrow()


def make_star(arms: int, rays: int) -> Any:
    """A query over a centre with so many arms, each of so many rays."""
    engine = Engine("multigraph")
    body = " . ".join(f"?x <http://ex/{arm}> ?y{arm}" for arm in range(arms))
    query = engine.register(f"SELECT * {{ {body} }}", keep=KEPT)
    for arm in range(arms):
        rows = np.arange(rays)
        columns = {"subject": np.zeros(rays, np.int64), "object": 1000 * arm + rows}
        label = pa.array([f"<http://ex/{arm}>"] * rays).dictionary_encode()
        engine.apply(pa.table({**columns, "predicate": label}))
    return query


def check_distinct(answers: list[Any], places: list[int]) -> None:
    """Different positions have different answers, the same the same."""
    if not len(set(answers)) == len(set(places)) == len(set(zip(answers, places, strict=True))):
        raise WrongAnswer("two positions with one answer")
