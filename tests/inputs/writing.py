"""Events written as files of every format, by other code than that which reads them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as rdf


class Event(NamedTuple):
    """One row, with terms in their one spelling."""

    time: int
    op: int
    subject: str
    predicate: str
    object: str
    id: str | None


def write_time(event_time_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event_time_ms)).isoformat()


def _name_sign(op: int) -> str:
    return "+" if op == 1 else "-"


def write_csv(events: list[Event]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["extra", *Event._fields])
    for event in events:
        sign = _name_sign(event.op)
        writer.writerow(["x,y", write_time(event.time), sign, *event[2:5], event.id or ""])
    return text.getvalue().encode()


def write_tsv(events: list[Event]) -> bytes:
    rows = [list(Event._fields)]
    rows += [[str(e.time), _name_sign(e.op), *e[2:5], e.id or ""] for e in events]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def write_jsonl(events: list[Event]) -> bytes:
    rows = [{k: v for k, v in e._asdict().items() if v is not None} for e in events]
    return "".join(json.dumps(row) + "\r\n" for row in rows).encode()


def make_table(events: list[Event]) -> Any:
    columns = {name: [event[at] for event in events] for at, name in enumerate(Event._fields)}
    kinds = [pa.timestamp("us", "Europe/Berlin"), pa.int8(), pa.string(), pa.large_string()]
    kinds += [pa.dictionary(pa.int32(), pa.string()), pa.string()]
    columns["time"] = [1000 * event.time for event in events]
    return pa.table({n: pa.array(v, k) for (n, v), k in zip(columns.items(), kinds, strict=True)})


def write_parquet(events: list[Event]) -> bytes:
    target = io.BytesIO()
    pq.write_table(make_table(events), target, row_group_size=7)
    return target.getvalue()


def write_arrow_file(events: list[Event]) -> bytes:
    table = make_table(events)
    target = io.BytesIO()
    with pa.ipc.new_file(target, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return target.getvalue()


def write_arrow_stream(events: list[Event]) -> bytes:
    table = make_table(events)
    target = io.BytesIO()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return target.getvalue()


def make_term(text: str) -> Any:
    (quad,) = rdf.parse(f"<a:a> <a:a> {text} .".encode(), format=rdf.RdfFormat.N_TRIPLES)
    return quad.object


def make_quads(events: list[Event]) -> list[Any]:
    return [
        rdf.Quad(make_term(e.subject), make_term(e.predicate), make_term(e.object)) for e in events
    ]


def write_rdf(events: list[Event], chosen: Any) -> bytes:
    triples = [quad.triple for quad in make_quads(events)]
    if chosen in (rdf.RdfFormat.N_QUADS, rdf.RdfFormat.TRIG):
        triples = make_quads(events)
    found: bytes | None = rdf.serialize(triples, format=chosen)
    return found or b""


def write_jelly(events: list[Event]) -> bytes:
    """All events in one frame."""
    from pyjelly.integrations.generic.generic_sink import IRI, BlankNode, Literal, Triple
    from pyjelly.integrations.generic.serialize import flat_stream_to_file

    def convert(term: Any) -> Any:
        if isinstance(term, rdf.NamedNode):
            return IRI(term.value)
        if isinstance(term, rdf.BlankNode):
            return BlankNode(term.value)
        is_string = term.datatype.value.endswith(("#string", "#langString"))
        return Literal(term.value, term.language, None if is_string else term.datatype.value)

    statements = (Triple(*(convert(t) for t in quad.triple)) for quad in make_quads(events))
    target = io.BytesIO()
    flat_stream_to_file(statements, target)
    return target.getvalue()


COLUMNAR = {
    "csv": write_csv,
    "tsv": write_tsv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "arrow": write_arrow_file,
    "arrows": write_arrow_stream,
}
RDF = {
    "nt": lambda events: write_rdf(events, rdf.RdfFormat.N_TRIPLES),
    "nq": lambda events: write_rdf(events, rdf.RdfFormat.N_QUADS),
    "ttl": lambda events: write_rdf(events, rdf.RdfFormat.TURTLE),
    "trig": lambda events: write_rdf(events, rdf.RdfFormat.TRIG),
}


def pack(data: bytes, ending: str) -> bytes:
    if ending == ".gz":
        half = len(data) // 2  # two members, as `cat a.gz b.gz` makes
        return gzip.compress(data[:half]) + gzip.compress(data[half:])
    if ending == ".zst":
        packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
        return packed
    return data
