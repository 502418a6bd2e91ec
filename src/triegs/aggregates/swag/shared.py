"""Several windows over one stream that share partial aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.fiba import Fiba
from triegs.aggregates.swag.groups import cast_words
from triegs.aggregates.swag.operators import Operator


class Span(NamedTuple):
    """A window of a width that moves by a slide: the events in (t − width, t] at each t, a
    multiple of the slide.
    """

    width: int
    slide: int = 1


class SharedWindows:
    """One finger B-tree for windows of several widths and slides.

    Times are divided into *panes*, as long as the greatest common divisor of all widths and slides;
    no window begins or ends inside a pane. Events of a pane are combined into one entry, and each
    window is a range of entries. So an event is inserted once, whatever the number of windows; an
    event in order costs a combination. A window is read in a logarithm of its panes. The events of
    a pane are combined in order of arrival; for an operator that is not commutative, each time has
    an entry of its own instead.

    >>> from triegs.aggregates.swag.operators import SUM
    >>> windows = SharedWindows(SUM, [Span(60, 10), Span(600, 60)])
    >>> windows.pane
    10
    >>> windows.insert([5, 30, 65], [1, 10, 100])
    >>> windows.query(70)
    [110, 11]
    """

    def __init__(self, operator: Operator, spans: Sequence[Span], groups: int = 1) -> None:
        if not spans or any(width <= 0 or slide <= 0 for width, slide in spans):
            raise ValueError("each window needs a positive width and a positive slide")
        self.operator = operator
        self.spans = tuple(spans)
        #: The length of a pane.
        self.pane = gcd(*(length for span in spans for length in span))
        self._key = self.pane if operator.commutative else 1
        self._tree = Fiba(operator, groups)

    def add_groups(self, count: int) -> None:
        self._tree.add_groups(count)

    @property
    def used_bytes(self) -> int:
        return self._tree.used_bytes

    def insert(
        self, times: npt.ArrayLike, values: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> None:
        """Insert events in any order of time; see `Fiba.insert`."""
        # A pane is named by its end: it holds the times in (end − pane, end].
        ends = -(-cast_words(times) // self._key) * self._key
        self._tree.insert(ends, values, groups)

    def query(self, time: int, group: int = 0) -> list[Any]:
        """The aggregates of all windows at a time, each at the last multiple of its slide."""
        lower, read = self.operator.lower, self.operator.read
        return [lower(*read(state)) for state in self.query_states(time, group)]

    def query_states(self, time: int, group: int = 0) -> npt.NDArray[np.int64]:
        """The states of all windows at a time, a row of words each."""
        ends = [time // slide * slide for _, slide in self.spans]
        bounds = [(end - width, end) for end, (width, _) in zip(ends, self.spans, strict=True)]
        return self._tree.query_ranges(bounds, group)

    def advance(self, time: int) -> None:
        """Evict what no window needs at this time or later."""
        oldest = min(time // slide * slide - width for width, slide in self.spans)
        self._tree.evict_until(oldest)
