"""Replaying the records of a log on an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from triegs.durable.columns import Content
from triegs.durable.journal import Kind
from triegs.durable.protocol import RecoverableEngine
from triegs.durable.registering import register_again
from triegs.durable.terms import Definitions
from triegs.errors import HistoryGone, MemoryLimitReached
from triegs.events.updates import Batch
from triegs.reason.text import parse_rules
from triegs.windows.encoding import NO_ID, Events
from triegs.windows.outcomes import Published


class Replay:
    """Replays the records that follow a state, one after the other.

    `holds` are the epochs held by name at the end: each is pinned when it is reached. `stopped` has
    the records that stopped early, and how many slides they had published. `published` are the
    slides of the last record that had any, and `stop` is why it stopped early now.
    """

    def __init__(
        self, engine: RecoverableEngine, holds: Mapping[str, int], stopped: Mapping[int, int],
        refusing: Mapping[int, Sequence[int]],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._refusing = refusing
        #: The most bytes that the record may leave, None if unknown; and which of its slides, or 0,
        #: left more, and so was refused when it was made.
        self.most: int | None = None
        self.exceeds: int | None = None
        #: Whether the newest record publishes slides.
        self.has_slides = False
        #: The memory limit that the newest record, or the state, was made under.
        self.limit: int | None = None
        self._holds = dict(holds)
        self._stopped = stopped
        self._terms = Definitions(engine.dictionary, "term")
        self._identities = Definitions(engine.windows.identities, "identity")
        self._slides: Iterator[Published] = iter(())
        self.published: tuple[Published, ...] = ()
        self.stop: MemoryLimitReached | None = None
        self.positions: dict[str, Any] = {}
        #: By name, why this version refuses a query.
        self.lost_queries: dict[str, str] = {}
        self.replayed = 0
        self._take_holds()

    def take(self, kind: int, sequence: int, content: Content) -> None:
        """Replay a record. Cost: that of the call that wrote it."""
        fields, arrays = content
        engine = self._engine
        self.define(content)
        # Epoch numbers continue as they were, even if recovery took more or fewer epochs.
        engine.clock.first = engine.store.newest.number - fields["epoch"]
        self.limit = fields.get("limit")
        self.has_slides = kind in (Kind.ADVANCE, Kind.SLIDE)
        if kind == Kind.ADVANCE:
            self._advance(fields, sequence)
        elif kind == Kind.SLIDE:
            self._slide(fields, sequence)
        else:
            before = 0 if self.most is None else self.count_bytes()
            self._REPLAY[Kind(kind)](self, fields, arrays)
            if kind in (Kind.REGISTER, Kind.APPLY, Kind.RULES):
                self._check_limit(before, 0)
        self.positions.update(fields.get("positions", {}))
        self.replayed += 1
        self._take_holds()

    def define(self, content: Content) -> None:
        """Learn the terms that a record defines."""
        self._terms.take(content.arrays)
        self._identities.take(content.arrays)

    def begin_segment(self) -> None:
        """A new segment defines its ids again."""
        self._terms.close(self._engine.store.newest.number)
        self._identities.close(0)

    def finish(self) -> dict[str, int]:
        """Release what replaying needed; returns the holds that are lost."""
        self.begin_segment()
        self._slides = iter(())
        self._engine.free_terms()
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
        self._engine.close_query(fields["name"])
        self.lost_queries.pop(fields["name"], None)

    def _aggregate(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        self._engine.aggregate(fields)

    def _close_aggregate(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        self._engine.close_aggregate(fields["name"])

    def _load_rules(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        self._engine.load_rules(parse_rules(fields["rules"]))

    def _apply(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        batch = Batch(self._terms.read_rows(arrays), None, [])
        strict, time, malformed = fields["strict"], fields["time"], fields["malformed"]
        self._engine.apply_again(batch, strict, time, malformed)

    def _push(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        rows = self._terms.read_rows(arrays)
        ids = np.full(len(rows), NO_ID, np.int64)
        if "ids" in arrays:
            ids = self._identities.translate(arrays["ids"])
        times = arrays["times"].astype(np.int64)
        events = Events(times, rows, ids, fields["given"], arrays.get("places"), [])
        self._engine.windows.push(events, fields["stream"])

    def _move(self, fields: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> None:
        windows = self._engine.windows
        windows.move_watermark(fields["to"], fields["stream"], fields["end"])
        self._slides = windows.publish_due()

    def _slide(self, fields: Mapping[str, Any], sequence: int) -> None:
        self._make_slides(self._slides, sequence, 1)
        if self.stop is not None:
            raise self.stop
        assert self.published[0].time == fields["time"], "the log has another slide"

    def _advance(self, fields: Mapping[str, Any], sequence: int) -> None:
        """All slides, or the first ones of a call that stopped early."""
        windows, most = self._engine.windows, self._stopped.get(sequence)
        windows.move_watermark(fields["to"], fields["stream"], fields["end"])
        self._make_slides(windows.publish_due(), sequence, most)
        if most is not None or self.stop is not None:
            windows.publisher.judge_due()

    def _make_slides(self, slides: Iterator[Published], sequence: int, most: int | None) -> None:
        """Publish slides; those that refused their events refuse them again."""
        publisher, refusing = self._engine.windows.publisher, self._refusing.get(sequence, ())
        published: list[Published] = []
        try:
            while most is None or len(published) < most:
                publisher.is_refusing = len(published) in refusing
                before = 0 if self.most is None else self.count_bytes()
                if (found := next(slides, None)) is None:
                    break
                self._check_limit(before, len(published))
                published.append(self._publish(found))
        except MemoryLimitReached as problem:
            self.stop = problem
        finally:
            publisher.is_refusing = False
        self.published = tuple(published)

    def count_bytes(self) -> int:
        """The bytes that count against the memory limit now."""
        return self._engine.store.statistics().used_bytes

    def _check_limit(self, before: int, slide: int) -> None:
        """Note a change that exceeds the limit: it was refused when it was made."""
        if self.most is not None and self.exceeds is None:
            self.exceeds = slide if before <= self.most < self.count_bytes() else None

    def _publish(self, found: Published) -> Published:
        engine = self._engine
        if engine.is_watched:
            engine.end_epoch()
        self._take_holds()
        return found._replace(epoch=engine.epoch)

    def _note(self, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Nothing: every record may have positions and holds."""

    _REPLAY: ClassVar[dict[Kind, Callable[..., None]]] = {
        Kind.REGISTER: _register,
        Kind.CLOSE: _close,
        Kind.APPLY: _apply,
        Kind.PUSH: _push,
        Kind.MOVE: _move,
        Kind.NOTE: _note,
        Kind.AGGREGATE: _aggregate,
        Kind.CLOSE_AGGREGATE: _close_aggregate,
        Kind.RULES: _load_rules,
    }
