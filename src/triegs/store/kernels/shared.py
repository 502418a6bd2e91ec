"""Shared blocks: a set whose only entry is an id that counts once is *the* block of that id.

In a graph many nodes have one neighbour, and in a join most pairs have one witness. A block of its
own for each such set would be allocated, written, retired and freed for a single id. Instead all of
them refer to one block, which never changes and belongs to no version. It looks like any other
block, so readers need not know.

A *page* is as large as a node and has the shared blocks of sixteen adjacent ids. They overlap: an
id has 32 bits, and the bits above it make its word the birth of the next block::

    birth, header, birth + id, header, birth + id, …, header, birth + id, 0

The directory, a trie in place, leads from an id to its page; only writers use it. Pages remain when
their ids are no longer used, because the dictionary assigns those ids again. They are removed when
memory is short: that takes a visit of every node, and is tried once so many references were dropped
that their pages may be a sixteenth of the limit.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, bit, load, store
from triegs.store.kernels.arena import make_node
from triegs.store.kernels.free import allocate
from triegs.store.kernels.layout import (
    APART,
    BARE,
    BITS,
    CLASS_SHIFT,
    DIGIT,
    DIRECTORY,
    EPOCH,
    FAULTS,
    FULL,
    HEAD,
    HEIGHT_SHIFT,
    NODE_CLASS,
    NODE_WORDS,
    OFFSET,
    PAGE_BITS,
    SHARED_BIRTH,
    SHARED_CLASS,
    SHARED_NODES,
    SHARED_WORDS,
)
from triegs.store.kernels.trie import grow_trie, trie_get

SHARED_HEADER = 1 | SHARED_CLASS << CLASS_SHIFT | BARE
PAGE_IDS = 1 << PAGE_BITS


@inlined
def block_in_page(page: int, key: int) -> int:
    return page + SHARED_WORDS * (key & (PAGE_IDS - 1))


@inlined
def page_of(words: Words, block: int) -> int:
    """The page of a shared block."""
    return block - SHARED_WORDS * (load(words, block + HEAD) & (PAGE_IDS - 1))


@inlined
def share_block(words: Words, key: int) -> int:
    """The shared block of an id. Cost: a load per level of the directory."""
    page = trie_get(words, load(words, DIRECTORY), key >> PAGE_BITS)
    if page == 0:
        page = make_page(words, key >> PAGE_BITS)
    return block_in_page(page, key)


@kernel
def make_page(words: Words, number: int) -> int:
    """Make a page and enter it in the directory. Workers cannot, because they share it: there the
    pages of all ids exist, or the epoch is made without workers.
    """
    if load(words, APART) != 0:
        store(words, FAULTS, load(words, FAULTS) | FULL)
        return 0
    epoch = load(words, EPOCH)
    root = load(words, DIRECTORY)
    height = grow_trie(words, DIRECTORY, number, NODE_CLASS, NODE_CLASS)
    nodes = 2 if root == 0 else 1 + height - (root >> HEIGHT_SHIFT)  # with the page
    node = load(words, DIRECTORY) & OFFSET
    for shift in range(height * BITS, 0, -BITS):
        at = node + HEAD + ((number >> shift) & DIGIT)
        if load(words, at) == 0:
            store(words, at, make_node(words, epoch, NODE_CLASS))
            nodes += 1
            store(words, node + 1, load(words, node + 1) | bit((number >> shift) & DIGIT))
        node = load(words, at)
    page = allocate(words, NODE_CLASS)
    store(words, SHARED_NODES, load(words, SHARED_NODES) + nodes)
    store(words, page, SHARED_BIRTH)
    store(words, page + NODE_WORDS - 1, 0)
    for key in range(number << PAGE_BITS, (number + 1) << PAGE_BITS):
        block = block_in_page(page, key)
        store(words, block + 1, SHARED_HEADER)
        store(words, block + HEAD, SHARED_BIRTH | key)
    store(words, node + HEAD + (number & DIGIT), page)
    store(words, node + 1, load(words, node + 1) | bit(number & DIGIT))
    return page
