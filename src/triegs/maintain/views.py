"""What the core keeps, as views that plans share.

A view is one relation and the way an epoch keeps it: an *index* of a stream, filled from its
entries; a *step* or *rule*, computed from other views; a rule's output in another *order*; or
*fixed* rows. Views have canonical names, so equal sub-plans of all queries are one view, counted by
the plans that use it. A view is filled when it is made; views are made children first, which is the
order in which an epoch keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from triegs.errors import MemoryLimitReached, MultiplicityOverflow
from triegs.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.kernels.fill import FILL_CURSOR_WORDS, fill_index, fill_tuples, list_keys, move_pairs
from triegs.kernels.layout import (
    FAULTS,
    FULL,
    LOG_FULL,
    LOW,
    NUMBERED,
    PLAIN,
    RANKED,
    SLOT_WORDS,
    SLOTS,
)
from triegs.kernels.numbering import step_numbered_edge, step_numbered_product
from triegs.kernels.program import step_edge, step_product, step_total
from triegs.kernels.relations import tuple_get
from triegs.kernels.rule import step_rule
from triegs.kernels.sums import ANSWERED, BESIDE, COUNTED, SETS, fill_summed
from triegs.kernels.tables import (
    ADJACENCY,
    ANY,
    COUNT,
    COUNTS,
    EDGE,
    NUMBERED_EDGE,
    NUMBERED_PRODUCT,
    PRESENCE,
    PRODUCT,
    RANKING,
    TOTAL,
    TUPLES,
)
from triegs.kernels.words import Words
from triegs.kernels.work import BUFFER_WORDS, FIXED_WORDS, RAW, RUNS, RUNS_END, SCRATCH
from triegs.maintain.deltas import Delta, Symmetry
from triegs.maintain.judges import Judges
from triegs.maintain.origins import Origins
from triegs.maintain.streams import Columns, Stream, label_stream
from triegs.mode import Mode
from triegs.store.packed import PackedRelation, PackedStore

#: By the kind of a step that keeps numbers, how its relation is laid out.
LAYOUTS = {NUMBERED_EDGE: NUMBERED, NUMBERED_PRODUCT: NUMBERED, RANKING: RANKED}
FIRST_BUFFER = 1 << 14  # words
FILL_SEEDS = 1 << 12  # that a new rule is filled from at a time
Saved = list[tuple["View", int, bool, bool, bool]]


@dataclass(slots=True, eq=False)
class View:
    """A relation with how others read it: `reads` is PRESENCE of a key, or its COUNT."""

    name: str
    relation: PackedRelation
    reads: int
    uses: int = 0
    #: Whether an epoch lists the keys that it changed.
    listed: bool = True
    #: Whether the hubs of the last column are summed.
    is_summed: bool = False
    #: Of a rule: whether an epoch lists the ids of the first column that came or went.
    has_keys: bool = False
    #: Of a rule with one column: whether its counts are numbers of answers.
    is_answers: bool = False

    @property
    def address(self) -> int:
        return find_address(self.relation)

    @property
    def numbers(self) -> int:
        """Where the numbers of a key are, see `triegs.kernels.sums`."""
        if self.relation.layout != PLAIN:
            return BESIDE
        if self.is_answers:
            return ANSWERED
        return SETS if self.is_summed else COUNTED


@dataclass(slots=True, eq=False)
class Index(View):
    """The entries of a stream: pairs by one column, their summed counts, or tuples in an order."""

    stream: Stream = field(default_factory=lambda: label_stream(0))
    kind: int = ADJACENCY
    column: int = 0
    condition: int = ANY
    order: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Step(View):
    """A relation computed from factors; an edge also from a stream, `by_other` leading from its
    second variable back to the first.
    """

    kind: int = PRODUCT
    is_exact: bool = False
    factors: tuple[View, ...] = ()
    by_other: Index | None = None


@dataclass(slots=True, eq=False)
class Rule(View):
    """``out(head) = the sum over all other variables of the product of the inputs``.

    `deltas` are of all inputs; those whose input never changes serve to fill it only. With
    `is_listed_only` the output is the relation of an index, and only its changes are listed.
    """

    arity: int = 0
    head: tuple[int, ...] = ()
    deltas: tuple[Delta, ...] = ()
    is_listed_only: bool = False
    symmetry: Symmetry | None = None
    #: With symmetry: the variables of each input.
    pairs: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True, eq=False)
class Order(View):
    """The output of a rule, or fixed rows, with the columns in another order."""

    of: View | None = None
    columns: tuple[int, ...] = ()


class Views:
    """The views of all registered plans over one store, and the assertions of all other labels."""

    def __init__(self, store: PackedStore, mode: Mode, judges: Judges, origins: Origins) -> None:
        self.store = store
        self.mode = mode
        self.judges = judges
        self.origins = origins
        self.by_name: dict[str, View] = {}
        #: Whether the counts of a label that nobody uses stay as they are for now.
        self.keeps_counts = False
        self.rest = store.create("rest", 3)
        self.work = make_work(FIRST_BUFFER)
        self._cursor = np.zeros(FILL_CURSOR_WORDS, np.int64)

    # Sharing

    def save(self) -> Saved:
        """What `restore` needs after the store has aborted."""
        views = self.by_name.values()
        return [(view, view.uses, view.listed, view.is_summed, view.has_keys) for view in views]

    def restore(self, saved: Saved) -> None:
        self.by_name.clear()
        for view, uses, listed, is_summed, has_keys in saved:
            view.uses, view.listed, view.is_summed, view.has_keys = (
                uses,
                listed,
                is_summed,
                has_keys,
            )
            self.by_name[view.name] = view

    def release(self, held: Collection[View], keeps_counts: bool = False) -> None:
        """Count one use less of each; what nobody uses is dropped, users before the used.

        To drop the counts of a label is to move them, which takes room and time. They may stay,
        unused and kept up to date, until the next release.
        """
        for view in held:
            view.uses -= 1
        keeps_counts |= self.keeps_counts
        for view in reversed(list(self.by_name.values())):
            if view.uses == 0 and not (keeps_counts and is_counts(view)):
                self.drop(view)

    def drop(self, view: View) -> None:
        """Forget a view; the counts of a label go back into the rest."""
        if is_counts(view):
            assert isinstance(view, Index)
            self._move(view, is_back=True)
        if not (isinstance(view, Rule) and view.is_listed_only):
            self.store.drop(view.relation)
        del self.by_name[view.name]

    # Making

    def counts(self, predicate: int, column: int = 0) -> Index:
        """The counts of a label, which deletions are judged by; moved out of the rest.

        A new one is kept by that column: one that a plan reads as well saves an index.
        """
        stream = label_stream(predicate)
        found = self.by_name.get(stream.name)
        if found is None:
            relation = self.store.create(stream.name, 2)
            found = Index(
                stream.name, relation, PRESENCE, listed=False, stream=stream, column=column
            )
            self._move(found, is_back=False)
            self.by_name[stream.name] = found
        assert isinstance(found, Index)
        return found

    def index(self, stream: Stream, kind: int, column: int, condition: int = ANY) -> Index:
        """The weights of a stream's pairs by one column, or the sums of their counts; made and
        filled when first asked for.
        """
        counts = None
        if stream.predicate is not None:
            counts = self.counts(stream.predicate, column if kind == ADJACENCY else 0)
            is_same = (kind, column, condition) == (ADJACENCY, counts.column, ANY)
            if is_same and self.mode is Mode.MULTIGRAPH:
                return counts
        name = f"{stream.name} {('pairs', 'counts')[kind]} by {column} where {condition}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, 1 if kind == COUNTS else 2)
            reads = COUNT if kind == COUNTS else PRESENCE
            listed = kind == COUNTS  # these are always logged
            found = Index(
                name, relation, reads, listed=listed, stream=stream, kind=kind, column=column,
                condition=condition,
            )  # fmt: skip
            if counts is not None:
                self._fill_index(found, counts)
            else:
                assert condition == ANY
                order = [column] if kind == COUNTS else [column, 1 - column]
                self._fill_tuples(found, self.read_stream(stream)[[*order, -1]])
            self.by_name[name] = found
        assert isinstance(found, Index)
        return found

    def tuples(self, stream: Stream, order: tuple[int, ...]) -> Index:
        """The weights of a stream of three columns, in an order of these."""
        name = f"{stream.name} by {order}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, stream.arity)
            found = Index(
                name, relation, PRESENCE, listed=False, stream=stream, kind=TUPLES, order=order
            )
            self._fill_tuples(found, self.read_stream(stream)[[*order, -1]])
            self.by_name[name] = found
        assert isinstance(found, Index)
        return found

    def summed(self, view: View) -> View:
        """A view of several columns with numbers in the hubs of the last one; all who use it go on
        with it.

        Costs the view where it had none yet. It has them as long as it lives.
        """
        arity = view.relation.arity
        assert arity > 1
        assert not (isinstance(view, Rule) and view.is_listed_only)
        if isinstance(view, Index) and view.kind == ADJACENCY:
            view.listed = True
        if view.is_summed:
            return view
        columns = self.read_rows(view)
        found = columns.shape[1]
        high, low = int((columns[-1] >> 32).sum()), int((columns[-1] & LOW).sum())
        if (high << 32) + low >= 2**63:
            message = f"the sum of the counts of {view.name} does not fit 64 bits"
            raise MultiplicityOverflow(message, view.name)
        flat = np.ascontiguousarray(columns).reshape(-1)
        key = np.empty(arity, np.int64)
        self.store.clear(view.relation)

        def fill(words: Words, _: Words) -> None:
            fill_summed(words, key, view.address, flat, found, arity)

        self.store.run(fill)
        self._check(view.name)
        view.is_summed = True
        return view

    def fixed(self, name: str, arity: int, rows: Sequence[tuple[int, ...]]) -> View:
        """Rows that no update changes; a row written twice counts twice."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = View(name, self.store.create(name, arity), COUNT)
            for row in rows:
                found.relation.set(row, found.relation.get(row) + 1)
        return found

    def order(self, view: View, columns: tuple[int, ...]) -> View:
        """A view with its columns in this order: itself, or one more relation."""
        if columns == tuple(range(view.relation.arity)):
            return view
        name = f"{view.name} by {columns}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, view.relation.arity)
            found = Order(name, relation, PRESENCE, listed=False, of=view, columns=columns)
            self._fill_tuples(found, self.read_rows(view)[[*columns, -1]])
            self.by_name[name] = found
        return found

    def step(
        self, name: str, kind: int, is_exact: bool, factors: tuple[View, ...],
        by_other: Index | None = None,
    ) -> View:  # fmt: skip
        """A computed view, made and filled when first asked for.

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
                list_keys_of(factor)
            try:
                self._fill_step(found)
            except MultiplicityOverflow:
                self.store.drop(relation)  # a rebuild goes on without it
                raise
            self.by_name[name] = found
        # A plan holds the views that it names; another's would go with that other.
        assert isinstance(found, Step), name
        assert (set(found.factors), found.by_other) == (set(factors), by_other), name
        return found

    def rule(
        self, name: str, head: tuple[int, ...], deltas: tuple[Delta, ...],
        relation: View | None = None, symmetry: Symmetry | None = None,
        pairs: tuple[tuple[int, ...], ...] = (),
    ) -> Rule:  # fmt: skip
        """A rule, made and filled when first asked for; with a relation, only its changes."""
        found = self.by_name.get(name)
        if found is None:
            is_listed_only = relation is not None
            place = self.store.create(name, len(head)) if relation is None else relation.relation
            reads = PRESENCE if len(head) > 1 else COUNT
            found = Rule(
                name, place, reads, listed=is_listed_only, arity=len(head), head=head,
                deltas=deltas, is_listed_only=is_listed_only, symmetry=symmetry, pairs=pairs,
            )  # fmt: skip
            if not is_listed_only:
                try:
                    self._fill_rule(found)
                except MultiplicityOverflow:
                    self.store.drop(place)
                    raise
            self.by_name[name] = found
        assert isinstance(found, Rule), name
        assert (found.head, found.deltas) == (head, deltas), name
        return found

    # Reading

    def read_rows(self, view: View) -> Columns:
        """The entries of a relation as columns, the counts last."""
        root, size = self.store.words[view.address], int(self.store.words[view.address + 1])
        return self._read_below(int(root), True, view.relation.arity, size)

    def read_keys(self, view: View) -> Columns:
        """The ids of the first column, with a 1 or, of a map, their counts."""
        if view.relation.arity == 1 and view.relation.layout == PLAIN:
            return self.read_rows(view)
        log = np.empty(2 * len(view.relation) + 16, np.int64)
        log[0] = 1
        list_keys(self.store.words, log, self._cursor, view.address)
        keys = log[1 : int(log[0]) : 2]
        return np.stack([keys, np.ones(len(keys), np.int64)])

    def read_stream(self, stream: Stream) -> Columns:
        """Every assertion that a stream brought, with its weight. Cost: its source."""
        if stream.source is not None:
            return stream.select(self.read_stream(stream.source), self.judges)
        if stream.predicate is not None:
            counts = self.counts(stream.predicate)
            rows = self.read_rows(counts)
            rows = rows[[0, 1, 2] if counts.column == 0 else [1, 0, 2]]
        else:
            rows = self.read_space(stream.space or 0)
        if self.mode is Mode.RDF:
            rows[-1] = 1
        return rows

    def read_space(self, space: int) -> Columns:
        """All triples of a space, with their numbers of live events."""
        rest = self._read_below(
            int(self.store.words[find_address(self.rest)]), True, 3, len(self.rest)
        )
        found = [rest[[1, 0, 2, 3]]]
        for view in self.by_name.values():
            if isinstance(view, Index) and is_counts(view):
                rows = self.read_rows(view)
                labels = np.full(rows.shape[1], view.stream.predicate)
                order = [0, 1] if view.column == 0 else [1, 0]
                found.append(np.stack([rows[order[0]], labels, rows[order[1]], rows[2]]))
        rows = np.concatenate(found, axis=1)
        where, plain = self.origins.find(rows[1])
        rows[1] = plain
        return rows[:, where == space]

    def _read_below(self, word: int, from_trie: bool, arity: int, size: int) -> Columns:
        """The tuples below a word as columns, of that number at most, with their counts."""
        if arity == 0 or size == 0 or word == 0:
            count = [[word]] if arity == 0 and word else np.empty((arity + 1, 0))
            return np.array(count, np.int64)
        scan = np.zeros(CURSOR_WORDS * (arity + 1), np.int64)
        columns = np.empty((arity + 1) * size, np.int64)
        open_scan(self.store.words, scan, word, from_trie)
        found = int(fill_scan(self.store.words, scan, arity, from_trie, columns, size))
        return columns.reshape(arity + 1, size)[:, :found]

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
        words, address = self.store.words, find_address(self.rest)
        label, slot, by = counts.stream.predicate or 0, counts.address, counts.column
        if is_back:
            below, from_trie = int(words[slot]), True
            size = int(words[slot + 1])
        else:
            key = np.array([label], np.int64)
            below, from_trie = int(tuple_get(words, int(words[address]), key, 1)), False
            size = int(words[address + 1]) if below else 0  # of the whole rest: enough
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
        self._check(counts.name)

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
        """Put columns, the counts last, into an empty relation; those of one key are summed."""
        flat = np.ascontiguousarray(rows).reshape(-1)
        count, arity = rows.shape[1], view.relation.arity
        key = np.empty(arity, np.int64)

        def fill(words: Words, _: Words) -> None:
            fill_tuples(words, key, view.address, flat, count, arity)

        self.store.run(fill)
        self._check_or_drop(view)

    def _check_or_drop(self, view: View) -> None:
        try:
            self._check(view.name)
        except MultiplicityOverflow:
            self.store.drop(view.relation)
            raise

    def _fill_step(self, step: Step) -> None:
        """List all keys of one input as new, and run the step on them."""
        from triegs.maintain.tables import write_step

        first = step.factors[0]
        guard = first if step.by_other is None else step.by_other
        # Room to list every key of the input, and every key that the step may give.
        log = np.empty(2 * (len(first.relation) + len(guard.relation)) + 16, np.int64)
        log[0] = 1
        list_keys(self.store.words, log, self._cursor, first.address)
        lists = np.zeros(2 * len(step.factors) + 2, np.int64)
        lists[:2] = 1, log[0]
        table, row = write_step(step)
        nothing = np.zeros(2, np.int64)

        def fill(words: Words, _: Words) -> None:
            if step.by_other is not None:
                fill_edge = step_edge if step.kind == EDGE else step_numbered_edge
                fill_edge(words, log, lists, self.work, nothing, nothing, table, row, nothing[:0])
            elif step.kind == PRODUCT:
                step_product(words, log, lists, table, row)
            elif step.kind == TOTAL:
                step_total(words, log, lists, table, row, nothing[:0])
            else:
                step_numbered_product(words, log, lists, table, row, step.kind == RANKING)

        self.store.run(fill)
        self._check(step.name)

    def _fill_rule(self, rule: Rule) -> None:
        """Let all tuples of the last input be seeds: all others are read as they are now."""
        from triegs.maintain.tables import write_rule

        delta = rule.deltas[-1]
        rows = delta.seeds.read(self)
        if delta.width == 1:  # their counts are looked up
            assert delta.seeds.view is not None, "a stream of one column is read by its index"
            rows = rows[:1]
            seeds = np.stack([rows[0], np.zeros(rows.shape[1], np.int64)], axis=1)
        else:
            nothing = np.zeros((1, rows.shape[1]), np.int64)
            seeds = np.concatenate([rows[:-1], nothing, rows[-1:]]).T
        table, row = write_rule(rule)
        at, many = 0, FILL_SEEDS
        while at < len(seeds):
            some = seeds[at : at + many]
            log = np.concatenate([[1 + some.size], some.reshape(-1)])
            lists = np.array([1, 1 + some.size], np.int64)
            if self._run_rule(rule, table, row, log, lists):
                at += len(some)
                many = min(FILL_SEEDS, 2 * many)
            elif many > 1:
                many = max(1, many // 8)
            else:
                self.grow_work()

    def _run_rule(self, rule: Rule, table: Words, row: int, log: Words, lists: Words) -> bool:
        """Run a rule on listed seeds; false, with nothing changed, if the buffer is too short."""
        nothing, judges = np.zeros(2, np.int64), self.judges

        def run(words: Words, _: Words) -> bool:
            return step_rule(
                words, log, lists, self.work, nothing, nothing, table, row, nothing[:0],
                judges.words, judges.asked,
            )  # fmt: skip

        while not self.store.run(run):
            judges.answer()
        if self.store.faults & (LOG_FULL | FULL) == LOG_FULL:
            self.store.words[FAULTS] = 0
            judges.answer()
            return False
        self._check(rule.name)
        return True

    def grow_work(self) -> None:
        """Have twice the room for emissions, and for the runs of levels."""
        self.work = make_work(2 * int(self.work[BUFFER_WORDS]))

    def check(self) -> None:
        """Compute every view anew in Python, and raise `StoreCorrupt` where it differs."""
        from triegs.maintain.check import check_views

        check_views(self)


def make_work(words: int) -> Words:
    """Scratch memory with buffers of so many words."""
    work = np.zeros(FIXED_WORDS + 3 * words, np.int64)
    work[[RAW, SCRATCH, RUNS, RUNS_END]] = FIXED_WORDS + words * np.arange(4)
    work[BUFFER_WORDS] = words
    return work


def find_address(relation: PackedRelation) -> int:
    """The place of a relation's slot in the words of its store."""
    return SLOTS + SLOT_WORDS * relation.slot


def is_counts(view: View) -> bool:
    return isinstance(view, Index) and view.name == view.stream.name


def is_fixed(view: View) -> bool:
    """Whether no update changes its rows."""
    return type(view) is View


def list_keys_of(view: View) -> None:
    """Let an epoch list the ids of the first column that it changed, or that came or went."""
    if isinstance(view, Rule) and view.arity > 1:
        view.has_keys = True
    else:
        view.listed = True
