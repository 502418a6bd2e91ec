"""A hundred queries of ten shapes over one stream, against the epoch of one query.

Texts differ in the names of variables and in the order of atoms, so what is shared is found by the
engine and not by comparing texts. The one query is each of the ten shapes alone; their median
counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import median

from bench.answers import Digest, check, imply_digest
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Engine, apply_table, digest_batches
from bench.timing import Samples, take_turns
from bench.window import Window
from triegs.workloads import Atom, Workload, path5_prefix

GOAL = 12.0
QUERIES = 100
SLIDES = 4
#: Along x0 -A- x1 -B- x2 -C- x3 -D- x4 -E- x5: the labels of the pattern, and what is shown.
PATHS = [
    ("AB", "012"), ("BC", "123"), ("ABC", "0123"), ("BCD", "1234"), ("CDE", "2345"),
    ("ABCD", "012"), ("ABCDE", "012"), ("AB", "1"), ("DE", "4"),
]  # fmt: skip
Shape = tuple[tuple[Atom, ...], tuple[str, ...]]


def list_shapes() -> list[Shape]:
    shapes: list[Shape] = []
    for labels, shown in PATHS:
        places = ["ABCDE".index(label) for label in labels]
        atoms = [Atom(label, f"x{i}", f"x{i + 1}") for label, i in zip(labels, places, strict=True)]
        shapes.append((tuple(atoms), tuple(f"x{i}" for i in shown)))
    both = (Atom("A", "x", "y"), Atom("A", "v", "y"), Atom("B", "y", "z"))
    return [*shapes, (both, ("x", "v", "y", "z"))]


def rename(shape: Shape, chance: random.Random) -> Shape:
    """The same query in other words."""
    atoms, head = shape
    names = sorted({name for atom in atoms for name in atom[1:]})
    new = dict(zip(names, chance.sample([f"v{i}" for i in range(50)], len(names)), strict=True))
    moved = [Atom(a.label, new[a.subject], new[a.object]) for a in atoms]
    chance.shuffle(moved)
    return tuple(moved), tuple(new[name] for name in head)


class _Many:
    """An engine with some queries on it."""

    def __init__(self, workload: Workload, shapes: list[Shape]) -> None:
        self.engine = Engine("multigraph")
        self.queries = [
            self.engine.register(workload.with_query(*shape).query) for shape in shapes
        ]  # fmt: skip
        self.samples = Samples()

    def digests(self) -> Iterator[Digest]:
        for query in self.queries:
            with query.snapshot() as snapshot:
                yield digest_batches(snapshot)


def measure_sharing(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path5_prefix(3, window=settings.window, slide=settings.slide, seed=settings.seed)
    shapes = list_shapes()
    chance = random.Random(settings.seed)
    drawn = [chance.randrange(len(shapes)) for _ in range(QUERIES)]
    bench.say("registering a hundred queries")
    many = _Many(workload, [rename(shapes[which], chance) for which in drawn])
    alone = [_Many(workload, [shape]) for shape in shapes]
    engines = [many, *alone]
    window, stream = Window(workload), workload.slides()
    load = next(stream)
    window.apply(load)
    for some in engines:
        apply_table(some.engine, load.table)
    bench.say("slides of a hundred queries")
    for turn in take_turns(settings.seconds):
        slides = [next(stream) for _ in range(SLIDES)]
        for slide in slides:
            window.apply(slide)
            _ = slide.table  # made before any clock runs
        for some in engines:
            samples = some.samples if turn else Samples()  # the first turn compiles
            for slide in slides:
                samples.time(apply_table, some.engine, slide.table)
    bench.say("checking a hundred queries")
    expected = [imply_digest(*shape, window.edges) for shape in shapes]
    for which, found in zip(drawn, many.digests(), strict=True):
        check(found, expected[which], f"shape {which} of many")
    for which, some in enumerate(alone):
        (found,) = some.digests()
        check(found, expected[which], f"shape {which} alone")
    one = median(some.samples.middle for some in alone)
    row = f"{QUERIES} queries, {len(shapes)} shapes"
    yield Figure(row, "epoch µs", 1e6 * many.samples.middle)
    yield Figure(row, "one query's µs", 1e6 * one)
    yield Figure(row, "ratio", many.samples.middle / one, "x", GOAL, Sense.AT_MOST)
