"""Following a query: a snapshot, then its changes, then a progress marker for each epoch.

A subscription holds the epoch that it delivered last. The next step is the difference between that
epoch and the next held one, or the newest. So a slow subscriber gets several epochs merged into one
step, never a gap, and the updater waits for nobody. For a subscriber that wants a step per epoch,
each epoch is held from its publication to its delivery. A step that cannot be read, because a
multiplicity does not fit, counts as not delivered: the next step starts from the same epoch.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from triegs.copying import Uncopied
from triegs.errors import SnapshotExpired, StateError
from triegs.notebook import write_card
from triegs.options import StreamTerms, check_word
from triegs.read.changes import Changes
from triegs.read.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa


class Progress(NamedTuple):
    """Everything up to this epoch has been delivered."""

    epoch: int


Event = Snapshot | Changes | Progress
logger = logging.getLogger("triegs")
#: Seconds after which a wait lets an interrupt through.
PATIENCE = 0.2


class Publications:
    """Where subscribers wait for the next epoch. The updater only checks whether any are
    waiting.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self.waiting = 0
        self.is_over = False
        #: The updater calls these after each epoch.
        self.followers: set[Callable[[], object]] = set()
        self._listeners: set[Callable[[], object]] = set()

    def announce(self) -> None:
        """There is a new epoch, or an end: notify the waiting threads."""
        with self._changed:
            self._changed.notify_all()
            for wake in self._listeners:
                wake()

    @contextmanager
    def listening(self, wake: Callable[[], object]) -> Iterator[None]:
        """Within the block, call `wake` on each announcement; it must be quick."""
        with self._changed:
            self.waiting += 1
            self._listeners.add(wake)
        try:
            yield
        finally:
            with self._changed:
                self.waiting -= 1
                self._listeners.discard(wake)

    def end(self) -> None:
        self.is_over = True
        self.announce()

    def wait(self, is_due: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until `is_due` is true; false on timeout."""
        with self._changed:
            self.waiting += 1
            try:
                return self._changed.wait_for(is_due, timeout)
            finally:
                self.waiting -= 1


class EpochHolder:
    """Holds each epoch of a query from its publication to its delivery."""

    def __init__(self, publications: Publications, hold: Callable[[], Snapshot]) -> None:
        self._publications = publications
        self._hold = hold
        self._held: deque[Snapshot] = deque()
        publications.followers.add(self.follow)

    def follow(self) -> None:
        """An epoch was published. The updater calls this. Cost: constant."""
        with suppress(StateError):  # the query is being closed
            self._held.append(self._hold())

    def release(self, until: float) -> None:
        """Release the epochs up to that one."""
        while self._held and self._held[0].epoch <= until:
            self._held.popleft().close()

    def close(self) -> None:
        self._publications.followers.discard(self.follow)
        self.release(math.inf)


class SubscriptionOptions(NamedTuple):
    """How a subscription delivers; see `triegs.StandingQuery.subscribe`."""

    #: Whether the initial result is the first event.
    is_first: bool
    progress: bool
    callback: Callable[[Event], object] | None
    #: Called with the epoch up to which everything was delivered.
    keep: Callable[[int], object] | None = None
    #: Called once at the end.
    end: Callable[[], object] | None = None
    #: Holds each epoch for a step per epoch; None if steps are merged.
    holder: EpochHolder | None = None


class Subscription(Uncopied):
    """Snapshot, changes and progress of one query, in order.

    `StandingQuery.subscribe` creates it. Iterate over it with ``for`` or ``async for``, which waits
    for the next epoch and ends when the query, the engine or the subscription is closed; or call
    `poll` with a timeout; or pass a callback. Each event is readable until the next one is
    requested. ``epoch`` is the last epoch delivered: subscribe with `since` to resume from there.

    A step with a multiplicity that does not fit raises `MultiplicityOverflow`, from `poll` or when
    it is read. The next event then covers the same step, with what has changed since.
    """

    _instead = "it belongs to its engine; send what batches() gives"

    def __init__(
        self,
        publications: Publications,
        follow: Callable[[int], list[Snapshot]],
        newest: Callable[[], int],
        start: Snapshot,
        options: SubscriptionOptions,
    ) -> None:
        is_first, progress, callback, self._keep, end, self._holder = options
        self._kept: int | None = None
        self._end = end
        self._publications = publications
        self._follow = follow
        self._newest = newest
        self._delivered = start
        self._before: Snapshot | None = None  # the older side of the changes delivered last
        self._step: Changes | None = None  # these changes
        self._ahead: deque[Snapshot] = deque()
        self._events: deque[Event] = deque([start] if is_first else [])
        if is_first and progress:
            self._events.append(Progress(start.epoch))
        self._progress = progress
        self._polling = Lock()
        self._seen = start.epoch
        self._is_merging = False  # one step to the newest, because a shorter one did not fit
        self._is_closed = False
        self.names = start.names
        #: What a callback raised; the subscription has ended with it.
        self.error: BaseException | None = None
        self._thread: Thread | None = None
        if callback is not None:
            self._thread = Thread(
                target=self._call, args=(callback,), name="triegs subscription", daemon=True
            )
            self._thread.start()

    @property
    def epoch(self) -> int:
        """The last epoch delivered."""
        return self._delivered.epoch

    def poll(self, timeout: float | None = 0) -> Event | None:
        """The next event; None if none comes within `timeout` seconds (None: no limit), or after
        the end. Cost: that of the first rows of the changes.
        """
        if not self._polling.acquire(blocking=False):
            raise StateError("another thread is reading this subscription")
        try:
            while not self._is_closed:
                self._take_back()
                if self._events:
                    return self._events.popleft()
                self._step = None  # the next event is requested, so this one was delivered
                self._keep_position()
                if self._holder is not None:
                    self._holder.release(self._delivered.epoch)
                if not self._ahead and not self._look(timeout):
                    return None
                self._advance()
            return None
        finally:
            self._polling.release()

    def _keep_position(self) -> None:
        if self._keep is not None and self._delivered.epoch != self._kept:
            self._kept = self._delivered.epoch
            self._keep(self._kept)

    def _look(self, timeout: float | None) -> bool:
        """Find the epochs to deliver; false if there are none in time."""

        def is_due() -> bool:
            is_over = self._is_closed or self._publications.is_over
            return is_over or self._is_merging or self._newest() != self._seen

        if not self._publications.wait(is_due, timeout) or self._is_closed:
            return False
        self._seen = self._newest()
        try:
            self._ahead.extend(self._follow(self._delivered.epoch))
        except StateError:  # closed meanwhile
            self._is_closed = True
            return False
        if self._is_merging:
            self._close_ahead(1)
            self._is_merging = bool(self._ahead)
        if not self._ahead and self._publications.is_over:
            self._is_closed = True
        return not self._is_closed

    def _advance(self) -> None:
        """Deliver the next epoch, if any; release the one before the last."""
        if self._before is not None:
            self._before.close()
            self._before = None
        if not self._ahead:
            return
        old, new = self._delivered, self._ahead[0]
        changes = Changes(old, new)
        try:
            is_empty = changes.is_empty()
        except BaseException:
            self._look_again()
            raise
        self._delivered = self._ahead.popleft()
        self._is_merging = False
        if is_empty:
            old.close()
        else:
            self._before, self._step = old, changes
            self._events.append(changes)
        if self._progress:
            self._events.append(Progress(new.epoch))

    def _take_back(self) -> None:
        """If the last changes could not be read to their end, they count as not delivered."""
        if self._step is None or not self._step.is_overflown:
            return
        assert self._before is not None
        self._events.clear()
        self._delivered.close()
        self._delivered, self._before, self._step = self._before, None, None
        self._look_again()

    def _look_again(self) -> None:
        """The next step is from the epoch delivered last to the newest by then."""
        self._close_ahead(0)
        self._is_merging = True

    def _close_ahead(self, kept: int) -> None:
        """Release the epochs ahead, except the last ones."""
        while len(self._ahead) > kept:
            self._ahead.popleft().close()

    def __iter__(self) -> Iterator[Event]:
        while not self._is_closed:
            event = self.poll(PATIENCE)
            if event is not None:
                yield event

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        """The next event, awaited without a thread. The wait may be cancelled."""
        while not self._is_closed:
            event = self.poll()
            if event is not None:
                return event
            if not self._is_closed:
                await self._sleep()
        raise StopAsyncIteration

    async def _sleep(self) -> None:
        """Wait for the next epoch, or the end."""
        import asyncio

        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        with self._publications.listening(wake):
            is_over = self._is_closed or self._publications.is_over
            if not is_over and self._newest() == self._seen:  # else an epoch came meanwhile
                await woken.wait()

    def batches(self, terms: StreamTerms = "ntriples") -> Iterator[pa.RecordBatch]:
        """All events as Arrow record batches: the head's columns, ``change``, and ``epoch``.

        The answers of the snapshot are changes from nothing. Progress is an empty batch. Waits and
        ends as iteration does.
        """
        return iter(self._stream(terms))

    def _stream(self, terms: StreamTerms) -> pa.RecordBatchReader:
        import pyarrow as pa

        # The types of Python values would depend on what will come.
        check_word("the terms of a stream without end", terms, get_args(StreamTerms))
        schema = Changes(self._delivered, self._delivered).to_arrow(terms).schema
        schema = schema.append(pa.field("epoch", pa.int64(), nullable=False))
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(0, kind) for kind in schema.types], schema=schema
        )

        def write() -> Iterator[pa.RecordBatch]:
            for event in self:
                if isinstance(event, Progress):
                    yield nothing
                    continue
                try:
                    for batch in event.batches(terms=terms):
                        epochs = pa.array([event.epoch] * batch.num_rows, pa.int64())
                        yield pa.RecordBatch.from_arrays([*batch.columns, epochs], schema=schema)
                except SnapshotExpired:
                    if not self._is_closed:
                        raise

        return pa.RecordBatchReader.from_batches(schema, write())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All events as an Arrow stream, which ends when the subscription does."""
        return self._stream("ntriples").__arrow_c_stream__(requested_schema)

    def _call(self, callback: Callable[[Event], object]) -> None:
        try:
            for event in self:
                callback(event)
        except BaseException as error:
            self.error = error
            logger.exception("a subscription's callback failed; the subscription has ended")
        finally:
            self._release_all()

    def close(self) -> None:
        """End the subscription and release its epochs; waits for a running callback. Idempotent."""
        self._is_closed = True
        self._publications.announce()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
        self._release_all()

    def _release_all(self) -> None:
        self._is_closed = True
        self._take_back()
        end, self._end = self._end, None
        if end is not None:
            if self._progress and not self._events and self.error is None:
                self._keep_position()  # the last event handed out was its progress
            end()
        if self._holder is not None:
            self._holder.close()
        held: list[Any] = [self._delivered, self._before, *self._ahead]
        for snapshot in held:
            if snapshot is not None:
                snapshot.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        head = " ".join(f"?{name}" for name in self.names)
        closed = ", closed" if self._is_closed else ""
        return f"<Subscription to {head or 'an ASK'}, delivered up to epoch {self.epoch}{closed}>"

    def _repr_html_(self) -> str:
        """A card for notebooks. Cost: constant."""
        state = "closed" if self._is_closed else "open"
        steps = "merged for a slow reader" if self._holder is None else "one per epoch"
        return write_card("Subscription", [
            ("head", " ".join(f"?{name}" for name in self.names)), ("state", state),
            ("delivered up to", f"epoch {self.epoch:,}"), ("steps", steps),
        ])  # fmt: skip
