"""How kernels are compiled, and where compiled code is cached.

There are three main decorators: `kernel` for standalone functions, `short_kernel` for functions
that return quickly, `inlined` for small ones that must be inlined into their callers. Only a
`kernel` releases the GIL when called from Python. With `NUMBA_DISABLE_JIT=1` all of them leave
plain Python functions.

Numba checks only the file of a function to decide whether its cached code is stale. It would miss a
change in a callee, and the old code would give wrong answers. So the cache directory is named by a
hash over the sources of all kernels and the switches that Numba ignores. Conversely, Numba rejects
cached code of a file that was moved or touched. Such a file has another directory, too, so that a
user is told that kernels are being compiled.
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

config: Any = numba.config  # its attributes are created at run time
unliteral: Any = numba.types.unliteral
COMPILED = not config.DISABLE_JIT
BOUNDS_CHECKED = bool(config.BOUNDSCHECK)
PACKAGE = Path(__file__).parents[1]
UNUSED_SECONDS = 30 * 24 * 3600


def list_sources(package: Path = PACKAGE) -> Iterator[Path]:
    """The files whose code may end up in a kernel: this folder, and all importers of this
    module.
    """
    for path in sorted(package.rglob("*.py")):
        if path.parent.name in ("kernels", "jit") or b"triegs.jit.jit" in path.read_bytes():
            yield path


def hash_sources(package: Path = PACKAGE) -> str:
    digest = blake2b(digest_size=8)
    digest.update(b"bounds checked" if BOUNDS_CHECKED else b"")
    for path in list_sources(package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def hash_files(package: Path = PACKAGE) -> str:
    """Where the sources are, and when they were written."""
    digest = blake2b(digest_size=8)
    for path in list_sources(package):
        digest.update(f"{path.resolve()}\0{path.stat().st_mtime_ns}\0".encode())
    return digest.hexdigest()


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
    name = f"{hash_sources()}-{hash_files()}"
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


# _nrt=False: array arguments are not reference counted inside kernels, which saves 10 to 20%. A
# kernel must therefore not create arrays.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compile_later(function: Function, **options: Any) -> Function:
    """Numba's dispatcher, which compiles on the first call and caches in `CACHE`."""
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
    """Compile a function once for all integers, not once per constant argument.

    This cuts compile time to a third; an inlined function still sees its constants.
    """

    def get(args: Any, kws: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return get_call_template(tuple(map(unliteral, args)), plain)

    return get


def kernel(function: Function) -> Function:
    """Compile a function that releases the GIL when called from Python; kernels may call it,
    too.
    """
    return compile_later(function, nogil=True) if COMPILED else function


def short_kernel(function: Function) -> Function:
    """Compile a function so short that it keeps the GIL.

    Reacquiring a released GIL may take the switch interval of 5 ms if another thread runs Python
    meanwhile.
    """
    return compile_later(function) if COMPILED else function


def merged(function: Function) -> Function:
    """Compile a function as part of its only caller, instead of once on its own and again inside
    each function that contains it.
    """
    return compile_later(function, inline="always") if COMPILED else function


def inlined(function: Function) -> Function:
    """Inline a small function into each of its callers; a call would cost more than its work."""
    return compile_later(function, forceinline=True) if COMPILED else function


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

    calls = {
        0: call_with_none, 1: call_with_one, 2: call_with_two, 3: call_with_three,
        4: call_with_four,
    }  # fmt: skip
    options: Any = {**OPTIONS, "forceinline": True}

    def attach(twin: Function) -> Function:
        overload(twin, jit_options=options, strict=False)(lambda *types: calls[len(types)])
        return twin

    return attach
