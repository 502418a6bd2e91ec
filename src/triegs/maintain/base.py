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
from triegs.store.contract import Store


class Weights(Protocol):
    """Where a program gets the weights of labels from, and what an epoch changed in them."""

    def source(self, label: int | None) -> Source: ...

    def acquire(self, label: int | None) -> None: ...

    def release(self, label: int | None) -> None: ...

    def sources(self) -> Iterable[Source]: ...

    def save(self) -> Any: ...

    def restore(self, saved: Any) -> None: ...

    def end_epoch(self) -> None: ...


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
            name = "all triples" if label is None else f"label {label}"
            found = self._weights[label] = Source(self._store, name, 3 if label is None else 2)
            self.counts.require([1])
            if label is None:
                entries = self.counts.scan()
            else:
                entries = self.counts.matching([1], (label,))
            for (s, p, o), count in list(entries):
                key = (s, p, o) if label is None else (s, o)
                found.set(key, self._mode.weight(count))
            found.end_epoch()
        return found

    def change(self, subject: int, predicate: int, obj: int, count: int) -> None:
        """Give an assertion its new count, and every source that has it its new weight."""
        self.counts.set((subject, predicate, obj), count)
        weight = self._mode.weight(count)
        if predicate in self._weights:
            self._weights[predicate].set((subject, obj), weight)
        if None in self._weights:
            self._weights[None].set((subject, predicate, obj), weight)

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
