"""Zipf hubs against the same stream without them, and one hub that grows to a million edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bench.answers import Numbers, check, imply_digest
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed, Engine, apply_table, digest_batches
from bench.timing import Rival, Samples, take_turns
from triegs.workloads import Atom, path3
from triegs.workloads.stream import name_iri, write_query

EXPONENT = 0.8
GOAL = 5.0
SLIDES = 10
HUBS = (1_000, 10_000, 100_000, 1_000_000)


def measure_zipf(bench: Bench) -> Iterator[Figure]:
    """Only x is shown, so the counts below it are exact sums and not mere liveness."""
    settings = bench.settings
    beds = []
    for exponent in (0.0, EXPONENT):
        bench.say(f"loading exponent {exponent}")
        workload = path3(
            8, window=10 * settings.window, slide=settings.slide, seed=settings.seed, zipf=exponent
        )
        beds.append(Bed(workload.with_query(workload.atoms, ("x",))).load())
    rival = Rival()
    for turn in take_turns(settings.seconds):
        bench.say("slides, even and skewed")
        samples = []
        for bed in beds:
            samples.append(Samples())
            for slide in bed.draw(SLIDES):
                samples[-1].time(bed.apply, slide)
                bed.window.apply(slide)
        if turn:  # the first turn compiles
            rival.add_turn(*samples)
    for bed in beds:
        bed.check()
    row = f"path3 f8 of {10 * settings.window:,}, batch {2 * settings.slide:,}"
    yield Figure(row, "even /s", rival.ours.rate)
    yield Figure(row, f"s = {EXPONENT} /s", rival.theirs.rate)
    yield Figure(row, "slower by", rival.ratio, "x", GOAL, Sense.AT_MOST)


def measure_hub(bench: Bench) -> Iterator[Figure]:
    """``A(x,y) B(y,z)`` with all A edges at one y: one edge out and one in, as its epoch grows."""
    atoms, head = (Atom("A", "x", "y"), Atom("B", "y", "z")), ("x", "y", "z")
    hub, far = -1, np.arange(3)
    for shown in (head, ("z",)):
        engine = Engine("multigraph")
        query = engine.register(write_query(atoms, shown))
        apply_table(engine, _make_table("B", np.full(3, hub), far, 1))
        spokes = np.arange(0, dtype=np.int64)
        for size in HUBS:
            if size > bench.settings.large_window:
                break
            bench.say(f"a hub of {size:,}")
            new = np.arange(len(spokes), size)
            apply_table(engine, _make_table("A", new, np.full(len(new), hub), 1))
            spokes = np.concatenate([spokes, new])
            singles, batches = Samples(), Samples()
            for round_ in range(120):
                gone = int(spokes[(round_ * 7919) % size])
                for sign in ("-", "+"):
                    singles.time(engine.apply, [(sign, gone, name_iri("A"), hub)])
            some = np.random.default_rng(size).choice(spokes, min(256, size), replace=False)
            for _ in range(10):
                for op in (-1, 1):
                    table = _make_table("A", some, np.full(len(some), hub), op)
                    batches.time(apply_table, engine, table)
            edges = {"A": (spokes, np.full(size, hub)), "B": (np.full(3, hub), far)}
            with query.snapshot() as snapshot:
                found = digest_batches(snapshot)
            check(found, imply_digest(atoms, shown, edges), f"a hub of {size}")
            row = f"hub of {size:,}, {' '.join(shown)} shown"
            yield Figure(row, "median µs", 1e6 * singles.middle)
            yield Figure(row, "p99 µs", 1e6 * singles.percentile(0.99))
            yield Figure(row, "256 updates, µs", 1e6 * batches.middle)


def _make_table(label: str, subjects: Numbers, objects: Numbers, op: int) -> pa.Table:
    rows = len(subjects)
    labels = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [name_iri(label)])
    signs = np.full(rows, op, np.int8)
    return pa.table({"op": signs, "subject": subjects, "predicate": labels, "object": objects})
