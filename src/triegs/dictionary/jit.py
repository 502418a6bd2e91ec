"""The one place where this package's kernels get their compiler flags.

Without compilation (``NUMBA_DISABLE_JIT=1``) a kernel is its Python function; 64-bit hashes wrap
around by design, so NumPy's warning about that is off inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first call, keep the machine code on disk, let other threads run meanwhile."""
    if numba.config.DISABLE_JIT:
        return _ignore_wrap_around(function)
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def part(function: F) -> F:
    """A small piece of a kernel, compiled into its callers."""
    if numba.config.DISABLE_JIT:
        return _ignore_wrap_around(function)
    return cast("F", numba.njit(cache=True, nogil=True, forceinline=True)(function))


def _ignore_wrap_around(function: F) -> F:
    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return cast("F", run)
