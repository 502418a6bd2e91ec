"""A snapshot: the full result of one query at one published epoch, held until it is closed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

from triegs.dictionary import Decoder
from triegs.dictionary.decoder import wrap
from triegs.errors import SnapshotExpired, TriegsError
from triegs.read.columns import Columns, Integers, NotIntegers, Sizes
from triegs.read.output import ArrowOutput, RowOutput, integer_table
from triegs.read.rows import RowReader
from triegs.store.contract import Version

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

BATCH_ROWS = 65_536
MULTIPLICITY = "multiplicity"


class Answer:
    """One row: values by name or place, and how often it counts.

    >>> answer = Answer(("x", "y"), ("<http://ex/a>", None), 2)
    >>> answer.x, answer["y"], answer[0], answer.multiplicity
    ('<http://ex/a>', None, '<http://ex/a>', 2)
    """

    __slots__ = ("_names", "_values", "multiplicity")

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...], multiplicity: int) -> None:
        self._names = names
        self._values = values
        self.multiplicity = multiplicity

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return self._values[self._names.index(name)]
        raise AttributeError(f"no variable {name!r}; there are {', '.join(self._names)}")

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return self._values[key]
        if key in self._names:
            return self._values[self._names.index(key)]
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        mine = (self._names, self._values, self.multiplicity)
        return mine == (other._names, other._values, other.multiplicity)

    def __hash__(self) -> int:
        return hash((self._names, self._values, self.multiplicity))

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" for n, v in zip(self._names, self._values, strict=True)]
        return f"Answer({', '.join([*parts, f'multiplicity={self.multiplicity}'])})"


class Snapshot:
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

    def __init__(
        self,
        reader: RowReader,
        version: Version,
        epoch: int,
        decoder: Decoder,
        close: Callable[[], None],
        time: int | None = None,
    ) -> None:
        self._reader = reader
        self._version = version
        self._decoder = decoder
        self._close: Callable[[], None] | None = close
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
        if not sys.is_finalizing():  # then there is nobody left to give memory back to
            self.close()

    def close(self) -> None:
        """Let the epoch go. Closing twice is harmless; reading afterwards is `SnapshotExpired`."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        self._check_open()
        for columns in self._reader.columns(self._version, sizes, integers):
            yield columns
            self._check_open()

    def _check_open(self) -> None:
        if self._close is None:
            raise SnapshotExpired(f"the snapshot of epoch {self.epoch} is closed")

    def __iter__(self) -> Iterator[Answer]:
        """Every answer once, with constant delay between two of them; terms as N-Triples text."""
        return self.answers()

    def answers(self, terms: str = "ntriples") -> Iterator[Answer]:
        """Every answer once, its terms as ``"ntriples"``, ``"python"``, ``"rdflib"``,
        ``"pyoxigraph"`` or ``"ids"``; see `triegs.read.output`. Delay: constant, however large the
        result. Raises `MultiplicityOverflow` at an answer whose multiplicity 64 bits do not hold.
        """
        self._check_open()
        return self._make_answers(RowOutput(self._decoder, terms))

    def _make_answers(self, output: RowOutput) -> Iterator[Answer]:
        for ids, counts in self._columns(growing_sizes()):
            for values, count in zip(output.rows(ids), counts.tolist(), strict=True):
                self._check_open()
                yield Answer(self.names, values, count)

    def count(self) -> int:
        """The total multiplicity, of any size. Cost: a scan of the answers."""
        return sum(add_exactly(counts) for _, counts in self._columns(lambda: BATCH_ROWS))

    def support(self) -> int:
        """The number of distinct answers. Cost: a scan of the answers."""
        return sum(len(counts) for _, counts in self._columns(lambda: BATCH_ROWS))

    def __len__(self) -> int:
        return self.support()

    def batches(self, rows: int = BATCH_ROWS, terms: str = "ntriples") -> Iterator[pa.RecordBatch]:
        """The answers as Arrow record batches of at most that many rows.

        Columns are dictionaries of N-Triples strings; with ``terms="python"`` native columns where
        one type fits, and with ``terms="ids"`` the numbers of the dictionary. Memory: one batch.
        The last column is ``multiplicity``, with underscores behind it where a variable has that
        name.
        """
        return iter(self._stream(rows, terms))

    def _stream(self, rows: int, terms: str) -> pa.RecordBatchReader:
        import pyarrow as pa

        self._check_open()
        output = ArrowOutput(self._decoder, self.names, terms)
        columns = self._columns(lambda: rows)
        first = next(columns, None)
        if first is not None:
            output.survey(first[0])
        schema = self._schema(output)
        batches = (
            pa.RecordBatch.from_arrays([*output.write(ids), wrap(counts)], schema=schema)
            for ids, counts in chain([] if first is None else [first], columns)
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_arrow(self, terms: str = "ntriples") -> pa.Table:
        """All answers as one Arrow table; `terms` as for `batches`."""
        import pyarrow as pa

        if terms != "python":
            return self._stream(BATCH_ROWS, terms).read_all()
        if self._reader.is_plain:
            with suppress(NotIntegers):
                return self._read_integers()
        output = ArrowOutput(self._decoder, self.names, terms)
        parts = list(self._columns(lambda: BATCH_ROWS))
        try:
            columns = [output.write(ids) for ids, _ in parts]
        except TriegsError:  # the type of the first batch does not fit all: look at all first
            output = ArrowOutput(self._decoder, self.names, terms)
            for ids, _ in parts:
                output.survey(ids)
            columns = [output.write(ids) for ids, _ in parts]
        schema = self._schema(output)
        batches = [
            pa.RecordBatch.from_arrays([*written, wrap(counts)], schema=schema)
            for written, (_, counts) in zip(columns, parts, strict=True)
        ]
        return pa.Table.from_batches(batches, schema=schema)

    def _read_integers(self) -> pa.Table:
        """All answers as values, if all are integers: the enumeration writes them at once."""
        import pyarrow as pa

        def load() -> NDArray[np.int64]:
            return integer_table(self._decoder).reshape(-1)

        names = (*self.names, self._count_name())
        schema = pa.schema([pa.field(name, pa.int64()) for name in names])
        batches = [
            pa.RecordBatch.from_arrays([*map(wrap, values), wrap(counts)], names)
            for values, counts in self._columns(lambda: BATCH_ROWS, load)
        ]
        return pa.Table.from_batches(batches, schema)

    def _schema(self, output: ArrowOutput) -> pa.Schema:
        import pyarrow as pa

        count = pa.field(self._count_name(), pa.int64(), nullable=False)
        return pa.schema([*output.fields, count])

    def to_pandas(self, terms: str = "ntriples") -> Any:
        """All answers as a pandas DataFrame (needs pandas)."""
        return self.to_arrow(terms).to_pandas()

    def to_polars(self, terms: str = "ntriples") -> Any:
        """All answers as a Polars DataFrame (needs polars)."""
        import polars

        return polars.from_arrow(self.to_arrow(terms))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The answers as an Arrow stream that other libraries read without copying."""
        return self._stream(BATCH_ROWS, "ntriples").__arrow_c_stream__(requested_schema)

    def _count_name(self) -> str:
        name = MULTIPLICITY
        while name in self.names:
            name = f"{name}_"
        return name


def growing_sizes() -> Sizes:
    """Small batches first, so that the first answers are there at once."""
    size = 32

    def next_size() -> int:
        nonlocal size
        size = min(2 * size, BATCH_ROWS)
        return size

    return next_size


def add_exactly(counts: NDArray[np.int64]) -> int:
    """The sum, also where 64 bits do not hold it."""
    if len(counts) and int(counts.max()) < 2**62 // len(counts):
        return int(counts.sum())
    return sum(counts.tolist())
