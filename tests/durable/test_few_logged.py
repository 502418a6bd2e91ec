"""Single updates and small pushes take their shortest paths with a log, too: with the results of an
engine without one, and the same state after it was opened again.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triegs import Engine, Window
from triegs.errors import TriegsError
from triegs.windows.settings import EventTime, Late

QUERY = "SELECT ?x ?y ?z { ?x <a:p> ?y . ?y <a:p> ?z }"
NODES = st.integers(0, 4) | st.sampled_from(["<a:a>", "<a:b>", "_:b", '"é"@en', "no term"])
SIGNS = st.sampled_from(["+", "+", "+", "-", "?"])
UPDATES = st.tuples(SIGNS, NODES, st.just("<a:p>"), NODES)
TIMES = st.integers(0, 30) | st.sampled_from([10**15, 5])
EVENTS = st.lists(
    st.tuples(TIMES, NODES, st.just("<a:p>"), NODES)
    | st.tuples(TIMES, NODES, st.just("<a:p>"), NODES, st.sampled_from(["+", "-"])),
    max_size=4,
)
MOVES = st.integers(0, 40)


def look(engine: Engine) -> Any:
    with engine.queries["all"].snapshot() as snapshot:
        metrics = engine.metrics()
        counted = metrics["updates"], metrics["refused"]
        return sorted(map(str, snapshot)), engine.epoch, counted, metrics.get("windows")


def attempt(call: Any, *given: Any) -> str:
    try:
        return str(call(*given))
    except TriegsError as problem:
        return f"{type(problem).__name__}: {problem}"


@pytest.mark.property
@given(st.lists(UPDATES, max_size=20), st.integers(0, 20))
@example([("+", 1, "<a:p>", 2), ("-", 1, "<a:p>", 2), ("-", 1, "<a:p>", 2)] * 2, 3)
def test_single_updates(updates, until):
    with TemporaryDirectory() as home, Engine() as plain:
        plain.register(QUERY, "all")
        done = 0
        while done < len(updates):
            with Engine.open(home, sync="never") as engine:
                if "all" not in engine.queries:
                    engine.register(QUERY, "all")
                assert look(engine) == look(plain)
                end = until if done < until < len(updates) else len(updates)
                for update in updates[done:end]:
                    assert attempt(engine.apply, [update]) == attempt(plain.apply, [update])
                    assert look(engine) == look(plain)
                done = end
        with Engine.open(home) as engine:
            assert not updates or look(engine) == look(plain)


@pytest.mark.property
@given(st.lists(EVENTS | MOVES, max_size=12), st.sampled_from(list(Late)))
@example([[(1, 1, "<a:p>", 2)], [(2, 2, "<a:p>", 3)], 5, [(3, 3, "<a:p>", 3)], 9], Late.DROP)
@example([[(1, 1, "<a:p>", 2)], [(10**15, 2, "<a:p>", 3)], [(2, 2, "<a:p>", 3)], 9], Late.DROP)
def test_small_pushes(calls, late):
    options: Any = {"window": Window(10, slide=2), "event_time": EventTime(late=late)}
    with TemporaryDirectory() as home, Engine(**options) as plain:
        plain.register(QUERY, "all")
        with Engine.open(home, sync="never", **options) as engine:
            engine.register(QUERY, "all")
            for call in calls:
                name = "push" if type(call) is list else "advance"
                found = attempt(getattr(engine, name), call)
                assert found == attempt(getattr(plain, name), call)
                assert look(engine) == look(plain)
        with Engine.open(home) as engine:
            assert look(engine) == look(plain)


def test_the_shortest_paths_are_taken(tmp_path):
    with Engine.open(tmp_path / "updates") as engine:
        engine.register(QUERY, "all")
        engine.apply([("+", 1, "<a:p>", 2)])
        journal, calls = engine._internals.journal, list[Any]()
        assert journal is not None
        before = journal.direct.count
        core: Any = engine._core
        make = core.apply_one

        def note(row: Any) -> Any:
            calls.append(make(row))
            return calls[-1]

        core.apply_one = note
        assert engine.apply([("+", 1, "<a:p>", 2)]).epoch == engine.epoch
        assert (len(calls), journal.direct.count - before) == (1, 1)
        core.apply_one = lambda _: None  # it declines after the record was written
        assert engine.apply([("-", 1, "<a:p>", 2)]).refused == ()
        assert engine.apply([("-", 9, "<a:p>", 9)]).refused[0].row == 0
        assert (engine.metrics()["updates"], engine.metrics()["refused"]) == (3, 1)
        seen = look(engine)
    with Engine.open(tmp_path / "updates") as engine:
        assert look(engine) == seen
    with Engine.open(tmp_path / "events", window=Window(10)) as engine:
        engine.register(QUERY, "all")
        for time in range(3):
            engine.push([(time, 1, "<a:p>", 2)])
        journal, few = engine._internals.journal, engine._windows._few
        assert journal is not None
        written, taken = journal.direct.count, few.count
        engine.push([(3, 2, "<a:p>", 3)])
        assert (journal.direct.count - written, few.count - taken) == (1, 1)
        engine.advance(3)
        assert engine.push([(1, 2, "<a:p>", 3)]).late == 1  # declined after the record was written
        assert (journal.direct.count - written, few.count - taken) == (3, 1)
        seen = look(engine)
    with Engine.open(tmp_path / "events") as engine:
        assert look(engine) == seen
