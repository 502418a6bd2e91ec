"""A query as it was registered: what is told again when the engine is opened again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.errors import QueryError
from triegs.sparql import Query, parse
from triegs.sparql.window import Window
from triegs.windows.state import read_window, write_window

if TYPE_CHECKING:
    from triegs.engine import Engine


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
    #: The labels that its atoms read instead of their own, if it is given any.
    labels: tuple[str, ...] = ()

    def write(self) -> dict[str, Any]:
        """As JSON has it."""
        window = None if self.window is None else write_window(self.window)
        kept = {"keep": list(self.keep), "window": window, "labels": list(self.labels)}
        return {**self._asdict(), **kept}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> QuerySource:
        window = None if fields["window"] is None else read_window(fields["window"])
        values = {name: fields[name] for name in cls._fields if name in fields}
        lists = {"keep": tuple(fields["keep"]), "labels": tuple(fields.get("labels", ()))}
        return cls(**{**values, **lists, "window": window})

    def parse(self, *, refuse_patterns: bool = True) -> Query:
        """The query that is meant. Cost: that of parsing, once for a text that comes again."""
        try:
            found = _parse(self.text, tuple(self.prefixes.items()), refuse_patterns)
        except TypeError:  # what cannot be hashed is no text, which `parse` says better
            found = parse(self.text, self.prefixes)
        if not self.labels:
            return found
        atoms = zip(found.atoms, self.labels, strict=True)
        return replace(found, atoms=tuple(atom._replace(predicate=to) for atom, to in atoms))


@lru_cache(1_024)
def _parse(text: str, prefixes: tuple[tuple[str, str], ...], refuse_patterns: bool) -> Query:
    return parse(text, dict(prefixes), refuse_patterns=refuse_patterns)


def register_again(engine: Engine, fields: Mapping[str, Any]) -> dict[str, str]:
    """Register a query that a directory tells of; by its name, why it is refused today, if it is.

    A regular expression that an earlier version took may be refused by this one. Such a query
    stands in for itself, matching nothing, so that its windows have their epochs while the log is
    read; whoever opens the directory closes it before anybody can ask.
    """
    source = QuerySource.read(fields)
    try:
        source.parse()
    except QueryError as problem:
        engine._register(source, refuse_patterns=False)
        return {str(source.name): str(problem)}
    engine._register(source)
    return {}
