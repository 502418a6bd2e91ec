"""A window aggregate, as users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triegs.aggregates.windowed.aggregation import Rows
from triegs.aggregates.windowed.functions import Function, Method
from triegs.copying import Uncopied
from triegs.durable.aggregate_source import AggregateSource
from triegs.engine.answer_windows import AnswerWindow
from triegs.engine.state import EngineState
from triegs.errors import BadTerm, StateError
from triegs.options import ArrowTerms
from triegs.read.output import ArrowOutput
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedVersion
from triegs.terms.term import canonical_term
from triegs.terms.values import write_value
from triegs.windows.stream_aggregates import AggregateWindow

if TYPE_CHECKING:
    import pyarrow as pa

COSTS = {
    "counts": "each event adds to a count and subtracts from it",
    "exact sums": "each event is added to an exact sum and subtracted from it",
    "DABA Lite": "one window, no deletions: constant time per event",
    "FiBA": "several windows, or deletions: a logarithm per event, windows share partial results",
}


class AggregateResult(NamedTuple):
    """The rows of one epoch.

    ``table`` has a column for each grouping variable, and ``value``; ``time`` is the logical time
    of the epoch; ``unusable`` counts the events in the window whose value is not a number.
    """

    epoch: int
    time: int | None
    unusable: int
    table: pa.Table


class WindowAggregate(Uncopied):
    """An aggregate over a window of events: read it, follow its changes, explain it, close it.

    `Engine.aggregate` and `StandingQuery.aggregate` create it. Usable from any thread.

    >>> from triegs import Engine, Window
    >>> engine = Engine(prefixes={"": "http://ex/"})
    >>> paid = engine.aggregate("?who :paid ?v", ["?who"], "max", Window("10s"), value="?v")
    >>> paid
    <WindowAggregate 'aggregate1': max of ?v by ?who, Window('10s', slide='10s')>
    """

    _instead = "it belongs to its engine; send what read().table gives"

    def __init__(
        self, state: EngineState, source: AggregateSource,
        close: Callable[[WindowAggregate], None], window: AggregateWindow | AnswerWindow,
        function: Function | None,
    ) -> None:  # fmt: skip
        self._state = state
        self._source = source
        self._close = close
        self._window = window
        #: None if a directory lacks its operator.
        self._function = function
        self._constants: list[int] = []
        self.name = source.name
        self.group = tuple(name.removeprefix("?") for name in source.group)
        self.window = source.window

    # Reading

    def read(
        self, epoch: int | str | None = None, *, terms: ArrowTerms = "ntriples"
    ) -> AggregateResult:
        """All rows of one epoch, by default the newest: a row for each group with a value in the
        window; without grouping, always one row.

        `epoch` is the number of a held epoch, such as that of an open snapshot, or the name of a
        hold; so an aggregate and a query can be read at the same epoch. An aggregate over answers
        is read at the last epoch that it has followed, if that is earlier. `terms` is as for
        `Snapshot.to_arrow`. Raises `HistoryGone` for an epoch that is not held, and OverflowError
        for a sum of integers that does not fit 64 bits. Cost: the groups.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> paid = engine.aggregate("?who :paid ?v", ["?who"], "sum", Window("10s"), value="?v")
        >>> pushed = engine.push([(1_000, "<http://ex/ann>", "<http://ex/paid>", 20),
        ...                       (4_000, "<http://ex/ann>", "<http://ex/paid>", 0.5)])
        >>> published = engine.advance(to=10_000)
        >>> paid.read().table.to_pylist()
        [{'who': '<http://ex/ann>', 'value': 20.5}]
        """
        import pyarrow as pa

        function, live = self._open()
        with self._hold(live, epoch) as (version, rows):
            columns = self._write_keys(rows, terms)
        names = [*self.group, self._name_column("value")]
        table = pa.Table.from_arrays([*columns, write_values(function, rows)], names)
        number, time = self._describe(version)
        return AggregateResult(number, time, rows.unusable, table)

    def value(self, *group: Any, epoch: int | str | None = None) -> Any:
        """The result of one group, given by its terms; None if it has no value in the window.

        Without grouping, the count and the sum of an empty window are 0. Cost: the groups.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> paid = engine.aggregate("?who :paid ?v", ["?who"], "avg", Window("10s"), value="?v")
        >>> pushed = engine.push([(1_000, 7, "<http://ex/paid>", 2), (2_000, 7, "<http://ex/paid>",
        ...                                                           5)])
        >>> published = engine.advance(to=10_000)
        >>> paid.value(7), paid.value(8)
        (3.5, None)
        """
        function, live = self._open()
        if len(group) != len(self.group):
            names = ", ".join(self.group) or "nothing"
            raise StateError(f"the aggregate {self.name!r} is grouped by {names}; give their terms")
        with self._hold(live, epoch) as (_, rows):
            found = self._find_group(rows, group)
        return write_values(function, found)[0].as_py() if len(found.counts) else None

    @contextmanager
    def _hold(
        self, live: AggregateWindow | AnswerWindow, epoch: int | str | None
    ) -> Iterator[tuple[PackedVersion, Rows]]:
        """The rows of an epoch, which is pinned meanwhile."""
        version = self._pin(epoch)
        try:
            rows = live.rows.read(version.number)
            if rows is None:
                raise self._state.pins.refuse(epoch)
            yield version, rows
        finally:
            self._state.store.unpin(version)

    def _find_group(self, rows: Rows, group: Sequence[Any]) -> Rows:
        """The row of a group, if it has one. Terms are compared as texts, because only the updater
        may look up ids.
        """
        is_found = np.ones(len(rows.counts), np.bool_)
        for number, term in enumerate(group):
            try:
                text = canonical_term(term if type(term) is str else write_value(term))
            except ValueError as error:
                raise BadTerm(str(error)) from None
            column = self._state.dictionary.decoder().decode(rows.keys[:, number])
            index = column.dictionary.index(text).as_py()
            is_found &= column.indices.fill_null(-2).to_numpy() == index
        at = np.flatnonzero(is_found)
        return Rows(rows.keys[at], rows.states[at], rows.counts[at], rows.unusable)

    def changes(self, since: int | str, *, terms: ArrowTerms = "ntriples") -> pa.Table:
        """The rows that differ between a held epoch and the newest: old ones with the change -1,
        new ones with +1. Cost: the groups, sorted.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> seen = engine.aggregate("?who :saw ?x", [], "count", Window("10s"))
        >>> before = engine.hold("before")
        >>> pushed = engine.push([(1_000, 7, "<http://ex/saw>", 2)])
        >>> published = engine.advance(to=10_000)
        >>> seen.changes("before").to_pylist()
        [{'value': 0, 'change': -1}, {'value': 1, 'change': 1}]
        """
        import pyarrow as pa

        function, live = self._open()
        old, new = self._pin(since), self._pin(None)
        try:
            before, after = live.rows.read(old.number), live.rows.read(new.number)
            if before is None or after is None:
                raise self._state.pins.refuse(since)
            rows, signs = compare_rows(function, before, after)
            columns = self._write_keys(rows, terms)
        finally:
            self._state.store.unpin(old)
            self._state.store.unpin(new)
        names = [*self.group, self._name_column("value"), self._name_column("change")]
        return pa.Table.from_arrays([*columns, write_values(function, rows), signs], names)

    def _pin(self, epoch: int | str | None) -> PackedVersion:
        state = self._state
        if epoch is None:
            while True:
                try:
                    return state.store.pin(self._find_followed())
                except VersionGone:  # it has moved on meanwhile
                    continue
        number = state.held.find(epoch) if isinstance(epoch, str) else epoch + state.clock.first
        try:
            return state.store.pin(number)
        except VersionGone:
            raise state.pins.refuse(epoch) from None

    def _describe(self, version: PackedVersion) -> tuple[int, int | None]:
        """The epoch that the rows of a version are of, and its time."""
        clock, followed = self._state.clock, self._find_followed()
        number = version.number if followed is None else min(version.number, followed)
        return number - clock.first, clock.find(number)

    def _find_followed(self) -> int | None:
        """The version that the rows are of, if they follow an epoch only after its publication."""
        return self._window.version if isinstance(self._window, AnswerWindow) else None

    def _write_keys(self, rows: Rows, terms: ArrowTerms) -> list[Any]:
        output = ArrowOutput(self._state.dictionary.decoder(), self.group, terms)
        return output.write(np.ascontiguousarray(rows.keys.T)) if self.group else []

    def _name_column(self, name: str) -> str:
        while name in self.group:
            name += "_"
        return name

    # Inspection

    @property
    def unusable(self) -> int:
        """The number of events in the window whose value is not a number."""
        return self._open()[1].results.unusable

    def explain(self) -> str:
        """Describe what the aggregate computes, and how.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> print(engine.aggregate("?who :paid ?v", [], "max", Window("10s"), value="?v").explain())
        Aggregate  max of ?v over ?who :paid ?v
        Window     [RANGE 10s SLIDE 10s]
        Kept       DABA Lite; one window, no deletions: constant time per event
        Groups     0, with 0 unusable events
        """
        _, live = self._open()
        source, kept = self._source, live.structure_name
        origin = source.pattern or f"the answers that {source.query} gains"
        if source.query is not None and source.changes == "DSTREAM":
            origin = f"the answers that {source.query} loses"
        lines = [
            f"Aggregate  {self._title()} over {origin}",
            f"Window     {self.window}",
            f"Kept       {kept}; {COSTS[kept]}",
            f"Groups     {live.group_count}, with {live.results.unusable} unusable events",
        ]
        return "\n".join(lines)

    def describe(self) -> dict[str, Any]:
        """The figures of the aggregate, for `Engine.metrics`."""
        live = self._window
        return {
            "name": self.name,
            "kept": "detached" if self._function is None else live.structure_name,
            "groups": live.group_count,
            "unusable": live.results.unusable,
            "bytes": live.used_bytes,
        }

    def close(self) -> None:
        """Free what only this aggregate used. Cost: the events that it shares with others."""
        if not self._is_closed:
            self._close(self)

    @property
    def _is_closed(self) -> bool:
        return self._state.aggregates.get(self.name) is not self

    def _open(self) -> tuple[Function, AggregateWindow | AnswerWindow]:
        if self._is_closed:
            raise StateError(f"the aggregate {self.name!r} is closed")
        if self._function is None:
            raise StateError(
                f"the operator {self._source.function!r} of the aggregate {self.name!r} is not "
                "stored in the directory; call aggregate again with the same name and the operator"
            )
        return self._function, self._window

    def _title(self) -> str:
        source = self._source
        what = source.function if source.value is None else f"{source.function} of {source.value}"
        return what + (f" by {' '.join(source.group)}" if source.group else "")

    def __enter__(self) -> WindowAggregate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else ""
        return f"<WindowAggregate {self.name!r}: {self._title()}, {self.window!r}{state}>"


def write_values(function: Function, rows: Rows) -> Any:
    """The results as an Arrow array."""
    import pyarrow as pa

    found = function.lower(rows.states, rows.counts)
    if function.method is Method.OPERATOR and function.operator and not function.operator.builtin:
        return pa.array([list(v) if isinstance(v, tuple) else v for v in found])
    is_integer = function.method is Method.COUNTS or (
        function.values is np.int64 and function.name != "avg"
    )
    return pa.array(found, pa.int64() if is_integer else pa.float64())


def compare_rows(function: Function, old: Rows, new: Rows) -> tuple[Rows, Any]:
    """The rows whose results differ between two epochs, the old one of a group before the new one,
    and their signs.
    """
    width = old.keys.shape[1]
    words = [np.concatenate([e.keys, e.counts[:, None], e.states], axis=1) for e in (old, new)]
    signs = np.repeat([-1, 1], [len(old.counts), len(new.counts)])
    distinct, at = np.unique(np.concatenate(words), axis=0, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, at.reshape(-1), signs)
    found, signs = distinct[total != 0], total[total != 0]
    order = np.lexsort((signs, *found[:, :width].T))
    found, signs = found[order], signs[order]
    rows = Rows(found[:, :width], found[:, width + 1 :], found[:, width], new.unusable)
    # Different states can have equal results.
    values = write_values(function, rows).to_pylist()
    is_pair = (rows.keys[1:] == rows.keys[:-1]).all(axis=1)
    is_equal = [a == b or (a != a and b != b) for a, b in pairwise(values)]
    pairs = np.flatnonzero(is_pair & np.array(is_equal, np.bool_))
    kept = np.delete(np.arange(len(signs)), np.concatenate([pairs, pairs + 1]))
    rows = Rows(rows.keys[kept], rows.states[kept], rows.counts[kept], rows.unusable)
    return rows, signs[kept]
