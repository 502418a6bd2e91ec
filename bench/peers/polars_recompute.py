"""The peer: compute the answers of the whole window again on each slide, in Polars on one thread.

The joins are as one would write them by hand: legs before the body, each on the one variable that
two sides share. Answers are rows; an answer that counts twice is two rows, so nothing is grouped.
What the head does not show is counted below the last variable that it shows, and joined as a count;
where it lies between two that are shown, the joined rows are grouped.
Eager or lazy is chosen by shape, the faster in trials; the streaming engine was slower there. A
count alone lists nothing: it groups and multiplies along the tree of atoms. Set
``POLARS_MAX_THREADS=1`` before this module is imported.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import polars as pl

from bench.answers import Digest, digest_columns
from bench.window import Window
from triegs.workloads import Slide, Workload

#: A place in the atoms, or two trees to be joined.
Tree = int | tuple["Tree", "Tree"]


class Plan(NamedTuple):
    tree: Tree
    is_lazy: bool


PLANS = {
    "path3": Plan(((0, 1), 2), is_lazy=True),
    "star5": Plan((((0, 1), 2), (3, 4)), is_lazy=False),
    "spider4x2": Plan((((0, 1), (2, 3)), ((4, 5), (6, 7))), is_lazy=False),
    "reply": Plan(((0, 2), (1, 3)), is_lazy=True),
    "path5-prefix": Plan((0, 1), is_lazy=True),
    "path2-ends": Plan((0, 1), is_lazy=True),
    "triangle": Plan(((0, 1), 2), is_lazy=True),
    # Two halves that meet at both ends: half the time of atom after atom.
    "rectangle": Plan(((0, 1), (2, 3)), is_lazy=False),
    "diamond": Plan(((0, 2), (1, 3)), is_lazy=False),
    # Every edge that closes a triangle as soon as it can.
    "clique4": Plan((((((0, 1), 3), 2), 4), 5), is_lazy=False),
}


class PolarsRecompute:
    """Answers of one workload from its window as it stands."""

    def __init__(self, workload: Workload, window: Window) -> None:
        if pl.thread_pool_size() != 1:
            raise RuntimeError("set POLARS_MAX_THREADS=1 before polars is imported")
        self._atoms = workload.atoms
        self._head = workload.head
        self._window = window
        self._plan = PLANS[workload.name.split()[0]]
        atoms_of = Counter(v for atom in self._atoms for v in (atom.subject, atom.object))
        self._variables = set(atoms_of)
        self._centre = atoms_of.most_common(1)[0][0]

    def apply_and_read(self, slide: Slide) -> pl.DataFrame:
        self._window.apply(slide)
        return self.read()

    def apply_and_count(self, slide: Slide) -> int:
        self._window.apply(slide)
        return self.count()

    def read(self) -> pl.DataFrame:
        """All answers, a row each."""
        frames: list[Any] = self._frames()
        if self._plan.is_lazy:
            frames = [frame.lazy() for frame in frames]
        joined, shown = self._join(self._plan.tree, frames)
        for place, atom in enumerate(self._atoms):
            if atom.subject in shown and atom.object not in shown:
                counts = self._count_along(place, self._frames())
                joined = joined.join(counts.lazy(), on=atom.subject)
        if hidden := shown - set(self._head):
            shown -= hidden
            joined = joined.group_by(sorted(shown)).agg(pl.len().cast(pl.Int64).alias("n"))
        answers: pl.DataFrame = joined.collect() if self._plan.is_lazy else joined
        return answers

    def count(self) -> int:
        """The number of answers; listed if the atoms form no tree."""
        if len(self._variables) != len(self._atoms) + 1:
            return int(self.read().height)
        counts = self._count_below(self._centre, -1, self._frames())
        return 0 if counts is None else int(counts["n"].sum())

    def digest(self, answers: pl.DataFrame) -> Digest:
        columns = [answers[name].to_numpy() for name in self._head]
        return digest_columns(columns, answers["n"].to_numpy() if "n" in answers.columns else None)

    def _frames(self) -> list[pl.DataFrame]:
        edges = self._window.edges
        return [
            pl.DataFrame({subject: edges[label][0], obj: edges[label][1]})
            for label, subject, obj in self._atoms
        ]

    def _join(self, tree: Tree, frames: list[Any]) -> tuple[Any, set[str]]:
        """The joined frame, lazy if the frames are, and the variables in it."""
        if isinstance(tree, int):
            atom = self._atoms[tree]
            return frames[tree], {atom.subject, atom.object}
        left, left_names = self._join(tree[0], frames)
        right, right_names = self._join(tree[1], frames)
        joined = left.join(right, on=sorted(left_names & right_names))
        return joined, left_names | right_names

    def _count_below(
        self, name: str, came_by: int, frames: list[pl.DataFrame]
    ) -> pl.DataFrame | None:
        """How often each value of a variable counts by the atoms but one; None without any."""
        found: pl.DataFrame | None = None
        for place, atom in enumerate(self._atoms):
            if place == came_by or name not in (atom.subject, atom.object):
                continue
            counts = self._count_along(place, frames, name)
            if found is None:
                found = counts
            else:
                both = found.join(counts, on=name, suffix="_2")
                found = both.select(name, pl.col("n") * pl.col("n_2"))
        return found

    def _count_along(
        self, place: int, frames: list[pl.DataFrame], name: str | None = None
    ) -> pl.DataFrame:
        """How often each value of a variable (else the atom's subject) counts by one atom."""
        atom = self._atoms[place]
        name = atom.subject if name is None else name
        other = atom.object if name == atom.subject else atom.subject
        below = self._count_below(other, place, frames)
        if below is None:
            return frames[place].group_by(name).agg(pl.len().cast(pl.Int64).alias("n"))
        return frames[place].join(below, on=other).group_by(name).agg(pl.col("n").sum())
