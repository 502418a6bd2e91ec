"""Patterns with the time of their event: against the oracle, across restarts, and refusals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.windows.test_against_oracle import P, Q, play, result, scripts, shapes, triples

from triegs import Engine, QueryError, UnsupportedQuery, Window, parse
from triegs.engine.standing_query import StandingQuery
from triegs.partition.keys import plan_partitions
from triegs.partition.layout import lay_out
from triegs.sparql.model import Atom
from triegs.testing.strategies import Pattern, node, patterns
from triegs.testing.window_oracle import Shape

XSD = "http://www.w3.org/2001/XMLSchema#"
QUERIES = [
    f"SELECT ?x ?y ?t {{ ?x {P} ?y {{| triegs:time ?t |}} }}",
    f"SELECT ?x ?y {{ ?x {P} ?y {{| triegs:time ?t |}} }}",
    f"SELECT ?t {{ ?x {P} ?x {{| triegs:time ?t |}} }}",
    f"SELECT ?y ?t {{ {node(0)} {P} ?y {{| triegs:time ?t |}} . ?y {P} ?z }}",
    f"SELECT * {{ ?x {P} ?y {{| triegs:time 3 |}} }}",
    f"ASK {{ ?x {P} {node(1)} {{| triegs:time 4 |}} }}",
    f"SELECT * {{ ?x {P} ?y {{| triegs:time ?t |}} . ?x {Q} ?z {{| triegs:time ?t |}} }}",
    f"""SELECT * {{ ?x {P} ?y {{| triegs:time ?t |}} . ?y {Q} ?z {{| triegs:time ?u |}}
                FILTER(?u >= ?t && ?u - ?t <= 4) }}""",
    f"""SELECT ?x ?z {{ ?x {P} ?y {{| triegs:time ?t |}} . ?y {Q} ?z {{| triegs:time ?u |}}
                    FILTER(?t < ?u) }}""",
    f"SELECT ?x (MAX(?t) AS ?last) {{ ?x {P} ?y {{| triegs:time ?t |}} }} GROUP BY ?x",
    f"""SELECT ?t (COUNT(*) AS ?n) (SUM(?t) AS ?s) {{ ?x {P} ?y {{| triegs:time ?t |}} .
                                                  ?y {Q} ?z }} GROUP BY ?t""",
    f"SELECT ?x ?p ?t {{ ?x ?p ?y . ?y {P} ?z {{| triegs:time ?t |}} FILTER(?t > 2) }}",
    f"""SELECT * {{ ?x {P} ?y {{| triegs:time ?t |}} . ?y {P} ?z {{| triegs:time ?u |}} .
                ?z {P} ?x }}""",
]
BETWEEN = ["?t0 < ?t1", "?t1 - ?t0 <= 3", "?t0 != ?t1 && ?t1 < ?t0 + 5", "?t0 > 4 || ?t1 > 4"]


@st.composite
def timed_patterns(draw: st.DrawFn) -> str:
    """Random patterns, some of whose atoms have a time; two atoms may share it."""
    pattern = draw(patterns(max_atoms=3))
    atoms, names = [], []
    for subject, predicate, target in pattern.atoms:
        if not predicate.startswith("?") and draw(st.integers(0, 3)):
            names.append(draw(st.sampled_from(["?t0", "?t0", "?t1", "?t1", "?v1"])))
            target += f" {{| triegs:time {names[-1]} |}}"
        atoms.append((subject, predicate, target))
    head = [name for name in dict.fromkeys(names) if draw(st.booleans())]
    extra = pattern.extra
    if {"?t0", "?t1"} <= set(names) and draw(st.booleans()):
        extra += (f"FILTER( {draw(st.sampled_from(BETWEEN))} )",)
    shown = tuple(dict.fromkeys([*pattern.head, *head]))
    return Pattern(tuple(atoms), shown, extra, pattern.distinct).text


@given(
    st.lists(shapes(), min_size=1, max_size=3, unique=True), scripts(),
    st.integers(0, 4), st.lists(triples, max_size=2), st.sampled_from(["multigraph", "rdf"]),
    st.data(),
)  # fmt: skip
def test_every_epoch_equals_the_oracle(drawn, script, lateness, static, mode, data):
    drawing = st.one_of(st.sampled_from(QUERIES), timed_patterns())
    play(drawn, script, [data.draw(drawing) for _ in drawn], mode, None, lateness, static)


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_every_query_over_one_stream(mode, many_events):
    for text in QUERIES:
        for shape in (Shape(10, 5), Shape(7, 2, is_closed_at_start=True), Shape(last=4)):
            play([shape], many_events, [text], mode)


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_queries_that_share_a_window(mode, many_events):
    texts = [*QUERIES, f"SELECT ?x ?y {{ ?x {P} ?y }}", "SELECT ?x ?p { ?x ?p ?y }"]
    play([Shape(10, 5)] * len(texts), many_events, texts, mode)


@pytest.fixture
def many_events() -> list[tuple]:
    """A stream with repeated events, equal times, ids and deletions."""
    from random import Random

    from triegs.testing.window_oracle import Event

    random = Random(7)
    script: list[tuple] = []
    for now in range(0, 40, 4):
        events = [
            Event(
                now + random.randint(-2, 3), random.choice("++++-"),
                (node(random.randint(0, 2)), random.choice([P, Q]), node(random.randint(0, 2))),
                random.choice([None, None, "a", "b"]),
            )
            for _ in range(8)
        ]  # fmt: skip
        script += [("push", None, events, now % 8 == 0), ("advance", "*", now)]
    return [*script, ("close",)]


def ends(time: int) -> str:
    return f'"{time}"^^<{XSD}integer>'


def push(engine: Engine, *rows: tuple[Any, ...]) -> None:
    """Push ``(time, subject, predicate, object[, op])`` with short names."""
    engine.push([(t, *(f"<u:{n}>" for n in terms[:3]), *terms[3:]) for t, *terms in rows])


REPLIES = "SELECT ?c ?t { ?c <u:replyOf> <u:p> {| triegs:time ?t |} }"


def test_equal_events_count_by_mode():
    for mode, count in (("multigraph", 2), ("rdf", 1)):
        engine = Engine(mode)  # type: ignore[arg-type]
        query = engine.register(REPLIES, window=Window(10, slide=5))
        push(engine, (2, "c", "replyOf", "p"), (2, "c", "replyOf", "p"), (4, "c", "replyOf", "p"))
        engine.advance(5)
        assert result(query) == {("<u:c>", ends(2)): count, ("<u:c>", ends(4)): 1}


def test_a_deletion_removes_the_oldest_event():
    engine = Engine()
    query = engine.register(REPLIES, window=Window(10, slide=5))
    push(engine, (4, "c", "replyOf", "p"), (2, "c", "replyOf", "p"), (6, "c", "replyOf", "p", "-"))
    engine.advance(10)
    assert result(query) == {("<u:c>", ends(4)): 1}


def test_a_query_that_is_registered_late():
    engine = Engine(window=Window(10, slide=5))
    push(engine, (2, "c", "replyOf", "p"), (4, "d", "replyOf", "p"), (4, "d", "other", "p"))
    engine.advance(5)
    query = engine.register(REPLIES)
    assert result(query) == {("<u:c>", ends(2)): 1, ("<u:d>", ends(4)): 1}
    engine.advance(15)
    assert result(query) == {}
    query.close()


def test_a_deleted_event_stays_until_its_window_slides():
    engine = Engine()
    slow, fast = Window(20, slide=20), Window(20, slide=5)
    plain = [
        engine.register("SELECT * { ?c <u:replyOf> ?p }", window=each) for each in (slow, fast)
    ]
    push(engine, (2, "c", "replyOf", "p"))
    engine.advance(20)
    push(engine, (22, "c", "replyOf", "p", "-"))
    engine.advance(25)
    query = engine.register(REPLIES, window=slow)
    assert result(query) == {("<u:c>", ends(2)): 1}
    for each in (*plain, query):
        each.close()
    assert len(engine._core.views.unindexed) == 0


def test_static_triples_have_no_time():
    engine = Engine(window=Window(10, slide=5))
    engine.apply([("+", "<u:c>", "<u:replyOf>", "<u:p>")])
    query = engine.register(REPLIES)
    plain = engine.register("SELECT ?c { ?c <u:replyOf> <u:p> }")
    assert (result(query), result(plain)) == ({}, {("<u:c>",): 1})


def read_changes(query: StandingQuery, since: int) -> dict[tuple[str, ...], int]:
    with query.changes(since) as steps:
        (step,) = steps
        return {tuple(each): each.change for each in step.answers()}


def test_changes_and_many_times():
    """Many new times in one slide, pushed as columns; each leaves with its event."""
    engine = Engine(retain_epochs=4)
    query = engine.register(REPLIES, window=Window(1_000, slide=1_000))
    times = list(range(1, 1_001))
    table = pa.table({
        "time": times, "subject": [f"<u:c{t % 7}>" for t in times],
        "predicate": ["<u:replyOf>"] * 1_000, "object": ["<u:p>"] * 1_000,
    })  # fmt: skip
    before = engine.epoch
    engine.push(table)
    engine.advance(1_000)
    wanted = {(f"<u:c{t % 7}>", ends(t)): 1 for t in times}
    assert result(query) == wanted
    assert read_changes(query, before) == wanted
    held = query.snapshot()
    engine.advance(2_000)
    assert result(query) == {}
    assert read_changes(query, before + 1) == dict.fromkeys(wanted, -1)
    assert {tuple(answer): 1 for answer in held} == wanted  # the terms of a held epoch stay
    held.close()
    query.close()
    assert engine.metrics()["terms"]["live"] == 0


def test_windows_in_the_text():
    engine = Engine(prefixes={"": "u:"})
    query = engine.register("""
        SELECT ?p ?c ?t ?u
        FROM NAMED WINDOW :posts ON STREAM :s [RANGE 20 STEP 10]
        FROM NAMED WINDOW :replies ON STREAM :s [RANGE 10 STEP 10]
        WHERE { WINDOW :posts { ?p :by ?a {| triegs:time ?t |} }
                WINDOW :replies { ?c :replyOf ?p {| triegs:time ?u |} } }""")
    events = [(5, "<u:p>", "<u:by>", "<u:a>"), (13, "<u:c>", "<u:replyOf>", "<u:p>")]
    engine.push(events, "u:s")
    engine.advance(20)
    assert result(query) == {("<u:p>", "<u:c>", ends(5), ends(13)): 1}
    engine.advance(30)
    assert result(query) == {}


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_restart(tmp_path, has_checkpoint):
    with Engine.open(tmp_path, window=Window(10, slide=5)) as engine:
        engine.register(REPLIES, "replies")
        push(engine, (2, "c", "replyOf", "p"), (4, "c", "replyOf", "p"), (9, "d", "replyOf", "p"))
        engine.advance(5)
        push(engine, (8, "c", "replyOf", "p", "-"))
        if has_checkpoint:
            engine.checkpoint()
        before = result(engine.queries["replies"])
    with Engine.open(tmp_path) as engine:
        query = engine.queries["replies"]
        assert result(query) == before == {("<u:c>", ends(2)): 1, ("<u:c>", ends(4)): 1}
        engine.advance(10)
        assert result(query) == {("<u:c>", ends(4)): 1, ("<u:d>", ends(9)): 1}
        engine.advance(15)
        assert result(query) == {("<u:d>", ends(9)): 1}
        engine._core.views.check()


def test_order_counts_and_positions():
    engine = Engine()
    text = f"{REPLIES} ORDER BY DESC(?t)"
    query = engine.register(text, window=Window(10, slide=5), keep=["count", "slice"])
    push(engine, *((time, "c", "replyOf", "p") for time in (3, 1, 4, 1, 5)))
    engine.advance(5)
    with query.snapshot() as snapshot:
        assert [answer.t for answer in snapshot] == [ends(time) for time in (5, 4, 3, 1)]
        assert (snapshot.count(), snapshot.support()) == (5, 4)


def test_result_streams():
    engine = Engine()
    query = engine.register(REPLIES, window=Window(10, slide=5))
    seen: list[Any] = []
    query.emit(lambda each: seen.append((each.time, each.answers.num_rows)), "ISTREAM")
    push(engine, (2, "c", "replyOf", "p"), (7, "c", "replyOf", "p"))
    engine.advance(15)
    assert seen == [(5, 1), (10, 1), (15, 0)]


def test_a_slide_without_room_refuses_its_events():
    engine = Engine(memory_limit=1_000_000)
    query = engine.register(REPLIES, window=Window(1_000, slide=10))
    push(engine, (1, "c", "replyOf", "p"))
    engine.advance(10)
    push(engine, *((11 + n % 9, f"c{n}", "replyOf", "p") for n in range(40_000)))
    (published,) = engine.advance(20)
    assert len(published.refused) == 40_000
    assert result(query) == {("<u:c>", ends(1)): 1}
    push(engine, (21, "d", "replyOf", "p"))
    engine.advance(30)
    assert result(query) == {("<u:c>", ends(1)): 1, ("<u:d>", ends(21)): 1}
    engine._core.views.check()


def test_rows_of_several_triples():
    engine = Engine(window=Window(10, slide=5))
    text = "SELECT ?a ?b ?t { ?e :from ?a {| triegs:time ?t |} ; :to ?b {| triegs:time ?t |} }"
    query = engine.register(text)
    table = pa.table({"time": [2, 2, 4], "from": ["x", "x", "y"], "to": ["y", "y", "z"]})
    engine.push(table, map="[] :from {from} ; :to {to}")
    engine.advance(5)
    x, y, z = (f"<urn:triegs:{name}>" for name in "xyz")
    assert result(query) == {(x, y, ends(2)): 2, (y, z, ends(4)): 1}


def test_partitions_do_not_keep_times():
    found = plan_partitions(parse(REPLIES), 4)
    assert found.chosen is None
    assert "the time of its event" in found.reason
    constant = parse("SELECT ?c { ?c <u:replyOf> ?p {| triegs:time 5 |} }")
    assert "the time of its event" in lay_out({"all": constant}, 4).problem


def test_explain_names_the_events():
    engine = Engine()
    query = engine.register(REPLIES, window=Window(10, slide=5))
    text = str(query.explain())
    assert "replyOf@t(c,:p)" in text
    assert "triple(" not in text


# Syntax


def test_what_a_text_means():
    query = parse(
        "PREFIX : <u:> SELECT * { ?c :of ?p {| triegs:time ?t |} , ?q ;"
        ' :x "{| |}" # {|\n . ?p :by :a {| <urn:triegs:time> 5 |} }'
    )
    assert query.head == ("?c", "?p", "?t", "?q")
    assert list(zip(query.atoms, query.graphs, strict=True)) == [
        (Atom("?c", "?t", "?p"), "@<u:of>"),
        (Atom("?c", "<u:of>", "?q"), ""),
        (Atom("?c", "<u:x>", '"{| |}"'), ""),
        (Atom("?p", ends(5), "<u:a>"), "@<u:by>"),
    ]
    assert query.predicates == ("<u:of>", "<u:of>", "<u:x>", "<u:by>")


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("?c <u:p> ?o {| |}", 2, 16, "expected triegs:time in an annotation"),
        ("?c <u:p> ?o {| triegs:time |}", 2, 28, "expected a variable for the time"),
        ("?c <u:p> ?o {| triegs:time ?t", 3, 1, "unmatched '}'"),
        ("?c <u:p> ?o {| triegs:time ?t ; triegs:time ?u |}", 2, 31, "an annotation has one time"),
        ("?c <u:p>/<u:q> ?o {| triegs:time ?t |}", 2, 19, "a path cannot be annotated"),
        ("?c ^<u:p> ?o {| triegs:time ?t |}", 2, 14, "a path cannot be annotated"),
        ("{| triegs:time ?t |}", 2, 1, "expected a triple pattern"),
        ("?c <u:p> ?o |}", 2, 13, "unmatched '|}'"),
        ("?c <u:p> ?o {| nope:time ?t |}", 2, 16, "unknown prefix 'nope:'"),
    ],
)
def test_errors_have_positions(body, line, column, message):
    with pytest.raises(QueryError) as problem:
        parse(f"SELECT * {{\n{body}\n}}")
    assert (problem.value.line, problem.value.column) == (line, column)
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("body", "column", "construct"),
    [
        ("?c ?p ?o {| triegs:time ?t |}", 4, "time of a variable predicate"),
        ("?c <u:p> ?o {| <u:source> ?t |}", 16, "annotation"),
        ("?c <u:p> ?o {| ?q ?t |}", 16, "annotation"),
    ],
)
def test_refused_annotations(body, column, construct):
    with pytest.raises(UnsupportedQuery) as problem:
        parse(f"SELECT * {{\n{body} }}")
    assert (problem.value.line, problem.value.column) == (2, column)
    assert problem.value.construct == construct


def test_a_time_needs_a_window():
    text = "SELECT * {\n  ?c <u:replyOf> ?p {| triegs:time ?t |} }"
    with pytest.raises(UnsupportedQuery, match="without a window") as problem:
        Engine().register(text)
    assert (problem.value.line, problem.value.column) == (2, 21)
    inside = """SELECT * FROM NAMED WINDOW <u:w> ON STREAM <u:s> [RANGE 10 STEP 5] {
  WINDOW <u:w> { ?c <u:of> ?p {| triegs:time ?t |} }
  ?c <u:by> ?a {| triegs:time ?u |} }"""
    with pytest.raises(UnsupportedQuery, match="without a window") as problem:
        Engine().register(inside)
    assert (problem.value.line, problem.value.column) == (3, 16)


def test_a_timestamp_outside_the_years_of_python_is_a_bad_time():
    engine = Engine(window=Window.triples(2))
    times = pa.array([1, -62_167_219_200, 253_402_300_800, 2]).cast(pa.timestamp("s"))
    words = {name: ["<http://ex/a>"] * 4 for name in ("subject", "predicate", "object")}
    pushed = engine.push(pa.table({"time": times, **words}))
    assert [(row, why.kind.value) for row, why in pushed.refused] == [
        (1, "bad time"), (2, "bad time")
    ]  # fmt: skip
    assert "0000-01-01" in pushed.refused[0].reason
