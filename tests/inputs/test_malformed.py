"""Malformed input: each kind has one outcome, and nothing but the malformed is lost."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.inputs.writing import COLUMNAR, RDF, Event, pack

from triegs.errors import InputError, TriegsError
from triegs.events import Source, open_input

HEADER = "time,op,subject,predicate,object,id\n"
PLAIN_FORMATS = {**COLUMNAR, **RDF}
LINED = ("csv", "tsv", "jsonl", "nt", "nq")


def read(data: bytes | str, ending: str, folder: Path, **options: Any) -> tuple[list[Any], Source]:
    path = folder / f"events.{ending}"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    source = open_input(path, quarantine=folder / "aside.jsonl", **options)
    rows = [row for batch in source for row in batch.to_pylist()]
    return rows, source


def list_aside(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "aside.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def make_events(count: int) -> list[Event]:
    return [
        Event(n, 1, f"<a:{n}>", "<a:p>", f'"{os.urandom(20).hex()}"', None) for n in range(count)
    ]


# Records ------------------------------------------------------------------------------------------

CSV_RECORDS = [
    ("soon,+,<a:a>,<a:p>,<a:b>,", "bad time: 'soon' is neither a number"),
    (",+,<a:a>,<a:p>,<a:b>,", "no time"),
    ("253402300800000,+,<a:a>,<a:p>,<a:b>,", "bad time: '253402300800000' is outside the years 1"),
    ("99999999999999999999,+,<a:a>,<a:p>,<a:b>,", "bad time"),
    ("10000-01-01,+,<a:a>,<a:p>,<a:b>,", "bad time"),
    ("2023-02-29,+,<a:a>,<a:p>,<a:b>,", "bad time"),
    ("1,insert,<a:a>,<a:p>,<a:b>,", "bad op: the sign must be + or - (or 1 or -1), not 'insert'"),
    ("1,2,<a:a>,<a:p>,<a:b>,", "bad op"),
    ("1,+,a,<a:p>,<a:b>,", "bad term: subject: not an N-Triples term: 'a'"),
    ("1,+,<a:a>,p,<a:b>,", "bad term: predicate: not an N-Triples term: 'p'"),
    ("1,+,<a:a>,<a:p>,<a: b>,", "bad term: object: an IRI cannot contain ' '"),
    ("1,+,,<a:p>,<a:b>,", "no subject"),
    ("1,+,<a:a>,<a:p>,,", "no object"),
    ("1,+,<a:a>,<a:p>,<a:b>", "bad line: the line does not have 6 fields"),
    ("1,+,<a:a>,<a:p>,<a:b>,,", "bad line: the line does not have 6 fields"),
    ('1,+,<a:a>,<a:p>,"<a:b>,', "bad line: a quote is not closed"),
    ('1,+,<a:a>,<a:p>,"""x"" ,"b,', "bad line: there is text after a closing quote"),
    ('1,+,<a:a>,<a:p>,"x"@en,', "bad line: there is text after a closing quote"),
    ("nonsense", "bad line"),
]


@pytest.mark.parametrize(("line", "reason"), CSV_RECORDS)
def test_a_bad_line_of_csv_loses_only_itself(line: str, reason: str, tmp_path: Path) -> None:
    good = "1,+,<a:a>,<a:p>,<a:b>,7\n"
    rows, source = read(f"{HEADER}{good}{line}\n{good}", "csv", tmp_path)
    assert [row["id"] for row in rows] == ["7", "7"]
    (entry,) = list_aside(tmp_path)
    assert entry["reason"].startswith(reason)
    assert (entry["file"], entry["line"]) == (str(tmp_path / "events.csv"), 3)
    assert entry["record"] == line
    assert source.report.quarantined == {reason.partition(":")[0]: 1}
    assert (source.report.read, source.report.events) == (3, 2)
    assert not source.report.has_failed
    with pytest.raises(InputError, match="line 3") as raised:
        read(f"{HEADER}{good}{line}\n{good}", "csv", tmp_path, strict=True)
    assert (raised.value.file, raised.value.line) == (str(tmp_path / "events.csv"), 3)
    assert isinstance(raised.value, TriegsError)


