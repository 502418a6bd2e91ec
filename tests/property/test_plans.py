"""Every legal plan of random queries equals the oracle, multiplicities included, in both modes."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.random_queries import query_text, random_counts, random_query, with_filters

from triegs.compiler import compile_query, legal_plans
from triegs.compiler.plan import Join, Payload, PlanClass, Role
from triegs.sparql import parse
from triegs.sparql.model import Atom
from triegs.testing import oracle, reference
from triegs.testing.strategies import Shape, Twist, patterns, streams, updates

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ACYCLIC = (Shape.PATH, Shape.STAR, Shape.TREE, Shape.DISCONNECTED)


def graph_of(drawn):
    """Counts per assertion of the inserts among some updates."""
    return oracle.count_assertions([("+", *update[1:]) for update in drawn])[0]


def answers_of(plan, counts, mode):
    instance = reference.Reference(plan, mode)
    instance.counts = dict(counts)
    return instance.answers()


@pytest.mark.parametrize("seed", range(8))
def test_thousands_of_queries_with_every_legal_plan(seed):
    random = Random(seed)
    for _ in range(2_000 if SOAK else 25):
        query = with_filters(random, random_query(random))
        counts = random_counts(random)
        question = oracle.read_query(query_text(query))
        expected = {mode: oracle.answers(question, counts, mode) for mode in ("multigraph", "rdf")}
        for plan in legal_plans(query, limit=200).plans:
            for mode, wanted in expected.items():
                assert answers_of(plan, counts, mode) == wanted, (query, plan.choices, mode)


@given(patterns(max_atoms=5), st.lists(updates(nodes=3, labels=2), max_size=10))
def test_every_legal_plan_gives_the_oracles_answers(pattern, drawn):
    counts = graph_of(drawn)
    query = parse(pattern.text)
    question = oracle.read_query(pattern.text)
    expected = {mode: oracle.answers(question, counts, mode) for mode in ("multigraph", "rdf")}
    for plan in legal_plans(query, limit=200).plans:
        for mode, wanted in expected.items():
            assert answers_of(plan, counts, mode) == wanted, (plan.choices, mode)


@given(
    patterns(twists=(Twist.FILTER, Twist.VALUES), max_atoms=4),
    st.lists(updates(nodes=3, labels=2), min_size=3, max_size=12),
)
def test_filters_and_values_across_atoms(pattern, drawn):
    counts = graph_of(drawn)
    wanted = oracle.answers(pattern.text, counts)
    for plan in legal_plans(parse(pattern.text), limit=20).plans:
        assert answers_of(plan, counts, "multigraph") == wanted, plan.choices


@given(patterns(shapes=ACYCLIC, max_atoms=8), st.lists(updates(nodes=4), max_size=9))
def test_the_chosen_plan_of_larger_queries(pattern, drawn):
    counts = graph_of(drawn)
    plan = compile_query(parse(pattern.text))
    assert answers_of(plan, counts, "multigraph") == oracle.answers(pattern.text, counts)


@given(patterns(max_atoms=4), streams())
def test_streams_with_refused_deletes(pattern, epochs):
    for mode in ("multigraph", "rdf"):
        instance = reference.Reference(pattern.text, mode)
        question = oracle.read_query(pattern.text)
        counts: Counter[oracle.Triple] = Counter()
        for number, epoch in enumerate(epochs, start=1):
            report = instance.apply(epoch)
            refused = oracle.apply_batch(counts, epoch)
            assert report.epoch == number
            assert [place for place, _, _ in report.refused] == refused
            assert instance.answers() == oracle.answers(question, counts, mode)


@given(patterns())
def test_a_plan_is_a_well_formed_tree(pattern):
    """Numbered as in docs/maintenance.md, "Invariants of plans and states"."""
    query = parse(pattern.text)
    plan = compile_query(query, keep=["count", "slice"])
    nodes, free = plan.nodes, set(query.free)
    for place, node in enumerate(nodes):
        bag = set(node.bag)
        # 1. Children come before parents, and only joins read a node twice.
        assert all(child < place for child in node.children)
        # 2. Interfaces lie inside the bags on both sides.
        assert set(node.interface) <= bag
        assert all(set(nodes[c].interface) <= bag for c in node.children)
        # 3. The guard, or a child, has the whole bag.
        wholes = [c for c in node.children if set(nodes[c].interface) == bag]
        assert node.guard is not None or wholes or not bag
        # 4. A node that shows something to the answer forgets nothing it has to count.
        if node.role is Role.WITNESS:
            assert bag <= free
            assert Payload.EXACT not in node.payload
        else:
            assert node.payload == (Payload.EXACT,)
    # 5. The witness nodes bind every head variable exactly once, parents first.
    bound = [v for place in plan.order for v in nodes[place].introduces]
    assert sorted(bound) == sorted(free)
    known: set[str] = set()
    for place in plan.order:
        assert set(nodes[place].interface) <= known
        known.update(nodes[place].bag)
    # 6. Nothing is materialised that the class does not say.
    if plan.plan_class in (PlanClass.FULL_ACYCLIC, PlanClass.FREE_CONNEX):
        assert not any(isinstance(node.guard, Join) for node in nodes)


@given(patterns(max_atoms=6))
def test_plans_compare_replay_and_share_keys_under_renaming(pattern):
    query = parse(pattern.text)
    plan = compile_query(query)
    assert plan == compile_query(parse(pattern.text))
    assert compile_query(query, choices=plan.choices) == plan
    renamed = compile_query(parse(pattern.text.replace("?v", "?renamed")), choices=plan.choices)
    assert [node.key for node in renamed.nodes] == [node.key for node in plan.nodes]


@given(patterns(max_atoms=5), st.lists(updates(nodes=3, labels=2), max_size=10))
def test_equal_keys_mean_equal_marginals(pattern, drawn):
    """Over all legal plans of a query: where two nodes share a key, their values agree."""
    weights = {Atom(*t): n for t, n in graph_of(drawn).items()}
    values: dict[str, dict] = {}
    for plan in legal_plans(parse(pattern.text), limit=20).plans:
        state = reference.evaluate(plan, weights)
        for node, marginal in zip(plan.nodes, state.marginals, strict=True):
            assert values.setdefault(node.key, marginal) == marginal
