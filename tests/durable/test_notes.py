"""Positions go with the change that they were noted for, or not at all."""

from __future__ import annotations

import pytest

from triegs import Engine, StateError

EDGE = ("+", 1, "<a:p>", 2)


@pytest.mark.parametrize("call", ["apply", "push", "load"])
def test_a_position_does_not_outlive_the_change_that_failed(tmp_path, call):
    with Engine.open(tmp_path) as engine:
        engine.note({"line": 1})
        engine.apply([EDGE])
        engine.note({"line": 2})
        with pytest.raises(Exception):  # noqa: B017, PT011
            getattr(engine, call)(7)
        engine.register("SELECT ?x { ?x <a:p> ?y }")
        assert engine.positions["line"] == 1
    with Engine.open(tmp_path) as engine:
        assert engine.positions["line"] == 1


def test_a_position_without_a_change_is_not_kept(tmp_path):
    with Engine.open(tmp_path) as engine:
        engine.apply([EDGE])
        engine.hold("kept")
        engine.note({"line": 2})
    with Engine.open(tmp_path) as engine:
        assert "line" not in engine.positions
        assert engine.holds == {"kept": 1}


def test_a_closed_engine_keeps_nothing(tmp_path):
    with Engine.open(tmp_path) as engine:
        engine.apply([EDGE])
    for call in (lambda: engine.note({"line": 1}), lambda: engine.hold("lost")):
        with pytest.raises(StateError, match="the engine is closed"):
            call()
