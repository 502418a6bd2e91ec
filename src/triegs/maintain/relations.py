"""The relations of views: reading them as columns, and filling those of new views.

A new view is filled from existing data by the kernels that maintain it afterwards.
"""

from __future__ import annotations

import numpy as np

from triegs.errors import MemoryLimitReached, MultiplicityOverflow
from triegs.jit.words import Words
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.fill import (
    FILL_CURSOR_WORDS,
    fill_index,
    fill_tuples,
    list_keys,
    move_pairs,
)
from triegs.maintain.kernels.work import BUFFER_WORDS, FIXED_WORDS, RAW, RUNS, RUNS_END, SCRATCH
from triegs.maintain.meaning import TOO_LARGE
from triegs.maintain.model import Index, Rule, Step, View, find_address
from triegs.maintain.one_step import NOTHING, run_step
from triegs.maintain.streams import Columns
from triegs.maintain.tables import write_rule, write_step
from triegs.mode import Mode
from triegs.store.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.store.kernels.layout import FAULTS, FULL, LOG_FULL, PLAIN
from triegs.store.kernels.relations import tuple_get
from triegs.store.packed import PackedStore

FIRST_BUFFER = 1 << 14  # words
FILL_SEEDS = 1 << 12  # seeds per call when a new rule is filled
NO_ENTRIES = np.zeros(2, np.int64)  # the bounds of a stream without any


