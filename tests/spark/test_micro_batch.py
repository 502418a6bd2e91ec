"""A batch that the engine refuses does not count as applied. Needs no Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.streams import EX, QUERIES

from triegs import Engine, TriegsError
from triegs.spark.driver.micro_batch import POSITION, MicroBatchRunner
from triegs.spark.encoded_batch import Checked

GOOD = pa.table({"op": [1], "subject": [EX(1)], "predicate": [EX("p")], "object": [EX(2)]})
COLUMNS = {name: name for name in ("subject", "predicate", "object")}


class Frame:
    """Stands in for Spark's DataFrame; the session is for sinks, and there are none."""

    sparkSession = None  # noqa: N815


def open_runner(
    home: Any, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> tuple[Engine, MicroBatchRunner]:
    engine = Engine.open(home / "engine", sync="never")
    for name, text in QUERIES.items():
        if name not in engine.queries:
            engine.register(text, name)
    runner = MicroBatchRunner(engine, {}, COLUMNS, home, is_timed=False, stream=None)
    monkeypatch.setattr(runner, "_collect", lambda *_: [Checked(table, False)])
    return engine, runner


def test_a_batch_that_is_refused_is_taken_by_the_next_process(tmp_path, monkeypatch):
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "metadata").write_text(json.dumps({"id": "query"}))
    engine, runner = open_runner(tmp_path, pa.table({"subject": [1]}), monkeypatch)
    with engine, pytest.raises(TriegsError):
        runner.take(Frame(), 0)
    engine, runner = open_runner(tmp_path, GOOD, monkeypatch)
    with engine:
        runner.take(Frame(), 0)
        assert runner.figures["replayed"] == 0
        assert engine.metrics()["updates"] == 1
        assert engine.positions[POSITION]["batch"] == 0
        runner.take(Frame(), 0)
        assert engine.metrics()["updates"] == 1
