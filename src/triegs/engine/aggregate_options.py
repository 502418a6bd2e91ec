"""The options of window aggregates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from triegs.aggregates.swag.operators import Operator
from triegs.sparql.window import Window


class AggregateOptions(NamedTuple):
    """The options that aggregates of streams and of answers share."""

    group: str | Iterable[str]
    function: str | Operator
    window: Window | None
    value: str | None
    numbers: str
    name: str | None
