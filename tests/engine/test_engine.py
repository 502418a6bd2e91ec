"""The engine's public surface: register, apply, snapshot, read, close."""

from __future__ import annotations

import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from tests.oracle.running_example import ANSWERS, EPOCHS, QUERY

from triegs.engine import Engine
from triegs.errors import InvalidUpdate, SnapshotExpired, StateError, UnsupportedQuery

EX = "<http://ex/{}>".format
KNOWS = "SELECT ?x ?y { ?x <http://ex/knows> ?y }"


def knows(*pairs, sign="+"):
    return [(sign, EX(a), EX("knows"), EX(b)) for a, b in pairs]


def rows(snapshot):
    return {tuple(answer): answer.multiplicity for answer in snapshot}


def read(query):
    with query.snapshot() as snapshot:
        return rows(snapshot)


def test_the_running_example():
    engine = Engine()
    replies = engine.register(QUERY, name="replies")
    held = []
    for epoch, expected in zip(EPOCHS, ANSWERS, strict=True):
        report = engine.apply(epoch)
        assert report.refused == ()
        assert read(replies) == expected
        held.append(replies.snapshot())
    # A reader that pinned t1 still reads 2.
    assert [rows(snapshot) for snapshot in held] == ANSWERS
    assert [snapshot.count() for snapshot in held] == [0, 2, 1]
    assert [s.epoch for s in held] == [held[0].epoch, held[0].epoch + 1, held[0].epoch + 2]


def test_a_refused_update_names_its_row():
    (refused,) = Engine().apply([*knows((1, 2)), *knows((3, 4), sign="-")]).refused
    assert (refused.row, refused.place) == (1, 1)


def test_a_query_registered_late_is_filled_from_the_graph():
    engine = Engine()
    engine.apply(knows("ab", "bc"))
    path = engine.register("SELECT ?x ?z { ?x <http://ex/knows> ?y . ?y <http://ex/knows> ?z }")
    assert read(path) == {(EX("a"), EX("c")): 1}


def test_reports_name_what_was_refused_and_why():
    engine = Engine()
    updates = [*knows("ab"), ("-", EX("z"), EX("p"), EX("z")), ("+", "no term", EX("p"), EX("o")),
               ("*", EX("a"), EX("p"), EX("o")), (1, 2, 3), *knows("bc")]  # fmt: skip
    query = engine.register(KNOWS)
    report = engine.apply(updates)
    assert [place for place, _ in report.refused] == [1, 2, 3, 4]
    assert "no live event" in report.refused[0].reason
    assert len(read(query)) == 2
    assert engine.metrics()["updates"] == 2
    with pytest.raises(InvalidUpdate):
        engine.apply([*knows("cd"), ("-", EX("z"), EX("p"), EX("z"))], strict=True)
    with pytest.raises(InvalidUpdate):
        engine.apply([*knows("cd"), ("+", "no term", EX("p"), EX("o"))], strict=True)
    assert len(read(query)) == 2


def test_terms_of_every_kind_come_back_as_they_went_in():
    engine = Engine()
    query = engine.register("SELECT ?o { ?s <http://ex/p> ?o }")
    terms = [
        '"hi"@en',
        '"01"^^<http://www.w3.org/2001/XMLSchema#integer>',
        "_:b",
        '"\\"\U0001f600"',
    ]
    engine.apply([("+", EX("s"), EX("p"), term) for term in [*terms, 5, True]])
    assert {answer.o for answer in query.snapshot()} == {
        *terms,
        '"5"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>',
    }


def test_updates_as_an_arrow_table():
    engine = Engine()
    query = engine.register("SELECT ?s ?o { ?s ?p ?o }")
    columns = {
        "op": ["+", "+", "-", "?", "+", "+"],
        "subject": [EX("a"), EX("b"), EX("z"), EX("a"), None, "no term"],
        "predicate": [EX("p")] * 6,
        "object": [1, 2, 3, 4, 5, 6],
    }
    report = engine.apply(pa.table(columns))
    assert [place for place, _ in report.refused] == [2, 3, 4, 5]
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert read(query) == {(EX("a"), one): 1, (EX("b"), one.replace("1", "2", 1)): 1}
    del columns["op"]
    columns |= {"subject": [EX("c")] * 6, "object": list(range(6))}
    engine.apply(pa.record_batch(columns))
    assert len(read(query)) == 8
    with pytest.raises(InvalidUpdate, match="object"):
        engine.apply(pa.table({"subject": [EX("a")], "predicate": [EX("p")]}))


