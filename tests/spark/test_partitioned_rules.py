"""Partitioned streams with rules: together the partitions answer as one engine does. Starts no
Spark, but for one pipeline.

The expected answers are the naive evaluator's: the closure of all triples by sets, then the query.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.reason.drawing import PREDICATES, TERMS, as_plain, rule_sets, triples
from tests.reason.test_partitions import RULES as UNIVERSITY_RULES
from tests.reason.test_partitions import draw_events
from tests.spark.streams import (
    EX,
    WIDTH,
    draw_batches,
    make_table,
    make_window,
    read_stream,
    sum_changes,
    write_batch,
)

from triegs import Engine
from triegs.durable.source import QuerySource
from triegs.errors import RuleError, StateError
from triegs.partition.layout import Layout
from triegs.partition.rule_layout import lay_out_rules
from triegs.partition.rules import Signature
from triegs.reason.sets import read_rules
from triegs.spark import Distributed, Pipeline, start
from triegs.spark.encoded_batch import EncodedBatch
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.partition import Partition
from triegs.spark.partitioned.rescaling import export
from triegs.spark.partitioned.routing import find_owners, make_router
from triegs.spark.partitioned.seeds import write_seed
from triegs.spark.partitioned.state_sync import Chunk
from triegs.sparql import parse
from triegs.terms.partition_hash import find_partitions
from triegs.testing import oracle
from triegs.testing.rule_oracle import weigh
from triegs.testing.window_oracle import Event, Shape, WindowOracle
from triegs.windows.settings import EventTime

A, B = PREDICATES
#: Single atoms, joins on subjects and objects, a self-join, a projection, a constant.
ASKED = [
    f"SELECT ?x ?y {{ ?x {A} ?y }}",
    f"SELECT ?x ?y ?z {{ ?x {A} ?y . ?y {B} ?z }}",
    f"SELECT ?x ?z {{ ?x {A} ?y . ?z {A} ?y }}",
    f"SELECT ?y {{ ?x {A} ?y . ?x {B} ?z }}",
    f"SELECT DISTINCT ?x {{ ?x {A} ?y . ?y {A} ?x }}",
    f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {B} ?y }} GROUP BY ?x",
    f"SELECT ?x {{ ?x {A} {TERMS[1]} }}",
]
#: Rules whose premises meet at subjects, at objects and nowhere; recursive, with a named predicate.
RULES = f"""
    linked(X, Y) :- TE(X, {EX("p")}, Y).
    linked(X, Z) :- linked(X, Y), TE(Y, {EX("p")}, Z).
    TE(Y, {EX("q")}, X) :- linked(X, Y).
    TE(X, {EX("t")}, Y) :- TE(X, {EX("q")}, Y), TE(X, {EX("p")}, Z).
    TE(X, {EX("u")}, Y) :- TE(X, {EX("p")}, Y).
"""
QUERIES = {
    "back": f"SELECT ?x ?y {{ ?x {EX('q')} ?y }}",
    "path": f"SELECT ?x ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    "onward": f"SELECT ?x ?z {{ ?x {EX('u')} ?y . ?y {EX('p')} ?z }}",
    "both": f"SELECT ?y ?z {{ ?x {EX('t')} ?y . ?x {EX('p')} ?z }}",
    "counts": f"SELECT ?y (COUNT(*) AS ?n) {{ ?x {EX('t')} ?y }} GROUP BY ?y",
}


class Memory:
    """A state store."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], bytes] = {}

    def put(self, piece: Chunk) -> None:
        self.chunks[piece.file, piece.number] = piece.data

    def remove(self, file: str, number: int) -> None:
        del self.chunks[file, number]

    def read(self) -> list[Chunk]:
        return [Chunk(*key, data) for key, data in self.chunks.items()]


def make_job(
    texts: dict[str, str], rules, partitions: int, mode: str, is_windowed: bool, counts=None
) -> Job:
    parsed = {name: parse(text) for name, text in texts.items()}
    layout, _ = lay_out_rules(parsed, rules, partitions, counts)
    sources = {
        name: QuerySource(text, name, None, (), None, {}).write() for name, text in texts.items()
    }
    assert Layout.read(layout.write()) == layout
    return Job(
        "rules", layout, tuple(range(partitions)), sources, mode, make_window(is_windowed),
        EventTime(), None, is_windowed, rules=str(rules),
    )  # fmt: skip


def send(job: Job, events: list[Event]) -> list[dict[str, Any]]:
    names = ["time", "op", "subject", "predicate", "object"]
    if not job.is_timed:
        names = names[1:]
    table = make_table(events).select(names)
    route = make_router({name: name for name in names}, job)
    return [row for made in route(iter(table.to_batches())) for row in made.to_pylist()]


