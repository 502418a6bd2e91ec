"""Results of a windowed query as a stream: RSTREAM, ISTREAM and DSTREAM from one mechanism.

After each slide of its windows, a query has a new snapshot, and the signed changes since the last
one. RSTREAM is the snapshot, ISTREAM the positive changes, DSTREAM the negative ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.copying import Uncopied
from triegs.errors import WindowError
from triegs.options import ArrowTerms
from triegs.read.changes import refuse_limits
from triegs.read.snapshot import Snapshot
from triegs.sparql.model import Operator, Query
from triegs.sparql.window import Span, Window, read_span
from triegs.windows.cursor import WindowCursor
from triegs.windows.window_graphs import GraphKey

if TYPE_CHECKING:
    import pyarrow as pa

MULTIPLICITY = "multiplicity"


class Policy(Enum):
    """After which slides there is an emission: all, those that changed an answer, those with a
    non-empty emission, or the first of each period.
    """

    SLIDE = "slide"
    CHANGE = "change"
    NON_EMPTY = "non-empty"
    PERIODIC = "periodic"


class Emission(NamedTuple):
    """The answers emitted after a slide, with multiplicities, as an Arrow table."""

    epoch: int
    time: int
    operator: Operator
    answers: pa.Table


class EmitOptions(NamedTuple):
    """As `triegs.StandingQuery.emit` takes them."""

    operator: str | None
    report: str
    every: Span | None
    terms: ArrowTerms


class Emitter(Uncopied):
    """Passes the results of one query to a function, slide by slide; close it to stop.

    It holds the snapshot of the last emission. If the changes since cannot be read, or the function
    raises, they are part of the next emission. `StandingQuery.emit` creates it.
    """

    def __init__(
        self, take: Callable[[], Snapshot], cursors: Collection[WindowCursor],
        sink: Callable[[Emission], object], operator: Operator, options: EmitOptions,
    ) -> None:  # fmt: skip
        self._policy = Policy(options.report)
        if (self._policy is Policy.PERIODIC) != (options.every is not None):
            raise WindowError("report='periodic' and every=<duration> go together")
        self._take = take
        self._cursors = set(cursors)
        self._sink = sink
        self._operator = operator
        self._every = None if options.every is None else max(1, read_span(options.every))
        self._terms = options.terms
        self._period: int | None = None
        self._last: Snapshot | None = take()
        self.is_closed = False

    def emit_slide(self, epoch: int, time: int, slid: Collection[WindowCursor]) -> None:
        """An epoch was published in which some windows slid."""
        if self.is_closed or self._cursors.isdisjoint(slid):
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
        last = table.num_columns - 1
        change = table.column(last)
        if self._operator is Operator.DSTREAM:
            change = pc.negate(change)
        name = MULTIPLICITY if MULTIPLICITY not in table.column_names else table.field(last).name
        found: Any = table.set_column(last, name, change)
        return found.filter(pc.greater(change, 0))

    def close(self) -> None:
        """Stop, and release the last snapshot. Idempotent."""
        self.is_closed = True
        if self._last is not None:
            self._last.close()
            self._last = None


class Emitters:
    """The emitters of an engine; closed ones are dropped after the next slide."""

    def __init__(self, cursors: Mapping[Window, WindowCursor]) -> None:
        self._cursors = cursors
        self._emitters: list[Emitter] = []

    def add(
        self, take: Callable[[], Snapshot], query: Query, keys: Sequence[GraphKey],
        sink: Callable[[Emission], object], options: EmitOptions,
    ) -> Emitter:  # fmt: skip
        """Pass results of a query on after each of its slides."""
        if not keys:
            raise WindowError("only a query with a window has slides; subscribe to this one")
        registered = query.output.operator.value if query.output is not None else "RSTREAM"
        try:
            operator = Operator(str(options.operator or registered).upper())
            policy = Policy(options.report)
        except ValueError as problem:
            raise WindowError(f"{problem}; see StandingQuery.emit") from None
        if operator is not Operator.RSTREAM or policy is Policy.CHANGE:
            refuse_limits(query)
        cursors = [self._cursors[key.window] for key in keys]
        found = Emitter(take, cursors, sink, operator, options)
        self._emitters.append(found)
        return found

    @property
    def is_used(self) -> bool:
        """Whether there is any."""
        return bool(self._emitters)

    def emit_slide(self, epoch: int, time: int, slid: Collection[WindowCursor]) -> list[Exception]:
        """An epoch was published by a slide; returns what emitters raised. An exception stops
        neither the other emitters nor the next slide.
        """
        problems: list[Exception] = []
        if self._emitters:
            self._emitters = [each for each in self._emitters if not each.is_closed]
            for each in self._emitters:
                try:
                    each.emit_slide(epoch, time, slid)
                except Exception as problem:
                    problems.append(problem)
        return problems
