"""The compiled core: plans over binary atoms, lowered to tables that one kernel runs.

What it takes: plans whose guards are whole labels, whose interfaces are single variables, and that
materialise nothing: paths, stars and trees of any size, projected or not, with self-joins. For all
others there is `triegs.maintain.core`, which is also the reading of what happens here.

A leaf stores nothing: it reads the label's index. An inner edge keeps its live pairs, or exact sums
where the head does not show what is below; a variable with several factors keeps their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from triegs.compiler.plan import Alias, Node, Plan, Role
from triegs.errors import MultiplicityOverflow
from triegs.kernels.answers import (
    BELOW,
    FACTOR,
    LEVEL_WORDS,
    OVERFLOWED,
    ROOT,
    STATE_HEAD,
    STATE_WORDS,
    fill_answers,
)
from triegs.kernels.cursors import CURSOR_WORDS
from triegs.kernels.layout import LOG_FULL, OVERFLOW, SLOT_WORDS
from triegs.kernels.program import (
    ADJACENCY,
    COUNT,
    COUNTS,
    EDGE,
    ENTRY_WORDS,
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
    run_and_publish,
    run_epoch,
)
from triegs.kernels.relations import slot_at
from triegs.kernels.words import Words
from triegs.maintain.core import NO_EVENT, Refused
from triegs.mode import Mode
from triegs.store.contract import Version
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion

BATCH_ROWS = 65_536
FEW_UPDATES = 64  # an epoch of so many is over sooner than a lock changes hands


class NotCompiled(Exception):
    """The plan has something that the kernel does not know; the general core runs it."""


@dataclass(slots=True, eq=False)
class Factor:
    """A node's marginal as its parent reads it: whether a key is there, or its count."""

    kind: int
    relation: PackedRelation
    changed: int


@dataclass(slots=True, eq=False)
class Row:
    """An index of a label: adjacency or counts, by subject (0) or object (1)."""

    kind: int
    column: int
    relation: PackedRelation
    changed: int = -1


@dataclass(slots=True, eq=False)
class Step:
    """A row of the table before it is written: kind, words, and the factors that it multiplies."""

    kind: int
    words: list[int]
    factors: list[Factor] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Walk:
    """The levels of one plan for the enumerator, and the totals that multiply every answer."""

    levels: Words
    count: int
    columns: int
    totals: tuple[int, ...]


def address(relation: PackedRelation) -> int:
    return slot_at(relation.slot)


