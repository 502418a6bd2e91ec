"""Filters that no row decides, unknown variables, and VALUES without columns or rows."""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import product

import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from triegs import Engine, QueryWarning, compile_query, parse
from triegs.cli.app import app
from triegs.explain import explain
from triegs.mode import Mode
from triegs.testing import oracle

INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
TRIPLES = [
    ("<u:a>", "<u:p>", f'"1"{INTEGER}'), ("<u:a>", "<u:p>", f'"2"{INTEGER}'),
    ("<u:b>", "<u:q>", "<u:a>"), ("<u:b>", "<u:p>", "<u:c>"), ("<u:c>", "<u:q>", "<u:d>"),
]  # fmt: skip
#: One triple has two events.
UPDATES = [("+", *triple) for triple in [*TRIPLES, TRIPLES[0]]]

ONE, TWO = "?x <u:p> ?y", "?x <u:p> ?y . ?a <u:q> ?b"
PATTERNS = [
    f"{ONE} FILTER(false)", f"{ONE} FILTER(true)", f"{ONE} FILTER(1 > 2)", f"{ONE} FILTER('')",
    f"{ONE} FILTER(?typo > 1)", f"{ONE} FILTER(BOUND(?z))", f"{ONE} FILTER(!BOUND(?z))",
    f"{ONE} FILTER(?x = ?typo || ?y > 0)", f"{TWO} FILTER(false)", f"{TWO} FILTER(?typo IN (1))",
    f"{{ {ONE} FILTER(0) }} ?a <u:q> ?b", f"{TWO} FILTER(?x = ?a) FILTER(false)",
    "FILTER(false)", "FILTER(true)", "FILTER(?x)", "<u:a> <u:p> 1 FILTER(false)",
    "?x ?y ?z FILTER(false)", "?x <u:p> ?m . ?m <u:q> ?y FILTER(1 = 2)",
    "VALUES () { () }", "VALUES () { () () }", "VALUES () { }", "VALUES ?x { }",
    f"{ONE} VALUES () {{ () () }}", f"{ONE} VALUES () {{ }}", f"{ONE} VALUES ?y {{ }}",
    f"{ONE} VALUES (?x ?y) {{ }}", f"{ONE} VALUES ?other {{ }}", f"{TWO} VALUES () {{ () () }}",
    "<u:a> <u:p> 1 VALUES () { () () }", "VALUES () { () } VALUES () { () () () }",
    "VALUES () { () () } VALUES ?x { 1 2 }", "VALUES ?x { 1 2 } FILTER(false)",
]  # fmt: skip
HEADS = ["SELECT ?x ?y", "SELECT ?nowhere", "SELECT DISTINCT ?y", "ASK"]


def answers_of_pyoxigraph(text: str, head: tuple[str, ...]) -> Counter[tuple[str | None, ...]]:
    store = ox.Store()
    lines = "\n".join(f"{' '.join(triple)} ." for triple in TRIPLES)
    store.load(lines.encode(), format=ox.RdfFormat.N_TRIPLES)
    found = store.query(text)
    if isinstance(found, ox.QueryBoolean):
        return Counter([()] if found else [])
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    places = [names.index(name[1:]) for name in head]
    rows = (tuple(solution) for solution in found)
    return Counter(tuple(None if r[i] is None else str(r[i]) for i in places) for r in rows)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_answers(pattern: str) -> None:
    """By the engine in both modes, registered before and after the data; by two judges."""
    for mode, head in product(Mode, HEADS):
        text = f"{head} {{ {pattern} }}"
        expected = oracle.answers(text, UPDATES, mode.value)
        if mode is Mode.RDF:
            assert answers_of_pyoxigraph(text, parse(text).head) == Counter(expected), text
        with Engine(mode, retain_epochs=5) as engine:
            queries = [engine.register(text)]
            engine.apply(UPDATES)
            changed = Counter(expected)
            before = oracle.answers(text, [], mode.value)
            changed.subtract(before)
            with queries[0].changes(since=1) as steps:
                signed = {tuple(change): change.change for step in steps for change in step}
            assert signed == {row: n for row, n in changed.items() if n}, (mode, text)
            queries.append(engine.register(text, keep=["count", "slice"]))
            for query in queries:
                with query.snapshot() as snapshot:
                    found = {tuple(answer): answer.multiplicity for answer in snapshot}
                    assert found == expected, (mode, text)
                    assert snapshot.count() == sum(expected.values())
            engine.apply([("-", *update[1:]) for update in UPDATES])
            with queries[1].snapshot() as snapshot:
                assert {tuple(a): a.multiplicity for a in snapshot} == before


