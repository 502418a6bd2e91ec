"""At the memory limit: deletions and expiries go on, and everything that is free can be used."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from triegs import Engine, MemoryLimitReached, Window
from triegs.options import KeepName
from triegs.store.packed import SMALLEST_LIMIT

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
P, Q = "<http://ex/p>", "<http://ex/q>"
PAIRS = f"SELECT ?x ?y {{ ?x {P} ?y }}"
PATHS = f"SELECT ?x ?z {{ ?x {P} ?y . ?y {Q} ?z }}"
LIMIT = SMALLEST_LIMIT + 500_000
Edge = tuple[int, str, int]
SHAPES: dict[str, Callable[[int], Edge]] = {
    "small sets": lambda n: (n, P, 0),
    "one hub": lambda n: (7, P, n),
    "full sets": lambda n: (n // 13, P, n % 13),
    "long chains": lambda n: (n, P if n % 2 else Q, n + 1),
}


def signed(sign: str, edges: Iterable[Edge]) -> list[tuple[str, int, str, int]]:
    return [(sign, *edge) for edge in edges]


def fill(engine: Engine, make: Callable[[int], Edge], size: int = 512) -> list[Edge]:
    """Insert until there is no room; returns what is there."""
    edges: list[Edge] = []
    while size:
        batch = [make(n) for n in range(len(edges), len(edges) + size)]
        try:
            engine.apply(signed("+", batch))
            edges += batch
        except MemoryLimitReached:
            size //= 4
    return edges


def make_engine(*, keep: Iterable[KeepName] = (), **options: Any) -> Engine:
    engine = Engine(memory_limit=LIMIT, **options)
    engine.register(PAIRS, "pairs")
    engine.register(PATHS, "paths", keep=keep)
    return engine


def read(engine: Engine, name: str) -> Counter[tuple[int, ...]]:
    with engine.queries[name].snapshot() as snapshot:
        columns = [column.to_pylist() for column in snapshot.to_arrow("python").columns]
        return Counter({row[:-1]: row[-1] for row in zip(*columns, strict=True)})


def expect(counts: Counter[Edge]) -> dict[str, Counter[tuple[int, ...]]]:
    """What the two queries show, worked out from scratch."""
    pairs: Counter[tuple[int, ...]] = Counter()
    paths: Counter[tuple[int, ...]] = Counter()
    following: dict[int, list[tuple[int, int]]] = {}
    for (s, p, o), count in counts.items():
        if p == Q:
            following.setdefault(s, []).append((o, count))
    for (s, p, o), count in counts.items():
        if p == P:
            pairs[s, o] += count
            for z, more in following.get(o, ()):
                paths[s, z] += count * more
    return {"pairs": pairs, "paths": paths}


def check(engine: Engine, counts: Counter[Edge]) -> None:
    for name, expected in expect(counts).items():
        assert read(engine, name) == expected


def count_bytes(engine: Engine) -> int:
    found = engine.metrics()
    return sum(found[f"{kind}_bytes"] for kind in ("live", "retained", "debt"))


# Deletions


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_everything_can_be_deleted_at_once(mode):
    engine = make_engine(mode=mode)
    edges = fill(engine, SHAPES["full sets"])
    Random(1).shuffle(edges)  # so that most is copied before anything is empty
    assert engine.apply(signed("-", edges)).refused == ()
    assert read(engine, "pairs") == Counter()
    # What was taken beyond the limit is given back.
    assert count_bytes(engine) <= LIMIT + LIMIT // 16
    assert len(fill(engine, SHAPES["full sets"])) >= 0.95 * len(edges)


def test_deletions_one_by_one_are_never_refused():
    engine = make_engine()
    edges = fill(engine, SHAPES["small sets"], 1)
    counts = Counter(edges)
    for edge in edges[::7]:
        assert engine.apply([("-", *edge)]).refused == ()
        del counts[edge]
    check(engine, counts)


def test_freed_memory_of_one_shape_serves_every_other():
    engine = make_engine()
    for shape, make in SHAPES.items():
        edges = fill(engine, make)
        alone = len(fill(make_engine(), make))
        assert len(edges) >= 0.95 * alone, shape
        check(engine, Counter(edges))
        engine.apply(signed("-", edges))


def test_an_epoch_that_deletes_as_much_as_it_inserts_has_room():
    engine = make_engine()
    edges = fill(engine, SHAPES["full sets"])
    others = [(s + 5_000, p, o) for s, p, o in edges[1_000:]]
    engine.apply(signed("+", others) + signed("-", edges))
    check(engine, Counter(others))
    # But not one that leaves more than the limit.
    epoch, more = engine.epoch, signed("+", [(s + 9_000, p, o) for s, p, o in edges])
    with pytest.raises(MemoryLimitReached):
        engine.apply(more + signed("-", others[:10]))
    assert engine.epoch == epoch
    check(engine, Counter(others))
    assert count_bytes(engine) <= LIMIT + LIMIT // 16


def test_the_error_says_which_held_epochs_retain_how_much():
    engine = make_engine()
    edges = fill(engine, SHAPES["full sets"])
    Random(1).shuffle(edges)
    held = [engine.queries["pairs"].snapshot()]
    message = r"retain [\d,]+ bytes, the oldest: epoch \d+ [\d,]+ \(a snapshot of 'pairs'\)"

    def change() -> None:
        while True:  # each snapshot holds its own copies, so this is over at some time
            for sign in "-+":
                engine.apply(signed(sign, edges[:300]))
            held.append(engine.queries["pairs"].snapshot())

    with pytest.raises(MemoryLimitReached, match=message):
        change()
    for snapshot in held:
        assert snapshot.count() == len(edges)
        snapshot.close()
    present = [("-", x, P, y) for x, y in read(engine, "pairs").elements()]
    assert engine.apply(present).refused == ()
    assert read(engine, "pairs") == Counter()


@pytest.mark.parametrize("seed", range(60) if SOAK else range(3))
def test_random_epochs_near_the_limit(seed):
    """After every epoch the state is what the accepted updates say; deletions are never refused."""
    random = Random(seed)
    engine = make_engine(keep=["count", "slice"] if seed % 2 else ())
    counts: Counter[Edge] = Counter()
    held: list[tuple[Any, Counter[tuple[int, ...]]]] = []
    refused = 0
    for step in range(60 if SOAK else 25):
        make = random.choice(list(SHAPES.values()))
        first, size = random.randrange(3_000), random.choice([1, 30, 1_000, 3_000])
        kind = random.choice(["insert", "insert", "insert", "delete", "mixed"])
        new = [make(n) for n in range(first, first + size)] if kind != "delete" else []
        old = random.sample(sorted(counts), min(len(counts), size)) if kind != "insert" else []
        batch = signed("-", old) + signed("+", new)
        if random.random() < 0.5:
            batch = signed("+", new) + signed("-", old)
        try:
            assert engine.apply(batch).refused == ()
        except MemoryLimitReached:
            assert new
            refused += 1
        else:
            counts.update(new)
            counts.subtract(old)
            counts += Counter()
        if step % 5 == 4:
            check(engine, counts)
            engine._store.check()
            with engine.queries["paths"].snapshot() as snapshot:
                assert snapshot.count() == expect(counts)["paths"].total()
        if not held and random.random() < 0.3:
            held.append((engine.queries["pairs"].snapshot(), expect(counts)["pairs"]))
        elif held and random.random() < 0.5:
            snapshot, expected = held.pop()
            assert snapshot.count() == expected.total()
            snapshot.close()
    for snapshot, _ in held:
        snapshot.close()
    assert refused
    check(engine, counts)
    assert engine.apply(signed("-", counts.elements())).refused == ()
    assert engine.metrics()["live_bytes"] == 0 == engine.metrics()["retained_bytes"]
    engine._store.check()


# Windows


def test_a_window_at_the_limit_keeps_sliding():
    """A burst that does not fit is refused and told; what expires goes, and the stream flows."""
    engine = Engine(memory_limit=LIMIT, window=Window(100, slide=10))
    engine.register(PAIRS, "pairs")
    engine.register(PATHS, "paths")
    random = Random(3)
    shown: deque[tuple[int, Edge]] = deque()
    number, lost = 0, []
    for start in range(0, 400, 10):
        size = 6_000 if 100 <= start < 150 else 200
        events: list[tuple[int, Edge]] = []
        for each in range(size):
            edge = (random.randrange(3_000), random.choice([P, Q]), random.randrange(3_000))
            events.append((start + 1 + 9 * each // size, edge))
        engine.push([(time, *edge) for time, edge in events])
        [published] = engine.advance(to=start + 10)
        gone = {place for place, _ in published.refused}
        lost.append(len(gone))
        assert all("no room under the memory limit" in reason for _, reason in published.refused)
        shown.extend(e for at, e in enumerate(events, number) if at not in gone)
        number += size
        while shown and shown[0][0] <= start + 10 - 100:
            shown.popleft()
        check(engine, Counter(edge for _, edge in shown))
    assert sum(lost[10:15]) > 0
    assert sum(lost[:10]) == sum(lost[25:]) == 0
    assert engine.metrics()["windows"]["refused"] == sum(lost)
    engine._store.check()


def test_windows_of_one_stream_refuse_an_event_together():
    """The slow window has no room for what the fast one shows: it goes from there, too."""
    engine = Engine(memory_limit=LIMIT)
    fast = engine.register(PAIRS, "fast", window=Window(40, slide=10))
    engine.register(PATHS, "slow", window=Window(400, slide=40))
    lost = 0
    for start in range(0, 400, 10):
        engine.push([(start + 1, n, P, start) for n in range(1_200)])
        for published in engine.advance(to=start + 10):
            lost += len(published.refused)
            if published.refused:
                assert published.time % 40 == 0
        with fast.snapshot() as snapshot:
            assert snapshot.count() <= 4 * 1_200
    assert lost
    engine.advance(to=1_000)
    assert read(engine, "fast") == read(engine, "slow") == Counter()
    engine.push([(1_001, 1, P, 2)])
    assert engine.advance(to=1_040)[-1].refused == ()
    assert read(engine, "fast") == Counter({(1, 2): 1})


# Directories


@contextmanager
def dying(engine: Engine) -> Iterator[None]:
    """What is refused inside is in the log: the process dies before it is taken back."""

    class Death(BaseException):
        pass

    def die(_: int) -> None:
        raise Death

    assert engine._internals.journal is not None
    assert engine._internals.checkpoint_manager is not None
    engine._internals.journal.log.undo = die  # type: ignore[assignment,method-assign]
    with pytest.raises(Death):
        yield
    engine._internals.checkpoint_manager._log.close()
    engine._internals.checkpoint_manager._lock.close()


def begin(directory: Any, **options: Any) -> Engine:
    engine = Engine.open(directory, memory_limit=LIMIT, **options)
    if "pairs" not in engine.queries:
        engine.register(PAIRS, "pairs")
        engine.register(PATHS, "paths")
    return engine


def too_much(engine: Engine) -> None:
    engine.apply(signed("+", [(n, P, n) for n in range(40_000)]))


def too_wide(engine: Engine) -> None:
    engine.register(f"SELECT ?x ?z {{ ?x {P} ?y . ?z {P} ?y }}", "wide")


@pytest.mark.parametrize(
    ("refused", "again", "is_kept"),
    [(too_much, LIMIT, False), (too_much, None, True), (too_wide, LIMIT, True)],
)
def test_a_record_that_was_refused_is_refused_again(tmp_path, refused, again, is_kept):
    """By whatever limit the directory is opened."""
    engine = begin(tmp_path)
    edges = [SHAPES["full sets"](n) for n in range(6_000)]
    engine.apply(signed("+", edges))
    if is_kept:
        engine.checkpoint()
    epoch = engine.epoch
    with dying(engine):
        refused(engine)
    for _ in range(2):
        with Engine.open(tmp_path, memory_limit=again) as engine:
            assert engine.epoch == epoch
            assert list(engine.queries) == ["pairs", "paths"]
            check(engine, Counter(edges))
            assert engine.apply([("-", *edges.pop())]).epoch == epoch + 1
            epoch += 1


def test_what_was_done_is_never_refused_again(tmp_path):
    """Full to the brim, by records and by a checkpoint of another layout of memory."""
    counts: Counter[Edge] = Counter()
    random = Random(5)
    for round_ in range(3):
        with begin(tmp_path) as engine:
            check(engine, counts)
            for shape in random.sample(list(SHAPES), 2):
                counts.update(fill(engine, SHAPES[shape], 2_048))
                gone = random.sample(sorted(counts), len(counts) // 3)
                engine.apply(signed("-", gone))
                counts -= Counter(gone)
            counts.update(fill(engine, lambda n: (n * 17, Q, n), 128))
            if round_ == 1:
                engine.checkpoint()
            epoch = engine.epoch
        with Engine.open(tmp_path, memory_limit=LIMIT) as engine:
            assert engine.epoch == epoch


def test_a_directory_that_takes_more_than_the_limit_is_left_alone(tmp_path):
    """What was acknowledged under another limit is not taken for refused."""
    with Engine.open(tmp_path) as engine:
        engine.register(PAIRS, "pairs")
        engine.apply(signed("+", [(n, P, n) for n in range(50_000)]))
    for _ in range(2):
        with pytest.raises(
            MemoryLimitReached, match=f"takes [0-9,]+ bytes: no room under {LIMIT:,}"
        ):
            Engine.open(tmp_path, memory_limit=LIMIT)
    with Engine.open(tmp_path) as engine:
        assert len(read(engine, "pairs")) == 50_000


def test_a_directory_made_under_a_limit_opens_with_it(tmp_path, monkeypatch):
    """Even where the same takes more memory than it did; then only inserts are refused."""
    with begin(tmp_path) as engine:
        edges = fill(engine, SHAPES["long chains"], 4_096)
        engine.checkpoint()
    with Engine.open(tmp_path) as engine:  # which may lay it out better
        smaller = engine.metrics()["live_bytes"] + SMALLEST_LIMIT // 2 - 5_000
    assert smaller < LIMIT
    monkeypatch.setattr("triegs.durable.opening.check_room", lambda *_: None)
    with Engine.open(tmp_path, memory_limit=smaller) as engine:
        engine.apply([("-", *edges.pop())])
    monkeypatch.undo()
    with Engine.open(tmp_path, memory_limit=smaller) as engine:
        check(engine, Counter(edges))
        with pytest.raises(MemoryLimitReached):
            engine.apply([("+", 1, Q, 1)])
        engine.apply(signed("-", edges))
        engine.apply([("+", 1, Q, 1)])


@pytest.mark.parametrize("is_kept", [False, True], ids=["log", "checkpoint"])
def test_a_slide_that_refused_what_came_is_the_same_again(tmp_path, is_kept):
    with begin(tmp_path, window=Window(100, slide=10)) as engine:
        engine.push([(1, n, P, n) for n in range(500)])
        assert engine.advance(to=10)[0].refused == ()
        engine.push([(11, n, P, n) for n in range(40_000)])
        if is_kept:
            engine.checkpoint()
        assert len(engine.advance(to=20)[0].refused) == 40_000
        engine.push([(21, n, Q, n) for n in range(500)])
        engine.advance(to=30)
        epoch, seen = engine.epoch, [read(engine, name) for name in engine.queries]
    assert [len(each) for each in seen] == [500, 500]
    for limit in (LIMIT, None):
        with Engine.open(tmp_path, memory_limit=limit) as engine:
            assert engine.epoch == epoch
            assert [read(engine, name) for name in engine.queries] == seen
            assert engine.metrics()["windows"]["refused"] == 40_000


@pytest.mark.parametrize("by_slide", [False, True])
def test_slides_that_died_before_it_was_noted_that_they_refused(tmp_path, monkeypatch, by_slide):
    """Opening does the call to its end, and finds out that they must have refused."""

    class Death(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Death

    engine = begin(tmp_path, window=Window(10, slide=10))
    for start in (0, 10, 20):
        size = 3 if start == 10 else 40_000
        engine.push([(start + 1, n, P, n) for n in range(size)])
    epoch = engine.epoch
    assert engine._internals.checkpoint_manager is not None
    with monkeypatch.context() as patch:
        patch.setattr(engine._internals.journal, "note_refusing", die)
        with pytest.raises(Death):
            list(engine.each_slide(to=30)) if by_slide else engine.advance(to=30)
    engine._internals.checkpoint_manager._log.close()
    engine._internals.checkpoint_manager._lock.close()
    for limit in (LIMIT, None):
        with Engine.open(tmp_path, memory_limit=limit) as engine:
            if limit is not None:
                found = [*engine.published, *(engine.advance(to=30) if by_slide else ())]
                told = [(each.epoch - epoch, len(each.refused)) for each in found]
                assert told == [(1, 40_000), (2, 0), (3, 40_000)]
            assert engine.epoch == epoch + 3
            assert read(engine, "pairs") == Counter()
