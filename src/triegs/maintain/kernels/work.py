"""The scratch memory of an epoch: one array, so that a kernel call passes one.

It begins with a cursor, for the steps that walk one set at a time. Then come the places of the
buffers and the progress of the epoch, the registers of a rule, and what its levels remember. The
buffers stand at the end: two for emissions, one for the runs of levels with several sources.
"""

from __future__ import annotations

from triegs.maintain.kernels.tables import MOST_LEVELS, MOST_VALUES, MOST_WORDS
from triegs.store.kernels.cursors import CURSOR_WORDS

RAW = CURSOR_WORDS  # where the emissions begin
SCRATCH = RAW + 1  # where the other buffer of that size begins
BUFFER_WORDS = RAW + 2  # the size of both
EMITTED = RAW + 3  # the number of emissions
STRIDE = RAW + 4  # the words of each
RUNS = RAW + 5  # where the runs of levels begin
RUNS_END = RAW + 6
UNMERGED = RAW + 7  # the number of emissions before those of one head were summed

# With symmetry: where it stands in the table, the ranks of changed pairs, and the seed at hand.
SYMMETRY, RANKS, RANK_MASK = 48, 49, 50
SEED_FIRST, SEED_SECOND, SEED_RANK, SEED_ORBIT = 51, 52, 53, 54

LEAF, LEAF_IDS = 55, 56  # the leaf at hand, and the high bits of its ids
PHASE = RAW + 8  # how far the epoch is: see `triegs.maintain.kernels.program`
STEP = RAW + 9  # the step under way
FOUND = RAW + 10  # the updates that were refused

KEY = 64  # a tuple, and the same in another order
OTHER_KEY = 96
MOST_COLUMNS = 32
VALUES = 128  # registers of variables
WORDS_AT = VALUES + MOST_VALUES  # registers of words
# Of two sets that meet: [hub, hub, children left, -]; or the words on the way to a tuple.
FRAMES = WORDS_AT + MOST_WORDS
SIEVE_WORDS = 16
SIEVE = FRAMES + 64  # a bitmap of the ids of a block
CHANGED = SIEVE + 32  # new counts, by their places in a block
IDS = CHANGED + 32  # what a judge is asked about
BUCKETS = IDS + MOST_VALUES
DIGIT_BITS = 13  # at most
MOST_GROUPS = 16
GROUPS = BUCKETS + (1 << DIGIT_BITS) + 64  # of emissions of one set: [start, word on the way]
ADDED = GROUPS + 64  # new entries of a block: [id, count]
LEVELS = ADDED + 64  # LEVEL_STATE words each

# Of a level: a cursor, then its run (where it begins, the next entry, its end), and the weight.
RUN, NEXT, END, WEIGHT = (CURSOR_WORDS + n for n in range(4))
LEVEL_STATE = CURSOR_WORDS + 8
FIXED_WORDS = LEVELS + LEVEL_STATE * MOST_LEVELS
