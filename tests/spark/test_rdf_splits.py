"""``format("rdf")`` without Spark: file splits, the file log, limits."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.errors import InputError
from triegs.spark.rdf import cutting
from triegs.spark.rdf.batch_limits import read_rate
from triegs.spark.rdf.cutting import Range, count_lines, cut_range, find_whole_end, pass_lines
from triegs.spark.rdf.file_log import FileLog, Offset
from triegs.spark.rdf.settings import Settings, read_settings
from triegs.spark.rdf.source import SCHEMA, TIMED_SCHEMA, RdfStreamReader

limits = pytest.importorskip("pyspark.sql.streaming.datasource")
ALL = [(name, True) for name in SCHEMA]
STATEMENT = "<a:{}> <a:p> <a:b> .\n"
TEXTS = st.lists(st.sampled_from([b"", b"a", b"bc", b"def"]), max_size=12).flatmap(
    lambda lines: st.lists(
        st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=len(lines), max_size=len(lines)
    ).map(lambda ends: b"".join(a + b for pair in zip(lines, ends, strict=True) for a, b in [pair]))
)


def split(data: bytes) -> list[bytes]:
    """Lines with their ends; `bytes.splitlines` recognizes exactly our three line ends."""
    return data.splitlines(keepends=True)


# Cuts -------------------------------------------------------------------------------------------


@pytest.mark.property
@given(TEXTS, st.sampled_from([b"", b"x"]), st.integers(1, 5))
def test_cuts_of_every_size_give_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, rest: bytes, chunk: int
) -> None:
    data = text + rest
    path = tmp_path_factory.getbasetemp() / "cut.nt"
    path.write_bytes(data)
    before, cutting.CHUNK = cutting.CHUNK, chunk
    try:
        for size in range(1, len(data) + 2):
            ranges = cut_range(str(path), Range(0, len(data), 1), size)
            assert [line for r in ranges for line in split(data[r.begin : r.end])] == split(data)
            assert [r.line for r in ranges] == [1 + len(split(data[: r.begin])) for r in ranges]
            assert all(r.end - r.begin >= size for r in ranges[:-1])
    finally:
        cutting.CHUNK = before


@pytest.mark.property
@given(TEXTS, st.sampled_from([b"", b"x"]), st.integers(1, 4))
def test_lines_are_passed_up_to_a_limit(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, rest: bytes, chunk: int
) -> None:
    data = text + rest
    path = tmp_path_factory.getbasetemp() / "pass.nt"
    path.write_bytes(data)
    lines = split(data)
    before, cutting.CHUNK = cutting.CHUNK, chunk
    try:
        assert count_lines(str(path), 0, len(data)) == len(split(text))
        for rows in range(1, len(lines) + 2):
            for size in range(1, len(data) + 2):
                fit = 1
                while fit < min(rows, len(lines)) and len(b"".join(lines[: fit + 1])) <= size:
                    fit += 1
                expected = lines[:fit]
                found = pass_lines(str(path), 0, len(data), rows, size)
                assert found == (len(b"".join(expected)), len(expected))
    finally:
        cutting.CHUNK = before


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("<a:a> <a:p> <a:b> .\n", "<a:a> <a:p> <a:b> .\n"),
        ("one\n<a:a> <a:p> <a", "one\n"),
        ("one\n<a:a> <a:p> <a:b> .", "one\n<a:a> <a:p> <a:b> ."),
        ("one\r\n<a:a> <a:p> <a:b> . \r", "one\r\n<a:a> <a:p> <a:b> ."),
        ('one\n<a:a> <a:p> "in a text .', "one\n"),
        ("one\n<a:a> <a:p> _:b.", "one\n"),
        ("one\n<a:a> <a:p> <a:b> . # <see>.", "one\n"),
        ("one\rtwo", "one\r"),
        ("one\r", ""),
        ("one", ""),
    ],
)
def test_a_file_that_grows_has_whole_lines(tmp_path: Path, text: str, whole: str) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(text.encode())
    for cutting.CHUNK in (1, 2, 3, 1 << 20):
        assert find_whole_end(str(path), 0, len(text)) == len(whole)


# A stream, driven as Spark drives it -------------------------------------------------------------


def make_reader(folder: Path, **options: str) -> RdfStreamReader:
    settings = read_settings({"path": str(folder), **options})
    columns = [(name, True) for name in (TIMED_SCHEMA if settings.graph_time else SCHEMA)]
    return RdfStreamReader(settings, columns)


def read_between(reader: RdfStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def take_batches(
    reader: RdfStreamReader, start: Any = None, limit: Any = None
) -> tuple[list[list[str]], Any]:
    """The content of each batch (file name and position) until none is left; and the offset."""
    at = reader.initialOffset() if start is None else start
    batches: list[list[str]] = []
    while True:
        end = reader.latestOffset(at, limit or reader.getDefaultReadLimit())
        end = json.loads(json.dumps(end))
        if end == at:
            return batches, at
        assert place(end) > place(at)
        rows = read_between(reader, at, end)
        batches.append([f"{Path(r['file']).name}:{r['position']}" for r in rows])
        at = end


def place(offset: dict[str, Any]) -> tuple[int, int]:
    return offset["entry"], offset["byte"]


def write(path: Path, *names: object, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("".join(STATEMENT.format(name) for name in names)[:-1] + end)


def test_files_by_name_then_as_they_come(tmp_path: Path) -> None:
    write(tmp_path / "b.nt", 1, 2)
    write(tmp_path / "c.nt", 1)
    (tmp_path / "empty.nt").touch()
    (tmp_path / "_hidden.nt").write_text("no")
    (tmp_path / "notes.txt").write_text("no")
    reader = make_reader(tmp_path)
    batches, at = take_batches(reader)
    assert batches == [["b.nt:1", "b.nt:2", "c.nt:1"]]
    write(tmp_path / "a.nt", 1)
    os.utime(tmp_path / "a.nt", (1, 1))  # older than everything that was read
    write(tmp_path / "empty.nt", 1)
    batches, at = take_batches(reader, at)
    assert batches == [["a.nt:1", "empty.nt:1"]]
    assert take_batches(make_reader(tmp_path), at) == ([], at)


def test_files_grow_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    write(path, 1, end="")
    write(tmp_path / "b.nt", 1)
    reader = make_reader(tmp_path)
    batches, at = take_batches(reader)
    assert batches == [["a.nt:1", "b.nt:1"]]  # a statement with its dot is complete
    with path.open("a") as file:
        file.write(" # more\n<a:2> <a:p>")
    batches, at = take_batches(reader, at)
    assert batches == [[]]  # a comment
    with path.open("a") as file:
        file.write(" <a:b> .\n<a:3> <a:p> <a:b> .\n<a:4>")
    batches, at = take_batches(make_reader(tmp_path), at)  # another process
    assert batches == [["a.nt:2", "a.nt:3"]]


def test_a_batch_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.nt", *range(5))
    reader = make_reader(tmp_path, maxRowsPerTrigger="7")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    first = read_between(reader, start, end)
    assert len(first) == 7
    # Then the process dies; new files appear, and a file grows.
    write(tmp_path / "0.nt", 1)
    write(tmp_path / "a.nt", 9)
    again = make_reader(tmp_path, maxRowsPerTrigger="7")
    assert read_between(again, start, end) == first
    batches, _ = take_batches(again, end)
    assert batches == [
        [*(f"b.nt:{n}" for n in (3, 4, 5)), *(f"c.nt:{n}" for n in (1, 2, 3, 4))],
        ["c.nt:5", "0.nt:1", "a.nt:6"],
    ]


def test_what_a_crash_leaves_of_an_entry_is_cut_off(tmp_path: Path) -> None:
    write(tmp_path / "a.nt", 1)
    _, at = take_batches(make_reader(tmp_path))
    (log,) = (tmp_path / "_rdf_seen").iterdir()
    kept = log.read_bytes()
    log.write_bytes(kept + b'["torn')
    write(tmp_path / "b.nt", 1)
    batches, at = take_batches(make_reader(tmp_path), at)
    assert batches == [["b.nt:1"]]
    assert len(log.read_bytes().splitlines()) == 2
    assert log.read_bytes().startswith(kept)
    assert [entry.path for entry in FileLog.open(log.parent, at["log"]).entries] == [
        str(tmp_path / "a.nt"), str(tmp_path / "b.nt"),
    ]  # fmt: skip


def test_a_log_that_is_missing_or_damaged(tmp_path: Path) -> None:
    write(tmp_path / "a.nt", 1)
    _, at = take_batches(make_reader(tmp_path, seenLocation=str(tmp_path / "seen")))
    assert not (tmp_path / "_rdf_seen").exists()
    (log,) = (tmp_path / "seen").iterdir()
    with pytest.raises(InputError, match="cannot read the list of files that the stream has read"):
        take_batches(make_reader(tmp_path), at)
    kept = log.read_bytes()
    log.write_bytes(b"{}\n" + kept)
    with pytest.raises(InputError, match=r"jsonl, line 1: not an entry"):
        take_batches(make_reader(tmp_path, seenLocation=str(tmp_path / "seen")), at)
    log.write_bytes(b"")
    reader = make_reader(tmp_path, seenLocation=str(tmp_path / "seen"))
    with pytest.raises(InputError, match="has 0 entries, fewer than the checkpoint expects"):
        reader.partitions(reader.initialOffset(), at)
    with pytest.raises(InputError, match="the checkpoint belongs to another source"):
        reader.latestOffset({"offset": 1}, reader.getDefaultReadLimit())


@pytest.mark.parametrize("change", ["gone", "shorter", "replaced", "turtle grown"])
def test_files_that_change_after_they_were_read(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / ("a.ttl" if change == "turtle grown" else "a.nt")
    write(path, 1, 2)
    reader = make_reader(folder)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    match change:
        case "gone":
            path.unlink()
        case "shorter":
            path.write_text(STATEMENT.format(1))
        case "replaced":
            path.write_text("<a:long> <a:p> <a:long> .\n" * 4)
        case _:
            write(path, 3)
    told = {
        "gone": "is missing",
        "shorter": "has shrunk: 20 bytes, not 40",
        "turtle grown": "changed",
    }
    with pytest.raises(InputError, match=told.get(change, "no line ends at byte 40")) as caught:
        reader.latestOffset(end, reader.getDefaultReadLimit())
    assert caught.value.file == str(path)
    if change == "replaced":
        return
    # The same error when it is read again after a restart.
    with pytest.raises(InputError, match=told[change]):
        read_between(make_reader(folder), start, end)
    skipping = make_reader(folder, onMissing="skip")
    assert read_between(skipping, start, end) == []
    write(folder / "b.nt", 1)
    assert take_batches(skipping, end)[0] == [["b.nt:1"]]


# Limits -----------------------------------------------------------------------------------------


def write_many(folder: Path) -> None:
    for name in "abc":
        write(folder / f"{name}.nt", *range(4))


def count_batches(reader: RdfStreamReader, limit: Any = None) -> list[int]:
    return [len(batch) for batch in take_batches(reader, limit=limit)[0]]


def test_limits(tmp_path: Path) -> None:
    write_many(tmp_path)  # lines of 20 bytes
    assert count_batches(make_reader(tmp_path)) == [12]
    assert count_batches(make_reader(tmp_path, maxRowsPerTrigger="5")) == [5, 5, 2]
    assert count_batches(make_reader(tmp_path, maxFilesPerTrigger="2")) == [8, 4]
    assert count_batches(make_reader(tmp_path, maxBytesPerTrigger="130")) == [6, 6]
    assert count_batches(make_reader(tmp_path, maxBytesPerTrigger="1")) == [1] * 12
    both = make_reader(tmp_path, maxRowsPerTrigger="7", maxFilesPerTrigger="1")
    assert count_batches(both) == [4, 4, 4]
    # Spark wants everything, whatever the limits.
    assert count_batches(both, limit=limits.ReadAllAvailable()) == [12]
    assert count_batches(make_reader(tmp_path), limit=limits.ReadMaxRows(11)) == [11, 1]


def test_a_file_that_is_read_as_a_whole_is_one_batch_at_least(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.ttl", *range(100))
    write(tmp_path / "c.nt", 1, 2)
    reader = make_reader(tmp_path, maxRowsPerTrigger="10")
    assert count_batches(reader) == [100, 100, 2]


def test_the_rate_in_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_many(folder)
    rate = tmp_path / "rate.json"
    reader = make_reader(folder, rateFile=str(rate))
    assert isinstance(reader.getDefaultReadLimit(), limits.ReadMaxRows)
    assert count_batches(reader) == [12]  # no rate is known
    rate.write_text('{"rows_per_second": 2.5, "seconds": 2}')
    assert count_batches(make_reader(folder, rateFile=str(rate))) == [5, 5, 2]
    for bad in ("", "{}", "[1]", '{"rows_per_second": "x", "seconds": 1}'):
        rate.write_text(bad)
        assert count_batches(make_reader(folder, rateFile=str(rate))) == [12]
    rate.write_text('{"rows_per_second": 0, "seconds": 1}')
    assert read_rate(str(rate)) == 1


def test_a_query_that_ends_takes_what_there_was(tmp_path: Path) -> None:
    write(tmp_path / "a.nt", 1, 2)
    reader = make_reader(tmp_path, maxRowsPerTrigger="1")
    reader.prepareForTriggerAvailableNow()
    write(tmp_path / "a.nt", 3)
    write(tmp_path / "b.nt", 1)
    batches, at = take_batches(reader)
    assert batches == [["a.nt:1"], ["a.nt:2"]]
    later = make_reader(tmp_path)
    later.prepareForTriggerAvailableNow()
    assert take_batches(later, at)[0] == [["a.nt:3", "b.nt:1"]]
    assert later.reportLatestOffset() == Offset(at["log"], 3).as_dict()


# Rows -------------------------------------------------------------------------------------------


def read_all(folder: Path, **options: str) -> list[dict[str, Any]]:
    reader = make_reader(folder, **options)
    start = reader.initialOffset()
    return read_between(reader, start, reader.latestOffset(start, limits.ReadAllAvailable()))


BAD = b'<a:1> <a:p> "x" .\n\nbad <line>\n<a:2> <a:p> "\xff" .\n<a:3> <a:p> <a:b> .\n'


def test_malformed_lines(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(BAD)
    rows = read_all(tmp_path, maxPartitionBytes="1")
    assert [row["position"] for row in rows] == [1, 3, 4, 5]
    assert [row["subject"] for row in rows] == ["<a:1>", None, None, "<a:3>"]
    assert [row["problem"] is None for row in rows] == [True, False, False, True]
    assert [row["record"] for row in rows[1:3]] == ["bad <line>", '<a:2> <a:p> "\\xff" .']
    assert read_all(tmp_path) == rows
    dropped = read_all(tmp_path, mode="dropMalformed")
    assert dropped == [rows[0], rows[3]]
    with pytest.raises(InputError, match=r"a\.nt, line 3: bad line: "):
        read_all(tmp_path, mode="FAILFAST")


def test_malformed_statements(tmp_path: Path) -> None:
    text = "<a:1> <a:p> <a:b> .\n<a:2> <a:p> x <a:c> .\n<a:3> <a:p> <a:b> .\n"
    (tmp_path / "a.ttl").write_text(text)
    rows = read_all(tmp_path)
    assert [(row["subject"], row["position"]) for row in rows] == [
        ("<a:1>", 1), ("<a:3>", 2), (None, None),
    ]  # fmt: skip
    assert rows[2]["problem"].startswith("line 2: bad statement: ")


def test_a_broken_file(tmp_path: Path) -> None:
    packed = gzip.compress(
        "".join(STATEMENT.format(os.urandom(9).hex()) for _ in range(5000)).encode()
    )
    (tmp_path / "a.nt.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.nt").write_text(STATEMENT.format(1))
    rows = read_all(tmp_path)
    problems = [row["problem"] for row in rows if row["problem"]]
    assert problems == ["broken file: the gzip data is truncated"]
    assert len(rows) > 1000  # the rows before the break
    assert rows[-1]["subject"] == "<a:1>"
    with pytest.raises(InputError, match=r"a\.nt\.gz: the gzip data is truncated"):
        read_all(tmp_path, mode="DROPMALFORMED")


def test_times_of_graphs(tmp_path: Path) -> None:
    text = (
        "<a:s> <a:p> <a:o> <a:g> .\n"
        '<a:g> <a:at> "1970-01-01T00:00:05Z" .\n'
        "<a:s> <a:p> <a:o> <a:h> .\n"
    )
    (tmp_path / "a.nq").write_text(text)
    (tmp_path / "b.trig").write_text('<a:g> <a:at> "7" . <a:g> { <a:s> <a:p> <a:o>, <a:n> }')
    rows = read_all(tmp_path, graph_time="a:at", maxPartitionBytes="10")
    assert [(Path(r["file"]).name, r["time"], r["graph"], r["position"]) for r in rows] == [
        ("a.nq", 5000, "<a:g>", 1),
        ("a.nq", None, None, 3),
        ("b.trig", 7, "<a:g>", 2),
        ("b.trig", 7, "<a:g>", 3),
    ]
    assert rows[1]["problem"] == "no time: no nearby statement gives the time of its graph"
    (tmp_path / "c.nt").write_text("")
    write(tmp_path / "c.nt", 1)
    with pytest.raises(InputError, match=r"c\.nt: graph_time needs N-Quads or TriG"):
        read_all(tmp_path, graph_time="a:at")


def test_a_mark_before_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(b"\xef\xbb\xbf" + (STATEMENT * 3).format(1, 2, 3).encode())
    for size in ("1", "1m"):
        rows = read_all(tmp_path, maxPartitionBytes=size)
        assert [(row["position"], row["problem"]) for row in rows] == [
            (1, None), (2, None), (3, None),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "no path: load"),
        ({"path": "s3://bucket/a.nt"}, "not s3://"),
        ({"format": "csv"}, "'csv' is not RDF; use one of n-triples"),
        ({"compression": "bz2"}, "use none, gzip or zstd"),
        ({"mode": "soft"}, "mode must be one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"onMissing": "cry"}, "onMissing must be one of fail, skip"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger must be at least 1, not '0'"),
        ({"maxRowsPerTrigger": "1k"}, "maxRowsPerTrigger must be at least 1"),
        ({"maxPartitionBytes": "much"}, "a positive number of bytes"),
        ({"graph_time": "no iri"}, "graph_time: an IRI cannot contain"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_settings({"path": "/data", **options})


def test_paths(tmp_path: Path) -> None:
    assert read_settings({"path": tmp_path.as_uri()}) == Settings((str(tmp_path),))
    assert read_settings({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    for name in ("x1", "x2"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.nt", name)
        write(tmp_path / name / "b.nq", name)
    found = read_all(tmp_path / "x*" / "*.nt")
    assert [row["subject"] for row in found] == ["<a:x1>", "<a:x2>"]
    assert (tmp_path / "_rdf_seen").is_dir()
    assert len(read_all(tmp_path / "x?")) == 4
