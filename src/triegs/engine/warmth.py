"""The first compilation on a machine: it happens once, in one go, and is announced.

Compiled code is kept in `triegs.jit.jit.CACHE`, or came with the package. A mark beside it says
that all of it is there; without the mark `warm_up` calls everything once, with a message before and
one after. Both are in a folder named by everything that compiled code depends on, so a later
process says nothing, and one on another kind of processor says why it takes long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from triegs.jit.jit import CACHE, COMPILED, FOLDERS

log = logging.getLogger("triegs")
START = "compiling the kernels of triegs, once on this machine: one to two minutes …"
END = "compiled in %.0f s; kept in %s"
UNKEPT = (
    "compiling the kernels of triegs as they are called, two minutes in all; the next "
    "process will do so again, because no cache directory is writable (TRIEGS_CACHE names one)"
)
START_WORKERS = "compiling the kernels of several workers, once on this machine: about a minute …"
MARK, WORKERS_MARK = "all", "workers"


def find_mark(name: str = MARK) -> Path | None:
    """The file that says that all kernels are compiled, or those of several workers; None where
    nothing can be kept.
    """
    kept = [folder / name for folder in FOLDERS]
    return next((mark for mark in kept if mark.exists()), CACHE and CACHE / name)


def is_warm() -> bool:
    """Whether every kernel of this code is compiled already, for this machine."""
    mark = find_mark()
    return not COMPILED or (mark is not None and mark.exists())


def warm_up(exercise: Callable[[Callable[[], None]], object]) -> None:
    """See to it that all kernels are compiled: `exercise` calls each of them once. Before it calls
    the large ones it calls what it is given, which waits for those that a second process compiles.

    The first call of a process does it, if no process before has; any other costs nothing. Where
    nothing can be kept, kernels are compiled as they are called.
    """
    if _began:
        return
    _began.append(True)  # `exercise` may come here again
    if is_warm():
        return
    mark = find_mark()
    if mark is None:
        log.warning(UNKEPT)
        return
    log.warning(START)
    start = time.monotonic()
    from triegs.engine.ahead import helped  # it knows the kernels, which know this package

    with helped() as helper:
        exercise(nothing if helper is None else helper.wait)
    mark.touch()
    log.warning(END, time.monotonic() - start, mark.parent)


def warm_up_workers() -> None:
    """See to it that the kernels are compiled that only engines with several workers call."""
    mark = find_mark(WORKERS_MARK)
    if not COMPILED or mark is None or mark.exists():
        return
    log.warning(START_WORKERS)
    start = time.monotonic()
    from triegs.engine.ahead import WORKERS, compile_now

    for kernel in WORKERS:
        compile_now(kernel)
    mark.touch()
    log.warning(END, time.monotonic() - start, mark.parent)


def nothing() -> None:
    """What there is to wait for without a helper."""


_began: list[bool] = []
