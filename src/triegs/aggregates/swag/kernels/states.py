"""States in an array of words: a tuple of integers and floats, one word each.

A float is stored by its bits. `like` is any state of the operator; it gives the types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from triegs.aggregates.swag.operators import State
from triegs.jit.jit import OPTIONS
from triegs.jit.words import Words

DOUBLE = ir.DoubleType()
OPTIONS_INLINED: Any = {**OPTIONS, "forceinline": True}


def point_to_words(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


@intrinsic
def read_words(_typing: Any, words: Any, _at: Any, like: Any) -> Any:
    kinds = [types.float64 if isinstance(kind, types.Float) else types.int64 for kind in like]
    result: Any = types.Tuple(kinds)  # type: ignore[no-untyped-call]

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = point_to_words(context, builder, signature.args[0], args[0], args[1])
        found = []
        for number, kind in enumerate(kinds):
            pointer = builder.gep(base, [ir.Constant(ir.IntType(64), number)])
            if kind == types.float64:
                pointer = builder.bitcast(pointer, DOUBLE.as_pointer())
            found.append(builder.load(pointer))
        return context.make_tuple(builder, result, found)

    return result(words, types.int64, like), build


@intrinsic
def write_words(_typing: Any, words: Any, _at: Any, state: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = point_to_words(context, builder, signature.args[0], args[0], args[1])
        for number, kind in enumerate(state):
            pointer = builder.gep(base, [ir.Constant(ir.IntType(64), number)])
            word = builder.extract_value(args[2], number)
            stored = types.float64 if isinstance(kind, types.Float) else types.int64
            word = context.cast(builder, word, kind, stored)
            if stored == types.float64:
                pointer = builder.bitcast(pointer, DOUBLE.as_pointer())
            builder.store(word, pointer)
        return context.get_dummy_value()

    return types.void(words, types.int64, state), build


def load_state(words: Words, at: int, like: State) -> State:
    """The state at an index; unchecked in compiled code."""
    return tuple(
        words[at + i].view(np.float64) if isinstance(word, float) else words[at + i]
        for i, word in enumerate(like)
    )


def store_state(words: Words, at: int, state: State) -> None:
    """Write a state at an index; unchecked in compiled code."""
    for i, word in enumerate(state):
        words[at + i] = np.float64(word).view(np.int64) if isinstance(word, float) else word


@overload(load_state, jit_options=OPTIONS_INLINED, strict=False)
def compile_load(_words: Any, _at: Any, _like: Any) -> Any:
    def call(_words: Any, _at: Any, _like: Any) -> Any:
        return read_words(_words, _at, _like)  # type: ignore[call-arg]

    return call


@overload(store_state, jit_options=OPTIONS_INLINED, strict=False)
def compile_store(_words: Any, _at: Any, _state: Any) -> Any:
    def call(_words: Any, _at: Any, _state: Any) -> Any:
        return write_words(_words, _at, _state)  # type: ignore[call-arg]

    return call
