"""Selections: the part of a base relation that one atom sees, over the atom's variables."""

from __future__ import annotations

from dataclasses import dataclass

from triegs.maintain.joins import Accept
from triegs.maintain.source import Source
from triegs.store.contract import Key


@dataclass(slots=True)
class SelectionStep:
    """Keeps the tuples that agree with the atom's constants and repeated variables and pass its
    filters; `terms` is the atom over the base's columns, ids for constants.
    """

    base: Source
    chosen: Source
    terms: tuple[str | int, ...]
    variables: tuple[str, ...]
    accepts: tuple[Accept, ...]

    @property
    def outputs(self) -> tuple[Source, ...]:
        return (self.chosen,)

    def maintain(self) -> None:
        for key, (_, new) in list(self.base.changes.items()):
            self._take(key, new)

    def build(self) -> None:
        for key, count in list(self.base.scan()):
            self._take(key, count)

    def _take(self, key: Key, count: int) -> None:
        values: dict[str, int] = {}
        for term, value in zip(self.terms, key, strict=True):
            known = term if isinstance(term, int) else values.setdefault(term, value)
            if known != value:
                return
        chosen = tuple(values[v] for v in self.variables)
        if all(accept(chosen) for accept in self.accepts):
            self.chosen.set(chosen, count)


@dataclass(slots=True)
class RowsStep:
    """Rows that no update changes: a row written twice counts twice."""

    source: Source
    rows: tuple[Key, ...]

    @property
    def outputs(self) -> tuple[Source, ...]:
        return (self.source,)

    def maintain(self) -> None:
        """Nothing: no update reaches these rows."""

    def build(self) -> None:
        for row in self.rows:
            self.source.add(row, 1)
