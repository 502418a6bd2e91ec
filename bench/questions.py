"""Queries of every class over one stream of edges, each with a judge that knows only the edges.

Labels are A, B and C, nodes are integers. A judge keeps the edges that an atom matches once its
filter or constant has been applied, and lets `judge` find what they imply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.answers import MASK, Digest, Edges, Numbers, digest_columns, hash_values, judge
from bench.subject import to_numbers
from triegs.workloads import Atom
from triegs.workloads.stream import NAMESPACE, name_iri

LABELS = "ABC"
PATH2 = (Atom("A", "x", "y"), Atom("B", "y", "z"))
TRIANGLE = (Atom("A", "x", "y"), Atom("B", "y", "z"), Atom("C", "z", "x"))
STAR = tuple(Atom(label, "y", name) for label, name in zip(LABELS, "abc", strict=True))
PATH3 = (*PATH2, Atom("C", "z", "w"))

Matches = Callable[[Numbers, Numbers], NDArray[np.bool_]]


@dataclass(frozen=True)
class Question:
    """A query in pieces, so that it can be asked in other words, and its judge.

    Without a head it is an `ASK`.
    """

    name: str
    head: tuple[str, ...]
    patterns: tuple[str, ...]
    judge: Callable[[Edges], Digest]
    rest: str = ""

    @property
    def text(self) -> str:
        shown = " ".join(f"?{name}" for name in self.head)
        form = f"SELECT {shown} WHERE" if self.head else "ASK"
        return f"PREFIX : <{NAMESPACE}>\n{form} {{ {' . '.join(self.patterns)} {self.rest} }}"

    def reword(self, chance: random.Random) -> Question:
        """The same query with other variables and its atoms in another order."""
        names = sorted(set(re.findall(r"\?(\w+)", self.text)))
        drawn = chance.sample([f"v{i}" for i in range(50)], len(names))
        new = dict(zip(names, drawn, strict=True))

        def rename(text: str) -> str:
            return re.sub(r"\?(\w+)", lambda found: f"?{new[found[1]]}", text)

        return replace(
            self,
            head=tuple(new[name] for name in self.head),
            patterns=tuple(chance.sample([*map(rename, self.patterns)], len(self.patterns))),
            rest=rename(self.rest),
        )

    def digest(self, rows: pa.Table) -> Digest:
        """Of the answers as an Arrow table of values; a predicate counts by its place."""
        if not self.head:
            return Digest(rows.num_rows, 0)
        if not rows.num_rows:
            return Digest(0, 0)
        *columns, counts = (_number(column) for column in rows.columns)
        return digest_columns(columns, counts)


def ask_atoms(name: str, atoms: Sequence[Atom], head: Sequence[str]) -> Question:
    """Plain atoms, of which some variables are shown."""
    return Question(name, tuple(head), _write(atoms), lambda edges: judge(atoms, head, edges))


def ask_path2(name: str = "path2") -> Question:
    return ask_atoms(name, PATH2, "xyz")


def ask_filtered(name: str, variable: str, least: int) -> Question:
    """The path of two whose middle or last node is above a number."""
    label = {"y": "A", "z": "B"}[variable]

    def find(edges: Edges) -> Digest:
        return judge(PATH2, "xyz", _keep(edges, label, lambda _, objects: objects > least))

    return Question(
        name, tuple("xyz"), _write(PATH2), find, f"FILTER(?{variable} > {least})"
    )  # fmt: skip


def ask_values(name: str, values: Iterable[int]) -> Question:
    """The path of two through some nodes."""
    nodes = sorted(values)

    def find(edges: Edges) -> Digest:
        return judge(PATH2, "xyz", _keep(edges, "A", lambda _, objects: np.isin(objects, nodes)))

    listed = " ".join(map(str, nodes))
    return Question(name, tuple("xyz"), _write(PATH2), find, f"VALUES ?y {{ {listed} }}")


def ask_constant(name: str, atoms: Sequence[Atom], value: int) -> Question:
    """A path of which the last node is that one."""
    head = [atoms[0].subject, *(atom.object for atom in atoms[:-1])]
    last = atoms[-1]

    def find(edges: Edges) -> Digest:
        kept = _keep(edges, last.label, lambda _, objects: objects == value)
        return judge(atoms, head, kept)

    patterns = (*_write(atoms[:-1]), f"?{last.subject} :{last.label} {value}")
    return Question(name, tuple(head), patterns, find)


def ask_any_label(name: str) -> Question:
    """The path of two whose first edge may have any label, which is shown."""
    head = tuple("xpyz")

    def find(edges: Edges) -> Digest:
        found = Digest(0, 0)
        for label in edges:
            some = judge((Atom("any", "x", "y"), PATH2[1]), head, {**edges, "any": edges[label]})
            place = hash_values(head.index("p"), np.array([LABELS.index(label)]))
            found += Digest(some.total, some.checksum * int(place[0]) & MASK)
        return found

    return Question(name, head, ("?x ?p ?y", *_write(PATH2[1:])), find)


def ask_parallel(name: str) -> Question:
    """Pairs with an edge of both labels."""

    def find(edges: Edges) -> Digest:
        one, other = (set(zip(*(end.tolist() for end in edges[n]), strict=True)) for n in "AB")
        both = np.array(sorted(one & other), np.int64).reshape(-1, 2)
        return digest_columns([both[:, 0], both[:, 1]])

    return Question(name, ("x", "y"), ("?x :A ?y", "?x :B ?y"), find)


def ask_whether(name: str, atoms: Sequence[Atom]) -> Question:
    """Whether there is any answer."""

    def find(edges: Edges) -> Digest:
        return Digest(int(judge(atoms, "xyzw", edges).total > 0), 0)

    return Question(name, (), _write(atoms), find)


def _write(atoms: Iterable[Atom]) -> tuple[str, ...]:
    return tuple(f"?{subject} :{label} ?{obj}" for label, subject, obj in atoms)


def _keep(edges: Edges, label: str, matches: Matches) -> Edges:
    """The edges with only those of one label that match."""
    chosen = matches(*edges[label])
    subjects, objects = edges[label]
    return {**edges, label: (subjects[chosen], objects[chosen])}


def _number(column: pa.ChunkedArray) -> Numbers:
    """Integers as they are; predicates as their places among the labels."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return to_numbers(column)
    places = {name_iri(label): place for place, label in enumerate(LABELS)}
    return np.array([places[text] for text in column.to_pylist()], np.int64)
