"""What the compiled core keeps, as parts that plans share, and the table that its kernel reads.

A part is one relation and the way an epoch keeps it: an *index* of a label, filled from its
updates; a *step*, computed from other parts; or *fixed* rows. Parts have canonical names, so equal
sub-plans of all queries are one part, counted by the plans that use it. A part is filled when it
is made; parts are made children first, which is the order in which an epoch keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from triegs.errors import MemoryLimitReached, MultiplicityOverflow
from triegs.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.kernels.fill import FILL_CURSOR_WORDS, fill_index, list_keys, move_pairs
from triegs.kernels.layout import FAULTS, FULL, LOG_FULL
from triegs.kernels.program import (
    ADJACENCY,
    ANY,
    COUNT,
    COUNTS,
    EDGE,
    FACTOR_WORDS,
    IS_RDF,
    LABEL_ROWS,
    LABELS,
    PRESENCE,
    PRODUCT,
    REST,
    ROW_WORDS,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    TABLE_HEAD,
    TOTAL,
    step_edge,
    step_product,
    step_total,
)
from triegs.kernels.relations import slot_at, tuple_get
from triegs.kernels.words import Words
from triegs.mode import Mode
from triegs.store.packed import PackedRelation, PackedStore

NO_LIST = -1


@dataclass(slots=True, eq=False)
class Part:
    """A relation with how others read it: `reads` is PRESENCE of a key, or its COUNT."""

    name: str
    relation: PackedRelation
    reads: int
    uses: int = 0
    #: Whether an epoch lists the keys that it changed.
    listed: bool = True

    @property
    def address(self) -> int:
        return slot_at(self.relation.slot)


@dataclass(slots=True, eq=False)
class Index(Part):
    """The pairs of a label by one column, or their summed counts."""

    predicate: int = 0
    kind: int = ADJACENCY
    column: int = 0
    condition: int = ANY


@dataclass(slots=True, eq=False)
class Step(Part):
    """A relation computed from factors; an edge also from a label, `by_other` leading from its
    second variable back to the first.
    """

    kind: int = PRODUCT
    is_exact: bool = False
    factors: tuple[Part, ...] = ()
    by_other: Index | None = None


class Parts:
    """The parts of all registered plans over one store, and the assertions of all other labels."""

    def __init__(self, store: PackedStore, mode: Mode) -> None:
        self.store = store
        self.mode = mode
        self.by_name: dict[str, Part] = {}
        #: Whether the counts of a label that nobody uses stay as they are for now.
        self.keeps_counts = False
        self.rest = store.create("rest", 3)
        self.steps: list[Step] = []
        self.labels: dict[int, int] = {}
        #: Room for what the kernel notes by list and by label.
        self.changed = np.empty(0, np.int64)
        self.bounds = np.empty(0, np.int64)
        self.table = self.write_table()
        self._cursor = np.zeros(FILL_CURSOR_WORDS, np.int64)

    # Sharing

    def save(self) -> list[tuple[Part, int, bool]]:
        """What `restore` needs after the store has aborted."""
        return [(part, part.uses, part.listed) for part in self.by_name.values()]

    def restore(self, saved: Iterable[tuple[Part, int, bool]]) -> None:
        self.by_name.clear()
        for part, uses, listed in saved:
            part.uses, part.listed = uses, listed
            self.by_name[part.name] = part

    def release(self, held: Sequence[Part], keeps_counts: bool = False) -> None:
        """Count one use less of each; what nobody uses is dropped, users before the used.

        To drop the counts of a label is to move them, which takes room and time. They may stay,
        unused and kept up to date, until the next release.
        """
        for part in held:
            part.uses -= 1
        keeps_counts |= self.keeps_counts
        for part in reversed(list(self.by_name.values())):
            if part.uses == 0 and not (keeps_counts and is_counts(part)):
                self.drop(part)

    def drop(self, part: Part) -> None:
        """Forget a part; the counts of a label go back into the rest."""
        if is_counts(part):
            assert isinstance(part, Index)
            self._move(part, is_back=True)
        self.store.drop(part.relation)
        del self.by_name[part.name]

    # Making

    def counts(self, predicate: int, column: int = 0) -> Index:
        """The counts of a label, which deletions are judged by; moved out of the rest.

        A new one is kept by that column: one that a plan reads as well saves an index.
        """
        name = counts_name(predicate)
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, 2)
            found = Index(name, relation, PRESENCE, 0, False, predicate, ADJACENCY, column)
            self._move(found, is_back=False)
            self.by_name[name] = found
        assert isinstance(found, Index)
        return found

    def index(self, predicate: int, kind: int, column: int, condition: int = ANY) -> Index:
        """The weights of a label, made and filled when first asked for."""
        counts = self.counts(predicate, column if kind == ADJACENCY else 0)
        is_same = (kind, column, condition) == (ADJACENCY, counts.column, ANY)
        if is_same and self.mode is Mode.MULTIGRAPH:
            return counts
        name = f"label {predicate} {('pairs', 'counts')[kind]} by {column} where {condition}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, 1 if kind == COUNTS else 2)
            reads = COUNT if kind == COUNTS else PRESENCE
            listed = kind == COUNTS  # these are always logged
            found = Index(name, relation, reads, 0, listed, predicate, kind, column, condition)
            address, is_rdf = found.address, self.mode is Mode.RDF

            def fill(words: Words, _: Words) -> None:
                fill_index(
                    words, self._cursor, counts.address, counts.column, is_rdf, kind, column,
                    condition, address,
                )  # fmt: skip

            self.store.run(fill)
            try:
                self._check(name)
            except MultiplicityOverflow:
                self.store.drop(relation)
                raise
            self.by_name[name] = found
        assert isinstance(found, Index)
        return found

    def fixed(self, name: str, rows: Sequence[tuple[int, ...]]) -> Part:
        """Rows of one id that no update changes; a row written twice counts twice."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Part(name, self.store.create(name, 1), COUNT)
            for row in rows:
                found.relation.set(row, found.relation.get(row) + 1)
        return found

    def step(
        self, name: str, kind: int, is_exact: bool, factors: tuple[Part, ...],
        by_other: Index | None = None,
    ) -> Part:  # fmt: skip
        """A computed part, made and filled when first asked for."""
        found = self.by_name.get(name)
        if found is None:
            arity = {PRODUCT: 1, TOTAL: 0}.get(kind, 1 if is_exact else 2)
            relation = self.store.create(name, arity)
            reads = PRESENCE if kind == EDGE and not is_exact else COUNT
            found = Step(name, relation, reads, 0, True, kind, is_exact, factors, by_other)
            for factor in factors:
                factor.listed = True
            try:
                self._fill_step(found)
            except MultiplicityOverflow:
                self.store.drop(relation)  # a rebuild goes on without it
                raise
            self.by_name[name] = found
        # A plan holds the parts that it names; another's would go with that other.
        assert isinstance(found, Step), name
        assert (set(found.factors), found.by_other) == (set(factors), by_other), name
        return found

    # Filling

    def _check(self, name: str) -> None:
        """After a kernel: no room, or a count that does not fit, is an exception here."""
        faults = self.store.faults
        assert not faults & LOG_FULL, f"{name}: the log is too short"
        if faults & FULL:
            raise MemoryLimitReached(f"{name}: no room")
        if faults:
            self.store.words[FAULTS] = 0
            raise MultiplicityOverflow(f"a count of {name} does not fit 64 bits", name)

    def _move(self, counts: Index, is_back: bool) -> None:
        words, address = self.store.words, slot_at(self.rest.slot)
        if is_back:
            below, from_trie = int(words[counts.address]), True
            size = int(words[counts.address + 1])
        else:
            key = np.array([counts.predicate], np.int64)
            below, from_trie = int(tuple_get(words, int(words[address]), key, 1)), False
            size = int(words[address + 1]) if below else 0  # of the whole rest: enough
        scan = np.zeros(CURSOR_WORDS * 3, np.int64)
        if size == 0:
            return
        columns = np.empty(3 * size, np.int64)
        open_scan(words, scan, below, from_trie)
        found = fill_scan(words, scan, 2, from_trie, columns, size)
        order = [1, 0, 2] if is_back and counts.column == 1 else [0, 1, 2]
        columns = np.ascontiguousarray(columns.reshape(3, size)[order, :found]).reshape(-1)
        key = np.empty(3, np.int64)
        label, slot, by = counts.predicate, counts.address, counts.column

        def move(words: Words, _: Words) -> None:
            move_pairs(words, key, label, slot, by, address, columns, found, is_back)

        self.store.run(move)
        self._check(counts.name)

    def _fill_step(self, step: Step) -> None:
        """List all keys of one input as new, and run the step on them."""
        first = step.factors[0]
        guard = first if step.by_other is None else step.by_other
        # Room to list every key of the input, and every key that the step may give.
        log = np.empty(2 * (len(first.relation) + len(guard.relation)) + 16, np.int64)
        log[0] = 1
        list_keys(self.store.words, log, self._cursor, first.address)
        numbers = {part: number for number, part in enumerate(dict.fromkeys(step.factors))}
        lists = np.zeros(2 * len(numbers) + 2, np.int64)
        lists[:2] = 1, log[0]
        row, table = self._write_step(step, numbers, len(numbers), {})
        nothing = np.zeros(2, np.int64)

        def fill(words: Words, _: Words) -> None:
            if step.kind == EDGE:
                step_edge(
                    words, log, lists, self._cursor, nothing, nothing, table, row, nothing[:0]
                )
            elif step.kind == PRODUCT:
                step_product(words, log, lists, table, row)
            else:
                step_total(words, log, lists, table, row, nothing[:0])

        self.store.run(fill)
        self._check(step.name)

    def check(self) -> None:
        """Compute every part anew in Python, and raise `StoreCorrupt` where it differs."""
        from triegs.maintain.check import check_parts

        check_parts(self)

    # The table

    def write_table(self) -> Words:
        """Number labels, steps and lists, and write all of them down."""
        parts = list(self.by_name.values())
        listed = [part for part in parts if part.listed]
        numbers = {part: number for number, part in enumerate(listed)}
        labels: dict[int, list[Index]] = {}
        for part in parts:
            if isinstance(part, Index):
                labels.setdefault(part.predicate, []).append(part)
        self.labels = {predicate: number for number, predicate in enumerate(labels)}
        self.steps = [part for part in parts if isinstance(part, Step)]
        self.changed = np.empty(2 * len(listed) + 2, np.int64)
        self.bounds = np.empty(len(labels) + 2, np.int64)
        table = [0] * TABLE_HEAD
        table[REST], table[IS_RDF] = slot_at(self.rest.slot), int(self.mode is Mode.RDF)
        table[LABELS], table[LABEL_ROWS] = len(labels), len(table)
        table += [0] * (2 * len(labels))
        for number, rows in enumerate(labels.values()):
            table[table[LABEL_ROWS] + 2 * number] = len(table)
            table[table[LABEL_ROWS] + 2 * number + 1] = len(rows)
            for row in rows:
                changed = numbers.get(row, NO_LIST)
                words = [row.kind, row.column, row.address, changed, row.condition]
                assert len(words) == ROW_WORDS
                table += words
        written = []
        for step in self.steps:
            step_row, factors = self._step_words(
                step, numbers, numbers[step], self.labels, len(table)
            )
            table += factors
            written.append(step_row)
        table[STEPS], table[STEP_ROWS] = len(written), len(table)
        for step_row in written:
            table += step_row + [0] * (STEP_WORDS - len(step_row))
        return np.array(table, np.int64)

    def _write_step(
        self, step: Step, numbers: dict[Part, int], changed: int, labels: dict[int, int]
    ) -> tuple[int, Words]:
        """A table of one step alone, and where in it the step stands."""
        row, factors = self._step_words(step, numbers, changed, labels, 0)
        words = factors + row + [0] * (STEP_WORDS - len(row))
        return len(factors), np.array(words, np.int64)

    @staticmethod
    def _step_words(
        step: Step, numbers: dict[Part, int], changed: int, labels: dict[int, int], at: int
    ) -> tuple[list[int], list[int]]:
        """The row of a step, and the rows of its factors, which will stand at that place."""
        if step.kind == EDGE:
            factor, guard = step.factors[0], step.by_other
            assert guard is not None
            label, column = labels.get(guard.predicate, 0), 1 - guard.column
            return [
                EDGE, label, column, guard.address, factor.reads, factor.address, numbers[factor],
                int(step.is_exact), step.address, changed,
            ], []  # fmt: skip
        factors: list[int] = []
        for factor in step.factors:
            words = [factor.reads, factor.address, numbers[factor]]
            assert len(words) == FACTOR_WORDS
            factors += words
        row = [step.kind, int(step.is_exact), step.address, changed, len(step.factors), at]
        return row, factors


def counts_name(predicate: int) -> str:
    return f"label {predicate}"


def is_counts(part: Part) -> bool:
    return isinstance(part, Index) and part.name == counts_name(part.predicate)
