"""``triegs run --map``: rows of a table as events, against triples that are made by hand."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from triegs.cli.app import app

CHAINS = "SELECT ?a ?c { ?a :paid ?b . ?b :paid ?c }"
PAID = ("--map", "{from} :paid {to}", "--columns", "time=ts")
NODES = "[] :from {from} ; :to {to} ; :amount {amount:decimal}"


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["run", *arguments])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def draw_payments(seed: int, rows: int = 80) -> list[dict[str, str]]:
    random = Random(seed)
    names = ["Ann", "Bob Ray", "Zoë", ""]
    return [
        {
            "id": str(number), "ts": str(number * 2 + random.randrange(3)),
            "from": random.choice(names), "to": random.choice(names),
            "amount": random.choice(["1.50", "2", ""]), "sign": "+",
        }
        for number in range(rows)
    ]  # fmt: skip


def write(path: Path, rows: list[dict[str, str]], append: bool = False) -> str:
    with path.open("a" if append else "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        if not append:
            writer.writeheader()
        writer.writerows(rows)
    return str(path)


def read(text: str, count: str = "multiplicity") -> dict[int, Counter[tuple[str, ...]]]:
    found: dict[int, Counter[tuple[str, ...]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        names = [name for name in row if name not in ("epoch", "time", count)]
        answer = tuple(row[name] for name in names)
        found.setdefault(int(row["time"] or 0), Counter())[answer] += int(row[count])
    return found


@pytest.mark.parametrize(("unit", "scale"), [("s", 1000), ("ms", 1)])
def test_windows_hold_what_rows_say(tmp_path: Path, unit: str, scale: int) -> None:
    rows = draw_payments(3)
    path = write(tmp_path / "pay.csv", rows)
    width, slide = 20, 5
    done = run(
        CHAINS, "-i", path, *PAID, "--format", "csv", "--time-unit", unit, "--max-ahead", "1000d",
        "--lateness", f"{10 * scale}ms", "--window", f"{width * scale}ms",
        "--slide", f"{slide * scale}ms",
    )  # fmt: skip
    pairs = [(int(r["ts"]), r["from"], r["to"]) for r in rows if r["from"] and r["to"]]
    last = max(time for time, _, _ in pairs)
    expected = {}
    for t in range(0, last + slide, slide):
        held = [(a, b) for time, a, b in pairs if t - width < time <= t]
        chains = Counter((a, c) for a, b in held for x, c in held if b == x)
        if chains:
            expected[t * scale] = chains
    assert read(done.stdout) == expected
    bare = sum(not (r["from"] and r["to"]) for r in rows)
    assert f"{bare} records were malformed and skipped (no triple {bare})" in done.stderr


def test_a_resumed_run_ends_where_one_run_ends(tmp_path: Path) -> None:
    """With nodes of rows, deletions by id, rows that come again, and a run cut in three."""
    rows = draw_payments(5)
    rows += [{**row, "sign": "-", "ts": str(200 + n)} for n, row in enumerate(rows[::3])]
    rows += [{**row, "ts": str(240 + n)} for n, row in enumerate(rows[1:9:3])]  # known ids
    query = "SELECT ?e ?p ?o { ?e ?p ?o }"
    options = ("--map", NODES, "--columns", "id=id,op=sign,time=ts", "--format", "csv",
               "--window", "1d", "--slide", "10ms", "--lateness", "20ms", "--every", "end",
               "--no-stamps")  # fmt: skip
    whole = run(query, "-i", write(tmp_path / "whole.csv", rows), *options)
    path, done = tmp_path / "parts.csv", whole
    for number, part in enumerate([rows[:30], rows[30:90], rows[90:]]):
        write(path, part, append=number > 0)
        done = run(query, "-i", str(path), *options, "--state", str(tmp_path / "state"))
    assert sorted(done.stdout.splitlines()) == sorted(whole.stdout.splitlines())
    gone = {row["id"] for row in rows if row["sign"] == "-"}
    expected = Counter(
        (f"_:i{row['id']}", name, row[name])
        for row in rows[:80]
        if row["id"] not in gone
        for name in ("from", "to", "amount")
        if row[name]
    )
    shown = csv.DictReader(io.StringIO(whole.stdout))
    assert Counter({(r["e"], r["p"], r["o"]): int(r["multiplicity"]) for r in shown}) == expected


def test_batches_and_figures_count_rows(tmp_path: Path) -> None:
    rows = [row for row in draw_payments(9) if row["from"]][:21]
    path = write(tmp_path / "pay.csv", rows)
    query = "SELECT ?e ?x { ?e :from ?x }"
    done = run(query, "-i", path, "--map", NODES, "--batch", "5", "--format", "csv", "--stats",
               "--emit", "changes")  # fmt: skip
    per_epoch = Counter(row["epoch"] for row in csv.DictReader(io.StringIO(done.stdout)))
    assert list(per_epoch.values()) == [5, 5, 5, 5, 1]
    assert "events" in done.stderr
    line = next(each for each in done.stderr.splitlines() if each.startswith("events"))
    assert line.split()[1] == "21"


def test_a_row_is_deleted_as_a_whole(tmp_path: Path) -> None:
    """Also without windows: a row that is incomplete is not deleted in part."""
    rows = [
        {"a": "x", "b": "y", "n": "1", "sign": "+"},
        {"a": "x", "b": "y", "n": "2", "sign": "-"},
        {"a": "x", "b": "z", "n": "3", "sign": "+"},
        {"a": "x", "b": "z", "n": "3", "sign": "-"},
    ]
    path = write(tmp_path / "rows.csv", rows)
    options = ("--map", "{a} :to {b} ; :n {n:integer}", "--columns", "op=sign", "--format", "csv",
               "--no-stamps")  # fmt: skip
    for more in ((), ("--batch", "1", "--every", "end"), ("--batch", "2", "--every", "end")):
        done = run("SELECT ?p ?o { ?s ?p ?o }", "-i", path, *options, *more)
        assert sorted(done.stdout.splitlines()[1:]) == ["n,1,1", "to,y,1"]
        assert "1 record was refused (no live event states this 1)" in done.stderr
    aside = tmp_path / "aside.jsonl"
    run("SELECT ?p ?o { ?s ?p ?o }", "-i", path, *options, "--quarantine", str(aside))
    assert "<urn:triegs:to> <urn:triegs:y> . <urn:triegs:x> <urn:triegs:n>" in aside.read_text()


def test_names_are_written_as_requested(tmp_path: Path) -> None:
    path = write(tmp_path / "pay.csv", [{"from": "Ann Lee", "to": "Bob"}])
    options = (
        "-i",
        path,
        "--map",
        "{from} ex:paid {to}",
        "--prefix",
        "ex=http://ex/",
        "--no-stamps",
    )
    query = "SELECT ?a ?p { ?a ?p :Bob }"
    plain = run(query, *options, "--format", "csv").stdout
    assert plain == "a,p,multiplicity\nAnn Lee,<http://ex/paid>,1\n"
    exact = run(query, *options, "--format", "csv", "--result-terms", "ntriples").stdout
    assert "<urn:triegs:Ann%20Lee>" in exact
    assert '"urn:triegs:Ann%20Lee"' in run(query, *options, "--format", "srj").stdout
    based = run(query, *options, "--base", "http://b/", "--format", "srj").stdout
    assert '"http://b/Ann%20Lee"' in based
    table = run(query, *options).stdout
    assert "Ann Lee" in table


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--map", "{from} paid {to}"), 2, "a name has a colon, :paid"),
        (("--map", "{form} :paid {to}"), 1, "no column 'form'; its columns: ts, from, to"),
        (("--map", "{from} :paid {to}", "--window", "10m"), 1, "--columns time=NAME"),
        (("--base", "http://b/"), 2, "requires --map"),
        (("--map", "{from} :paid {to}", "--terms", "integers"), 2, "not with --map"),
        (("--map", "{from} :paid {to}", "--base", "b"), 2, "is not an IRI"),
        (("--map", "{from} :paid {to}", "--columns", "time=when"), 1, "no column 'when' for time"),
        (
            ("--map", "{from} :paid {to}", "--delimiter", "ab"),
            2,
            "delimiter must be one character",
        ),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    path = write(tmp_path / "pay.csv", [{"ts": "1", "from": "A", "to": "B"}])
    done = run("SELECT ?a { ?a :paid ?b }", "-i", path, *arguments, code=code)
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert "try: --map" not in done.stderr  # it is given


def test_csv_with_other_delimiters_and_encodings(tmp_path: Path) -> None:
    path = tmp_path / "pay.csv"
    for delimiter, sign in ((";", ";"), ("tab", "\t")):
        path.write_bytes(f"von{sign}an\nZoë{sign}Åsa\n".encode("latin-1"))
        done = run("SELECT ?a { ?a :paid :Åsa }", "-i", str(path), "--map", "{von} :paid {an}",
                   "--delimiter", delimiter, "--encoding", "latin-1", "--format", "csv",
                   "--no-stamps")  # fmt: skip
        assert done.stdout == "a,multiplicity\nZoë,1\n"
