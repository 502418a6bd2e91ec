"""Readers in other threads see complete versions while the writer continues."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Barrier, Event, Thread

import pytest

from triegs.store.contract import Store
from triegs.store.packed import PackedStore
from triegs.testing.plain_store import PlainStore

READERS, EPOCHS, NODES = 3, 400, 200


@pytest.mark.parametrize("make", [PlainStore, PackedStore])
def test_pinned_versions_are_whole(make: Callable[[], Store]) -> None:
    """The writer moves units between two relations: their sum is the same in each version."""
    store = make()
    left, right = store.create("left", 2), store.create("right", 2)
    random = Random(5)
    for each in range(NODES):
        left.set((each % 9, each), 1_000)
        right.set((each % 9, each), 1_000)
    store.publish()
    total = NODES * 2_000
    done, start = Event(), Barrier(READERS + 1)
    faults: list[str] = []
    reads = [0] * READERS

    def read(reader: int) -> None:
        start.wait()
        while not done.is_set() or not reads[reader]:
            version = store.pin()
            rows = dict(version.scan(left)), dict(version.scan(right))
            again = dict(version.scan(left)), dict(version.scan(right))
            if sum(rows[0].values()) + sum(rows[1].values()) != total or rows != again:
                faults.append(f"version {version.number} is torn")
            for x in range(9):
                expected = {key: count for key, count in rows[0].items() if key[0] == x}
                if dict(version.scan(left, (x,))) != expected:
                    faults.append(f"version {version.number}, prefix {x}")
            store.unpin(version)
            reads[reader] += 1

    threads = [Thread(target=read, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    start.wait()
    for _ in range(EPOCHS):
        for _ in range(random.choice([1, 30, 200])):
            each = random.randrange(NODES)
            key = (each % 9, each)
            moved = random.choice([left.get(key), 1, 7])
            left.set(key, left.get(key) - moved)
            right.set(key, right.get(key) + moved)
        if random.random() < 0.1:
            store.abort()
        else:
            store.publish()
    done.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert min(reads) > 0
    store.publish()
    assert store.statistics().retained_bytes == 0
    store.check()
