"""Every format, read back by somebody else's parser, gives the events that were written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as rdf
import pytest

from triegs import workloads
from triegs.workloads.formats import FORMATS, TIME_PROPERTY, Target

Row = tuple[Any, ...]
CASES = [("social", 20_000), ("path3", 3000), ("replies-zipf", 3000), ("person-names", 1)]


def write(name: str, workload: str, size: int, **options: Any) -> tuple[bytes, pa.Table]:
    source = workloads.get(workload)
    integers = options.get("integers", False)
    options["inserts_only"] = not FORMATS[name].has_op
    # Small batches, so that times and frames continue from one to the next.
    batches = list(source.events(size, batch_size=777, **options))
    out = io.BytesIO()
    schema = source.schema(integers)
    writer = FORMATS[name].open(Target(out, schema, source.prefixes, None, is_pipe=False))
    for batch in batches:
        writer.write(batch)
    writer.close()
    data = out.getvalue() if not out.closed else b""
    return data, pa.Table.from_batches(batches, schema)


def list_rows(table: pa.Table, *names: str) -> list[Row]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def read_csv(data: bytes) -> Iterator[Row]:
    for row in csv.DictReader(io.StringIO(data.decode(), newline="")):
        op = {"+": 1, "-": -1}[row["op"]]
        yield int(row["time"]), op, row["subject"], row["predicate"], row["object"], int(row["id"])


def read_jsonl(data: bytes) -> Iterator[Row]:
    for line in data.splitlines():
        row = json.loads(line)
        op = {"+": 1, "-": -1}[row["op"]]
        yield row["time"], op, row["subject"], row["predicate"], row["object"], row["id"]


def read_parquet(data: bytes) -> Iterator[Row]:
    table = pq.read_table(io.BytesIO(data))
    return iter(list_rows(table, *table.column_names))


def read_arrow(data: bytes) -> Iterator[Row]:
    table = pa.ipc.open_file(data).read_all()
    return iter(list_rows(table, *table.column_names))


READERS: dict[str, Callable[[bytes], Iterator[Row]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "arrow": read_arrow,
}
RDF = {
    "nt": rdf.RdfFormat.N_TRIPLES,
    "ttl": rdf.RdfFormat.TURTLE,
    "nq": rdf.RdfFormat.N_QUADS,
    "trig": rdf.RdfFormat.TRIG,
}
every_case = pytest.mark.parametrize(("workload", "size"), CASES)


@every_case
@pytest.mark.parametrize("name", READERS)
def test_formats_with_columns(name: str, workload: str, size: int) -> None:
    data, table = write(name, workload, size)
    assert list(READERS[name](data)) == list_rows(table, *table.column_names)


@pytest.mark.parametrize("name", READERS)
def test_integers(name: str) -> None:
    data, table = write(name, "star5", 2000, integers=True)
    rows = list(READERS[name](data))
    if name == "csv":  # where all is text
        rows = [(*row[:2], int(row[2]), row[3], int(row[4]), row[5]) for row in rows]
    assert rows == list_rows(table, *table.column_names)


@every_case
@pytest.mark.parametrize("name", ["nt", "ttl"])
def test_statements(name: str, workload: str, size: int) -> None:
    data, table = write(name, workload, size)
    found = [(str(s.subject), str(s.predicate), str(s.object)) for s in rdf.parse(data, RDF[name])]
    assert found == list_rows(table, "subject", "predicate", "object")


@every_case
@pytest.mark.parametrize("name", ["nq", "trig"])
@pytest.mark.parametrize("disorder", [0, 40])
def test_statements_in_graphs_with_times(
    name: str, disorder: int, workload: str, size: int
) -> None:
    """The time of a graph precedes its statements, always."""
    data, table = write(name, workload, size, disorder=disorder)
    times: dict[str, int] = {}
    found = []
    for quad in rdf.parse(data, RDF[name]):
        terms = (str(quad.subject), str(quad.predicate), str(quad.object))
        if isinstance(quad.graph_name, rdf.DefaultGraph):
            assert terms[1] == TIME_PROPERTY
            text = terms[2].split('"')[1].rstrip("Z")
            time = int(pa.scalar(text).cast(pa.timestamp("ms")).value)
            assert times.setdefault(terms[0], time) == time
        else:
            found.append((times[str(quad.graph_name)], *terms))
    assert found == list_rows(table, "time", "subject", "predicate", "object")


@every_case
def test_jelly_has_a_frame_for_each_time(workload: str, size: int) -> None:
    pytest.importorskip("pyjelly")
    from pyjelly.integrations.generic.parse import parse_jelly_grouped

    data, table = write("jelly", workload, min(size, 3000))
    expected: list[tuple[int, list[Row]]] = []
    for time, *terms in list_rows(table, "time", "subject", "predicate", "object"):
        if not expected or expected[-1][0] != time:
            expected.append((time, []))
        expected[-1][1].append(tuple(terms))
    frames = [
        [tuple(str(term) for term in triple) for triple in frame]
        for frame in parse_jelly_grouped(io.BytesIO(data))
    ]
    assert frames == [rows for _, rows in expected]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("parquet", "arrow")])
def test_nothing_is_still_a_file(name: str) -> None:
    if name == "jelly":
        pytest.importorskip("pyjelly")
    data, _ = write(name, "path3", 0)
    assert data == {"csv": b"time,op,subject,predicate,object,id\n"}.get(
        name, b"@prefix : <http://ex/> .\n" if name in ("ttl", "trig") else b""
    )


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_nothing_in_a_file_of_columns(name: str) -> None:
    data, _ = write(name, "path3", 0)
    assert list(READERS[name](data)) == []
