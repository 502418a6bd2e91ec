"""From gathered levels to rows.

The levels of a query form a tree: the set of a level depends on values of its ancestors alone. They
are numbered depth first, so the levels below a level follow it, up to its *end*.

A *chunk* is some adjacent entries of one level, its *top*, and all entries of later levels that
belong to them, level by level, each set gathered once for its parent entry. A later level that is
not below the top is the same for all its entries. The rows of a chunk are, for each entry of the
top, the product of the *tables* below it: the table of a leaf is its entries; that of another level
is for each of its entries the product of the tables of its children. Tables are built from the
leaves up; the last product, which is most of the work, is written to the columns of the reader.

In a product, each value of a table is repeated for all combinations of later tables (*after*), and
all of these for each combination of earlier ones (*before*). Both are written as runs, `WIDE`
numbers at once, so that up to `WIDE` - 1 numbers after a run are overwritten. Rows are written in
their order, and all arrays have that much room at their end.

`scratch` has a cursor, two sections for the entries of the top, and for each level some words and
sections: ids, words and weights of its entries; by entry of the parent where its own begin, the
same in rows of the table, and *after*; by own entry where its rows begin; by row the products of
weights; by own entry the entry of the parent; and, for changes, words and weights in the other of
two versions. `shown` has three sections of columns for each level:
by entry what a column shows for its id, and by row of the table, from which it is copied to the
other one by a product.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import (
    WIDE,
    Numbers,
    Words,
    checked_multiply,
    copy_run,
    load,
    store,
    write_run,
)
from triegs.store.kernels.cursors import CURSOR_WORDS

# Of a row of levels, see `triegs.read.kernels.answers`.
COLUMN, PARENT, END = 4, 8, 9
LEVEL_WORDS = 12

# The maximum entries of a gathered level, and rows of a table.
CAPACITY = 1024
STRIDE = CAPACITY + 2 * WIDE
KEYS, WORDS, WEIGHTS, START, BEGIN, AFTER, ROWS, PRODUCTS, ABOVE, OTHERS, OTHER_WEIGHTS = range(11)
SECTIONS = 11
# Words of a level: its entries; whether a weight of its table is not one; where to find the rows
# that begin with an entry of the parent, and the products of weights; the section of its column;
# how many runs were written; where to find the rows that begin with an own entry.
FIRST, UNTIL, IS_HEAVY, BEGIN_AT, PRODUCTS_AT, SIDE, RUNS, ROWS_AT = range(8)
META_WORDS = 8
BEFORE_AT = CURSOR_WORDS
POSITIONS_AT = BEFORE_AT + STRIDE  # by entry of the top, the rows of the chunk before it
LEVELS_AT = POSITIONS_AT + STRIDE
BLOCK_WORDS = META_WORDS + SECTIONS * STRIDE
SIDES = 3
MANY = 1 << 40  # as good as too many


def scratch_words(levels: int) -> int:
    return LEVELS_AT + BLOCK_WORDS * levels


def shown_numbers(levels: int) -> int:
    return SIDES * STRIDE * levels


@inlined
def weigh(a: int, b: int) -> int:
    """The product of two multiplicities; negative if it does not fit, as are all products of it.

    Two factors that do not fit give a product that does not fit.
    """
    product, overflow = checked_multiply(a, b)
    return -1 if overflow or (a & b) < 0 else product


@inlined
def meta(level: int) -> int:
    return LEVELS_AT + BLOCK_WORDS * level


@inlined
def section(level: int, kind: int) -> int:
    return LEVELS_AT + BLOCK_WORDS * level + META_WORDS + STRIDE * kind


@inlined
def side_at(level: int, side: int) -> int:
    return STRIDE * (SIDES * level + side)


@inlined
def parent_of(levels: Words, level: int) -> int:
    return load(levels, LEVEL_WORDS * level + PARENT)


@inlined
def end_of(levels: Words, level: int) -> int:
    return load(levels, LEVEL_WORDS * level + END)


@inlined
def span_of(levels: Words, scratch: Words, top: int, level: int) -> tuple[int, int]:
    """The entries of a level's parent; a single one if that is above the chunk."""
    parent = parent_of(levels, level)
    if parent < top:
        return 0, 1
    return load(scratch, meta(parent) + FIRST), load(scratch, meta(parent) + UNTIL)


