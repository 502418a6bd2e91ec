"""A snapshot: the full result of one query at one published epoch, held until it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from triegs.errors import SnapshotExpired
from triegs.read.rows import RowReader
from triegs.store.contract import Version

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

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

    def _rows(self) -> Iterator[tuple[tuple[int | None, ...], int]]:
        for row in self._reader.rows(self._version):
            if self._close is None:
                raise SnapshotExpired(f"the snapshot of epoch {self.epoch} is closed")
            yield row

    def _check_open(self) -> None:
        if self._close is None:
            raise SnapshotExpired(f"the snapshot of epoch {self.epoch} is closed")

    def __iter__(self) -> Iterator[Answer]:
        """Every answer once, with constant delay between two of them."""
        self._check_open()
        decode = self._reader.decode
        for row, count in self._rows():
            values = tuple(None if number is None else decode(number) for number in row)
            yield Answer(self.names, values, count)

    def count(self) -> int:
        """The total multiplicity. Cost: a scan of the answers."""
        self._check_open()
        return sum(count for _, count in self._rows())

    def support(self) -> int:
        """The number of distinct answers. Cost: a scan of the answers."""
        self._check_open()
        return sum(1 for _ in self._rows())

    def __len__(self) -> int:
        return self.support()

    @property
    def schema(self) -> pa.Schema:
        """Columns of terms as dictionaries of strings, and the multiplicity."""
        import pyarrow as pa

        terms = pa.dictionary(pa.int32(), pa.string())
        fields = [pa.field(name, terms) for name in self._columns()]
        return pa.schema([*fields, pa.field(self._count_name(), pa.int64(), nullable=False)])

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The answers as Arrow record batches of at most that many rows."""
        import numpy as np
        import pyarrow as pa

        self._check_open()
        width = len(self.names)
        ids = np.empty((width, rows), np.int64)
        counts = np.empty(rows, np.int64)
        filled = 0

        def batch() -> pa.RecordBatch:
            columns = [self._decoder.decode(ids[c, :filled]) for c in range(width)]
            return pa.RecordBatch.from_arrays(
                [*columns, pa.array(counts[:filled])], schema=self.schema
            )

        for row, count in self._rows():
            for column, number in enumerate(row):
                ids[column, filled] = -1 if number is None else number
            counts[filled] = count
            filled += 1
            if filled == rows:
                yield batch()
                filled = 0
        if filled:
            yield batch()

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

    def _columns(self) -> tuple[str, ...]:
        return self.names

    def _count_name(self) -> str:
        name = MULTIPLICITY
        while name in self.names:
            name = f"{name}_"
        return name
