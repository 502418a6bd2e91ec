"""A single step, which fills a new view. The kernel of an epoch runs it, because a kernel of its
own would take almost as long to compile.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.kernels.program import (
    CALL_MODE,
    CALL_WORDS,
    JUDGE,
    NEEDS_VERDICTS,
    RUN_STEPS,
    WITHOUT_LOCK,
    run_epoch,
)
from triegs.maintain.kernels.tables import COUNTER_WORDS
from triegs.maintain.kernels.work import FOUND, PHASE, STEP
from triegs.maintain.tables import pack_arrays
from triegs.terms.arrays import make_arrays

NOTHING = np.zeros(0, np.int64)
#: A step touches no terms.
NO_TERMS = make_arrays()


def run_step(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, roots: Words, verdicts: Words, requests: Words,
) -> bool:  # fmt: skip
    """Run the step of a table that has only one; false if it waits for verdicts and must run again.

    A fault is in the words of the store. Without `roots`, no input may be read as it was before.
    Cost: what the step does.
    """
    call = np.zeros(CALL_WORDS, np.int64)
    call[CALL_MODE] = WITHOUT_LOCK
    counted = np.concatenate([lists, np.zeros(COUNTER_WORDS, np.int64)])
    packed, (_, counted, _, _) = pack_arrays(table, counted, NOTHING, bounds)
    work[PHASE], work[STEP], work[FOUND] = RUN_STEPS, 0, 0
    try:
        found = run_epoch(
            words, roots, NOTHING, NOTHING, NOTHING, log, work, packed, NOTHING, entries, NOTHING,
            verdicts, requests, call, NOTHING, *NO_TERMS,
        )  # fmt: skip
    finally:
        work[PHASE] = JUDGE  # the next epoch begins at its beginning
    lists[:] = counted[: lists.size]
    return found != NEEDS_VERDICTS
