"""Window aggregates of streams: against plain Python, and against a query with the same window."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Literal

import pytest
from tests.aggregates.models import AFFINE, BITS, MIXED
from tests.aggregates.streams import (
    FUNCTIONS,
    NAME,
    PAID,
    PREFIXES,
    WINDOWS,
    PlainStream,
    aggregate,
    draw_events,
)

from triegs import (
    BadOption,
    Engine,
    HistoryGone,
    MemoryLimitReached,
    QueryError,
    StateError,
    Window,
    WindowError,
)
from triegs.engine.window_aggregate import WindowAggregate
from triegs.jit.jit import COMPILED

SIZE = 25 if COMPILED else 15
SEEDS = range(2 if COMPILED else 1)
#: One window, and all of them; without compilation only some.
CHOICES: list[tuple[Window, ...]] = [(window,) for window in (WINDOWS if COMPILED else WINDOWS[:1])]
CHOICES += [WINDOWS if COMPILED else WINDOWS[:4]]
PATTERN = "?who :paid ?v"


def read(found: WindowAggregate, epoch: int | str | None = None) -> dict[str, Any]:
    rows = found.read(epoch).table.to_pylist()
    return {row["who"]: tuple(v) if isinstance(v := row["value"], list) else v for row in rows}


def expect(
    plain: PlainStream, window: Window, time: int, function: Any, numbers: str
) -> dict[str, Any]:
    results = {
        who: aggregate(function, numbers, values)
        for who, values in plain.read(window, time).items()
    }
    return {who: result for who, result in results.items() if result is not None}


def start(engine: Engine, windows: tuple[Window, ...]) -> dict[Any, WindowAggregate]:
    return {
        (function, numbers, window): engine.aggregate(
            PATTERN, ["?who"], function, window, value="?v", numbers=numbers
        )
        for function, numbers in FUNCTIONS
        for window in windows
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("windows", CHOICES, ids=str)
def test_windows_against_plain_python(windows: tuple[Window, ...], seed: int) -> None:
    random, plain = Random(seed), PlainStream()
    slides: dict[Window, int] = {}
    with Engine(prefixes=PREFIXES) as engine:
        made = start(engine, windows)
        for step in range(6):
            events = draw_events(random, SIZE, 40 * step + 1, 40, 4)
            plain.push(events)
            engine.push(events)
            watermark = 40 * step + random.randrange(20, 45)
            for published in engine.each_slide(to=watermark):
                slides |= dict.fromkeys(find_slid(windows, plain, published.time), published.time)
                for (function, numbers, window), found in made.items():
                    expected = expect(
                        plain, window, slides.get(window, -(10**9)), function, numbers
                    )
                    assert read(found) == expected, (function, numbers, window, published)
                    assert found.read().epoch == published.epoch
            plain.watermark = watermark


def find_slid(windows: tuple[Window, ...], plain: PlainStream, time: int) -> list[Window]:
    """The windows that slide at a time."""
    return [
        window
        for window in windows
        if (window.slide is not None and window.last_slide(time) == time)
        or (window.slide is None and any(event[0] == time for event in plain.events))
    ]


#: At one published time, one of them ends before the events of that time, the other with them.
BOTH_ENDS = (Window(20, slide=2, bounds="[)"), Window(30, slide=2))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("windows", [WINDOWS[:1], WINDOWS[:3], BOTH_ENDS], ids=str)
def test_deletions_against_a_query(seed: int, windows: tuple[Window, ...]) -> None:
    """The same events as a query's, with deletions, ids and repeated events."""
    random = Random(seed)
    with Engine(prefixes=PREFIXES) as engine:
        made = {key: found for key, found in start(engine, windows).items() if key[0] is not AFFINE}
        queries = {
            window: engine.register("SELECT ?who ?v { ?who :paid ?v }", window=window)
            for window in windows
        }
        stated: list[tuple[Any, ...]] = []
        for step in range(6):
            events: list[tuple[Any, ...]] = []
            for number, event in enumerate(draw_events(random, SIZE, 40 * step + 1, 40, 3)):
                name = f"e{step}_{number}" if random.random() < 0.5 else None
                events.append((*event, "+", name))
                stated.append(events[-1])
                if random.random() < 0.3:
                    old = random.choice(stated[-30:])
                    events.append((event[0] + random.randrange(30), *old[1:4], "-", old[5]))
                if random.random() < 0.1:
                    events.append(random.choice(stated[-10:]))
            engine.push(events)
            for _ in engine.each_slide(to=40 * step + random.randrange(20, 45)):
                for (function, numbers, window), found in made.items():
                    values: dict[str, list[Any]] = {}
                    with queries[window].snapshot() as snapshot:
                        for answer in snapshot.answers("python"):
                            values.setdefault(answer.who, [])
                            values[answer.who] += [answer.v] * answer.multiplicity
                    results = {w: aggregate(function, numbers, v) for w, v in values.items()}
                    expected = {w: result for w, result in results.items() if result is not None}
                    assert read(found) == expected, (function, numbers, window)


