"""How every kernel is compiled, and where compiled code is kept.

Three decorators: `kernel` for functions that stand alone, `short_kernel` for those that are done at
once, `inlined` for the small ones that must vanish into their callers. Only a `kernel` releases the
interpreter's lock when Python calls it. All leave plain Python where `NUMBA_DISABLE_JIT=1` is set.

Numba looks only at the file of a function to see whether its cached code is stale. A change to what
the function calls would go unseen, and the old code would give wrong answers. So the directory of
the cache is named by a hash over the sources of all kernels and the switches that Numba forgets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import overload

Function = TypeVar("Function", bound=Callable[..., Any])

config: Any = numba.config  # its names are made at run time
unliteral: Any = numba.types.unliteral
COMPILED = not config.DISABLE_JIT
BOUNDS_CHECKED = bool(config.BOUNDSCHECK)
PACKAGE = Path(__file__).parents[1]
UNUSED_SECONDS = 30 * 24 * 3600


def list_sources(package: Path = PACKAGE) -> Iterator[Path]:
    """The files whose code may end up in a kernel: this folder, and whoever names this module."""
    for path in sorted(package.rglob("*.py")):
        if path.parent.name in ("kernels", "jit") or b"triegs.jit.jit" in path.read_bytes():
            yield path


def hash_sources(package: Path = PACKAGE) -> str:
    digest = blake2b(digest_size=8)
    digest.update(b"bounds checked" if BOUNDS_CHECKED else b"")
    for path in list_sources(package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def list_cache_homes() -> Iterator[Path]:
    """Where the cache may lie, the first choice first."""
    if chosen := os.environ.get("TRIEGS_CACHE"):
        yield Path(chosen)
    if standard := os.environ.get("XDG_CACHE_HOME"):
        yield Path(standard) / "triegs"
    with suppress(RuntimeError):  # no home: a container without a user entry
        yield Path.home() / ".cache" / "triegs"
    who = os.getuid() if hasattr(os, "getuid") else "user"
    yield Path(tempfile.gettempdir()) / f"triegs-{who}"


def find_cache() -> Path | None:
    """The directory for this very code, made if need be; None where nothing is writable."""
    name = hash_sources()
    for home in list_cache_homes():
        folder = home / "kernels" / name
        try:
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                os.utime(folder)  # used today
        except OSError:
            continue
        if is_new:
            remove_unused(folder.parent)
        return folder
    return None


def remove_unused(folder: Path) -> None:
    """Remove the code of versions that nobody has run for long."""
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(old)


CACHE = find_cache() if COMPILED else None


# _nrt=False: array arguments are not reference counted inside kernels, which saves 10 to 20%. A
# kernel must therefore not make arrays.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compile_later(function: Function, **options: Any) -> Function:
    """Numba's dispatcher, which compiles on the first call, with the cache in `CACHE`."""
    before = config.CACHE_DIR
    try:
        # Numba reads this when a function is decorated, and offers no argument for it.
        config.CACHE_DIR = str(CACHE or "")
        compiled: Any = numba.njit(cache=CACHE is not None, **OPTIONS, **options)(function)
        compiled.get_call_template = forget_literals(compiled.get_call_template)
        return cast(Function, compiled)
    finally:
        config.CACHE_DIR = before


def forget_literals(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once for all numbers, not once for each constant that it is called with.

    That takes a third of the time to compile; a function that is inlined knows its constants still.
    """

    def get(args: Any, kws: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return get_call_template(tuple(map(unliteral, args)), plain)

    return get


def kernel(function: Function) -> Function:
    """Compile a function that other threads run beside, from Python or from other kernels."""
    return compile_later(function, nogil=True) if COMPILED else function


def short_kernel(function: Function) -> Function:
    """Compile a function so short that it keeps the interpreter's lock.

    To get a lock back that was released may take the switch interval of 5 ms, if another thread
    runs Python meanwhile.
    """
    return compile_later(function) if COMPILED else function


def merged(function: Function) -> Function:
    """Compile a function as a part of its only caller, instead of once by itself and once more
    within each that it is a part of.
    """
    return compile_later(function, inline="always") if COMPILED else function


def inlined(function: Function) -> Function:
    """Compile a small function into each of its callers; a call would cost more than its work."""
    return compile_later(function, forceinline=True) if COMPILED else function


def compiled_as(intrinsic: Any) -> Callable[[Function], Function]:
    """Let kernels use an intrinsic in the place of the Python function below, its twin."""

    def call_with_none() -> Any:
        return intrinsic()

    def call_with_one(a: Any) -> Any:
        return intrinsic(a)

    def call_with_two(a: Any, b: Any) -> Any:
        return intrinsic(a, b)

    def call_with_four(a: Any, b: Any, c: Any, d: Any) -> Any:
        return intrinsic(a, b, c, d)

    calls = {0: call_with_none, 1: call_with_one, 2: call_with_two, 4: call_with_four}
    options: Any = {**OPTIONS, "forceinline": True}

    def attach(twin: Function) -> Function:
        overload(twin, jit_options=options, strict=False)(lambda *types: calls[len(types)])
        return twin

    return attach