@inlined
def size_products(levels: Words, scratch: Words, top: int, level: int, last: int) -> None:
    """For each entry of a level the number of its rows, and how often those of each child are
    repeated. `last` is the end of its children, which for the top are all later levels.
    """
    first, until = load(scratch, meta(level) + FIRST), load(scratch, meta(level) + UNTIL)
    for entry in range(first, until):
        store(scratch, POSITIONS_AT + entry, 1)
    for back in range(last - 1 - level):
        child = last - 1 - back
        parent = parent_of(levels, child)
        if parent == level or parent < top:
            after = section(child, AFTER)
            begin, step = load(scratch, meta(child) + BEGIN_AT), 1 if parent == level else 0
            for entry in range(first, until):
                times = load(scratch, POSITIONS_AT + entry)
                at = begin + step * entry
                store(scratch, after + entry, times)
                times *= load(scratch, at + 1) - load(scratch, at)
                store(scratch, POSITIONS_AT + entry, min(times, MANY))


@kernel
def spread_column(
    scratch: Words, shown: Numbers, source: int, begin: int, step: int, after: int, first: int,
    until: int, out: Numbers, to: int,
) -> None:  # fmt: skip
    """Write a column of a table for some entries of its parent, as a factor of their products."""
    for entry in range(first, until):
        start = load(scratch, begin + step * entry)
        size = load(scratch, begin + step * entry + 1) - start
        times, repeated = load(scratch, BEFORE_AT + entry), load(scratch, after + entry)
        if repeated == 1:
            for _ in range(times):
                copy_run(out, to, shown, source + start, size)
                to += size
        else:
            for _ in range(times):
                for row in range(source + start, source + start + size):
                    write_run(out, to, load(shown, row), repeated)  # type: ignore[arg-type]
                    to += repeated


@kernel
def multiply_rows(
    scratch: Words, source: int, begin: int, step: int, after: int, first: int, until: int,
    out: Words, to: int,
) -> None:  # fmt: skip
    """Multiply the weights of rows by those of a table, as `spread_column` writes its columns."""
    for entry in range(first, until):
        start = load(scratch, begin + step * entry)
        end = load(scratch, begin + step * entry + 1)
        for _ in range(load(scratch, BEFORE_AT + entry)):
            for row in range(start, end):
                weight = load(scratch, source + row)
                for _ in range(load(scratch, after + entry)):
                    store(out, to, weigh(load(out, to), weight))
                    to += 1


@inlined
def pass_child(scratch: Words, begin: int, step: int, first: int, until: int) -> None:
    """Count the rows of a child among those before the next."""
    for entry in range(first, until):
        at = begin + step * entry
        size = load(scratch, at + 1) - load(scratch, at)
        store(scratch, BEFORE_AT + entry, load(scratch, BEFORE_AT + entry) * size)


@inlined
def begin_rows(levels: Words, scratch: Words, top: int, level: int, rows: int) -> None:
    """By entry of the parent, where the rows of a level begin."""
    first, until = span_of(levels, scratch, top, level)
    start, begin = section(level, START), section(level, BEGIN)
    for entry in range(first, until + 1):
        store(scratch, begin + entry, load(scratch, rows + load(scratch, start + entry)))
    store(scratch, meta(level) + BEGIN_AT, begin)


@kernel
def build_product(levels: Words, scratch: Words, shown: Numbers, top: int, level: int) -> bool:
    """The table of a level with several children; false if it is too large."""
    end, until, rows = (
        end_of(levels, level),
        load(scratch, meta(level) + UNTIL),
        section(level, ROWS),
    )
    size_products(levels, scratch, top, level, end)
    total = 0
    for entry in range(until):
        store(scratch, rows + entry, total)
        total += load(scratch, POSITIONS_AT + entry)
        store(scratch, BEFORE_AT + entry, 1)
        if total > CAPACITY:
            return False
    store(scratch, rows + until, total)
    child = level + 1
    while child < end:
        begin, after = load(scratch, meta(child) + BEGIN_AT), section(child, AFTER)
        for each in range(child, end_of(levels, child)):
            side = load(scratch, meta(each) + SIDE)
            other = 2 if side == 1 else 1
            store(scratch, meta(each) + SIDE, other)
            spread_column(
                scratch, shown, side_at(each, side), begin, 1, after, 0, until, shown,
                side_at(each, other),
            )  # fmt: skip
        pass_child(scratch, begin, 1, 0, until)
        child = end_of(levels, child)
    return True


