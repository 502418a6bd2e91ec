"""A source of events like `triegs.events.Source`, whose files Spark reads.

Spark's Structured Streaming finds the files, forms micro-batches, reads them in parallel and hands
each batch to one of its threads as Arrow. The reader of this source, which drives the engine, takes
one batch at a time. Spark continues only when the reader asks for more, so a batch counts as done
when the engine has it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from tempfile import mkdtemp
from threading import Thread
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from triegs.errors import InputError
from triegs.events.context import FilePosition, Options, ReadBatch, ReadContext, key_cell
from triegs.events.event_columns import describe_row, shape_events
from triegs.events.files import InputFile
from triegs.events.source import Source
from triegs.spark.cells import quote
from triegs.spark.failures import Cancelled, explain, mute
from triegs.spark.file_runs import (
    INDEX_DIGITS,
    Run,
    find_runs,
    link_run,
    require_readable,
)
from triegs.spark.session import LocalSpark
from triegs.terms.arrays import Words

#: The most files of a micro-batch. Files are never split, so a micro-batch is held in memory.
FILES_PER_BATCH = 4
FOREVER = "36500d"
LARGE = pa.large_binary()
INDEX, START, LINE = "triegs_index", "triegs_start", "triegs_line"


class Handover:
    """Passes tables from Spark's thread to the reader's, one at a time; each waits."""

    def __init__(self) -> None:
        self._given: SimpleQueue[pa.Table | BaseException | None] = SimpleQueue()
        self._taken: SimpleQueue[bool] = SimpleQueue()

    def give(self, table: pa.Table) -> None:
        """Wait until the reader is done with it; raises `Cancelled` if it never will be."""
        self._given.put(table)
        if not self._taken.get():
            raise Cancelled

    def end(self, error: BaseException | None = None) -> None:
        self._given.put(error)

    def cancel(self) -> None:
        """The reader takes no more."""
        self._taken.put(False)

    def take(self) -> Iterator[pa.Table]:
        while True:
            given = self._given.get()
            if given is None:
                return
            if isinstance(given, BaseException):
                raise given
            yield given
            self._taken.put(True)


class SparkSource(Source):
    """Batches of events from input files that Spark reads; pass it to `open_input`.

    The events, their order, malformed records and the counts in ``report`` are those of
    `triegs.events.Source`. A file that Spark cannot read ends the input with `InputError`.

    The session starts in the background at once, to be ready when the engine is.
    """

    def __init__(
        self,
        files: list[InputFile],
        skipped: list[str],
        work: ReadContext,
        position: dict[str, Any],
        *,
        spark: LocalSpark,
        files_per_batch: int = FILES_PER_BATCH,
    ) -> None:
        super().__init__(files, skipped, work, position)
        require_readable(files)
        self._spark = spark
        self._files_per_batch = files_per_batch
        self._runs = list(find_runs(files, work.options, self._first))
        self._folder = Path(mkdtemp(prefix="input-", dir=spark.folder))
        self._handover = Handover()
        self._query: Any = None
        self._is_closed = False
        self._held: pa.Table | None = None
        Thread(target=self._stream, name="triegs-spark", daemon=True).start()

    def close(self) -> None:
        """Stop reading; a batch that the engine does not have counts as unread."""
        super().close()
        if not self._is_closed:
            self._is_closed = True
            self._handover.cancel()
            if self._query is not None:
                # The query may have failed, or its Java process ended.
                with suppress(Exception):
                    self._query.stop()

    # Spark's side: a thread that waits for the queries, and Spark's callback threads.

    def _stream(self) -> None:
        mute()
        try:
            session = self._spark.get()
            for number, run in enumerate(self._runs):
                if self._is_closed:
                    break
                self._query = self._start(session, run, self._folder / str(number))
                self._query.awaitTermination()
        except Exception as error:
            self._handover.end(_explain(error, self._files))
        else:
            self._handover.end()

    def _start(self, session: Any, run: Run, folder: Path) -> Any:
        from pyspark.sql import functions

        link_run(run, self._files, folder / "files")
        reader = session.readStream.format(run.read_as)
        reader = reader.option("maxFilesPerTrigger", self._files_per_batch)
        # By default, Spark skips old files.
        reader = reader.option("maxFileAge", FOREVER)
        path = (folder / "files").as_uri()
        if run.read_as == "text":
            reader = reader.option("lineSep", "\n")
            wanted = [functions.col("value").alias(LINE)]
        else:
            reader = reader.schema(session.read.parquet(path).schema)
            wanted = [functions.col(quote(name)).alias(ours) for ours, name in run.columns.items()]
        about = functions.col("_metadata")
        index = about["file_name"].substr(1, INDEX_DIGITS).cast("int").alias(INDEX)
        start = about["file_block_start"].alias(START)
        frame = reader.load(path).select(index, start, *wanted)
        # The checkpoint is temporary: when a run resumes, the engine's state has the input
        # position, as without Spark.
        return (
            frame.writeStream.foreachBatch(self._receive)
            .option("checkpointLocation", (folder / "checkpoint").as_uri())
            .trigger(availableNow=True)
            .start()
        )

    def _receive(self, frame: Any, _: int) -> None:
        try:
            table = frame.toArrow()
        except Exception as error:
            # The reader reports it, unless it has stopped the query itself.
            self._handover.end(_explain(error, self._files))
            raise Cancelled from None
        self._handover.give(table)

    # The reader's side

    def _read(self) -> Iterator[Any]:
        following = self._first
        try:
            for table in self._handover.take():
                for index, piece in split_files(table):
                    # Files without rows are in no batch, but keep their turn.
                    for missed in range(following, index):
                        yield from self._read_table(missed, None)
                    yield from self._read_table(index, piece)
                    following = index + 1
            for missed in range(following, len(self._files)):
                yield from self._read_table(missed, None)
        finally:
            self._context.quarantine.close()

    def _read_table(self, index: int, table: pa.Table | None) -> Iterator[Any]:
        self._held = table
        yield from self._read_file(index)

    def _read_records(self, file: InputFile, position: FilePosition) -> Iterator[ReadBatch]:
        table, self._held = self._held, None
        if file.format == "parquet":
            return read_rows(file, self._context, table, position)
        text = b"" if table is None else join_lines(table.column(LINE))
        if not _has_last_end(file):
            text = text.removesuffix(b"\n")
        return super()._read_records(_receive_text(file, text), position)


def _explain(error: Exception, files: list[InputFile]) -> Exception:
    """Spark's error as one line, with the file if Spark names one of our links."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return error
    message = f"Spark failed: {explain(error)}"
    link = re.search(rf"/files/(\d{{{INDEX_DIGITS}}})", str(error))
    if link is None:
        return InputError(message)
    name = files[int(link[1])].name
    return InputError(f"{name}: {message}", file=name)


