"""The program as data: every row that an epoch reads, and every word of each row.

All queries of an engine form one table of words. `triegs.maintain.tables` writes it, `table_text`
prints it and `table_check` checks it; the kernels only read it. A name that ends in ``_AT`` is an
offset into the table.

**Streams** are the entries that an epoch brings, `ENTRY_WORDS` each. First come the labels that
some query names: entries `[subject, object, change, index in the batch]`. Then the *wholes*, all
triples of one window graph: `[subject, predicate, object, change]`. Then *selections* of these, one
per atom that excludes something: `[a, b, change, -]` for up to two columns, `[a, b, c, change]` for
three. The bounds of stream n are words n and n + 1 of `bounds`.

**Rows** of a stream are the relations that its entries feed. The first row of a label holds the
counts that decide whether a deletion is valid.

**Lists** are ranges of the log that hold the net changes of an epoch to a relation. For relations
with one column, and for keys that appear in or disappear from a wider one, an entry is
`(id, value before)`. For all others it is `[ids…, before, now]`.

**Steps** run in table order, children first. The *counters* of each step follow the bounds of all
lists; they accumulate, and no epoch clears them.
"""

from __future__ import annotations

# Table header.
(
    LABELS,  # number of labels, the first streams
    WHOLES,  # number of wholes, the next streams
    STREAMS,  # number of streams
    STREAM_ROWS,  # offset of the streams, STREAM_WORDS each
    STEPS,  # number of steps
    STEP_ROWS,  # offset of the steps, STEP_WORDS each
    UNINDEXED,  # the slot of assertions whose label no query names: (predicate, subject, object)
    IS_RDF,  # whether an assertion weighs 1 while its count is positive
    SORTED_ROWS,  # whether any row is of kind SORTED_TUPLES
) = range(9)
TABLE_HEAD = 9

# A stream.
(
    S_ROWS,  # number of its rows
    S_ROWS_AT,  # ROW_WORDS each
    S_SOURCE,  # selection: its source stream; whole: its window graph
    S_CHANGE,  # selection: the word of a source entry that holds the change
    S_ARITY,  # number of columns
    S_COLUMNS_AT,  # selection: the source column of each column
    S_TESTS,  # selection: number of tests an entry must pass
    S_TESTS_AT,  # TEST_WORDS each
) = range(8)
STREAM_WORDS = 8
ENTRY_WORDS = 4

# A test of an entry: a column is an id, two columns are equal, or a judge accepts columns.
TEST_KIND, TEST_COLUMN, TEST_VALUE, TEST_AT = range(4)
TEST_WORDS = 4
IS_ID, IS_EQUAL, IS_ACCEPTED = 0, 1, 2  # IS_ACCEPTED: number of columns, judge, columns

# A row of a stream.
(
    ROW_KIND,
    ROW_COLUMN,  # the key column; for TUPLES the offset of the column order
    ROW_SLOT,
    ROW_LIST,  # the list it writes, or -1
    ROW_CONDITION,  # required value of the other column: an id, SAME as the key, or ANY
    ROW_WIDTH,  # SORTED_TUPLES: number of columns
    ROW_KEY,  # SORTED_TUPLES with a condition: the column that is not the other one
) = range(7)
ROW_WORDS = 7
# Kinds of rows: pairs by one column, sums of their counts, pairs with counts in the hubs (which
# list all keys they touch), tuples in any order, tuples with counts in the hubs, and tuples with
# columns of sort keys.
ADJACENCY, COUNTS, SUMMED_PAIRS, TUPLES, SUMMED_TUPLES, SORTED_TUPLES = range(6)
ANY, SAME = -1, -2

# A sorted relation has a column order in which `SORTED` marks the sort key of a column, see
# `triegs.maintain.kernels.sort_keys`, and `CONSTANT` stands for the id 0: sort keys are only in
# sets, so they are never the first column. Columns may be left out.
SORTED, CONSTANT = 1 << 8, 1 << 9

