"""``format("rdf")`` in Spark: rows as `triegs.events` reads them, and streams that restart."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as rdf
import pytest
from tests.inputs.writing import RDF, Event, pack, write_jelly

from triegs.events import open_input
from triegs.spark import LocalSpark

# PySpark leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

LITERALS = ('"ä \\n \\"q\\" 😀"@de', '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"plain"')
EVENTS = [
    Event(n, 1, f"<http://ex/{n % 7}>" if n % 5 else "_:b", "<http://ex/p>", term, None)
    for n, term in enumerate([*LITERALS, "_:b", "_:c", "<http://ex/é>"] * 30)
]
TERMS = ["subject", "predicate", "object"]


def read(spark: LocalSpark, path: Path, **options: Any) -> list[dict[str, Any]]:
    frame = spark.get().read.format("rdf").options(**options).load(str(path))
    return sorted(
        (row.asDict() for row in frame.collect()), key=lambda row: (row["file"], row["position"])
    )


def list_formats() -> Iterator[str]:
    for ending in RDF:
        for packing in ("", ".gz", ".zst"):
            yield f"{ending}{packing}"
    yield "jelly"
    yield "jelly.gz"


def test_each_format_as_without_spark(spark: LocalSpark, tmp_path: Path) -> None:
    """All files in one directory: each has its own blank nodes."""
    formats = list(list_formats())
    if importlib.util.find_spec("pyjelly") is None:
        formats = [form for form in formats if not form.startswith("jelly")]
    for form in formats:
        ending, _, packing = form.partition(".")
        data = write_jelly(EVENTS) if ending == "jelly" else RDF[ending](EVENTS)
        (tmp_path / f"a.{form}").write_bytes(pack(data, f".{packing}" if packing else ""))
    rows = read(spark, tmp_path, maxPartitionBytes=2000)
    assert {row["problem"] for row in rows} == {None}
    assert {row["graph"] for row in rows} == {None}
    nodes = {row["object"] for row in rows if row["object"].startswith("_:")}
    assert len(nodes) == 2 * len(formats)
    for form in formats:
        path = tmp_path / f"a.{form}"
        expected = [row for batch in open_input(path) for row in batch.select(TERMS).to_pylist()]
        found = [row for row in rows if row["file"] == str(path)]
        assert [{name: row[name] for name in TERMS} for row in found] == expected, form
        assert [row["position"] for row in found] == list(range(1, len(expected) + 1))


def serialize(quads: list[rdf.Quad], form: rdf.RdfFormat) -> bytes:
    return rdf.serialize(quads, format=form) or b""


def test_graphs(spark: LocalSpark, tmp_path: Path) -> None:
    graphs: list[Any] = [rdf.DefaultGraph(), rdf.NamedNode("a:g"), rdf.BlankNode("g")]
    quads = [
        rdf.Quad(rdf.NamedNode("a:s"), rdf.NamedNode("a:p"), rdf.Literal(str(n)), graph)
        for n, graph in enumerate(graphs * 4)
    ]
    (tmp_path / "a.nq").write_bytes(serialize(quads, rdf.RdfFormat.N_QUADS))
    (tmp_path / "b.trig").write_bytes(serialize(quads, rdf.RdfFormat.TRIG))
    files = ["a.nq", "b.trig"]
    if importlib.util.find_spec("pyjelly") is not None:
        from pyjelly.integrations.generic.generic_sink import (
            IRI,
            BlankNode,
            DefaultGraph,
            Literal,
            Quad,
        )  # fmt: skip
        from pyjelly.integrations.generic.serialize import flat_stream_to_file

        names = {"<a:g>": IRI("a:g"), "_:g": BlankNode("g"), "DEFAULT": DefaultGraph}
        made = [
            Quad(IRI("a:s"), IRI("a:p"), Literal(str(n)), names[str(q.graph_name)])
            for n, q in enumerate(quads)
        ]
        with (tmp_path / "c.jelly").open("wb") as file:
            flat_stream_to_file(iter(made), file)
        files.append("c.jelly")
    rows = read(spark, tmp_path)
    blank = set()
    for name in files:
        found = {row["object"]: row["graph"] for row in rows if row["file"].endswith(name)}
        kinds = [found[f'"{n}"'] for n in range(12)]
        assert kinds[0::3] == [None] * 4, name
        assert kinds[1::3] == ["<a:g>"] * 4, name
        assert len(set(kinds[2::3])) == 1
        blank |= set(kinds[2::3])
    assert len(blank) == len(files)


def test_requested_columns(spark: LocalSpark, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<a:a> <a:p> <a:b> .\nbad\n")
    reader = spark.get().read.format("rdf")
    frame = reader.schema("problem string, object string").load(str(tmp_path))
    assert [tuple(row)[1] for row in frame.collect()] == ["<a:b>", None]
    with pytest.raises(Exception, match="rdf has no column time bigint; its columns are"):
        reader.schema("time bigint").load(str(tmp_path)).collect()


def test_nothing_to_read(spark: LocalSpark, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no such file or directory"):
        spark.get().read.format("rdf").load(str(tmp_path / "none"))
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(Exception, match="unknown RDF format"):
        spark.get().read.format("rdf").load(str(tmp_path / "a.txt"))
    assert read(spark, tmp_path) == []
    (tmp_path / "empty.nt").touch()
    (tmp_path / "empty.ttl").touch()
    assert read(spark, tmp_path) == []
    (tmp_path / "a.txt").write_text("<a:a> <a:p> <a:b> .")
    assert len(read(spark, tmp_path / "a.txt", format="nt")) == 1


def test_the_first_bad_line_ends_the_job(spark: LocalSpark, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<a:a> <a:p> <a:b> .\nbad\n")
    with pytest.raises(Exception, match=r"a\.nt, line 2: bad line: "):
        read(spark, tmp_path, mode="FAILFAST")


# Streams ----------------------------------------------------------------------------------------


class Died(Exception):
    """Kills the job in the middle of a batch."""


def run_stream(
    spark: LocalSpark, folder: Path, *, dies_in: int | None = None, **options: Any
) -> dict[int, list[tuple[Any, ...]]]:
    """The rows of each batch over the files that exist now."""
    batches: dict[int, list[tuple[Any, ...]]] = {}

    def receive(frame: Any, number: int) -> None:
        batches[number] = sorted(tuple(row) for row in frame.collect())
        if number == dies_in:
            raise Died

    query = (
        spark.get()
        .readStream.format("rdf")
        .options(**options)
        .load(str(folder / "in"))
        .writeStream.foreachBatch(receive)
        .option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    if dies_in is None:
        query.awaitTermination()
    else:
        with pytest.raises(Exception, match="Died"):
            query.awaitTermination()
    return batches


def test_a_stream_starts_again_where_it_was(spark: LocalSpark, tmp_path: Path) -> None:
    """It ends, dies in a batch, and finds files that appeared and grew meanwhile."""
    folder = tmp_path / "in"
    folder.mkdir()

    def write(name: str, count: int) -> None:
        with (folder / name).open("a") as file:
            file.writelines(f"<a:{name}> <a:p> <a:{n}> .\n" for n in range(count))

    for name in ("b.nt", "c.nt"):
        write(name, 5)
    first = run_stream(spark, tmp_path, maxRowsPerTrigger=4)
    assert [len(rows) for rows in first.values()] == [4, 4, 2]
    write("c.nt", 2)
    write("d.ttl", 3)
    died = run_stream(spark, tmp_path, dies_in=3)
    assert [len(died[3])] == [5]
    # A name that sorts before the others, and a file that has grown: the failed batch has neither.
    write("a.nt", 1)
    write("b.nt", 1)
    again = run_stream(spark, tmp_path)
    assert again[3] == died[3]
    assert [(Path(row[4]).name, row[5]) for row in again[4]] == [("a.nt", 1), ("b.nt", 6)]
    rows = [row for batches in (first, again) for batch in batches.values() for row in batch]
    assert len(rows) == len(set(rows)) == 17
    # Repeating a batch makes no second log.
    (log,) = (folder / "_rdf_seen").iterdir()
    offsets = (tmp_path / "checkpoint" / "offsets" / "4").read_text().splitlines()
    assert json.loads(offsets[-1])["log"] == log.stem
    (folder / "b.nt").unlink()
    with pytest.raises(Exception, match=r"b\.nt was read before and is missing"):
        run_stream(spark, tmp_path)
    write("e.nt", 1)
    assert [len(rows) for rows in run_stream(spark, tmp_path, onMissing="skip").values()] == [1]


def test_a_stream_that_resumes(spark: LocalSpark, tmp_path: Path) -> None:
    """Files appear while the query runs, in a directory that is empty at the start."""
    folder = tmp_path / "in"
    folder.mkdir()
    query = (
        spark.get()
        .readStream.format("rdf")
        .load(str(folder))
        .writeStream.format("memory")
        .queryName("rdf_rows")
        .option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        .start()
    )
    try:
        for number in range(3):
            hidden = folder / f"_{number}.nq"
            hidden.write_text(f"<a:{number}> <a:p> _:b <a:g> .\n" * 2)
            hidden.rename(folder / f"{9 - number}.nq")
            with (folder / "log.nt").open("a") as file:
                file.write(f"<a:{number}> <a:p> <a:b> .\n")
            query.processAllAvailable()
        rows = spark.get().table("rdf_rows").select("subject", "file", "position").collect()
    finally:
        query.stop()
    found = sorted((Path(row[1]).name, row[2], row[0]) for row in rows)
    assert found == [
        *((f"{9 - n}.nq", line, f"<a:{n}>") for n in (2, 1, 0) for line in (1, 2)),
        *(("log.nt", n + 1, f"<a:{n}>") for n in range(3)),
    ]
