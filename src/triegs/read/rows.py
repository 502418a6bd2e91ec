"""From counted tuples of ids to the rows that a query's text asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from triegs.compiler.plan import Plan
from triegs.read.walk import Walk, enumerate_answers
from triegs.sparql.expressions import holds
from triegs.sparql.model import Duplicates, Form, expression_variables
from triegs.store.contract import Version

#: One output row by ids (None is an unbound column) with its multiplicity.
Row = tuple[tuple[int | None, ...], int]
Decode = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of one query from any version that it shows.

    Filters that span several atoms run here, answer by answer, over head variables only.
    """

    plan: Plan
    walk: Walk
    decode: Decode

    def rows(self, version: Version) -> Iterator[Row]:
        """Every row with its multiplicity, DISTINCT, OFFSET and LIMIT applied.

        A row comes once. Memory: one cursor per witness node.
        """
        query = self.plan.query
        place = {name: i for i, name in enumerate(query.free)}
        picks = [place.get(name) for name in query.head]
        drops_counts = query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT
        start, end = 0, None if query.limit is None else query.offset + query.limit
        for answer, count in self._answers(version, place):
            stop = start + (1 if drops_counts else count)
            shown = (stop if end is None else min(stop, end)) - max(start, query.offset)
            if shown > 0:
                yield tuple(None if i is None else answer[i] for i in picks), shown
            start = stop
            if end is not None and start >= end:
                return

    def _answers(
        self, version: Version, place: dict[str, int]
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        answers = enumerate_answers(self.walk, version)
        if not self.plan.filters:
            return answers
        names = [(e, [(v, place[v]) for v in expression_variables(e)]) for e in self.plan.filters]
        return (
            (row, count)
            for row, count in answers
            if all(holds(e, {v: self.decode(row[i]) for v, i in wanted}) for e, wanted in names)
        )
