"""A core with its terms, its plans, their oracles, and the events it received."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
from tests.property.random_queries import query_text, random_query, with_filters

from triegs.compiler import compile_query, legal_plans
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.judges import Judges
from triegs.mode import Mode
from triegs.read.rows import RowReader
from triegs.sparql import parse
from triegs.sparql.model import Atom, Form, Query
from triegs.store.packed import PackedStore
from triegs.testing import oracle

CORES: dict[str, Any] = {
    "compiled": PackedStore,
    "small": lambda: PackedStore(reserve=False),
}
MODES = list(Mode)


class Asked:
    """A registered plan with its query and its oracle."""

    def __init__(self, graph, query, plan):
        self.graph, self.query, self.plan = graph, query, plan
        self.handle = graph.core.register(plan)
        self.question = oracle.read_query(query_text(query))

    def answers(self, version=None, rows=1000, enumeration=None):
        terms = list(self.graph.ids)
        found: dict = {}
        version = version or self.graph.core.store.newest
        reader = RowReader(self.plan, enumeration or self.handle.enumeration, self.graph.decode)
        for ids, counts in reader.columns(version, lambda: rows):
            assert ids.shape == (len(self.query.head), len(counts))
            assert len(counts) <= rows
            for row, count in zip(ids.T.tolist(), counts.tolist(), strict=True):
                answer = tuple(terms[i] for i in row)
                assert answer not in found
                found[answer] = count
        return found

    def expected(self):
        return oracle.answers(self.question, self.graph.counts, self.graph.mode.value)

    def show(self, rows=1000):
        """The answers of the version that the plan shows."""
        version, enumeration = self.graph.core.show(self.handle)
        try:
            return self.answers(version, rows, enumeration)
        finally:
            self.graph.core.store.unpin(version)


class Graph:
    def __init__(self, kind="compiled", mode=Mode.MULTIGRAPH):
        self.ids: dict[str, int] = {}
        self.mode = mode
        self.core = CompiledCore(CORES[kind](), self.encode, Judges(self.decode), mode)
        self.counts: Counter = Counter()
        self.asked: list[Asked] = []

    def encode(self, term):
        return self.ids.setdefault(term, len(self.ids))

    def decode(self, number):
        return list(self.ids)[number]

    def ask(self, text, **options):
        query = parse(text)
        return self.register(query, compile_query(query, **options))

    def register(self, query, plan):
        self.asked.append(Asked(self, query, plan))
        return self.asked[-1]

    def release(self, one):
        self.asked.remove(one)
        self.core.release(one.handle)

    def rows(self, batch):
        rows = [(1 if sign == "+" else -1, *map(self.encode, t)) for sign, *t in batch]
        return np.array(rows, np.int64).reshape(-1, 4)

    def apply(self, batch, is_strict=False):
        rows = self.rows(batch)
        epoch = self.core.apply(rows, is_strict)
        assert [place for place, _ in epoch.refused] == oracle.apply_batch(self.counts, batch)
        return epoch

    def change(self, triple, change):
        """An epoch of one assertion whose count changes by any number at once."""
        self.counts[triple] += change
        if not self.counts[triple]:
            del self.counts[triple]
        row = (change, *map(self.encode, triple))
        return self.core.apply(np.array([row], np.int64)).version

    def check(self, rows=1000):
        self.core.store.check()
        self.core.views.check()
        for one in self.asked:
            assert one.show(rows) == one.expected(), query_text(one.query)


def random_batch(random: Random, nodes=3, labels=2, most=5):
    return [
        (random.choice("++-"), f"<c{random.randrange(nodes)}>", f"<p{random.randrange(labels)}>",
         f"<c{random.randrange(nodes)}>")
        for _ in range(random.randint(0, most))
    ]  # fmt: skip


def random_tree(random: Random):
    """A tree of up to six atoms, now and then cut in two, some ends constant; any head."""
    atoms = []
    for i in range(random.randint(1, 6)):
        ends = [f"?v{random.randint(0, i)}", f"?v{i + 1}"]
        chance = random.random()
        if chance < 0.1:
            ends[0] = f"?z{i}"
        elif chance < 0.25:
            ends[random.randrange(2)] = f"<c{random.randrange(3)}>"
        elif chance < 0.3:
            ends[1] = ends[0]
        random.shuffle(ends)
        atoms.append(Atom(ends[0], f"<p{random.randrange(2)}>", ends[1]))
    used = list(dict.fromkeys(v for atom in atoms for v in atom.variables))
    head = used if random.random() < 0.5 else random.sample(used, random.randint(0, len(used)))
    return Query(Form.SELECT if head else Form.ASK, tuple(head), tuple(atoms))


def register_random(random: Random, graph: Graph):
    """A query of any class, or a tree, which the core takes; by any legal plan."""
    query = random_tree(random)
    if random.random() < 0.4:
        query = with_filters(random, random_query(random))
        while len(query.atoms) > 5:
            query = with_filters(random, random_query(random))
    return graph.register(query, random.choice(legal_plans(query, limit=10).plans))
