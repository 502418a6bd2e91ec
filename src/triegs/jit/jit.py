"""How kernels are compiled, and where compiled code is kept.

There are three main decorators: `kernel` for functions that Python calls, `short_kernel` for those
that return quickly, `inlined` for small ones that must be inlined into their callers. Only a
`kernel` releases the GIL when called from Python. With `NUMBA_DISABLE_JIT=1` all of them leave
plain Python functions.

Kernels call each other without machine code of their own (`triegs.jit.linking`); what Python enters
is kept on disk (`triegs.jit.objects`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import overload

from triegs.jit.linking import EntryDispatcher, LinkedFunction
from triegs.jit.objects import Objects, describe_processor, find_shipped, name_folder

Function = TypeVar("Function", bound=Callable[..., Any])

config: Any = numba.config  # its attributes are created at run time
COMPILED = not config.DISABLE_JIT
BOUNDS_CHECKED = bool(config.BOUNDSCHECK)
UNUSED_SECONDS = 30 * 24 * 3600


def list_cache_homes() -> Iterator[Path]:
    """Candidate cache locations, in order of preference."""
    if chosen := os.environ.get("TRIEGS_CACHE"):
        yield Path(chosen)
    if standard := os.environ.get("XDG_CACHE_HOME"):
        yield Path(standard) / "triegs"
    with suppress(RuntimeError):  # no home directory: a container without a user entry
        yield Path.home() / ".cache" / "triegs"
    who = os.getuid() if hasattr(os, "getuid") else "user"
    yield Path(tempfile.gettempdir()) / f"triegs-{who}"


def find_cache() -> Path | None:
    """The cache directory for exactly this code, created if needed; None if nothing is writable."""
    name = name_folder(describe_processor())
    for home in list_cache_homes():
        folder = home / "kernels" / name
        try:
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                os.utime(folder)  # mark as used today
        except OSError:
            continue
        if is_new:
            remove_unused(folder.parent)
        return folder
    return None


def remove_unused(folder: Path) -> None:
    """Remove the code of versions that have not run for a long time."""
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(old)


CACHE = find_cache() if COMPILED else None
#: Where compiled code is looked for, in this order.
FOLDERS = [*find_shipped(), *([CACHE] if CACHE else [])] if COMPILED else []


# _nrt=False: array arguments are not reference counted inside kernels, which saves 10 to 20%. A
# kernel must therefore not create arrays.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
# No C function ever calls a kernel.
DECORATED: dict[str, Any] = {**OPTIONS, "nopython": True, "no_cfunc_wrapper": True}


def make_entry(
    function: Function, options: dict[str, Any] | None = None, *, kept: bool = True
) -> Function:
    """A function for Python to call, which is compiled on the first call and kept in `CACHE`."""
    entry = EntryDispatcher(function, targetoptions={**DECORATED, **(options or {})})
    if kept and FOLDERS:
        entry._cache = Objects(function, FOLDERS, CACHE)
    return cast(Function, entry)


def make_linked(function: Function, options: dict[str, Any], *, kept: bool = True) -> Function:
    """A function for kernels to call."""
    entry = partial(make_entry, function, options, kept=kept)
    return cast(Function, LinkedFunction(function, {**DECORATED, **options}, entry))


def kernel(function: Function) -> Function:
    """Compile a function that releases the GIL when called from Python; kernels may call it,
    too.
    """
    return make_entry(function, {"nogil": True}) if COMPILED else function


def short_kernel(function: Function) -> Function:
    """Compile a function so short that it keeps the GIL.

    Reacquiring a released GIL may take the switch interval of 5 ms if another thread runs Python
    meanwhile.
    """
    return make_entry(function) if COMPILED else function


def merged(function: Function) -> Function:
    """Compile a function as part of its only caller, instead of once on its own and again inside
    each function that contains it.
    """
    return make_linked(function, {"inline": "always"}) if COMPILED else function


def inlined(function: Function) -> Function:
    """Inline a small function into each of its callers; a call would cost more than its work."""
    return make_linked(function, {"forceinline": True}) if COMPILED else function


def compiled_as(intrinsic: Any) -> Callable[[Function], Function]:
    """Replace the Python function below by an equivalent intrinsic in compiled code."""

    def call_with_none() -> Any:
        return intrinsic()

    def call_with_one(a: Any) -> Any:
        return intrinsic(a)

    def call_with_two(a: Any, b: Any) -> Any:
        return intrinsic(a, b)

    def call_with_three(a: Any, b: Any, c: Any) -> Any:
        return intrinsic(a, b, c)

    def call_with_four(a: Any, b: Any, c: Any, d: Any) -> Any:
        return intrinsic(a, b, c, d)

    def call_with_five(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return intrinsic(a, b, c, d, e)

    calls = {
        0: call_with_none, 1: call_with_one, 2: call_with_two, 3: call_with_three,
        4: call_with_four, 5: call_with_five,
    }  # fmt: skip
    options: Any = {**OPTIONS, "forceinline": True}

    def attach(twin: Function) -> Function:
        overload(twin, jit_options=options, strict=False)(lambda *types: calls[len(types)])
        return twin

    return attach
