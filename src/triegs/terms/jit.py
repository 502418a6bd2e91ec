"""Adds to `triegs.jit.jit`: hash arithmetic that wraps around silently."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from triegs.jit.jit import COMPILED, inlined

Function = TypeVar("Function", bound=Callable[..., Any])


def wrapping(function: Function) -> Function:
    """Inline arithmetic modulo 2**64. Uncompiled, NumPy would warn about each overflow."""
    if COMPILED:
        return inlined(function)

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return cast("Function", run)