@inlined
def has_one_child(levels: Words, level: int) -> bool:
    return end_of(levels, level + 1) == end_of(levels, level)


@kernel
def build_tables(levels: Words, count: int, scratch: Words, shown: Numbers, top: int) -> bool:
    """Build the tables of all levels after the top; false if one is too large.

    Before that, each level has its entries with the words `FIRST` (0) and `UNTIL`.
    """
    for back in range(count - 1 - top):
        level = count - 1 - back
        own, until = meta(level), load(scratch, meta(level) + UNTIL)
        if end_of(levels, level) == level + 1:
            store(scratch, own + BEGIN_AT, section(level, START))
            store(scratch, own + SIDE, 0)
            continue
        rows = section(level, ROWS)
        if has_one_child(levels, level):  # the rows are those of the child
            rows = load(scratch, meta(level + 1) + BEGIN_AT)
        elif not build_product(levels, scratch, shown, top, level):
            return False
        values, column = side_at(level, 0), side_at(level, 1)
        for entry in range(until):
            row = load(scratch, rows + entry)
            size = load(scratch, rows + entry + 1) - row
            write_run(shown, column + row, load(shown, values + entry), size)  # type: ignore[arg-type]
        store(scratch, own + SIDE, 1)
        store(scratch, own + ROWS_AT, rows)
        begin_rows(levels, scratch, top, level, rows)
    return True


@kernel
def build_weights(levels: Words, count: int, scratch: Words, top: int, kind: int) -> None:
    """Multiply the weights of all levels after the top, once their tables are built.

    `kind` is the section of weights; `IS_HEAVY` says whether one of a level's own is not one, and
    then whether one of its table is.
    """
    for back in range(count - 1 - top):
        level = count - 1 - back
        own, end, weights = meta(level), end_of(levels, level), section(level, kind)
        is_own, is_heavy = load(scratch, own + IS_HEAVY), load(scratch, own + IS_HEAVY)
        child = level + 1
        while child < end:
            is_heavy |= load(scratch, meta(child) + IS_HEAVY)
            child = end_of(levels, child)
        store(scratch, own + IS_HEAVY, is_heavy)
        if end == level + 1:
            store(scratch, own + PRODUCTS_AT, weights)
            continue
        if is_own == 0 and has_one_child(levels, level):
            store(scratch, own + PRODUCTS_AT, load(scratch, meta(level + 1) + PRODUCTS_AT))
            continue
        products = section(level, PRODUCTS)
        store(scratch, own + PRODUCTS_AT, products)
        if is_heavy == 0:
            continue
        until, rows = load(scratch, own + UNTIL), load(scratch, own + ROWS_AT)
        for entry in range(until):
            weight = load(scratch, weights + entry) if is_own else 1
            for row in range(load(scratch, rows + entry), load(scratch, rows + entry + 1)):
                store(scratch, products + row, weight)
            store(scratch, BEFORE_AT + entry, 1)
        child = level + 1
        if has_one_child(levels, level):
            if load(scratch, meta(child) + IS_HEAVY):
                source = load(scratch, meta(child) + PRODUCTS_AT)
                for row in range(load(scratch, rows + until)):
                    weight = load(scratch, products + row)
                    store(scratch, products + row, weigh(weight, load(scratch, source + row)))
            continue
        while child < end:
            begin, after = load(scratch, meta(child) + BEGIN_AT), section(child, AFTER)
            if load(scratch, meta(child) + IS_HEAVY):
                source = load(scratch, meta(child) + PRODUCTS_AT)
                multiply_rows(scratch, source, begin, 1, after, 0, until, scratch, products)
            pass_child(scratch, begin, 1, 0, until)
            child = end_of(levels, child)


