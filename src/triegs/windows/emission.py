"""Results of a windowed query as a stream: RSTREAM, ISTREAM and DSTREAM from one mechanism.

After each slide of its own, a query has a new snapshot, and the signed changes since the one
before: all answers are the snapshot, new ones the positive changes, gone ones the negative.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.copying import Uncopied
from triegs.errors import WindowError
from triegs.options import ArrowTerms
from triegs.read.snapshot import Snapshot
from triegs.sparql.model import Operator
from triegs.sparql.window import Span, read_span
from triegs.windows.feed import Feed

if TYPE_CHECKING:
    import pyarrow as pa

MULTIPLICITY = "multiplicity"


class Policy(Enum):
    """After which slides something is emitted: each, those that changed an answer, those with
    something to tell, or the first of each period.
    """

    SLIDE = "slide"
    CHANGE = "change"
    NON_EMPTY = "non-empty"
    PERIODIC = "periodic"


class Emission(NamedTuple):
    """What is emitted after a slide: answers with their multiplicity, as an Arrow table."""

    epoch: int
    time: int
    operator: Operator
    answers: pa.Table


class Emitter(Uncopied):
    """Hands the results of one query to a function, slide by slide; close it to stop.

    It holds the snapshot that was emitted last, for the changes since: if they cannot be read, or
    the function raises, they come again with the next emission. `StandingQuery.emit` makes it.
    """

    def __init__(
        self, take: Callable[[], Snapshot], feeds: Collection[Feed],
        sink: Callable[[Emission], object], operator: Operator, policy: Policy,
        every: Span | None, terms: ArrowTerms,
    ) -> None:  # fmt: skip
        if (policy is Policy.PERIODIC) != (every is not None):
            raise WindowError("report='periodic' comes with every=<duration>, and only that")
        self._take = take
        self._feeds = set(feeds)
        self._sink = sink
        self._operator = operator
        self._policy = policy
        self._every = None if every is None else max(1, read_span(every))
        self._terms = terms
        self._period: int | None = None
        self._last: Snapshot | None = take()
        self.is_closed = False

    def follow(self, epoch: int, time: int, slid: Collection[Feed]) -> None:
        """An epoch was published; some windows slid in it."""
        if self.is_closed or self._feeds.isdisjoint(slid):
            return
        period = None if self._every is None else time // self._every
        if period is not None and period == self._period:
            return
        new, old = self._take(), self._last
        assert old is not None
        try:
            self._emit(old, new, epoch, time)
        except BaseException:
            new.close()
            raise
        self._period = period
        self._last = new
        old.close()

    def _emit(self, old: Snapshot, new: Snapshot, epoch: int, time: int) -> None:
        if self._policy is Policy.CHANGE and new.diff(old).is_empty():
            return
        answers = self._read(old, new)
        if self._policy is not Policy.NON_EMPTY or answers.num_rows:
            self._sink(Emission(epoch, time, self._operator, answers))

    def _read(self, old: Snapshot, new: Snapshot) -> pa.Table:
        if self._operator is Operator.RSTREAM:
            return new.to_arrow(self._terms)
        import pyarrow.compute as pc

        table = new.diff(old).to_arrow(self._terms)
        place = table.num_columns - 1
        change = table.column(place)
        if self._operator is Operator.DSTREAM:
            change = pc.negate(change)
        name = MULTIPLICITY if MULTIPLICITY not in table.column_names else table.field(place).name
        found: Any = table.set_column(place, name, change)
        return found.filter(pc.greater(change, 0))

    def close(self) -> None:
        """Stop, and let the last snapshot go. Harmless when repeated."""
        self.is_closed = True
        if self._last is not None:
            self._last.close()
            self._last = None
