"""``triegs run`` over input that it cannot take: what it says, and that it fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from triegs.cli.app import app

QUERY = "SELECT ?x ?y { ?x <http://ex/p> ?y }"
HEAD = "time,op,subject,predicate,object\n"
DAY = 86_400_000
IN_2024 = 1_714_550_400_000


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["run", QUERY, *arguments])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def write(folder: Path, lines: str, name: str = "events.csv") -> str:
    path = folder / name
    path.write_text(lines)
    return str(path)


def row(time: int | str, name: str = "a", op: str = "+") -> str:
    return f"{time},{op},<http://ex/{name}>,<http://ex/p>,<http://ex/b>\n"


def test_all_malformed(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "5,+,:ann,:knows,:bob\n6,+,:bob,:knows,:eve\n")
    said = run("-i", path, code=1).stderr
    assert "2 records were malformed and skipped (bad term 2)" in said
    assert f"first: {path}, line 2: 5,+,:ann,:knows,:bob" in said
    assert "try: --terms plain" in said
    assert "error: no event was accepted: 2 records were read and rejected" in said
    run("-i", path, "--terms", "plain", "--prefix", ":=http://ex/")


def test_all_refused(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + row(5, "a", "-") + row(6, "c", "-"))
    said = run("-i", path, code=1).stderr
    assert "2 records were refused (no live event states this 2)" in said
    assert (
        f"first: event of {path} at 1970-01-01T00:00:00.005000+00:00 (5): - <http://ex/a>" in said
    )
    assert "try: --columns op=NAME" in said
    said = run("-i", path, "--window", "10s", code=1).stderr
    assert "2 records were refused (no live event states this 2)" in said


def test_one_good_record_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + row(5) + "6,+,a,b,c\n")
    said = run("-i", path).stderr
    assert "1 record was malformed" in said
    assert "error" not in said


@pytest.mark.parametrize("text", ["", HEAD, HEAD + "\n"])
def test_nothing_to_read(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    for options in ([], ["--window", "10s"]):
        said = run("-i", path, *options, code=1).stderr
        assert f"error: no records in {path}" in said


def test_a_resumed_state_may_find_nothing_new(tmp_path: Path) -> None:
    path, state = write(tmp_path, HEAD + row(5)), str(tmp_path / "state")
    run("-i", path, "--state", state)
    assert "error" not in run("-i", path, "--state", state).stderr


def test_a_window_over_input_without_times(tmp_path: Path) -> None:
    path = write(tmp_path, "<http://ex/a> <http://ex/p> <http://ex/b> .\n", "events.nt")
    said = run("-i", path, "--window", "10s", code=1).stderr
    assert f"error: {path} has no times" in said
    assert "--columns time=NAME" in said
    assert "--graph-time" in said
    run("-i", path)
    last = "SELECT ?x ?y FROM STREAM <http://ex/s> [TRIPLES 2] { ?x <http://ex/p> ?y }"
    done = CliRunner().invoke(app, ["run", last, "-i", path])  # it goes by no time
    assert done.exit_code == 0, done.stderr


def test_a_table_of_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "ts,from,to,amount\n5,ann,bob,3\n")
    said = run("-i", path, code=1).stderr
    assert "no column 'subject'; its columns: ts, from, to, amount" in said
    assert "try: --map '{from} :to {to}'" in said
    assert "--columns subject=from" in said


@pytest.mark.parametrize("bad", [0, IN_2024 + 75 * 365 * DAY], ids=["past", "future"])
@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_one_bad_time_condemns_nothing_else(tmp_path: Path, bad: int, place: int) -> None:
    rows = [row(IN_2024 + 1000 * n + 1, f"n{n}") for n in range(5)]
    rows.insert(place, row(bad, "bad"))
    path = write(tmp_path, HEAD + "".join(rows))
    done = run("-i", path, "--window", "1h", "--every", "end", "--format", "csv")
    assert [f"n{n}" in done.stdout for n in range(5)] == [True] * 5
    assert "bad" not in done.stdout
    assert "1 record was refused (further ahead of its stream than max_ahead allows" in done.stderr
    assert "try: --max-ahead 30d" in done.stderr


def test_a_gap_condemns_nothing(tmp_path: Path) -> None:
    times = [IN_2024 + gap * DAY + n * 1000 for gap in (0, 3, 10) for n in range(4)]
    path = write(tmp_path, HEAD + "".join(row(t, f"n{t}") for t in times))
    done = run("-i", path, "--window", "30d", "--slide", "1d", "--every", "end", "--format", "csv")
    assert done.stderr == ""
    assert done.stdout.count("http://ex/n") == len(times)


def test_all_too_far_from_each_other(tmp_path: Path) -> None:
    rows = [row(IN_2024 + 5 * DAY * n, f"n{n}") for n in range(4)]
    path = write(tmp_path, HEAD + "".join(rows))
    said = run("-i", path, "--window", "1h", "--every", "end").stderr
    assert "3 records were refused" in said
    given = ["--window", "30d", "--slide", "1d", "--every", "end"]
    assert run("-i", path, *given, "--max-ahead", "6d").stderr == ""


def test_seconds_are_not_milliseconds(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + row(IN_2024 // 1000) + row(IN_2024 // 1000 + 60))
    for options in ([], ["--window", "10s"]):
        said = run("-i", path, *options, "--every", "end").stderr
        assert "warning: times range from 1970-01-20T" in said
        assert "--time-unit s" in said
    small = write(tmp_path, HEAD + row(0) + row(60_000), "small.csv")
    assert run("-i", small).stderr == ""


GRAPHS = """@prefix : <http://ex/> . @prefix prov: <http://www.w3.org/ns/prov#> .
:g1 prov:generatedAtTime "2024-05-01T10:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
:g1 { :a :p :b }
"""


def test_graph_time_with_a_prefix(tmp_path: Path) -> None:
    path = write(tmp_path, GRAPHS, "events.trig")
    given = ["-i", path, "--window", "1h", "--format", "csv", "--graph-time"]
    full = run(*given, "http://www.w3.org/ns/prov#generatedAtTime").stdout
    assert "<http://ex/a>" in full
    prefix = ["--prefix", "prov=http://www.w3.org/ns/prov#"]
    assert run(*given, "prov:generatedAtTime", *prefix).stdout == full
    declared = f"PREFIX prov: <http://www.w3.org/ns/prov#> {QUERY}"
    done = CliRunner().invoke(app, ["run", declared, *given, "prov:generatedAtTime"])
    assert done.stdout == full
    said = run(*given, "prov:generatedAtTime", code=2).stderr
    assert "--prefix prov=IRI" in said


def test_an_output_with_an_unknown_ending(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + row(5))
    for name in ("x.xlsx", "x.json", "x.csv.gz"):
        said = run("-i", path, "--output", str(tmp_path / name), code=2).stderr
        assert "unknown extension" in said
        assert ".parquet" in said
        assert not (tmp_path / name).exists()
    run("-i", path, "--output", str(tmp_path / "x.json"), "--format", "jsonl")
    run("-i", path, "--output", str(tmp_path / "answers"))


@pytest.mark.parametrize("name", ["events.v1.nq", "events.trig"])
def test_the_hint_for_graphs_without_times(tmp_path: Path, name: str) -> None:
    quad = "<a:a> <a:p> <a:b> <a:g> .\n"
    path = write(tmp_path, quad if name.endswith("nq") else "<a:g> { <a:a> <a:p> <a:b> }", name)
    said = run("-i", path, "--graph-time", "http://ex/time", code=1).stderr
    assert "try: --graph-time IRI" in said
    assert "--columns" not in said


def test_records_without_a_line_or_a_text(tmp_path: Path) -> None:
    path = write(tmp_path, "@prefix : <a:> .\n:a :p\n", "events.ttl")
    assert f"first: {path}, line 3\n    bad statement" in run("-i", path, code=1).stderr
    path = write(tmp_path, "no XML", "events.rdf")
    assert f"first: {path}\n    bad statement" in run("-i", path, code=1).stderr
    path = write(tmp_path, "<a:a> <a:p> 5 .\n", "events.nt")
    assert "--input-format" not in run("-i", path, code=1).stderr


def test_rows_of_tables_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"from": ["a", None], "to": ["b", "c"]}), path)
    assert f"first: {path}, row 2: " in run("-i", str(path), "--map", "{from} :p {to}").stderr


def test_a_given_time_unit_is_not_advised(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + row("soon"))
    assert "try: --time-unit s" in run("-i", path, code=1).stderr
    assert "try: --time-unit" not in run("-i", path, "--time-unit", "s", code=1).stderr


def test_another_encoding_is_advised(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"from,to\nJos\xe9,Bob\nAnn,Bob\n")
    assert "try: --encoding latin-1" in run("-i", str(path), "--map", "{from} :p {to}").stderr


def test_skipped_files_are_named(tmp_path: Path) -> None:
    write(tmp_path, HEAD + row(5))
    for name in ("notes.txt", "_SUCCESS", ".hidden"):
        write(tmp_path, "", name)
    (tmp_path / "more").mkdir()
    said = run("-i", str(tmp_path)).stderr
    assert said == (
        f"skipped 2 entries of unknown format: {tmp_path / 'more'}, {tmp_path / 'notes.txt'}\n"
    )


def test_column_names_are_written_on_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\x1b[2Ja,b\n1,2\n")
    said = run("-i", path, "--map", "{from} :p {to}", code=1).stderr
    assert "its columns: \\x1b[2Ja, b" in said


# What is read is not written over


@pytest.mark.parametrize("option", ["--output", "--quarantine"])
def test_what_is_read_is_not_written_over(tmp_path: Path, option: str) -> None:
    text = HEAD + row(5)
    folder = tmp_path / "in"
    folder.mkdir()
    events = write(folder, text)
    query = write(tmp_path, QUERY, "query.rq")
    static = write(tmp_path, "<a:a> <a:p> <a:b> .\n", "static.nt")
    rules = write(tmp_path, "", "rules.dlog")
    more = [f"again={query}", "--static", static, "--rules", rules, "--format", "jsonl"]
    for given in (events, str(folder)):
        for path in (events, query, static, rules):
            before = Path(path).read_text()
            said = run(*more, "-i", given, option, path, code=2).stderr
            assert f"Invalid value for {option}: {path} is also an input" in " ".join(said.split())
            assert Path(path).read_text() == before


def test_results_and_quarantine_share_no_file(tmp_path: Path) -> None:
    path, out = write(tmp_path, HEAD + row(5)), str(tmp_path / "out.csv")
    said = run("-i", path, "--output", out, "--quarantine", out, code=2).stderr
    assert "Invalid value for --quarantine: is also the file of --output" in said
    run("-i", path, "--format", "csv", "--output", "/dev/null", "--quarantine", "/dev/null")