def take(partition: Partition, sent: list[dict[str, Any]], newest: int | None) -> int | None:
    slot = partition.job.slots[partition.number]
    encoded = [EncodedBatch(*list(row.values())[1:]) for row in sent if row["slot"] == slot]
    return partition.take(encoded, newest)[1]


def read_answers(job: Job, partitions: list[Partition], name: str) -> dict[tuple[Any, ...], int]:
    merger = job.make_merger(name)
    total: Counter[Any] = Counter()
    (placement,) = (each for each in job.layout.queries if each.name == name)
    rows = 0
    for partition in partitions:
        for batch in partition.read(name):
            if merger is not None:
                merger.add(merger.read(pa.Table.from_batches([batch])))
                continue
            for row in batch.to_pylist():
                *terms, count = row.values()
                total[tuple(terms)] += count
                rows += 1
    if merger is not None:
        merger.apply(())
        return {tuple(row): count for row, count in merger.rows()}
    assert placement.is_summed or rows == len(total)
    return dict(total)


@example(
    # Derived at the owner of the subject only: a second copy of what is stated is not enough.
    read_rules(f"TE(X, {A}, Y) :- TE(X, {B}, Y)."), ASKED[1],
    [(one, B, two) for one in TERMS for two in TERMS], 4, "multigraph", 0,
)  # fmt: skip
@given(
    rule_sets(), st.sampled_from(ASKED), st.lists(triples, max_size=14),
    st.sampled_from([2, 4, 5, 7]), st.sampled_from(["multigraph", "rdf"]), st.integers(0, 14),
)  # fmt: skip
def test_what_partitions_own_of_random_closures_is_all_of_it(rules, text, data, count, mode, seen):
    """The naive closure of what each partition is sent, cut to what it owns, has all matches once.
    A sample of part of the data prunes what is replicated; the rest of the data is unknown to it.
    The few terms of these data are spread over the partitions only by odd numbers of them.
    """
    sample = Counter(map(Signature.of, data[:seen]))
    layout, _ = lay_out_rules({"query": parse(text)}, rules, count, sample)
    assume(layout.queries)
    plain = as_plain(rules)
    table = make_table([Event(0, "+", triple) for triple in data])
    is_sent, _ = find_owners(table.combine_chunks(), layout)
    (placement,) = layout.queries
    question = parse(text)
    found: Counter[Any] = Counter()
    total_rows = 0
    labels = iter(placement.labels)
    tagged = re.sub(f"{A}|{B}", lambda _: next(labels), text)
    expected = oracle.answers(text, weigh(plain, Counter(data)), mode)
    if question.grouping is not None and placement.is_summed:
        return  # partial groups: the test with engines merges them
    for partition in range(count):
        mine = Counter(
            triple for triple, here in zip(data, is_sent[:, partition], strict=True) if here
        )
        owned: dict[Any, int] = {}
        for (s, p, o), weight in weigh(plain, mine).items():
            for route in layout.routes:
                if route.label != p:
                    continue
                keys = [pa.array([(s, p, o)[position]]) for position in route.positions]
                if not keys or find_partitions(keys, count)[0] == partition:
                    owned[s, route.tag, o] = weight
        answers = oracle.answers(tagged, owned, mode)
        found.update(answers)
        total_rows += len(answers)
    assert dict(found) == expected
    assert placement.is_summed or total_rows == len(found)


