"""The base of the general program inside the compiled core: it reads what the kernel keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triegs.kernels.program import ADJACENCY
from triegs.kernels.words import Words
from triegs.maintain.base import Origins, whole_name
from triegs.maintain.parts import Index, Part, Parts, counts_name, is_counts
from triegs.maintain.source import Source
from triegs.maintain.standing import Laid, Refused
from triegs.mode import Mode
from triegs.store.contract import Key
from triegs.store.packed import PackedStore


class LabelSource(Source):
    """The weights of a label. The kernel keeps its indexes; an epoch tells it what changed."""

    def __init__(self, store: PackedStore, parts: Parts, predicate: int) -> None:
        self.predicate = predicate
        self.parts: dict[Part, None] = {}
        self._made = parts
        self._use(parts.counts(predicate))
        primary = self._use(parts.index(predicate, ADJACENCY, 0))
        super().__init__(store, primary.name, 2, primary.relation)

    def _use(self, part: Part) -> Part:
        if part not in self.parts:
            self.parts[part] = None
            part.uses += 1
        return part

    def require(self, columns: Sequence[int]) -> None:
        if self._order(columns) == (1, 0):
            index = self._use(self._made.index(self.predicate, ADJACENCY, 1))
            self._indexes[1, 0] = index.relation

    def save(self) -> Any:
        return super().save(), dict(self.parts)

    def restore(self, saved: Any) -> None:
        indexes, parts = saved
        super().restore(indexes)
        self.parts = dict(parts)

    def take(self, keys: set[Key]) -> None:
        """Note what the kernel did to these pairs."""
        before = self._store.newest
        for key in keys:
            old, new = before.get(self._primary, key), self._primary.get(key)
            if old != new:
                self.changes[key] = (old, new)


class SharedBase:
    """As `triegs.maintain.base.Base`, over the labels and the rest of the compiled core."""

    def __init__(self, store: PackedStore, parts: Parts, mode: Mode) -> None:
        self._store = store
        self._parts = parts
        self._mode = mode
        self._labels: dict[int, LabelSource] = {}
        self._whole: dict[int | None, Source] = {}
        self.origins: Origins = {}
        self._uses: dict[int | None, int] = {}

    def acquire(self, label: int | None) -> None:
        self._uses[label] = self._uses.get(label, 0) + 1

    def release(self, label: int | None) -> None:
        self._uses[label] -= 1
        if self._uses[label]:
            return
        del self._uses[label]
        if label is not None and label >= 0:
            self._parts.release(list(self._labels.pop(label).parts))
        else:
            self._whole.pop(label).drop()

    def source(self, label: int | None) -> Source:
        if label is not None and label >= 0:
            if label not in self._labels:
                self._labels[label] = LabelSource(self._store, self._parts, label)
            return self._labels[label]
        found = self._whole.get(label)
        if found is None:
            found = self._whole[label] = Source(self._store, whole_name(label), 3)
            for key, count in self.triples(label):
                found.set(key, self._mode.weight(count))
            found.end_epoch()
        return found

    def triples(self, space: int | None) -> Iterator[tuple[Key, int]]:
        """The triples of the static graph or of a space, with their numbers of live events."""
        for (s, p, o), count in self.counts():
            where, predicate = self.origins.get(p, (None, p))
            if where == space:
                yield (s, predicate, o), count

    def lay_out(self) -> list[Laid]:
        """The relations that hold every assertion with its number of live events."""
        found = [Laid(self._parts.rest, None, (1, 0, 2))]
        for part in self._parts.by_name.values():
            if isinstance(part, Index) and is_counts(part):
                order = (0, 2) if part.column == 0 else (2, 0)
                found.append(Laid(part.relation, part.predicate, order))
        return found

    def counts(self) -> Iterator[tuple[Key, int]]:
        """Every assertion (subject, predicate, object) with its number of live events."""
        for (p, s, o), count in self._parts.rest.scan():
            yield (s, p, o), count
        # Not by the table's labels: the plan that asks may have brought new ones a moment ago.
        for part in self._parts.by_name.values():
            if isinstance(part, Index) and is_counts(part):
                for (x, y), count in part.relation.scan():
                    s, o = (x, y) if part.column == 0 else (y, x)
                    yield (s, part.predicate, o), count

    def take(self, rows: Words, refused: Sequence[Refused]) -> None:
        """The kernel has applied these rows, but for the refused: tell the sources."""
        if not self._labels and not self._whole:
            return
        skipped = {place for place, _ in refused}
        touched: dict[int, set[Key]] = {}
        for place, (_, s, p, o) in enumerate(rows.tolist()):
            if place not in skipped and (self._whole or p in self._labels):
                touched.setdefault(p, set()).add((s, o))
        for predicate, keys in touched.items():
            if predicate in self._labels:
                self._labels[predicate].take(keys)
            where, plain = self.origins.get(predicate, (None, predicate))
            if where in self._whole:
                for s, o in keys:
                    count = self.count(s, predicate, o)
                    self._whole[where].set((s, plain, o), self._mode.weight(count))

    def count(self, s: int, p: int, o: int) -> int:
        if counts_name(p) not in self._parts.by_name:
            return self._parts.rest.get((p, s, o))
        part = self._parts.counts(p)
        return part.relation.get((s, o) if part.column == 0 else (o, s))

    def save(self) -> Any:
        """What `restore` needs after the store has aborted."""
        return dict(self._labels), dict(self._whole), dict(self._uses)

    def restore(self, saved: Any) -> None:
        labels, whole, uses = saved
        self._labels, self._whole, self._uses = dict(labels), dict(whole), dict(uses)

    def end_epoch(self) -> None:
        for source in self.sources():
            source.end_epoch()

    def sources(self) -> Iterator[Source]:
        yield from self._labels.values()
        yield from self._whole.values()
