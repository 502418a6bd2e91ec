"""The default store: tries in one arena of words, changed in place within an epoch.

The structure is in `triegs.store.kernels`; `docs/trie.md` describes it. This package adds what
Python needs: names and versions (`relations`), pins (`versions`), the memory limit (`limits`), and
here the contract, epochs and measurements.

>>> store = PackedStore()
>>> knows = store.create("knows", 2)
>>> knows.set((7, 5), 2), knows.set((7, 3), 1), knows.set((9, 3), 1)
(0, 0, 0)
>>> held = store.pin(store.publish())
>>> knows.set((7, 5), 0)
2
>>> list(knows.scan((7,))), sorted(held.scan(knows, (7,)))
([((7, 3), 1)], [((7, 3), 1), ((7, 5), 2)])

That change copied a node of the trie and the block of 7: 272 + 48 bytes, which only `held` reaches
once the next version is published. The list of retained nodes takes another 272.

>>> store.publish().number, store.statistics().retained_bytes
(2, 592)
>>> store.unpin(held)
>>> store.statistics().retained_bytes
0
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from triegs.errors import MemoryLimitReached, TimeLimitReached
from triegs.jit.words import Words
from triegs.store.bounds import check_arity
from triegs.store.check import check_relation, check_store
from triegs.store.contract import (
    Key,
    Measured,
    RelationUnknown,
    Statistics,
    Version,
    VersionedRelation,
    VersionGone,
)
from triegs.store.kernels.epochs import (
    MEASURE,
    WALK_WORDS,
    abort_epoch,
    clear_slot,
    publish_roots,
    walk_relation,
)
from triegs.store.kernels.layout import (
    BUMP,
    COPIED,
    FAULTS,
    NODE_WORDS,
    PLAIN,
    RETAINED,
    RETIRED,
    SHARED_NODES,
    SLOT_LIMIT,
    SLOT_WORDS,
    SLOTS,
    START,
)
from triegs.store.kernels.measure import list_retained, measure_retained
from triegs.store.kernels.memory import WORD_BYTES
from triegs.store.kernels.relations import adjacency_change, map_change, tuple_change
from triegs.store.limits import SMALLEST_LIMIT, LimitedArena
from triegs.store.relations import PackedRelation, PackedVersion, shape_of
from triegs.store.room import CLASS_WORDS, count_free

__all__ = ["SMALLEST_LIMIT", "PackedRelation", "PackedStore", "PackedVersion"]

Result = TypeVar("Result")


class PackedStore(LimitedArena):
    """A `Store` over one arena. `memory_limit` bounds the bytes of all nodes, free ones included.

    A change that finds no room raises `MemoryLimitReached` and is not made; a store near its limit
    keeps 300 kB in reserve for that. Free memory serves nodes of every size: while no version is
    held, the store compacts itself when that frees a sixteenth of the limit. Between `lift_limit`
    and `restore_limit` the store may take as much again and a quarter, because an epoch of
    deletions may copy everything while the version before it stays whole. With `shared_memory`
    other processes can read it (`triegs.shared_memory`).

    >>> store = PackedStore(memory_limit=1_000_000)
    >>> numbers = store.create("numbers", 1)
    >>> for each in range(0, 2**31, 2**16):
    ...     _ = numbers.set((each,), 1)
    Traceback (most recent call last):
    triegs.errors.MemoryLimitReached: numbers(...,): no room under 1,000,000 bytes
    >>> store.abort()
    >>> store.statistics().live_bytes
    0
    """

    def __init__(
        self, *, memory_limit: int | None = None, reserve: bool = True, shared_memory: bool = False
    ) -> None:
        super().__init__(memory_limit, reserve, shared_memory)
        self._free_slots: list[int] = []
        self._created: list[int] = []  # slots, in this epoch
        self._dropped: list[int] = []
        self._must_abort = False
        self.deadline: float | None = None

    # Changes

    def put(self, relation: PackedRelation, key: Key, count: int) -> int:
        """Set the count of a tuple; returns the previous count."""
        if relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in this store")
        assert relation.layout == PLAIN, f"{relation.name}: only kernels change it"
        at = SLOTS + SLOT_WORDS * relation.slot
        change: Any
        arguments: tuple[Any, ...]
        if len(key) == 2:
            change, arguments = adjacency_change, key
        elif len(key) == 1:
            change, arguments = map_change, key
        else:
            change, arguments = tuple_change, (np.array(key, np.int64), len(key))
        with self._memory:
            before, _ = change(self.words, at, *arguments, count, True)
            while self.words[FAULTS]:
                self.words[FAULTS] = 0
                if not self._make_room(moves=False):
                    raise self.refuse(f"{relation.name}{key}")
                before, _ = change(self.words, at, *arguments, count, True)
        return int(before)

    def run(self, work: Callable[[Words, Words], Result]) -> Result:
        """Run a kernel that changes the arena, on its words and the roots of the newest version.

        A kernel that fails sets `faults`; the epoch must then be aborted. After `deadline`, by the
        monotonic clock, it raises `TimeLimitReached` instead: kernels cannot be interrupted, but
        large joins take many calls.
        """
        if self.deadline is not None and monotonic() >= self.deadline:
            raise TimeLimitReached("the query takes longer to register than its time limit")
        with self._memory:
            return work(self.words, self._newest.roots)

    def run_and_publish(
        self, work: Callable[..., int], *arguments: Any
    ) -> tuple[int, PackedVersion]:
        """Run a kernel that makes and publishes an epoch; returns its result and the newest
        version.

        It gets the words, the roots of the newest version, those of the next one, to be written,
        the holds, and the arguments. A negative result means that it did not publish. Pinning
        blocks until it is done.
        """
        if self._must_abort:
            raise MemoryLimitReached("the epoch is incomplete; abort it")
        newest = self._newest
        roots = np.empty(SLOT_WORDS * len(self._shapes), np.int64)
        version = PackedVersion(self, newest.number + 1, roots, self.members)
        with self._memory, self._pins:
            if self._held_changed:
                self._follow_pins()
            result = work(self.words, newest.roots, roots, self.holds, *arguments)
            if result < 0:
                return result, newest
            self._newest = version
        if self._created or self._dropped:
            self._settle_slots()
        return result, version

    @property
    def faults(self) -> int:
        return int(self.words[FAULTS])

    # Relations and epochs

    def create(self, name: str, arity: int, layout: int = PLAIN) -> PackedRelation:
        """An empty relation. Only kernels change one whose layout is not `PLAIN`; see
        `triegs.store.kernels.order_statistics`.
        """
        check_arity(arity)
        shape = shape_of(arity, layout)
        if self._free_slots:
            slot = self._free_slots.pop()
            self._shapes[slot] = shape
        elif len(self._shapes) < SLOT_LIMIT:
            slot = len(self._shapes)
            self._shapes.append(shape)
        else:
            raise MemoryLimitReached(f"{name}: a store has at most {SLOT_LIMIT:,} relations")
        relation = PackedRelation(self, name, arity, slot, layout)
        self._created.append(slot)
        self.members |= {relation}
        return relation

    def find_shape(self, slot: int) -> int:
        """The shape of the relation in a slot, see `triegs.store.kernels.layout`."""
        return self._shapes[slot]

    def copy_slots(self) -> Words:
        """The root and the number of tuples of each relation, as the writer sees them."""
        return self.words[SLOTS : SLOTS + SLOT_WORDS * len(self._shapes)].copy()

    def drop(self, relation: VersionedRelation) -> None:
        """Drop a relation. Costs a visit of each of its nodes."""
        relation = self.clear(relation)
        self.members -= {relation}
        self._dropped.append(relation.slot)

    def clear(self, relation: VersionedRelation) -> PackedRelation:
        """Remove all tuples of a relation. Costs a visit of each of its nodes."""
        if not isinstance(relation, PackedRelation) or relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in this store")
        at = SLOTS + SLOT_WORDS * relation.slot
        with self._memory:
            if not clear_slot(self.words, self._walk, at, relation.shape):
                self._must_abort = True
                raise MemoryLimitReached(f"{relation.name}: no room to drop it; abort the epoch")
        return relation

    def publish(self) -> PackedVersion:
        """Costs O(relations + nodes copied or dropped since the last version)."""
        if self._must_abort:
            raise MemoryLimitReached("the epoch is incomplete; abort it")
        roots = np.empty(SLOT_WORDS * len(self._shapes), np.int64)
        version = PackedVersion(self, self._newest.number + 1, roots, self.members)
        with self._memory, self._pins:
            # A reader has pinned the newest version before this, or pins the next one after it.
            if self._held_changed:
                self._follow_pins()
            if self.workers is not None:
                self.workers.publish(self.holds)
            publish_roots(self.words, roots, self.holds)
            self._newest = version
        if self._created or self._dropped:
            self._settle_slots()
        return version

    def _settle_slots(self) -> None:
        self._free_slots += self._dropped
        self._created, self._dropped = [], []

    def abort(self) -> None:
        """Costs O(relations + nodes created since the last version)."""
        with self._memory:
            shapes = np.array(self._shapes, np.int64)
            if self.workers is not None:
                self.workers.abort()
            abort_epoch(self.words, self._walk, self._newest.roots, shapes)
        self.members = self._newest.members
        self._free_slots += self._created
        self._created, self._dropped = [], []
        self._must_abort = False

    # Measurements

    def statistics(self) -> Statistics:
        """Exact, in O(relations). Any thread may call it."""
        with self._memory:
            self._follow_pins()
            words = self.words
            used = int(words[BUMP]) - START
            retained = int(words[RETAINED])
            free = count_free(words)
            if self.workers is not None:
                free += self.workers.count_held()
            shared = int(words[SHARED_NODES]) * NODE_WORDS
            end = SLOTS + SLOT_WORDS * len(self._shapes)
            return Statistics(
                entries=int(words[SLOTS + 1 : end : SLOT_WORDS].sum()),
                live_bytes=(used - retained - free - shared) * WORD_BYTES,
                retained_bytes=retained * WORD_BYTES,
                debt_bytes=free * WORD_BYTES,
                copied_nodes=int(words[COPIED]),
                retired_nodes=int(words[RETIRED]),
                shared_bytes=shared * WORD_BYTES,
            )

    def measure(self, relation: VersionedRelation, version: Version | None = None) -> int:
        """The bytes of a relation's nodes, as the writer sees it or in a held version.

        A node shared by several versions counts in each. Costs a visit of each node.
        """
        walk = np.empty(WALK_WORDS, np.int64)
        if not isinstance(relation, PackedRelation):
            raise RelationUnknown(f"{relation.name} is not in this store")
        if version is not None:
            if not isinstance(version, PackedVersion):
                raise VersionGone("the version belongs to another store")
            words, (root, _) = version.words, version.read_root(relation)
        else:
            words, (root, _) = self.words, self.read_slot(relation)
        return int(walk_relation(words, walk, root, relation.shape, MEASURE)) * WORD_BYTES

    def measure_retained(self, version: Version | None = None) -> dict[PackedRelation, int]:
        """By relation, the bytes of the nodes that a held version (any, unless given) reaches and
        the newest does not. Any thread may call it.

        Costs a visit of each such node, while the writer waits.
        """
        with self._memory:
            self._follow_pins()
            with self._pins:
                versions = list(self._held.values())
            if version is not None:
                if not isinstance(version, PackedVersion):
                    raise VersionGone("the version belongs to another store")
                version.check_held()
                versions = [version]
            words = self.words
            nodes = np.empty(int(words[RETAINED]) // CLASS_WORDS[0] + 1, np.int64)
            nodes = np.sort(nodes[: list_retained(words, self.holds, nodes)])
            seen, walk = np.zeros(nodes.size, np.int64), np.empty(WALK_WORDS, np.int64)
            found: dict[PackedRelation, int] = {}
            for each in versions:
                for relation in each.members:
                    root = int(each.roots[relation.root_at])
                    size = measure_retained(words, walk, root, relation.shape, nodes, seen)
                    found[relation] = found.get(relation, 0) + int(size) * WORD_BYTES
        return found

    def measure_relations(self) -> dict[str, Measured]:
        """Entries and bytes by name. Costs a visit of every node."""
        newest = self.pin()
        try:
            found = {
                relation: (newest.size(relation), self.measure(relation, newest))
                for relation in newest.members
            }
        finally:
            self.unpin(newest)
        retained = self.measure_retained()
        sums: dict[str, Measured] = {}
        for relation in sorted(found.keys() | retained.keys(), key=lambda one: one.name):
            entries, live = found.get(relation, (0, 0))
            more = Measured(entries, live, retained.get(relation, 0))
            # Different plans may give relations the same name.
            before = sums.get(relation.name, Measured(0, 0, 0))
            sums[relation.name] = Measured(*map(sum, zip(before, more, strict=True)))
        return sums

    def measure_pin(self, version: Version) -> int:
        """The bytes that a held version would retain if no other did."""
        return sum(self.measure_retained(version).values())

    def check(self) -> None:
        """Verify every invariant of `docs/trie.md`. Costs a visit of every node in Python."""
        with self._memory:
            self._follow_pins()
            self._settle_workers()
            check_store(self, self._held.values())

    def check_relation(self, relation: PackedRelation) -> None:
        check_relation(self, relation)
