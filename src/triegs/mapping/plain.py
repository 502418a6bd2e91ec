"""Terms as a table has them: the names of nodes, and the values of literals.

An IRI of the base is the name that it was made of; a number, a boolean, a date or a text is its
value, whatever its spelling. All other terms, and a name that looks like one, are in N-Triples
form. So a name and a text may look the same, and nothing else: for an exact result ask for
``"ntriples"``.
"""

from __future__ import annotations

from typing import Any

from triegs.dictionary.values import TermForm, read_value
from triegs.mapping.names import read_name
from triegs.terms import Kind, Text, parse_term


def read_plain(term: str, base: str) -> Any:
    """The name or the value of a term.

    >>> read_plain("<urn:triegs:New%20York>", "urn:triegs:"), read_plain('"5"', "urn:triegs:")
    ('New York', '5')
    >>> read_plain("<http://ex/a>", "urn:triegs:"), read_plain("<urn:triegs:_%3Ab>", "urn:triegs:")
    ('<http://ex/a>', '<urn:triegs:_%3Ab>')
    """
    name = read_name(term, base)
    if name is not None:
        return term if name.startswith(("<", '"', "_:")) else Text(name)
    return read_value(term, TermForm.PYTHON)


def write_plain(term: str, base: str) -> str:
    """The same as a text.

    >>> write_plain('"67.00"^^<http://www.w3.org/2001/XMLSchema#decimal>', "urn:triegs:")
    '67.00'
    """
    name = read_plain(term, base)
    if isinstance(name, Text):
        return str(name)
    parts = parse_term(term)
    return parts.lexical if parts.kind is Kind.LITERAL and not parts.language else term
