"""A query as it was registered, so that opening a directory can register it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from triegs.sparql import Query, parse
from triegs.sparql.window import Window
from triegs.windows.state import read_window, write_window


class QuerySource(NamedTuple):
    """The text and the options of `triegs.Engine.register`.

    >>> source = QuerySource("ASK { ?x ?p ?y }", "any", None, ("count",), Window("10s"), {})
    >>> QuerySource.read(source.write()) == source
    True
    """

    text: str
    name: str | None
    root: str | None
    keep: tuple[str, ...]
    window: Window | None
    prefixes: Mapping[str, str]
    #: The labels that its atoms read instead of their own, if given.
    labels: tuple[str, ...] = ()
    #: Whether its groups are to be merged with those of other partitions.
    is_partial: bool = False

    def write(self) -> dict[str, Any]:
        """For JSON."""
        window = None if self.window is None else write_window(self.window)
        kept = {"keep": list(self.keep), "window": window, "labels": list(self.labels)}
        found = {**self._asdict(), **kept}
        if not self.is_partial:  # as in files that are older than this field
            del found["is_partial"]
        return found

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> QuerySource:
        window = None if fields["window"] is None else read_window(fields["window"])
        values = {name: fields[name] for name in cls._fields if name in fields}
        lists = {"keep": tuple(fields["keep"]), "labels": tuple(fields.get("labels", ()))}
        return cls(**{**values, **lists, "window": window})

    def parse(self, *, refuse_patterns: bool = True) -> Query:
        """The parsed query. Cost: that of parsing; repeated texts are cached."""
        try:
            found = _parse(self.text, tuple(self.prefixes.items()), refuse_patterns)
        except TypeError:  # not hashable, so not a text: `parse` has the better message
            found = parse(self.text, self.prefixes)
        if self.is_partial and found.grouping is not None:
            found = replace(found, grouping=replace(found.grouping, is_partial=True))
        if not self.labels:
            return found
        atoms = zip(found.atoms, self.labels, strict=True)
        return replace(found, atoms=tuple(atom._replace(predicate=to) for atom, to in atoms))


@lru_cache(1_024)
def _parse(text: str, prefixes: tuple[tuple[str, str], ...], refuse_patterns: bool) -> Query:
    return parse(text, dict(prefixes), refuse_patterns=refuse_patterns)
