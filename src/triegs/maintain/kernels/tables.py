"""The program as data: every row that an epoch reads, and every word of each row.

All queries of an engine are one table of words; `triegs.maintain.tables` writes it, prints it and
checks it, the kernels only read. A number that ends in ``_AT`` is a place in the table.

**Streams** are what an epoch brings, as entries of `ENTRY_WORDS`. First the labels that some query
names: entries `[subject, object, change, place in the batch]`. Then the *wholes*, all triples of
one space: `[subject, predicate, object, change]`. Then *selections* of these, one per atom that
leaves something out: `[a, b, change, -]` for up to two columns, `[a, b, c, change]` for three. The
bounds of stream n are words n and n + 1 of `bounds`.

**Rows** of a stream are the relations that its entries go to. The first row of a label has the
counts that deletions are judged by.

**Lists** are stretches of the log, what an epoch changed in a relation, net. Of relations with one
column, and of keys that come or go in a wider one: `(id, value before)`. Of all others `[ids…,
before, now]`.

**Steps** run in the order of the table, which is children first. Behind the bounds of all lists
stand the *counters* of each step, what it has done so far; no epoch clears them.
"""

from __future__ import annotations

# The head of a table.
(
    LABELS,  # the number of labels, which are the first streams
    WHOLES,  # the number of wholes, which come next
    STREAMS,  # the number of streams
    STREAM_ROWS,  # where they stand, STREAM_WORDS each
    STEPS,  # the number of steps
    STEP_ROWS,  # where they stand, STEP_WORDS each
    UNINDEXED,  # the slot of assertions whose label no query names: (predicate, subject, object)
    IS_RDF,  # whether an assertion weighs 1 while its count is positive
) = range(8)
TABLE_HEAD = 8

# A stream.
(
    S_ROWS,  # the number of its rows
    S_ROWS_AT,  # ROW_WORDS each
    S_SOURCE,  # a selection: the stream that it selects from; a whole: its space
    S_CHANGE,  # a selection: the word of the source's entries that has the change
    S_ARITY,  # the number of columns
    S_COLUMNS_AT,  # a selection: for each column, that of the source
    S_TESTS,  # a selection: what an entry must pass
    S_TESTS_AT,  # TEST_WORDS each
) = range(8)
STREAM_WORDS = 8
ENTRY_WORDS = 4

# A test of an entry: the column is an id, the column is equal to another, a judge accepts columns.
TEST_KIND, TEST_COLUMN, TEST_VALUE, TEST_AT = range(4)
TEST_WORDS = 4
IS_ID, IS_EQUAL, IS_ACCEPTED = 0, 1, 2  # IS_ACCEPTED: so many columns, the judge, their counts

# A row of a stream.
(
    ROW_KIND,
    ROW_COLUMN,  # the column of the key; of TUPLES where the order of the columns stands
    ROW_SLOT,
    ROW_LIST,  # the list that it keeps, or -1
    ROW_CONDITION,  # what the other column must be: an id, SAME as the key, or ANY
) = range(5)
ROW_WORDS = 5
# Kinds of rows: pairs by one column, the sums of their counts, pairs with counts in the hubs
# (which list all keys that they touch), tuples in any order, and these with counts in the hubs.
ADJACENCY, COUNTS, SUMMED_PAIRS, TUPLES, SUMMED_TUPLES = 0, 1, 2, 3, 4
ANY, SAME = -1, -2

# Kinds of steps; the first word of each.
EDGE, PRODUCT, TOTAL, ORDERED_EDGE, ORDERED_PRODUCT, RANKING, RULE = range(1, 8)
STEP_KIND = 0
STEP_WORDS = 13

# The counters of a step.
(
    C_SEEDS,  # changed entries of its inputs
    C_EMITTED,  # of a rule: what it emitted, before those of one head were summed
    C_CHANGED,  # entries of the output that it touched, net for a rule
    C_TICKS,  # time, in the unit of `triegs.jit.words.read_ticks`
) = range(4)
COUNTER_WORDS = 4

# EDGE and ORDERED_EDGE: P(v) = sum over w of G(v, w) * N(w), or the live pairs v -> {w: G}.
(
    EDGE_STREAM,  # the stream of G
    EDGE_COLUMN,  # its column of v
    EDGE_BY_OTHER,  # the slot of G by w
    EDGE_READS,  # how N is read: PRESENCE or COUNT; with counts, where they are
    EDGE_CHILD,  # the slot of N
    EDGE_CHANGED,  # the list of N
    EDGE_IS_EXACT,  # sums, else live pairs; with counts: whether rows are kept
    EDGE_OUT,  # the slot
    EDGE_LIST,  # the list that it keeps
) = range(1, 10)

