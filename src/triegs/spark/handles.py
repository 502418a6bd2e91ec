"""What every running pipeline can do."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

from triegs.errors import StateError
from triegs.spark.failures import BatchFailed, Cancelled, explain

Self = TypeVar("Self", bound="Handle")
#: How often who waits looks whether Spark is still there, which it does not say.
LOOK_SECONDS = 1.0
STOPPED = "the pipeline was stopped, perhaps before everything was taken"


class Handle(ABC):
    """A streaming query of Spark's that feeds engines; ``query`` is Spark's own handle."""

    query: Any
    _session: Any

    def __init__(self) -> None:
        #: Why a batch failed, which has ended the stream.
        self.failure: BatchFailed | None = None
        self._busy = Lock()  # held while a batch is taken
        self._taker: int | None = None  # the thread that takes it
        self._is_stopped = False

    def _take(self, frame: Any, batch: int) -> None:
        """For `foreachBatch`: one batch at a time, and none once it is stopped."""
        with self._busy:
            if self._is_stopped:
                raise Cancelled
            self._taker = get_ident()
            try:
                self._take_batch(frame, batch)
            except Exception as problem:
                self.failure = BatchFailed(f"batch {batch}: {explain(problem)}")
                raise self.failure from problem
            finally:
                self._taker = None

    @abstractmethod
    def _take_batch(self, frame: Any, batch: int) -> None: ...

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream has ended, so long at most; whether it has.

        A batch that failed is `BatchFailed`, with its number and reason. So is a stream whose Spark
        session was stopped by somebody else.
        """
        end = None if seconds is None else monotonic() + seconds
        while True:
            rest = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - monotonic())
            try:
                if self.query.awaitTermination(max(rest, 0.001)):
                    return True
            except Exception as problem:
                if self._is_stopped and self.failure is None:
                    return True
                raise self._explain(problem) from problem
            self._require_session()
            if end is not None and monotonic() >= end:
                return False

    def process_all(self) -> None:
        """Wait until everything that the source has now is taken; for tests and notebooks."""
        done: SimpleQueue[Exception | None] = SimpleQueue()

        def wait() -> None:
            try:
                self.query.processAllAvailable()
            except Exception as problem:
                done.put(problem)
            else:
                done.put(None)

        # Spark would wait for ever if somebody stopped its session.
        Thread(target=wait, name="triegs wait", daemon=True).start()
        while True:
            with suppress(Empty):
                problem = done.get(timeout=LOOK_SECONDS)
                break
            self._require_session()
        if problem is not None:
            raise self._explain(problem) from problem
        if self._is_stopped:
            raise BatchFailed(STOPPED)
        self._require_session()

    def _explain(self, problem: Exception) -> Exception:
        if self.failure is not None:
            return self.failure
        if self._is_stopped:
            return BatchFailed(STOPPED)
        self._require_session()
        return BatchFailed(f"Spark failed: {explain(problem)}")

    def _require_session(self) -> None:
        if self.failure is None and not self._is_stopped and not self._has_session():
            raise BatchFailed(
                "the Spark session was stopped while the pipeline ran; started again in a new "
                "session, the pipeline goes on where it was"
            )

    def _has_session(self) -> bool:
        """Whether Spark is there to be asked."""
        try:
            return not self._session._jsparkSession.sparkContext().isStopped()
        except Exception:  # nor is its Java process
            return False

    def _read_progress(self) -> dict[str, Any] | None:
        """What Spark says of its last batch; nothing once it has ended."""
        try:
            last = self.query.lastProgress
            return None if last is None else json.loads(last.json)
        except Exception:
            if self._has_session():
                raise
            return None

    def stop(self) -> None:
        """Stop after the batch at hand; again does nothing. What was taken stays readable.

        A sink may call it, too: then it returns at once, and the stream ends after this batch.
        """
        self._is_stopped = True
        if self._taker == get_ident():
            # Spark waits for this batch, so here nobody can wait for Spark.
            Thread(target=self.stop, name="triegs stop", daemon=True).start()
            return
        with self._busy:
            pass  # the batch at hand is done, and all others are refused
        # Not under the lock: Spark waits for its thread, which may wait for the lock.
        try:
            self.query.stop()
        except Exception:
            if self._has_session():
                raise

    def close(self) -> None:
        """Stop, and let the checkpoint go."""
        if self._taker == get_ident():
            raise StateError("a sink cannot close its pipeline; it can stop it")
        try:
            self.stop()
        finally:
            self._let_go()

    @abstractmethod
    def _let_go(self) -> None:
        """Give back what the pipeline holds; harmless when repeated."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