def test_which_structure_is_used() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        options: Any = {"value": "?v"}  # a minimum, because others here have it compiled
        window = Window(40, slide=10)
        one = engine.aggregate(PATTERN, ["?who"], "min", window, **options)
        assert "DABA Lite" in one.explain()
        same = engine.aggregate(PATTERN, ["?who"], "min", window, **options)
        assert same._window is one._window
        other = engine.aggregate(PATTERN, ["?who"], "min", Window(80, slide=20), **options)
        assert "FiBA" in one.explain()
        assert other._window.shared is one._window.shared  # type: ignore[union-attr]
        other.close()
        assert "DABA Lite" in one.explain()
        events = [(1, NAME(1), PAID, 3, "+", "a"), (2, NAME(1), PAID, 5, "+", "b")]
        engine.push(events)
        engine.advance(to=10)
        engine.push([(11, NAME(1), PAID, 3, "-", "a")])
        engine.advance(to=20)
        assert "FiBA" in one.explain()
        assert one.value(NAME(1)) == 5.0
        assert "counts" in engine.aggregate(PATTERN, [], "count", window).explain()
        assert "exact sums" in engine.aggregate(PATTERN, [], "sum", window, **options).explain()


def test_an_epoch_that_is_held_is_read_again() -> None:
    """Aggregate and query at one epoch, and old epochs after later slides."""
    random, plain = Random(1), PlainStream()
    window = Window(40, slide=10)
    with Engine(prefixes=PREFIXES, retain_epochs=3) as engine:
        found = engine.aggregate(PATTERN, ["?who"], "max", window, value="?v")
        query = engine.register("SELECT ?who { ?who :paid ?v }", window=window)
        taken: list[tuple[int, dict[str, Any]]] = []
        kept: tuple[int, dict[str, Any]] = (0, {})
        for step in range(5):
            events = draw_events(random, SIZE, 40 * step + 1, 40, 4)
            plain.push(events)
            engine.push(events)
            for published in engine.each_slide(to=40 * step + 40):
                expected = expect(plain, window, published.time, "max", "double")
                assert read(found, published.epoch) == expected
                taken.append((published.epoch, expected))
            plain.watermark = 40 * step + 40
            if step == 1:
                engine.hold("then")
                kept = taken[-1]
        for epoch, expected in taken[-3:]:
            with query.snapshot(epoch=epoch) as snapshot:
                assert read(found, snapshot.epoch) == expected
        assert read(found, "then") == kept[1]
        for who, value in kept[1].items():
            assert found.value(who, epoch="then") == value
        changes = found.changes("then").to_pylist()
        before, after = kept[1], taken[-1][1]
        assert {(row["who"], row["value"], row["change"]) for row in changes} == {
            *((who, v, -1) for who, v in before.items() if after.get(who) != v),
            *((who, v, 1) for who, v in after.items() if before.get(who) != v),
        }
        with pytest.raises(HistoryGone):
            found.read(taken[2][0])


