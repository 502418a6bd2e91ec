"""Rules that derive much: they end, or are refused with nothing changed."""

from __future__ import annotations

import pytest

from triegs import Engine, MemoryLimitReached, Window

P = "<http://ex/p>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
SUB = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
INHERIT = "TE(X, rdf:type, D) :- TE(X, rdf:type, C), TE(C, rdfs:subClassOf, D)."
CLOSE = f"TE(X, {P}, Z) :- TE(X, {P}, Y), TE(Y, {P}, Z)."


def count(engine: Engine, predicate: str) -> int:
    with engine.register(f"SELECT ?x ?y {{ ?x {predicate} ?y }}").snapshot() as snapshot:
        return len(snapshot)


def test_a_long_chain_of_classes():
    engine = Engine(rules=INHERIT)
    engine.apply([("+", n, SUB, n + 1) for n in range(10_000)])
    engine.apply([("+", "<http://ex/x>", TYPE, 0)])
    assert count(engine, TYPE) == 10_001
    engine.apply([("-", 5_000, SUB, 5_001)])
    assert count(engine, TYPE) == 5_001


def test_a_cycle_and_a_clique():
    engine = Engine(rules=CLOSE)
    size = 60
    engine.apply([("+", n, P, (n + 1) % size) for n in range(size)])
    assert count(engine, P) == size * size
    engine.apply([("-", 0, P, 1)])
    assert count(engine, P) == size * (size - 1) // 2
    engine.apply([("+", a, P, b) for a in range(20) for b in range(20) if a != b])
    engine.apply([("-", a, P, b) for a in range(20) for b in range(20) if a != b])
    engine.apply([("-", n, P, (n + 1) % size) for n in range(1, size)])
    assert count(engine, P) == 0


def test_a_rule_that_derives_its_own_body_supports_nothing():
    engine = Engine(rules=f"TE(X, {P}, Y) :- TE(X, {P}, Y). TE(X, {P}, Y) :- TE(Y, {P}, X).")
    engine.apply([("+", 1, P, 2)])
    assert count(engine, P) == 2
    engine.apply([("-", 1, P, 2)])
    assert count(engine, P) == 0


def test_rules_state_more_facts_than_a_new_closure_has_room_for():
    facts = "".join(f"TE(<http://ex/n{n}>, {P}, <http://ex/n{n + 1}>)." for n in range(600))
    assert count(Engine(rules=facts), P) == 600
    assert count(Engine(rules=[facts, f"TE(Y, {P}, X) :- TE(X, {P}, Y)."]), P) == 1_200
    more = "".join(facts.replace("ex/n", f"ex/{number}-") for number in range(20))
    with pytest.raises(MemoryLimitReached, match="facts of rules"):
        Engine(rules=more, memory_limit="1MB")


def test_too_many_facts_are_refused_in_the_middle_of_an_epoch():
    engine = Engine(rules=CLOSE, memory_limit="4MB")
    engine.apply([("+", n, P, n + 1) for n in range(30)])
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}")
    before, epoch = count(engine, P), engine.epoch
    with pytest.raises(MemoryLimitReached):
        engine.apply([("+", n, P, n + 1) for n in range(30, 2_000)])
    with query.snapshot() as snapshot:
        assert len(snapshot) == before == 30 * 31 // 2
    assert engine.epoch == epoch
    engine.apply([("+", 30, P, 31)])
    assert count(engine, P) == 31 * 32 // 2
    engine.apply([("-", 0, P, 1)])
    assert count(engine, P) == 30 * 31 // 2


def test_a_slide_whose_closure_does_not_fit_refuses_its_events():
    window = Window(10, 5)
    engine = Engine(rules=CLOSE, memory_limit="4MB")
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}", window=window)
    engine.push([(1, n, P, n + 1) for n in range(10)])
    engine.advance(5)
    engine.push([(6, n, P, n + 1) for n in range(10, 2_000)])
    published = engine.advance(10)
    assert len(published[0].refused) == 1_990
    with query.snapshot() as snapshot:
        assert len(snapshot) == 10 * 11 // 2
    engine.push([(12, 7, P, 8)])
    engine.advance(15)
    with query.snapshot() as snapshot:
        assert [tuple(row) for row in snapshot] == [
            tuple(f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in (7, 8))
        ]


def test_rules_that_do_not_fit_are_not_loaded(tmp_path):
    engine = Engine(memory_limit="4MB")
    engine.apply([("+", n, P, n + 1) for n in range(2_000)])
    path = tmp_path / "rules.dlog"
    path.write_text(CLOSE)
    with pytest.raises(MemoryLimitReached):
        engine.load_rules(path)
    assert engine.rules == ()
    assert count(engine, P) == 2_000
    assert engine.metrics()["terms"]["limbo"] == 0


def test_ten_thousand_classes_under_rdfs_do_not_fit_and_change_nothing():
    """Fifty million triples: refused in the middle of the epoch, long before they are derived."""
    engine = Engine(rules="rdfs", memory_limit="64MB")
    engine.apply([("+", "<http://ex/x>", TYPE, 0), ("+", 0, SUB, 1)])
    query = engine.register(f"SELECT ?x ?y {{ ?x {TYPE} ?y }}")
    before, epoch = engine.metrics()["rules"], engine.epoch
    with pytest.raises(MemoryLimitReached):
        engine.apply([("+", n, SUB, n + 1) for n in range(1, 10_000)])
    assert engine.epoch == epoch
    after = engine.metrics()["rules"]
    assert (after["facts"], after["bytes"]) == (before["facts"], before["bytes"])
    with query.snapshot() as snapshot:
        assert len(snapshot) == 2
    engine.apply([("+", n, SUB, n + 1) for n in range(1, 100)])
    assert count(engine, SUB) == 100 * 101 // 2
    with query.snapshot() as snapshot:
        assert len(snapshot) == 101
    # What was refused has left all room to others.
    engine.apply([("+", n, SUB, n + 1) for n in range(100, 500)])
    assert count(engine, SUB) == 500 * 501 // 2
