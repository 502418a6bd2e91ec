"""``triegs run --workers``: what lanes write is what one engine writes, in the same order."""

from __future__ import annotations

import csv
from random import Random

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app

KNOWS, LIKES = "<http://ex/knows>", "<http://ex/likes>"
QUERIES = [
    f"pairs=SELECT ?x ?y {{ ?x {KNOWS} ?y }}",
    f"paths=SELECT ?x ?z {{ ?x {KNOWS} ?y . ?y {LIKES} ?z }}",
    f"fans=SELECT ?y (COUNT(?x) AS ?n) {{ ?x {LIKES} ?y }} GROUP BY ?y ORDER BY ?y",
    f"first=SELECT ?x {{ ?x {KNOWS} ?y }} ORDER BY ?x LIMIT 3",
    f"any=ASK {{ ?x {KNOWS} ?x }}",
]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Inserts, and some deletions of what is not there."""
    random = Random(3)
    path = tmp_path_factory.mktemp("events") / "events.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "op", "subject", "predicate", "object"])
        for number in range(600):
            node, other = (f"<http://ex/n{random.randrange(40)}>" for _ in range(2))
            op = "-" if random.random() < 0.05 else "+"
            writer.writerow([100 * number, op, node, random.choice([KNOWS, LIKES]), other])
    return path


def run(*options: str):
    return CliRunner().invoke(app, ["run", *options])


def write(events, folder, workers: int, *options: str):
    """What a run with so many workers writes, by file, its messages, and its exit code."""
    target = folder / str(workers)
    target.mkdir()
    given = [each for each in QUERIES if "--emit" not in options or "LIMIT" not in each]
    found = run(
        *given, "-i", str(events), "--output", str(target / "{query}.csv"), "--workers",
        str(workers), *options,
    )  # fmt: skip
    files = {path.name: path.read_text() for path in sorted(target.iterdir())}
    return files, found.stderr, found.exit_code


@pytest.mark.parametrize(
    "options",
    [
        ("--window", "10s", "--slide", "2s", "--every", "slide"),
        ("--window", "10s", "--slide", "2s", "--emit", "changes", "--lateness", "1s"),
        ("--batch", "100", "--every", "epoch"),
        (
            "--batch",
            "7",
            "--mode",
            "rdf",
            "--emit",
            "both",
            "--quarantine",
            "{folder}/refused.jsonl",
        ),
        ("--every", "end"),
    ],
)
def test_any_number_of_workers_writes_the_same(events, tmp_path, options):
    given = [option.replace("{folder}", str(tmp_path)) for option in options]
    has_deletions = "--window" not in options
    wanted, messages, code = write(events, tmp_path, 1, *given)
    assert len(wanted) >= 4
    assert any(text.count("\n") > 20 for text in wanted.values())
    for workers in (2, 3, 9):
        files, stderr, found = write(events, tmp_path, workers, *given)
        assert (stderr, found) == (messages, code)
        for name, text in wanted.items():
            rows, expected = files[name].splitlines(), text.splitlines()
            if has_deletions:  # a term that is freed and comes back may have another place
                rows, expected = sorted(rows), sorted(expected)
            assert rows == expected, (workers, name)


def test_one_query_needs_no_lanes(events):
    found = run(QUERIES[0], "-i", str(events), "--every", "end", "--workers", "4")
    assert found.exit_code == 0, found.stderr


def test_static_data_and_statistics(events, tmp_path):
    static = tmp_path / "static.nt"
    static.write_text(f"<http://ex/n1> {KNOWS} <http://ex/n1> .\n")
    options = ("--static", str(static), "--window", "10s", "--stats")
    files, stderr, code = write(events, tmp_path, 2, *options)
    assert code == 0
    assert "affected bindings" in stderr
    assert "true" in files["any.csv"]


def test_state_is_refused(events, tmp_path):
    found = run(*QUERIES, "-i", str(events), "--workers", "2", "--state", str(tmp_path / "kept"))
    assert found.exit_code == 2
    assert "lanes have no directory" in " ".join(found.stderr.split())
    assert not (tmp_path / "kept").exists()


def test_rules_are_refused(events):
    found = run(*QUERIES, "-i", str(events), "--workers", "2", "--rules", "rdfs")
    assert found.exit_code == 2
    assert "not supported with --rules" in " ".join(found.stderr.split())
