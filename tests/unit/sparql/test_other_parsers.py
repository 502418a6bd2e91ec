"""Other SPARQL parsers agree: pyoxigraph on what is a query, rdflib on the triples of each."""

from __future__ import annotations

import random
from collections import Counter

import pyoxigraph as ox
import pytest
import rdflib
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery
from tests.unit.sparql.corpus import QUERIES, VOCABULARY, WORDS, mutate

from triegs.errors import QueryError
from triegs.sparql import parse
from triegs.sparql.model import is_variable
from triegs.terms.term import XSD_STRING, literal

STORE = ox.Store()
#: Accepted here and not by pyoxigraph, each with the reason why it is valid SPARQL.
KNOWN = [
    ("Duplicated variable name in SELECT", "a variable may be selected twice"),
    ("contains a variable that is unbound", "GROUP BY ((?x) AS ?k) binds ?k"),
]


def refusal_of_pyoxigraph(text: str) -> str | None:
    # Keywords are case-insensitive; pyoxigraph accepts these two in lower case only.
    text = text.replace("FALSE", "false").replace("TRUE", "true")
    try:
        STORE.query(text, base_iri="http://base/")
    except SyntaxError as error:
        return str(error)
    return None


@pytest.mark.parametrize("query", QUERIES)
def test_pyoxigraph_accepts_the_corpus(query: str) -> None:
    assert refusal_of_pyoxigraph(query) is None


def test_what_is_accepted_here_is_accepted_by_pyoxigraph() -> None:
    source = random.Random(4)
    accepted = 0
    for _ in range(4000):
        words = list(source.choice(WORDS))
        mutate(words, VOCABULARY, source)
        text = " ".join(words)
        try:
            parse(text)
        except QueryError:
            continue
        accepted += 1
        refusal = refusal_of_pyoxigraph(text)
        assert refusal is None or any(known in refusal for known, _ in KNOWN), (text, refusal)
    assert accepted > 100


def spelt(term: object) -> str:
    """An rdflib term in our spelling, every blank node or fresh variable as ``?_``."""
    if isinstance(term, rdflib.Literal):
        return literal(str(term), str(term.datatype or XSD_STRING), term.language or "")
    if isinstance(term, rdflib.Variable):
        return f"?{term}"
    return "?_" if isinstance(term, rdflib.BNode) else f"<{term}>"


def triples_of_rdflib(node: object) -> list[tuple[str, ...]]:
    """All triples of a parse tree, prefixes resolved."""
    found: list[tuple[str, ...]] = []
    stack = [translateQuery(node).algebra]  # type: ignore[arg-type]
    while stack:
        node = stack.pop()
        if node.name == "BGP":
            found += [tuple(spelt(term) for term in triple) for triple in node.triples]
        stack += [
            child for child in node.values() if hasattr(child, "name") and hasattr(child, "keys")
        ]
    return found


@pytest.mark.parametrize("query", [query for query in QUERIES if "^:q/" not in query])
def test_rdflib_reads_the_same_triples(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdflib, "NORMALIZE_LITERALS", False)
    # Two texts that rdflib misreads: it respells negative numbers and keeps local escapes.
    query = query.replace("-3e0", "3e0").replace(r"a\,b", "ab")
    ours = [
        tuple("?_" if is_variable(term) and term.startswith("?_:") else term for term in atom)
        for atom in parse(query).atoms
    ]
    assert Counter(ours) == Counter(triples_of_rdflib(parseQuery(query)))
