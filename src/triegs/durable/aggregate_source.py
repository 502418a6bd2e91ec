"""An aggregate as it was made, so that opening a directory can make it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from triegs.jit.words import Words
from triegs.sparql.window import Window
from triegs.windows.state import read_window, write_window


class AggregateSource(NamedTuple):
    """The options of `triegs.Engine.aggregate` and of `triegs.StandingQuery.aggregate`.

    An operator of the user is not stored, only that there was one: `is_custom`.

    >>> source = AggregateSource("?x :p ?v", None, ("?x",), "sum", "?v", "double",
    ...                          Window("10s"), "sums", {}, False, "ISTREAM")
    >>> AggregateSource.read(source.write()) == source
    True
    """

    #: A triple pattern, or the name of a query whose answers are the events.
    pattern: str | None
    query: str | None
    group: tuple[str, ...]
    function: str
    value: str | None
    numbers: str
    window: Window
    name: str
    prefixes: Mapping[str, str]
    is_custom: bool
    #: Of a query: whether its events are added or removed answers.
    changes: str

    def write(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "group": list(self.group), "window": write_window(self.window)}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> AggregateSource:
        values = {name: fields[name] for name in cls._fields}
        window = read_window(fields["window"])
        return cls(**{**values, "group": tuple(fields["group"]), "window": window})


class SavedEvents(NamedTuple):
    """The events of a window over the answers of a query. Keys are ids of terms, values words."""

    times: Words
    keys: Words
    values: Words
    usable: Words
