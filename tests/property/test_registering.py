"""Nothing that compiles is refused by an engine."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stress.drawing import draw_text, draw_triple

from triegs.compiler import compile_query
from triegs.engine import Engine
from triegs.errors import PlanError
from triegs.options import KeepName
from triegs.sparql import parse
from triegs.sparql.window import Window
from triegs.testing.strategies import patterns, updates

KEEPS: list[list[KeepName]] = [[], ["count"], ["slice"], ["count", "slice"]]
WINDOWS = [None, Window(10, slide=5), Window.triples(3), Window.landmark(5)]


def register(engine: Engine, text: str, *, root: str | None, **options) -> None:
    """By itself, and once more with a root that the plan may have."""
    with engine.register(text, **options) as query, query.snapshot() as snapshot:
        assert snapshot.epoch == engine.epoch
    try:
        compile_query(parse(text), root=root, keep=options["keep"])
    except PlanError:
        with pytest.raises(PlanError):
            engine.register(text, root=root, **options)
    else:
        engine.register(text, root=root, **options).close()


@given(
    patterns(), st.lists(updates(deletes=False), max_size=6), st.sampled_from(KEEPS),
    st.sampled_from(WINDOWS), st.sampled_from(["multigraph", "rdf"]), st.data(),
)  # fmt: skip
def test_what_compiles_is_registered(pattern, drawn, keep, window, mode, data):
    engine = Engine(mode)
    engine.apply(drawn)
    root = data.draw(st.sampled_from(pattern.head)) if pattern.head else None
    register(engine, pattern.text, root=root, keep=keep, window=window)
    assert not engine.queries


@pytest.mark.parametrize("seed", range(4))
def test_so_are_the_queries_of_the_gate(seed):
    random = Random(seed)
    engine = Engine(random.choice(["multigraph", "rdf"]))
    engine.apply([("+", *draw_triple(random)) for _ in range(12)])
    for _ in range(60):
        text = draw_text(random)
        head = parse(text).head
        root = random.choice(head) if head else None
        keep, window = random.choice(KEEPS), random.choice(WINDOWS)
        register(engine, text, root=root, keep=keep, window=window)
    assert not engine.queries
