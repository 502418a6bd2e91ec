"""Timed events as numeric columns, and the steps shared by all workloads.

A workload draws blocks of `Rows` in time order. It chooses the length of its blocks, which does not
affect the events. The steps here transform a stream of such blocks:

```
draw ──► leave_out_deletes ──► disorder ──► cut (the size wanted, batches of one length)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.workloads.draw import Numbers

INSERT, DELETE = 1, -1


class Rows(NamedTuple):
    """Events as numbers: times in ms, signs, and codes that the workload can spell as terms."""

    times: Numbers
    ops: NDArray[np.int8]
    subjects: Numbers
    predicates: Numbers
    objects: Numbers
    ids: Numbers

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Rows:
        parts: list[Any] = [column[rows] for column in self]
        return Rows(*parts)


def join(parts: Iterable[Rows]) -> Rows:
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))


def number_inserts(
    first: int, times: Numbers, subjects: Numbers, predicates: Numbers, objects: Numbers
) -> Rows:
    """Insertions, with consecutive ids starting at `first`."""
    ids = np.arange(first, first + len(times))
    return Rows(times, np.full(len(times), INSERT, np.int8), subjects, predicates, objects, ids)


def leave_out_deletes(blocks: Iterable[Rows]) -> Iterator[Rows]:
    return (block.take(block.ops == INSERT) for block in blocks)


def disorder(blocks: Iterable[Rows], bound: int, seed: int) -> Iterator[Rows]:
    """Delay each event by up to `bound` ms, and return all in arrival order.

    An event is at most `bound` ms older than the newest before it. Events that arrive in the same
    ms keep their order. Cost: a sort of the events that arrive within a block and the bound.
    """
    held: Rows | None = None
    arrivals = np.zeros(0, np.int64)
    first = 0
    for block in blocks:
        if not len(block.times):
            continue
        delays = _scatter(seed, first, len(block.times)) % np.uint64(bound + 1)
        first += len(block.times)
        arrivals = np.concatenate([arrivals, block.times + delays.astype(np.int64)])
        held = block if held is None else join([held, block])
        order = np.argsort(arrivals, kind="stable")
        arrivals, held = arrivals[order], held.take(order)
        # Later events have a time, and so an arrival, no earlier than the last time here. In that
        # same ms they would follow the events held back, so these can be released too.
        ready = int(np.searchsorted(arrivals, block.times[-1], side="right"))
        yield held.take(slice(0, ready))
        arrivals, held = arrivals[ready:], held.take(slice(ready, None))
    if held is not None:
        yield held


def _scatter(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Pseudo-random numbers, one for each position in the stream (the splitmix64 function)."""
    with np.errstate(over="ignore"):
        x = np.arange(first, first + count, dtype=np.uint64) + np.uint64(seed % 2**32 << 32)
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def cut(blocks: Iterable[Rows], size: int, length: int) -> Iterator[Rows]:
    """The first `size` events, `length` at a time; the last batch may be shorter."""
    held: list[Rows] = []
    count, left = 0, size
    for block in blocks:
        held.append(block.take(slice(0, left)))
        taken = len(held[-1].times)
        count, left = count + taken, left - taken
        if count >= length or not left:
            rows = join(held)
            whole = count - count % length if left else count
            for start in range(0, whole, length):
                yield rows.take(slice(start, min(start + length, whole)))
            held, count = [rows.take(slice(whole, None))], count - whole
        if not left:
            return
    if count:
        yield join(held)
