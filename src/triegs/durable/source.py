"""A query as it was registered: what is told again when the engine is opened again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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

    def write(self) -> dict[str, Any]:
        """As JSON has it."""
        window = None if self.window is None else write_window(self.window)
        return {**self._asdict(), "keep": list(self.keep), "window": window}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> QuerySource:
        window = None if fields["window"] is None else read_window(fields["window"])
        values = {name: fields[name] for name in cls._fields}
        return cls(**{**values, "keep": tuple(fields["keep"]), "window": window})
