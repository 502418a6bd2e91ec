"""Every workload: its stream, whatever the batches, and its queries."""

from __future__ import annotations

from functools import cache
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import triegs
from triegs import workloads
from triegs.compiler import compile_query
from triegs.sparql import parse
from triegs.workloads import TimedWorkload

every_workload = pytest.mark.parametrize("name", workloads.names())
COLUMNS = ["time", "op", "subject", "predicate", "object", "id"]


def read(workload: TimedWorkload, size: int, **options: object) -> pa.Table:
    batches = list(workload.events(size, **options))  # type: ignore[arg-type]
    return pa.Table.from_batches(batches).combine_chunks()


@cache
def read_ordered(name: str) -> pa.Table:
    """The stream that tests of disorder compare with."""
    return read(workloads.get(name), 30_000)


@every_workload
def test_columns(name: str) -> None:
    schema = next(workloads.get(name).events(10)).schema
    assert schema.names == COLUMNS
    text = pa.string()
    kinds = [pa.int64(), pa.int8(), text, pa.dictionary(pa.int32(), text), text, pa.int64()]
    assert schema.types == kinds


@every_workload
@pytest.mark.parametrize("size", [0, 1, 999, 1000, 70_001])
def test_sizes_are_exact(name: str, size: int) -> None:
    sizes = [batch.num_rows for batch in workloads.get(name).events(size, batch_size=1000)]
    assert sum(sizes) == size
    assert all(count == 1000 for count in sizes[:-1])
    assert all(sizes)


@every_workload
def test_a_smaller_stream_is_the_start_of_a_larger(name: str) -> None:
    workload = workloads.get(name)
    assert read(workload, 500).equals(read(workload, 40_000).slice(0, 500).combine_chunks())


@every_workload
def test_the_seed_decides(name: str) -> None:
    workload = workloads.get(name)
    assert read(workload, 3000, seed=5).equals(read(workload, 3000, seed=5))
    other = read(workload, 3000, seed=6)
    assert not read(workload, 3000, seed=5).equals(other)


@settings(max_examples=6, deadline=None)
@given(
    name=st.sampled_from(["social", "replies-zipf", "path3"]),
    length=st.integers(1, 50_000),
    bound=st.sampled_from([0, 3, 500, 60_000]),
    inserts_only=st.booleans(),
)
def test_batches_do_not_matter(name: str, length: int, bound: int, inserts_only: bool) -> None:
    workload = workloads.get(name)
    length = max(length, 50)  # fewer would only be slow
    options = {"disorder": bound, "inserts_only": inserts_only}
    cut = read(workload, 45_000, batch_size=length, **options)
    assert cut.equals(read(workload, 45_000, **options))


@every_workload
@pytest.mark.parametrize("bound", [2, 250, 100_000])
def test_disorder_is_bounded_and_loses_nothing(name: str, bound: int) -> None:
    ordered = read_ordered(name)
    times = ordered["time"].to_numpy()
    assert (np.diff(times) >= 0).all()
    mixed = read(workloads.get(name), ordered.num_rows, disorder=bound)
    arrived = mixed["time"].to_numpy()
    lateness = np.maximum.accumulate(arrived) - arrived
    assert lateness.max() <= bound
    assert lateness.max() > 0
    # Events that arrive in time are all there: the two streams differ only near the end.
    settled = times[-1] - bound
    first = list_keys(mixed)[arrived < settled]
    assert len(first) == len(np.unique(first))
    assert np.isin(first, list_keys(ordered)).all()
    assert len(first) == np.count_nonzero(times < settled)


def list_keys(table: pa.Table) -> npt.NDArray[np.int64]:
    """A number for each event, of its id and its sign."""
    found: npt.NDArray[np.int64] = 3 * table["id"].to_numpy() + table["op"].to_numpy()
    return found


@every_workload
def test_ids_are_unique_among_inserts(name: str) -> None:
    table = read(workloads.get(name), 50_000)
    ids = table["id"].to_numpy()[table["op"].to_numpy() == 1]
    assert len(np.unique(ids)) == len(ids)


def test_inserts_only_leaves_the_rest_as_it_is() -> None:
    workload = workloads.get("social")
    whole = read(workload, 20_000)
    inserts = whole.filter(pa.array(whole["op"].to_numpy() == 1)).combine_chunks()
    assert inserts.num_rows < 20_000
    assert read(workload, inserts.num_rows, inserts_only=True).equals(inserts)


@every_workload
def test_deletes_are_announced(name: str) -> None:
    workload = workloads.get(name)
    assert workload.has_deletes == bool((read(workload, 20_000)["op"].to_numpy() < 0).any())


