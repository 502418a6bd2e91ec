"""What a query costs beyond the textbook fragment: against the same one without it.

A path of two edges, and the same path with a filter, a constant, a variable as predicate, or with
both atoms over one pair of variables. *Beside it* asks what such a query does to others: the epoch
of both in one engine, less the epoch of the query alone, over that of the plain path alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from bench.lanes import Lane, run_lanes
from bench.questions import (
    PATH3,
    Question,
    ask_any_label,
    ask_atoms,
    ask_constant,
    ask_filtered,
    ask_parallel,
    ask_path2,
)
from bench.report import Figure, Sense
from bench.run import Bench, Settings
from triegs.workloads import Workload, path2
from triegs.workloads.draw import EdgeSource, Layer

#: How many times the epoch of the plain query.
FILTER_GOAL, CONSTANT_GOAL, PREDICATE_GOAL, PARALLEL_GOAL = 1.5, 1.5, 4.0, 2.5
#: The other query's share of the epoch must not grow.
BESIDE_GOAL = 1.0


class Group(NamedTuple):
    """Questions over one stream with their goals, and the plain one they are held against."""

    workload: Workload
    plain: Question
    others: dict[Question, float]


def list_groups(settings: Settings) -> list[Group]:
    sizes = {"window": settings.window, "slide": settings.slide, "seed": settings.seed}
    paths = path2(8, **sizes)
    middle, last = paths.sources["B"].subjects, paths.sources["B"].objects
    others = {
        ask_filtered("filter, ?y", "y", _halve(middle)): FILTER_GOAL,
        ask_filtered("filter, ?z", "z", _halve(last)): FILTER_GOAL,
        ask_constant("constant, rare", paths.atoms, last.first): CONSTANT_GOAL,
        ask_any_label("variable predicate"): PREDICATE_GOAL,
    }
    return [
        Group(paths, ask_path2(), others),
        _list_kinds(paths),
        Group(_crowd(paths), ask_path2(), {ask_parallel("parallel atoms"): PARALLEL_GOAL}),
    ]


def _list_kinds(paths: Workload) -> Group:
    """Last nodes are of two kinds, and the constant is one of them: half of all match."""
    x, y = paths.sources["A"].subjects, paths.sources["A"].objects
    z = Layer(paths.sources["B"].objects.first, y.size)
    kinds = Layer(10 * z.first, 2)
    sources = {"A": EdgeSource(x, y), "B": EdgeSource(y, z), "C": EdgeSource(z, kinds)}
    workload = replace(paths, sources=sources, shares={"A": 8, "B": 8, "C": 1})
    constant = ask_constant("constant, half", PATH3, kinds.first)
    return Group(workload, ask_atoms("path3", PATH3, "xyzw"), {constant: CONSTANT_GOAL})


def _crowd(paths: Workload) -> Workload:
    """So few nodes that a sixth of all pairs have an edge of a label: some have both."""
    nodes = Layer(0, round((3 * paths.window) ** 0.5))
    return replace(paths, sources=dict.fromkeys("AB", EdgeSource(nodes, nodes)))


def _halve(layer: Layer) -> int:
    return layer.first + layer.size // 2


def measure_classes(bench: Bench) -> Iterator[Figure]:
    for group in list_groups(bench.settings):
        bench.say(f"classes: {', '.join(other.name for other in group.others)}")
        plain = Lane([group.plain])
        alone = {other: Lane([other]) for other in group.others}
        beside = {other: Lane([group.plain, other]) for other in group.others}
        run_lanes(
            group.workload,
            [plain, *alone.values(), *beside.values()],
            bench.settings.seconds * len(group.others),
        )
        for other, goal in group.others.items():
            turns = list(
                zip(plain.middles, alone[other].middles, beside[other].middles, strict=True)
            )
            ratio = median(own / without for without, own, _ in turns)
            share = median((both - own) / without for without, own, both in turns)
            yield Figure(other.name, "without µs", 1e6 * median(plain.middles))
            yield Figure(other.name, "epoch µs", 1e6 * median(alone[other].middles))
            yield Figure(other.name, "ratio", ratio, "x", goal, Sense.AT_MOST)
            yield Figure(other.name, "beside it", share, "x", BESIDE_GOAL, Sense.AT_MOST)
