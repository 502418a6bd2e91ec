"""From gathered levels to runs, for readers that take columns factorised.

The rows of a chunk are products (`triegs.read.kernels.expansion`), so a value of any level but the
last is repeated for all combinations of later levels. Instead of repeating it, its column receives
one *run*: the value, and the number of the row after its last one, the *end*. The last level has no
repetitions, and its column receives every row.

Columns of values are followed by as many columns of ends. Runs are never empty; adjacent ones may
have equal values.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Numbers, Words, copy_run, load, store
from triegs.read.kernels.expansion import (
    AFTER,
    BEFORE_AT,
    BEGIN_AT,
    COLUMN,
    FIRST,
    LEVEL_WORDS,
    POSITIONS_AT,
    RUNS,
    SIDE,
    end_of,
    meta,
    parent_of,
    pass_child,
    section,
    side_at,
    spread_column,
)


@inlined
def run_at(levels: Words, level: int, stride: int, runs: int) -> int:
    """The offset of a run's value in the columns."""
    return load(levels, LEVEL_WORDS * level + COLUMN) * stride + runs


@inlined
def append_value(
    levels: Words, count: int, scratch: Words, level: int, out: Numbers, stride: int, value: int,
    end: int,
) -> None:  # fmt: skip
    """Append a run to the column of a level."""
    runs = load(scratch, meta(level) + RUNS)
    append_run(out, run_at(levels, level, stride, runs), count * stride, value, end)
    store(scratch, meta(level) + RUNS, runs + 1)


@inlined
def append_run(out: Numbers, at: int, ends: int, value: int, end: int) -> None:
    store(out, at, value)  # type: ignore[arg-type]
    store(out, at + ends, end)  # type: ignore[arg-type]


@kernel
def spread_runs(
    scratch: Words, shown: Numbers, source: int, begin: int, step: int, after: int, first: int,
    until: int, out: Numbers, at: int, ends: int, row: int,
) -> int:  # fmt: skip
    """Write a column of a table for some entries of its parent, as `spread_column` does, but as
    runs; `row` is the first row. Returns the offset after the last run.
    """
    for entry in range(first, until):
        start = load(scratch, begin + step * entry)
        end = load(scratch, begin + step * entry + 1)
        times, repeated = load(scratch, BEFORE_AT + entry), load(scratch, after + entry)
        own = at
        here = start
        while here < end:
            value = load(shown, source + here)  # type: ignore[arg-type]
            here += 1
            while here < end and load(shown, source + here) == value:  # type: ignore[arg-type]
                here += 1
            append_run(out, at, ends, value, row + (here - start) * repeated)
            at += 1
        size, runs = (end - start) * repeated, at - own
        for time in range(1, times):
            for run in range(own, own + runs):
                value, end_row = load(out, run), load(out, run + ends)  # type: ignore[arg-type]
                append_run(out, at, ends, value, end_row + time * size)
                at += 1
        row += times * size
    return at


@kernel
def write_runs(
    levels: Words, count: int, scratch: Words, shown: Numbers, top: int, until: int, out: Numbers,
    stride: int, filled: int,
) -> None:  # fmt: skip
    """Write the rows of the chunk's entries before `until`; each level counts its runs."""
    first, values = load(scratch, meta(top) + FIRST), side_at(top, 0)
    ends = count * stride
    if top == count - 1:
        copy_run(out, run_at(levels, top, stride, filled), shown, values + first, until - first)
        return
    at = run_at(levels, top, stride, load(scratch, meta(top) + RUNS))
    store(scratch, meta(top) + RUNS, load(scratch, meta(top) + RUNS) + until - first)
    for entry in range(first, until):
        end = filled + load(scratch, POSITIONS_AT + entry + 1)
        append_run(out, at + entry - first, ends, load(shown, values + entry), end)  # type: ignore[arg-type]
        store(scratch, BEFORE_AT + entry, 1)
    child = top + 1
    while child < count:
        step = 1 if parent_of(levels, child) == top else 0
        begin, after = load(scratch, meta(child) + BEGIN_AT), section(child, AFTER)
        for each in range(child, end_of(levels, child)):
            source = side_at(each, load(scratch, meta(each) + SIDE))
            if each == count - 1:
                to = run_at(levels, each, stride, filled)
                spread_column(scratch, shown, source, begin, step, after, first, until, out, to)
                continue
            runs = load(scratch, meta(each) + RUNS)
            to = run_at(levels, each, stride, runs)
            last = spread_runs(
                scratch, shown, source, begin, step, after, first, until, out, to, ends, filled
            )
            store(scratch, meta(each) + RUNS, runs + last - to)
        pass_child(scratch, begin, step, first, until)
        child = end_of(levels, child)