JSON_RECORDS = [
    ("{", "bad line: not JSON"),
    ("[1]", "bad line: not a JSON object: [1]"),
    ('{"time":1}', "no subject"),
    ('{"time":null,"subject":1,"predicate":"<a:p>","object":1}', "no time"),
    ('{"subject":1,"predicate":"<a:p>","object":1}', "no time"),
    ('{"time":true,"subject":1,"predicate":"<a:p>","object":1}', "bad time"),
    ('{"time":1.5,"subject":1,"predicate":"<a:p>","object":1}', "bad time"),
    ('{"time":1,"subject":"a","predicate":"<a:p>","object":1}', "bad term: subject"),
    ('{"time":1,"subject":"<a:a>","predicate":"<a:p>","object":[1]}', "bad line: object"),
    ('{"time":1,"subject":"<a:a>","predicate":"<a:p>","object":null}', "no object"),
    ('{"time":1,"subject":"<a:a>","predicate":"<a:p>","object":"\\"\\ud800\\""}', "bad term"),
    ('{"time":1,"subject":1,"predicate":"<a:p>","object":1} {}', "bad line: not JSON"),
    ('{"time":1,"op":"x","subject":1,"predicate":"<a:p>","object":1}', "bad op"),
    ('{"a":{},', "bad line"),
]


@pytest.mark.parametrize(("line", "reason"), JSON_RECORDS)
def test_a_bad_line_of_json_loses_only_itself(line: str, reason: str, tmp_path: Path) -> None:
    good = '{"time": "1970-01-01", "subject": "<a:a>", "predicate": "<a:p>", "object": 5}\n'
    rows, _source = read(f"{good}\n{line}\n{good}", "jsonl", tmp_path)
    assert len(rows) == 2
    (entry,) = list_aside(tmp_path)
    assert entry["reason"].startswith(reason)
    assert (entry["line"], entry["record"]) == (3, line)
    with pytest.raises(InputError, match="line 3"):
        read(f"{good}\n{line}\n{good}", "jsonl", tmp_path, strict=True)


def test_a_bad_row_of_a_table_loses_only_itself(tmp_path: Path) -> None:
    table = pa.table(
        {
            "time": pa.array([1, None, 2, 3, 4, 1 << 60], pa.int64()),
            "op": pa.array([1, 1, 0, None, -1, 1], pa.int64()),
            "subject": ["<a:a>", "<a:a>", "<a:a>", "bad", None, "<a:a>"],
            "predicate": pa.array(["<a:p>"] * 6).dictionary_encode(),
            "object": pa.array(range(6)),
        }
    )
    for ending in ("parquet", "arrow"):
        target = io.BytesIO()
        if ending == "parquet":
            pq.write_table(table, target)
        else:
            with pa.ipc.new_stream(target, table.schema) as writer:
                writer.write_table(table)
        rows, source = read(target.getvalue(), ending, tmp_path)
        assert [row["object"] for row in rows] == [0]
        found = [
            (entry["line"], entry["reason"].partition(":")[0]) for entry in list_aside(tmp_path)
        ]
        assert found == [
            (2, "no time"), (3, "bad op"), (4, "bad term"), (5, "no subject"), (6, "bad time"),
        ]  # fmt: skip
        assert source.report.read == 6


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("mapped", [{}, {"map": "{subject} :p {object}"}])
def test_a_timestamp_outside_the_years_of_python_loses_its_row(
    zone: str | None, unit: str, mapped: dict[str, Any], tmp_path: Path
) -> None:
    scale = {"s": 1, "ms": 1_000, "us": 10**6}[unit]
    seconds = [1, -62_167_219_200, 253_402_300_800, 2]  # the years 0 and 10000 between others
    times = pa.array([each * scale for each in seconds]).cast(pa.timestamp(unit, zone))
    words = {name: [f"<http://ex/{name}>"] * 4 for name in ("subject", "predicate", "object")}
    table = pa.table({"time": times, **words})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_input(
        tmp_path / "a.parquet", columns={"time": "time"}, quarantine=tmp_path / "q", **mapped
    )
    assert [time for batch in source for time in batch["time"].to_pylist()] == [1_000, 2_000]
    assert (dict(source.report.quarantined), source.report.broken) == ({"bad time": 2}, [])
    rejected = (tmp_path / "q").read_text().splitlines()
    assert [json.loads(line)["line"] for line in rejected] == [2, 3]


def test_a_row_without_triples_whose_date_is_outside_the_years_of_python(tmp_path: Path) -> None:
    """Nothing is made of it: the other column is null."""
    days = pa.array([3_000_000, 1], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"a": [None, "x"], "day": days}), tmp_path / "a.parquet")
    source = open_input(tmp_path / "a.parquet", map="{a} :on {day:date}")
    assert sum(batch.num_rows for batch in source) == 1
    assert (dict(source.report.quarantined), source.report.broken) == ({"no triple": 1}, [])


