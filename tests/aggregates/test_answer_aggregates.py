"""Window aggregates of the answers that a query gains or loses."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.aggregates.models import AFFINE, BITS
from tests.aggregates.streams import FUNCTIONS, NAME, PREFIXES, aggregate

from triegs import BadOption, Engine, StandingQuery, StateError, Window
from triegs.engine.window_aggregate import WindowAggregate
from triegs.jit.jit import COMPILED

P, Q = "<http://ex/p>", "<http://ex/q>"
TEXT = "SELECT ?x ?z { ?x :p ?y . ?y :q ?z }"
WINDOWS = (Window(30, slide=10), Window(20, slide=20, bounds="[)"), Window.landmark(15))
COMMUTATIVE = [each for each in FUNCTIONS if each[0] is not AFFINE]
STEPS = 25 if COMPILED else 12


def read(found: WindowAggregate, epoch: int | None = None) -> dict[str, Any]:
    rows = found.read(epoch).table.to_pylist()
    return {row["x"]: tuple(v) if isinstance(v := row["value"], list) else v for row in rows}


class AnswerEvents:
    """What a query gains and loses, by comparing all of its answers."""

    def __init__(self, query: StandingQuery) -> None:
        self.query = query
        self.before: dict[Any, int] = self.read()
        self.events: dict[int, list[tuple[int, str, Any]]] = {1: [], -1: []}

    def read(self) -> dict[Any, int]:
        with self.query.snapshot() as snapshot:
            return {(a.x, a.z): a.multiplicity for a in snapshot.answers("python")}

    def follow(self, time: int) -> None:
        now = self.read()
        for key in sorted({*now, *self.before}, key=str):
            change = now.get(key, 0) - self.before.get(key, 0)
            sign = 1 if change > 0 else -1
            self.events[sign] += [(time, *key)] * abs(change)
        self.before = now

    def expect(self, sign: int, window: Window, time: int, function: Any, numbers: str) -> Any:
        values: dict[str, list[Any]] = {}
        for at, who, value in self.events[sign]:
            if window.is_in(at, window.last_slide(time)):
                values.setdefault(who, []).append(value)
        results = {who: aggregate(function, numbers, each) for who, each in values.items()}
        return {who: result for who, result in results.items() if result is not None}


def draw_updates(random: Random, live: list[Any]) -> list[tuple[Any, ...]]:
    updates: list[tuple[Any, ...]] = []
    for _ in range(random.randrange(6)):
        if live and random.random() < 0.4:
            updates.append(("-", *live.pop(random.randrange(len(live)))))
        else:
            first = random.random() < 0.5
            row = (
                (NAME(random.randrange(3)), P, NAME(f"m{random.randrange(3)}"))
                if first
                else (NAME(f"m{random.randrange(3)}"), Q, random.choice((1, 5, -2, 0.5, '"x"')))
            )
            live.append(row)
            updates.append(("+", *row))
    return updates


@pytest.mark.parametrize("seed", range(2))
def test_answers_against_plain_python(seed: int) -> None:
    random, live = Random(seed), list[Any]()
    with Engine(prefixes=PREFIXES, retain_epochs=4) as engine:
        engine.apply([("+", NAME(0), P, NAME("m0")), ("+", NAME("m0"), Q, 3)])
        query = engine.register(TEXT)
        plain = AnswerEvents(query)
        made = {
            (function, numbers, window, sign): query.aggregate(
                "?x", function, window, value="?z", numbers=numbers,
                changes="ISTREAM" if sign > 0 else "DSTREAM",
            )
            for function, numbers in COMMUTATIVE
            for window in WINDOWS
            for sign in (1, -1)
        }  # fmt: skip
        assert all(read(found) == {} for found in made.values())
        time, history = 0, []
        for _ in range(STEPS):
            time += random.randrange(12)
            report = engine.apply(draw_updates(random, live), time=time)
            plain.follow(time)
            expected = {key: plain.expect(key[3], key[2], time, key[0], key[1]) for key in made}
            for key, found in made.items():
                assert read(found) == expected[key], (key, time)
                assert found.read().epoch == report.epoch
            history.append((report.epoch, expected))
        for epoch, expected in history[-4:]:
            for key, found in made.items():
                assert read(found, epoch) == expected[key]
        query.close()
        assert not engine.aggregates


def test_answers_of_a_window() -> None:
    """New answers per slide of a windowed query; emitters see them."""
    with Engine(prefixes=PREFIXES, window=Window(20, slide=10)) as engine:
        query = engine.register(TEXT)
        fresh = query.aggregate([], "count", Window(10, slide=10))
        gone = query.aggregate([], "count", Window(10, slide=10), changes="DSTREAM")
        seen: list[Any] = []
        query.emit(lambda emission: seen.append((emission.time, fresh.value(), gone.value())))
        engine.push([(1, 1, P, 2), (2, 2, Q, 3), (11, 2, Q, 4), (12, 2, Q, 5)])
        engine.advance(to=40)
        assert seen == [(10, 1, 0), (20, 2, 0), (30, 0, 3), (40, 0, 0)]


def look(engine: Engine) -> dict[str, Any]:
    return {
        name: sorted(found.read().table.to_pylist(), key=str)
        for name, found in engine.aggregates.items()
        if found._function is not None
    }


@pytest.mark.parametrize("checkpoint", [False, True])
def test_recovery(tmp_path: Path, checkpoint: bool) -> None:
    def start(engine: Engine) -> None:
        query = engine.register(TEXT, name="q")
        for number, (function, numbers) in enumerate(COMMUTATIVE):
            query.aggregate("?x", function, WINDOWS[0], value="?z", numbers=numbers,
                            name=f"a{number}")  # fmt: skip

    def run(engine: Engine, steps: range) -> None:
        for step in steps:
            random = Random(step)
            rows = [update for update in draw_updates(random, []) if update[0] == "+"]
            if step >= 4:
                rows += [("-", *row[1:]) for row in draw_updates(Random(step - 4), [])]
            engine.apply(rows, time=7 * step)

    with Engine(prefixes=PREFIXES) as plain:
        start(plain)
        run(plain, range(10))
        with Engine.open(tmp_path / "e", prefixes=PREFIXES) as engine:
            start(engine)
            run(engine, range(10))
            assert look(engine) == look(plain)
            assert any(look(plain).values())
            if checkpoint:
                engine.checkpoint()
        for steps in (range(10, 12), range(12, 20)):
            with Engine.open(tmp_path / "e", prefixes=PREFIXES) as engine:
                custom = engine.aggregates[f"a{len(COMMUTATIVE) - 1}"]
                with pytest.raises(StateError, match="operator 'bits_"):
                    custom.read()
                engine.queries["q"].aggregate("?x", BITS, WINDOWS[0], value="?z",
                                              name=custom.name)  # fmt: skip
                assert look(engine) == look(plain)
                run(plain, steps)
                run(engine, steps)
                assert look(engine) == look(plain)
                if checkpoint:
                    engine.checkpoint()


@pytest.mark.parametrize("count", [0, 3])
def test_recovery_of_an_aggregate_without_groups(tmp_path: Path, count: int) -> None:
    with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
        query = engine.register(f"SELECT ?x {{ ?x {NAME('p')} ?y }}", name="q")
        query.aggregate([], "count", Window(10, 5), name="n")
        engine.apply([("+", each, NAME("p"), 1) for each in range(count)], time=10)
        engine.checkpoint()
    with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
        assert engine.aggregates["n"].value() == count


def test_a_step_of_too_many_events_is_part_of_a_later_one(tmp_path: Path) -> None:
    """42 equal atoms: two statements of their triple are 2**42 answers."""
    atoms = " . ".join([f"?x {NAME('p')} ?y"] * 42)
    edge = (1, NAME("p"), 2)
    for number, (sign, expected) in enumerate([("+", 1), ("+", 1), ("-", 1), ("-", 1), ("+", 2)]):
        with Engine.open(tmp_path, prefixes=PREFIXES) as engine:
            if not number:
                query = engine.register(f"SELECT ?x {{ {atoms} }}", name="q")
                query.aggregate([], "count", Window(100, 1), name="n")
            engine.apply([(sign, *edge)], time=number + 1)
            assert engine.aggregates["n"].value() == expected


def test_refusals() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register(TEXT)
        with pytest.raises(BadOption, match="no column \\?y"):
            query.aggregate("?y", "count", Window(10))
        with pytest.raises(BadOption, match="changes must be"):
            query.aggregate([], "count", Window(10), changes="RSTREAM")  # type: ignore[arg-type]
        with pytest.raises(BadOption, match="must be commutative"):
            query.aggregate([], AFFINE, Window(10), value="?z")
        grouped = engine.register("SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x")
        with pytest.raises(BadOption, match="cannot be aggregated again"):
            grouped.aggregate("?x", "count", Window(10))
        with pytest.raises(StateError, match="has no changes"):
            engine.register(f"{TEXT} LIMIT 2").aggregate([], "count", Window(10))
        found = query.aggregate([], "count", Window(10))
        query.close()
        with pytest.raises(StateError, match="is closed"):
            found.value()
        with pytest.raises(StateError, match="is closed"):
            query.aggregate([], "count", Window(10))


def test_epochs_without_a_time_are_no_events() -> None:
    with Engine(prefixes=PREFIXES) as engine:
        found = engine.register("SELECT ?x { ?x :p ?y }").aggregate([], "count", Window(10))
        engine.apply([("+", 1, P, 2)])
        assert found.value() == 0
        engine.apply([("+", 1, P, 3)], time=10)
        engine.apply([("+", 1, P, 4)])
        assert found.value() == 2
