"""Who takes part: triegs, and every peer whose library is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from bench.answers import Digest
from bench.contest import Consumer, Contender
from bench.subject import Engine, digest_table
from triegs.options import KeepName
from triegs.workloads import Slide, Workload

#: Module and class of each peer, in the order in which they are shown.
PEERS = {
    "Polars again": ("bench.peers.polars_contender", "PolarsAgain"),
    "DuckDB again": ("bench.peers.duckdb_recompute", "DuckdbRecompute"),
    "DuckDB delta SQL": ("bench.peers.duckdb_delta", "DuckdbDelta"),
    "dict delta join": ("bench.peers.dict_delta", "DictDelta"),
    "pyoxigraph": ("bench.peers.oxigraph", "Oxigraph"),
}
#: What a peer may lack here: an extra, and nothing else.
LIBRARIES = {"polars", "duckdb", "pyoxigraph"}


class Triegs:
    """An engine with one standing query; with the payload of counts for who counts."""

    name: ClassVar[str] = "triegs"
    consumers: ClassVar = frozenset(Consumer)

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:
        self.engine = Engine("multigraph")
        keep: list[KeepName] = ["count"] if consumer is Consumer.COUNT else []
        self.query: Any = self.engine.register(workload.query, keep=keep)
        self.take(load)
        # What the changes are against: the snapshot of the slide before.
        self._last: Any = self.query.snapshot() if consumer is Consumer.CHANGES else None

    def take(self, slide: Slide) -> None:
        self.engine.apply(slide.table)

    def read(self) -> pa.Table:
        with self.query.snapshot() as snapshot:
            return snapshot.to_arrow(terms="python")

    def count(self) -> int:
        with self.query.snapshot() as snapshot:
            return int(snapshot.count())

    def take_changes(self, slide: Slide) -> pa.Table:
        self.engine.apply(slide.table)
        newest = self.query.snapshot()
        rows = newest.diff(self._last).to_arrow(terms="python")
        self._last.close()
        self._last = newest
        return rows

    def digest(self, rows: pa.Table) -> Digest:
        return digest_table(rows) if rows.num_rows else Digest(0, 0)

    def count_rows(self, rows: pa.Table) -> int:
        return int(rows.num_rows)


def find_peers() -> tuple[dict[str, type[Contender]], list[str]]:
    """The peers by name, and the libraries that are missing for others."""
    found: dict[str, type[Contender]] = {}
    missing = []
    for name, (module, kind) in PEERS.items():
        try:
            found[name] = getattr(import_module(module), kind)
        except ModuleNotFoundError as error:
            if error.name not in LIBRARIES:
                raise
            missing.append(error.name)
    return found, sorted(set(missing))
