"""What goes wrong, through the public engine: nothing is half done, and afterwards all goes on."""

from __future__ import annotations

import gc
from threading import Event, Thread

import pyarrow as pa
import pytest

from triegs.engine import Engine
from triegs.errors import (
    InvalidUpdate,
    MemoryLimitReached,
    MultiplicityOverflow,
    SnapshotExpired,
    StateError,
)

EX = "<http://ex/{}>".format
PREFIXES = {"": "http://ex/"}
LIMIT = 1_000_000


def triple(sign, subject, label, obj):
    return sign, EX(subject), EX(label), EX(obj)


def star(label, size, sign="+", hub="hub"):
    return [triple(sign, hub, label, f"{label}{i}") for i in range(size)]


def read(query):
    with query.snapshot() as snapshot:
        return {tuple(answer): answer.multiplicity for answer in snapshot}


def check(engine: Engine) -> None:
    engine._store.check()
    engine._dictionary.check()
    engine._core.views.check()


def make(**options):
    return Engine(prefixes=PREFIXES, **options)


# Counts that do not fit

#: A star of seven arms: with 1,000 each, a product of 10**21.
ARMS = " . ".join(f"?x :p ?y{i}" for i in range(7))


def test_a_count_that_overflows_stalls_its_query_until_it_fits():
    engine = make()
    hidden = engine.register(f"SELECT ?k {{ ?k :at ?x . {ARMS} }}", root="k", name="hidden")
    plain = engine.register("SELECT ?x { ?x :p ?y }")
    engine.apply([triple("+", "k", "at", "hub"), *star("p", 400)])
    good = engine.epoch
    assert read(hidden) == {(EX("k"),): 400**7}
    engine.apply(star("p", 1_000)[400:])
    assert isinstance(hidden.error, MultiplicityOverflow)
    assert engine.metrics()["stalled"] == ["hidden"]
    assert read(plain) == {(EX("hub"),): 1_000}
    with hidden.snapshot() as snapshot:
        assert snapshot.epoch == good < engine.epoch
        assert snapshot.count() == 400**7
    held = hidden.snapshot()
    engine.apply([triple("+", "k2", "at", "hub")])
    assert engine.metrics()["stalled"] == ["hidden"]
    engine.apply(star("p", 1_000, "-")[300:])
    assert engine.metrics()["stalled"] == []
    assert read(hidden) == {(EX("k"),): 300**7, (EX("k2"),): 300**7}
    assert held.count() == 400**7
    held.close()
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)


def test_a_query_whose_counts_do_not_fit_is_not_registered():
    engine = make()
    engine.apply(star("p", 1_000))
    epoch, entries = engine.epoch, engine.metrics()["entries"]
    for _ in range(3):
        with pytest.raises(MultiplicityOverflow):
            engine.register(f"ASK {{ {ARMS} }}")
        assert (engine.epoch, engine.metrics()["entries"]) == (epoch, entries)
        assert list(engine.queries) == []
    check(engine)
    assert len(read(engine.register("SELECT * { ?x :p ?y }"))) == 1_000


def test_an_answer_that_overflows_is_reported_when_read():
    """The product is the answer's own; no view keeps it, so nothing stalls."""
    engine = make()
    query = engine.register(f"SELECT ?x {{ {ARMS} }}")
    engine.apply([*star("p", 1_000), *star("p", 2, hub="small")])
    with query.snapshot() as snapshot, pytest.raises(MultiplicityOverflow):
        list(snapshot)
    engine.apply(star("p", 1_000, "-")[2:])
    assert read(query) == {(EX("hub"),): 2**7, (EX("small"),): 2**7}


def test_readers_follow_a_query_that_stalls_and_recovers():
    """Whoever takes a snapshot meanwhile gets a whole epoch: the last good one, or the newest."""
    engine = make()
    query = engine.register(f"SELECT ?k {{ ?k :at ?x . {ARMS} }}", root="k")
    engine.apply([triple("+", "k", "at", "hub"), *star("p", 500)])
    stop = Event()
    found: set = set()
    faults: list = []

    def look():
        try:
            while not stop.is_set():
                with query.snapshot() as snapshot:
                    first, second = snapshot.count(), snapshot.count()
                    found.add(first)
                    if first != second or first not in (500**7, 400**7):
                        faults.append((snapshot.epoch, first, second))
        except Exception as error:
            faults.append(error)

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    more, fewer = star("p", 1_000)[500:], star("p", 1_000, "-")[500:]
    some = star("p", 500)[400:]
    try:
        for _ in range(15):
            engine.apply(more)
            assert query.error is not None
            engine.apply([])
            engine.apply(fewer)
            assert query.error is None
            engine.apply([("-", *update[1:]) for update in some])
            engine.apply(some)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert 500**7 in found
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)