def test_a_bad_dictionary_entry_loses_its_rows(tmp_path: Path) -> None:
    words = pa.array(["<a:a>", "bad", "<a:b>"])
    codes = pa.array([0, 1, 2, 1, None], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, words)
    table = pa.table({"subject": column, "predicate": [1] * 5, "object": range(5)})
    target = io.BytesIO()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    rows, _ = read(target.getvalue(), "arrow", tmp_path)
    assert [row["object"] for row in rows] == [0, 2]
    assert [entry["line"] for entry in list_aside(tmp_path)] == [2, 4, 5]


def test_a_bad_statement_of_turtle_is_reported_with_its_line(tmp_path: Path) -> None:
    text = "@prefix : <a:> .\n:a :p :b .\n:a :p .\n:c :p :d .\n"
    rows, _ = read(text, "ttl", tmp_path)
    assert "<a:b>" in {row["object"] for row in rows}
    (entry,) = list_aside(tmp_path)
    assert (entry["line"], entry["reason"].partition(":")[0]) == (3, "bad statement")
    with pytest.raises(InputError, match="line 3"):
        read(text, "ttl", tmp_path, strict=True)


def unpack_members(data: bytes) -> Iterator[bytes]:
    """What zlib gets out of gzip members, the last of which is cut."""
    while data:
        unpacker = zlib.decompressobj(wbits=31)
        yield unpacker.decompress(data)
        data = unpacker.unused_data


