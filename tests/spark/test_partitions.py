"""Partitions find together what one engine finds. Starts no Spark.

The oracle evaluates the events of each partition under the tags that they were sent with; the sum
over the partitions must equal its answers over the whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from triegs.durable.source import QuerySource
from triegs.partition.keys import plan_partitions
from triegs.partition.layout import Layout, lay_out
from triegs.partition.sampling import sample_statistics
from triegs.partition.statistics import Key, StreamStatistics
from triegs.spark.encoded_batch import EncodedBatch, write_stream
from triegs.spark.partitioned import partition as partition_module
from triegs.spark.partitioned import processor
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.partition import Partition
from triegs.spark.partitioned.routing import (
    EVENTS,
    FIRST,
    FIRST_OF_EVENT,
    make_router,
    split_table,
)
from triegs.spark.partitioned.statistics import FILE, KeyCount, StatisticsCollector, count_keys
from triegs.sparql import parse
from triegs.sparql.window import Window
from triegs.terms.partition_hash import find_partitions
from triegs.testing import oracle
from triegs.testing.strategies import ALL_TWISTS, Pattern, Shape, Twist, patterns, updates
from triegs.windows.settings import EventTime

#: Without variable predicates, which read every label, so partitioning does not help.
TWISTS = [twist for twist in ALL_TWISTS if twist is not Twist.VARIABLE_PREDICATE]
SHAPES = [shape for shape in Shape if shape is not Shape.WIDE]
EX = "<http://ex/{}>".format
P, Q, R = EX("p"), EX("q"), EX("r")


def make_table(events):
    ops, *terms = zip(*events, strict=True) if events else [()] * 4
    columns = [pa.array(column, pa.string()).dictionary_encode() for column in terms]
    signs = pa.array([1 if op == "+" else -1 for op in ops], pa.int8())
    return pa.table([signs, *columns], ["op", "subject", "predicate", "object"])


def relabel(pattern: Pattern, labels) -> Pattern:
    atoms = [(s, to, o) for (s, _, o), to in zip(pattern.atoms, labels, strict=True)]
    return replace(pattern, atoms=tuple(atoms))


def read_rows(table) -> list[tuple[str, ...]]:
    signs = ["+" if op == 1 else "-" for op in table.column("op").to_pylist()]
    terms = [table.column(name).to_pylist() for name in ("subject", "predicate", "object")]
    return list(zip(signs, *terms, strict=True))


def check(asked: dict[str, Pattern], events, layout: Layout, mode: str) -> None:
    table = make_table(events)
    routed: dict[int, list] = {partition: [] for partition in range(layout.partitions)}
    counted = 0
    for partition, rows in split_table(table, layout):
        routed[partition] += read_rows(rows)
        counted += rows.column(FIRST).to_pylist().count(FIRST_OF_EVENT)
    read = {route.label for route in layout.routes}
    assert counted == sum(event[2] in read for event in events)
    for placement in layout.queries:
        pattern = asked[placement.name]
        question = relabel(pattern, placement.labels).text
        total: Counter = Counter()
        total_rows = 0
        for partition in placement.partitions:
            found = oracle.answers(question, routed[partition], mode)
            total.update(found)
            total_rows += len(found)
        assert dict(total) == oracle.answers(pattern.text, events, mode)
        if not placement.is_summed:
            assert total_rows == len(total)


@pytest.mark.property
@given(
    patterns(SHAPES, TWISTS, max_atoms=4),
    st.lists(updates(), max_size=30),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from(["multigraph", "rdf"]),
)
def test_partitions_find_what_one_engine_finds(pattern, events, partitions, is_seen, mode):
    assume(pattern.head)
    observed = sample_statistics(make_table(events)) if is_seen and events else None
    query = parse(pattern.text)
    plan = plan_partitions(query, partitions, observed)
    layout = lay_out({"query": query}, partitions, observed)
    assert bool(layout.problem) == (plan.chosen is None and partitions > 1)
    check({"query": pattern}, events, layout, mode)


@pytest.mark.property
@given(
    st.lists(patterns(SHAPES, TWISTS, max_atoms=3), min_size=2, max_size=6),
    st.lists(updates(), max_size=30),
    st.integers(2, 4),
)
def test_many_queries_share_what_they_are_sent(several, events, partitions):
    asked = {f"query {n}": pattern for n, pattern in enumerate(several)}
    layout = lay_out({name: parse(each.text) for name, each in asked.items()}, partitions)
    assert {placement.name for placement in layout.queries} == set(asked)
    check(asked, events, layout, "multigraph")
    assert Layout.read(layout.write()) == layout


def draw_star(hot: float) -> list[tuple[str, str, str, str]]:
    """Half of each label belongs to one hub."""
    random = np.random.default_rng(4)
    hubs = [EX(0) if random.random() < hot else EX(n) for n in range(400)]
    return [("+", hub, (P, Q)[n % 2], EX(f"o{random.integers(30)}")) for n, hub in enumerate(hubs)]


@pytest.mark.parametrize("head", ["?x ?y ?z", "?x", "?z"])
def test_a_hot_key_is_split(head):
    pattern = Pattern((("?x", P, "?y"), ("?x", Q, "?z")), tuple(head.split()))
    events = draw_star(0.5)
    observed = sample_statistics(make_table(events))
    layout = lay_out({"star": parse(pattern.text)}, 4, observed)
    (placement,) = layout.queries
    assert placement.key == ("?x",)
    assert [route.hot for route in layout.routes] == [(EX(0),)] * 2
    check({"star": pattern}, events, layout, "multigraph")
    loads = [rows.num_rows for _, rows in split_table(make_table(events), layout)]
    spread = lay_out({"star": parse(pattern.text)}, 4)
    before = [rows.num_rows for _, rows in split_table(make_table(events), spread)]
    assert max(loads) < 0.8 * max(before)


def test_a_hot_key_is_not_split_where_answers_could_not_be_summed():
    query = parse(f"SELECT DISTINCT ?x {{ ?x {P} ?y . ?x {Q} ?z }}")
    layout = lay_out({"star": query}, 4, sample_statistics(make_table(draw_star(0.5))))
    assert not any(route.hot for route in layout.routes)


def name(text, partitions=4, **shares):
    observed = StreamStatistics({EX(label): share for label, share in shares.items()})
    return plan_partitions(parse(text), partitions, observed if shares else None)


@pytest.mark.parametrize(
    ("text", "key", "copied", "is_summed"),
    [
        (f"SELECT ?x ?y {{ ?x {P} ?y . ?y {Q} ?z }}", ("?y",), 0, False),
        (f"SELECT ?x ?z {{ ?x {P} ?y . ?y {P} ?z }}", ("?y",), 0, True),
        (f"SELECT ?x ?z {{ ?x {P} <a:b> . <a:b> {Q} ?z }}", ("?x",), 0.5, False),
        (f"SELECT * {{ ?a {P} ?b . ?b {Q} ?c . ?c {R} ?d }}", ("?b",), 1 / 3, False),
        (f"SELECT DISTINCT ?x {{ ?x {P} ?y . ?y {Q} ?z }}", ("?x",), 0.5, False),
        (f"SELECT ?x (SUM(?z) AS ?n) {{ ?x {P} ?y . ?y {Q} ?z }} GROUP BY ?x", ("?y",), 0, True),
        (f"SELECT ?y (SUM(?z) AS ?n) {{ ?x {P} ?y . ?y {Q} ?z }} GROUP BY ?y", ("?y",), 0, False),
        (f"SELECT (SUM(?z) AS ?n) {{ ?x {P} ?y . ?y {Q} ?z }} GROUP BY ?y", ("?y",), 0, True),
        (f"SELECT (COUNT(*) AS ?n) {{ ?x {P} ?y }}", ("?x",), 0, True),
        (f"SELECT * {{ ?x {P} ?y . ?y {P} ?x }}", ("?x",), 0, False),
    ],
)  # fmt: skip
def test_the_key(text, key, copied, is_summed):
    plan = name(text)
    assert plan.chosen is not None
    assert plan.chosen.variables == key
    assert plan.chosen.replicated == pytest.approx(copied)
    assert plan.chosen.is_summed == is_summed


def test_shares_decide():
    text = f"SELECT * {{ ?a {P} ?b . ?b {Q} ?c . ?c {R} ?d }}"
    plan = name(text, p=0.1, q=0.1, r=0.8)
    assert plan.chosen is not None
    assert plan.chosen.variables == ("?c",)
    assert plan.chosen.find_copies(4) == pytest.approx(1.3)
    assert plan.chosen.find_speedup(4) == pytest.approx(1 / (0.9 / 4 + 0.1))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * { ?x ?p ?y . ?y ?q ?z }", "a predicate is a variable"),
        (f"ASK {{ ?x {P} ?y }}", "ASK has one answer"),
        (f"SELECT ?x {{ ?x {P} ?y }} LIMIT 3", "LIMIT and OFFSET count"),
        (
            f"SELECT DISTINCT ?x {{ ?x {P} ?y . ?u {Q} ?v . ?w {R} ?s . ?s <a:t> ?r }}",
            r"with the best key, \?x",
        ),
        (f"SELECT ?x {{ {EX(1)} {P} {EX(2)} }}", "no atom has a variable"),
    ],
)
def test_why_not(text, reason):
    plan = plan_partitions(parse(text), 2)
    assert plan.chosen is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(plan.reason)


def test_a_key_with_everything_is_no_use():
    keys: Any = {(label, (0,)): (Key((EX(0),), 1.0),) for label in (P, Q)}
    text = f"SELECT DISTINCT ?x {{ ?x {P} ?y . ?x {Q} ?z }}"
    plan = plan_partitions(parse(text), 4, StreamStatistics({P: 0.5, Q: 0.5}, keys))
    assert plan.chosen is None
    assert "the best key, ?x, 4 partitions have only 1.00 times" in plan.reason


def test_lanes_have_equal_loads():
    shares = {EX(f"l{n}"): share for n, share in enumerate([0.4, 0.3, 0.2, 0.1])}
    asked = {
        f"q{n}": parse(f"SELECT DISTINCT ?y {{ ?x {label} ?y . ?z {label} ?w }}")
        for n, label in enumerate(shares)
    }
    layout = lay_out(asked, 2, StreamStatistics(shares))
    assert {placement.name: placement.partitions for placement in layout.queries} == {
        "q0": (0,), "q1": (1,), "q2": (1,), "q3": (0,),
    }  # fmt: skip


def test_lanes_go_by_what_was_measured():
    beside = " . ".join(f"?s{label} {EX(label)} ?o{label}" for label in "qrstu")
    text = f"SELECT DISTINCT ?y {{ ?x {P} ?y . {beside} }}"
    asked = {f"q{n}": parse(text) for n in range(4)}

    def place(known) -> dict[str, tuple[int, ...]]:
        layout = lay_out(asked, 3, StreamStatistics(costs=known))
        return {placement.name: placement.partitions for placement in layout.queries}

    costs = {"q0": 1.0, "q1": 2.0, "q2": 9.0, "q3": 2.0}
    assert place(costs) == {"q2": (0,), "q1": (1,), "q3": (2,), "q0": (1,)}
    # With some costs missing, or all equal, queries count as equal.
    for known in ({"q2": 9.0}, dict.fromkeys(asked, 0.0)):
        assert place(known) == {"q0": (0,), "q1": (1,), "q2": (2,), "q3": (0,)}


@pytest.mark.property
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=9)), min_size=1))
def test_a_term_belongs_to_one_partition_in_any_representation(terms):
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    texts = [integer(term) if isinstance(term, int) else f"<a:{term}>" for term in terms]
    column = pa.array(texts)
    whole = find_partitions([column], 7)
    assert whole.tolist() == find_partitions([column.dictionary_encode()], 7).tolist()
    assert whole.tolist() == find_partitions([pa.array(texts, pa.large_string())], 7).tolist()
    for place, term in enumerate(terms):
        assert find_partitions([column.slice(place, 1)], 7)[0] == whole[place]
        if isinstance(term, int):
            assert find_partitions([pa.array([term])], 7)[0] == whole[place]


@pytest.mark.parametrize("partitions", [2, 3, 5])
@pytest.mark.parametrize("head", ["?a ?b ?c ?d", "?a ?d", "?b"])
def test_replicated_events_reach_every_partition(partitions, head):
    pattern = Pattern((("?a", P, "?b"), ("?b", Q, "?c"), ("?c", R, "?d")), tuple(head.split()))
    random = np.random.default_rng(7)
    events = [
        ("+", EX(random.integers(5)), (P, Q, R)[n % 3], EX(random.integers(5))) for n in range(60)
    ]
    layout = lay_out({"path": parse(pattern.text)}, partitions)
    assert [bool(route.positions) for route in layout.routes].count(False) == 1
    check({"path": pattern}, events, layout, "multigraph")


def test_changes_that_are_wanted_come_in_small_cells(monkeypatch):
    monkeypatch.setattr(partition_module, "OUTPUT_ROWS", 3)
    pattern = Pattern((("?x", P, "?y"), ("?x", Q, "?z")), ("?x", "?y", "?z"))
    events = draw_star(0.1)
    layout = lay_out({"star": parse(pattern.text)}, 1)
    sources = {"star": QuerySource(pattern.text, "star", None, (), None, {}).write()}
    job = Job("one", layout, (0,), sources, "multigraph", None, EventTime(), None, False)
    ((_, rows),) = split_table(make_table(events), layout)
    halves = [rows.slice(0, 200), rows.slice(200)]
    partition = Partition(job, 0)
    try:
        (first, _), (second, _) = (
            partition.take([EncodedBatch(0, 0, EVENTS, write_stream(half))], None)
            for partition.job, half in zip(
                [job, job._replace(wanted=("star",))], halves, strict=True
            )
        )
    finally:
        partition.close()
    assert not first
    cells = [pa.ipc.open_stream(out.payload).read_all() for out in second]
    assert max(cell.num_rows for cell in cells) == 3
    found = {tuple(row.values())[1:-1]: row["change"] for cell in cells for row in cell.to_pylist()}
    wanted = Counter(oracle.answers(pattern.text, events))
    wanted.subtract(oracle.answers(pattern.text, events[:200]))
    assert found == {row: count for row, count in wanted.items() if count}


@given(sizes=st.lists(st.integers(0, 8)))
def test_small_cells_are_sent_together(sizes):
    outs = [
        partition_module.Output("changes", str(number), bytes(size))
        for number, size in enumerate(sizes)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processor, "FRAME_BYTES", 5)
        frames = list(processor.pack(outs))
    assert [out for frame in frames for out in frame] == outs
    held = [sum(len(out.payload) for out in frame) for frame in frames]
    assert all(size <= 5 or len(frame) == 1 for size, frame in zip(held, frames, strict=True))
    # No frame had room for the first cell of the next.
    assert all(
        size + len(then[0].payload) > 5 for size, then in zip(held, frames[1:], strict=False)
    )


def test_engines_of_partitions_that_moved_away_are_closed(monkeypatch):
    """Engines of the last batch stay, however many; older ones cannot be reused."""
    closed = []

    class Closing:
        def __init__(self, name):
            self.close = lambda: closed.append(name)

    def put(identity, number, batch):
        name = f"{identity} {number}"
        cache[identity, number] = processor.Cached("", batch, Closing(name))  # type: ignore[arg-type]

    cache: dict = {}
    monkeypatch.setattr(processor, "_cache", cache)
    for number in range(20):
        put("ours", number, 7 if number % 2 else 6)
    for number in range(processor.MOST_OTHERS + 1):
        put("theirs", number, 0)
    processor.drop_stale("ours", 8)
    assert closed == [*(f"ours {n}" for n in range(0, 20, 2)), "theirs 0"]
    assert len(cache) == 10 + processor.MOST_OTHERS


@pytest.mark.parametrize("is_split", [False, True])
def test_partitions_count_a_hot_key_once(is_split):
    """Whether one partition has it, or all have copies, the counts add up to its events."""
    text = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?x {Q} ?z }}"
    asked = {"star": parse(text), "again": parse(text)}
    table = make_table(draw_star(0.5))
    layout = lay_out(asked, 4, sample_statistics(table) if is_split else None)
    assert any(route.hot for route in layout.routes) == is_split
    collector = StatisticsCollector()
    keys = [key for _, rows in split_table(table, layout) for key in count_keys(rows, layout)]
    collector.add({P: 200, Q: 200}, keys)
    found, exact = collector.summarize(), sample_statistics(table)
    assert found is not None
    for stream, (first, *_) in found.keys.items():
        assert first == exact.keys[stream][0]
    hot = [
        (placement.name, key.terms, reported)
        for placement, key, reported in collector.list_hot(layout, asked)
    ]
    assert hot == [(name, (EX(0),), is_split) for name in asked]


def test_statistics_are_read_back(tmp_path):
    collector = StatisticsCollector()
    collector.add({P: 8, Q: 2}, [KeyCount(P, (0,), (EX(0),), 6)])
    collector.write(tmp_path)
    assert StatisticsCollector.read(tmp_path).summarize() == collector.summarize()
    (tmp_path / FILE).write_text('[{"a": 1}, [[]]]')
    assert StatisticsCollector.read(tmp_path).summarize() is None


@pytest.mark.parametrize("stray", [0, 2 * 10**12])
def test_a_bad_time_in_the_first_batch_costs_itself_only(stray):
    """In any partition, and anywhere in the batch: it does not set the stream's bounds."""
    text = f"SELECT ?x ?y {{ ?x {P} ?y }}"
    layout = lay_out({"pairs": parse(text)}, 2)
    sources = {"pairs": QuerySource(text, "pairs", None, (), None, {}).write()}
    window = Window("10s", "1s")
    job = Job("strays", layout, (0, 1), sources, "multigraph", window, EventTime(), None, True)
    now = 1_714_557_600_000
    times = [stray, *range(now, now + 20)]
    names = ["time", "subject", "predicate", "object"]
    rows = [times, [EX(f"s{n}") for n in range(21)], [P] * 21, [EX("o")] * 21]
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in rows], names)
    route = make_router({name: name for name in names}, job)
    sent = [row for made in route(iter([batch])) for row in made.to_pylist()]
    reported: Counter = Counter()
    found: set = set()
    for number in range(2):
        partition = Partition(job, number)
        try:
            encoded = [
                EncodedBatch(*list(row.values())[1:]) for row in sent if row["slot"] == number
            ]
            _, newest = partition.take(encoded, None)
            reported.update(
                {name: partition.report[name] for name in ("ahead", "quarantined", "late")}
            )
            partition.engine.advance(now + 1_000)
            found |= {
                tuple(row.values())[:1]
                for out in partition.read("pairs")
                for row in out.to_pylist()
            }
        finally:
            partition.close()
        assert newest == now + 19
    assert reported == {"ahead": 1, "quarantined": 1, "late": 0}
    assert found == {(EX(f"s{n}"),) for n in range(1, 21)}