@pytest.mark.parametrize("output", ["text", "json", "svg", "mermaid"])
def test_explained(output: str) -> None:
    for pattern in PATTERNS:
        assert explain(compile_query(parse(f"SELECT ?x {{ {pattern} }}")), output)


WARNED = [
    ("SELECT ?x { ?x <p> ?year FILTER(?yaer > 1) }",
     "1, column 33: FILTER uses ?yaer, which is not bound; did you mean ?year?"),
    ("SELECT ?x ?gone { ?x <p> ?y }", "1, column 11: SELECT uses ?gone, which is not bound"),
    ("ASK { ?x <p> ?y\n FILTER BOUND(?z) }", "2, column 15: FILTER uses ?z, which is not bound"),
    ("SELECT ?x { ?x <p> ?y { ?y <q> ?z FILTER(?z = ?x) } }",
     "1, column 47: ?x is bound outside the group of this FILTER"),
    ("SELECT ?x { ?x <p> ?y } HAVING (?z > 1)", "1, column 33: HAVING uses ?z, which is not bound"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), WARNED)
def test_unknown_variables_cause_warnings(text: str, says: str) -> None:
    with Engine() as engine, pytest.warns(QueryWarning, match="line") as caught:
        engine.register(text)
    (warning,) = caught
    assert says in str(warning.message)
    assert warning.filename == __file__
    assert says in " ".join(explain(compile_query(parse(text))).split())


@pytest.mark.parametrize(
    "text",
    ["SELECT ?v { } VALUES ?v { 1 }", "SELECT * { FILTER(?x > 1) ?x <p> ?y }",
     "SELECT ?x { { ?x <p> ?y } FILTER(?y > 1) }", "ASK { VALUES ?v { 1 } FILTER(?v = 1) }",
     "SELECT (COUNT(?y) AS ?n) { ?x <p> ?y } GROUP BY ?x"],
)  # fmt: skip
def test_known_variables_cause_no_warnings(text: str) -> None:
    assert parse(text).warnings == ()


def test_aggregates_and_keys_cause_warnings() -> None:
    text = "SELECT (SUM(?a) AS ?s) { ?x <p> ?y } GROUP BY ?k (?b + 1)"
    assert [line.split(": ")[1] for line in parse(text).warnings] == [
        "SELECT uses ?a, which is not bound", "GROUP BY uses ?k, which is not bound",
        "GROUP BY uses ?b, which is not bound",
    ]  # fmt: skip


def test_a_run_warns_on_standard_error(tmp_path) -> None:
    events = tmp_path / "events.nt"
    events.write_text("<u:x> <u:p> <u:y> .\n", encoding="utf-8")
    text = "SELECT ?x { ?x <u:p> ?year FILTER(?yaer > 1) }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = CliRunner().invoke(app, ["run", text, "--input", str(events), "--format", "csv"])
    assert done.exit_code == 0
    assert done.stderr.count("did you mean ?year?") == 1
    assert "did you mean" not in done.stdout
    quiet = ["run", text, "--input", str(events), "--log-level", "error"]
    assert CliRunner().invoke(app, quiet).stderr == ""


@pytest.mark.parametrize("options", ["--format mermaid", "--all-plans", "--format text"])
def test_explain_warns(options: str) -> None:
    text = "SELECT ?x { ?x <u:p> ?year FILTER(?yaer > 1) }"
    done = CliRunner().invoke(app, ["explain", "--text", text, *options.split()])
    assert done.exit_code == 0
    assert "did you mean ?year?" in " ".join((done.stdout + done.stderr).split())