# Memory


def fill(engine, size=500, start=0):
    """Insert until there is no room; returns how many there are, and the batch that failed last."""
    number, failed = start, []
    while size:
        batch = [triple("+", f"s{i % 97}", "p", f"o{i}") for i in range(number, number + size)]
        epoch, held = engine.epoch, engine.metrics()
        try:
            engine.apply(batch)
            number += size
        except MemoryLimitReached:
            after = engine.metrics()
            assert engine.epoch == epoch
            assert all(after[k] == held[k] for k in ("entries", "live_bytes", "updates", "epochs"))
            size, failed = size // 2, batch
    return number, failed


def make_full():
    engine = make(memory_limit=LIMIT)
    query = engine.register("SELECT * { ?x :p ?y }")
    other = engine.register("SELECT ?x ?z { ?x :p ?y . ?x :q ?z }")
    number, failed = fill(engine)
    check(engine)
    return engine, query, other, number, failed


def test_an_epoch_without_room_changes_nothing_and_succeeds_once_there_is_room():
    engine, query, other, number, failed = make_full()
    before = read(query)
    assert len(before) == number > 1_000
    with pytest.raises(MemoryLimitReached, match="1,000,000"):
        engine.apply([triple("+", f"n{i}", "p", "o") for i in range(5_000)])
    assert read(query) == before
    other.close()
    engine.apply(failed)
    assert len(read(query)) == number + len(failed)
    check(engine)


def test_deleting_makes_room():
    engine, query, _, number, failed = make_full()
    gone = [triple("-", f"s{i % 97}", "p", f"o{i}") for i in range(number) if i % 97 < 4]
    for update in gone:  # one by one: each takes little room itself
        assert engine.apply([update]).refused == ()
    engine.apply(failed)
    assert len(read(query)) == number - len(gone) + len(failed)
    check(engine)


def test_closing_snapshots_makes_room():
    engine = make(memory_limit=LIMIT)
    query = engine.register("SELECT * { ?x :p ?y }")
    batch = [triple("+", f"s{i % 500}", "p", f"o{i}") for i in range(1_000)]
    engine.apply(batch)
    held = [(query.snapshot(), 1_000)]
    is_full = False
    while not is_full:
        try:
            engine.apply(batch)
            held.append((query.snapshot(), held[-1][1] + 1_000))
        except MemoryLimitReached:
            is_full = True
    total = held[-1][1]
    assert len(held) > 3
    for snapshot, expected in held:
        assert snapshot.count() == expected
    for snapshot, _ in held:
        snapshot.close()
    engine.apply(batch)
    with query.snapshot() as snapshot:
        assert snapshot.count() == total + 1_000
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)


@pytest.mark.parametrize("text", ["SELECT * { ?y :p ?x . ?x :p ?z }", "SELECT * { ?x ?p ?y }"])
def test_a_query_that_finds_no_room_is_not_registered(text):
    engine, query, other, number, _ = make_full()
    epoch, found = engine.epoch, engine.metrics()
    terms = found["terms"]["live"]
    for _ in range(2):
        with pytest.raises(MemoryLimitReached):
            engine.register(text)
        assert engine.epoch == epoch
        assert engine.metrics()["entries"] == found["entries"]
        assert engine.metrics()["terms"]["live"] == terms
        assert len(engine.queries) == 2
        check(engine)
    assert len(read(query)) == number
    for each in (query, other):
        each.close()
    gone = [triple("-", f"s{i % 97}", "p", f"o{i}") for i in range(50, number)]
    for update in gone[:1_000]:  # small epochs first, which need little room
        engine.apply([update])
    for start in range(1_000, len(gone), 50):
        engine.apply(gone[start : start + 50])
    late = engine.register(text)
    assert len(read(late)) == (50 if "?p" in text.replace(":p", "") else 0)
    check(engine)


