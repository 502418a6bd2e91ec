"""A cell is one term, whatever its type and spelling, and whichever way it takes: by executors, by
the driver, in parts. Related queries in one pipeline, each against the oracle after every batch.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.spark import columns as drawn
from tests.spark.columns import KINDS, NAMES, SIGNS, TIMES, Columns, make_table
from tests.spark.streams import sum_changes

from triegs import Engine
from triegs.compiler.layout import lay_out
from triegs.durable.source import QuerySource
from triegs.spark import Distributed, Pipeline, feeding, start
from triegs.spark.distributed.parts import CHANGES, Parcel, Part
from triegs.spark.distributed.pipeline import make_job
from triegs.spark.distributed.routing import make_router
from triegs.spark.parcels import make_checker, make_packer, open_parcels

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ZONE = "spark.sql.session.timeZone"
BERLIN = "Europe/Berlin"
OURS = {name: name for name in NAMES}
#: Two types in each pipeline, all of them in all pipelines.
PAIRS = [
    ("timestamp", "timestamp"), ("string", "string"), ("double", "decimal"), ("date", "float"),
    ("boolean", "timestamp_ntz"), ("tinyint", "string"), ("bigint", "int"), ("smallint", "double"),
    ("string", "timestamp"), ("decimal", "decimal"), ("float", "boolean"), ("int", "date"),
]  # fmt: skip


def draw_columns(pair: tuple[str, str], random: Random) -> Columns:
    return Columns(*pair, random.choice(list(TIMES)), random.choice(list(SIGNS)))


def in_zone(table: pa.Table, zone: str) -> pa.Table:
    """As executors get it from a session of that zone."""
    fields = [
        pa.field(
            f.name,
            pa.timestamp("us", zone) if pa.types.is_timestamp(f.type) and f.type.tz else f.type,
        )
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_the_term_that_an_engine_gives_it(kind):
    cells, terms = zip(*KINDS[kind].cells, strict=True)
    column = pa.array(cells, KINDS[kind].arrow)
    rows = len(cells)
    table = pa.table({"subject": column, "predicate": [drawn.P] * rows, "object": column})
    names = {name: name for name in table.schema.names}
    for zone in ("UTC", BERLIN, "GMT+2"):
        given = in_zone(table, zone).to_batches()
        (checked,) = make_checker(names, is_timed=False)(iter(given))
        packed, _ = open_parcels(
            pa.Table.from_batches(make_packer(names, is_timed=False)(iter(given)))
        )
        with Engine("rdf") as engine:
            query = engine.register("SELECT ?s ?o { ?s ?p ?o }")
            for each in (table, checked.table, *packed):
                engine.apply(each)
                with query.snapshot() as snapshot:
                    found = {tuple(answer) for answer in snapshot}
                assert found == {(term, term) for term in terms}
        for name in ("subject", "object"):
            written = checked.table.column(name).combine_chunks()
            if pa.types.is_dictionary(written.type):
                assert written.to_pylist() == list(terms)
                words = written.dictionary.to_pylist()
                assert len(set(words)) == len(words)
            else:
                assert written.to_pylist() == list(cells)


class Parts:
    """A pipeline in parts without Spark: the tasks' functions, one after the other."""

    def __init__(self, queries: dict[str, str], partitions: int, mode: str, is_windowed: bool):
        sources = {
            name: QuerySource(text, name, None, (), None, {}) for name, text in queries.items()
        }
        layout = lay_out({name: each.parse() for name, each in sources.items()}, partitions)
        window = drawn.make_window(is_windowed)
        job = make_job(layout, sources, mode, window, None, None, is_windowed)
        self.job = job._replace(wanted=tuple(queries))
        self.parts = [Part(self.job, number) for number in range(partitions)]
        self.newest: list[int | None] = [None] * partitions
        self.shown: dict[str, Counter] = {name: Counter() for name in queries}

    def take(self, tables: list[pa.Table]) -> None:
        """A batch, each table by a task of its own."""
        columns = OURS if self.job.is_timed else {n: n for n in NAMES if n != "time"}
        parcels: dict[int, list[Parcel]] = {slot: [] for slot in self.job.slots}
        for task, table in enumerate(tables):
            for batch in make_router(columns, self.job)(iter(table.to_batches())):
                for row in batch.to_pylist():
                    parcel = Parcel(task, row["number"], row["kind"], row["payload"])
                    parcels[row["slot"]].append(parcel)
        for number, part in enumerate(self.parts):
            outs, self.newest[number] = part.take(
                parcels[self.job.slots[number]], self.newest[number]
            )
            for out in outs:
                if out.kind == CHANGES:
                    changes = pa.ipc.open_stream(out.payload).read_all()
                    for row in changes.to_pylist():
                        _, *terms, change = row.values()
                        self.shown[out.query][tuple(terms)] += change

    def show(self) -> dict[str, dict[tuple[Any, ...], int]]:
        """The sums over the parts; of a query that is not summed, each answer is in one of them."""
        return {
            name: {terms: count for terms, count in found.items() if count}
            for name, found in self.shown.items()
        }

    def close(self) -> None:
        for part in self.parts:
            part.close()