# Kinds of steps; the first word of each.
(
    EDGE, PRODUCT, TOTAL, ORDERED_EDGE, ORDERED_PRODUCT, RANKING, RULE, EXTREME_EDGE,
    EXTREME_PRODUCT,
) = range(1, 10)  # fmt: skip
STEP_KIND = 0
STEP_WORDS = 15

# Counters of a step.
(
    C_SEEDS,  # changed entries of its inputs
    C_EMITTED,  # rule: emissions before those of one head were summed
    C_CHANGED,  # output entries touched; net for a rule
    C_TICKS,  # time, in the unit of `triegs.jit.words.read_ticks`
) = range(4)
COUNTER_WORDS = 4

# EDGE and ORDERED_EDGE: P(v) = sum over w of G(v, w) * N(w), or the live pairs v -> {w: G}.
(
    EDGE_STREAM,  # the stream of G
    EDGE_COLUMN,  # the column of v in G
    EDGE_BY_OTHER,  # the slot of G keyed by w; 0 if N is FIXED
    EDGE_READS,  # how N is read: PRESENCE, COUNT or FIXED; with counts, where they are
    EDGE_CHILD,  # the slot of N
    EDGE_CHANGED,  # the list of N
    EDGE_IS_EXACT,  # sums, else live pairs; with counts: whether rows are kept
    EDGE_OUT,  # the output slot
    EDGE_LIST,  # the list it writes
) = range(1, 10)

# EXTREME_EDGE: P(v) = the best word of all w with G(v, w), see `triegs.maintain.kernels.extremes`.
# The words of an edge, and:
EDGE_IS_LAST = EDGE_IS_EXACT  # whether the best is the highest
EDGE_BY_OWN, EDGE_JUDGE = 10, 11  # the slot of G keyed by v; the judge of the order of terms
# How the word of w is read: w itself, w itself if the child has it, or the word of the child.
# Without a child its slot is 0, and its list -1.
OWN, OWN_IF_PRESENT, CARRIED = range(3)

# PRODUCT, TOTAL, ORDERED_PRODUCT, RANKING: N(v) = product of factors. EXTREME_PRODUCT: the word of
# the first one, if all others are present.
(
    PRODUCT_IS_EXACT,  # exact product, else 0 or 1; with counts: whether rows are kept
    PRODUCT_OUT,
    PRODUCT_LIST,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,  # FACTOR_WORDS each
) = range(1, 6)
FACTOR_READS, FACTOR_SLOT, FACTOR_CHANGED = range(3)
FACTOR_WORDS = 3

# RULE: out(head) = the sum over all other variables of the product of the inputs.
(
    RULE_ARITY,  # number of head variables
    RULE_HEAD_AT,  # their registers
    RULE_DELTAS,  # number of inputs that may change
    RULE_DELTAS_AT,  # DELTA_WORDS each
    RULE_ORDERS,  # number of relations that hold the output, each in its own column order
    RULE_ORDERS_AT,  # [slot, columns…] each; the first in the order of the head
    RULE_LIST,  # the list of changed tuples, or -1
    RULE_KEYS,  # number of leading columns whose keys are listed when they appear or disappear
    RULE_KEYS_LIST,  # the list of these keys, or -1
    RULE_IS_LISTED_ONLY,  # whether the output already exists and only the list is written
    RULE_SYMMETRY_AT,  # offset of the body's symmetry; 0 for none
    RULE_IS_SUMMED,  # whether the hubs of the last column hold counts
    RULE_SORTED,  # number of sorted relations that hold the output
    RULE_SORTED_AT,  # TARGET_WORDS each
) = range(1, 15)
TARGET_SLOT, TARGET_WIDTH, TARGET_COLUMNS_AT = range(3)
TARGET_WORDS = 3

