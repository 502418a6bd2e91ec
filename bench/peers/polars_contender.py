"""The Polars peer in a contest: it keeps a window of its own and joins it when asked."""

from __future__ import annotations

from typing import Any, ClassVar

import polars as pl

from bench.answers import Digest
from bench.contest import Consumer
from bench.peers.polars_recompute import PolarsRecompute
from bench.window import Window
from triegs.workloads import Slide, Workload


class PolarsAgain:
    name: ClassVar[str] = "Polars again"
    consumers: ClassVar = frozenset({Consumer.NONE, Consumer.COUNT, Consumer.FULL})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._window = Window(workload)
        self._window.apply(load)
        self._peer = PolarsRecompute(workload, self._window)

    def take(self, slide: Slide) -> None:
        self._window.apply(slide)

    def read(self) -> pl.DataFrame:
        return self._peer.read()

    def count(self) -> int:
        return self._peer.count()

    def take_changes(self, slide: Slide) -> Any:
        raise NotImplementedError

    def digest(self, rows: pl.DataFrame) -> Digest:
        return self._peer.digest(rows)

    def count_rows(self, rows: pl.DataFrame) -> int:
        return rows.height
