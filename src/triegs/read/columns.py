"""From a held version to columns of ids: every answer once, with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triegs.maintain.enumeration_plan import Count, EnumerationPlan, Level
from triegs.read.kernels.answers import (
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
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import allocate

LARGEST = 2**63 - 1
BATCH_ROWS = 65_536
Words: TypeAlias = NDArray[np.int64]
#: Ids, one row per column, and the multiplicities.
Columns = tuple[Words, Words]
#: The maximum number of rows of the next batch.
Sizes = Callable[[], int]

#: The integers of a dictionary: value and kind by id.
Integers = Callable[[], Words]

TOO_LARGE = -1


class NotIntegers(Exception):
    """A term of the answers is not a 64-bit integer."""


def read_columns(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    sizes: Sizes,
    integers: Integers | None = None,
) -> Iterator[Columns]:
    """The answers in batches. Memory: one batch, and one cursor per head variable.

    With `integers` columns have values instead of ids, or `NotIntegers` is raised. A multiplicity
    that does not fit 64 bits is negative.
    """
    factor = 1
    for relation, key in enumeration.totals:
        factor *= version.get(relation, key)
    if factor == 0:
        return
    if factor > LARGEST:
        factor = TOO_LARGE
    if not enumeration.levels:
        yield np.empty((0, 1), np.int64), np.array([factor], np.int64)
    else:
        yield from _fill(enumeration, version, factor, sizes, integers)


def _fill(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    factor: int,
    sizes: Sizes,
    integers: Integers | None,
) -> Iterator[Columns]:
    if enumeration.tables is None:
        enumeration.tables = write_levels(enumeration)
    levels, count = enumeration.tables
    state = np.zeros(STATE_HEAD + STATE_WORDS * count, np.int64)
    state[FACTOR] = factor
    tile = np.empty(TILE_WORDS, np.int64)
    values = np.empty(0, np.int64)
    while True:
        rows = sizes()
        if integers is not None:
            values = integers().reshape(-1)
        out = allocate((enumeration.width + 1) * rows, np.int64)
        version.check_held()
        found = fill_answers(
            version.words, version.roots, levels, count, state, values, tile, out, rows,
            enumeration.width,
        )  # fmt: skip
        if state[MISFIT]:
            raise NotIntegers
        columns = out.reshape(enumeration.width + 1, rows)
        if found:
            yield columns[:-1, :found], columns[-1, :found]
        if found < rows:
            return


def write_levels(enumeration: EnumerationPlan) -> tuple[Words, int]:
    """The enumeration plan as the kernel reads it, one level per variable, and their number."""
    rows: list[list[int]] = []
    factors: list[Sequence[Count]] = []
    interfaces: list[Sequence[int]] = []
    level_of: dict[int, int] = {}
    before: Level | None = None
    for level in enumeration.levels:
        is_inside = before is not None and goes_on(level, before)
        before = level
        for number, place in enumerate(level.binds):
            level_of[place] = len(rows)
            is_last = number == len(level.binds) - 1
            kind = INSIDE if number or is_inside else SET if level.interface else TRIE
            weighs = int(is_last and level.weighs)
            rows.append([kind, level.relation.root_at, 0, 0, place, weighs, 0, 0])
            factors.append(level.counts if is_last else ())
            interfaces.append(() if kind == INSIDE else level.interface)
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
            words += [relation.root_at, len(places), first]
        assert len(row) == LEVEL_WORDS
    return np.array(words, np.int64), len(rows)


def goes_on(level: Level, before: Level) -> bool:
    """Whether a level continues from the same entries as the one before it."""
    return level.relation is before.relation and level.interface == before.interface + before.binds