def test_arrow():
    engine = Engine()
    query = engine.register("SELECT ?x ?gone ?multiplicity { ?x <http://ex/knows> ?multiplicity }")
    engine.apply(knows("ab", "ab", "ac"))
    with query.snapshot() as snapshot:
        table = snapshot.to_arrow()
        assert table.column_names == ["x", "gone", "multiplicity", "multiplicity_"]
        assert pa.types.is_dictionary(table.schema.field("x").type)
        found = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert found == [(EX("a"), None, EX("b"), 2), (EX("a"), None, EX("c"), 1)]
        assert pa.table(snapshot).to_pylist() == table.to_pylist()
        assert [batch.num_rows for batch in snapshot.batches(rows=1)] == [1, 1]
        assert (snapshot.count(), snapshot.support(), len(snapshot)) == (3, 2, 2)
    with engine.register("SELECT ?x { ?x <http://ex/nothing> ?y }").snapshot() as empty:
        assert empty.to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT DISTINCT ?x { ?x <http://ex/knows> ?y }", [1, 1]),
        ("SELECT ?x { ?x <http://ex/knows> ?y }", [1, 3]),
        ("SELECT ?x { ?x <http://ex/knows> ?y } LIMIT 2", None),
        ("ASK { ?x <http://ex/knows> ?y }", [1]),
        ("SELECT ?x { ?x <http://ex/knows> ?y . ?z <http://ex/knows> ?x FILTER(?x != ?z) }", [3]),
        ("SELECT ?x ?z { ?x <http://ex/knows> ?y . ?z <http://ex/knows> ?w FILTER(?x != ?z) }",
         [3, 3]),
        ("SELECT ?x { ?x <http://ex/knows> ?y VALUES ?y { <http://ex/b> <http://ex/b> } }", [4]),
    ],
)  # fmt: skip
def test_solution_modifiers(text, expected):
    engine = Engine()
    engine.apply(knows("ab", "ab", "ac", "da"))
    counts = sorted(read(engine.register(text)).values())
    assert counts == expected if expected is not None else sum(counts) == 2


def test_rdf_mode_counts_an_assertion_once_while_an_event_is_left():
    engine = Engine("rdf")
    query = engine.register(KNOWS)
    engine.apply(knows("ab", "ab"))
    assert read(query) == {(EX("a"), EX("b")): 1}
    engine.apply(knows("ab", sign="-"))
    assert read(query) == {(EX("a"), EX("b")): 1}
    engine.apply(knows("ab", sign="-"))
    assert read(query) == {}


def test_snapshots_expire_when_closed_and_memory_returns():
    engine = Engine()
    query = engine.register(KNOWS)
    engine.apply(knows("ab"))
    snapshot = query.snapshot()
    under_way = iter(snapshot)
    next(under_way)
    engine.apply(knows("ab", sign="-"))
    assert engine.metrics()["retained_bytes"] > 0
    assert len(engine.metrics()["pins"]) == 1
    snapshot.close()
    snapshot.close()
    assert engine.metrics()["retained_bytes"] == 0
    assert engine.metrics()["pins"] == []
    for use in (snapshot.count, snapshot.support, snapshot.to_arrow, lambda: list(snapshot)):
        with pytest.raises(SnapshotExpired):
            use()


def test_an_unclosed_snapshot_is_released_with_its_last_reference():
    engine = Engine()
    query = engine.register(KNOWS)
    query.snapshot()
    assert engine.metrics()["pins"] == []


