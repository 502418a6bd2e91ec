"""Rows of any DataFrame, mapped to triples in the driver and in partitions."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from triegs import Engine, InputError, MappingError, Window
from triegs.events import Source, open_input
from triegs.spark import SparkSource, start
from triegs.testing import oracle

NOW = {"availableNow": True}
MAPPING = "{from} :paid {to} . [] :payer {from} ; :amount {amount:decimal}"
QUERIES = {
    "chains": "SELECT ?a ?b ?c { ?a :paid ?b . ?b :paid ?c }",
    "amounts": "SELECT ?who ?amount { ?p :payer ?who ; :amount ?amount }",
}
PAYMENTS = [
    ("Ann", "Bob", "1.50"), ("Bob", "New York", "02"), ("New York", None, "3"),
    ("Cy", "Ann", None), (None, None, None), ("Bob", "Ann", "x"), ("Ann", "Bob", "1.50"),
]  # fmt: skip


@pytest.fixture
def session(spark):
    return spark.get()


def write_payments(folder):
    folder.mkdir()
    for number, (payer, payee, amount) in enumerate(PAYMENTS):
        moment = datetime.fromtimestamp(60 * number, UTC)
        table = pa.table({"ts": pa.array([moment], pa.timestamp("us", "UTC")),
                          "from": pa.array([payer], pa.string()),
                          "to": pa.array([payee], pa.string()),
                          "amount": pa.array([amount], pa.string())})  # fmt: skip
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_000_000 + number,) * 2)  # Spark's order
    return folder


def expect() -> dict[str, Counter]:
    """By hand: a triple for each template without a null, and nothing for a malformed row."""
    updates: list[Any] = []
    for number, (payer, payee, amount) in enumerate(PAYMENTS):
        if amount == "x" or payer is None:
            continue
        if payee is not None:
            updates.append(("+", IRI(payer), IRI("paid"), IRI(payee)))
        updates.append(("+", f"_:{number}", IRI("payer"), IRI(payer)))
        if amount is not None:
            decimal = f'"{amount}"^^<http://www.w3.org/2001/XMLSchema#decimal>'
            updates.append(("+", f"_:{number}", IRI("amount"), decimal))
    plain = {}
    for name, text in QUERIES.items():
        found = oracle.answers(f"PREFIX : <urn:triegs:> {text}", updates)
        plain[name] = Counter({tuple(map(name_by_hand, row)): n for row, n in found.items()})
    return plain


def IRI(name: str) -> str:  # noqa: N802
    return f"<urn:triegs:{name.replace(' ', '%20')}>"


def name_by_hand(term: str | None) -> str:
    assert term is not None
    return term[1:].partition('"')[0] if term[0] == '"' else term[12:-1].replace("%20", " ")


@pytest.mark.parametrize("partitions", [None, 2])
def test_rows_of_a_stream_are_mapped(session, tmp_path, partitions):
    folder = write_payments(tmp_path / "in")
    schema = session.read.parquet(str(folder)).schema
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 3).parquet(str(folder))
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", map=MAPPING, columns={"time": "ts"},
        window=Window("1h", slide="1m"), trigger=NOW, partitions=partitions,
        sinks={name: tmp_path / name for name in QUERIES},
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        expected = expect()
        for name in QUERIES:
            shown: Counter = Counter()
            for row in pipeline.table(name).collect():
                shown[tuple(row[:-1])] += row[-1]
            assert shown == expected[name], name
            changes: Counter = Counter()
            for row in pq.read_table(tmp_path / name).to_pylist():
                *answer, change = [row[key] for key in row if key not in ("epoch", "time")]
                changes[tuple(answer)] += change
            assert +changes == expected[name]
    aside = pq.read_table(tmp_path / "state" / "quarantine").to_pylist()
    assert sorted(each["reason"] for each in aside) == [
        "bad cell: amount: 'x' is not a valid decimal",
        "no triple: no value in from, to, amount",
    ]


def test_what_partitions_cannot_delete_is_refused(session, tmp_path):
    folder = write_payments(tmp_path / "in")
    schema = session.read.parquet(str(folder)).schema
    stream = session.readStream.schema(schema).parquet(str(folder))
    with pytest.raises(InputError, match="delete a row of several triples"):
        start(stream, QUERIES, checkpoint=tmp_path / "a", map=MAPPING, partitions=2,
              columns={"op": "to"})  # fmt: skip
    with pytest.raises(MappingError, match="no column 'form'; its columns: ts, from, to, amount"):
        start(stream, QUERIES, checkpoint=tmp_path / "a", map="{form} :paid {to}")


def test_the_engine_says_what_spark_says(session, tmp_path):
    """Deletions by id, and repeated rows: the driver's engine treats rows as push does."""
    rows = [("+", 1, "A", "B"), ("+", 2, "B", "C"), ("+", 2, "B", "C"), ("-", 1, "A", "B"),
            ("+", 3, "C", "A")]  # fmt: skip
    table = pa.table({name: [row[at] for row in rows]
                      for at, name in enumerate(["sign", "key", "a", "b"])})  # fmt: skip
    table = table.append_column("t", pa.array(range(len(rows))))
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "rows.parquet")
    given: dict[str, Any] = {"map": "[] :from {a} ; :to {b}", "time_unit": "s",
                             "columns": {"time": "t", "op": "sign", "id": "key"}}  # fmt: skip
    text = "SELECT ?e ?x ?y { ?e :from ?x ; :to ?y }"
    window = Window("10s", slide="1s")
    with Engine(window=window) as engine:
        query = engine.register(text)
        engine.push(table, **given)
        engine.advance()
        with query.snapshot() as snapshot:
            expected = Counter(map(tuple, snapshot.answers("plain")))
    assert expected == {("_:i2", "B", "C"): 1, ("_:i3", "C", "A"): 1}
    schema = session.read.parquet(str(tmp_path / "in")).schema
    stream = session.readStream.schema(schema).parquet(str(tmp_path / "in"))
    with start(stream, {"all": text}, checkpoint=tmp_path / "state", window=window, trigger=NOW,
               **given) as pipeline:  # fmt: skip
        pipeline.wait()
        assert Counter(tuple(row[:-1]) for row in pipeline.table("all").collect()) == expected


