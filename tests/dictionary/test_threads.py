"""Readers decode what their pins hold while the writer churns."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import numpy as np
import pyarrow as pa
import pytest

from triegs.terms.dictionary import Dictionary

READERS = 3
EPOCHS = 150


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Shared:
    """A writer's published epochs, and the readers' pins on them."""

    def __init__(self) -> None:
        self.words = Dictionary()
        self.lock = Lock()
        self.newest: tuple[int, np.ndarray, list[str]] = (0, np.zeros(0, np.int64), [])
        self.pins: list[int] = []
        self.done = Event()

    def pin(self) -> tuple[int, np.ndarray, list[str]]:
        with self.lock:
            self.pins.append(self.newest[0])
            return self.newest

    def unpin(self, epoch: int) -> None:
        with self.lock:
            self.pins.remove(epoch)

    def publish(self, epoch: int, ids: np.ndarray, terms: list[str]) -> list[int]:
        with self.lock:
            self.newest = (epoch, ids, terms)
            return sorted({*self.pins, epoch})


def write(shared: Shared) -> None:
    words = shared.words
    before = np.zeros(0, np.int64)
    try:
        for epoch in range(1, EPOCHS + 1):
            size = 50 + (epoch * 7919) % 3000
            terms = [f"<http://ex/{epoch}/{row}{'x' * (row % 40)}>" for row in range(size)]
            ids = words.encode(pa.array(terms)).ids
            words.acquire(ids, epoch)
            words.release(before, epoch)
            words.collect(epoch, shared.publish(epoch, ids, terms))
            before = ids
    finally:
        shared.done.set()


def read(shared: Shared, seed: int) -> int:
    rng = np.random.default_rng(seed)
    rounds = 0
    while not shared.done.is_set() or rounds == 0:
        epoch, ids, terms = shared.pin()
        decoder = shared.words.decoder()
        for _ in range(int(rng.integers(1, 6))):
            assert decoder.decode(ids).to_pylist() == terms
            assert shared.words.decode(ids[::-1]).to_pylist() == terms[::-1]
            if len(ids):
                row = int(rng.integers(len(ids)))
                assert decoder.decode_one(int(ids[row])) == terms[row]
        shared.unpin(epoch)
        rounds += 1
    return rounds


def test_readers_beside_a_writer() -> None:
    shared = Shared()
    with ThreadPoolExecutor(READERS + 1) as pool:
        readers = [pool.submit(read, shared, seed) for seed in range(READERS)]
        pool.submit(write, shared).result()
        assert all(reader.result() > 0 for reader in readers)
    shared.words.collect(EPOCHS)
    assert shared.words.metrics().held == 0
    shared.words.check()
