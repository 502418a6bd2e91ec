"""Systems that answer the same stream for the same consumer, in turns, each answer judged.

Every runner has its own state and goes through the same slides. After each turn its last answer is
kept as a digest; at the end the edges of the window say what each of them had to be. Seconds are
those of the processor, all threads together, so a system gains nothing by a second core. Those of
the wall clock are kept beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from statistics import median
from time import process_time
from typing import Any, ClassVar, Protocol

from bench.answers import Digest, WrongAnswer, check, judge
from bench.timing import Samples, take_turns
from bench.window import Window
from triegs.workloads import Slide, Workload


class Consumer(Enum):
    """What is wanted after each slide."""

    FULL = "full result"
    CHANGES = "changes"
    COUNT = "count"
    NONE = "nothing"


class Contender(Protocol):
    """One system with the edges of a workload's window, made for one consumer."""

    name: ClassVar[str]
    consumers: ClassVar[frozenset[Consumer]]

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None: ...

    def take(self, slide: Slide) -> None:
        """Take the slide into the state and give nothing."""

    def read(self) -> Any:
        """Every answer; what it is made of is the system's own choice."""

    def count(self) -> int:
        """The number of answers, with multiplicity."""

    def take_changes(self, slide: Slide) -> Any:
        """Take the slide and give the signed changes of the answers."""

    def digest(self, rows: Any) -> Digest:
        """Of what `read` or `take_changes` gave. No clock runs meanwhile."""

    def count_rows(self, rows: Any) -> int:
        """How many answers or changes are listed."""


