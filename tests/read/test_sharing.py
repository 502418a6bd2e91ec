"""Other processes read snapshots from the engine's memory, while it changes."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import methodcaller
from random import Random
from typing import Any

import pytest
from tests.read.reading_processes import (
    Process,
    Rows,
    close_opened,
    count_rows,
    make_engine,
    open_handle,
    read_again,
    read_changes,
    read_forms,
    read_opened,
    share_opened,
    start_process,
)
from tests.read.sharing import (
    PAIRS,
    PATHS,
    P,
    Q,
    Triple,
    is_released,
    make_shared,
    replace_all,
    share,
    wait_until,
)

from triegs import (
    Engine,
    Lanes,
    MemoryLimitReached,
    Snapshot,
    SnapshotExpired,
    StateError,
    Text,
)
from triegs import shared_memory as memory
from triegs.shared_memory import find_mapping
from triegs.store.packed import SMALLEST_LIMIT, PackedStore

pytestmark = pytest.mark.skipif(not memory.IS_AVAILABLE, reason="needs memfd_create")


@pytest.fixture(scope="module")
def kept_process():
    with start_process() as process:
        yield process


@pytest.fixture
def process(kept_process: Process) -> Process:
    kept_process.ask(dict.clear)
    return kept_process


def draw_term(random: Random) -> Any:
    number = random.randrange(400)
    return random.choice(
        [number, -(10**12) * number, f"<http://ex/{number}>", Text(f"name {number}"),
         f'"{number}.5"^^<http://www.w3.org/2001/XMLSchema#decimal>', f'"w{number}"@en'],
    )  # fmt: skip


def join(live: Counter[Triple]) -> Rows:
    """The paths, from the definition."""
    found: Rows = Counter()
    for (x, p, y), first in live.items():
        for (z, q, w), second in live.items():
            if (p, q, y) == (P, Q, z):
                found[x, y, w] += first * second
    return found


def test_a_reader_sees_each_epoch_as_it_was(process):
    """Terms come and go, their ids are used again, and the arrays of terms grow and shrink."""
    random, live = Random(7), Counter[Triple]()
    expected: dict[str, Rows] = {}
    with Engine(shared_memory=True) as engine:
        query = engine.register(PATHS)
        for step in range(25):
            gone = random.sample(sorted(live, key=str), len(live) // 3)
            fresh = [
                (f"<http://ex/{random.randrange(400)}>", random.choice([P, Q]), draw_term(random))
                for _ in range(40)
            ]
            engine.apply([*(("-", *each) for each in gone), *(("+", *each) for each in fresh)])
            live.subtract(gone)
            live.update(fresh)
            live = +live
            if step % 10 == 4:
                burst = [(f"<http://ex/burst/{step}/{n}>", P, f"{n}") for n in range(3_000)]
                burst = [(x, p, f"<http://ex/much longer/{y}>") for x, p, y in burst]
                engine.apply([("+", *each) for each in burst])
                engine.apply([("-", *each) for each in burst])
            name = f"{step}"
            with share(query) as handle:
                assert process.ask(open_handle, handle, name) == engine.epoch
            with query.snapshot() as snapshot:
                expected[name] = count_rows(snapshot)
            assert expected[name] == Counter(
                {tuple(map(write, row)): count for row, count in join(live).items()}
            )
            for each in random.sample(sorted(expected), min(3, len(expected))):
                assert process.ask(read_opened, each) == expected[each], each
            while len(expected) > 6:
                name = random.choice(sorted(expected))
                process.ask(close_opened, name)
                del expected[name]
        for name, rows in expected.items():
            assert process.ask(read_opened, name) == rows
            process.ask(close_opened, name)
        assert is_released(engine)
        engine._store.check()
        engine._dictionary.check()


def write(term: Any) -> str:
    if isinstance(term, int):
        return f'"{term}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f'"{term}"' if isinstance(term, Text) else term


def test_a_reader_reads_while_the_updater_updates(process):
    engine, query = make_shared(rows=2_000)
    with share(query) as handle:
        process.ask(open_handle, handle)
    with query.snapshot() as snapshot:
        expected = count_rows(snapshot)
    process.tell(read_again, 30)
    while not process.has_answered():
        replace_all(engine, query, 1)
    assert process.hear() == [expected]
    process.ask(close_opened)
    assert is_released(engine)


def list_answers(snapshot: Snapshot, terms: Any) -> list[Any]:
    return list(snapshot.answers(terms))


def write_table(snapshot: Snapshot, terms: Any, **options: Any) -> Any:
    return snapshot.to_arrow(terms, **options).to_pylist()


def read_by_threads(snapshot: Snapshot) -> Any:
    return snapshot.read(workers=2, terms="python").to_pylist()


def read_batches(snapshot: Snapshot) -> list[int]:
    return [batch.num_rows for batch in snapshot.batches(rows=7, terms="ids")]


def read_positions(snapshot: Snapshot) -> list[Any]:
    chosen = [snapshot[1:30:3], snapshot.sample(5, seed=3), *snapshot.split(2)]
    return [list(snapshot[-1]), *(list(each.answers("python")) for each in chosen)]


def count_all(snapshot: Snapshot) -> tuple[int, ...]:
    return len(snapshot), snapshot.count(), snapshot.support()


def read_pandas(snapshot: Snapshot) -> Any:
    return snapshot.to_pandas("python").to_dict()


READS: dict[str, Callable[[Snapshot], Any]] = {
    "rows": list,
    "python": partial(list_answers, terms="python"),
    "ids": partial(list_answers, terms="ids"),
    "table": partial(write_table, terms="ntriples"),
    "native": partial(write_table, terms="python"),
    "table of ids": partial(write_table, terms="ids"),
    "compact": partial(write_table, terms="plain", compact=True),
    "runs": partial(write_table, terms="python", layout="factorised"),
    "threads": read_by_threads,
    "batches": read_batches,
    "positions": read_positions,
    "counts": count_all,
    "pandas": read_pandas,
    "sparql": methodcaller("to_sparql", "csv"),
    "repr": repr,
    "html": methodcaller("_repr_html_"),
}
VALUE = "<http://ex/value>"
GROUPS_BY_EXPRESSION = f"""
    SELECT ?k (AVG(?v) AS ?a) (MAX(?v) AS ?m) {{ ?x {P} ?y . ?x {VALUE} ?v }}
    GROUP BY (CONTAINS(STR(?y), "1") AS ?k) HAVING(COUNT(*) > 1) ORDER BY ?a
