"""One rule by itself: relations, epochs and the RULE kernel, without a query or a core.

Base relations change in Python, in every order of columns that the rule reads; the kernel gets
their changes as entries of a stream or as lists, and its output is compared with nested loops.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from triegs.maintain.deltas import find_symmetry, plan_deltas, plan_symmetric
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.tables import COUNT, ENTRY_WORDS, PRESENCE
from triegs.maintain.label_graphs import LabelGraphs
from triegs.maintain.model import Check, Input, Operand, Order, Rule, View
from triegs.maintain.one_step import run_step
from triegs.maintain.relations import make_work
from triegs.maintain.streams import Stream
from triegs.maintain.tables import Writer
from triegs.maintain.views import Views
from triegs.mode import Mode
from triegs.sparql.model import Call
from triegs.store.kernels.layout import FAULTS, LOG_FULL
from triegs.store.packed import PackedStore

INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
#: Filters over so many variables; the term of an id is the number that it is.
FILTERS: dict[int, tuple[Call, Any]] = {
    1: (Call("!=", ("?a", f'"1"^^{INTEGER}')), lambda a: a != 1),
    2: (Call("<", ("?a", "?b")), lambda a, b: a < b),
    3: (Call("<", (Call("+", ("?a", "?b")), "?c")), lambda a, b, c: a + b < c),
}
NAMES = ("?a", "?b", "?c")


class Base:
    """A relation that epochs change: its tuples, as entries and as view."""

    def __init__(self, views, name, arity):
        self.name, self.arity = name, arity
        self.view = View(name, views.store.create(name, arity), COUNT)
        self.stream = Stream(name, arity)
        self.rows: Counter = Counter()


class Given(NamedTuple):
    """An input of a rule; narrow ones have variables for their first column only."""

    base: int
    variables: tuple[int, ...]
    use: int
    from_entries: bool = False
    is_fixed: bool = False


class Fault(Exception):
    """The kernel met one; its argument says which."""


class Bench(Views):
    """Base relations by arity, and one rule over them."""

    def __init__(self, arities, buffer=1 << 10, log_words=1 << 12):
        judges = Judges(lambda number: f'"{number}"^^{INTEGER}')
        super().__init__(PackedStore(), Mode.MULTIGRAPH, judges, LabelGraphs())
        self.work = make_work(buffer)
        self.log_words = log_words
        self.bases = [Base(self, f"base {n}", arity) for n, arity in enumerate(arities)]
        self.by_stream = {base.stream: base for base in self.bases}
        self.grown = self.answered = 0
        self.run_step: Any = run_step
        self.listing: Rule | None = None
        self.store.publish()

    def read_stream(self, stream):
        return self.read_rows(self.by_stream[stream].view)

    def make_rule(self, given, head, checks=(), orders=(), has_keys=False):
        """Make and fill the rule; `checks` are tuples of variables, for the filter so wide."""
        self.given, self.head, self.checks = given, head, checks
        inputs = []
        for each in given:
            base = self.bases[each.base]
            operand = Operand(len(each.variables), view=base.view, is_fixed=each.is_fixed)
            if each.from_entries:
                operand = Operand(base.arity, stream=base.stream)
            inputs.append(Input(operand, each.variables, each.use))
        found = [Check(self.judges.find(FILTERS[len(v)][0], NAMES[: len(v)]), v) for v in checks]
        self.deltas = plan_deltas(inputs, head, found, self.find_order)
        self.rule_part = self.rule("the rule", head, self.deltas, None)
        self.outputs = [self.rule_part, *(self.order(self.rule_part, o) for o in orders)]
        self.rule_part.listed = True
        self.rule_part.has_keys = has_keys and len(head) > 1
        self.write()
        self.store.publish()

    def make_symmetric(self, pairs, head):
        """Make and fill a rule over the pairs of base 0 that goes by the symmetry of its body;
        false if it has none.
        """
        self.given, self.head, self.checks = [Given(0, pair, COUNT) for pair in pairs], head, ()
        base = self.bases[0]
        self.listing = Rule("changes", base.view.relation, PRESENCE, is_listed_only=True)
        operand = Operand(2, stream=base.stream, listing=self.listing)
        inputs = [Input(operand, pair, COUNT) for pair in pairs]
        symmetry = find_symmetry(inputs)
        if symmetry is None:
            return False
        self.deltas = plan_symmetric(inputs, symmetry, self.find_order)
        self.rule_part = self.rule("the rule", head, self.deltas, None, symmetry, tuple(pairs))
        self.outputs = [self.rule_part]
        self.rule_part.listed = True
        self.write()
        self.store.publish()
        return True

    def write(self, deltas=None):
        """The table of the rule, perhaps with other deltas than it should have."""
        self.narrow = dict.fromkeys(
            self.bases[g.base] for g in self.given
            if len(g.variables) == 1 and self.bases[g.base].arity > 1
        )  # fmt: skip
        wide = [base.view for base in self.bases]
        keyed = [base.view for base in self.narrow]
        writer = Writer(
            [*wide, self.rule_part], [*keyed, *[self.rule_part] * self.rule_part.has_keys]
        )
        if self.listing is not None:
            writer.lists[self.listing] = writer.lists[self.bases[0].view]
        writer.streams = {base.stream: n for n, base in enumerate(self.bases)}
        writer.orders[self.rule_part] = [p for p in self.outputs if isinstance(p, Order)]
        good, self.rule_part.deltas = self.rule_part.deltas, deltas or self.rule_part.deltas
        self.table = writer.write_only(self.rule_part)
        self.rule_part.deltas = good
        self.lists, self.keys = writer.lists, writer.keys

    def find_order(self, operand, columns):
        view = operand.view
        if operand.stream is not None:
            view = self.by_stream[operand.stream].view
        elif operand.width < 2:
            return view
        return self.order(view, columns)

    # Epochs

    def run_epoch(self, changes):
        """Changes `(base, tuple, change)`; again with more room where there was too little."""
        while True:
            try:
                return self._run_epoch(changes)
            except Fault as fault:
                self.store.abort()
                if fault.args[0] != LOG_FULL:
                    raise
                self.grown += 1
                self.log_words *= 2
                self.grow_work()

    def _run_epoch(self, changes):
        before = [Counter(base.rows) for base in self.bases]
        after = [Counter(base.rows) for base in self.bases]
        for number, key, change in changes:
            after[number][key] += change
        log = np.zeros(self.log_words, np.int64)
        lists = np.zeros(2 * (len(self.lists) + len(self.keys)) + 2, np.int64)
        bounds, entries, top = [0], [], 1
        for number, base in enumerate(self.bases):
            for changed, key, change in changes:
                if changed == number:
                    padded = [*key, *[-7] * (2 - len(key)), change, -7]
                    entries += padded[:ENTRY_WORDS]
            bounds.append(len(entries))
            old, new = before[number], after[number]
            touched = sorted(k for k in {c[1] for c in changes if c[0] == number})
            start = top
            for key in touched:
                words = [*key, old[key]] + ([new[key]] if base.arity != 1 else [])
                log[top : top + len(words)] = words
                top += len(words)
            lists[2 * self.lists[base.view] :][:2] = start, top
            if base.view in self.keys:
                start = top
                for first in sorted({key[0] for key in touched}):
                    is_there = any(n and k[0] == first for k, n in old.items())
                    log[top : top + 2] = first, is_there
                    top += 2
                lists[2 * self.keys[base.view] :][:2] = start, top
            self.change_base(base, touched, new)
        log[0] = top
        flat = np.array(entries or [0], np.int64)
        limits = np.array(bounds, np.int64)

        def run(words, roots):
            return self.run_step(
                words, log, lists, self.work, limits, flat, self.table, roots,
                self.judges.words, self.judges.requests,
            )  # fmt: skip

        while not self.store.run(run):
            self.answered += 1
            self.judges.answer()
        if self.store.faults:
            fault = self.store.faults
            self.store.words[FAULTS] = 0
            self.judges.answer()
            raise Fault(fault)
        self.store.publish()
        self.judges.end_epoch()
        for base, rows in zip(self.bases, after, strict=True):
            base.rows = +rows
        found = self.read_list(log, lists, self.lists[self.rule_part], len(self.head))
        keys = None
        if self.rule_part in self.keys:
            keys = self.read_list(log, lists, self.keys[self.rule_part], 1)
        return found, keys

    def change_base(self, base, touched, rows):
        for view in [base.view, *self.by_name.values()]:
            if view is base.view or (isinstance(view, Order) and view.of is base.view):
                columns = view.columns if isinstance(view, Order) else range(base.arity)
                for key in touched:
                    view.relation.set(tuple(key[c] for c in columns), rows[key])

    def read_list(self, log, lists, number, width):
        start, end = lists[2 * number : 2 * number + 2].tolist()
        stride = 2 if width == 1 else width + 2
        entries = log[start:end].reshape(-1, stride).tolist()
        if width == 1:
            return {(key,): (before, None) for key, before in entries}
        return {tuple(row[:width]): (row[-2], row[-1]) for row in entries}

    # What is right

    def expected(self):
        """By nested loops: the output, and a bound of every number on the way."""
        found: list[tuple[dict, int]] = [({}, 1)]
        for each in self.given:
            rows: Counter = Counter()
            for key, count in self.bases[each.base].rows.items():
                short = key[: len(each.variables)]
                rows[short] = count if each.use == COUNT else 1
            longer = []
            for (binding, weight), (key, count) in product(found, rows.items()):
                pairs = list(zip(each.variables, key, strict=True))
                if all(binding.get(v, k) == k for v, k in pairs):
                    longer.append(({**binding, **dict(pairs)}, weight * count))
            found = longer
        output: Counter = Counter()
        for binding, weight in found:
            values = [[binding[v] for v in wanted] for wanted in self.checks]
            if all(FILTERS[len(v)][1](*v) for v in values):
                output[tuple(binding[v] for v in self.head)] += weight
        return {key: n for key, n in output.items() if n}

    def found(self):
        return dict(self.rule_part.relation.scan())

    def compare(self, before, told, keys):
        """The output in all orders, and its lists, against nested loops."""
        output = self.expected()
        assert self.found() == output
        for other in self.outputs[1:]:
            assert isinstance(other, Order)
            moved = {tuple(k[c] for c in other.columns): n for k, n in output.items()}
            assert dict(other.relation.scan()) == moved
        now = {k: (before.get(k, 0), output.get(k, 0)) for k in before.keys() | output.keys()}
        net = {k: pair for k, pair in now.items() if pair[0] != pair[1]}
        if len(self.head) == 1:
            net = {k: (pair[0], None) for k, pair in net.items()}
        assert told == net
        if keys is not None:
            was, is_now = ({(k[0],) for k in rows} for rows in (before, output))
            assert keys == {k: (int(k in was), None) for k in was ^ is_now}
        self.store.check()


# Rules over payments

X, Y, Z, W = range(4)
PAYS = [(X, Y), (Y, Z), (Z, X)]


def triangle(from_entries=True):
    """`x pays y, y pays z, z pays x` over one relation."""
    bench = Bench([2])
    bench.make_rule([Given(0, v, COUNT, from_entries) for v in PAYS], (X, Y, Z))
    return bench


def play(bench, *epochs):
    """Run epochs, each of `(base, tuple, change)`, with everything compared after each."""
    for changes in epochs:
        before = bench.found()
        told, keys = bench.run_epoch(changes)
        bench.compare(before, told, keys)
    return bench.found()


def edges(*pairs, change=1):
    return [(0, pair, change) for pair in pairs]