@kernel
def size_chunk(levels: Words, count: int, scratch: Words, top: int) -> int:
    """Number the rows of the chunk; returns how many there are."""
    size_products(levels, scratch, top, top, count)
    first, until = load(scratch, meta(top) + FIRST), load(scratch, meta(top) + UNTIL)
    total = 0
    for entry in range(first, until):
        size = load(scratch, POSITIONS_AT + entry)
        store(scratch, POSITIONS_AT + entry, total)
        total += size
    store(scratch, POSITIONS_AT + until, total)
    return total


@kernel
def has_weights(levels: Words, count: int, scratch: Words, top: int) -> bool:
    """Whether a weight in the chunk is not one."""
    if load(scratch, meta(top) + IS_HEAVY):
        return True
    child = top + 1
    while child < count:
        if load(scratch, meta(child) + IS_HEAVY):
            return True
        child = end_of(levels, child)
    return False


@kernel
def write_chunk(
    levels: Words, count: int, scratch: Words, shown: Numbers, top: int, until: int, out: Numbers,
    stride: int, filled: int,
) -> None:  # fmt: skip
    """Write the rows of the chunk's entries before `until`, to columns of `stride` numbers."""
    first, values = load(scratch, meta(top) + FIRST), side_at(top, 0)
    to = load(levels, LEVEL_WORDS * top + COLUMN) * stride + filled
    if top == count - 1:
        copy_run(out, to, shown, values + first, until - first)
        return
    for entry in range(first, until):
        row = load(scratch, POSITIONS_AT + entry)
        size = load(scratch, POSITIONS_AT + entry + 1) - row
        write_run(out, to + row, load(shown, values + entry), size)  # type: ignore[arg-type]
        store(scratch, BEFORE_AT + entry, 1)
    child = top + 1
    while child < count:
        step = 1 if parent_of(levels, child) == top else 0
        begin, after = load(scratch, meta(child) + BEGIN_AT), section(child, AFTER)
        for each in range(child, end_of(levels, child)):
            source = side_at(each, load(scratch, meta(each) + SIDE))
            to = load(levels, LEVEL_WORDS * each + COLUMN) * stride + filled
            spread_column(scratch, shown, source, begin, step, after, first, until, out, to)
        pass_child(scratch, begin, step, first, until)
        child = end_of(levels, child)


@kernel
def write_weights(
    levels: Words, count: int, scratch: Words, top: int, until: int, weight: int, out: Words,
    filled: int, kind: int,
) -> None:  # fmt: skip
    """Write the multiplicities of the same rows, by the section of weights that `build_weights` was
    given; `weight` multiplies all.
    """
    first, own = load(scratch, meta(top) + FIRST), section(top, kind)
    is_heavy = load(scratch, meta(top) + IS_HEAVY)
    for entry in range(first, until):
        here = weigh(weight, load(scratch, own + entry)) if is_heavy else weight
        row = load(scratch, POSITIONS_AT + entry)
        size = load(scratch, POSITIONS_AT + entry + 1) - row
        write_run(out, filled + row, here, size)
        store(scratch, BEFORE_AT + entry, 1)
    child = top + 1
    while child < count:
        step = 1 if parent_of(levels, child) == top else 0
        begin, after = load(scratch, meta(child) + BEGIN_AT), section(child, AFTER)
        if load(scratch, meta(child) + IS_HEAVY):
            source = load(scratch, meta(child) + PRODUCTS_AT)
            multiply_rows(scratch, source, begin, step, after, first, until, out, filled)
        pass_child(scratch, begin, step, first, until)
        child = end_of(levels, child)


@kernel
def find_fitting(scratch: Words, top: int, room: int) -> int:
    """The end of the chunk's entries whose rows fit."""
    entry, until = load(scratch, meta(top) + FIRST), load(scratch, meta(top) + UNTIL)
    if load(scratch, POSITIONS_AT + until) <= room:
        return until
    while load(scratch, POSITIONS_AT + entry + 1) <= room:
        entry += 1
    return entry
