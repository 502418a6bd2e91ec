"""Workers in one arena: each has a header of its own, and with it nodes to allocate from.

Each worker sees the arena through a mapping of its own, in which only the words before the nodes,
header and slots, are private. So every kernel of the store runs in a worker as it is, and workers
share no word that they write. Worker 0 is the arena itself.

What a worker frees it keeps for its next epochs, so that nodes stay with the worker, and so the
processor, that uses them. Before an epoch it is given free nodes and unused words as far as it has
too few (`equip_worker`). `settle_worker` takes everything back, so that the arena looks as if one
had made all changes: near the memory limit, and to check it.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, load, store
from triegs.store.kernels.arena import take_fresh
from triegs.store.kernels.epochs import FREE_BORN, find_hold, pass_on, walk_relation
from triegs.store.kernels.free import count_free, push_run
from triegs.store.kernels.layout import (
    APART,
    BUMP,
    CLASSES,
    COPIED,
    DIRECTORY,
    EPOCH,
    FAULTS,
    FREE,
    FREE_COUNT,
    FRESH,
    FRESH_AT,
    FRESH_END,
    FRESH_LAST,
    HEAD,
    LIMIT,
    NODE_WORDS,
    PAGE_BITS,
    RETAINED,
    RETIRED,
    ROOM_WORDS,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SHARED_NODES,
    UNSHARED,
    USED,
)
from triegs.store.kernels.shared import make_page
from triegs.store.kernels.trie import trie_get

# What a worker needs of each class for an epoch, by the last ones; then the unused words that it
# must have at least, and those that it is given if it has not.
LEAST_WORDS, GIVEN_WORDS = CLASSES, CLASSES + 1
NEED_WORDS = CLASSES + 2
LEAST_NEED = 16
MOST_RUNS = 4  # that are looked at for unused words
NEVER = 99  # a shift that no node has


@kernel
def make_pages(words: Words, first: int, ids: int) -> bool:
    """Make the pages of shared blocks for all ids from one on; false if there is no room."""
    for number in range(first >> PAGE_BITS, (ids >> PAGE_BITS) + 1):
        if trie_get(words, load(words, DIRECTORY), number) == 0:
            if load(words, BUMP) + ROOM_WORDS > load(words, LIMIT):
                return False
            make_page(words, number)
    return True


@inlined
def take_words(words: Words, least: int, wanted: int) -> tuple[int, int]:
    """The offset and the number of some unused words, a run or new ones; 0 if there is no room."""
    last, run = RUNS + RUN_LISTS - 1, load(words, RUNS + RUN_LISTS - 1)
    for _ in range(MOST_RUNS):
        if run == 0:
            break
        total = load(words, run + 1)
        if total >= least:
            store(words, last, load(words, run))
            store(words, RUN_WORDS, load(words, RUN_WORDS) - total)
            if total > 2 * wanted:
                push_run(words, run + wanted, total - wanted)
                total = wanted
            return run, total
        last, run = run, load(words, run)
    start = load(words, BUMP)
    if start + wanted + ROOM_WORDS > load(words, LIMIT):
        return 0, 0
    store(words, BUMP, start + wanted)
    return start, wanted


@inlined
def give_nodes(words: Words, worker: Words, size_class: int, count: int) -> None:
    """Move free nodes of a class to a worker. Cost: a load for each."""
    first = load(words, FREE + size_class)
    last = first
    for _ in range(count - 1):
        last = load(words, last)
    store(words, FREE + size_class, load(words, last))
    store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) - count)
    store(words, last, load(worker, FREE + size_class))
    store(worker, FREE + size_class, first)
    store(worker, FREE_COUNT + size_class, load(worker, FREE_COUNT + size_class) + count)


@inlined
def return_words(words: Words, worker: Words) -> None:
    """Take back the unused words of a worker."""
    bump, limit = load(worker, BUMP), load(worker, LIMIT)
    if limit == load(words, BUMP) and limit != 0:
        store(words, BUMP, bump)
    elif limit > bump:
        push_run(words, bump, limit - bump)
    store(worker, BUMP, 0)
    store(worker, LIMIT, 0)


@short_kernel
def equip_worker(words: Words, worker: Words, need: Words) -> bool:
    """Begin an epoch of a worker, with the nodes and words that it needs; false if there is no
    room.
    """
    if load(worker, LIMIT) - load(worker, BUMP) < load(need, LEAST_WORDS):
        return_words(words, worker)
        start, count = take_words(words, load(need, LEAST_WORDS), load(need, GIVEN_WORDS))
        if count == 0:
            return False
        store(worker, BUMP, start)
        store(worker, LIMIT, start + count)
    store(worker, EPOCH, load(words, EPOCH))
    store(worker, DIRECTORY, load(words, DIRECTORY))
    for size_class in range(CLASSES):
        missing = load(need, size_class) - load(worker, FREE_COUNT + size_class)
        spare = load(words, FREE_COUNT + size_class) // 2
        if missing > 0 and spare > 0:
            give_nodes(words, worker, size_class, min(missing, spare))
        store(worker, USED + size_class, load(worker, FREE_COUNT + size_class))
    return True


@short_kernel
def end_worker(words: Words, worker: Words, need: Words) -> None:
    """End the part of an epoch that a worker has, and learn what it needs for the next one."""
    for size_class in range(CLASSES):
        used = load(worker, USED + size_class) - load(worker, FREE_COUNT + size_class)
        known = load(need, size_class)
        store(need, size_class, max(used + used // 4, known - known // 8, LEAST_NEED))
    for at in (COPIED, UNSHARED, SHARED_NODES):
        store(words, at, load(words, at) + load(worker, at))
        store(worker, at, 0)
    store(words, FAULTS, load(words, FAULTS) | load(worker, FAULTS))
    store(worker, FAULTS, 0)
    store(worker, APART, 0)


@kernel
def release_worker(words: Words, worker: Words, holds: Words) -> None:
    """Process the nodes that a worker has retired, before its epoch is published: they wait for
    readers, or are free for its next epoch.
    """
    row = find_hold(holds, load(words, EPOCH))
    retired = pass_on(worker, take_fresh(worker), holds, row)
    store(words, RETIRED, load(words, RETIRED) + retired)
    store(words, RETAINED, load(words, RETAINED) + load(worker, RETAINED))
    store(worker, RETAINED, 0)


@short_kernel
def abort_worker(words: Words, worker: Words) -> None:
    """Leave a worker's list of retired nodes to the arena, which aborts the epoch."""
    first = take_fresh(worker)
    if first == 0:
        return
    last = first
    while load(words, last) != 0:
        last = load(words, last)
    if load(words, FRESH) == 0:
        store(words, FRESH_LAST, last)
        store(words, FRESH_AT, last + HEAD + load(words, last + 1))
        store(words, FRESH_END, last + NODE_WORDS)
    store(words, last, load(words, FRESH))
    store(words, FRESH, first)


