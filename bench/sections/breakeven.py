"""When is it worth keeping the answers? Reads of the full result, from one in many slides to many.

triegs pays for each slide, and then little for a read; recomputing pays next to nothing for a slide
and the whole join for a read. Both are timed at several rates of reading, on the same slides. The
break-even is where the costs of a slide meet: ``kept / (computed - read)`` reads for each slide.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.answers import check
from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Stream
from bench.report import Figure
from bench.run import Bench
from bench.sections.blocks import BLOCKS, make_block
from bench.sections.consumers import show_ratio

NAME = "breakeven"
#: Slides for one read, or reads for one slide.
RATES = {"1 in 30": 1 / 30, "1 in 10": 1 / 10, "1 in 3": 1 / 3, "1": 1.0, "3": 3.0, "10": 10.0}
PEERS = ("Polars again", "DuckDB again")
PLOTTED = "path3 f8"


def measure_breakeven(bench: Bench) -> Iterator[Figure]:
    peers, _ = find_peers()
    kinds: list[type[Contender]] = [Triegs, *(peers[name] for name in PEERS if name in peers)]
    for name in BLOCKS:
        bench.say(f"break-even of {name}")
        parts = {kind.name: _Parts(kind, Stream(make_block(name, bench))) for kind in kinds}
        for _ in range(3):
            for part in parts.values():
                part.time(bench.settings.seconds / 6)
        for part in parts.values():
            part.check()
        ours = parts[Triegs.name]
        yield Figure(name, "keep ms", 1e3 * ours.taking)
        yield Figure(name, "read ms", 1e3 * ours.reading)
        for peer in kinds[1:]:
            theirs = parts[peer.name]
            yield Figure(name, f"{peer.name} ms", 1e3 * theirs.reading)
        for peer in kinds[1:]:
            reads = find_breakeven(ours, parts[peer.name])
            yield Figure(name, f"reads a slide, {peer.name}", reads)
        if name == PLOTTED:
            series: dict[str, dict[str, Any]] = {
                part.name: {"taking": part.taking, "reading": part.reading, "measured": []}
                for part in parts.values()
            }
            for shown, rate in RATES.items():
                bench.say(f"break-even of {name}, reads {shown}")
                costs = {part.name: part.time_rate(rate) for part in parts.values()}
                for system, seconds in costs.items():
                    series[system]["measured"].append([rate, seconds])
                    ratio = show_ratio(seconds / costs[Triegs.name])
                    note = f" ({ratio})" if system != Triegs.name else ""
                    yield Figure(
                        f"{shown} reads a slide", f"{system} ms a slide", 1e3 * seconds,
                        table=name, note=note,
                    )  # fmt: skip
            for part in parts.values():
                part.check()
            bench.series[NAME] = {"workload": name, "systems": series}


def find_breakeven(ours: _Parts, theirs: _Parts) -> float:
    """Reads for each slide from which on keeping is cheaper; infinite if reading costs more."""
    saved = theirs.reading - ours.reading
    return max(0.0, ours.taking - theirs.taking) / saved if saved > 0 else float("inf")


class _Parts:
    """What a slide costs a system, and what a read costs it."""

    def __init__(self, kind: type[Contender], stream: Stream) -> None:
        self.name = kind.name
        self._stream = stream
        self._contender = kind(stream.workload, stream.load, Consumer.FULL)
        self._number = 0
        self._taking: list[float] = []
        self._reading: list[float] = []

    @property
    def taking(self) -> float:
        return median(self._taking)

    @property
    def reading(self) -> float:
        return median(self._reading)

    def time(self, seconds: float) -> None:
        until = perf_counter() + seconds
        while perf_counter() < until or len(self._taking) < 3:
            taken = self._take()
            begin = process_time()
            rows = self._contender.read()
            self._reading.append(process_time() - begin)
            self._taking.append(taken)
            del rows

    def time_rate(self, rate: float) -> float:
        """Seconds for a slide when so many reads come with it; the middle of some rounds."""
        slides, reads = max(1, round(1 / rate)), max(1, round(rate))
        found = []
        for _ in range(5):
            spent = sum(self._take() for _ in range(slides))
            begin = process_time()
            rows: Any = None
            for _ in range(reads):
                rows = None
                rows = self._contender.read()
            found.append((spent + process_time() - begin) / slides)
            del rows
        return median(found)

    def check(self) -> None:
        found = self._contender.digest(self._contender.read())
        expected = self._stream.imply_digests([self._number])[self._number]
        check(found, expected, f"{self._stream.workload.name}, {self.name}")

    def _take(self) -> float:
        self._number += 1
        slide = self._stream[self._number]
        begin = process_time()
        self._contender.take(slide)
        return process_time() - begin