# Files that break ---------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", [".gz", ".zst"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "nt", "nq", "ttl", "trig"])
def test_a_file_that_breaks_gives_what_was_before(
    ending: str, packing: str, tmp_path: Path
) -> None:
    events = make_events(10_000)
    packed = pack(PLAIN_FORMATS[ending](events), packing)
    (tmp_path / f"a.{ending}{packing}").write_bytes(packed[: len(packed) * 3 // 4])
    (tmp_path / f"b.{ending}{packing}").write_bytes(
        pack(PLAIN_FORMATS[ending](events[:3]), packing)
    )
    source = open_input(tmp_path)
    subjects = [term for batch in source for term in batch["subject"].to_pylist()]
    least = 3_000
    if packing == ".gz":
        text = b"".join(unpack_members(packed[: len(packed) * 3 // 4]))
        least = text.count(b"\n") - (ending in ("csv", "tsv"))
    is_exact = ending in LINED and packing == ".gz"
    assert len(subjects) - 3 == least if is_exact else len(subjects) > 3_000
    assert subjects[:-3] == [event.subject for event in events[: len(subjects) - 3]]
    assert subjects[-3:] == [event.subject for event in events[:3]]
    ((name, reason),) = source.report.broken
    assert name.endswith(f"a.{ending}{packing}")
    assert "is truncated" in reason
    assert source.report.has_failed
    with pytest.raises(InputError, match="is truncated"):
        list(open_input(tmp_path, strict=True))


def test_an_arrow_stream_that_breaks_gives_what_was_before(tmp_path: Path) -> None:
    table = pa.table({"subject": range(10_000), "predicate": [1] * 10_000, "object": range(10_000)})
    target = io.BytesIO()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    data = target.getvalue()
    for ending in ("arrows", "arrows.gz"):
        cut = data[: len(data) // 2]
        packed = gzip.compress(data, mtime=0)
        rows, source = read(cut if ending == "arrows" else packed[:-100], ending, tmp_path)
        assert len(rows) >= 4_900
        assert [row["subject"] for row in rows] == list(range(len(rows)))
        assert source.report.has_failed


def test_files_that_are_not_compressed_although_named_so(tmp_path: Path) -> None:
    for packing in ("gz", "zst"):
        rows, source = read(HEADER, f"csv.{packing}", tmp_path)
        assert rows == []
        assert source.report.has_failed


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("data", [b"", b"nonsense", b"ARROW1\0\0nonsense"])
def test_what_is_no_table(ending: str, data: bytes, tmp_path: Path) -> None:
    rows, source = read(data, ending, tmp_path)
    assert rows == []
    assert len(source.report.broken) == 1


def test_what_is_no_jelly(tmp_path: Path) -> None:
    pytest.importorskip("pyjelly")
    rows, source = read(b"nonsense", "jelly", tmp_path)
    assert rows == []
    assert "Jelly" in source.report.broken[0][1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER)
    path.chmod(0)
    source = open_input(path)
    assert list(source) == []
    assert source.report.broken == [(str(path), "Permission denied")]


def test_a_file_that_is_gone_when_its_turn_comes(tmp_path: Path) -> None:
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text("<a:a> <a:p> <a:b> .\n")
    source = open_input(tmp_path)
    next(source)
    (tmp_path / "b.nt").unlink()
    assert list(source) == []
    assert source.report.broken == [(str(tmp_path / "b.nt"), "No such file or directory")]


# Encodings, sizes, line ends ----------------------------------------------------------------------

TEXTS = ["csv", "tsv", "jsonl", "nt", "nq", "ttl", "trig"]
ONE = [Event(0, 1, "<a:é>", "<a:p>", '"é"', None)]


@pytest.mark.parametrize("ending", TEXTS)
def test_a_mark_before_utf_8_is_left_out(ending: str, tmp_path: Path) -> None:
    rows, _ = read(b"\xef\xbb\xbf" + PLAIN_FORMATS[ending](ONE), ending, tmp_path, strict=True)
    assert rows[0]["subject"] == "<a:é>"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", TEXTS)
def test_utf_16_is_reported(ending: str, encoding: str, tmp_path: Path) -> None:
    data = PLAIN_FORMATS[ending](ONE).decode().encode(encoding)
    rows, source = read(data, ending, tmp_path)
    assert rows == []
    assert source.report.broken[0][1] == "the text is UTF-16, not UTF-8"


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "nt", "nq"])
def test_lines_that_are_not_utf_8_are_quarantined(ending: str, tmp_path: Path) -> None:
    events = [Event(n, 1, f"<a:{n}>", "<a:p>", '"@"', None) for n in range(5)]
    data = PLAIN_FORMATS[ending](events).replace(b'"@"', b'"\xe9"', 1)
    if ending in ("csv", "jsonl"):
        data = PLAIN_FORMATS[ending](events).replace(b"@", b"\xe9", 1)
    rows, _source = read(data, ending, tmp_path)
    assert [row["subject"] for row in rows] == [f"<a:{n}>" for n in range(1, 5)]
    (entry,) = list_aside(tmp_path)
    assert "UTF-8" in entry["reason"]
    assert "\\xe9" in entry["record"]


@pytest.mark.parametrize("ending", [*COLUMNAR, *RDF])
def test_a_literal_of_ten_megabytes(ending: str, tmp_path: Path) -> None:
    large = '"' + "x" * 10_000_000 + '"'
    events = [Event(n, 1, "<a:a>", "<a:p>", large if n == 1 else '"y"', None) for n in range(3)]
    rows, _ = read(PLAIN_FORMATS[ending](events), ending, tmp_path, strict=True, batch_rows=2)
    assert [row["object"] for row in rows] == ['"y"', large, '"y"']


@pytest.mark.parametrize("ending", ["csv", "jsonl", "nt"])
def test_a_line_without_end_is_quarantined(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triegs.events.lines.LONGEST_RECORD", 100_000)
    events = [Event(n, 1, f"<a:{n}>", "<a:p>", '"y"', None) for n in range(3)]
    lines = PLAIN_FORMATS[ending](events).splitlines(keepends=True)
    data = b"".join([*lines[:-1], b"x" * 1_000_000 + b"\n", lines[-1]])
    rows, source = read(data, ending, tmp_path, batch_rows=2)
    assert [row["subject"] for row in rows] == ["<a:0>", "<a:1>", "<a:2>"]
    assert source.report.quarantined == {"bad line": 1}
    (entry,) = list_aside(tmp_path)
    assert entry["line"] == len(lines)
    assert len(entry["record"]) < 100_000


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "nt", "nq"])
def test_mixed_line_ends(ending: str, tmp_path: Path) -> None:
    events = [Event(n, 1, f"<a:{n}>", "<a:p>", '"y"', f"{n}") for n in range(9)]
    ends = [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"]
    lines = PLAIN_FORMATS[ending](events).splitlines()
    data = b"".join(line + ends[n % len(ends)] for n, line in enumerate(lines))
    for rows in (1, 3, 100):
        found, _ = read(data, ending, tmp_path, strict=True, batch_rows=rows)
        assert [row["subject"] for row in found] == [event.subject for event in events]


@pytest.mark.parametrize("ending", [*TEXTS, "jelly", "csv.gz", "nt.gz", "rdf"])
def test_an_empty_file_has_no_events(ending: str, tmp_path: Path) -> None:
    if ending == "jelly":
        pytest.importorskip("pyjelly")
    rows, source = read(b"", ending, tmp_path)
    assert rows == []
    assert source.report.broken == ([] if ending != "rdf" else source.report.broken)


# Whole inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", COLUMNAR)
def test_missing_columns_are_reported(ending: str, tmp_path: Path) -> None:
    data = PLAIN_FORMATS[ending](make_events(2))
    for mapped, missing in (({"object": "obj"}, "obj"), ({"time": "ts"}, "ts")):
        if ending == "jsonl" and missing == "ts":
            continue
        with pytest.raises(InputError, match=f"'{missing}'"):
            read(data, ending, tmp_path, columns=mapped)


def test_duplicate_columns_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than one column 'subject'"):
        read("subject,subject,predicate,object\n", "csv", tmp_path)


def test_columns_of_a_wrong_type_are_reported(tmp_path: Path) -> None:
    good = {"time": [1], "op": ["+"], "subject": [1], "predicate": [1], "object": [1], "id": [1]}
    wrong = {"time": [1.5], "op": [True], "subject": [b"x"], "id": [2.5]}
    for name, values in wrong.items():
        target = io.BytesIO()
        pq.write_table(pa.table({**good, name: values}), target)
        with pytest.raises(InputError, match=f"{name}: "):
            read(target.getvalue(), "parquet", tmp_path)


def test_other_names_for_columns(tmp_path: Path) -> None:
    text = "ts,s,p,o,subject\n5,<a:a>,<a:p>,<a:b>,x\n"
    names = {"time": "ts", "subject": "s", "predicate": "p", "object": "o"}
    rows, _ = read(text, "csv", tmp_path, columns=names)
    assert rows == [
        {"time": 5, "op": 1, "subject": "<a:a>", "predicate": "<a:p>", "object": "<a:b>"}
    ]


def test_a_directory_with_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("b.nt", "a.nt.gz", "README.md", "_SUCCESS", ".hidden.nt"):
        text = f"<a:{name}> <a:p> <a:b> .\n".encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (folder / "sub").mkdir()
    source = open_input(folder)
    assert [b["subject"].to_pylist() for b in source] == [["<a:a.nt.gz>"], ["<a:b.nt>"]]
    skipped = [Path(name).name for name in source.report.skipped]
    assert skipped == [".hidden.nt", "README.md", "_SUCCESS", "sub"]
    with pytest.raises(InputError, match="has no file with a known extension"):
        open_input(folder / "sub")


WRONG_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"given": "nowhere.csv"}, "nowhere.csv: no such file or directory"),
    ({"given": "-"}, "standard input: unknown file extension; give a format"),
    ({"given": "-", "format": "xml"}, "unknown format 'xml': csv"),
    ({"given": "-", "format": "csv", "compression": "rar"}, "unknown compression 'rar'"),
    ({"given": "-", "format": "csv", "columns": {"when": "x"}}, "unknown column 'when'"),
    (
        {"given": "-", "format": "csv", "terms": "turtle"},
        "terms must be one of ntriples, plain, integers, not 'turtle'",
    ),
    ({"given": "-", "format": "csv", "graph_time": "a:t"}, "graph_time requires N-Quads or TriG"),
    ({"given": "-", "format": "nq", "graph_time": "a t"}, "graph_time: an IRI cannot contain"),
    ({"given": "-", "format": "csv", "batch_rows": 0}, "batch_rows must be at least 1"),
    ({"given": []}, "no input was given"),
    (
        {"given": "-", "format": "csv", "start": {"file": "x"}},
        "cannot resume: x is not a file of this input",
    ),
    ({"given": "-", "format": "csv", "quarantine": "/nowhere/x"}, "cannot write the quarantine"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_wrong_calls_fail_at_once(call: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_input(**call)


def test_the_report_can_be_written_as_json(tmp_path: Path) -> None:
    _, source = read(HEADER + "x\n", "csv", tmp_path)
    assert json.loads(json.dumps(source.report.as_dict()))["quarantined"] == {"bad line": 1}


def test_quarantine_is_continued_where_reading_is(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("bad 1\n<a:a> <a:p> <a:b> .\nbad 2\n<a:c> <a:p> <a:d> .\n")
    aside = tmp_path / "aside.jsonl"
    with open_input(path, quarantine=aside, batch_rows=2) as source:
        next(source)
        position = source.position
    with open_input(path, quarantine=aside, batch_rows=2, start=position) as source:
        assert sum(batch.num_rows for batch in source) == 1
    assert [entry["record"] for entry in list_aside(tmp_path)] == ["bad 1", "bad 2"]
