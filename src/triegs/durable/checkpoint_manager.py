"""The directory of an open engine: when checkpoints are taken, the inbox, closing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from time import perf_counter
from typing import Any

from triegs.durable.checkpoints import Checkpoints, Section
from triegs.durable.directory import Lock
from triegs.durable.inbox import POSITION, Inbox, Taken
from triegs.durable.log import Log
from triegs.durable.protocol import RecoverableEngine
from triegs.durable.recovery import Recovery
from triegs.durable.state import Capture, capture_state, list_sections
from triegs.errors import InputError, InvalidUpdate, LogFailed, StateError, WindowError
from triegs.windows.encoding import TIME

log_messages = logging.getLogger("triegs")
#: A checkpoint is due when the log since the last one is as large as that, and at least this.
LEAST_BYTES = 64 << 20
#: More unsynced bytes than this are synced in the background before a checkpoint begins.
MUCH = 1 << 20
#: The writer of a checkpoint pauses for this multiple of the time that it has worked.
PAUSE_RATIO = 2.0
#: The errors that show that a batch of the inbox is not a table of updates.
UNFIT = (InputError, InvalidUpdate, WindowError, TypeError)


class CheckpointManager:
    """The directory of one engine. The updater calls everything but `metrics`."""

    recovery: Recovery

    def __init__(
        self, engine: RecoverableEngine, lock: Lock, log: Log, checkpoints: Checkpoints,
        inbox: Inbox, least: int | None,
    ) -> None:  # fmt: skip
        self.directory = log.folder.parent
        #: Whether a background checkpoint may begin; see `triegs.Engine.pace_checkpoints`.
        self.is_ready: Callable[[], bool] = lambda: True
        self._engine = engine
        self._lock = lock
        self._log = log
        self._checkpoints = checkpoints
        self._inbox = inbox
        self._least = LEAST_BYTES if least is None else least
        self._thread: Thread | None = None
        # Bytes of the log when the last checkpoint began, and when the next one is due.
        self._since = 0
        self._due = self._least
        self._is_settled = False
        self._hurry = Event()  # a caller waits for the checkpoint
        self._error: Exception | None = None
        self._done: dict[str, Any] = {"checkpoints": 0}

    def begin_if_due(self) -> None:
        """Begin a checkpoint if one is due. Cost: constant while none is."""
        if self._log.bytes < self._due or self.is_busy or not self.is_ready():
            return
        # A checkpoint begins a segment, which syncs the log: a long sync is left to the background.
        if self._log.waiting > MUCH and not self._is_settled:
            self._is_settled = True
            self._start(self.sync_log)
            return
        try:
            self.begin()
        except LogFailed as problem:  # the update itself succeeded
            self._fail(problem)

    def _plan(self) -> None:
        """The next checkpoint is due when the log is as long as the last one."""
        self._due = self._since + max(self._least, self._done.get("checkpoint_bytes", 0))

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written, or the log is synced for one."""
        return self._thread is not None and self._thread.is_alive()

    def sync_log(self) -> None:
        """Sync the log, so that `begin` does not wait for it. From any thread."""
        with suppress(LogFailed):  # the next append raises it
            self._log.sync()

    def begin(self) -> None:
        """Capture the state, and write it in a thread of its own while updates go on."""
        self.wait()
        started = perf_counter()
        journal = self._engine.journal
        assert journal is not None
        self._log.rotate()
        sequence = self._log.last
        taken = capture_state(self._engine, sequence)
        self._since = self._log.bytes
        self._plan()
        self._is_settled = False
        self._hurry.clear()
        self._start(partial(self._write, taken, sequence, perf_counter() - started))

    def _start(self, work: Callable[[], None]) -> None:
        self._thread = Thread(target=work, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the checkpoint in progress, if any."""
        if self._thread is not None:
            self._hurry.set()
            self._thread.join()
            self._thread = None

    def _write(self, taken: Capture, sequence: int, pause: float) -> None:
        started = perf_counter()
        try:
            written = self._checkpoints.write(sequence, self._pace(taken))
            # The records before the checkpoint must be durable before the checkpoint replaces them.
            self._log.wait(sequence)
            self._log.trim(self._checkpoints.tidy() + 1)
        except Exception as problem:  # nothing is lost: the log has everything
            self._fail(problem)
        else:
            self._error = None
            self._done = {
                "checkpoints": self._done["checkpoints"] + 1,
                "checkpoint_record": written.sequence,
                "checkpoint_bytes": written.bytes,
                "checkpoint_s": perf_counter() - started,
                "checkpoint_pause_s": pause,
            }
            self._plan()
        finally:
            taken.close()

    def _pace(self, taken: Capture) -> Iterator[Section]:
        """The sections of a state, with pauses between: cores share caches, and a writer that does
        not pause costs the updater a third of its speed.
        """
        started = perf_counter()
        for section in list_sections(taken, self._engine):
            yield section
            self._hurry.wait(PAUSE_RATIO * (perf_counter() - started))
            started = perf_counter()

    def take_inbox(self) -> list[Taken]:
        """Take the batches of the inbox; see `triegs.Engine.take_inbox`."""
        engine, inbox = self._engine, self._inbox
        journal = engine.journal
        assert journal is not None
        taken = []
        for batch in inbox.list():
            numbers = dict(journal.positions.get(POSITION, {}))
            if batch.number <= numbers.get(batch.source, -1):
                continue
            journal.note({POSITION: {**numbers, batch.source: batch.number}})
            try:
                table, stream = inbox.read(batch)
                is_timed = TIME in table.schema.names
                outcome = engine.push(table, stream) if is_timed else engine.apply(table)
            except UNFIT as problem:
                inbox.reject(batch)
                taken.append(Taken(batch.source, batch.number, None, str(problem)))
            else:
                inbox.note(batch, journal.last)
                taken.append(Taken(batch.source, batch.number, outcome))
            finally:
                journal.forget([POSITION])  # unless it was written
        numbers = dict(journal.positions.get(POSITION, {}))
        inbox.tidy(numbers, lambda record: journal.log.synced >= record)
        return taken

    def finish(self) -> None:
        """Wait for the checkpoint, and raise its error."""
        self.wait()
        if isinstance(self._error, OSError):
            raise StateError(f"the checkpoint was not written: {self._error}") from self._error
        if self._error is not None:
            raise self._error

    def _fail(self, problem: Exception) -> None:
        self._error = problem
        log_messages.warning("a checkpoint was not written: %s; the log continues", problem)

    def metrics(self) -> dict[str, Any]:
        """Figures of the log and of the last checkpoint."""
        log = self._log.metrics()
        return {
            "record": self._log.last,
            "synced_record": self._log.synced,
            "log_bytes": log.bytes,
            "unsynced": log.unsynced,
            "syncs": log.syncs,
            "sync_s": log.sync_seconds,
            "last_sync_s": log.last_sync_seconds,
            **self._done,
            "checkpointing": self.is_busy,
            "checkpoint_error": None if self._error is None else str(self._error),
        }

    def close(self) -> None:
        """Write what is not written yet, and release the directory."""
        try:
            self.wait()
            journal = self._engine.journal
            if journal is not None:
                journal.close(self._engine.epoch)
        finally:
            try:
                self._log.close()
            finally:
                self._lock.close()
