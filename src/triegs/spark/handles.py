"""The methods of every running pipeline."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from time import monotonic
from typing import Any, TypeVar

from triegs.closing import Closing
from triegs.errors import StateError
from triegs.spark.failures import BatchFailed, Cancelled, explain, mute
from triegs.spark.listener import make_listener
from triegs.spark.request import PipelineRequest

Self = TypeVar("Self", bound="Handle")
#: Spark's own checkpoint, in that of a pipeline.
SPARK = "spark"
#: How often a waiting thread checks that the session is still running; Spark does not notify.
LOOK_SECONDS = 1.0
STOPPED = "the pipeline was stopped, possibly before it had processed everything"


class Handle(Closing, ABC):
    """A streaming query of Spark's that feeds engines; ``query`` is Spark's own handle."""

    query: Any

    def __init__(self, session: Any, checkpoint: Path) -> None:
        mute()
        self.checkpoint = checkpoint
        #: Why a batch failed, which ended the stream.
        self.failure: BatchFailed | None = None
        self._session = session
        self._listener: Any = None
        self._busy = Lock()  # held while a batch runs
        self._taker: int | None = None  # the thread that runs it
        self._is_stopped = False

    def _start_query(self, stream: Any, request: PipelineRequest) -> Any:
        writer = stream.writeStream.foreachBatch(self._take).outputMode("append")
        writer = writer.option("checkpointLocation", (self.checkpoint / SPARK).as_uri())
        if request.name is not None:
            writer = writer.queryName(request.name)
        if request.trigger is not None:
            writer = writer.trigger(**request.trigger)
        return writer.start()

    def _add_listener(self, report: Callable[[dict[str, Any]], object] | None) -> None:
        self._listener = make_listener(self._is_ours, self.metrics, report)
        self._session.streams.addListener(self._listener)

    def _remove_listener(self) -> None:
        if self._listener is not None:
            with suppress(Exception):  # the session has stopped
                self._session.streams.removeListener(self._listener)

    def _is_ours(self, query: str) -> bool:
        return hasattr(self, "query") and str(self.query.id) == query

    def _take(self, frame: Any, batch: int) -> None:
        """For `foreachBatch`: one batch at a time, and none after a stop."""
        with self._busy:
            if self._is_stopped:
                raise Cancelled
            self._taker = get_ident()
            try:
                self._take_batch(frame, batch)
            except BaseException as problem:  # Spark would wait forever if a sink calls sys.exit
                self.failure = BatchFailed(f"batch {batch}: {explain(problem)}")
                raise self.failure from problem
            finally:
                self._taker = None

    @abstractmethod
    def _take_batch(self, frame: Any, batch: int) -> None: ...

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Current figures. Any thread."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream has ended, or for at most that many seconds; returns whether it has
        ended.

        Raises `BatchFailed` if a batch failed, with its number and the reason, or if somebody else
        stopped the Spark session.
        """
        end = None if seconds is None else monotonic() + seconds
        while True:
            left = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - monotonic())
            try:
                if self.query.awaitTermination(max(left, 0.001)):
                    return True
            except Exception as problem:
                if self._is_stopped and self.failure is None:
                    return True
                raise self._explain(problem) from problem
            self._require_session()
            if end is not None and monotonic() >= end:
                return False

    def process_all(self) -> None:
        """Wait until everything available in the source is processed; for tests and notebooks."""
        done: SimpleQueue[Exception | None] = SimpleQueue()

        def wait() -> None:
            try:
                self.query.processAllAvailable()
            except Exception as problem:
                done.put(problem)
            else:
                done.put(None)

        # In a thread: Spark would wait forever if somebody stopped the session.
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
                "the Spark session was stopped while the pipeline was running; restart the "
                "pipeline in a new session to resume it"
            )

    def _has_session(self) -> bool:
        """Whether the session is running. PySpark has no public way to find out."""
        try:
            return not self._session._jsparkSession.sparkContext().isStopped()
        except Exception:  # the Java process has ended, too
            return False

    def _read_progress(self) -> dict[str, Any] | None:
        """Spark's progress report of the last batch; None once the session has stopped."""
        try:
            last = self.query.lastProgress
            return None if last is None else json.loads(last.json)
        except Exception:
            if self._has_session():
                raise
            return None

    def stop(self) -> None:
        """Stop after the current batch. Idempotent. Answers stay readable.

        A sink may call this method: it then returns at once, and the stream ends after the batch.
        """
        self._is_stopped = True
        if self._taker == get_ident():
            # Spark waits for this batch, so this thread must not wait for Spark.
            Thread(target=self.stop, name="triegs stop", daemon=True).start()
            return
        with self._busy:
            pass  # the current batch is done, and all others are refused
        # Not under the lock: Spark waits for its thread, which may wait for the lock.
        try:
            self.query.stop()
        except Exception:
            if self._has_session():
                raise

    def close(self) -> None:
        """Stop, and release the checkpoint."""
        if self._taker == get_ident():
            raise StateError("a sink cannot close its pipeline; it can stop it")
        try:
            self.stop()
        finally:
            self._let_go()

    @abstractmethod
    def _let_go(self) -> None:
        """Release what the pipeline holds. Idempotent."""