def test_a_reader_never_sees_an_aggregate_behind_its_epoch() -> None:
    """While slides are published, an aggregate and a query are read at the same epoch."""
    window = Window(40, slide=10)
    problems: list[object] = []
    with Engine(prefixes=PREFIXES) as engine:
        found = engine.aggregate(PATTERN, ["?who"], "sum", window, value="?v", numbers="integer")
        query = engine.register("SELECT ?who ?v { ?who :paid ?v }", window=window)
        is_over = Event()

        def read_both() -> None:
            while not is_over.is_set():
                with query.snapshot() as snapshot:
                    expected: dict[str, int] = {}
                    for answer in snapshot.answers("python"):
                        expected.setdefault(answer.who, 0)
                        expected[answer.who] += answer.v * answer.multiplicity
                    seen = found.read(snapshot.epoch)
                    rows = {row["who"]: row["value"] for row in seen.table.to_pylist()}
                    if (rows, seen.epoch) != (expected, snapshot.epoch):
                        problems.append((rows, expected, snapshot.epoch))
                found.read()

        readers = [Thread(target=read_both) for _ in range(2)]
        for reader in readers:
            reader.start()
        random = Random(3)
        for step in range(100 if COMPILED else 10):
            times = (10 * step + 1 + n % 10 for n in range(30))
            engine.push([(t, NAME(random.randrange(5)), PAID, random.randrange(9)) for t in times])
            engine.advance(to=10 * step + 10)
        is_over.set()
        for reader in readers:
            reader.join()
    assert problems == []


def test_values_that_are_no_numbers_are_counted() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        window = Window(10, slide=10)
        doubles = engine.aggregate(PATTERN, [], "sum", window, value="?v")
        integers = engine.aggregate(PATTERN, [], "sum", window, value="?v", numbers="integer")
        counts = engine.aggregate(PATTERN, [], "count", window)
        assert [each.value() for each in (doubles, integers, counts)] == [0.0, 0, 0]
        engine.push([(1, 1, PAID, 5), (2, 1, PAID, '"x"'), (3, 1, PAID, 0.5), (4, 1, PAID, 2**70)])
        engine.advance(to=10)
        assert (doubles.value(), doubles.unusable) == (5.5 + 2**70, 1)
        assert (integers.value(), integers.unusable) == (5, 3)
        assert (counts.value(), counts.unusable) == (4, 0)
        assert doubles.read().unusable == 1
        figures = {each["name"]: each["unusable"] for each in engine.metrics()["aggregates"]}
        assert figures == {"aggregate1": 1, "aggregate2": 3, "aggregate3": 0}
        engine.advance(to=20)
        assert (doubles.value(), doubles.unusable) == (0.0, 0)


def test_sums_of_integers_do_not_wrap() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        found = engine.aggregate(
            PATTERN, [], "sum", Window(10, slide=10), value="?v", numbers="integer"
        )
        engine.push([(1, 1, PAID, 2**63 - 1), (1, 2, PAID, 2**63 - 1), (11, 1, PAID, 3)])
        engine.advance(to=10)
        with pytest.raises(OverflowError, match="does not fit 64 bits"):
            found.value()
        engine.advance(to=20)
        assert found.value() == 3


def test_patterns() -> None:
    events = [
        (1, NAME("a"), PAID, 5), (1, NAME("a"), PAID, NAME("a")), (1, NAME("b"), PAID, 7),
        (1, NAME("a"), "<http://ex/sent>", 9),
    ]  # fmt: skip
    expected = {
        "?x :paid ?v": 3,
        ":a :paid ?v": 2,
        "?x ?p ?v": 4,
        "?x :paid ?x": 1,
        "?x ?p 9": 1,
        "?x :paid ?v FILTER(?v > 5)": 1,
        "?x ?p ?v FILTER(?v > 5) FILTER(?p = :paid)": 1,
        "?x :paid ?v FILTER(1 = 2)": 0,
        ":nobody :paid ?v": 0,
    }
    with Engine(prefixes=PREFIXES) as engine:
        window = Window(10)
        made = {p: engine.aggregate(p, [], "count", window) for p in expected}
        engine.push(events)
        engine.advance(to=10)
        assert {pattern: found.value() for pattern, found in made.items()} == expected


