"""The peer: dictionaries of sets, and the answers that each edge of a slide takes part in.

As one would write it in plain Python for one known query: for each label the objects of a subject
and the subjects of an object; an edge that goes is expanded before it is taken out, one that comes
after it was put in. A slide's deletions come first, so each changed answer is listed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np

from bench.answers import Digest, digest_columns
from bench.contest import Consumer
from triegs.workloads import Slide, Workload

Row = tuple[int, ...]
Rows = list[Row]


class Changes(NamedTuple):
    """Answers that went, answers that came, and answers whose count, the last value, changed."""

    gone: Rows
    new: Rows
    counted: Rows


class Pairs:
    """The edges of one label, both ways."""

    def __init__(self) -> None:
        self.out: defaultdict[int, set[int]] = defaultdict(set)
        self.into: defaultdict[int, set[int]] = defaultdict(set)

    def add(self, subject: int, obj: int) -> None:
        self.out[subject].add(obj)
        self.into[obj].add(subject)

    def drop(self, subject: int, obj: int) -> None:
        _drop(self.out, subject, obj)
        _drop(self.into, obj, subject)


#: The answers that an edge takes part in, while it is there.
Expand = Callable[[int, int], Iterable[Row]]
Tables = dict[str, Pairs]


def expand_path3(tables: Tables) -> dict[str, Expand]:
    a_into, b_into = tables["A"].into, tables["B"].into
    b_out, c_out = tables["B"].out, tables["C"].out
    none: set[int] = set()
    return {
        "A": lambda x, y: [
            (x, y, z, w) for z in b_out.get(y, none) for w in c_out.get(z, none)
        ],
        "B": lambda y, z: [
            (x, y, z, w) for x in a_into.get(y, none) for w in c_out.get(z, none)
        ],
        "C": lambda z, w: [
            (x, y, z, w) for y in b_into.get(z, none) for x in a_into.get(y, none)
        ],
    }  # fmt: skip


def expand_star5(tables: Tables) -> dict[str, Expand]:
    leaves = [pairs.out for pairs in tables.values()]

    def along(leg: int) -> Expand:
        def expand(centre: int, leaf: int) -> Iterable[Row]:
            ends: list[Iterable[int]] = [out.get(centre, ()) for out in leaves]
            ends[leg] = (leaf,)
            return product((centre,), *ends)

        return expand

    return {label: along(leg) for leg, label in enumerate(tables)}


def expand_spider(tables: Tables) -> dict[str, Expand]:
    legs = [(tables[f"P{leg}"], tables[f"Q{leg}"]) for leg in range(1, 5)]

    def join(centre: int, leg: int, here: list[tuple[int, int]]) -> Iterator[Row]:
        ends = [
            here if place == leg else
            [(m, e) for m in near.out.get(centre, ()) for e in far.out.get(m, ())]
            for place, (near, far) in enumerate(legs)
        ]  # fmt: skip
        for (m1, e1), (m2, e2), (m3, e3), (m4, e4) in product(*ends):
            yield (centre, m1, e1, m2, e2, m3, e3, m4, e4)

    def along_near(leg: int) -> Expand:
        def expand(centre: int, middle: int) -> Iterable[Row]:
            return join(centre, leg, [(middle, e) for e in legs[leg][1].out.get(middle, ())])

        return expand

    def along_far(leg: int) -> Expand:
        def expand(middle: int, end: int) -> Iterable[Row]:
            for centre in legs[leg][0].into.get(middle, ()):
                yield from join(centre, leg, [(middle, end)])

        return expand

    found: dict[str, Expand] = {}
    for leg in range(4):
        found |= {f"P{leg + 1}": along_near(leg), f"Q{leg + 1}": along_far(leg)}
    return found


def expand_reply(tables: Tables) -> dict[str, Expand]:
    creator, replies, likes = tables["hasCreator"], tables["hasReply"], tables["likedBy"]
    none: set[int] = set()

    def along_creator(message: int, person: int) -> Rows:
        asked = [
            (message, person, z, y, w)
            for z in replies.out.get(message, none)
            for y in creator.out.get(z, none)
            for w in likes.out.get(z, none)
        ]
        fans = likes.out.get(message, none)
        # A message that replies to itself has this edge in both places: once is enough.
        return asked + [
            (v, x, message, person, w)
            for v in replies.into.get(message, none)
            for x in creator.out.get(v, none)
            if not (v == message and x == person)
            for w in fans
        ]

    return {
        "hasCreator": along_creator,
        "hasReply": lambda v, z: [
            (v, x, z, y, w)
            for x in creator.out.get(v, none)
            for y in creator.out.get(z, none)
            for w in likes.out.get(z, none)
        ],
        "likedBy": lambda z, w: [
            (v, x, z, y, w)
            for v in replies.into.get(z, none)
            for x in creator.out.get(v, none)
            for y in creator.out.get(z, none)
        ],
    }


def expand_triangle(tables: Tables) -> dict[str, Expand]:
    out, into = tables["E"].out, tables["E"].into
    none: set[int] = set()

    def expand(s: int, o: int) -> Iterable[Row]:
        """The edge is first, second or third; a set, because a loop may be all of them."""
        thirds = out.get(o, none) & into.get(s, none)
        return {row for x in thirds for row in ((s, o, x), (x, s, o), (o, x, s))}

    return {"E": expand}


EXPANDING = {
    "path3": expand_path3,
    "star5": expand_star5,
    "spider4x2": expand_spider,
    "reply": expand_reply,
    "triangle": expand_triangle,
}


class DictDelta:
    """The answers' changes of one workload; for a reader of all answers also the answers."""

    name: ClassVar[str] = "dict delta join"
    consumers: ClassVar = frozenset({Consumer.NONE, Consumer.CHANGES, Consumer.FULL})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:
        self._tables = {label: Pairs() for label in workload.labels}
        shape = workload.name.split()[0]
        self._suffix = Suffix(self._tables) if shape == "path5-prefix" else None
        self._expand = {} if self._suffix else EXPANDING[shape](self._tables)
        # None while nobody wants them: they are as many as the full result.
        self._answers: dict[Row, int] | None = {} if consumer is Consumer.FULL else None
        if self._answers is None:
            self.take(load)
        else:
            self._keep(self.take_changes(load))

    def take(self, slide: Slide) -> None:
        """Without a reader of all answers only the tables; otherwise the answers too."""
        if self._answers is not None:
            self._keep(self.take_changes(slide))
        elif self._suffix:
            self._suffix.take(slide)
        else:
            for label, subject, obj in _list_edges(slide.deletions):
                self._tables[label].drop(subject, obj)
            for label, subject, obj in _list_edges(slide.insertions):
                self._tables[label].add(subject, obj)

    def read(self) -> list[tuple[Row, int]]:
        """A stable copy, as the answers themselves change with the next slide."""
        if self._answers is None:  # nobody asked before: list them from the tables
            return [(row, 1) for row in self._list_all()]
        return list(self._answers.items())

    def count(self) -> int:
        raise NotImplementedError

    def take_changes(self, slide: Slide) -> Changes:
        if self._suffix:
            return Changes([], [], self._suffix.take_changes(slide))
        gone: Rows = []
        new: Rows = []
        tables, expand = self._tables, self._expand
        for label, subject, obj in _list_edges(slide.deletions):
            gone += expand[label](subject, obj)
            tables[label].drop(subject, obj)
        for label, subject, obj in _list_edges(slide.insertions):
            tables[label].add(subject, obj)
            new += expand[label](subject, obj)
        return Changes(gone, new, [])

    def digest(self, rows: Changes | list[tuple[Row, int]]) -> Digest:
        if isinstance(rows, Changes):
            signed = [(*row, -1) for row in rows.gone] + [(*row, 1) for row in rows.new]
            signed += rows.counted
        else:
            signed = [(*row, count) for row, count in rows]
        if not signed:
            return Digest(0, 0)
        *columns, counts = np.array(signed, np.int64).T
        return digest_columns(columns, counts)

    def count_rows(self, rows: Changes | list[tuple[Row, int]]) -> int:
        return sum(map(len, rows)) if isinstance(rows, Changes) else len(rows)

    def _keep(self, changes: Changes) -> None:
        answers = self._answers
        assert answers is not None
        for row in changes.gone:
            answers.pop(row, None)
        answers |= dict.fromkeys(changes.new, 1)
        for *row, change in changes.counted:
            key = tuple(row)
            count = answers.pop(key, 0) + change
            if count:
                answers[key] = count

    def _list_all(self) -> Iterator[Row]:
        if self._suffix:
            for *row, count in self._suffix.list_all():
                yield from [tuple(row)] * count
            return
        label = next(reversed(self._tables))
        found: dict[Row, None] = {}  # a triangle has three edges of its one label
        for subject, objects in self._tables[label].out.items():
            for obj in objects:
                found |= dict.fromkeys(self._expand[label](subject, obj))
        yield from found


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
            for subject, obj in _zip(slide.deletions[label]):
                self._tables[label].drop(subject, obj)
            for subject, obj in _zip(slide.insertions[label]):
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
            for subject, obj in _zip(slide.deletions[label]):
                expand(subject, obj, True)
                self._tables[label].drop(subject, obj)
        for z, n in before.items():
            change = ways[z] - n
            if change:
                rows += [
                    (x, y, z, change) for y in b.into.get(z, ()) for x in a.into.get(y, ())
                ]  # fmt: skip
        for label, expand in (("A", expand_a), ("B", expand_b)):
            for subject, obj in _zip(slide.insertions[label]):
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
                for subject, obj in _zip(edges[label]):
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


def _drop(index: dict[int, set[int]], key: int, value: int) -> None:
    values = index[key]
    values.discard(value)
    if not values:
        del index[key]


def _zip(columns: tuple[np.ndarray, np.ndarray]) -> Iterator[tuple[int, int]]:
    subjects, objects = columns
    return zip(subjects.tolist(), objects.tolist(), strict=True)


def _list_edges(edges: object) -> Iterator[tuple[str, int, int]]:
    for label, columns in edges.items():  # type: ignore[attr-defined]
        for subject, obj in _zip(columns):
            yield label, subject, obj
