"""Sinks that are added later, or that belong to another owner, in both kinds of pipeline."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    QUERIES,
    draw_batches,
    expect,
    make_window,
    read_sink,
    read_stream,
    sum_changes,
    write_all,
    write_batch,
)

from triegs import StateError
from triegs.spark import BatchFailed, Sink, start
from triegs.spark.answers import list_sinks, write_once
from triegs.spark.owners import Owners

NOW = {"availableNow": True}
ASKED = {"path": QUERIES["path"]}
#: An engine in the driver has an epoch column before the time.
FRONT = {None: 2, 2: 1}


@pytest.fixture
def session(spark):
    return spark.get()


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_directory_of_another_checkpoint_is_refused_at_the_start(session, tmp_path, partitions):
    batches = draw_batches(3, 2)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    other = Owners(tmp_path / "old", list_sinks({"path": tmp_path / "out"}, ASKED), (), -1)
    other.claim()
    other.close()
    write_once(tmp_path / "out", 0, pq.read_table(tmp_path / "in" / "00000.parquet"))
    options: Any = {"checkpoint": tmp_path / "state", "partitions": partitions}
    told = (
        "out contains the changes of query 'path' of checkpoint .*old, so it cannot be used for "
        ".*state"
    )
    with pytest.raises(StateError, match=told):
        start(stream, ASKED, sinks={"path": tmp_path / "out"}, **options)
    assert not (tmp_path / "state" / "spark").exists()
    both = {"path": tmp_path / "new", "twice": tmp_path / "new"}
    with pytest.raises(StateError, match="new of 'twice' is also the sink of 'path'"):
        start(stream, QUERIES, sinks=both, **options)


@pytest.mark.parametrize("is_windowed", [False, True])
def test_sinks_that_are_added(session, tmp_path, is_windowed):
    """To an existing query, and with a new one. They get the answers so far, and then changes; a
    batch that fails after a sink has them repeats the same rows.
    """
    batches = draw_batches(12, 5, rows=20)
    folder = write_all(tmp_path / "in", batches[:2])
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "state", "window": make_window(is_windowed), "trigger": NOW,
        "views": False,
    }  # fmt: skip
    with start(read_stream(session, folder), ASKED, **options) as pipeline:
        pipeline.wait()
    told: list[Any] = []

    def fail_once(frame, batch):
        told.append((batch, sorted(map(tuple, frame.collect()))))
        if len(told) == 1:
            raise OSError("the disk of the sink is full")

    sinks: Any = {
        "path": [tmp_path / "path", Sink(tmp_path / "snapshot", "snapshot")],
        "heads": [tmp_path / "heads", fail_once],
    }
    asked = {name: QUERIES[name] for name in sinks}
    write_batch(folder, 2, batches[2])
    with (
        start(read_stream(session, folder), asked, sinks=sinks, **options) as pipeline,
        pytest.raises(BatchFailed, match="batch 2: the disk of the sink is full"),
    ):
        pipeline.wait()
    written = read_sink(tmp_path / "path"), read_sink(tmp_path / "heads")
    # A third query arrives while the batch is not delivered to all.
    sinks["twice"] = tmp_path / "twice"
    asked["twice"] = QUERIES["twice"]
    with start(read_stream(session, folder), asked, sinks=sinks, **options) as pipeline:
        pipeline.wait()
    assert (read_sink(tmp_path / "path"), read_sink(tmp_path / "heads")) == written
    assert told[0] == told[1]
    for number in (3, 4):
        write_batch(folder, number, batches[number])
    with start(read_stream(session, folder), asked, sinks=sinks, **options) as pipeline:
        pipeline.wait()
    shown = expect(batches, "multigraph", is_windowed)
    for batch in (2, 3, 4):
        for name in ("path", "heads", "twice"):
            assert sum_changes(tmp_path / name, 2, batch) == shown[batch].answers[name], name
    assert [batch for batch, _ in told] == [2, 2, 3, 4]
    total: Counter[Any] = Counter()
    for _, rows in told[1:]:
        for row in rows:
            total[row[2:-1]] += row[-1]
    assert {terms: n for terms, n in total.items() if n} == shown[-1].answers["heads"]


def test_sinks_that_are_added_to_a_partitioned_pipeline(session, tmp_path):
    """Also after rescaling, which is a batch of Spark's own."""
    batches = draw_batches(12, 4, rows=20)
    folder = write_all(tmp_path / "in", batches[:2])
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "state", "window": make_window(True), "trigger": NOW
    }  # fmt: skip
    sinks: dict[str, Any] = {"path": [tmp_path / "path"]}

    def run(partitions):
        with start(
            read_stream(session, folder), QUERIES, partitions=partitions, sinks=sinks, **options
        ) as pipeline:
            pipeline.wait()

    def check(count):
        shown = expect(batches[:count], "multigraph", True)[-1].answers
        for name, several in sinks.items():
            for sink in several:
                assert sum_changes(sink, 1) == shown[name], (name, sink)

    run(2)
    sinks["heads"] = [tmp_path / "heads"]
    run(3)  # no batch runs: a new sink waits for the next one
    assert not list((tmp_path / "heads").glob("*.parquet"))
    sinks["path"].append(tmp_path / "more")
    write_batch(folder, 2, batches[2])
    run(3)
    check(3)
    write_batch(folder, 3, batches[3])
    run(2)
    check(4)
