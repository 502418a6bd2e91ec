"""From layers to a stream: blocks of distinct edges in a sliding window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.workloads.draw import EdgeSource, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

NAMESPACE = "http://ex/"


class Atom(NamedTuple):
    """One triple pattern: a label between two variables."""

    label: str
    subject: str
    object: str


class Block(NamedTuple):
    """Edges that are inserted and deleted together; `labels` are indices into `Workload.labels`."""

    labels: Numbers
    subjects: Numbers
    objects: Numbers

    def take(self, rows: Numbers) -> Block:
        return Block(*(column[rows] for column in self))


@dataclass(frozen=True)
class Slide:
    """One step of a stream, as raw columns and as an Arrow table.

    Deletions come first. `labels` are indices into `label_names`.
    """

    number: int
    ops: NDArray[np.int8]
    labels: Numbers
    subjects: Numbers
    objects: Numbers
    label_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ops)

    @cached_property
    def table(self) -> pa.Table:
        """The columns op (1 or -1), subject, predicate and object.

        Nodes are integers. Predicates are dictionary-encoded IRIs, because a query can name nothing
        else in that position.
        """
        import pyarrow as pa

        names = pa.array([name_iri(label) for label in self.label_names])
        predicates = pa.DictionaryArray.from_arrays(pa.array(self.labels, pa.int32()), names)
        return pa.table(
            {
                "op": pa.array(self.ops),
                "subject": pa.array(self.subjects),
                "predicate": predicates,
                "object": pa.array(self.objects),
            }
        )

    @cached_property
    def deletions(self) -> Mapping[str, tuple[Numbers, Numbers]]:
        """Subjects and objects by label, in order."""
        return self._split(-1)

    @cached_property
    def insertions(self) -> Mapping[str, tuple[Numbers, Numbers]]:
        """Subjects and objects by label, in order."""
        return self._split(1)

    def _split(self, op: int) -> dict[str, tuple[Numbers, Numbers]]:
        chosen = self.ops == op
        found = {}
        for label, name in enumerate(self.label_names):
            rows = np.flatnonzero(chosen & (self.labels == label))
            found[name] = self.subjects[rows], self.objects[rows]
        return found


@dataclass(frozen=True)
class Workload:
    """A query and its stream of edges. Equal parameters give equal streams.

    `shares` are the shares of the labels in a block. A share `dup` of the insertions repeats an
    edge of an earlier block in the window; otherwise the edges in the window are distinct.

    >>> from triegs.workloads import path3
    >>> stream = path3(8, window=1200, slide=100).slides()
    >>> len(next(stream)), len(next(stream))
    (1200, 200)
    """

    name: str
    atoms: tuple[Atom, ...]
    head: tuple[str, ...]
    sources: Mapping[str, EdgeSource]
    shares: Mapping[str, int]
    window: int
    slide: int
    seed: int
    dup: float

    def __post_init__(self) -> None:
        if self.slide < 1 or self.window < self.slide or self.window % self.slide:
            raise ValueError(
                f"a window of {self.window} edges is not a whole number of blocks of {self.slide}"
            )
        if not 0 <= self.dup <= 1:
            raise ValueError(f"dup must be a share from 0 to 1, not {self.dup}")
        total = sum(self.shares.values())
        for label, source in self.sources.items():
            # New edges are found by redrawing, which would never end in a full space.
            if source.capacity * total < 2 * self.window * self.shares[label]:
                raise ValueError(
                    f"{self.name}: label {label} has only {source.capacity} different edges; "
                    f"take a larger window than {self.window}, or a smaller fan-out"
                )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.sources)

    @property
    def query(self) -> str:
        """The query as SPARQL text.

        >>> from triegs.workloads import triangle
        >>> print(triangle(4, window=100, slide=10).query)
        PREFIX : <http://ex/>
        SELECT ?a ?b ?c WHERE { ?a :E ?b . ?b :E ?c . ?c :E ?a }
        """
        return write_query(self.atoms, self.head)

    def with_query(self, atoms: tuple[Atom, ...], head: tuple[str, ...]) -> Workload:
        """The same stream under another query."""
        return replace(self, atoms=atoms, head=head)

    def slides(self) -> Iterator[Slide]:
        """Slide 0 loads the window; each later one deletes the oldest block and inserts a new one,
        forever.

        Cost of a slide: about its size times the logarithm of the window.
        """
        random = np.random.default_rng(self.seed)
        window: deque[Block] = deque()
        for block in self._load(random):
            window.append(self._repeat(random, block, window))
        keys = _Keys(np.concatenate([self._number(block) for block in window]))
        yield self._make_slide(0, (), tuple(window))
        number = 0
        while True:
            number += 1
            old = window.popleft()
            keys.drop_oldest(len(old.labels))
            block = self._draw(random, self._count_labels(len(window) + number), keys)
            block = block.take(random.permutation(self.slide))
            block = self._repeat(random, block, window)
            keys.add(self._number(block))
            window.append(block)
            yield self._make_slide(number, (old,), (block,))

    def _count_labels(self, block: int) -> Numbers:
        """The edges of each label in one block; remainders rotate from block to block."""
        shares = np.array([self.shares[label] for label in self.labels], np.int64)
        counts: Numbers = self.slide * shares // shares.sum()
        spare = self.slide - counts.sum()
        counts[(np.arange(spare) + block * spare) % len(counts)] += 1
        return counts

    def _load(self, random: np.random.Generator) -> Iterator[Block]:
        """The blocks of the first window, drawn at once and then distributed."""
        blocks = self.window // self.slide
        counts = np.stack([self._count_labels(block) for block in range(blocks)])
        edges = self._draw(random, counts.sum(axis=0), _Keys(np.zeros(0, np.int64)))
        # Edges are grouped by label; each label distributes its own to the blocks in turn.
        owner = np.concatenate([np.repeat(np.arange(blocks), column) for column in counts.T])
        shuffled = random.permutation(self.window)
        dealt = shuffled[np.argsort(owner[shuffled], kind="stable")]
        for start in range(0, self.window, self.slide):
            yield edges.take(dealt[start : start + self.slide])

    def _draw(self, random: np.random.Generator, counts: Numbers, keys: _Keys) -> Block:
        """New edges, label by label: redrawn until none is in the window or duplicated."""
        parts = []
        for label, count in enumerate(counts.tolist()):
            source = self.sources[self.labels[label]]
            found = Block(*(np.zeros(0, np.int64) for _ in range(3)))
            while (missing := count - len(found.labels)) > 0:
                subjects, objects = source.draw(random, missing)
                drawn = Block(np.full(missing, label), subjects, objects)
                fresh = drawn.take(np.flatnonzero(~keys.contain(self._number(drawn))))
                found = Block(*map(np.concatenate, zip(found, fresh, strict=True)))
                _, first = np.unique(self._number(found), return_index=True)
                found = found.take(np.sort(first))
            parts.append(found)
        return Block(*map(np.concatenate, zip(*parts, strict=True)))

    def _repeat(self, random: np.random.Generator, block: Block, window: deque[Block]) -> Block:
        """Replace a share `dup` of the block by copies of edges in the window."""
        if self.dup == 0 or not window:
            return block
        targets = np.flatnonzero(random.random(self.slide) < self.dup)
        owners = random.integers(0, len(window), len(targets)).tolist()
        rows = random.integers(0, self.slide, len(targets)).tolist()
        block = Block(*(column.copy() for column in block))
        for target, owner, row in zip(targets.tolist(), owners, rows, strict=True):
            for column, source in zip(block, window[owner], strict=True):
                column[target] = source[row]
        return block

    def _number(self, block: Block) -> Numbers:
        """One integer for each edge."""
        keys: Numbers = (block.labels * self._span + block.subjects) * self._span + block.objects
        return keys

    @cached_property
    def _span(self) -> int:
        layers = [part for s in self.sources.values() for part in (s.subjects, s.objects)]
        span = max(layer.first + layer.size for layer in layers)
        if len(self.labels) * span**2 >= 2**63:
            raise ValueError(f"{self.name}: a window of {self.window} edges is too large")
        return span

    def _make_slide(self, number: int, old: tuple[Block, ...], new: tuple[Block, ...]) -> Slide:
        edges = Block(*map(np.concatenate, zip(*old, *new, strict=True)))
        ops = np.ones(len(edges.labels), np.int8)
        ops[: sum(len(block.labels) for block in old)] = -1
        return Slide(number, ops, edges.labels, edges.subjects, edges.objects, self.labels)


class _Keys:
    """The edges of the window by number, each with its last position in the stream.

    An edge is in the window as long as that position is. Kept as sorted arrays, so that everything
    is vectorised: a large one, and a small one of recent edges, merged into it when it has grown.
    """

    def __init__(self, keys: Numbers) -> None:
        self._oldest = 0
        self._next = len(keys)
        self._large = _sort_last(keys, np.arange(len(keys)))
        self._small = _sort_last(keys[:0], keys[:0])

    def drop_oldest(self, count: int) -> None:
        self._oldest += count

    def add(self, keys: Numbers) -> None:
        positions = np.arange(self._next, self._next + len(keys))
        self._next += len(keys)
        self._small = self._merge(self._small, keys, positions)
        if len(self._small[0]) > max(len(keys), len(self._large[0]) // 8):
            self._large = self._merge(self._large, *self._small)
            self._small = _sort_last(keys[:0], keys[:0])

    def contain(self, keys: Numbers) -> NDArray[np.bool_]:
        found = np.zeros(len(keys), np.bool_)
        for known, positions in (self._large, self._small):
            if len(known):
                at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
                found |= (known[at] == keys) & (positions[at] >= self._oldest)
        return found

    def _merge(
        self, known: tuple[Numbers, Numbers], keys: Numbers, positions: Numbers
    ) -> tuple[Numbers, Numbers]:
        live = known[1] >= self._oldest
        return _sort_last(
            np.concatenate([known[0][live], keys]), np.concatenate([known[1][live], positions])
        )


def _sort_last(keys: Numbers, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Sorted by key, with the last position of each; positions of equal keys must be ascending."""
    order = np.argsort(keys, kind="stable")
    keys, positions = keys[order], positions[order]
    last = np.ones(len(keys), np.bool_)
    last[:-1] = keys[1:] != keys[:-1]
    return keys[last], positions[last]


def name_iri(label: str) -> str:
    """The predicate of a label.

    >>> name_iri("A")
    '<http://ex/A>'
    """
    return f"<{NAMESPACE}{label}>"


def write_query(atoms: tuple[Atom, ...], head: tuple[str, ...]) -> str:
    shown = " ".join(f"?{name}" for name in head)
    body = " . ".join(f"?{subject} :{label} ?{obj}" for label, subject, obj in atoms)
    return f"PREFIX : <{NAMESPACE}>\nSELECT {shown} WHERE {{ {body} }}"
