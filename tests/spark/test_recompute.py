"""`triegs.spark.recompute` against the oracles: every kind of query, deletes, ids, windows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from triegs import UnsupportedQuery, Window
from triegs.errors import InputError, WindowError
from triegs.spark import LocalSpark, recompute
from triegs.testing import oracle
from triegs.testing.window_oracle import Event, Shape, WindowOracle

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
EX = "<http://ex/{}>".format
CHOSEN = f"?x != {EX(1)} && (?y IN ({EX(1)}, {EX(2)}) || sameTerm(?x, ?y) || !isIRI(?y))"
QUERIES = [
    f"SELECT ?x ?y ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    f"SELECT ?x {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    f"SELECT ?x ?z {{ ?x {EX('p')} ?y . ?y {EX('p')} ?z }}",
    f"SELECT ?y {{ {EX(0)} {EX('p')} ?y . {EX(0)} {EX('p')} ?y }}",
    f"SELECT ?x ?u {{ ?x {EX('p')} ?y . ?u {EX('q')} ?u }}",
    f"SELECT ?x ?p ?z ?gone {{ ?x {EX('p')} ?y . ?y ?p ?z }}",
    f"ASK {{ ?x {EX('p')} ?x . ?y {EX('q')} ?z }}",
    f"SELECT DISTINCT ?x {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z . ?z {EX('p')} ?x }}",
    f"SELECT ?x ?y {{ ?x {EX('p')} ?y FILTER({CHOSEN}) }}",
    f"SELECT ?x ?y {{ ?x {EX('q')} ?y VALUES (?x) {{ ({EX(0)}) ({EX(0)}) ({EX(2)}) }} }}",
]
WINDOWS = [
    (Window(7, 3), Shape(7, 3)),
    (Window(5, 8, start=1, bounds="[)"), Shape(5, 8, 1, is_closed_at_start=True)),
    (Window.landmark(4), Shape(None, 4)),
]


def draw_events(seed: int, count: int, ids: str = "") -> list[Event]:
    """Increasing times, many of them equal; a quarter are deletes, some without a target."""
    random = Random(seed)
    time, events = -10, []
    for _ in range(count):
        time += random.choice([0, 0, 1, 1, 2, 9])
        triple = (EX(random.randrange(3)), EX(random.choice("ppq")), EX(random.randrange(3)))
        name = random.choice([None, *ids]) if ids else None
        events.append(Event(time, random.choice("+++-"), triple, name))
    return events


def make_frame(session: Any, events: list[Event]) -> Any:
    """In any order: only the order column counts."""
    rows = [(e.time, e.sign, *e.triple, e.id, n) for n, e in enumerate(events)]
    Random(0).shuffle(rows)
    names = ("time", "op", "subject", "predicate", "object", "id", "n")
    kinds = [pa.int64(), *[pa.string()] * 5, pa.int64()]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    if not any(e.id for e in events):
        table = table.drop_columns(["id"])
    return session.createDataFrame(table)


def read(session: Any, frames: list[Any]) -> list[dict[int, dict[tuple[Any, ...], int]]]:
    """The results of all DataFrames by time, read by one job."""
    from pyspark.sql import functions

    selected = []
    for number, frame in enumerate(frames):
        row = functions.array(*frame.columns[1:-1]).cast("array<string>")
        label = functions.lit(number).alias("number")
        selected.append(frame.select(label, "time", row.alias("row"), "multiplicity"))
    whole = selected[0]
    for each in selected[1:]:
        whole = whole.unionAll(each)
    found: list[dict[int, dict[tuple[Any, ...], int]]] = [{} for _ in frames]
    for number, time, row, multiplicity in whole.collect():
        answers = found[number].setdefault(time, {})
        assert tuple(row) not in answers
        answers[tuple(row)] = multiplicity
    return found


def check(
    spark: LocalSpark, events: list[Event], held: dict[int, Counter], mode: str,
    queries: Sequence[str] = QUERIES, **options: Any,
) -> None:  # fmt: skip
    """At the times of `held`, each query has the oracle's answers over the live events."""
    session = spark.get()
    frame = make_frame(session, events).cache()
    options = {"columns": {"order": "n"}, **options}
    results = [recompute(text, frame, list(held), mode=mode, **options) for text in queries]
    seen = 0
    for text, found in zip(queries, read(session, results), strict=True):
        question = oracle.read_query(text)
        for time, counts in held.items():
            expected = oracle.answers(question, counts, mode)
            assert found.get(time, {}) == expected, (text, time)
            seen += len(expected)
    assert seen > 20
    frame.unpersist()


WINDOWED = [
    (1, "multigraph", ""),
    (4, "rdf", "abcdefg"),
    (2, "rdf", ""),
    (3, "multigraph", "abcdefg"),
]


@pytest.mark.property
@pytest.mark.parametrize(("seed", "mode", "ids"), WINDOWED if SOAK else WINDOWED[1:2])
def test_windows(spark: LocalSpark, seed: int, mode: str, ids: str) -> None:
    events = draw_events(seed, 60, ids)
    window, shape = WINDOWS[seed % len(WINDOWS)]
    expected = WindowOracle([shape], max_ahead=10**9)
    expected.push(events)
    moments = [*expected.advance(events[-1].time + 20)]
    if ids:
        assert any(moment.refused for moment in moments)
    held = {moment.time: moment.held[0] for moment in moments}
    # A plan per query takes longest; the whole log has the others.
    check(spark, events, held, mode, QUERIES if SOAK else QUERIES[1::2], window=window)


