"""Readers in processes of their own, which read shared snapshots, and one that only computes.

The updater gives each reader its next handle between two epochs, so its process has no thread but
that of the updater. Readers that come within a few epochs get the same one.
"""

from __future__ import annotations

import os
import pickle
import select
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import get_context
from socket import AF_UNIX, SOCK_SEQPACKET, socket, socketpair
from time import perf_counter
from typing import Any

from bench.answers import Digest
from bench.calls import read_batches
from bench.subject import digest_batches

READ, JUDGE, COMPUTE, PIN = range(4)
MESSAGE_BYTES = 1 << 16
#: A handle is given to readers for so many epochs, about two milliseconds.
FRESH_EPOCHS = 20


def list_cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin_to(cpus: Iterable[int]) -> None:
    """Let the calling thread run on these only."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


class ReaderProcess:
    """A process that lists what it is given. Starting it takes a second or two."""

    def __init__(self) -> None:
        context = get_context("spawn")
        # A pipe of `multiprocessing` takes the updater twice as long as sharing the snapshot.
        self.channel, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._begun = 0.0
        self.handle: Any = None
        self._epoch = 0
        self.clear()

    def _send(self, task: int, given: object = None) -> None:
        self.channel.send(pickle.dumps((task, given)))

    def _receive(self) -> Any:
        return pickle.loads(self.channel.recv(MESSAGE_BYTES))

    def clear(self) -> None:
        """Forget what was measured."""
        self.rows = 0
        #: Seconds of each read, with the wait for the updater, and epochs published meanwhile.
        self.reads: list[tuple[float, int]] = []

    def begin(self, handle: Any, message: bytes) -> None:
        """Give it a snapshot to list."""
        self._begun, self._epoch, self.handle = perf_counter(), handle.epoch, handle
        self.channel.send(message)

    def end(self, epoch: int) -> None:
        """Take its answer, which is there or is waited for."""
        self.rows += self._receive()
        self.reads.append((perf_counter() - self._begun, epoch - self._epoch))

    def judge(self) -> tuple[Digest, int]:
        """The digest of what it has listed last, and the epoch of that."""
        self._send(JUDGE)
        found: Digest = self._receive()
        return found, self._epoch

    def compute(self) -> None:
        """Only compute until `stop_computing`."""
        self._send(COMPUTE)

    def stop_computing(self) -> None:
        self._send(COMPUTE)
        self._receive()

    def pin(self, cpus: list[int]) -> None:
        self._send(PIN, cpus)
        self._receive()

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.channel.close()


class Supply:
    """Gives readers their next snapshots; the updater calls it after each epoch."""

    def __init__(self, bed: Any, readers: list[ReaderProcess]) -> None:
        self._bed = bed
        self._readers = {reader.channel.fileno(): reader for reader in readers}
        self._poll = select.poll()
        for number in self._readers:
            self._poll.register(number, select.POLLIN)
        self._all = readers
        self._handle: Any = None
        self._message = b""
        for reader in readers:
            reader.clear()
            self._begin(reader)

    def _begin(self, reader: ReaderProcess) -> None:
        handle = self._handle
        if handle is None or self._bed.engine.epoch > handle.epoch + FRESH_EPOCHS:
            if handle is not None and all(each.handle is not handle for each in self._all):
                handle.close()
            handle = self._handle = self._bed.query.share()
            self._message = pickle.dumps((READ, handle))
        reader.begin(handle, self._message)

    def __call__(self) -> None:
        for number, _ in self._poll.poll(0):
            reader = self._readers[number]
            self._end(reader)
            self._begin(reader)

    def _end(self, reader: ReaderProcess) -> None:
        reader.end(self._bed.engine.epoch)
        handle, reader.handle = reader.handle, None
        if handle is not self._handle and all(each.handle is not handle for each in self._all):
            handle.close()

    def end(self) -> None:
        for reader in self._readers.values():
            self._end(reader)
        self._handle.close()


def _serve(channel: socket) -> None:
    last: Any = None

    def answer(found: object) -> None:
        channel.send(pickle.dumps(found))

    with suppress(EOFError):
        while True:
            task, given = pickle.loads(channel.recv(MESSAGE_BYTES))
            if task == READ:
                if last is not None:
                    last.close()
                last, rows = given.open(), 0
                for batch in read_batches(last, "ids"):
                    rows += batch.num_rows
                answer(rows)
            elif task == JUDGE:
                answer(digest_batches(last))
                last.close()
                last = None
            elif task == PIN:
                pin_to(given)
                answer(None)
            else:
                number = 0
                while not select.select([channel], [], [], 0)[0]:
                    for _ in range(100_000):
                        number = (number * 31 + 7) & 0xFFFF
                channel.recv(MESSAGE_BYTES)
                answer(number)
