"""From a held version to columns of ids: every answer once, with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from triegs.jit.words import WIDE
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.kernels.answers import (
    FACTOR,
    IS_PLAIN,
    MISFIT,
    STATE_HEAD,
    STATE_WORDS,
    fill_answers,
)
from triegs.read.kernels.expansion import scratch_words, shown_numbers
from triegs.read.levels import write_levels
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import allocate

LARGEST = 2**63 - 1
BATCH_ROWS = 65_536
Words: TypeAlias = NDArray[np.int64]
#: Of 32 bits; values of integers have 64.
Ids: TypeAlias = NDArray[Any]
#: Ids, one row per column, and the multiplicities.
Columns = tuple[Ids, Words]
#: The maximum number of rows of the next batch.
Sizes = Callable[[], int]

#: The integers of a dictionary: value and kind by id.
Integers = Callable[[], Words]

NO_INTEGERS = np.empty(0, np.int64)
TOO_LARGE = -1


class NotIntegers(Exception):
    """A term of the answers is not a 64-bit integer."""


def read_columns(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    sizes: Sizes,
    integers: Integers | None = None,
) -> Iterator[Columns]:
    """The answers in batches. Memory: one batch, and one chunk per head variable.

    Ids have 32 bits. With `integers` columns have values instead, of 64 bits, or `NotIntegers` is
    raised. A multiplicity that does not fit 64 bits is negative.
    """
    factor = 1
    for relation, key in enumeration.totals:
        factor *= version.get(relation, key)
    if factor == 0:
        return
    if factor > LARGEST:
        factor = TOO_LARGE
    if not enumeration.levels:
        yield np.empty((0, 1), np.int32), np.array([factor], np.int64)
    else:
        yield from _fill(enumeration, version, factor, sizes, integers)


def _fill(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    factor: int,
    sizes: Sizes,
    integers: Integers | None,
) -> Iterator[Columns]:
    filling = Filling(enumeration, version, integers)
    filling.state[FACTOR] = factor
    while True:
        rows = sizes()
        found = filling.fill(rows)
        if len(found[1]):
            yield found
        if len(found[1]) < rows:
            return


class Filling:
    """An enumeration in progress, for one thread: the state of the kernel and its memory."""

    def __init__(
        self, enumeration: EnumerationPlan, version: PackedVersion, integers: Integers | None = None
    ) -> None:
        if enumeration.tables is None:
            enumeration.tables = write_levels(enumeration)
        self.levels, self.count = enumeration.tables
        self.state = new_state(self.count)
        self._version = version
        self._integers = integers
        self._kind = np.int32 if integers is None else np.int64
        self._scratch = allocate(scratch_words(self.count), np.int64)
        self._shown = allocate(shown_numbers(self.count), self._kind)

    def fill(self, rows: int) -> Columns:
        """The next answers; fewer than `rows` means the end. `NotIntegers` if a value is asked for
        and there is none.
        """
        values = NO_INTEGERS if self._integers is None else self._integers().reshape(-1)
        out = allocate(self.count * (rows + WIDE), self._kind)
        counts = allocate(rows + WIDE, np.int64)
        self._version.check_held()
        found = fill_answers(
            self._version.words, self._version.roots, self.levels, self.count, self.state, values,
            self._scratch, self._shown, out, counts, rows,
        )  # fmt: skip
        if self.state[MISFIT]:
            raise NotIntegers
        columns = out.reshape(self.count, rows + WIDE)[:, :found]
        return columns, list_ones(found) if self.state[IS_PLAIN] else counts[:found]


def new_state(levels: int) -> Words:
    """The state of an enumeration, of which `FACTOR` is still to be set."""
    return np.zeros(STATE_HEAD + STATE_WORDS * levels, np.int64)


def list_ones(count: int) -> Words:
    """That many ones, as a view of an array that all readers share."""
    if len(_ONES[0]) < count:
        ones = np.ones(max(count, 2 * len(_ONES[0]), BATCH_ROWS), np.int64)
        ones.flags.writeable = False
        _ONES[0] = ones
    return _ONES[0][:count]


def are_ones(counts: Words) -> bool:
    """Whether these are known to be ones without reading them."""
    return counts.base is _ONES[0]


_ONES: list[Words] = [np.ones(0, np.int64)]
