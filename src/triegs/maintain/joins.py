"""Materialised joins, kept by differences, and the supports that restrict them.

The difference of a product is a telescope: for each input in turn, its changes joined with the
earlier inputs as they are now and the later ones as they were. Old entries are read from the last
published version, which nothing in this epoch has touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from triegs.maintain.source import Source
from triegs.store.contract import Key

#: Decides a filter on the values of the join's variables.
Accept = Callable[[Key], bool]
#: Inputs by number, each with the columns that are bound when it is visited.
JoinOrder = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(slots=True)
class SupportStep:
    """How many entries of a source are positive, by some of its columns."""

    source: Source
    columns: tuple[int, ...]
    support: Source

    @property
    def outputs(self) -> tuple[Source, ...]:
        return (self.support,)

    def maintain(self) -> None:
        for key, (old, new) in self.source.changes.items():
            flip = (new > 0) - (old > 0)
            if flip:
                self.support.add(tuple(key[c] for c in self.columns), flip)

    def build(self) -> None:
        for key, _ in self.source.scan():
            self.support.add(tuple(key[c] for c in self.columns), 1)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A source whose columns are these variables (by number) of the join."""

    source: Source
    variables: tuple[int, ...]
    is_support: bool

    def weight(self, count: int) -> int:
        return (1 if count > 0 else 0) if self.is_support else count


@dataclass(slots=True)
class JoinStep:
    """The sum over the hidden variables of the product of the inputs, where all filters hold.

    `orders[i]` is how the other inputs are visited when input i has changed: each with the columns
    that are bound by then, for which its source has an index.
    """

    inputs: tuple[JoinInput, ...]
    orders: tuple[JoinOrder, ...]
    width: int
    keeps: tuple[int, ...]
    accepts: tuple[Accept, ...]
    output: Source

    @property
    def outputs(self) -> tuple[Source, ...]:
        return (self.output,)

    def maintain(self) -> None:
        sums: dict[Key, int] = {}
        for number, source in enumerate(self.inputs):
            for key, (old, new) in source.source.changes.items():
                delta = source.weight(new) - source.weight(old)
                if delta:
                    self._collect(number, key, delta, sums, later_were=True)
        self._write(sums)

    def build(self) -> None:
        sums: dict[Key, int] = {}
        first = self.inputs[0]
        for key, count in list(first.source.scan()):
            self._collect(0, key, first.weight(count), sums, later_were=False)
        self._write(sums)

    def _collect(
        self, number: int, key: Key, delta: int, sums: dict[Key, int], later_were: bool
    ) -> None:
        for binding, weight in self._extend(number, key, delta, later_were):
            if all(accept(binding) for accept in self.accepts):
                kept = tuple(binding[v] for v in self.keeps)
                sums[kept] = sums.get(kept, 0) + weight

    def _extend(
        self, number: int, key: Key, delta: int, later_were: bool
    ) -> Iterator[tuple[Key, int]]:
        start = [-1] * self.width
        for variable, value in zip(self.inputs[number].variables, key, strict=True):
            start[variable] = value
        partial = [(start, delta)]
        for other, bound in self.orders[number]:
            source = self.inputs[other]
            was = later_were and other > number
            extended = []
            for binding, weight in partial:
                values = tuple(binding[source.variables[c]] for c in bound)
                for found, count in source.source.matching(bound, values, was):
                    longer = list(binding)
                    for variable, value in zip(source.variables, found, strict=True):
                        longer[variable] = value
                    extended.append((longer, weight * source.weight(count)))
            partial = extended
        return ((tuple(binding), weight) for binding, weight in partial)

    def _write(self, sums: dict[Key, int]) -> None:
        for key, delta in sums.items():
            if delta:
                self.output.add(key, delta)
