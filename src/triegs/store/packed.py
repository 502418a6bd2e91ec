"""The default store: tries in one arena of words, changed in place within an epoch.

The structure is in `triegs.kernels`, and `docs/trie.md` tells how it works. Here is what Python
adds: names, bounds, versions, holds and locks.

>>> store = PackedStore()
>>> knows = store.create("knows", 2)
>>> knows.set((7, 5), 2), knows.set((7, 3), 1), knows.set((9, 3), 1)
(0, 0, 0)
>>> held = store.pin(store.publish())
>>> knows.set((7, 5), 0)
2
>>> list(knows.scan((7,))), sorted(held.scan(knows, (7,)))
([((7, 3), 1)], [((7, 3), 1), ((7, 5), 2)])

That change copied a node of the trie and the block of 7: 272 + 80 bytes, which only `held` sees
once the next version is out. A list of the retained nodes takes another 272.

>>> store.publish().number, store.statistics().retained_bytes
(2, 624)
>>> store.unpin(held)
>>> store.statistics().retained_bytes
0

One thread writes. Any thread may pin, read what it has pinned, and unpin. `_memory` is locked while
the arena changes, `_pins` while versions come, are held and go; who needs both locks `_memory`
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any, TypeVar

import numpy as np

from triegs.copying import Uncopied
from triegs.errors import MemoryLimitReached
from triegs.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.kernels.epochs import (
    MEASURE,
    WALK_WORDS,
    abort_epoch,
    change_holds_large,
    change_holds_small,
    clear_slot,
    publish_large,
    publish_small,
    walk_relation,
)
from triegs.kernels.layout import (
    BUMP,
    COPIED,
    FAULTS,
    FRESH,
    FRESH_LAST,
    LAYOUT_SHIFT,
    LIMIT,
    PLAIN,
    RETAINED,
    RETIRED,
    ROOM_WORDS,
    SLOT_LIMIT,
    SLOT_WORDS,
    SLOTS,
    START,
)
from triegs.kernels.measure import list_retained, measure_fresh, measure_retained
from triegs.kernels.memory import (
    WORD_BYTES,
    copy_arena,
    grow_arena,
    make_arena,
    slack_words,
)
from triegs.kernels.relations import (
    adjacency_change,
    adjacency_get,
    map_change,
    map_get,
    tuple_change,
    tuple_get,
)
from triegs.kernels.words import Words
from triegs.store.bounds import check_arity, check_count, check_key, check_prefix
from triegs.store.contract import (
    Key,
    Measured,
    RelationUnknown,
    Statistics,
    Version,
    VersionedRelation,
    VersionGone,
)
from triegs.store.room import CLASS_WORDS, PART, RESERVE_BYTES, compact, count_free, count_used

Result = TypeVar("Result")

SCAN_ROWS = 512  # tuples that a scan fetches at a time
SMALLEST_LIMIT = 2 * RESERVE_BYTES
FEW_WORDS = 10_000  # retained, that are freed without releasing the interpreter's lock


def shape_of(arity: int, layout: int) -> int:
    return arity | layout << LAYOUT_SHIFT


def read_count(words: Words, root: int, key: Key) -> int:
    """The count of a tuple below a root. One kernel call."""
    if len(key) == 2:
        return int(adjacency_get(words, root, *key))
    if len(key) == 1:
        return int(map_get(words, root, *key))
    return int(tuple_get(words, root, np.array(key, np.int64), len(key)))


def read_rows(
    words: Words, root: int, arity: int, prefix: Key, check: Callable[[], object]
) -> Iterator[tuple[Key, int]]:
    """The tuples below a prefix, some hundreds per kernel call; `check` runs before each."""
    below = int(tuple_get(words, root, np.array(prefix, np.int64), len(prefix)))
    levels = arity - len(prefix)
    if below == 0:
        return
    if levels == 0:
        yield prefix, below
        return
    scan = np.zeros(CURSOR_WORDS * (levels + 1), np.int64)
    columns = np.empty((levels + 1) * SCAN_ROWS, np.int64)
    open_scan(words, scan, below, not prefix)
    found = SCAN_ROWS
    while found == SCAN_ROWS:
        check()
        found = fill_scan(words, scan, levels, not prefix, columns, SCAN_ROWS)
        *keys, counts = columns.reshape(levels + 1, SCAN_ROWS)[:, :found].tolist()
        for key, count in zip(zip(*keys, strict=True), counts, strict=True):
            yield (*prefix, *key), count


class PackedRelation(Uncopied):
    """A `VersionedRelation`: a name for a slot of the arena."""

    def __init__(self, store: PackedStore, name: str, arity: int, slot: int, layout: int) -> None:
        self._store = store
        self.name = name
        self.arity = arity
        self.slot = slot
        self.layout = layout

    @property
    def shape(self) -> int:
        """Arity and layout, as the kernels that visit all nodes want them."""
        return shape_of(self.arity, self.layout)

    @property
    def root_at(self) -> int:
        """Where among the roots of a version its own is."""
        return SLOT_WORDS * self.slot

    def get(self, key: Key) -> int:
        key = check_key(self.name, self.arity, key)
        return read_count(self._store.words, self._store.read_slot(self)[0], key)

    def set(self, key: Key, count: int) -> int:
        key = check_key(self.name, self.arity, key)
        return self._store.put(self, key, check_count(self.name, key, count))

    def scan(self, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        prefix = check_prefix(self.name, self.arity, prefix)
        root, _ = self._store.read_slot(self)
        return read_rows(self._store.words, root, self.arity, prefix, lambda: None)

    def __len__(self) -> int:
        return self._store.read_slot(self)[1]

    def check(self) -> None:
        from triegs.store.check import check_relation

        self._store.read_slot(self)
        check_relation(self._store, self)


class PackedVersion(Uncopied):
    """A `Version`: the roots of all relations at one moment, and the array they lead into."""

    __slots__ = (
        "__weakref__",
        "_store",
        "digest",
        "holders",
        "members",
        "number",
        "roots",
        "words",
    )

    def __init__(
        self,
        store: PackedStore,
        number: int,
        roots: Words,
        members: frozenset[PackedRelation],
    ) -> None:
        self._store = store
        self.words = store.words
        self.number = number
        self.roots = roots
        self.members = members
        self.holders = 0
        self.digest: bytes | None = None  # of all it reaches, once `check` has seen it

    def check_held(self) -> None:
        if not self.holders and self is not self._store.newest:
            raise VersionGone(f"version {self.number} is not held")

    def _read_root(self, relation: VersionedRelation) -> tuple[int, int]:
        self.check_held()
        if not isinstance(relation, PackedRelation) or relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in version {self.number}")
        at = relation.root_at
        return int(self.roots[at]), int(self.roots[at + 1])

    def get(self, relation: VersionedRelation, key: Key) -> int:
        root, _ = self._read_root(relation)
        return read_count(self.words, root, check_key(relation.name, relation.arity, key))

    def scan(self, relation: VersionedRelation, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        root, _ = self._read_root(relation)
        prefix = check_prefix(relation.name, relation.arity, prefix)
        return read_rows(self.words, root, relation.arity, prefix, self.check_held)

    def size(self, relation: VersionedRelation) -> int:
        return self._read_root(relation)[1]


class PackedStore(Uncopied):
    """A `Store` over one arena. `memory_limit` bounds the bytes of all nodes, free ones too.

    A change that finds no room raises `MemoryLimitReached` and is not made; a store near its limit
    keeps 300 kB in reserve for that. What is free serves nodes of every size; while no version is
    held, it is all put together when a sixteenth of the limit can be won. Only between `lift_limit`
    and `restore_limit` may the store take more, as much again and a quarter: an epoch of deletions
    may copy everything, because the version before it stays whole until it is published.

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

    def __init__(self, *, memory_limit: int | None = None, reserve: bool = True) -> None:
        if memory_limit is not None and memory_limit < SMALLEST_LIMIT:
            raise ValueError(f"memory_limit {memory_limit}: at least {SMALLEST_LIMIT:,} bytes")
        self._limit_bytes = memory_limit
        self._limit_words = None if memory_limit is None else memory_limit // WORD_BYTES
        self.words = make_arena(self._limit_words, reserve=reserve)
        self._walk = np.empty(WALK_WORDS, np.int64)
        self.members: frozenset[PackedRelation] = frozenset()
        self._shapes: list[int] = []  # of every slot ever used
        self._free_slots: list[int] = []
        self._created: list[int] = []  # slots, in this epoch
        self._dropped: list[int] = []
        self._must_abort = False
        self._compacted: PackedVersion | None = None  # the newest version at the last compaction
        self._memory = Lock()
        self._pins = RLock()  # unpinning may come from a finaliser, at any moment
        self._newest = PackedVersion(self, 0, np.empty(0, np.int64), self.members)
        self._held: dict[int, PackedVersion] = {}
        self._held_changed = False
        self.holds = np.empty(0, np.int64)  # the held versions, as the kernels want them

    # For the relations

    def read_slot(self, relation: PackedRelation) -> tuple[int, int]:
        """Root and number of entries, as the writer sees them."""
        if relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in this store")
        at = SLOTS + SLOT_WORDS * relation.slot
        return int(self.words[at]), int(self.words[at + 1])

    def put(self, relation: PackedRelation, key: Key, count: int) -> int:
        """Set the count of a tuple; returns the count before."""
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

    def _make_room(self, *, moves: bool) -> bool:
        """Take back what readers have let go, grow, or compact; under the lock `_memory`.

        Nothing moves while the writer may be in the middle of a scan.
        """
        if self._follow_pins():
            return True
        larger = grow_arena(self.words, self._limit_words)
        if larger is None:
            return moves and self._compact()
        self.words = larger
        return True

    def refuse(self, what: str, why: str = "") -> MemoryLimitReached:
        """What says that there is no room."""
        limit = self._limit_bytes or self.words.nbytes
        return MemoryLimitReached(f"{what}: no room under {limit:,} bytes{why}")

    def _compact(self, *, again: bool = False) -> bool:
        """Put all free words together, if that wins enough and nobody would see it; whether it was
        done, unless `again` at most once for a version. Under the lock `_memory`. Costs a visit of
        every node.
        """
        words, newest = self.words, self._newest
        limit = self._limit_words or words.size - START
        if (self._compacted is newest and not again) or PART * count_free(words) < limit:
            return False
        end = SLOTS + newest.roots.size
        with self._pins:  # nobody may hold a version meanwhile
            if self._held or words[FRESH] or words[RETAINED]:
                return False
            slots = words[SLOTS : SLOTS + SLOT_WORDS * len(self._shapes)]
            if (words[SLOTS:end] != newest.roots).any() or slots[newest.roots.size :].any():
                return False  # in the course of an epoch
            compact(words, self._walk, self._shapes)
            newest.words, newest.digest = words, None
            newest.roots[:] = words[SLOTS:end]
            self._compacted = newest
        return True

    # For kernels that change many relations at once

    def run(self, work: Callable[[Words, Words], Result]) -> Result:
        """Let a kernel change the arena; it gets the words and the roots of the newest version.

        A kernel that meets a fault leaves it in `faults`; the epoch must then be aborted.
        """
        with self._memory:
            return work(self.words, self._newest.roots)

    def run_and_publish(
        self, work: Callable[..., int], *arguments: Any
    ) -> tuple[int, PackedVersion]:
        """Let a kernel make and publish a small epoch; returns its result and the newest version.

        It gets the words, the roots of the newest version, those of the next one, to be written,
        the holds, and the arguments; a negative result says that it did not publish. Who pins waits
        until it is done.
        """
        if self._must_abort:
            raise MemoryLimitReached("the changes are incomplete; abort")
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

    def make_room(self) -> bool:
        """Give the next changes more room; whether there is any to be given. Before the first
        change of an epoch this may move all nodes: what the writer has begun to scan is over.
        """
        with self._memory:
            return self._make_room(moves=True)

    def lift_limit(self) -> None:
        """Give room beyond the limit, enough to copy all nodes or to drop any number of relations,
        until `restore_limit`. Costs a copy of the arena if that is small.
        """
        if self._limit_words is None:
            return
        with self._memory:
            wanted = START + self._limit_words + slack_words(self._limit_words)
            if self.words.size < wanted:
                self.words = copy_arena(self.words, wanted)
            self.words[LIMIT] = wanted

    def restore_limit(self) -> None:
        """What is in use counts against the limit again; changes wait until it leaves them room.

        If the array is longer than the limit by a sixteenth, and no version is held, nodes move
        together and what is beyond is given back. Else it is used again before anything is taken.
        """
        if self._limit_words is None:
            return
        with self._memory:
            self._follow_pins()
            words = self.words
            words[LIMIT] = min(START + self._limit_words, words.size)
            if int(words[BUMP]) - START > self._limit_words + self._limit_words // PART:
                self._compact(again=True)

    def is_within_limit(self) -> bool:
        """Whether one more change would find room if the epoch in the making were published now.
        Costs a visit of each node that it has retired.
        """
        if self._limit_words is None:
            return True
        with self._memory:
            self._follow_pins()
            freed = int(measure_fresh(self.words, self.holds))
            return count_used(self.words) - freed + ROOM_WORDS <= self._limit_words

    @property
    def memory_limit(self) -> int | None:
        return self._limit_bytes

    @contextmanager
    def without_limit(self) -> Iterator[None]:
        limit, self._limit_words = self._limit_words, None
        self.words[LIMIT] = self.words.size
        try:
            yield
        finally:
            self._limit_words = limit
            self.restore_limit()

    # The contract

    def create(self, name: str, arity: int, layout: int = PLAIN) -> PackedRelation:
        """A relation without tuples. One of another layout than `PLAIN` is changed by kernels
        only, see `triegs.kernels.sums`.
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

    def drop(self, relation: VersionedRelation) -> None:
        """Forget a relation. Costs a visit of each of its nodes."""
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
                raise MemoryLimitReached(f"{relation.name}: no room to drop it; abort")
        return relation

    def publish(self) -> PackedVersion:
        """Costs the relations, and the nodes copied or dropped since the last version."""
        if self._must_abort:
            raise MemoryLimitReached("the changes are incomplete; abort")
        roots = np.empty(SLOT_WORDS * len(self._shapes), np.int64)
        version = PackedVersion(self, self._newest.number + 1, roots, self.members)
        words = self.words
        with self._memory, self._pins:
            # Who has pinned the newest version has done so before, or will pin the next one.
            if self._held_changed:
                self._follow_pins()
            is_small = words[FRESH] == words[FRESH_LAST]
            publish = publish_small if is_small else publish_large
            publish(words, roots, self.holds)
            self._newest = version
        if self._created or self._dropped:
            self._settle_slots()
        return version

    def _settle_slots(self) -> None:
        self._free_slots += self._dropped
        self._created, self._dropped = [], []

    def abort(self) -> None:
        """Costs the relations, and the nodes born since the last version."""
        with self._memory:
            shapes = np.array(self._shapes, np.int64)
            abort_epoch(self.words, self._walk, self._newest.roots, shapes)
        self.members = self._newest.members
        self._free_slots += self._created
        self._created, self._dropped = [], []
        self._must_abort = False

    @property
    def newest(self) -> PackedVersion:
        return self._newest

    def pin(self, version: Version | int | None = None) -> PackedVersion:
        with self._pins:
            held = self._newest if version is None else version
            if isinstance(held, int):
                held = self._held.get(held, self._newest if held == self._newest.number else held)
            if isinstance(held, int):
                raise VersionGone(f"version {held} is not held")
            if not isinstance(held, PackedVersion) or held._store is not self:
                raise VersionGone("a version of another store")
            if not held.holders and held is not self._newest:
                raise VersionGone(f"version {held.number} is not held")
            held.holders += 1
            if held.holders == 1:
                self._held[held.number] = held
                self._held_changed = True
            return held

    def unpin(self, version: Version) -> None:
        """What only this version saw is free at once, or, if the arena is busy, on publishing."""
        with self._pins:
            held = self._held.get(version.number)
            if held is None or held is not version:
                raise VersionGone(f"version {version.number} is not held")
            held.holders -= 1
            if held.holders:
                return
            del self._held[held.number]
            self._held_changed = True
        if self._memory.acquire(blocking=False):
            try:
                self._follow_pins()
            finally:
                self._memory.release()

    def _follow_pins(self) -> bool:
        """Let retired nodes wait for the versions held now; under the lock `_memory`."""
        with self._pins:
            if not self._held_changed:
                return False
            self._held_changed = False
            numbers = sorted(self._held)
        if numbers == self.holds[::2].tolist():
            return False
        holds = np.zeros(2 * len(numbers), np.int64)
        holds[::2] = numbers
        if self.holds.size:
            is_small = self.words[RETAINED] < FEW_WORDS
            change = change_holds_small if is_small else change_holds_large
            change(self.words, self.holds, holds)
        self.holds = holds
        return True

    def held(self) -> list[int]:
        with self._pins:
            return sorted(self._held)

    def statistics(self) -> Statistics:
        """Exact, and in constant time but for the relations. Any thread may ask."""
        with self._memory:
            self._follow_pins()
            words = self.words
            used = int(words[BUMP]) - START
            retained = int(words[RETAINED])
            free = count_free(words)
            end = SLOTS + SLOT_WORDS * len(self._shapes)
            return Statistics(
                entries=int(words[SLOTS + 1 : end : SLOT_WORDS].sum()),
                live_bytes=(used - retained - free) * WORD_BYTES,
                retained_bytes=retained * WORD_BYTES,
                debt_bytes=free * WORD_BYTES,
                copied_nodes=int(words[COPIED]),
                retired_nodes=int(words[RETIRED]),
            )

    def measure(self, relation: VersionedRelation, version: Version | None = None) -> int:
        """The bytes of a relation's nodes, as the writer sees it or in a held version.

        Nodes that versions share count in each of them. Costs a visit of each node.
        """
        walk = np.empty(WALK_WORDS, np.int64)
        if not isinstance(relation, PackedRelation):
            raise RelationUnknown(f"{relation.name} is not in this store")
        if version is not None:
            if not isinstance(version, PackedVersion):
                raise VersionGone("a version of another store")
            words, (root, _) = version.words, version._read_root(relation)
        else:
            words, (root, _) = self.words, self.read_slot(relation)
        return int(walk_relation(words, walk, root, relation.shape, MEASURE)) * WORD_BYTES

    def measure_retained(self, version: Version | None = None) -> dict[PackedRelation, int]:
        """By relation, the bytes of the nodes that a held version reaches, or any without one
        given, and the newest does not. Any thread may ask.

        Costs a visit of each such node, during which the writer waits.
        """
        with self._memory:
            self._follow_pins()
            with self._pins:
                versions = list(self._held.values())
            if version is not None:
                if not isinstance(version, PackedVersion):
                    raise VersionGone("a version of another store")
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
        """The bytes that a held version keeps from being freed, if no other did."""
        return sum(self.measure_retained(version).values())

    @property
    def slots_used(self) -> int:
        return len(self._shapes)

    def check(self) -> None:
        """Verify every invariant of `docs/trie.md`. Costs a visit of every node by Python."""
        from triegs.store.check import check_store

        with self._memory:
            self._follow_pins()
            check_store(self, self._held.values())
