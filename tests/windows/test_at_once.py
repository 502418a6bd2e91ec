"""Slides and pushes in one call, mixed with those in several: against the oracle, and in parity."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st
from tests.reason.drawing import rule_sets
from tests.windows.test_against_oracle import (
    QUERIES,
    STREAMS,
    P,
    Q,
    result,
    shapes,
    to_window,
    triples,
)
from tests.windows.two_ways import at_once, describe, few, hinder

from triegs import Engine, Window
from triegs.jit.jit import COMPILED
from triegs.maintain.at_once import IMPOSSIBLE, MOST_AT_ONCE
from triegs.maintain.kernels.slides import NEEDS_LABELS
from triegs.options import ModeName
from triegs.sparql.window import Kind
from triegs.testing import oracle
from triegs.testing.strategies import node
from triegs.testing.window_oracle import Event, Shape, WindowOracle
from triegs.windows import log
from triegs.windows.few_events import FewEvents
from triegs.windows.settings import EventTime

LOG_WORDS = 1 << 12
R = "<http://example.org/rare>"
TEXTS = [*QUERIES, f"SELECT ?x ?y {{ ?x {R} ?y . ?x ?p ?y }}"]
FILTERED = f"SELECT ?x ?y {{ ?x {P} ?y FILTER(CONTAINS(STR(?x), '1') || ?x = ?y) }}"
modes = st.sampled_from(["multigraph", "rdf"])
rare_triples = st.one_of(
    triples, triples, st.tuples(st.integers(0, 2).map(node), st.just(R), st.just(node(1)))
)


def ignore_time(engine: Engine) -> Engine:
    """Let an engine expect that a call is short, however slow the machine is."""
    engine._core.pace.note = lambda ticks, count: None  # type: ignore[method-assign]
    return engine


def as_rows(events: list[Event], is_table: bool) -> Any:
    """Tuples, as short as the events allow, or a table."""
    rows = [(e.time, *e.triple, e.sign, e.id) for e in events]
    if is_table and rows:
        names = ["time", "subject", "predicate", "object", "op", "id"]
        return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    return [row[:4] if row[4:] == ("+", None) else row for row in rows]


@st.composite
def lives(draw: st.DrawFn) -> list[tuple]:
    """Pushes and advances; ids and deletions begin at once, late, or never."""
    begins = draw(st.sampled_from([99, 99, 0, 0, 3]))
    script: list[tuple] = []
    now = draw(st.sampled_from([0, -1_000_000, 1_760_000_000_123]))
    for number in range(draw(st.integers(3, 10))):
        is_wild = number >= begins
        now += draw(st.sampled_from([0, 1, 2, 3, 5, 5, 12]))
        back = draw(st.sampled_from([0, 0, 0, 4]))
        times = [now - draw(st.integers(0, back)) for _ in range(draw(st.sampled_from([1, 1, 3])))]
        events = [
            Event(
                time, draw(st.sampled_from("++-")) if is_wild else "+", draw(rare_triples),
                draw(st.sampled_from([None, None, "a", "b"])) if is_wild else None,
            )
            for time in (times if back else sorted(times))
        ]  # fmt: skip
        script.append(("push", draw(st.sampled_from(STREAMS)), events, draw(st.booleans())))
        more = draw(st.sampled_from(["", "", "", "open", "close", "fault", "refuse", "static"]))
        if more:
            script.append((more, draw(st.integers(0, 99)), draw(rare_triples)))
        script.append(("advance", now - draw(st.sampled_from([0, 0, 0, 1, 3]))))
    return [*script, ("close stream",)]


def qualifies(due: Any) -> bool:
    """Whether a slide can be made in one call, if nothing goes wrong."""
    if len(due.cursors) > 1:
        return False
    ((stream, cursors),) = due.cursors.items()
    edges = {cursor.edge(due.time) for cursor in cursors}
    if stream.is_judged and (len(edges) > 1 or any(each.is_by_event for each in stream.cursors)):
        return False
    return bool(stream.pending.is_queued(max(edges)))


class Life:
    """An engine beside the oracle: each published epoch is compared for all open queries."""

    def __init__(self, drawn: list[Shape], texts: list[str], mode: ModeName) -> None:
        self.drawn, self.mode = drawn, mode
        event_time = EventTime(late="quarantine", max_ahead=1_000)
        self.engine = ignore_time(Engine(mode, event_time=event_time))
        self.expected = WindowOracle(drawn, 0, 1_000)
        #: By number of the shape, a query and its text; the first ones stay.
        self.open = [
            (number, text, self.engine.register(text, window=to_window(shape)))
            for number, (shape, text) in enumerate(zip(drawn, texts, strict=True))
        ]
        self.seen: list[tuple[int, list[Any]]] = []
        self.static: Counter[oracle.Triple] = Counter()
        self.has_fault = False
        publisher = self.engine._windows.publisher
        self._publish = publisher.publish
        publisher.publish = self._look  # type: ignore[method-assign]

    def _look(self, due: Any) -> Any:
        """Publish, and see that a slide that qualifies was made in one call."""
        is_due = not self.has_fault and qualifies(due)
        before = at_once(self.engine)
        published = self._publish(due)
        assert not is_due or at_once(self.engine) == before + 1
        if self.has_fault:
            self.engine._core._log = np.zeros(LOG_WORDS, np.int64)
            self.has_fault = False
        self.seen.append((due.time, [result(query) for _, _, query in self.open]))
        return published

    def push(self, stream: str | None, events: list[Event], is_table: bool) -> None:
        if stream not in self.expected.flows:
            return
        wanted = self.expected.push(events, stream)
        pushed = self.engine.push(as_rows(events, is_table), stream)
        assert [place for place, _ in pushed.refused] == wanted

    def change(self, what: str, number: int, triple: oracle.Triple) -> None:
        engine = self.engine
        if what == "open":
            shape = number % len(self.drawn)
            text = TEXTS[number % len(TEXTS)]
            window = to_window(self.drawn[shape])
            self.open.append((shape, text, engine.register(text, window=window)))
        elif what == "close" and len(self.open) > len(self.drawn):
            self.open.pop()[2].close()
        elif what == "static":
            engine.apply([("+", *triple)])
            self.static[triple] += 1
        elif what == "fault":  # the next epoch fills the log and is aborted
            engine._core._log = np.zeros(2, np.int64)
            self.has_fault = True

    def advance(self, to: int | None) -> None:
        self.seen.clear()
        if to is None:
            published, moments = self.engine.close_stream(), self.expected.close()
        else:
            published, moments = self.engine.advance(to), self.expected.advance(to)
        assert [p.time for p in published] == [m.time for m in moments]
        refused = [[place for place, _ in p.refused] for p in published]
        assert refused == [m.refused for m in moments]
        for (time, answers), moment in zip(self.seen, moments, strict=True):
            for answer, (number, text, _) in zip(answers, self.open, strict=True):
                question = oracle.read_query(text)
                counts = moment.held[number] + self.static
                assert answer == oracle.answers(question, counts, self.mode), (time, text, moment)

    def end(self) -> None:
        engine = self.engine
        engine._core.views.check()
        engine._dictionary.check()
        figures = engine.metrics()["windows"]
        assert (figures["late"], figures["repeated"]) == (
            self.expected.late,
            self.expected.repeated,
        )
        for triple, count in self.static.items():
            engine.apply([("-", *triple)] * count)
        for _, _, query in self.open:
            query.close()
        terms = engine.metrics()["terms"]
        assert (terms["live"], terms["limbo"]) == (0, 0)
        assert engine._windows.identities.metrics().live == 0


@given(st.lists(shapes(), min_size=1, max_size=3, unique=True), lives(), modes, st.data())
def test_every_epoch_equals_the_oracle(drawn, script, mode, data):
    life = Life(drawn, [data.draw(st.sampled_from(TEXTS)) for _ in drawn], mode)
    for step in script:
        if step[0] == "push":
            life.push(*step[1:])
        elif step[0] == "advance":
            life.advance(step[1])
        elif step[0] == "close stream":
            life.advance(None)
        else:
            life.change(*step)
    note(f"slides at once: {min(3, at_once(life.engine))}, pushes: {min(3, few(life.engine))}")
    life.end()


@given(
    st.lists(shapes(), min_size=1, max_size=3), st.lists(shapes(), min_size=1, max_size=3),
    lives(), st.none() | rule_sets(), modes, st.data(),
)  # fmt: skip
def test_both_ways_agree(drawn, late, script, rules, mode, data):
    """What the oracle cannot follow: windows that begin late, and slides without room."""
    engines = [Engine(mode, rules=rules), hinder(Engine(mode, rules=rules))]
    texts = [data.draw(st.sampled_from([*TEXTS, FILTERED])) for _ in [*drawn, *late]]
    windows = [to_window(shape) for shape in [*drawn, *late]]
    queries: list[tuple[Any, Any]] = []
    refusing = [0]

    def register() -> None:
        number = len(queries)
        if number < len(windows):
            both = [e.register(texts[number], window=windows[number]) for e in engines]
            queries.append((both[0], both[1]))

    for _ in drawn:
        register()
    for engine in engines:
        refuse_when_told(engine, refusing)
    held: list[tuple[Any, Any]] = []
    for step in script:
        outcomes: list[Any] = []
        if step[0] == "open":
            register()
        if step[0] == "close" and len(queries) > 1:
            for query in queries.pop(step[1] % len(queries)):
                query.close()
            windows.pop(), texts.pop()
        if step[0] == "close" and held:
            for snapshot in held.pop(0):
                snapshot.close()
        for engine in engines:
            refusing[0] = 2 if step[0] == "refuse" else 0
            if step[0] == "push" and step[1] in engine._windows.streams:
                outcomes.append(engine.push(as_rows(*step[2:]), step[1]))
            elif step[0] == "advance":
                outcomes.append(engine.advance(step[1]))
            elif step[0] == "refuse":
                outcomes.append(engine.advance())
            elif step[0] == "static":
                outcomes.append(engine.apply([("+", *step[2])]))
            elif step[0] == "close stream":
                outcomes.append(engine.close_stream())
            elif step[0] == "fault":
                engine._core._log = np.zeros(2, np.int64)
        assert not outcomes or outcomes[0] == outcomes[1]
        for one, other in queries:
            assert result(one) == result(other)
        if step[0] == "static" and queries:
            held.append(tuple(query.snapshot() for query in queries[0]))
    for pair in held:
        read = [{tuple(a): a.multiplicity for a in snapshot} for snapshot in pair]
        assert read[0] == read[1]
        for snapshot in pair:
            snapshot.close()
    figures = [engine.metrics() for engine in engines]
    for name in ("late", "ahead", "refused", "repeated", "in_gaps", "pending", "retained"):
        assert figures[0]["windows"][name] == figures[1]["windows"][name]
    assert describe(engines[0]) == describe(engines[1])
    for engine in engines:
        engine._core.views.check()
        engine._dictionary.check()
    for pair in queries:
        for query in pair:
            query.close()
    lives = [engine.metrics()["terms"]["live"] for engine in engines]
    assert lives[0] == lives[1]
    assert at_once(engines[1]) == few(engines[1]) == 0


def refuse_when_told(engine: Engine, times: list[int]) -> None:
    """Have no room for insertions while told so."""
    core: Any = engine._core
    apply, slide = core.apply, core.slide_at_once

    def apply_or_refuse(rows: Any, *args: Any, **more: Any) -> Any:
        if times[0] and (rows.reshape(-1)[::4] > 0).any():
            from triegs.errors import MemoryLimitReached

            raise MemoryLimitReached("told so")
        return apply(rows, *args, **more)

    def slide_or_not(words: Any) -> Any:
        return (IMPOSSIBLE, core.store.newest) if times[0] else slide(words)

    core.apply, core.slide_at_once = apply_or_refuse, slide_or_not


WINDOWS = [
    Window(10, slide=5), Window(10), Window(7, slide=2, bounds="[)"), Window(3, slide=9),
    Window.landmark(5), Window.now(), Window.now(4), Window.triples(3),
]  # fmt: skip


@pytest.mark.parametrize("rules", [None, "rdfs"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_common_windows_slide_at_once(window, rules):
    """Every slide and every push, of one event or of several."""
    engine = Engine(rules=rules)
    query = engine.register(f"SELECT * {{ ?x {P} ?y . ?y {P} ?z }}", window=window)
    pushes = slides = 0
    for now in range(1, 60, 2):
        engine.push([(now, 1, P, 2)])
        engine.push([(now, 2, P, 3 + n) for n in range(now % 3)] or [(now, 2, P, 3)])
        slides += len(engine.advance(now))
        pushes += 2
    assert (at_once(engine), few(engine)) == (slides, pushes - 2)  # a stream begins another way
    query.close()


BY_TIME = [window for window in WINDOWS if window.kind is not Kind.TRIPLES]


@pytest.mark.parametrize(
    "windows",
    [*([each] for each in BY_TIME), [each for each in BY_TIME if each.shift == 0]],
    ids=str,
)
@pytest.mark.parametrize("rules", [None, "rdfs"])
def test_streams_with_ids_and_deletions_slide_at_once(windows, rules, monkeypatch):
    """Events that repeat others, delete one by its triple or by its id, or delete what is not
    there, under one window or several that slide at different times. Slots are used again.
    """
    monkeypatch.setattr(log, "SMALLEST", 16)
    engine, other = Engine(rules=rules), hinder(Engine(rules=rules))
    queries = [
        [each.register(f"SELECT * {{ ?x {P} ?y . ?y ?p ?z }}", window=window) for window in windows]
        for each in (engine, other)
    ]
    slides = 0
    for now in range(1, 300, 3):
        events = [
            (now, now % 7, P, now % 5, "+", f"i{now}"), (now, now % 7, P, now % 5, "+", f"i{now}"),
            (now, 2, P, now % 5, "+", f"i{now - 3}"), (now, now % 4, P, now % 3),
            (now + 1, (now - 5) % 4, P, (now - 5) % 3, "-", None),
            (now + 1, (now - 6) % 7, P, (now - 6) % 5, "-", f"i{now - 6}"),
            (now + 1, 9, P, 9, "-", None), (now + 2, 9, P, 9, "-", "never"),
        ]  # fmt: skip
        assert engine.push(events) == other.push(events)
        published = engine.advance(now + 2)
        assert published == other.advance(now + 2)
        assert describe(engine) == describe(other)
        for ours, theirs in zip(*queries, strict=True):
            assert result(ours) == result(theirs)
        slides += len(published)
    # Before a slide for which the ring has to grow.
    assert slides - 5 < at_once(engine) <= slides
    assert few(engine) > 90
    engine.push([(9_000, 1, P, 1)])
    engine.advance(10_000)
    if all(each.kind is not Kind.LANDMARK for each in windows):
        assert not engine._windows.streams[None].log.has_dead
        assert engine._windows.identities.metrics().live == 0
    engine._dictionary.check()
    engine._windows.identities.check()


def test_several_windows_slide_at_once():
    engine = Engine()
    text = f"SELECT * {{ ?x {P} ?y }}"
    queries = [engine.register(text, window=window) for window in WINDOWS]
    slides = 0
    for now in range(1, 60, 2):
        engine.push([(now, now, P, now)] * 2)
        slides += len(engine.advance(now))
    assert at_once(engine) == slides > 100
    assert [len(result(query)) for query in queries[:2]] == [5, 5]


@pytest.mark.parametrize("count", [1, 100, MOST_AT_ONCE, MOST_AT_ONCE + 1])
def test_slides_of_any_size(count):
    """Those that take more than one call can are made in several."""
    if count > 100 and not COMPILED:
        pytest.skip("large")
    engine, other = ignore_time(Engine()), hinder(Engine())
    text = f"SELECT * {{ ?x {P} ?y . ?y {P} ?x }}"
    queries = [each.register(text, window=Window(20, slide=10)) for each in (engine, other)]
    for now in range(10, 80, 10):
        rows = [(now, n % 50, P, (7 * n + now) % 50) for n in range(count)]
        for each in (engine, other):
            each.push(rows)
            each.advance(now)
        assert result(queries[0]) == result(queries[1])
    assert (at_once(engine) == 7) == (2 * count <= MOST_AT_ONCE)
    engine._core.views.check()


def test_new_predicates_get_labels_in_between():
    """Events of predicates that no query names come and go, each with a label of its own."""
    engine = Engine()
    query = engine.register("SELECT ?p { ?x ?p ?y }", window=Window(10, slide=5))
    needed = 0
    slide_at_once = engine._core.slide_at_once

    def count(slide: Any) -> Any:
        nonlocal needed
        found = slide_at_once(slide)
        needed += found[0] == NEEDS_LABELS
        return found

    engine._core.slide_at_once = count  # type: ignore[method-assign]
    for now in range(5, 100, 5):
        engine.push([(now, 1, f"<u:{now + n}>", 2) for n in range(2)])
        engine.advance(now)
        recent = [now - 5, now - 4, now, now + 1] if now > 5 else [5, 6]
        assert sorted(result(query)) == sorted((f"<u:{n}>",) for n in recent)
    assert at_once(engine) == needed == 19
    query.close()
    assert engine.metrics()["terms"]["live"] == 0


@pytest.mark.parametrize(("rules", "fails"), [(None, 2), ("rdfs", 1)])
def test_labels_are_freed_if_a_slide_raises(rules, fails):
    engine = Engine(rules=rules)
    before = engine.metrics()["terms"]["live"]
    query = engine.register("SELECT ?p { ?x ?p ?y }", window=Window(10, slide=5))
    engine.push([(1, 1, "<u:a>", 2)])
    calls = 0
    slide_at_once = engine._core.slide_at_once

    def fail(slide: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == fails:
            raise OSError("stopped")
        return slide_at_once(slide)

    engine._core.slide_at_once = fail  # type: ignore[method-assign]
    live = engine.metrics()["terms"]["live"]
    with pytest.raises(OSError, match="stopped"):
        engine.advance(5)
    assert engine.metrics()["terms"]["live"] == live
    assert [p.time for p in engine.advance(5)] == [5]
    assert result(query) == {("<u:a>",): 1}
    query.close()
    assert engine.metrics()["terms"]["live"] == before


def test_a_count_that_overflows_stalls_only_its_query():
    engine, other = Engine(), hinder(Engine())
    many = f"SELECT ?k {{ ?k {Q} ?x . {' . '.join(f'?x {P} ?v{n}' for n in range(10))} }}"
    plain = f"SELECT * {{ ?x {P} ?y }}"
    window = Window(10, slide=5)
    queries = [
        [e.register(many, window=window, root="k"), e.register(plain, window=window)]
        for e in (engine, other)
    ]
    before = 0
    for now in range(5, 80, 5):
        count = 100 if now == 20 else 1
        for each in (engine, other):
            each.push([(now, node(0), P, n) for n in range(count)])
            each.push([(now, node(1), Q, node(0))])
            each.advance(now)
        assert [result(q) for q in queries[0]] == [result(q) for q in queries[1]]
        is_stalled = engine.metrics()["stalled"] != []
        assert is_stalled == (other.metrics()["stalled"] != [])
        assert is_stalled == (20 <= now < 30)
        assert (at_once(engine) > before) == (not is_stalled and now != 30)
        before = at_once(engine)


def test_a_slide_without_room_refuses_its_events():
    """At the memory limit: the slide goes on in several calls, and later ones are at once again."""
    engine = Engine(memory_limit=1_000_000, window=Window(1_000, slide=10))
    query = engine.register(f"SELECT * {{ ?x {P} ?y . ?y {P} ?z }}")
    engine.push([(1, n, P, n + 1) for n in range(100)])
    engine.advance(10)
    before, expected = at_once(engine), result(query)
    engine.push([(11 + n // 9_000, 7 * n, P, 7 * n + 1) for n in range(40_000)])
    (published,) = engine.advance(20)
    assert [place for place, _ in published.refused] == list(range(100, 40_100))
    assert (result(query), at_once(engine)) == (expected, before)
    engine.push([(21, 500, P, 501), (22, 501, P, 502)])
    assert [p.refused for p in engine.advance(30)] == [()]
    assert len(result(query)) == len(expected) + 1
    assert at_once(engine) == before + 1
    engine.advance(1_040)  # past all events, also the refused ones, which the log has meanwhile
    assert engine.metrics()["windows"]["retained"] == 0
    engine._core.views.check()


def test_a_reader_keeps_its_epoch():
    """Held snapshots, a subscription and retained epochs, with terms that come and go."""
    engine = Engine(retain_epochs=3)
    query = engine.register(f"SELECT * {{ ?x {P} ?y }}", window=Window(3, slide=1))
    held: list[tuple[Any, dict]] = []
    with query.subscribe() as subscription:
        for now in range(1, 200):
            engine.push([(now, f"<u:{now}>", P, now)])
            engine.advance(now)
            held.append((query.snapshot(), result(query)))
            if len(held) > 5:
                snapshot, expected = held.pop(0)
                assert {tuple(a): a.multiplicity for a in snapshot} == expected
                snapshot.close()
            step = subscription.poll()
            assert step is not None
            engine._dictionary.check()
    assert at_once(engine) == 199
    for snapshot, expected in held:
        assert {tuple(a): a.multiplicity for a in snapshot} == expected
        snapshot.close()


def test_what_a_push_of_few_does_not_take():
    """It is refused, reported or taken in the other way; nothing is taken twice."""
    pushes: list[list[Any]] = [
        [(1, 1, P, 2)], [(5, 1, P, 2), (4, 1, P, 2)], [(3, 1, P, 2)], [],
        [(True, 1, P, 2)], [("7", 1, P, 2)], [(8, 1, P, 2, "+")], [(8, 1, P, 2, "-")],
        [(9, 1, P, 2, "+", "id")], [(9, "no term", P, 2)], [(9, 1, P, None)], [(9, 1, P)],
        ["9abc"], [(10**15, 1, P, 2)], [(10**9, 1, P, 2)], [[10, 1, P, 2]], [(10, 1, Q, 1 << 70)],
        [(10, 1, P, 2)] * 65, [{10, 1, P, 2}],
    ]  # fmt: skip
    engine, other = Engine(), hinder(Engine())
    for each in (engine, other):
        each.register(f"SELECT * {{ ?x {P} ?y }}", window=Window(10, slide=5))
        each.push([(0, 1, P, 2)] * 3)
    for rows in pushes:
        assert engine.push(rows) == other.push(rows)
    assert engine.advance(12) == other.advance(12)
    for rows in ([(12, 1, P, 2)], [(13, 1, P, 2)]):
        assert engine.push(rows) == other.push(rows)
    assert few(engine) == 6
    assert engine.metrics()["windows"] == other.metrics()["windows"]
    assert isinstance(engine._windows._few, FewEvents)


def test_an_event_that_comes_long_before_others():
    """It is not in the queue, so the slide that takes it is made in several calls."""
    engine, other = ignore_time(Engine()), hinder(Engine())
    queries = [
        each.register(f"SELECT * {{ ?x {P} ?y }}", window=Window(20, slide=10))
        for each in (engine, other)
    ]
    for each in (engine, other):
        each.push([(1, 1, P, 1), (2, 2, P, 2), (3, 3, P, 3)])
        each.push([(11 + n // 20, n, P, n) for n in range(400)])
        each.push([(12, 1_000, P, 1)])
    for now, made in ((10, 1), (20, 1), (30, 2), (40, 3), (50, 4)):
        assert engine.advance(now) == other.advance(now)
        assert result(queries[0]) == result(queries[1])
        assert at_once(engine) == made
        assert describe(engine) == describe(other)


def test_each_event_of_one_time_is_a_slide():
    """Between the epochs of one time, that time is not judged yet."""
    engine, other = Engine(), hinder(Engine())
    for each in (engine, other):
        each.register(f"SELECT * {{ ?x {P} ?y }}", window=Window.triples(2))
        each.register(f"SELECT * {{ ?x {P} ?y }}", window=Window.now())
        each.push([(5, n, P, n) for n in range(3)])
        slides = each.each_slide(5)
        next(slides), next(slides)
        slides.close()  # type: ignore[attr-defined]
    assert at_once(engine) == 2
    assert describe(engine) == describe(other)
    assert engine.advance(5) == other.advance(5)
    assert describe(engine) == describe(other)
