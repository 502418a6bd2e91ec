"""Parts inside Spark: their state is Spark's, their engines are a cache in the worker's process.

Spark runs a part where it likes. So a process that has the engine of a part may have an old one:
each batch leaves a token of its own in the state, and only the engine that left it goes on. Any
other is built anew from the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from triegs.spark.distributed.job import Job
from triegs.spark.distributed.keeping import Piece
from triegs.spark.distributed.parts import REPORT, Out, Parcel, Part
from triegs.spark.distributed.routing import find_batch

# Nothing of `triegs.spark` needs Spark to be imported.
try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:
    StatefulProcessor = object

#: What parts give, as Spark writes it.
OUT_SCHEMA = "part int, kind string, query string, payload binary"
OUT = pa.schema(
    [
        ("part", pa.int32()),
        ("kind", pa.string()),
        ("query", pa.string()),
        ("payload", pa.binary()),
    ]
)
#: Bytes of a frame for Spark at most, unless one cell has more.
FRAME_BYTES = 4 << 20
#: Names and types of what is in the state.
PIECES, PIECE_KEY, PIECE_VALUE = "pieces", "file string, number int", "data binary"
ABOUT, ABOUT_VALUE = "about", "token string, newest long"
#: Engines of other pipelines that a process keeps.
MOST_OTHERS = 8


class Cached(NamedTuple):
    """The engine of a part, the token that it left in the state, and the batch in which it did."""

    token: str
    batch: int
    part: Part


#: By the pipeline's identity and the number of the part.
_cache: dict[tuple[str, int], Cached] = {}


class Host(StatefulProcessor):  # type: ignore[misc]
    """For `transformWithStateInPandas`, grouped by slot."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        self._about = handle.getValueState(ABOUT, ABOUT_VALUE)
        self._pieces = handle.getMapState(PIECES, PIECE_KEY, PIECE_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Take the parcels of a batch, which come as frames of pandas."""
        job = self._job
        if key[0] in job.retired:
            self._about.clear()
            self._pieces.clear()
            return
        number = job.slots.index(key[0])
        begun = perf_counter()
        parcels = [parcel for frame in rows for parcel in read_parcels(frame)]
        about = self._about.get()
        token, newest = (None, job.newest) if about is None else (about[0], about[1])
        part, is_hit = self._find_part(number, token)
        try:
            marks = [perf_counter()]
            batch = find_batch() or 0
            asked = [name for name, first in job.firsts if first == batch]
            outs, newest = part.take(parcels, newest, asked)
            marks.append(perf_counter())
            written = part.save(self)
            token = uuid4().hex
            self._about.update((token, newest))
        except BaseException:
            part.close()
            raise
        marks.append(perf_counter())
        told = {
            **part.told, "hit": is_hit, "build_s": 0.0 if is_hit else part.build_seconds,
            "state_bytes": part.bytes, "written_bytes": written, "read_s": marks[0] - begun,
            "engine_s": marks[1] - marks[0], "state_s": marks[2] - marks[1],
        }  # fmt: skip
        _cache[job.identity, number] = Cached(token, find_batch() or 0, part)
        outs.append(Out(REPORT, "", json.dumps(told).encode()))
        for frame in pack(outs):
            table = pa.Table.from_pylist([{"part": number, **out._asdict()} for out in frame], OUT)
            yield table.to_pandas()

    def _find_part(self, number: int, token: str | None) -> tuple[Part, bool]:
        """The engine that wrote the state, else a new one of what it says; not in the cache until
        the batch is done.
        """
        drop_stale(self._job.identity, find_batch() or 0)
        known = _cache.pop((self._job.identity, number), None)
        if known is not None:
            if known.token == token:
                known.part.job = self._job  # the same parts, but other changes may be wanted
                return known.part, True
            known.part.close()
        return Part(self._job, number, self._list_pieces() if token is not None else ()), False

    def _list_pieces(self) -> Iterator[Piece]:
        for (file, number), (data,) in self._pieces.iterator():
            yield Piece(file, number, bytes(data))

    # What `Part.save` writes to.

    def put(self, piece: Piece) -> None:
        self._pieces.updateValue((piece.file, piece.number), (piece.data,))

    def remove(self, file: str, number: int) -> None:
        self._pieces.removeKey((file, number))


def drop_stale(identity: str, batch: int) -> None:
    """Close engines that no batch can find again: each batch reaches every part, so what was left
    before the last one is of a part that has moved away. Of other pipelines, which may have ended,
    the newest are kept.
    """
    stale = [k for k, known in _cache.items() if k[0] == identity and known.batch < batch - 1]
    others = [k for k in _cache if k[0] != identity]
    for key in stale + others[:-MOST_OTHERS]:
        _cache.pop(key).part.close()


def pack(outs: Iterable[Out]) -> Iterator[list[Out]]:
    """Small cells together, large ones alone: a frame has its price, whatever is in it."""
    frame: list[Out] = []
    held = 0
    for out in outs:
        if frame and held + len(out.payload) > FRAME_BYTES:
            yield frame
            frame, held = [], 0
        frame.append(out)
        held += len(out.payload)
    if frame:
        yield frame


def read_parcels(frame: Any) -> Iterator[Parcel]:
    for task, number, kind, payload in zip(
        frame["task"], frame["number"], frame["kind"], frame["payload"], strict=True
    ):
        yield Parcel(int(task), int(number), kind, bytes(payload))
