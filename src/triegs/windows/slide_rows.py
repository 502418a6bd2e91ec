"""Kernels that write what a slide changes, from positions of the log to rows."""

from __future__ import annotations

from triegs.jit.jit import kernel, short_kernel
from triegs.jit.words import Words
from triegs.maintain.kernels.judging import NONE

# How the time at which an event leaves its window is found.
LEAVES_BY_POSITION, LEAVES_NEVER, LEAVES_AT_ONCE, LEAVES_BY_SLIDE = range(4)


@kernel
def emit_row(rows: Words, slot: int, change: int, labels: Words, out: Words, at: int) -> bool:
    """Write one row with a label for its predicate; False if it has no label yet."""
    predicate = rows[slot, 2]
    if predicate >= len(labels) or labels[predicate] == NONE:
        return False
    out[at, 0] = change
    out[at, 1] = rows[slot, 1]
    out[at, 2] = labels[predicate]
    out[at, 3] = rows[slot, 3]
    return True


@short_kernel
def emit_slide(
    rows: Words, expired: int, expired_end: int, single: Words, arrived: int, arrived_end: int,
    labels: Words, out: Words,
) -> int:  # fmt: skip
    """Write what a slide changes: live rows that expire, single rows to remove, live rows that
    arrive. Returns how many were written, or `NONE` if a predicate has no label yet.
    """
    mask = len(rows) - 1
    at = 0
    for position in range(expired, expired_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, -1, labels, out, at):
                return NONE
            at += 1
    for position in single:
        if not emit_row(rows, position & mask, -1, labels, out, at):
            return NONE
        at += 1
    for position in range(arrived, arrived_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, 1, labels, out, at):
                return NONE
            at += 1
    return at


@short_kernel
def label_rows(rows: Words, labels: Words, out: Words) -> bool:
    """Write rows with labels for their predicates; False if one has none yet."""
    for row in range(len(rows)):
        predicate = rows[row, 2]
        if predicate >= len(labels) or labels[predicate] == NONE:
            return False
        out[row, 0] = rows[row, 0]
        out[row, 1] = rows[row, 1]
        out[row, 2] = labels[predicate]
        out[row, 3] = rows[row, 3]
    return True


@kernel
def find_leaving(position: int, time: int, leaving: Words) -> int:
    """When an event leaves its window; see `triegs.windows.reasoning.describe_leaving`."""
    kind: int = leaving[0]
    delay: int = leaving[1]
    start: int = leaving[2]
    slide: int = leaving[3]
    if kind == LEAVES_BY_POSITION:
        return position + 1
    if kind == LEAVES_NEVER:
        return delay
    if kind == LEAVES_AT_ONCE:
        return time + delay
    return start - (start - time - delay) // slide * slide


@short_kernel
def read_slide(
    times: Words, rows: Words, expired: int, expired_end: int, single: Words, arrived: int,
    arrived_end: int, leaving: Words, out: Words, leaves: Words,
) -> int:  # fmt: skip
    """As `emit_slide`, with plain predicates, and for each row that arrives when it leaves."""
    mask = len(rows) - 1
    at = 0
    for position in range(expired, expired_end):
        slot = position & mask
        if rows[slot, 0] != 0:
            out[at] = -1
            out[at + 1] = rows[slot, 1]
            out[at + 2] = rows[slot, 2]
            out[at + 3] = rows[slot, 3]
            at += 4
    for position in single:
        slot = position & mask
        out[at] = -1
        out[at + 1] = rows[slot, 1]
        out[at + 2] = rows[slot, 2]
        out[at + 3] = rows[slot, 3]
        at += 4
    for position in range(arrived, arrived_end):
        slot = position & mask
        if rows[slot, 0] != 0:
            out[at] = 1
            out[at + 1] = rows[slot, 1]
            out[at + 2] = rows[slot, 2]
            out[at + 3] = rows[slot, 3]
            leaves[at >> 2] = find_leaving(position, times[slot], leaving)
            at += 4
    return at


@short_kernel
def count_labels(rows: Words, counts: Words) -> int:
    """Count the rows of each label; returns how many rows have a label whose count is now 0."""
    for row in range(len(rows)):
        counts[rows[row, 2]] += rows[row, 0]
    empty = 0
    for row in range(len(rows)):
        empty += counts[rows[row, 2]] == 0
    return empty
