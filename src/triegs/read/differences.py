"""From two held versions to columns of changed answers: each once, with its signed change.

The kernel starts from the entries that differ between the versions, and visits nothing shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from triegs.errors import MultiplicityOverflow
from triegs.jit.words import WIDE
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.columns import (
    NO_INTEGERS,
    TOO_LARGE,
    Columns,
    Integers,
    NotIntegers,
    Sizes,
    Words,
    find_factor,
)
from triegs.read.kernels.answers import (
    INSIDE,
    INTERFACE,
    INTERFACE_AT,
    LEVEL,
    MISFIT,
    SET,
    STATE_HEAD,
    STATE_WORDS,
    TRIE,
)
from triegs.read.kernels.change_levels import (
    BEGINS,
    CHECK_WORDS,
    CHECKS,
    CHECKS_AT,
    COUNTS_AS_ONE,
    DEEP,
    DIFFERENCES_AT,
    EARLIER,
    FACTOR_NEW,
    FACTOR_OLD,
    FLAGS,
    IS_BACKWARDS,
    LEADS,
    NEVER,
    NO_LEVEL,
    OVERFLOWN,
    PASS,
    PASSES,
    SAME,
    SEED,
    SEEDS_AT,
    WEIGHS,
    change_words,
)
from triegs.read.kernels.changes import fill_changes
from triegs.read.kernels.differences import difference_words, share_roots
from triegs.read.kernels.expansion import END, LEVEL_WORDS, PARENT, scratch_words, shown_numbers
from triegs.read.levels import NONE, find_end, find_parents
from triegs.read.netting import have_equal_factors, net_results
from triegs.store.packed import PackedRelation, PackedVersion
from triegs.terms.decoder import allocate


class Side(NamedTuple):
    """A version, and the enumeration plan that reads it."""

    enumeration: EnumerationPlan
    version: PackedVersion


def read_differences(
    old: Side, new: Side, sizes: Sizes, is_distinct: bool, integers: Integers | None = None
) -> Iterator[Columns]:
    """The changed answers in batches, with `mu_new - mu_old`. Memory: one batch.

    With `is_distinct` an answer counts once, whatever its multiplicity; `integers` is as for
    `triegs.read.columns.read_columns`. Cost: the entries that differ, their paths to the root, and
    the changed answers.
    """
    factors = tuple(find_factor(side.enumeration, side.version) for side in (old, new))
    if TOO_LARGE in factors:
        _refuse()
    if not new.enumeration.levels:
        change = factors[1] - factors[0]
        if is_distinct:
            change = (factors[1] > 0) - (factors[0] > 0)
        if change:
            yield np.empty((0, 1), np.int32), np.array([change], np.int64)
    else:
        yield from _fill(old, new, factors, sizes, is_distinct, integers)


def _refuse() -> None:
    raise MultiplicityOverflow("an answer's multiplicity does not fit 64 bits", "answer")


def _fill(
    old: Side, new: Side, factors: tuple[int, ...], sizes: Sizes, is_distinct: bool,
    integers: Integers | None,
) -> Iterator[Columns]:  # fmt: skip
    if is_shared(old, new):
        return
    if not have_equal_factors(old.enumeration, new.enumeration):
        yield from net_results(old, new, sizes, is_distinct, integers)
        return
    phases = find_phases(old.enumeration, new.enumeration, is_whole=factors[0] != factors[1])
    # The arena of the later version contains all nodes of the earlier one.
    words = max(old.version, new.version, key=lambda version: version.number).words
    width = new.enumeration.width
    start = STATE_HEAD + STATE_WORDS * phases.levels
    state = np.zeros(start + difference_words(phases.columns), np.int64)
    state[LEVEL], state[PASS], state[DIFFERENCES_AT] = NO_LEVEL, PASSES, start
    state[SEEDS_AT] = scratch_words(phases.levels)
    state[FACTOR_OLD], state[FACTOR_NEW] = factors
    numbers = old.version.number, new.version.number
    # Another plan has other relations, so shared nodes prove nothing.
    state[EARLIER] = min(numbers) if old.enumeration is new.enumeration else NEVER
    state[IS_BACKWARDS] = numbers[0] > numbers[1]
    kind = np.int32 if integers is None else np.int64
    scratch = allocate(change_words(phases.levels, phases.columns), np.int64)
    shown = allocate(shown_numbers(phases.levels), kind)
    while True:
        rows = sizes()
        values = NO_INTEGERS if integers is None else integers().reshape(-1)
        out = allocate(width * (rows + WIDE), kind)
        counts = allocate(2 * (rows + WIDE), np.int64)
        old.version.check_held()
        new.version.check_held()
        found = fill_changes(
            words, old.version.roots, new.version.roots, phases.table, state, values, scratch,
            shown, out, counts, rows, width, is_distinct,
        )  # fmt: skip
        if state[OVERFLOWN]:
            _refuse()
        if state[MISFIT]:
            raise NotIntegers
        if found:
            yield out.reshape(width, rows + WIDE)[:, :found], counts[:found]
        if found < rows:
            return


def is_shared(old: Side, new: Side) -> bool:
    """Whether two versions have the same roots in all relations of the plan: then nothing has
    changed. False means unknown. Cost: the relations of the plan.
    """
    enumeration = new.enumeration
    if old.enumeration is not enumeration:
        return False
    if enumeration.roots is None:
        relations = [factor.relation for factor in enumeration.factors]
        relations += [relation for relation, _ in enumeration.totals]
        for measure in enumeration.measures:
            relations += [] if measure.relation is None else [measure.relation]
            relations += [relation for relation, _ in measure.totals]
        enumeration.roots = np.array(sorted({relation.root_at for relation in relations}), np.int64)
    return share_roots(old.version.roots, new.version.roots, enumeration.roots)


@dataclass(frozen=True, slots=True)
class Phases:
    """The table of the kernel, and the largest numbers of levels and columns of a phase."""

    table: Words
    levels: int
    columns: int


def find_phases(old: EnumerationPlan, new: EnumerationPlan, is_whole: bool) -> Phases:
    """The phases between two plans of one query, cached."""
    if old is not new:
        return write_phases(old, new, [None])
    if new.phases is None:
        new.phases = {}
    if is_whole not in new.phases:
        seeds: list[int | None] = [None] if is_whole else [*range(len(new.factors))]
        new.phases[is_whole] = write_phases(new, new, seeds)
    found: Phases = new.phases[is_whole]
    return found


@dataclass(slots=True)
class _Scan:
    """Levels over one relation: the columns that are known, and those that it binds."""

    old: PackedRelation
    new: PackedRelation
    known: tuple[int, ...]
    binds: tuple[int, ...]
    use: int
    is_same: bool


@dataclass(slots=True)
class _Phase:
    """The factors of an answer in the order in which a phase visits them."""

    seed: int | None
    scans: list[_Scan] = field(default_factory=list)
    checks: list[tuple[int, bool]] = field(default_factory=list)


def _order(old: EnumerationPlan, new: EnumerationPlan, seed: int | None) -> _Phase:
    """From the seed up, then down to all others; factors before the seed must be equal."""
    phase = _Phase(seed)
    bound: set[int] = set()
    done = set()

    def visit(
        before: PackedRelation, after: PackedRelation, columns: Sequence[int], use: int,
        is_same: bool,
    ) -> bool:  # fmt: skip
        known = tuple(column for column in columns if column in bound)
        if len(known) == len(columns):
            return False
        assert tuple(columns[: len(known)]) == known
        phase.scans.append(_Scan(before, after, known, tuple(columns[len(known) :]), use, is_same))
        bound.update(columns)
        return True

    if seed is not None:
        bound.update(new.factors[seed].columns)
        done.add(seed)
        above, below = new.factors[seed].parent_path, old.factors[seed].parent_path
        while above is not None and below is not None:
            if above.index is not None and below.index is not None:
                visit(below.index, above.index, above.columns, LEADS, False)
            phase.checks.append((above.above, True))
            done.add(above.above)
            above, below = (
                new.factors[above.above].parent_path,
                old.factors[below.above].parent_path,
            )
    left = [number for number in range(len(new.factors)) if number not in done]
    while left:
        # Components one after the other, that of the seed first: levels are numbered depth first.
        near = (each for each in left if bound.intersection(new.factors[each].columns))
        number = next(near, left[0])
        left.remove(number)
        before, after = old.factors[number], new.factors[number]
        is_same = seed is not None and number < seed
        use = WEIGHS if after.weighs else COUNTS_AS_ONE
        if not visit(before.relation, after.relation, after.columns, use, is_same):
            phase.checks.append((number, is_same))
    return phase


def write_phases(old: EnumerationPlan, new: EnumerationPlan, seeds: Sequence[int | None]) -> Phases:
    """The table that `triegs.read.kernels.changes` reads; a seed of None is the whole result."""
    words = [len(seeds), *([0] * len(seeds))]
    most_levels = most_columns = 0
    for number, seed in enumerate(seeds):
        words[1 + number] = len(words)
        columns = new.factors[seed].columns if seed is not None else ()
        rows, count = _write_phase(_order(old, new, seed), columns, old, new)
        roots = [0, 0, 0]
        if seed is not None:
            before, after = old.factors[seed], new.factors[seed]
            roots = [after.relation.root_at, before.relation.root_at, int(after.weighs)]
        words += [len(columns), *roots, count, *rows]
        most_levels, most_columns = max(most_levels, count), max(most_columns, len(columns))
    return Phases(np.array(words, np.int64), most_levels, most_columns)


def _write_phase(
    phase: _Phase, columns: tuple[int, ...], old: EnumerationPlan, new: EnumerationPlan
) -> tuple[list[int], int]:
    """The levels of a phase as words, and their number."""
    rows: list[list[int]] = []
    #: By level: the keys that lead to its set, and the levels that must be known.
    keys: list[list[int]] = []
    needs: list[list[int]] = []
    #: By column: a level, or a column of the seeds.
    key_of = {column: -1 - number for number, column in enumerate(columns)}

    def add_level(
        kind: int, roots: Sequence[int], known: list[int], column: int, use: int, is_same: bool
    ) -> None:
        above = [len(rows) - 1] if kind == INSIDE else []
        keys.append(known)
        needs.append([*(max(key, 0) for key in known if kind != SEED), *above])
        flags = SAME if is_same else 0
        rows.append([kind, roots[0], 0, 0, column, use, 0, 0, NONE, 0, flags, roots[1]])

    if columns:
        add_level(SEED, (0, 0), list(columns[1:]), columns[0], COUNTS_AS_ONE, False)
    for scan in phase.scans:
        for step, column in enumerate(scan.binds):
            is_last = step == len(scan.binds) - 1
            use = scan.use if is_last else LEADS if scan.use == LEADS else BEGINS
            kind = INSIDE if step else SET if scan.known else TRIE
            known = [] if step else [key_of[each] for each in scan.known]
            key_of[column] = len(rows)
            add_level(kind, (scan.new.root_at, scan.old.root_at), known, column, use, scan.is_same)
    checks: dict[int, list[tuple[list[int], list[int]]]] = {}
    for factor, is_same in phase.checks:
        before, after = old.factors[factor], new.factors[factor]
        found = [key_of[column] for column in after.columns]
        level = max(0, *found)
        row = [after.relation.root_at, before.relation.root_at, len(found), 0]
        checks.setdefault(level, []).append(([*row, int(after.weighs), int(is_same)], found))
        needs[level] += [max(key, 0) for key in found if max(key, 0) != level]
    parents = find_parents(needs)
    words = [word for row in rows for word in row]
    ends = [find_end(parents, level) for level in range(len(rows))]
    far = [
        any(each != parents[level] for each in needs[level]) or level in checks
        for level in range(len(rows))
    ]
    for level in range(len(rows)):
        at = LEVEL_WORDS * level
        words[at + PARENT], words[at + END] = parents[level], ends[level]
        assert rows[level][0] != TRIE or parents[level] == NONE, "a component within another"
        if any(far[level : ends[level]]):
            words[at + FLAGS] |= DEEP
        words[at + INTERFACE], words[at + INTERFACE_AT] = len(keys[level]), len(words)
        words += keys[level]
        given = checks.get(level, [])
        for check, found in given:
            check[3] = len(words)
            words += found
        words[at + CHECKS], words[at + CHECKS_AT] = len(given), len(words)
        for check, _ in given:
            assert len(check) == CHECK_WORDS
            words += check
    return words, len(rows)
