"""Processes that open shared snapshots, for tests.

They are forked from a server that has loaded the kernels of readers (`tests.read.warm`), which
takes a second once instead of in each.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from typing import Any

from triegs import Engine, Snapshot, SnapshotHandle

Rows = Counter[tuple[Any, ...]]


@cache
def find_context() -> Any:
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.read.warm"])
    return context


class Process:
    """A process that calls functions of ours with what it has kept so far."""

    def __init__(self) -> None:
        context = find_context()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.number = self._process.pid

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.tell(function, *arguments)
        return self.hear()

    def tell(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._pipe.send((function, arguments))

    def has_answered(self) -> bool:
        return bool(self._pipe.poll())

    def hear(self) -> Any:
        found, problem = self._pipe.recv()
        if problem is not None:
            raise problem
        return found

    def signal(self, number: int) -> None:
        os.kill(self.number, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


@contextmanager
def start_process() -> Iterator[Process]:
    process = Process()
    try:
        yield process
    finally:
        process.kill()


def serve(pipe: Any) -> None:
    kept: dict[str, Any] = {}
    while True:
        function, arguments = pipe.recv()
        answer: tuple[Any, Exception | None]
        try:
            answer = function(kept, *arguments), None
        except Exception as problem:
            answer = None, problem
        pipe.send(answer)


# What they are asked to do


def open_handle(kept: dict[str, Any], handle: SnapshotHandle, name: str = "") -> int:
    kept[name] = handle.open()
    return int(kept[name].epoch)


def read_opened(kept: dict[str, Any], name: str = "") -> Rows:
    return count_rows(kept[name])


def read_again(kept: dict[str, Any], times: int) -> list[Rows]:
    """Different results of reading one snapshot again and again; there should be one."""
    found: list[Rows] = []
    for _ in range(times):
        rows = count_rows(kept[""])
        if rows not in found:
            found.append(rows)
    return found


def close_opened(kept: dict[str, Any], name: str = "") -> None:
    kept.pop(name).close()


def read_forms(
    kept: dict[str, Any], handle: SnapshotHandle, forms: dict[str, Callable[[Snapshot], Any]]
) -> dict[str, Any]:
    del kept
    with handle.open() as snapshot:
        return {name: form(snapshot) for name, form in forms.items()}


def read_changes(kept: dict[str, Any], first: str, second: str) -> list[Any]:
    return list(kept[second].diff(kept[first]).answers("python"))


def share_opened(kept: dict[str, Any]) -> SnapshotHandle:
    handle: SnapshotHandle = kept[""].share()
    return handle


def fork_and_wait(kept: dict[str, Any]) -> str:
    """Fork a process that goes on as long as this one; returns what reading says there."""
    read, write = os.pipe()
    waits, ends = os.pipe()
    if os.fork() == 0:
        os.close(ends)
        try:
            problem = str(list(kept[""]))
        except Exception as error:
            problem = str(error)
        os.write(write, problem.encode())
        os.close(write)
        os.read(waits, 1)  # until nobody has the other end
        os._exit(0)
    kept["ends"] = ends
    os.close(write)
    return os.fdopen(read).read()


def make_engine(kept: dict[str, Any], updates: list[Any], text: str) -> SnapshotHandle:
    engine = kept["engine"] = Engine(shared_memory=True)
    query = engine.register(text)
    engine.apply(updates)
    with query.snapshot() as snapshot:
        kept["handle"] = snapshot.share()
    handle: SnapshotHandle = kept["handle"]
    return handle


def count_rows(snapshot: Snapshot) -> Rows:
    return Counter({tuple(row): row.multiplicity for row in snapshot})
