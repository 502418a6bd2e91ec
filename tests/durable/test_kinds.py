"""Queries, terms and inputs of every kind: a reopened engine shows the same, now and later."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.durable.play import look

from triegs import Engine, MemoryLimitReached, MultiplicityOverflow, Window
from triegs.explain import explain

P = "<http://ex/{}>".format
PREFIXES = {"": "http://ex/"}
EDGES = [
    (P("a"), P("p"), P("b")),
    (P("a"), P("p"), P("c")),
    (P("b"), P("q"), P("d")),
    (P("c"), P("q"), P("d")),
    (P("c"), P("q"), 5),
    (P("d"), P("p"), P("c")),
    (7, P("p"), P("b")),
]
MORE = [(P("e"), P("p"), P("b")), (P("b"), P("q"), 9), (P("a"), P("r"), P("a"))]
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("SELECT ?x ?y { ?x :p ?y . ?y :q ?z }", {}),
    "count": ("SELECT ?x ?y { ?x :p ?y . ?y :q ?z }", {"keep": ["count"]}),
    "slice": ("SELECT ?x ?y ?z { ?x :p ?y . ?y :q ?z }", {"keep": ["count", "slice"]}),
    "root": ("SELECT ?x ?y { ?x :p ?y . ?y :q ?z }", {"root": "y"}),
    "distinct": ("SELECT DISTINCT ?x { ?x :p ?y . ?y :q ?z }", {}),
    "limit": ("SELECT ?x ?y { ?x :p ?y } LIMIT 2 OFFSET 1", {}),
    "values": ("SELECT ?x ?y { VALUES ?x { :a 7 } ?x :p ?y }", {}),
    "filter": ("SELECT ?x ?y { ?x :q ?y FILTER(?y = 5) }", {}),
    "predicate": ("SELECT ?x ?l ?y { ?x ?l ?y }", {}),
    "constant": ("SELECT ?y { :a :p ?y . ?y ?l :d }", {}),
    "self": ("SELECT ?x { ?x ?l ?x }", {}),
    "ask": ("ASK { ?x :p ?y }", {}),
    "prefix": ("PREFIX e: <http://ex/> SELECT ?x { ?x e:q 5 }", {}),
}


def show(engine: Engine) -> Any:
    found: dict[str, Any] = {}
    for name, query in engine.queries.items():
        with query.snapshot() as snapshot:
            rows = [(tuple(row), row.multiplicity) for row in snapshot]
            if query.query.limit is not None:  # any rows, so many
                rows = [((), sum(number for _, number in rows))]
            found[name] = sorted(rows, key=str)
            if "count" in query._source.keep:
                found[name] += [snapshot.count(), snapshot.support()]
    return look(engine)[0], look(engine)[2:], found


def check(
    home: Path, begin: Callable[[Engine], object], go_on: Callable[[Engine], object], **options: Any
) -> None:
    """The same from the log alone, from a checkpoint, and from a checkpoint and the log."""
    options["prefixes"] = PREFIXES
    with Engine(**options) as engine:
        begin(engine)
        middle = show(engine)
        go_on(engine)
        end = show(engine)
    for way in ("log", "checkpoint", "both"):
        directory = home / way
        with Engine.open(directory, **options) as engine:
            begin(engine)
            if way != "log":
                engine.checkpoint()
            assert show(engine) == middle
            if way == "both":
                go_on(engine)
        if way == "both":
            with Engine.open(directory) as engine:
                assert show(engine) == end, way
            continue
        # Without prefixes: those of each query are kept with it.
        with Engine.open(directory) as engine:
            assert show(engine) == middle, way
            go_on(engine)
            assert show(engine) == end, way


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_queries_of_every_kind(tmp_path, mode):
    def begin(engine: Engine) -> None:
        for name, (text, options) in list(QUERIES.items())[::2]:
            engine.register(text, name, **options)
        engine.apply([("+", *edge) for edge in EDGES + EDGES[:3]])
        for name, (text, options) in list(QUERIES.items())[1::2]:
            engine.register(text, name, **options)
        engine.register("SELECT ?x { ?x <http://ex/p> ?y }")

    def go_on(engine: Engine) -> None:
        engine.apply([*(("+", *edge) for edge in MORE), ("-", *EDGES[0]), ("-", *EDGES[4])])
        engine.queries["values"].close()

    check(tmp_path, begin, go_on, mode=mode)


def test_plans_are_the_same(tmp_path):
    with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
        for name, (text, options) in QUERIES.items():
            engine.register(text, name, **options)
        plans = {name: explain(query.plan) for name, query in engine.queries.items()}
        engine.checkpoint()
    with Engine.open(tmp_path) as engine:
        assert {name: explain(query.plan) for name, query in engine.queries.items()} == plans


BIG = 10**40
TERMS: list[Any] = [
    0, -1, 2**62, -(2**63), 2**63, BIG, -BIG, 1.5, float("nan"), float("inf"), True, "",
    '"plain"', '"text"@en', '"text"@en-GB', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"01"^^<http://www.w3.org/2001/XMLSchema#integer>', '"1.50"^^<http://ex/decimal>',
    '"NaN"^^<http://www.w3.org/2001/XMLSchema#double>', '"ünïcödé \U0001f600 \\n\\t\\"q\\""',
    "<http://ex/ü>", "_:b1", '"' + "long " * 5000 + '"', '"\\u0000"',
    '"2020-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
]  # fmt: skip


def test_terms_of_every_kind(tmp_path):
    def begin(engine: Engine) -> None:
        engine.register("SELECT ?x ?y { ?x :p ?y }", "all")
        engine.apply([("+", number, P("p"), term) for number, term in enumerate(TERMS)])

    def go_on(engine: Engine) -> None:
        engine.apply([("-", number, P("p"), term) for number, term in enumerate(TERMS)][::2])
        engine.apply([("+", P("again"), P("p"), term) for term in TERMS])

    check(tmp_path, begin, go_on)


def test_blank_nodes_of_files(tmp_path):
    text = b"_:a <http://ex/p> _:b . _:b <http://ex/q> [] . <http://ex/s> <http://ex/p> _:a ."
    with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
        engine.register("SELECT ?x ?z { ?x :p ?y . ?y :q ?z }", "path")
        engine.register("SELECT ?x ?y { ?x ?p ?y }", "all")
        engine.load(BytesIO(text), format="turtle")
        engine.checkpoint()
        engine.load(BytesIO(text), format="turtle")
        seen = show(engine)
    with Engine.open(tmp_path) as engine:
        assert show(engine) == seen
        # The nodes of another file are others, also now.
        engine.load(BytesIO(text), format="turtle")
        with engine.queries["path"].snapshot() as snapshot:
            assert [row.multiplicity for row in snapshot] == [1, 1, 1]
        with engine.queries["all"].snapshot() as snapshot:
            assert len(snapshot) == 9


def test_windows_of_texts_and_several_streams(tmp_path):
    texts = {
        "rsp": "SELECT ?x ?n FROM NAMED WINDOW :w ON STREAM :s1 [RANGE 10 STEP 5] "
        "WHERE { ?x :name ?n . WINDOW :w { ?x :p ?y } }",
        "two": "SELECT ?x ?y FROM NAMED WINDOW :w ON STREAM :s1 [RANGE 10 STEP 5] "
        "FROM NAMED WINDOW :v ON STREAM :s2 [RANGE 20 STEP 10] "
        "WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?y :q ?z } }",
        "cqels": "SELECT ?x { STREAM :s2 [RANGE 30 SLIDE 10] { ?x :q ?y } }",
        "last": "SELECT ?x { STREAM :s2 [TRIPLES 2] { ?x :q ?y } }",
    }

    def begin(engine: Engine) -> None:
        for name, text in texts.items():
            engine.register(text, name)
        engine.register("SELECT ?x { ?x :p ?y }", "own", window=Window(6, 3, stream="http://ex/s1"))
        engine.register("SELECT ?x { ?x :name ?y }", "static")
        engine.apply([("+", P(n), P("name"), f'"{n}"') for n in "abc"])
        for time in range(0, 24, 2):
            engine.push([(time, P("abc"[time % 3]), P("p"), time % 4)], "http://ex/s1")
            engine.push([(time + 1, time % 4, P("q"), P("x"))], "http://ex/s2")
        engine.advance(17, "http://ex/s1")
        engine.advance(13, "http://ex/s2")
        engine.queries["own"].close()

    def go_on(engine: Engine) -> None:
        engine.push([(25, P("a"), P("p"), 3), (12, P("a"), P("p"), 3)], "http://ex/s1")
        engine.apply([("-", P("a"), P("name"), '"a"')])
        engine.advance(22)
        engine.close_stream()

    check(tmp_path, begin, go_on)


def test_streams_keep_their_order(tmp_path):
    """Which of two events of one time comes first is the order of the streams."""
    text = "SELECT ?x {{ STREAM :{} [TRIPLES 1] {{ ?x :p ?y }} }}".format

    def begin(engine: Engine) -> None:
        engine.register(text("s1"), "first")
        engine.register(text("s2"), "second")
        engine.register(text("s1") + " LIMIT 9", "third")
        engine.queries["first"].close()

    seen: list[Any] = []

    def go_on(engine: Engine) -> None:
        engine.push([(1, P("a"), P("p"), 1)], "http://ex/s1")
        engine.push([(1, P("b"), P("p"), 1)], "http://ex/s2")
        seen.append([(published, show(engine)[2]) for published in engine.each_slide(5)])

    check(tmp_path, begin, go_on)
    assert len(seen[0]) == 2
    assert all(steps == seen[0] for steps in seen), seen


def test_windows_that_nobody_reads_any_more(tmp_path):
    def begin(engine: Engine) -> None:
        engine.register("SELECT ?x { ?x :p ?y }", "w", window=Window(10, 5))
        engine.register("SELECT ?x { STREAM :s [RANGE 10] { ?x :p ?y } }", "s")
        engine.push([(1, 1, P("p"), 1)])
        engine.push([(1, 1, P("p"), 1)], "http://ex/s")
        engine.advance(7)
        engine.queries["w"].close()
        engine.queries["s"].close()

    def go_on(engine: Engine) -> None:
        engine.register("SELECT ?x { ?x <http://ex/p> ?y }", "w", window=Window(10, 5))
        engine.push([(9, 1, P("p"), 1), (2, 1, P("p"), 1)])
        engine.close_stream()

    check(tmp_path, begin, go_on)


def test_windows_that_found_no_room_to_be_dropped(tmp_path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise MemoryLimitReached("planted")

    with Engine.open(tmp_path) as engine:
        for name in "ab":
            window = Window(10, 5, stream=f"http://ex/{name}")
            engine.register("SELECT ?x { ?x <a:p> ?y }", name, window=window)
            engine.push([(1, 1, "<a:p>", 1)], f"http://ex/{name}")
        engine.register("SELECT ?x { ?x <a:p> ?y }", "c", window=Window(8, stream="http://ex/b"))
        engine.advance(7)
        with monkeypatch.context() as patch:
            patch.setattr(engine._core, "apply", refuse)
            engine.queries["a"].close()
            engine.queries["b"].close()
        engine.checkpoint()
        seen = show(engine)
        assert engine.metrics()["windows"]["retained"] == 2
    with Engine.open(tmp_path) as engine:
        assert show(engine)[2] == seen[2]
        assert list(engine._windows.streams) == ["http://ex/b"]
        engine.close_stream()


def test_too_little_memory_loses_nothing(tmp_path):
    with Engine.open(tmp_path) as engine:
        engine.register("SELECT ?x ?y { ?x <a:p> ?y }", "all")
        for part in range(4):
            rows = [("+", number, "<a:p>", part) for number in range(20_000)]
            engine.apply(rows)
            if part == 2:
                engine.checkpoint()
        seen = show(engine)
    for _ in range(2):
        with pytest.raises(MemoryLimitReached, match="no room under 1,048,576 bytes"):
            Engine.open(tmp_path, memory_limit=1 << 20)
    with Engine.open(tmp_path) as engine:
        assert show(engine) == seen


@pytest.mark.parametrize("is_kept", [True, False], ids=["checkpoint", "log"])
def test_a_query_that_is_stalled(tmp_path, is_kept):
    many = [("+", 1, f"<a:p{number}>", 1) for number in range(4)]
    parts = " . ".join(f"?x <a:p{number}> ?y{number}" for number in range(4))
    text = f"SELECT ?k {{ ?k <a:k> ?x . {parts} }}"

    def fill(engine: Engine) -> None:
        import pyarrow as pa

        rows = 70_000
        for _, subject, predicate, obj in many:
            table = {"subject": [subject] * rows, "predicate": [predicate] * rows}
            engine.apply(pa.table({**table, "object": [obj] * rows}))

    with Engine.open(tmp_path) as engine:
        engine.register(text, "many", root="k")
        engine.register("SELECT ?x { ?x <a:p0> ?y }", "few")
        engine.apply([*many, ("+", 2, "<a:k>", 1)])
        fill(engine)
        assert engine.metrics()["stalled"] == ["many"]
        if is_kept:
            engine.checkpoint()
        epoch = engine.epoch
    with Engine.open(tmp_path) as engine:
        assert engine.epoch == epoch
        assert engine.metrics()["stalled"] == ["many"]
        with engine.queries["few"].snapshot() as snapshot:
            assert [row.multiplicity for row in snapshot] == [70_001]
        # It recovers once its counts fit again.
        for number in range(2):
            engine.apply([("-", 1, f"<a:p{number}>", 1)] * 70_000)
        assert engine.metrics()["stalled"] == []
        with engine.queries["many"].snapshot() as snapshot:
            assert [row.multiplicity for row in snapshot] == [70_001**2]


@pytest.mark.parametrize("is_held", [True, False])
def test_epochs_of_a_refused_query(tmp_path, is_held):
    """Filling the window of a query published epochs before its counts did not fit."""
    many = " . ".join(["?x <a:p> ?y"] * 64)
    with Engine.open(tmp_path, window=Window(10)) as engine:
        engine.push([(time, 1, "<a:p>", 2) for time in (1, 2, 3)])
        engine.advance(10)
        engine.note({"line": 1})
        before = engine.epoch
        with pytest.raises(MultiplicityOverflow):
            engine.register(f"SELECT ?x {{ {many} }}", "many", window=Window(20, 10))
        assert engine.epoch > before
        assert not engine.positions
        if is_held:
            engine.hold("kept")
            engine.apply([("+", 1, "<a:p>", 2)])
        epoch, holds, positions = engine.epoch, dict(engine.holds), dict(engine.positions)
    with Engine.open(tmp_path) as engine:
        assert (engine.epoch, engine.holds, engine.positions) == (epoch, holds, positions)