def test_a_snapshot_held_at_exit_is_silent():
    program = (
        "from triegs.engine import Engine\n"
        "engine = Engine()\n"
        "query = engine.register('SELECT * { ?x <http://ex/p> ?y }')\n"
        "held = [query.snapshot()]\n"
        "for i in range(70): engine.apply([('+', i, '<http://ex/p>', i)])\n"
        "reading = iter(query.snapshot())\n"
        "print(next(reading).multiplicity)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_terms_are_freed_once_nobody_names_them():
    engine = Engine()
    query = engine.register(KNOWS)
    first = [(f"x{i}", f"y{i}") for i in range(50)]
    engine.apply(knows(*first))
    held = query.snapshot()
    engine.apply(knows(*first, sign="-"))
    for epoch in range(20):
        batch = [(f"a{epoch}_{i}", f"b{epoch}_{i}") for i in range(50)]
        engine.apply(knows(*batch))
        engine.apply(knows(*batch, sign="-"))
    engine.apply([])
    terms = engine.metrics()["terms"]
    assert terms["live"] == 1  # the query's own constant
    assert terms["held"] == 100  # what the snapshot still shows
    assert rows(held) == {(EX(a), EX(b)): 1 for a, b in first}
    held.close()
    engine.apply([])
    assert engine.metrics()["terms"]["held"] == 0
    engine.apply(knows("ab"))
    assert read(query) == {(EX("a"), EX("b")): 1}


def test_names_and_states():
    engine = Engine(prefixes={"ex": "http://ex/"})
    query = engine.register("SELECT * { ?x ex:knows ?y }", name="friends")
    assert list(engine.queries) == ["friends"]
    assert "Join tree" in query.explain()
    with pytest.raises(StateError, match="already"):
        engine.register(KNOWS, name="friends")
    query.close()
    query.close()
    with pytest.raises(StateError, match="closed"):
        query.snapshot()
    assert list(engine.queries) == []
    with pytest.raises(UnsupportedQuery, match="OPTIONAL"):
        engine.register("SELECT ?x { ?x ?p ?y OPTIONAL { ?y ?q ?z } }")
    with engine:
        pass
    with pytest.raises(StateError, match="the engine is closed"):
        engine.apply([])
    with pytest.raises(ValueError, match="nonsense"):
        Engine("nonsense")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [[], {}, None, 3, b"ASK { ?x ?p ?y }"])
def test_a_query_is_a_text(text):
    with pytest.raises(TypeError, match=f"a query is a str, not {type(text).__name__}"):
        Engine().register(text)


PLACES = ("http://one/", "http://two/")


def test_a_text_that_comes_again_is_read_with_its_own_prefixes():
    text = "SELECT ?y { 1 a:p ?y }"
    for place in PLACES:
        with Engine(prefixes={"a": place}) as engine:
            query = engine.register(text)
            engine.apply([("+", 1, f"<{each}p>", f"<{each}>") for each in PLACES])
            with query.snapshot() as snapshot:
                assert [row[0] for row in snapshot] == [f"<{place}>"]


def test_a_second_updater_gets_an_error():
    engine = Engine()
    started, go_on = threading.Event(), threading.Event()

    def slow():
        yield from knows("ab")
        started.set()
        go_on.wait(10)

    thread = threading.Thread(target=engine.apply, args=(slow(),))
    thread.start()
    started.wait(10)
    with pytest.raises(StateError, match="another thread"):
        engine.apply([])
    go_on.set()
    thread.join()
    engine.apply([])


def test_readers_see_whole_epochs_only():
    """One unit moves between two relations, so every epoch has the same total."""
    engine = Engine()
    query = engine.register("SELECT ?x ?y { ?x <http://ex/left> ?a . ?y <http://ex/right> ?b }")
    left, right = (
        [(EX("u"), EX(side), EX(f"o{i}")) for i in range(4)] for side in ("left", "right")
    )
    engine.apply([("+", *left[0]), ("+", *left[1]), ("+", *right[0]), ("+", *right[1])])
    stop = threading.Event()
    wrong: list = []

    def watch():
        while not stop.is_set():
            with query.snapshot() as snapshot:
                total = snapshot.count()
                if total != 4 or total != snapshot.count():
                    wrong.append(total)

    readers = [threading.Thread(target=watch) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(300):
        side = left if i % 2 else right
        old, new = side[(i // 2) % 4], side[(i // 2 + 2) % 4]
        engine.apply([("-", *old), ("+", *new)])
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert engine.metrics()["retained_bytes"] == 0
