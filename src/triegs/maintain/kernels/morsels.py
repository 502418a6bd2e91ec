"""The workers of an epoch: each takes morsels until all are done.

A worker looks at the morsels of a stage in its own order, which is all that a scheduler decides,
and claims one after another in one step each, so that no morsel runs twice. It goes on to the next
stage when all morsels of this one are done, whoever did them: a worker that arrives late, or never,
holds up nobody. Within a morsel there is neither a lock nor an indivisible step.

A fault, or a verdict that is missing, stops all workers behind their current morsels.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import (
    Words,
    add_shared,
    give_way,
    load,
    load_shared,
    read_ticks,
    store,
    swap_shared,
)
from triegs.maintain.kernels.morsel_lists import note_range
from triegs.maintain.kernels.morsel_steps import (
    apply_edge,
    apply_rule,
    apply_rule_stripe,
    emit_edge,
    emit_rule,
    fill_all_sorted,
    fill_stripe,
    judge_stripe,
    multiply_stripe,
    partition_label,
    run_whole_step,
    select_all,
)
from triegs.maintain.kernels.morsel_tables import (
    CLAIMED,
    CLOSED,
    EDGE_OUTPUT,
    EMIT,
    FAULTY,
    FILL_SORTED,
    JUDGE,
    M_HOME,
    M_KIND,
    M_NUMBER,
    M_ORDER,
    M_OUTPUT,
    M_OUTPUTS,
    M_ROW,
    M_STEP,
    M_STRIPE,
    MERGE,
    MERGED,
    MERGED_WORDS,
    MORSEL_WORDS,
    NOT_YET,
    O_SLOT,
    OPEN,
    OUTPUT_WORDS,
    P_CLAIMS,
    P_DONE,
    P_FOUND,
    P_INSIDE,
    P_JOINED,
    P_MERGED,
    P_MORSELS,
    P_MORSELS_AT,
    P_NODES_AT,
    P_ORDERS_AT,
    P_OUTPUTS_AT,
    P_OWNERS,
    P_PATIENCE,
    P_ROOTS,
    P_STAGES,
    P_STAGES_AT,
    P_STRIPES,
    P_WORKERS,
    PARTITION,
    PRODUCT_OUTPUT,
    RULE_OUTPUT,
    S_FAULTY,
    S_JITTER,
    S_OPEN,
    S_SHIFT,
    S_STOPPED,
    S_TICKET,
    SELECT,
    UNCLAIMED,
    UNMERGED_OUTPUT,
    WAITING,
    WHOLE,
    WHOLE_STEP,
    Worker,
)
from triegs.maintain.kernels.tables import (
    C_CHANGED,
    C_EMITTED,
    C_SEEDS,
    C_TICKS,
    COUNTER_WORDS,
    EDGE,
    EDGE_LIST,
    EXTREME_EDGE,
    ORDERED_EDGE,
    PRODUCT_LIST,
    ROW_LIST,
    RULE,
    RULE_KEYS_LIST,
    RULE_LIST,
    STEPS,
    TOTAL,
)
from triegs.maintain.kernels.work import EMITTED, UNMERGED
from triegs.store.kernels.free import has_room
from triegs.store.kernels.layout import APART, FAULTS, SLOTS
from triegs.store.kernels.stripes import merge_stripes, open_stripes
from triegs.store.kernels.workers import NEVER

SPINS = 500  # looks at a word before another thread may have the processor


@inlined
def waste_time(me: Worker, number: int) -> None:
    """In tests: wait so long that workers meet in ever new ways."""
    seed = load(me.state, S_JITTER)
    if seed != 0:
        mixed = (seed * 0x5BD1E995 + number * 0x9E3779B1 + read_ticks()) & 0x7FFFFFFF
        for _ in range((mixed >> 7) & 7):
            give_way()
        for _ in range((mixed >> 11) & 0x3FFF):
            load_shared(me.state, S_OPEN)


@inlined
def find_output(me: Worker, number: int) -> int:
    return load(me.plan, P_OUTPUTS_AT) + OUTPUT_WORDS * number


@inlined
def root_at(me: Worker, worker: int, output: int) -> int:
    """The offset in the state of a worker's root of an output."""
    return load(me.plan, P_ROOTS) + 2 * (output * load(me.plan, P_WORKERS) + worker)


@inlined
def merged_at(me: Worker, output: int) -> int:
    return load(me.plan, P_MERGED) + MERGED_WORDS * output


@inlined
def owner_at(me: Worker, output: int, stripe: int) -> int:
    return load(me.plan, P_OWNERS) + output * load(me.plan, P_STRIPES) + max(stripe, 0)


