"""The first compilation by two processes, where there are two cores.

Compiled code is kept on disk, where the other process finds it. A helper compiles the largest
kernels by their signatures, before anybody calls them; this process compiles others meanwhile, and
waits for those that it needs to continue.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import Any

from numba import types

from triegs.jit.sources import PACKAGE
from triegs.maintain.kernels.entries import sort_by_label
from triegs.maintain.kernels.fill import fill_index, fill_tuples, move_pairs
from triegs.maintain.kernels.morsels import run_worker
from triegs.maintain.kernels.program import run_epoch
from triegs.read.kernels.answers import fill_answers
from triegs.read.kernels.changes import fill_changes
from triegs.read.kernels.positions import pick_answers, seek_answer
from triegs.reason.kernels.closure import run_closure
from triegs.store.kernels.workers import (
    abort_worker,
    count_held,
    drop_stripes,
    end_worker,
    equip_worker,
    make_pages,
    release_worker,
    settle_worker,
)

TYPES: dict[str, Any] = {
    "Words": types.int64[::1], "Ids": types.int32[::1], "Pairs": types.int64[:, ::1],
    "Bytes": types.uint8[::1], "int": types.int64, "bool": types.boolean,
}  # fmt: skip
#: What the helper compiles, in this order, and after which of them this process goes on.
HELPED: tuple[Any, ...] = (run_epoch,)
AWAITED: Any = run_epoch
OWN: tuple[Any, ...] = (
    fill_answers, fill_changes, fill_index, move_pairs, fill_tuples, pick_answers, seek_answer,
    run_closure,
)  # fmt: skip
#: What only engines with several workers call from Python.
WORKERS: tuple[Any, ...] = (
    run_worker, sort_by_label, make_pages, equip_worker, end_worker, release_worker, abort_worker,
    settle_worker, count_held, drop_stripes,
)  # fmt: skip


def find_types(kernel: Any) -> list[tuple[Any, ...]]:
    """The types that a kernel of words and numbers is called with, by its annotations: `Numbers`
    are either all ids or all words.
    """
    names = [each.annotation for each in signature(kernel.py_func).parameters.values()]
    kinds = ("Ids", "Words") if "Numbers" in names else ("Words",)
    return [tuple(TYPES[kind if name == "Numbers" else name] for name in names) for kind in kinds]


def compile_now(kernel: Any) -> None:
    """Load the code of a kernel from the disk, or compile it and store it there."""
    for found in find_types(kernel):
        kernel.compile(found)


class Helper:
    """A process that compiles `HELPED`, and names each when it is done."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait(self) -> None:
        """Do this process's share, then wait for what it needs next, or for the helper's end."""
        for kernel in OWN:
            compile_now(kernel)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == AWAITED.__name__:
                return


@contextmanager
def helped() -> Iterator[Helper | None]:
    """A running helper, or None where there is one core or no interpreter to start.

    If the helper fails, only time is lost: what it leaves is compiled here.
    """
    process = None
    if count_cores() > 1 and Path(sys.executable or "").name.startswith("python"):
        path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.getenv("PYTHONPATH")])])
        with suppress(OSError):
            process = subprocess.Popen(
                [sys.executable, "-m", "triegs.engine.ahead"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                encoding="utf-8", env=os.environ | {"PYTHONPATH": path},
            )  # fmt: skip
    try:
        yield None if process is None else Helper(process)
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def count_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    for each in HELPED:
        compile_now(each)
        sys.stdout.write(f"{each.__name__}\n")
        sys.stdout.flush()
