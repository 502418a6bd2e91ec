"""``triegs explain``: every option, every format, every way to be wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app

GOLDEN = Path(__file__).parent / "golden"
QUERY = """\
PREFIX : <http://example.org/>
SELECT ?x ?y ?v ?z ?w WHERE {
  ?v :hasCreator ?x .
  ?z :hasCreator ?y .
  ?v :hasReply ?z .
  ?z :likedBy ?w
}
"""
SHORT = "SELECT ?a ?c { ?a <http://ex/p> ?b . ?b <http://ex/p> ?c }"


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, ["explain", *arguments], input=stdin)


def compare_golden(name: str, text: str) -> None:
    """Set TRIEGS_REFRESH=1 to rewrite the golden files; then read the difference."""
    path = GOLDEN / name
    if os.environ.get("TRIEGS_REFRESH"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("output", "name"), [("text", "txt"), ("mermaid", "mmd"), ("json", "json")]
)
def test_running_example(output: str, name: str) -> None:
    done = run("--text", QUERY, "--root", "z", "--format", output)
    assert done.exit_code == 0
    assert done.stderr == ""
    compare_golden(f"running.{name}", done.stdout)


def test_all_plans_of_the_running_example() -> None:
    done = run("--text", QUERY, "--all-plans")
    assert done.exit_code == 0
    compare_golden("running_plans.txt", done.stdout)


def test_file_and_standard_input_and_text_agree(tmp_path: Path) -> None:
    file = tmp_path / "query.rq"
    file.write_text(QUERY, encoding="utf-8-sig")
    from_file, from_stdin, from_text = run(str(file)), run("-", stdin=QUERY), run("--text", QUERY)
    assert from_file.exit_code == from_stdin.exit_code == from_text.exit_code == 0
    assert from_file.stdout == from_stdin.stdout == from_text.stdout


def test_svg_is_a_file_of_its_own() -> None:
    assert ElementTree.fromstring(run("--text", QUERY, "--format", "svg").stdout).tag.endswith(
        "svg"
    )


@pytest.mark.parametrize("root", ["v", "?v"])
def test_root(root: str) -> None:
    found = json.loads(run("--text", QUERY, "--root", root, "--format", "json").stdout)
    assert found["components"][0]["root"] == ["?v"]


def test_keep_may_be_repeated() -> None:
    keep = ["--keep", "count", "--keep", "slice"]
    found = json.loads(run("--text", QUERY, *keep, "--format", "json").stdout)
    assert found["nodes"][-1]["payload"] == ["liveness", "total count", "position"]


@pytest.mark.parametrize("prefix", ["ex=http://ex/", "ex:=<http://ex/>"])
def test_prefix(prefix: str) -> None:
    done = run("--text", "SELECT * { ?a ex:p ?b }", "--prefix", prefix, "--format", "json")
    assert json.loads(done.stdout)["query"]["atoms"] == [["?a", "<http://ex/p>", "?b"]]


def test_all_plans_as_json() -> None:
    found = json.loads(run("--text", QUERY, "--all-plans", "--format", "json").stdout)
    assert list(found[0]) == [
        "chosen", "root", "cost", "nodes", "choices", "tree",
    ]  # fmt: skip
    (chosen,) = (plan for plan in found if plan["chosen"])
    assert chosen["cost"] == min(plan["cost"] for plan in found)


def test_all_plans_with_a_root() -> None:
    done = run("--text", QUERY, "--all-plans", "--root", "v", "--format", "json")
    assert {json.dumps(plan["root"]) for plan in json.loads(done.stdout)} == {'[["?v"]]'}


def test_all_plans_says_when_it_is_a_sample() -> None:
    parts = " . ".join(f"?a{i} <http://ex/p> ?b{i} . ?b{i} <http://ex/q> ?c{i}" for i in range(4))
    done = run("--text", f"SELECT * {{ {parts} }}", "--all-plans")
    assert "a random sample of more; → marks the chosen one" in done.stdout.splitlines()[0]
    assert sum(line.startswith("→") for line in done.stdout.splitlines()) == 1


def test_query_error_shows_the_position() -> None:
    done = run("--text", "SELECT ?x WHERE {\n  ?x ex:knows ?y\n}")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[:4] == [
        "error: unknown prefix 'ex:'",
        "  --text, line 2, column 6",
        "      ?x ex:knows ?y",
        "         ^",
    ]
    assert "PREFIX ex:" in done.stderr.splitlines()[4]


def test_unsupported_query_says_so() -> None:
    done = run("--text", "SELECT ?x { ?x <p> ?y OPTIONAL { ?y <q> ?z } }")
    assert done.exit_code == 1
    assert done.stderr.startswith("unsupported: OPTIONAL")
    assert done.stderr.splitlines()[3] == " " * (4 + 22) + "^"


def test_long_line_is_shown_around_the_position() -> None:
    done = run("--text", "SELECT * { " + "?a <http://ex/p> ?b . " * 30 + " ex:p }")
    shown, caret = done.stderr.splitlines()[2:4]
    assert len(shown) <= 80
    assert shown[caret.index("^") :].startswith("ex:p }")


@pytest.mark.parametrize(
    "text", ["", "SELECT", "SELECT ?x {", "nonsense", "\n\n\t{", "SELECT * { ?a"]
)
def test_no_traceback_for_a_bad_query(text: str) -> None:
    done = run("--text", text)
    assert done.exit_code == 1
    assert "Traceback" not in done.stderr
    assert "^" in done.stderr


def test_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "query.rq"
    file.write_bytes(b"SELECT \xff")
    done = run(str(file))
    assert done.exit_code == 1
    assert "not UTF-8" in done.stderr


def test_standard_input_that_is_no_text() -> None:
    done = CliRunner().invoke(app, ["explain", "-"], input=b"SELECT \xff")
    assert done.exit_code == 1
    assert done.stderr == "error: standard input is not UTF-8 text (byte 7)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a query file or text"),
        (["-", "--text", SHORT], "give a query file or text, or --text, not both"),
        ([""], "cannot read ''"),
        (["missing.rq"], "No such file"),
        ([str(GOLDEN)], "cannot read"),
        (["--text", SHORT, "--root", "b"], "choices: a, c"),
        (["--text", SHORT, "--keep", "all"], "--keep"),
        (["--text", SHORT, "--format", "png"], "--format"),
        (["--text", SHORT, "--prefix", "nonsense"], "NAME=IRI"),
        (["--text", SHORT, "--all-plans", "--format", "svg"], "text and json"),
        (["--text", SHORT, "--partitions", "2", "--format", "svg"], "text and json"),
        (["--text", SHORT, "--sample", "a.csv"], "requires --partitions"),
        (["--text", SHORT, "--partitions", "2", "--sample", "gone.csv"], "gone.csv"),
        (["--text", SHORT, "--partitions", "2", "--root", "a"], "not supported with --partitions"),
        (["--text", SHORT, "--partitions", "2", "--all-plans"], "not supported with --partitions"),
        (["--rules", "rdfs", "--keep", "count"], "not supported with --rules"),
        (["--rules", "rdfs", "--sample", "a.csv"], "requires --partitions"),
        (["--text", SHORT, "--nonsense"], "--nonsense"),
    ],
    ids=lambda part: "" if isinstance(part, list) else part,
)
def test_wrong_calls_end_with_two(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_keys_of_partitions(tmp_path: Path) -> None:
    text = "SELECT ?x ?z { ?x <http://ex/p> ?y . ?y <http://ex/q> ?z . ?z <http://ex/r> 5 }"
    done = run("--text", text, "--partitions", "4")
    assert "→ 1  ?z     0.33    2.00  2.00" in done.stdout
    assert "  r(?z, 5)   hashed by subject" in done.stdout
    assert "All labels count as equally frequent; --sample FILE" in done.stdout
    assert "Chosen: hashed by ?z: 2.0 times the throughput of one partition" in done.stdout
    sample = tmp_path / "sample.nt"
    lines = [f"<a:{n}> <http://ex/{label}> <a:o{n}> .\n" for n, label in enumerate("pppppppqqr")]
    sample.write_text("".join(lines))
    found = json.loads(
        run("--text", text, "--partitions", "4", "--sample", str(sample), "--format", "json").stdout
    )
    assert found["chosen"] == ["?y"]
    assert found["shares"]["<http://ex/q>"] == pytest.approx(0.2)
    best = found["keys"][0]
    assert best["atoms"] == ["hashed by object", "hashed by subject", "replicated"]
    assert best["replicated"] == pytest.approx(0.1)
    assert best["copies"] == pytest.approx(1.3)
    sample.write_text("".join([*lines, "<a:a> <a:b .\n"]))
    done = run("--text", text, "--partitions", "4", "--sample", str(sample))
    assert "→ 1  ?y     0.10    1.30" in done.stdout
    assert "  q(?y, ?z)  20%  hashed by subject" in done.stdout
    assert "All labels are taken" not in done.stdout
    assert done.stderr == f"{sample}: 1 of 11 records are malformed\n"


def test_without_a_key_there_is_one_engine() -> None:
    done = run("--text", "ASK { ?x <http://ex/p> ?y }", "--partitions", "4")
    assert done.stdout == (
        "4 partitions; no key is chosen\n\n"
        "Not partitioned: ASK has one answer across all partitions\n"
    )
