"""Everything must reproduce the running example, down to the report's view values."""

from __future__ import annotations

from collections import Counter

from tests.oracle.running_example import ANSWERS, EPOCHS, QUERY

from triegs.compiler import compile_query, legal_plans
from triegs.compiler.plan import Payload, PlanClass
from triegs.sparql import parse
from triegs.testing import oracle
from triegs.testing.reference import Reference
from triegs.testing.tables import read_term


def test_the_oracle():
    counts: Counter[oracle.Triple] = Counter()
    for epoch, expected in zip(EPOCHS, ANSWERS, strict=True):
        assert oracle.apply_batch(counts, epoch) == []
        assert oracle.answers(QUERY, counts) == expected


def test_the_oracle_with_windows():
    """The same, with the second reply expiring instead of being deleted."""
    events = [
        oracle.Event(time, "+", *update[1:])
        for time, update in zip([5, 6, 0, 7, 8], EPOCHS[0] + EPOCHS[1], strict=True)
    ]
    moments = list(oracle.windowed(events, width=10, slide=1, until=10))
    total = [sum(oracle.answers(QUERY, m.counts).values()) for m in moments]
    # The first reply (time 0) leaves the window at 10, two time units after the like came.
    assert dict(zip([m.time for m in moments], total, strict=True)) == {
        **dict.fromkeys(range(8), 0), 8: 2, 9: 2, 10: 1,
    }  # fmt: skip


def test_every_legal_plan():
    plans = legal_plans(parse(QUERY)).plans
    assert len(plans) > 5
    for plan in plans:
        example = Reference(plan)
        for epoch, expected in zip(EPOCHS, ANSWERS, strict=True):
            example.apply(epoch)
            assert example.answers() == expected


def test_the_reports_views_when_rooted_at_z():
    """H, L, V1 and V0 as the report's figure has them at t0, t1 and t2."""
    plan = compile_query(parse(QUERY), root="z", keep=["count"])
    assert plan.plan_class is PlanClass.FULL_ACYCLIC
    assert plan.nodes[plan.root].name == "V0"
    assert plan.node("V1").payload == (Payload.LIVENESS, Payload.TOTAL)
    tweet1, tweet2 = read_term("tweet1"), read_term("tweet2")
    example = Reference(plan)
    seen = []
    for epoch in EPOCHS:
        example.apply(epoch)
        state = example.state()
        marginal = {n.name: m for n, m in zip(plan.nodes, state.marginals, strict=True)}
        view = {n.name: v for n, v in zip(plan.nodes, state.views, strict=True)}
        seen.append((
            marginal["H"].get((tweet1,), 0),
            marginal["L"].get((tweet2,), 0),
            view["V1"].get((tweet1, tweet2), 0),
            marginal["V1"].get((tweet2,), 0),
            view["V0"].get((tweet2,), 0),
        ))  # fmt: skip
    assert seen == [(1, 0, 2, 2, 0), (1, 1, 2, 2, 2), (1, 1, 1, 1, 1)]