def test_the_last_step_of_the_tutorial(session, tmp_path, monkeypatch, capsys):
    """The page shows a job; its payments file and its folders are elsewhere here."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "tutorial.md").read_text(encoding="utf-8")
    program = page.partition("```py\n")[2].partition("```")[0]
    (tmp_path / "docs" / "examples").mkdir(parents=True)
    shutil.copy(root / "docs" / "examples" / "payments.csv", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    program = program.replace('"docs/', f'"{tmp_path}/docs/').replace(
        '"alerts"', f'"{tmp_path}/alerts"'
    )
    exec(program, {"spark": session})
    alerts = [
        (row["a"], row["b"], row["c"])
        for row in pq.read_table(tmp_path / "alerts").sort_by("time").to_pylist()
        if row["change"] > 0
    ]
    assert alerts == [
        ("Ann", "Bob", "Cleo"), ("Bob", "Cleo", "Dan Ray"), ("Eve", "Fay", "Ann"),
        ("Dan Ray", "Ann", "Gus"),
    ]  # fmt: skip
    assert "Dan Ray" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_that_spark_reads_are_mapped_as_without_it(spark, tmp_path, ending):
    names = ["payer", "payee", "amount"]
    table = pa.table({n: pa.array([row[i] for row in PAYMENTS]) for i, n in enumerate(names)})
    table = table.append_column("ts", pa.array(range(len(PAYMENTS))))
    path = tmp_path / f"pay.{ending}"
    if ending == "csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    options: dict[str, Any] = {
        "map": "[] :from {payer} ; :to {payee} ; :at {ts:integer} ; :amount {amount:decimal}",
        "columns": {"time": "ts"}, "time_unit": "s",
    }  # fmt: skip
    found = []
    for make in (Source, partial(SparkSource, spark=spark)):
        with open_input(path, **options, make=make) as source:
            rows = [row for batch in source for row in batch.to_pylist()]
            found.append((rows, source.report.as_dict()))
    assert found[0] == found[1]
    assert len(found[0][0]) > len(PAYMENTS)