def test_the_whole_log(spark: LocalSpark) -> None:
    """Without a window: at the time of every event, and before and after all."""
    events = draw_events(5, 40)
    counts: Counter = Counter()
    held: dict[int, Counter] = {-1_000: Counter()}
    refused = []
    for event in events:
        refused += oracle.apply_batch(counts, [(event.sign, *event.triple)])
        held[event.time] = counts.copy()
    held[10**6] = counts
    assert refused
    # The others are in `test_windows`.
    check(spark, events, held, "multigraph", QUERIES if SOAK else QUERIES[::2])


def test_the_end_other_columns_and_types(spark: LocalSpark) -> None:
    """Timestamps, integers as terms, rows in DataFrame order; without deletes."""
    session = spark.get()
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    rows = [(at, 1, EX("p"), 2), (at, 1, EX("p"), 2), (at, 2, EX("p"), 3)]
    frame = session.createDataFrame(rows, "at timestamp, s int, predicate string, o long")
    columns = {"time": "at", "subject": "s", "object": "o"}
    text = "SELECT ?x ?z { ?x :p ?y . ?y :p ?z }"
    prefixes = {"": "http://ex/"}
    found = recompute(text, frame, columns=columns, prefixes=prefixes)
    assert found.columns == ["time", "x", "z", "multiplicity"]
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    milliseconds = 1_714_557_600_000
    expected = [(milliseconds, integer(1), integer(3), 2)]
    assert [tuple(row) for row in found.collect()] == expected
    window = Window("1m", slide="7s")
    ended = recompute(text, frame, columns=columns, prefixes=prefixes, window=window)
    assert ended.first()["time"] == window.first_slide(milliseconds)
    asked = recompute(text, frame, [at], columns=columns, prefixes=prefixes)
    assert asked.collect() == found.collect()
    empty = recompute("SELECT * {}", frame, [5, 7], columns=columns)
    assert sorted(tuple(row) for row in empty.collect()) == [(5, 1), (7, 1)]


def test_what_ends_the_job(spark: LocalSpark) -> None:
    session = spark.get()
    schema = "time long, op string, subject string, predicate string, object string"
    text = "SELECT * { ?x ?p ?y }"
    for row, told in [
        ((1, "+", None, EX("p"), EX(1)), "a row of the log has no subject"),
        ((None, "+", EX(1), EX("p"), EX(1)), "a row of the log has no time"),
        ((1, "+", "b", EX("p"), EX(1)), "a row of the log has a bad term: not an N-Triples term"),
        ((1, "x", EX(1), EX("p"), EX(1)), r"op must be \+ or - \(or 1 or -1\), not x"),
    ]:
        frame = session.createDataFrame([row], schema)
        with pytest.raises(Exception, match=told):
            recompute(text, frame).collect()
    # 2 ** 8 events in each of eight patterns
    many = session.range(256).selectExpr(
        "0 AS time", f"'{EX(1)}' AS subject", f"'{EX('p')}' AS predicate", f"'{EX(2)}' AS object"
    )
    pattern = f"{EX(1)} {EX('p')} ?y . "
    (row,) = recompute(f"SELECT * {{ {pattern * 7} }}", many).collect()
    assert row["multiplicity"] == 256**7
    with pytest.raises(Exception, match="a multiplicity does not fit in 64 bits"):
        recompute(f"SELECT * {{ {pattern * 8} }}", many).collect()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "SELECT (COUNT(*) AS ?n) { ?x ?p ?y }",
            "recompute does not support aggregates and GROUP BY",
        ),
        ("SELECT ?x { ?x ?p ?y } LIMIT 3", "LIMIT and OFFSET"),
        ("SELECT ?time { ?x ?p ?time }", r"the variable \?time"),
        ("SELECT ?x { ?x ?p ?y FILTER(?x = ?y) }", "FILTER with = on possible literals"),
        ("SELECT ?x { ?x ?p ?y FILTER(?y < 5) }", "FILTER with <"),
        ("SELECT ?x { ?x ?p ?y FILTER(STR(?y) = <a:b>) }", "FILTER with = on an expression"),
    ],
)
def test_queries_that_are_refused(spark: LocalSpark, text: str, told: str) -> None:
    frame = make_frame(spark.get(), [])
    with pytest.raises(UnsupportedQuery, match=told):
        recompute(text, frame)


def test_logs_and_times_that_are_refused(spark: LocalSpark) -> None:
    frame = make_frame(spark.get(), [])
    text = "SELECT * { ?x ?p ?y }"
    with pytest.raises(
        InputError, match="the DataFrame has no column 'who' for subject; its columns: time,"
    ):
        recompute(text, frame, columns={"subject": "who"})
    with pytest.raises(InputError, match="columns maps 'graph', which is not one of time, subject"):
        recompute(text, frame, columns={"graph": "g"})
    with pytest.raises(InputError, match="time: a double column cannot hold times"):
        recompute(text, frame.withColumn("time", frame["time"].cast("double")))
    with pytest.raises(InputError, match=r"object: a binary column cannot hold terms"):
        recompute(text, frame.withColumn("object", frame["object"].cast("binary")))
    with pytest.raises(WindowError, match="no slide ends at 13; the previous one ends at 10"):
        recompute(text, frame, [13], window=Window(10))
    with pytest.raises(WindowError, match="windows by event count"):
        recompute(text, frame, window=Window.triples(3))
