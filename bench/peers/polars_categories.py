"""The peer with IRIs: Polars joins the window again on each slide, on categorical columns.

The texts of a slide are encoded once, when they come; joins compare the codes of categories.
"""

from __future__ import annotations

import polars as pl

from bench.answers import Digest, digest_columns
from bench.iris import IriSlide, name_nodes, read_nodes
from bench.peers.polars_recompute import PolarsRecompute
from bench.window import Window
from triegs.workloads import Slide, Workload


class PolarsCategories(PolarsRecompute):
    """Answers of one workload from a window of its own, which starts as a copy of the given one."""

    def __init__(self, workload: Workload, window: Window) -> None:
        super().__init__(workload, window)
        self._edges: dict[str, pl.DataFrame] = {}
        for label, (subjects, objects) in window.edges.items():
            self._edges[label] = _encode(
                name_nodes(_to_arrow(subjects)), name_nodes(_to_arrow(objects))
            )

    def take(self, slide: Slide) -> None:
        """Take a slide into the window."""
        assert isinstance(slide, IriSlide)
        for label, (subjects, objects) in slide.columns.items():
            gone = len(slide.deletions[label][0])
            parts = [self._edges[label].slice(gone), _encode(subjects, objects)]
            self._edges[label] = pl.concat(parts, rechunk=True)

    def apply_and_read(self, slide: Slide) -> pl.DataFrame:
        self.take(slide)
        return self.read()

    def digest(self, answers: pl.DataFrame) -> Digest:
        texts = [answers[name].cast(pl.String).to_arrow() for name in self._head]
        return digest_columns([read_nodes(each) for each in texts])

    def _frames(self) -> list[pl.DataFrame]:
        return [
            self._edges[label].rename({"s": subject, "o": obj})
            for label, subject, obj in self._atoms
        ]


def _to_arrow(numbers: object) -> object:
    return pl.Series(numbers).to_arrow()


def _encode(subjects: object, objects: object) -> pl.DataFrame:
    frame = pl.DataFrame({"s": pl.Series(subjects), "o": pl.Series(objects)})
    return frame.cast(pl.Categorical)
