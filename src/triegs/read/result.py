"""What snapshots and changes share: rows of terms, each with a count, in every output form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from triegs.copying import Uncopied
from triegs.errors import TriegsError
from triegs.options import LAYOUTS, ArrowTerms, LayoutName, RowTerms, check_least, check_word
from triegs.read.columns import BATCH_ROWS, RUN_ROWS, Columns, Integers, NotIntegers, Sizes
from triegs.read.factorised import (
    IntegerOutput,
    RunBatch,
    RunOutput,
    count_field,
    encode_runs,
    join_batches,
)
from triegs.read.output import ARROW_FORMS, ROW_FORMS, ArrowOutput, RowOutput, integer_table
from triegs.terms.decoder import Decoder, wrap

if TYPE_CHECKING:
    import pyarrow as pa

Found = TypeVar("Found")
Made = TypeVar("Made")


class Row:
    """Values by name or index, and a count, whose name the class defines."""

    __slots__ = ("_count", "_names", "_values")
    _count_name: ClassVar[str]

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...], count: int) -> None:
        self._names = names
        self._values = values
        self._count = count

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._names, self._values, self._count)

    def __getattr__(self, name: str) -> Any:
        if name in Row.__slots__:  # while the row is being made
            raise AttributeError(name)
        if name in self._names:
            return self._values[self._names.index(name)]
        raise AttributeError(f"no variable {name!r}; the variables are {', '.join(self._names)}")

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
        if type(other) is not type(self):
            return NotImplemented
        mine = (self._names, self._values, self._count)
        return mine == (other._names, other._values, other._count)

    def __hash__(self) -> int:
        return hash((self._names, self._values, self._count))

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" for n, v in zip(self._names, self._values, strict=True)]
        count = f"{self._count_name}={self._count}"
        return f"{type(self).__name__}({', '.join([*parts, count])})"


class Result(Uncopied):
    """Rows in batches of columns, and their output forms.

    A subclass reads columns of ids (`_columns`), and holds what they are read from while a batch is
    made (`_hold`).
    """

    _row: ClassVar[type[Row]]
    _instead = (
        "it belongs to this process; send what to_arrow() or list(...) gives, or a snapshot.share()"
    )
    names: tuple[str, ...]
    #: Of the engine's terms, and of each column.
    _decoder: Decoder
    _decoders: tuple[Decoder, ...]

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        """Columns of ids; with `integers` of values, or `NotIntegers` if a term is none."""
        raise NotImplementedError

    def _hold(self) -> AbstractContextManager[None]:
        """Within the block, nothing that is read is freed; `SnapshotExpired` if it already was."""
        raise NotImplementedError

    def _read(self, sizes: Sizes, make: Callable[[Columns], Made]) -> Iterator[Made]:
        """The output of each batch. Ids are valid only while their snapshot is pinned, so they are
        converted to terms within the block.
        """
        return self._make(self._columns(sizes), make)

    def _make(self, batches: Iterator[Found], make: Callable[[Found], Made]) -> Iterator[Made]:
        while True:
            with self._hold():
                found = next(batches, None)
                if found is None:
                    return
                made = make(found)
            yield made

    def __iter__(self) -> Iterator[Any]:
        """Every row once, with constant delay between rows; terms as N-Triples strings."""
        return self.answers()

    def answers(self, terms: RowTerms = "ntriples") -> Iterator[Any]:
        """Every row once, with terms as ``"ntriples"``, ``"python"``, ``"plain"``, ``"rdflib"``,
        ``"pyoxigraph"`` or ``"ids"``; see `triegs.read.output`.
        """
        check_word("terms", terms, ROW_FORMS)
        output = RowOutput(self._decoders, terms)
        with self._hold():
            pass
        return self._make_answers(output)

    def _make_answers(self, output: RowOutput) -> Iterator[Any]:
        for values, counts in self._read(
            growing_sizes(), lambda found: (list(output.rows(found[0])), found[1].tolist())
        ):
            for row, count in zip(values, counts, strict=True):
                yield self._row(self.names, row, count)
                self._check_open()

    def _check_open(self) -> None:
        """Raise `SnapshotExpired` after the end."""

    def batches(
        self, rows: int = BATCH_ROWS, terms: ArrowTerms = "ntriples", *, compact: bool = False,
        layout: LayoutName = "flat", first: int | None = None,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """The rows as Arrow record batches of at most `rows` rows. The first batch has `first`
        rows; a small one arrives sooner.

        Columns are dictionaries of N-Triples strings; with ``terms="python"`` native columns where
        one type fits, with ``terms="plain"`` also plain names for nodes, and with ``terms="ids"``
        dictionary ids. The last column is the count; underscores are appended to its name if a
        variable has the same. Memory: one batch.

        If the first batch has at least four rows for each id of the engine, the columns share one
        dictionary of all terms, which costs nothing per row. With `compact`, each column always has
        a dictionary of its own terms; use it to write the result to Arrow files or send it
        elsewhere.

        With ``layout="factorised"`` columns are run-end encoded, except for the one that repeats no
        value: a value of an outer variable is written once for all combinations of inner ones.
        Terms are then strings, so this pays off for native values and ids, not for text. pyarrow
        and DuckDB read such columns; Polars does not.
        """
        return iter(self._stream(rows, terms, compact, layout, first))

    def _stream(
        self, rows: int, terms: ArrowTerms, compact: bool = False, layout: LayoutName = "flat",
        first_rows: int | None = None,
    ) -> pa.RecordBatchReader:  # fmt: skip
        import pyarrow as pa

        check_word("terms", terms, ARROW_FORMS)
        check_word("layout", layout, LAYOUTS)
        check_least("rows", rows, 1)
        if first_rows is not None:
            check_least("first", first_rows, 1)
        sizes = chain([] if first_rows is None else [first_rows], repeat(rows)).__next__
        if layout == "flat":
            first, schema, columns = self._begin(sizes, terms, compact)
        else:
            first, schema, columns = self._begin_runs(sizes, terms, 0 if compact else rows)
        batches = (
            pa.RecordBatch.from_arrays(arrays, schema=schema)
            for arrays in chain([] if first is None else [first], columns)
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _begin(
        self, sizes: Sizes, terms: str, compact: bool
    ) -> tuple[list[Any] | None, pa.Schema, Iterator[list[Any]]]:
        """The first batch, if any, its schema, and the batches to come."""
        output: ArrowOutput | None = None

        def write(found: Columns) -> list[Any]:
            nonlocal output
            if output is None:
                output = self._open_output(terms, 0 if compact else len(found[1]))
            return [*output.write(found[0]), wrap(found[1])]

        columns = self._read(sizes, write)
        first = next(columns, None)
        if output is None:
            return None, empty_table(self.names, self._count_name(), terms).schema, columns
        return first, self._schema(output), columns

    def _begin_runs(
        self, sizes: Sizes, terms: str, shared_rows: int
    ) -> tuple[list[Any] | None, pa.Schema, Iterator[list[Any]]]:
        """The same for columns of runs."""
        import pyarrow as pa

        output = self._open_runs(terms, shared_rows)
        columns = self._make(self._runs(sizes), output.write)
        first = next(columns, None)
        return first, pa.schema(output.fields(self._count_name())), columns

    def _open_runs(self, terms: str, rows: int) -> RunOutput:
        return RunOutput(self._open_output(terms, rows), self._flat)

    @property
    def _flat(self) -> int:
        """The column of a factorised result that has every row."""
        return len(self.names) - 1

    def _runs(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[RunBatch]:
        """Columns of runs; as `_columns`."""
        for ids, counts in self._columns(sizes, integers):
            yield encode_runs(ids, self._flat), counts

    def _to_runs(self, terms: ArrowTerms, compact: bool) -> pa.Table:
        """All rows, factorised."""
        if terms in ("python", "plain"):
            with suppress(NotIntegers):
                output = RunOutput(IntegerOutput(self.names), self._flat)
                columns = self._runs(lambda: RUN_ROWS, lambda: integer_table(self._decoder))
                written = list(self._make(columns, output.write))
                if written:
                    return join_batches(written, output.fields(self._count_name()))
        with self._hold():
            parts = list(self._runs(lambda: RUN_ROWS))
            output = self._open_runs(terms, 0 if compact else sum(len(part[1]) for part in parts))
            for part in parts:
                output.survey(part[0])
            written = [output.write(part) for part in parts]
            return join_batches(written, output.fields(self._count_name()))

    def to_arrow(
        self, terms: ArrowTerms = "ntriples", *, compact: bool = False, layout: LayoutName = "flat"
    ) -> pa.Table:
        """All rows as one Arrow table; `terms`, `compact` and `layout` as for `batches`."""
        check_word("terms", terms, ARROW_FORMS)
        check_word("layout", layout, LAYOUTS)
        if layout == "factorised":
            return self._to_runs(terms, compact)
        if terms in ("python", "plain"):
            with suppress(NotIntegers):
                return self._read_integers()
        with self._hold():
            parts = list(self._columns(lambda: BATCH_ROWS))
            if not parts:
                return empty_table(self.names, self._count_name(), terms)
            return self._write(parts, terms, compact)

    def _read_integers(self) -> pa.Table:
        """All rows if all terms are integers: the enumerating kernel writes their values."""
        columns = self._columns(lambda: BATCH_ROWS, lambda: integer_table(self._decoder))
        return self._join_integers(self._make(columns, lambda found: found))

    def _join_integers(self, parts: Iterable[Columns]) -> pa.Table:
        import pyarrow as pa

        names = (*self.names, self._count_name())
        schema = pa.schema([pa.field(name, pa.int64()) for name in names])
        batches = [
            pa.RecordBatch.from_arrays([*map(wrap, values), wrap(counts)], names)
            for values, counts in parts
        ]
        return pa.Table.from_batches(batches, schema)

    def _open_output(self, terms: str, rows: int) -> ArrowOutput:
        return ArrowOutput(self._decoders, self.names, terms, rows)

    def _write(self, parts: list[Columns], terms: str, compact: bool) -> pa.Table:
        """All rows; each column has a type that fits all of its terms."""
        rows = 0 if compact else sum(len(counts) for _, counts in parts)
        output = self._open_output(terms, rows)
        try:
            written = [output.write(ids) for ids, _ in parts]
        except TriegsError:  # the types of the first batch do not fit all: survey all first
            output = self._open_output(terms, rows)
            for ids, _ in parts:
                output.survey(ids)
            written = [output.write(ids) for ids, _ in parts]
        return self._join(self._schema(output), written, parts)

    @staticmethod
    def _join(schema: pa.Schema, columns: list[list[Any]], parts: list[Columns]) -> pa.Table:
        import pyarrow as pa

        batches = [
            pa.RecordBatch.from_arrays([*written, wrap(counts)], schema=schema)
            for written, (_, counts) in zip(columns, parts, strict=True)
        ]
        return pa.Table.from_batches(batches, schema=schema)

    def _schema(self, output: ArrowOutput) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([*output.fields, count_field(self._count_name())])

    def to_pandas(self, terms: ArrowTerms = "ntriples") -> Any:
        """All rows as a pandas DataFrame (needs pandas), with the terms of a column as its
        categories.
        """
        return self.to_arrow(terms, compact=True).to_pandas()

    def to_polars(self, terms: ArrowTerms = "ntriples") -> Any:
        """All rows as a Polars DataFrame (needs polars)."""
        import polars

        return polars.from_arrow(self.to_arrow(terms))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream that other libraries read without a copy."""
        return self._stream(BATCH_ROWS, "ntriples").__arrow_c_stream__(requested_schema)

    def _count_name(self) -> str:
        name = self._row._count_name
        while name in self.names:
            name = f"{name}_"
        return name


@lru_cache
def empty_table(names: tuple[str, ...], count: str, terms: str) -> pa.Table:
    """A result without rows; cached, because empty results are frequent."""
    import pyarrow as pa

    output = ArrowOutput(Decoder(_no_terms), names, terms)
    return pa.schema([*output.fields, count_field(count)]).empty_table()


def _no_terms() -> Any:
    raise AssertionError("nothing to decode")


def growing_sizes() -> Sizes:
    """Small batches first, so that the first answers come at once."""
    size = 32

    def next_size() -> int:
        nonlocal size
        size = min(2 * size, BATCH_ROWS)
        return size

    return next_size