def test_every_query_can_be_closed_when_memory_is_full():
    engine, query, other, number, _ = make_full()
    held = query.snapshot()
    query.close()
    other.close()
    check(engine)
    assert held.support() == number
    held.close()
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)
    assert engine.metrics()["terms"]["live"] > 0
    assert engine.apply([triple("-", "s0", "p", "o0")]).refused == ()


def test_memory_returns_when_a_reader_is_abandoned():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    engine.apply([triple("+", f"s{i}", "p", "o") for i in range(500)])
    snapshot = query.snapshot()
    rows, batches = iter(snapshot), snapshot.batches(10)
    next(rows), next(batches)
    engine.apply([triple("-", f"s{i}", "p", "o") for i in range(500)])
    assert engine.metrics()["retained_bytes"] > 0
    del rows, batches
    assert engine.metrics()["retained_bytes"] > 0
    del snapshot
    gc.collect()
    assert engine.metrics()["retained_bytes"] == 0
    assert engine.metrics()["pins"] == []
    engine.apply([])
    assert engine.metrics()["terms"]["held"] == 0


def test_reading_after_closing_is_refused_also_in_the_middle():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    engine.apply([triple("+", f"s{i}", "p", "o") for i in range(500)])
    snapshot = query.snapshot()
    rows, batches, stream = iter(snapshot), snapshot.batches(10), pa.table(snapshot)
    next(rows), next(batches)
    snapshot.close()
    for use in (lambda: next(rows), lambda: next(batches), snapshot.count, snapshot.support,
                snapshot.to_arrow, lambda: list(snapshot), lambda: len(snapshot)):  # fmt: skip
        with pytest.raises((SnapshotExpired, pa.ArrowException)):
            use()
    assert stream.num_rows == 500


def test_a_million_terms_come_and_go_in_bounded_memory():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    size, most, most_terms = 20_000, 0, 0
    for number in range(25):
        names = [EX(f"n{number}_{i}") for i in range(2 * size)]
        columns = {"subject": names[:size], "predicate": [EX("p")] * size, "object": names[size:]}
        engine.apply(pa.table(columns))
        with query.snapshot() as snapshot:
            assert snapshot.support() == size
        engine.apply(pa.table({"op": ["-"] * size, **columns}))
        found = engine.metrics()
        assert found["live_bytes"] == 0
        assert found["terms"]["live"] == 1
        if number == 2:
            most, most_terms = found["debt_bytes"], found["terms"]["bytes"]
        elif number > 2:
            assert found["debt_bytes"] <= 1.2 * most
            assert found["terms"]["bytes"] <= 1.2 * most_terms
    check(engine)


# Updates of the wrong kind


@pytest.mark.parametrize(
    "updates", [None, 5, {"a": 1}, "+abc", b"+abc", {1, 2}, [None], ["+abc"], [5]]
)
def test_what_is_no_batch_changes_nothing(updates):
    engine = make()
    query = engine.register("SELECT * { ?x ?p ?y }")
    engine.apply(star("p", 3))
    before, terms = read(query), engine.metrics()["terms"]["live"]
    try:
        report = engine.apply(updates)
    except (InvalidUpdate, TypeError):
        assert not isinstance(updates, list)
    else:  # things that are no updates: each is refused by its place
        assert {place for place, _ in report.refused} == set(range(len(updates)))
    assert read(query) == before
    assert engine.metrics()["terms"]["live"] == terms
    engine.apply(star("q", 2))
    assert len(read(query)) == 5
    check(engine)


BAD = [
    (), ("+",), ("+", 1, 2), ("+", 1, 2, 3, 4, 5), ("+", None, EX("p"), 1),
    ("+", b"<http://ex/a>", EX("p"), 1), ("+", object(), EX("p"), 1), ("+", [], EX("p"), 1),
    ("++", EX("a"), EX("p"), 1), (2, EX("a"), EX("p"), 1), ("add", EX("a"), EX("p"), 1),
    ("+", "", EX("p"), 1), ("+", "<a", EX("p"), 1), ("+", '"open', EX("p"), 1), None, 7,
]  # fmt: skip


