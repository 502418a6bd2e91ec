"""Rows of a table to triples, by templates such as ``{from} :paid {to}``.

Read in this order: `parser` (a text to a `Mapping`), `model` (what that is), `cells` (a column to
terms), `rows` (a batch of rows to its triples). `triegs.names` has plain names as IRIs, and back.
"""

from triegs.mapping.model import Mapping
from triegs.mapping.parser import parse_mapping

__all__ = ["Mapping", "parse_mapping"]