@every_workload
def test_queries_compile_to_the_class_they_are_said_to_have(name: str) -> None:
    workload = workloads.get(name)
    assert list(workload.queries) == [query.name for query in workload.asked]
    for query in workload.asked:
        assert compile_query(parse(query.text)).plan_class.value == query.plan_class, query.name
        assert compile_query(parse(query.file_text)).plan_class.value == query.plan_class


def test_the_eleven_queries() -> None:
    queries = {query.name: query for query in workloads.get("social").asked}
    assert len(queries) == 11
    cyclic = {name for name, query in queries.items() if query.plan_class == "cyclic"}
    assert cyclic == {"triangle", "clique", "rectangle", "diamond", "dumbbell"}
    assert {(query.width, query.slide) for query in queries.values()} == {("10s", "5s")}


def answer(workload: TimedWorkload, text: str, size: int) -> tuple[int, int]:
    """Distinct answers and their total over the whole stream, with static data, on the engine."""
    with triegs.Engine() as engine:
        standing = engine.register(text)
        if workload.static:
            static = workload.static_table()
            engine.apply(static)
        for batch in workload.events(size):
            report = engine.apply(pa.table(batch.select(["op", *COLUMNS[2:5]])))
            assert not report.refused
        with standing.snapshot() as snapshot:
            return snapshot.support(), snapshot.count()


def test_the_person_name_pair_has_the_answers_of_the_report() -> None:
    workload = workloads.get("person-names")
    assert answer(workload, workload.queries["person-names"], 3056) == (1528, 1528)


def test_sized_replies_have_as_many_answers_as_said() -> None:
    workload = workloads.get("replies-sized")
    assert answer(workload, workload.queries["post-comment"], 7000) == (3000, 3000)
    assert answer(workload, workload.queries["comments-of-post"], 7000) == (1000, 3000)


def test_queries_have_answers() -> None:
    for name in ("social", "replies-hotspot", "replies-zipf"):
        workload = workloads.get(name)
        for query in workload.asked:
            assert answer(workload, query.text, 4000)[0] > 10, (name, query.name)


@pytest.mark.parametrize(("name", "least"), [("replies-hotspot", 0.7), ("replies-zipf", 0.02)])
def test_skew_of_replies(name: str, least: float) -> None:
    """The share of the most answered post among the comments of 64 posts in a row."""
    table = read(workloads.get(name), 64 * 7 * 20)
    replies = table.filter(
        pa.array([p.endswith("replyOf>") for p in table["predicate"].to_pylist()])
    )
    shares = []
    for start in range(64 * 3 * 4, replies.num_rows, 64 * 3):
        _, counts = np.unique(replies["object"].slice(start, 64 * 3).to_numpy(), return_counts=True)
        shares.append(counts.max() / counts.sum())
    assert min(shares) > least
    even = read(workloads.get("replies-sized"), 64 * 7)
    assert max(np.unique(even["object"].to_numpy(), return_counts=True)[1]) < 64


@pytest.mark.parametrize("name", ["path3", "reply"])
def test_block_workloads_hold_the_same_window_at_the_end_of_a_slide(name: str) -> None:
    """Edge i at time i from 1 on: the window of the block workload is that of the times."""
    workload = workloads.get(name)
    block = getattr(workloads, name)(seed=3)
    assert workload.asked[0][4:] == ("30s", "1s")
    table = read(workload, block.window + 3 * block.slide, seed=3, integers=True)
    assert table["time"].to_pylist() == list(range(1, table.num_rows + 1))
    window: list[tuple[str, int, int]] = []
    for slide in islice(block.slides(), 4):
        edges = slide.table.to_pylist()
        window = window[sum(edge["op"] < 0 for edge in edges) :]
        window += [
            (edge["predicate"], edge["subject"], edge["object"]) for edge in edges if edge["op"] > 0
        ]
        end = block.window + slide.number * block.slide
        held = table.slice(end - block.window, block.window)
        columns = (held[column].to_pylist() for column in ("predicate", "subject", "object"))
        assert list(zip(*columns, strict=True)) == window


def test_integers_and_iris_are_the_same_nodes() -> None:
    workload = workloads.get("star5")
    numbers = read(workload, 2000, integers=True)["object"].to_pylist()
    assert read(workload, 2000)["object"].to_pylist() == [f"<http://ex/n{n}>" for n in numbers]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": -1}, "must not be negative"),
        ({"seed": -1}, "seed"),
        ({"batch_size": 0}, "at least one event"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"disorder": -5}, "time in ms"),
        ({"integers": True}, "several kinds"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workloads.get("social").events(**({"size": 10} | options))  # type: ignore[arg-type]


def test_an_unknown_workload_error_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no workload 'nothing'; there are social, person-names"):
        workloads.get("nothing")


def test_start() -> None:
    for first, second in pairwise([read(workloads.get("social"), 100, start=s) for s in (0, 500)]):
        moved = second["time"].to_numpy() - first["time"].to_numpy()
        assert (moved == 500).all()