@kernel
def open_output(me: Worker, own: int, morsel: int) -> None:
    """Before a striped morsel changes its output: make it the worker's own, unless it is already.

    A morsel without an output changes no relation.
    """
    if load(me.plan, morsel + M_OUTPUTS) == 0:
        return
    output, stripe = load(me.plan, morsel + M_OUTPUT), load(me.plan, morsel + M_STRIPE)
    slot = load(me.plan, find_output(me, output) + O_SLOT)
    is_open = False
    for each in range(load(me.plan, P_STRIPES)):
        if load(me.state, owner_at(me, output, each)) == own + 1:
            is_open = True
    store(me.words, APART, load(me.state, S_SHIFT))
    if not is_open:
        open_stripes(me.words, slot)
    store(me.state, owner_at(me, output, stripe), own + 1)


@inlined
def note_output(me: Worker, own: int, morsel: int) -> None:
    """Show the others the root that a striped morsel leaves."""
    if load(me.plan, morsel + M_OUTPUTS) == 0:
        return
    output = load(me.plan, morsel + M_OUTPUT)
    slot = load(me.plan, find_output(me, output) + O_SLOT)
    at = root_at(me, own, output)
    store(me.state, at, load(me.words, slot))
    store(me.state, at + 1, load(me.words, slot + 1))
    at = merged_at(me, output)
    store(me.state, at, UNMERGED_OUTPUT)


@kernel
def note_whole(me: Worker, morsel: int) -> None:
    """Show the others the roots that a morsel leaves which wrote its outputs alone."""
    first = load(me.plan, morsel + M_OUTPUT)
    for output in range(first, first + load(me.plan, morsel + M_OUTPUTS)):
        slot = load(me.plan, find_output(me, output) + O_SLOT)
        at = merged_at(me, output)
        store(me.state, at + 1, load(me.words, slot))
        store(me.state, at + 2, load(me.words, slot + 1))
        store(me.state, at, MERGED)


@kernel
def merge_output(me: Worker, morsel: int) -> None:
    """Merge what the workers made of a relation."""
    output = load(me.plan, morsel + M_OUTPUT)
    at, workers = merged_at(me, output), load(me.plan, P_WORKERS)
    if load(me.state, at) != UNMERGED_OUTPUT:
        return
    slot = load(me.plan, find_output(me, output) + O_SLOT)
    stripes = load(me.plan, P_STRIPES)
    root, count = load(me.slots, slot - SLOTS), load(me.slots, slot - SLOTS + 1)
    owners, roots = me.mine[:stripes], me.mine[stripes : stripes + workers]
    frames = me.mine[stripes + workers :]
    for worker in range(workers):
        store(roots, worker, root)
    for stripe in range(stripes):
        owner = load(me.state, owner_at(me, output, stripe)) - 1
        store(owners, stripe, owner)
        if owner >= 0:
            store(roots, owner, load(me.state, root_at(me, owner, output)))
    for worker in range(workers):
        if is_owner(owners, worker):
            count += load(me.state, root_at(me, worker, output) + 1)
    store(me.words, slot, root)
    merge_stripes(me.words, frames, slot, load(me.state, S_SHIFT), owners, roots, workers)
    store(me.state, at + 1, load(me.words, slot))
    store(me.state, at + 2, count)
    store(me.state, at, MERGED)


@inlined
def is_owner(owners: Words, worker: int) -> bool:
    found = False
    for stripe in range(owners.size):
        found = found or load(owners, stripe) == worker
    return found


@inlined
def follow_outputs(me: Worker, first: int, end: int) -> None:
    """Take over the relations that a finished stage has written or merged."""
    for number in range(first, end):
        morsel = load(me.plan, P_MORSELS_AT) + MORSEL_WORDS * number
        is_whole = load(me.plan, morsel + M_STRIPE) == WHOLE
        if load(me.plan, morsel + M_KIND) == MERGE or is_whole:
            output = load(me.plan, morsel + M_OUTPUT)
            for each in range(output, output + load(me.plan, morsel + M_OUTPUTS)):
                at = merged_at(me, each)
                if load(me.state, at) == MERGED:
                    slot = load(me.plan, find_output(me, each) + O_SLOT)
                    store(me.words, slot, load(me.state, at + 1))
                    store(me.words, slot + 1, load(me.state, at + 2))


@inlined
def list_of(me: Worker, step: int) -> int:
    """The list that a step other than a rule writes, or -1."""
    kind = load(me.table, step)
    if kind == TOTAL:
        return -1
    is_edge = kind in (EDGE, ORDERED_EDGE, EXTREME_EDGE)
    return load(me.table, step + (EDGE_LIST if is_edge else PRODUCT_LIST))


