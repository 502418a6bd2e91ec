"""Rules in the engine: after every epoch the answers are those over the closure of its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reason.drawing import as_plain, rule_sets, triples
from tests.windows.test_against_oracle import (
    QUERIES,
    as_events,
    result,
    scripts,
    shapes,
    to_window,
)

from triegs.engine import Engine
from triegs.errors import InvalidUpdate
from triegs.options import ModeName
from triegs.reason.kernels.layout import STATIC_ROW
from triegs.sparql.window import Kind, Window
from triegs.testing import oracle
from triegs.testing.rule_oracle import weigh
from triegs.testing.window_oracle import WindowOracle
from triegs.windows.settings import EventTime

modes = st.sampled_from(["multigraph", "rdf"])
batches = st.lists(st.tuples(st.sampled_from("++-"), triples), max_size=4)


def answer(text: str, weights: Mapping, mode: ModeName):
    return oracle.answers(oracle.read_query(text), Counter(weights), mode)


def test_the_base_is_the_empty_prefix_of_rules(tmp_path):
    """As it is in queries."""
    rules = ":related(X, Z) :- :paid(X, Y), :paid(Y, Z)."
    ends = [f"<urn:triegs:{name}>" for name in "abc"]
    with Engine(rules=rules) as engine, Engine.open(tmp_path, rules=rules) as kept:
        for each in (engine, kept):
            query = each.register("SELECT ?x { ?x :related :c }")
            each.apply([("+", x, "<urn:triegs:paid>", y) for x, y in pairwise(ends)])
            with query.snapshot() as snap:
                assert [answer.x for answer in snap] == ends[:1]
    with Engine(base="http://a/", prefixes={"": "http://b/"}, rules=rules) as engine:
        assert "<http://b/related>" in engine.rules[0]


@given(rule_sets(), modes, st.lists(batches, min_size=1, max_size=6), st.data())
def test_plain_epochs_equal_the_oracle(rules, mode, drawn, data):
    """Inserts and deletes without windows, strict and not; a late query; rules loaded late."""
    plain = as_plain(rules)
    is_late = data.draw(st.booleans())
    engine = Engine(mode, rules=None if is_late else rules)
    texts = data.draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=2, unique=True))
    queries = {text: engine.register(text) for text in texts}
    counts: Counter = Counter()
    for number, batch in enumerate(drawn):
        if is_late and number == 1:
            engine._internals.load_rules(rules)
        if number == 2:
            text = data.draw(st.sampled_from(QUERIES))
            if text not in queries:
                queries[text] = engine.register(text)
        held = {text: query.snapshot() for text, query in queries.items()}
        before = {text: {tuple(a): a.multiplicity for a in snap} for text, snap in held.items()}
        after, refused = Counter(counts), []
        for row, (sign, triple) in enumerate(batch):
            if sign == "-" and after[triple] == 0:
                refused.append(row)
            else:
                after[triple] += 1 if sign == "+" else -1
        updates = [(sign, *triple) for sign, triple in batch]
        if data.draw(st.booleans()):
            if refused:
                with pytest.raises(InvalidUpdate):
                    engine.apply(updates, strict=True)
                after = counts
            else:
                engine.apply(updates, strict=True)
        else:
            assert [row for row, _ in engine.apply(updates).refused] == refused
        counts = after
        has_rules = not is_late or number >= 1
        weights = weigh(plain if has_rules else [], counts)
        for text, query in queries.items():
            assert result(query) == answer(text, weights, mode)
            found = Counter(before[text])
            for step in query.changes(since=held[text].epoch):
                for change in step:
                    found[tuple(change)] += change.change
            assert {key: count for key, count in found.items() if count} == result(query)
            held[text].close()
    engine.apply([("-", *triple) for triple in counts.elements()])
    for query in queries.values():
        query.close()
    if not any(not rule.body for rule in rules.rules):
        assert len(engine._core.views.unindexed) == 0
    engine.close()


@given(
    rule_sets(), st.lists(shapes(), min_size=1, max_size=3, unique=True), scripts(), modes,
    st.sampled_from([None, 0, 7]), st.integers(0, 4), st.data(),
)  # fmt: skip
def test_windows_equal_the_oracle(rules, drawn, script, mode, idle, lateness, data):
    """Several windows with disorder, lateness, ids and deletions, and a static graph that changes
    meanwhile.
    """
    plain = as_plain(rules)
    texts = [data.draw(st.sampled_from(QUERIES)) for _ in drawn]
    event_time = EventTime(lateness, late="quarantine", max_ahead=100, idle_timeout=idle)
    engine = Engine(mode, event_time=event_time, rules=rules)
    expected = WindowOracle(drawn, lateness, 100, idle)
    queries = [
        engine.register(text, window=to_window(shape))
        for text, shape in zip(texts, drawn, strict=True)
    ]
    static: Counter = Counter()
    seen: list = []
    contents: list[Counter] = [Counter() for _ in drawn]
    publish = engine._windows.publisher.publish

    def publish_and_look(due):
        published = publish(due)
        seen.append([result(query) for query in queries])
        return published

    def check(answers):
        for found, text, held in zip(answers, texts, contents, strict=True):
            assert found == answer(text, weigh(plain, held + static), mode)

    engine._windows.publisher.publish = publish_and_look  # type: ignore[method-assign]
    for step in script:
        updates = data.draw(batches)
        if updates:
            engine.apply([(sign, *triple) for sign, triple in updates])
            for sign, triple in updates:
                if sign == "+" or static[triple] > 0:
                    static[triple] += 1 if sign == "+" else -1
            check([result(query) for query in queries])
        if step[0] == "push":
            _, stream, events, is_table = step
            if stream in expected.flows:
                pushed = engine.push(as_events(events, is_table), stream)
                assert [place for place, _ in pushed.refused] == expected.push(events, stream)
            continue
        seen.clear()
        if step[0] == "close":
            published, moments = engine.close_stream(), expected.close()
        elif step[1] == "*" or step[1] in expected.flows:
            published = engine.advance(step[2], step[1])
            moments = expected.advance(step[2], step[1])
        else:
            continue
        assert [each.time for each in published] == [each.time for each in moments]
        for answers, moment in zip(seen, moments, strict=True):
            contents = [Counter(held) for held in moment.held]
            check(answers)
    engine.apply([("-", *triple) for triple in static.elements()])
    for query in queries:
        query.close()
    if not any(not rule.body for rule in rules.rules):
        assert len(engine._core.views.unindexed) == 0
    terms = engine.metrics()["terms"]
    assert (terms["live"], terms["limbo"]) == (len(set(rules.constants)), 0)
    engine.close()


BACK = "TE(Y, <u:q>, X) :- TE(X, <u:p>, Y). TE(X, <u:q>, Z) :- TE(X, <u:q>, Y), TE(Y, <u:q>, Z)."


def test_a_refused_epoch_leaves_no_derived_triple():
    engine = Engine(rules=BACK)
    query = engine.register("SELECT ?x ?y { ?x <u:q> ?y }")
    engine.apply([("+", 1, "<u:p>", 2)])
    before = result(query)
    with pytest.raises(InvalidUpdate):
        engine.apply([("+", 2, "<u:p>", 3), ("-", 7, "<u:p>", 7)], strict=True)
    assert result(query) == before
    engine.apply([("+", 2, "<u:p>", 3)])
    assert len(result(query)) == 3
    engine.apply([("-", 1, "<u:p>", 2), ("-", 2, "<u:p>", 3)])
    assert result(query) == {}


@pytest.mark.parametrize(
    "window",
    [
        Window(10, 5),
        Window(7, 3, bounds="[)"),
        Window.triples(4),
        Window.now(),
        Window(9, 4, start=2),
    ],
    ids=str,
)
def test_moving_a_window_runs_no_rule(window):
    """Neither joins nor retractions, as long as nothing arrives and nothing is deleted."""
    engine = Engine(rules=BACK, window=window)
    query = engine.register("SELECT ?x ?y { ?x <u:q> ?y }")
    engine.push([(time, time, "<u:p>", time + 1) for time in range(1, 21)])
    engine.advance(22)  # the first slide of each window that has all of them
    figures = engine.metrics()["rules"]
    assert figures["derivations"] > 0
    assert figures["retracted"] == 0
    engine.push([(60, 0, "<u:other>", 0)])
    engine.advance(60)
    after = engine.metrics()["rules"]
    assert {name: after[name] for name in ("derivations", "joined", "retracted")} == {
        name: figures[name] for name in ("derivations", "joined", "retracted")
    }
    if window.kind is not Kind.TRIPLES:
        assert result(query) == {}


@pytest.mark.parametrize("seed", range(6))
def test_deletions_between_the_ends_of_two_windows(seed):
    """At one published time one window ends before the events of that time, the other with them:
    what is derived follows what is stated in each.
    """
    random = Random(seed)
    engine = Engine("rdf", rules="TE(X, <u:q>, Y) :- TE(X, <u:p>, Y).")
    windows = [Window(7, 3, bounds="[)"), Window(9, 3)]
    pairs = [
        [engine.register(f"SELECT ?x ?y {{ ?x {label} ?y }}", window=window)
         for label in ("<u:p>", "<u:q>")]
        for window in windows
    ]  # fmt: skip
    seen = set()
    for start in range(0, 120, 6):
        times = sorted(start + random.randrange(6) for _ in range(8))
        signs = random.choices("++-", k=8)
        edges = [(random.randrange(2), "<u:p>", random.randrange(2)) for _ in times]
        engine.push([(t, *edge, sign) for t, edge, sign in zip(times, edges, signs, strict=True)])
        for _ in engine.each_slide(to=start + 6):
            for stated, derived in pairs:
                assert result(stated) == result(derived)
            seen.add(result(pairs[0][0]).keys() == result(pairs[1][0]).keys())
    assert seen == {True, False}


def test_new_memory_may_have_had_anything_in_it(monkeypatch):
    """An event that leaves is no static statement, whatever is in the memory for its time."""
    empty = np.empty

    def find_used(shape, dtype=float, **options):
        array = empty(shape, dtype, **options)
        if array.dtype == np.int64:
            array.fill(STATIC_ROW)
        return array

    monkeypatch.setattr(np, "empty", find_used)
    with Engine(rules="rdfs", window=Window(100, 100)) as engine:
        query = engine.register("SELECT ?x { ?x <u:p> ?y }")
        few = [(number + 1, number, "<u:p>", number) for number in range(20)]
        engine.push([*few, *((200, number, "<u:p>", number) for number in range(80))])
        assert [len(result(query)) for _ in engine.each_slide(400)] == [20, 80, 0, 0]
