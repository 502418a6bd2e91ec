"""Answers that leave a pipeline: the changes of a batch, or the snapshot after it, to a sink.

A file of a batch is written beside, synced, and renamed to the batch's number, so a batch that is
told once more finds it there: a sink has each change once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.durable.files import UNFINISHED, DiskFiles, write_safely
from triegs.engine.standing_query import StandingQuery
from triegs.errors import HistoryGone, StateError
from triegs.read.snapshot import Snapshot
from triegs.spark.mapped import name_terms

EPOCH, TIME = "epoch", "time"
CHANGES, SNAPSHOT = "changes", "snapshot"
#: A callback gets a DataFrame and the number of the batch.
Target: TypeAlias = str | PathLike[str] | Callable[[Any, int], object]


@dataclass(frozen=True)
class Sink:
    """Where answers of a query go: a directory for Parquet files, or a function that is called with
    a DataFrame and the number of the batch, as `foreachBatch` calls one.

    ``what`` is ``"changes"``, with the epoch, its time and the signed change of each answer, or
    ``"snapshot"``, all answers after every so many batches (``every``).
    """

    target: Target
    what: str = CHANGES
    every: int = 1
    #: Of names that are written instead of terms; the pipeline says it.
    base: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.what not in (CHANGES, SNAPSHOT):
            raise ValueError(f"a sink gets 'changes' or 'snapshot', not {self.what!r}")
        if self.every < 1:
            raise ValueError(f"every is {self.every}: at least 1")
        if self.every > 1 and self.what == CHANGES:
            raise ValueError("every is for snapshots; changes leave with each batch")

    def write(self, table: pa.Table, batch: int, session: Any) -> None:
        """Hand a table on. A file that is there already is left as it is."""
        table = name_terms(table, self.base)
        if callable(self.target):
            self.target(make_frame(session, table), batch)
        elif table.num_rows or self.what == SNAPSHOT:
            write_once(Path(self.target), batch, table)


def make_frame(session: Any, table: pa.Table) -> Any:
    """A DataFrame with a task for each core. Spark makes one for each chunk of a table, and for
    each ten thousand rows of it.
    """
    frame = session.createDataFrame(table.combine_chunks())
    return frame.coalesce(session.sparkContext.defaultParallelism)


def list_sinks(given: Mapping[str, Any] | None, queries: Iterable[str]) -> dict[str, list[Sink]]:
    """Sinks by query, from what the caller wrote: a target, a `Sink`, or several of them. Names of
    directories are absolute.

    >>> list_sinks({"all": "/out"}, ["all"])
    {'all': [Sink(target=PosixPath('/out'), what='changes', every=1)]}
    """
    known = list(queries)
    found = {}
    for name, several in (given or {}).items():
        if name not in known:
            raise ValueError(f"there is a sink for {name!r}, which is none of the queries {known}")
        parts: Sequence[Any] = several if isinstance(several, (list, tuple)) else [several]
        found[name] = [_read_sink(name, each) for each in parts]
    _require_apart(found)
    return found


def _read_sink(name: str, given: Any) -> Sink:
    target = given.target if isinstance(given, Sink) else given
    if not callable(target) and not isinstance(target, (str, PathLike)):
        kind = type(target).__name__
        raise TypeError(f"the sink of {name!r} is a directory, a function or a Sink, not {kind}")
    sink = given if isinstance(given, Sink) else Sink(target)
    if callable(sink.target):
        return sink
    folder = find_folder(
        sink.target,
        f"the sink of {name!r} is a directory of the driver's disk, not {sink.target}; a function "
        "gets a DataFrame and the number of the batch, and may write it anywhere",
    )
    return replace(sink, target=folder)


def find_folder(given: str | PathLike[str], problem: str) -> Path:
    """A directory on the driver's disk, as a path or a URL of a file; `StateError` for any other
    URL.
    """
    parts = urlsplit(str(given))
    if parts.scheme == "file":
        return Path(unquote(parts.path)).absolute()
    if len(parts.scheme) > 1:
        raise StateError(problem)
    return Path(given).absolute()


def _require_apart(sinks: Mapping[str, list[Sink]]) -> None:
    """Two sinks in one directory would pass over each other's files, and who reads a directory
    reads those inside it, too.
    """
    seen: dict[Path, str] = {}
    for name, several in sinks.items():
        for sink in several:
            if not callable(sink.target):
                path = Path(sink.target).resolve()
                for other, owner in seen.items():
                    if path == other or path in other.parents or other in path.parents:
                        where = "is also" if path == other else f"and {other} are one in the other,"
                        raise StateError(
                            f"the sink {sink.target} of {name!r} {where} that of {owner!r}; each "
                            "sink needs a directory of its own"
                        )
                seen[path] = name


def read_changes(query: StandingQuery, epochs: Sequence[int]) -> pa.Table:
    """The signed changes from each of these epochs to the next, one below the other.

    All of them must be held. Cost: what changed.
    """
    parts = []
    for before, after in pairwise(epochs):
        with query.snapshot(epoch=before) as old, query.snapshot(epoch=after) as new:
            parts.append(label(new.diff(old).to_arrow(), new))
    if parts:
        return pa.concat_tables(parts)
    with query.snapshot() as now:
        return label(now.diff(now).to_arrow(), now)


def read_answers(query: StandingQuery, epoch: int) -> pa.Table:
    """All answers of an epoch, as changes from nothing. Cost: the answers."""
    with query.snapshot(epoch=epoch) as snapshot:
        return write_answers(snapshot)


def write_answers(snapshot: Snapshot) -> pa.Table:
    """All answers of a snapshot, as changes from nothing."""
    names = snapshot.diff(snapshot).to_arrow().schema.names
    return label(snapshot.to_arrow().rename_columns(names), snapshot)


def list_readable(query: StandingQuery, epochs: Sequence[int]) -> list[int]:
    """Those of some held epochs at which there was this query."""
    found = []
    for epoch in epochs:
        try:
            query.snapshot(epoch=epoch).close()
        except HistoryGone:
            continue
        found.append(epoch)
    return found


def label(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """With the epoch and its time in front; texts as Spark takes them."""
    rows = table.num_rows
    times = np.full(rows, snapshot.time or 0)
    mask = np.full(rows, snapshot.time is None)
    columns = [pa.array(np.full(rows, snapshot.epoch)), pa.array(times, pa.int64(), mask=mask)]
    names = [free_name(name, table.schema.names) for name in (EPOCH, TIME)]
    return pa.table(
        [*columns, *write_texts(table).columns], [*names, *table.schema.names]
    )  # fmt: skip


def write_texts(table: pa.Table) -> pa.Table:
    """With texts instead of dictionaries, as Spark takes them."""
    columns = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, table.schema.names)


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name of a column that no variable has.

    >>> free_name("time", ["time", "x"])
    'time_'
    """
    used = set(taken)
    while name in used:
        name += "_"
    return name


def write_once(folder: Path, batch: int, table: pa.Table) -> None:
    """A Parquet file of a batch; on return it survives a loss of power."""
    files = DiskFiles()
    files.make_folder(folder)
    target = folder / f"{batch:020}.parquet"
    if target.exists():
        return
    # Spark does not read what begins with a dot.
    beside = folder / f".{batch:020}{UNFINISHED}"
    content = pa.BufferOutputStream()
    pq.write_table(table, content)
    write_safely(files, target, [[content.getvalue()]], beside)