@inlined
def note_step(me: Worker, own: int, morsel: int, seeds: int, ticks: int) -> None:
    """Say where the lists are that a morsel of a step has written, and count its work."""
    step, kind = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_KIND)
    stripe, number = load(me.plan, morsel + M_STRIPE), load(me.plan, morsel + M_NUMBER)
    at = me.lists.size - COUNTER_WORDS * (load(me.table, STEPS) - number)
    store(me.lists, at + C_SEEDS, load(me.lists, at + C_SEEDS) + seeds)
    store(me.lists, at + C_TICKS, load(me.lists, at + C_TICKS) + ticks)
    changed = 0
    if load(me.table, step) == RULE:
        if kind == EMIT:
            emitted = load(me.lists, at + C_EMITTED) + load(me.work, UNMERGED)
            store(me.lists, at + C_EMITTED, emitted)
        elif load(me.plan, morsel + M_ORDER) <= 0:
            changed = load(me.work, EMITTED)
            note_range(me, own, load(me.table, step + RULE_LIST), stripe)
            note_range(me, own, load(me.table, step + RULE_KEYS_LIST), stripe)
    elif kind != EMIT:
        written = list_of(me, step)
        if written >= 0:
            note_range(me, own, written, stripe)
            changed = (load(me.lists, 2 * written + 1) - load(me.lists, 2 * written)) // 2
    store(me.lists, at + C_CHANGED, load(me.lists, at + C_CHANGED) + changed)


@kernel
def run_base(me: Worker, own: int, morsel: int) -> bool:
    """Run a base morsel; false if it waits for verdicts."""
    kind, stripe = load(me.plan, morsel + M_KIND), load(me.plan, morsel + M_STRIPE)
    if kind == PARTITION:
        partition_label(me, morsel)
        return True
    if kind == SELECT:
        select_all(me)
        return load(me.requests, 0) == 1
    if kind == FILL_SORTED:
        if not fill_all_sorted(me):
            return False
        note_whole(me, morsel)
        return True
    if stripe == WHOLE:
        store(me.words, APART, NEVER)
    else:
        open_output(me, own, morsel)
    if kind == JUDGE:
        at = load(me.plan, P_FOUND) + own
        store(me.state, at, judge_stripe(me, morsel, load(me.state, at)))
    else:
        fill_stripe(me, morsel)
    if stripe == WHOLE:
        note_whole(me, morsel)
    else:
        note_output(me, own, morsel)
    row = load(me.plan, morsel + M_ROW)
    note_range(me, own, load(me.table, row + ROW_LIST), stripe)
    return True


@kernel
def run_morsel(me: Worker, own: int, morsel: int) -> bool:
    """Run a morsel; false if it waits for verdicts."""
    kind, stripe = load(me.plan, morsel + M_KIND), load(me.plan, morsel + M_STRIPE)
    store(me.words, APART, NEVER)
    if kind == MERGE:
        if not has_room(me.words):
            return True
        merge_output(me, morsel)
        return True
    if kind <= FILL_SORTED:
        return run_base(me, own, morsel)
    before, seeds, is_done = read_ticks(), 0, True
    if kind == EMIT:
        if load(me.table, load(me.plan, morsel + M_STEP)) == RULE:
            seeds = emit_rule(me, own, morsel)
            if seeds < 0:
                return False
        else:
            seeds = emit_edge(me, own, morsel)
    elif stripe != WHOLE:
        open_output(me, own, morsel)
        if kind == EDGE_OUTPUT:
            seeds = apply_edge(me, morsel)
        elif kind == PRODUCT_OUTPUT:
            seeds = multiply_stripe(me, morsel)
        else:
            apply_rule_stripe(me, morsel)
        note_output(me, own, morsel)
    elif kind == RULE_OUTPUT:
        is_done = apply_rule(me, morsel)
        note_whole(me, morsel)
    else:
        owner = owner_at(me, load(me.plan, morsel + M_OUTPUT), 0)
        is_resumed = load(me.state, owner) != 0
        store(me.state, owner, own + 1)
        seeds = run_whole_step(me, morsel, is_resumed)
        is_done = seeds >= 0
        note_whole(me, morsel)
    note_step(me, own, morsel, max(seeds, 0), read_ticks() - before)
    return is_done


@inlined
def may_run(me: Worker, own: int, morsel: int) -> bool:
    """A step that began and waits is resumed by the worker that has its relations."""
    if load(me.plan, morsel + M_KIND) != WHOLE_STEP:
        return True
    owner = load(me.state, owner_at(me, load(me.plan, morsel + M_OUTPUT), 0))
    return owner in (0, own + 1)


