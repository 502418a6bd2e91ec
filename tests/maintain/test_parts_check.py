"""Planted corruption of the compiled core's parts is found, and named."""

from __future__ import annotations

import pytest
from tests.maintain.graph import MODES, Graph

from triegs.kernels.program import EDGE, PRODUCT, TOTAL
from triegs.maintain.parts import Index, Step, is_counts
from triegs.mode import Mode
from triegs.store.contract import StoreCorrupt


def make_example(mode):
    graph = Graph("compiled", mode)
    graph.ask("SELECT * { ?x <a> ?y . ?y <b> ?z . ?y <c> ?w }", root="x")
    graph.ask("SELECT ?x { ?x <a> ?y . ?x <b> ?z . ?x <c> <s1> . ?x <a> ?x }")
    graph.ask("ASK { ?x <a> ?y . ?x <b> ?z }")
    graph.apply([
        ("+", f"<s{i % 4}>", p, f"<s{j % 4}>")
        for p in ("<a>", "<b>", "<c>", "<other>") for i in range(5) for j in range(5)
    ])  # fmt: skip
    graph.check()
    return graph


def find(graph, wanted):
    return next(part for part in graph.core.parts.by_name.values() if wanted(part))


def change_count(part, key=None):
    key = key or next(key for key, _ in part.relation.scan())
    part.relation.set(key, part.relation.get(key) + 1)


def remove(part):
    part.relation.set(next(key for key, _ in part.relation.scan()), 0)


def is_index(part):
    return isinstance(part, Index) and not is_counts(part)


def is_step(kind, is_exact):
    return lambda part: isinstance(part, Step) and (part.kind, part.is_exact) == (kind, is_exact)


CORRUPTIONS = {
    "a changed count in an index": (is_index, change_count),
    "a missing entry of an index": (is_index, remove),
    "a changed weight of a live pair": (is_step(EDGE, False), change_count),
    "a missing live pair": (is_step(EDGE, False), remove),
    "a stale product": (is_step(PRODUCT, True), change_count),
    "a dead key that is listed": (is_step(PRODUCT, False), lambda p: change_count(p, (999,))),
    "a live key that is not listed": (is_step(PRODUCT, False), remove),
    "a wrong total": (is_step(TOTAL, True), change_count),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_is_found(name, mode):
    graph = make_example(mode)
    wanted, corrupt = CORRUPTIONS[name]
    part = next((p for p in graph.core.parts.by_name.values() if wanted(p)), None)
    if part is None:
        # A count that only multiplies the answer is no step of these plans.
        graph.ask("SELECT ?k { ?k <b> ?x . ?x <a> ?y . ?x <c> ?z }", root="k")
        part = find(graph, wanted)
    corrupt(part)
    with pytest.raises(StoreCorrupt) as caught:
        graph.core.parts.check()
    assert part.name in str(caught.value) or isinstance(part, Index)


def test_a_base_count_that_an_index_does_not_know_is_found():
    graph = make_example(Mode.MULTIGRAPH)
    change_count(find(graph, is_counts))
    with pytest.raises(StoreCorrupt):
        graph.core.parts.check()


def test_an_assertion_in_the_wrong_place_is_found():
    graph = make_example(Mode.RDF)
    graph.core.parts.rest.set((graph.encode("<a>"), 1, 2), 1)
    with pytest.raises(StoreCorrupt, match="rest"):
        graph.core.parts.check()