@kernel
def settle_worker(words: Words, worker: Words) -> None:
    """Take back all that a worker holds. Cost: its free nodes."""
    for size_class in range(CLASSES):
        first, count = load(worker, FREE + size_class), load(worker, FREE_COUNT + size_class)
        if count != 0:
            last = first
            for _ in range(count - 1):
                last = load(words, last)
            store(words, last, load(words, FREE + size_class))
            store(words, FREE + size_class, first)
            store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) + count)
            store(worker, FREE + size_class, 0)
            store(worker, FREE_COUNT + size_class, 0)
    for kind in range(RUN_LISTS):  # joined when it was short of nodes
        run = load(worker, RUNS + kind)
        while run != 0:
            below = load(words, run)
            push_run(words, run, load(words, run + 1))
            run = below
        store(worker, RUNS + kind, 0)
    store(worker, RUN_WORDS, 0)
    return_words(words, worker)


@short_kernel
def count_held(worker: Words) -> int:
    """The free words that a worker holds."""
    return count_free(worker) + load(worker, LIMIT) - load(worker, BUMP)


@kernel
def drop_stripes(words: Words, stack: Words, root: int, shape: int) -> None:
    """Free what a worker made of a relation, after an epoch that failed before merging."""
    walk_relation(words, stack, root, shape, FREE_BORN)
