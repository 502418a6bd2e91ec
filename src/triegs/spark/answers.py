"""What a pipeline delivers to a sink: the changes of a batch, or the snapshot after it.

A batch's file is written under a temporary name, synced, and renamed to the batch number. A batch
that is repeated finds it there, so a sink receives each change once.
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
#: A callback gets a DataFrame and the batch number.
Target: TypeAlias = str | PathLike[str] | Callable[[Any, int], object]


@dataclass(frozen=True)
class Sink:
    """Where the answers of a query go: a directory for Parquet files, or a function that is called
    with a DataFrame and the batch number, as by `foreachBatch`. Callback sinks must be idempotent
    per batch number.

    ``what`` is ``"changes"``, with the epoch, its time and the signed change of each answer, or
    ``"snapshot"``, all answers after every ``every`` batches.
    """

    target: Target
    what: str = CHANGES
    every: int = 1
    #: The base that is removed from IRIs; set by the pipeline.
    base: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.what not in (CHANGES, SNAPSHOT):
            raise ValueError(f"what must be 'changes' or 'snapshot', not {self.what!r}")
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")
        if self.every > 1 and self.what == CHANGES:
            raise ValueError(
                "every applies only to snapshots; changes are delivered with each batch"
            )

    def write(self, table: pa.Table, batch: int, session: Any) -> None:
        """Deliver a table. An existing file is left as it is."""
        table = name_terms(table, self.base)
        if callable(self.target):
            self.target(make_frame(session, table), batch)
        elif table.num_rows or self.what == SNAPSHOT:
            write_once(Path(self.target), batch, table)


def make_frame(session: Any, table: pa.Table) -> Any:
    """A DataFrame with one task per core. Spark would make one for each chunk of the table, and for
    each ten thousand rows.
    """
    frame = session.createDataFrame(table.combine_chunks())
    return frame.coalesce(session.sparkContext.defaultParallelism)


def list_sinks(given: Mapping[str, Any] | None, queries: Iterable[str]) -> dict[str, list[Sink]]:
    """Sinks by query, from the caller's argument: a target, a `Sink`, or a list of them.
    Directories become absolute.

    >>> list_sinks({"all": "/out"}, ["all"])
    {'all': [Sink(target=PosixPath('/out'), what='changes', every=1)]}
    """
    known = list(queries)
    found = {}
    for name, several in (given or {}).items():
        if name not in known:
            raise ValueError(f"sinks has {name!r}, which is not one of the queries {known}")
        given_sinks: Sequence[Any] = several if isinstance(several, (list, tuple)) else [several]
        found[name] = [_read_sink(name, each) for each in given_sinks]
    _require_apart(found)
    return found


def _read_sink(name: str, given: Any) -> Sink:
    target = given.target if isinstance(given, Sink) else given
    if not callable(target) and not isinstance(target, (str, PathLike)):
        kind = type(target).__name__
        raise TypeError(
            f"the sink of {name!r} must be a directory, a function or a Sink, not {kind}"
        )
    sink = given if isinstance(given, Sink) else Sink(target)
    if callable(sink.target):
        return sink
    folder = find_folder(
        sink.target,
        f"the sink of {name!r} must be a directory on the driver's disk, not {sink.target}; to "
        "write elsewhere, use a function of a DataFrame and a batch number",
    )
    return replace(sink, target=folder)


def find_folder(given: str | PathLike[str], problem: str) -> Path:
    """A directory on the driver's disk, from a path or a file URL; `StateError` for other URLs."""
    url = urlsplit(str(given))
    if url.scheme == "file":
        return Path(unquote(url.path)).absolute()
    if len(url.scheme) > 1:
        raise StateError(problem)
    return Path(given).absolute()


def _require_apart(sinks: Mapping[str, list[Sink]]) -> None:
    """Two sinks in one directory would skip each other's files, and readers of a directory also
    read those inside it.
    """
    seen: dict[Path, str] = {}
    for name, several in sinks.items():
        for sink in several:
            if not callable(sink.target):
                path = Path(sink.target).resolve()
                for other, owner in seen.items():
                    if path == other or path in other.parents or other in path.parents:
                        is_same = "is also" if path == other else f"overlaps {other},"
                        raise StateError(
                            f"the sink {sink.target} of {name!r} {is_same} the sink of "
                            f"{owner!r}; each sink needs a directory of its own"
                        )
                seen[path] = name


def read_changes(query: StandingQuery, epochs: Sequence[int]) -> pa.Table:
    """The signed changes from each of these epochs to the next, concatenated.

    All epochs must be held. Cost: what changed.
    """
    tables = []
    for before, after in pairwise(epochs):
        with query.snapshot(epoch=before) as old, query.snapshot(epoch=after) as new:
            tables.append(label(new.diff(old).to_arrow(compact=True), new))
    if tables:
        return pa.concat_tables(tables)
    with query.snapshot() as now:
        return label(now.diff(now).to_arrow(), now)


def read_answers(query: StandingQuery, epoch: int) -> pa.Table:
    """All answers of an epoch, as changes from an empty result. Cost: the answers."""
    with query.snapshot(epoch=epoch) as snapshot:
        return write_answers(snapshot)


def write_answers(snapshot: Snapshot) -> pa.Table:
    """All answers of a snapshot, as changes from an empty result."""
    names = snapshot.diff(snapshot).to_arrow().schema.names
    return label(snapshot.to_arrow(compact=True).rename_columns(names), snapshot)


def list_readable(query: StandingQuery, epochs: Sequence[int]) -> list[int]:
    """Those of some held epochs at which the query existed."""
    found = []
    for epoch in epochs:
        try:
            query.snapshot(epoch=epoch).close()
        except HistoryGone:
            continue
        found.append(epoch)
    return found


def label(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Add the epoch and its time in front; strings as Spark accepts them."""
    rows = table.num_rows
    times = np.full(rows, snapshot.time or 0)
    mask = np.full(rows, snapshot.time is None)
    columns = [pa.array(np.full(rows, snapshot.epoch)), pa.array(times, pa.int64(), mask=mask)]
    names = [free_name(name, table.schema.names) for name in (EPOCH, TIME)]
    return pa.table(
        [*columns, *write_texts(table).columns], [*names, *table.schema.names]
    )  # fmt: skip


def write_texts(table: pa.Table) -> pa.Table:
    """Strings instead of dictionaries, as Spark accepts them."""
    columns = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, table.schema.names)


def free_name(name: str, taken: Iterable[str]) -> str:
    """A column name that no variable uses.

    >>> free_name("time", ["time", "x"])
    'time_'
    """
    used = set(taken)
    while name in used:
        name += "_"
    return name


def write_once(folder: Path, batch: int, table: pa.Table) -> None:
    """Write the Parquet file of a batch; durable on return."""
    files = DiskFiles()
    files.make_folder(folder)
    target = folder / f"{batch:020}.parquet"
    if target.exists():
        return
    # Spark ignores names that begin with a dot.
    beside = folder / f".{batch:020}{UNFINISHED}"
    content = pa.BufferOutputStream()
    pq.write_table(table, content)
    write_safely(files, target, [[content.getvalue()]], beside)
