"""Query text to query model, and the evaluation of expressions."""

from triegs.sparql.model import Query
from triegs.sparql.parser import parse

__all__ = ["Query", "parse"]
