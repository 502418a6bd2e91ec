"""ORDER BY: against the oracle, the reference and pyoxigraph; selection against sorting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine, StateError, Window
from triegs.read import rows
from triegs.read.ordering import RowOrder, select_first
from triegs.sparql import parse
from triegs.sparql.model import Direction, OrderKey
from triegs.sparql.term_order import FEW, order_key, rank_terms, total_key
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import XSD, literal
from triegs.testing import oracle, oracle_terms
from triegs.testing.reference import solutions

PREFIXES = {"": "http://ex/"}
P = "<http://ex/p>"
pytestmark = pytest.mark.filterwarnings("ignore::triegs.QueryWarning")
TIMES = ("2024-02-29T10:00:00Z", "2024-05-01T10:00:00.25+02:00", "2024-05-01T08:00:00.25Z")


def typed(lexical: object, datatype: str) -> str:
    return literal(str(lexical), XSD + datatype)


#: Equal values in several spellings and types, and neighbours that doubles do not distinguish.
NUMBERS = [
    *(typed(n, "integer") for n in (-7, 0, 1, 2, 10, "01", 2**53, 2**53 + 1, -(2**63), 10**30)),
    *(typed(n, "decimal") for n in ("0.1", "0.10", "1.0", "-2.5", "9007199254740993.0")),
    *(typed(n, "double") for n in ("0.1", "1e0", "-0.0", "9007199254740992", "1e300")),
    *(typed(n, "double") for n in ("INF", "-INF", "NaN")),
    *(typed(n, "float") for n in ("0.1", "2", "NaN")),
]
MOMENTS = [
    *(typed(t, "dateTime") for t in TIMES),
    *(typed(t, "dateTime") for t in ("2024-05-01T08:00:00.2500001Z", "1969-01-01T00:00:00")),
    *(typed(d, "date") for d in ("2024-05-01", "2023-12-31")),
]
STRINGS = [literal(t) for t in ("", "a", "a!", "ab", "b", "é", "z", "\U0001f600", "\ufffd")]
ESCAPED = [literal('a"b'), literal("a\nb"), literal("a\\")]
TAGGED = [literal("a", language="en"), literal("b", language="de"), literal("a", language="de")]
IRIS = ["<http://ex/a>", "<http://ex/a!>", "<http://ex/ab>", "<http://ex/b>", "<urn:x>"]
BLANKS = ["_:b", "_:b1", "_:a"]
BOOLEANS = [typed(b, "boolean") for b in ("true", "false")]
ODD = [literal("5", "http://ex/t"), literal("4", "http://ex/t"), typed("five", "integer")]
TERMS = [*NUMBERS, *MOMENTS, *STRINGS, *ESCAPED, *TAGGED, *IRIS, *BLANKS, *BOOLEANS, *ODD]
#: Kinds whose members `<` orders, as far as they differ in value.
KINDS = {
    # In pyoxigraph numbers are stored as values, and integers have 64 bits.
    "numbers": [typed(n, "integer") for n in (-7, 0, 1, 2, 10, 2**53, -(2**63))]
    + [typed(n, kind) for n in ("-2.5", "0.5", "1.0", "7") for kind in ("decimal", "double")]
    + [typed(n, "double") for n in ("INF", "-INF", "1e300", "-0.0")],
    "times": [typed(t, "dateTime") for t in TIMES],
    "strings": STRINGS,
    "nodes": [*IRIS, *BLANKS],
    "numbers and nodes": [*(typed(n, "integer") for n in range(-3, 12)), *IRIS, *BLANKS],
}

Updates = list[tuple[str, str, str, str]]


def updates_of(
    objects: Sequence[str], subjects: int = 4, most: int = 30
) -> st.SearchStrategy[Updates]:
    subject = st.integers(0, subjects - 1).map(lambda n: f"<http://ex/s{n}>")
    return st.lists(
        st.tuples(st.just("+"), subject, st.just(P), st.sampled_from(objects)), max_size=most
    )


def read(text: str, updates: Updates, **options: Any) -> list[tuple[tuple[str | None, ...], int]]:
    """The rows of a snapshot in order, each with its multiplicity."""
    with Engine(prefixes=PREFIXES, **options) as engine:
        query = engine.register(text)
        engine.apply(updates)
        with query.snapshot() as snapshot:
            return [(tuple(answer), answer.multiplicity) for answer in snapshot]


def with_prefix(text: str) -> str:
    return f"PREFIX : <http://ex/> {text}"


# The order of terms


@given(st.lists(st.sampled_from(TERMS), min_size=1, max_size=60, unique=True))
def test_ranks_are_those_of_the_keys(terms: list[str]) -> None:
    words = Dictionary()
    ids = np.array(words.encode_terms(terms))
    # The dictionary has one id for several spellings of a term.
    spelt = [words.decode_one(i) for i in ids.tolist()]
    ranks = rank_terms(words.read_terms(ids)).tolist()
    keys = [order_key(term) for term in spelt]
    for rank, key in zip(ranks, keys, strict=True):
        assert [r < rank for r in ranks] == [k < key for k in keys]
        assert [r == rank for r in ranks] == [k == key for k in keys]


def test_ranks_of_few_and_of_many_terms_agree() -> None:
    words = Dictionary()
    ids = np.array(words.encode_terms(TERMS))
    ranks = rank_terms(words.read_terms(ids))
    assert len(ids) > 2 * FEW
    for start in range(len(ids) - FEW):
        few = rank_terms(words.read_terms(ids[start : start + FEW]))
        assert (np.argsort(few, kind="stable")
                == np.argsort(ranks[start : start + FEW], kind="stable")).all()  # fmt: skip


def test_the_kinds_of_terms_have_an_order() -> None:
    kinds: list[Sequence[str | None]] = [
        [None], BLANKS, IRIS, [typed("NaN", "double")], [typed("-INF", "double")],
        [typed(2, "integer")], [typed("2.5", "decimal")], [typed("INF", "float")],
        [typed("2024-05-01", "date")], [typed("1999-05-01T00:00:00Z", "dateTime")], STRINGS,
        TAGGED, [typed("false", "boolean")], [typed("true", "boolean")], ODD,
    ]  # fmt: skip
    for before, after in pairwise(kinds):
        assert max(map(order_key, before)) < min(map(order_key, after))


def test_oracle_and_reference_have_the_same_order() -> None:
    terms = [term for term in TERMS if "2500001Z" not in term]  # more digits than Python's times
    assert sorted(terms, key=total_key) == sorted(
        terms, key=lambda each: (oracle_terms.order_key(oracle_terms.term(each)), each)
    )


# Sorting and selecting


@given(
    st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12), st.integers(1, 4)), max_size=60),
    st.integers(0, 70), st.integers(1, 9), st.sampled_from(list(Direction)),
)  # fmt: skip
def test_selection_is_sorting_and_cutting(
    found: list[tuple[int, int, int]], most: int, size: int, direction: Direction
) -> None:
    words = Dictionary()
    words.encode_terms([*NUMBERS[:8], *STRINGS[:5]])
    distinct = list({row[:2]: row for row in found}.values())
    table = np.array(distinct, np.int64).reshape(-1, 3).T
    order = RowOrder([OrderKey("?y", direction)], ["?x", "?y"], [words.decoder().load] * 2, 2)
    ids, counts = order.sort(table[:2], table[2])

    def decode(i: int) -> str | None:
        return None if i < 0 else words.decode_one(i)

    expected = sorted(
        distinct, key=lambda row: (total_key(decode(row[0])), total_key(decode(row[1])))
    )
    expected.sort(
        key=lambda row: order_key(decode(row[1])), reverse=direction is Direction.DESCENDING
    )
    assert [*zip(*ids.tolist(), counts.tolist(), strict=True)] == expected
    parts = [
        (table[:2, i : i + size], table[2, i : i + size]) for i in range(0, len(distinct), size)
    ]
    if most:
        selected = select_first(order, iter(parts), most)
        assert (selected is None) == (not distinct)
        if selected is not None:
            assert selected[0].tolist() == ids[:, :most].tolist()
            assert selected[1].tolist() == counts[:most].tolist()


@given(updates_of(TERMS), st.integers(0, 40), st.integers(0, 40), st.sampled_from(["", "DESC"]))
def test_limit_is_sorting_and_cutting(
    updates: Updates, limit: int, offset: int, direction: str
) -> None:
    text = f"SELECT ?x ?y {{ ?x :p ?y }} ORDER BY {direction}(?y)"
    whole = [row for row, count in read(text, updates) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BATCH_ROWS", 5)
        cut = read(f"{text} LIMIT {limit} OFFSET {offset}", updates)
        late = read(f"{text} OFFSET {offset}", updates)
    assert [row for row, count in cut for _ in range(count)] == whole[offset : offset + limit]
    assert [row for row, count in late for _ in range(count)] == whole[offset:]


@pytest.mark.parametrize(("direction", "step"), [("ASC", 1), ("DESC", -1)])
def test_extreme_integers(direction: str, step: int) -> None:
    values = [-(2**63), -(2**63) + 1, -1, 0, 2**53, 2**53 + 1, 2**63 - 1]
    updates = [("+", "<http://ex/a>", P, typed(n, "integer")) for n in values[::2] + values[1::2]]
    for cut in ("", "LIMIT 3"):
        found = read(f"SELECT ?y {{ ?x :p ?y }} ORDER BY {direction}(?y) {cut}", updates)
        expected = [(typed(n, "integer"),) for n in values[::step]]
        assert [row for row, _ in found] == expected[: 3 if cut else None]


# Judges

PLAIN = [
    "SELECT ?x ?y { ?x :p ?y } ORDER BY ?y",
    "SELECT ?y ?x { ?x :p ?y } ORDER BY DESC(?y) ?x",
    "SELECT ?x ?y { ?x :p ?y } ORDER BY ?x DESC(?y) LIMIT 7 OFFSET 2",
    "SELECT * { ?x :p ?y } ORDER BY ASC(?y) DESC(?x) LIMIT 5",
    "SELECT DISTINCT ?y { ?x :p ?y } ORDER BY DESC(?y) LIMIT 3",
    "SELECT ?x ?y { ?x :p ?y FILTER(!ISBLANK(?y)) } ORDER BY STR(?y) LIMIT 9",
    "SELECT ?x ?y { ?x :p ?y } ORDER BY (?y + 1) DESC(ISIRI(?y))",
    "SELECT ?x ?y ?z { ?x :p ?y . ?x :p ?z FILTER(?y != ?z) } ORDER BY DESC(?z) ?y LIMIT 6",
    "SELECT ?x ?gone { ?x :p ?y } ORDER BY ?gone DESC(?x)",
]
GROUPED = [
    "SELECT ?x (COUNT(?y) AS ?n) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?n) LIMIT 2",
    "SELECT ?x (SUM(?y) AS ?s) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?s) ?x LIMIT 3",
    "SELECT ?x { ?x :p ?y } GROUP BY ?x ORDER BY DESC(COUNT(*)) LIMIT 2",
    "SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x ORDER BY SUM(?y) DESC(COUNT(*) + 1)",
    "SELECT (COUNT(*) AS ?n) ?y { ?x :p ?y } GROUP BY ?y ORDER BY ?n DESC(?y) OFFSET 1",
    "SELECT (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?n)",
    "SELECT (COUNT(*) AS ?n) { ?x :p ?y } ORDER BY SUM(?y)",
]


#: The oracle reads times with Python, and compares unknown datatypes otherwise.
JUDGED = [term for term in TERMS if "2500001Z" not in term and term not in ODD]


@given(updates_of(JUDGED, most=14), st.sampled_from(PLAIN), st.sampled_from(["multigraph", "rdf"]))
def test_snapshots_equal_the_oracle(updates: Updates, text: str, mode: str) -> None:
    assert read(text, updates, mode=mode) == list(
        oracle.answers(with_prefix(text), updates, mode).items()
    )


@given(updates_of([typed(n, "integer") for n in range(-3, 9)], most=14), st.sampled_from(GROUPED))
def test_groups_equal_the_oracle(updates: Updates, text: str) -> None:
    assert read(text, updates) == list(oracle.answers(with_prefix(text), updates).items())


#: The least integer overflows a sum, which then stalls.
SUMMED = [term for term in TERMS if str(2**63) not in term]


@given(updates_of(SUMMED), st.sampled_from([*PLAIN, *GROUPED]))
def test_snapshots_equal_the_reference(updates: Updates, text: str) -> None:
    triples = [update[1:] for update in updates]
    expected = solutions(parse(text, PREFIXES), triples, "multigraph")
    assert read(text, updates) == list(expected.items())


@given(st.data(), st.sampled_from(sorted(KINDS)), st.sampled_from(["ASC", "DESC"]))
def test_pyoxigraph_sorts_alike(data: st.DataObject, kind: str, direction: str) -> None:
    """Up to ties, in which its order is any, and to the spelling of numbers."""
    text = f"SELECT ?x ?y {{ ?x :p ?y }} ORDER BY {direction}(?y)"
    updates = data.draw(updates_of(KINDS[kind]))
    store = ox.Store()
    for _, subject, predicate, value in updates:
        store.add(ox.Quad(*map(to_oxigraph, (subject, predicate, value))))
    solved: Any = store.query(with_prefix(text))
    judged = [(str(row[0]), order_key(str(row[1]))) for row in solved]
    found = [(str(row[0]), order_key(row[1])) for row, _ in read(text, updates, mode="rdf")]
    assert [key for _, key in found] == [key for _, key in judged]
    assert set(found) == set(judged)


def to_oxigraph(term: str) -> Any:
    if term.startswith("<"):
        return ox.NamedNode(term[1:-1])
    if term.startswith("_:"):
        return ox.BlankNode(term[2:])
    lexical, _, datatype = term[1:].rpartition('"')
    return ox.Literal(lexical, datatype=ox.NamedNode(datatype[3:-1]) if datatype else None)


# Reading

LIKES: Updates = [
    ("+", f"<http://ex/s{n % 5}>", P, typed(n * 7 % 11, "integer")) for n in range(40)
]
TOP = "SELECT ?x (SUM(?y) AS ?s) { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?s) LIMIT 3"


@pytest.mark.parametrize("keep", [(), ("count",), ("slice",), ("count", "slice")])
@pytest.mark.parametrize("cut", ["", "LIMIT 9 OFFSET 4"])
def test_positions_follow_the_order(keep: tuple[str, ...], cut: str) -> None:
    text = f"SELECT ?x ?y {{ ?x :p ?y }} ORDER BY DESC(?y) ?x {cut}"
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register(text, keep=list(keep))  # type: ignore[arg-type]
        engine.apply(LIKES)
        with query.snapshot() as snap:
            whole = [(tuple(each), each.multiplicity) for each in snap]
            size = len(whole)
            assert len(snap) == size == snap.support()
            assert snap.count() == sum(count for _, count in whole)
            assert [(tuple(snap[i]), snap[i].multiplicity) for i in range(size)] == whole
            assert tuple(snap[-1]) == whole[-1][0]
            assert [tuple(each) for each in snap[2:7]] == [row for row, _ in whole[2:7]]
            assert [tuple(each) for each in snap[7:2:-2]] == [row for row, _ in whole[7:2:-2]]
            parts = [tuple(each) for part in snap.split(3) for each in part]
            assert parts == [row for row, _ in whole]
            picks = np.random.default_rng(5).integers(size, size=20)
            sample = [tuple(each) for each in snap.sample(20, seed=5)]
            assert sample == [whole[i][0] for i in picks]
            expanded = [row for row, count in whole for _ in range(count)]
            picks = np.random.default_rng(5).integers(len(expanded), size=20)
            sample = [tuple(each) for each in snap.sample(20, weighted=True, seed=5)]
            assert sample == [expanded[i] for i in picks]


def test_every_output_has_the_order() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register("SELECT ?y { ?x :p ?y } ORDER BY DESC(?y)")
        engine.apply(LIKES)
        with query.snapshot() as snap:
            values = [answer.y for answer in snap.answers("python")]
            assert values == list(range(10, -1, -1))
            for terms in ("python", "plain"):
                assert snap.to_arrow(terms)["y"].to_pylist() == values
            assert [b["y"].to_pylist() for b in snap.batches(4, "python")] == [
                [10, 9, 8, 7], [6, 5, 4, 3], [2, 1, 0],
            ]  # fmt: skip
            rows = json.loads(snap.to_sparql())["results"]["bindings"]
            lexical = [int(row["y"]["value"]) for row in rows]
            assert len(lexical) == 40
            assert lexical == sorted(lexical, reverse=True)
            assert "10" in snap._repr_html_()


def test_large_results_are_sorted_over_batches() -> None:
    updates: Updates = [
        ("+", f"<http://ex/s{n % 97}>", P, typed(n * 7919 % 3001, "integer")) for n in range(3000)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BATCH_ROWS", 256)
        patch.setattr(rows, "MOST_CACHED", 100)
        for cut in ("", "LIMIT 50", "LIMIT 1000 OFFSET 700"):
            text = f"SELECT ?x ?y {{ ?x :p ?y }} ORDER BY DESC(?x) ?y {cut}"
            expected = solutions(parse(text, PREFIXES), [u[1:] for u in updates], "multigraph")
            assert read(text, updates) == list(expected.items())


def test_groups_stay_sorted_as_they_change() -> None:
    hidden = "SELECT ?x { ?x :p ?y } GROUP BY ?x ORDER BY DESC(SUM(?y)) LIMIT 3"
    with Engine(prefixes=PREFIXES) as engine:
        queries = [engine.register(TOP), engine.register(hidden)]
        seen: Updates = []
        for start in range(0, 40, 8):
            batch = LIKES[start : start + 8]
            removed = [("-", *update[1:]) for update in seen[:3]]
            seen = seen[3:] + batch
            engine.apply([*removed, *batch])
            for query in queries:
                expected = solutions(query.query, [u[1:] for u in seen], "multigraph")
                with query.snapshot() as snap:
                    assert [tuple(answer) for answer in snap] == list(expected)


def test_a_group_without_a_value_comes_first_and_last() -> None:
    updates: Updates = [
        ("+", "<http://ex/a>", P, typed(3, "integer")), ("+", "<http://ex/b>", P, '"x"'),
        ("+", "<http://ex/c>", P, typed(-3, "integer")),
    ]  # fmt: skip
    for direction, expected in (("ASC", "bca"), ("DESC", "acb")):
        text = f"SELECT ?x (SUM(?y) AS ?s) {{ ?x :p ?y }} GROUP BY ?x ORDER BY {direction}(?s)"
        found = read(text, updates)
        assert "".join(str(row[0])[-2] for row, _ in found) == expected


def test_changes_ignore_the_order_and_refuse_limits() -> None:
    with Engine(prefixes=PREFIXES, retain_epochs=3) as engine:
        query = engine.register("SELECT ?x { ?x :p ?y } GROUP BY ?x ORDER BY SUM(?y)")
        top = engine.register(TOP)
        with query.snapshot() as before, top.snapshot() as old:
            engine.apply(LIKES[:3])
            engine.apply([("+", "<http://ex/s0>", P, typed(100, "integer"))])
            with query.snapshot() as after, top.snapshot() as new:
                changes = {tuple(each): each.change for each in after.diff(before)}
                assert changes == dict.fromkeys([tuple(each) for each in after], 1)
                with pytest.raises(StateError):
                    new.diff(old)
        with query.changes(since=query.snapshot().epoch - 1) as steps:
            assert [list(step) for step in steps] == [[]]  # only the hidden sum has changed
        with pytest.raises(StateError):
            top.changes(since=1)
        with pytest.raises(StateError):
            top.subscribe()


def test_windows_emit_sorted_answers() -> None:
    found: list[list[int]] = []
    with Engine(prefixes=PREFIXES, window=Window("10s", slide="5s")) as engine:
        query = engine.register("SELECT ?y { ?x :p ?y } ORDER BY DESC(?y) LIMIT 2")
        query.emit(lambda emission: found.append(emission.answers["y"].to_pylist()),
                   terms="python")  # fmt: skip
        engine.push([(1_000 * n, "<http://ex/a>", P, n * 7 % 11) for n in range(1, 13)])
        engine.advance(to=15_000)
    expected = []
    for time in (5, 10, 15):
        live = {n * 7 % 11 for n in range(1, 13) if time - 10 < n <= time}
        expected.append(sorted(live, reverse=True)[:2])
    assert found == expected


def test_explain_names_the_order() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register(
            "SELECT ?x { ?x :p ?y } GROUP BY ?x ORDER BY DESC(SUM(?y)) ?x LIMIT 3 OFFSET 1"
        )
        assert "ORDER BY DESC(SUM(?y)) ?x: selected when a snapshot is read, 4 rows at" in (
            " ".join(query.explain().split())
        )
        order = json.loads(query.explain("json"))["query"]["order_by"]
        assert [key["direction"] for key in order] == ["DESC", "ASC"]


def test_plans_do_not_depend_on_the_order() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        plain = engine.register("SELECT ?x ?y { ?x :p ?y }").plan
        ordered = engine.register("SELECT ?x ?y { ?x :p ?y } ORDER BY ?y LIMIT 2").plan
    assert [node.key for node in plain.nodes] == [node.key for node in ordered.nodes]
