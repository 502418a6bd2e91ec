"""The eleven window queries of the social network on Spark, in the driver and partitioned.

At the end their answers must equal those of the oracle.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import SCHEMA, look, sum_changes
from tests.workloads.social import ORACLES, SLIDE_MS, SOCIAL, WIDTH_MS, Answers, read_events

from triegs import Window
from triegs.partition.keys import plan_partitions
from triegs.spark import Distributed, Pipeline, start
from triegs.sparql import parse
from triegs.testing.window_oracle import Event, Shape, WindowOracle

BATCHES = 2
QUERIES = dict(SOCIAL.queries)


def read_stream(session: Any, folder: Path) -> Any:
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.option("maxFileAge", "36500d").parquet(str(folder))


@cache
def list_batches() -> list[pa.Table]:
    """A delete names its triple, because partitions do not support ids."""
    table = read_events(1_700, 150)
    signs = pa.array(["+" if op > 0 else "-" for op in table["op"].to_pylist()])
    texts = [table[name].cast(pa.string()) for name in ("subject", "predicate", "object")]
    names = ["time", "op", "subject", "predicate", "object"]
    table = pa.table([table["time"], signs, *texts], names)
    rows = table.num_rows // BATCHES
    return [table.slice(number * rows, rows) for number in range(BATCHES)]


def write_batches(folder: Path) -> None:
    """A file per batch, in order."""
    folder.mkdir()
    for number, batch in enumerate(list_batches()):
        path = folder / f"{number:05}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


@cache
def expect() -> dict[str, Answers]:
    """The oracle's answers at the last slide that the batches have reached."""
    windows = WindowOracle([Shape(WIDTH_MS, SLIDE_MS)])
    held: Counter[Any] = Counter()
    for batch in list_batches():
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        windows.push([Event(time, sign, (s, p, o)) for time, sign, s, p, o in rows])
        for moment in windows.advance(None):
            held = moment.held[0]
    held = held + Counter(SOCIAL.static)
    return {name: ORACLES[name].answer(held)["multigraph"] for name in QUERIES}


@pytest.mark.parametrize("partitions", [None, 2])
def test_the_window_queries(spark, tmp_path, partitions):
    write_batches(tmp_path / "in")
    options: Any = {} if partitions is None else {
        "partitions": partitions, "sinks": {name: tmp_path / name for name in QUERIES},
    }  # fmt: skip
    with start(
        read_stream(spark.get(), tmp_path / "in"), QUERIES, checkpoint=tmp_path / "state",
        static=SOCIAL.static_table(), window=Window(WIDTH_MS, slide=SLIDE_MS),
        trigger={"availableNow": True}, views=False, **options,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        if partitions is None:
            assert isinstance(pipeline, Pipeline)
            found = look(pipeline.queries).answers
        else:
            assert isinstance(pipeline, Distributed)
            found = {name: sum_changes(tmp_path / name, 1) for name in QUERIES}
    for name, answers in expect().items():
        assert found[name] == answers, name
        assert answers, name


def test_each_window_query_has_a_key():
    for name, text in QUERIES.items():
        assert plan_partitions(parse(text), 2).chosen is not None, name
