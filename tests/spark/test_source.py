"""Reading with Spark equals reading without it: events, order, malformed records, answers."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from functools import partial
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from triegs.cli.app import app
from triegs.cli.demo import run_demo
from triegs.cli.screen import Screen
from triegs.errors import InputError
from triegs.events import Source, open_input
from triegs.spark import LocalSpark, SparkSource

# PySpark leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

COLUMNS = ("time", "op", "subject", "predicate", "object", "id")
QUERY = "SELECT ?x ?y ?z { ?x <http://ex/p> ?y . ?y <http://ex/q> ?z }"
FILES, ROWS = 5, 60
FORMATS = ("parquet", "csv", "jsonl")
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


def draw_rows(seed: int) -> list[list[Any]]:
    """Timed inserts and deletes, out of order, with repeats, blank nodes and malformed terms."""
    random = np.random.default_rng(seed)
    nodes = [*(f"<http://ex/{n}>" for n in range(6)), "_:b", r'"a \"text\", öß"@de']
    rows: list[list[Any]] = []
    for place in range(FILES * ROWS):
        time = 100 * place + int(random.integers(-900, 900))
        op = "-" if random.random() < 0.15 else "+"
        subject, target = random.choice(nodes[:7]), random.choice(nodes)
        predicate = f"<http://ex/{'pq'[int(random.integers(2))]}>"
        row: list[Any] = [time, op, str(subject), predicate, str(target), None]
        if random.random() < 0.05:
            row[int(random.integers(2, 5))] = ["no term", "<half", None][int(random.integers(3))]
        if random.random() < 0.02:
            row[1] = "x"
        rows.append(row)
    return rows


def quote(cell: Any) -> str:
    return "" if cell is None else '"' + str(cell).replace('"', '""') + '"'


def write_rows(path: Path, rows: list[list[Any]], form: str) -> None:
    if form == "parquet":
        kinds = [pa.int64(), *[pa.string()] * 5]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, COLUMNS), path)
        return
    if form == "jsonl":
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        lines.insert(7, "{ this is no record")
    else:
        quoted = [
            ["" if c is None else '"' + str(c).replace('"', '""') + '"' for c in row]
            for row in rows
        ]
        lines = [",".join(COLUMNS), *map(",".join, quoted)]
        lines.insert(9, "1,2,3")
        lines.insert(12, '5,+,"<http://ex/1>,<http://ex/p>,<http://ex/2>,')
    # Without a newline after the last line.
    path.write_bytes("\n".join(lines).encode())


def write_folder(folder: Path, form: str, seed: int = 1, *, backwards: bool = False) -> None:
    folder.mkdir()
    rows = draw_rows(seed)
    for number in range(FILES):
        path = folder / f"part-{number}.{form}"
        write_rows(path, rows[number * ROWS : (number + 1) * ROWS], form)
        written = 1_700_000_000 + (-number if backwards else number)
        os.utime(path, (written, written))


def read_all(source: Source) -> tuple[list[dict[str, list[Any]]], dict[str, Any]]:
    with source:
        batches = [batch.to_pydict() for batch in source]
    return batches, source.report.as_dict()


def read_both(
    spark: LocalSpark, given: Any, folder: Path, *, per_batch: int = 2, **options: Any
) -> tuple[list[dict[str, list[Any]]], dict[str, Any]]:
    """What Spark reads, after a comparison with reading without it."""
    make: Any = partial(SparkSource, spark=spark, files_per_batch=per_batch)
    found, kept = [], []
    for number, how in enumerate((Source, make)):
        path = folder / f"quarantine-{number}.jsonl"
        found.append(read_all(open_input(given, quarantine=path, make=how, **options)))
        kept.append(path.read_text())
    assert found[0] == found[1]
    assert kept[0] == kept[1]
    return found[1]


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_batches_and_the_same_malformed_records(
    spark: LocalSpark, tmp_path: Path, form: str
) -> None:
    write_folder(tmp_path / "in", form)
    batches, report = read_both(spark, tmp_path / "in", tmp_path)
    assert len(report["files"]) == FILES
    assert report["events"] == sum(len(batch["time"]) for batch in batches)
    assert report["events"] + sum(report["quarantined"].values()) == report["read"]
    assert {"bad term", "bad op"} <= report["quarantined"].keys()


def test_files_are_in_the_order_of_their_names_whenever_they_were_written(
    spark: LocalSpark, tmp_path: Path
) -> None:
    write_folder(tmp_path / "in", "csv", backwards=True)
    _, report = read_both(spark, tmp_path / "in", tmp_path)
    assert report["files"] == sorted(report["files"])


def test_inputs_of_several_kinds(spark: LocalSpark, tmp_path: Path) -> None:
    """Parquet with two schemas, gzip, an empty file, two kinds of line ends, bytes that are not
    text.
    """
    pq.write_table(
        pa.table({"subject": [1, 2], "predicate": ["<a:p>"] * 2, "object": [3, 4]}),
        tmp_path / "a.parquet",
    )
    pq.write_table(
        pa.table({"object": ["<a:b>"], "predicate": ["<a:p>"], "subject": ["<a:c>"], "x": [1]}),
        tmp_path / "b.parquet",
    )
    text = b'<a:a> <a:p> "1" .\r\n# nothing\n<a:a> <a:p> .\n\n<a:a> <a:p> _:b .'
    (tmp_path / "c.nt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "d.nt").write_bytes(b"")
    (tmp_path / "e.nt").write_bytes(b'\xef\xbb\xbf<a:a> <a:p> "\xff" .\n<a:a> <a:p> <a:c> .\n')
    names = ("a.parquet", "b.parquet", "c.nt.gz", "d.nt", "e.nt")
    batches, report = read_both(spark, [tmp_path / name for name in names], tmp_path)
    assert report["events"] == 6
    assert sum(len(batch["time"]) for batch in batches) == 6


def test_rows_of_a_long_file_stay_in_order(spark: LocalSpark, tmp_path: Path) -> None:
    """Long enough for many small blocks and several of our batches."""
    session = spark.get()
    before = session.conf.get("spark.sql.files.maxPartitionBytes")
    session.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        rows = [[n, "+", f"<a:{n}>", "<a:p>", f"<a:{n % 7}>", f"e{n}"] for n in range(3_000)]
        write_rows(tmp_path / "a.csv", rows, "csv")
        write_rows(tmp_path / "b.jsonl", rows, "jsonl")
        files = [tmp_path / "a.csv", tmp_path / "b.jsonl"]
        read_both(spark, files, tmp_path, batch_rows=1_000)
    finally:
        session.conf.set("spark.sql.files.maxPartitionBytes", before)


def test_a_reader_that_leaves_early(spark: LocalSpark, tmp_path: Path) -> None:
    write_folder(tmp_path / "in", "csv")
    make = partial(SparkSource, spark=spark, files_per_batch=1)
    with open_input(tmp_path / "in", make=make) as source:
        next(source)
    assert source.report.files == [str(tmp_path / "in" / "part-0.csv")]
    assert not spark.get().streams.active
    # Nothing of it affects the next.
    read_both(spark, tmp_path / "in", tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_it_resumes_where_either_reader_stopped(
    spark: LocalSpark, tmp_path: Path, form: str
) -> None:
    write_folder(tmp_path / "in", form)
    make: Any = partial(SparkSource, spark=spark, files_per_batch=2)
    expected, _ = read_all(open_input(tmp_path / "in", batch_rows=25))
    for first, then, taken in [(Source, make, 4), (make, Source, 7), (make, make, 8)]:
        with open_input(tmp_path / "in", batch_rows=25, make=first) as source:
            begun = [next(source).to_pydict() for _ in range(taken)]
        assert "part-0" not in source.position["file"]
        rest, _ = read_all(
            open_input(tmp_path / "in", batch_rows=25, start=source.position, make=then)
        )
        assert begun + rest == expected


def test_strict_ends_at_the_first_malformed_record(spark: LocalSpark, tmp_path: Path) -> None:
    write_folder(tmp_path / "in", "csv")
    messages = []
    for make in (Source, partial(SparkSource, spark=spark)):
        with pytest.raises(InputError) as caught:
            read_all(open_input(tmp_path / "in", strict=True, make=make))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_broken_file_is_reported_in_one_line(spark: LocalSpark, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"time,op\n" * 100)[:-9])
    with pytest.raises(InputError, match=r"/a\.csv\.gz: Spark failed: [^\n]+$"):
        read_all(open_input(tmp_path / "a.csv.gz", make=partial(SparkSource, spark=spark)))


SLIDING, EPOCHS = ["--window", "2s", "--slide", "1s"], ["--mode", "rdf"]


@pytest.mark.parametrize(
    ("form", "options"),
    [(form, each) for form in FORMATS for each in (SLIDING, EPOCHS)]
    if SOAK
    else list(zip(FORMATS, cycle([SLIDING, EPOCHS]), strict=False)),
)
def test_run_gives_the_same_answers(
    spark: LocalSpark, tmp_path: Path, form: str, options: list[str]
) -> None:
    write_folder(tmp_path / "in", form, seed=2)
    given = ["run", QUERY, "--input", str(tmp_path / "in"), "--format", "csv", *options]
    done = [
        CliRunner().invoke(app, [*given, "--emit", "both", "--engine", engine])
        for engine in ("direct", "spark")
    ]
    assert done[0].exit_code == done[1].exit_code == 0, done[1].output
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr == done[1].stderr
    assert len(done[0].stdout.splitlines()) > 50


def test_a_run_with_a_state_takes_what_is_new(spark: LocalSpark, tmp_path: Path) -> None:
    """Three runs, each with more files than the last; one of them with the other engine."""
    write_folder(tmp_path / "all", "csv", seed=3)
    told: dict[str, list[str]] = {}
    for engines in (("direct",) * 3, ("spark", "direct", "spark")):
        folder = tmp_path / "both"  # blank nodes are named by the paths of their files
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "in").mkdir(parents=True)
        files = iter(sorted((tmp_path / "all").iterdir()))
        for engine, count in zip(engines, (2, 1, 2), strict=True):
            for _ in range(count):
                path = next(files)
                (folder / "in" / path.name).write_bytes(path.read_bytes())
            given = ["run", QUERY, "--input", str(folder / "in"), "--window", "2s", "--slide", "1s"]
            given += ["--emit", "changes", "--state", str(folder / "state"), "--engine", engine]
            done = CliRunner().invoke(app, given)
            assert done.exit_code == 0, done.output
            told.setdefault(engines[0], []).append(done.stdout)
    assert told["spark"] == told["direct"]
    assert all(len(text.splitlines()) > 10 for text in told["spark"])


def test_the_demo_finds_the_same_with_spark_and_without(spark: LocalSpark) -> None:
    file = StringIO()
    run_demo("spark", Screen(file=file), 15_000)
    assert "Through Spark" in file.getvalue()
    assert "the same answers at every slide" in file.getvalue()
