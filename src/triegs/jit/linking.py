"""Kernels as parts of other kernels, without machine code of their own.

Numba compiles a function to machine code with two wrappers as soon as another function calls it,
although the caller gets a copy of its own. A `LinkedDispatcher` stops before that: its functions
exist as optimised intermediate code, which only callers that are entered from Python turn into
machine code. Nothing of it is kept on disk, because whoever needs it compiles a caller.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

from numba import types
from numba.core import codegen, compiler, compiler_lock, inline_closurecall, registry, sigutils

# Numba's inner names have no complete types.
JITCodeLibrary: Any = codegen.JITCodeLibrary
Compiler: Any = compiler.Compiler
CPUDispatcher: Any = registry.CPUDispatcher
global_compiler_lock: Any = compiler_lock.global_compiler_lock
normalize_signature: Any = sigutils.normalize_signature
unliteral: Any = types.unliteral


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Intermediate code that callers link into theirs; the engine never sees it."""

    def _optimize_final_module(self) -> None:
        # Only what makes a function small. The rest is done once, in the callers; before, it was a
        # quarter of the time to compile.
        found = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        # Older versions of Numba need no builder to run the passes.
        passes, *builder = found if isinstance(found, tuple) else (found,)
        passes.run(self._final_module, *builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class LinkedCompiler(Compiler):  # type: ignore[misc]
    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any
    ) -> None:
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = LinkedLibrary(target.codegen(), "linked")
        super().__init__(typing, target, library, args, result, flags, names)


class LinkedDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that other kernels call. Compiled once for all integers, not once per constant
    argument; an inlined function still sees its constants.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=LinkedCompiler)

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock, self._compiling_counter:
            args, result = normalize_signature(sig)
            found = self.overloads.get(tuple(args))
            if found is None:
                compiled = self._compiler.compile(args, result)
                key = object()  # callers find the code by it, in place of a Python function
                self.targetctx.insert_user_function(key, compiled.fndesc, [compiled.library])
                found = self.overloads[tuple(args)] = compiled._replace(entry_point=key)
            return found.entry_point

    def get_call_template(self, args: Any, kws: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(unliteral, args)), plain)


class BlockCopies:
    """Copies of blocks, in place of the module `copy` in Numba's inliner.

    A block refers to the scope of its function, which has all of its variables. Numba copies block
    by block, each time with the scope, which is a fifth of the time to compile. Here the blocks of
    one copy share theirs, as those of the function do.
    """

    def __init__(self) -> None:
        self._scope: Any = None
        self._copied: dict[int, Any] = {}

    def deepcopy(self, block: Any) -> Any:
        if block.scope is not self._scope or id(block) in self._copied:  # another copy begins
            self._scope, self._copied = block.scope, {}
        return copy.deepcopy(block, self._copied)


@contextmanager
def shared_scopes() -> Iterator[None]:
    """Have Numba copy each scope once; only while its lock for compilation is held."""
    inliner: Any = inline_closurecall
    before, inliner.copy = inliner.copy, BlockCopies()
    try:
        yield
    finally:
        inliner.copy = before


class EntryDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls. Other kernels call its linked twin."""

    _linked: LinkedDispatcher | None = None

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock, shared_scopes():
            return super().compile(sig)

    @property
    def linked(self) -> LinkedDispatcher:
        if self._linked is None:
            self._linked = LinkedDispatcher(self.py_func, self.targetoptions)
        return self._linked

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self.linked.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self.linked.get_overload(sig)


class LinkedFunction:
    """A function that other kernels call, and Python only seldom: then it becomes an entry, too."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], make_entry: Callable[[], Any]
    ) -> None:
        update_wrapper(self, function)
        # Numba reads both names of what it inlines by itself.
        self.py_func, self.targetoptions = function, options
        self._make_entry = make_entry
        self._linked: LinkedDispatcher | None = None
        self._entry: Any = None

    @property
    def _numba_type_(self) -> Any:
        if self._linked is None:
            self._linked = LinkedDispatcher(self.py_func, self.targetoptions)
        return types.Dispatcher(self._linked)

    def __call__(self, *args: Any) -> Any:
        if self._entry is None:
            self._entry = self._make_entry()
        return self._entry(*args)
