"""The answers that one edge takes part in, for each query by hand: dictionaries of sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from bench.answers import Numbers

Row = tuple[int, ...]
Rows = list[Row]


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
        asked: Rows = [
            (message, person, z, y, w)
            for z in replies.out.get(message, none)
            for y in creator.out.get(z, none)
            for w in likes.out.get(z, none)
        ]
        fans = likes.out.get(message, none)
        # A message that replies to itself has this edge in both places: once is enough.
        asked += [
            (v, x, message, person, w)
            for v in replies.into.get(message, none)
            for x in creator.out.get(v, none)
            if not (v == message and x == person)
            for w in fans
        ]
        return asked

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


def zip_edges(columns: tuple[Numbers, Numbers]) -> Iterator[tuple[int, int]]:
    subjects, objects = columns
    return zip(subjects.tolist(), objects.tolist(), strict=True)


def list_edges(edges: Mapping[str, tuple[Numbers, Numbers]]) -> Iterator[tuple[str, int, int]]:
    for label, columns in edges.items():
        for subject, obj in zip_edges(columns):
            yield label, subject, obj


def _drop(index: dict[int, set[int]], key: int, value: int) -> None:
    values = index[key]
    values.discard(value)
    if not values:
        del index[key]
