"""Random streams for window aggregates, and what their windows have, by plain Python."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from random import Random
from typing import Any

from tests.aggregates.models import AFFINE, BITS, fold

from triegs import Window
from triegs.aggregates.swag.operators import Operator
from triegs.aggregates.windowed.functions import FunctionName, NumbersName
from triegs.jit.jit import COMPILED

PAID, SENT = "<http://ex/paid>", "<http://ex/sent>"
PREFIXES = {"": "http://ex/"}
NAME = "<http://ex/{}>".format

WINDOWS = (
    Window(40, slide=10),
    Window(20, slide=20),
    Window(30, slide=15, start=5),
    Window(12, slide=25, bounds="[)"),
    Window.landmark(30),
    Window.now(),
)
VALUES: tuple[Any, ...] = (0, 1, -3, 7, 2**40, 0.5, -2.25, 1e16, '"1.5"^^<x:decimal>', '"x"')


def draw_events(
    random: Random, count: int, start: int, spread: int, groups: int
) -> list[tuple[int, str, str, Any]]:
    """Events at about these times, some displaced, of groups that come and go."""
    found = []
    for number in range(count):
        time = start + number * spread // count
        if random.random() < 0.3:
            time = max(1, time - random.randrange(spread))
        who = (start // 50 + random.randrange(groups)) % 9
        value = random.choice((*VALUES, random.randrange(100), random.random()))
        found.append((time, NAME(who), random.choice((PAID, PAID, SENT)), value))
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def aggregate(function: str | Operator, numbers: str, values: list[Any]) -> Any:
    """The result for the values of one group, in order; None if none of them counts."""
    if function == "count":
        return len(values) or None
    kind = is_number if numbers == "double" else lambda value: isinstance(value, int)
    usable = [value for value in values if kind(value)]
    if not usable:
        return None
    if isinstance(function, Operator):
        return fold(function, usable)
    if numbers == "double":
        usable = [float(value) for value in usable]
    if function == "sum":
        return sum(usable) if numbers == "integer" else math.fsum(usable)
    if function == "avg" and numbers == "integer":
        return float(Fraction(sum(usable), len(usable)))
    if function == "avg":
        return math.fsum(usable) / len(usable)
    return min(usable) if function == "min" else max(usable)


class PlainStream:
    """The events of a stream, in order of time and arrival, without late ones."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, str, str, Any]] = []
        self.watermark = -(10**9)

    def push(self, events: list[tuple[int, str, str, Any]]) -> None:
        for time, who, what, value in events:
            if time > self.watermark:
                self.events.append((time, len(self.events), who, what, value))
        self.events.sort(key=lambda event: event[:2])

    def read(self, window: Window, time: int) -> dict[str, list[Any]]:
        """The values of each group in the window at a time, oldest first."""
        found: dict[str, list[Any]] = {}
        for at, _, who, what, value in self.events:
            if what == PAID and window.is_in(at, time):
                found.setdefault(who, []).append(value)
        return found


Chosen = tuple[FunctionName | Operator, NumbersName]
EVERY: tuple[Chosen, ...] = (
    ("count", "double"),
    ("sum", "double"),
    ("avg", "double"),
    ("min", "double"),
    ("max", "double"),
    ("sum", "integer"),
    ("avg", "integer"),
    ("min", "integer"),
    ("max", "integer"),
    (BITS, "integer"),
    (AFFINE, "integer"),
)
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# Each takes five seconds to compile. So of two that differ in one comparison or in the last step,
# one is compiled; the run without compilation has all of them.
LEFT_OUT: tuple[Chosen, ...] = (("max", "double"), ("min", "integer"), ("avg", "integer"))
FUNCTIONS = tuple(each for each in EVERY if SOAK or not COMPILED or each not in LEFT_OUT)
