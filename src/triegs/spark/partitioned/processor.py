"""Partitions inside Spark: Spark keeps the state, and worker processes cache the engines.

Spark may run a partition in any process, so a cached engine may be outdated. Each batch therefore
stores a new token in the state, and only the engine that wrote the current token is reused.
Otherwise the engine is rebuilt from the state.

When a query starts, Spark loads this module in a process that only declares the state variables. So
the engine is imported by the first task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from triegs.spark.partitioned.job import Job
from triegs.spark.tasks import find_batch

if TYPE_CHECKING:
    from triegs.spark.encoded_batch import EncodedBatch
    from triegs.spark.partitioned.partition import Output, Partition
    from triegs.spark.partitioned.state_sync import Chunk

# `triegs.spark` can be imported without Spark.
try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:
    StatefulProcessor = object

#: What partitions output, as Spark's schema.
OUTPUT_SCHEMA = "partition int, kind string, query string, payload binary"
OUTPUT = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("query", pa.string()),
        ("payload", pa.binary()),
    ]
)
#: The most bytes of a frame for Spark, unless a single cell has more.
FRAME_BYTES = 4 << 20
#: State variables and their types. The names are fixed: checkpoints contain them.
CHUNKS, CHUNK_KEY, CHUNK_VALUE = "pieces", "file string, number int", "data binary"
ABOUT, ABOUT_VALUE = "about", "token string, newest long"
#: The most engines of other pipelines that a process caches.
MOST_OTHERS = 8


class Cached(NamedTuple):
    """The engine of a partition, the token it stored in the state, and in which batch."""

    token: str
    batch: int
    partition: Partition


#: By pipeline identity and partition number.
_cache: dict[tuple[str, int], Cached] = {}


class PartitionProcessor(StatefulProcessor):  # type: ignore[misc]
    """For `transformWithStateInPandas`, grouped by slot."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        self._about = handle.getValueState(ABOUT, ABOUT_VALUE)
        self._chunks = handle.getMapState(CHUNKS, CHUNK_KEY, CHUNK_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Apply the encoded batches of a micro-batch, which arrive as pandas frames."""
        from triegs.spark.partitioned.partition import REPORT, Output

        job = self._job
        if key[0] in job.retired:
            self._about.clear()
            self._chunks.clear()
            return
        number = job.slots.index(key[0])
        begun = perf_counter()
        batches = [encoded for frame in rows for encoded in read_encoded(frame)]
        about = self._about.get()
        token, newest = (None, job.newest) if about is None else (about[0], about[1])
        partition, is_hit = self._find_partition(number, token)
        try:
            marks = [perf_counter()]
            batch = find_batch() or 0
            initial = [name for name, first in job.firsts if first == batch]
            outputs, newest = partition.take(batches, newest, initial)
            marks.append(perf_counter())
            written = partition.save(self)
            token = uuid4().hex
            self._about.update((token, newest))
        except BaseException:
            partition.close()
            raise
        marks.append(perf_counter())
        report = {
            **partition.report, "hit": is_hit,
            "build_s": 0.0 if is_hit else partition.build_seconds,
            "state_bytes": partition.bytes, "written_bytes": written, "read_s": marks[0] - begun,
            "engine_s": marks[1] - marks[0], "state_s": marks[2] - marks[1],
        }  # fmt: skip
        _cache[job.identity, number] = Cached(token, find_batch() or 0, partition)
        outputs.append(Output(REPORT, "", json.dumps(report).encode()))
        for frame in pack(outputs):
            table = pa.Table.from_pylist(
                [{"partition": number, **out._asdict()} for out in frame], OUTPUT
            )
            yield table.to_pandas()

    def _find_partition(self, number: int, token: str | None) -> tuple[Partition, bool]:
        """The engine that wrote the state, or else a new one from the state. It returns to the
        cache only when the batch is done.
        """
        from triegs.spark.partitioned.partition import Partition

        drop_stale(self._job.identity, find_batch() or 0)
        known = _cache.pop((self._job.identity, number), None)
        if known is not None:
            if known.token == token:
                known.partition.job = (
                    self._job
                )  # the partitions are the same, but other changes may be wanted
                return known.partition, True
            known.partition.close()
        return Partition(self._job, number, self._list_chunks() if token is not None else ()), False

    def _list_chunks(self) -> Iterator[Chunk]:
        from triegs.spark.partitioned.state_sync import Chunk

        for (file, number), (data,) in self._chunks.iterator():
            yield Chunk(file, number, bytes(data))

    # The `Store` that `Partition.save` writes to.

    def put(self, chunk: Chunk) -> None:
        self._chunks.updateValue((chunk.file, chunk.number), (chunk.data,))

    def remove(self, file: str, number: int) -> None:
        self._chunks.removeKey((file, number))


def drop_stale(identity: str, batch: int) -> None:
    """Close engines that no batch can reuse. Every batch reaches every partition, so an engine last
    used before the previous batch belongs to a partition that moved away. Of other pipelines, which
    may have ended, the newest engines are kept.
    """
    stale = [k for k, known in _cache.items() if k[0] == identity and known.batch < batch - 1]
    others = [k for k in _cache if k[0] != identity]
    for key in stale + others[:-MOST_OTHERS]:
        _cache.pop(key).partition.close()


def pack(outputs: Iterable[Output]) -> Iterator[list[Output]]:
    """Group small cells into one frame, because each frame has a fixed cost."""
    frame: list[Output] = []
    held = 0
    for out in outputs:
        if frame and held + len(out.payload) > FRAME_BYTES:
            yield frame
            frame, held = [], 0
        frame.append(out)
        held += len(out.payload)
    if frame:
        yield frame


def read_encoded(frame: Any) -> Iterator[EncodedBatch]:
    from triegs.spark.encoded_batch import EncodedBatch

    for task, number, kind, payload in zip(
        frame["task"], frame["number"], frame["kind"], frame["payload"], strict=True
    ):
        yield EncodedBatch(int(task), int(number), kind, bytes(payload))
