"""When two results are equal: a checksum of answers, and the checksum that the edges imply.

The checksum of a result is the sum over its answers of multiplicity times the product of a hash
per value, modulo 2 ** 64. It knows no order, counts multiplicities, and, unlike a hash of whole
rows, can be had without listing the answers: along a tree of atoms, sums and products change places
(`imply_digest`). So it also judges results that are too large to join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.workloads import Atom

Numbers = NDArray[np.int64]
Edges = Mapping[str, tuple[Numbers, Numbers]]
Weights = NDArray[np.uint64]

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class WrongAnswer(AssertionError):
    """A measured run gave other answers than its judge."""


class Digest(NamedTuple):
    """The number of answers with multiplicity, and their checksum."""

    total: int
    checksum: int

    def __add__(self, other: object) -> Digest:
        if not isinstance(other, Digest):
            return NotImplemented
        return Digest(self.total + other.total, (self.checksum + other.checksum) & MASK)

    def __sub__(self, other: Digest) -> Digest:
        """What the signed changes from the other to this have: a digest is linear."""
        return Digest(self.total - other.total, (self.checksum - other.checksum) & MASK)


def check(found: Digest, expected: Digest, what: str) -> None:
    if found != expected:
        raise WrongAnswer(f"{what}: found {found}, expected {expected}")


def digest_columns(columns: Sequence[Numbers], counts: Numbers | None = None) -> Digest:
    """Of rows by columns, in the order of the query's head; each counts once unless told."""
    rows = len(columns[0])
    weights = np.ones(rows, np.uint64) if counts is None else counts.astype(np.uint64)
    total = rows if counts is None else int(counts.sum())
    for place, column in enumerate(columns):
        weights *= hash_values(place, column)
    return Digest(total, int(weights.sum(dtype=np.uint64)))


def imply_digest(atoms: Iterable[Atom], head: Sequence[str], edges: Edges) -> Digest:
    """The digest of the query's answers over these edges; its atoms form a tree of variables.

    Cost: the edges by the logarithm of their number.
    """
    atoms = tuple(atoms)
    columns: dict[str, list[Numbers]] = {}
    for label, subject, obj in atoms:
        columns.setdefault(subject, []).append(edges[label][0])
        columns.setdefault(obj, []).append(edges[label][1])
    if len(columns) != len(atoms) + 1:
        raise ValueError("the atoms form no tree of variables")
    domains = {name: np.unique(np.concatenate(found)) for name, found in columns.items()}

    def collect(name: str, came_by: int) -> Weights:
        """Two sums for each value, over all that hangs below it but for one atom."""
        below = np.ones((2, len(domains[name])), np.uint64)
        if name in head:
            below[1] = hash_values(head.index(name), domains[name])
        for place, atom in enumerate(atoms):
            if place == came_by or name not in (atom.subject, atom.object):
                continue
            here, there = edges[atom.label]
            other = atom.object
            if name == atom.object:
                here, there, other = there, here, atom.subject
            targets = np.searchsorted(domains[name], here)
            values = collect(other, place)[:, np.searchsorted(domains[other], there)]
            for factor, row in zip(below, values, strict=True):
                sums = np.zeros(len(factor), np.uint64)
                np.add.at(sums, targets, row)
                factor *= sums
        return below

    total, checksum = collect(atoms[0].subject, -1).sum(axis=1, dtype=np.uint64).tolist()
    return Digest(total, checksum)


def list_digest(atoms: Iterable[Atom], head: Sequence[str], edges: Edges) -> Digest:
    """The digest by listing the answers, value by value in the order of the head.

    For cycles, which are no trees. The head has all variables, each next to one before it; no edge
    is there twice. Cost: a set intersection for each beginning of an answer.
    """
    ways: dict[tuple[str, bool], dict[int, set[int]]] = {}
    sources: list[list[tuple[dict[int, set[int]], int]]] = [[] for _ in head]
    for atom in atoms:
        near, far = sorted((head.index(atom.subject), head.index(atom.object)))
        is_forward = head[near] == atom.subject
        if (key := (atom.label, is_forward)) not in ways:
            ways[key] = _group(*edges[atom.label][:: 1 if is_forward else -1])
        sources[far].append((ways[key], near))
    starts = [way for some in sources for way, near in some if near == 0]
    rows: list[tuple[int, ...]] = [(value,) for value in set().union(*starts)]
    none: set[int] = set()
    for some in sources[1:]:
        if not some:
            raise ValueError("a variable of the head is next to none before it")
        rows = [
            (*row, value)
            for row in rows
            for value in set.intersection(*(way.get(row[near], none) for way, near in some))
        ]
    return digest_columns(list(np.array(rows, np.int64).reshape(-1, len(head)).T))


def judge(atoms: Sequence[Atom], head: Sequence[str], edges: Edges) -> Digest:
    """What the edges imply: along the tree of variables, or by listing if there is a cycle."""
    names = {name for atom in atoms for name in atom[1:]}
    is_tree = len(names) == len(atoms) + 1
    return (imply_digest if is_tree else list_digest)(atoms, head, edges)


def _group(keys: Numbers, values: Numbers) -> dict[int, set[int]]:
    found: defaultdict[int, set[int]] = defaultdict(set)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        found[key].add(value)
    return found


def hash_values(place: int, values: Numbers) -> Weights:
    """A hash of each value that differs by column; odd, so that no product loses all its bits."""
    mixed = values.astype(np.uint64) + np.uint64((place + 1) * GOLDEN & MASK)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    mixed |= np.uint64(1)
    return mixed
