"""What it costs to lose nothing: the log, a checkpoint while updates go on, and recovery.

The engine with a directory and the one without take turns on the same slides, half of `slide` in
and half out. Recovery has a rival that any user could write: read the edges from Parquet and apply
them as one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Figure, Sense
from bench.run import Bench
from bench.sections.large import load_within
from bench.subject import Bed
from bench.timing import Rival, Samples, take_turns
from triegs import Engine
from triegs.workloads import path3
from triegs.workloads.stream import name_iri

LOG_GOAL, RATE_GOAL, PAUSE_GOAL_MS, RECOVERY_GOAL = 85.0, 80.0, 50.0, 2.0
POLICIES: dict[str, str] = {"synced each 100 ms": "100ms", "synced always": "always",
                            "never synced": "never"}  # fmt: skip
SLIDES = 20
CHECKPOINTS = 3


def measure_durability(bench: Bench) -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        yield from _measure_log(bench, Path(folder))
        yield from _measure_checkpoint(bench, Path(folder))


def _measure_log(bench: Bench, folder: Path) -> Iterator[Figure]:
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide // 2, seed=settings.seed)
    plain = Bed(workload).load()
    for row, policy in POLICIES.items():
        bench.say(f"epochs that are logged, {row}")
        engine: Any = Engine.open(folder / policy, sync=policy)
        logged = Bed(workload, engine=engine).load()
        rival = Rival()
        for turn in take_turns(settings.seconds, least=4):
            taken = _run(logged, SLIDES), _run(plain, SLIDES)
            if turn:
                rival.add_turn(*taken)
        logged.check()
        figures = engine.metrics()["durable"]
        engine.close()
        goal = LOG_GOAL if policy == "100ms" else None
        yield Figure(row, "epoch µs", 1e6 * rival.ours.middle, table="the log")
        yield Figure(row, "without a log, µs", 1e6 * rival.theirs.middle, table="the log")
        yield Figure(row, "of the rate without", 100 * rival.ratio, "%", goal, table="the log")
        size = figures["log_bytes"] / (figures["record"] or 1) / 1e3
        yield Figure(row, "kB a record", size, table="the log")


def _run(bed: Bed, slides: int) -> Samples:
    samples = Samples()
    for slide in bed.draw(slides):
        samples.time(bed.apply, slide)
        bed.window.apply(slide)
    return samples


def _measure_checkpoint(bench: Bench, folder: Path) -> Iterator[Figure]:
    settings = bench.settings
    size = settings.large_window
    workload = path3(8, window=size, slide=settings.slide // 2, seed=settings.seed)
    home = folder / "large"
    engine: Any = Engine.open(home, sync="100ms", checkpoint_bytes=1)
    engine.pace_checkpoints(lambda: False)
    bed = Bed(workload, engine=engine)
    bench.say(f"loading {size:,} edges")
    load_within(bed, settings.large_seconds)
    bench.say("checkpoints while updates go on")
    _run(bed, 200)
    engine.pace_checkpoints(lambda: True)
    during, between = Samples(), Samples()
    # The log grows as long as a checkpoint is, then the next begins: both kinds take turns.
    while (figures := engine.metrics()["durable"])["checkpoints"] < CHECKPOINTS:
        taken = during if figures["checkpointing"] else between
        taken.seconds += _run(bed, SLIDES).seconds
    row = f"{size:,} edges"
    table = "a checkpoint"
    yield Figure(row, "seconds", figures["checkpoint_s"], table=table)
    yield Figure(row, "MB", figures["checkpoint_bytes"] / 1e6, table=table)
    share = 100 * between.middle / during.middle
    yield Figure(row, "of the rate without", share, "%", RATE_GOAL, table=table)
    pause = 1e3 * max(during.seconds)
    yield Figure(row, "longest pause ms", pause, "", PAUSE_GOAL_MS, Sense.AT_MOST, table)
    engine.checkpoint()
    edges = _list_edges(bed)
    engine.close()
    del bed, engine
    yield from _measure_recovery(bench, workload.query, edges, home, row)


def _list_edges(bed: Bed) -> pa.Table:
    """What lives now, as a table to apply."""
    parts = []
    for label, (subjects, objects) in bed.window.edges.items():
        labels = pa.array([name_iri(label)]).take(pa.array([0] * len(subjects)))
        parts.append(
            pa.table(
                [pa.array(subjects), labels.dictionary_encode(), pa.array(objects)],
                names=["subject", "predicate", "object"],
            )
        )
    return pa.concat_tables(parts)


def _measure_recovery(
    bench: Bench, query: str, edges: pa.Table, home: Path, row: str
) -> Iterator[Figure]:
    file = home.parent / "edges.parquet"
    pq.write_table(edges, file)
    rival = Rival()
    table = "recovery"
    for number in range(2):
        bench.say(f"recovery, {number + 1}")
        ours, theirs = Samples(), Samples()
        opened: Any = ours.time(Engine.open, home)
        with opened.queries["query1"].snapshot() as snapshot:
            support = snapshot.support()
        opened.close()
        del opened
        loaded = theirs.time(_load, query, file)
        with loaded.queries["query1"].snapshot() as snapshot:
            assert snapshot.support() == support
        del loaded
        rival.add_turn(ours, theirs)
    yield Figure(row, "opening s", rival.ours.middle, table=table)
    yield Figure(row, "from Parquet s", rival.theirs.middle, table=table)
    yield Figure(
        row, "times that", 1 / rival.ratio, "x", RECOVERY_GOAL, Sense.AT_MOST, table
    )  # fmt: skip


def _load(query: str, file: Path) -> Engine:
    engine = Engine()
    engine.register(query)
    engine.apply(pq.read_table(file))
    return engine
