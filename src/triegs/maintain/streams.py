"""Streams: the entries that an epoch brings for a label, a whole window graph, or a selection of
these.

A selection holds what one atom matches: constants, repeated variables and filters exclude entries,
and its columns are the atom's variables. Streams store nothing; the rows they feed do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triegs.compiler.keys import alias_text, expression_text
from triegs.compiler.plan import Alias
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.tables import IS_ACCEPTED, IS_EQUAL, IS_ID
from triegs.sparql.model import expression_variables, is_variable

Columns = NDArray[np.int64]  # by column, weights last


@dataclass(frozen=True, slots=True)
class Test:
    """A condition on an entry: a kind of `triegs.maintain.kernels.tables`, with the columns that it
    reads and an id, or the number of a judge.
    """

    kind: int
    columns: tuple[int, ...]
    value: int = 0

    def hold(self, rows: Columns, judges: Judges) -> NDArray[np.bool_]:
        """For each row, whether it passes."""
        if self.kind == IS_ACCEPTED:
            return judges.judge_columns(self.value, [rows[column] for column in self.columns])
        wanted = self.value if self.kind == IS_ID else rows[self.columns[1]]
        found: NDArray[np.bool_] = rows[self.columns[0]] == wanted
        return found


@dataclass(frozen=True, slots=True)
class Stream:
    """The triples of a label or of a window graph, or those of another stream that pass all tests.

    A label has the columns (subject, object), a window graph (subject, predicate, object).
    `columns` are the source columns that a selection keeps.
    """

    name: str
    arity: int
    predicate: int | None = None
    window_graph: int | None = None
    source: Stream | None = None
    columns: tuple[int, ...] = ()
    tests: tuple[Test, ...] = ()

    @property
    def change_at(self) -> int:
        """The offset of the change within an entry."""
        return max(self.arity, 2)

    @property
    def judges(self) -> Iterator[int]:
        return (test.value for test in self.tests if test.kind == IS_ACCEPTED)

    def select(self, rows: Columns, judges: Judges) -> Columns:
        """The rows of its source that belong to the stream."""
        for test in self.tests:
            rows = rows[:, test.hold(rows, judges)]
        return rows[[*self.columns, -1]]


def label_stream(predicate: int) -> Stream:
    return Stream(f"label {predicate}", 2, predicate=predicate)


def whole_stream(graph: int) -> Stream:
    """All triples of a window graph, or of the static graph (0)."""
    name = f"all triples of window graph {graph}" if graph else "all triples"
    return Stream(name, 3, window_graph=graph)


def find_stream(alias: Alias, encode: Callable[[str], int], judges: Judges) -> Stream:
    """The stream that an atom matches; its columns are the atom's variables."""
    terms: Sequence[str]
    if alias.label is None:
        graph = 0 if alias.relation is None else -encode(alias.relation)
        source, terms = whole_stream(graph), alias.atom
    else:
        assert alias.relation is not None
        source, terms = label_stream(encode(alias.relation)), (alias.atom[0], alias.atom[2])
    tests: list[Test] = []
    columns: dict[str, int] = {}
    for column, term in enumerate(terms):
        if not is_variable(term):
            tests.append(Test(IS_ID, (column,), encode(term)))
        elif term in columns:
            tests.append(Test(IS_EQUAL, (column, columns[term])))
        else:
            columns[term] = column
    # Atoms with equal texts are one stream, whatever the order of their filters.
    for expression in sorted(alias.filters, key=lambda e: expression_text(e, alias.variables)):
        names = expression_variables(expression)
        judge = judges.find(expression, names)
        tests.append(Test(IS_ACCEPTED, tuple(columns[name] for name in names), judge))
    if not tests:
        return source
    # Equal texts may mean different ids once a window's label was freed: their sources differ.
    name = f"{alias_text(alias)} in {source.name}"
    return Stream(name, len(columns), source=source, columns=tuple(columns.values()),
                  tests=tuple(tests))  # fmt: skip
