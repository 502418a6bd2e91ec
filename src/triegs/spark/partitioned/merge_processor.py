"""Groups that span partitions, merged inside Spark for a stream of changes.

A task merges the groups that are hashed to it. Spark's state has the sums of all partial entries;
the merged groups in the worker process are a cache, reused only if they wrote the current token, as
the engines of `triegs.spark.partitioned.processor`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from triegs.spark.partitioned.job import Job

if TYPE_CHECKING:
    from triegs.read.merging import Entry, GroupMerger

# `triegs.spark` can be imported without Spark.
try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:
    StatefulProcessor = object

SLOT = "slot"
#: State variables and their types. The names are fixed: checkpoints contain them.
TOKEN, TOKEN_VALUE = "token", "token string"
ENTRIES, ENTRY_KEY, ENTRY_VALUE = "entries", "entry string", "count long"
#: The most merged groups of other tasks that a process caches.
MOST_CACHED = 16


class Cached(NamedTuple):
    """Merged groups, and the token that they stored in the state."""

    token: str
    merger: GroupMerger


#: By pipeline identity, query and slot.
_cache: dict[tuple[str, str, int], Cached] = {}


class MergeProcessor(StatefulProcessor):  # type: ignore[misc]
    """For `transformWithStateInPandas`, grouped by slot: from entries with their time in front to
    changes of rows.
    """

    def __init__(self, job: Job, query: str, schema: bytes) -> None:
        self._job = job
        self._query = query
        self._schema = schema

    def init(self, handle: Any) -> None:
        self._token = handle.getValueState(TOKEN, TOKEN_VALUE)
        self._entries = handle.getMapState(ENTRIES, ENTRY_KEY, ENTRY_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Apply the entries of a micro-batch, which arrive as pandas frames."""
        from triegs.spark.partitioned.results import merge_changes, write_rows

        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        stored = self._token.get()
        merger = self._find_merger(key[0], None if stored is None else stored[0])
        frames = [frame.drop(columns=SLOT, errors="ignore") for frame in rows]
        fields = pa.schema([("time", pa.int64()), *merger.schema])
        tables = [pa.Table.from_pandas(each, fields, preserve_index=False) for each in frames]
        found = []
        if stored is None:  # the row of a query without GROUP BY is there from the start
            found.append(write_rows(((None, *row, n) for row, n in merger.rows()), schema))
        table = pa.concat_tables(tables)
        found.append(merge_changes(merger, table, schema))
        for entry in {entry[:3] for entry in merger.read(table)}:
            text = write_entry(entry)
            if count := merger.count(*entry):
                self._entries.updateValue((text,), (count,))
            else:
                self._entries.removeKey((text,))
        token = uuid4().hex
        self._token.update((token,))
        for other in [*_cache][:-MOST_CACHED]:
            del _cache[other]
        _cache[self._job.identity, self._query, key[0]] = Cached(token, merger)
        yield pa.concat_tables(found).to_pandas()

    def _find_merger(self, slot: int, token: str | None) -> GroupMerger:
        known = _cache.pop((self._job.identity, self._query, slot), None)
        if known is not None and known.token == token:
            return known.merger
        merger = self._job.make_merger(self._query)
        assert merger is not None
        if token is not None:
            merger.apply(read_entry(text, n) for (text,), (n,) in self._entries.iterator())
        return merger


def write_entry(entry: tuple[int, tuple[str, ...], tuple[str, ...]]) -> str:
    """An entry without its count.

    >>> write_entry((1, ("<a:x>",), ()))
    '[1, ["<a:x>"], []]'
    """
    return json.dumps(entry, ensure_ascii=False)


def read_entry(text: str, count: int) -> Entry:
    """
    >>> read_entry('[1, ["<a:x>"], []]', 5)
    (1, ('<a:x>',), (), 5)
    """
    number, base, values = json.loads(text)
    return number, tuple(base), tuple(values), count
