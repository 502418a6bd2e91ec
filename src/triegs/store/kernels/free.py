"""Free words: free nodes of each class, and runs that have no class yet.

A freed node is kept for the next one of its class, and nothing more is done while the array has
words that were never used. After that, free space must serve every class: *runs* are free ranges of
any length, from which nodes are cut as needed. When the runs are exhausted too, all free space is
sorted, and neighbours are joined into runs again. That happens only if it can gain a sixteenth of
the free words, so it costs a constant per freed word.

A free node links to the next one in its first word, and in the three behind to the second, third
and fourth next: an allocation prefetches memory that later ones will write, without waiting for the
links between. Only the first link is certain. The others are hints: after nodes have moved to a
worker they may be old.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import LINE_WORDS, Words, load, prefetch, store
from triegs.store.kernels.layout import (
    BUCKET_BITS,
    BUCKETS,
    BUMP,
    CLASSES,
    FAULTS,
    FEW_ROOM,
    FREE,
    FREE_COUNT,
    FULL,
    HEAD,
    LIMIT,
    NODE_CLASS,
    NODE_WORDS,
    ROOM,
    ROOM_WORDS,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SOME_ROOM,
    SUMMED_CLASS,
    SUMMED_WORDS,
)

BUCKET_COUNT = 1 << BUCKET_BITS
AHEAD = 4  # nodes: an allocation prefetches this one of those that follow
PART = 16  # joining must gain at least one sixteenth of the free words


@inlined
def size_words(size_class: int) -> int:
    """The size in words of a node or block: 6, 10, 18, 34 or 66; 98 for a summed node."""
    return SUMMED_WORDS if size_class == SUMMED_CLASS else HEAD + (4 << size_class)


@inlined
def needed_of(size_class: int) -> int:
    """The number of nodes of a class that one change can take."""
    if size_class > NODE_CLASS:
        return FEW_ROOM
    return ROOM if size_class in (0, NODE_CLASS) else SOME_ROOM


@inlined
def allocate(words: Words, size_class: int) -> int:
    """A node with undefined contents. `has_room` must have returned true before."""
    node = load(words, FREE + size_class)
    if node != 0:
        store(words, FREE + size_class, load(words, node))
        ahead = load(words, node + AHEAD - 1)
        for line in range(0, min(size_words(size_class), NODE_WORDS), LINE_WORDS):
            prefetch(words, ahead + line)
        store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) - 1)
        return node
    node = load(words, BUMP)
    store(words, BUMP, node + size_words(size_class))
    return node


@inlined
def release(words: Words, node: int, size_class: int) -> None:
    """Free a node. Its first words become links of the free list."""
    first = load(words, FREE + size_class)
    store(words, node, first)
    for number in range(1, AHEAD):
        store(words, node + number, load(words, first + number - 1))
    store(words, FREE + size_class, node)
    store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) + 1)


@inlined
def has_room(words: Words) -> bool:
    """Whether one more change is sure to find its nodes; if not, sets the fault `FULL`.

    Called before a change begins, so that a change is never left half done.
    """
    return load(words, BUMP) + ROOM_WORDS <= load(words, LIMIT) or has_free_nodes(words)


@kernel
def has_free_nodes(words: Words) -> bool:
    """Whether free nodes and never-used words provide the room for one change.

    The words in use must also leave that room under the limit, because a change that was allowed to
    exceed the limit may have left free words beyond it.
    """
    if load(words, FAULTS) & FULL:
        return False
    missing = stock_nodes(words)
    if missing > 0 and load(words, BUMP) + missing > load(words, LIMIT) and is_scattered(words):
        join_runs(words)
        missing = stock_nodes(words)
    bump, limit = load(words, BUMP), load(words, LIMIT)
    is_stocked = missing == 0 or bump + missing <= limit
    if is_stocked and bump - count_free(words) + ROOM_WORDS <= limit:
        return True
    store(words, FAULTS, load(words, FAULTS) | FULL)
    return False


@inlined
def count_free(words: Words) -> int:
    """All free words except those never used."""
    total = load(words, RUN_WORDS)
    for size_class in range(CLASSES):
        total += load(words, FREE_COUNT + size_class) * size_words(size_class)
    return total


@inlined
def is_scattered(words: Words) -> bool:
    """Whether enough nodes are free, beyond those that one change can take, to join them."""
    spare = 0
    for size_class in range(CLASSES):
        more = load(words, FREE_COUNT + size_class) - needed_of(size_class)
        if more > 0:
            spare += more * size_words(size_class)
    return spare > 0 and PART * spare >= count_free(words)


@kernel
def stock_nodes(words: Words) -> int:
    """Cut runs into nodes until each class has as many as one change can take.

    Returns the words still missing. Large nodes are cut first, because small ones fit into the
    remainders.
    """
    missing = 0
    for size_class in range(CLASSES - 1, -1, -1):
        needed = needed_of(size_class)
        while load(words, FREE_COUNT + size_class) < needed and cut_run(words, size_class):
            pass
        if load(words, FREE_COUNT + size_class) < needed:
            missing += (needed - load(words, FREE_COUNT + size_class)) * size_words(size_class)
    return missing


@kernel
def cut_run(words: Words, size_class: int) -> bool:
    """Cut one free node from the smallest kind of run that is large enough."""
    size = size_words(size_class)
    for kind in range(size_class + 1, RUN_LISTS):
        run = load(words, RUNS + kind)
        if run != 0:
            total = load(words, run + 1)
            store(words, RUNS + kind, load(words, run))
            store(words, RUN_WORDS, load(words, RUN_WORDS) - total)
            if total > size:
                push_run(words, run + size, total - size)
            release(words, run, size_class)
            return True
    return False


@inlined
def push_run(words: Words, run: int, total: int) -> None:
    """File a run of free words under the largest node class that fits."""
    kind = 0
    while kind < CLASSES and total >= size_words(kind):
        kind += 1
    store(words, run, load(words, RUNS + kind))
    store(words, run + 1, total)
    store(words, RUNS + kind, run)
    store(words, RUN_WORDS, load(words, RUN_WORDS) + total)


@kernel
def join_runs(words: Words) -> None:
    """Join all free space into maximal runs; those at the end of the used range count as never
    used. Cost: a few visits of each free node and run.
    """
    run = sort_runs(words, gather_runs(words))
    while run != 0 and run + load(words, run + 1) == load(words, BUMP):
        store(words, BUMP, run)
        run = load(words, run)
    while run != 0:
        total = load(words, run + 1)
        below = load(words, run)
        while below != 0 and below + load(words, below + 1) == run:
            run = below
            total += load(words, run + 1)
            below = load(words, run)
        push_run(words, run, total)
        run = below


@inlined
def gather_runs(words: Words) -> int:
    """Collect all free nodes and runs into one list of runs."""
    first = 0
    for size_class in range(CLASSES):
        run = load(words, FREE + size_class)
        while run != 0:
            below = load(words, run)
            store(words, run, first)
            store(words, run + 1, size_words(size_class))
            first = run
            run = below
        store(words, FREE + size_class, 0)
        store(words, FREE_COUNT + size_class, 0)
    for kind in range(RUN_LISTS):
        run = load(words, RUNS + kind)
        while run != 0:
            below = load(words, run)
            store(words, run, first)
            first = run
            run = below
        store(words, RUNS + kind, 0)
    store(words, RUN_WORDS, 0)
    return first


@inlined
def sort_runs(words: Words, first: int) -> int:
    """Sort a list of runs by descending offset: a radix sort by eight bits, lowest first."""
    shift = 1  # all offsets are even
    while load(words, BUMP) >> shift != 0:
        for at in range(BUCKETS, BUCKETS + 2 * BUCKET_COUNT):
            store(words, at, 0)
        run = first
        while run != 0:
            below = load(words, run)
            store(words, run, 0)
            bucket = BUCKETS + 2 * ((run >> shift) & (BUCKET_COUNT - 1))
            last = load(words, bucket + 1)
            store(words, bucket if last == 0 else last, run)
            store(words, bucket + 1, run)
            run = below
        first = 0
        end = 0
        for number in range(BUCKET_COUNT - 1, -1, -1):
            bucket = BUCKETS + 2 * number
            if load(words, bucket) != 0:
                if end == 0:
                    first = load(words, bucket)
                else:
                    store(words, end, load(words, bucket))
                end = load(words, bucket + 1)
        shift += BUCKET_BITS
    return first