def show(engine: Engine) -> dict[str, dict[tuple[Any, ...], int]]:
    found = {}
    for name, query in engine.queries.items():
        with query.snapshot() as snapshot:
            found[name] = {tuple(answer): answer.multiplicity for answer in snapshot}
    return found


@pytest.mark.parametrize("seed", range(200 if SOAK else 16))
def test_engines_and_parts_equal_the_oracle(seed):
    """Every type, without Spark: what tasks do is done here."""
    random = Random(seed)
    columns = draw_columns(PAIRS[seed % len(PAIRS)], random)
    asked = {f"q{n}": each for n, each in enumerate(drawn.draw_queries(random, columns))}
    texts = {name: query.write(random) for name, query in asked.items()}
    mode, is_windowed = random.choice(["multigraph", "rdf"]), random.random() < 0.5
    batches = drawn.draw_batches(random, columns, [12, 0, 25, 9])
    expected = list(drawn.expect(batches, asked, mode, is_windowed))
    several = [Parts(texts, n, mode, is_windowed) for n in (1, 2, 3)]
    with Engine(mode, window=drawn.make_window(is_windowed)) as engine:
        for name, text in texts.items():
            engine.register(text, name)
        for rows, shown in zip(batches, expected, strict=True):
            table = make_table(columns, rows)
            if is_windowed:
                engine.push(table.filter(table.column("subject").is_valid()))
                engine.advance()
            else:
                engine.apply(table.drop_columns(["time"]))
            assert show(engine) == shown
            half = len(rows) // 2
            for parts in several:
                parts.take([in_zone(table.slice(0, half), BERLIN), table.slice(half)])
                assert parts.show() == shown, (columns, texts)
    for parts in several:
        parts.close()


@pytest.fixture
def session(spark):
    """In a zone that is not UTC."""
    session = spark.get()
    before = session.conf.get(ZONE)
    session.conf.set(ZONE, BERLIN)
    yield session
    session.conf.set(ZONE, before)


SOME = [0, 1, 2]


@pytest.mark.parametrize("seed", range(2 * len(PAIRS)) if SOAK else SOME)
@pytest.mark.parametrize("partitions", [None, 2])
def test_each_batch_on_spark_equals_the_oracle(session, tmp_path, monkeypatch, seed, partitions):
    """Batches are small and large by turns, so the first, second and last go through executors, and
    the third through the driver.
    """
    monkeypatch.setattr(feeding, "FEW_ROWS", 6)
    random = Random(seed)
    columns = draw_columns(PAIRS[seed % len(PAIRS)], random)
    asked = {f"q{n}": each for n, each in enumerate(drawn.draw_queries(random, columns))}
    mode, is_windowed = random.choice(["multigraph", "rdf"]), random.random() < 0.5
    batches = drawn.draw_batches(random, columns, [12, 4, 20, 9])
    stream = drawn.read_stream(
        session, drawn.write_files(tmp_path / "in", columns, batches), columns
    )
    with start(
        stream, {name: query.write(random) for name, query in asked.items()},
        checkpoint=tmp_path / "state", mode=mode, window=drawn.make_window(is_windowed),
        sinks={name: tmp_path / name for name in asked}, partitions=partitions,
        trigger={"availableNow": True},
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Pipeline if partitions is None else Distributed)
        pipeline.wait()
        assert pipeline.metrics()["quarantined"] == sum(
            row.event is None for rows in batches for row in rows
        )
    front = 2 if partitions is None else 1
    for batch, shown in enumerate(drawn.expect(batches, asked, mode, is_windowed)):
        for name, answers in shown.items():
            found = sum_changes(tmp_path / name, front, batch)
            assert found == answers, (batch, columns, asked[name])