def test_refusals() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        window = Window(10)
        with pytest.raises(WindowError, match="needs a window"):
            engine.aggregate(PATTERN)
        with pytest.raises(BadOption, match="window of time"):
            engine.aggregate(PATTERN, [], "count", Window.triples(3))
        with pytest.raises(BadOption, match="one triple pattern"):
            engine.aggregate("?x :p ?y . ?y :q ?z", [], "count", window)
        with pytest.raises(BadOption, match="no variable \\?z"):
            engine.aggregate(PATTERN, ["?z"], "count", window)
        with pytest.raises(BadOption, match="needs value"):
            engine.aggregate(PATTERN, [], "sum", window)
        with pytest.raises(BadOption, match="one variable"):
            engine.aggregate("?x :p ?y FILTER(?x < ?y)", [], "count", window)
        with pytest.raises(BadOption, match="time of an event"):
            engine.aggregate("?x :p ?y {| triegs:time ?t |}", [], "count", window)
        with pytest.raises(BadOption, match="function must be"):
            engine.aggregate(PATTERN, [], "median", window, value="?v")  # type: ignore[arg-type]
        with pytest.raises(QueryError):
            engine.aggregate("?x :p", [], "count", window)
        assert not engine.aggregates
        found = engine.aggregate(PATTERN, [], "count", window, name="n")
        with pytest.raises(StateError, match="already exists"):
            engine.aggregate(PATTERN, [], "count", window, name="n")
        found.close()
        found.close()
        with pytest.raises(StateError, match="is closed"):
            found.read()
        with pytest.raises(StateError, match="there is no window"):
            engine.push([(1, 1, PAID, 1)])
        assert engine.metrics()["terms"]["live"] == 0


def test_an_aggregate_begins_with_what_is_retained() -> None:
    plain, random = PlainStream(), Random(2)
    window = Window(40, slide=10)
    with Engine(prefixes=PREFIXES, window=window) as engine:
        events = draw_events(random, SIZE, 1, 60, 4)
        plain.push(events)
        engine.push(events)
        engine.advance(to=60)
        functions: tuple[Literal["max", "sum"], ...] = ("max", "sum")
        for function in functions:
            found = engine.aggregate(PATTERN, ["?who"], function, value="?v")
            assert read(found) == expect(plain, window, 60, function, "double")


def run_until(engine: Engine, steps: range, seed: int = 5) -> None:
    for step in steps:
        random = Random(1000 * seed + step)
        engine.push(draw_events(random, SIZE, 40 * step + 1, 40, 4))
        engine.advance(to=40 * step + 30)


def look(engine: Engine) -> dict[str, Any]:
    return {
        name: (sorted(found.read().table.to_pylist(), key=str), found.unusable)
        for name, found in engine.aggregates.items()
        if found._function is not None
    }


def open_all(engine: Engine) -> None:
    for number, ((function, numbers), window) in enumerate(
        (each, window) for each in FUNCTIONS for window in WINDOWS[:2]
    ):
        engine.aggregate(
            PATTERN, ["?who"], function, window, value="?v", numbers=numbers, name=f"a{number}"
        )


@pytest.mark.parametrize("checkpoint", [False, True])
def test_recovery(tmp_path: Path, checkpoint: bool) -> None:
    with Engine(prefixes=PREFIXES) as plain:
        open_all(plain)
        with Engine.open(tmp_path / "e", prefixes=PREFIXES) as engine:
            open_all(engine)
            engine.aggregate(PATTERN, [], "count", WINDOWS[0], name="gone").close()
            run_until(plain, range(3))
            run_until(engine, range(3))
            assert look(engine) == look(plain)
            if checkpoint:
                engine.checkpoint()
        for steps in (range(3, 4), range(4, 6)):
            with Engine.open(tmp_path / "e", prefixes=PREFIXES) as engine:
                custom = [n for n, each in engine.aggregates.items() if each._function is None]
                assert len(custom) == 4
                for name in custom:
                    source = engine.aggregates[name]._source
                    operator = {each.name: each for each in (AFFINE, BITS)}[source.function]
                    with pytest.raises(StateError, match=f"operator '{operator.name}'"):
                        engine.aggregates[name].read()
                    with pytest.raises(StateError, match="another aggregate"):
                        engine.aggregate("?x :paid ?v", ["?x"], operator, source.window, value="?v",
                                         name=name)  # fmt: skip
                    engine.aggregate(PATTERN, ["?who"], operator, source.window, value="?v",
                                     name=name)  # fmt: skip
                assert look(engine) == look(plain)
                run_until(plain, steps)
                run_until(engine, steps)
                assert look(engine) == look(plain)
                if checkpoint:
                    engine.checkpoint()


