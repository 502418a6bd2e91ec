"""Planted corruption of the core's views is found, and named."""

from __future__ import annotations

import pytest
from tests.maintain.graph import MODES, Graph

from triegs.maintain.kernels.tables import (
    EDGE,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    PRODUCT,
    RANKING,
    TOTAL,
)
from triegs.maintain.model import Index, Step, is_counts
from triegs.mode import Mode
from triegs.store.contract import StoreCorrupt
from triegs.store.kernels.layout import FANOUT, HEAD, LOW
from triegs.store.kernels.trie import find_leaf


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
    return next(view for view in graph.core.views.by_name.values() if wanted(view))


def change_count(view, key=None):
    key = key or next(key for key, _ in view.relation.scan())
    view.relation.set(key, view.relation.get(key) + 1)


def remove(view):
    view.relation.set(next(key for key, _ in view.relation.scan()), 0)


def is_index(view):
    return isinstance(view, Index) and not is_counts(view)


def is_step(kind, is_exact):
    return lambda view: isinstance(view, Step) and (view.kind, view.is_exact) == (kind, is_exact)


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
    view = next((p for p in graph.core.views.by_name.values() if wanted(p)), None)
    if view is None:
        # A count that only multiplies the answer is no step of these plans.
        graph.ask("SELECT ?k { ?k <b> ?x . ?x <a> ?y . ?x <c> ?z }", root="k")
        view = find(graph, wanted)
    corrupt(view)
    with pytest.raises(StoreCorrupt) as caught:
        graph.core.views.check()
    assert view.name in str(caught.value) or isinstance(view, Index)


def test_a_base_count_that_an_index_does_not_know_is_found():
    graph = make_example(Mode.MULTIGRAPH)
    change_count(find(graph, is_counts))
    with pytest.raises(StoreCorrupt):
        graph.core.views.check()


def test_an_assertion_in_the_wrong_relation_is_found():
    graph = make_example(Mode.RDF)
    graph.core.views.unindexed.set((graph.encode("<a>"), 1, 2), 1)
    with pytest.raises(StoreCorrupt, match="unindexed"):
        graph.core.views.check()


# Counts


def make_numbered(mode=Mode.MULTIGRAPH):
    """Live pairs, products and a ranking with counts, and hubs of both kinds of relation."""
    graph = Graph("compiled", mode)
    text = "SELECT * { ?x <a> ?y . ?y <b> ?z . ?y <c> ?w . ?x <c> ?u }"
    graph.ask(text, root="x", keep=["count", "slice"])
    wide = [("+", "<s0>", p, f"<t{n}>") for p in ("<a>", "<b>", "<c>") for n in range(80)]
    deep = [("+", f"<t{n}>", p, "<s1>") for p in ("<b>", "<c>") for n in range(80)]
    graph.core.apply(graph.rows([*wide, *deep, ("+", "<t39>", "<a>", "<t1>")]))
    graph.core.store.check()
    graph.core.views.check()
    return graph


def find_number(graph, wanted):
    """The address of a key's word in the trie of a view."""
    view = find(graph, wanted)
    words = graph.core.store.words
    (key, *_), _ = next(view.relation.scan())
    leaf = int(find_leaf(words, int(words[view.address]), key))
    return leaf + HEAD + key % FANOUT


def find_hub(graph, wanted):
    """The address of the first word of a hub of a view."""
    view = find(graph, wanted)
    words = graph.core.store.words
    for key in {pair[0] for pair, _ in view.relation.scan()}:
        reference = int(words[int(find_leaf(words, int(words[view.address]), key))
                              + HEAD + key % FANOUT])  # fmt: skip
        if reference & 1:
            return reference - 1 + HEAD + (int(words[reference]) & LOW).bit_length() - 1
    raise AssertionError("no hub")


def is_summed(view):
    return view.is_summed


NUMBERS = {
    "of a live pair's first id": (find_number, is_step(ORDERED_EDGE, True)),
    "of a product": (find_number, is_step(ORDERED_PRODUCT, True)),
    "of a ranking": (find_number, is_step(RANKING, True)),
    "in a hub of live pairs": (find_hub, is_step(ORDERED_EDGE, True)),
    "in a hub of an index": (find_hub, is_summed),
}


@pytest.mark.parametrize("far", [FANOUT, 2 * FANOUT])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_wrong_count_is_found(name, far):
    graph = make_numbered()
    find_word, wanted = NUMBERS[name]
    graph.core.store.words[find_word(graph, wanted) + far] += 1
    with pytest.raises(StoreCorrupt):
        graph.core.views.check()


@pytest.mark.parametrize("name", ["of a ranking", "in a hub of live pairs"])
def test_a_count_that_is_not_the_sum_is_found_in_the_store(name):
    """Invariant 13 of docs/trie.md."""
    graph = make_numbered()
    find_word, wanted = NUMBERS[name]
    graph.core.store.words[find_word(graph, wanted) + FANOUT] += 1
    with pytest.raises(StoreCorrupt, match="invariant 13"):
        graph.core.store.check()


def test_a_count_without_a_word_is_found():
    graph = make_numbered()
    at = find_number(graph, is_step(ORDERED_PRODUCT, True))
    graph.core.store.words[at] = 0
    with pytest.raises(StoreCorrupt, match=r"invariant (2|13)"):
        graph.core.store.check()
