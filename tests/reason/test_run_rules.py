"""``triegs run --rules`` and ``triegs explain --rules``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
SUB = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"


def run(*arguments: str):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def files(tmp_path):
    data, schema, rules = (tmp_path / name for name in ("d.nt", "s.nt", "r.dlog"))
    data.write_text(f"<http://ex/tom> {TYPE} <http://ex/Cat> .\n")
    schema.write_text(f"<http://ex/Cat> {SUB} <http://ex/Animal> .\n")
    rules.write_text("ex:likes(X, ex:Milk) :- ex:Cat(X).")
    return data, schema, rules


def test_run_with_a_set_and_a_file(files):
    data, schema, rules = files
    done = run(
        "run", "SELECT ?x ?y { ?x ?p ?y FILTER(?x = ex:tom) }", "--prefix", "ex=http://ex/",
        "--input", data, "--static", schema, "--rules", "rdfs", "--rules", rules, "--format", "csv",
        "--terms", "ntriples", "--every", "end",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert {line.split(",")[3] for line in done.stdout.splitlines()[1:]} == {
        "<http://ex/Cat>", "<http://ex/Animal>", "<http://ex/Milk>"
    }  # fmt: skip


def test_run_keeps_rules_in_its_state(files, tmp_path):
    data, _, rules = files
    command = (
        "run", "SELECT ?x { ?x <http://ex/likes> ?y }", "--prefix", "ex=http://ex/",
        "--input", data, "--format", "csv", "--state", tmp_path / "state",
    )  # fmt: skip
    first = run(*command, "--rules", rules)
    assert first.exit_code == 0, first.output
    assert "tom" in first.stdout
    again = run(*command)
    assert again.exit_code == 0, again.output
    assert run(*command, "--rules", "rdfs").exit_code == 1


@pytest.mark.parametrize("text", ["p(X) :- not q(X).", "p(X) :- q(X)) "])
def test_bad_rules_are_shown_with_their_line(files, tmp_path, text):
    path = tmp_path / "bad.dlog"
    path.write_text(text)
    for command in (("run", "ASK { ?x ?y ?z }", "--input", files[0]), ("explain",)):
        done = run(*command, "--rules", path)
        assert done.exit_code == 1
        assert "bad.dlog, line 1" in done.output
        assert "^" in done.output


def test_explain_shows_rules(files):
    done = run("explain", "--rules", "rdfs")
    assert done.exit_code == 0
    assert "1 stratum of recursion" in done.stdout
    assert "Δ TE(?C, rdfs:subClassOf, ?D): TE(?X, rdf:type, ?C) by predicate, object" in done.stdout
    options = ("--prefix", "ex=http://ex/", "--format", "json")
    found = json.loads(run("explain", "--rules", files[2], *options).stdout)
    assert found["rules"][0]["sources"] == []
    assert found["strata"] == [{"rules": [1], "recursive": False}]


def test_explain_shows_what_partitions_replicate(files, tmp_path):
    rules = tmp_path / "join.dlog"
    rules.write_text(f"TE(X, {TYPE}, D) :- TE(X, {TYPE}, C), TE(C, {SUB}, D).")
    sample = tmp_path / "all.nt"
    sample.write_text(files[0].read_text() + files[1].read_text())
    done = run("explain", "--rules", rules, "--partitions", "4", "--sample", sample)
    assert done.exit_code == 0, done.output
    assert "base support" in done.stdout
    assert "Foreign     TE(?C, rdfs:subClassOf, ?D) in rule 1" in done.stdout
    found = json.loads(
        run("explain", "--rules", rules, "--partitions", "2", "--format", "json").stdout
    )
    assert found["sets"]["base support"]["replicated"] == 0.5


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "--rules", "nothing.dlog"),
        ("explain", "--rules", "rdfs", "--text", "ASK {}"),
        ("explain", "--rules", "rdfs", "--format", "svg"),
        ("run", "ASK { ?x ?y ?z }", "--rules", "nothing.dlog", "--input", "x.nt"),
    ],
)
def test_usage_errors(arguments):
    assert run(*arguments).exit_code == 2