@inlined
def node_of(me: Worker, worker: int) -> int:
    return load(me.plan, load(me.plan, P_NODES_AT) + worker)


@inlined
def claim_morsel(me: Worker, own: int, first: int, end: int, looks: int) -> int:
    """The number of a morsel of this stage for the worker to run, or -1."""
    morsels, claims = load(me.plan, P_MORSELS_AT), load(me.plan, P_CLAIMS)
    order = load(me.plan, P_ORDERS_AT) + own * load(me.plan, P_MORSELS)
    is_patient = looks < load(me.plan, P_PATIENCE)
    for index in range(first, end):
        number = load(me.plan, order + index)
        morsel = morsels + MORSEL_WORDS * number
        if load_shared(me.state, claims + number) != UNCLAIMED or not may_run(me, own, morsel):
            continue
        if is_patient and node_of(me, load(me.plan, morsel + M_HOME)) != node_of(me, own):
            continue
        if swap_shared(me.state, claims + number, CLAIMED) == UNCLAIMED:
            return number
    return -1


@kernel
def run_stage(me: Worker, own: int, stage: int) -> bool:
    """Take part in a stage until all its morsels are done; false if the epoch has stopped."""
    at = load(me.plan, P_STAGES_AT) + stage
    first, end = load(me.plan, at), load(me.plan, at + 1)
    done, claims = load(me.plan, P_DONE) + stage, load(me.plan, P_CLAIMS)
    spins = 0
    while load_shared(me.state, done) < end - first:
        if load_shared(me.state, S_STOPPED) != 0:
            return False
        number = claim_morsel(me, own, first, end, spins)
        if number < 0:
            spins += 1
            if spins > SPINS:
                give_way()
            continue
        spins = 0
        morsel = load(me.plan, P_MORSELS_AT) + MORSEL_WORDS * number
        waste_time(me, number)
        is_done = run_morsel(me, own, morsel)
        waste_time(me, number)
        if load(me.words, FAULTS) != 0:
            swap_shared(me.state, S_FAULTY, 1 + max(load(me.plan, morsel + M_NUMBER) + 1, 0))
            swap_shared(me.state, S_STOPPED, FAULTY)
            return False
        if is_done:
            add_shared(me.state, done, 1)
        else:
            swap_shared(me.state, claims + number, UNCLAIMED)
            swap_shared(me.state, S_STOPPED, WAITING)
            return False
    follow_outputs(me, first, end)
    return True


@inlined
def begin_epoch(me: Worker, own: int) -> None:
    """Empty what the worker has of the epoch before, and see all relations as they are."""
    store(me.log, 0, 1)
    store(me.pool, 0, 1)
    for at in range(me.lists.size - COUNTER_WORDS * load(me.table, STEPS)):
        store(me.lists, at, 0)
    if own != 0:
        for at in range(me.slots.size):
            store(me.words, SLOTS + at, load(me.slots, at))


@kernel
def run_worker(
    own: int, ticket: int, words: Words, log: Words, lists: Words, work: Words, pool: Words,
    mine: Words, refused: Words, bounds: Words, requests: Words, plan: Words, state: Words,
    entries: Words, unsorted: Words, whole_refused: Words, stream_bounds: Words, table: Words,
    slots: Words, roots: Words, verdicts: Words, updates: Words, graph_of: Words,
) -> None:  # fmt: skip
    """Take part in an epoch until it is done or has stopped. Worker 0 returns as the last one."""
    inside = load(plan, P_INSIDE)
    swap_shared(state, inside + own, 1)
    while load_shared(state, S_OPEN) == NOT_YET:
        give_way()
    if load_shared(state, S_OPEN) == OPEN and load_shared(state, S_TICKET) == ticket:
        me = Worker(
            words, log, lists, work, pool, mine, refused, bounds, requests, plan, state, entries,
            unsorted, whole_refused, stream_bounds, table, slots, roots, verdicts, updates,
            graph_of,
        )  # fmt: skip
        if load(state, load(plan, P_JOINED) + own) == 0:
            store(state, load(plan, P_JOINED) + own, 1)
            begin_epoch(me, own)
        stage, stages = 0, load(plan, P_STAGES)
        while stage < stages and run_stage(me, own, stage):
            stage += 1
    if own == 0:
        swap_shared(state, S_OPEN, CLOSED)
        for worker in range(1, load(plan, P_WORKERS)):
            while load_shared(state, inside + worker) != 0:
                give_way()
    swap_shared(state, inside + own, 0)
