"""The core: epochs over ids. One mutator; it knows no term, file, clock or thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from triegs.compiler.plan import Plan
from triegs.errors import InvalidUpdate, MultiplicityOverflow
from triegs.maintain.program import Built, Decode, Encode, Program, Registered
from triegs.maintain.source import LARGEST
from triegs.mode import Mode
from triegs.store.contract import Key, Store, Version

#: (+1 or -1, subject, predicate, object)
IdUpdate = tuple[int, int, int, int]

NO_EVENT = "no live event states this"
TOO_MANY = "the count would not fit 64 bits"


class Refused(NamedTuple):
    """An update that was not applied: its place in the batch, and why."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch did: the version it published, what it refused, and which assertions came
    to life in it or died.
    """

    version: Version
    refused: tuple[Refused, ...]
    born: tuple[Key, ...]
    died: tuple[Key, ...]


@dataclass(slots=True, eq=False)
class Standing:
    """A registered plan. While it is stalled, `last_good` is the version that it still shows."""

    plan: Plan
    registered: Registered
    last_good: Version | None = None

    @property
    def built(self) -> list[Built]:
        return self.registered.built

    @property
    def error(self) -> MultiplicityOverflow | None:
        return self.registered.error


class Core:
    """A graph by ids with registered plans, kept up to date epoch by epoch.

    An exception inside an epoch leaves everything as it was. A count that does not fit stalls the
    plans that need it: they keep showing their last good version, all others go on, and each later
    epoch tries again.
    """

    def __init__(
        self, store: Store, encode: Encode, decode: Decode, mode: Mode = Mode.MULTIGRAPH
    ) -> None:
        self.store = store
        self.program = Program(store, encode, decode, mode)
        self.standing: list[Standing] = []
        self.store.publish()

    def apply(self, updates: Sequence[IdUpdate], is_strict: bool = False) -> Epoch:
        """One epoch: judge the batch in its order, net it, run every step once, publish.

        Cost: the affected state. A deletion that finds no event is refused; with `is_strict` it
        refuses the whole epoch by `InvalidUpdate`.
        """
        counts, refused = self._judge(updates)
        if refused and is_strict:
            message = f"{len(refused)} updates of a strict epoch were invalid; nothing changed"
            raise InvalidUpdate(message, tuple(refused))
        try:
            for key, count in counts.items():
                self.program.base.change(*key, count)
            self.program.maintain()
        except BaseException:
            self.store.abort()
            self.program.end_epoch()
            raise
        changes = self.program.base.counts.changes
        born = tuple(key for key, (old, _) in changes.items() if old == 0)
        died = tuple(key for key, (_, new) in changes.items() if new == 0)
        return Epoch(self._publish(), tuple(refused), born, died)

    def register(self, plan: Plan) -> Standing:
        """Fill what the plan needs from the current graph, and publish.

        Raises `MultiplicityOverflow`, and registers nothing, if a count does not fit already.
        """
        standing = Standing(plan, self.program.register(plan))
        error = standing.error
        if error is not None:
            self.program.release(standing.registered)
            self._publish()
            raise error
        self.standing.append(standing)
        self._publish()
        return standing

    def release(self, standing: Standing) -> None:
        """Drop what only this plan used, and publish."""
        self.standing.remove(standing)
        if standing.last_good is not None:
            self.store.unpin(standing.last_good)
        self.program.release(standing.registered)
        self._publish()

    def show(self, standing: Standing) -> Version:
        """Hold the version that a plan shows now; the caller unpins it."""
        return self.store.pin(standing.last_good)

    def counts(self) -> Iterable[tuple[tuple[int, ...], int]]:
        """Every assertion with its number of live events."""
        return self.program.base.counts.scan()

    def _judge(
        self, updates: Sequence[IdUpdate]
    ) -> tuple[dict[tuple[int, int, int], int], list[Refused]]:
        """The new counts of all assertions that the batch touches, and what it may not do."""
        counts: dict[tuple[int, int, int], int] = {}
        refused: list[Refused] = []
        for place, (sign, subject, predicate, obj) in enumerate(updates):
            key = (subject, predicate, obj)
            count = counts[key] if key in counts else self.program.base.counts.get(key)
            if count + sign < 0:
                refused.append(Refused(place, NO_EVENT))
            elif count + sign > LARGEST:
                refused.append(Refused(place, TOO_MANY))
            else:
                counts[key] = count + sign
        return counts, refused

    def _publish(self) -> Version:
        before = self.store.newest
        for standing in self.standing:
            if standing.error is not None and standing.last_good is None:
                standing.last_good = self.store.pin(before)
        version = self.store.publish()
        for standing in self.standing:
            if standing.error is None and standing.last_good is not None:
                self.store.unpin(standing.last_good)
                standing.last_good = None
        self.program.end_epoch()
        return version
