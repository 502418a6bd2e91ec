"""Lanes with windows: every lane slides at the same times and refuses the same events."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.windows.test_against_oracle import (
    as_events,
    result,
    scripts,
    shapes,
    texts_over_windows,
    to_window,
    triples,
)

from triegs.engine import Engine
from triegs.errors import StateError, WindowError
from triegs.lanes import Lanes
from triegs.sparql.window import Window
from triegs.testing import oracle
from triegs.testing.window_oracle import WindowOracle
from triegs.windows.settings import EventTime

COUNTS = st.integers(1, 4)
FORMS = st.sampled_from(["auto", "inline", "pooled", "hybrid"])
MODES = st.sampled_from(["multigraph", "rdf"])


@given(
    st.lists(shapes(), min_size=1, max_size=3, unique=True), scripts(), st.integers(0, 4),
    st.lists(triples, max_size=3), st.tuples(COUNTS, FORMS, MODES), st.data(),
)  # fmt: skip
def test_every_slide_equals_the_oracle(drawn, script, lateness, static, options, data):
    count, form, mode = options
    event_time = EventTime(lateness, late="quarantine", max_ahead=100)
    expected = WindowOracle(drawn, lateness, 100, None)
    texts = [data.draw(texts_over_windows) for _ in drawn]
    questions = [oracle.read_query(text) for text in texts]
    with Lanes(count, mode, threads=2, schedule=form, event_time=event_time) as lanes:
        queries = [
            lanes.register(text, window=to_window(shape))
            for text, shape in zip(texts, drawn, strict=True)
        ]
        lanes.apply([("+", *triple) for triple in static])
        for step in script:
            if step[0] == "push":
                _, stream, events, is_table = step
                if stream in expected.flows:
                    pushed = lanes.push(as_events(events, is_table), stream)
                    assert [place for place, _ in pushed.refused] == expected.push(events, stream)
                continue
            if step[0] == "close":
                slides, moments = lanes.each_slide(close=True), expected.close()
            elif step[1] == "*":
                slides, moments = lanes.each_slide(step[2]), expected.advance(step[2])
            elif step[1] in expected.flows:
                slides = lanes.each_slide(step[2], step[1])
                moments = expected.advance(step[2], step[1])
            else:
                continue
            seen = []
            for slide in slides:
                with lanes.snapshot() as found:
                    assert (found.epoch, found.time) == (slide.epoch, slide.time)
                    assert all(each.epoch == slide.epoch for each in found.values())
                seen.append((slide, [result(query) for query in queries]))
            assert [slide.time for slide, _ in seen] == [moment.time for moment in moments]
            for (slide, answers), moment in zip(seen, moments, strict=True):
                assert [place for place, _ in slide.refused] == moment.refused
                for answer, question, counts, timed in zip(
                    answers, questions, moment.held, moment.timed, strict=True
                ):
                    held = counts + Counter(static)
                    assert answer == oracle.answers(question, held, mode, timed=timed)
        assert lanes.metrics()["windows"]["late"] == expected.late


@given(st.lists(shapes(), min_size=2, max_size=4, unique=True), scripts(), COUNTS, MODES, st.data())
def test_queries_that_come_and_go_leave_lanes_equal_to_one_engine(drawn, script, count, mode, data):
    """Late windows are filled from what is retained, and dropped with their last query."""
    event_time = EventTime(2, late="quarantine", max_ahead=100)
    engine = Engine(mode, event_time=event_time)
    with Lanes(count, mode, threads=2, schedule="inline", event_time=event_time) as lanes:
        both = (lanes, engine)
        pairs: list = []

        def register() -> None:
            text = data.draw(texts_over_windows)
            window = to_window(data.draw(st.sampled_from(drawn)))
            pairs.append([each.register(text, window=window) for each in both])

        register()
        for step in script:
            action = data.draw(st.sampled_from(["register", "close", "none", "none", "move"]))
            if action == "register":
                register()
            elif action == "close" and pairs:
                for query in pairs.pop(data.draw(st.integers(0, len(pairs) - 1))):
                    query.close()
            elif action == "move":
                for lane in lanes._together.lanes:
                    lane.cost = data.draw(st.floats(0, 1))
                before = lanes.epoch
                lanes.rebalance()
                for _ in range(lanes.epoch - before):
                    engine.apply([])
            outcomes: list[Any] = []
            for each in both:
                try:
                    if step[0] == "push":
                        outcomes.append(each.push(as_events(step[2], step[3]), step[1]))
                    elif step[0] == "close":
                        outcomes.append(each.close_stream())
                    else:
                        outcomes.append(each.advance(step[2], step[1]))
                except StateError as error:  # no window reads it now, or it is closed
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
            assert {lane.engine.epoch for lane in lanes._together.lanes} == {engine.epoch}
            for query, twin in pairs:
                assert result(query) == result(twin)
        while pairs:
            for query in pairs.pop():
                query.close()
        for lane in lanes._together.lanes:
            assert not lane.engine._windows.streams
            assert lane.engine.metrics()["entries"] == 0


P = "<http://ex/p>"
TEXT = f"SELECT ?x ?y {{ ?x {P} ?y }}"


def test_a_lane_without_queries_judges_too_and_a_late_query_there_is_filled():
    with Lanes(2, window=Window("10s", slide="5s")) as lanes:
        first = lanes.register(TEXT)
        lanes.push([(1_000, 1, P, 2), (2_000, 1, P, 3), (3_000, 1, P, 2, "-")])
        lanes.advance(5_000)
        late = lanes.register(TEXT)
        assert (first.lane, late.lane) == (0, 1)
        assert result(first) == result(late) != {}
        assert late.snapshot().time == 5_000


def test_an_abandoned_iteration_leaves_all_lanes_where_they_are():
    with Lanes(3, window=Window("10s", slide="5s")) as lanes:
        lanes.push([(1_000, 1, P, 2), (21_000, 1, P, 3)])
        slides: Any = lanes.each_slide(20_000)
        with closing(slides):
            assert next(slides).time == 5_000
            with pytest.raises(StateError, match="another thread"):
                lanes.apply([])
        assert {lane.engine.epoch for lane in lanes._together.lanes} == {lanes.epoch}
        assert [slide.time for slide in lanes.advance()] == [10_000, 15_000, 20_000]


def test_emitters_run_where_the_call_is_and_may_read_all_lanes():
    """Their problems come out once all slides are published, as from one engine."""
    seen = []
    with Lanes(2, threads=2, schedule="inline", window=Window("10s")) as lanes:
        queries = [lanes.register(TEXT, name=name) for name in "ab"]

        def look(emission):
            with lanes.snapshot() as found:
                seen.append((emission.time, found.epoch, {s.epoch for s in found.values()}))
            raise ValueError("planted")

        for query in queries:
            query.emit(look)
        lanes.push([(1_000, 1, P, 2), (11_000, 1, P, 2)])
        with pytest.raises(ValueError, match="planted"):
            lanes.advance(20_000)
        assert [slide.time for slide in lanes.published] == [10_000, 20_000]
    assert seen == [(10_000, 3, {3})] * 2 + [(20_000, 4, {4})] * 2


def test_misuse_is_refused_before_any_lane_is_touched():
    with Lanes(2) as lanes:
        with pytest.raises(StateError, match="there is no window"):
            lanes.advance(5)
        with pytest.raises(StateError, match="no window reads"):
            lanes.push([(1, 1, P, 2)])
        with pytest.raises(WindowError, match="must be a time"):
            lanes.advance("soon")
        assert lanes.epoch == 0