# PRODUCT, TOTAL, ORDERED_PRODUCT, RANKING: N(v) = product of factors.
(
    PRODUCT_IS_EXACT,  # else 0 or 1; with counts: whether rows are kept
    PRODUCT_OUT,
    PRODUCT_LIST,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,  # FACTOR_WORDS each
) = range(1, 6)
FACTOR_READS, FACTOR_SLOT, FACTOR_CHANGED = range(3)
FACTOR_WORDS = 3

# RULE: out(head) = the sum over all other variables of the product of the inputs.
(
    RULE_ARITY,  # the number of head variables
    RULE_HEAD_AT,  # their registers
    RULE_DELTAS,  # the number of inputs that may change
    RULE_DELTAS_AT,  # DELTA_WORDS each
    RULE_ORDERS,  # the number of relations that keep the output, each in its order of columns
    RULE_ORDERS_AT,  # [slot, columns…] each; the first in the order of the head
    RULE_LIST,  # the list of changed tuples, or -1
    RULE_KEYS,  # the number of columns whose coming and going is listed, too
    RULE_KEYS_LIST,  # that list, or -1
    RULE_IS_LISTED_ONLY,  # whether the output is there already: only the list is made
    RULE_SYMMETRY_AT,  # where the symmetry of the body stands; 0 for none
    RULE_IS_SUMMED,  # whether the hubs of its last column have counts
) = range(1, 13)

# The symmetry of a body whose inputs are one stream: the ways to rename its variables that map the
# body to itself. An answer is found once, from the changed tuple with the lowest rank, and emitted
# with all its images.
(
    SYM_INPUTS,  # the number of inputs
    SYM_INPUTS_AT,  # SYM_INPUT_WORDS each
    SYM_IMAGES,  # the number of renamings, the first changes nothing
    SYM_IMAGES_AT,  # of each the register that takes the place of each register
    SYM_VARIABLES,  # the number of registers
    SYM_LIST,  # the list of changed tuples, which has their ranks
) = range(6)
SYM_WORDS = 6
SYM_INPUT_FIRST, SYM_INPUT_SECOND, SYM_INPUT_ORBIT = range(3)
SYM_INPUT_WORDS = 3

# A delta: the changes of one input, joined with all other inputs.
(
    D_FROM,  # ENTRIES of a stream, or a LIST
    D_NUMBER,  # of the stream or list
    D_ARITY,
    D_USE,
    D_SLOT,  # of a list with one column: where the value now is read
    D_REGS_AT,  # the register of each column
    D_CHECKS,
    D_CHECKS_AT,
    D_ROOTS,
    D_ROOTS_AT,
    D_PROBES,
    D_PROBES_AT,
    D_LEVELS,
    D_LEVELS_AT,
    D_SIDE,  # BOTH; or, with symmetry, the answers there are NOW, and those there were BEFORE
    D_ORBIT,  # with symmetry: of the input among the images of inputs
) = range(16)
DELTA_WORDS = 16
ENTRIES, LIST = 0, 1
BOTH, NOW, BEFORE = 0, 1, 2

# Where an input begins: the word register that gets its root, now or in the last version; and how
# the root itself is used, where the input has no column.
ROOT_WORD, ROOT_SLOT, ROOT_IS_OLD, ROOT_USE = range(4)
ROOT_WORDS = 4

# A probe follows an input by a variable that the seed binds: from word to word.
PROBE_REG, PROBE_IN, PROBE_IS_TRIE, PROBE_OUT, PROBE_USE = range(5)
PROBE_WORDS = 5

# A level binds one more variable, to the ids that all its sources have.
(
    LEVEL_REG,
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    LEVEL_IS_SHOWN,  # whether the head has the variable
    LEVEL_CHECKS,
    LEVEL_CHECKS_AT,
) = range(6)
LEVEL_WORDS = 6

# A source of a level, as a probe.
SOURCE_IN, SOURCE_IS_TRIE, SOURCE_OUT, SOURCE_USE = range(4)
SOURCE_WORDS = 4

# A check: a judge accepts the values of so many registers.
CHECK_JUDGE, CHECK_COUNT, CHECK_REGS_AT = range(3)
CHECK_WORDS = 3

# How a word is used: whether it is there, as the count that it is, or to go on from.
PRESENCE, COUNT, LEADS = 0, 1, 2

# The largest rule; lowering refuses a larger one.
MOST_VALUES, MOST_WORDS, MOST_LEVELS = 1024, 8192, 1024
