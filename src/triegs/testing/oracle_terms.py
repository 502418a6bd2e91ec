"""Terms of the oracle: N-Triples texts, rdflib's objects, values, and their total order."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import rdflib

from triegs.testing import oracle_values as values

ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
STRING = rdflib.XSD.string  # once: rdflib looks each name up in all annotations


class DataBlank(str):
    """A blank node of the data: a constant, unlike a blank node of the query."""


@lru_cache(maxsize=1 << 14)
def term(text: str) -> Any:
    """An N-Triples term as an rdflib term, with its lexical form unchanged."""
    if text.startswith("_:"):
        return DataBlank(text)
    if text.startswith("<"):
        return rdflib.URIRef(text[1:-1])
    lexical, _, suffix = text[1:].rpartition('"')
    lexical = re.sub(r"\\(.)", lambda m: ESCAPES[m[1]], lexical)
    language = suffix[1:] if suffix.startswith("@") else None
    datatype = rdflib.URIRef(suffix[3:-1]) if suffix.startswith("^^") else None
    return rdflib.Literal(lexical, lang=language, datatype=datatype, normalize=False)


def spell(value: Any) -> str:
    """The N-Triples form of a term.

    >>> spell(rdflib.Literal(5)), spell(rdflib.Literal("a", lang="en")), spell(term("_:b"))
    ('"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"@en', '_:b')
    """
    if type(value) is rdflib.URIRef:  # most terms; questions about subclasses take far longer
        return f"<{value}>"
    if isinstance(value, DataBlank):
        return str(value)
    if isinstance(value, rdflib.BNode):  # a `DataBlank` that has passed through an expression
        return f"_:{value}"
    if not isinstance(value, rdflib.Literal):
        return f"<{value}>"
    lexical = str(value).replace("\\", "\\\\").replace('"', '\\"')
    lexical = lexical.replace("\n", "\\n").replace("\r", "\\r")
    plain = value.datatype in (None, STRING)
    suffix = f"@{value.language}" if value.language else "" if plain else f"^^<{value.datatype}>"
    return f'"{lexical}"{suffix}'


def value_of(found: Any) -> values.Value | None:
    if not isinstance(found, rdflib.Literal):
        return None
    return values.read(str(found), found.datatype and str(found.datatype), found.language)


def number(found: values.Number) -> Any:
    lexical, datatype = values.spell_number(found)
    return rdflib.Literal(lexical, datatype=rdflib.XSD[datatype], normalize=False)


def order_key(found: Any) -> tuple[object, ...]:
    """Unbound (None), blank nodes, IRIs, literals by value; equal values have equal keys.

    >>> order_key(rdflib.Literal(2)) < order_key(rdflib.Literal(10)) < order_key(rdflib.Literal(""))
    True
    """
    if found is None:
        return (0,)
    if isinstance(found, rdflib.Literal):
        return (3, *values.rank_literal(value_of(found), found.datatype, str(found)))
    if isinstance(found, rdflib.URIRef):
        return 2, str(found)
    return 1, str(found).removeprefix("_:")
