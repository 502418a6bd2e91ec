"""Aggregates by group over path3: kept, against joining again with Polars and against a count.

The aggregates of all groups are read after each slide. The epoch is `Engine.apply` alone, beside
the same query without aggregates and with ``keep=["count"]``, and beside an engine that also holds
nine times as many edges that never change. Seconds are those of the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answers import Edges, WrongAnswer
from bench.report import Figure, Sense
from bench.run import NO_PEER, Bench, LeftOut
from bench.sections.beds import find_peer
from bench.sections.interval_join import measure_interval_join
from bench.sections.swag import measure_swag
from bench.subject import LOAD_ROWS, Bed, Engine, apply_table
from bench.timing import Rival, Samples, take_turns
from triegs.workloads import Workload, path3

TEXTS = {
    "count": "(COUNT(*) AS ?count)", "sum": "(SUM(?w) AS ?sum)", "min": "(MIN(?w) AS ?min)",
    "max": "(MAX(?w) AS ?max)", "distinct": "(COUNT(DISTINCT ?w) AS ?distinct)",
}  # fmt: skip
#: Aggregates that are asked together, and how many times faster than Polars they are to be.
CASES = {
    ("count", "sum"): 15.0,
    ("min", "max"): 8.0,
    ("distinct",): 8.0,
    ("min", "max", "distinct"): 8.0,
}
EPOCH_GOAL, REST_GOAL = 1.5, 1.3
TURN_SLIDES, PEER_SLIDES, LEAST_TURNS = 8, 2, 4
REST, FAR = 9, 1 << 40  # times the window, and what its nodes are moved by
Rows = Mapping[int, tuple[int, ...]]


class GroupedBed(Bed):
    """A workload whose last variable is aggregated by its first one."""

    def __init__(self, workload: Workload, names: tuple[str, ...]) -> None:
        super().__init__(workload, engine=Engine("multigraph"))
        self.query.close()
        start, body = workload.query.split("SELECT")[0], workload.query.partition("WHERE")[2]
        columns = " ".join(TEXTS[name] for name in names)
        self.query = self.engine.register(f"{start}SELECT ?x {columns} {body} GROUP BY ?x")
        self.names = names

    def load_rest(self) -> GroupedBed:
        """Also load edges that never change, between nodes of their own."""
        sizes = self.workload
        more = path3(8, window=REST * sizes.window, slide=sizes.slide, seed=sizes.seed)
        table = next(more.slides()).table
        for end in ("subject", "object"):
            moved = pa.array(table[end].to_numpy() + FAR)
            table = table.set_column(table.schema.get_field_index(end), end, moved)
        for start in range(0, table.num_rows, LOAD_ROWS):
            apply_table(self.engine, table.slice(start, LOAD_ROWS))
        return self

    def check_rows(self, table: pa.Table, edges: Edges, what: str) -> None:
        columns = [table[name].to_pylist() for name in ("x", *self.names)]
        found = {row[0]: row[1:] for row in zip(*columns, strict=True) if row[0] < FAR}
        compare(found, imply_rows(self.workload, edges, self.names), what)


def measure_aggregates(bench: Bench) -> Iterator[Figure]:
    peer_class = find_peer("polars_groups", "PolarsGroups")
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    for names, goal in CASES.items():
        bench.say(f"{', '.join(names)} of {workload.name}")
        yield from _measure_reads(bench, workload, names, peer_class, goal)
    bench.say(f"epochs of {workload.name}")
    yield from _measure_epochs(bench, workload)
    yield from measure_swag(bench)
    yield from measure_interval_join(bench)
    if peer_class is None:
        raise LeftOut(f"the peer's columns. {NO_PEER}")


def _measure_reads(
    bench: Bench, workload: Workload, names: tuple[str, ...], peer_class: Any, goal: float
) -> Iterator[Figure]:
    bed = GroupedBed(workload, names)
    bed.load()
    peer = None if peer_class is None else peer_class(workload, bed.window)
    joining, pushing = Rival(), Rival()
    for turn in take_turns(bench.settings.seconds, LEAST_TURNS):
        ours, theirs, pushed = (Samples(process_time) for _ in range(3))
        table = None
        for slide in bed.draw(TURN_SLIDES):
            table = ours.time(bed.apply_and_read, slide, "python")
            bed.window.apply(slide)
        assert table is not None
        bed.check_rows(table, bed.window.edges, name_row(workload, names))
        if peer is None:
            continue
        for _ in range(PEER_SLIDES):
            found = theirs.time(peer.join, names)
            check_frame(found, bed, names)
            if "sum" in names:
                check_frame(pushed.time(peer.push), bed, names)
        if turn:  # the first turn compiles and loads libraries, on both sides
            joining.add_turn(ours, theirs)
            if pushed.seconds:
                pushing.add_turn(ours, pushed)
    row = name_row(workload, names)
    if peer is None:
        return
    yield Figure(row, "and read /s", joining.ours.rate)
    yield Figure(row, "Polars /s", joining.theirs.rate)
    yield Figure(row, "and read : Polars", joining.ratio, "x", goal)
    if pushing.theirs.seconds:
        yield Figure(row, "and read : Polars by hand", pushing.ratio, "x")


def _measure_epochs(bench: Bench, workload: Workload) -> Iterator[Figure]:
    names = next(iter(CASES))
    counted = Bed(workload, keep=["count"])
    grouped, larger = GroupedBed(workload, names), GroupedBed(workload, names).load_rest()
    beds: list[Bed] = [bed.load() for bed in (counted, grouped, larger)]
    count, growth = Rival(), Rival()
    for turn in take_turns(bench.settings.seconds, LEAST_TURNS):
        times = [Samples(process_time) for _ in beds]
        for slides in zip(*(bed.draw(2 * TURN_SLIDES) for bed in beds), strict=True):
            for bed, slide, samples in zip(beds, slides, times, strict=True):
                samples.time(bed.apply, slide)
                bed.window.apply(slide)
        if turn:  # the first turn warms up
            count.add_turn(times[0], times[1])
            growth.add_turn(times[1], times[2])
    counted.check()
    for bed in (grouped, larger):
        bed.check_rows(bed.read("python"), bed.window.edges, name_row(workload, names))
    row = name_row(workload, names)
    yield Figure(row, "epoch ms", count.theirs.middle * 1e3, table="epochs")
    yield Figure(
        row, 'epoch : keep=["count"]', count.ratio, "x", EPOCH_GOAL, Sense.AT_MOST, "epochs"
    )
    yield Figure(
        row, f"epoch with {REST + 1}x the edges", growth.ratio, "x", REST_GOAL, Sense.AT_MOST,
        "epochs",
    )  # fmt: skip


def name_row(workload: Workload, names: tuple[str, ...]) -> str:
    return f"{workload.name}, {' '.join(names).upper()}"


# Judging


def compare(found: Rows, expected: Rows, what: str) -> None:
    if found != expected:
        different = [key for key in found.keys() | expected if found.get(key) != expected.get(key)]
        raise WrongAnswer(f"{what}: {len(different)} groups are wrong, such as {different[0]}")


def check_frame(found: Any, bed: GroupedBed, names: tuple[str, ...]) -> None:
    from bench.peers.polars_groups import to_rows

    expected = imply_rows(bed.workload, bed.window.edges, names)
    compare(to_rows(found, names), expected, "Polars")


def imply_rows(workload: Workload, edges: Edges, names: tuple[str, ...]) -> Rows:
    """The aggregates of each group, from the edges: along the path, from its end."""
    last = edges[workload.atoms[-1].label][1]
    nodes = np.unique(last)
    counts = dict.fromkeys(nodes.tolist(), 1)
    sums = {node: node for node in nodes.tolist()}
    values = {node: frozenset([node]) for node in nodes.tolist()}
    for atom in reversed(workload.atoms):
        counts = add_up(edges, atom.label, counts)
        sums = add_up(edges, atom.label, sums)
        if {"min", "max", "distinct"} & set(names):
            values = unite(edges, atom.label, values)
    found: dict[str, Callable[[int], int]] = {
        "count": lambda key: counts[key], "sum": lambda key: sums[key],
        "min": lambda key: min(values[key]), "max": lambda key: max(values[key]),
        "distinct": lambda key: len(values[key]),
    }  # fmt: skip
    return {key: tuple(found[name](key) for name in names) for key in counts}


def add_up(edges: Edges, label: str, below: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for subject, target in zip(*(end.tolist() for end in edges[label]), strict=True):
        if target in below:
            found[subject] = found.get(subject, 0) + below[target]
    return found


def unite(
    edges: Edges, label: str, below: Mapping[int, frozenset[int]]
) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    for subject, target in zip(*(end.tolist() for end in edges[label]), strict=True):
        if target in below:
            found.setdefault(subject, set()).update(below[target])
    return {subject: frozenset(values) for subject, values in found.items()}
