"""Workers in one arena: each has a header of its own, and with it nodes to allocate from.

Each worker sees the arena through a mapping of its own, in which only the words before the nodes,
header and slots, are private. So every kernel of the store runs in a worker as it is, and workers
share no word that they write. Worker 0 is the arena itself.

Before an epoch the others are given free nodes and a range of unused words (`equip_worker`). After
it, all that they hold goes back (`collect_worker`), so that between epochs nothing of a worker is
left, and the arena looks as if one had made all changes.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, load, store
from triegs.store.kernels.epochs import FREE_BORN, walk_relation
from triegs.store.kernels.free import push_run
from triegs.store.kernels.layout import (
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
    PAGE_BITS,
    ROOM_WORDS,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SHARED_NODES,
    SLOTS,
    UNSHARED,
)
from triegs.store.kernels.shared import make_page
from triegs.store.kernels.trie import trie_get

# What a worker is given: nodes of each class, then words. Then what it was given and holds of each
# class, by which the next gift is measured.
GIFT_WORDS = CLASSES + 1
LEAST_GIFT = 16
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
def take_words(words: Words, count: int) -> int:
    """The offset of so many unused words, a run or new ones; 0 if that leaves no room."""
    run, kind = load(words, RUNS + RUN_LISTS - 1), RUNS + RUN_LISTS - 1
    if run != 0 and load(words, run + 1) >= count:
        total = load(words, run + 1)
        store(words, kind, load(words, run))
        store(words, RUN_WORDS, load(words, RUN_WORDS) - total)
        if total > count:
            push_run(words, run + count, total - count)
        return run
    start = load(words, BUMP)
    if start + count + ROOM_WORDS > load(words, LIMIT):
        return 0
    store(words, BUMP, start + count)
    return start


@short_kernel
def equip_worker(words: Words, worker: Words, gift: Words) -> bool:
    """Write a worker's header, with free nodes and unused words; false if there is no room."""
    start = take_words(words, load(gift, CLASSES))
    if start == 0:
        return False
    for at in range(BUMP, SLOTS):
        store(worker, at, 0)
    store(worker, EPOCH, load(words, EPOCH))
    store(worker, DIRECTORY, load(words, DIRECTORY))
    store(worker, BUMP, start)
    store(worker, LIMIT, start + load(gift, CLASSES))
    for size_class in range(CLASSES):
        count = min(load(gift, size_class), load(words, FREE_COUNT + size_class) // 2)
        store(gift, size_class, count)
        if count == 0:
            continue
        first = load(words, FREE + size_class)
        last = first
        for _ in range(count - 1):
            last = load(words, last)
        store(words, FREE + size_class, load(words, last))
        store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) - count)
        store(words, last, 0)
        store(worker, FREE + size_class, first)
        store(worker, FREE_COUNT + size_class, count)
    return True


@inlined
def append_fresh(words: Words, worker: Words) -> None:
    """Put a worker's list of retired nodes in front of the arena's."""
    first, last = load(worker, FRESH), load(worker, FRESH_LAST)
    if first == 0:
        return
    store(words, last + 1, load(worker, FRESH_AT) - last - HEAD)
    if load(words, FRESH) == 0:
        store(words, FRESH_LAST, last)
        store(words, FRESH_AT, load(worker, FRESH_AT))
        store(words, FRESH_END, load(worker, FRESH_END))
    store(words, last, load(words, FRESH))
    store(words, FRESH, first)


@short_kernel
def collect_worker(words: Words, worker: Words, gift: Words) -> None:
    """Take back what a worker holds, and choose its next gift by what it used.

    Cost: the free nodes that it holds.
    """
    for size_class in range(CLASSES):
        count, first = load(worker, FREE_COUNT + size_class), load(worker, FREE + size_class)
        used = load(gift, size_class) - count
        wanted = load(gift, size_class) if used <= 0 else used + used // 2
        store(gift, size_class, max(LEAST_GIFT, 2 * wanted if count == 0 else wanted))
        if count == 0:
            continue
        last = first
        for _ in range(count - 1):
            last = load(words, last)
        store(words, last, load(words, FREE + size_class))
        store(words, FREE + size_class, first)
        store(words, FREE_COUNT + size_class, load(words, FREE_COUNT + size_class) + count)
    for kind in range(RUN_LISTS):  # cut when it was short of nodes
        run = load(worker, RUNS + kind)
        while run != 0:
            below = load(words, run)
            push_run(words, run, load(words, run + 1))
            run = below
    bump, limit = load(worker, BUMP), load(worker, LIMIT)
    if limit == load(words, BUMP):
        store(words, BUMP, bump)
    elif limit > bump:
        push_run(words, bump, limit - bump)
    append_fresh(words, worker)
    for at in (COPIED, UNSHARED, SHARED_NODES):
        store(words, at, load(words, at) + load(worker, at))
    store(words, FAULTS, load(words, FAULTS) | load(worker, FAULTS))


@kernel
def drop_stripes(words: Words, stack: Words, root: int, shape: int) -> None:
    """Free what a worker made of a relation, after an epoch that failed before merging."""
    walk_relation(words, stack, root, shape, FREE_BORN)
