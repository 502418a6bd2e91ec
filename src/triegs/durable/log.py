"""A log on disk: records with gapless sequence numbers, in segments that can be trimmed.

Guarantees for a record, after `append` returned:

1. It survives a crash of the process at once, and a power loss once `synced` has reached it.
2. After any crash the log is an unchanged prefix of what was appended and not undone.
3. A record that was undone never comes back.
4. A damaged log is refused when it is opened, and then nothing on disk changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Condition, Event, Lock, RLock, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from triegs.closing import Closing
from triegs.durable.files import File, Files
from triegs.durable.frames import (
    GOES_ON,
    HEADER,
    MARK,
    FrameError,
    make_frame,
    make_header,
    read_frame,
)
from triegs.durable.record_kernel import FILE, OFFSET, ROOM, SEQUENCE
from triegs.durable.segments import Cut, Segment, find_cut, name_segment, verify
from triegs.errors import LogDamaged, LogFailed, StateError

if TYPE_CHECKING:
    from typing_extensions import Buffer

SEGMENT_BYTES = 64 << 20
# Room is reserved as long as the segment is already, within these bounds: a small log stays small.
LEAST_RESERVED, MOST_RESERVED = 256 << 10, 16 << 20

# When records are synced: with each append, that many milliseconds after it, or on demand.
Sync = Literal["always", "never"] | float


class Record(NamedTuple):
    """A record as read. `segment` is the first sequence number of its segment, all of whose bytes
    the payload keeps in memory.
    """

    segment: int
    sequence: int
    kind: int
    payload: memoryview


class Found(NamedTuple):
    """The content of a log when it was opened. Without records `last` is `first` - 1."""

    first: int
    last: int
    cut: Cut | None


class Metrics(NamedTuple):
    """Figures since the log was opened. Undone records are counted."""

    records: int
    bytes: int
    syncs: int
    sync_seconds: float
    last_sync_seconds: float
    unsynced: int


class Tail(NamedTuple):
    """The end of the log. Swapped as one reference, so that an interrupt sees all or nothing."""

    last: int
    end: int
    # The offset of the last record, while it can be undone.
    begin: int | None


class Log(Closing):
    """An append-only log. One thread appends, undoes and trims; any may `wait` or read `synced`."""

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        *,
        sync: Sync = "always",
        segment_bytes: int = SEGMENT_BYTES,
        segments: list[Segment] | None = None,
    ) -> tuple[Log, Found]:
        """Open or create the log in a folder. Cost: reads and checks all of it, unless `segments`
        from `look` are given; and one sync.

        All records found count as synced from then on. After `LogDamaged` nothing was changed.
        """
        if sync not in ("always", "never") and (isinstance(sync, str) or sync <= 0):
            raise ValueError(
                f"sync must be 'always', 'never' or a number of milliseconds, not {sync}"
            )
        try:
            files.make_folder(folder)
            segments = cls.look(files, folder) if segments is None else segments
            log = cls(files, folder, sync, segment_bytes, segments)
        except OSError as error:
            raise LogFailed(f"the log in {folder} cannot be opened: {error}") from error
        return log, Found(log.first, log.last, find_cut(segments))

    @staticmethod
    def look(files: Files, folder: Path) -> list[Segment]:
        """The segments of a log; `LogDamaged` if they are damaged. Changes nothing.

        Cost: reads and checks all of it.
        """
        try:
            segments = verify(files, folder)
        except FileNotFoundError:
            return []
        find_cut(segments)
        return segments

    def __init__(
        self,
        files: Files,
        folder: Path,
        sync: Sync,
        segment_bytes: int,
        segments: list[Segment],
    ) -> None:
        self._files = files
        self._folder = self.folder = folder
        self._policy = sync
        self._segment_bytes = segment_bytes
        # Acquired in this order. A sync holds only the first, so that appends go on meanwhile.
        self._syncing = Lock()
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._broken: str | None = None
        self._closed = False
        self._records = self._synced_bytes = self._syncs = 0
        #: Bytes appended since the log was opened.
        self.bytes = 0
        self._sync_seconds = self._last_sync_seconds = 0.0

        self._firsts = [segment.first for segment in segments] or [1]
        self._file, self._tail, self._marked = self._resume(segments[-1] if segments else None)
        self._synced = self._tail.last
        # Up to this offset of the newest segment the disk has room for certain.
        self._reserved = 0
        # Only `append` sets this: a mark that fills a segment must not begin the next one between
        # the definitions that a record needs there and the record.
        self._is_full = self._tail.end >= segment_bytes
        # There may be bytes after the tail.
        self._unsettled = False
        self._mark()

        self._due = Event()
        self._is_due = False
        self._closing = Event()
        self._thread: Thread | None = None
        if not isinstance(sync, str):
            run = Thread(target=self._run, args=(sync / 1000,), name="log sync", daemon=True)
            self._thread = run
            run.start()

    @property
    def first(self) -> int:
        """The first sequence number in the log, or the next one if it is empty."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """The last sequence number; `first` - 1 without records."""
        return self._tail.last

    @property
    def synced(self) -> int:
        """The last sequence number that survives a power loss."""
        return self._synced

    @property
    def waiting(self) -> int:
        """About how many of its `bytes` are not synced yet."""
        return self.bytes - self._synced_bytes

    @property
    def broken(self) -> str | None:
        """Why nothing can be appended until the log is reopened; None while it can."""
        return self._broken

    def append(self, kind: int, parts: Sequence[Buffer]) -> int:
        """Append a record and return its sequence number.

        Cost: a checksum and one system call, now and then another one that reserves room; with the
        policy "always" also a sync. After
        `LogFailed` the record is not in the log. The next append may succeed, unless the disk can
        no longer be trusted; then every append fails until the log is reopened.
        """
        if not 0 <= kind < GOES_ON:
            raise ValueError(f"the kind of a record must be from 0 to {GOES_ON - 1}, not {kind}")
        if self._is_full:
            self.rotate()
        sequence = self._tail.last + 1
        frame, size = make_frame(sequence, kind, parts)
        with self._lock:
            self._check()
            end = self._settle() + size
            try:
                if end > self._reserved:
                    self._reserve(end)
                self._write(frame)
            except OSError as error:
                raise LogFailed(f"a record was not written to {self._folder}: {error}") from error
            self._follow(sequence, size)
        self._sync_in_time()
        return sequence

    def append_directly(
        self, told: memoryview, write: Callable[..., int], *arguments: Any
    ) -> int | None:
        """Like `append`, of a record that `write` writes, see `triegs.durable.record_kernel`: it
        gets these arguments, and is told where by words. It returns the size; 0 if it wrote
        nothing, and a negative number if perhaps a part of the record.

        None if there is no record. `append` is to be called then, which finds out what is wrong.
        """
        if self._is_full:
            return None
        with self._lock:
            number = self._file.number
            if self._closed or self._broken or self._unsettled or number < 0:
                return None
            last, begin, _ = self._tail
            told[FILE], told[SEQUENCE], told[OFFSET] = number, last + 1, begin
            told[ROOM] = self._reserved
            self._unsettled = True
            size = write(*arguments)
            if size <= 0:
                self._unsettled = size < 0
                return None
            self._file.follow(size)
            self._follow(last + 1, size)
        if not self._is_due:  # else the usual policy has nothing to do
            self._sync_in_time()
        return last + 1

    def _follow(self, sequence: int, size: int) -> None:
        """A record of so many bytes was written after the tail."""
        begin = self._tail.end
        self._tail = Tail(sequence, begin + size, begin)
        self._unsettled = False
        self._is_full = begin + size >= self._segment_bytes
        self._records += 1
        self.bytes += size

    def _sync_in_time(self) -> None:
        """A record was written: follow the policy."""
        if self._policy == "always":
            self._sync_appended()
        elif self._thread and not self._is_due:
            self._is_due = True
            self._due.set()

    def prepare(self) -> int:
        """The first sequence number of the segment of the next record; a new segment if the newest
        is full. Cost of a new one: three syncs.
        """
        return self.rotate() if self._is_full else self._firsts[-1]

    def rotate(self) -> int:
        """Begin a new segment, unless the newest is empty; returns its first number."""
        if self._tail.last >= self._firsts[-1]:
            self._begin_segment(self._tail.last + 1)
        return self._firsts[-1]

    def undo(self, sequence: int) -> None:
        """Remove the record that the last append wrote; its sequence number is reused.

        Cost: a sync, without which the record could come back after a power loss.
        """
        with self._syncing, self._lock:
            self._check()
            self._settle()
            last, _, begin = self._tail
            if sequence != last or begin is None:
                raise StateError(f"record {sequence} is not the one that the last append wrote")
            self._synced = min(self._synced, sequence - 1)
            # The marks after the record are removed with it.
            self._marked = self._firsts[-1] - 1
            self._unsettled = True
            self._tail = Tail(sequence - 1, begin, None)
            self._settle()
            self._note_synced(sequence - 1)

    def wait(self, sequence: int, timeout: float | None = None) -> bool:
        """Wait until a record is synced; False on timeout, or if there is no such record.

        With the policy "never" this call syncs.
        """
        if self._policy == "never" and self._synced < sequence <= self._tail.last:
            self.sync()
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    not self._synced < sequence <= self._tail.last or self._broken or self._closed
                ),
                timeout,
            )
            if self._synced < sequence and self._broken:
                raise LogFailed(self._broken)
            return self._synced >= sequence

    def sync(self) -> None:
        """Sync what was appended so far. From any thread; appends go on meanwhile."""
        with self._syncing:
            with self._lock:
                self._check()
                file, last, size = self._file, self._tail.last, self.bytes
                if self._synced >= last:
                    return
            self._sync(file)
            with self._lock:
                self._synced_bytes = size
                self._note_synced(last)

    def read(self, after: int = 0) -> Iterator[Record]:
        """The records after a sequence number, up to the last one at the time of the call.

        Cost: reads the segments that have them, with one in memory at a time. Records must not be
        undone or trimmed meanwhile.
        """
        return self._read(after, self._tail.last, self._firsts[:])

    def trim(self, before: int) -> list[Path]:
        """Remove the segments whose records are all below a sequence number, except the newest.

        Cost: a sync of the folder for each. Sequence numbers continue.
        """
        with self._lock:
            self._check()
        removed = []
        try:
            while len(self._firsts) > 1 and self._firsts[1] <= before:
                # The last removal is durable before the next: a crash must not leave a gap.
                self._files.sync_folder(self._folder)
                path = name_segment(self._folder, self._firsts[0])
                with suppress(FileNotFoundError):
                    self._files.remove(path)
                self._firsts.pop(0)
                removed.append(path)
            if removed:
                self._files.sync_folder(self._folder)
        except OSError as error:
            raise LogFailed(f"an old segment was not removed: {error}") from error
        return removed

    def metrics(self) -> Metrics:
        with self._lock:
            return Metrics(
                self._records,
                self.bytes,
                self._syncs,
                self._sync_seconds,
                self._last_sync_seconds,
                self._tail.last - self._synced,
            )

    def close(self) -> None:
        """Sync what was appended, and close. Idempotent."""
        if self._closed:
            return
        if self._thread:
            self._closing.set()
            self._due.set()
            self._thread.join()
        try:
            if not self._broken:
                with self._lock:
                    self._settle()
                self.sync()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            with suppress(OSError):
                self._file.close()

    def _resume(self, newest: Segment | None) -> tuple[File, Tail, int]:
        """Continue the newest segment, without the incomplete end that a crash left."""
        if newest is None or not newest.good_bytes:
            first = self._firsts[-1]
            return self._make_segment(first), Tail(first - 1, HEADER.size, None), first - 1
        file = self._files.open(newest.file)
        try:
            # Also if it is intact, to give back what was reserved after it.
            file.truncate(newest.good_bytes)
            # What was cut must not reappear after what is appended from now on.
            file.sync()
            self._files.sync_folder(self._folder)
        except OSError:
            file.close()
            raise
        return file, Tail(newest.last, newest.good_bytes, None), newest.marked

    def _make_segment(self, first: int) -> File:
        """An empty segment whose name and header survive a power loss."""
        file = self._files.open(name_segment(self._folder, first))
        try:
            file.truncate(0)
            file.write([make_header(first)])
            file.sync()
            self._files.sync_folder(self._folder)
        except OSError:
            file.close()
            raise
        return file

    def _begin_segment(self, first: int) -> None:
        with self._syncing, self._lock:
            self._check()
            self._settle()
            # Even if all records are synced: a mark that is not would look like damage later.
            self._sync(self._file)
            self._synced_bytes = self.bytes
            self._note_synced(self._tail.last, mark=False)
            try:
                file = self._make_segment(first)
            except OSError as error:
                self._remove_failed_segment(first)
                raise LogFailed(f"a segment was not created: {error}") from error
            # Best effort: it only serves to detect that the new segment is missing.
            with suppress(OSError):
                self._file.write(make_frame(first - 1, GOES_ON, ())[0])
            with suppress(OSError):
                self._file.close()
            self._file = file
            self._reserved = 0
            self._firsts.append(first)
            self._is_full = False
            self._tail = Tail(first - 1, HEADER.size, None)
            self._marked = first - 1

    def _remove_failed_segment(self, first: int) -> None:
        path = name_segment(self._folder, first)
        try:
            if path in self._files.list_folder(self._folder):
                self._files.remove(path)
                self._files.sync_folder(self._folder)
        except OSError as error:
            self._fail(f"an unfinished segment was not removed: {error}", error)

    def _reserve(self, end: int) -> None:
        """Reserve room on the disk: for a record up to `end`, and for more if there is that much.

        So a full disk refuses a record before any byte of it is written, and never a sync.
        """
        self._reserved = 0
        more = min(max(end, LEAST_RESERVED), MOST_RESERVED)
        for size in (end + more, end):
            try:
                self._file.reserve(size)
            except OSError:
                if size == end:
                    raise
            else:
                self._reserved = size
                return

    def _write(self, frame: Sequence[Buffer]) -> None:
        """Write after the tail, all or nothing; the caller moves the tail."""
        self._unsettled = True
        try:
            self._file.write(frame)
        except OSError:
            self._settle()
            raise

    def _settle(self) -> int:
        """Remove the bytes after the tail: they were undone, or their append did not finish."""
        if self._unsettled:
            try:
                self._file.truncate(self._tail.end)
                self._reserved = 0
            except OSError as error:
                self._fail(f"bytes after the end of the log were not removed: {error}", error)
            # Else they could reappear after a power loss, completed by what is written next.
            self._sync(self._file)
            self._unsettled = False
        return self._tail.end

    def _mark(self) -> None:
        """Write a mark that the records are synced, for opening after a crash."""
        if self._synced <= self._marked:
            return
        frame, size = make_frame(self._synced, MARK, ())
        # Best effort: the mark only serves to detect damage.
        with suppress(OSError, LogFailed):
            end = self._settle()
            self._write(frame)
            self._tail = self._tail._replace(end=end + size)
            self._unsettled = False
            self._marked = self._synced

    def _sync_appended(self) -> None:
        try:
            self.sync()
        except LogFailed:
            # The append fails, so remove its record if possible.
            last, _, begin = self._tail
            if begin is not None:
                with self._lock, suppress(OSError):
                    self._file.truncate(begin)
                    self._reserved = 0
                    self._tail = Tail(last - 1, begin, None)
            raise

    def _sync(self, file: File) -> None:
        """Sync a file and measure the time. A failed sync is never retried: the system may have
        dropped what it could not write, and the next sync would not report it.
        """
        started = perf_counter()
        try:
            file.sync()
        except OSError as error:
            self._fail(f"a sync failed: {error}", error)
        took = perf_counter() - started
        with self._lock:
            self._syncs += 1
            self._sync_seconds += took
            self._last_sync_seconds = took

    def _note_synced(self, last: int, mark: bool = True) -> None:
        self._synced = last
        if mark:
            self._mark()
        self._changed.notify_all()

    def _check(self) -> None:
        if self._closed:
            raise StateError("the log is closed")
        if self._broken:
            raise LogFailed(self._broken)

    def _fail(self, reason: str, error: OSError) -> NoReturn:
        """Disk and log no longer agree: nothing is written until the log is reopened."""
        with self._changed:
            self._broken = reason
            self._changed.notify_all()
        raise LogFailed(reason) from error

    def _run(self, seconds: float) -> None:
        """Sync some time after each append."""
        while not self._closing.is_set():
            self._due.wait()
            self._closing.wait(seconds)
            # In this order: an append that comes between is synced below, or the next time.
            self._due.clear()
            self._is_due = False
            try:
                self.sync()
            except LogFailed:
                return

    def _read(self, after: int, last: int, firsts: list[int]) -> Iterator[Record]:
        for first, following in pairwise([*firsts, last + 1]):
            if after + 1 < following:
                for record in self._read_segment(first, following - 1):
                    if record.sequence > after:
                        yield record

    def _read_segment(self, first: int, last: int) -> Iterator[Record]:
        path = name_segment(self._folder, first)
        try:
            data = memoryview(self._files.read(path))
        except OSError as error:
            raise LogFailed(f"a segment was not read: {error}") from error
        sequence, end = first - 1, HEADER.size
        while sequence < last:
            try:
                frame = read_frame(data, end)
            except FrameError as error:
                reason = f"{error}, since the log was opened"
                raise LogDamaged(reason, file=path, offset=end, good_until=sequence) from error
            end = frame.end
            if frame.kind != MARK:
                sequence = frame.sequence
                yield Record(first, sequence, frame.kind, frame.payload)