def test_a_slide_that_does_not_fit_refuses_its_events() -> None:
    limit = 12_000_000
    with Engine(prefixes=PREFIXES, memory_limit=limit) as engine:
        found = engine.aggregate(PATTERN, ["?who"], "max", Window(100, slide=10), value="?v")
        number = 0
        refused = 0
        for step in range(20):
            engine.push([(10 * step + 1, number + n, PAID, n) for n in range(2_000)])
            number += 2_000
            published = engine.advance(to=10 * step + 10)
            refused += len(published[0].refused)

            assert engine.metrics()["aggregates"][0]["bytes"] <= limit
        assert 0 < refused < number

        engine.advance(to=1_000)
        assert found.read().table.num_rows == 0
        engine.push([(1_001, 1, PAID, 5)])
        engine.advance(to=1_010)
        assert found.value(1) == 5.0


def test_an_aggregate_that_does_not_fit_is_not_made() -> None:
    window = Window(1_000, slide=10)
    with Engine(prefixes=PREFIXES, memory_limit=2_000_000) as engine:
        keep = engine.aggregate("?who :sent ?v", [], "count", window)
        engine.push([(n % 10 + 1, n, PAID, n) for n in range(20_000)])
        engine.advance(to=10)
        with pytest.raises(MemoryLimitReached):
            engine.aggregate(PATTERN, ["?who"], "max", window, value="?v")
        assert list(engine.aggregates) == [keep.name]
        engine.advance(to=20)


def test_floats_in_states() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        found = engine.aggregate(PATTERN, [], MIXED, Window(10), value="?v")
        engine.push([(1, 1, PAID, 2.5), (2, 1, PAID, 0.5), (3, 1, PAID, '"x"')])
        engine.advance(to=10)
        assert (found.value(), found.unusable) == ([2, 2.5, 0.5], 1)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_recovery_repeats_what_the_memory_limit_refused(tmp_path: Path, checkpoint: bool) -> None:
    """Also if the directory is opened without a limit."""
    window = Window(100, slide=10)
    with Engine.open(tmp_path, prefixes=PREFIXES, memory_limit=12_000_000) as engine:
        found = engine.aggregate(PATTERN, ["?who"], "max", window, value="?v", name="top")
        refused = 0
        for step in range(12):
            first = 2_000 * step
            engine.push([(10 * step + 1, first + n, PAID, n) for n in range(2_000)])
            if checkpoint and step == 8:
                engine.checkpoint()
            refused += sum(len(each.refused) for each in engine.advance(to=10 * step + 10))
        assert refused
        expected = read(found)
    with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
        assert read(engine.aggregates["top"]) == expected


@pytest.mark.parametrize("late", [Window.landmark(5), Window(14, 7), Window(12, 5)])
@pytest.mark.parametrize("function", ["count", "sum", "max"])
def test_a_deleted_event_that_another_window_still_has(
    tmp_path: Path, function: Literal["count", "sum", "max"], late: Window
) -> None:
    """One window loses it at 14, the other at 15. A window that is made, or restored, in between
    does not have it.
    """
    value = None if function == "count" else "?v"
    for number, is_opened_again in enumerate((False, True)):
        path = tmp_path / str(number)
        engine = Engine.open(path, prefixes=PREFIXES)
        engine.register("SELECT ?who { ?who :paid ?v }", window=Window(7, 7))
        for name, window in (("slow", Window(10, 5)), ("quick", Window(7, 7))):
            engine.aggregate(PATTERN, "?who", function, window, value=value, name=name)
        engine.push([(6, 1, PAID, 1), (8, 2, PAID, 1)])
        engine.advance(10)
        engine.push([(12, 1, PAID, 1, "-")])
        engine.advance(14)
        engine.aggregate(PATTERN, "?who", function, late, value=value, name="late")
        if is_opened_again:
            engine.checkpoint()
            engine.close()
            engine = Engine.open(path, prefixes=PREFIXES)
        for counts in ({"slow": 2, "quick": 1, "late": 1}, {"slow": 1, "quick": 1, "late": 1}):
            assert {name: len(read(each)) for name, each in engine.aggregates.items()} == counts
            engine.advance(15)
        engine.close()
