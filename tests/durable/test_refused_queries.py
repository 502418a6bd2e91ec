"""A directory opens whatever patterns its log has: slow ones, and ones that are refused today."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triegs import BadOption, Engine, Window
from triegs.cli.app import app
from triegs.durable.log import Log
from triegs.durable.source import _parse
from triegs.engine.directories import inspect
from triegs.errors import QueryError
from triegs.sparql.expression_parser import ExpressionParser

ALL = "SELECT ?x ?y { ?x <a:p> ?y }"
REFUSED = r"SELECT ?x { ?x <a:p> ?y FILTER(REGEX(?y, '(.)\\1')) }"


@contextmanager
def taking_every_pattern() -> Iterator[None]:
    """As an engine of another version might have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExpressionParser, "_check_pattern", lambda *_: None)
        yield
    _parse.cache_clear()


def test_a_pattern_that_backtracking_never_ends(tmp_path: Path) -> None:
    text = "SELECT ?x { ?x <a:p> ?y FILTER(REGEX(?y, '^(a+)+$')) }"
    with Engine.open(tmp_path) as engine:
        engine.register(text, name="slow")
        engine.apply([("+", 1, "<a:p>", f'"{"a" * 5_000}!"'), ("+", 2, "<a:p>", '"aaa"')])
    with Engine.open(tmp_path) as engine, engine.queries["slow"].snapshot() as snapshot:
        assert snapshot.to_arrow("python").to_pylist() == [{"x": 2, "multiplicity": 1}]
    assert inspect(tmp_path).is_good


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("window", [None, Window("10s", slide="5s")])
def test_a_pattern_that_is_refused_today(
    tmp_path: Path, has_checkpoint: bool, window: Window | None
) -> None:
    with taking_every_pattern(), Engine.open(tmp_path) as engine:
        engine.register(ALL, name="all")
        engine.register(REFUSED, name="twice", window=window)
        engine.register(REFUSED, name="gone", window=window)
        engine.queries["gone"].close()
        engine.apply([("+", 1, "<a:p>", '"xx"')])
        if window is not None:
            engine.push([(1_000, 2, "<a:p>", '"yy"')])
            engine.advance(to=20_000)
        if has_checkpoint:
            engine.checkpoint()
        engine.apply([("+", 3, "<a:p>", '"zz"')])
        epoch = engine.epoch

    found = inspect(tmp_path)
    assert found.is_good
    assert found.restored is not None
    assert found.restored.queries == ("all",)
    shown = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert "twice is closed: line 1, column 42: REGEX: " in shown.stdout

    epochs = set()
    for opening in range(2):
        with Engine.open(tmp_path) as engine:
            assert engine.recovery is not None
            assert list(engine.recovery.lost_queries) == ([] if opening else ["twice"])
            assert engine.epoch > epoch  # in which it was closed
            epochs.add(engine.epoch)
            assert list(engine.queries) == ["all"]
            with engine.queries["all"].snapshot() as snapshot:
                assert len(snapshot) == 2
            with pytest.raises(QueryError, match="back-reference"):
                engine.register(REFUSED)
    assert len(epochs) == 1


def test_a_run_reports_it(tmp_path: Path) -> None:
    events = tmp_path / "events.nt"
    events.write_text('<a:x> <a:p> "xx" .\n', encoding="utf-8")
    state = tmp_path / "state"
    with taking_every_pattern(), Engine.open(state) as engine:
        engine.register(REFUSED, name="twice")
    done = CliRunner().invoke(app, ["run", ALL, "--input", str(events), "--state", str(state)])
    assert done.exit_code == 0, done.stderr
    assert "closed twice, which this version does not support: line 1, column 42" in done.stderr


def test_a_refused_aggregate_whose_process_dies_before_its_record_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = Log.undo

    def die_first(log: Log, sequence: int) -> None:
        shutil.copytree(tmp_path / "lives", tmp_path / "died")
        undo(log, sequence)

    with Engine.open(tmp_path / "lives") as engine:
        query = engine.register("SELECT ?x (COUNT(*) AS ?n) { ?x <a:p> ?y } GROUP BY ?x", "groups")
        monkeypatch.setattr(Log, "undo", die_first)
        with pytest.raises(BadOption, match="cannot be aggregated again"):
            query.aggregate([], "count", Window(10), name="again")
    for count in range(2):
        with Engine.open(tmp_path / "died") as engine:
            assert not engine.aggregates
            with engine.queries["groups"].snapshot() as snapshot:
                assert len(snapshot) == count
            engine.apply([("+", 1, "<a:p>", 2)])
