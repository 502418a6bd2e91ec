"""RSTREAM, ISTREAM and DSTREAM, and when they report."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine, StateError, Window, WindowError

P = "<http://ex/p>"
TEXT = f"SELECT ?x {{ ?x {P} ?y }}"


def collect(query, *operator, **options):
    found = []

    def take(emission):
        answers = emission.answers.to_pylist()
        found.append((emission.time, {(row["x"]): row["multiplicity"] for row in answers}))

    query.emit(take, *operator, terms="python", **options)
    return found


def run(engine):
    engine.push([(1, 1, P, 1), (2, 1, P, 2), (7, 2, P, 1)])
    engine.advance(to=25)


def test_operators():
    engine = Engine(window=Window(10, slide=5))
    query = engine.register(TEXT)
    found = {name: collect(query, name) for name in ("RSTREAM", "istream", "DSTREAM")}
    run(engine)
    times = [5, 10, 15, 20, 25]
    expected = {
        "RSTREAM": [{1: 2}, {1: 2, 2: 1}, {2: 1}, {}, {}],
        "istream": [{1: 2}, {2: 1}, {}, {}, {}],
        "DSTREAM": [{}, {}, {1: 2}, {2: 1}, {}],
    }
    assert found == {k: list(zip(times, v, strict=True)) for k, v in expected.items()}


def test_policies():
    engine = Engine(window=Window(10, slide=5))
    query = engine.register(TEXT)
    changed = collect(query, report="change")
    full = collect(query, report="non-empty")
    seldom = collect(query, "ISTREAM", report="periodic", every=10)
    run(engine)
    assert [time for time, _ in changed] == [5, 10, 15, 20]
    assert [time for time, _ in full] == [5, 10, 15]
    assert seldom == [(5, {1: 2}), (10, {2: 1}), (20, {})]


def test_the_text_names_the_operator():
    engine = Engine(prefixes={"": "http://ex/"})
    query = engine.register(
        "REGISTER DSTREAM :out AS SELECT ?x FROM NAMED WINDOW :w ON STREAM :s [RANGE 10 STEP 5] "
        "WHERE { WINDOW :w { ?x :p ?y } }"
    )
    found = collect(query, report="non-empty")
    engine.push([(1, 1, P, 1)], "http://ex/s")
    engine.advance(to=30)
    assert found == [(15, {1: 1})]


def test_a_query_reports_on_its_own_slides_only():
    engine = Engine()
    slow = engine.register(TEXT, window=Window(10))
    engine.register(TEXT, window=Window(10, slide=1))
    found = collect(slow)
    run(engine)
    assert [time for time, _ in found] == [10, 20]
    slow.close()
    engine.advance(to=50)
    assert len(found) == 2
    assert engine.metrics()["pins"] == []


def test_bad_options():
    engine = Engine()
    with pytest.raises(WindowError, match="subscribe"):
        engine.register(TEXT).emit(print)
    query = engine.register(TEXT, window=Window(10))
    for options in ({"operator": "STREAM"}, {"operator": 5}, {"report": "never"},
                    {"report": "periodic"}, {"every": 5}):  # fmt: skip
        with pytest.raises(WindowError):
            query.emit(print, **options)


def test_the_function_of_an_emitter_may_not_update_the_engine():
    engine = Engine(window=Window(10, slide=5))
    query = engine.register(TEXT)
    query.emit(lambda emission: engine.push([(emission.time + 1, 1, P, 3)]))
    with pytest.raises(StateError, match="an emitter's function has not finished"):
        run(engine)
    query.close()


def test_a_query_with_a_limit_emits_answers_and_no_changes():
    """It is refused at once, not at each slide."""
    engine = Engine(window=Window(10, slide=5))
    query = engine.register(f"{TEXT} ORDER BY ?x LIMIT 1")
    for operator, report in [("ISTREAM", "slide"), ("DSTREAM", "non-empty"), ("RSTREAM", "change")]:
        with pytest.raises(StateError, match="LIMIT"):
            collect(query, operator, report=report)
    found = collect(query, report="non-empty")
    run(engine)
    assert found == [(5, {1: 1}), (10, {1: 1}), (15, {2: 1})]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 2)), max_size=30),
    st.integers(1, 15), st.integers(1, 8),
)  # fmt: skip
def test_insertions_less_deletions_are_the_answers(events, width, slide):
    engine = Engine(window=Window(width, slide=slide))
    query = engine.register(TEXT)
    found = [collect(query, name) for name in ("RSTREAM", "ISTREAM", "DSTREAM")]
    engine.push([(time, x, P, y) for time, x, y in events])
    engine.advance(to=60)
    total: Counter[int] = Counter()
    for (_, all_of_them), (_, new), (_, gone) in zip(*found, strict=True):
        assert not new.keys() & gone.keys()
        total.update(new)
        total.subtract(gone)
        assert +total == all_of_them
