"""Merges the batches of several streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from triegs.run.driver import StreamBatch


def merge_streams(sources: Mapping[str | None, Iterable[pa.RecordBatch]]) -> Iterator[StreamBatch]:
    """Yield batches of all streams, always from the stream that is furthest behind in event time.

    This bounds what the engine buffers to about a batch per stream. The end of a stream is yielded
    as None while other streams continue.

    >>> times = lambda *values: pa.record_batch({"time": list(values)})
    >>> found = merge_streams({"a": [times(1), times(9)], "b": [times(2), times(3)]})
    >>> [(name, None if batch is None else batch.column("time").to_pylist())
    ...  for name, batch in found]
    [('a', [1]), ('b', [2]), ('a', [9]), ('b', [3]), ('b', None)]
    """
    reading = {name: iter(batches) for name, batches in sources.items()}
    newest: dict[str | None, int | None] = dict.fromkeys(reading)
    while reading:
        name = min(reading, key=lambda each: (newest[each] is not None, newest[each] or 0))
        batch = next(reading[name], None)
        if batch is None:
            del reading[name]
            if reading:
                yield name, None
            continue
        if batch.num_rows:
            latest = int(batch.column("time").to_numpy().max())
            before = newest[name]
            newest[name] = latest if before is None else max(before, latest)
        yield name, batch
