"""The closures of other reasoners, where their rules are ours: owlrl and reasonable."""

from __future__ import annotations

from random import Random

import pytest
import rdflib
from rdflib.namespace import OWL, RDF, RDFS

from triegs import Engine

EX = rdflib.Namespace("http://ex/")
CLASSES = [EX[f"C{n}"] for n in range(6)]
PROPERTIES = [EX[f"p{n}"] for n in range(5)]
NODES = [EX[f"n{n}"] for n in range(8)]


def draw_graph(seed: int, has_owl: bool) -> rdflib.Graph:
    """A schema with cycles and a few instances."""
    random = Random(seed)
    graph = rdflib.Graph()
    for _ in range(6):
        graph.add((random.choice(CLASSES), RDFS.subClassOf, random.choice(CLASSES)))
    for _ in range(3):
        graph.add((random.choice(PROPERTIES), RDFS.subPropertyOf, random.choice(PROPERTIES)))
        graph.add((random.choice(PROPERTIES), RDFS.domain, random.choice(CLASSES)))
        graph.add((random.choice(PROPERTIES), RDFS.range, random.choice(CLASSES)))
    if has_owl:
        graph.add((random.choice(PROPERTIES), OWL.inverseOf, random.choice(PROPERTIES)))
        graph.add((random.choice(PROPERTIES), RDF.type, OWL.SymmetricProperty))
        graph.add((random.choice(PROPERTIES), RDF.type, OWL.TransitiveProperty))
        graph.add((random.choice(CLASSES), OWL.equivalentClass, random.choice(CLASSES)))
        graph.add((random.choice(PROPERTIES), OWL.equivalentProperty, random.choice(PROPERTIES)))
    for _ in range(10):
        graph.add((random.choice(NODES), random.choice(PROPERTIES), random.choice(NODES)))
        graph.add((random.choice(NODES), RDF.type, random.choice(CLASSES)))
    return graph


def close(graph: rdflib.Graph, rules: str) -> set[tuple[str, ...]]:
    """Our closure, triples as N-Triples."""
    engine = Engine(rules=rules)
    engine.apply([("+", *(term.n3() for term in triple)) for triple in graph])
    with engine.register("SELECT ?s ?p ?o { ?s ?p ?o }").snapshot() as snapshot:
        return {tuple(answer) for answer in snapshot}


def pick_instances(triples) -> set[tuple[str, ...]]:
    """The triples about nodes: their types, and our properties between them."""
    found: set[tuple[str, ...]] = set()
    for s, p, o in triples:
        if s in NODES and ((p == RDF.type and o in CLASSES) or (p in PROPERTIES and o in NODES)):
            found.add((s.n3(), p.n3(), o.n3()))
    return found


def pick_plain(triples: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    nodes, own = {n.n3() for n in NODES}, {t.n3() for t in [*CLASSES, *NODES]}
    names = {RDF.type.n3(), *(p.n3() for p in PROPERTIES)}
    return {t for t in triples if t[0] in nodes and t[1] in names and t[2] in own}


@pytest.mark.parametrize("seed", range(12))
def test_rdfs_is_that_of_owlrl(seed):
    owlrl = pytest.importorskip("owlrl", reason="owlrl is not installed")
    graph = draw_graph(seed, has_owl=False)
    ours = close(graph, "rdfs")
    theirs = rdflib.Graph()
    theirs += graph
    owlrl.DeductiveClosure(owlrl.RDFS_Semantics).expand(theirs)
    assert pick_plain(ours) == pick_instances(theirs)
    schema = {RDFS.subClassOf, RDFS.subPropertyOf}
    named = {*CLASSES, *PROPERTIES}
    # Theirs also has what is below itself, for every class.
    expected = {
        (s.n3(), p.n3(), o.n3())
        for s, p, o in theirs
        if p in schema and s in named and o in named and s != o
    }
    assert {t for t in ours if t[1] in {p.n3() for p in schema} and t[0] != t[2]} == expected


@pytest.mark.parametrize("seed", range(12))
def test_rdfs_plus_is_that_of_reasonable(seed):
    reasonable = pytest.importorskip("reasonable", reason="reasonable is not installed")
    graph = draw_graph(seed, has_owl=True)
    reasoner = reasonable.PyReasoner()
    reasoner.from_graph(graph)
    assert pick_plain(close(graph, "rdfs-plus")) == pick_instances(reasoner.reason())
