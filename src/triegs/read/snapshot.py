"""A snapshot: the full result of one query at one published epoch, held until it is closed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from triegs.dictionary import Decoder
from triegs.dictionary.decoder import wrap
from triegs.errors import SnapshotExpired
from triegs.read.changes import Changes
from triegs.read.columns import Columns, NotIntegers, Sizes
from triegs.read.output import integer_table
from triegs.read.result import BATCH_ROWS, Result, Row
from triegs.read.rows import RowReader
from triegs.store.contract import Version

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class Answer(Row):
    """One row: values by name or place, and how often it counts.

    >>> answer = Answer(("x", "y"), ("<http://ex/a>", None), 2)
    >>> answer.x, answer["y"], answer[0], answer.multiplicity
    ('<http://ex/a>', None, '<http://ex/a>', 2)
    """

    __slots__ = ()
    _count_name = "multiplicity"

    @property
    def multiplicity(self) -> int:
        return self._count


class Snapshot(Result):
    """The answers of one query at one epoch. A context manager; closing it lets memory go.

    Reading never blocks the updater, and nothing the updater does changes what is read. The order
    of answers is stable within a snapshot. ``epoch`` is the epoch that it shows, ``time`` its
    logical time in milliseconds (None where no time was given), ``names`` are the variables of the
    head. `StandingQuery.snapshot` makes it; take one per thread.

    >>> from triegs import Engine
    >>> engine = Engine()
    >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
    >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 2)])
    >>> with query.snapshot() as snap:
    ...     len(snap), snap.count(), snap.to_arrow("python").to_pylist()
    (1, 2, [{'x': 1, 'y': 2, 'multiplicity': 2}])
    """

    _row = Answer

    def __init__(
        self,
        reader: RowReader,
        version: Version,
        epoch: int,
        decoder: Decoder,
        close: Callable[[], None],
        time: int | None = None,
        *,
        expires: float | None = None,
        taken: str | None = None,
    ) -> None:
        self._reader = reader
        self._version = version
        self._decoder = decoder
        self._close: Callable[[], None] | None = close
        self._reading = Lock()
        self._why = "is closed"
        self._expires = expires  # by the monotonic clock
        self._taken = taken
        self.epoch = epoch
        self.time = time
        self.names = tuple(name.lstrip("?") for name in reader.plan.query.head)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if sys.is_finalizing():  # then there is nobody left to give memory back to
            return
        if self._taken is not None and self._close is not None:
            warnings.warn(
                f"a snapshot of epoch {self.epoch} was not closed; it was taken at {self._taken}",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
        self.close()

    def close(self) -> None:
        """Let the epoch go. Closing twice is harmless; reading afterwards is `SnapshotExpired`.

        From any thread; a batch that another one is reading is read to its end first.
        """
        with self._reading:
            close, self._close = self._close, None
        if close is not None:
            close()

    def expire_if_due(self) -> None:
        """Close it if its lease is over, unless it is being read at this moment."""
        if self._reading.acquire(blocking=False):
            try:
                self._end_lease()
            finally:
                self._reading.release()

    def _end_lease(self) -> None:
        if self._expires is not None and monotonic() >= self._expires:
            close, self._close = self._close, None
            if close is not None:
                self._why = "was leased, and the lease is over"
                close()

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with self._reading:
            self._check_open()
            yield

    def _check_open(self) -> None:
        self._end_lease()
        if self._close is None:
            raise SnapshotExpired(f"the snapshot of epoch {self.epoch} {self._why}")

    def _columns(self, sizes: Sizes) -> Iterator[Columns]:
        return self._reader.columns(self._version, sizes)

    def count(self) -> int:
        """The total multiplicity, of any size. Cost: a scan of the answers."""
        return sum(self._read(lambda: BATCH_ROWS, lambda found: add_exactly(found[1])))

    def support(self) -> int:
        """The number of distinct answers. Cost: a scan of the answers."""
        return sum(self._read(lambda: BATCH_ROWS, lambda found: len(found[1])))

    def __len__(self) -> int:
        return self.support()

    def diff(self, since: Snapshot) -> Changes:
        """The answers that changed since another snapshot of the same query, each once.

        Their changes are signed, and what `since` shows plus these changes is what this shows. It
        may be the later one, too. Cost: constant; reading costs the entries that differ, the way
        from them to the root, and the changed answers, whatever else there is. Both snapshots must
        stay open meanwhile. A query with LIMIT or OFFSET is `StateError`.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
        >>> before = query.snapshot()
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2)])
        >>> list(query.snapshot().diff(before).answers("python"))
        [Change(x=1, y=2, change=1)]
        """
        return Changes(since, self)

    def to_arrow(self, terms: str = "ntriples") -> pa.Table:
        if terms == "python" and self._reader.is_plain:
            with suppress(NotIntegers):
                return self._read_integers()
        return super().to_arrow(terms)

    to_arrow.__doc__ = Result.to_arrow.__doc__

    def _read_integers(self) -> pa.Table:
        """All answers as values, if all are integers: the enumeration writes them at once."""
        import pyarrow as pa

        def load() -> NDArray[np.int64]:
            return integer_table(self._decoder).reshape(-1)

        names = (*self.names, self._count_name())
        schema = pa.schema([pa.field(name, pa.int64()) for name in names])
        columns = self._reader.columns(self._version, lambda: BATCH_ROWS, load)
        batches: list[Any] = []
        while True:
            with self._hold():
                found = next(columns, None)
            if found is None:
                return pa.Table.from_batches(batches, schema)
            values, counts = found
            batches.append(pa.RecordBatch.from_arrays([*map(wrap, values), wrap(counts)], names))


def add_exactly(counts: NDArray[np.int64]) -> int:
    """The sum, also where 64 bits do not hold it."""
    if len(counts) and int(counts.max()) < 2**62 // len(counts):
        return int(counts.sum())
    return sum(counts.tolist())
