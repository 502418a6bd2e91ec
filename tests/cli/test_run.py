"""``triegs run``: what is written, and every option."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from triegs.cli import options as shared
from triegs.cli import run as options
from triegs.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
REPLIES, EVENTS = str(EXAMPLES / "replies.rq"), str(EXAMPLES / "replies.csv")
EX = "http://example.org/"
LIKES = "SELECT ?x ?y { ?x <http://example.org/likes> ?y }"
NAMES = ["x", "y", "v", "z", "w"]
ANSWER = [f"<{EX}{name}>" for name in ("Max", "Eva", "tweet1", "tweet2", "Mia")]


def run(*arguments: str, code: int = 0, given: str | None = None) -> Result:
    done = CliRunner().invoke(app, ["run", *arguments], input=given)
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def read_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def like(subject: str, target: str) -> str:
    return f"<{EX}{subject}> <{EX}likes> <{EX}{target}> .\n"


@pytest.fixture
def likes(tmp_path: Path) -> str:
    """Events without times: three likes, one of them twice."""
    path = tmp_path / "likes.nt"
    path.write_text(like("a", "b") + like("a", "b") + like("b", "c"))
    return str(path)


@pytest.fixture
def timed(tmp_path: Path) -> str:
    """Three events at two times."""
    path = tmp_path / "timed.csv"
    rows = [(1000, "a", "b"), (1000, "a", "c"), (2500, "b", "c")]
    lines = [f"{time},<{EX}{s}>,<{EX}likes>,<{EX}{o}>\n" for time, s, o in rows]
    path.write_text("time,subject,predicate,object\n" + "".join(lines))
    return str(path)


# The running example


def test_running_example_as_a_table() -> None:
    done = run(REPLIES, "--input", EVENTS)
    assert done.stderr == ""
    assert done.stdout == (
        "replies  epoch 2, time 0  no answers\n"
        "replies  epoch 3, time 1  1 answer\n"
        "x      y      v         z         w      multiplicity\n"
        "─────────────────────────────────────────────────────\n"
        ":Max   :Eva   :tweet1   :tweet2   :Mia              2\n"
        "\n"
        "replies  epoch 4, time 2  1 answer\n"
        "x      y      v         z         w      multiplicity\n"
        "─────────────────────────────────────────────────────\n"
        ":Max   :Eva   :tweet1   :tweet2   :Mia              1\n"
        "\n"
    )


def test_running_example_as_rows() -> None:
    rows = read_csv(run(REPLIES, "-i", EVENTS, "--format", "csv").stdout)
    assert [[row[name] for name in NAMES] for row in rows] == [ANSWER, ANSWER]
    assert [(row["time"], row["multiplicity"]) for row in rows] == [("1", "2"), ("2", "1")]


# Queries


def test_several_queries_by_file_and_by_text(likes: str) -> None:
    done = run(REPLIES, f"who={LIKES}", LIKES, "-i", likes, "--format", "jsonl")
    assert {row["query"] for row in read_lines(done.stdout)} == {"who", "query3"}
    done = run(REPLIES, f"who={LIKES}", "-i", likes)
    assert done.stdout.startswith("replies  epoch 3, time 2  no answers\nwho  epoch 3, time 2  2")


def test_a_named_file(tmp_path: Path, likes: str) -> None:
    (tmp_path / "query.rq").write_text(LIKES)
    done = run(f"fans={tmp_path}/query.rq", "-i", likes)
    assert done.stdout.startswith("fans  ")


def test_two_queries_of_one_name() -> None:
    done = run(REPLIES, REPLIES, "-i", EVENTS, code=2)
    assert "two queries are named replies" in done.stderr


def test_a_query_that_is_no_file_and_no_text() -> None:
    done = run("replies.rq", "-i", EVENTS, code=2)
    assert "cannot read replies.rq: No such file or directory" in done.stderr


def test_a_wrong_query_is_shown_with_its_position() -> None:
    done = run("SELECT ?x { ?x ex:p ?y }", "-i", EVENTS, code=1)
    assert done.stdout == ""
    assert done.stderr.splitlines()[:2] == [
        "error: unknown prefix 'ex:'", "  query 1, line 1, column 16",
    ]  # fmt: skip


def test_a_query_that_the_engine_does_not_run() -> None:
    done = run("SELECT ?x { ?x ?p ?y OPTIONAL { ?y ?q ?z } }", "-i", EVENTS, code=1)
    assert done.stderr.startswith("unsupported: OPTIONAL")


def test_yes_or_no(likes: str) -> None:
    asked = f"ASK {{ <{EX}a> <{EX}likes> ?y }}"
    assert "answer yes" in run(asked, "-i", likes).stdout
    assert run(asked, "-i", likes, "--format", "srj").stdout == '{"head":{},"boolean":true}\n'
    assert "answer no" in run(asked, "-i", EVENTS, "--every", "end").stdout


# Inputs


def test_standard_input() -> None:
    done = run(LIKES, "-i", "-", "--input-format", "nt", "--format", "csv", given=like("a", "b"))
    assert [row["x"] for row in read_csv(done.stdout)] == [f"<{EX}a>"]


def test_several_inputs_and_directories(tmp_path: Path, likes: str) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "2.nt").write_text(like("c", "d"))
    (folder / "1.ttl").write_text(f"<{EX}d> <{EX}likes> <{EX}e> .")
    done = run(LIKES, "-i", likes, "-i", str(folder), "--format", "csv")
    assert {row["x"][-2] for row in read_csv(done.stdout)} == set("abcd")


def test_columns_of_other_names(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"ts,s,predicate,target\n7,<{EX}a>,<{EX}likes>,<{EX}b>\n")
    done = run(
        LIKES, "-i", str(path), "--columns", "time=ts,subject=s", "--columns", "object=target",
        "--format", "csv",
    )  # fmt: skip
    assert read_csv(done.stdout)[0]["time"] == "7"
    assert "no column 'subject'" in run(LIKES, "-i", str(path), code=1).stderr
    assert "is not OURS=THEIRS" in run(LIKES, "-i", str(path), "--columns", "time", code=2).stderr


def test_plain_cells_and_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("time,subject,predicate,object\n7,ex:a,ex:likes,tea\n")
    done = run(
        "SELECT * { ?x ex:likes ?y }", "-i", str(path), "--terms", "plain",
        "--prefix", f"ex={EX}",
    )  # fmt: skip
    assert 'ex:a   "tea"' in done.stdout


def test_integer_cells(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("time,subject,predicate,object\n7,1,2,3\n")
    done = run(
        "SELECT * { ?x ?p ?y }", "-i", str(path), "--terms", "integers", "--format", "csv",
        "--result-terms", "short",
    )  # fmt: skip
    assert done.stdout.splitlines()[1] == "2,7,1,2,3,1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input; give a file"),
        (["-i", "no/such/file.nt"], "no such file"),
        (["-i", "-"], "unknown file extension"),
        (["-i", EVENTS, "--input-format", "odd"], "unknown format 'odd'"),
    ],
)
def test_inputs_that_are_wrong(arguments: list[str], message: str) -> None:
    assert message in " ".join(run(LIKES, *arguments, code=2).stderr.replace("│", "").split())


def test_static_data_is_there_from_the_start(tmp_path: Path, timed: str) -> None:
    (tmp_path / "static.ttl").write_text(f"<{EX}z> <{EX}likes> <{EX}a> .")
    done = run(LIKES, "-i", timed, "--static", str(tmp_path / "static.ttl"), "--format", "csv")
    rows = read_csv(done.stdout)
    assert [row["time"] for row in rows if row["x"] == f"<{EX}z>"] == ["1000", "2500"]
    done = run(LIKES, "-i", timed, "--static", "nowhere.ttl", code=2)
    assert "nowhere.ttl" in done.stderr


def test_times_of_graphs(tmp_path: Path) -> None:
    path = tmp_path / "events.nq"
    path.write_text(f'<{EX}g> <{EX}at> "1970-01-01T00:00:05Z" .\n'
                    f"<{EX}a> <{EX}likes> <{EX}b> <{EX}g> .\n")  # fmt: skip
    done = run(LIKES, "-i", str(path), "--graph-time", f"{EX}at", "--format", "csv")
    assert [row["time"] for row in read_csv(done.stdout)] == ["5000"]


# Modes and epochs


def test_modes(likes: str) -> None:
    for mode, counts in (("multigraph", ["1", "2"]), ("rdf", ["1", "1"])):
        done = run(LIKES, "-i", likes, "--mode", mode, "--format", "csv")
        assert sorted(row["multiplicity"] for row in read_csv(done.stdout)) == counts


def test_events_without_times_are_written_at_the_end(likes: str) -> None:
    rows = read_csv(run(LIKES, "-i", likes, "--format", "csv").stdout)
    assert len(rows) == 2
    rows = read_csv(run(LIKES, "-i", likes, "--format", "csv", "--every", "epoch").stdout)
    assert [row["time"] for row in rows] == ["0", "1", "2", "2"]


def test_epochs_of_so_many_events(likes: str, timed: str) -> None:
    done = run(LIKES, "-i", likes, "-i", timed, "--batch", "2", "--format", "jsonl")
    rows = read_lines(done.stdout)
    assert sorted({row["epoch"] for row in rows}) == [2, 3, 4]
    assert sum(row["multiplicity"] for row in rows if row["epoch"] == 2) == 2


def test_at_the_end_only(timed: str) -> None:
    rows = read_csv(run(LIKES, "-i", timed, "--every", "end", "--format", "csv").stdout)
    assert [row["time"] for row in rows] == ["2500"] * 3


def test_no_slide_without_a_window(timed: str) -> None:
    done = run(LIKES, "-i", timed, "--every", "slide", code=2)
    assert "no window" in done.stderr


def test_an_empty_input(tmp_path: Path) -> None:
    (tmp_path / "none.nt").write_text("")
    given = [LIKES, "-i", str(tmp_path / "none.nt")]
    assert "no answers" in run(*given, "--every", "end", code=1).stdout
    assert run(*given, code=1).stdout == ""


# Outputs


def test_formats_by_option_and_by_name(tmp_path: Path, likes: str) -> None:
    for ending in ("csv", "jsonl", "arrow", "arrows", "parquet", "srj", "srx", "tsv", "txt"):
        path = tmp_path / f"out.{ending}"
        done = run(LIKES, "-i", likes, "--output", str(path))
        assert done.stdout == ""
        assert path.stat().st_size > 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 2
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all().num_rows == 2
    assert len(json.loads((tmp_path / "out.srj").read_text())["results"]["bindings"]) == 3
    run(LIKES, "-i", likes, "--output", str(tmp_path / "odd"), "--format", "sparql-csv")
    assert (tmp_path / "odd").read_bytes().startswith(b"x,y\r\n")


def test_option_values_are_those_of_the_package() -> None:
    from triegs.events.context import TermReading
    from triegs.mode import Mode
    from triegs.outputs import Format, Multiplicity, TermText
    from triegs.run.reporter import Emit

    for repeated, own in (
        (options.FormatOption, Format),
        (options.EmitOption, Emit),
        (options.MultiplicityOption, Multiplicity),
        (options.ResultTermsOption, TermText),
        (options.TermsOption, TermReading),
        (shared.ModeOption, Mode),
    ):
        assert [option.value for option in repeated] == [option.value for option in own]


def test_a_file_for_each_query_and_epoch(tmp_path: Path, timed: str) -> None:
    run(LIKES, f"b={LIKES}", "-i", timed, "--output", f"{tmp_path}/{{query}}-{{time}}.srx")
    names = sorted(path.name for path in tmp_path.glob("*.srx"))
    assert names == ["b-1000.srx", "b-2500.srx", "query1-1000.srx", "query1-2500.srx"]


def test_multiplicity(likes: str) -> None:
    rows = read_csv(run(LIKES, "-i", likes, "--format", "csv", "--multiplicity", "expand").stdout)
    assert len(rows) == 3
    rows = read_csv(run(LIKES, "-i", likes, "--format", "csv", "--multiplicity", "none").stdout)
    assert list(rows[0]) == ["epoch", "time", "x", "y"]
    done = run(LIKES, "-i", likes, "--format", "srj", "--multiplicity", "column")
    assert json.loads(done.stdout)["head"]["vars"] == ["x", "y", "multiplicity"]


def test_terms_and_stamps(likes: str) -> None:
    done = run(
        LIKES, "-i", likes, "--format", "csv", "--result-terms", "plain", "--no-stamps",
        "--multiplicity", "none",
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == [
        f"{EX}a,{EX}b", f"{EX}b,{EX}c", "x,y",
    ]  # fmt: skip
    done = run(LIKES, "-i", likes, "--result-terms", "short", "--prefix", f"ex={EX}")
    assert "ex:a   ex:b" in done.stdout
    done = run(LIKES, "-i", likes, "--result-terms", "ntriples", "--prefix", f"ex={EX}")
    assert f"<{EX}a>" in done.stdout


def test_stamps_are_there_unless_refused(likes: str) -> None:
    for option, names in (("--stamps", "epoch,time,x,y"), ("--no-stamps", "x,y")):
        done = run(LIKES, "-i", likes, "--format", "csv", "--multiplicity", "none", option)
        assert done.stdout.splitlines()[0] == names


def test_rows_of_a_table(likes: str) -> None:
    done = run(LIKES, "-i", likes, "--rows", "1")
    assert "first 1 rows; use --rows to show more" in done.stdout
    assert "use --rows" not in run(LIKES, "-i", likes, "--rows", "0").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv", f"second={LIKES}"], "add {query} to the name"),
        (["--output", "{name}.csv"], "unknown placeholder {name}; use {query}"),
        (["--format", "srx", "--every", "epoch"], "one result"),
        (["--format", "srx", "--emit", "both"], "--emit both requires {kind}"),
        (["--format", "srj", "--result-terms", "plain"], "defines the form of terms"),
        (["--emit", "changes", "--multiplicity", "none"], "changes require their counts"),
        (["--output", f"{EVENTS}/out.csv"], "cannot write"),
        (["--quarantine", f"{EVENTS}/out"], "cannot write"),
        (["--follow", "-i", EVENTS], "only a single file can be followed"),
        (["--format", "odd"], "odd"),
        (["--every", "now"], "--every"),
        (["--batch", "0"], "--batch"),
        (["--delimiter", ";;"], "Invalid value for --delimiter: "),
        (["--encoding", "odd"], "Invalid value for --encoding: "),
        (["--graph-time", "a:t"], "Invalid value for --graph-time: "),
        (["--input-format", "odd"], "Invalid value for --input-format: "),
        (["--columns", "odd=ts"], "Invalid value for --columns: unknown column"),
        (["--columns", "time=ts,time=at"], "Invalid value for --columns: time is given twice"),
        (["--window", "odd"], "Invalid value for --window: "),
        (["--window", "10s", "--slide", "odd"], "Invalid value for --slide: "),
        (["--window", "10s", "--lateness", "odd"], "Invalid value for --lateness: "),
        (["--window", "10s", "--max-ahead", "odd"], "Invalid value for --max-ahead: "),
        (["--window", "10s", "--idle-timeout", "odd"], "Invalid value for --idle-timeout: "),
    ],
)
def test_wrong_calls(arguments: list[str], message: str) -> None:
    done = run(LIKES, "-i", EVENTS, *arguments, code=2)
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


# What goes wrong


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_no_room_for_results(timed: str) -> None:
    done = run(LIKES, "-i", timed, "--output", "/dev/full", "--format", "csv", code=1)
    assert done.stderr == "error: cannot write /dev/full: No space left on device\n"


def test_a_dash_is_standard_output(likes: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(LIKES, "-i", likes, "--output", "-").stdout == run(LIKES, "-i", likes).stdout
    assert not Path("-").exists()


def test_an_input_is_not_written_over(timed: str) -> None:
    before = Path(timed).read_text()
    done = run(LIKES, "-i", timed, "--output", timed, code=2)
    assert "is also an input" in " ".join(done.stderr.split())
    assert Path(timed).read_text() == before


def test_malformed_records_are_quarantined_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.nt"
    path.write_text(like("a", "b") + "nonsense\n" + like("b", "c"))
    done = run(LIKES, "-i", str(path), "--format", "csv")
    assert len(read_csv(done.stdout)) == 2
    assert done.stderr.startswith("1 record was malformed and skipped (")
    assert "use --quarantine FILE to keep them" in done.stderr
    kept = tmp_path / "bad.jsonl"
    kept.write_text("old")
    done = run(LIKES, "-i", str(path), "--quarantine", str(kept))
    (entry,) = read_lines(kept.read_text())
    assert (entry["line"], entry["record"]) == (2, "nonsense")
    assert f"see {kept}" in done.stderr


def test_strict_ends_at_the_first(tmp_path: Path) -> None:
    path = tmp_path / "events.nt"
    path.write_text(like("a", "b") + "nonsense\n")
    done = run(LIKES, "-i", str(path), "--strict", code=1)
    assert "events.nt, line 2" in done.stderr


def test_refused_deletions_are_reported_and_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    good = f"6,+,<{EX}a>,<{EX}likes>,<{EX}b>\n"
    path.write_text(f"time,op,subject,predicate,object\n5,-,<{EX}a>,<{EX}likes>,<{EX}b>\n{good}")
    kept = tmp_path / "bad.jsonl"
    done = run(LIKES, "-i", str(path), "--quarantine", str(kept))
    first, *more = done.stderr.splitlines()
    assert first == f"1 record was refused (no live event states this 1); see {kept}"
    assert "error" not in "".join(more)
    assert read_lines(kept.read_text()) == [{
        "time": 5, "reason": "no live event states this",
        "record": f"- <{EX}a> <{EX}likes> <{EX}b>",
    }]  # fmt: skip
    done = run(LIKES, "-i", str(path), "--strict", code=1)
    assert "invalid" in done.stderr


def test_an_input_that_breaks_off_fails_after_what_it_had(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "events.nt.gz"
    path.write_bytes(gzip.compress("".join(like("a", f"b{n}") for n in range(999)).encode())[:-9])
    done = run(LIKES, "-i", str(path), "--format", "csv", code=1)
    assert "gzip data is truncated" in done.stderr
    assert read_csv(done.stdout)


# Who reads the files; tests/spark has what Spark does


def test_engine(timed: str) -> None:
    given = [LIKES, "-i", timed, "--format", "csv"]
    assert run(*given, "--engine", "direct").stdout == run(*given).stdout
    done = run(*given, "--engine", "spark", "--follow", code=2)
    assert "use --engine direct" in done.stderr


# Help


def test_every_option_has_a_test() -> None:
    text = run("--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    shown = {each for line in text.splitlines() for each in re.findall(r"^ .*?(--[a-z-]+)", line)}
    shown |= {"--no-progress", "--no-stamps"}
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].glob("*/test_run*.py"))
    assert {each for each in shown if f'"{each}"' not in tests} == set()


# Figures


def test_statistics(timed: str) -> None:
    done = run(LIKES, "-i", timed, "--stats", "--format", "csv")
    found = dict(line.split("  ", 1) for line in done.stderr.splitlines())
    assert found["events"].strip() == "3"
    assert found["epochs"].strip() == "2"
    assert found["rows written"].strip() == "5 in 2 reports"
    assert {
        "late", "quarantined", "refused", "affected bindings", "epoch time p50", "epoch time p99",
        "elapsed", "graph, views, terms",
    } <= set(found)  # fmt: skip


def test_no_progress_where_nobody_looks(timed: str) -> None:
    assert run(LIKES, "-i", timed, "--progress").stderr == ""
    assert run(LIKES, "-i", timed, "--no-progress").stderr == ""


def test_log_level(timed: str) -> None:
    found = run(LIKES, "-i", timed, "--log-level", "info").stderr
    assert found == "registered query1: full-acyclic\n"
    assert "epoch 3, time 2500: " in run(LIKES, "-i", timed, "--log-level", "debug").stderr
    assert run(LIKES, "-i", timed, "--log-level", "error").stderr == ""
