"""What the compiled core keeps, as parts that plans share, and the table that its kernel reads.

A part is one relation and the way an epoch keeps it: an *index* of a label, filled from its
updates; a *step*, computed from other parts; or *fixed* rows. Parts have canonical names, so equal
sub-plans of all queries are one part, counted by the plans that use it. A part is filled when it
is made; parts are made children first, which is the order in which an epoch keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triegs.errors import MemoryLimitReached, MultiplicityOverflow
from triegs.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.kernels.fill import FILL_CURSOR_WORDS, fill_index, list_keys, move_pairs
from triegs.kernels.layout import FAULTS, FULL, LOG_FULL, NUMBERED, PLAIN, RANKED
from triegs.kernels.numbering import step_numbered_edge, step_numbered_product
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
    NUMBERED_EDGE,
    NUMBERED_PRODUCT,
    PRESENCE,
    PRODUCT,
    RANKING,
    REST,
    ROW_WORDS,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    SUMMED_PAIRS,
    TABLE_HEAD,
    TOTAL,
    step_edge,
    step_product,
    step_total,
)
from triegs.kernels.relations import slot_at, tuple_get
from triegs.kernels.sums import BESIDE, COUNTED, SETS, fill_summed
from triegs.kernels.words import Words
from triegs.mode import Mode
from triegs.store.packed import PackedRelation, PackedStore

NO_LIST = -1
#: By the kind of a step that keeps numbers, how its relation is laid out.
LAYOUTS = {NUMBERED_EDGE: NUMBERED, NUMBERED_PRODUCT: NUMBERED, RANKING: RANKED}
Saved = list[tuple["Part", int, bool, bool]]


@dataclass(slots=True, eq=False)
class Part:
    """A relation with how others read it: `reads` is PRESENCE of a key, or its COUNT."""

    name: str
    relation: PackedRelation
    reads: int
    uses: int = 0
    #: Whether an epoch lists the keys that it changed.
    listed: bool = True
    #: Whether the hubs of an index of pairs are summed.
    is_summed: bool = False

    @property
    def address(self) -> int:
        return slot_at(self.relation.slot)

    @property
    def numbers(self) -> int:
        """Where the numbers of a key are, see `triegs.kernels.sums`."""
        if self.relation.layout != PLAIN:
            return BESIDE
        return SETS if self.is_summed else COUNTED


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
        self.changed = np.zeros(0, np.int64)
        self.bounds = np.zeros(0, np.int64)
        self._lists: dict[Part, int] = {}
        self.table = self.write_table()
        self._cursor = np.zeros(FILL_CURSOR_WORDS, np.int64)

    # Sharing

    def save(self) -> Saved:
        """What `restore` needs after the store has aborted."""
        parts = self.by_name.values()
        return [(part, part.uses, part.listed, part.is_summed) for part in parts]

    def restore(self, saved: Saved) -> None:
        self.by_name.clear()
        for part, uses, listed, is_summed in saved:
            part.uses, part.listed, part.is_summed = uses, listed, is_summed
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
            found = Index(
                name, relation, PRESENCE, listed=False, predicate=predicate, column=column
            )
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
            found = Index(
                name, relation, reads, listed=listed, predicate=predicate, kind=kind,
                column=column, condition=condition,
            )  # fmt: skip
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

    def summed(self, index: Index) -> Index:
        """An index of pairs with numbers in its hubs; all who use it go on with it.

        Costs the index where it had none yet. It has them as long as it lives.
        """
        assert index.kind == ADJACENCY
        index.listed = True
        if index.is_summed:
            return index
        columns, found = self._read_pairs(int(self.store.words[index.address]), True,
                                          len(index.relation))  # fmt: skip
        flat = np.ascontiguousarray(columns[:, :found]).reshape(-1)
        if found and int(columns[2, :found].max()) > 2**63 // found:
            message = f"the sum of the counts of {index.name} may not fit 64 bits"
            raise MultiplicityOverflow(message, index.name)
        self.store.clear(index.relation)

        def fill(words: Words, _: Words) -> None:
            fill_summed(words, index.address, flat, found)

        self.store.run(fill)
        self._check(index.name)
        index.is_summed = True
        return index

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
        """A computed part, made and filled when first asked for.

        One that keeps numbers keeps rows, too, if it is exact.
        """
        found = self.by_name.get(name)
        if found is None:
            arity = {EDGE: 1 if is_exact else 2, NUMBERED_EDGE: 2, TOTAL: 0}.get(kind, 1)
            relation = self.store.create(name, arity, LAYOUTS.get(kind, PLAIN))
            reads = PRESENCE if kind == EDGE and not is_exact else COUNT
            found = Step(
                name, relation, reads, kind=kind, is_exact=is_exact, factors=factors,
                by_other=by_other,
            )  # fmt: skip
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
        if size == 0:
            return
        pairs, found = self._read_pairs(below, from_trie, size)
        order = [1, 0, 2] if is_back and counts.column == 1 else [0, 1, 2]
        columns = np.ascontiguousarray(pairs[order, :found]).reshape(-1)
        key = np.empty(3, np.int64)
        label, slot, by = counts.predicate, counts.address, counts.column

        def move(words: Words, _: Words) -> None:
            move_pairs(words, key, label, slot, by, address, columns, found, is_back)

        self.store.run(move)
        self._check(counts.name)

    def _read_pairs(self, below: int, from_trie: bool, size: int) -> tuple[Words, int]:
        """Pairs and their counts as three columns of that size at most, and how many there are."""
        scan = np.zeros(CURSOR_WORDS * 3, np.int64)
        columns = np.empty(3 * size, np.int64)
        open_scan(self.store.words, scan, below, from_trie)
        found = fill_scan(self.store.words, scan, 2, from_trie, columns, size)
        return columns.reshape(3, size), int(found)

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
            if step.by_other is not None:
                fill_edge = step_edge if step.kind == EDGE else step_numbered_edge
                fill_edge(
                    words, log, lists, self._cursor, nothing, nothing, table, row, nothing[:0]
                )
            elif step.kind == PRODUCT:
                step_product(words, log, lists, table, row)
            elif step.kind == TOTAL:
                step_total(words, log, lists, table, row, nothing[:0])
            else:
                step_numbered_product(words, log, lists, table, row, step.kind == RANKING)

        self.store.run(fill)
        self._check(step.name)

    def check(self) -> None:
        """Compute every part anew in Python, and raise `StoreCorrupt` where it differs."""
        from triegs.maintain.check import check_parts

        check_parts(self)

    def count_touched(self, held: Sequence[Part]) -> int:
        """What the last epoch had to do for some parts: updates of labels, keys of steps."""
        found = 0
        for part in set(held):
            if isinstance(part, Index):
                label = self.labels[part.predicate]
                found += int(self.bounds[label + 1] - self.bounds[label])
            elif part in self._lists:
                start, end = self.changed[2 * self._lists[part] :][:2].tolist()
                found += (end - start) >> 1
        return found

    # The table

    def write_table(self) -> Words:
        """Number labels, steps and lists, and write all of them down."""
        parts = list(self.by_name.values())
        listed = [part for part in parts if part.listed]
        numbers = self._lists = {part: number for number, part in enumerate(listed)}
        labels: dict[int, list[Index]] = {}
        for part in parts:
            if isinstance(part, Index):
                labels.setdefault(part.predicate, []).append(part)
        self.labels = {predicate: number for number, predicate in enumerate(labels)}
        self.steps = [part for part in parts if isinstance(part, Step)]
        self.changed = np.zeros(2 * len(listed) + 2, np.int64)
        self.bounds = np.zeros(len(labels) + 2, np.int64)
        table = [0] * TABLE_HEAD
        table[REST], table[IS_RDF] = slot_at(self.rest.slot), int(self.mode is Mode.RDF)
        table[LABELS], table[LABEL_ROWS] = len(labels), len(table)
        table += [0] * (2 * len(labels))
        for number, rows in enumerate(labels.values()):
            table[table[LABEL_ROWS] + 2 * number] = len(table)
            table[table[LABEL_ROWS] + 2 * number + 1] = len(rows)
            for row in rows:
                changed = numbers.get(row, NO_LIST)
                kind = SUMMED_PAIRS if row.is_summed else row.kind
                words = [kind, row.column, row.address, changed, row.condition]
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
        is_numbered = step.kind in LAYOUTS
        if step.by_other is not None:
            factor, guard = step.factors[0], step.by_other
            reads = factor.numbers if is_numbered else factor.reads
            label, column = labels.get(guard.predicate, 0), 1 - guard.column
            return [
                step.kind, label, column, guard.address, reads, factor.address, numbers[factor],
                int(step.is_exact), step.address, changed,
            ], []  # fmt: skip
        factors: list[int] = []
        for factor in step.factors:
            reads = factor.numbers if is_numbered else factor.reads
            words = [reads, factor.address, numbers[factor]]
            assert len(words) == FACTOR_WORDS
            factors += words
        row = [step.kind, int(step.is_exact), step.address, changed, len(step.factors), at]
        return row, factors


def counts_name(predicate: int) -> str:
    return f"label {predicate}"


def is_counts(part: Part) -> bool:
    return isinstance(part, Index) and part.name == counts_name(part.predicate)
