"""The peer: join the window again on each slide and aggregate it by the first variable, in Polars.

`join` is the query as one writes it; the optimiser of Polars may do with it what it can. `push` is
written by hand for counts and sums: it aggregates before each join. Set ``POLARS_MAX_THREADS=1``
before this module is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bench.window import Window
from triegs.workloads import Workload

AGGREGATES = {
    "count": pl.len().cast(pl.Int64),
    "sum": pl.col("w").sum(),
    "min": pl.col("w").min(),
    "max": pl.col("w").max(),
    "distinct": pl.col("w").n_unique().cast(pl.Int64),
}


class PolarsGroups:
    """Aggregates of the last variable of a path by its first one."""

    def __init__(self, workload: Workload, window: Window) -> None:
        if pl.thread_pool_size() != 1:
            raise RuntimeError("set POLARS_MAX_THREADS=1 before polars is imported")
        self._atoms = workload.atoms
        self._window = window

    def join(self, names: tuple[str, ...]) -> pl.DataFrame:
        a, b, c = self._frames()
        joined = a.join(b, on="y").join(c, on="z")
        return joined.group_by("x").agg(AGGREGATES[name].alias(name) for name in names).collect()

    def push(self) -> pl.DataFrame:
        a, b, c = self._frames()
        sums = pl.col("count", "sum").sum()
        below = c.group_by("z").agg(AGGREGATES[name].alias(name) for name in ("count", "sum"))
        below = b.join(below, on="z").group_by("y").agg(sums)
        return a.join(below, on="y").group_by("x").agg(sums).collect()

    def _frames(self) -> list[pl.LazyFrame]:
        edges = self._window.edges
        return [
            pl.LazyFrame({subject: edges[label][0], obj: edges[label][1]})
            for label, subject, obj in self._atoms
        ]


def to_rows(frame: pl.DataFrame, names: tuple[str, ...]) -> Mapping[int, tuple[int, ...]]:
    """The aggregates of each group."""
    return {row[0]: row[1:] for row in frame.select("x", *names).iter_rows()}