def test_bad_updates_are_refused_one_by_one():
    engine = make()
    query = engine.register("SELECT ?y { ?x :p ?y }")
    batch = [update for bad in BAD for update in (triple("+", "s", "p", "o"), bad)]
    report = engine.apply(batch)
    assert {place for place, _ in report.refused} == set(range(1, len(batch), 2))
    assert all(reason for _, reason in report.refused)
    assert read(query) == {(EX("o"),): len(BAD)}
    epoch = engine.epoch
    with pytest.raises(InvalidUpdate):
        engine.apply(batch, strict=True)
    assert (engine.epoch, read(query)) == (epoch, {(EX("o"),): len(BAD)})
    check(engine)


def test_odd_numbers_are_terms():
    engine = make()
    query = engine.register("SELECT ?y { ?x :p ?y }")
    values = [float("nan"), float("inf"), -0.0, 0.0, 10**30, -(2**63), 2**63, 2**64, True, 0]
    assert engine.apply([("+", EX("s"), EX("p"), value) for value in values]).refused == ()
    assert len(read(query)) == len(values)
    assert engine.apply([("-", EX("s"), EX("p"), value) for value in values]).refused == ()
    assert read(query) == {}
    check(engine)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"subject": [EX("s")]},
        {"subject": [EX("s")], "predicate": [EX("p")], "object": [[1]]},
        {"subject": [EX("s")], "predicate": [EX("p")], "object": [{"a": 1}]},
    ],
)
def test_a_table_of_the_wrong_shape_is_refused_as_a_whole(columns):
    engine = make()
    epoch = engine.epoch
    with pytest.raises((InvalidUpdate, TypeError)):
        engine.apply(pa.table(columns))
    assert engine.epoch == epoch
    assert engine.metrics()["terms"]["live"] == 0
    check(engine)


def test_nulls_and_emptiness_in_tables():
    engine = make()
    query = engine.register("SELECT * { ?x ?p ?y }")
    nothing = {"subject": [None, EX("s")], "predicate": [EX("p"), None], "object": [None, EX("o")]}
    assert [place for place, _ in engine.apply(pa.table(nothing)).refused] == [0, 1]
    empty = pa.table({name: pa.array([], pa.string()) for name in nothing})
    assert engine.apply(empty).refused == ()
    typeless = pa.table({name: pa.nulls(2) for name in nothing})
    assert [place for place, _ in engine.apply(typeless).refused] == [0, 1]
    assert read(query) == {}
    check(engine)


def test_deletions_of_unknown_terms_are_refused_and_leave_no_terms():
    engine = make()
    for number in range(5):
        batch = [triple("-", f"a{number}_{i}", f"b{i}", f"c{i}") for i in range(200)]
        assert len(engine.apply(batch).refused) == 200
    engine.apply([])
    assert engine.metrics()["terms"]["live"] == 0
    assert engine.metrics()["entries"] == 0
    check(engine)


def test_empty_epochs_are_published_and_share_everything():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    engine.apply(star("p", 100))
    snapshots = []
    for _ in range(20):
        snapshots.append(query.snapshot())
        assert engine.apply([]).epoch == snapshots[-1].epoch + 1
    assert len({snapshot.epoch for snapshot in snapshots}) == 20
    assert engine.metrics()["retained_bytes"] == 0
    assert len({snapshot._version.roots.tobytes() for snapshot in snapshots}) == 1
    pins = engine.metrics(relations=True)["pins"]
    assert [pin["bytes"] for pin in pins] == [0] * 20
    assert all(snapshot.support() == 100 for snapshot in snapshots)


def test_an_exception_inside_an_epoch_leaves_everything_as_it_was():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    engine.apply(star("p", 3))
    epoch, before = engine.epoch, read(query)

    def broken():
        yield triple("+", "new", "p", "newer")
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        engine.apply(broken())
    assert (engine.epoch, read(query)) == (epoch, before)
    engine.apply(star("q", 1))
    check(engine)


# Queries in number


