"""How large Arrow and Parquet bodies become when they are read, before they are.

Their buffers may be compressed, and a dictionary may stand for a long term in every row; so a small
body can need any amount of memory. Text formats cannot, except by the prefixes that
`triegs.server.ingest` bounds as it reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from triegs.server.bodies import refuse_size
from triegs.server.problems import Problem

#: Rows of one body, however small they are.
MOST_ROWS = 1 << 22
MAGIC = b"ARROW1"
CONTINUATION = 0xFFFFFFFF
#: Kinds of messages and their fields, as in the Arrow format.
DICTIONARY, RECORDS = 2, 3
HEADER_TYPE, HEADER, BODY_LENGTH = 1, 2, 3
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3
DICTIONARY_DATA = 1


def check_arrow(body: bytes, limit: int) -> None:
    """Refuse an Arrow stream or file that becomes larger than `limit`. Cost: its messages."""
    try:
        rows = size = largest = messages = 0
        for length, unpacked in measure_messages(body):
            rows += length
            size += unpacked
            largest, messages = max(largest, unpacked), messages + 1
        batches: Iterator[pa.RecordBatch]
        if body.startswith(MAGIC):
            file = pa.ipc.open_file(pa.BufferReader(body))
            # Its index may name a message more than once.
            size = max(size, largest * file.num_record_batches)
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(pa.BufferReader(body)))
        if rows > MOST_ROWS or size > limit:
            raise refuse_size(limit)
        check_batches(batches, limit)
    except (pa.ArrowInvalid, OSError, struct.error, IndexError):
        return  # the reader says what is wrong


def check_parquet(body: bytes, limit: int) -> None:
    """The same for Parquet, by its index. Cost: reading it."""
    try:
        file = pq.ParquetFile(pa.BufferReader(body))
        found = file.metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        size = sum(
            group.column(at).total_uncompressed_size
            for group in groups
            for at in range(group.num_columns)
        )
        if found.num_rows > MOST_ROWS or size > limit:
            raise refuse_size(limit)
        names = [name for name, kind in zip(file.schema_arrow.names, file.schema_arrow.types,
                                            strict=True) if pa.types.is_string(kind)]  # fmt: skip
        packed = pq.ParquetFile(pa.BufferReader(body), read_dictionary=names)
        check_batches(packed.iter_batches(), limit)
    except (pa.ArrowInvalid, OSError):
        return


def check_batches(batches: Iterator[pa.RecordBatch], limit: int) -> None:
    """Refuse batches whose dictionaries are larger than `limit` when written out."""
    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += sum(map(measure_column, batch.columns))
        if rows > MOST_ROWS or size > limit:
            raise refuse_size(limit)


def measure_column(column: pa.Array) -> int:
    """The bytes of a column without a dictionary."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = column.dictionary
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            return int(column.nbytes)
        lengths = pc.cast(pc.binary_length(values), pa.int64())
        return int(pc.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_run_end_encoded(kind) or pa.types.is_nested(kind):
        raise Problem(400, "unreadable events", f"columns of type {kind} are not supported")
    return int(column.nbytes)


def measure_messages(body: bytes) -> Iterator[tuple[int, int]]:
    """The rows and the unpacked bytes of each batch of an Arrow stream or file.

    >>> table = pa.table({"x": ["a" * 1000] * 1000})
    >>> sink = pa.BufferOutputStream()
    >>> options = pa.ipc.IpcWriteOptions(compression="zstd")
    >>> with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
    ...     writer.write_table(table)
    >>> body = sink.getvalue().to_pybytes()
    >>> len(body) < 20_000, [(rows, size > 1_000_000) for rows, size in measure_messages(body)]
    (True, [(1000, True)])
    """
    at = 8 if body.startswith(MAGIC) else 0
    while at + 8 <= len(body):
        (size,) = struct.unpack_from("<I", body, at)
        at += 4
        if size == CONTINUATION:
            (size,) = struct.unpack_from("<I", body, at)
            at += 4
        if size == 0:
            return
        message = Table(body, at + struct.unpack_from("<I", body, at)[0])
        data = at + size
        kind = message.read("<B", HEADER_TYPE)
        if kind in (RECORDS, DICTIONARY):
            records = message.follow(HEADER)
            if kind == DICTIONARY:
                records = records.follow(DICTIONARY_DATA)
            yield records.read("<q", LENGTH), measure_buffers(body, data, records)
        at = data + message.read("<q", BODY_LENGTH)


def measure_buffers(body: bytes, data: int, records: Table) -> int:
    """The unpacked bytes of a batch: each compressed buffer begins with its length."""
    is_packed = records.find(COMPRESSION) is not None
    total = 0
    for offset, length in records.read_pairs(BUFFERS):
        unpacked = length
        if is_packed and length >= 8:
            (told,) = struct.unpack_from("<q", body, data + offset)
            unpacked = length if told < 0 else told
        total += unpacked
    return total


class Table:
    """A table of the FlatBuffers format, in which Arrow describes its messages."""

    def __init__(self, body: bytes, at: int) -> None:
        self._body = body
        self._at = at
        (back,) = struct.unpack_from("<i", body, at)
        self._index = at - back

    def find(self, field: int) -> int | None:
        """Where a field is; None if it is left out."""
        (size,) = struct.unpack_from("<H", self._body, self._index)
        if 4 + 2 * field >= size:
            return None
        (offset,) = struct.unpack_from("<H", self._body, self._index + 4 + 2 * field)
        return self._at + offset if offset else None

    def read(self, kind: str, field: int) -> int:
        at = self.find(field)
        return 0 if at is None else int(struct.unpack_from(kind, self._body, at)[0])

    def follow(self, field: int) -> Table:
        """The table that a field refers to."""
        at = self.find(field)
        if at is None:
            raise IndexError(f"field {field} is missing")
        return Table(self._body, at + struct.unpack_from("<I", self._body, at)[0])

    def read_pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """The pairs of a vector."""
        at = self.find(field)
        if at is None:
            return
        at += struct.unpack_from("<I", self._body, at)[0]
        (count,) = struct.unpack_from("<I", self._body, at)
        for number in range(count):
            yield struct.unpack_from("<qq", self._body, at + 4 + 16 * number)
