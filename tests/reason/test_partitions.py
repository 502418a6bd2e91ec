"""Partitions that each derive their part: together they have the closure of one."""

from __future__ import annotations

import json
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.reason.drawing import as_plain, rule_sets, triples

from triegs import Engine, Window, workloads
from triegs.cli.explain_command import ExplainOptions, run_explain
from triegs.partition.rules import RulePartitioning, find_speedup, plan_rules
from triegs.reason.sets import read_rules
from triegs.testing.rule_oracle import TRIPLE, close

UNIVERSITY = workloads.get("university")
#: Rules in the manner of LUBM: inverses, hierarchies, joins across entities, a transitive property.
RULES = """
    @prefix ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> .
    Person(X) :- ub:emailAddress(X, Y).
    Person(X) :- ub:publicationAuthor(Y, X).
    Org(X) :- ub:subOrganizationOf(X, Y).
    Org(Y) :- ub:subOrganizationOf(X, Y).
    Member(Y, X) :- ub:memberOf(X, Y).
    Member(Y, X) :- ub:worksFor(X, Y).
    Person(Y) :- Member(X, Y).
    ub:Employee(X) :- Person(X), ub:worksFor(X, Y), Org(Y).
    ub:Student(X) :- Person(X), ub:takesCourse(X, Y), Course(Y).
    Course(Y) :- ub:teacherOf(X, Y).
    ub:subOrganizationOf(X, Z) :- ub:subOrganizationOf(X, Y), ub:subOrganizationOf(Y, Z).
"""


def split(plan: RulePartitioning, data, count: int, *, covered: bool = False):
    """The triples of each partition."""
    parts: list[list] = [[] for _ in range(count)]
    for triple in data:
        if plan.is_replicated(triple, covered=covered):
            for part in parts:
                part.append(triple)
        else:
            parts[crc32(triple[0].encode()) % count].append(triple)
    return parts


@given(rule_sets(), st.lists(triples, max_size=14, unique=True))
def test_partitions_of_random_rules_derive_everything(rules, data):
    plain = as_plain(rules)
    expected = close(plain, [(TRIPLE, triple) for triple in data])
    for plan in (plan_rules(rules), plan_rules(rules, data)):
        for count in (1, 2, 4):
            found: set = set()
            for part in split(plan, data, count):
                found |= close(plain, [(TRIPLE, triple) for triple in part])
            assert found == expected


def draw_events(count: int) -> list[tuple]:
    table = pa.Table.from_batches(list(UNIVERSITY.events(count)))
    columns = (table[name].to_pylist() for name in ("time", "subject", "predicate", "object"))
    return list(zip(*columns, strict=True))


def read_all(engine: Engine, window: Window | None) -> set[tuple]:
    with engine.queries["all"].snapshot() as snapshot:
        found = {("TE", *answer) for answer in snapshot}
    for name in ("Person", "Org", "Member", "Course"):
        found |= {(name, *fact) for fact in engine.facts(name, window)}
    return found


@pytest.mark.parametrize("count", [1, 2, 4])
def test_windows_of_partitions_have_the_closure_of_one(count):
    """The base support is sent to all; after every slide the union is that of one engine."""
    rules = read_rules(RULES)
    plan = plan_rules(rules)
    window = Window(400, slide=100)
    engines = [Engine("rdf", rules=rules, window=window) for _ in range(1 + count)]
    for engine in engines:
        engine.register("SELECT ?s ?p ?o { ?s ?p ?o }", "all")
    events = draw_events(1_200)
    for first in range(0, len(events), 100):
        batch = events[first : first + 100]
        engines[0].push(batch)
        parts = split(plan, [event[1:] for event in batch], count)
        for engine, part in zip(engines[1:], parts, strict=True):
            engine.push([event for event in batch if event[1:] in set(part)])
        for engine in engines:
            engine.advance(first + 100)
        together = set().union(*(read_all(engine, window) for engine in engines[1:]))
        assert together == read_all(engines[0], window)
    assert 0 < plan.find_share(plan.replicated) < 1


def test_what_covers_the_data_is_less_and_enough_for_it():
    rules = read_rules(RULES)
    data = [event[1:] for event in draw_events(1_500)]
    plan = plan_rules(rules, data)
    assert plan.covered is not None
    assert set(plan.covered) < set(plan.replicated)
    few, most = plan.find_share(plan.covered), plan.find_share(plan.replicated)
    assert few < 0.1 < most
    assert find_speedup(few, 4) > find_speedup(most, 4) > 1
    engines = [Engine("rdf", rules=rules) for _ in range(5)]
    for engine, part in zip(engines, [data, *split(plan, data, 4, covered=True)], strict=True):
        engine.register("SELECT ?s ?p ?o { ?s ?p ?o }", "all")
        engine.apply([("+", *triple) for triple in part])
    found = [read_all(engine, None) for engine in engines]
    assert set().union(*found[1:]) == found[0]


def test_premises_that_meet_need_nothing():
    local = (
        "TE(X, <a:p>, Y) :- TE(X, <a:q>, Y), TE(X, <a:r>, Z). TE(Y, <a:s>, X) :- TE(X, <a:p>, Y)."
    )
    assert plan_rules(read_rules(local)).replicated == ()
    assert np.isclose(find_speedup(0.0182, 16), 12.6, atol=0.1)  # the report's


def test_conclusions_of_two_rules_in_two_places_are_foreign():
    """One rule finds ``q`` at its first column, the other at its second: neither place has all."""
    rules = read_rules(
        "q(X, Y) :- TE(X, <a:p>, Y). q(X, Y) :- TE(Y, <a:r>, X). s(X) :- q(X, Y), TE(X, <a:t>, Z)."
    )
    plan = plan_rules(rules)
    assert plan.foreign
    plain = as_plain(rules)
    names = [f"<a:n{number}>" for number in range(12)]
    data = [(one, "<a:r>", two) for one, two in pairwise(names)]
    data += [(name, "<a:t>", name) for name in names] + [(names[0], "<a:p>", names[3])]
    expected = close(plain, [(TRIPLE, triple) for triple in data])
    for count in (2, 4):
        parts = split(plan, data, count)
        found = [close(plain, [(TRIPLE, triple) for triple in part]) for part in parts]
        assert set().union(*found) == expected


def test_explain_shows_what_a_query_over_rules_sends(tmp_path):
    path = tmp_path / "rules.dlog"
    path.write_text("TE(X, <a:p>, Z) :- TE(X, <a:q>, Y), TE(Y, <a:r>, Z).")
    sample = tmp_path / "sample.nt"
    lines = [f"<a:s{number}> <a:q> <a:o> ." for number in range(30)]
    sample.write_text("\n".join([*lines, "<a:o> <a:r> <a:z> ."]))
    text = "SELECT * { ?x <a:p> ?y . ?w <a:q> ?x }"
    options = ExplainOptions(None, text, (), "text", None, (), False, 4, sample, [str(path)])
    shown = run_explain(options)
    assert "f = 0.032, copies 2.06, S(N) = 1.94, 1 facts replicated" in shown
    assert "Key         query: ?x" in shown
    assert "Replicated  <a:r> (1)" in shown
    assert "By object   <a:q> (30)" in shown
    as_data = json.loads(run_explain(options._replace(output="json")))
    assert as_data["facts"] == 1
    assert as_data["keys"] == {"query": ["?x"]}
    with pytest.raises(typer.BadParameter, match="partitions"):
        run_explain(options._replace(partitions=None, sample=None))