class CompiledCore:
    """A graph by ids with compiled plans, kept up to date epoch by epoch by one kernel call."""

    def __init__(self, store: PackedStore, mode: Mode = Mode.MULTIGRAPH) -> None:
        self.store = store
        self.mode = mode
        self._labels: dict[int, int] = {}
        self._rows: list[list[Row]] = []
        self._steps: list[Step] = []
        self._factors: dict[str, Factor] = {}
        self._totals: dict[str, PackedRelation] = {}
        self._lists = 0
        self._rest = store.create("rest", 3)
        self._label_of = np.full(1024, -1, np.int64)
        self._log = np.zeros(1 << 16, np.int64)
        self._cursor = np.zeros(CURSOR_WORDS, np.int64)
        self._entries = np.empty(ENTRY_WORDS * FEW_UPDATES, np.int64)
        self._refused = np.empty(FEW_UPDATES, np.int64)
        self._table = self._write_table()
        store.publish()

    # Epochs

    def apply(self, updates: Words) -> tuple[Version, list[Refused]]:
        """One epoch of `(change, subject, predicate, object)` rows, judged in their order."""
        flat = np.ascontiguousarray(updates, np.int64).reshape(-1)
        entries, refused = self._entries, self._refused
        run = self._run_few
        if flat.size > 4 * FEW_UPDATES:
            run = self._run_many
            entries = np.empty(flat.size // 4 * ENTRY_WORDS, np.int64)
            refused = np.empty(flat.size // 4, np.int64)
        while True:
            found, version = run(flat, entries, refused)
            if found == 0:
                return version, []
            if found > 0:
                return version, [Refused(p, NO_EVENT) for p in sorted(refused[:found].tolist())]
            faults = self.store.faults
            self.store.abort()
            self._answer_fault(faults)

    def _run_few(self, flat: Words, entries: Words, refused: Words) -> tuple[int, PackedVersion]:
        return self.store.run_and_publish(
            run_and_publish, flat, self._log, self._changed, self._cursor, self._table,
            self._label_of, self._bounds, entries, refused,
        )  # fmt: skip

    def _run_many(self, flat: Words, entries: Words, refused: Words) -> tuple[int, PackedVersion]:
        def run(words: Words, roots: Words) -> int:
            return run_epoch(
                words, self._log, self._changed, self._cursor, self._table, self._label_of, flat,
                self._bounds, entries, refused, roots,
            )  # fmt: skip

        found = self.store.run(run)
        return found, self.store.newest if found < 0 else self.store.publish()

    def _answer_fault(self, faults: int) -> None:
        """After an abort: make room and try again, or say why the epoch cannot be."""
        if faults & OVERFLOW:
            raise MultiplicityOverflow("a count does not fit 64 bits; nothing changed", "view")
        if faults & LOG_FULL:
            self._log = np.zeros(2 * self._log.size, np.int64)
        else:
            self.store.make_room("an epoch")

    def _know(self, predicate: int) -> None:
        if predicate >= self._label_of.size:
            larger = np.full(2 * predicate + 1, -1, np.int64)
            larger[: self._label_of.size] = self._label_of
            self._label_of = larger

    # Registration

    def register(self, plan: Plan, labels: Sequence[int | None]) -> Walk:
        """Lower a plan; `labels` are the ids of its nodes' predicates. Publishes a version."""
        check_plan(plan)
        walk = _Lowering(self, plan, labels).walk()
        self._table = self._write_table()
        self.store.publish()
        return walk

    def new_list(self) -> int:
        self._lists += 1
        return self._lists - 1

    def label(self, predicate: int, column: int = 0) -> int:
        """The number of a label; its assertions move out of the rest when it is first named.

        `column` is the key of its first index, which deletions are judged by: one that a step
        reads as well saves an index.
        """
        self._know(predicate)
        number = self._labels.get(predicate)
        if number is None:
            number = self._labels[predicate] = len(self._labels)
            self._label_of[predicate] = number
            truth = Row(ADJACENCY, column, self.store.create(f"label {predicate}", 2))
            for key, count in list(self._rest.scan((predicate,))):
                truth.relation.set((key[1 + column], key[2 - column]), count)
                self._rest.set(key, 0)
            self._rows.append([truth])
        return number

    def row(self, label: int, kind: int, column: int, listed: bool) -> Row:
        """An index of a label, made and filled when first asked for."""
        rows = self._rows[label]
        first = 1 if self.mode is Mode.RDF else 0  # in RDF mode the counts are not the weights
        found = next((r for r in rows[first:] if (r.kind, r.column) == (kind, column)), None)
        if found is None:
            name = f"{'counts' if kind == COUNTS else 'pairs'} {label} by {column}"
            found = Row(kind, column, self.store.create(name, 1 if kind == COUNTS else 2))
            for (x, y), count in list(rows[0].relation.scan()):
                key = (x, y) if column == rows[0].column else (y, x)
                weight = self.mode.weight(count)
                if kind == COUNTS:
                    found.relation.set(key[:1], found.relation.get(key[:1]) + weight)
                else:
                    found.relation.set(key, weight)
            rows.append(found)
        if (listed or kind == COUNTS) and found.changed < 0:
            found.changed = self.new_list()
        return found

    def _write_table(self) -> Words:
        table = [0] * TABLE_HEAD
        table[LABELS], table[LABEL_ROWS] = len(self._rows), len(table)
        table += [0] * (2 * len(self._rows))
        for number, rows in enumerate(self._rows):
            table[table[LABEL_ROWS] + 2 * number] = len(table)
            table[table[LABEL_ROWS] + 2 * number + 1] = len(rows)
            for row in rows:
                words = [row.kind, row.column, address(row.relation), row.changed]
                table += words + [0] * (ROW_WORDS - len(words))
        factors = []
        for step in self._steps:
            factors.append(len(table))
            for factor in step.factors:
                words = [factor.kind, address(factor.relation), factor.changed]
                table += words + [0] * (FACTOR_WORDS - len(words))
        table[STEPS], table[STEP_ROWS] = len(self._steps), len(table)
        for step, place in zip(self._steps, factors, strict=True):
            words = [step.kind, *step.words]
            if step.kind != EDGE:
                words[4:6] = [len(step.factors), place]
            table += words + [0] * (STEP_WORDS - len(words))
        self._changed = np.empty(2 * self._lists, np.int64)
        self._bounds = np.empty(len(self._rows) + 1, np.int64)
        table[REST], table[IS_RDF] = address(self._rest), int(self.mode is Mode.RDF)
        return np.array(table, np.int64)

    # Reading

    def batches(
        self, walk: Walk, version: PackedVersion, rows: int = BATCH_ROWS
    ) -> Iterator[Words]:
        """The answers of a held version, as columns of ids with the multiplicities last."""
        factor = 1
        for place in walk.totals:
            factor *= int(version.roots[place])
        if factor == 0:
            return
        if walk.count == 0:
            yield np.array([[factor]], np.int64)
            return
        state = np.zeros(STATE_HEAD + STATE_WORDS * walk.count, np.int64)
        state[FACTOR] = factor
        found = rows
        while found == rows:
            out = np.empty((walk.columns + 1) * rows, np.int64)
            found = int(
                fill_answers(
                    version.words,
                    version.roots,
                    walk.levels,
                    walk.count,
                    state,
                    out,
                    rows,
                    walk.columns,
                )
            )
            if state[OVERFLOWED]:
                raise MultiplicityOverflow("an answer's multiplicity does not fit", "answer")
            if found:
                yield out.reshape(walk.columns + 1, rows)[:, :found]


def check_plan(plan: Plan) -> None:
    """Raise `NotCompiled` for a plan that is outside the fragment; see the module's text."""
    for node in plan.nodes:
        children = [plan.nodes[c] for c in node.children]
        if isinstance(node.guard, Alias):
            alias = node.guard
            is_whole = alias.label is not None and len(alias.variables) == 2 and not alias.filters
            others = [c for c in children if c.interface != node.introduces]
            if not is_whole or len(node.interface) != 1 or others or len(children) > 1:
                raise NotCompiled(f"the rule of {node.name}")
        else:
            is_product = children and all(c.interface == node.bag for c in children)
            if node.guard is not None or len(node.bag) > 1 or not is_product:
                raise NotCompiled(f"the rule of {node.name}")


class _Lowering:
    """One plan into the core's rows and steps; equal sub-plans of all plans are one."""

    def __init__(self, core: CompiledCore, plan: Plan, labels: Sequence[int | None]) -> None:
        self.core = core
        self.plan = plan
        self.labels = labels

    def walk(self) -> Walk:
        plan = self.plan
        for number, node in enumerate(plan.nodes):
            if isinstance(node.guard, Alias):
                self._name_label(number, node, node.guard)
        for number, node in enumerate(plan.nodes):
            if node.interface:
                self._factor(number, node)
        place = {name: i for i, name in enumerate(plan.query.free)}
        rows: list[list[int]] = []
        existential: list[list[int]] = []
        level_of: dict[str, int] = {}
        for number in plan.order:
            node = plan.nodes[number]
            if not node.bag:
                continue
            if node.introduces:
                variable = node.introduces[0]
                level_of[variable] = len(rows)
                rows.append(self._level(number, node, level_of, place[variable]))
                existential.append([])
            at = level_of[node.bag[0] if node.guard is None else node.introduces[0]]
            shown = rows[at][2]
            slots = [SLOT_WORDS * f.relation.slot for f in self._hidden(node)]
            existential[at] += [s for s in slots if not (rows[at][4] and s == shown)]
        words = [word for row in rows for word in row]
        for at, slots in enumerate(existential):
            words[LEVEL_WORDS * at + 5 : LEVEL_WORDS * at + 7] = [len(slots), len(words)]
            words += slots
        totals = tuple(self._total(n) for n in self._scalars())
        return Walk(np.array(words, np.int64), len(rows), len(plan.query.free), totals)

    def _scalars(self) -> list[int]:
        tops = [component.top for component in self.plan.components]
        return [n for n in tops if self.plan.nodes[n].role is Role.EXISTENTIAL]

    def _hidden(self, node: Node) -> list[Factor]:
        nodes = self.plan.nodes
        hidden = [c for c in node.children if nodes[c].role is Role.EXISTENTIAL]
        return [self._factor(c, nodes[c]) for c in hidden]

    def _level(self, number: int, node: Node, level_of: dict[str, int], column: int) -> list[int]:
        if node.interface:
            alias = node.guard
            if not isinstance(alias, Alias):
                raise AssertionError(f"{node.name} lists pairs without a guard")
            relation = self._pairs(number, node, alias)
            parent = level_of[node.interface[0]]
            return [BELOW, parent, SLOT_WORDS * relation.slot, column, 1, 0, 0, 0]
        factor = self._root(node)
        weighs = len(node.children) == 1 and self._is_hidden(node.children[0])
        return [ROOT, -1, SLOT_WORDS * factor.relation.slot, column, int(weighs), 0, 0, 0]

    def _is_hidden(self, number: int) -> bool:
        return self.plan.nodes[number].role is Role.EXISTENTIAL

    def _root(self, node: Node) -> Factor:
        """What lists the values of a top variable: its only factor, or their product."""
        return self._product(f"root {node.key}", node, is_exact=False)

    def _pairs(self, number: int, node: Node, alias: Alias) -> PackedRelation:
        if node.children:
            return self._factor(number, node).relation
        label = self._label(number)
        return self.core.row(label, ADJACENCY, _column(alias, node.interface[0]), True).relation

    def _name_label(self, number: int, node: Node, alias: Alias) -> None:
        """Let a new label's first index be the one that this node reads; sums read none."""
        column = _column(alias, node.interface[0])
        if node.children:
            self._label(number, 1 - column)
        elif not self._is_hidden(number):
            self._label(number, column)

    def _label(self, number: int, column: int = 0) -> int:
        predicate = self.labels[number]
        if predicate is None:
            raise AssertionError("a guard without a label")
        return self.core.label(predicate, column)

    def _factor(self, number: int, node: Node) -> Factor:
        known = self.core._factors.get(node.key)
        if known is None:
            known = self._make_factor(number, node)
            self.core._factors[node.key] = known
        return known

    def _make_factor(self, number: int, node: Node) -> Factor:
        core, alias = self.core, node.guard
        is_exact = node.role is Role.EXISTENTIAL
        if not isinstance(alias, Alias):
            return self._product(node.key, node, is_exact)
        label, column = self._label(number), _column(alias, node.interface[0])
        if not node.children:
            kind = COUNTS if is_exact else ADJACENCY
            row = core.row(label, kind, column, True)
            return Factor(COUNT if is_exact else PRESENCE, row.relation, row.changed)
        below = node.children[0]
        child = self._factor(below, self.plan.nodes[below])
        by_other = core.row(label, ADJACENCY, 1 - column, False)
        out = core.store.create(node.name, 1 if is_exact else 2)
        made = Factor(COUNT if is_exact else PRESENCE, out, core.new_list())
        for (w, v), weight in list(by_other.relation.scan()):
            value = _read(child, w)
            if value and is_exact:
                out.set((v,), out.get((v,)) + weight * value)
            elif value:
                out.set((v, w), weight)
        words = [
            label, column, address(by_other.relation), child.kind, address(child.relation),
            child.changed, int(is_exact), address(out), made.changed,
        ]  # fmt: skip
        core._steps.append(Step(EDGE, words))
        return made

    def _product(self, key: str, node: Node, is_exact: bool) -> Factor:
        core = self.core
        factors = [self._factor(c, self.plan.nodes[c]) for c in node.children]
        if len(factors) == 1:
            return factors[0]
        known = core._factors.get(key)
        if known is not None:
            return known
        out = core.store.create(node.name, 1)
        made = core._factors[key] = Factor(COUNT, out, core.new_list())
        for name in {key[0] for key, _ in list(factors[0].relation.scan())}:
            product = 1
            for factor in factors:
                product *= _read(factor, name)
            if product:
                out.set((name,), product if is_exact else 1)
        step = Step(PRODUCT, [int(is_exact), address(out), made.changed, 0, 0], factors)
        core._steps.append(step)
        return made

    def _total(self, number: int) -> int:
        """Where the root vector has the total of a component without head variables."""
        core, node = self.core, self.plan.nodes[number]
        total = core._totals.get(node.key)
        if total is None:
            total = core._totals[node.key] = core.store.create(f"total {node.name}", 0)
            factors = [self._factor(c, self.plan.nodes[c]) for c in node.children]
            total_now = 0
            for name in {key[0] for key, _ in list(factors[0].relation.scan())}:
                product = 1
                for factor in factors:
                    product *= _read(factor, name)
                total_now += product
            total.set((), total_now)
            core._steps.append(Step(TOTAL, [0, address(total), 0, 0, 0], factors))
        return SLOT_WORDS * total.slot


def _read(factor: Factor, key: int) -> int:
    if factor.kind == COUNT:
        return factor.relation.get((key,))
    return 1 if next(factor.relation.scan((key,)), None) is not None else 0


def _column(alias: Alias, variable: str) -> int:
    return 0 if alias.atom.subject == variable else 1
