"""Writes views into the table of an epoch, see `triegs.maintain.kernels.tables`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.deltas import SIDES
from triegs.maintain.judges import write_doubles
from triegs.maintain.kernels.program import PACKED_WORDS
from triegs.maintain.kernels.tables import (
    BOTH,
    CHECK_WORDS,
    DELTA_WORDS,
    EDGE,
    ENTRIES,
    EXTREME_EDGE,
    FACTOR_WORDS,
    IS_ACCEPTED,
    IS_COARSE,
    IS_EQUAL,
    IS_FINE,
    IS_RDF,
    LABELS,
    LEVEL_WORDS,
    LIST,
    ORDERED_EDGE,
    PROBE_WORDS,
    RANGE_WORDS,
    RANGED,
    ROOT_WORDS,
    ROW_WORDS,
    RULE,
    SORTED_ROWS,
    SORTED_TUPLES,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    SUMMED_PAIRS,
    SUMMED_TUPLES,
    SYM_INPUT_WORDS,
    SYM_WORDS,
    TABLE_HEAD,
    TARGET_WORDS,
    TERMS,
    TEST_WORDS,
    TUPLES,
    UNINDEXED,
    WHOLES,
)
from triegs.maintain.model import (
    LAYOUTS,
    Check,
    Delta,
    Index,
    Move,
    Order,
    Range,
    Rule,
    Step,
    View,
    find_address,
    is_sorted,
)
from triegs.maintain.streams import Stream
from triegs.mode import Mode
from triegs.store.packed import PackedRelation

NO_LIST = -1
Computed = Step | Rule


@dataclass(slots=True)
class Table:
    """The words of a table, and the positions of its elements."""

    words: Words
    labels: dict[int, int] = field(default_factory=dict)
    streams: dict[Stream, int] = field(default_factory=dict)
    steps: list[Computed] = field(default_factory=list)
    #: Lists by view: of everything it changed, and of the keys that appeared or disappeared.
    lists: dict[View, int] = field(default_factory=dict)
    keys: dict[View, int] = field(default_factory=dict)
    #: The work of each step so far, COUNTER_WORDS each.
    counters: Words = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def selections(self) -> int:
        return len(self.streams) - len(self.labels)

    @property
    def has_wholes(self) -> bool:
        return bool(self.words[WHOLES])


def write_table(views: Iterable[View], unindexed: PackedRelation, mode: Mode) -> Table:
    """Number streams, steps and lists, and write the table.

    `unindexed` holds the assertions whose label no view covers.
    """
    found = list(views)
    streams = find_streams(found)
    writer = Writer([view for view in found if view.listed], [p for p in found if p.has_keys])
    writer.streams = {stream: number for number, stream in enumerate(streams)}
    for view in found:
        if isinstance(view, Order) and view.of is not None:
            writer.orders.setdefault(view.of, []).append(view)
    rows: dict[Stream, list[Index]] = {}
    for view in found:
        if isinstance(view, Index):
            rows.setdefault(view.stream, []).append(view)
    labels = {s.predicate: n for n, s in enumerate(streams) if s.predicate is not None}
    written = [writer.write_stream(stream, rows.get(stream, [])) for stream in streams]
    stream_rows = writer.put(*written)
    steps = [view for view in found if isinstance(view, Step | Rule)]
    step_rows = writer.put(*[writer.write_step(step) for step in steps])
    words = np.array(writer.words, np.int64)
    words[LABELS], words[WHOLES] = len(labels), sum(s.window_graph is not None for s in streams)
    words[STREAMS], words[STREAM_ROWS] = len(streams), stream_rows
    words[STEPS], words[STEP_ROWS] = len(steps), step_rows
    words[UNINDEXED], words[IS_RDF] = find_address(unindexed), int(mode is Mode.RDF)
    kinds = {view.kind for view in found if isinstance(view, Index)}
    words[SORTED_ROWS] = int(SORTED_TUPLES in kinds)
    return Table(words, labels, writer.streams, steps, writer.lists, writer.keys)


def find_streams(views: Sequence[View]) -> list[Stream]:
    """The streams that feed views: labels, then wholes, then selections."""
    used: dict[Stream, None] = {}
    for view in views:
        if isinstance(view, Index):
            used[view.stream] = None
        elif isinstance(view, Step) and view.edge is not None:
            used[view.edge.stream] = None
        elif isinstance(view, Rule):
            used.update((d.seeds.stream, None) for d in view.deltas if d.seeds.stream is not None)
    for stream in list(used):
        if stream.source is not None:
            used[stream.source] = None
    kinds = [
        [stream for stream in used if stream.predicate is not None],
        [stream for stream in used if stream.window_graph is not None],
        [stream for stream in used if stream.source is not None],
    ]
    return [stream for kind in kinds for stream in kind]


def write_step(step: Step) -> Words:
    """A table of a single step, whose factors have lists 0, 1 …"""
    writer = Writer([*dict.fromkeys(step.factors), step], [])
    if step.edge is not None:
        writer.streams = {step.edge.stream: 0}
    return writer.write_only(step)


def write_rule(rule: Rule) -> Words:
    """A table of a single rule, to be filled from its last input, which has list 0."""
    writer = Writer([], [])
    writer.is_fill = True
    return writer.write_only(rule)


class Writer:
    """Writes rows sequentially; a row follows everything that it refers to."""

    def __init__(self, listed: Sequence[View], keyed: Sequence[View]) -> None:
        self.words = [0] * TABLE_HEAD
        self.lists = {view: number for number, view in enumerate(listed)}
        self.keys = {view: len(listed) + number for number, view in enumerate(keyed)}
        self.streams: dict[Stream, int] = {}
        self.orders: dict[View, list[Order]] = {}
        self.addresses: dict[View, int] = {}
        self.is_fill = False

    def put(self, *rows: Sequence[int]) -> int:
        """Append rows; returns their offset."""
        at = len(self.words)
        for row in rows:
            self.words += row
        return at

    def write_only(self, step: Computed) -> Words:
        """The table, with this step as its only one."""
        step_rows = self.put(self.write_step(step))
        words = np.array(self.words, np.int64)
        words[STEPS], words[STEP_ROWS] = 1, step_rows
        return words

    # Streams

    def write_stream(self, stream: Stream, rows: Sequence[Index]) -> list[int]:
        rows_at = self.put(*[self._write_row(row) for row in rows])
        source = stream.window_graph or 0
        change_at = 0
        columns_at = tests_at = 0
        if stream.source is not None:
            source, change_at = self.streams[stream.source], stream.source.change_at
            columns_at = self.put(stream.columns)
            tests = []
            for test in stream.tests:
                if test.kind == IS_ACCEPTED:
                    words = [test.kind, len(test.columns), test.value, self.put(test.columns)]
                else:
                    value = test.columns[1] if test.kind == IS_EQUAL else test.value
                    words = [test.kind, test.columns[0], value, 0]
                assert len(words) == TEST_WORDS
                tests.append(words)
            tests_at = self.put(*tests)
        words = [
            len(rows), rows_at, source, change_at, stream.arity, columns_at, len(stream.tests),
            tests_at,
        ]  # fmt: skip
        assert len(words) == STREAM_WORDS
        return words

    def _write_row(self, row: Index) -> list[int]:
        kind = row.kind
        if row.is_summed:
            kind = SUMMED_TUPLES if kind == TUPLES else SUMMED_PAIRS
        column, width, key = row.column, 0, 0
        if row.kind in (TUPLES, SORTED_TUPLES):
            column = self.put(row.order)
        if row.kind == SORTED_TUPLES:
            width, key = len(row.order), row.column
        changed = self.lists.get(row, NO_LIST)
        words = [kind, column, row.address, changed, row.condition, width, key]
        assert len(words) == ROW_WORDS
        return words

    # Steps

    def write_step(self, step: Computed) -> list[int]:
        if isinstance(step, Rule):
            words = self._write_rule(step)
        elif step.kind == EXTREME_EDGE:
            words = self._write_extreme_edge(step)
        elif step.kind in (EDGE, ORDERED_EDGE):
            words = self._write_edge(step)
        else:
            words = self._write_product(step)
        return words + [0] * (STEP_WORDS - len(words))

    def _write_edge(self, step: Step) -> list[int]:
        factor, edge = step.factors[0], step.edge
        assert edge is not None
        back = 0 if edge.by_other is None else edge.by_other.address
        reads = factor.count_kind if step.kind in LAYOUTS else factor.reads
        return [
            step.kind, self.streams[edge.stream], edge.column, back, reads, factor.address,
            self.find_keys(factor), int(step.is_exact), step.address,
            self.lists[step],
        ]  # fmt: skip

    def _write_extreme_edge(self, step: Step) -> list[int]:
        edge, own = step.edge, step.by_own
        assert edge is not None
        assert edge.by_other is not None
        assert own is not None
        slot, changed = 0, NO_LIST
        if step.factors:
            slot, changed = step.factors[0].address, self.find_keys(step.factors[0])
        return [
            EXTREME_EDGE, self.streams[edge.stream], edge.column, edge.by_other.address,
            step.neighbours, slot, changed, int(step.is_last), step.address, self.lists[step],
            own.address, step.judge,
        ]  # fmt: skip

    def _write_product(self, step: Step) -> list[int]:
        rows = []
        for factor in step.factors:
            reads = factor.count_kind if step.kind in LAYOUTS else factor.reads
            words = [reads, factor.address, self.find_keys(factor)]
            assert len(words) == FACTOR_WORDS
            rows.append(words)
        at = self.put(*rows)
        changed = self.lists[step]
        return [step.kind, int(step.is_exact), step.address, changed, len(rows), at]

    def find_keys(self, view: View) -> int:
        """The list of the ids in a view's first column."""
        return self.keys[view] if view in self.keys else self.lists[view]

    # Rules

    def _write_rule(self, rule: Rule) -> list[int]:
        deltas = [rule.deltas[-1]] if self.is_fill else list(rule.deltas)
        written = [
            self._write_delta(delta) for delta in deltas if self.is_fill or not delta.seeds.is_fixed
        ]
        deltas_at = self.put(*written)
        orders = [[rule.address, *range(rule.arity)]]
        targets: list[list[int]] = []
        for order in self.orders.get(rule, []):
            if is_sorted(order.columns):
                targets.append([order.address, len(order.columns), self.put(order.columns)])
            else:
                orders.append([order.address, *order.columns])
        assert all(len(target) == TARGET_WORDS for target in targets)
        head_at, orders_at = self.put(rule.head), self.put(*orders)
        targets_at = self.put(*targets) if targets else 0
        return [
            RULE, rule.arity, head_at, len(written), deltas_at, len(orders), orders_at,
            self.lists.get(rule, NO_LIST), 1, self.keys.get(rule, NO_LIST),
            int(rule.is_listed_only), self._write_symmetry(rule), int(rule.is_summed),
            len(targets), targets_at,
        ]  # fmt: skip

    def _write_symmetry(self, rule: Rule) -> int:
        """The offset of a rule's symmetry; 0 if it has none, or is filled from all tuples."""
        if rule.symmetry is None or self.is_fill:
            return 0
        listing = rule.deltas[0].seeds.listing
        assert listing is not None
        rows = [
            [*pair, orbit] for pair, orbit in zip(rule.pairs, rule.symmetry.orbits, strict=True)
        ]
        assert all(len(row) == SYM_INPUT_WORDS for row in rows)
        images = rule.symmetry.images
        words = [
            len(rows), self.put(*rows), len(images), self.put(*images), len(images[0]),
            self.lists[listing],
        ]  # fmt: skip
        assert len(words) == SYM_WORDS
        return self.put(words)

    def _write_delta(self, delta: Delta) -> list[int]:
        seeds, slot = delta.seeds, 0
        if self.is_fill:
            origin, number = LIST, 0
        elif seeds.listing is not None:
            origin, number = LIST, self.lists[seeds.listing]
        elif seeds.stream is not None:
            origin, number = ENTRIES, self.streams[seeds.stream]
        else:
            assert seeds.view is not None
            is_keys = seeds.width == 1
            origin = LIST
            number = self.find_keys(seeds.view) if is_keys else self.lists[seeds.view]
        if seeds.view is not None:
            slot = seeds.view.address
        checks_at = self._write_checks(delta.checks)
        roots = [
            word for root in delta.roots
            for word in (root.word, self._find_address(root.view), int(root.is_old), root.use,
                         int(root.is_constant))
        ]  # fmt: skip
        probes = [word for move in delta.probes for word in (move.variable, *write_source(move))]
        levels: list[int] = []
        for level in delta.levels:
            at = self.put([word for move in level.sources for word in write_source(move)])
            level_checks = self._write_checks(level.checks) if level.checks else 0
            ranges_at = self.put(*map(write_range, level.ranges)) if level.ranges else 0
            levels += (level.variable, len(level.sources), at, int(level.is_shown),
                       len(level.checks), level_checks, len(level.ranges), ranges_at,
                       int(level.is_covered))  # fmt: skip
        assert len(roots) == ROOT_WORDS * len(delta.roots)
        assert len(probes) == PROBE_WORDS * len(delta.probes)
        assert len(levels) == LEVEL_WORDS * len(delta.levels)
        roots_at, probes_at, levels_at = self.put(roots), self.put(probes), self.put(levels)
        words = [
            origin, number, delta.width, delta.use, slot, self.put(delta.variables),
            len(delta.checks), checks_at, len(delta.roots), roots_at, len(delta.probes), probes_at,
            len(delta.levels), levels_at, BOTH if self.is_fill else delta.side, delta.orbit,
        ]  # fmt: skip
        assert len(words) == DELTA_WORDS
        return words

    def _write_checks(self, checks: Sequence[Check]) -> int:
        rows = [[c.judge, len(c.variables), self.put(c.variables)] for c in checks]
        assert all(len(row) == CHECK_WORDS for row in rows)
        return self.put(*rows)

    def _find_address(self, view: View) -> int:
        """The address of a view, cached because a long rule looks up every input in every delta."""
        found = self.addresses.get(view)
        if found is None:
            found = self.addresses[view] = view.address
        return found


def write_source(move: Move) -> tuple[int, int, int, int]:
    """A move as a source of a level: a probe without its register."""
    return move.before, RANGED if move.is_sort_key else int(move.is_trie), move.after, move.use


def write_range(found: Range) -> list[int]:
    """A comparison as a bound of the variable on its left."""
    comparison, kind = found.comparison, TERMS
    if comparison.has_arithmetic:
        kind = IS_COARSE if comparison.is_coarse else IS_FINE
    numbers: list[Fraction | float] = [
        -comparison.right_factor, -comparison.offset, comparison.spread, comparison.limit
    ]  # fmt: skip
    words = [found.variable, SIDES[comparison.operator], kind, *write_doubles(numbers).tolist()]
    assert len(words) == RANGE_WORDS
    return words


def pack_arrays(*arrays: Words) -> tuple[Words, list[Words]]:
    """One array with the offsets of all given ones and their words; and a view of each in it."""
    ends = np.cumsum([PACKED_WORDS, *(array.size for array in arrays)])
    packed = np.concatenate([ends, *arrays])
    assert len(ends) == PACKED_WORDS
    return packed, [packed[start:end] for start, end in pairwise(ends.tolist())]
