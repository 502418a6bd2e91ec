"""The words that the workers of an epoch share: what there is to do, and how far it is.

The *plan* is written once per table (`triegs.maintain.morsels`). A *stage* is a range of morsels
that may run in any order and at the same time; a stage begins when all morsels of the one before
are done. An *output* is a relation that a morsel writes: alone, or *striped*, when several morsels
each change the subtrees of one stripe of ids (`triegs.store.kernels.stripes`), which a `MERGE`
morsel of a later stage puts together.

The *state* is cleared for each epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from triegs.jit.words import Words

# The plan.
(
    P_WORKERS,  # number of workers
    P_STRIPES,  # number of stripes
    P_STAGES,  # number of stages
    P_STAGES_AT,  # for each its first morsel; then the end
    P_MORSELS_AT,  # MORSEL_WORDS each
    P_MORSELS,  # number of morsels
    P_ORDERS_AT,  # for each worker all of them, in the order in which it looks at those of a stage
    P_OUTPUTS,  # number of outputs
    P_OUTPUTS_AT,  # OUTPUT_WORDS each
    P_LISTS_AT,  # for each list whether it is striped
    P_NODES_AT,  # for each worker its NUMA node
    P_PATIENCE,  # how often a worker looks for morsels of its node before it takes others
    P_INSIDE,  # offsets in the state: first what no epoch clears, then the rest
    P_LOGS,
    P_CLAIMS,
    P_DONE,
    P_OWNERS,
    P_ROOTS,
    P_MERGED,
    P_RANGES,
    P_EMITTED,
    P_STARTS,
    P_FOUND,
    P_JOINED,
    P_END,  # size of the state
) = range(25)
PLAN_HEAD = 25

# A morsel.
(
    M_KIND,
    M_STEP,  # offset of the step; JUDGE, PARTITION: number of the label; FILL: of the stream
    M_ROW,  # JUDGE, FILL: offset of the row
    M_EMITTED,  # EMIT, EDGE, RULE: number of the emissions
    M_ORDER,  # RULE: the relation of its output, or WHOLE for all of them
    M_STRIPE,  # or WHOLE
    M_OUTPUTS,  # number of outputs
    M_OUTPUT,  # the first one; of MERGE the one that it merges
    M_NUMBER,  # number of the step
    M_HOME,  # the worker that is to run it if possible
) = range(10)
MORSEL_WORDS = 10
WHOLE = -1

# Base morsels: sort the entries of a label by stripe, judge them, choose those of selections, apply
# them to other rows. Projection morsels: edges and products. Rule and answer morsels: the joins of
# a share of the seeds, and their sums applied to a relation. Any other step runs whole.
(
    PARTITION, JUDGE, SELECT, FILL, FILL_SORTED, EMIT, EDGE_OUTPUT, PRODUCT_OUTPUT, RULE_OUTPUT,
    WHOLE_STEP, MERGE,
) = range(11)  # fmt: skip

O_SLOT, O_SHAPE, O_IS_WHOLE = range(3)
OUTPUT_WORDS = 3

# The state. Beside these words: whether each worker is inside; addresses and sizes of its log and
# pool; a claim for each morsel; the number of morsels done in each stage; for each stripe of an
# output 1 plus its worker; the root and the difference of tuples of each worker and output; of each
# output whether it is merged, its root and its number of tuples; where each stripe of a list is;
# where emissions are; where the entries of each stripe of a label begin; for each worker the number
# of updates that it refused, and whether it has begun.
(
    S_OPEN,  # whether morsels may be claimed: NOT_YET, OPEN or CLOSED
    S_TICKET,  # the number of this run, so that nobody who is late joins another one
    S_STOPPED,  # why no more morsels may be claimed: FAULTY, or WAITING for verdicts
    S_FAULTY,  # 1 plus the number of the step that met a fault, 1 for base morsels
    S_SHIFT,  # of stripes
    S_JITTER,  # tests: workers waste time at random, from this seed on
) = range(6)
STATE_HEAD = 6
NOT_YET, OPEN, CLOSED = range(3)
FAULTY, WAITING = 1, 2
UNCLAIMED, CLAIMED = 0, 1
UNTOUCHED, UNMERGED_OUTPUT, MERGED = range(3)
MERGED_WORDS = 3  # of a finished output: whether it is merged, root, number of tuples
RANGE_OF_LIST_WORDS = 3  # worker, first and end; of emissions also
LOG_WORDS = 4  # of a worker: address and size of its log, of its pool


class Worker(NamedTuple):
    """The arrays of one worker; plan, state, and those from `entries` on are shared."""

    words: Words
    log: Words
    lists: Words
    work: Words
    pool: Words
    mine: Words
    refused: Words
    bounds: Words
    requests: Words
    plan: Words
    state: Words
    entries: Words
    unsorted: Words
    whole_refused: Words
    stream_bounds: Words
    table: Words
    slots: Words  # of the arena when the epoch began
    roots: Words
    verdicts: Words
    updates: Words
    graph_of: Words
