"""What stands where in an arena. Every number of the format is here and nowhere else.

::

    0        the null node: all zero, so that reading through an absent child finds nothing
    128      the header, one word each
    192      the path of the change under way
    1024     the slots, two words each: root of a relation, number of its entries
    66560    the nodes

A node is `[birth, bitmap, 32 words]`, a block `[birth, size and class, keys…, words…]`. A summed
node is `[birth, bitmap, 32 words, 32 answers, 32 rows]`: two counts beside each word, of what
hangs from it. The two first words of all are alike, so one allocator serves them, with five sizes.
"""

from __future__ import annotations

BITS = 5  # of an id, per level
FANOUT = 1 << BITS
DIGIT = FANOUT - 1  # masks one digit of an id
LEVELS = 7  # 7 digits of 5 bits hold an id of 31 bits
LOW = (1 << 32) - 1  # of a bitmap: the children; the high half flags the keys touched

HEAD = 2  # words before the payload of a node or block
SMALLEST = 4  # entries of a block of class 0; class 1 has 8, class 2 has 16, class 3 has 32
LARGEST = 3  # of the classes of blocks
NODE_CLASS = 2  # a node with 32 children is as large as a block of 16 entries
NODE_WORDS = HEAD + FANOUT
SUMMED_CLASS = 4
SUMMED_WORDS = HEAD + 3 * FANOUT
SUMMED = -1 << 63  # of the bitmap of a hub, or of an inner node of a trie: it is a summed node
CLASSES = 5
CLASS_BITS = 3
CLASS = (1 << CLASS_BITS) - 1  # masks the class in an entry of a chunk
MERGE_AT = 24  # a hub of so few entries becomes a block again

HEIGHT_SHIFT = 56  # a root is an offset with the height of its trie above these bits
OFFSET = (1 << HEIGHT_SHIFT) - 1

# Layouts of a relation. PLAIN: no counts, but that hubs may be summed. ORDERED: the leaves of the
# trie and the hubs are summed nodes. RANKED: all nodes of the trie are.
PLAIN, ORDERED, RANKED = 0, 1, 2
LAYOUT_SHIFT = 8  # of the shape of a relation: its arity, with the layout above these bits
ARITY = (1 << LAYOUT_SHIFT) - 1

# The header.
BUMP = 128  # first word that no node ever had
LIMIT = 129  # nodes end before this word
EPOCH = 130  # the epoch in the making: the newest version's number plus one
FAULTS = 131  # bits, see below; sticky until the epoch is aborted
FRESH = 132  # first chunk of the nodes retired in this epoch
FRESH_LAST = 133  # its last chunk
FRESH_AT = 134  # where the next entry goes
FRESH_END = 135  # the end of the last chunk
COPIED = 136  # nodes copied, ever
RETIRED = 137  # nodes retired in published epochs
RETAINED = 138  # words of nodes that only held versions reach, with the chunks that list them
EMPTIED = 139  # whether a logged change emptied a leaf since the list was opened
SPLIT = 140  # where the last block was that became a summed hub, 0 if none since it was cleared
SPLIT_SHIFT = 141  # the bits of an id that the hubs above that one use
FREE = 142  # first free node of each class
FREE_COUNT = 147  # number of free nodes of each class
RUNS = 152  # first run of too few words for any node, then by the largest class that fits
RUN_LISTS = CLASSES + 1
RUN_WORDS = 158  # of all runs

PATH = 192  # addresses of the words on the way to the tuple that changes
BUCKETS = 256  # while runs are sorted: first and last of each bucket
BUCKET_BITS = 8
SLOTS = 1024
SLOT_WORDS = 2
SLOT_LIMIT = 1 << 15
START = SLOTS + SLOT_WORDS * SLOT_LIMIT

# Faults.
FULL = 1  # no room for one more change: nothing was changed
OVERFLOW = 2  # a count did not fit: that count was not changed
LOG_FULL = 4  # a touch was not logged: the epoch must be aborted

# One change takes fewer nodes of each class: a tuple of 16 words copies at most 7 nodes of its trie
# and adds 7, and in each of 15 sets copies 7 hubs, adds 7, and splits one block into 32.
ROOM = 512
# Of the largest blocks it takes at most two in each set: one that passes all entries on to a hub
# below is free again at once. Of the sets of a relation only those of its last column are summed.
FEW_ROOM = 64
ROOM_WORDS = ROOM * (10 + 18 + 34) + FEW_ROOM * (66 + SUMMED_WORDS)

# A run is free words of any number, which has no class: [next run, words].
# A chunk lists nodes: [next chunk, size, (offset << CLASS_BITS | class) …]. The size of those of
# this epoch is written when the epoch ends.
CHUNK_ENTRIES = FANOUT
