"""What one epoch does at one node: collect the affected bindings, re-evaluate each once, send the
differences up.

The affected bindings of a node are *all* changed tuples of its cover (the guard, or the child that
has the whole bag), deleted ones too, and for each changed entry of another child the cover tuples
that match it. Nothing is filtered by the positivity of siblings: when two factors die in one
epoch, that filter would leave stale views. Every binding is evaluated from the old and from the
new factors, so self-joins and batches need no ordering tricks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from triegs.maintain.source import Source
from triegs.store.contract import Key


class Step(Protocol):
    """A part of the program that keeps some sources true; children's steps come before."""

    @property
    def outputs(self) -> tuple[Source, ...]: ...

    def maintain(self) -> None:
        """Bring the outputs from the last epoch to this one."""

    def build(self) -> None:
        """Fill the empty outputs from what the inputs hold now."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A child as its parent reads it: the columns of the bag that make up its key."""

    source: Source
    columns: tuple[int, ...]
    #: Whether only the sign of its value matters: the child counts live tuples, not valuations.
    is_live: bool

    def key(self, binding: Key) -> Key:
        return tuple(binding[c] for c in self.columns)


@dataclass(slots=True)
class NodeStep:
    """``V(a) = G(a) * product of factors``; keeps the marginal, and the live tuples of a witness.

    `cover` lists the candidates for bindings, in the order of the bag (`cover_columns` says where
    the bag's variables are in the cover). `guard_counts` is False where the cover is a child.
    """

    name: str
    cover: Source
    cover_columns: tuple[int, ...]
    guard_counts: bool
    factors: tuple[Factor, ...]
    interface: tuple[int, ...]
    marginal: Source
    live: Source | None
    live_order: tuple[int, ...]
    affected: int = field(default=0)

    @property
    def outputs(self) -> tuple[Source, ...]:
        return (self.marginal,) if self.live is None else (self.marginal, self.live)

    def maintain(self) -> None:
        sums: dict[Key, int] = {}
        bindings = self._affected()
        for binding in bindings:
            self._update(binding, self._value(binding, was=True), sums)
        self.affected = len(bindings)
        self._send(sums)

    def build(self) -> None:
        sums: dict[Key, int] = {}
        for key, _ in list(self.cover.scan()):
            self._update(tuple(key[c] for c in self.cover_columns), 0, sums)
        self._send(sums)

    def _affected(self) -> set[Key]:
        found = {tuple(key[c] for c in self.cover_columns) for key in self.cover.changes}
        for factor in self.factors:
            if factor.source is self.cover:
                continue
            columns = tuple(self.cover_columns[c] for c in factor.columns)
            for changed, (old, new) in factor.source.changes.items():
                if factor.is_live and (old > 0) == (new > 0):
                    continue
                for key, _ in self.cover.matching(columns, changed):
                    found.add(tuple(key[c] for c in self.cover_columns))
        return found

    def _value(self, binding: Key, was: bool) -> int:
        """The view's value at a binding, before or after the epoch's changes."""
        value = 1
        if self.guard_counts:
            key = self._cover_key(binding)
            value = self.cover.before(key) if was else self.cover.get(key)
        for factor in self.factors:
            if not value:
                return 0
            key = factor.key(binding)
            count = factor.source.before(key) if was else factor.source.get(key)
            value *= (1 if count > 0 else 0) if factor.is_live else count
        return value

    def _update(self, binding: Key, old: int, sums: dict[Key, int]) -> None:
        new = self._value(binding, was=False)
        key = tuple(binding[c] for c in self.interface)
        if self.live is None:
            if new != old:
                sums[key] = sums.get(key, 0) + new - old
            return
        # A witness keeps who is alive, and with it the guard's weight for the enumerator.
        weight = self.cover.get(self._cover_key(binding)) if self.guard_counts else 1
        self.live.set(tuple(binding[c] for c in self.live_order), weight if new else 0)
        flip = (1 if new else 0) - (1 if old else 0)
        if flip:
            sums[key] = sums.get(key, 0) + flip

    def _send(self, sums: dict[Key, int]) -> None:
        for key, delta in sums.items():
            if delta:
                self.marginal.add(key, delta)

    def _cover_key(self, binding: Key) -> Key:
        key = [0] * len(binding)
        for place, column in enumerate(self.cover_columns):
            key[column] = binding[place]
        return tuple(key)
