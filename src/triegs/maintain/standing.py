"""Epochs, registered plans, and how they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from triegs.compiler.plan import Plan
from triegs.errors import MultiplicityOverflow, StateError
from triegs.maintain.meaning import Held
from triegs.maintain.walk import Walk
from triegs.reasons import Reason, Why
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion

NO_EVENT = Reason.NO_EVENT.describe()
TOO_MANY = Reason.TOO_MANY.describe()
#: So many of those that were refused are shown.
MOST_REFUSED = 3


class Refused(NamedTuple):
    """An update that was not applied: its place in the batch, and why.

    The reason is a text; its `kind` is the `triegs.reasons.Reason`.
    """

    place: int
    reason: Why


def show_refused(refused: Sequence[Refused]) -> str:
    """As a tuple shows them, but of many only the first.

    >>> show_refused([Refused(place, "why") for place in range(1000)])
    "(Refused(place=0, reason='why'), ... 997 more)"
    """
    if len(refused) <= MOST_REFUSED:
        return repr(tuple(refused))
    shown = ", ".join(map(repr, refused[:MOST_REFUSED]))
    return f"({shown}, … {len(refused) - MOST_REFUSED:,} more)"


class Epoch(NamedTuple):
    """What one epoch did: the version that it published, and what it refused."""

    version: PackedVersion
    refused: tuple[Refused, ...]


class Laid(NamedTuple):
    """A relation with counts of assertions: its columns are of these places of a triple, and all
    have that predicate unless it is a column.
    """

    relation: PackedRelation
    predicate: int | None
    order: tuple[int, ...]


class Shown(NamedTuple):
    """What a plan shows: its last good version if it is stalled, else the newest; and the walk."""

    version: PackedVersion | None
    walk: Walk


@dataclass(slots=True, eq=False)
class Standing:
    """A registered plan, by the parts that it holds.

    The updater writes `walk` and `error` in the course of an epoch; readers look at `shown` alone,
    which changes when the epoch is published.
    """

    plan: Plan
    walk: Walk
    parts: Held = field(default_factory=dict)
    error: MultiplicityOverflow | None = None
    is_closed: bool = False
    #: While a number is too large to be kept: the number of updates that brings the next attempt.
    retry_at: int = 0
    shown: Shown = field(init=False)
    #: What it has shown, each with the number of the first version that it was true for.
    past: list[tuple[int, Shown]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shown = Shown(None, self.walk)


class Publisher:
    """Publishes versions of a store, and knows which version each plan shows."""

    def __init__(self, store: PackedStore) -> None:
        self.store = store
        self.standing: list[Standing] = []

    def show(self, standing: Standing) -> tuple[PackedVersion, Walk]:
        """Hold the version that a plan shows now; the caller unpins it. From any thread."""
        while True:
            shown = standing.shown
            if standing.is_closed:
                raise StateError("the query is closed")
            try:
                version = self.store.pin(shown.version)
            except VersionGone:
                continue  # the plan has recovered since
            if standing.shown is shown:
                return version, shown.walk
            self.store.unpin(version)

    def show_at(self, standing: Standing, number: int) -> tuple[PackedVersion, Walk]:
        """Hold what a plan showed at an older version; `VersionGone` if nobody holds that."""
        if number == self.store.newest.number:
            return self.show(standing)
        found = [shown for first, shown in standing.past if first <= number]
        if not found or number > self.store.newest.number:
            raise VersionGone(f"version {number} does not show this plan")
        version, walk = found[-1]
        return self.store.pin(number if version is None else version), walk

    def publish(self) -> PackedVersion:
        """Make one version of all changes; a plan with an error keeps showing the one before.

        So does, for this moment, a plan whose views were rebuilt: its old walk leads nowhere in the
        new version, and its new walk nowhere in the old one.
        """
        before = self.store.newest
        for standing in self.standing:
            shown, walk = standing.shown
            if shown is None and (standing.error is not None or standing.walk is not walk):
                standing.shown = Shown(self.store.pin(before), walk)
        version = self.store.publish()
        for standing in self.standing:
            held = standing.shown.version
            if standing.error is None and held is not None:
                standing.shown = Shown(None, standing.walk)
                self.store.unpin(held)
            self._note(standing, version.number)
        return version

    def _note(self, standing: Standing, number: int) -> None:
        """Remember what a plan shows from this version on, for as long as anybody may ask."""
        past = standing.past
        if past and past[-1][1] is standing.shown:
            return
        oldest = min(self.store.held(), default=number)
        first = next(
            (i for i, (at, _) in enumerate(past[1:]) if at > oldest), max(len(past) - 1, 0)
        )
        standing.past = [*past[first:], (number, standing.shown)]

    def forget(self, standing: Standing) -> None:
        """A plan that was released shows nothing any more; publishes."""
        self.standing.remove(standing)
        held, walk = standing.shown
        # A reader that is about to pin the version without this plan's views looks here again.
        standing.is_closed, standing.shown = True, Shown(None, walk)
        if held is not None:
            self.store.unpin(held)
        self.publish()
