"""From a held version to columns of ids: every answer of a walk once, with its multiplicity.

Over the packed store a kernel fills the columns; over any other store a generator does the same,
one cursor per level, and is the text to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triegs.dictionary.decoder import allocate
from triegs.kernels.answers import (
    FACTOR,
    INSIDE,
    LEVEL_WORDS,
    MISFIT,
    SET,
    STATE_HEAD,
    STATE_WORDS,
    TILE_WORDS,
    TRIE,
    fill_answers,
)
from triegs.kernels.layout import SLOT_WORDS
from triegs.maintain.walk import Count, Level, Walk
from triegs.store.contract import Key, Version, VersionedRelation
from triegs.store.packed import PackedRelation, PackedVersion

LARGEST = 2**63 - 1
Words: TypeAlias = NDArray[np.int64]
#: Ids, one row per column, and the multiplicities.
Columns = tuple[Words, Words]
#: How many rows the next batch may have.
Sizes = Callable[[], int]

#: The integers of a dictionary: value and kind by id.
Integers = Callable[[], Words]

TOO_LARGE = -1


class NotIntegers(Exception):
    """A term of the answers is no integer of 64 bits."""


def read_columns(
    walk: Walk, version: Version, sizes: Sizes, integers: Integers | None = None
) -> Iterator[Columns]:
    """The answers in batches. Memory: one batch, and one cursor per head variable.

    With `integers` columns have values instead of ids; `NotIntegers` says that some term is none,
    or that this is not the packed store. A multiplicity that does not fit 64 bits is negative.
    """
    factor = 1
    for relation, key in walk.totals:
        factor *= version.get(relation, key)
    if factor == 0:
        return
    if factor > LARGEST:
        factor = TOO_LARGE
    if not walk.levels:
        yield np.empty((0, 1), np.int64), np.array([factor], np.int64)
    elif isinstance(version, PackedVersion):
        yield from _fill(walk, version, factor, sizes, integers)
    elif integers is not None:
        raise NotIntegers
    else:
        answers = enumerate_answers(walk, version, factor)
        while batch := list(islice(answers, sizes())):
            rows = np.array([row for row, _ in batch], np.int64).reshape(len(batch), walk.width)
            yield rows.T, np.array([count for _, count in batch], np.int64)


# By a kernel


def _fill(
    walk: Walk, version: PackedVersion, factor: int, sizes: Sizes, integers: Integers | None
) -> Iterator[Columns]:
    if walk.tables is None:
        walk.tables = write_levels(walk)
    levels, count = walk.tables
    state = np.zeros(STATE_HEAD + STATE_WORDS * count, np.int64)
    state[FACTOR] = factor
    tile = np.empty(TILE_WORDS, np.int64)
    values = np.empty(0, np.int64)
    while True:
        rows = sizes()
        if integers is not None:
            values = integers().reshape(-1)
        out = allocate((walk.width + 1) * rows, np.int64)
        version.check_held()
        found = fill_answers(
            version.words, version.roots, levels, count, state, values, tile, out, rows,
            walk.width,
        )  # fmt: skip
        if state[MISFIT]:
            raise NotIntegers
        columns = out.reshape(walk.width + 1, rows)
        if found:
            yield columns[:-1, :found], columns[-1, :found]
        if found < rows:
            return


def write_levels(walk: Walk) -> tuple[Words, int]:
    """The walk as the kernel reads it, one level per variable, and how many those are."""
    rows: list[list[int]] = []
    factors: list[Sequence[Count]] = []
    interfaces: list[Sequence[int]] = []
    level_of: dict[int, int] = {}
    for level in walk.levels:
        for number, place in enumerate(level.binds):
            level_of[place] = len(rows)
            is_last = number == len(level.binds) - 1
            kind = INSIDE if number else SET if level.interface else TRIE
            weighs = int(is_last and level.weighs)
            rows.append([kind, _root(level.relation), 0, 0, place, weighs, 0, 0])
            factors.append(level.counts if is_last else ())
            interfaces.append(() if number else level.interface)
    words = [word for row in rows for word in row]
    for at, row in enumerate(rows):
        words[LEVEL_WORDS * at + 2 : LEVEL_WORDS * at + 4] = [len(interfaces[at]), len(words)]
        words += [level_of[place] for place in interfaces[at]]
        keys = []
        for _, places in factors[at]:
            keys.append(len(words))
            words += [level_of[place] for place in places]
        words[LEVEL_WORDS * at + 6 : LEVEL_WORDS * at + 8] = [len(factors[at]), len(words)]
        for first, (relation, places) in zip(keys, factors[at], strict=True):
            words += [_root(relation), len(places), first]
        assert len(row) == LEVEL_WORDS
    return np.array(words, np.int64), len(rows)


def _root(relation: VersionedRelation) -> int:
    assert isinstance(relation, PackedRelation)
    return SLOT_WORDS * relation.slot


# By a generator


def enumerate_answers(walk: Walk, version: Version, factor: int = 1) -> Iterator[tuple[Key, int]]:
    """Every head tuple with positive multiplicity, once, with it; depth first, one cursor a level.

    Memory: one iterator per level.
    """
    row = [0] * walk.width
    weights = [factor] * (len(walk.levels) + 1)
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
        weight = weights[depth] * (weight if level.weighs else 1)
        for relation, columns in level.counts:
            weight *= version.get(relation, tuple(row[c] for c in columns))
        weights[depth + 1] = weight
        if depth + 1 < len(walk.levels):
            cursors.append(_open(walk.levels[depth + 1], version, row))
        else:
            yield tuple(row), weight if weight <= LARGEST else TOO_LARGE


def _open(level: Level, version: Version, row: Sequence[int]) -> Iterator[tuple[Key, int]]:
    return version.scan(level.relation, tuple(row[c] for c in level.interface))