# The symmetry of a body whose inputs are one stream: the renamings of its variables that map the
# body to itself. An answer is found once, from the changed tuple with the lowest rank, and emitted
# with all its images.
(
    SYM_INPUTS,  # number of inputs
    SYM_INPUTS_AT,  # SYM_INPUT_WORDS each
    SYM_IMAGES,  # number of renamings, identity first
    SYM_IMAGES_AT,  # for each renaming, the register that replaces each register
    SYM_VARIABLES,  # number of registers
    SYM_LIST,  # the list of changed tuples, which are ranked
) = range(6)
SYM_WORDS = 6
SYM_INPUT_FIRST, SYM_INPUT_SECOND, SYM_INPUT_ORBIT = range(3)
SYM_INPUT_WORDS = 3

# A delta: the changes of one input, joined with all other inputs.
(
    D_FROM,  # ENTRIES of a stream, or a LIST
    D_NUMBER,  # number of the stream or list
    D_ARITY,
    D_USE,
    D_SLOT,  # list with one column: the slot of the current values
    D_REGS_AT,  # the register of each column
    D_CHECKS,
    D_CHECKS_AT,
    D_ROOTS,
    D_ROOTS_AT,
    D_PROBES,
    D_PROBES_AT,
    D_LEVELS,
    D_LEVELS_AT,
    D_SIDE,  # BOTH; with symmetry: the answers NOW or BEFORE
    D_ORBIT,  # with symmetry: the orbit of the input
) = range(16)
DELTA_WORDS = 16
ENTRIES, LIST = 0, 1
BOTH, NOW, BEFORE = 0, 1, 2

# The start of an input: the word register that receives its root, current or of the last version;
# and how the root itself is used if the input has no columns. If the first column is a constant,
# the word is the set below it.
ROOT_WORD, ROOT_SLOT, ROOT_IS_OLD, ROOT_USE, ROOT_IS_CONSTANT = range(5)
ROOT_WORDS = 5

# A probe follows an input along a variable that the seed binds, from word to word.
PROBE_REG, PROBE_IN, PROBE_IS_TRIE, PROBE_OUT, PROBE_USE = range(5)
PROBE_WORDS = 5

# A level binds one more variable to the ids that all its sources contain.
(
    LEVEL_REG,
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    LEVEL_IS_SHOWN,  # whether the variable is in the head
    LEVEL_CHECKS,
    LEVEL_CHECKS_AT,
    LEVEL_RANGES,  # number of comparisons that restrict the sort keys of a ranged source
    LEVEL_RANGES_AT,
    LEVEL_IS_COVERED,  # whether the comparisons of the level before are all its checks
) = range(9)
LEVEL_WORDS = 9

# A source of a level, like a probe. The only source of a level may be RANGED instead of a trie: a
# set of sort keys.
SOURCE_IN, SOURCE_IS_TRIE, SOURCE_OUT, SOURCE_USE = range(4)
SOURCE_WORDS = 4
RANGED = 2

# A comparison: the values in a range are at least (IS_LOWER) or at most (IS_UPPER) the value of a
# register, or equal to it: the value itself (TERMS), or slope * value + intercept. The last four
# words are doubles.
(
    RANGE_REG,
    RANGE_SIDE,
    RANGE_KIND,  # TERMS, IS_FINE, or IS_COARSE: a constant is an xsd:float
    RANGE_SLOPE,
    RANGE_INTERCEPT,
    RANGE_SPREAD,  # bounds the size of all constants
    RANGE_LIMIT,  # numbers up to this size do not overflow
) = range(7)
RANGE_WORDS = 7
IS_LOWER, IS_UPPER, IS_EQUAL_TO = range(3)
TERMS, IS_FINE, IS_COARSE = range(3)

# A check: a judge accepts the values of CHECK_COUNT registers.
CHECK_JUDGE, CHECK_COUNT, CHECK_REGS_AT = range(3)
CHECK_WORDS = 3

# How a word is used: tested for presence, read as a count, or followed. Steps also read FIXED
# counts: no epoch changes the count of a key in use, but one may add keys before its steps run.
PRESENCE, COUNT, LEADS, FIXED = 0, 1, 2, 3

# Limits of a rule; lowering refuses a larger one.
MOST_VALUES, MOST_WORDS, MOST_LEVELS = 1024, 8192, 1024
