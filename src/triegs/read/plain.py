"""Terms as a table has them: plain names for nodes, values for literals.

An IRI of the base becomes the name that it was made from; a number, boolean, date or string becomes
its value, whatever its spelling. Other terms, and names that look like a term, are in N-Triples
form. So only a name and a string can look the same; for exact results use ``"ntriples"``.
"""

from __future__ import annotations

from typing import Any

from triegs.names import read_plain_name
from triegs.terms.native import Cell, Shape, Sort, read_cell
from triegs.terms.term import Text
from triegs.terms.values import TermForm, read_value


def read_plain(term: str, base: str) -> Any:
    """The name or the value of a term.

    >>> read_plain("<urn:triegs:New%20York>", "urn:triegs:"), read_plain('"5"', "urn:triegs:")
    ('New York', '5')
    >>> read_plain("<http://ex/a>", "urn:triegs:"), read_plain("<urn:triegs:_%3Ab>", "urn:triegs:")
    ('<http://ex/a>', '<urn:triegs:_%3Ab>')
    """
    name = read_plain_name(term, base)
    return read_value(term, TermForm.PYTHON) if name is None else Text(name)


def read_plain_cell(term: str, base: str) -> Cell:
    """The same for a column, with the shape that its type needs."""
    name = read_plain_name(term, base)
    return read_cell(term) if name is None else Cell(term, name, Shape(Sort.TEXT))
