"""A hundred queries in one engine, against the epoch of one query.

Texts differ in the names of variables and in the order of atoms, so what is shared is found by the
engine and not by comparing texts. *Ten shapes* are paths; the one query is each of them alone, and
their median counts. *Ten classes* are queries of every kind over edges among the same nodes; the
one query is a path of three.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from bench.lanes import Lane, run_lanes
from bench.questions import (
    PATH2,
    PATH3,
    STAR,
    TRIANGLE,
    Question,
    ask_any_label,
    ask_atoms,
    ask_constant,
    ask_filtered,
    ask_parallel,
    ask_values,
    ask_whether,
)
from bench.report import Figure, Sense
from bench.run import Bench
from triegs.workloads import Atom, Workload, path3, path5_prefix
from triegs.workloads.draw import EdgeSource, Layer

GOAL = 12.0
QUERIES = 100
#: Along x0 -A- x1 -B- x2 -C- x3 -D- x4 -E- x5: the labels of the pattern, and what is shown.
PATHS = [
    ("AB", "012"), ("BC", "123"), ("ABC", "0123"), ("BCD", "1234"), ("CDE", "2345"),
    ("ABCD", "012"), ("ABCDE", "012"), ("AB", "1"), ("DE", "4"),
]  # fmt: skip


def list_shapes() -> list[Question]:
    shapes = []
    for labels, shown in PATHS:
        places = ["ABCDE".index(label) for label in labels]
        atoms = [Atom(label, f"x{i}", f"x{i + 1}") for label, i in zip(labels, places, strict=True)]
        shapes.append(ask_atoms(f"{labels} {shown}", atoms, [f"x{i}" for i in shown]))
    both = (Atom("A", "x", "y"), Atom("A", "v", "y"), Atom("B", "y", "z"))
    return [*shapes, ask_atoms("A twice", both, "xvyz")]


def mix_labels(paths: Workload) -> Workload:
    """The same labels, all among the same nodes: so there are cycles and pairs of both labels."""
    nodes = Layer(0, paths.sources["B"].subjects.size)
    return replace(paths, sources=dict.fromkeys("ABC", EdgeSource(nodes, nodes)))


def list_classes(nodes: Layer) -> list[Question]:
    middle = nodes.first + nodes.size // 2
    return [
        ask_atoms("path", PATH3, "xyzw"),
        ask_atoms("star", STAR, "yabc"),
        ask_filtered("filter", "y", middle),
        ask_atoms("projection", PATH2, "xz"),
        ask_any_label("variable predicate"),
        ask_parallel("parallel atoms"),
        ask_atoms("triangle", TRIANGLE, "xyz"),
        ask_constant("constant", PATH2, middle),
        ask_values("VALUES", range(middle, middle + 8)),
        ask_whether("ASK", PATH3),
    ]


def measure_sharing(bench: Bench) -> Iterator[Figure]:
    sizes = bench.settings
    paths = path5_prefix(3, window=sizes.window, slide=sizes.slide, seed=sizes.seed)
    shapes = list_shapes()
    yield from _measure(bench, "shapes", paths, shapes, shapes)
    mixed = mix_labels(path3(3, window=sizes.window, slide=sizes.slide, seed=sizes.seed))
    classes = list_classes(mixed.sources["A"].objects)
    yield from _measure(bench, "classes", mixed, classes, classes[:1])


def _measure(
    bench: Bench, kind: str, workload: Workload, questions: list[Question], ones: list[Question]
) -> Iterator[Figure]:
    """A hundred queries of these questions, against some of them alone."""
    chance = random.Random(bench.settings.seed)
    bench.say(f"registering a hundred queries of {len(questions)} {kind}")
    # Each at least once; the rest are drawn.
    drawn = questions + chance.choices(questions, k=QUERIES - len(questions))
    many = Lane([question.reword(chance) for question in drawn])
    alone = [Lane([question]) for question in ones]
    bench.say("slides of a hundred queries")
    run_lanes(workload, [many, *alone], bench.settings.seconds)
    one = [median(turn) for turn in zip(*(lane.middles for lane in alone), strict=True)]
    ratio = median(own / other for own, other in zip(many.middles, one, strict=True))
    row = f"{QUERIES} queries, {len(questions)} {kind}"
    yield Figure(row, "epoch µs", 1e6 * median(many.middles))
    yield Figure(row, "one query's µs", 1e6 * median(one))
    yield Figure(row, "ratio", ratio, "x", GOAL, Sense.AT_MOST)
