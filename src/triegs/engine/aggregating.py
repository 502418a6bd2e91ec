"""The methods of an engine that make window aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from triegs.aggregates.swag.operators import Operator
from triegs.aggregates.windowed.functions import FunctionName, NumbersName
from triegs.engine.aggregate_options import AggregateOptions
from triegs.engine.internals import EngineInternals
from triegs.engine.window_aggregate import WindowAggregate
from triegs.sparql.window import Window


class Aggregating:
    """A part of `triegs.Engine`."""

    _internals: EngineInternals

    def aggregate(
        self,
        pattern: str,
        group: str | Iterable[str] = (),
        function: FunctionName | Operator = "count",
        window: Window | None = None,
        *,
        value: str | None = None,
        numbers: NumbersName = "double",
        name: str | None = None,
    ) -> WindowAggregate:
        """Aggregate the events of a window that match one triple pattern, without a query.

        The events are those that a query with the same window reads, each counted once whatever the
        mode; the static graph is not read. They are grouped by variables of the pattern, which may
        have constants and filters over one variable. `function` is ``"count"``, ``"sum"``,
        ``"avg"``, ``"min"`` or ``"max"`` of the numbers that `value` is bound to, or an `Operator`
        of your own. The numbers are taken as doubles, or with ``numbers="integer"`` as 64-bit
        integers; an event with any other value counts as unusable, is logged once and has no other
        effect. The default window is the engine's.

        Every slide updates the result within its epoch; `WindowAggregate.read` reads it. Cost: a
        constant per event that arrives or expires, a logarithm with several windows or with
        deletions (see `docs/aggregates.md`), and the groups that a slide changes. Memory: about 100
        bytes per event in the window; it counts against `memory_limit`, and a slide that does not
        fit refuses its events. A directory stores the aggregate, but not an operator: call this
        again with the same `name` after opening it.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> top = engine.aggregate("?who :paid ?v FILTER(?v < 100)", "?who", "max",
        ...                        Window("10s", slide="5s"), value="?v")
        >>> pushed = engine.push([(1_000, 7, "<http://ex/paid>", 20),
        ...                       (7_000, 7, "<http://ex/paid>", 5),
        ...                       (8_000, 7, "<http://ex/paid>", 500)])
        >>> [(top.value(7), each.time) for each in engine.each_slide(to=20_000)]
        [(20.0, 5000), (20.0, 10000), (5.0, 15000), (None, 20000)]
        """
        options = AggregateOptions(group, function, window, value, numbers, name)
        return self._internals.aggregating.aggregate_stream(pattern, options)

    @property
    def aggregates(self) -> Mapping[str, WindowAggregate]:
        """The window aggregates by name."""
        return MappingProxyType(self._internals.aggregates)