@pytest.mark.parametrize("is_windowed", [True, False], ids=["windowed", "plain"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_engines_of_partitions_answer_as_one(count, mode, is_windowed, tmp_path):
    """After every batch, with deletions and late events; restarted from their state at random, and
    once in other partitions.
    """
    random = Random(count)
    batches = draw_batches(50 + count, 9, rows=16)
    rules = read_rules(RULES)
    plain = as_plain(rules)
    sample = Counter({Signature(EX("p")): 3, Signature(EX("q")): 1}) if count == 4 else None
    job = make_job(QUERIES, rules, count, mode, is_windowed, sample)
    stores = [Memory() for _ in range(count)]
    partitions = [Partition(job, number) for number in range(count)]
    newest: int | None = None
    windows = WindowOracle([Shape(WIDTH, 5)])
    live: Counter[Any] = Counter()
    for batch, events in enumerate(batches):
        sent = send(job, events)
        taken = [take(partition, sent, newest) for partition in partitions]
        newest = taken[0]
        for partition, store in zip(partitions, stores, strict=True):
            partition.save(store)
        if is_windowed:
            windows.push(events)
            if any(batches[: batch + 1]):
                for moment in windows.advance(None):
                    live = Counter(moment.held[0])
        else:
            for event in events:
                if event.sign == "+" or live[event.triple] > 0:
                    live[event.triple] += 1 if event.sign == "+" else -1
        weights = weigh(plain, live)
        for name, text in QUERIES.items():
            expected = oracle.answers(oracle.read_query(text), weights, mode)
            assert read_answers(job, partitions, name) == expected, (batch, name)
        if random.random() < 0.4:
            for number, store in enumerate(stores):
                partitions[number].close()
                partitions[number] = Partition(job, number, store.read())
        if batch == 5:
            tables = [table for each in partitions for table in export(each)]
            moved = make_job(QUERIES, rules, count + 1, mode, is_windowed, sample)
            write_seed(tmp_path, moved.layout, tables)
            for partition in partitions:
                partition.close()
            job = moved._replace(seeds=str(tmp_path), newest=newest)
            stores = [Memory() for _ in job.slots]
            partitions = [Partition(job, number) for number in range(count + 1)]
    for partition in partitions:
        partition.close()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_university_in_partitions(count):
    """Rules in the manner of LUBM: foreign premises are replicated, most triples are not."""
    rules = read_rules(UNIVERSITY_RULES)
    ub = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    texts = {
        "employees": f"SELECT ?x ?y {{ ?x {kind} <{ub}Employee> . ?x <{ub}worksFor> ?y }}",
        "above": f"SELECT ?x ?y {{ ?x <{ub}subOrganizationOf> ?y }}",
    }
    drawn = draw_events(1_500)
    job = make_job(
        texts, rules, count, "multigraph", False,
        Counter(Signature.of(event[1:]) for event in drawn),
    )  # fmt: skip
    events = [Event(0, "+", event[1:]) for event in drawn]
    engine = Engine(rules=rules)
    queries = {name: engine.register(text) for name, text in texts.items()}
    partitions = [Partition(job, number) for number in range(count)]
    for signed in (events, [event._replace(sign="-") for event in events[::3]]):
        sent = send(job, signed)
        for partition in partitions:
            take(partition, sent, None)
        engine.apply([(event.sign, *event.triple) for event in signed])
        for name, query in queries.items():
            with query.snapshot() as snapshot:
                expected = {tuple(row): row.multiplicity for row in snapshot}
            assert expected
            assert read_answers(job, partitions, name) == expected
    delivered = sum(partition.report["delivered"] for partition in partitions)
    if count > 1:
        assert delivered < count * len(events[::3])
    for partition in partitions:
        partition.close()


NOW = {"availableNow": True}


def expect(batches: list[list[Event]], mode: str) -> dict[str, dict[tuple[Any, ...], int]]:
    windows = WindowOracle([Shape(WIDTH, 5)])
    live: Counter[Any] = Counter()
    for events in batches:
        windows.push(events)
        for moment in windows.advance(None):
            live = Counter(moment.held[0])
    weights = weigh(as_plain(read_rules(RULES)), live)
    return {
        name: oracle.answers(oracle.read_query(text), weights, mode)
        for name, text in QUERIES.items()
    }


def run(session, folder: Path, home: Path, partitions: int, **options: Any):
    options = {"rules": RULES, **options}
    pipeline = start(
        read_stream(session, folder), QUERIES, checkpoint=home / "state", partitions=partitions,
        window=make_window(True), trigger=NOW, sinks={name: home / name for name in QUERIES},
        **options,
    )  # fmt: skip
    pipeline.wait()
    return pipeline


def test_a_pipeline_with_rules_survives_restarts_and_rescaling(spark, tmp_path):
    """Sinks and tables equal the naive evaluator after each life; other rules are refused."""
    session = spark.get()
    batches = draw_batches(71, 4, rows=14)
    for lives, (done, partitions) in enumerate([(1, 2), (3, 2), (4, 3)]):
        for number in range(done):
            if not (tmp_path / "in" / f"{number:05}.parquet").exists():
                write_batch(tmp_path / "in", number, batches[number])
        with run(session, tmp_path / "in", tmp_path, partitions) as pipeline:
            assert isinstance(pipeline, Distributed)
            expected = expect(batches[:done], "multigraph")
            for name, answers in expected.items():
                assert sum_changes(tmp_path / name, 1) == answers, (lives, name)
            rows = [tuple(row) for row in pipeline.table("path").collect()]
            assert {row[:-1]: row[-1] for row in rows} == expected["path"]
    with pytest.raises(StateError, match="different rules"):
        run(session, tmp_path / "in", tmp_path, 3, rules=())


def test_rules_that_need_everything_everywhere_stay_in_the_driver(spark, tmp_path, caplog):
    """Under `rdfs` any triple may become a part of the schema, so each premise needs all."""
    session = spark.get()
    write_batch(tmp_path / "in", 0, draw_batches(3, 1)[0])
    with run(session, tmp_path / "in", tmp_path, 2, rules="rdfs") as pipeline:
        assert isinstance(pipeline, Pipeline)
    assert "100% of the triples in all partitions" in caplog.text
    with Engine.open(tmp_path / "state" / "engine") as engine:
        assert len(engine.rules) == 6
    with pytest.raises(RuleError, match="negation"):
        run(session, tmp_path / "in", tmp_path / "b", 2, rules="q(X) :- not p(X).")
