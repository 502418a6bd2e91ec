"""A snapshot: the full result of one query at one published epoch, held until it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from triegs.errors import SnapshotExpired
from triegs.read.columns import Columns, Sizes
from triegs.read.rows import UNBOUND, RowReader
from triegs.store.contract import Version

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

BATCH_ROWS = 65_536
MULTIPLICITY = "multiplicity"


class Decoder(Protocol):
    """What a snapshot needs of the dictionary: columns of ids to columns of terms."""

    def decode(self, ids: np.ndarray[Any, Any]) -> Any: ...


class Answer:
    """One row: values by name or place, and how often it counts.

    >>> answer = Answer(("x", "y"), ("<http://ex/a>", None), 2)
    >>> answer.x, answer["y"], answer[0], answer.multiplicity
    ('<http://ex/a>', None, '<http://ex/a>', 2)
    """

    __slots__ = ("_names", "_values", "multiplicity")

    def __init__(
        self, names: tuple[str, ...], values: tuple[str | None, ...], multiplicity: int
    ) -> None:
        self._names = names
        self._values = values
        self.multiplicity = multiplicity

    def __getattr__(self, name: str) -> str | None:
        if name in self._names:
            return self._values[self._names.index(name)]
        raise AttributeError(f"no variable {name!r}; there are {', '.join(self._names)}")

    def __getitem__(self, key: str | int) -> str | None:
        if isinstance(key, int):
            return self._values[key]
        if key in self._names:
            return self._values[self._names.index(key)]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str | None]:
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
        return f"Answer({', '.join(parts)}, multiplicity={self.multiplicity})"


class Snapshot:
    """The answers of one query at one epoch. A context manager; closing it lets memory go.

    Reading never blocks the updater, and nothing the updater does changes what is read. The order
    of answers is stable within a snapshot.
    """

    def __init__(
        self,
        reader: RowReader,
        version: Version,
        epoch: int,
        decoder: Decoder,
        close: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._version = version
        self._decoder = decoder
        self._close: Callable[[], None] | None = close
        self.epoch = epoch
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
        self.close()

    def close(self) -> None:
        """Let the epoch go. Closing twice is harmless; reading afterwards is `SnapshotExpired`."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def _columns(self, sizes: Sizes) -> Iterator[Columns]:
        self._check_open()
        for columns in self._reader.columns(self._version, sizes):
            yield columns
            self._check_open()

    def _check_open(self) -> None:
        if self._close is None:
            raise SnapshotExpired(f"the snapshot of epoch {self.epoch} is closed")

    def __iter__(self) -> Iterator[Answer]:
        """Every answer once, with constant delay between two of them."""
        self._check_open()
        return self._answers()

    def _answers(self) -> Iterator[Answer]:
        decode = self._reader.decode
        known: dict[int, str | None] = {UNBOUND: None}
        for ids, counts in self._columns(growing_sizes()):
            for number in set(ids.reshape(-1).tolist()) - known.keys():
                known[number] = decode(number)
            columns = [map(known.__getitem__, column.tolist()) for column in ids]
            rows = zip(*columns, strict=True) if columns else repeat(())
            for values, count in zip(rows, counts.tolist(), strict=False):
                self._check_open()
                yield Answer(self.names, values, count)

    def count(self) -> int:
        """The total multiplicity. Cost: a scan of the answers."""
        return sum(add_exactly(counts) for _, counts in self._columns(lambda: BATCH_ROWS))

    def support(self) -> int:
        """The number of distinct answers. Cost: a scan of the answers."""
        return sum(len(counts) for _, counts in self._columns(lambda: BATCH_ROWS))

    def __len__(self) -> int:
        return self.support()

    @property
    def schema(self) -> pa.Schema:
        """Columns of terms as dictionaries of strings, and the multiplicity."""
        import pyarrow as pa

        terms = pa.dictionary(pa.int32(), pa.string())
        fields = [pa.field(name, terms) for name in self.names]
        return pa.schema([*fields, pa.field(self._count_name(), pa.int64(), nullable=False)])

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The answers as Arrow record batches of at most that many rows."""
        import pyarrow as pa

        for ids, counts in self._columns(lambda: rows):
            columns = [self._decoder.decode(column) for column in ids]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(counts)], schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """All answers as one Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """All answers as a pandas DataFrame (needs pandas)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All answers as a Polars DataFrame (needs polars)."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The answers as an Arrow stream that other libraries read without copying."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

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
