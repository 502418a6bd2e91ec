"""The core: epochs over ids. One mutator; it knows no term, file, clock or thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from triegs.compiler.plan import Plan
from triegs.errors import InvalidUpdate
from triegs.maintain.base import Base, Origins
from triegs.maintain.program import Decode, Encode, Program, make_walk
from triegs.maintain.source import LARGEST
from triegs.maintain.standing import (
    NO_EVENT,
    TOO_MANY,
    Epoch,
    Laid,
    Publisher,
    Refused,
    Standing,
)
from triegs.mode import Mode
from triegs.store.contract import Key, Store


class Core(Publisher[Store]):
    """A graph by ids with registered plans, kept up to date epoch by epoch.

    An exception inside an epoch leaves everything as it was. A count that does not fit stalls the
    plans that need it: they keep showing their last good version, all others go on, and each later
    epoch tries again.
    """

    def __init__(
        self, store: Store, encode: Encode, decode: Decode, mode: Mode = Mode.MULTIGRAPH
    ) -> None:
        self.base = Base(store, mode)
        super().__init__(store, Program(store, self.base, encode, decode))
        self.store.publish()

    def apply(self, rows: NDArray[np.int64], is_strict: bool = False) -> Epoch:
        """One epoch of `(change, subject, predicate, object)` rows: judge them in their
        order, net them, run every step once, publish.

        Cost: the affected state. A deletion that finds no event is refused; with `is_strict` it
        refuses the whole epoch by `InvalidUpdate`.
        """
        counts, refused = self._judge(rows.tolist())
        if refused and is_strict:
            message = f"{len(refused)} updates of a strict epoch were invalid; nothing changed"
            raise InvalidUpdate(message, tuple(refused))
        with self._whole():
            for key, count in counts.items():
                self.base.change(*key, count)
            self.program.maintain()
        return Epoch(self.publish(), tuple(refused))

    def register(self, plan: Plan) -> Standing:
        """Fill what the plan needs from the current graph, and publish.

        Raises `MultiplicityOverflow`, and registers nothing, if a count does not fit already.
        """
        with self._whole():
            registered = self.program.register(plan)
            if registered.error is not None:
                raise registered.error
        standing = Standing(plan, make_walk(plan, registered.built), registered)
        self.standing.append(standing)
        self.publish()
        return standing

    def release(self, standing: Standing) -> None:
        """Drop what only this plan used, and publish."""
        with self._whole():
            if standing.registered is not None:
                self.program.release(standing.registered)
        self.forget(standing)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All changes inside, or after an exception none."""
        saved = self.program.save()
        try:
            yield
        except BaseException:
            self.store.abort()
            self.program.restore(saved)
            raise

    def counts(self) -> Iterable[tuple[tuple[int, ...], int]]:
        """Every assertion with its number of live events."""
        return self.base.counts.scan()

    def lay_out(self) -> list[Laid]:
        """The relations that hold every assertion with its number of live events."""
        return [Laid(self.base.counts.primary, None, (0, 1, 2))]

    @property
    def origins(self) -> Origins:
        """By label: the space that it belongs to, and the predicate that it is there."""
        return self.base.origins

    def count(self, subject: int, predicate: int, obj: int) -> int:
        """The number of live events of an assertion."""
        return self.base.counts.get((subject, predicate, obj))

    def static_rows(self) -> Iterator[tuple[Key, int]]:
        """Every assertion outside spaces, with its number of live events."""
        return self.base.triples(None)

    def _judge(
        self, updates: Sequence[Sequence[int]]
    ) -> tuple[dict[tuple[int, int, int], int], list[Refused]]:
        """The new counts of all assertions that the batch touches, and what it may not do."""
        counts: dict[tuple[int, int, int], int] = {}
        refused: list[Refused] = []
        for place, (sign, subject, predicate, obj) in enumerate(updates):
            key = (subject, predicate, obj)
            count = counts[key] if key in counts else self.base.counts.get(key)
            if count + sign < 0:
                refused.append(Refused(place, NO_EVENT))
            elif count + sign > LARGEST:
                refused.append(Refused(place, TOO_MANY))
            else:
                counts[key] = count + sign
        return counts, refused