class Stream:
    """The slides of a workload for many runners, and what the answers are after each of them."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._source = workload.slides()
        self._slides: list[Slide] = []
        self.load = self._draw()

    def __getitem__(self, number: int) -> Slide:
        """By number; the first after the load is 1. Its columns are made, so no clock sees that."""
        while len(self._slides) <= number:
            self._draw()
        return self._slides[number]

    def _draw(self) -> Slide:
        slide = next(self._source)
        _ = slide.table, slide.deletions, slide.insertions
        self._slides.append(slide)
        return slide

    def imply_digests(self, numbers: Iterable[int]) -> Mapping[int, Digest]:
        """What the answers after each of these slides must be."""
        wanted = set(numbers)
        window = Window(self.workload)
        found = {}
        for number in range(max(wanted, default=-1) + 1):
            window.apply(self[number])
            if number in wanted:
                found[number] = judge(self.workload.atoms, self.workload.head, window.edges)
        return found


class Runner:
    """One system for one consumer on its way through a stream."""

    def __init__(self, kind: type[Contender], consumer: Consumer, stream: Stream) -> None:
        self.kind, self.consumer = kind, consumer
        self.samples = Samples()
        self.middles: dict[int, float] = {}  # seconds for a slide, by turn
        self.wall_middles: dict[int, float] = {}  # the same by the wall clock
        self.found: dict[int, Digest | int] = {}
        self.listed: dict[int, int] = {}  # rows, by slide
        self.spent = 0.0
        self.stream = stream
        self._contender = kind(stream.workload, stream.load, consumer)
        self._number = 0

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def rows(self) -> int:
        """Answers or changes that a slide lists; the middle of those noted."""
        return int(median(self.listed.values())) if self.listed else 0

    @property
    def slides_per_second(self) -> float:
        return 1 / median(self.middles.values())

    def run(self, turn: int, slides: int) -> None:
        """Some slides, timed; the answer to the last is noted."""
        samples, walls = Samples(process_time), Samples()
        rows: Any = None
        for _ in range(slides):
            self._number += 1
            slide = self.stream[self._number]
            rows = None  # one answer at a time in memory
            rows = samples.time(walls.time, self._serve, slide)
        self.spent += sum(samples.seconds)
        if self.consumer is Consumer.COUNT:
            self.found[self._number] = rows
        elif rows is not None:
            self.found[self._number] = self._contender.digest(rows)
            self.listed[self._number] = self._contender.count_rows(rows)
        if turn:  # the first turn warms up
            self.samples.seconds += samples.seconds
            self.middles[turn] = samples.middle
            self.wall_middles[turn] = walls.middle

    def finish(self) -> None:
        """Of a system that gave nothing, see whether it could have."""
        if self.consumer is Consumer.NONE:
            self.found[self._number] = self._contender.digest(self._contender.read())

    def is_faster_than(self, other: Runner) -> float:
        """By how much: the middle over the turns that both took."""
        shared = self.middles.keys() & other.middles.keys()
        return median(other.middles[turn] / self.middles[turn] for turn in shared)

    def is_faster_by_wall(self, other: Runner) -> float:
        """As `is_faster_than`, by the wall clock: it favours systems with several threads, and on a
        shared machine it also measures what others run.
        """
        shared = self.wall_middles.keys() & other.wall_middles.keys()
        return median(other.wall_middles[turn] / self.wall_middles[turn] for turn in shared)

    def check(self, digests: Mapping[int, Digest]) -> None:
        for number, found in self.found.items():
            what = f"{self.stream.workload.name}, {self.name}, {self.consumer.value}"
            expected = digests[number]
            if isinstance(found, int):
                if found != expected.total:
                    raise WrongAnswer(f"{what}: counted {found}, expected {expected.total}")
                continue
            if self.consumer is Consumer.CHANGES:
                expected -= digests[number - 1]
            check(found, expected, f"{what}, slide {number}")

    def check_rows(self, other: Runner) -> None:
        """What has the right checksum may still be listed twice and taken back: not by the first.

        A peer may list an answer that a slide takes and brings again; the first must not.
        """
        for number in self.listed.keys() & other.listed.keys():
            ours, theirs = self.listed[number], other.listed[number]
            if ours > theirs:
                what = f"{self.stream.workload.name}, slide {number}, {self.consumer.value}"
                raise WrongAnswer(f"{what}: {self.name} lists {ours}, {other.name} {theirs}")

    def _serve(self, slide: Slide) -> Any:
        contender = self._contender
        if self.consumer is Consumer.CHANGES:
            return contender.take_changes(slide)
        contender.take(slide)
        if self.consumer is Consumer.FULL:
            return contender.read()
        return contender.count() if self.consumer is Consumer.COUNT else None


#: Slides of a turn for a quick runner; a slow one takes them one by one.
SLIDES_A_TURN = 4
SLOW_SECONDS = 0.05


def hold_contest(
    stream: Stream, entries: Iterable[tuple[type[Contender], Consumer]], seconds: float
) -> list[Runner]:
    """Every entry in turn, until each has run for about so long; then judge them all."""
    return run_in_turns([Runner(kind, consumer, stream) for kind, consumer in entries], seconds)


def run_in_turns(runners: list[Runner], seconds: float) -> list[Runner]:
    """As `hold_contest`, for runners that may have streams of their own.

    Who begins a turn changes from turn to turn: the last finds caches that others have warmed.
    """
    for turn in take_turns(seconds * len(runners), least=3 if seconds else 2):
        first = turn % len(runners)
        for runner in runners[first:] + runners[:first]:
            if turn > 1 and runner.spent >= seconds:
                continue
            is_slow = runner.spent > SLOW_SECONDS * SLIDES_A_TURN * max(1, turn)
            runner.run(turn, 1 if is_slow or turn == 0 else SLIDES_A_TURN)
        if turn > 1 and all(runner.spent >= seconds for runner in runners):
            break
    for runner in runners:
        runner.finish()
    for stream in {runner.stream for runner in runners}:
        _judge(stream, [runner for runner in runners if runner.stream is stream])
    return runners


def _judge(stream: Stream, runners: list[Runner]) -> None:
    needed = {number for runner in runners for number in runner.found}
    needed |= {
        number - 1
        for runner in runners
        for number in runner.found
        if runner.consumer is Consumer.CHANGES
    }
    digests = stream.imply_digests(needed)
    first: dict[Consumer, Runner] = {}
    for runner in runners:
        runner.check(digests)
        first.setdefault(runner.consumer, runner).check_rows(runner)
