"""Windows in query texts: answers against the oracle, and errors with positions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine, QueryError, UnsupportedQuery, Window, parse
from triegs.sparql.model import Operator, Output
from triegs.sparql.window import Bounds
from triegs.testing import oracle
from triegs.testing.window_oracle import Event, Shape, WindowOracle

EX = "<http://ex/{}>".format
RSP = """PREFIX : <http://ex/>
REGISTER ISTREAM :out AS
SELECT ?x ?z
FROM NAMED WINDOW :one ON STREAM :s1 [RANGE PT10S STEP PT5S]
FROM NAMED WINDOW :two ON :s2 [RANGE 30 STEP 10]
WHERE {
  ?z :name ?n .
  WINDOW :one { ?x :knows ?y . FILTER(?x != 3) }
  STREAM :s1 [NOW] { ?y ?r ?s }
  WINDOW :two { ?y :likes ?z . ?a ?p ?z }
}"""


def test_a_text_with_everything():
    query = parse(RSP)
    assert query.output == Output(Operator.ISTREAM, "<http://ex/out>")
    assert dict(query.windows) == {
        "<http://ex/one>": Window("10s", slide="5s", stream="http://ex/s1"),
        "<http://ex/two>": Window(30, slide=10, stream="http://ex/s2"),
        "window 3": Window.now(stream="http://ex/s1"),
    }
    read = dict(zip(query.atoms, query.graphs, strict=True))
    assert {atom.predicate: graph for atom, graph in read.items()} == {
        EX("name"): "", EX("knows"): EX("one"), "?r": "window 3", EX("likes"): EX("two"),
        "?p": EX("two"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Window("10s"), "[RANGE 10s]"), (Window("10s"), "[RANGE 10s TUMBLING]"),
        (Window("500ms", slide=100), "[range 500ms slide 100]"),
        (Window("1h", slide="1m"), "[RANGE PT1H STEP PT1M]"), (Window.now(), "[NOW]"),
        (Window.now(5), "[NOW SLIDE 5ms]"), (Window.triples(7), "[TRIPLES 7]"),
        (Window.triples(7), "[RANGE TRIPLES 7]"), (Window(500, slide=1), "[RANGE PT0.5S STEP 1]"),
        (Window.landmark("5s"), "[RANGE UNBOUNDED SLIDE 5s]"),
        (Window.landmark("5s"), "[ALL SLIDE 5s]"),
    ],
)  # fmt: skip
def test_forms_of_windows(window, text):
    query = parse(f"SELECT * FROM STREAM <http://ex/s> {text} {{ ?x ?p ?y }}")
    ((name, found),) = query.windows
    assert (name, found.stream) == ("", "http://ex/s")
    assert str(found) == str(window)
    # What it prints it also reads.
    again = parse(f"SELECT * FROM STREAM <http://ex/s> {window} {{ ?x ?p ?y }}")
    assert again.windows == query.windows


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        ("WINDOW :two {", "WINDOW :three {", 10, 10, "unknown window <http://ex/three>"),
        ("PT10S", "PT10X", 4, 45, "'PT10X' is not a duration"),
        ("STEP 10", "STEP 10 5", 5, 46, "'10 5' is not a duration"),
        ("STEP 10", "STEP", 5, 45, "expected a duration, found ']'"),
        ("[NOW]", "[THEN]", 9, 15, "a window cannot start with 'THEN'"),
        ("[NOW]", "NOW", 9, 14, "'[' and a window"),
        ("[NOW]", "[TRIPLES ?n]", 9, 23, "a number of triples"),
        ("[NOW]", "[TRIPLES 0]", 9, 15, "at least 1"),
        ("[NOW]", "[NOW NOW]", 9, 19, "unexpected 'NOW' in a window"),
        ("[RANGE 30 STEP 10]", "[RANGE UNBOUNDED]", 5, 47, "SLIDE"),
        ("ISTREAM", "XSTREAM", 2, 10, "after REGISTER"),
        (":out AS", ":out", 3, 1, "AS after REGISTER"),
        ("WINDOW :one {", "WINDOW ?w {", 8, 10, "the IRI of a window"),
        ("WINDOW :two {", "WINDOW :two", 10, 15, "'{' after a window"),
        ("?x :knows ?y", "WINDOW :two { ?x :knows ?y }", 8, 17, "inside another window"),
        (":two ON", ":one ON", 5, 19, "duplicate window <http://ex/one>"),
        ("ON :s2", "AT :s2", 5, 24, "ON after"),
        ("?z :name ?n", "?z :name WINDOW", 7, 12, "an object"),
        ("FROM NAMED WINDOW :two", "FROM NAMED :two", 5, 1, "FROM is not supported"),
    ],
)
def test_errors_have_positions(old, new, line, column, words):
    assert old in RSP
    with pytest.raises(QueryError) as caught:
        parse(RSP.replace(old, new))
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    assert words in str(caught.value)


def test_window_is_a_word_only_where_it_opens_a_block():
    assert parse("SELECT ?window { ?window <http://ex/STREAM> 'WINDOW' }").windows == ()
    with pytest.raises(UnsupportedQuery):
        parse("SELECT * FROM <http://ex/g> { ?x ?p ?y }")


# Answers

SHAPES = [
    Shape(width=10, slide=5, stream="http://ex/s"), Shape(width=3, slide=4, stream="http://ex/s"),
    Shape(last=2, stream="http://ex/t"),
]  # fmt: skip
WINDOWED = f"""SELECT ?x ?y ?z ?w ?v
FROM NAMED WINDOW {EX("w0")} ON STREAM {EX("s")} [RANGE 10 STEP 5]
{{ WINDOW {EX("w0")} {{ ?x {EX("p")} ?y }}
   STREAM {EX("s")} [RANGE 3 SLIDE 4] {{ ?y {EX("p")} ?z }}
   STREAM {EX("t")} [TRIPLES 2] {{ ?z {EX("p")} ?w }}
   ?w {EX("p")} ?v }}"""
# The same over one graph, in which each window has a label of its own.
JOINED = "SELECT ?x ?y ?z ?w ?v { ?x <w:0> ?y . ?y <w:1> ?z . ?z <w:2> ?w . ?w <w:3> ?v }"

nodes = st.integers(0, 1).map(EX)
events = st.lists(st.tuples(st.integers(0, 40), nodes, nodes, st.booleans()), max_size=25)


# A ring through all of them, with a label that any of the first window's may be.
RING = WINDOWED.replace("?v", "?x").replace("?x ?y ?z ?w ?x", "?x ?y ?z ?w")
RING = RING.replace(f"?x {EX('p')} ?y", "?x ?p ?y")
JOINED_RING = "SELECT ?x ?y ?z ?w { ?x <w:0> ?y . ?y <w:1> ?z . ?z <w:2> ?w . ?w <w:3> ?x }"


@pytest.mark.parametrize(
    ("text", "joined"), [(WINDOWED, JOINED), (RING, JOINED_RING)], ids=["path", "ring"]
)
@given(
    events, st.lists(st.tuples(nodes, nodes), max_size=3), st.sampled_from(["multigraph", "rdf"])
)
def test_several_windows_and_streams_in_one_query(text, joined, drawn, static, mode):
    engine = Engine(mode)
    query = engine.register(text)
    expected = WindowOracle(SHAPES)
    engine.apply([("+", s, EX("p"), o) for s, o in static])
    for stream in ("http://ex/s", "http://ex/t"):
        chosen = [(t, s, o) for t, s, o, is_s in drawn if is_s == (stream == "http://ex/s")]
        engine.push([(t, s, EX("p"), o) for t, s, o in chosen], stream)
        expected.push([Event(t, "+", (s, EX("p"), o)) for t, s, o in chosen], stream)
    for time in (7, 15, 16, 29, 45):
        published, moments = engine.advance(time), expected.advance(time)
        assert [p.time for p in published] == [m.time for m in moments]
        if not moments:
            continue
        counts: Counter[oracle.Triple] = Counter()
        for number, held in enumerate([*moments[-1].held, Counter((s, "", o) for s, o in static)]):
            counts.update({(s, f"<w:{number}>", o): n for (s, _, o), n in held.items()})
        with query.snapshot() as snapshot:
            found = {tuple(answer): answer.multiplicity for answer in snapshot}
        assert found == oracle.answers(joined, counts, mode)


@given(
    st.lists(st.tuples(st.integers(0, 60), nodes, nodes), min_size=1, max_size=25),
    st.integers(1, 20), st.integers(1, 12), st.booleans(), st.integers(0, 40),
)  # fmt: skip
def test_a_late_query_is_as_one_that_was_there(drawn, width, slide, at_start, when):
    bounds = Bounds.START if at_start else Bounds.END
    window = Window(width, slide=slide, bounds=bounds)
    engine = Engine(window=Window.landmark(1))  # which keeps everything
    text = f"SELECT ?x ?y {{ ?x {EX('p')} ?y }}"
    early = engine.register(text, window=window)
    engine.push([(t, s, EX("p"), o) for t, s, o in drawn])
    engine.advance(when)
    late = engine.register(text, window=window)
    alone = engine.register(text, window=Window(width, slide=slide, bounds=bounds, start=slide))
    for time in (None, 45, 50, 80):
        if time is not None:
            engine.advance(time)
        if time is None and engine.metrics()["windows"]["retained"] == 0:
            continue  # nothing was published yet
        results = []
        for query in (early, late, alone):
            with query.snapshot() as snapshot:
                results.append({tuple(a): a.multiplicity for a in snapshot})
        assert results[0] == results[1] == results[2]
