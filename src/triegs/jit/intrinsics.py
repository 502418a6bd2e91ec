"""Machine instructions that Python has no operator for, written in LLVM IR.

`triegs.jit.words` gives each one its type and a Python equivalent; use them from there.
"""

from __future__ import annotations

import platform
from functools import partial
from itertools import pairwise
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

WORD, HALF, BYTES = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
FALSE = ir.Constant(ir.IntType(1), 0)
#: The numbers that `spread` and `copy_wide` write at once.
WIDE = 8
READ, KEEP, DATA = (ir.Constant(ir.IntType(32), value) for value in (0, 3, 1))


@intrinsic
def trailing_zeros(_typing: Any, _word: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], FALSE)

    return types.int64(types.int64), build


@intrinsic
def population(_typing: Any, _word: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), build


def define_checked(operation: str) -> Any:
    """An arithmetic operation that also reports overflow."""

    @intrinsic
    def checked(_typing: Any, _a: Any, _b: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            both = getattr(builder, operation)(args[0], args[1])
            pair = (builder.extract_value(both, 0), builder.extract_value(both, 1))
            return context.make_tuple(builder, signature.return_type, pair)

        result: Any = types.Tuple((types.int64, types.boolean))  # type: ignore[no-untyped-call]
        return result(types.int64, types.int64), build

    return checked


def build_ticks(builder: Any, machine: str) -> Any:
    """A counter that runs at a constant rate; 0 on a processor without one for programs."""
    if machine in ("x86_64", "amd64"):
        # LLVM has no other name for it, and on other processors it is a privileged instruction.
        read = builder.module.declare_intrinsic(
            "llvm.readcyclecounter", (), ir.FunctionType(WORD, [])
        )
        return builder.call(read, [])
    if machine in ("aarch64", "arm64"):
        # Not as assembly, for which Numba loads no parser: LLVM would end the process.
        counter = builder.module.add_metadata([ir.MetaDataString(builder.module, "cntvct_el0")])
        read = builder.module.declare_intrinsic(
            "llvm.read_volatile_register", [WORD], ir.FunctionType(WORD, [ir.MetaDataType()])
        )
        return builder.call(read, [counter])
    return ir.Constant(WORD, 0)


@intrinsic
def read_ticks(_typing: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        return build_ticks(builder, platform.machine().lower())

    return types.int64(), build


checked_add = define_checked("sadd_with_overflow")
checked_subtract = define_checked("ssub_with_overflow")
checked_multiply = define_checked("smul_with_overflow")


@intrinsic
def move_words(_typing: Any, words: Any, _target: Any, _source: Any, _count: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        to = builder.bitcast(builder.gep(array.data, [args[1]]), BYTES)
        start = builder.bitcast(builder.gep(array.data, [args[2]]), BYTES)
        copy = builder.module.declare_intrinsic("llvm.memcpy", [BYTES, BYTES, WORD])
        size = builder.shl(args[3], ir.Constant(WORD, 3))
        builder.call(copy, [to, start, size, FALSE])
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, types.int64), build


@intrinsic
def prefetch(_typing: Any, words: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(array.data, [args[1]]), BYTES)
        kind = ir.FunctionType(ir.VoidType(), [BYTES, READ.type, KEEP.type, DATA.type])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [BYTES], kind)
        builder.call(ask, [pointer, READ, KEEP, DATA])
        return context.get_dummy_value()

    return types.void(words, types.int64), build


def point_half(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """The address of half a word."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, HALF.as_pointer()), [at])


def load_halves(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    pointer = point_half(context, builder, kind, array, at)
    vector = builder.load(builder.bitcast(pointer, ir.VectorType(HALF, WIDE).as_pointer()))
    vector.align = 4
    return vector


@intrinsic
def fetch_half(_typing: Any, words: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = point_half(context, builder, signature.args[0], args[0], args[1])
        return builder.zext(builder.load(pointer), WORD)

    return types.int64(words, types.int64), build


@intrinsic
def put_half(_typing: Any, words: Any, _at: Any, _half: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = point_half(context, builder, signature.args[0], args[0], args[1])
        builder.store(builder.trunc(args[2], HALF), pointer)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), build


@intrinsic
def match_halves(_typing: Any, words: Any, _at: Any, _half: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = load_halves(context, builder, signature.args[0], args[0], args[1])
        half = builder.trunc(args[2], HALF)
        wanted = ir.Constant(vector.type, ir.Undefined)
        for lane in range(WIDE):
            wanted = builder.insert_element(wanted, half, ir.Constant(HALF, lane))
        found = builder.bitcast(builder.icmp_signed("==", vector, wanted), ir.IntType(WIDE))
        return builder.zext(found, WORD)

    return types.int64(words, types.int64, types.int64), build


@intrinsic
def widen_halves(_typing: Any, out: Any, _to: Any, words: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = load_halves(context, builder, signature.args[2], args[2], args[3])
        target = point(context, builder, signature.args[0], args[0], args[1])
        builder.store(builder.zext(vector, target.type.pointee), target).align = 8
        return context.get_dummy_value()

    return types.void(out, types.int64, words, types.int64), build


def point(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """The address of some adjacent numbers of an array, as one of a vector."""
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(data.type.pointee, WIDE)
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


@intrinsic
def spread(_typing: Any, numbers: Any, _at: Any, _number: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = point(context, builder, signature.args[0], args[0], args[1])
        number = context.cast(builder, args[2], types.int64, signature.args[0].dtype)
        vector = ir.Constant(pointer.type.pointee, ir.Undefined)
        for lane in range(WIDE):
            vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), lane))
        builder.store(vector, pointer).align = signature.args[0].dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(numbers, types.int64, types.int64), build


@intrinsic
def copy_wide(_typing: Any, numbers: Any, _to: Any, source: Any, _start: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = signature.args[0].dtype.bitwidth // 8
        target = point(context, builder, signature.args[0], args[0], args[1])
        start = point(context, builder, signature.args[2], args[2], args[3])
        vector = builder.load(start)
        vector.align = size
        builder.store(vector, target).align = size
        return context.get_dummy_value()

    return types.void(numbers, types.int64, source, types.int64), build


@intrinsic
def release_lock(_typing: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        save = declare(builder, "PyEval_SaveThread", ir.FunctionType(BYTES, []))
        return builder.ptrtoint(builder.call(save, []), WORD)

    return types.int64(), build


@intrinsic
def take_lock(_typing: Any, _state: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        restore = declare(builder, "PyEval_RestoreThread", ir.FunctionType(ir.VoidType(), [BYTES]))
        builder.call(restore, [builder.inttoptr(args[0], BYTES)])
        return context.get_dummy_value()

    return types.void(types.int64), build


def declare(builder: Any, name: str, kind: Any) -> Any:
    """A function of the interpreter, which the linker finds by its name."""
    found = builder.module.globals.get(name)
    return ir.Function(builder.module, kind, name) if found is None else found


def can_multiply_polynomials() -> bool:
    """Whether the processor that code is made for multiplies polynomials, of which a checksum is
    made ten times as fast as of tables.
    """
    config: Any = numba.config  # its attributes are created at run time
    if config.CPU_FEATURES is not None:
        return "+pclmul" in config.CPU_FEATURES.split(",")
    return bool(binding.get_host_cpu_features().get("pclmul", False))


class Folding:
    """The CRC-32 of zlib by products of polynomials, after Gopal et al., "Fast CRC computation for
    generic polynomials using PCLMULQDQ instruction", 2009; the constants are theirs.

    Four blocks of 16 bytes are carried along, each times x to a power, modulo the polynomial.
    """

    LANES = 4
    PAIR = ir.VectorType(WORD, 2)
    FAR, NEAR = (0x154442BD4, 0x1C6E41596), (0x1751997D0, 0x0CCAA009E)
    LAST, POLYNOMIAL = (0x163CD6124, 0), (0x1DB710641, 0x1F7011641)
    LOW = 0xFFFF_FFFF

    def __init__(self, builder: Any, start: Any) -> None:
        self._builder = builder
        self._start = start
        kind = ir.FunctionType(self.PAIR, [self.PAIR, self.PAIR, ir.IntType(8)])
        self._instruction = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind)

    def multiply(self, block: Any, factors: tuple[int, int], halves: int) -> Any:
        """A half of a block times a factor: bits 0 and 4 of `halves` say which ones."""
        chosen = ir.Constant(ir.IntType(8), halves)
        return self._builder.call(
            self._instruction, [block, ir.Constant(self.PAIR, factors), chosen]
        )

    def load(self, at: Any) -> Any:
        """The block at an offset."""
        pointer = self._builder.inttoptr(self._builder.add(self._start, at), BYTES)
        block = self._builder.load(self._builder.bitcast(pointer, self.PAIR.as_pointer()))
        block.align = 8
        return block

    def fold(self, block: Any, factors: tuple[int, int], more: Any) -> Any:
        """A block that is carried on, plus the one there."""
        low = self.multiply(block, factors, 0x00)
        high = self.multiply(block, factors, 0x11)
        return self._builder.xor(self._builder.xor(low, high), more)

    def shift(self, block: Any, bits: int) -> Any:
        """To the right."""
        whole = self._builder.bitcast(block, ir.IntType(128))
        move = self._builder.lshr if bits > 0 else self._builder.shl
        shifted = move(whole, ir.Constant(whole.type, abs(bits)))
        return self._builder.bitcast(shifted, self.PAIR)

    def reduce(self, block: Any) -> Any:
        """The remainder of a block."""
        builder, mask = self._builder, ir.Constant(self.PAIR, (self.LOW, self.LOW))
        block = builder.xor(self.shift(block, 64), self.multiply(block, self.NEAR, 0x10))
        low = self.multiply(builder.and_(block, mask), self.LAST, 0x00)
        block = builder.xor(self.shift(block, 32), low)
        quotient = self.multiply(builder.and_(block, mask), self.POLYNOMIAL, 0x10)
        product = self.multiply(builder.and_(quotient, mask), self.POLYNOMIAL, 0x00)
        pair = builder.extract_element(builder.xor(block, product), ir.Constant(HALF, 0))
        return builder.lshr(pair, ir.Constant(WORD, 32))

    def build(self, size: Any) -> Any:
        """The checksum of a number of bytes that is a multiple of 8, and at least 16."""
        builder = self._builder
        word = partial(ir.Constant, WORD)
        make: Any = cgutils.alloca_once  # untyped
        blocks = [make(builder, self.PAIR) for _ in range(self.LANES)]
        # The first bits are inverted; those of the result are, too.
        first = builder.xor(self.load(word(0)), ir.Constant(self.PAIR, (self.LOW, 0)))
        # Zeros before the first word change nothing: one, if the number of words is odd, and whole
        # blocks, if there are few.
        is_odd = builder.trunc(builder.lshr(size, word(3)), ir.IntType(1))
        first = builder.select(is_odd, self.shift(first, -64), first)
        at = builder.select(is_odd, word(8), word(16))
        is_short = builder.icmp_unsigned("<", size, word(16 * self.LANES))
        zeros = ir.Constant(self.PAIR, (0, 0))
        ahead = [first]
        for lane in range(1, self.LANES):
            offset = builder.add(at, word(16 * (lane - 1)))
            ahead.append(self.load(builder.select(is_short, word(0), offset)))
        alone = [zeros] * (self.LANES - 1) + [first]
        for block, short, long in zip(blocks, alone, ahead, strict=True):
            builder.store(builder.select(is_short, short, long), block)
        begin = builder.select(is_short, at, builder.add(at, word(16 * (self.LANES - 1))))
        rounds = builder.lshr(builder.sub(size, begin), word(6))
        end = builder.add(begin, builder.shl(rounds, word(6)))
        with cgutils.for_range_slice(builder, begin, end, word(64), WORD) as (offset, _):
            for lane, block in enumerate(blocks):
                more = self.load(builder.add(offset, word(16 * lane)))
                builder.store(self.fold(builder.load(block), self.FAR, more), block)
        for block, following in pairwise(blocks):
            carried = self.fold(builder.load(block), self.NEAR, builder.load(following))
            builder.store(carried, following)
        with cgutils.for_range_slice(builder, end, size, word(16), WORD) as (offset, _):
            carried = self.fold(builder.load(blocks[-1]), self.NEAR, self.load(offset))
            builder.store(carried, blocks[-1])
        return builder.xor(self.reduce(builder.load(blocks[-1])), word(self.LOW))


@intrinsic
def checksum_bytes(_typing: Any, _function: Any, _start: Any, _size: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        function, start, size = args
        if can_multiply_polynomials():
            return Folding(builder, start).build(size)
        kind = ir.FunctionType(WORD, [WORD, BYTES, HALF])
        given = [ir.Constant(WORD, 0), builder.inttoptr(start, BYTES), builder.trunc(size, HALF)]
        return builder.call(builder.inttoptr(function, kind.as_pointer()), given)

    return types.int64(types.int64, types.int64, types.int64), build


@intrinsic
def call_write(
    _typing: Any, _function: Any, _file: Any, _start: Any, _size: Any, _offset: Any
) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(WORD, [HALF, BYTES, WORD, WORD])
        function = builder.inttoptr(args[0], kind.as_pointer())
        file = builder.trunc(args[1], HALF)
        return builder.call(function, [file, builder.inttoptr(args[2], BYTES), args[3], args[4]])

    return types.int64(*[types.int64] * 5), build


def define_view(element: Any, is_readonly: bool = True) -> Any:
    """The memory at an address as an array of so many elements, which it does not own."""
    kind: Any = types.Array(element, 1, "C", readonly=is_readonly)

    @intrinsic
    def view(_typing: Any, _address: Any, _size: Any) -> Any:
        def build(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            width = context.get_constant(types.intp, element.bitwidth // 8)
            data = builder.inttoptr(args[0], array.data.type)
            populate: Any = populate_array  # untyped
            populate(array, data, [args[1]], [width], width, None)
            return array._getvalue()

        return kind(types.int64, types.int64), build

    return view


view_bytes = define_view(types.uint8)
view_signs = define_view(types.int8)
view_halves = define_view(types.int32)
view_words = define_view(types.int64)
edit_words = define_view(types.int64, is_readonly=False)
edit_halves = define_view(types.int32, is_readonly=False)
edit_bytes = define_view(types.uint8, is_readonly=False)


# Words that several threads use at the same time. All of them keep the order of memory accesses.


def point_word(context: Any, builder: Any, kind: Any, words: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, words).data, [at])


def define_exchange(operation: str) -> Any:
    """Change a word in one indivisible step; the result is the word before."""

    @intrinsic
    def exchange(_typing: Any, words: Any, _at: Any, _word: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = point_word(context, builder, signature.args[0], args[0], args[1])
            return builder.atomic_rmw(operation, pointer, args[2], "seq_cst")

        return types.int64(words, types.int64, types.int64), build

    return exchange


swap_shared = define_exchange("xchg")
add_shared = define_exchange("add")


@intrinsic
def load_shared(_typing: Any, words: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = point_word(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(words, types.int64), build


@intrinsic
def give_way(_typing: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        call = declare(builder, "sched_yield", ir.FunctionType(HALF, []))
        return builder.sext(builder.call(call, []), WORD)

    return types.int64(), build
