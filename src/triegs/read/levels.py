"""The enumeration plan as kernels read it: one level per variable, in a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.enumeration_plan import Count, EnumerationPlan, Level
from triegs.read.kernels.answers import (
    FACTORS,
    FACTORS_AT,
    INSIDE,
    INTERFACE,
    INTERFACE_AT,
    IS_DEEP,
    SET,
    TRIE,
)
from triegs.read.kernels.expansion import END, LEVEL_WORDS, PARENT

NONE = -1


def write_levels(enumeration: EnumerationPlan) -> tuple[Words, int]:
    """The rows of `triegs.read.kernels.answers`, and their number."""
    rows: list[list[int]] = []
    factors: list[Sequence[Count]] = []
    #: The levels whose values lead to the set of a level, and the one whose entry does.
    interfaces: list[list[int]] = []
    inside: list[int] = []
    level_of: dict[int, int] = {}
    ends: list[tuple[Level, int]] = []
    for level in enumeration.levels:
        before = next((at for each, at in ends if goes_on(level, each)), NONE)
        for number, column in enumerate(level.binds):
            is_last = number == len(level.binds) - 1
            above = len(rows) - 1 if number else before
            kind = INSIDE if above != NONE else SET if level.interface else TRIE
            inside.append(above)
            interfaces.append([] if above != NONE else [level_of[c] for c in level.interface])
            level_of[column] = len(rows)
            weighs = int(is_last and level.weighs)
            rows.append([kind, level.relation.root_at, 0, 0, column, weighs, 0, 0, NONE, 0, 0, 0])
            factors.append(level.counts if is_last else ())
        ends.append((level, len(rows) - 1))
    uses = [
        [level_of[c] for _, columns in found for c in columns if level_of[c] != at]
        for at, found in enumerate(factors)
    ]
    needs = [
        [*interfaces[at], *uses[at], *([above] if above != NONE else [])]
        for at, above in enumerate(inside)
    ]
    parents = find_parents(needs)
    for at, row in enumerate(rows):
        row[PARENT] = parents[at]
        row[END] = find_end(parents, at)
        row[IS_DEEP] = int(
            any(
                [key for key in interfaces[each] if key != parents[each]] or uses[each]
                for each in range(at, row[END])
            )
        )
    words = [word for row in rows for word in row]
    for at in range(len(rows)):
        start = LEVEL_WORDS * at
        words[start + INTERFACE], words[start + INTERFACE_AT] = len(interfaces[at]), len(words)
        words += interfaces[at]
        keys = []
        for _, columns in factors[at]:
            keys.append(len(words))
            words += [level_of[column] for column in columns]
        words[start + FACTORS], words[start + FACTORS_AT] = len(factors[at]), len(words)
        for first, (relation, columns) in zip(keys, factors[at], strict=True):
            words += [relation.root_at, len(columns), first]
    return np.array(words, np.int64), len(rows)


def goes_on(level: Level, before: Level) -> bool:
    """Whether a level continues from the entries of an earlier one."""
    return level.relation is before.relation and level.interface == before.interface + before.binds


def find_parents(needs: Sequence[Sequence[int]]) -> list[int]:
    """A tree of levels such that those that a level needs are its ancestors, and that levels are
    numbered depth first. A level is attached as high as possible.

    >>> find_parents([[], [0], [1], [0]])
    [-1, 0, 1, 0]
    >>> find_parents([[], [0], [0], [1, 2]])
    [-1, 0, 1, 2]
    >>> find_parents([[], [0], [0], [1]])
    [-1, 0, 1, 1]
    """
    parents = [max(found, default=NONE) for found in needs]
    at = 0
    while at < len(parents):
        wanted = {*needs[at], parents[at]} - {NONE}
        missing = [(each, path) for path in (parents[at], at - 1)
                   for each in wanted if each not in list_ancestors(parents, path)]  # fmt: skip
        if not missing:
            at += 1
            continue
        each, path = missing[0]
        # What follows the level that is needed, beside it, is put below it.
        beside = min(level for level in list_ancestors(parents, path) if level > each)
        parents[beside] = beside - 1
        at = 0
    return parents


def list_ancestors(parents: Sequence[int], level: int) -> list[int]:
    """A level and all above it."""
    found = []
    while level != NONE:
        found.append(level)
        level = parents[level]
    return found


def find_end(parents: Sequence[int], level: int) -> int:
    """The level after the last one below a level."""
    end = level + 1
    while end < len(parents) and level in list_ancestors(parents, end):
        end += 1
    return end
