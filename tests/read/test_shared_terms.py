"""Columns of large results share one array of terms: right now, later, and for every reader."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine
from triegs.terms import decoder
from triegs.terms.dictionary import Dictionary
from triegs.testing import oracle

P, Q = "<http://ex/p>", "<http://ex/q>"
IRI = "<http://ex/{}>".format
PATH = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?y {Q} ?z }}"
TERMS = pa.dictionary(pa.int32(), pa.string())


@pytest.fixture
def share_all(monkeypatch):
    """Every result shares the array, of whatever size."""
    monkeypatch.setattr(decoder, "LEAST_SHARED", 0)
    monkeypatch.setattr(decoder, "ROWS_PER_ID", 0)


@pytest.fixture
def share_some(monkeypatch):
    """Only the least number of rows is lower."""
    monkeypatch.setattr(decoder, "LEAST_SHARED", 8)


def list_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    table.validate(full=True)
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, count in zip(*table.to_pydict().values(), strict=True):
        assert tuple(row) not in found
        found[tuple(row)] = count
    return found


def is_shared(table: pa.Table) -> bool:
    columns = [column for column in table.columns if column.type == TERMS]
    found = {chunk.dictionary.buffers()[2].address for each in columns for chunk in each.chunks}
    return len(found) == 1 and len(columns) > 1


def fill(engine: Engine, count: int) -> Any:
    """All pairs of two small sets."""
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}")
    nodes = [IRI(n) for n in range(count)]
    engine.apply([("+", x, P, y) for x in nodes for y in nodes])
    return query


def node(number: int) -> object:
    """A term of each kind."""
    kinds = [
        IRI(number), number, f'"é{number}"@en', f"_:b{number}", f'"{number}"', number + 0.5,
        Decimal(number) / 4, date(2024, 1, 1 + number % 28), f'"x{number}"^^<http://ex/t>',
    ]  # fmt: skip
    return kinds[number % len(kinds)]


EDGES = st.tuples(
    st.sampled_from("++-"), st.integers(0, 40), st.sampled_from([P, Q]), st.integers(0, 40)
)


@pytest.fixture
def free_at_once(monkeypatch):
    """Terms are freed after each epoch instead of many at a time, so that ids are reused soon."""
    real = Dictionary.collect
    monkeypatch.setattr(Dictionary, "is_due", lambda self, at_least: True)
    monkeypatch.setattr(
        Dictionary, "collect", lambda self, horizon, pins=(), at_least=1: real(self, horizon, pins)
    )


@pytest.mark.usefixtures("share_all", "free_at_once")
@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@given(
    epochs=st.lists(st.lists(EDGES, max_size=12), max_size=8),
    held=st.sets(st.integers(0, 7)),
    form=st.sampled_from(["ntriples", "python", "plain"]),
)
def test_tables_are_right_and_stay_so(mode, epochs, held, form) -> None:
    """Against the oracle, while ids are freed and reused: of held epochs, too, and to the end."""
    engine = Engine(mode)
    query, question = engine.register(PATH), oracle.read_query(PATH)
    counts: Counter[oracle.Triple] = Counter()
    snapshots, tables = [], []
    for number, epoch in enumerate(epochs):
        batch = [(sign, node(s), p, node(o)) for sign, s, p, o in epoch]
        engine.apply(batch)
        written = [(sign, *map(spell, triple)) for sign, *triple in batch]
        oracle.apply_batch(counts, written)
        expected = oracle.answers(question, counts, mode)
        with query.snapshot() as snapshot:
            table = snapshot.to_arrow()
            assert table.schema.types[:-1] == [TERMS] * 3
            tables.append((table, expected))
            values = Counter({tuple(row): row.multiplicity for row in snapshot.answers(form)})
            if form == "ntriples":
                assert list_rows(snapshot.to_arrow(form)) == values
        if number in held:
            snapshots.append((query.snapshot(), expected))
        tables += [(snapshot.to_arrow(), expected) for snapshot, expected in snapshots]
    engine.close()
    for table, expected in tables:
        assert list_rows(table) == expected
        for column in table.columns[:-1]:
            for chunk in column.chunks:
                assert len(chunk.dictionary.unique()) == len(chunk.dictionary)


def spell(term: object) -> str:
    words = Dictionary()
    return str(words.decode_one(words.encode_one(term)))


@pytest.mark.usefixtures("share_all", "free_at_once")
def test_changes_and_groups() -> None:
    engine = Engine()
    grouped = f"SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) {{ ?x {P} ?y }} GROUP BY ?x"
    query, groups = engine.register(f"SELECT ?x ?y ?u {{ ?x {P} ?y }}"), engine.register(grouped)
    before, live = query.snapshot(), Counter[tuple[int, int]]()
    kept: list[tuple[pa.Table, dict[tuple[str | None, ...], int]]] = []
    for epoch in range(12):
        added = {(100 * epoch + n % 7, n) for n in range(20)}
        gone = set(live) if epoch % 3 == 2 else set(list(live)[:5])
        engine.apply(
            [("-", IRI(x), P, y) for x, y in gone] + [("+", IRI(x), P, y) for x, y in added]
        )
        after = query.snapshot()
        changes = after.diff(before).to_arrow()
        expected: dict[tuple[str | None, ...], int]
        expected = {(IRI(x), spell(y), None): -1 for x, y in gone}
        expected |= {(IRI(x), spell(y), None): 1 for x, y in added}
        kept.append((changes, expected))
        for pair in gone:
            del live[pair]
        live.update(added)
        with groups.snapshot() as snapshot:
            sums: dict[str, list[int]] = {}
            for x, y in live:
                sums.setdefault(IRI(x), []).append(y)
            rows: dict[tuple[str | None, ...], int]
            rows = {(x, spell(len(some)), spell(sum(some))): 1 for x, some in sums.items()}
            kept.append((snapshot.to_arrow(), rows))
        before.close()
        before = after
    before.close()
    engine.close()
    for table, expected in kept:
        assert list_rows(table) == expected


@pytest.mark.usefixtures("share_some")
def test_the_rule() -> None:
    """Four rows for each id; else each column has exactly its terms."""
    with Engine() as engine:
        query = fill(engine, 12)
        with query.snapshot() as snapshot:
            large, own = snapshot.to_arrow(), snapshot.to_arrow(compact=True)
            batches = list(snapshot.batches(100))
            small = list(snapshot.batches(7))
            assert is_shared(large)
            assert is_shared(pa.Table.from_batches(batches))
            for table in (own, pa.Table.from_batches(small)):
                assert not is_shared(table)
            assert large.schema == own.schema == small[0].schema
            assert list_rows(large) == list_rows(own) == list_rows(pa.Table.from_batches(small))
            assert len(own.column(0).chunk(0).dictionary) == 12
        engine.apply([("+", IRI(f"other{n}"), Q, n) for n in range(100)])
        with query.snapshot() as snapshot:
            assert not is_shared(snapshot.to_arrow())
            assert snapshot.to_arrow() == own


@pytest.mark.usefixtures("share_some")
def test_no_dictionary_is_made_per_read() -> None:
    with Engine() as engine:
        query = fill(engine, 12)
        with query.snapshot() as one, query.snapshot() as two:
            tables = [one.to_arrow(), two.to_arrow(), pa.Table.from_batches(two.batches())]
            engine.apply([("+", IRI(n), P, IRI("fresh")) for n in range(12)])
            with query.snapshot() as three:
                tables.append(three.to_arrow())
        chunks = [chunk for table in tables for each in table.columns[:2] for chunk in each.chunks]
        assert len({chunk.dictionary.buffers()[2].address for chunk in chunks}) == 1
        assert engine.metrics()["terms"]["array_bytes"] > 0


@pytest.mark.usefixtures("share_some")
def test_other_libraries() -> None:
    """A shared dictionary is read like any other, and has no terms that only files would show."""
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    with Engine() as engine:
        query = fill(engine, 20)
        gone = [("-", IRI(n), P, IRI(m)) for n in range(20) for m in range(20) if 3 in (n, m)]
        engine.apply([*gone, ("+", IRI("other"), Q, IRI("other"))])
        engine.apply([("+", IRI(f"f{n}"), Q, IRI(f"f{n}")) for n in range(300)])
        engine.apply([("-", IRI(f"f{n}"), Q, IRI(f"f{n}")) for n in range(300)])
        for _ in range(3):
            engine.apply([])
        pairs = {(IRI(n), IRI(m)) for n in range(20) for m in range(20) if 3 not in (n, m)}
        with query.snapshot() as snapshot:
            frame, table = snapshot.to_pandas(), decode_shared(snapshot)
            assert set(zip(frame.x, frame.y, strict=True)) == pairs
            assert len(frame.x.cat.categories) == 19
            assert set(snapshot.to_polars().select("x", "y").rows()) == pairs
        assert is_shared(table)
        assert len(table.to_pandas().x.cat.categories) > 19
        assert set(polars.DataFrame(table).select("x", "y").rows()) == pairs
        assert set(duckdb.from_arrow(table).project("x, y").fetchall()) == pairs
        for written in (write_stream(table), write_file(table), write_parquet(table)):
            assert list_rows(written) == list_rows(table)
        assert list_rows(table.combine_chunks()) == list_rows(table)
        assert list_rows(pa.concat_tables([table, table.slice(0, 0)])) == list_rows(table)


def decode_shared(snapshot: Any) -> pa.Table:
    """Shared, whatever the number of holes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "ROWS_PER_ID", 0)
        return snapshot.to_arrow()


