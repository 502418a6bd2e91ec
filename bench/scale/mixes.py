"""Lanes of the report's mixes: paths, spiders and stars, each with a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.subject import Bed
from triegs.workloads import Slide, Workload, path3, spider4x2, star5

#: A class of lanes: its name, and its workload for a size.
CLASSES: dict[str, Callable[..., Workload]] = {"path": path3, "spider": spider4x2, "star": star5}
MIXES = {"Path3": ("path",), "Spider4x2": ("spider",), "Mix3": ("path", "spider", "star")}


class ScaleLane:
    """An engine, its class, and slides that wait for it. A turn is one slide."""

    def __init__(self, kind: str, bed: Bed, slides: Sequence[Slide]) -> None:
        self.kind = kind
        self.bed = bed
        self._slides = list(slides)
        self._next = 0

    def run(self) -> None:
        """Apply the next slide."""
        slide = self._slides[self._next]
        self._next += 1
        self.bed.apply(slide)

    @property
    def is_done(self) -> bool:
        return self._next == len(self._slides)

    def rewind(self, slides: Sequence[Slide]) -> None:
        """Give it new slides, after the window beside it has seen the old ones."""
        for slide in self._slides[: self._next]:
            self.bed.window.apply(slide)
        self._slides, self._next = list(slides), 0

    def check(self) -> Any:
        """Its checksum; raises `bench.answers.WrongAnswer` unless the window implies it."""
        self.rewind(())
        found = self.bed.digest()
        self.bed.check(found)
        return found


def make_lanes(mix: str, count: int, window: int, slide: int, seed: int) -> list[ScaleLane]:
    """So many loaded lanes, of the classes of a mix in turn."""
    kinds = MIXES[mix]
    found = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        workload = CLASSES[kind](window=window, slide=slide, seed=seed + number)
        found.append(ScaleLane(kind, Bed(workload).load(), ()))
    return found
