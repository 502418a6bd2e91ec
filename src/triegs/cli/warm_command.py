"""``triegs warm``: the first compilation, at a time of one's choosing."""

from __future__ import annotations

from functools import partial

from triegs.cli.output import fail
from triegs.engine import Engine
from triegs.exercise import call_everything
from triegs.inputs import open_input
from triegs.kernels.jit import COMPILED
from triegs.kernels.warmth import find_mark, warm_up


def run_warm() -> str:
    """Compile what is missing, and say where it is kept."""
    if not COMPILED:
        return "nothing to compile: NUMBA_DISABLE_JIT is set\n"
    mark = find_mark()
    if mark is None:
        fail("error: no cache directory is writable; TRIEGS_CACHE names one")
    warm_up(partial(call_everything, Engine, open_input))
    return f"all kernels are compiled, in {mark.parent}\n"
