"""Intrinsics against their Python twins."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triegs.jit.jit import kernel
from triegs.jit.words import (
    Words,
    bit,
    checked_add,
    checked_multiply,
    checked_subtract,
    copy_words,
    population,
    prefetch,
    trailing_zeros,
)

words = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-(2**33), 2**33)


@kernel
def run_trailing_zeros(word: int) -> int:
    return trailing_zeros(word)


@kernel
def run_population(word: int) -> int:
    return population(word)


@kernel
def run_add(a: int, b: int) -> tuple[int, bool]:
    return checked_add(a, b)


@kernel
def run_subtract(a: int, b: int) -> tuple[int, bool]:
    return checked_subtract(a, b)


@kernel
def run_multiply(a: int, b: int) -> tuple[int, bool]:
    return checked_multiply(a, b)


@kernel
def run_copy(array: Words, target: int, source: int, count: int) -> None:
    copy_words(array, target, source, count)


@given(words.filter(bool))
def test_bits(word: int) -> None:
    assert run_trailing_zeros(word) == trailing_zeros(word)
    assert run_population(word) == population(word) == (word & (2**64 - 1)).bit_count()
    assert word >> trailing_zeros(word) & 1


@given(st.one_of(words, small), st.one_of(words, small))
def test_arithmetic(a: int, b: int) -> None:
    for run, twin, exact in [
        (run_add, checked_add, a + b),
        (run_subtract, checked_subtract, a - b),
        (run_multiply, checked_multiply, a * b),
    ]:
        result, overflow = run(a, b)
        assert overflow == twin(a, b)[1] == (not -(2**63) <= exact < 2**63)
        if not overflow:
            assert result == twin(a, b)[0] == exact


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 10))
def test_copy(target: int, source: int, count: int) -> None:
    if abs(target - source) < count:
        return
    array = np.arange(40)
    expected = array.copy()
    expected[target : target + count] = array[source : source + count]
    run_copy(array, target, source, count)
    assert (array == expected).all()


def test_sign_bit() -> None:
    assert bit(63) == -(2**63)
    assert population(bit(63)) == 1


@kernel
def run_prefetch(array: Words, at: int) -> None:
    prefetch(array, at)


@given(words)
def test_prefetch_takes_any_index_and_changes_nothing(at: int) -> None:
    array = np.arange(8, dtype=np.int64)
    run_prefetch(array, at)
    assert array.tolist() == list(range(8))


#: A function that reads the ticks, as machine code for some processors.
TICKS = """
from llvmlite import binding, ir
from triegs.jit.intrinsics import WORD, build_ticks
binding.initialize_all_targets(), binding.initialize_all_asmprinters()
for machine in ("x86_64", "aarch64", "riscv64"):
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(WORD, []), "read")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(build_ticks(builder, machine))
    target = binding.Target.from_triple(f"{machine}-unknown-linux-gnu").create_target_machine()
    made = binding.parse_assembly(str(module))
    made.verify()
    assert target.emit_object(made)
    text = target.emit_assembly(made)
    print(machine, "rdtsc" in text, "CNTVCT_EL0" in text)
"""


def test_ticks_compile_for_every_processor() -> None:
    """In a process of its own: what LLVM cannot compile ends it."""
    done = subprocess.run(
        [sys.executable, "-c", TICKS], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "x86_64 True False",
        "aarch64 False True",
        "riscv64 False False",
    ]
