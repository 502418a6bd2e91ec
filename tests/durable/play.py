"""Scripts of calls, and what an engine shows after each: the same again is the same."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from triegs import Engine, EventTime, InvalidUpdate, StateError, Window

EX = "<http://ex/{}>".format
PLAIN = {
    "path": f"SELECT ?x ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    "all": "SELECT ?x ?p ?y { ?x ?p ?y }",
    "self": f"SELECT ?y {{ {EX(0)} {EX('p')} ?y . {EX(0)} {EX('p')} ?y }}",
}
#: Queries that need a window.
TIMED = {
    "timed": f"SELECT ?x ?t {{ ?x {EX('p')} ?y {{| triegs:time ?t |}} }}",
    "interval": f"""SELECT ?x ?z {{ ?x {EX("p")} ?y {{| triegs:time ?t |}} .
        ?y {EX("q")} ?z {{| triegs:time ?u |}} FILTER(?u - ?t < 4) }}""",
}
WINDOWS = [Window(10, 5), Window(7, 3, bounds="[)"), Window.triples(3), Window.landmark(6)]
Step = tuple[Any, ...]
REFUSALS = (InvalidUpdate, StateError)


def draw_term(random: Random) -> Any:
    kind = random.randrange(4)
    if kind == 0:
        return random.randrange(-2, 3)
    if kind == 1:
        return f'"text {random.randrange(4)}"@en'
    return EX(random.randrange(3))


def draw_edge(random: Random) -> tuple[Any, Any, Any]:
    label = EX(random.choice("pqr"))
    return EX(random.randrange(3)), label, draw_term(random)


def draw_script(random: Random, length: int, is_windowed: bool) -> list[Step]:
    """Calls by name and arguments; each may be made in any state, though some are refused."""
    script: list[Step] = [("register", "path", PLAIN["path"], None)]
    if is_windowed:
        script += [("register", "w0", PLAIN["path"], 0), ("register", "w1", PLAIN["self"], 1)]
        script += [("register", "w2", TIMED["timed"], 0)]
    texts = PLAIN | TIMED if is_windowed else PLAIN
    now, fresh = 0, 0
    for _ in range(length):
        kind = random.random()
        if kind < 0.08:
            name = random.choice(list(texts))
            window = random.randrange(len(WINDOWS)) if is_windowed else None
            script.append(("register", f"{name}{len(script)}", texts[name], window))
        elif kind < 0.12:
            script.append(("close", random.randrange(5)))
        elif kind < 0.15:
            script.append(("hold", f"hold{len(script)}"))
        elif is_windowed and kind < 0.65:
            now += random.choice([0, 1, 2, 5])
            events: list[Any] = []
            for _ in range(random.randrange(5)):
                fresh += 1
                identity = random.choice([None, None, f"event {random.randrange(3)}", fresh])
                sign = random.choice("+++-")
                events.append((now + random.randrange(-4, 4), *draw_edge(random), sign, identity))
            if random.random() < 0.1:
                events.append((None, 1, 2, 3))
            script.append(("push", events))
        elif is_windowed and kind < 0.85:
            script.append(("advance", random.choice([None, now, now - 3])))
        else:
            batch = [
                (random.choice("++-"), *draw_edge(random)) for _ in range(random.randrange(1, 5))
            ]
            script.append(("apply", batch, random.random() < 0.2))
    if is_windowed:
        script.append(("end",))
    return script


def play(engine: Engine, step: Step) -> Any:
    """Make one call; what it returned, as far as an engine that was opened again says the same."""
    name, *given = step
    try:
        if name == "register":
            query, text, window = given
            engine.register(text, query, window=None if window is None else WINDOWS[window])
        elif name == "close":
            names = sorted(engine.queries)
            if names:
                engine.queries[names[given[0] % len(names)]].close()
        elif name == "hold":
            return engine.hold(given[0])
        elif name == "push":
            found = engine.push(given[0])
            return found.first, found.accepted, found.late, [place for place, _ in found.refused]
        elif name == "advance":
            return [(p.epoch, p.time, p.refused) for p in engine.advance(given[0])]
        elif name == "end":
            return [(p.epoch, p.time, p.refused) for p in engine.close_stream()]
        elif name == "apply":
            report = engine.apply(given[0], strict=given[1])
            return report.epoch, report.refused
    except REFUSALS as problem:
        return type(problem).__name__
    return None


def look(engine: Engine) -> Any:
    """Everything that can be seen: epoch, answers by query, held epochs, figures of windows."""
    shown = {}
    for name, query in engine.queries.items():
        with query.snapshot() as snapshot:
            shown[name] = {tuple(row): row.multiplicity for row in snapshot}, snapshot.time
    figures = engine.metrics()
    windows = {k: v for k, v in figures["windows"].items() if k != "bytes"}
    return engine.epoch, shown, windows, figures["updates"], figures["refused"]


def make_options(random: Random, is_windowed: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"mode": random.choice(["multigraph", "rdf"])}
    if is_windowed:
        options["event_time"] = EventTime(random.randrange(3), late="quarantine", max_ahead=100)
        if random.random() < 0.5:
            options["window"] = Window(8, 4)
    return options


def play_all(engine: Engine, script: list[Step], after: Callable[[int], object] = id) -> list[Any]:
    """What was returned and what was to be seen, step by step."""
    found = []
    for number, step in enumerate(script):
        engine.note({"step": number})
        found.append((play(engine, step), look(engine)))
        after(number)
    return found


def is_recorded(script: list[Step], expected: list[Any], number: int) -> bool:
    """Whether a step changes anything, so that there is a record of it."""
    name, *_ = script[number]
    returned, shown = expected[number]
    if name in ("push", "advance", "end"):
        return not isinstance(returned, str)  # the name of a refusal
    return name != "hold" and (number == 0 or shown != expected[number - 1][1])


def check_published(engine: Engine, step: Step, returned: Any) -> None:
    """A reopened engine reports what the last step published, if the log has it."""
    assert engine.recovery is not None
    if step[0] in ("advance", "end") and engine.recovery.replayed:
        assert [(p.epoch, p.time, p.refused) for p in engine.published] == returned
