"""Terms as a table has them: the names of nodes, and the values of literals.

An IRI of the base is the name that it was made of; a number, a boolean, a date or a text is its
value, whatever its spelling. All other terms, and a name that looks like one, are in N-Triples
form. So a name and a text may look the same, and nothing else: for an exact result ask for
``"ntriples"``.
"""

from __future__ import annotations

from typing import Any

from triegs.dictionary.values import TermForm, read_value
from triegs.names import read_plain_name
from triegs.read.native import Cell, Shape, Sort, read_cell
from triegs.terms import Text


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
    """The same for a column, with what its type must hold."""
    name = read_plain_name(term, base)
    return read_cell(term) if name is None else Cell(term, name, Shape(Sort.TEXT))
