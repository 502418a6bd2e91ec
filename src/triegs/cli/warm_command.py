"""Implementation of ``triegs warm``."""

from __future__ import annotations

from functools import partial

from triegs.cli.output import fail
from triegs.engine import Engine
from triegs.engine.exercise import call_everything
from triegs.engine.warmth import find_mark, warm_up, warm_up_workers
from triegs.events import open_input
from triegs.jit.jit import COMPILED


def run_warm() -> str:
    """Compile what is missing; returns where the cache is."""
    if not COMPILED:
        return "nothing to compile: NUMBA_DISABLE_JIT is set\n"
    mark = find_mark()
    if mark is None:
        fail("error: no writable cache directory; set TRIEGS_CACHE")
    warm_up(partial(call_everything, Engine, open_input))
    warm_up_workers()
    return f"all kernels are compiled in {mark.parent}\n"
