"""A path of which a prefix is shown, in dictionaries: what follows is a number for each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bench.peers.dict_shapes import Row, Rows, Tables, zip_edges
from triegs.workloads import Slide


class Suffix:
    """``A B C D E`` along a path of which the first three nodes are shown.

    The rest is a count for each third node: how many ways lead on from it.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._ways: dict[str, defaultdict[int, int]] = {c: defaultdict(int) for c in "CDE"}

    def take(self, slide: Slide) -> None:
        self._count_on(slide)
        for label in "AB":
            for subject, obj in zip_edges(slide.deletions[label]):
                self._tables[label].drop(subject, obj)
            for subject, obj in zip_edges(slide.insertions[label]):
                self._tables[label].add(subject, obj)

    def take_changes(self, slide: Slide) -> Rows:
        """Rows of the three nodes and the change of their count."""
        a, b, ways = self._tables["A"], self._tables["B"], self._ways["C"]
        before: dict[int, int] = self._count_on(slide)
        rows: Rows = []

        def expand_a(x: int, y: int, old: bool) -> None:
            for z in b.out.get(y, ()):
                n = before.get(z, ways[z]) if old else ways[z]
                if n:
                    rows.append((x, y, z, -n if old else n))

        def expand_b(y: int, z: int, old: bool) -> None:
            n = before.get(z, ways[z]) if old else ways[z]
            if n:
                rows.extend((x, y, z, -n if old else n) for x in a.into.get(y, ()))

        for label, expand in (("A", expand_a), ("B", expand_b)):
            for subject, obj in zip_edges(slide.deletions[label]):
                expand(subject, obj, True)
                self._tables[label].drop(subject, obj)
        for z, n in before.items():
            change = ways[z] - n
            if change:
                rows += [
                    (x, y, z, change) for y in b.into.get(z, ()) for x in a.into.get(y, ())
                ]  # fmt: skip
        for label, expand in (("A", expand_a), ("B", expand_b)):
            for subject, obj in zip_edges(slide.insertions[label]):
                self._tables[label].add(subject, obj)
                expand(subject, obj, False)
        return rows

    def list_all(self) -> Iterator[Row]:
        a, b, ways = self._tables["A"], self._tables["B"], self._ways["C"]
        for z, n in list(ways.items()):
            if n:
                for y in b.into.get(z, ()):
                    for x in a.into.get(y, ()):
                        yield (x, y, z, n)

    def _count_on(self, slide: Slide) -> dict[int, int]:
        """Bring the counts up to date; those of third nodes as they were, where touched."""
        before: dict[int, int] = {}
        c, d = self._tables["C"], self._tables["D"]
        for_c, for_d, for_e = self._ways["C"], self._ways["D"], self._ways["E"]

        def change_c(x2: int, change: int) -> None:
            before.setdefault(x2, for_c[x2])
            for_c[x2] += change

        def change_d(x3: int, change: int) -> None:
            for_d[x3] += change
            for x2 in c.into.get(x3, ()):
                change_c(x2, change)

        def change_e(x4: int, change: int) -> None:
            for_e[x4] += change
            for x3 in d.into.get(x4, ()):
                change_d(x3, change)

        for sign, edges in ((-1, slide.deletions), (1, slide.insertions)):
            for label in "CDE":
                table = self._tables[label]
                for subject, obj in zip_edges(edges[label]):
                    if sign < 0:
                        table.drop(subject, obj)
                    else:
                        table.add(subject, obj)
                    if label == "C":
                        change_c(subject, sign * for_d[obj])
                    elif label == "D":
                        change_d(subject, sign * for_e[obj])
                    else:
                        change_e(subject, sign)
        return before
