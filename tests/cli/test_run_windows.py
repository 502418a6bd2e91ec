"""``triegs run`` with windows, and with changes, against recomputation from the events."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from triegs.cli.app import app

EX = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
REPLIES, EVENTS = str(EXAMPLES / "replies.rq"), str(EXAMPLES / "replies.csv")
RSPQL, LIKES = str(EXAMPLES / "likes.rspql"), str(EXAMPLES / "likes.csv")
EDGES = f"SELECT ?x ?y {{ ?x <{EX}p> ?y }}"
PATHS = f"SELECT ?x ?z {{ ?x <{EX}p> ?y . ?y <{EX}p> ?z }}"
Event = tuple[int, str, str]


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["run", *arguments])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def read_rows(text: str, count: str = "multiplicity") -> dict[int, Counter[tuple[str, ...]]]:
    """By time: how often each answer counts; terms by their last letter."""
    found: dict[int, Counter[tuple[str, ...]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        names = [name for name in row if name not in ("epoch", "time", "multiplicity", "change")]
        answer = tuple(row[name].strip("<>").removeprefix(EX) for name in names)
        found.setdefault(int(row["time"]), Counter())[answer] = int(row[count])
    return found


def write_events(path: Path, events: list[Event]) -> str:
    lines = [f"{time},<{EX}{s}>,<{EX}p>,<{EX}{o}>\n" for time, s, o in events]
    path.write_text("time,subject,predicate,object\n" + "".join(lines))
    return str(path)


def draw_events(seed: int, count: int = 120) -> list[Event]:
    random = Random(seed)
    names = "abcdef"
    return [
        (random.randrange(1, 300), random.choice(names), random.choice(names)) for _ in range(count)
    ]


def paths(edges: list[tuple[str, str]]) -> Counter[tuple[str, ...]]:
    return Counter((x, z) for x, y in edges for y2, z in edges if y == y2)


@pytest.fixture
def events(tmp_path: Path) -> tuple[str, list[Event]]:
    drawn = draw_events(7)
    return write_events(tmp_path / "events.csv", drawn), drawn


def expect(drawn: list[Event], width: int, slide: int, shift: int = 0) -> dict[int, Any]:
    """The paths at each slide, from its events."""
    first, last = min(t for t, _, _ in drawn), max(t for t, _, _ in drawn)
    times = range(-(-first // slide) * slide, -(-last // slide) * slide + 1, slide)
    found = {
        t: paths([(s, o) for time, s, o in drawn if t - width < time <= t - shift]) for t in times
    }
    return {t: answers for t, answers in found.items() if answers}


@pytest.mark.parametrize(("width", "slide"), [(50, 20), (40, 40), (30, 70)])
def test_snapshots_are_those_of_the_window(
    events: tuple[str, list[Event]], width: int, slide: int
) -> None:
    path, drawn = events
    arguments = ["--window", str(width), *(["--slide", str(slide)] if slide != width else [])]
    done = run(PATHS, "-i", path, *arguments, "--format", "csv")
    assert read_rows(done.stdout) == expect(drawn, width, slide)


def test_the_time_of_an_event(events: tuple[str, list[Event]]) -> None:
    path, drawn = events
    text = f"SELECT ?x ?at {{ ?x <{EX}p> ?y {{| triegs:time ?at |}} }}"
    found = read_rows(run(text, "-i", path, "--window", "50", "--format", "csv").stdout)
    assert len(found) == 6
    for time, answers in found.items():
        held = [(x, at) for at, x, _ in drawn if time - 50 < at <= time]
        integer = f'"{{}}"^^<{XSD}integer'.format  # as `read_rows` strips it
        assert answers == Counter((x, integer(at)) for x, at in held)


def test_changes_add_up_to_snapshots(events: tuple[str, list[Event]]) -> None:
    path, drawn = events
    given = [PATHS, "-i", path, "--window", "50", "--slide", "20", "--format", "csv"]
    changes = read_rows(run(*given, "--emit", "changes").stdout, "change")
    wanted = expect(drawn, 50, 20)
    sum_so_far: Counter[tuple[str, ...]] = Counter()
    for time in sorted({*wanted, *changes}):
        sum_so_far.update(changes.get(time, {}))
        assert {answer: n for answer, n in sum_so_far.items() if n} == wanted.get(time, {})
    assert any(n < 0 for step in changes.values() for n in step.values())


def test_both(events: tuple[str, list[Event]]) -> None:
    path, drawn = events
    done = run(PATHS, "-i", path, "--window", "50", "--emit", "both", "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {tuple(row)[-2:] for row in rows} == {("multiplicity", "change")}
    assert all((row["multiplicity"] is None) != (row["change"] is None) for row in rows)
    counts = sum(row["multiplicity"] or 0 for row in rows)
    assert counts == sum(sum(each.values()) for each in expect(drawn, 50, 50).values())


def test_periods_and_the_end(events: tuple[str, list[Event]]) -> None:
    path, drawn = events
    given = [PATHS, "-i", path, "--window", "60", "--slide", "10", "--format", "csv"]
    wanted = expect(drawn, 60, 10)
    last = max(wanted)
    assert read_rows(run(*given, "--every", "end").stdout) == {last: wanted[last]}
    found = read_rows(run(*given, "--every", "100").stdout)
    assert set(found) == {min(wanted), 100, 200, last}
    assert all(found[time] == wanted[time] for time in found)
    assert read_rows(run(*given, "--every", "epoch").stdout) == wanted


def test_changes_of_a_period_are_those_of_all_its_epochs(events: tuple[str, list[Event]]) -> None:
    path, drawn = events
    given = [PATHS, "-i", path, "--window", "60", "--slide", "10", "--format", "csv"]
    found = read_rows(run(*given, "--every", "100", "--emit", "changes").stdout, "change")
    total: Counter[tuple[str, ...]] = Counter()
    for step in found.values():
        total.update(step)
    wanted = expect(drawn, 60, 10)
    assert {answer: n for answer, n in total.items() if n} == wanted[max(wanted)]


def test_the_running_example_by_changes() -> None:
    done = run(REPLIES, "-i", EVENTS, "--emit", "changes", "--result-terms", "plain",
               "--format", "csv")  # fmt: skip
    assert read_rows(done.stdout, "change") == {
        time: {("Max", "Eva", "tweet1", "tweet2", "Mia"): change}
        for time, change in ((1, 2), (2, -1))
    }
    table = run(REPLIES, "-i", EVENTS, "--emit", "changes").stdout
    assert table.startswith("replies  epoch 2, time 0  no changes\n")
    assert ":Mia       +2\n" in table
    assert ":Mia       -1\n" in table


def test_static_data_is_a_change_too(tmp_path: Path) -> None:
    (tmp_path / "static.ttl").write_text(f"<{EX}z> <{EX}p> <{EX}a> .")
    path = write_events(tmp_path / "events.csv", [(1, "a", "b")])
    done = run(EDGES, "-i", path, "--static", str(tmp_path / "static.ttl"), "--emit", "changes",
               "--format", "csv")  # fmt: skip
    assert read_rows(done.stdout, "change") == {1: {("z", "a"): 1, ("a", "b"): 1}}


def test_expanded_changes(tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.csv", [(1, "a", "b"), (1, "a", "b")])
    done = run(EDGES, "-i", path, "--window", "10", "--emit", "changes", "--multiplicity",
               "expand", "--format", "jsonl")  # fmt: skip
    assert [json.loads(line)["change"] for line in done.stdout.splitlines()] == [1, 1]


# Windows of query texts


def test_a_text_with_windows_runs_unchanged() -> None:
    done = run(RSPQL, "-i", LIKES, "--format", "csv", "--result-terms", "plain")
    assert read_rows(done.stdout) == {
        5000: {("tweet1", "Mia"): 1, ("tweet2", "Max"): 1},
        10000: {("tweet1", "Mia"): 2, ("tweet2", "Max"): 1},
        15000: {("tweet1", "Mia"): 1},
        20000: {("tweet2", "Eva"): 1},
    }


@pytest.mark.parametrize(
    ("operator", "changes"),
    [
        ("ISTREAM", {5000: 2, 10000: 1, 20000: 1}),
        ("DSTREAM", {15000: -2, 20000: -1}),
    ],
)
def test_streams_of_results(tmp_path: Path, operator: str, changes: dict[int, int]) -> None:
    text = Path(RSPQL).read_text().replace("RSTREAM", operator)
    done = run(text, "-i", LIKES, "--format", "csv")
    found = read_rows(done.stdout, "change")
    assert {time: sum(step.values()) for time, step in found.items()} == changes
    # Options override the text.
    assert "multiplicity" in run(text, "-i", LIKES, "--emit", "snapshot").stdout


def test_streams_by_name(tmp_path: Path) -> None:
    text = f"""PREFIX : <{EX}>
        SELECT ?x ?z FROM NAMED WINDOW :w1 ON STREAM :one [RANGE PT0.05S STEP PT0.02S]
                     FROM NAMED WINDOW :w2 ON STREAM :two [RANGE PT0.05S STEP PT0.02S]
        WHERE {{ WINDOW :w1 {{ ?x :p ?y }} WINDOW :w2 {{ ?y :p ?z }} }}"""
    ones, twos = draw_events(1), draw_events(2)
    one = write_events(tmp_path / "one.csv", ones)
    two = write_events(tmp_path / "two.csv", twos)
    done = run(text, "--stream", f":one={one}", "--stream", f"<{EX}two>={two}", "--format", "csv")
    found = read_rows(done.stdout)
    for time in range(20, 301, 20):
        wanted = Counter(
            (x, z)
            for t1, x, y in ones
            for t2, y2, z in twos
            if y == y2 and time - 50 < t1 <= time and time - 50 < t2 <= time
        )
        assert found.get(time, {}) == wanted
    message = " ".join(run(text, "-i", one, code=2).stderr.split())
    assert "windows read several streams" in message
    assert "no window reads the stream :three" in " ".join(
        run(text, "--stream", f":three={one}", code=2).stderr.split()
    )
    # One is named, the other is what is left.
    assert run(text, "--stream", f":one={one}", "-i", two, "--format", "csv").stdout == done.stdout


def test_an_idle_stream_is_not_waited_for(tmp_path: Path) -> None:
    text = f"""PREFIX : <{EX}>
        SELECT ?x ?y FROM NAMED WINDOW :w1 ON STREAM :one [RANGE 10 STEP 10]
                     FROM NAMED WINDOW :w2 ON STREAM :two [RANGE 10 STEP 10]
        WHERE {{ WINDOW :w1 {{ ?x :p ?y }} }}"""
    one = write_events(tmp_path / "one.csv", [(n, "a", "b") for n in range(1, 100, 10)])
    two = write_events(tmp_path / "two.csv", [(1, "a", "b")])
    given = [text, "--stream", f":one={one}", "--stream", f":two={two}", "--format", "csv"]
    assert read_rows(run(*given, "--idle-timeout", "20").stdout) == read_rows(run(*given).stdout)


def test_two_queries_with_windows_of_their_own(events: tuple[str, list[Event]]) -> None:
    """Each is written at its own slides."""
    path, drawn = events
    texts = [
        f"""SELECT ?x ?z FROM NAMED WINDOW <a:w> ON STREAM <a:s> [RANGE {width} STEP {slide}]
        WHERE {{ WINDOW <a:w> {{ ?x <{EX}p> ?y . ?y <{EX}p> ?z }} }}"""
        for width, slide in ((50, 20), (60, 30))
    ]
    done = run(f"a={texts[0]}", f"b={texts[1]}", "-i", path, "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for name, width, slide in (("a", 50, 20), ("b", 60, 30)):
        times = {row["time"] for row in rows if row["query"] == name}
        assert times == set(expect(drawn, width, slide))


# Late and absurd events


def test_late_events(tmp_path: Path) -> None:
    """A batch has the events of a file; so the second file is late."""
    first = write_events(tmp_path / "1.csv", [(5, "a", "b"), (25, "b", "c")])
    second = write_events(tmp_path / "2.csv", [(8, "c", "d"), (26, "d", "e")])
    given = [EDGES, "-i", first, "-i", second, "--window", "100", "--slide", "10"]
    done = run(*given, "--every", "end", "--format", "csv", "--stats")
    assert ("c", "d") not in read_rows(done.stdout)[30]
    assert "1 record was late and dropped; use --quarantine FILE to keep them" in done.stderr
    assert "late                 1" in done.stderr
    done = run(*given, "--every", "end", "--format", "csv", "--lateness", "20ms")
    assert ("c", "d") in read_rows(done.stdout)[30]
    kept = tmp_path / "late.jsonl"
    done = run(*given, "--quarantine", str(kept), "--strict")
    (entry,) = [json.loads(line) for line in kept.read_text().splitlines()]
    assert entry["time"] == 8
    assert entry["reason"].startswith("late: ")
    assert entry["record"] == f"+ <{EX}c> <{EX}p> <{EX}d>"


def test_events_that_are_far_ahead(tmp_path: Path) -> None:
    day = 86_400_000
    path = write_events(tmp_path / "events.csv", [(1, "a", "b"), (1 + 2 * day, "b", "c")])
    given = [EDGES, "-i", path, "--window", "1d", "--every", "end", "--format", "csv"]
    done = run(*given)
    assert "1 record was refused (further ahead" in done.stderr
    assert len(read_rows(run(*given, "--max-ahead", "3d").stdout)) == 1
    assert "further ahead" in run(*given, "--strict", code=1).stderr


def test_deletions_that_find_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"time,op,subject,predicate,object\n5,-,<{EX}a>,<{EX}p>,<{EX}b>\n")
    given = [EDGES, "-i", str(path), "--window", "10"]
    assert "1 record was refused (" in run(*given, code=1).stderr
    assert run(*given, "--strict", code=1).stderr.startswith("error: event 0 of its stream")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([EDGES, "--window", "soon"], "'soon' is not a duration"),
        ([EDGES, "--slide", "5s"], "requires --window"),
        ([EDGES, "--lateness", "5s"], "requires a window; see --window"),
        ([EDGES, "--window", "5s", "--lateness", "x"], "'x' is not a duration"),
        ([EDGES, "--window", "5s", "--batch", "3"], "where slides are the epochs"),
        ([EDGES, "--stream", ":s=file.csv"], "no window reads the stream"),
        ([RSPQL, "--window", "5s"], "all queries define windows in their text"),
        ([RSPQL, EDGES], "has no window, but others have"),
        ([EDGES + " LIMIT 3", "--emit", "changes"], "LIMIT or OFFSET"),
        ([RSPQL, "--stream", "nonsense"], "is not NAME=FILE"),
    ],
)
def test_wrong_calls(arguments: list[str], message: str) -> None:
    assert message in " ".join(run(*arguments, "-i", LIKES, code=2).stderr.split())
