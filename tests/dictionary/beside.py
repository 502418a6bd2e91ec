"""Readers of a dictionary beside its updater."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pyarrow as pa

from triegs.terms.dictionary import Dictionary

IRI = "<http://ex/{}>".format
Draw = Callable[[int, int], list[str]]


def read_beside(words: Dictionary, epochs: int, draw: Draw, look: Callable[[], None]) -> None:
    """Two readers look again and again, while so many epochs replace terms: each those of the epoch
    before by its own, which `draw` makes, given the epoch and their number.
    """
    done = Event()

    def update() -> None:
        try:
            before = np.zeros(0, np.int64)
            for epoch in range(2, epochs):
                fresh = draw(epoch, 10 + (epoch * 7919) % 900)
                now = words.encode(pa.array([*fresh, *map(IRI, range(epoch, epoch + 9))])).ids
                words.acquire(now, epoch)
                words.release(before, epoch)
                words.collect(epoch)
                before = now
        finally:
            done.set()

    def follow() -> None:
        while True:
            is_last = done.is_set()
            look()
            if is_last:
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(follow) for _ in range(2)]
            pool.submit(update).result()
            for reader in readers:
                reader.result()
    finally:
        sys.setswitchinterval(interval)
