"""Aggregates in both kinds of pipelines, with groups that span partitions and those that do not."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    EX,
    Answers,
    draw_batches,
    look,
    make_table,
    make_window,
    read_stream,
    sum_changes,
    write_all,
    write_batch,
)
from tests.spark.test_distributed import read_answers

from triegs import Engine
from triegs.spark import Distributed, changes, start
from triegs.spark.partitioned.checkpoint_plan import SHUFFLE
from triegs.testing import oracle

NOW = {"availableNow": True}
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
PATH = f"?x {EX('p')} ?y . ?y {EX('q')} ?z"
#: Partitioned by a column of GROUP BY.
OWN = {
    "by key": f"SELECT ?x (COUNT(*) AS ?n) (COUNT(DISTINCT ?y) AS ?d) (MIN(?y) AS ?m) "
    f"{{ ?x {EX('p')} ?y }} GROUP BY ?x",
    "having": f"SELECT ?y (COUNT(?z) AS ?n) {{ {PATH} }} GROUP BY ?y HAVING (COUNT(*) > 1)",
}
#: Partitioned by another variable, so groups span partitions.
MERGED = {
    "all": f"SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?z) AS ?d) (MAX(?x) AS ?m) {{ {PATH} }}",
    "elsewhere": f"SELECT ?x (COUNT(?z) AS ?n) (MIN(?z) AS ?m) {{ {PATH} }} GROUP BY ?x "
    "HAVING (COUNT(*) > 1)",
    "hidden": f"SELECT (COUNT(*) AS ?n) {{ {PATH} }} GROUP BY ?y",
    "expression": f"SELECT ?same (COUNT(*) AS ?n) {{ {PATH} }} GROUP BY (?x = ?z AS ?same)",
    "distinct": f"SELECT DISTINCT (COUNT(*) AS ?n) {{ {PATH} }} GROUP BY ?x",
}
GROUPS = {**OWN, **MERGED}


@pytest.fixture
def session(spark):
    return spark.get()


def run_engine(batches, queries=GROUPS) -> dict[str, Answers]:
    """The rows of one engine after all batches."""
    with Engine(window=make_window(True)) as engine:
        found = {name: engine.register(text, name=name) for name, text in queries.items()}
        for events in batches:
            engine.push(make_table(events))
            engine.advance()
        return look(found).answers


def list_changes(batches) -> dict[str, Counter[Any]]:
    """The changes of one engine with their times, from an empty result on."""
    with Engine(window=make_window(True)) as engine:
        queries = {name: engine.register(text, name=name) for name, text in GROUPS.items()}
        found: dict[str, Counter[Any]] = {name: Counter() for name in queries}
        before = {name: query.snapshot() for name, query in queries.items()}
        for name, snapshot in before.items():
            found[name].update((None, *answer, answer.multiplicity) for answer in snapshot)
        for events in batches:
            engine.push(make_table(events))
            for slide in engine.each_slide():
                for name, query in queries.items():
                    after = query.snapshot()
                    changed = after.diff(before[name])
                    found[name].update((slide.time, *each, each.change) for each in changed)
                    before[name].close()
                    before[name] = after
        for snapshot in before.values():
            snapshot.close()
    return found


def read_changes(folder: Path) -> Counter[Any]:
    """The changes in a sink of a partitioned pipeline, with their times."""
    rows = [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("partitions", [None, 3])
def test_groups_equal_those_of_an_engine(session, tmp_path, partitions):
    """In the driver, and partitioned by a variable of GROUP BY or by another one."""
    batches = draw_batches(47, 3, rows=24, is_late=False)
    answers = run_engine(batches)
    assert all(answers.values())
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    options = {} if partitions is None else {"partitions": partitions}
    with start(
        stream, GROUPS, checkpoint=tmp_path / "state", window=make_window(True), trigger=NOW,
        sinks={name: tmp_path / name for name in GROUPS}, **options,
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Distributed) == (partitions is not None)
        if isinstance(pipeline, Distributed):
            merged = {each.name for each in pipeline.layout.queries if each.is_summed}
            assert merged == set(MERGED)
        pipeline.wait()
        # A table is a job: without a soak, of each way to partition and to merge.
        tables = GROUPS if SOAK else ["having", "all", "elsewhere"]
        for name, rows in answers.items():
            if name in tables:
                assert read_answers(pipeline.table(name)) == rows, name
            assert sum_changes(tmp_path / name, 1 if partitions else 2) == rows, name
        if isinstance(pipeline, Distributed):
            for name in ("elsewhere", "hidden"):
                assert pipeline.count(name) == sum(answers[name].values())
            for name, changed in list_changes(batches).items():
                assert read_changes(tmp_path / name) == changed, name


def test_merged_groups_after_restarts_and_rescaling(session, tmp_path):
    """Each start continues with the groups of the last one, and sinks get each change once. The
    second start adds a sink; the last but one repeats the last batch.
    """
    batches = draw_batches(53, 5, rows=20, is_late=False)
    # Without a soak, the start that adds a sink also has more partitions.
    lives = [(2, 2), (3, 2), (4, 3), (4, 3), (5, 1)] if SOAK else [(2, 2), (3, 3), (3, 3), (4, 1)]
    names = ["all", "elsewhere"]
    for life, (count, partitions) in enumerate(lives):
        for number, events in enumerate(batches[:count]):
            if not (tmp_path / "in" / f"{number:05}.parquet").exists():
                write_batch(tmp_path / "in", number, events)
        sinks = {name: tmp_path / name for name in (names if life else names[:1])}
        with start(
            read_stream(session, tmp_path / "in"), {name: MERGED[name] for name in names},
            checkpoint=tmp_path / "state", window=make_window(True), trigger=NOW,
            partitions=partitions, sinks=sinks,
        ) as pipeline:  # fmt: skip
            assert isinstance(pipeline, Distributed)
            pipeline.wait()
            answers = run_engine(batches[:count], {name: MERGED[name] for name in names})
            for name in names if SOAK or life == len(lives) - 1 else names[1:]:
                assert read_answers(pipeline.table(name)) == answers[name], (life, name)
            last = pipeline.batch
        for name in sinks:
            assert sum_changes(tmp_path / name, 1) == answers[name], (life, name)
        check_rows(tmp_path / "all")
        if life == len(lives) - 3:  # as if the driver had died before the commit
            (tmp_path / "state" / "spark" / "commits" / str(last)).unlink()


def check_rows(folder: Path) -> None:
    """Without GROUP BY there is one row at any time: each change but the first replaces it."""
    shown: Counter[Any] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        epochs: dict[Any, list[tuple[Any, ...]]] = {}
        for row in pq.read_table(path).to_pylist():
            epochs.setdefault(row["time"], []).append(tuple(row.values())[1:])
        for found in epochs.values():
            for *terms, change in found:
                shown[tuple(terms)] += change
            assert sorted((+shown).values()) == [1]
            assert not -shown


def test_the_row_without_groups(session, tmp_path):
    """It is there before the first match, and untimed batches change it."""
    batches = draw_batches(3, 3, rows=9)
    batches[0] = []
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    with start(
        stream, {"all": MERGED["all"]}, checkpoint=tmp_path / "state", trigger=NOW, partitions=2,
        sinks={"all": tmp_path / "all"},
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        live: Counter[Any] = Counter()
        for number, events in enumerate(batches):
            for event in events:
                live[event.triple] += 1 if event.sign == "+" else -int(live[event.triple] > 0)
            wanted = oracle.answers(MERGED["all"], +live)
            assert read_answers(pipeline.table("all", number)) == wanted
            assert sum_changes(tmp_path / "all", 1, number) == wanted


@pytest.mark.parametrize("name", ["all", "elsewhere", "distinct"] if SOAK else ["elsewhere"])
def test_merged_groups_as_a_stream(session, tmp_path, name):
    """Executors merge them; a restart continues with the groups of the last one."""
    batches = draw_batches(61, 4, rows=20, is_late=False)
    options = {"checkpointLocation": str(tmp_path / "state")}
    shuffles = session.conf.get(SHUFFLE)
    try:
        for count in (2, 4) if SOAK else (1, 3):
            write_all(tmp_path / "in", batches[:count])
            events = read_stream(session, tmp_path / "in")
            found = changes(events, MERGED[name], partitions=2, window=make_window(True))
            writer = found.writeStream.format("parquet").options(**options)
            query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
            query.awaitTermination()
            answers = run_engine(batches[:count], {name: MERGED[name]})[name]
            assert sum_changes(tmp_path / "out", 1) == answers, count
    finally:
        session.conf.set(SHUFFLE, shuffles)
