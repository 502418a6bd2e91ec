"""Aggregates over sliding windows equal the oracle at every published time."""

from __future__ import annotations

import os
from random import Random
from typing import get_args

import pytest
from tests.aggregates.drawing import HUGE, Vocabulary, draw_query
from tests.aggregates.lives import check_engine
from tests.stress.standing import read

from triegs.engine import Engine
from triegs.options import ModeName
from triegs.sparql.window import Window
from triegs.testing import oracle
from triegs.testing.window_oracle import Event, Shape, WindowOracle
from triegs.windows.settings import EventTime

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
SHAPES = [Shape(width=10, slide=5), Shape(width=7, slide=7), Shape(slide=5), Shape(last=3)]


def to_window(shape: Shape) -> Window:
    if shape.last is not None:
        return Window.triples(shape.last)
    assert shape.slide is not None
    return Window(shape.width, shape.slide) if shape.width else Window.landmark(shape.slide)


# 70: an index by value of an atom with a constant; 122: values of a DISTINCT that never change.
@pytest.mark.parametrize("seed", range(500) if SOAK else [*range(20), 70, 122])
def test_windows_against_the_oracle(seed):
    random = Random(seed)
    words = Vocabulary(random, random.sample(["integers", "decimals", "doubles", "texts"], 2))
    mode: ModeName = random.choice(get_args(ModeName))
    shapes = random.sample(SHAPES, 2)
    engine = Engine(mode, event_time=EventTime(0))
    expected = WindowOracle(shapes)
    texts = [draw_query(random) for _ in shapes]
    queries = [
        engine.register(text, window=to_window(shape))
        for text, shape in zip(texts, shapes, strict=True)
    ]
    questions = [oracle.read_query(text) for text in texts]
    live: list[oracle.Triple] = []
    for now in range(2, 60, 2):
        events = []
        for _ in range(random.randint(0, 4)):
            if live and random.random() < 0.2:
                events.append(Event(now - random.randint(0, 1), "-", random.choice(live)))
            else:
                live.append(words.draw_triple())
                events.append(Event(now - random.randint(0, 1), "+", live[-1]))
        rows = [(event.time, *event.triple, event.sign, None) for event in events]
        pushed = engine.push(rows)
        assert [place for place, _ in pushed.refused] == expected.push(events)
        # One tick at a time, so that no published epoch is skipped.
        for tick in (now - 1, now):
            published, moments = engine.advance(tick), expected.advance(tick)
            assert [each.time for each in published] == [moment.time for moment in moments]
            if not moments:
                continue
            for query, question, counts in zip(queries, questions, moments[-1].held, strict=True):
                with query.snapshot() as snapshot:
                    found = dict(read(snapshot))
                assert found == oracle.answers(question, counts, mode), question
    check_engine(engine)
    for query in queries:
        assert "Program" in query.explain()


def test_an_empty_window_has_the_row_of_no_solutions():
    engine = Engine(event_time=EventTime(0))
    texts = [
        "SELECT (SUM(?v) AS ?s) (MIN(?v) AS ?m) (COUNT(*) AS ?n) { ?x <u:p> ?v }",
        "SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?v } GROUP BY ?x",
    ]
    total, grouped = (engine.register(text, window=Window(10, 5)) for text in texts)
    engine.push([(3, "<u:a>", "<u:p>", HUGE[0], "+", None)])
    seen = []
    for tick in range(5, 30, 5):
        engine.advance(tick)
        with total.snapshot() as rows, grouped.snapshot() as other:
            seen.append((dict(read(rows)), dict(read(other))))
    zero = '"0"^^<http://www.w3.org/2001/XMLSchema#integer>'
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    there = {(HUGE[0], HUGE[0], one): 1}, {("<u:a>", HUGE[0]): 1}
    gone = {(zero, None, zero): 1}
    assert seen == [there, there, (gone, {}), (gone, {}), (gone, {})]