def split_files(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file, in input order.

    Spark assigns blocks of files to its tasks in an order of its own; rows within a block stay in
    order.

    >>> table = pa.table({INDEX: [1, 0, 0, 0], START: [0, 8, 8, 0], "x": ["d", "b", "c", "a"]})
    >>> [(index, piece.column("x").to_pylist()) for index, piece in split_files(table)]
    [(0, ['a', 'b', 'c']), (1, ['d'])]
    """
    indexes = table.column(INDEX).to_numpy()
    starts = table.column(START).to_numpy()
    cuts = np.flatnonzero((indexes[1:] != indexes[:-1]) | (starts[1:] != starts[:-1])) + 1
    bounds = [0, *cuts.tolist(), len(indexes)]
    blocks: dict[int, list[tuple[int, int, int]]] = {}
    for start, end in pairwise(bounds):
        if end > start:
            blocks.setdefault(int(indexes[start]), []).append((int(starts[start]), start, end))
    rows = table.drop_columns([INDEX, START])
    for index in sorted(blocks):
        pieces = [rows.slice(start, end - start) for _, start, end in sorted(blocks[index])]
        yield index, pa.concat_tables(pieces)


def join_lines(lines: pa.ChunkedArray) -> bytes:
    r"""The bytes of a text from a column of its lines.

    >>> join_lines(pa.chunked_array([["a", ""], ["b"]]))
    b'a\n\nb\n'
    """
    file = io.BytesIO()
    for chunk in lines.chunks:
        nothing, end = pa.array([b"", b"\n"], LARGE)
        ended = pc.binary_join_element_wise(chunk.cast(LARGE), nothing, end)
        _, offsets, data = ended.buffers()
        ends = np.frombuffer(offsets, np.int64)[ended.offset :][: len(ended) + 1]
        if len(ended):
            file.write(data.slice(int(ends[0]), int(ends[-1] - ends[0])))
    return file.getvalue()


def _has_last_end(file: InputFile) -> bool:
    """Whether the last line ends with a newline, which Spark does not report; assumed for gzip.

    The readers of `triegs.events` return a last line without a newline as a batch of its own, and
    what is late depends on batches.
    """
    if file.path is None or file.compression != "none":
        return True
    try:
        with file.path.open("rb") as opened:
            opened.seek(-1, os.SEEK_END)
            return opened.read() == b"\n"
    except OSError:
        return True  # an empty file


@dataclass(frozen=True)
class ReceivedText(InputFile):
    """A file whose text has already been received, uncompressed."""

    text: bytes

    @property
    def is_seekable(self) -> bool:
        return False

    @contextmanager
    def open_packed(self) -> Iterator[IO[bytes]]:
        yield io.BytesIO(self.text)


def _receive_text(file: InputFile, text: bytes) -> ReceivedText:
    return ReceivedText(file.name, file.given, file.format, "none", text)


def restore_kinds(table: pa.Table, schema: pa.Schema, names: Mapping[str, str]) -> pa.Table:
    """Restore the file's types where Spark's differ in the terms they make: Spark has no zones, and
    decimals for unsigned 64-bit integers.

    >>> berlin = pa.schema([("t", pa.timestamp("ms", "Europe/Berlin"))])
    >>> table = pa.table({"object": pa.array([0], pa.timestamp("us", "UTC"))})
    >>> restore_kinds(table, berlin, {"object": "t"}).schema.field(0).type
    TimestampType(timestamp[us, tz=Europe/Berlin])
    """
    for column, ours in enumerate(table.schema.names):
        kind = schema.field(names[ours]).type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            kind = pa.timestamp("us", kind.tz)
        elif not pa.types.is_uint64(kind):
            continue
        table = table.set_column(column, ours, table.column(ours).cast(kind))
    return table


def list_names(options: Options) -> dict[str, str]:
    """Column names in a file by our names, including the columns that a mapping reads."""
    cells = () if options.mapping is None else options.mapping.columns
    return {**options.columns, **{key_cell(name): name for name in cells}}


def read_rows(
    file: InputFile, work: ReadContext, table: pa.Table | None, position: FilePosition
) -> Iterator[ReadBatch]:
    """Rows of Parquet, with columns under our names, as `triegs.events.tables` reads them."""
    first = position.get("row", 0)
    if table is not None:
        table = restore_kinds(table, pq.read_schema(file.path), list_names(work.options))
    size = work.options.batch_rows
    while table is not None and first < table.num_rows:
        piece = table.slice(first, size).combine_chunks().to_batches()[0]
        columns = {name: piece.column(name) for name in piece.schema.names}

        def locate(
            row: int, first: int = first, columns: dict[str, Any] = columns
        ) -> tuple[int, str]:
            return first + row + 1, describe_row(columns, row)

        first += piece.num_rows
        numbers = np.arange(first + 1 - piece.num_rows, first + 1)

        def number(numbers: Words = numbers) -> tuple[str, Words]:
            return file.row_scope, numbers

        batch = shape_events(
            columns, piece.num_rows, work, file.name, file.scope, locate, origin=number
        )
        yield batch, {"row": first}