class ViewRelations:
    """The store of the views, and the assertions whose label no view covers."""

    def __init__(self, store: PackedStore, mode: Mode, judges: Judges) -> None:
        self.store = store
        self.mode = mode
        self.judges = judges
        self.unindexed = store.create("unindexed", 3)
        self.work = make_work(FIRST_BUFFER)
        self._cursor = np.zeros(FILL_CURSOR_WORDS, np.int64)

    # Reading

    def read_rows(self, view: View) -> Columns:
        """The entries of a relation as columns, the counts last."""
        root, size = self.store.words[view.address], int(self.store.words[view.address + 1])
        return self._read_below(int(root), True, view.relation.arity, size)

    def read_keys(self, view: View) -> Columns:
        """The ids of the first column, with 1 or, for a map, their counts."""
        if view.relation.arity == 1 and view.relation.layout == PLAIN:
            return self.read_rows(view)
        log = np.empty(2 * len(view.relation) + 16, np.int64)
        log[0] = 1
        list_keys(self.store.words, log, self._cursor, view.address)
        keys = log[1 : int(log[0]) : 2]
        return np.stack([keys, np.ones(len(keys), np.int64)])

    def _read_below(self, word: int, from_trie: bool, arity: int, size: int) -> Columns:
        """At most the given number of tuples below a word as columns, with their counts."""
        if arity == 0 or size == 0 or word == 0:
            count = [[word]] if arity == 0 and word else np.empty((arity + 1, 0))
            return np.array(count, np.int64)
        scan = np.zeros(CURSOR_WORDS * (arity + 1), np.int64)
        columns = np.empty((arity + 1) * size, np.int64)
        open_scan(self.store.words, scan, word, from_trie)
        found = int(fill_scan(self.store.words, scan, arity, from_trie, columns, size))
        return columns.reshape(arity + 1, size)[:, :found]

    # Filling

    def check_faults(self, name: str) -> None:
        """After a kernel call: raise an exception if memory ran out or a count did not fit."""
        faults = self.store.faults
        assert not faults & LOG_FULL, f"{name}: the log is too short"
        if faults & FULL:
            raise MemoryLimitReached(f"{name}: no room")
        if faults:
            self.store.words[FAULTS] = 0
            raise MultiplicityOverflow(TOO_LARGE, name)

    def _move(self, counts: Index, is_back: bool) -> None:
        words, address = self.store.words, find_address(self.unindexed)
        label, slot, by = counts.stream.predicate or 0, counts.address, counts.column
        if is_back:
            below, from_trie = int(words[slot]), True
            size = int(words[slot + 1])
        else:
            key = np.array([label], np.int64)
            below, from_trie = int(tuple_get(words, int(words[address]), key, 1)), False
            size = int(words[address + 1]) if below else 0  # of all labels: enough
        if size == 0:
            return
        pairs = self._read_below(below, from_trie, 2, size)
        order = [1, 0, 2] if is_back and by == 1 else [0, 1, 2]
        found = pairs.shape[1]
        columns = np.ascontiguousarray(pairs[order]).reshape(-1)
        key = np.empty(3, np.int64)

        def move(words: Words, _: Words) -> None:
            move_pairs(words, key, label, slot, by, address, columns, found, is_back)

        self.store.run(move)
        self.check_faults(counts.name)

    def _fill_index(self, index: Index, counts: Index) -> None:
        address, is_rdf = index.address, self.mode is Mode.RDF

        def fill(words: Words, _: Words) -> None:
            fill_index(
                words, self._cursor, counts.address, counts.column, is_rdf, index.kind,
                index.column, index.condition, address,
            )  # fmt: skip

        self.store.run(fill)
        self._check_or_drop(index)

    def _fill_tuples(self, view: View, rows: Columns) -> None:
        """Insert columns, counts last, into an empty relation; counts of equal keys are summed."""
        flat = np.ascontiguousarray(rows).reshape(-1)
        count, arity = rows.shape[1], view.relation.arity
        key = np.empty(arity, np.int64)

        def fill(words: Words, _: Words) -> None:
            fill_tuples(words, key, view.address, flat, count, arity)

        self.store.run(fill)
        self._check_or_drop(view)

    def _check_or_drop(self, view: View) -> None:
        try:
            self.check_faults(view.name)
        except MultiplicityOverflow:
            self.store.drop(view.relation)
            raise

    def _fill_step(self, step: Step) -> None:
        """List all keys of one input as new, and run the step on them."""
        first = step.factors[0]
        guard = first if step.edge is None or step.edge.by_other is None else step.edge.by_other
        # Room to list every key of the input, and every key that the step may produce.
        log = np.empty(2 * (len(first.relation) + len(guard.relation)) + 16, np.int64)
        log[0] = 1
        list_keys(self.store.words, log, self._cursor, first.address)
        lists = np.zeros(2 * len(step.factors) + 2, np.int64)
        lists[:2] = 1, log[0]
        self._run_step(write_step(step), log, lists, NO_ENTRIES, NOTHING)
        self.check_faults(step.name)

    def _fill_edge(self, step: Step, rows: Columns) -> None:
        """Run the step with all pairs of its stream as new ones."""
        entries = np.stack([*rows, rows[-1]], axis=1).reshape(-1)
        bounds = np.array([0, entries.size], np.int64)
        log = np.empty(2 * rows.shape[1] + 16, np.int64)
        log[0] = 1
        lists = np.zeros(2 * len(step.factors) + 2, np.int64)
        self._run_step(write_step(step), log, lists, bounds, entries)
        self.check_faults(step.name)

    def _fill_from(self, rule: Rule, rows: Columns) -> None:
        """Fill a rule from the rows of its last input; all others are read as they are now."""
        delta = rule.deltas[-1]
        if delta.width == 1:  # their counts are looked up
            assert delta.seeds.view is not None, "a stream of one column is read by its index"
            rows = rows[:1]
            seeds = np.stack([rows[0], np.zeros(rows.shape[1], np.int64)], axis=1)
        else:
            nothing = np.zeros((1, rows.shape[1]), np.int64)
            seeds = np.concatenate([rows[:-1], nothing, rows[-1:]]).T
        table = write_rule(rule)
        at, many = 0, FILL_SEEDS
        while at < len(seeds):
            some = seeds[at : at + many]
            log = np.concatenate([[1 + some.size], some.reshape(-1)])
            lists = np.array([1, 1 + some.size], np.int64)
            if self._run_rule(rule, table, log, lists):
                at += len(some)
                many = min(FILL_SEEDS, 2 * many)
            elif many > 1:
                many = max(1, many // 8)
            else:
                self.grow_work()

    def _run_rule(self, rule: Rule, table: Words, log: Words, lists: Words) -> bool:
        """Run a rule on listed seeds; false, with nothing changed, if the buffer is too small."""
        self._run_step(table, log, lists, NO_ENTRIES, NOTHING)
        if self.store.faults & (LOG_FULL | FULL) == LOG_FULL:
            self.store.words[FAULTS] = 0
            self.judges.answer()
            return False
        self.check_faults(rule.name)
        return True

    def _run_step(
        self, table: Words, log: Words, lists: Words, bounds: Words, entries: Words
    ) -> None:
        """Run the step of a table on listed keys or entries, all inputs as they are now."""
        judges = self.judges

        def run(words: Words, _: Words) -> bool:
            return run_step(
                words, log, lists, self.work, bounds, entries, table, NOTHING, judges.words,
                judges.requests,
            )  # fmt: skip

        while not self.store.run(run):
            judges.answer()

    def grow_work(self) -> None:
        """Double the room for emissions and for the runs of levels."""
        self.work = make_work(2 * int(self.work[BUFFER_WORDS]))


def make_work(words: int) -> Words:
    """Scratch memory with buffers of the given number of words."""
    work = np.zeros(FIXED_WORDS + 3 * words, np.int64)
    work[[RAW, SCRATCH, RUNS, RUNS_END]] = FIXED_WORDS + words * np.arange(4)
    work[BUFFER_WORDS] = words
    return work
