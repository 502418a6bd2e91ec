"""``triegs run --state``: every option, and what a person meets when something is not as before."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from triegs import Engine
from triegs.cli.app import app

HEADER = "time,op,subject,predicate,object\n"
LIKES = "likes=SELECT ?x ?y { ?x <a:likes> ?y }"
WINDOW = ("--window", "10", "--slide", "5")


def call(*arguments: Any, code: int = 0, given: str | None = None) -> Result:
    done = CliRunner().invoke(app, list(map(str, arguments)), input=given)
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def event(moment: int, subject: str, target: str, sign: str = "+") -> str:
    return f"{moment},{sign},<a:{subject}>,<a:likes>,<a:{target}>\n"


def read_rows(text: str) -> list[str]:
    """Rows of CSV without their header, as short as can be."""
    return [re.sub(r"[<>]|a:", "", line) for line in text.splitlines()[1:]]


class Place:
    """A folder with events and a state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = folder / "events.csv"
        self.state = folder / "state"

    def write(self, text: str, name: str = "events.csv", mode: str = "w") -> Path:
        path = self.folder / name
        with path.open(mode) as file:
            file.write(text if mode == "a" else HEADER + text)
        return path

    def run(self, *arguments: Any, code: int = 0, query: str = LIKES, **more: Any) -> Result:
        given = () if {"-i", "--input"} & set(arguments) else ("-i", self.events)
        formats = () if "--output" in arguments else ("--format", "csv")
        return call(
            "run", query, *given, "--state", self.state, *formats, *arguments, code=code, **more
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("emit", ["snapshot", "changes"])
def test_rows_have_the_same_order_however_a_run_came_to_them(place, tmp_path, emit):
    rows = []  # names come and go, so that ids are reused
    for now in range(8):
        rows += [event(now, f"s{now}-{n}", f"o{n % 7}") for n in range(20)]
        rows += [event(now, f"s{now - 1}-{n}", f"o{n % 7}", "-") for n in range(0, 20, 2)]
    whole = Place(tmp_path / "whole")
    whole.folder.mkdir()
    whole.write("".join(rows))
    whole.run("--emit", emit, "--output", whole.folder / "out.csv")
    place.write("")
    for start in range(0, len(rows), 60):
        place.write("".join(rows[start : start + 60]), mode="a")
        place.run("--emit", emit, "--output", tmp_path / "out.csv")
        with Engine.open(place.state) as engine:  # the next one has other ids
            engine.checkpoint()
    assert len(read_rows((tmp_path / "out.csv").read_text())) > 200
    assert (tmp_path / "out.csv").read_text() == (whole.folder / "out.csv").read_text()


def test_what_was_read_is_not_read_again(place):
    place.write(event(1, "a", "b") + event(2, "b", "c"))
    assert read_rows(place.run().stdout) == ["2,1,a,b,1", "3,2,a,b,1", "3,2,b,c,1"]
    assert read_rows(place.run().stdout) == []
    place.write(event(3, "c", "d"), mode="a")
    assert len(read_rows(place.run().stdout)) == 3
    assert read_rows(place.run("--every", "end", "--emit", "changes").stdout) != []


def test_changes_of_all_runs_add_up(place):
    place.write(event(1, "a", "b"))
    assert read_rows(place.run("--emit", "changes").stdout) == ["2,1,a,b,1"]
    place.write(event(2, "b", "c") + event(3, "a", "b", "-"), mode="a")
    assert read_rows(place.run("--emit", "changes").stdout) == ["3,2,b,c,1", "4,3,a,b,-1"]


def test_new_files_are_read_and_finished_ones_may_be_removed(place):
    events = place.folder / "events"
    events.mkdir()
    first = place.write(event(1, "a", "b"), "events/2.csv")
    place.run("-i", events)
    first.unlink()
    place.write(event(2, "b", "c"), "events/1.csv")  # sorts before what was read
    done = place.run("-i", events, "--emit", "changes", "--every", "end", "--stats")
    assert read_rows(done.stdout) == ["3,2,a,b,1", "3,2,b,c,1"]
    assert re.search(r"^events +1\nevents in all runs +2\n", done.stderr, re.MULTILINE)


def test_windows_continue_after_the_end_of_the_input(place):
    place.write(event(1, "a", "b") + event(7, "b", "c"))
    assert [row[:4] for row in read_rows(place.run(*WINDOW).stdout)] == ["2,5,", "3,10", "3,10"]
    place.write(event(9, "x", "x") + event(12, "c", "d"), mode="a")
    done = place.run(*WINDOW)
    assert read_rows(done.stdout) == ["4,15,b,c,1", "4,15,c,d,1"]
    assert done.stderr == "1 record was late and dropped; use --quarantine FILE to keep them\n"


def test_a_file_that_is_shorter_than_what_was_read(place):
    place.write(event(1, "a", "b") + event(2, "b", "c"))
    place.run()
    place.write(event(1, "a", "b"))
    done = place.run(code=1)
    assert re.search(
        r"events.csv was read before and is now shorter: \d+ bytes, not \d+", done.stderr
    )


def test_a_file_that_grew_in_the_middle_of_a_line(place):
    place.write(event(1, "a", "b").rstrip("\n"))
    place.run()
    place.write("c>\n" + event(2, "a", "b"), mode="a")
    assert "its last line was read before it was complete" in place.run(code=1).stderr


def test_a_file_that_was_not_read_to_its_end_and_is_gone(place):
    place.write("".join(event(moment, "a", "b") for moment in range(5)))
    broken = place.write("".join(event(moment, "a", "c") for moment in range(5)), "more.csv.gz")
    assert "more.csv.gz: " in place.run("-i", broken, code=1).stderr
    broken.unlink()
    done = place.run("-i", place.events, code=1)
    assert "more.csv.gz was not read to its end and is no longer part of the input" in done.stderr


def test_one_run_at_a_time(place):
    place.write(event(1, "a", "b"))
    with Engine.open(place.state):
        done = place.run(code=1)
    assert re.fullmatch(
        rf"error: {place.state} is already open: process {os.getpid()} on .*\n", done.stderr
    )


@pytest.mark.parametrize("sync", ["always", "100ms", "never"])
def test_sync(place, sync):
    place.write(event(1, "a", "b"))
    place.run("--sync", sync)
    assert read_rows(place.run("--sync", sync, "--every", "end").stdout) == ["2,1,a,b,1"]


def test_wrong_calls(place):
    place.write(event(1, "a", "b"))
    done = place.run("--sync", "often", code=2)
    assert "'often' is not always, never, or a duration" in done.stderr
    done = call("run", LIKES, "-i", place.events, "--sync", "always", code=2)
    assert "requires --state" in done.stderr
    done = call("run", LIKES, "-i", place.events, "--state", place.events, code=2)
    assert "events.csv is a file, not a directory" in " ".join(done.stderr.split())


def test_settings_stay(place):
    place.write(event(1, "a", "b") * 2)
    place.run("--mode", "rdf")
    assert read_rows(place.run("--every", "end").stdout) == ["2,1,a,b,1"]
    assert "has mode 'rdf', not 'multigraph'" in place.run("--mode", "multigraph", code=1).stderr
    assert "earlier runs had no window" in place.run(*WINDOW, code=2).stderr


def test_a_changed_query_starts_over_and_a_missing_one_is_closed(place):
    place.write(event(1, "a", "b"))
    other = "other=SELECT ?x { ?x <a:likes> <a:b> }"
    place.run(other, "--format", "jsonl")
    with Engine.open(place.state) as engine:
        assert sorted(engine.queries) == ["likes", "other"]
        engine.register("ASK { ?x ?p ?y }", "mine")
    place.write(event(2, "b", "c"), mode="a")
    done = place.run("--emit", "changes", query="likes=SELECT ?y { ?x <a:likes> ?y }")
    assert done.stderr == (
        "other is no longer requested and was closed\nlikes has changed and starts from scratch\n"
    )
    # Its changes are from nothing; first comes the epoch that no run has written.
    assert [row.split(",", 1)[1] for row in read_rows(done.stdout)] == ["1,b,1", "2,c,1"]
    with Engine.open(place.state) as engine:
        assert sorted(engine.queries) == ["likes", "mine"]


def test_a_query_that_comes_or_goes_repeats_no_slide(place):
    """Its window is filled or emptied in an epoch besides that of the query."""
    text = "{}=SELECT ?x {{ STREAM <a:s> [RANGE {} SLIDE {}] {{ ?x <a:likes> ?y }} }}".format
    place.write(event(1, "x", "y") + event(5, "y", "z") + event(9, "z", "x"))
    more = text("b", 12, 6)
    written = []
    for queries in ([], [more], [more], []):
        done = call(
            "run", text("a", 8, 4), *queries, "--stream", f"a:s={place.events}",
            "--state", place.state, "--format", "jsonl",
        )  # fmt: skip
        written += [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["time"] for row in written] == [4, 8, 8, 12, 12]


def test_the_same_query_written_with_other_prefixes_is_the_same(place):
    place.write(event(1, "a", "b"))
    place.run()
    done = place.run("--prefix", "a=a:", query="likes=SELECT ?x ?y { ?x a:likes ?y }")
    assert (done.stderr, read_rows(done.stdout)) == ("", [])


def test_static_facts_are_loaded_once(place):
    place.write(event(1, "a", "b"))
    facts = place.folder / "facts.nt"
    facts.write_text("<a:s> <a:likes> <a:o> .\n")
    place.run("--static", facts)
    done = place.run("--static", facts, "--every", "end")
    assert sorted(read_rows(done.stdout)) == ["3,1,a,b,1", "3,1,s,o,1"]
    facts.write_text("<a:s> <a:likes> <a:other> .\n")
    assert "has changed since it was loaded" in place.run("--static", facts, code=1).stderr


def test_a_torn_tail_is_reported_once(place):
    place.write(event(1, "a", "b"))
    place.run()
    (segment,) = (place.state / "log").iterdir()
    with segment.open("ab") as file:
        file.write(b"\xabtgRhalf a record")
    done = place.run()
    assert "removed an incomplete record left by the last run: 17 bytes at" in done.stderr
    assert place.run().stderr == ""


def test_a_quarantine_file_is_continued(place):
    aside = place.folder / "aside.jsonl"
    place.write("1,+,nobody,<a:likes>,<a:b>\n" + event(1, "a", "b") + event(2, "x", "y", "-"))
    done = place.run("--quarantine", aside)
    assert "1 record was malformed" in done.stderr
    assert "1 record was refused" in done.stderr
    place.write("3,+,nobody,<a:likes>,<a:b>\n" + event(4, "a", "b"), mode="a")
    done = place.run("--quarantine", aside, "--stats")
    assert "2 records were malformed" in done.stderr
    assert re.search(r"^quarantined +2\nrefused +1$", done.stderr, re.MULTILINE)
    reasons = [json.loads(line)["reason"][:8] for line in aside.read_text().splitlines()]
    assert reasons == ["bad term", "no live ", "bad term"]


def test_a_text_file_is_continued(place):
    place.write(event(1, "a", "b"))
    out = place.folder / "out.csv"
    place.run("--output", out, "--emit", "changes")
    place.write(event(2, "b", "c"), mode="a")
    place.run("--output", out, "--emit", "changes")
    assert read_rows(out.read_text()) == ["2,1,a,b,1", "3,2,b,c,1"]


def test_a_columnar_file_cannot_be_continued(place):
    place.write(event(1, "a", "b"))
    out = place.folder / "out.parquet"
    place.run("--output", out)
    assert "cannot append to" in place.run("--output", out, code=2).stderr
    place.write(event(2, "b", "c"), mode="a")
    place.run("--output", place.folder / "{epoch}.parquet")
    assert (place.folder / "3.parquet").exists()


def test_a_pipe_has_always_something_new(place):
    for moment in (1, 2):
        text = HEADER + event(moment, "a", "b")
        done = place.run("-i", "-", "--input-format", "csv", "--emit", "changes", given=text)
        assert read_rows(done.stdout) == [f"{moment + 1},{moment},a,b,1"]


def test_a_run_resumes_the_engine_of_a_program(place):
    with Engine.open(place.state) as engine:
        engine.apply([("+", "<a:s>", "<a:likes>", "<a:o>")])
    place.write(event(1, "a", "b"))
    done = place.run("--emit", "changes")
    assert sorted(read_rows(done.stdout)) == ["3,1,a,b,1", "3,1,s,o,1"]


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_resumes(place, number):
    """What waits for more of its time is not an epoch yet, and is read again with what follows."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from triegs.cli import main\n"
        "sys.exit(main())"
    )
    place.write("1,+,nobody,<a:likes>,<a:b>\n" + event(1, "a", "b") + event(2, "b", "c"))
    arguments = [
        "run", LIKES, "-i", str(place.events), "--follow", "--format", "csv", "--emit", "changes",
        "--state", str(place.state), "--quarantine", str(place.folder / "aside"),
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "epoch,time,x,y,change\n"
            assert process.stdout.readline() == "2,1,<a:a>,<a:b>,1\n"
            time.sleep(0.5)
            process.send_signal(number)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")
    place.write(event(2, "c", "d"), mode="a")
    done = place.run("--emit", "changes", "--quarantine", place.folder / "aside")
    assert sorted(read_rows(done.stdout)) == ["3,2,b,c,1", "3,2,c,d,1"]
    assert len((place.folder / "aside").read_text().splitlines()) == 1
