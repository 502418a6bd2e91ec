"""The largest allowed queries: they register, explain and answer without blocking others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from triegs import Engine, Window, compile_query, parse
from triegs.engine import engine as engine_module
from triegs.engine import registration
from triegs.explain import explain
from triegs.options import KeepName
from triegs.sparql.pattern_parser import MAX_PATTERNS
from triegs.windows.settings import EventTime

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")

PREFIXES = {"": "http://ex/"}
#: A path through 500 labels, from the first node to the last.
CHAIN = [
    ("+", f"<http://ex/n{i}>", f"<http://ex/p{i}>", f"<http://ex/n{i + 1}>")
    for i in range(MAX_PATTERNS)
]
FIRST, LAST = "<http://ex/n0>", f"<http://ex/n{MAX_PATTERNS}>"
ATOMS = " . ".join(f"?x{i} :p{i} ?x{i + 1}" for i in range(MAX_PATTERNS))
PATH = "/".join(f":p{i}" for i in range(MAX_PATTERNS))
STAR = " ; ".join(f":p{i} ?y{i}" for i in range(MAX_PATTERNS))

CHAINS = [
    (f"SELECT ?x0 ?x1 {{ {ATOMS} }}", (FIRST, "<http://ex/n1>")),
    (f"SELECT ?x {{ ?x {PATH} ?y }}", (FIRST,)),
    (f"SELECT ?y {{ ?x {PATH} ?y }}", (LAST,)),
    (f"ASK {{ {ATOMS} }}", ()),
]


@pytest.mark.parametrize(("text", "answer"), CHAINS)
@pytest.mark.parametrize("keep", [(), ("count", "slice")])
def test_a_chain(text: str, answer: tuple[str, ...], keep: tuple[KeepName, ...]) -> None:
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register(text, keep=keep)
        engine.apply(CHAIN)
        with query.snapshot() as snapshot:
            assert [tuple(found) for found in snapshot] == [answer]
            assert snapshot.count() == 1
        engine.apply([("-", *CHAIN[250][1:])])
        with query.snapshot() as snapshot:
            assert list(snapshot) == []


@pytest.mark.parametrize("root", [None, "x0", f"x{MAX_PATTERNS}"] if SOAK else ["x0"])
def test_every_variable_of_a_chain_from_any_root(root: str | None) -> None:
    """A plan as deep as the query is long: nothing goes down it by recursion."""
    text = f"SELECT * {{ {ATOMS} }}"
    plan = compile_query(parse(text, PREFIXES), root=root)
    for output in ("text", "json", "svg", "mermaid"):
        assert explain(plan, output)
    with Engine(prefixes=PREFIXES) as engine:
        query = engine.register(text, root=root, keep=["count"])
        engine.apply(CHAIN)
        with query.snapshot() as snapshot:
            (found,) = snapshot
            assert (found[0], found[-1], len(found)) == (FIRST, LAST, MAX_PATTERNS + 1)
        query.close()


def test_a_path_whose_ends_are_shown() -> None:
    """Not free-connex: a join of 150 inputs is kept."""
    steps = 150
    text = f"SELECT ?x ?y {{ ?x {'/'.join(f':p{i}' for i in range(steps))} ?y }}"
    with Engine(prefixes=PREFIXES) as engine:
        engine.apply(CHAIN)
        with engine.register(text).snapshot() as snapshot:
            assert [tuple(found) for found in snapshot] == [(FIRST, f"<http://ex/n{steps}>")]


def test_a_star_and_components_that_share_nothing() -> None:
    subject = "<http://ex/n0>"
    edges = [("+", subject, *update[2:]) for update in CHAIN]
    apart = " ".join(f"{{ ?s{i} :p{i} ?o{i} }}" for i in range(MAX_PATTERNS))
    with Engine(prefixes=PREFIXES) as engine:
        engine.apply(edges)
        for text in (f"SELECT ?x {{ ?x {STAR} }}", f"SELECT ?s0 {{ {apart} }}"):
            with engine.register(text).snapshot() as snapshot:
                assert [tuple(found) for found in snapshot] == [(subject,)]


def test_long_expressions_and_blocks() -> None:
    numbers = list(range(4_000))
    pairs = " ".join(f"(1 {i})" for i in numbers)
    texts = [
        f"SELECT ?y {{ ?x :p ?y FILTER({' && '.join(f'?y != {i}' for i in numbers[:800])}) }}",
        f"SELECT ?y {{ ?x :p ?y FILTER({' || '.join(f'?y = {i + 900}' for i in numbers[:800])}) }}",
        f"SELECT ?y {{ ?x :p ?y FILTER(?y IN ({', '.join(map(str, numbers[900:2900]))})) }}",
        f"SELECT ?y {{ ?x :p ?y VALUES ?y {{ {' '.join(map(str, numbers[900:]))} }} }}",
        f"SELECT ?y {{ ?x :p ?y VALUES (?x ?y) {{ {pairs} }} FILTER(?y > 900) }}",
        f"SELECT ?y {{ ?x :p ?y {' '.join(f'FILTER(?y != {i})' for i in numbers[:800])} }}",
    ]
    with Engine(prefixes=PREFIXES) as engine:
        engine.apply([("+", 1, "<http://ex/p>", 5), ("+", 1, "<http://ex/p>", 1_000)])
        for text in texts:
            assert explain(compile_query(parse(text, PREFIXES)))
            with engine.register(text).snapshot() as snapshot:
                assert [tuple(answer) for answer in snapshot.answers("python")] == [(1_000,)]


@contextmanager
def registering(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str, **options: object
) -> Iterator[None]:
    """Inside, another thread registers a query and waits within `step`."""
    home = registration if step == "compile_query" else engine_module
    begun, go_on = threading.Event(), threading.Event()
    real = getattr(home, step)

    def wait(*arguments: object, **named: object) -> object:
        begun.set()
        assert go_on.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(home, step, wait)
    thread = threading.Thread(
        target=engine.register, args=("SELECT ?x { ?x <p> ?y }", "late"), kwargs=options
    )
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        go_on.set()
        thread.join()


@pytest.mark.parametrize("step", ["compile_query", "warn_about"])
def test_epochs_continue_while_a_query_is_compiled(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine() as engine:
        with registering(engine, monkeypatch, step):
            for number in range(3):
                assert engine.apply([("+", number, "<p>", 1)]).epoch == number + 1
        with engine.queries["late"].snapshot() as snapshot:
            assert (snapshot.epoch, len(snapshot)) == (4, 3)


def test_slides_continue_while_a_query_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(window=Window("10s"), event_time=EventTime()) as engine:
        engine.register("ASK { ?x <q> ?y }", window=Window("5s"))
        with registering(engine, monkeypatch, "compile_query", window=Window("20s")):
            engine.push([(1_000, 1, "<p>", 2)])
            assert [slide.time for slide in engine.advance(to=10_000)] == [5_000, 10_000]
        engine.push([(11_000, 2, "<p>", 2)])
        engine.advance(to=20_000)
        with engine.queries["late"].snapshot() as snapshot:
            assert len(snapshot) == 2
