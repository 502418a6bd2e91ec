"""The base: every assertion with its number of live events, whether a query uses it or not.

`counts` is the truth that deletions are judged by. What queries read are *weights*, one source per
label, and one over all triples when a query has a variable predicate: the count in multigraph mode,
one while the count is positive in RDF mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from triegs.maintain.source import Source
from triegs.mode import Mode
from triegs.store.contract import Key, Store

#: By label: the space that it belongs to, as a number below zero, and the predicate that it is.
Origins = dict[int, tuple[int, int]]


class Weights(Protocol):
    """Where a program gets the weights of labels from, and what an epoch changed in them.

    A label is an id; None stands for all triples, -3 for all triples of space 3 (see
    `triegs.windows.spaces`), with their predicates instead of its labels.
    """

    def source(self, label: int | None) -> Source: ...

    def acquire(self, label: int | None) -> None: ...

    def release(self, label: int | None) -> None: ...

    def sources(self) -> Iterable[Source]: ...

    def save(self) -> Any: ...

    def restore(self, saved: Any) -> None: ...

    def end_epoch(self) -> None: ...


def whole_name(space: int | None) -> str:
    return "all triples" if space is None else f"all triples of space {-space}"


class Base:
    """Counts and weights of all assertions, by ids.

    A label's source has the columns (subject, object), the source of all triples (subject,
    predicate, object).
    """

    def __init__(self, store: Store, mode: Mode) -> None:
        self._store = store
        self.counts = Source(store, "counts", 3)
        self._weights: dict[int | None, Source] = {}
        self._uses: dict[int | None, int] = {}
        self._mode = mode
        self.origins: Origins = {}

    def acquire(self, label: int | None) -> None:
        """Count one more plan that reads a label's source."""
        self._uses[label] = self._uses.get(label, 0) + 1

    def release(self, label: int | None) -> None:
        """Count one less; a source that no plan reads is dropped."""
        self._uses[label] -= 1
        if not self._uses[label]:
            del self._uses[label]
            self._weights.pop(label).drop()

    def source(self, label: int | None) -> Source:
        """The weights of one label, or of all triples; made, and filled, when first asked for."""
        found = self._weights.get(label)
        if found is None:
            is_whole = label is None or label < 0
            name = whole_name(label) if is_whole else f"label {label}"
            found = self._weights[label] = Source(self._store, name, 3 if is_whole else 2)
            self.counts.require([1])
            if label is None or label < 0:
                entries: Iterable[tuple[Key, int]] = self.triples(label)
            else:
                entries = self.counts.matching([1], (label,))
            for (s, p, o), count in list(entries):
                found.set((s, p, o) if is_whole else (s, o), self._mode.weight(count))
            found.end_epoch()
        return found

    def triples(self, space: int | None) -> Iterator[tuple[Key, int]]:
        """The triples of the static graph or of a space, with their numbers of live events."""
        for (s, p, o), count in self.counts.scan():
            where, predicate = self.origins.get(p, (None, p))
            if where == space:
                yield (s, predicate, o), count

    def change(self, subject: int, predicate: int, obj: int, count: int) -> None:
        """Give an assertion its new count, and every source that has it its new weight."""
        self.counts.set((subject, predicate, obj), count)
        weight = self._mode.weight(count)
        if predicate in self._weights:
            self._weights[predicate].set((subject, obj), weight)
        where, plain = self.origins.get(predicate, (None, predicate))
        if where in self._weights:
            self._weights[where].set((subject, plain, obj), weight)

    def save(self) -> Any:
        """What `restore` needs after the store has aborted."""
        return dict(self._weights), dict(self._uses)

    def restore(self, saved: Any) -> None:
        weights, uses = saved
        self._weights, self._uses = dict(weights), dict(uses)

    def end_epoch(self) -> None:
        for source in self.sources():
            source.end_epoch()

    def sources(self) -> Iterator[Source]:
        yield self.counts
        yield from self._weights.values()