"""
TEXTS: dict[str, Any] = {
    "pairs": (PAIRS, ()),
    "kept": (PATHS, ("count", "slice")),
    "hidden": (f"SELECT ?x {{ ?x {P} ?y . ?y {Q} ?z }}", ()),
    "distinct": (f"SELECT DISTINCT ?y {{ ?x {P} ?y }}", ()),
    "filtered": (f"SELECT ?x ?z {{ ?x {P} ?y . ?y {Q} ?z FILTER(STR(?x) > STR(?z)) }}", ()),
    "ordered": (f"SELECT ?x ?v {{ ?x {VALUE} ?v }} ORDER BY DESC(?v) ?x LIMIT 9 OFFSET 2", ()),
    "groups": (f"SELECT ?x (SUM(?v) AS ?s) (COUNT(*) AS ?n) {{ ?x {VALUE} ?v }} GROUP BY ?x", ()),
    "computed": (GROUPS_BY_EXPRESSION, ()),
    "all": (f"SELECT (COUNT(*) AS ?n) {{ ?x {P} ?y }}", ()),
    "ask": (f"ASK {{ ?x {P} ?y . ?y {Q} ?z }}", ()),
    "product": (f"SELECT ?x ?z {{ ?x {P} ?y . ?z {Q} 7 }}", ()),
}  # fmt: skip


def test_every_form_of_reading_gives_what_it_gives_in_the_engines_process(process):
    random = Random(3)
    with Engine(shared_memory=True) as engine:
        queries = [engine.register(text, name, keep=keep) for name, (text, keep) in TEXTS.items()]
        updates: list[Any] = []
        for number in range(150):
            x, y = (f"<http://ex/{random.randrange(40)}>" for _ in range(2))
            updates += [("+", x, P, y), ("+", y, Q, random.choice([number, 7, Text("a")])),
                        ("+", x, VALUE, random.choice([number, 2.5, f"{number}.25"]))]  # fmt: skip
            updates[-1] = (*updates[-1][:3], number if number % 3 else Text(str(number)))
        engine.apply(updates)
        for query in queries:
            with query.snapshot() as snapshot, snapshot.share() as handle:
                found = process.ask(read_forms, handle, READS)
                for name, read in READS.items():
                    expected = read(snapshot)
                    if name in ("repr", "html"):
                        expected = expected.replace("<Snapshot", "<OpenedSnapshot")
                        expected = expected.replace(">Snapshot of", ">OpenedSnapshot of")
                    assert str(found[name]) == str(expected), (query.name, name)
        assert is_released(engine)


def test_changes_between_two_opened_snapshots(process):
    engine, query = make_shared(rows=5)
    first = share(query)
    engine.apply([("-", 1, P, "<http://ex/1>"), ("+", 9, P, Text("new"))])
    second = share(query)
    for name, handle in [("a", first), ("b", second)]:
        process.ask(open_handle, pickle.loads(pickle.dumps(handle)), name)
    with first.open() as before, second.open() as after:
        expected = list(after.diff(before).answers("python"))
    assert len(expected) == 2
    assert process.ask(read_changes, "a", "b") == expected
    assert len(process.ask(read_changes, "b", "a")) == 2


def test_the_owner_closes_early(process):
    engine, query = make_shared()
    handle = share(query)
    process.ask(open_handle, handle)
    expected = process.ask(read_opened)
    again = copy.copy(handle)
    handle.close()
    handle.close()
    [pin] = engine.metrics()["pins"]
    assert (pin["epoch"], pin["query"], pin["shared"]) == (2, query.name, "closed")
    replace_all(engine, query)
    for each in (handle, again):
        with pytest.raises(SnapshotExpired, match="is closed"):
            each.open()
        with pytest.raises(SnapshotExpired, match="cannot be opened: its handle is closed"):
            process.ask(open_handle, each, "second")
    assert process.ask(read_opened) == expected
    assert engine.metrics()["retained_bytes"] > 0
    process.ask(close_opened)
    assert is_released(engine)
    assert engine.metrics()["retained_bytes"] == 0
    with pytest.raises(SnapshotExpired, match="its handle is closed"):
        process.ask(open_handle, again)
    # The next one has the same file.
    with share(query) as other:
        assert other._ref == handle._ref
        with pytest.raises(SnapshotExpired, match="its handle is closed"):
            process.ask(open_handle, again)
        with pytest.raises(SnapshotExpired, match="is closed"):
            again.open()
        assert process.ask(open_handle, other) == engine.epoch
        process.ask(close_opened)


def test_a_killed_reader_pins_nothing():
    engine, query = make_shared()
    with start_process() as first, start_process() as second:
        with share(query) as handle:
            first.ask(open_handle, handle)
            second.ask(open_handle, handle)
        first.kill()
        assert not is_released(engine)
        replace_all(engine, query)
        assert len(second.ask(read_opened)) == 100
        second.signal(signal.SIGSTOP)
        second.kill()
        # Publishing notices it by itself.
        wait_until(lambda: engine.apply([]).epoch > 0 and not engine._store.held())
    assert is_released(engine)


def test_a_reader_outlives_the_process_of_the_engine(process):
    updates = [("+", number, P, f"<http://ex/{number}>") for number in range(50)]
    with start_process() as owner:
        handle = owner.ask(make_engine, updates, PAIRS)
        with handle.open() as snapshot:
            expected = count_rows(snapshot)
            process.ask(open_handle, handle)
            owner.kill()
            assert count_rows(snapshot) == expected
            assert len(expected) == 50
        assert process.ask(read_opened) == expected
        assert process.ask(read_again, 2) == [expected]
        for open_it in (handle.open, partial(process.ask, open_handle, handle, "late")):
            with pytest.raises(SnapshotExpired, match="its process has ended"):
                open_it()


def test_a_lease_ends_readers(process):
    engine, query = make_shared()
    handle = share(query, lease="300ms")
    assert engine.metrics()["pins"][0]["expires_s"] <= 0.3
    process.ask(open_handle, handle)
    assert len(process.ask(read_opened)) == 100
    # Nobody closes or reads anything; the reader does nothing.
    wait_until(lambda: is_released(engine))
    with pytest.raises(SnapshotExpired, match="the lease has expired"):
        process.ask(read_opened)
    with pytest.raises(SnapshotExpired):
        process.ask(open_handle, handle, "late")
    with pytest.raises(SnapshotExpired):
        handle.open()


def test_a_reader_that_is_stopped_keeps_its_pin_beyond_the_lease(process):
    engine, query = make_shared()
    with query.snapshot(lease="400ms") as snapshot:
        handle = snapshot.share()  # takes over the lease
    process.ask(open_handle, handle)
    process.signal(signal.SIGSTOP)
    wait_until(lambda: [pin["shared"] for pin in engine.metrics()["pins"]] == ["closed"])
    replace_all(engine, query)
    assert engine._store.held() != []
    process.signal(signal.SIGCONT)
    wait_until(lambda: is_released(engine))


def test_a_lease_admits_readers_after_its_handle_is_dropped(process):
    engine, query = make_shared()
    data = pickle.dumps(share(query, lease="1h"))
    gc.collect()
    process.ask(open_handle, pickle.loads(data))
    assert len(process.ask(read_opened)) == 100
    assert [pin["shared"] for pin in engine.metrics()["pins"]] == ["open"]


def test_a_dropped_handle_is_closed(process):
    engine, query = make_shared(debug=True)
    handle = share(query)
    assert "read/sharing.py:" in engine.metrics()["pins"][0]["taken"]
    data = pickle.dumps(handle)
    with pytest.warns(ResourceWarning, match="was not closed; it was shared at .*read/sharing"):
        del handle
    assert is_released(engine)
    with pytest.raises(SnapshotExpired):
        process.ask(open_handle, pickle.loads(data))


def fill(engine: Engine) -> list[Triple]:
    edges: list[Triple] = []
    with suppress(MemoryLimitReached):
        while True:
            batch = [(number, P, number) for number in range(len(edges), len(edges) + 500)]
            engine.apply([("+", *edge) for edge in batch])
            edges += batch
    return edges


def test_at_the_memory_limit_readers_are_named_and_then_released(process):
    engine = Engine(shared_memory=True, memory_limit=SMALLEST_LIMIT + 500_000)
    query = engine.register(PAIRS)
    edges = fill(engine)
    with share(query) as handle:
        process.ask(open_handle, handle)
    engine.apply([("-", *edge) for edge in edges])
    updates = [("+", -number, P, 1) for number in range(len(edges) // 2)]
    with pytest.raises(MemoryLimitReached, match=f"a shared snapshot of '{query.name}'"):
        engine.apply(updates)
    assert len(process.ask(read_opened)) == len(edges)
    process.ask(close_opened)
    engine.apply(updates)  # nothing else has looked
    assert is_released(engine)
    engine._store.check()


def test_memory_that_is_given_back_is_zero_and_free():
    store = PackedStore(shared_memory=True, memory_limit=20_000_000)
    numbers = store.create("numbers", 1)
    mapping = find_mapping(store.words)
    assert mapping is not None
    for each in range(0, 2**31, 2**16):
        numbers.set((each,), 1)
        if mapping.file.measure() > 8_000_000:
            break
    store.publish()
    before = mapping.file.measure()
    store.clear(numbers)
    numbers.set((1,), 1)
    store.publish()
    with store._memory:
        assert store._compact()
    assert mapping.file.measure() < before / 4
    assert not store.words[int(store.words[0]) + 70_000 :][:1_000_000].any()
    assert numbers.get((1,)) == 1
    store.check()


def test_in_the_process_of_the_engine():
    engine, query = make_shared(rows=3)
    with share(query) as handle:
        assert (handle.epoch, handle.time, handle.names) == (2, None, ("x", "y"))
        assert repr(handle) == "<SnapshotHandle of epoch 2: ?x ?y>"
        replace_all(engine, query)
        with handle.open() as first, pickle.loads(pickle.dumps(handle)).open() as second:
            assert count_rows(first) == count_rows(second)
            assert first.epoch == second.epoch == 2
            assert len(engine.metrics()["pins"]) == 3
            with first.share() as other:
                assert other.epoch == 2
    assert is_released(engine)


def test_lanes_share(process):
    with Lanes(2, shared_memory=True) as lanes:
        query = lanes.register(PAIRS)
        lanes.apply([("+", 1, P, Text("a"))])
        with query.snapshot() as snapshot, snapshot.share() as handle:
            process.ask(open_handle, handle)
            assert process.ask(read_opened) == count_rows(snapshot)


def test_bad_uses(process, monkeypatch):
    _engine, query = make_shared()
    with (
        Engine() as private,
        private.register(PAIRS).snapshot() as snapshot,
        pytest.raises(StateError, match=r"Engine\(shared_memory=True\)"),
    ):
        snapshot.share()
    with query.snapshot() as snapshot:
        with pytest.raises(StateError, match="share the whole snapshot"):
            snapshot[1:3].share()
        with pytest.raises(ValueError, match="duration"):
            snapshot.share(lease="soon")
    with pytest.raises(SnapshotExpired, match="is closed"):
        snapshot.share()
    with share(query) as handle:
        process.ask(open_handle, handle)
        with pytest.raises(StateError, match="pass on its handle"):
            process.ask(share_opened)
    with pytest.raises(StateError, match="make your own store with it"):
        Engine(store=PackedStore(), shared_memory=True)
    with pytest.raises(StateError, match="address space"):
        Engine(shared_memory=True, memory_limit=10**16)
    assert Engine(store=PackedStore(shared_memory=True)).epoch == 0
    monkeypatch.setattr(memory, "IS_AVAILABLE", False)
    with pytest.raises(StateError, match="leave out shared_memory"):
        Engine(shared_memory=True)
    with pytest.raises(StateError, match="needs Linux"):
        PackedStore(shared_memory=True)


def test_another_users_process(process, monkeypatch):
    engine, query = make_shared()

    def refuse(path: str) -> str:
        raise PermissionError(path)

    handle = share(query)
    ref = handle._ref._replace(process=process.number)
    with pytest.raises(SnapshotExpired):  # another file, or none
        memory.open_file(ref)
    monkeypatch.setattr(memory, "read_link", refuse)
    with pytest.raises(StateError, match="must run as the same user"):
        memory.open_file(ref)
    assert engine.epoch == 2
