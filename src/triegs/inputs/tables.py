"""Parquet and Arrow IPC (files and streams): columns that are columns already."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.dictionary.arrays import Words
from triegs.dictionary.columns import is_text
from triegs.errors import InputError
from triegs.inputs.files import InputFile
from triegs.inputs.shaping import describe_row, shape_events
from triegs.inputs.streams import CHUNK, BrokenFile, Unpacked
from triegs.inputs.work import Found, Place, Work, find_columns

MAGIC = b"ARROW1"
MOST_HELD = 1 << 32  # bytes


def read_parquet(file: InputFile, work: Work, place: Place) -> Iterator[Found]:
    """Row group by row group; only the columns that are needed are read."""
    with _tell_breaks(), _open_seekable(file) as source:
        parquet = pq.ParquetFile(source)
        schema = parquet.schema_arrow
        names = find_columns(schema.names, file.name, work.options)
        texts = [
            schema.names[number]
            for ours, number in names.items()
            if _is_coded(schema.field(number).type)
            or (ours not in ("time", "op", "id") and is_text(schema.field(number).type))
        ]
        if texts:
            # Texts that lie there as dictionaries stay so: each is then looked at once. And Arrow
            # does not read dictionaries that it has to convert, if one text is none.
            parquet = pq.ParquetFile(source, read_dictionary=texts)
        wanted = [schema.names[number] for number in dict.fromkeys(names.values())]
        row = place.get("row", 0)
        start = 0
        sizes = [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)]
        for groups in join_groups(sizes, work.options.batch_rows):
            rows = sum(sizes[group] for group in groups)
            if start + rows <= row:
                start += rows
                continue
            for batch in parquet.iter_batches(work.options.batch_rows, groups, wanted):
                skipped = min(max(row - start, 0), batch.num_rows)
                start += batch.num_rows
                if skipped < batch.num_rows:
                    first = start - batch.num_rows + skipped
                    yield _shape(batch.slice(skipped), file, work, first), {"row": start}


def _is_coded(kind: Any) -> bool:
    return pa.types.is_dictionary(kind) and is_text(kind.value_type)


def join_groups(sizes: list[int], least: int) -> Iterator[list[int]]:
    """Row groups that are read together: so many that they fill a batch. Where batches end does
    not depend on where reading began then.

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


def read_arrow(file: InputFile, work: Work, place: Place) -> Iterator[Found]:
    """Record batch by record batch; a long one is given in pieces."""
    row = place.get("row", 0)
    start = 0
    with _tell_breaks():
        for whole in _read_record_batches(file):
            whole.validate()  # that its columns are of one length; each is looked at when used
            find_columns(whole.schema.names, file.name, work.options)
            for at in range(0, whole.num_rows, work.options.batch_rows):
                batch = whole.slice(at, work.options.batch_rows)
                skipped = min(max(row - start, 0), batch.num_rows)
                start += batch.num_rows
                if skipped < batch.num_rows:
                    first = start - batch.num_rows + skipped
                    yield _shape(batch.slice(skipped), file, work, first), {"row": start}


def _read_record_batches(file: InputFile) -> Iterator[Any]:
    """Of an IPC file or stream, whichever it is."""
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
    """For formats that are read from their end. What is packed or no file is held in memory."""
    if file.is_seekable:
        with pa.OSFile(str(file.path), "rb") as source:
            yield source
    else:
        with file.open_bytes() as chunks:
            yield pa.BufferReader(_hold(chunks))


def _hold(chunks: Iterator[bytes]) -> bytes:
    """All of a file. One that is small when it is packed may be anything when it is not."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_HELD:
            raise BrokenFile(
                "it is held in memory, since it is packed or no file of its own, and has more than "
                "4 GiB; unpack it to a file, or write an Arrow stream"
            )
    return b"".join(parts)


@contextmanager
def _tell_breaks() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    # Names of columns that are not UTF-8, and sizes that are absurd, come as errors of Python's.
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as problem:
        text = problem.strerror if isinstance(problem, OSError) else None
        raise BrokenFile(text or str(problem).partition("\n")[0]) from problem


def _shape(batch: Any, file: InputFile, work: Work, first: int) -> Any:
    names = find_columns(batch.schema.names, file.name, work.options)
    columns = {ours: batch.column(number) for ours, number in names.items()}

    def locate(row: int) -> tuple[int, str]:
        return first + row + 1, describe_row(columns, row)

    def number() -> tuple[str, Words]:
        return file.row_scope, np.arange(first + 1, first + 1 + batch.num_rows)

    return shape_events(columns, batch.num_rows, work, file.name, file.scope, locate, origin=number)
