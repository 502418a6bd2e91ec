"""What an assertion weighs: the one switch of the semantics."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """The base weight of an assertion: its number of live events, or 1 while there is one."""

    MULTIGRAPH = "multigraph"
    RDF = "rdf"

    def weight(self, count: int) -> int:
        """
        >>> Mode.MULTIGRAPH.weight(3), Mode.RDF.weight(3), Mode.RDF.weight(0)
        (3, 1, 0)
        """
        return min(count, 1) if self is Mode.RDF else count
