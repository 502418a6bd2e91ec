"""Random timed streams through the engine, against the oracle after every published epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from triegs.engine import Engine
from triegs.options import ModeName
from triegs.sparql.window import Bounds, Window
from triegs.testing import oracle
from triegs.testing.strategies import label, node, patterns
from triegs.testing.window_oracle import Event, Shape, WindowOracle
from triegs.windows.settings import EventTime

P, Q = label(0), label(1)
QUERIES = [
    f"SELECT ?x ?z {{ ?x {P} ?y . ?y {Q} ?z }}",
    "SELECT ?x ?p ?y { ?x ?p ?y }",
    f"SELECT ?x ?z {{ ?x {P} ?y . ?y ?p ?z }}",
    f"ASK {{ ?x {P} ?x }}",
    f"SELECT ?y {{ {node(0)} {P} ?y . {node(0)} {P} ?y }}",
    f"SELECT * {{ ?x {P} ?y . ?y {P} ?z . ?z {P} ?x }}",
    f"SELECT ?x ?w {{ ?x {P} ?y . ?y {Q} ?z . ?z ?p ?x . ?z {P} ?w }}",
    f"SELECT * {{ ?a {P} ?b . ?b {P} ?c . ?c {P} ?d . ?d {P} ?a FILTER(?a != ?c) }}",
    f"SELECT ?p ?q {{ ?x ?p ?y . ?x ?q ?y . ?p {Q} ?z }}",
    f"SELECT ?p ?y {{ {node(1)} ?p ?y . ?y ?p ?y FILTER(?p != {Q}) }}",
]
STREAMS = (None, "http://ex/other")
#: Around zero, before 1970, and of our days.
ORIGINS = (0, -10_000_000_000, 1_760_000_000_123)

triples = st.tuples(
    st.one_of(st.integers(0, 2).map(node), st.integers(0, 2).map(node), st.just(P)),
    st.sampled_from([P, Q]),
    st.integers(0, 2).map(node),
)
texts_over_windows = st.one_of(
    st.sampled_from(QUERIES), patterns(max_atoms=4).map(lambda pattern: pattern.text)
)
identities = st.one_of(st.none(), st.none(), st.sampled_from("abc"))


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    kind = draw(st.sampled_from(["sliding", "sliding", "tumbling", "landmark", "now", "triples"]))
    stream = draw(st.sampled_from(STREAMS))
    width, slide = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    start = draw(st.integers(-3, 3))
    if kind == "triples":
        return Shape(last=draw(st.integers(1, 4)), stream=stream)
    if kind == "now":
        return Shape(width=1, slide=draw(st.sampled_from([None, slide])), stream=stream)
    if kind == "landmark":
        return Shape(slide=slide, start=start, stream=stream)
    at_start = draw(st.booleans())
    step = width if kind == "tumbling" else slide
    return Shape(width, step, start, at_start, stream=stream)


def to_window(shape: Shape) -> Window:
    if shape.last is not None:
        return Window.triples(shape.last, stream=shape.stream)
    if shape.width is None:
        assert shape.slide is not None
        return Window.landmark(shape.slide, start=shape.start, stream=shape.stream)
    if shape.slide is None:
        return Window.now(stream=shape.stream)
    bounds = Bounds.START if shape.is_closed_at_start else Bounds.END
    return Window(shape.width, shape.slide, start=shape.start, bounds=bounds, stream=shape.stream)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple]:
    """Pushes and advances; times wander upwards with disorder, jumps and equal times."""
    origin = draw(st.sampled_from(ORIGINS))
    now = origin
    script: list[tuple] = []
    for _ in range(draw(st.integers(1, 8))):
        now += draw(st.sampled_from([0, 1, 2, 5, 5, 30, 30, 150]))
        stream = draw(st.sampled_from(STREAMS))
        count = draw(st.integers(0, 6))
        events = [
            Event(
                now + draw(st.integers(-6, 6)), draw(st.sampled_from("+++-")), draw(triples),
                draw(identities),
            )
            for _ in range(count)
        ]  # fmt: skip
        for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4]))):
            stray = now + draw(st.sampled_from([200, 290, 400, -150, -300]))
            events.insert(draw(st.integers(0, len(events))), Event(stray, "+", draw(triples)))
        script.append(("push", stream, events, draw(st.booleans())))
        move = draw(st.sampled_from(["to", "own", "one", "none"]))
        if move == "to":
            script.append(("advance", "*", now + draw(st.integers(-8, 4))))
        elif move == "own":
            script.append(("advance", "*", None))
        elif move == "one":
            script.append(("advance", stream, now + draw(st.integers(-8, 4))))
    if draw(st.booleans()):
        script.append(("close",))
    return script


def as_events(events: list[Event], is_table: bool) -> Any:
    rows = [(e.time, *e.triple, e.sign, e.id) for e in events]
    if not is_table:
        return rows
    names = ["time", "subject", "predicate", "object", "op", "id"]
    columns = zip(*rows, strict=True) if rows else [[]] * len(names)
    kinds = [pa.int64(), *[pa.string()] * 5]
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=names
    )


def result(query):
    with query.snapshot() as snapshot:
        return {tuple(answer): answer.multiplicity for answer in snapshot}


@given(
    st.lists(shapes(), min_size=1, max_size=3, unique=True), scripts(),
    st.sampled_from([None, 0, 7, 25]), st.integers(0, 4),
    st.lists(triples, max_size=3), st.sampled_from(["multigraph", "rdf"]),
    st.data(),
)  # fmt: skip
def test_every_epoch_equals_the_oracle(drawn, script, idle, lateness, static, mode, data):
    texts = [data.draw(texts_over_windows) for _ in drawn]
    play(drawn, script, texts, mode, idle, lateness, static)


def play(
    drawn: list[Shape], script: list[tuple], texts: list[str], mode: ModeName,
    idle: int | None = None, lateness: int = 0, static: Sequence[oracle.Triple] = (),
) -> None:  # fmt: skip
    """Run a script with one query for each window, and compare each published epoch."""
    event_time = EventTime(lateness, late="quarantine", max_ahead=100, idle_timeout=idle)
    engine = Engine(mode, event_time=event_time)
    expected = WindowOracle(drawn, lateness, 100, idle)
    queries = [
        engine.register(text, window=to_window(shape))
        for text, shape in zip(texts, drawn, strict=True)
    ]
    engine.apply([("+", *triple) for triple in static])
    questions = [oracle.read_query(text) for text in texts]

    # Each epoch is looked at: a watermark that jumps is led to each published time in turn.
    seen = []
    publish = engine._windows.publisher.publish

    def publish_and_look(due):
        published = publish(due)
        seen.append((due.time, [result(query) for query in queries]))
        return published

    engine._windows.publisher.publish = publish_and_look  # type: ignore[method-assign]
    for step in script:
        if step[0] == "push":
            _, stream, events, is_table = step
            if stream not in expected.flows:
                continue
            pushed = engine.push(as_events(events, is_table), stream)
            assert [place for place, _ in pushed.refused] == expected.push(events, stream)
            continue
        seen.clear()
        if step[0] == "close":
            published, moments = engine.close_stream(), expected.close()
        elif step[1] == "*":
            published, moments = engine.advance(step[2]), expected.advance(step[2])
        elif step[1] in expected.flows:
            published = engine.advance(step[2], step[1])
            moments = expected.advance(step[2], step[1])
        else:
            continue
        assert [p.time for p in published] == [m.time for m in moments]
        assert [[place for place, _ in p.refused] for p in published] == [
            m.refused for m in moments
        ]
        for (time, answers), moment in zip(seen, moments, strict=True):
            held = zip(moment.held, moment.timed, strict=True)
            for answer, question, (counts, timed) in zip(answers, questions, held, strict=True):
                wanted = oracle.answers(question, counts + Counter(static), mode, timed=timed)
                assert answer == wanted, (time, moment)
    figures = engine.metrics()["windows"]
    assert (figures["late"], figures["ahead"]) == (expected.late, expected.ahead)
    assert figures["repeated"] == expected.repeated
    engine.apply([("-", *triple) for triple in static])
    for query in queries:
        query.close()
    assert len(engine._core.views.unindexed) == 0
    terms = engine.metrics()["terms"]
    assert (terms["live"], terms["limbo"]) == (0, 0)


def test_a_stray_that_a_watermark_comes_near_is_there_to_stay():
    """Later strays, even two that agree, do not revoke it."""
    drawn = [Shape(3, 1, stream=STREAMS[1]), Shape(slide=2)]
    for strays in ([440], [440, 441]):
        pushed = [Event(time, "+", (node(0), P, node(1))) for time in [150, *strays]]
        script: list[tuple] = [
            ("push", STREAMS[1], pushed[:1], False),
            ("advance", "*", 2),
            ("push", None, pushed, False),
            ("advance", None, 154),
            ("advance", "*", 160),
            ("close",),
        ]
        play(drawn, script, [QUERIES[1]] * 2, "multigraph")


def test_events_of_two_streams_at_one_time():
    """Windows of the last events take those of one stream after the other, whatever the order of
    the windows.
    """
    drawn = [Shape(1, 1), Shape(last=1, stream=STREAMS[1]), Shape(last=1)]
    both = [Event(2, "+", (node(0), P, node(1)))]
    script: list[tuple] = [("push", stream, both, False) for stream in STREAMS]
    play(drawn, [*script, ("advance", "*", None)], [QUERIES[1]] * 3, "multigraph")


COME_AND_GO = [Event(time, sign, (node(0), P, node(1))) for time, sign in [(11, "+"), (12, "-")]]


@st.composite
def dense_scripts(draw: st.DrawFn) -> list[tuple]:
    """Few triples at few times, many of them deleted again."""
    script: list[tuple] = []
    for start in range(0, draw(st.integers(6, 24)), 6):
        times = st.integers(start, start + 8)
        edges = st.tuples(st.integers(0, 1).map(node), st.just(P), st.integers(0, 1).map(node))
        drawn = st.builds(Event, times, st.sampled_from("++-"), edges, identities)
        script.append(("push", None, draw(st.lists(drawn, max_size=8)), draw(st.booleans())))
        script.append(("advance", "*", draw(st.sampled_from([None, start + 3, start + 6]))))
    return [*script, ("close",)]


@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.booleans(), dense_scripts(),
    st.integers(0, 3), st.sampled_from(["multigraph", "rdf"]),
)  # fmt: skip
@example(3, 7, 7, True, [("push", None, COME_AND_GO, False), ("close",)], 0, "multigraph")
def test_windows_that_end_before_and_with_a_deletion(
    slide, width, other, is_landmark, script, lateness, mode
):
    """At one published time one window ends before the events of that time, the other with them:
    what these delete is in the first window until its next slide.
    """
    second = Shape(slide=slide) if is_landmark else Shape(other, slide)
    drawn = [Shape(width, slide, is_closed_at_start=True), second]
    play(drawn, script, [QUERIES[1], QUERIES[0]], mode, None, lateness)
