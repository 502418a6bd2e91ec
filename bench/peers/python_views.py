"""The peers: one query kept up to date in plain Python, as one would write it for that query alone.

Unlike the dict delta join, which lists what changes, these keep the result itself: what an engine
that only takes a slide in has to be compared with.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bench.answers import Digest, digest_columns
from bench.contest import Consumer
from bench.peers.dict_shapes import Pairs, Row, zip_edges
from triegs.workloads import Slide, Workload


class _View:
    """What both share: a result that is read at the end, to be judged."""

    consumers: ClassVar = frozenset({Consumer.NONE})

    def read(self) -> list[Row]:
        """Every answer with its multiplicity as the last value."""
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def take_changes(self, slide: Slide) -> Any:
        raise NotImplementedError

    def digest(self, rows: list[Row]) -> Digest:
        if not rows:
            return Digest(0, 0)
        *columns, counts = np.array(rows, np.int64).T
        return digest_columns(columns, counts)

    def count_rows(self, rows: list[Row]) -> int:
        return len(rows)


class TriangleSets(_View):
    """``E(a,b) E(b,c) E(c,a)``: one intersection of two sets in C for each changed edge.

    The pattern looks the same from each of its edges. So a changed edge is put in one place only,
    and each triangle found there stands for its three rotations, which for a loop are one. An edge
    goes after its triangles are taken out and comes before they are put in; the answers are a set,
    so those of two changed edges are there once.
    """

    name: ClassVar[str] = "Python sets"

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._edges = Pairs()
        self._answers: set[Row] = set()
        self.take(load)

    def take(self, slide: Slide) -> None:
        out, into, answers = self._edges.out, self._edges.into, self._answers
        for a, b in zip_edges(slide.deletions["E"]):
            for c in out[b] & into[a]:
                answers.difference_update(((a, b, c), (b, c, a), (c, a, b)))
            out[a].discard(b)
            into[b].discard(a)
        for a, b in zip_edges(slide.insertions["E"]):
            out[a].add(b)
            into[b].add(a)
            for c in out[b] & into[a]:
                answers.update(((a, b, c), (b, c, a), (c, a, b)))

    def read(self) -> list[Row]:
        return [(*row, 1) for row in self._answers]


class PathEnds(_View):
    """``A(x,y) B(y,z)`` of which x and z are shown: a dictionary with the number of paths."""

    name: ClassVar[str] = "dict delta join"

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._first, self._second = Pairs(), Pairs()
        self._paths: dict[Row, int] = {}
        self.take(load)

    def take(self, slide: Slide) -> None:
        sources, targets, paths = self._first.into, self._second.out, self._paths
        none: set[int] = set()

        for x, y in zip_edges(slide.deletions["A"]):
            for z in targets.get(y, none):
                if n := paths[x, z] - 1:
                    paths[x, z] = n
                else:
                    del paths[x, z]
            self._first.drop(x, y)
        for y, z in zip_edges(slide.deletions["B"]):
            for x in sources.get(y, none):
                if n := paths[x, z] - 1:
                    paths[x, z] = n
                else:
                    del paths[x, z]
            self._second.drop(y, z)
        for x, y in zip_edges(slide.insertions["A"]):
            for z in targets.get(y, none):
                paths[x, z] = paths.get((x, z), 0) + 1
            self._first.add(x, y)
        for y, z in zip_edges(slide.insertions["B"]):
            for x in sources.get(y, none):
                paths[x, z] = paths.get((x, z), 0) + 1
            self._second.add(y, z)

    def read(self) -> list[Row]:
        return [(*pair, n) for pair, n in self._paths.items()]
