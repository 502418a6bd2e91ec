"""Plain text cells as terms.

==========================  =================================================================
``<http://ex/a>``           the IRI
``ex:a``                    an IRI, if the prefix ``ex`` is declared
``_:b``                     a blank node
``5``, ``-2``               ``xsd:integer``
``1.5``, ``1e3``            ``xsd:decimal``, ``xsd:double``
``true``, ``false``         ``xsd:boolean``
anything else               a string literal
==========================  =================================================================

A predicate must be an IRI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from triegs.terms.term import XSD, canonical_term, iri, literal, scope_label

_NUMBERS = (
    (re.compile(r"[+-]?[0-9]+"), XSD + "integer"),
    (re.compile(r"[+-]?[0-9]*\.[0-9]+"), XSD + "decimal"),
    (re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+"), XSD + "double"),
    (re.compile(r"true|false"), XSD + "boolean"),
)


def read_plain_term(text: str, prefixes: Mapping[str, str], scope: str = "") -> str:
    """The term that a cell stands for; `ValueError` for an invalid IRI or label.

    >>> read_plain_term("ex:a", {"ex": "http://ex/"}), read_plain_term("at ex:a", {"ex": "http://ex/"})
    ('<http://ex/a>', '"at ex:a"')
    >>> read_plain_term("-7", {})
    '"-7"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    if text.startswith("<") and text.endswith(">"):
        return canonical_term(text)
    if text.startswith("_:"):
        return scope_label(canonical_term(text), scope)
    prefix, colon, local = text.partition(":")
    if colon and prefix in prefixes and not any(letter.isspace() for letter in local):
        return iri(prefixes[prefix] + local)
    for pattern, datatype in _NUMBERS:
        if pattern.fullmatch(text):
            return literal(text, datatype)
    return canonical_term(literal(text))


def read_plain(
    column: Any, name: str, prefixes: Mapping[str, str], scope: str
) -> tuple[Any, dict[int, str]]:
    """A column of texts as terms, and problems by row. Cost: a Python step per row."""
    terms: list[str | None] = []
    problems: dict[int, str] = {}
    for row, text in enumerate(column.to_pylist()):
        term = None
        if text is not None:
            try:
                term = read_plain_term(text, prefixes, scope)
                if name == "predicate" and not term.startswith("<"):
                    raise ValueError(f"a predicate must be an IRI, not {text!r}")
            except ValueError as problem:
                problems[row] = str(problem)
        terms.append(term)
    return pa.array(terms, pa.string()), problems
