"""Epochs, registered plans, and their publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from triegs.compiler.plan import Plan
from triegs.errors import MultiplicityOverflow, StateError
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.maintain.meaning import Held
from triegs.maintain.model import Watch
from triegs.reasons import Reason, Why
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion

NO_EVENT = Reason.NO_EVENT.describe()
TOO_MANY = Reason.TOO_MANY.describe()
#: The most refused updates that a repr shows.
MOST_REFUSED = 3


class Refused(NamedTuple):
    """An update that was not applied: its row in the batch, or in the stream, and why.

    The reason is a text; its `kind` is the `triegs.reasons.Reason`.
    """

    row: int
    reason: Why

    @property
    def place(self) -> int:
        """The former name of `row`."""
        return self.row


def show_refused(refused: Sequence[Refused]) -> str:
    """The repr of a tuple of refused updates, shortened after the first few.

    >>> show_refused([Refused(row, "why") for row in range(1000)])
    "(Refused(row=0, reason='why'), ... 997 more)"
    """
    if len(refused) <= MOST_REFUSED:
        return repr(tuple(refused))
    shown = ", ".join(map(repr, refused[:MOST_REFUSED]))
    return f"({shown}, … {len(refused) - MOST_REFUSED:,} more)"


class Epoch(NamedTuple):
    """The outcome of one epoch: the version that it published, and what it refused."""

    version: PackedVersion
    refused: tuple[Refused, ...]


class BaseRelation(NamedTuple):
    """A relation with counts of assertions. Its columns are these columns of a triple; all
    assertions have the given predicate unless it is a column.
    """

    relation: PackedRelation
    predicate: int | None
    order: tuple[int, ...]


class PublishedPlan(NamedTuple):
    """What readers of a plan use: None for the newest version, or the last good one if stalled."""

    version: PackedVersion | None
    enumeration: EnumerationPlan


@dataclass(slots=True, eq=False)
class RegisteredPlan:
    """A registered plan, and the views that it uses.

    The updater writes `enumeration` and `error` during an epoch; readers use only `published`,
    which changes when the epoch is published.
    """

    plan: Plan
    enumeration: EnumerationPlan
    views: Held = field(default_factory=dict)
    #: Where the terms of its sums come from.
    watches: tuple[Watch, ...] = ()
    error: MultiplicityOverflow | None = None
    is_closed: bool = False
    #: While a count does not fit: the number of updates at which it is retried.
    retry_at: int = 0
    published: PublishedPlan = field(init=False)
    #: Its publications, each with the first version number that it applies to.
    past: list[tuple[int, PublishedPlan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.published = PublishedPlan(None, self.enumeration)


class Publisher:
    """Publishes versions of a store, and tracks the readable version of each plan."""

    def __init__(self, store: PackedStore) -> None:
        self.store = store
        self.registered: list[RegisteredPlan] = []

    def show(self, registered: RegisteredPlan) -> tuple[PackedVersion, EnumerationPlan]:
        """Pin the readable version of a plan; the caller unpins it. Callable from any thread."""
        while True:
            shown = registered.published
            if registered.is_closed:
                raise StateError("the query is closed")
            try:
                version = self.store.pin(shown.version)
            except VersionGone:
                continue  # the plan has recovered since
            if registered.published is shown:
                return version, shown.enumeration
            self.store.unpin(version)

    def show_at(
        self, registered: RegisteredPlan, number: int
    ) -> tuple[PackedVersion, EnumerationPlan]:
        """Pin what a plan published at an older version; `VersionGone` if that is not held."""
        if number == self.store.newest.number:
            return self.show(registered)
        found = [shown for first, shown in registered.past if first <= number]
        if not found or number > self.store.newest.number:
            raise VersionGone(f"version {number} does not show this plan")
        version, enumeration = found[-1]
        return self.store.pin(number if version is None else version), enumeration

    def publish(self) -> PackedVersion:
        """Publish all changes as one version; a plan with an error stays at the one before.

        So does, during this call, a plan whose views were rebuilt: its old enumeration is invalid
        in the new version, and its new enumeration in the old one.
        """
        before = self.store.newest
        for registered in self.registered:
            shown, enumeration = registered.published
            if shown is None and (
                registered.error is not None or registered.enumeration is not enumeration
            ):
                registered.published = PublishedPlan(self.store.pin(before), enumeration)
        version = self.store.publish()
        for registered in self.registered:
            held = registered.published.version
            if registered.error is None and held is not None:
                registered.published = PublishedPlan(None, registered.enumeration)
                self.store.unpin(held)
            self._note(registered, version.number)
        return version

    def _note(self, registered: RegisteredPlan, number: int) -> None:
        """Record what a plan publishes from this version on, as long as it can be read."""
        past = registered.past
        if past and past[-1][1] is registered.published:
            return
        oldest = min(self.store.held(), default=number)
        first = next(
            (i for i, (at, _) in enumerate(past[1:]) if at > oldest), max(len(past) - 1, 0)
        )
        registered.past = [*past[first:], (number, registered.published)]

    def forget(self, registered: RegisteredPlan) -> None:
        """Remove a released plan, and publish."""
        self.registered.remove(registered)
        held, enumeration = registered.published
        # A reader that is about to pin the version without this plan's views checks this again.
        registered.is_closed, registered.published = True, PublishedPlan(None, enumeration)
        if held is not None:
            self.store.unpin(held)
        self.publish()
