"""A cell is the same term, whatever its type and spelling, on every path: executors, driver,
partitions. Related queries in one pipeline, each against the oracle after every batch.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import columns as drawn
from tests.spark.columns import KINDS, NAMES, SIGNS, TIMES, Columns, make_table
from tests.spark.streams import sum_changes

from triegs import Engine, InputError
from triegs.cli.explain_command import observe_file
from triegs.durable.source import QuerySource
from triegs.events import Source, open_input
from triegs.mode import Mode
from triegs.partition.layout import lay_out
from triegs.partition.sampling import sample_statistics
from triegs.partition.statistics import Key
from triegs.spark import (
    Distributed,
    Pipeline,
    SparkSource,
    changes,
    recompute,
    start,
)
from triegs.spark.driver import micro_batch
from triegs.spark.encoded_batch import EncodedBatch, decode_batches, make_checker, make_encoder
from triegs.spark.partitioned.job import make_job
from triegs.spark.partitioned.partition import CHANGES, Partition
from triegs.spark.partitioned.planning import read_sample
from triegs.spark.partitioned.routing import make_router, mark_terms
from triegs.spark.partitioned.seeds import read_static, write_seed
from triegs.terms.term_texts import write_terms

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ZONE = "spark.sql.session.timeZone"
BERLIN = "Europe/Berlin"
OURS = {name: name for name in NAMES}
#: Each type in both positions, where all can be joined with all, and some with others.
PAIRS = [
    ("timestamp", "timestamp"), ("string", "string"), ("double", "double"), ("date", "date"),
    ("boolean", "boolean"), ("timestamp_ntz", "timestamp_ntz"), ("tinyint", "string"),
    ("bigint", "int"), ("string", "timestamp"), ("decimal", "decimal"), ("float", "float"),
    ("smallint", "decimal"),
]  # fmt: skip


def draw_columns(pair: tuple[str, str], random: Random) -> Columns:
    return Columns(*pair, random.choice(list(TIMES)), random.choice(list(SIGNS)))


def in_zone(table: pa.Table, zone: str) -> pa.Table:
    """As executors receive it from a session of that zone."""
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
        packed, _ = decode_batches(
            pa.Table.from_batches(make_encoder(names, is_timed=False)(iter(given)))
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


class LocalPartitions:
    """A partitioned pipeline without Spark: the functions of its tasks, in sequence."""

    def __init__(
        self, queries: dict[str, str], partitions: int, mode: str, is_windowed: bool,
        seeds: str | None = None,
    ) -> None:  # fmt: skip
        sources = {
            name: QuerySource(text, name, None, (), None, {}) for name, text in queries.items()
        }
        layout = lay_out({name: each.parse() for name, each in sources.items()}, partitions)
        window = drawn.make_window(is_windowed)
        job = make_job(layout, sources, mode, window, None, None, is_windowed)
        self.job = job._replace(wanted=tuple(queries), seeds=seeds)
        self.partitions = [Partition(self.job, number) for number in range(partitions)]
        self.newest: list[int | None] = [None] * partitions
        self.shown: dict[str, Counter] = {name: Counter() for name in queries}

    def take(self, tables: list[pa.Table]) -> None:
        """Apply a batch, each table in a task of its own."""
        columns = OURS if self.job.is_timed else {n: n for n in NAMES if n != "time"}
        batches: dict[int, list[EncodedBatch]] = {slot: [] for slot in self.job.slots}
        for task, table in enumerate(tables):
            for batch in make_router(columns, self.job)(iter(table.to_batches())):
                for row in batch.to_pylist():
                    encoded = EncodedBatch(task, row["number"], row["kind"], row["payload"])
                    batches[row["slot"]].append(encoded)
        for number, partition in enumerate(self.partitions):
            outputs, self.newest[number] = partition.take(
                batches[self.job.slots[number]], self.newest[number]
            )
            for out in outputs:
                if out.kind == CHANGES:
                    changes = pa.ipc.open_stream(out.payload).read_all()
                    for row in changes.to_pylist():
                        _, *terms, change = row.values()
                        self.shown[out.query][tuple(terms)] += change

    def show(self) -> dict[str, dict[tuple[Any, ...], int]]:
        """Sums over the partitions; without summing, each answer is in one of them."""
        return {
            name: {terms: count for terms, count in found.items() if count}
            for name, found in self.shown.items()
        }

    def close(self) -> None:
        for partition in self.partitions:
            partition.close()


def show(engine: Engine) -> dict[str, dict[tuple[Any, ...], int]]:
    found = {}
    for name, query in engine.queries.items():
        with query.snapshot() as snapshot:
            found[name] = {tuple(answer): answer.multiplicity for answer in snapshot}
    return found


@pytest.mark.parametrize("seed", range(200 if SOAK else 16))
def test_engines_and_partitions_equal_the_oracle(seed):
    """Every type, without Spark: the functions of its tasks run here."""
    random = Random(seed)
    columns = draw_columns(PAIRS[seed % len(PAIRS)], random)
    asked = drawn.draw_queries(random, columns)
    texts = {name: query.write(random) for name, query in asked.items()}
    mode, is_windowed = random.choice(["multigraph", "rdf"]), random.random() < 0.5
    batches = drawn.draw_batches(random, columns, [12, 0, 25, 9])
    expected = list(drawn.expect(batches, asked, mode, is_windowed))
    several = [LocalPartitions(texts, n, mode, is_windowed) for n in (1, 2, 3)]
    with Engine(Mode(mode), window=drawn.make_window(is_windowed)) as engine:
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
            for partitioned in several:
                partitioned.take([in_zone(table.slice(0, half), BERLIN), table.slice(half)])
                assert partitioned.show() == shown, (columns, texts)
    for partitioned in several:
        partitioned.close()


@pytest.fixture
def session(spark):
    """In a zone other than UTC."""
    session = spark.get()
    before = session.conf.get(ZONE)
    session.conf.set(ZONE, BERLIN)
    yield session
    session.conf.set(ZONE, before)


#: Timestamps; doubles and decimals; strings and timestamps.
SOME = [(None, 0), (None, 2), (2, 8)]
MANY = [(partitions, seed) for partitions in (None, 2, 3) for seed in range(2 * len(PAIRS))]


@pytest.mark.parametrize(("partitions", "seed"), MANY if SOAK else SOME)
def test_each_batch_on_spark_equals_the_oracle(session, tmp_path, monkeypatch, seed, partitions):
    """Batches alternate between small and large, so the first, second and last pass through
    executors, and the third through the driver.
    """
    monkeypatch.setattr(micro_batch, "FEW_ROWS", 6)
    random = Random(seed)
    columns = draw_columns(PAIRS[seed % len(PAIRS)], random)
    asked = drawn.draw_queries(random, columns)
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


SPELT = [
    (subject, drawn.P, "<http://ex/o>")
    for term in ('"k"', '"a"@en', "<http://ex/p1>")
    for subject in drawn.TEXTS[term]
] + [("<http://ex/hub>", label, "<http://ex/o>") for label in drawn.LABELS[drawn.Q]]


def test_a_sample_counts_terms_and_not_spellings():
    """It does not count malformed rows, either."""
    rows = [*SPELT, ("no term", drawn.P, drawn.P)]
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], list("spo"))
    sample = read_sample(table, {"subject": "s", "predicate": "p", "object": "o"})
    assert sample is not None
    observed = sample_statistics(sample)
    assert observed.shares == {drawn.P: 10 / 12, drawn.Q: 2 / 12}
    found = {key.terms: key.share for key in observed.keys[drawn.P, (0,)]}
    assert found == {('"k"',): 0.4, ('"a"@en',): 0.3, ("<http://ex/p1>",): 0.3}


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_may_have_any_type(kind):
    cells, terms = zip(*KINDS[kind].cells, strict=True)
    column = pa.array(cells, KINDS[kind].arrow)
    table = pa.table({"subject": column, "predicate": column, "object": column})
    sample = read_sample(in_zone(table, BERLIN), {name: name for name in table.schema.names})
    assert sample is not None
    shares = sample_statistics(sample).shares
    assert {term: round(share * len(cells)) for term, share in shares.items()} == Counter(terms)


def test_a_sample_of_explain_counts_terms_and_not_spellings(tmp_path):
    path = tmp_path / "sample.csv"
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(("subject", "predicate", "object"))
        writer.writerows(SPELT)
    observed = observe_file(path)
    assert observed is not None
    assert observed.shares == {drawn.P: 10 / 12, drawn.Q: 2 / 12}
    assert observed.keys[drawn.P, (0,)][0] == Key(('"k"',), 0.4)


def test_hot_keys_are_terms_and_not_values():
    """An integer is hot by its term, and "05" is a different one."""
    five, other = drawn.typed("integer", "5", "05")
    column = pa.array([5, 6])
    assert mark_terms(column, [five]).tolist() == [True, False]
    assert mark_terms(column, [other]).tolist() == [False, False]


def test_a_static_graph_is_spelt_as_the_stream_is(tmp_path):
    """Partitioned as in one engine, which keeps the zone of an Arrow column in its terms."""
    query = {"q": f"SELECT ?a ?b ?c {{ ?a {drawn.P} ?b . ?b {drawn.Q} ?c }}"}
    zoned = pa.array([0, 3_600_000_000], pa.timestamp("us", BERLIN))
    statics = [
        pa.table({"subject": drawn.TEXTS[term], "predicate": [drawn.P] * n, "object": [term] * n})
        for term in drawn.TEXTS
        if (n := len(drawn.TEXTS[term]))
    ]
    statics = [pa.concat_tables(statics)]
    statics += [pa.table({"subject": zoned, "predicate": [drawn.P] * 2, "object": zoned})]
    stream = [
        ("+", cell, drawn.Q, cell)
        for cell in [
            *(cell for cells in drawn.TEXTS.values() for cell in cells),
            *drawn.typed("dateTime", "1970-01-01T01:00:00+01:00", "1970-01-01T02:00:00+01:00"),
        ]
    ]
    table = pa.table([pa.array(column) for column in zip(*stream, strict=True)], NAMES[1:])
    for number, static in enumerate(statics):
        with Engine() as engine:
            engine.register(query["q"], "q")
            engine.apply(static, strict=True)
            engine.apply(table)
            expected = show(engine)
        assert len(expected["q"]) > 1
        sources = {"q": QuerySource(query["q"], "q", None, (), None, {})}
        layout = lay_out({"q": sources["q"].parse()}, 3)
        folder = tmp_path / str(number)
        write_seed(folder, layout, read_static(static))
        partitioned = LocalPartitions(query, 3, "multigraph", is_windowed=False, seeds=str(folder))
        partitioned.take([table])
        assert partitioned.show() == expected
        partitioned.close()


@pytest.mark.parametrize("kind", ["binary", "array<string>"])
def test_types_that_are_no_terms_are_refused_at_the_start(session, tmp_path, kind):
    (tmp_path / "in").mkdir()
    lines = session.readStream.text(str(tmp_path / "in"))
    told = rf"(?s)object.*{kind.partition('<')[0].partition(' ')[0]}"
    stream = lines.selectExpr(
        "value AS subject", "value AS predicate", f"CAST(NULL AS {kind}) AS object"
    )
    query = f"SELECT ?a {{ ?a {drawn.P} ?b }}"
    for partitions in (None, 2):
        with pytest.raises(InputError, match=told):
            start(stream, {"q": query}, checkpoint=tmp_path / "state", partitions=partitions)
    with pytest.raises(InputError, match=told):
        changes(stream, query, partitions=2)
    still = session.sql(f"SELECT 'a' subject, 'b' predicate, CAST(NULL AS {kind}) object")
    with pytest.raises(Exception, match=told):
        still.write.format("triegs").mode("append").save(str(tmp_path / "engine"))
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("time", "double", "cannot hold times"),
        ("op", "boolean", "cannot hold signs"),
        ("id", "double", "cannot hold ids"),
    ],
)
def test_types_of_other_columns_are_refused_at_the_start(session, tmp_path, name, kind, told):
    (tmp_path / "in").mkdir()
    lines = session.readStream.text(str(tmp_path / "in"))
    columns = ["value AS subject", "value AS predicate", "value AS object", "1L AS time"]
    columns = [each for each in columns if not each.endswith(name)]
    stream = lines.selectExpr(*columns, f"CAST(NULL AS {kind}) AS {name}")
    with pytest.raises(InputError, match=rf"{name}: .*{told}.*{name} {kind}"):
        start(stream, {"q": f"SELECT ?a {{ ?a {drawn.P} ?b }}"}, checkpoint=tmp_path / "state")


def test_columns_that_are_not_of_events_may_have_any_type(session, tmp_path, monkeypatch):
    """Spark may have no Arrow type for those, on executors or in the driver."""
    monkeypatch.setattr(micro_batch, "FEW_ROWS", 1)
    columns = Columns("string", "string")
    batches = drawn.draw_batches(Random(1), columns, [3, 3])
    stream = drawn.read_stream(
        session, drawn.write_files(tmp_path / "in", columns, batches), columns
    ).selectExpr("*", "INTERVAL 1 MONTH AS extra")
    with start(
        stream, {"q": f"SELECT ?a ?b {{ ?a {drawn.P} ?b }}"}, checkpoint=tmp_path / "state",
        trigger={"availableNow": True},
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        assert pipeline.metrics()["rows"] == sum(
            row.event is not None for rows in batches for row in rows
        )


def test_recomputed_answers_have_every_type_and_spelling(session):
    random = Random(3)
    several = [Columns("string", "timestamp", "timestamp_ntz"), Columns("double", "date")]
    for columns in several if SOAK else several[:1]:
        (rows,) = drawn.draw_batches(random, columns, [40])
        rows = [row for row in rows if row.event is not None]
        asked = {"q": drawn.Asked(f"SELECT ?a ?b {{ ?a {drawn.P} ?b . ?a {drawn.Q} ?c }}", {})}
        frame = session.createDataFrame(make_table(columns, rows), columns.schema)
        anew = recompute(asked["q"].write(), frame).collect()
        found = {tuple(row)[1:-1]: row["multiplicity"] for row in anew}
        (expected,) = drawn.expect([rows], asked, "multigraph", is_windowed=False)
        assert found == expected["q"]
        assert {row["time"] for row in anew} == {max(e.time for _, e in rows if e is not None)}


def test_an_inbox_gets_the_terms_of_the_stream(session, tmp_path):
    columns = Columns("timestamp", "string", op="tinyint")
    (rows,) = drawn.draw_batches(Random(4), columns, [30])
    frame = session.createDataFrame(make_table(columns, rows), columns.schema)
    frame = frame.drop("time").repartition(1)
    frame.write.format("triegs").mode("append").save(str(tmp_path / "engine"))
    asked = {"q": drawn.Asked(f"SELECT ?a ?b {{ ?a {drawn.P} ?b }}", {})}
    with Engine.open(tmp_path / "engine") as engine:
        engine.register(asked["q"].write(), "q")
        engine.take_inbox()
        (expected,) = drawn.expect([rows], asked, "multigraph", is_windowed=False)
        assert show(engine) == expected


def test_spark_reads_the_types_of_parquet_as_they_are_read_without_it(spark, tmp_path):
    zoned = pa.array([0, 1_720_000_000_000], pa.timestamp("ms", BERLIN))
    large = pa.array([5, (1 << 64) - 1], pa.uint64())
    pq.write_table(
        pa.table({"subject": zoned, "predicate": large, "object": zoned.cast(pa.timestamp("ms"))}),
        tmp_path / "a.parquet",
    )
    found = []
    for make in (Source, partial(SparkSource, spark=spark)):
        with open_input(tmp_path / "a.parquet", make=make) as source:
            (batch,) = source
            found.append([write_terms(batch.column(n)).to_pylist() for n in NAMES[2:]])
    assert found[0] == found[1]
    assert found[0][0] == drawn.typed(
        "dateTime", "1970-01-01T01:00:00+01:00", "2024-07-03T11:46:40+02:00"
    )