def test_a_thousand_queries_come_and_go():
    engine = make()
    engine.apply([triple("+", f"s{i}", f"p{i % 5}", f"s{i + 1}") for i in range(50)])
    terms, slots = engine.metrics()["terms"]["live"], 0
    for number in range(1_000):
        a, b = number % 5, (number + 1) % 5
        text = [
            f"SELECT * {{ ?x :p{a} ?y . ?y :p{b} ?z }}",
            f"SELECT ?x {{ ?x :p{a} ?y . ?y :p{b} :only{number} }}",
            f"SELECT ?x ?z {{ ?x :p{a} ?y . ?y :p{b} ?z }}",
            f"ASK {{ ?x :p{a} ?y . ?x :new{number} ?z }}",
        ][number % 4]
        query = engine.register(text)
        read(query)
        query.close()
        if number == 20:
            slots = engine._store.slots_used
    assert engine._store.slots_used == slots
    assert {relation.name for relation in engine._store.members} == {"unindexed"}
    assert engine._core.views.by_name == {}
    assert engine.metrics()["terms"]["live"] == terms
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)


def test_two_hundred_queries_at_once():
    engine = make()
    batch = [triple("+", f"s{i}", f"p{i % 10}", f"s{i + 1}") for i in range(40)]
    engine.apply(batch[:20])
    queries = [
        engine.register(f"SELECT * {{ ?x :p{i % 10} ?y . ?y :p{(i + 1 + i // 100) % 10} ?z{i} }}")
        for i in range(200)
    ]
    assert len(engine.queries) == len({query.name for query in queries}) == 200
    engine.apply(batch[20:])
    answers = [sorted(read(query)) for query in queries]
    assert sum(map(len, answers)) == sum(map(len, answers[:10])) * 10 > 0
    engine.apply([("-", *update[1:]) for update in batch])
    assert not any(read(query) for query in queries)
    for query in queries[::2] + queries[1::2]:
        query.close()
    assert len(engine.queries) == 0
    assert engine.metrics()["entries"] == 0
    check(engine)


def test_names_and_closing():
    engine = make()
    first = engine.register("SELECT * { ?x :p ?y }")
    second = engine.register("SELECT * { ?x :p ?y }", name="query3")
    third = engine.register("SELECT * { ?x :p ?y }")
    assert (
        list(engine.queries)
        == ["query1", "query3", "query4"]
        == [q.name for q in (first, second, third)]
    )
    with pytest.raises(StateError, match="'query3' is already registered"):
        engine.register("SELECT * { ?x :q ?y }", name="query3")
    first.close()
    first.close()
    again = engine.register("SELECT * { ?x :p ?y }", name="query1")
    first.close()
    assert engine.queries["query1"] is again
    for use in (first.snapshot, lambda: first.error):
        with pytest.raises(StateError, match="closed"):
            use()
    held = again.snapshot()
    engine.close()
    engine.close()
    for use in (lambda: engine.apply([]), lambda: engine.register("ASK { ?x :p ?y }"), again.close):
        with pytest.raises(StateError, match="engine is closed"):
            use()
    assert held.support() == 0


def test_a_query_closed_while_others_take_snapshots_of_it():
    """Each gets a whole snapshot, or is told that the query is closed."""
    engine = make()
    engine.apply(star("p", 50))
    faults: list = []
    for _ in range(20):
        query = engine.register("SELECT * { ?x :p ?y . ?x :p ?z }")

        def take(query=query):
            try:
                while True:
                    with query.snapshot() as snapshot:
                        if snapshot.support() != 2_500:
                            faults.append(snapshot.epoch)
            except StateError:
                pass
            except Exception as error:
                faults.append(error)

        threads = [Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        engine.apply([])
        query.close()
        for thread in threads:
            thread.join()
    assert faults == []
    assert engine.metrics()["retained_bytes"] == 0
    check(engine)


def test_metrics_by_relation():
    engine = make()
    query = engine.register("SELECT * { ?x :p ?y }")
    engine.apply(star("p", 500))
    assert "relations" not in engine.metrics()
    held = query.snapshot()
    engine.apply(star("p", 500, "-"))
    found = engine.metrics(relations=True)
    relations = found["relations"]
    assert sum(one["live_bytes"] for one in relations.values()) == found["live_bytes"]
    assert sum(one["entries"] for one in relations.values()) == found["entries"]
    retained = sum(one["retained_bytes"] for one in relations.values())
    assert found["pins"][0]["bytes"] == retained > 0
    assert retained <= found["retained_bytes"]
    held.close()
    after = engine.metrics(relations=True)
    assert after["pins"] == []
    assert not any(one["retained_bytes"] for one in after["relations"].values())
