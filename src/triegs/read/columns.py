"""From a held version to columns of ids: every answer once, with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from triegs.jit.words import WIDE
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.kernels.answers import (
    COUNTED,
    END_KEY,
    FACTOR,
    FACTORISED,
    FIRST_KEY,
    FLAT,
    FORM,
    IS_PLAIN,
    MISFIT,
    STATE_HEAD,
    STATE_WORDS,
    fill_answers,
)
from triegs.read.kernels.expansion import (
    COLUMN,
    LEVEL_WORDS,
    MANY,
    RUNS,
    meta,
    scratch_words,
    shown_numbers,
)
from triegs.read.levels import write_levels
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import allocate

LARGEST = 2**63 - 1
BATCH_ROWS = 65_536
RUN_ROWS = 1 << 20  # most rows of a run are not written
Words: TypeAlias = NDArray[np.int64]
#: Of 32 bits; values of integers have 64.
Ids: TypeAlias = NDArray[Any]
#: Ids, one row per column, and the multiplicities.
Columns = tuple[Ids, Words]
Batch = TypeVar("Batch", bound=tuple[Any, Any])
#: The maximum number of rows of the next batch.
Sizes = Callable[[], int]

#: The integers of a dictionary: value and kind by id.
Integers = Callable[[], Words]

#: The first id of the first level, and the one that it ends before.
Span = tuple[int, int]

NO_INTEGERS = np.empty(0, np.int64)
TOO_LARGE = -1
MOST_COUNTED = MANY - 1  # at once


class NotIntegers(Exception):
    """A term of the answers is not a 64-bit integer."""


class Column(NamedTuple):
    """Ids of a column: one for each row or, with `ends`, one for each run, and the row after it."""

    ids: Ids
    ends: Ids | None = None


def read_columns(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    sizes: Sizes,
    integers: Integers | None = None,
    span: Span | None = None,
) -> Iterator[Columns]:
    """The answers in batches, or those of a span. Memory: one batch, and one chunk per head
    variable.

    Ids have 32 bits. With `integers` columns have values instead, of 64 bits, or `NotIntegers` is
    raised. A multiplicity that does not fit 64 bits is negative.
    """
    factor = find_factor(enumeration, version)
    if factor and not enumeration.levels:
        yield np.empty((0, 1), np.int32), np.array([factor], np.int64)
    elif factor:
        filling = Filling(enumeration, version, integers, span=span)
        filling.state[FACTOR] = factor
        yield from filling.batches(sizes, filling.fill)


def read_runs(
    enumeration: EnumerationPlan,
    version: PackedVersion,
    sizes: Sizes,
    integers: Integers | None = None,
) -> Iterator[tuple[list[Column], Words]]:
    """The same answers with all columns but one as runs; `find_flat` tells which. There must be a
    level.
    """
    factor = find_factor(enumeration, version)
    if factor:
        filling = Filling(enumeration, version, integers, FACTORISED)
        filling.state[FACTOR] = factor
        yield from filling.batches(sizes, filling.fill_runs)


def find_flat(enumeration: EnumerationPlan) -> int:
    """The column that never repeats a value: that of the last level."""
    levels, count = find_levels(enumeration)
    return int(levels[LEVEL_WORDS * (count - 1) + COLUMN])


def count_answers(enumeration: EnumerationPlan, version: PackedVersion) -> tuple[int, int | None]:
    """The number of answers, and their total multiplicity if it follows: None if an answer has
    another one than the rest. Cost: gathering the entries of all levels, none of the answers.
    """
    factor = multiply_totals(enumeration, version)
    if factor == 0 or not enumeration.levels:
        return min(factor, 1), factor
    filling = Filling(enumeration, version, form=COUNTED)
    filling.state[FACTOR] = 1
    total, are_alike = 0, True
    while True:
        found = filling.count()
        total += found
        are_alike = are_alike and bool(found == 0 or filling.state[IS_PLAIN])
        if found < MOST_COUNTED:
            return total, total * factor if are_alike else None


def multiply_totals(enumeration: EnumerationPlan, version: PackedVersion) -> int:
    """What multiplies every answer, of any size; 0 if there are none."""
    factor = 1
    for relation, key in enumeration.totals:
        factor *= version.get(relation, key)
    return factor


def find_factor(enumeration: EnumerationPlan, version: PackedVersion) -> int:
    """The same, as kernels take it."""
    factor = multiply_totals(enumeration, version)
    return factor if factor <= LARGEST else TOO_LARGE


def find_levels(enumeration: EnumerationPlan) -> tuple[Words, int]:
    """The table of levels, and their number."""
    if enumeration.tables is None:
        enumeration.tables = write_levels(enumeration)
    levels, count = enumeration.tables
    return levels, count


class Filling:
    """An enumeration in progress, for one thread: the state of the kernel and its memory."""

    def __init__(
        self, enumeration: EnumerationPlan, version: PackedVersion,
        integers: Integers | None = None, form: int = FLAT, span: Span | None = None,
    ) -> None:  # fmt: skip
        self.levels, self.count_levels = find_levels(enumeration)
        self.state = new_state(self.count_levels)
        self.state[FORM] = form
        if span is not None:
            self.state[FIRST_KEY], self.state[END_KEY] = span
        self._version = version
        self._integers = integers
        self._kind = np.int32 if integers is None else np.int64
        self._scratch = allocate(scratch_words(self.count_levels), np.int64)
        self._shown = allocate(shown_numbers(self.count_levels), self._kind)

    def batches(self, sizes: Sizes, fill: Callable[[int], Batch]) -> Iterator[Batch]:
        """Batches of the asked sizes, up to the end."""
        while True:
            rows = sizes()
            found = fill(rows)
            if len(found[1]):
                yield found
            if len(found[1]) < rows:
                return

    def fill(self, rows: int) -> Columns:
        """The next answers; fewer than `rows` means the end. `NotIntegers` if a value is asked for
        and there is none.
        """
        stride = rows + WIDE
        out = allocate(self.count_levels * stride, self._kind)
        found, counts = self._run(out, rows)
        return out.reshape(self.count_levels, stride)[:, :found], counts

    def fill_runs(self, rows: int) -> tuple[list[Column], Words]:
        """The next answers, as runs."""
        stride, count = rows + WIDE, self.count_levels
        out = allocate(2 * count * stride, self._kind)
        found, counts = self._run(out, rows)
        columns = [Column(out)] * count
        for level in range(count):
            column = int(self.levels[LEVEL_WORDS * level + COLUMN])
            values, ends = column * stride, (count + column) * stride
            runs = int(self._scratch[meta(level) + RUNS])
            if level == count - 1:
                columns[column] = Column(out[values : values + found])
            else:
                columns[column] = Column(out[values : values + runs], out[ends : ends + runs])
        return columns, counts

    def count(self) -> int:
        """The number of the next answers; fewer than `MOST_COUNTED` means the end."""
        return self._run(np.empty(0, self._kind), MOST_COUNTED)[0]

    def _run(self, out: Ids, rows: int) -> tuple[int, Words]:
        values = NO_INTEGERS if self._integers is None else self._integers().reshape(-1)
        counts = allocate(rows + WIDE if len(out) else WIDE, np.int64)
        self._version.check_held()
        found = fill_answers(
            self._version.words, self._version.roots, self.levels, self.count_levels, self.state,
            values, self._scratch, self._shown, out, counts, rows,
        )  # fmt: skip
        if self.state[MISFIT]:
            raise NotIntegers
        if not len(out):
            return found, counts
        return found, list_ones(found) if self.state[IS_PLAIN] else counts[:found]


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
