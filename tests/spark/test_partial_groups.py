"""Partial groups of partitions, merged, are the groups of one engine. Starts no Spark.

Random grouped queries are partitioned by keys that are not in their groups. The oracle, over all
events, judges the merged rows after each batch, and the sum of their changes.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.aggregates.drawing import HUGE, Vocabulary, draw_query
from tests.spark.test_partitions import make_table

from triegs.durable.source import QuerySource
from triegs.errors import MultiplicityOverflow
from triegs.explain.partitions import list_partitions
from triegs.partition.keys import plan_partitions
from triegs.partition.layout import Layout, lay_out
from triegs.partition.sampling import sample_statistics
from triegs.read.merging import GroupMerger
from triegs.spark.encoded_batch import EncodedBatch, write_stream
from triegs.spark.partitioned.job import Job, make_job
from triegs.spark.partitioned.partition import ANSWERS, CHANGES, Partition
from triegs.spark.partitioned.results import merge_changes
from triegs.spark.partitioned.routing import EVENTS, split_table
from triegs.sparql import parse
from triegs.terms.values import write_value
from triegs.testing import oracle

logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # it reports ill-typed literals
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
NAME = "query"
Event = tuple[str, str, str, str]


class Partitions:
    """The partitions of one query, and the merged groups."""

    def __init__(self, text: str, layout: Layout, mode: str) -> None:
        source = QuerySource(text, NAME, None, (), None, {})
        job = make_job(layout, {NAME: source}, mode, None, None, None, False)
        self.job: Job = job._replace(wanted=(NAME,))
        self.schema = pa.schema(
            [("time", pa.int64()), *((each, pa.string()) for each in parse(text).head),
             ("change", pa.int64())]
        )  # fmt: skip
        self.partitions = [Partition(self.job, number) for number in range(layout.partitions)]
        self.merger = self.make_merger()
        self.summed: Counter[tuple[Any, ...]] = Counter(dict(self.merger.rows()))

    def make_merger(self) -> GroupMerger:
        found = self.job.make_merger(NAME)
        assert found is not None
        return found

    def apply(self, events: list[Event]) -> None:
        cells: dict[int, list[EncodedBatch]] = {}
        for number, rows in split_table(make_table(events), self.job.layout):
            cells.setdefault(number, []).append(EncodedBatch(0, 0, EVENTS, write_stream(rows)))
        tables = []
        for partition in self.partitions:
            outputs, _ = partition.take(cells.get(partition.number, []), None)
            tables += [read(out) for out in outputs if out.kind == CHANGES]
        if tables:
            changes = merge_changes(self.merger, pa.concat_tables(tables), self.schema)
            for row in changes.to_pylist():
                _, *terms, change = row.values()
                assert change
                self.summed[tuple(terms)] += change
        self.summed = Counter({row: count for row, count in self.summed.items() if count})

    def reload(self) -> None:
        """A new merger from all that partitions hold, as after a restart."""
        self.merger = self.make_merger()
        for partition in self.partitions:
            outputs, _ = partition.take([], None, [NAME])
            for out in outputs:
                assert out.kind == ANSWERS
                self.merger.add(self.merger.read(read(out)))
        self.merger.apply(())

    def close(self) -> None:
        for partition in self.partitions:
            partition.close()


def read(out: Any) -> pa.Table:
    return pa.ipc.open_stream(out.payload).read_all()


def draw_text(random: Random, partitions: int, events: list[Event]) -> tuple[str, Layout]:
    """A query whose groups span partitions."""
    while True:
        text = draw_query(random)
        known = sample_statistics(make_table(events)) if random.random() < 0.5 else None
        layout = lay_out({NAME: parse(text)}, partitions, known)
        if not layout.problem and layout.queries[0].is_summed:
            return text, layout


@pytest.mark.property
@pytest.mark.parametrize("seed", range(200 if SOAK else 25))
def test_merged_groups_equal_the_oracle(seed):
    random = Random(seed)
    words = Vocabulary(random)
    mode = random.choice(["multigraph", "rdf"])
    sample = [("+", *words.draw_triple()) for _ in range(20)]
    text, layout = draw_text(random, random.choice([2, 3, 5]), sample)
    asked = oracle.read_query(text)
    live: Counter[Any] = Counter()
    found = Partitions(text, layout, mode)
    try:
        for batch in range(6):
            events = draw_events(random, words, live)
            try:
                found.apply(events)
            except MultiplicityOverflow:
                assert any(triple[2] in HUGE for triple in live)
                return
            wanted = oracle.answers(asked, +live, mode)
            assert dict(found.merger.rows()) == wanted, text
            assert found.summed == wanted, text
            if batch == 3:
                found.reload()
                assert dict(found.merger.rows()) == wanted, text
    finally:
        found.close()


def draw_events(random: Random, words: Vocabulary, live: Counter[Any]) -> list[Event]:
    """Insertions, and deletions of live triples, until none is left now and then."""
    if random.random() < 0.1:
        events = [("-", *triple) for triple in live.elements()]
        live.clear()
        return events
    events = []
    for _ in range(random.choice([0, 1, 5, 12])):
        known = sorted(+live)
        if known and random.random() < 0.4:
            triple = random.choice(known)
            live[triple] -= 1
            events.append(("-", *triple))
        else:
            triple = words.draw_triple()
            live[triple] += 1
            events.append(("+", *triple))
    return events


PATH = "?x <u:q> ?y . ?y <u:p> ?v"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT (COUNT(*) AS ?n) (SUM(?v) AS ?s) (AVG(?v) AS ?a) {{ {PATH} }}",
        f"SELECT ?x (COUNT(DISTINCT ?v) AS ?n) (MIN(?v) AS ?m) {{ {PATH} }} GROUP BY ?x",
        f"SELECT ?x (SUM(?v) AS ?s) {{ {PATH} }} GROUP BY ?x HAVING (COUNT(*) > 2)",
        f"SELECT ?big (SUM(DISTINCT ?v) / 2 AS ?s) {{ {PATH} }} GROUP BY (?v > 2 AS ?big)",
        f"SELECT DISTINCT (COUNT(*) AS ?n) {{ {PATH} }} GROUP BY ?x",
        f"SELECT (COUNT(*) AS ?n) {{ {PATH} }} GROUP BY ?y",
    ],
)
def test_kinds_of_groups(text):
    """No grouping, keys elsewhere, HAVING, expressions, and rows that several groups share."""
    layout = lay_out({NAME: parse(text)}, 3)
    assert layout.queries[0].key == ("?y",)
    assert layout.queries[0].is_summed
    live: Counter[Any] = Counter()
    found = Partitions(text, layout, "multigraph")
    asked = oracle.read_query(text)
    try:
        assert found.summed == oracle.answers(asked, live)
        for step in range(12):
            events: list[Event] = []
            for number in range(4):
                node = f"<u:{(step * 3 + number) % 5}>"
                value = write_value((step + number) % 4)
                events += [("+", f"<u:{number % 2}>", "<u:q>", node), ("+", node, "<u:p>", value)]
            if step % 3 == 2:
                events = [("-", *triple) for triple, count in live.items() for _ in range(count)]
                events = events[:: 2 if step < 11 else 1]
            for sign, *triple in events:
                live[tuple(triple)] += 1 if sign == "+" else -1
            found.apply(events)
            wanted = oracle.answers(asked, +live)
            assert found.summed == dict(found.merger.rows()) == wanted
    finally:
        found.close()


def test_a_sum_over_partitions_that_does_not_fit():
    """As in one engine, it is an error and never a wrong row."""
    text = f"SELECT (SUM(?v) AS ?s) {{ {PATH} }}"
    layout = lay_out({NAME: parse(text)}, 2)
    largest = write_value(2**63 - 1)
    nodes = [f"<u:{number}>" for number in range(8)]
    events = [("+", "<u:a>", "<u:q>", node) for node in nodes]
    found = Partitions(text, layout, "multigraph")
    try:
        found.apply(events)
        found.apply([("+", nodes[0], "<u:p>", largest)])
        assert dict(found.merger.rows()) == {(largest,): 1}
        homes = {node: find_home(layout, node) for node in nodes}
        other = next(node for node in nodes if homes[node] != homes[nodes[0]])
        with pytest.raises(MultiplicityOverflow, match="over all partitions"):
            found.apply([("+", other, "<u:p>", largest)])
    finally:
        found.close()


def test_a_partial_query_is_stored_as_such():
    """Others are stored as before."""
    plain = QuerySource("SELECT (COUNT(*) AS ?n) { ?x <u:p> ?y }", NAME, None, (), None, {})
    partial = plain._replace(is_partial=True)
    assert "is_partial" not in plain.write()
    assert [QuerySource.read(each.write()) for each in (plain, partial)] == [plain, partial]
    assert partial.parse() != plain.parse()


def test_explain_says_that_groups_are_merged():
    query = parse(f"SELECT ?x (SUM(?v) AS ?s) {{ {PATH} }} GROUP BY ?x")
    text = " ".join(list_partitions(query, plan_partitions(query, 4)).split())
    assert "hottest merged → 1 ?y 0.00 1.00 4.00 yes 2 ?x 0.50 2.50 1.60 3" in text
    assert "Chosen: hashed by ?y: 4.0 times the throughput of one partition; partial" in text
    assert "merged: the key is not a column of GROUP BY in SELECT" in text


def find_home(layout: Layout, node: str) -> int:
    table = make_table([("+", node, "<u:p>", "<u:v>")])
    return next(number for number, rows in split_table(table, layout) if rows.num_rows)
