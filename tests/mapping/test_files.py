"""Mapped tables in every format: the same triples, and row errors with their position."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triegs import InputError
from triegs.events import open_input

ROWS: list[dict[str, Any]] = [
    {"ts": 60, "from": "Ann", "to": "Bob", "amount": "1.50"},
    {"ts": 61, "from": "Bob", "to": None, "amount": "02"},
    {"ts": 61, "from": "Bob", "to": "New, York", "amount": "x"},
    {"ts": 62, "from": None, "to": None, "amount": None},
    {"ts": None, "from": "Cy", "to": "Ann", "amount": "3"},
    {"ts": 63, "from": "Zoë", "to": 'the "sea"', "amount": "4.0"},
]
MAPPING = "{from} :paid {to} ; :sent {amount:decimal}"
OPTIONS: dict[str, Any] = {"map": MAPPING, "columns": {"time": "ts"}, "time_unit": "s"}


def write(path, rows=ROWS):
    names = list(ROWS[0])
    if path.suffix in (".csv", ".tsv"):
        quote = path.suffix == ".csv"
        between = "," if quote else "\t"

        def cell(value):
            text = "" if value is None else str(value)
            return f'"{text.replace(chr(34), chr(34) * 2)}"' if quote and text else text

        lines = [between.join(names), *(between.join(cell(r[n]) for n in names) for r in rows)]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(r).replace('"1.50"', "1.50") + "\n" for r in rows)
        path.write_text(text, encoding="utf-8")
    else:
        table = pa.table({n: [r[n] for r in rows] for n in names})
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
    return path


def read(source):
    names = ("time", "op", "subject", "predicate", "object", "triegs_same_row")
    return [tuple(row[name] for name in names) for batch in source for row in batch.to_pylist()]


def iri(text):
    return f"<urn:triegs:{text}>"


def decimal(text):
    return f'"{text}"^^<http://www.w3.org/2001/XMLSchema#decimal>'


EXPECTED = [
    (60_000, 1, iri("Ann"), iri("paid"), iri("Bob"), False),
    (60_000, 1, iri("Ann"), iri("sent"), decimal("1.50"), True),
    (61_000, 1, iri("Bob"), iri("sent"), decimal("02"), False),
    (63_000, 1, iri("Zoë"), iri("paid"), iri("the%20%22sea%22"), False),
    (63_000, 1, iri("Zoë"), iri("sent"), decimal("4.0"), True),
]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("batch_rows", [2, 100])
def test_every_format_gives_the_same_triples(tmp_path, ending, batch_rows):
    path = write(tmp_path / f"pay.{ending}")
    aside = tmp_path / "aside.jsonl"
    with open_input(path, quarantine=aside, batch_rows=batch_rows, **OPTIONS) as source:
        assert read(source) == EXPECTED
        report = source.report
    assert (report.read, report.events) == (6, 3)
    assert report.quarantined == {"bad cell": 1, "no triple": 1, "no time": 1}
    entries = [json.loads(line) for line in aside.read_text(encoding="utf-8").splitlines()]
    line = 3 if ending in ("jsonl", "parquet", "arrow") else 4
    assert (entries[0]["line"], entries[0]["reason"]) == (
        line,
        "bad cell: amount: 'x' is not a valid decimal",
    )
    assert "New, York" in entries[0]["record"]
    assert entries[1]["reason"] == "no triple: no value in from, to, amount"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_resuming_gives_the_same_nodes(tmp_path, ending):
    path = write(tmp_path / f"pay.{ending}")
    options = {**OPTIONS, "map": "[] :from {from} ; :to {to}", "batch_rows": 1}
    with open_input(path, **options) as source:
        whole = read(source)
    nodes = {row[2] for row in whole}
    assert len(nodes) == 4
    for stop in range(1, 4):
        source = open_input(path, **options)
        begun = read(next(source) for _ in range(stop))
        position = json.loads(json.dumps(source.position))
        source.close()
        with open_input(path, **options, start=position) as rest:
            assert begun + read(rest) == whole


def test_nodes_of_rows_with_ids_do_not_depend_on_the_file(tmp_path):
    options: dict[str, Any] = {"map": "[] :from {from}", "columns": {"id": "ts", "op": "amount"}}
    found: list[dict[str, Any]] = []
    path = tmp_path
    for name, sign in (("a.csv", "+"), ("b.csv", "-")):
        path = write(tmp_path / name, [{**ROWS[0], "amount": sign}])
        with open_input(path, **options) as source:
            found += [row for batch in source for row in batch.to_pylist()]
    assert [(row["subject"], row["op"]) for row in found] == [("_:i60", 1), ("_:i60", -1)]
    with open_input(path, **options, stream="s") as source:
        assert next(source).column("subject").to_pylist() != ["_:i60"]
    with open_input(path, map="[] :from {from}", columns={"op": "amount"}) as source:
        assert list(source) == []
        assert source.report.quarantined == {"no id": 1}


def test_delimiter_encoding_and_cells_of_several_lines(tmp_path):
    path = tmp_path / "a.csv"
    text = 'who;"what;ever"\nZoë;"two\nlines"\nÅsa;x\n'
    for encoding in ("latin-1", "utf-16", "utf-8", "utf-8-sig"):
        path.write_text(text, encoding=encoding)
        options: dict[str, Any] = {
            "map": '{who} :said "{what;ever}"',
            "delimiter": ";",
            "encoding": encoding,
        }
        with open_input(path, **options, batch_rows=1) as source:
            (first, second) = list(source)
        assert first.to_pylist()[0]["subject"] == iri("Zoë")
        assert first.to_pylist()[0]["object"] == '"two\\nlines"'
        assert second.to_pylist()[0]["subject"] == iri("Åsa")
        source = open_input(path, **options, batch_rows=1)
        next(source)
        with open_input(path, **options, start=source.position) as rest:
            assert [batch.to_pylist() for batch in rest] == [second.to_pylist()]
        source.close()
    path.write_bytes(b"who;x\n\xff\xfe\xfa;y\n")
    with open_input(path, map="{who} :p 1", delimiter=";", encoding="ascii") as source:
        assert list(source) == []
        assert source.report.broken[0][1].startswith("the text is not valid ascii")


@pytest.mark.parametrize(
    ("unit", "values", "kind"),
    [
        ("s", [1714550400, 1714550401], pa.int64()),
        ("s", [1714550400.25, 1714550401.123], pa.float64()),
        ("s", ["1714550400", "1714550401.5"], pa.string()),
        ("ms", [1714550400000, 1714550401000], pa.int64()),
        ("ms", ["1714550400000", "1714550401000.75"], pa.string()),
        ("us", [1714550400000000, 1714550401000999], pa.int64()),
        ("us", ["1714550400000000", "1714550401000999"], pa.string()),
        ("ns", [1714550400000000000, 1714550401000000999], pa.int64()),
        (None, [1714550400000, 1714550401000], pa.uint64()),
        (None, ["2024-05-01T08:00:00Z", "2024-05-01 10:00:01+02:00"], pa.string()),
        ("s", ["2024-05-01T08:00:00Z", "1714550401"], pa.string()),
        (None, [datetime(2024, 5, 1, 8, tzinfo=UTC), datetime(2024, 5, 1, 8, 0, 1, tzinfo=UTC)],
         pa.timestamp("us", "America/Lima")),
    ],
)  # fmt: skip
def test_times_in_every_unit(tmp_path, unit, values, kind):
    table = pa.table({"ts": pa.array(values, kind), "a": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    options: dict[str, Any] = {"map": "{a} :p {a}", "columns": {"time": "ts"}, "time_unit": unit}
    with open_input(tmp_path / "a.parquet", **options) as source:
        times = next(source).column("time").to_pylist()
    assert [time // 1000 for time in times] == [1714550400, 1714550401]
    if isinstance(values[0], float):
        assert times == [1714550400250, 1714550401123]


def test_without_times_rows_have_ticks_and_their_triples_share_one(tmp_path):
    path = write(tmp_path / "a.csv")
    with open_input(path, map=MAPPING) as source:
        assert [row[0] for row in read(source)] == [0, 0, 1, 2, 2, 3, 3]
    with (
        open_input(path, map=MAPPING, is_timed=True) as source,
        pytest.raises(
            InputError, match=r"--columns time=NAME .* its columns: ts, from, to, amount"
        ),
    ):
        list(source)


def test_options_that_make_no_sense_are_refused(tmp_path):
    path = write(tmp_path / "a.csv")
    (tmp_path / "a.nt").write_text("")
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {"map": MAPPING, "columns": {"object": "to"}},
            "only time, op, id, not object",
        ),
        ({"map": MAPPING, "base": "here"}, "base: 'here' is not an IRI"),
        ({"base": "http://x/"}, "base applies only to a mapping"),
        ({"map": MAPPING, "time_unit": "h"}, "one of s, ms, us, ns"),
        ({"map": MAPPING, "delimiter": ";;"}, "the delimiter must be one character"),
        ({"map": MAPPING, "encoding": "klingon"}, "unknown encoding 'klingon'"),
    ]
    for options, message in wrong:
        with pytest.raises(InputError, match=message):
            open_input(path, **options)
    with pytest.raises(InputError, match="n-triples already contains triples"):
        open_input(tmp_path / "a.nt", map=MAPPING)
    with pytest.raises(InputError, match="delimiter is for CSV"):
        open_input(write(tmp_path / "a.jsonl"), map=MAPPING, delimiter=";")
