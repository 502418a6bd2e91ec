"""The layout of an arena. Every constant of the format is defined here and nowhere else.

::

    0        the null node: all zero, so that reading through an absent child finds nothing
    128      the header, one word each
    192      the path of the change under way, and other scratch memory
    1024     the slots, two words each: root of a relation, number of its entries
    66560    the nodes

A node is `[birth, bitmap, 32 words]`, a block `[birth, size and class, keys…, words…]`. A summed
node is `[birth, bitmap, 32 words, 32 answers, 32 rows]`: two counts beside each word, for the
subtree below it. The first two words have the same form in all of them, so one allocator with six
sizes serves them all.
"""

from __future__ import annotations

BITS = 5  # bits of an id per level
FANOUT = 1 << BITS
DIGIT = FANOUT - 1  # masks one digit of an id
LEVELS = 7  # 7 digits of 5 bits hold an id of 31 bits
SET_LEVELS = 12  # a set may hold keys of 60 bits
LOW = (1 << 32) - 1  # bitmap: the children; the high half flags touched keys

HEAD = 2  # words before the payload of a node or block
ID_LIMIT = 1 << 31
# A block of class 0 to 4 has 4, 8, 16, 32 or 64 words. A plain block has two for each entry, a bare
# one has two entries in each; see `triegs.store.kernels.blocks`.
SMALLEST = 2  # slots of a plain block of class 0
LARGEST = 4  # largest class of plain blocks
BARE_SMALLEST = 8  # slots of a bare block of class 0
BARE_LARGEST = 3  # largest class of bare blocks: 64 entries fit a bitmap
CLASS_SHIFT = 32  # the header of a block is its size, and from this bit up its class
BARE = 1 << 40  # flags a bare block
NODE_CLASS = 3  # a node with 32 children is as large as a plain block of 16 entries
NODE_WORDS = HEAD + FANOUT
SUMMED_CLASS = 5
SHARED_CLASS = 7  # of a block that many sets share; see `triegs.store.kernels.shared`
SHARED_WORDS = 2  # from one to the next: the id of one is the birth of the next
# Younger than every version: that a set refers to a shared block does not say since when.
SHARED_BIRTH = 1 << 62
PAGE_BITS = 4  # a page has the shared blocks of so many ids as fit a node
SUMMED_WORDS = HEAD + 3 * FANOUT
SUMMED = -1 << 63  # bitmap flag of a hub or inner trie node: it is a summed node
CLASSES = 6
CLASS_BITS = 3
CLASS = (1 << CLASS_BITS) - 1  # masks the class in a chunk entry
FULL_BLOCK = SMALLEST << LARGEST  # a plain block of so many entries becomes a hub
FULL_BARE = BARE_SMALLEST << BARE_LARGEST  # a bare one of so many
# The high half of a hub's bitmap has its load: the entries in the blocks below it, plus
# `FULL_BLOCK` for each hub below it. So a load below `FULL_BLOCK` is the number of entries, and a
# change updates only the lowest hub on its path.
LOAD_SHIFT = 32
LOAD_ONE = 1 << LOAD_SHIFT
LOAD = (1 << 29) - 1  # masks the load after shifting
# A hub becomes a block again at a load of `MERGE_AT`. The gap prevents thrashing. A hub that has
# had a load above `GROWN_AT` is flagged by the next removal and merges as soon as its load is
# below `FULL_BLOCK`: the removals since then pay for it.
MERGE_AT = 28
GROWN_AT = 48
GROWN = 1 << 62
# A hub whose children are all bare becomes a bare block already at `BARE_MERGE_AT`, or just below
# `FULL_BARE` if it has had a load of `BARE_GROWN_AT`. That is examined at few loads, because it
# means to visit all children.
BARE_MERGE_AT = 56
BARE_GROWN_AT = 96
BARE_GROWN = 1 << 61
EXAMINED = 8  # at multiples of this load

HEIGHT_SHIFT = 56  # a root is an offset, with the height of its trie from this bit up
OFFSET = (1 << HEIGHT_SHIFT) - 1

# Layouts of a relation. PLAIN: no counts, except that hubs may be summed. ORDERED: the leaves of
# the trie and the hubs are summed nodes. RANKED: all nodes of the trie are summed.
PLAIN, ORDERED, RANKED = 0, 1, 2
LAYOUT_SHIFT = 8  # a relation's shape is its arity, with the layout from this bit up
ARITY = (1 << LAYOUT_SHIFT) - 1

# The header.
BUMP = 128  # first word never used by a node
LIMIT = 129  # nodes end before this word
EPOCH = 130  # the current epoch: the newest version's number plus one
FAULTS = 131  # fault bits, see below; sticky until the epoch is aborted
FRESH = 132  # first chunk of the nodes retired in this epoch
FRESH_LAST = 133  # its last chunk
FRESH_AT = 134  # offset of the next entry
FRESH_END = 135  # the end of the last chunk
COPIED = 136  # nodes copied since the start
RETIRED = 137  # nodes retired in published epochs
RETAINED = 138  # words of nodes that only held versions reach, including the chunks that list them
EMPTIED = 139  # whether a logged change emptied a leaf since the list was opened
SPLIT = 140  # offset of the last block that became a summed hub, 0 if none since it was cleared
SPLIT_SHIFT = 141  # bits of an id used by the hubs above that one
FREE = 142  # first free node of each class
FREE_COUNT = 148  # number of free nodes of each class
RUNS = 154  # first run too short for any node, then by the largest class that fits
RUN_LISTS = CLASSES + 1
RUN_WORDS = 161  # total words of all runs
SPLIT_STACK = 162  # while counting below a hub: nodes, each with the children left
DIRECTORY = 189  # root of the trie of pages with shared blocks
SHARED_NODES = 190  # nodes of that trie, and pages
UNSHARED = 191  # references to shared blocks dropped since unused pages were last removed

PATH = 192  # addresses of the words on the path to the changing tuple
BUCKETS = 256  # while sorting runs: first and last of each bucket
BUCKET_BITS = 8
# Of a worker that shares the arena with others (`triegs.store.kernels.workers`); 0 in the arena
# itself. From this shift on, nodes of tries are the worker's own copies until they are merged.
APART = 768
USED = 769  # free nodes of each class that the worker had when the epoch began

SLOTS = 1024
SLOT_WORDS = 2
SLOT_LIMIT = 1 << 15
START = SLOTS + SLOT_WORDS * SLOT_LIMIT

# Faults.
FULL = 1  # no room for one more change: nothing was changed
OVERFLOW = 2  # a count did not fit: that count was not changed
LOG_FULL = 4  # a touch was not logged: the epoch must be aborted

# Bounds the nodes of each class that one change takes: a tuple of 16 words copies at most 7 nodes
# of its trie and adds 7, and in each of 15 sets copies 12 hubs, adds 12, and splits one block into
# 32. Of these, few have more than two entries.
ROOM = 512
SOME_ROOM = 256
# Of the largest blocks a change takes at most two per set: a block that passes all entries on to a
# hub below is freed at once. Of the sets of a relation only those of its last column are summed. Of
# a trie of summed nodes a change copies 7 and adds 12.
FEW_ROOM = 32
ROOM_WORDS = ROOM * (6 + 34) + SOME_ROOM * (10 + 18) + FEW_ROOM * (66 + SUMMED_WORDS)

# A run is any number of free words without a class: [next run, words]. A chunk lists nodes: [next
# chunk, size, (offset << CLASS_BITS | class) …]. The size of the current epoch's chunks is written
# when the epoch ends.
CHUNK_ENTRIES = FANOUT
