"""The views that the core maintains, shared between plans.

A view is one relation plus the way an epoch maintains it: an *index* of a stream, filled from the
stream's entries; a *step* or *rule*, computed from other views; a rule's output in another column
*order*; or *fixed* rows. Views have canonical names, so equal sub-plans of all queries share one
view, reference-counted by the plans that use it. A view is filled on creation. Views are created
children first, which is also the order in which an epoch maintains them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from triegs.errors import MultiplicityOverflow
from triegs.jit.words import Words
from triegs.maintain.digits import Digits
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.tables import (
    ADJACENCY,
    ANY,
    CONSTANT,
    COUNT,
    COUNTS,
    EDGE,
    EXTREME_EDGE,
    FIXED,
    ORDERED_EDGE,
    PRESENCE,
    SAME,
    SORTED,
    SORTED_TUPLES,
    TOTAL,
    TUPLES,
)
from triegs.maintain.label_graphs import LabelGraphs
from triegs.maintain.meaning import TOO_LARGE
from triegs.maintain.model import (
    LAYOUTS,
    Delta,
    DigitView,
    Edge,
    Index,
    Operand,
    Order,
    Rule,
    Step,
    Symmetry,
    View,
    Watch,
    find_address,
    is_counts,
    list_keys_of,
)
from triegs.maintain.relations import ViewRelations
from triegs.maintain.streams import Columns, Stream, label_stream
from triegs.mode import Mode
from triegs.store.kernels.layout import (
    LOW,
    PLAIN,
)
from triegs.store.kernels.order_statistics import fill_summed
from triegs.store.packed import PackedStore

WHOLE, DIGITS = "whole digits of terms", "other digits of terms"
Saved = list[tuple["View", int, bool, bool, bool]]


class Views(ViewRelations):
    """The views of all registered plans over one store, and the assertions of all other labels."""

    def __init__(
        self, store: PackedStore, mode: Mode, judges: Judges, label_graphs: LabelGraphs
    ) -> None:
        super().__init__(store, mode, judges)
        self.label_graphs = label_graphs
        self.digits = Digits(store, judges.read_terms)
        self.by_name: dict[str, View] = {}
        #: Whether unused label counts are kept for now.
        self.keeps_counts = False

    # Sharing

    def save(self) -> Saved:
        """Everything that `restore` needs after the store has aborted."""
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
        """Release one use of each view, and drop unused views, users before the views they use.

        Dropping the counts of a label means moving them, which takes space and time. With
        `keeps_counts` they stay, unused but up to date, until the next release.
        """
        for view in held:
            view.uses -= 1
        keeps_counts |= self.keeps_counts
        for view in reversed(list(self.by_name.values())):
            if view.uses == 0 and not (keeps_counts and is_counts(view)):
                self.drop(view)

    def drop(self, view: View) -> None:
        """Drop a view; the counts of a label move back into the unindexed assertions."""
        if is_counts(view):
            assert isinstance(view, Index)
            self._move(view, is_back=True)
        if not (isinstance(view, Rule) and view.is_listed_only):
            self.store.drop(view.relation)
        del self.by_name[view.name]

    # Creation

    def counts(self, predicate: int, column: int = 0) -> Index:
        """The counts of a label, which decide whether a deletion is valid; moved out of the
        unindexed assertions.

        New counts are keyed by `column`. Choosing a column that a plan also reads saves an index.
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
        """A stream's pair weights by one column, or their sums; created and filled on first use."""
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
        """The weights of a three-column stream, in the given column order."""
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

    def sorted_index(
        self, stream: Stream, order: tuple[int, ...], column: int, condition: int
    ) -> Index:
        """The weights of a stream by a column order with sort keys, of the entries that meet a
        condition on the column that is not `column`.
        """
        name = f"{stream.name} by sort keys {order}"
        if condition != ANY:
            name += f" where {condition} beside {column}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, len(order))
            found = Index(
                name, relation, PRESENCE, listed=False, stream=stream, kind=SORTED_TUPLES,
                column=column, condition=condition, order=order,
            )  # fmt: skip
            rows = self.read_stream(stream)
            if condition != ANY:
                wanted = rows[column] if condition == SAME else condition
                rows = rows[:, rows[1 - column] == wanted]
            self._fill_tuples(found, self.take_columns(rows, order))
            self.by_name[name] = found
        assert isinstance(found, Index)
        return found

    def take_columns(self, rows: Columns, order: Sequence[int]) -> Columns:
        """Rows with their columns in this order, which may have sort keys; the counts stay last."""
        taken = []
        for column in order:
            if column == CONSTANT:
                taken.append(np.zeros(rows.shape[1], np.int64))
            elif column & SORTED:
                taken.append(self.judges.sort_keys(rows[column & ~SORTED]))
            else:
                taken.append(rows[column])
        return np.stack([*taken, rows[-1]])

    def summed(self, view: View) -> View:
        """A view of several columns with counts in the hubs of its last column, shared by all users
        of the view.

        Cost: the size of the view, the first time. The view then keeps its counts until it is
        dropped.
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
            raise MultiplicityOverflow(TOO_LARGE, view.name)
        flat = np.ascontiguousarray(columns).reshape(-1)
        key = np.empty(arity, np.int64)
        self.store.clear(view.relation)

        def fill(words: Words, _: Words) -> None:
            fill_summed(words, key, view.address, flat, found, arity)

        self.store.run(fill)
        self.check_faults(view.name)
        view.is_summed = True
        return view

    def fixed(self, name: str, arity: int, rows: Sequence[tuple[int, ...]]) -> View:
        """Rows that no update changes; a row that occurs twice counts twice."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = View(name, self.store.create(name, arity), COUNT)
            for row in rows:
                found.relation.set(row, found.relation.get(row) + 1)
        return found

    def find_whole(self) -> View:
        """The whole digits of terms, shared by all sums."""
        return self._find_digits(WHOLE, 1, FIXED)

    def find_digits(self) -> View:
        """All other digits of terms, shared by all sums."""
        return self._find_digits(DIGITS, 2, COUNT)

    def _find_digits(self, name: str, arity: int, reads: int) -> View:
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, arity)
            found = self.by_name[name] = DigitView(name, relation, reads)
        return found

    def add_digits(self, ids: Words) -> None:
        """Add the digits of terms that a sum is about to read."""
        self.digits.add(self.find_whole(), self.find_digits(), ids)
        self.check_faults(DIGITS)

    def add_new_digits(self, flat: Words, watches: Sequence[Watch]) -> None:
        """Add the digits of the terms that an epoch brings to sums."""
        self.digits.add_new(self.find_whole(), self.find_digits(), flat, watches)
        self.check_faults(DIGITS)

    def order(self, view: View, columns: tuple[int, ...]) -> View:
        """A view with its columns in this order: the view itself, or an additional relation."""
        if isinstance(view, Order) and view.of is not None:
            columns = tuple(
                c if c == CONSTANT else view.columns[c & ~SORTED] | c & SORTED for c in columns
            )
            view = view.of
        if columns == tuple(range(view.relation.arity)):
            return view
        name = f"{view.name} by {columns}"
        found = self.by_name.get(name)
        if found is None:
            relation = self.store.create(name, len(columns))
            found = Order(name, relation, PRESENCE, listed=False, of=view, columns=columns)
            self._fill_tuples(found, self.take_columns(self.read_rows(view), columns))
            self.by_name[name] = found
        return found

    def extreme_edge(
        self, name: str, is_last: bool, neighbours: int, child: View | None, edge: Edge,
        by_own: Index,
    ) -> View:  # fmt: skip
        """An edge that carries extremes, created and filled on first use."""
        found = self.by_name.get(name)
        factors = () if child is None else (child,)
        if found is None:
            found = Step(
                name, self.store.create(name, 1), COUNT, kind=EXTREME_EDGE, factors=factors,
                edge=edge, by_own=by_own, is_last=is_last, neighbours=neighbours,
                judge=self.judges.find_order(),
            )  # fmt: skip
            for factor in factors:
                list_keys_of(factor)
            self._fill_edge(found, self.read_stream(edge.stream))
            self.by_name[name] = found
        assert isinstance(found, Step), name
        assert (found.factors, found.edge, found.by_own) == (factors, edge, by_own), name
        return found

    def step(
        self, name: str, kind: int, is_exact: bool, factors: tuple[View, ...],
        edge: Edge | None = None,
    ) -> View:  # fmt: skip
        """A computed view, created and filled on first use.

        A step that keeps order statistics also keeps rows if it is exact.
        """
        found = self.by_name.get(name)
        if found is None:
            arity = {EDGE: 1 if is_exact else 2, ORDERED_EDGE: 2, TOTAL: 0}.get(kind, 1)
            relation = self.store.create(name, arity, LAYOUTS.get(kind, PLAIN))
            reads = PRESENCE if kind == EDGE and not is_exact else COUNT
            found = Step(
                name, relation, reads, kind=kind, is_exact=is_exact, factors=factors, edge=edge
            )
            for factor in factors:
                list_keys_of(factor)
            try:
                if edge is None or edge.by_other is not None:
                    self._fill_step(found)
                else:
                    self._fill_edge(found, self.read_stream(edge.stream))
            except MultiplicityOverflow:
                self.store.drop(relation)  # a rebuild continues without it
                raise
            self.by_name[name] = found
        # A plan holds the views it names; a view of another plan would be dropped with that plan.
        assert isinstance(found, Step), name
        assert (found.factors, found.edge) == (factors, edge), name
        return found

    def rule(
        self, name: str, head: tuple[int, ...], deltas: tuple[Delta, ...],
        relation: View | None = None, symmetry: Symmetry | None = None,
        pairs: tuple[tuple[int, ...], ...] = (),
    ) -> Rule:  # fmt: skip
        """A rule, created and filled on first use. With `relation`, only changes are listed."""
        found = self.by_name.get(name)
        if found is None:
            is_listed_only = relation is not None
            target = self.store.create(name, len(head)) if relation is None else relation.relation
            reads = PRESENCE if len(head) > 1 else COUNT
            found = Rule(
                name, target, reads, listed=is_listed_only, arity=len(head), head=head,
                deltas=deltas, is_listed_only=is_listed_only, symmetry=symmetry, pairs=pairs,
            )  # fmt: skip
            if not is_listed_only:
                try:
                    self._fill_rule(found)
                except MultiplicityOverflow:
                    self.store.drop(target)
                    raise
            self.by_name[name] = found
        assert isinstance(found, Rule), name
        assert (found.head, found.deltas) == (head, deltas), name
        return found

    def _fill_rule(self, rule: Rule) -> None:
        """Fill a rule from the tuples of its last input."""
        self._fill_from(rule, self.read(rule.deltas[-1].seeds))

    # Reading

    def read(self, operand: Operand) -> Columns:
        """The tuples of an operand as columns, the counts last."""
        if operand.stream is not None:
            return self.read_stream(operand.stream)
        assert operand.view is not None
        return self.read_keys(operand.view) if operand.width == 1 else self.read_rows(operand.view)

    def read_stream(self, stream: Stream) -> Columns:
        """All assertions of a stream, with their weights. Cost: the size of its source."""
        if stream.source is not None:
            return stream.select(self.read_stream(stream.source), self.judges)
        if stream.predicate is not None:
            counts = self.counts(stream.predicate)
            rows = self.read_rows(counts)
            rows = rows[[0, 1, 2] if counts.column == 0 else [1, 0, 2]]
        else:
            rows = self.read_window_graph(stream.window_graph or 0)
        if self.mode is Mode.RDF:
            rows[-1] = 1
        return rows

    def read_window_graph(self, graph: int) -> Columns:
        """All triples of a window graph, with their counts of live events."""
        unindexed = self._read_below(
            int(self.store.words[find_address(self.unindexed)]), True, 3, len(self.unindexed)
        )
        found = [unindexed[[1, 0, 2, 3]]]
        for view in self.by_name.values():
            if isinstance(view, Index) and is_counts(view):
                rows = self.read_rows(view)
                labels = np.full(rows.shape[1], view.stream.predicate)
                order = [0, 1] if view.column == 0 else [1, 0]
                found.append(np.stack([rows[order[0]], labels, rows[order[1]], rows[2]]))
        rows = np.concatenate(found, axis=1)
        where, plain = self.label_graphs.find(rows[1])
        rows[1] = plain
        return rows[:, where == graph]

    def check(self) -> None:
        """Recompute every view in Python, and raise `StoreCorrupt` on a difference."""
        from triegs.maintain.check import check_views

        check_views(self)