def write_stream(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def write_file(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


def write_parquet(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


@pytest.mark.usefixtures("share_all", "free_at_once")
def test_a_reader_beside_the_updater() -> None:
    """Each epoch replaces half of the nodes; a table has whole epochs only, then and later."""
    engine = Engine()
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}")
    done = Event()

    def pairs(epoch: int) -> set[tuple[str, str]]:
        some = [*range(40 * epoch, 40 * epoch + 40), *range(40)]
        return {(IRI(f"{n}{'é' * (n % 9)}"), IRI(n)) for n in some}

    def update() -> None:
        try:
            before: set[tuple[str, str]] = set()
            for epoch in range(1, 120):
                now = pairs(epoch)
                engine.apply([("-", x, P, y) for x, y in before - now]
                             + [("+", x, P, y) for x, y in now - before])  # fmt: skip
                before = now
        finally:
            done.set()

    def read() -> int:
        kept: list[tuple[int, pa.Table]] = []
        while not done.is_set() or not kept:
            with query.snapshot() as snapshot:
                kept.append((snapshot.epoch, snapshot.to_arrow()))
        for epoch, table in kept:
            assert set(list_rows(table)) == (pairs(epoch - 1) if epoch > 1 else set())
        return len(kept)

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        pool.submit(update).result()
        assert all(reader.result() for reader in readers)
    engine.close()
