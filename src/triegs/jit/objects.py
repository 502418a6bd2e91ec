"""Compiled kernels on disk: one file per kernel and signature, in a folder named by everything that
they depend on. A wheel may bring such a folder, made for a family of processors.

The name is a hash over the sources of all kernels, the versions of Python, NumPy, Numba and LLVM,
the processor, and the switches of Numba that change code. So what is in a folder fits this process
or the folder is another one; nothing is ever checked again or replaced. A file is written under
another name first, and carries a checksum, because a loss of power may leave any part of it.

Only entries from Python are kept. Their files hold machine code without the intermediate code that
Numba would add for callers.
"""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core import compiler, serialize

from triegs.jit.sources import PACKAGE, hash_sources

#: Switches that change the code of a kernel.
SWITCHES = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX",
    "ENABLE_PROFILING", "DISABLE_INTEL_SVML", "LLVM_REFPRUNE_PASS", "EXTEND_VARIABLE_LIFETIMES",
)  # fmt: skip
config: Any = numba.config
# Numba's inner names have no complete types.
CompileResult: Any = compiler.CompileResult
dumps: Any = serialize.dumps


#: The family of processors that a wheel is compiled for: x86-64-v3, which is Intel's from 2013 and
#: AMD's from 2015, with AVX2. All of them multiply polynomials, too, although v3 does not say so.
SHIPPED_NAME = "x86-64-v3"
SHIPPED_FEATURES = (
    "64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt",
    "mmx", "movbe", "pclmul", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3",
    "xsave",
)  # fmt: skip
SHIPPED = PACKAGE / "compiled"


def describe_platform() -> dict[str, str]:
    """All that compiled code depends on, but for the sources and the processor."""
    llvm = ".".join(map(str, binding.llvm_version_info))
    return {
        "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": f"{llvmlite.__version__} of LLVM {llvm}",
        "triple": binding.get_process_triple(),
        "switches": " ".join(f"{name}={getattr(config, name, None)}" for name in SWITCHES),
    }


def describe_processor() -> str:
    """The processor that Numba compiles for."""
    name = config.CPU_NAME or binding.get_host_cpu_name()
    features = config.CPU_FEATURES
    return f"{name} {binding.get_host_cpu_features().flatten() if features is None else features}"


def list_target_settings() -> dict[str, str]:
    """The environment in which Numba compiles for the processors of a wheel."""
    features = ",".join(f"+{name}" for name in SHIPPED_FEATURES)
    return {"NUMBA_CPU_NAME": SHIPPED_NAME, "NUMBA_CPU_FEATURES": features}


def name_folder(processor: str) -> str:
    """The name of the folder for this process, were it to run on such a processor."""
    parts = [hash_sources(), processor, *(f"{k}={v}" for k, v in describe_platform().items())]
    return blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def find_shipped(shipped: Path = SHIPPED, features: Mapping[str, bool] | None = None) -> list[Path]:
    """The folder that came with the package, if there is one and it fits: these sources, versions
    and switches, and a processor with all features that its code may use.
    """
    if not shipped.is_dir():
        return []
    if features is None:
        features = binding.get_host_cpu_features()
    folder = shipped / name_folder(" ".join(list_target_settings().values()))
    fits = folder.is_dir() and all(features.get(name, False) for name in SHIPPED_FEATURES)
    return [folder] if fits else []


class Objects:
    """The compiled code of one kernel, as `Dispatcher` of Numba wants it: the interface of Numba's
    own cache.
    """

    def __init__(
        self, function: Callable[..., Any], folders: list[Path], written: Path | None
    ) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}".removeprefix("triegs.")
        self._folders, self._written = folders, written

    @property
    def cache_path(self) -> str | None:
        return None if self._written is None else str(self._written)

    def enable(self) -> None:
        """Nothing: it always is."""

    def disable(self) -> None:
        """Nothing: whoever wants no cache makes none."""

    def flush(self) -> None:
        """Nothing: what is kept cannot become stale."""

    def name_file(self, sig: Any) -> str:
        return f"{self._name}-{blake2b(str(sig).encode(), digest_size=6).hexdigest()}.o"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        name = self.name_file(sig)
        for folder in self._folders:
            with suppress(OSError):
                data = (folder / name).read_bytes()
                if zlib.crc32(data[4:]) == int.from_bytes(data[:4], "little") and len(data) > 4:
                    return load_result(target_context, pickle.loads(data[4:]))
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        if cres.lifted or cres.library.has_dynamic_globals:
            raise ValueError(f"{self._name} contains addresses of this process")
        if self._written is None:
            return
        data = dumps(reduce_result(cres))
        path = self._written / self.name_file(sig)
        temporary = path.with_suffix(f".{uuid4().hex}")
        with suppress(OSError):  # a full disk: compiled again by the next process
            try:
                temporary.write_bytes(zlib.crc32(data).to_bytes(4, "little") + data)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)


def reduce_result(cres: Any) -> tuple[Any, ...]:
    """What `load_result` needs. Numba's own `CompileResult._reduce` adds intermediate code."""
    library, about = cres.library, cres.fndesc
    about.typemap = about.calltypes = None  # large, and of no use any more
    module = library._final_module
    symbols: dict[bool, list[str]] = {True: [], False: []}
    for values in (module.functions, module.global_variables):
        for value in values:
            symbols[value.is_declaration].append(value.name)
    needed = [name for name in symbols[True] if not name.startswith("llvm.")]
    return (
        library.name, library._get_compiled_object(), symbols[False], needed, about,
        cres.environment, cres.signature, tuple(cres.reload_init),
        tuple(cres._find_referenced_environments()),
    )  # fmt: skip


def load_result(target: Any, data: tuple[Any, ...]) -> Any:
    """Make compiled code callable. Numba's own `CompileResult._rebuild` prepares to compile, which
    takes longer than all the rest.
    """
    name, code, symbols, needed, about, environment, signature, reload_init, environments = data
    for prepare in reload_init:
        prepare()
    if any(binding.address_of_symbol(each) is None for each in needed):
        target.refresh()
    codegen = target.codegen()
    library = codegen.create_library(name)
    library.enable_object_caching()
    library._set_compiled_object(code)
    library._finalize_final_module()
    codegen._engine._defined_symbols.update(symbols)
    entry = target.get_executable(library, about, environment)
    for each in environments:
        codegen.set_env(each.env_name, each)
    return CompileResult(
        typing_context=target.typing_context, target_context=target, entry_point=entry,
        typing_error=None, type_annotation="", signature=signature, objectmode=False, lifted=(),
        fndesc=about, library=library, call_helper=None, environment=environment, metadata=None,
        reload_init=list(reload_init), referenced_envs=environments,
    )  # fmt: skip
