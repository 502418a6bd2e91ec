"""What is explained is what runs: descriptions of programs are held against the tables."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triegs import Engine, StandingQuery
from triegs.compiler import compile_query
from triegs.compiler.plan import Alias
from triegs.explain import explain
from triegs.explain.notation import Notation
from triegs.explain.program import Program
from triegs.maintain.kernels import tables as t
from triegs.maintain.lowered import Kind, Lookup, Lowered, describe, describe_registered
from triegs.sparql import parse

Registered = tuple[Engine, StandingQuery]
PREFIXES = {"": "http://ex/"}
QUERIES = {
    "one atom": "SELECT * { ?x :a ?y }",
    "path": "SELECT * { ?x :a ?y . ?y :b ?z . ?z :c ?w }",
    "counted": "SELECT ?x { ?x :a ?y . ?y :b ?z . ?y :c ?w }",
    "ends": "SELECT ?x ?z { ?x :a ?y . ?y :b ?z }",
    "total": "ASK { ?x :a ?y . ?y :b ?z }",
    "triangle": "SELECT * { ?x :a ?y . ?y :a ?z . ?z :a ?x }",
    "triangle with a tail": "SELECT * { ?x :a ?y . ?y :b ?z . ?z :c ?x . ?z :d ?w }",
    "tail of pairs": "SELECT ?x ?y { ?x :a ?y . ?y :b ?z . ?z :c ?x . ?y :d ?x }",
    "rectangle": "SELECT * { ?x :a ?y . ?y :b ?z . ?z :c ?w . ?w :d ?x FILTER(?x < ?z) }",
    "parallel": "SELECT * { ?x :a ?y . ?x :b ?y . ?y :c ?z }",
    "inner filter": "SELECT * { ?x :a ?y . ?y :b ?z FILTER(?y < 5) FILTER(?x != :k) }",
    "join filter": "SELECT ?x ?z { ?x :a ?y . ?y :b ?z FILTER(?x < ?z && ?y > 3) }",
    "constants": "SELECT * { ?x :a :k . :k :b ?y . ?x :c ?y . ?x :a ?x }",
    "variable predicate": "SELECT * { ?x ?p ?y . ?y :b ?z . ?p :c ?q }",
    "variable predicates": "SELECT ?x ?w { ?x ?p ?y . ?y ?q ?w . ?x :b :k }",
    "values": "SELECT * { ?x :a ?y VALUES (?x ?y) { (:k :l) (:m :n) } }",
    "value": "SELECT ?y { ?x :a ?y . ?y :b ?z VALUES ?x { :k } }",
    "apart": "SELECT * { ?x :a ?y . ?z :b ?w . ?u :c ?v FILTER(?u < ?v) }",
    "one assertion": "SELECT * { :k :a :l . ?x :b ?y }",
    "hidden bag": "SELECT ?w { ?x :a ?y . ?y :b ?z . ?z :c ?x . ?z :d ?w }",
    "bag below a bag": "SELECT ?a ?b ?c ?d ?e ?f { ?a :a ?d . ?a :a ?g . ?c :a ?a . ?c :a ?f . "
    "?d :a ?b . ?d :a ?e . ?f :a ?b }",
    "wide interface": "SELECT ?x ?y ?z { ?x :a ?y . ?y :b ?x . ?x ?y ?z }",
}
KEPT: dict[str, Any] = {
    "path": ["count", "slice"],
    "counted": ["count"],
    "triangle with a tail": ["slice"],
}


@pytest.fixture(params=QUERIES, ids=lambda name: name.replace(" ", "-"))
def registered(request: pytest.FixtureRequest) -> Iterator[Registered]:
    engine = Engine(prefixes=PREFIXES)
    keep = KEPT.get(request.param, [])
    with engine:
        yield engine, engine.register(QUERIES[request.param], keep=keep)


def describe_query(engine: Engine, query: StandingQuery) -> Lowered:
    standings: Any = {each._registered: name for name, each in engine.queries.items()}
    assert query._registered is not None
    return describe_registered(engine._core, query._registered, standings)


class Rows:
    """The rows of a table, read from its words alone."""

    def __init__(self, words: Any) -> None:
        self.words = words.tolist()

    def rows(self, at: int, count: int, width: int) -> list[list[int]]:
        return [self.words[at + i * width : at + (i + 1) * width] for i in range(count)]

    def steps(self) -> list[list[int]]:
        return self.rows(self.words[t.STEP_ROWS], self.words[t.STEPS], t.STEP_WORDS)

    def kept(self) -> dict[int, tuple[int, ...]]:
        """By slot, the order of columns, of what streams fill and of what rules give."""
        found = {}
        streams = self.rows(self.words[t.STREAM_ROWS], self.words[t.STREAMS], t.STREAM_WORDS)
        for stream in streams:
            for kind, column, slot, _, _, width, _ in self.rows(
                stream[t.S_ROWS_AT], stream[t.S_ROWS], t.ROW_WORDS
            ):
                if kind == t.SORTED_TUPLES:
                    order = tuple(self.words[column : column + width])
                elif kind == t.TUPLES:
                    order = tuple(self.words[column : column + stream[t.S_ARITY]])
                else:
                    order = (column,) if kind == t.COUNTS else (column, 1 - column)
                found[slot] = order
        for step in self.steps():
            if step[0] == t.RULE and not step[t.RULE_IS_LISTED_ONLY]:
                width = 1 + step[t.RULE_ARITY]
                orders = self.rows(step[t.RULE_ORDERS_AT], step[t.RULE_ORDERS], width)
                found |= {slot: tuple(order) for slot, *order in orders}
                targets = self.rows(step[t.RULE_SORTED_AT], step[t.RULE_SORTED], t.TARGET_WORDS)
                found |= {slot: tuple(self.words[at : at + n]) for slot, n, at in targets}
        return found

    def outputs(self) -> list[int]:
        outs = {t.EDGE: t.EDGE_OUT, t.ORDERED_EDGE: t.EDGE_OUT}
        return [
            self.words[step[t.RULE_ORDERS_AT]] if step[0] == t.RULE
            else step[outs.get(step[0], t.PRODUCT_OUT)]
            for step in self.steps()
        ]  # fmt: skip

    def deltas(self, step: list[int]) -> list[list[int]]:
        return self.rows(step[t.RULE_DELTAS_AT], step[t.RULE_DELTAS], t.DELTA_WORDS)

    def ways(self, delta: list[int]) -> tuple[list, list]:
        """Of a delta: what its seeds are looked up in, and by level the sources; each a slot with
        the registers that lead to it and whether it is old. From word to word, as the kernel goes.
        """
        at: dict[int, Any] = {}
        lookups = []
        for word, slot, is_old, use, _ in self.rows(delta[t.D_ROOTS_AT], delta[t.D_ROOTS], 5):
            at[word] = (slot, (), bool(is_old))
            if use != t.LEADS:
                lookups.append(at[word])
        for reg, before, _, after, use in self.rows(delta[t.D_PROBES_AT], delta[t.D_PROBES], 5):
            slot, regs, is_old = at[before]
            at[after] = (slot, (*regs, reg), is_old)
            if use != t.LEADS:
                lookups.append(at[after])
        levels = []
        for level in self.rows(delta[t.D_LEVELS_AT], delta[t.D_LEVELS], t.LEVEL_WORDS):
            reg, count, sources_at = level[: t.LEVEL_IS_SHOWN]
            sources = []
            for before, _, after, _ in self.rows(sources_at, count, t.SOURCE_WORDS):
                slot, regs, is_old = at[before]
                at[after] = (slot, regs if level[t.LEVEL_RANGES] else (*regs, reg), is_old)
                sources.append(at[after])
            if level[t.LEVEL_RANGES]:  # of sort keys: part of the level that follows
                continue
            levels.append((reg, sources, level[t.LEVEL_CHECKS]))
        return lookups, levels


def test_shows_every_view_of_the_table_and_nothing_else(registered: Registered) -> None:
    engine, query = registered
    lowered, core = describe_query(engine, query), engine._core
    rows = Rows(core.table.words)
    fixed = {r.slot for r in lowered.relations if r.kind is Kind.FIXED}
    assert {r.slot for r in lowered.relations} == {*rows.kept(), *rows.outputs(), *fixed}
    assert len(lowered.relations) == len(core.views.by_name)
    assert fixed.isdisjoint({*rows.kept(), *rows.outputs()})
    steps = [r for r in lowered.relations if r.work is not None]
    assert [r.slot for r in steps] == rows.outputs()


def test_columns_have_the_order_of_the_table(registered: Registered) -> None:
    engine, query = registered
    lowered = describe_query(engine, query)
    kept = Rows(engine._core.table.words).kept()
    for relation in lowered.relations:
        if relation.slot not in kept or relation.kind is Kind.LISTING:
            continue
        order, guard = kept[relation.slot], relation.guard
        order = tuple(column for column in order if column != t.CONSTANT)
        assert len(relation.columns) == len(order)
        names: tuple[str, ...] = ()
        if relation.kind is Kind.ORDER and relation.of is not None:
            names = lowered.relations[relation.of].columns
        elif isinstance(guard, Alias) and relation.is_selected and len(order) > 1:
            names = guard.variables
        elif isinstance(guard, Alias) and not relation.is_selected:
            names = ("subject", "object") if guard.label else ("subject", "predicate", "object")
        if names:
            plain = [names[column & ~t.SORTED] for column in order]
            assert relation.columns == tuple(
                f"order of {name.lstrip('?')}" if column & t.SORTED else name
                for column, name in zip(order, plain, strict=True)
            )


def test_rules_follow_the_moves_of_the_table(registered: Registered) -> None:
    engine, query = registered
    lowered = describe_query(engine, query)
    rows, relations = Rows(engine._core.table.words), lowered.relations
    steps = dict(zip(rows.outputs(), rows.steps(), strict=True))
    for relation in relations:
        if relation.kind is not Kind.RULE:
            continue
        step = steps[relation.slot]
        assert len(relation.differences) == step[t.RULE_DELTAS]
        names: dict[int, str] = {}
        for difference, delta in zip(relation.differences, rows.deltas(step), strict=True):
            read = relation.inputs[difference.input]
            regs = rows.words[delta[t.D_REGS_AT] :][: delta[t.D_ARITY]]
            assert len(regs) == len(read.variables)
            for reg, name in zip(regs, read.variables, strict=True):
                assert names.setdefault(reg, name) == name
            assert (read.reads.value == "count") == (delta[t.D_USE] == t.COUNT)
            assert (delta[t.D_FROM] == t.ENTRIES) == (read.relation is None)
            sides = {"both": t.BOTH, "now": t.NOW, "before": t.BEFORE}
            assert sides[difference.side.value] == delta[t.D_SIDE]
            lookups, levels = rows.ways(delta)

            def tell(lookup: Lookup, names: dict[int, str] = names) -> tuple[int, Any, bool]:
                regs = {name: reg for reg, name in names.items()}
                slot = relations[lookup.relation].slot
                return slot, tuple(regs[name] for name in lookup.variables), lookup.is_old

            for reg, _, _ in levels:
                name = difference.bindings[[r for r, _, _ in levels].index(reg)].variable
                assert names.setdefault(reg, name) == name
            assert [tell(lookup) for lookup in difference.lookups] == lookups
            assert len(difference.filters) == delta[t.D_CHECKS]
            shown = [
                ([tell(s) for s in each.sources], len(each.filters)) for each in difference.bindings
            ]
            assert shown == [(sources, checks) for _, sources, checks in levels]
        symmetry = step[t.RULE_SYMMETRY_AT]
        images = rows.words[symmetry + t.SYM_IMAGES] if symmetry else 1
        assert relation.symmetries == images
        if symmetry:
            at, count = rows.words[symmetry + t.SYM_INPUTS_AT], rows.words[symmetry + t.SYM_INPUTS]
            pairs = rows.rows(at, count, t.SYM_INPUT_WORDS)
            bound = [tuple(names[reg] for reg in pair[:2]) for pair in pairs]
            assert bound == [read.variables for read in relation.inputs]
        head = rows.words[step[t.RULE_HEAD_AT] :][: step[t.RULE_ARITY]]
        assert relation.columns == tuple(names[reg] for reg in head)


def test_factors_are_those_of_the_table(registered: Registered) -> None:
    engine, query = registered
    lowered = describe_query(engine, query)
    rows, relations = Rows(engine._core.table.words), lowered.relations
    steps = dict(zip(rows.outputs(), rows.steps(), strict=True))
    for relation in relations:
        if relation.work is None or relation.kind in (Kind.RULE, Kind.LISTING):
            continue
        step = steps[relation.slot]
        read = [relations[i.relation].slot for i in relation.inputs if i.relation is not None]
        if relation.back is not None:
            assert read == [step[t.EDGE_CHILD]]
            assert relations[relation.back].slot == step[t.EDGE_BY_OTHER]
        else:
            at, count = step[t.PRODUCT_FACTORS_AT], step[t.PRODUCT_FACTORS]
            assert read == [slot for _, slot, _ in rows.rows(at, count, t.FACTOR_WORDS)]


def test_it_is_the_same_without_an_engine(registered: Registered) -> None:
    engine, query = registered
    lowered = describe_query(engine, query)
    slots = sorted(relation.slot for relation in lowered.relations)
    found = describe(query.plan)
    alone = sorted(relation.slot for relation in found.relations)
    relations = tuple(
        replace(r, entries=None, work=None, slot=alone[slots.index(r.slot)])
        for r in lowered.relations
    )
    assert replace(lowered, relations=relations) == found


def test_every_format_shows_every_relation(registered: Registered) -> None:
    engine, query = registered
    lowered = describe_query(engine, query)
    program = Program(Notation(query.plan), lowered)
    titles = [re.sub(r"\s", "", program.title(relation)) for relation in lowered.relations]
    text = re.sub(r"\s", "", query.explain())
    drawn = [re.sub(r"<[^>]*>|\s", "", query.explain("svg"))]
    for number, title in enumerate(titles, 1):
        assert f"#{number}{title}" in text
        escaped = title.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
        assert f"#{number}{escaped}" in drawn[0].replace("&amp;", "&")
    found = json.loads(query.explain("json"))["relations"]
    assert [re.sub(r"\s", "", each["name"]) for each in found] == titles
    assert query.explain("mermaid").count("#35;") >= len(titles)


def test_shows_the_work_of_steps() -> None:
    """By hand: a triangle comes in one epoch, so only the last of its changes finds the others."""
    engine = Engine(prefixes=PREFIXES)
    query = engine.register("SELECT * { ?x :a ?y . ?y :b ?z . ?z :c ?x }")
    edges = [("+", 1, ":a", 2), ("+", 2, ":b", 3), ("+", 3, ":c", 1)]
    engine.apply([(op, s, p.replace(":", "<http://ex/") + ">", o) for op, s, p, o in edges])
    rule = find_rule(engine, query)
    assert (rule.work.seeds, rule.work.emitted, rule.work.changed) == (3, 1, 1)
    engine.apply([("+", 7, "<http://ex/a>", 8), ("+", 7, "<http://ex/other>", 8)])
    rule = find_rule(engine, query)
    assert (rule.work.seeds, rule.work.emitted, rule.work.changed, rule.entries) == (4, 1, 1, 1)
    other = engine.register("SELECT ?x ?z { ?x :a ?y . ?y :b ?z }")
    assert (find_rule(engine, query).work.seeds, find_rule(engine, other).work.seeds) == (4, 0)
    # Two ways between the same ends are emitted apart, and one change.
    engine.apply([("+", 1, "<http://ex/a>", 9), ("+", 9, "<http://ex/b>", 3)])
    ends = find_rule(engine, other)
    assert (ends.work.seeds, ends.work.emitted, ends.work.changed) == (2, 1, 1)
    engine.apply([("+", 5, "<http://ex/a>", y) for y in (2, 9)])
    ends = find_rule(engine, other)
    assert (ends.work.seeds, ends.work.emitted, ends.work.changed) == (4, 3, 2)
    assert "4 seeds, 3 emitted, 2 changed" in other.explain()


def find_rule(engine: Engine, query: StandingQuery) -> Any:
    return next(r for r in describe_query(engine, query).relations if r.kind is Kind.RULE)


def test_names_the_queries_that_share() -> None:
    engine = Engine(prefixes=PREFIXES)
    one = engine.register("SELECT ?x ?y { ?x :a ?y . ?y :b ?z }", name="one")
    two = engine.register("SELECT * { ?u :a ?v }", name="two")
    shared = {r.slot: r.shared for r in describe_query(engine, one).relations if r.shared}
    theirs = {r.slot: r.shared for r in describe_query(engine, two).relations if r.shared}
    assert set(shared) == set(theirs)
    assert {*shared.values(), *theirs.values()} == {("two",), ("one",)}
    assert "shared with two" in one.explain()
    two.close()
    assert "shared with" not in one.explain()
    assert "Program" in two.explain()


def test_a_shared_view_has_the_names_of_each_query() -> None:
    engine = Engine(prefixes=PREFIXES)
    texts = ["SELECT ?x ?z { ?x :a ?y . ?y :b ?z FILTER(?x < ?z) }",
             "SELECT ?p ?r { ?p :a ?q . ?q :b ?r FILTER(?p < ?r) }"]  # fmt: skip
    one, two = (engine.register(text) for text in texts)
    rules = [find_rule(engine, one), find_rule(engine, two)]
    assert rules[0].slot == rules[1].slot
    assert set(rules[0].columns) == {"?x", "?z"}
    assert set(rules[1].columns) == {"?p", "?r"}
    assert "?x < ?z" in one.explain()
    assert "?p < ?r" in two.explain().split("Program")[1].split("Enumeration")[0]


def test_explaining_compiles_no_kernel(tmp_path: Path) -> None:
    text = QUERIES["triangle with a tail"]
    done = subprocess.run(
        [sys.executable, "-c", "from triegs.cli.app import app; app()", "explain", "--prefix",
         "=http://ex/", "--text", text],
        env=os.environ | {"TRIEGS_CACHE": str(tmp_path)}, check=True, capture_output=True,
        encoding="utf-8",
    )  # fmt: skip
    assert "rule, kept" in done.stdout
    assert not list(tmp_path.rglob("*.nbc"))


def test_explains_a_plan_of_its_own() -> None:
    plan = compile_query(parse(QUERIES["triangle"], PREFIXES))
    assert "intersect" in explain(plan)
    assert "so far" not in explain(plan)
