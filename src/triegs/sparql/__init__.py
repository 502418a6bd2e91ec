"""Query text to query model, and the meaning of its expressions."""

from triegs.sparql.parser import parse

__all__ = ["parse"]
