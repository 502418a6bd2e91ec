"""Enumeration: one cursor per witness node over one published version.

Dead tuples are never visited: a live tuple has, in each witness child, at least one live extension.
The work between two answers depends on the plan alone. The multiplicity of an answer is the product
of the local weights along its path: the guard's weight, which the live tuples carry, times the
existential marginals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triegs.compiler.plan import Plan, Role
from triegs.errors import MultiplicityOverflow
from triegs.maintain.program import Built
from triegs.maintain.source import LARGEST, Source
from triegs.store.contract import Key, Version


@dataclass(frozen=True, slots=True)
class Level:
    """One cursor: the live tuples of a node by its interface, and what multiplies their weight.

    Numbers are places in the row that is being filled.
    """

    live: Source
    interface: tuple[int, ...]
    binds: tuple[int, ...]
    counts: tuple[tuple[Source, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """How to enumerate one plan: levels, or for a plan without witness nodes a single number."""

    width: int
    levels: tuple[Level, ...]
    total: Source | None


def make_walk(plan: Plan, built: Sequence[Built]) -> Walk:
    """The cursors of a plan over what the program made of its nodes."""
    free = plan.query.free
    place = {name: i for i, name in enumerate(free)}
    if plan.nodes[plan.root].role is Role.EXISTENTIAL:
        return Walk(0, (), built[plan.root].marginal)
    levels = []
    for number in plan.order:
        node, made = plan.nodes[number], built[number]
        counts = tuple(
            (built[c].marginal, tuple(place[v] for v in built[c].interface))
            for c in node.children
            if plan.nodes[c].role is Role.EXISTENTIAL
        )
        if made.live is None:
            raise AssertionError(f"the witness node {node.name} keeps no live tuples")
        interface = tuple(place[v] for v in made.interface)
        binds = tuple(place[v] for v in made.live_order[len(interface) :])
        levels.append(Level(made.live, interface, binds, counts))
    return Walk(len(free), tuple(levels), None)


def enumerate_answers(walk: Walk, version: Version) -> Iterator[tuple[Key, int]]:
    """Every head tuple with positive multiplicity, once, with it; depth first, one cursor a level.

    Memory: one iterator per level. Raises `MultiplicityOverflow` at an answer whose multiplicity
    64 bits cannot hold.
    """
    if walk.total is not None:
        total = version.get(walk.total.primary, ())
        if total:
            yield (), total
        return
    row = [0] * walk.width
    weights = [1] * (len(walk.levels) + 1)
    cursors = [_open(walk.levels[0], version, row)]
    while cursors:
        depth = len(cursors) - 1
        level = walk.levels[depth]
        entry = next(cursors[-1], None)
        if entry is None:
            cursors.pop()
            continue
        key, weight = entry
        for column, value in zip(level.binds, key[len(level.interface) :], strict=True):
            row[column] = value
        weight *= weights[depth]
        for source, columns in level.counts:
            weight *= version.get(source.primary, tuple(row[c] for c in columns))
        weights[depth + 1] = weight
        if depth + 1 < len(walk.levels):
            cursors.append(_open(walk.levels[depth + 1], version, row))
        elif weight > LARGEST:
            raise MultiplicityOverflow("an answer's multiplicity does not fit 64 bits", "answer")
        else:
            yield tuple(row), weight


def _open(level: Level, version: Version, row: Sequence[int]) -> Iterator[tuple[Key, int]]:
    return level.live.read(version, tuple(row[c] for c in level.interface))
