"""Parquet and Arrow IPC (files and streams)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.errors import InputError
from triegs.events.context import FilePosition, ReadBatch, ReadContext, find_columns
from triegs.events.event_columns import describe_row, shape_events
from triegs.events.files import InputFile
from triegs.events.streams import CHUNK, BrokenFile, Unpacked
from triegs.terms.arrays import Words
from triegs.terms.columns import is_text

MAGIC = b"ARROW1"
MOST_HELD = 1 << 32  # bytes


def read_parquet(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    """Yield events by row group; reads only the needed columns."""
    with _break_errors(), _open_seekable(file) as source:
        parquet = pq.ParquetFile(source)
        schema = parquet.schema_arrow
        names = find_columns(schema.names, file.name, context.options)
        texts = [
            schema.names[number]
            for ours, number in names.items()
            if _is_coded(schema.field(number).type)
            or (ours not in ("time", "op", "id") and is_text(schema.field(number).type))
        ]
        if texts:
            # Keep dictionaries, so that each distinct text is checked once. Also, Arrow fails to
            # decode a dictionary that contains invalid UTF-8.
            parquet = pq.ParquetFile(source, read_dictionary=texts)
        wanted = [schema.names[number] for number in dict.fromkeys(names.values())]
        row = position.get("row", 0)
        start = 0
        sizes = [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)]
        for groups in join_groups(sizes, context.options.batch_rows):
            rows = sum(sizes[group] for group in groups)
            if start + rows <= row:
                start += rows
                continue
            for batch in parquet.iter_batches(context.options.batch_rows, groups, wanted):
                skipped = min(max(row - start, 0), batch.num_rows)
                start += batch.num_rows
                if skipped < batch.num_rows:
                    first = start - batch.num_rows + skipped
                    yield _shape(batch.slice(skipped), file, context, first), {"row": start}


def _is_coded(kind: Any) -> bool:
    return pa.types.is_dictionary(kind) and is_text(kind.value_type)


def join_groups(sizes: list[int], least: int) -> Iterator[list[int]]:
    """Groups of row groups that fill a batch. Where batches end does not depend on the start.

    >>> list(join_groups([5, 5, 20, 3], 10))
    [[0, 1], [2], [3]]
    """
    groups: list[int] = []
    rows = 0
    for group, size in enumerate(sizes):
        groups.append(group)
        rows += size
        if rows >= least or group == len(sizes) - 1:
            yield groups
            groups, rows = [], 0


def read_arrow(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    """Yield events by record batch; long batches are split."""
    row = position.get("row", 0)
    start = 0
    with _break_errors():
        for whole in _read_record_batches(file):
            whole.validate()  # column lengths only; the columns are checked when used
            find_columns(whole.schema.names, file.name, context.options)
            for at in range(0, whole.num_rows, context.options.batch_rows):
                batch = whole.slice(at, context.options.batch_rows)
                skipped = min(max(row - start, 0), batch.num_rows)
                start += batch.num_rows
                if skipped < batch.num_rows:
                    first = start - batch.num_rows + skipped
                    yield _shape(batch.slice(skipped), file, context, first), {"row": start}


def _read_record_batches(file: InputFile) -> Iterator[Any]:
    """The record batches of an IPC file or stream."""
    with file.open_bytes() as chunks:
        stream = io.BufferedReader(Unpacked(chunks), 1 << 16)
        if stream.peek(1)[: len(MAGIC)] != MAGIC:
            with pa.ipc.open_stream(pa.PythonFile(stream, "r")) as reader:
                yield from reader
            return
        if not file.is_seekable:
            yield from _read_ipc_file(pa.BufferReader(_hold(iter(lambda: stream.read(CHUNK), b""))))
            return
    with _open_seekable(file) as source:
        yield from _read_ipc_file(source)


def _read_ipc_file(source: Any) -> Iterator[Any]:
    with pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


@contextmanager
def _open_seekable(file: InputFile) -> Iterator[Any]:
    """A seekable source. Compressed files and pipes are held in memory."""
    if file.is_seekable:
        with pa.OSFile(str(file.path), "rb") as source:
            yield source
    else:
        with file.open_bytes() as chunks:
            yield pa.BufferReader(_hold(chunks))


def _hold(chunks: Iterator[bytes]) -> bytes:
    """The whole content, up to a limit: a small compressed file may expand to any size."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_HELD:
            raise BrokenFile(
                "it is held in memory because it is compressed or piped, and exceeds 4 GiB; "
                "decompress it to a file, or write an Arrow stream"
            )
    return b"".join(parts)


@contextmanager
def _break_errors() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    # Column names that are not UTF-8 and absurd sizes raise Python errors.
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as problem:
        text = problem.strerror if isinstance(problem, OSError) else None
        raise BrokenFile(text or str(problem).partition("\n")[0]) from problem


def _shape(batch: Any, file: InputFile, context: ReadContext, first: int) -> Any:
    names = find_columns(batch.schema.names, file.name, context.options)
    columns = {ours: batch.column(number) for ours, number in names.items()}

    def locate(row: int) -> tuple[int, str]:
        return first + row + 1, describe_row(columns, row)

    def number() -> tuple[str, Words]:
        return file.row_scope, np.arange(first + 1, first + 1 + batch.num_rows)

    return shape_events(
        columns, batch.num_rows, context, file.name, file.scope, locate, origin=number
    )
