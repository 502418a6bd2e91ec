"""One change in all lanes, in two phases: prepared in every lane, then published in every lane.

If one lane fails to prepare, the others abort, and no lane publishes: all stay at the same epoch.
Publication itself has nothing left that can fail for lack of room or because of the data. Should a
lane fail there nevertheless (the caller's thread was interrupted just then, or the system is out of
memory), it makes the change again. If that fails too, the lanes are no longer at one epoch:
`Together` refuses every later change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from threading import Lock
from time import perf_counter, thread_time
from typing import Any, TypeVar

from triegs.engine import Engine
from triegs.engine.prepared import PreparedChanges
from triegs.errors import StateError
from triegs.lanes.controller import Controller
from triegs.lanes.crew import Crew, Share
from triegs.lanes.schedule import Form, Schedule, make_schedule
from triegs.maintain.preparing import Preparing
from triegs.windows.outcomes import Published
from triegs.windows.publication import EventsRefused

Result = TypeVar("Result")
FEW_UPDATES = 64  # kernels keep the interpreter's lock for so few: threads gain nothing
RECENT = 4  # epochs over which costs are smoothed


class Abandoned(Exception):
    """Another lane failed, so this one does not publish."""


class Phase(Enum):
    """Where a lane is in a change."""

    IDLE = "idle"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"


class Lane:
    """An engine, and the change that it is making."""

    def __init__(self, number: int, engine: Engine) -> None:
        self.number = number
        self.engine = engine
        self.prepared: PreparedChanges = engine._internals.prepared
        #: Smoothed processor seconds of an epoch, and those of the current one.
        self.cost = 0.0
        self.spent = 0.0
        self.phase = Phase.IDLE
        self.found: Any = None
        self.error: BaseException | None = None
        self._change: Generator[Any, None, Any] | None = None

    def begin(self, change: Generator[Any, None, Any]) -> None:
        self._change, self.phase, self.error = change, Phase.PAUSED, None

    def step(self, problem: Exception | None = None) -> None:
        """Go on to the next pause, or fail with a problem. Records the outcome, raises nothing."""
        start = thread_time()
        assert self._change is not None
        try:
            self.found = next(self._change) if problem is None else self._change.throw(problem)
        except StopIteration as end:
            self.found, self.phase = end.value, Phase.DONE
        except BaseException as error:
            self.error, self.phase = error, Phase.FAILED
        self.spent += thread_time() - start

    def end(self) -> None:
        """Leave the change; what is not published is aborted."""
        if self._change is not None:
            self._change.close()
        self._change, self.phase, self.error, self.found = None, Phase.IDLE, None, None

    def note_cost(self) -> None:
        weight = 1.0 if not self.cost else 1 / RECENT
        self.cost += (self.spent - self.cost) * weight
        self.spent = 0.0


class Together:
    """The lanes, and the one change that they make at a time."""

    def __init__(self, engines: Sequence[Engine], crew: Crew, controller: Controller) -> None:
        self.lanes = [Lane(number, engine) for number, engine in enumerate(engines)]
        #: Held while lanes publish, and while a snapshot of several lanes is taken.
        self.gate = Lock()
        #: Why no further change is possible.
        self.problem: str | None = None
        self._crew = crew
        self._controller = controller
        self._serial = make_schedule(Form.SERIAL, [0.0] * len(self.lanes), 1)

    @property
    def costs(self) -> list[float]:
        return [lane.cost for lane in self.lanes]

    def run(
        self,
        make: Callable[[PreparedChanges], Preparing[Result]],
        units: int,
        is_epoch: bool = True,
    ) -> Result:
        """Make a change in all lanes; returns the result of the first, which all others equal."""
        start = perf_counter()
        is_measured = is_epoch and units > FEW_UPDATES
        schedule = self._controller.choose(self.costs) if is_measured else self._serial
        for lane in self.lanes:
            lane.begin(make(lane.prepared))
        try:
            self._run_phase(schedule)
            self._check_prepared()
            self._publish(schedule, make)
            self._check_published({Phase.DONE}, is_epoch=is_epoch)
            result: Result = self.lanes[0].found
        finally:
            self._end()
        if is_epoch:
            for lane in self.lanes:
                lane.note_cost()
        if is_measured:
            self._controller.note(perf_counter() - start, units)
        return result

    def slide(
        self,
        make: Callable[[PreparedChanges], Generator[Published | None, None, list[Exception]]],
        problems: list[Exception],
    ) -> Generator[Published, None, None]:
        """Publish slides one by one. Emitters run on the thread of the caller, lane by lane; what
        they raise goes to `problems`.
        """
        for lane in self.lanes:
            lane.begin(make(lane.prepared))
        try:
            while True:
                start = perf_counter()
                schedule = self._controller.choose(self.costs)
                self._run_phase(schedule)
                self._check_prepared()
                if self._has_ended():
                    problems += [error for lane in self.lanes for error in lane.found]
                    return
                self._refuse_alike()
                self._publish(schedule, make)
                self._check_published({Phase.PAUSED})
                published: Published = self.lanes[0].found
                for lane in self.lanes:
                    lane.step()
                self._check_published({Phase.PAUSED}, is_equal=False)
                for lane in self.lanes:
                    lane.note_cost()
                self._controller.note(perf_counter() - start)
                yield published
        finally:
            self._end()

    def align(self) -> None:
        """Publish empty epochs where a lane is behind. The caller holds the gate."""
        newest = max(lane.engine.epoch for lane in self.lanes)
        for lane in self.lanes:
            while lane.engine.epoch < newest:
                lane.prepared.publish_empty()

    def check(self) -> None:
        """Raise `StateError` if the lanes are not at one epoch."""
        if self.problem is not None:
            raise StateError(self.problem)

    def _run_phase(self, schedule: Schedule) -> None:
        """Every paused lane continues to its next pause, as the schedule says."""
        queue = deque(schedule.pooled)
        owned = [*schedule.inline, *((),) * schedule.workers]
        shares: list[Share] = [partial(self._run_share, lanes, queue) for lanes in owned]
        if schedule.form is Form.SERIAL:
            shares[0]()
        else:
            self._crew.run(shares)

    def _publish(
        self, schedule: Schedule, make: Callable[[PreparedChanges], Generator[Any, None, Any]]
    ) -> None:
        """Every lane publishes; one that failed and is behind tries again."""
        with self.gate:
            self._run_phase(schedule)
            newest = max(lane.engine.epoch for lane in self.lanes)
            for lane in self.lanes:
                if lane.phase is Phase.FAILED and lane.engine.epoch < newest:
                    interrupt = lane.error
                    lane.begin(make(lane.prepared))
                    for _ in range(2):
                        self._step(lane.number)
                    if lane.error is None and not isinstance(interrupt, Exception):
                        lane.error = interrupt  # to be raised once all is published

    def _run_share(self, owned: Sequence[int], queue: deque[int]) -> None:
        """The lanes of a thread, then those that are left in the pool's queue."""
        for number in owned:
            self._step(number)
        while queue:
            with suppress(IndexError):  # another thread was faster
                self._step(queue.popleft())

    def _step(self, number: int) -> None:
        lane = self.lanes[number]
        if lane.phase is Phase.PAUSED:
            lane.step()

    def _check_prepared(self) -> None:
        """Raise what a lane raised, after all others have aborted."""
        failed = [lane for lane in self.lanes if lane.phase is Phase.FAILED]
        if not failed:
            return
        for lane in self.lanes:
            if lane.phase is Phase.PAUSED:
                lane.step(Abandoned())
        # An interrupt comes first, then what the first lane says: most errors are those of all.
        error = next((e for lane in failed if not isinstance(e := lane.error, Exception)), None)
        error = error or failed[0].error
        assert error is not None
        if len(failed) < len(self.lanes):
            numbers = ", ".join(str(lane.number) for lane in failed)
            error.add_note(f"in lane {numbers} of {len(self.lanes)}; no lane published")
        raise error

    def _refuse_alike(self) -> None:
        """If a lane has no room for the events of a slide, every lane refuses them."""
        refusing = [lane.engine._windows.publisher.has_refused for lane in self.lanes]
        if any(refusing):
            for lane, refuses in zip(self.lanes, refusing, strict=True):
                if not refuses:
                    lane.step(EventsRefused())
            self._check_prepared()

    def _has_ended(self) -> bool:
        """Whether no slide is due any more, in all lanes alike."""
        ended = {lane.phase is Phase.DONE for lane in self.lanes}
        if len(ended) > 1:
            self.problem = (
                "lanes disagree about the slides that are due; this is a defect of triegs"
            )
            raise StateError(self.problem)
        return True in ended

    def _check_published(
        self, expected: set[Phase], *, is_equal: bool = True, is_epoch: bool = True
    ) -> None:
        """Raise, and refuse every later change, unless all lanes published the same. A change
        without an epoch must not have failed in some lanes only.
        """
        errors = [lane.error for lane in self.lanes if lane.error is not None]
        first = self.lanes[0].found
        is_split = len({lane.engine.epoch for lane in self.lanes}) > 1
        is_split |= not is_epoch and 0 < len(errors) < len(self.lanes)
        is_wrong = {lane.phase for lane in self.lanes} != expected
        if is_split or (is_wrong and not errors):
            epochs = ", ".join(str(lane.engine.epoch) for lane in self.lanes)
            self.problem = (
                f"a lane failed to publish: the lanes are at epochs {epochs}; their snapshots can "
                f"still be read, but start new lanes to go on"
            )
            raise StateError(self.problem) from (errors[0] if errors else None)
        if errors:  # published, and failed afterwards
            raise errors[0]
        if is_equal and any(lane.found != first for lane in self.lanes):
            self.problem = "lanes judged an epoch differently; this is a defect of triegs"
            raise StateError(self.problem)

    def _end(self) -> None:
        for lane in self.lanes:
            lane.end()
