"""Kernels as templates: one compiled copy per operator.

A template is a function that uses the global names ``lift``, ``combine``, ``IDENTITY``, ``WIDTH``
and ``COMMUTATIVE``. `specialise` copies the templates of some modules with these names bound to an
operator. A call inside a template then goes to the copy of its callee. Copies differ in their
qualified name, by which Numba caches compiled code. Those of user-defined operators are not cached,
because nothing would notice a change of the user's code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, TypeVar

from triegs.aggregates.swag.operators import Operator, State
from triegs.jit.jit import COMPILED, make_entry, make_linked

Function = TypeVar("Function", bound=Callable[..., Any])

KERNEL: dict[str, Any] = {"nogil": True}
INLINED: dict[str, Any] = {"forceinline": True}

# What a template sees of its operator; each copy has the operator's own.
IDENTITY: State = (0,)
WIDTH = 1
COMMUTATIVE: bool = False


def lift(_value: Any) -> State:
    raise NotImplementedError("a template has no operator")


def combine(_a: State, _b: State) -> State:
    raise NotImplementedError("a template has no operator")


_options: dict[str, dict[str, dict[str, Any]]] = {}  # by module, then by function


def template(options: dict[str, Any]) -> Callable[[Function], Function]:
    """Mark a function as a template, to be compiled with these options."""

    def mark(function: Function) -> Function:
        _options.setdefault(function.__module__, {})[function.__name__] = options
        return function

    return mark


def compile_copy(function: Function, options: dict[str, Any], *, cached: bool) -> Function:
    if not COMPILED:
        return function
    make = make_linked if options is INLINED else make_entry
    return make(function, options, kept=cached)


def compile_part(function: Any, name: str, *, cached: bool) -> Any:
    """A function of the operator, inlined into each copy; one compiled already stays as it is."""
    if not isinstance(function, FunctionType):
        return function
    copy = FunctionType(function.__code__, function.__globals__, name, None, function.__closure__)
    copy.__qualname__ = name
    return compile_copy(copy, INLINED, cached=cached)


@cache
def specialise(
    operator: Operator, *modules: ModuleType, slots: int | None = None
) -> SimpleNamespace:
    """All templates of these modules for one operator. Compiles nothing before the first call.

    `slots` replaces the number of slots of a node, so that a test has deep trees of few events.
    """
    cached = operator.builtin
    suffix = operator.name if slots is None else f"{operator.name}_{slots}"
    made: dict[str, Any] = {
        "lift": compile_part(operator.lift, f"lift_{operator.name}", cached=cached),
        "combine": compile_part(operator.combine, f"combine_{operator.name}", cached=cached),
        "IDENTITY": operator.identity,
        "WIDTH": operator.width,
        "COMMUTATIVE": operator.commutative,
    }
    if slots is not None:
        made["SLOTS"] = slots
    spaces: list[dict[str, Any]] = []
    for module in modules:
        space = dict(vars(module))
        spaces.append(space)
        for name, options in _options.get(module.__name__, {}).items():
            copy = FunctionType(vars(module)[name].__code__, space, name)
            copy.__qualname__ = f"{name}_{suffix}"
            assert name not in made, f"two templates are named {name}"
            made[name] = compile_copy(copy, options, cached=cached)
    for space in spaces:
        space.update({name: value for name, value in made.items() if name in space})
    return SimpleNamespace(**made)
