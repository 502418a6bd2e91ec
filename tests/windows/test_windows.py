"""Windows by small examples: boundaries, lateness, identities, static data, registration."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import triegs
from triegs import Engine, EventTime, StateError, Window, WindowError

EX = "<http://ex/{}>".format
P, Q = EX("p"), EX("q")
PAIRS = f"SELECT ?x ?y {{ ?x {P} ?y }}"


def rows(query, terms="python"):
    with query.snapshot() as snapshot:
        return sorted((tuple(a), a.multiplicity) for a in snapshot.answers(terms))


def event(time, subject=1, obj=2, **more):
    return (time, subject, P, obj, more.get("op", "+"), more.get("id"))


# Bounds and times


@pytest.mark.parametrize(
    ("bounds", "inside"), [("(]", {10: [1, 5, 10], 15: [10, 11, 15]}), ("[)", {10: [0, 1, 5]})]
)
def test_bounds_are_exact(bounds, inside):
    engine = Engine()
    query = engine.register(PAIRS, window=Window(10, slide=5, bounds=bounds))
    engine.push([event(t, t) for t in (0, 1, 5, 10, 11, 15)])
    for time, subjects in inside.items():
        engine.advance(to=time)
        with query.snapshot() as snapshot:
            assert snapshot.time == time
        shown = [row[0] for row, _ in rows(query)]
        low = [s for s in (0, 1, 5, 10, 11, 15) if s in subjects or (time == 15 and s > 5)]
        assert shown == sorted(low)


def test_publication_starts_at_the_first_slide_that_can_hold_the_first_event():
    engine = Engine(window=Window(10, slide=5, start=2))
    engine.push([event(-1)])
    assert [p.time for p in engine.advance(to=8)] == [2, 7]


def test_a_jump_publishes_each_slide_and_events_in_gaps_are_counted():
    engine = Engine(window=Window("1s", slide="10s"))
    query = engine.register(PAIRS)
    engine.push([event(500, 1), event(9_500, 2), event(12_000, 3)])
    published = engine.advance(to=40_000)
    assert [p.time for p in published] == [10_000, 20_000, 30_000, 40_000]
    assert [p.epoch for p in published] == [2, 3, 4, 5]
    assert engine.metrics()["windows"]["in_gaps"] == 2
    assert rows(query) == []


def test_wall_clock_times_of_every_form():
    engine = Engine(window=Window.landmark("1h"))
    query = engine.register(PAIRS)
    moment = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    engine.push([event(moment, 1), event("2026-03-01T12:00:00.250Z", 2)])
    millis = int(moment.timestamp() * 1000)
    for place, kind in enumerate([pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.int64()]):
        times = pa.array([millis], pa.int64())
        if pa.types.is_timestamp(kind):
            times = times.cast(pa.timestamp("ms", kind.tz)).cast(kind)
        engine.push(
            pa.table({"time": times, "subject": [3 + place], "predicate": [P], "object": [2]})
        )
    published = engine.close_stream()
    assert [p.time for p in published] == [millis - millis % 3_600_000 + 3_600_000]
    assert [row[0] for row, _ in rows(query)] == [1, 2, 3, 4, 5]


def test_the_running_example_of_the_report():
    text = f"""SELECT ?x ?y ?v ?z ?w {{ ?v {EX("hasCreator")} ?x . ?z {EX("hasCreator")} ?y .
               ?v {EX("hasReply")} ?z . ?z {EX("likedBy")} ?w }}"""
    engine = Engine()
    query = engine.register(text, window=Window("10s", slide="1s"))
    tweet = [EX("tweet1"), EX("tweet2")]
    engine.push([
        (1_000, tweet[0], EX("hasReply"), tweet[1], "+", "r1"),
        (2_000, tweet[0], EX("hasCreator"), EX("Max")),
        (2_000, tweet[1], EX("hasCreator"), EX("Eva")),
        (2_000, tweet[0], EX("hasReply"), tweet[1], "+", "r2"),
        (3_000, tweet[1], EX("likedBy"), EX("Mia")),
    ])  # fmt: skip
    counts = []
    for time in (2_000, 3_000, 11_000, 12_000):
        engine.advance(to=time)
        counts.append([n for _, n in rows(query)])
    assert counts == [[], [2], [1], []]


# Late and early


def test_lateness_delays_publication_and_late_events_are_counted():
    engine = Engine(window=Window(10), event_time=EventTime(lateness=5))
    query = engine.register(PAIRS)
    engine.push([event(12, 1)])
    assert engine.advance() == []  # the watermark is 7
    assert engine.push([event(8, 2)]).accepted == 1
    pushed = engine.push([event(7, 3), event(8, 4)])
    assert (pushed.accepted, pushed.late, pushed.refused) == (1, 1, ())
    engine.push([event(16, 5)])
    assert [p.time for p in engine.advance()] == [10]
    assert [row[0] for row, _ in rows(query)] == [2, 4]
    assert engine.metrics()["windows"]["late"] == 1


def test_late_events_are_returned_on_request():
    engine = Engine(window=Window(10), event_time=EventTime(late="quarantine", max_ahead=100))
    engine.push([event(5)])
    engine.advance(to=20)
    pushed = engine.push([event(20), event(21), event(122), event(121)])
    assert [place for place, _ in pushed.refused] == [1, 3]
    assert "late" in pushed.refused[0].reason
    assert "max_ahead" in pushed.refused[1].reason
    assert pushed.accepted == 2


def test_the_slowest_stream_is_waited_for_unless_idle_or_closed():
    a, b = Window(10, stream="a"), Window(10, stream="b")
    engine = Engine(event_time=EventTime(idle_timeout=50))
    first, _ = engine.register(PAIRS, window=a), engine.register(PAIRS, window=b)
    engine.push([event(5)], "a")
    engine.push([event(8)], "b")
    assert engine.advance(30, "a") == []
    assert [p.time for p in engine.advance(12, "b")] == [10]
    assert [row[0] for row, _ in rows(first)] == [1]
    assert [p.time for p in engine.advance(62, "a")] == []
    assert [p.time for p in engine.advance(63, "a")] == [20, 30, 40, 50, 60]
    assert engine.push([event(60)], "b").late == 1  # it was idle for too long
    assert engine.push([event(64)], "b").accepted == 1
    engine.advance(64, "b")
    assert [p.time for p in engine.close_stream("a")] == []
    assert [p.time for p in engine.close_stream("b")] == [70]
    with pytest.raises(StateError, match="closed"):
        engine.push([event(99)], "b")


# Identities and deletions


def test_identities():
    engine = Engine(window=Window(10, slide=5))
    query = engine.register(PAIRS)
    engine.push([event(1, id="a"), event(2, id="a"), event(3, 7, id="a"), event(3, id=4)])
    published = engine.advance(to=5)
    assert rows(query) == [((1, 2), 2)]
    assert [place for place, _ in published[0].refused] == [2]
    assert "other content" in published[0].refused[0].reason
    assert engine.metrics()["windows"]["repeated"] == 1
    engine.push([event(11, 7, id="a"), event(12, op="-", id=4)])
    published = engine.advance(to=15)
    assert rows(query) == [((7, 2), 1)]
    assert "no live event has this id" in published[1].refused[0].reason


def test_a_deletion_takes_the_oldest_event_from_every_window():
    engine = Engine()
    wide, narrow = (engine.register(PAIRS, window=Window(width, slide=1)) for width in (100, 10))
    engine.push([event(5), event(50), event(52, op="-")])
    engine.advance(to=51)
    assert (rows(wide), rows(narrow)) == ([((1, 2), 2)], [((1, 2), 1)])
    engine.advance(to=52)
    assert (rows(wide), rows(narrow)) == ([((1, 2), 1)], [((1, 2), 1)])
    engine.push([event(53, op="-"), event(54, op="-")])
    published = engine.advance(to=54)
    assert (rows(wide), rows(narrow)) == ([], [])
    assert published[-1].refused[0].reason.startswith("no live event states this")


# Static data


def test_static_data_stays_and_is_deleted_separately():
    engine = Engine(window=Window(10))
    query = engine.register(PAIRS)
    engine.apply([("+", 1, P, 2), ("+", 1, Q, 2)])
    engine.push([event(5), event(6, 3)])
    engine.advance(to=10)
    assert rows(query) == [((1, 2), 2), ((3, 2), 1)]
    report = engine.apply([("-", 3, P, 2), ("-", 1, P, 2), ("-", 1, P, 2), ("+", 4, P, 4)])
    assert [place for place, _ in report.refused] == [0, 2]
    assert rows(query) == [((1, 2), 1), ((3, 2), 1), ((4, 4), 1)]
    with pytest.raises(triegs.InvalidUpdate):
        engine.apply([("+", 5, P, 5), ("-", 3, P, 2)], strict=True)
    engine.advance(to=20)
    assert rows(query) == [((4, 4), 1)]


# Registration


def test_a_late_query_is_filled_from_what_is_retained():
    engine = Engine(window=Window(100, slide=10))
    engine.push([event(t, t) for t in range(1, 60)])
    engine.advance(to=55)
    same = engine.register(PAIRS)
    narrow = engine.register(PAIRS, window=Window(20, slide=20))
    wider = engine.register(PAIRS, window=Window(1_000, slide=5))
    assert len(rows(same)) == 50
    assert [row[0] for row, _ in rows(narrow)] == list(range(21, 41))
    assert len(rows(wider)) == 50
    assert engine.metrics()["windows"]["retained"] == 50
    assert [p.time for p in engine.advance(to=60)] == [55, 60]
    assert [row[0] for row, _ in rows(narrow)] == list(range(41, 60))
    assert (len(rows(same)), len(rows(wider))) == (59, 59)


def test_what_only_a_closed_query_needed_is_dropped():
    engine = Engine()
    wide = engine.register(PAIRS, window=Window(1_000, slide=10))
    narrow = engine.register(PAIRS, window=Window(10))
    engine.push([event(t, t) for t in range(1, 100)])
    engine.advance(to=100)
    assert engine.metrics()["windows"]["retained"] == 99
    wide.close()
    assert engine.metrics()["windows"]["retained"] == 9
    assert len(rows(narrow)) == 9
    narrow.close()
    found = engine.metrics()
    assert (found["windows"]["retained"], found["entries"]) == (0, 0)
    assert (found["terms"]["live"], found["terms"]["limbo"]) == (0, 0)
    with pytest.raises(StateError, match="no window"):
        engine.push([event(200)])


def test_queries_with_equal_windows_share_their_relations():
    engine = Engine()
    queries = [engine.register(PAIRS, window=Window("10s")) for _ in range(3)]
    engine.push([event(t, t) for t in range(1, 100)])
    engine.advance(to=10_000)
    many = engine.metrics()["live_bytes"]
    for query in queries[1:]:
        query.close()
    assert engine.metrics()["live_bytes"] == many


def test_the_same_label_under_two_windows_is_two_relations():
    engine = Engine(prefixes={"": "http://ex/"})
    query = engine.register("""
        SELECT ?x ?y ?z
        FROM NAMED WINDOW :long ON STREAM :s [RANGE 30 STEP 10]
        FROM NAMED WINDOW :short ON STREAM :s [RANGE 10 STEP 10]
        { WINDOW :long { ?x :p ?y } WINDOW :short { ?y :p ?z } }""")
    engine.push([event(5, 1, 2), event(15, 2, 3)], "http://ex/s")
    engine.advance(to=10)
    assert rows(query) == []
    engine.advance(to=20)
    assert rows(query) == [((1, 2, 3), 1)]
    engine.advance(to=30)
    assert rows(query) == []


def test_a_slide_without_room_refuses_what_comes():
    engine = Engine(memory_limit=1_000_000, window=Window(1_000, slide=10))
    query = engine.register(PAIRS)
    engine.push([event(1, n, n) for n in range(100)])
    assert [p.refused for p in engine.advance(to=10)] == [()]
    engine.push([event(11 + n // 5_000, n, n) for n in range(40_000)])
    engine.push([event(18, 1, 1, op="-")])
    [published] = engine.advance(to=20)
    assert sorted(place for place, _ in published.refused) == list(range(100, 40_100))
    reason = "no room under the memory limit when its slide came"
    zero = triegs.literal("0", "http://www.w3.org/2001/XMLSchema#integer")
    assert published.refused[0].reason == f"{reason}: {zero} {P} {zero} at 11"
    # The deletion found the oldest event, and remains valid.
    assert len(rows(query)) == 99
    engine.push([event(21, 1, 1)])
    assert [p.refused for p in engine.advance(to=30)] == [()]
    assert len(rows(query)) == 100


def test_closing_does_not_fail_for_lack_of_memory():
    engine = Engine(memory_limit=4_000_000)
    query = engine.register(PAIRS, window=Window(1_000, slide=10))
    kept = engine.register(PAIRS, window=Window(1_000, slide=20))
    engine.push([event(1, n, n) for n in range(8_000)])
    engine.advance(to=10)
    apply, calls = engine._core.apply, []

    def fail(rows, is_strict=False, counts=False):
        calls.append(len(rows))
        raise triegs.MemoryLimitReached("no room")

    engine._core.apply = fail  # type: ignore[method-assign]
    query.close()
    assert calls == [8_000]
    engine._core.apply = apply  # type: ignore[method-assign]
    assert list(engine.queries) == [kept.name]
    assert [p.time for p in engine.advance(to=20)] == [20]
    assert len(rows(kept)) == 8_000
    kept.close()
    assert engine.metrics()["entries"] == 0


# Ways of time that do not mix


def test_an_engine_takes_timed_epochs_or_timed_events():
    engine = Engine()
    query = engine.register(PAIRS)
    assert engine.apply([("+", 1, P, 2)], time=10).epoch == 2
    with query.snapshot() as snapshot:
        assert snapshot.time == 10
    with pytest.raises(triegs.InvalidUpdate, match="before 10"):
        engine.apply([("+", 1, P, 2)], time=9)
    with pytest.raises(triegs.InvalidUpdate):
        engine.apply([("+", 1, P, 2)], time="soon")
    engine.apply([("+", 1, P, 3)])
    with query.snapshot() as snapshot:
        assert (snapshot.epoch, snapshot.time) == (3, 10)
    engine.register(PAIRS, window=Window(10))
    with pytest.raises(StateError, match="apply"):
        engine.push([event(20)])
    with pytest.raises(StateError, match="advance"):
        Engine(window=Window(10)).apply([("+", 1, P, 2)], time=10)
    with pytest.raises(StateError, match="window"):
        Engine().push([event(1)])
    with pytest.raises(StateError, match="window"):
        Engine().advance(to=1)
    with pytest.raises(WindowError):
        Engine(window=Window(10)).advance(to="soon")
    with pytest.raises(StateError, match=r"reads the stream s; windows read"):
        Engine(window=Window(10)).push([event(1)], "s")


# Malformed input


def test_malformed_events_are_refused_one_by_one():
    engine = Engine(window=Window(10))
    pushed = engine.push([
        event(1), (2, 1, P), "no", event(1.5), event(True), event(1 << 62), event(None),
        (3, "a", P, 1), (3, 1, P, 1, "?"), (3, 1, P, 1, "+", object()), (3, 1, P, 1, None, None),
    ])  # fmt: skip
    assert [place for place, _ in pushed.refused] == list(range(1, 10))
    assert (pushed.first, pushed.accepted) == (0, 2)
    assert engine.push([event(4)]).first == 11


def test_malformed_tables():
    engine = Engine(window=Window(10))
    good = {"time": [1, 2], "subject": [1, 2], "predicate": [P, P], "object": [1, 2]}
    for name in good:
        with pytest.raises(triegs.InvalidUpdate, match=f"no column '{name}'"):
            engine.push(pa.table({k: v for k, v in good.items() if k != name}))
    for name, values in {"time": [1.5, 2.5], "id": [[1], [2]], "op": [1.5, 1.0]}.items():
        with pytest.raises(triegs.InvalidUpdate, match=name):
            engine.push(pa.table({**good, name: values}))
    table = pa.table({
        **good, "time": pa.array([None, 2]), "subject": ["<a:b>", "bad"], "id": [None, "x\n\"\\"]
    })  # fmt: skip
    assert [place for place, _ in engine.push(table).refused] == [0, 1]
    texts = pa.table({**good, "time": ["1970-01-01T00:00:01Z", "soon"], "id": ["a", None]})
    assert [place for place, _ in engine.push(texts).refused] == [3]
    assert engine.metrics()["windows"]["pending"] == 1


def test_a_window_is_a_window():
    with pytest.raises(WindowError, match=r"triegs\.Window"):
        Engine(window="10s")  # type: ignore[arg-type]
    with pytest.raises(WindowError, match=r"triegs\.Window"):
        Engine().register(PAIRS, window="10s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Window(0), lambda: Window("soon"), lambda: Window(10, slide=0),
        lambda: Window(10, bounds="()"),  # type: ignore[arg-type]
        lambda: Window.triples(0), lambda: Window(-1),
        lambda: Window(10, start="now"),  # type: ignore[arg-type]
        lambda: Window(10, stream="*"),
        lambda: EventTime(late="never"),  # type: ignore[arg-type]
        lambda: EventTime(lateness="soon"),
        lambda: Window(1 << 62),
    ],
)  # fmt: skip
def test_senseless_windows_are_refused(make):
    with pytest.raises(WindowError):
        make()


# Times that are far from the others


@given(
    st.lists(st.sampled_from([0, 1, 5, 9, 60, 100, 101, 105, 240, 1000, 1001, -400]), max_size=30),
    st.lists(st.integers(0, 30), max_size=5),
    st.sampled_from([None, 3, 150]),
)
@example([1000, 0, 1, 5, 9], [1, 2], None)
@example([0, 1000, 1001, 1000, 1001], [2], None)
def test_pushes_may_be_cut_anywhere(times, cuts, start):
    """What becomes of events does not depend on how they are cut into pushes."""
    seen = []
    for bounds in ([0, len(times)], sorted({0, len(times), *(c for c in cuts if c < len(times))})):
        engine = Engine(window=Window(10), event_time=EventTime(late="quarantine", max_ahead=50))
        query = engine.register(PAIRS)
        if start is not None:
            engine.advance(to=start)
        refused = []
        for low, high in itertools.pairwise(bounds):
            pushed = engine.push([event(times[n], n) for n in range(low, high)])
            refused += [place for place, _ in pushed.refused]
        published = [engine.advance(), engine.close_stream()]
        late = [place for part in published for each in part for place, _ in each.refused]
        late += [place for place, _ in engine._windows.take_strays()]
        figures = engine.metrics()["windows"]
        assert figures["late"] + figures["ahead"] == len(refused) + len(late)
        seen.append((sorted(refused), sorted(late), published, rows(query), figures["ahead"]))
    assert seen[0] == seen[1]


def test_undecided_events_outlive_the_engine(tmp_path):
    """A stray that waits is decided after a restart as it would have been without one."""
    for folder in ("whole", "stopped"):
        event_time = EventTime(max_ahead=50)
        engine = Engine.open(tmp_path / folder, window=Window(10), event_time=event_time)
        engine.push([event(t, t) for t in (1000, 1, 2)])
        if folder == "stopped":
            engine.checkpoint()
            engine.close()
            engine = Engine.open(tmp_path / folder)
        pushed = engine.push([event(3, 3), event(500, 500)])
        assert [place for place, _ in pushed.refused] == [0]
        assert [p.time for p in engine.advance()] == []
        if folder == "stopped":
            engine.checkpoint()
            engine.close()
            engine = Engine.open(tmp_path / folder)
        (published,) = engine.close_stream()
        assert (published.time, [place for place, _ in published.refused]) == (10, [4])
        engine.close()


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(
    "window",
    [
        Window(1, slide=1, stream=Q), Window(10, slide=2, stream=Q), Window(3, slide=4, stream=Q),
        Window(5, slide=5, stream=Q, bounds="[)"), Window.landmark(2, stream=Q),
        Window.now(stream=Q), Window.triples(2, stream=Q),
    ],
    ids=str,
)  # fmt: skip
def test_a_window_that_begins_behind_epochs_of_other_streams(window, deletes, tmp_path):
    """Its own stream has events that no other window has needed yet. It does not publish the past,
    and has what it would have had from the start; after its first slide if events drive it.
    """
    early, late = (Engine.open(tmp_path / name) for name in ("early", "late"))
    early.register(PAIRS, "its", window=window)
    for engine in (early, late):
        engine.register(PAIRS, "one", window=Window(1, slide=1))
        engine.register(PAIRS, "other", window=Window(20, slide=20, stream=Q))
        engine.push([event(0, 1), event(6, 2)])
        engine.push([event(1, 7), event(2, 7), event(4, 8)], Q)
        if deletes:
            engine.push([event(5, 7, op="-"), event(5, 9, op="-")], Q)
        engine.advance(6)
    late.register(PAIRS, "its", window=window)
    late.close()
    with early, Engine.open(tmp_path / "late") as late:
        for engine in (early, late):
            engine.push([event(8, 5), event(10, 7), event(33, 1), event(40, 2)], Q)
        refused: list[list[triegs.Refused]] = [[], []]
        for time in (6, 7, 8, 9, 12, 20, 31, 60, 90):
            found = [engine.advance(time) for engine in (early, late)]
            assert [each.time for each in found[0]] == [each.time for each in found[1]]
            for each, published in zip(refused, found, strict=True):
                each += [one for slide in published for one in slide.refused]
            names = (
                ["one", "other"] if window == Window.now(stream=Q) and time < 8 else early.queries
            )
            for name in names:
                assert rows(early.queries[name]) == rows(late.queries[name])
        assert len(refused[1]) == deletes  # of the deletion of 9, whenever it was judged
