"""A workload as users see it: a name, queries with their windows, and a stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from triegs.workloads.draw import Numbers
from triegs.workloads.rows import Rows, cut, disorder, leave_out_deletes

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 65_536  # events
RATE = 1000.0  # events per second of event time
# The times that readers accept: the years 1 to 9999.
EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999


class WindowQuery(NamedTuple):
    """A query of a workload: SPARQL text, and its intended window.

    `plan_class` is the class that `triegs.compile_query` assigns to it.
    """

    name: str
    meaning: str
    text: str
    plan_class: str
    width: str = "10s"
    slide: str = "5s"

    @property
    def file_text(self) -> str:
        """The text of a file: meaning and window as comments, then the query."""
        return f"# {self.meaning}\n# window: {self.width}, slide: {self.slide}\n{self.text}\n"


class Clock(NamedTuple):
    """The start of the stream, and the mean time between two events, in ms."""

    start: int
    step: float

    def tick(self, positions: Numbers) -> Numbers:
        """Event times of positions 0, 1, 2 … at an even pace; the first is one step after the
        start.

        >>> Clock(0, 1.0).tick(np.arange(3)).tolist()
        [1, 2, 3]
        """
        steps: Numbers = np.floor((positions + 1) * self.step).astype(np.int64)
        return self.start + steps


@dataclass(frozen=True)
class TimedWorkload:
    """A stream of timed events with queries over it. Equal parameters give equal streams.

    >>> from triegs import workloads
    >>> names = workloads.get("person-names")
    >>> list(names.queries)
    ['person-names']
    >>> next(names.events(4)).column("object").to_pylist()
    ['"Nina"', '"Bose"', '"Tom"', '"Baker"']
    """

    name: str
    meaning: str
    skew: str
    asked: tuple[WindowQuery, ...]
    draw: Callable[[int, Clock], Iterator[Rows]]
    predicates: tuple[str, ...]
    spell: Callable[[Numbers], pa.Array]
    prefixes: Mapping[str, str]
    start: int = 0
    has_deletes: bool = False
    has_integers: bool = False
    static: tuple[tuple[str, str, str], ...] = ()

    @property
    def queries(self) -> Mapping[str, str]:
        """The texts of the queries by name."""
        return {query.name: query.text for query in self.asked}

    def events(
        self,
        size: int,
        seed: int = 1,
        *,
        batch_size: int = BATCH,
        rate: float = RATE,
        start: int | None = None,
        disorder: int = 0,
        inserts_only: bool = False,
        integers: bool = False,
        skip: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """Exactly `size` events, as record batches of `batch_size` (the last may be shorter).

        The columns are time (ms), op (1 or -1), subject, predicate, object and id; a delete has the
        id of the event it retracts. Times start at `start` (ms since 1970, with a default per
        workload) and average `rate` events per second of event time. They never decrease, unless
        `disorder` lets an event arrive up to that many ms late. `inserts_only` leaves out the
        deletes; `integers` gives the nodes of block workloads as integers instead of IRIs. The
        first `skip` batches are drawn but not returned, so that several processes can each write a
        section of a stream. Cost: about a microsecond per event, and memory for one batch and the
        workload's state, regardless of the size.

        >>> from triegs import workloads
        >>> batch = next(workloads.get("path3").events(1000))
        >>> batch.num_rows, batch.schema.names
        (1000, ['time', 'op', 'subject', 'predicate', 'object', 'id'])
        """
        _check_options(size, seed, batch_size, rate, disorder)
        if skip < 0:
            raise ValueError(f"the number of batches to skip must not be negative: {skip}")
        if integers and not self.has_integers:
            raise ValueError(f"{self.name} has nodes of several kinds, not integers")
        clock = Clock(self.start if start is None else start, 1000 / rate)
        if clock.start < EARLIEST or clock.start + size * clock.step + disorder > LATEST:
            raise ValueError("the times of the events must be in the years 1 to 9999")
        parts = self._arrange(size, seed, clock, batch_size, disorder, inserts_only)
        return self._write_batches(islice(parts, skip, None), integers)

    def schema(self, integers: bool = False) -> pa.Schema:
        """The columns of `events` and their types."""
        import pyarrow as pa

        node = pa.int64() if integers else pa.string()
        label = pa.dictionary(pa.int32(), pa.string())
        return pa.schema(
            {
                "time": pa.int64(),
                "op": pa.int8(),
                "subject": node,
                "predicate": label,
                "object": node,
                "id": pa.int64(),
            }
        )

    def static_table(self) -> pa.Table:
        """The static facts, which have no time: the columns subject, predicate, object."""
        import pyarrow as pa

        columns = list(zip(*self.static, strict=True)) or [(), (), ()]
        names = ("subject", "predicate", "object")
        return pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)})

    def _arrange(
        self, size: int, seed: int, clock: Clock, length: int, bound: int, inserts_only: bool
    ) -> Iterator[Rows]:
        blocks = self.draw(seed, clock)
        if inserts_only:
            blocks = leave_out_deletes(blocks)
        if bound:
            blocks = disorder(blocks, bound, seed)
        return cut(blocks, size, length) if size else iter(())

    def _write_batches(self, parts: Iterator[Rows], integers: bool) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        labels = pa.array(self.predicates)
        spell = pa.array if integers else self.spell
        for rows in parts:
            codes = pa.array(rows.predicates.astype(np.int32))
            columns = [
                pa.array(rows.times),
                pa.array(rows.ops),
                spell(rows.subjects),
                pa.DictionaryArray.from_arrays(codes, labels),
                spell(rows.objects),
                pa.array(rows.ids),
            ]
            yield pa.record_batch(columns, schema=self.schema(integers))


def _check_options(size: int, seed: int, batch_size: int, rate: float, disorder: int) -> None:
    if size < 0:
        raise ValueError(f"the number of events must not be negative: {size}")
    if seed < 0:
        raise ValueError(f"a seed must not be negative: {seed}")
    if batch_size < 1:
        raise ValueError(f"a batch must have at least one event, not {batch_size}")
    if not 0 < rate <= 1e9:
        raise ValueError(
            f"a rate must be more than 0 and at most 1e9 events per second, not {rate:g}"
        )
    if disorder < 0:
        raise ValueError(f"disorder must be a time in ms, not {disorder}")
