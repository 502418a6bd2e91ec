"""Processes that are forked or spawned, beside an engine in shared memory."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import pytest
from tests.read.reading_processes import (
    Rows,
    close_opened,
    count_rows,
    fork_and_wait,
    open_handle,
    read_opened,
    start_process,
)
from tests.read.sharing import (
    PAIRS,
    PATHS,
    P,
    is_released,
    make_shared,
    replace_all,
    share,
)

from triegs import (
    Engine,
    SnapshotHandle,
    Text,
)
from triegs import shared_memory as memory

pytestmark = pytest.mark.skipif(not memory.IS_AVAILABLE, reason="needs memfd_create")


def test_a_pool_of_fresh_processes(tmp_path):
    """Pickled twice, through queues, in processes that import everything themselves."""
    with Engine.open(tmp_path / "state", shared_memory=True) as engine:
        engine.register(PAIRS, "pairs")
        engine.apply([("+", number, P, Text(f"{number}")) for number in range(10)])
    with Engine.open(tmp_path / "state", shared_memory=True) as engine:
        query = engine.queries["pairs"]
        handle = pickle.loads(pickle.dumps(kept := share(query)))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(read_once, pickle.loads(pickle.dumps(handle))).result()
            with query.snapshot() as snapshot:
                assert found == (count_rows(snapshot), [])
        kept.close()
        assert is_released(engine)


def read_once(handle: SnapshotHandle) -> tuple[Rows, list[str]]:
    """The rows, and what was compiled for them."""
    from triegs.jit import objects

    compiled: list[str] = []
    objects.reduce_result = lambda *_: compiled.append("a kernel")  # type: ignore[assignment]
    with handle.open() as snapshot:
        return count_rows(snapshot), compiled


def run_forked(function: Callable[[], Any]) -> Any:
    """The result of a function in a process that is forked from this one, or the error."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = function()
        except BaseException as problem:
            found = problem
        with suppress(BaseException):
            os.write(write, pickle.dumps(found))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_opens_handles_and_leaves_the_engine_alone():
    engine, query = make_shared()
    snapshot, dropped = query.snapshot(), [query.snapshot()]
    expected, handle = count_rows(snapshot), share(query)
    refused: list[Callable[[], Any]] = [
        lambda: engine.apply([("+", 1, P, 2)]), query.snapshot, lambda: list(snapshot),
        lambda: engine.hold("a"), engine.metrics, lambda: engine.register(PATHS), snapshot.share,
        lambda: snapshot._version.scan(next(iter(snapshot._version.members))),
        lambda: snapshot[0:2],
    ]  # fmt: skip

    def misuse() -> list[str]:
        dropped.clear()
        gc.collect()
        found = []
        for each in refused:
            try:
                each()
            except Exception as problem:
                found.append(f"{type(problem).__name__}: {problem}")
        snapshot.close()
        engine.close()
        return found

    problems = run_forked(misuse)
    assert len(problems) == len(refused), problems
    kinds = {each.split(":")[0] for each in problems}
    assert kinds == {"StateError", "SnapshotExpired", "VersionGone"}
    assert "belongs to process" in problems[0]

    def read() -> Rows:
        handle.close()  # no effect here
        with handle.open() as opened:
            return count_rows(opened)

    replace_all(engine, query)
    assert run_forked(read) == expected
    assert count_rows(snapshot) == expected
    assert len(engine.metrics()["pins"]) == 3
    handle.close()
    snapshot.close()
    dropped.clear()
    assert is_released(engine)
    engine._store.check()
    engine._dictionary.check()


def test_a_process_forked_from_a_reader_does_not_pin():
    engine, query = make_shared()
    with start_process() as process:
        with share(query) as handle:
            process.ask(open_handle, handle)
        problem = process.ask(fork_and_wait)
        assert "was opened by the process that this one was forked from" in problem
        assert len(process.ask(read_opened)) == 100
        process.ask(close_opened)
        assert is_released(engine)
