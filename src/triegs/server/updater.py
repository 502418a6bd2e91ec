"""The one thread that changes the engine.

Requests queue here in the order of their arrival. Consecutive batches of events share an epoch; a
call of the engine (registering a query, say) comes between two epochs. An epoch that the engine
refuses as a whole is tried again request by request, so that nobody fails for another's events.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Condition, Thread
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa

from triegs.engine import Engine
from triegs.errors import LogFailed, TriegsError
from triegs.run.epochs import join_batches
from triegs.server.keys import Key, Keys
from triegs.server.problems import Problem
from triegs.server.settings import Settings
from triegs.server.tracing import span
from triegs.server.work import MOST_DESCRIBED, Call, EventBatch, Outcome, Work

Result = TypeVar("Result")
LOG = logging.getLogger("triegs.server")


class Updater:
    """Applies the work of requests to an engine, in a thread of its own.

    `on_epoch` is called in that thread with the seconds that each epoch took.
    """

    def __init__(
        self, engine: Engine, settings: Settings, on_epoch: Callable[[float], object]
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._on_epoch = on_epoch
        self._keys = Keys(engine, settings.keys)
        self._queue: deque[Work] = deque()
        self._changed = Condition()
        self._is_closing = False
        self._last = 0.0
        #: Why the engine takes no more changes until it is reopened.
        self.failure: LogFailed | None = None
        self._thread = Thread(target=self._run, name="triegs updater", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it takes work."""
        return not self._is_closing and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """The requests that wait."""
        return len(self._queue)

    @property
    def lag_s(self) -> float:
        """How long the oldest request has waited."""
        with self._changed:
            return monotonic() - self._queue[0].queued if self._queue else 0.0

    def apply(self, batch: EventBatch) -> Future[Outcome]:
        """Queue the events of a request."""
        self._put(batch)
        return batch.done

    def call(self, make: Callable[[Engine], Result]) -> Future[Result]:
        """Queue a call of the engine."""
        call = Call(make)
        self._put(call)
        return call.done

    def close(self) -> None:
        """Take no more work, do what is queued, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _put(self, work: Work) -> None:
        with self._changed:
            if not self.is_open:
                raise Problem(503, "the server is stopping", retry_after_s=5)
            self._queue.append(work)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closing)
                if not self._queue:
                    break
                first = self._queue.popleft()
            if isinstance(first, Call):
                self._make(first)
            elif self._answer_known(first):
                pass
            elif first.is_timed:
                self._try(self._push, [first])
            else:
                self._publish(self._gather(first))
        try:
            self._keys.flush()
        except TriegsError:
            LOG.exception("the last outcomes were not written")

    def _gather(self, first: EventBatch) -> list[EventBatch]:
        """The batches of the next epoch: what is queued until it is due."""
        found, rows = [first], first.rows
        names = {first.key.name} if first.key else set()
        due = self._last + self._settings.epoch_every_s
        while first.is_merging and rows < self._settings.epoch_rows:
            with self._changed:
                if not self._queue:
                    left = due - monotonic()
                    if left <= 0 or self._is_closing or not self._changed.wait(left):
                        break
                    continue
                head = self._queue[0]
                if isinstance(head, Call) or not head.is_merging:
                    break
                if head.is_mapped != first.is_mapped:
                    break  # one counts rows, the other triples
                if head.key is not None and (
                    head.key.name in names or self._keys.find(head.key) is not None
                ):
                    break  # a repetition is answered from the outcome of the first
                self._queue.popleft()
            found.append(head)
            rows += head.rows
            if head.key is not None:
                names.add(head.key.name)
        return found

    def _publish(self, batches: list[EventBatch]) -> None:
        """One epoch, or after an error one for each batch."""
        if self._try(self._apply, batches):
            return
        for batch in batches:
            if not batch.done.done():
                self._try(self._apply, [batch])

    def _try(
        self, change: Callable[[list[EventBatch]], list[Outcome]], batches: list[EventBatch]
    ) -> bool:
        """Make a change. If it fails, that is the outcome of a batch that is alone."""
        begin, epoch = monotonic(), self._engine.epoch
        try:
            with span("epoch", requests=len(batches), rows=sum(b.rows for b in batches)):
                outcomes = change(batches)
        except Exception as error:
            self._note_failure(error)
            if len(batches) == 1:
                batches[0].done.set_exception(error)
            return False
        self._last = monotonic()
        if self._engine.epoch != epoch:  # timed events wait for the watermark
            self._on_epoch(self._last - begin)
        for batch, outcome in zip(batches, outcomes, strict=True):
            batch.done.set_result(outcome)
        return True

    def _apply(self, batches: list[EventBatch]) -> list[Outcome]:
        engine = self._engine
        expected = [
            Outcome(engine.epoch + 1, batch.rows, None, batch.quarantined) for batch in batches
        ]
        table = join_batches([part for batch in batches for part in batch.events])
        # Nothing may come between the note and its change.
        self._keys.note(list_keyed(batches, expected))
        report = engine.apply(table, strict=batches[0].is_strict)
        ends, start = [], 0
        for batch in batches:
            start += batch.rows
            ends.append(start)
        outcomes = [
            replace(outcome, epoch=report.epoch, refused=0, report=report, problems=batch.problems)
            for outcome, batch in zip(expected, batches, strict=True)
        ]
        at = start = 0
        for row, reason in report.refused:
            while row >= ends[at]:
                start, at = ends[at], at + 1
            outcome = outcomes[at]
            assert outcome.refused is not None
            outcome.accepted -= 1
            outcome.refused += 1
            if len(outcome.problems) < MOST_DESCRIBED:
                problem = {"row": row - start, "reason": str(reason)}
                outcome.problems = [*outcome.problems, problem]
        self._keys.add(list_keyed(batches, outcomes))
        return outcomes

    def _push(self, batches: list[EventBatch]) -> list[Outcome]:
        (batch,) = batches
        engine = self._engine
        expected = Outcome(engine.epoch, batch.rows, None, batch.quarantined)
        table = join_timed(batch.events)
        self._keys.note(list_keyed(batches, [expected]))
        pushed = engine.push(table, batch.stream)
        refused = [
            {"row": number - pushed.first, "reason": str(reason)}
            for number, reason in pushed.refused
            if number >= pushed.first
        ]
        outcome = replace(
            expected, accepted=pushed.accepted, late=pushed.late,
            refused=max(batch.rows - pushed.accepted - pushed.late, 0),
            problems=[*batch.problems, *refused][:MOST_DESCRIBED],
        )  # fmt: skip
        # The events are in, whatever becomes of the slides: sent again, they count once.
        self._keys.add(list_keyed(batches, [outcome]))
        if batch.is_advancing:
            engine.advance()
        return [replace(outcome, epoch=engine.epoch)]

    def _answer_known(self, batch: EventBatch) -> bool:
        """Answer a repeated request with the outcome of the first."""
        found = None if batch.key is None else self._keys.find(batch.key)
        if found is None:
            return False
        assert batch.key is not None
        digest, outcome = found
        if digest == batch.key.digest:
            batch.done.set_result(Outcome(**outcome, is_repeated=True))
        else:
            batch.done.set_exception(
                Problem(
                    422,
                    "the idempotency key was used for another request",
                    "use a new key for each request, and the same key only to send it again",
                )
            )
        return True

    def _make(self, call: Call[Any]) -> None:
        begin, epoch = monotonic(), self._engine.epoch
        try:
            result = call.make(self._engine)
        except Exception as error:
            self._note_failure(error)
            call.done.set_exception(error)
            return
        if self._engine.epoch != epoch:
            self._on_epoch(monotonic() - begin)
        call.done.set_result(result)

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, LogFailed):
            self.failure = error
            LOG.error("the log failed: %s", error)


def join_timed(batches: list[pa.RecordBatch]) -> pa.Table:
    """One table of timed events from batches whose terms may have different types."""
    table = join_batches(batches)
    for name, kind in (("time", pa.int64()), ("id", pa.string())):
        if name in batches[0].schema.names:
            column = pa.chunked_array([batch.column(name).cast(kind) for batch in batches])
            table = table.append_column(name, column)
    return table


def list_keyed(
    batches: list[EventBatch], outcomes: list[Outcome]
) -> list[tuple[Key, dict[str, Any]]]:
    """The keys of the batches that have one, with the outcomes as the log has them."""
    return [
        (batch.key, outcome.as_note())
        for batch, outcome in zip(batches, outcomes, strict=True)
        if batch.key is not None
    ]
