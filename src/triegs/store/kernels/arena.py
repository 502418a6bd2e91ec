"""Nodes in one array of words: creation, copying and retirement.

A node carries the epoch of its birth. In that epoch it is changed in place; afterwards it belongs
to a published version and is only copied. A node that leaves the current version is *dropped*:
freed at once if no other version can see it, else *retired* to the list `FRESH` until the epoch is
published. All costs are constant.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, copy_words, load, store
from triegs.store.kernels.free import allocate, release, size_words
from triegs.store.kernels.layout import (
    CHUNK_ENTRIES,
    CLASS_BITS,
    COPIED,
    EPOCH,
    FRESH,
    FRESH_AT,
    FRESH_END,
    FRESH_LAST,
    HEAD,
    NODE_CLASS,
    NODE_WORDS,
    SHARED_CLASS,
    SUMMED,
    SUMMED_CLASS,
    UNSHARED,
)


@inlined
def push_entry(words: Words, chunk: int, entry: int) -> int:
    """Push an entry on a list of chunks, given and returned as its first chunk; 0 is empty."""
    size = load(words, chunk + 1)
    if chunk == 0 or size == CHUNK_ENTRIES:
        longer = allocate(words, NODE_CLASS)
        store(words, longer, chunk)
        chunk = longer
        size = 0
    store(words, chunk + HEAD + size, entry)
    store(words, chunk + 1, size + 1)
    return chunk


@kernel
def lengthen_fresh(words: Words) -> int:
    """Append an empty chunk to the list of this epoch; returns the offset of its entries."""
    chunk = allocate(words, NODE_CLASS)
    store(words, chunk, 0)
    store(words, chunk + 1, CHUNK_ENTRIES)
    last = load(words, FRESH_LAST)
    store(words, FRESH if last == 0 else last, chunk)
    store(words, FRESH_LAST, chunk)
    store(words, FRESH_END, chunk + NODE_WORDS)
    return chunk + HEAD


@inlined
def take_fresh(words: Words) -> int:
    """Take the list of this epoch as a list of chunks, in retirement order, and empty it."""
    chunk = load(words, FRESH)
    if chunk != 0:
        last = load(words, FRESH_LAST)
        store(words, last + 1, load(words, FRESH_AT) - last - HEAD)
        store(words, FRESH, 0)
        store(words, FRESH_LAST, 0)
        store(words, FRESH_AT, 0)
        store(words, FRESH_END, 0)
    return chunk


@inlined
def retire(words: Words, node: int, size_class: int) -> None:
    """Retire a node that belongs to earlier versions but no longer to the current epoch."""
    at = load(words, FRESH_AT)
    if at == load(words, FRESH_END):
        at = lengthen_fresh(words)
    store(words, at, (node << CLASS_BITS) | size_class)
    store(words, FRESH_AT, at + 1)


@inlined
def drop(words: Words, node: int, size_class: int) -> None:
    """Remove a node from the current version: free it if born in this epoch, else retire it. A
    shared block stays, and is counted.
    """
    if load(words, node) == load(words, EPOCH):
        release(words, node, size_class)
    elif size_class == SHARED_CLASS:
        store(words, UNSHARED, load(words, UNSHARED) + 1)
    else:
        retire(words, node, size_class)


@inlined
def make_node(words: Words, epoch: int, size_class: int) -> int:
    """A node without children, plain or summed."""
    node = allocate(words, size_class)
    copy_words(words, node, 0, size_words(size_class))
    store(words, node, epoch)
    return node


@inlined
def flag_of(size_class: int) -> int:
    """The bits of a hub's or inner node's bitmap besides the children."""
    return SUMMED if size_class == SUMMED_CLASS else 0


@inlined
def class_of(bitmap: int) -> int:
    """The class of a hub or an inner node, by its bitmap."""
    return SUMMED_CLASS if bitmap < 0 else NODE_CLASS


@inlined
def copy_as_own(words: Words, node: int, size_class: int, epoch: int) -> int:
    """A copy that this epoch may change."""
    copy = allocate(words, size_class)
    copy_words(words, copy, node, size_words(size_class))
    store(words, copy, epoch)
    store(words, COPIED, load(words, COPIED) + 1)
    return copy


@inlined
def copy_node(words: Words, node: int, size_class: int, epoch: int) -> int:
    """A copy that this epoch may change; the original is retired."""
    copy = copy_as_own(words, node, size_class, epoch)
    retire(words, node, size_class)
    return copy
