"""Telling an engine again what the log says it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from triegs.durable.columns import Content
from triegs.durable.journal import Kind
from triegs.durable.source import register_again
from triegs.durable.terms import Definitions
from triegs.errors import HistoryGone, MemoryLimitReached
from triegs.events import Batch
from triegs.windows.encoding import NO_ID, Events
from triegs.windows.manager import Published

if TYPE_CHECKING:
    from triegs.engine import Engine


class Replay:
    """Takes the records that follow a state, one after the other.

    `holds` are the epochs that are to be held by name once all is done: they are pinned when they
    come by. `stopped` are records that were not done to their ends, and how many slides they had
    published. `published` are the slides of the last record that had any, and `stop` is why it was
    not done to its end now.
    """

    def __init__(
        self, engine: Engine, holds: Mapping[str, int], stopped: Mapping[int, int]
    ) -> None:
        self._engine = engine
        self._holds = dict(holds)
        self._stopped = stopped
        self._terms = Definitions(engine._dictionary, "term")
        self._identities = Definitions(engine._windows.identities, "identity")
        self._slides: Iterator[Published] = iter(())
        self.published: tuple[Published, ...] = ()
        self.stop: MemoryLimitReached | None = None
        self.positions: dict[str, Any] = {}
        #: By name, why a query is refused today.
        self.lost_queries: dict[str, str] = {}
        self.replayed = 0
        self._take_holds()

    def take(self, kind: int, sequence: int, content: Content) -> None:
        """Do what a record tells. Cost: that of the call that wrote it."""
        fields, arrays = content
        engine = self._engine
        self.define(content)
        # Numbers go on as they were, also where an epoch more or less was needed to get here.
        engine._clock.first = engine._store.newest.number - fields["epoch"]
        if kind == Kind.ADVANCE:
            self._advance(fields, self._stopped.get(sequence))
        else:
            self._DO[Kind(kind)](self, fields, arrays)
        self.positions.update(fields.get("positions", {}))
        self.replayed += 1
        self._take_holds()

    def define(self, content: Content) -> None:
        """Learn the terms that a record defines."""
        self._terms.take(content.arrays)
        self._identities.take(content.arrays)

    def begin_segment(self) -> None:
        """The ids of the records to come are defined anew."""
        self._terms.close(self._engine._store.newest.number)
        self._identities.close(0)

    def finish(self) -> dict[str, int]:
        """Let everything go that was needed for reading; returns the holds that are lost."""
        self.begin_segment()
        self._slides = iter(())
        self._engine._free_terms()
        return dict(self._holds)

    def _take_holds(self) -> None:
        now = self._engine.epoch
        for name in [name for name, epoch in self._holds.items() if epoch == now]:
            try:
                self._engine.hold(name)
            except HistoryGone:
                continue
            del self._holds[name]

    def _register(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        self.lost_queries.update(register_again(self._engine, fields))

    def _close(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        self._engine._queries[fields["name"]].close()
        self.lost_queries.pop(fields["name"], None)

    def _apply(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        batch = Batch(self._terms.read_rows(arrays), None, [])
        strict, time, malformed = fields["strict"], fields["time"], fields["malformed"]
        self._engine._apply_again(batch, strict, time, malformed)

    def _push(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        rows = self._terms.read_rows(arrays)
        ids = np.full(len(rows), NO_ID, np.int64)
        if "ids" in arrays:
            ids = self._identities.translate(arrays["ids"])
        times = arrays["times"].astype(np.int64)
        events = Events(times, rows, ids, fields["given"], arrays.get("places"), [])
        self._engine._windows.push(events, fields["stream"])

    def _move(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        windows = self._engine._windows
        windows.move(fields["to"], fields["stream"], fields["end"])
        self._slides = windows.publish_due()

    def _slide(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        found = self._publish(next(self._slides))
        assert found.time == fields["time"], "the log tells of another slide"
        self.published = (found,)

    def _advance(self, fields: Mapping[str, Any], most: int | None) -> None:
        """All slides, or the first ones of a call that was not done to its end."""
        windows = self._engine._windows
        windows.move(fields["to"], fields["stream"], fields["end"])
        published: list[Published] = []
        slides = islice(windows.publish_due(), most)
        try:
            published.extend(map(self._publish, slides))
        except MemoryLimitReached as problem:
            self.stop = problem
        if most is not None or self.stop is not None:
            windows.judge_due()
        self.published = tuple(published)

    def _publish(self, found: Published) -> Published:
        engine = self._engine
        if engine._is_watched:
            engine._end_epoch()
        self._take_holds()
        return found._replace(epoch=engine.epoch)

    def _note(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Positions and holds are of every record."""

    _DO: ClassVar[dict[Kind, Callable[..., None]]] = {
        Kind.REGISTER: _register,
        Kind.CLOSE: _close,
        Kind.APPLY: _apply,
        Kind.PUSH: _push,
        Kind.MOVE: _move,
        Kind.SLIDE: _slide,
        Kind.NOTE: _note,
    }
