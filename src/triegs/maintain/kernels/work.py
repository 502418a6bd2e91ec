"""The scratch memory of an epoch: one array, so that a kernel call passes a single argument.

It begins with a cursor, for the steps that scan one set at a time. Then come the offsets of the
buffers and the progress of the epoch, the registers of a rule, and the state of its levels. The
buffers are at the end: two for emissions, one for the runs of levels with several sources.
"""

from __future__ import annotations

from triegs.maintain.kernels.tables import MOST_LEVELS, MOST_VALUES, MOST_WORDS
from triegs.store.kernels.cursors import CURSOR_WORDS
from triegs.store.kernels.layout import FULL_BARE

RAW = CURSOR_WORDS  # offset of the emissions
SCRATCH = RAW + 1  # offset of the other buffer of that size
BUFFER_WORDS = RAW + 2  # size of each of the two
EMITTED = RAW + 3  # number of emissions
STRIDE = RAW + 4  # words per emission
RUNS = RAW + 5  # offset of the runs of levels
RUNS_END = RAW + 6
UNMERGED = RAW + 7  # number of emissions before those of one head were summed

# With symmetry: its offset in the table, the ranks of changed pairs, and the current seed.
SYMMETRY, RANKS, RANK_MASK = 48, 49, 50
SEED_FIRST, SEED_SECOND, SEED_RANK, SEED_ORBIT = 51, 52, 53, 54

LEAF, LEAF_IDS = 55, 56  # the current leaf, and the high bits of its ids
PHASE = RAW + 8  # progress of the epoch, see `triegs.maintain.kernels.program`
STEP = RAW + 9  # the current step
FOUND = RAW + 10  # number of refused updates

KEY = 64  # a tuple, and the same tuple in another order
OTHER_KEY = 96
MOST_COLUMNS = 32
VALUES = 128  # registers of variables
WORDS_AT = VALUES + MOST_VALUES  # registers of words
# While two sets are intersected: [hub, hub, children left, -]; or the words on the path to a tuple.
FRAMES = WORDS_AT + MOST_WORDS
SIEVE_WORDS = 16
SIEVE = FRAMES + 64  # a bitmap of the ids of a block
CHANGED = SIEVE + SIEVE_WORDS  # new counts, by their index in a block
REMOVED = CHANGED + FULL_BARE  # indices in a block
LEAVES = CHANGED  # of an edge: the leaves of the ids of a block
IDS = REMOVED + FULL_BARE  # the ids of a request to a judge
BUCKETS = IDS + MOST_VALUES
DIGIT_BITS = 13  # maximum
MOST_GROUPS = 32
# Of emissions of one set: [start, word on the path]; and the end of the last.
GROUPS = BUCKETS + (1 << DIGIT_BITS) + 64
ADDED = GROUPS + 2 * MOST_GROUPS + 2  # new entries of a block: [id, count]
# Of the next seeds of a delta, the words that their probes of roots lead to; of the next keys of a
# product, the addresses of their words in its factors.
SEEDS_AHEAD, PROBES_AHEAD = 16, 8
AHEAD = ADDED + 2 * FULL_BARE
LEVELS = AHEAD + SEEDS_AHEAD * PROBES_AHEAD  # LEVEL_STATE words each

# State of a level: a cursor, then its run (start, next entry, end), and the weight; for a range its
# bounds, those of the other kind of sort keys, those of what certainly passes, the hub where the
# search for the other kind begins, and whether the current sort key certainly passes.
RUN, NEXT, END, WEIGHT = (CURSOR_WORDS + n for n in range(4))
(
    LOW_BOUND, HIGH_BOUND, NEXT_LOW, NEXT_HIGH, SURE_LOW, SURE_HIGH, RANGE_ROOT, IS_SURE
) = (CURSOR_WORDS + n for n in range(4, 12))  # fmt: skip
LEVEL_STATE = CURSOR_WORDS + 12
FIXED_WORDS = LEVELS + LEVEL_STATE * MOST_LEVELS
