"""A batch that the engine refuses is not taken for one that it has; no Spark is needed for it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.streams import EX, QUERIES

from triegs import Engine, TriegsError
from triegs.spark.feeding import POSITION, Feed
from triegs.spark.parcels import Checked

GOOD = pa.table({"op": [1], "subject": [EX(1)], "predicate": [EX("p")], "object": [EX(2)]})
COLUMNS = {name: name for name in ("subject", "predicate", "object")}


class Frame:
    """Stands for what Spark gives; the session is for sinks, of which there are none."""

    sparkSession = None  # noqa: N815


def open_feed(home: Any, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Feed]:
    engine = Engine.open(home / "engine", sync="never")
    for name, text in QUERIES.items():
        if name not in engine.queries:
            engine.register(text, name)
    feed = Feed(engine, engine.queries, {}, COLUMNS, home, is_timed=False, stream=None)
    monkeypatch.setattr(feed, "_collect", lambda *_: [Checked(table, False)])
    return engine, feed


def test_a_batch_that_is_refused_is_taken_by_the_next_process(tmp_path, monkeypatch):
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "metadata").write_text(json.dumps({"id": "query"}))
    engine, feed = open_feed(tmp_path, pa.table({"subject": [1]}), monkeypatch)
    with engine, pytest.raises(TriegsError):
        feed.take(Frame(), 0)
    engine, feed = open_feed(tmp_path, GOOD, monkeypatch)
    with engine:
        feed.take(Frame(), 0)
        assert feed.figures["replayed"] == 0
        assert engine.metrics()["updates"] == 1
        assert engine.positions[POSITION]["batch"] == 0
        feed.take(Frame(), 0)
        assert engine.metrics()["updates"] == 1
