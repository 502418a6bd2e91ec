"""The first compilation of a machine: what happens, and that it happens once."""

from __future__ import annotations

import logging
import time

from triegs.kernels.jit import CACHE, is_warm

log = logging.getLogger("triegs")


def warm_up() -> None:
    """Say so if the kernels of this version were never compiled on this machine.

    Compiling happens as kernels are first called, and takes less than a minute in all.
    """
    if is_warm() or _told:
        return
    _told.append(time.monotonic())
    where = f"kept in {CACHE}" if CACHE else "nothing is writable to keep it: see TRIEGS_CACHE"
    log.warning("compiling for the first time, which takes under a minute (%s)", where)


_told: list[float] = []
