"""What each kind of morsel does, see `triegs.maintain.kernels.morsel_tables`.

A striped morsel calls the kernels that a serial epoch calls, on the entries, listed keys and
emissions of its stripe only. The exception is an edge: the changes of its child lead to ids of any
stripe, so walking them (`emit_edge`) and applying what is found (`apply_edge`) are two morsels.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import edit_words, load, store
from triegs.maintain.kernels.emissions import (
    merge_emissions,
    open_emissions,
    rank_pairs,
    rearrange,
    sort_columns,
    sort_emissions,
)
from triegs.maintain.kernels.entries import (
    close_list,
    fetch_ahead,
    fill_row,
    fill_sorted,
    judge_label,
    multiply,
    open_list,
    select_entries,
    select_whole,
    sign,
    subtract,
    value_before,
    value_now,
)
from triegs.maintain.kernels.extremes import step_extreme_edge, step_extreme_product
from triegs.maintain.kernels.morsel_lists import (
    collect_emissions,
    find_emitted,
    find_log,
    gather_list,
    gather_share,
    keep_emissions,
    note_emitted,
    stripe_of,
)
from triegs.maintain.kernels.morsel_tables import (
    M_EMITTED,
    M_ORDER,
    M_ROW,
    M_STEP,
    M_STRIPE,
    P_STARTS,
    P_STRIPES,
    WHOLE,
    Worker,
)
from triegs.maintain.kernels.order_statistics import step_ordered_edge, step_ordered_product
from triegs.maintain.kernels.output import (
    apply_emissions,
    apply_in_order,
    apply_singly,
    apply_sorted,
    list_keys_of,
    request_sorted,
)
from triegs.maintain.kernels.rule import run_delta
from triegs.maintain.kernels.steps import step_product, step_total
from triegs.maintain.kernels.tables import (
    D_ARITY,
    D_FROM,
    D_NUMBER,
    DELTA_WORDS,
    EDGE_BY_OTHER,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_COLUMN,
    EDGE_IS_EXACT,
    EDGE_LIST,
    EDGE_OUT,
    EDGE_READS,
    EDGE_STREAM,
    ENTRIES,
    ENTRY_WORDS,
    EXTREME_EDGE,
    EXTREME_PRODUCT,
    FACTOR_CHANGED,
    FACTOR_WORDS,
    LABELS,
    ORDERED_EDGE,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_LIST,
    PRODUCT_OUT,
    RANKING,
    ROW_COLUMN,
    ROW_KIND,
    ROW_LIST,
    ROW_SLOT,
    RULE_ARITY,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    RULE_HEAD_AT,
    RULE_IS_LISTED_ONLY,
    RULE_KEYS_LIST,
    RULE_LIST,
    RULE_ORDERS_AT,
    RULE_SYMMETRY_AT,
    S_ARITY,
    S_SOURCE,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    SYM_LIST,
    TOTAL,
    TUPLES,
    WHOLES,
)
from triegs.maintain.kernels.work import EMITTED, OTHER_KEY, STRIDE, SYMMETRY, UNMERGED
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import BLOCK, BLOCK_ROOM, SIZE, set_first, set_next_block
from triegs.store.kernels.layout import FAULTS, LOG_FULL, NODE_CLASS, SUMMED_CLASS
from triegs.store.kernels.relations import adjacency_add_logged, map_add_logged, set_fault
from triegs.store.kernels.trie import trie_get

EMISSION_WORDS = 3  # of an edge: v, w, change


# Base morsels


@inlined
def find_start(me: Worker, label: int, stripe: int) -> int:
    """The offset in the state of where the entries of a stripe begin; the next one is their end."""
    return load(me.plan, P_STARTS) + (load(me.plan, P_STRIPES) + 1) * label + stripe


@kernel
def partition_label(me: Worker, morsel: int) -> None:
    """Sort the entries of a label by the stripe of the column by which they are judged; stable."""
    label, row = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_ROW)
    column, stripes = load(me.table, row + ROW_COLUMN), load(me.plan, P_STRIPES)
    start, end = load(me.stream_bounds, label), load(me.stream_bounds, label + 1)
    starts = find_start(me, label, 0)
    for at in range(starts, starts + stripes + 1):
        store(me.state, at, 0)
    for at in range(start, end, ENTRY_WORDS):
        here = starts + stripe_of(me, load(me.unsorted, at + column)) + 1
        store(me.state, here, load(me.state, here) + ENTRY_WORDS)
    store(me.state, starts, start)
    for here in range(starts, starts + stripes):
        store(me.state, here + 1, load(me.state, here + 1) + load(me.state, here))
    for at in range(start, end, ENTRY_WORDS):
        here = starts + stripe_of(me, load(me.unsorted, at + column))
        to = load(me.state, here)
        store(me.state, here, to + ENTRY_WORDS)
        for word in range(ENTRY_WORDS):
            store(me.entries, to + word, load(me.unsorted, at + word))
    for here in range(starts + stripes, starts, -1):  # each start has moved to the next one
        store(me.state, here, load(me.state, here - 1))
    store(me.state, starts, start)


@inlined
def find_entries(me: Worker, morsel: int) -> tuple[int, int]:
    """The entries that a morsel judges."""
    label, stripe = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_STRIPE)
    if stripe == WHOLE:
        return load(me.stream_bounds, label), load(me.stream_bounds, label + 1)
    at = find_start(me, label, stripe)
    return load(me.state, at), load(me.state, at + 1)


@kernel
def judge_stripe(me: Worker, morsel: int, found: int) -> int:
    """Judge the entries of a stripe; returns the number of updates that this worker refused."""
    row = load(me.plan, morsel + M_ROW)
    start, end = find_entries(me, morsel)
    changed, slot = load(me.table, row + ROW_LIST), load(me.table, row + ROW_SLOT)
    open_list(me.words, me.log, me.lists, changed)
    found = judge_label(me.words, me.log, me.entries, start, end, me.table, row, me.refused, found)
    close_list(me.words, me.log, me.lists, changed, slot, NODE_CLASS)
    return found


@kernel
def select_all(me: Worker) -> None:
    """Choose the entries of all streams other than labels. May be repeated."""
    labels, wholes = load(me.table, LABELS), load(me.table, WHOLES)
    bounds, count = me.stream_bounds, me.updates.size // 4
    if wholes != 0:
        for at in range(0, load(bounds, labels), ENTRY_WORDS):
            change = load(me.entries, at + 2)
            store(me.whole_refused, count + load(me.entries, at + 3), change)
    for number in range(labels, load(me.table, STREAMS)):
        stream = load(me.table, STREAM_ROWS) + STREAM_WORDS * number
        top = load(bounds, number)
        if number < labels + wholes:
            graph = load(me.table, stream + S_SOURCE)
            top = select_whole(me.updates, me.graph_of, me.whole_refused, graph, me.entries, top)
        else:
            top = select_entries(
                me.table, stream, bounds, me.entries, top, me.work, me.verdicts, me.requests
            )
        store(bounds, number + 1, top)


@kernel
def fill_all_sorted(me: Worker) -> bool:
    """Apply the entries of all streams to sorted rows; false if it waits for values."""
    for is_requesting in (True, False):
        for number in range(load(me.table, STREAMS)):
            stream = load(me.table, STREAM_ROWS) + STREAM_WORDS * number
            start, end = load(me.stream_bounds, number), load(me.stream_bounds, number + 1)
            fill_sorted(
                me.words, me.work, me.entries, me.table, stream, start, end, me.verdicts,
                me.requests, is_requesting,
            )  # fmt: skip
        if load(me.requests, 0) > 1:
            return False
    return True


@kernel
def fill_stripe(me: Worker, morsel: int) -> None:
    """Apply the entries of a stripe, or all of a stream, to a row."""
    number, row = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_ROW)
    stripe = load(me.plan, morsel + M_STRIPE)
    stream = load(me.table, STREAM_ROWS) + STREAM_WORDS * number
    column, kind = load(me.table, row + ROW_COLUMN), load(me.table, row + ROW_KIND)
    start, end = load(me.stream_bounds, number), load(me.stream_bounds, number + 1)
    entries = me.entries
    if stripe != WHOLE:
        if kind == TUPLES:
            column = load(me.table, column)
        top = 0
        for at in range(start, end, ENTRY_WORDS):
            if stripe_of(me, load(entries, at + column)) == stripe:
                for word in range(ENTRY_WORDS):
                    store(me.mine, top + word, load(entries, at + word))
                top += ENTRY_WORDS
        entries, start, end = me.mine, 0, top
    changed, slot = load(me.table, row + ROW_LIST), load(me.table, row + ROW_SLOT)
    open_list(me.words, me.log, me.lists, changed)
    fill_row(
        me.words, me.log, me.work, entries, start, end, me.table, row,
        load(me.table, stream + S_ARITY),
    )  # fmt: skip
    close_list(me.words, me.log, me.lists, changed, slot, NODE_CLASS)


# Projection morsels


@kernel
def emit_edge(me: Worker, own: int, morsel: int) -> int:
    """Walk from the changed keys of a share of an edge's child to what they change; returns the
    number of these keys.
    """
    step, share = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_STRIPE)
    kind, child = load(me.table, step + EDGE_READS), load(me.table, step + EDGE_CHILD)
    changed, is_exact = load(me.table, step + EDGE_CHANGED), load(me.table, step + EDGE_IS_EXACT)
    root = load(me.words, load(me.table, step + EDGE_BY_OTHER))
    seeds, top = gather_share(me, changed, 2, share), load(me.pool, 0)
    for at in range(load(me.lists, 2 * changed), load(me.lists, 2 * changed + 1), 2):
        w, before = load(me.log, at), load(me.log, at + 1)
        now = value_now(me.words, kind, child, w)
        change = subtract(me.words, now, before)
        if is_exact == 0:
            change = sign(now) - sign(before)
        if change == 0:
            continue
        set_first(me.words, me.work, 0, trie_get(me.words, root, w))
        while True:
            block, size = load(me.work, BLOCK), load(me.work, SIZE)
            room = load(me.work, BLOCK_ROOM)
            if top + EMISSION_WORDS * size > me.pool.size:
                set_fault(me.words, LOG_FULL)
                return seeds
            for index in range(size):
                weight = entry_word(me.words, block, room, index)
                store(me.pool, top, entry_key(me.words, block, room, index))
                store(me.pool, top + 1, w)
                store(me.pool, top + 2, multiply(me.words, weight, change))
                top += EMISSION_WORDS
            if not set_next_block(me.words, me.work, 0):
                break
    note_emitted(me, own, load(me.plan, morsel + M_EMITTED), share, top)
    return seeds


@kernel
def apply_edge(me: Worker, morsel: int) -> int:
    """Apply the entries and emissions of a stripe to an edge; returns the number of entries."""
    step, stripe = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_STRIPE)
    stream, column = load(me.table, step + EDGE_STREAM), load(me.table, step + EDGE_COLUMN)
    kind, child = load(me.table, step + EDGE_READS), load(me.table, step + EDGE_CHILD)
    is_exact, out = load(me.table, step + EDGE_IS_EXACT), load(me.table, step + EDGE_OUT)
    changed = load(me.table, step + EDGE_LIST)
    mine, top = me.mine, 0
    for at in range(
        load(me.stream_bounds, stream), load(me.stream_bounds, stream + 1), ENTRY_WORDS
    ):
        v, change = load(me.entries, at + column), load(me.entries, at + 2)
        if change != 0 and stripe_of(me, v) == stripe:
            store(mine, top, v)
            store(mine, top + 1, load(me.entries, at + 1 - column))
            store(mine, top + 2, change)
            top += ENTRY_WORDS
    open_list(me.words, me.log, me.lists, changed)
    for at in range(0, top, ENTRY_WORDS):
        fetch_ahead(me.words, load(me.words, out), mine, 0, 0, at, top, is_exact == 0)
        before = value_before(me.words, me.roots, kind, child, load(mine, at + 1))
        if before != 0:
            change = load(mine, at + 2)
            if is_exact:
                change = multiply(me.words, change, before)
            add_change(me, out, load(mine, at), load(mine, at + 1), change, is_exact)
    seeds, top = top // ENTRY_WORDS, 0
    number = load(me.plan, morsel + M_EMITTED)
    for share in range(load(me.plan, P_STRIPES)):
        found = find_emitted(me, number, share)
        log = find_log(me, load(me.state, found))
        pool = edit_words(load(me.state, log + 2), load(me.state, log + 3))
        for at in range(load(me.state, found + 1), load(me.state, found + 2), EMISSION_WORDS):
            if stripe_of(me, load(pool, at)) != stripe:
                continue
            if top + ENTRY_WORDS > mine.size:
                apply_changes(me, out, top, is_exact)
                top = 0
            store(mine, top, load(pool, at))
            store(mine, top + 1, load(pool, at + 1))
            store(mine, top + 2, load(pool, at + 2))
            top += ENTRY_WORDS
    apply_changes(me, out, top, is_exact)
    close_list(me.words, me.log, me.lists, changed, out, NODE_CLASS)
    return seeds


@inlined
def add_change(me: Worker, out: int, v: int, w: int, change: int, is_exact: int) -> None:
    if is_exact:
        map_add_logged(me.words, me.log, out, v, change)
    else:
        adjacency_add_logged(me.words, me.log, out, v, w, change)


@kernel
def apply_changes(me: Worker, out: int, end: int, is_exact: int) -> None:
    for at in range(0, end, ENTRY_WORDS):
        fetch_ahead(me.words, load(me.words, out), me.mine, 0, 0, at, end, is_exact == 0)
        v, w = load(me.mine, at), load(me.mine, at + 1)
        add_change(me, out, v, w, load(me.mine, at + 2), is_exact)


@kernel
def gather_factors(me: Worker, step: int, stripe: int) -> int:
    """Gather the changed keys of all factors, or those of a stripe; returns their number."""
    seeds, factor = 0, load(me.table, step + PRODUCT_FACTORS_AT)
    for _ in range(load(me.table, step + PRODUCT_FACTORS)):
        seeds += gather_list(me, load(me.table, factor + FACTOR_CHANGED), 2, stripe)
        factor += FACTOR_WORDS
    return seeds


@kernel
def multiply_stripe(me: Worker, morsel: int) -> int:
    """A product at the changed keys of a stripe; returns their number."""
    step = load(me.plan, morsel + M_STEP)
    seeds = gather_factors(me, step, load(me.plan, morsel + M_STRIPE))
    changed, slot = load(me.table, step + PRODUCT_LIST), load(me.table, step + PRODUCT_OUT)
    open_list(me.words, me.log, me.lists, changed)
    step_product(me.words, me.log, me.lists, me.table, step)
    close_list(me.words, me.log, me.lists, changed, slot, NODE_CLASS)
    return seeds


# Rule and answer morsels


@inlined
def stride_of(width: int) -> int:
    """The words of an entry of a list over so many columns."""
    return 2 if width == 1 else width + 2


@kernel
def share_seeds(me: Worker, delta: int, share: int, whole: int) -> int:
    """Make a share of a delta's seeds all that this worker sees of them; returns their number.

    `whole` is a list that is gathered already, or -1.
    """
    number, shares = load(me.table, delta + D_NUMBER), load(me.plan, P_STRIPES)
    if load(me.table, delta + D_FROM) == ENTRIES:
        start, end = load(me.stream_bounds, number), load(me.stream_bounds, number + 1)
        count = (end - start) // ENTRY_WORDS
        first, last = count * share // shares, count * (share + 1) // shares
        store(me.bounds, number, start + ENTRY_WORDS * first)
        store(me.bounds, number + 1, start + ENTRY_WORDS * last)
        return last - first
    stride = stride_of(load(me.table, delta + D_ARITY))
    if number != whole:
        return gather_share(me, number, stride, share)
    start, end = load(me.lists, 2 * number), load(me.lists, 2 * number + 1)
    count = (end - start) // stride
    first, last = count * share // shares, count * (share + 1) // shares
    store(me.lists, 2 * number, start + stride * first)
    store(me.lists, 2 * number + 1, start + stride * last)
    return last - first


@kernel
def emit_rule(me: Worker, own: int, morsel: int) -> int:
    """Join a share of the seeds of all deltas; returns their number, or -1 if it waits for verdicts
    and has kept nothing.
    """
    step, share = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_STRIPE)
    arity, head_at = load(me.table, step + RULE_ARITY), load(me.table, step + RULE_HEAD_AT)
    open_emissions(me.work, arity)
    symmetry, whole = load(me.table, step + RULE_SYMMETRY_AT), -1
    store(me.work, SYMMETRY, symmetry)
    start, end = 0, 0
    if symmetry != 0:  # ranks are of all changes
        whole = load(me.table, symmetry + SYM_LIST)
        gather_list(me, whole, stride_of(2), WHOLE)
        start, end = load(me.lists, 2 * whole), load(me.lists, 2 * whole + 1)
        rank_pairs(me.words, me.log, me.lists, me.work, me.table)
    seeds = 0
    for number in range(load(me.table, step + RULE_DELTAS)):
        delta = load(me.table, step + RULE_DELTAS_AT) + DELTA_WORDS * number
        if whole >= 0:
            store(me.lists, 2 * whole, start)
            store(me.lists, 2 * whole + 1, end)
        seeds += share_seeds(me, delta, share, whole)
        run_delta(
            me.words, me.log, me.lists, me.work, me.bounds, me.entries, me.table, delta, arity,
            head_at, me.roots, me.verdicts, me.requests,
        )  # fmt: skip
        if load(me.words, FAULTS) != 0:
            return seeds
    if load(me.requests, 0) > 1:
        return -1
    store(me.work, UNMERGED, load(me.work, EMITTED))
    keep_emissions(me, own, load(me.plan, morsel + M_EMITTED), share)
    return seeds


@inlined
def close_lists(me: Worker, step: int) -> None:
    """Leave the lists of a rule empty until it writes them."""
    for kind in (RULE_LIST, RULE_KEYS_LIST):
        number = load(me.table, step + kind)
        if number >= 0:
            store(me.lists, 2 * number, load(me.log, 0))
            store(me.lists, 2 * number + 1, load(me.log, 0))


@kernel
def apply_rule_stripe(me: Worker, morsel: int) -> None:
    """Apply the sums of one stripe to one relation of a rule's output."""
    step, stripe = load(me.plan, morsel + M_STEP), load(me.plan, morsel + M_STRIPE)
    number, arity = load(me.plan, morsel + M_ORDER), load(me.table, step + RULE_ARITY)
    order = load(me.table, step + RULE_ORDERS_AT) + (1 + arity) * number
    slot, first = load(me.table, order), load(me.table, order + 1)
    if number == 0:
        close_lists(me, step)
    store(me.work, STRIDE, (arity + 1) // 2 + 1)
    collect_emissions(me, load(me.plan, morsel + M_EMITTED), first, arity, stripe)
    if load(me.words, FAULTS) != 0 or load(me.work, EMITTED) == 0:
        return
    if number > 0:
        for column in range(arity):
            store(me.work, OTHER_KEY + column, column)
        rearrange(me.work, me.table, order, arity)
    sort_columns(me.work, 2 * (load(me.work, STRIDE) - 1))
    merge_emissions(me.words, me.work)
    if load(me.words, FAULTS) != 0:
        return
    changed, start = load(me.table, step + RULE_LIST), load(me.log, 0)
    is_single = arity < 2 or load(me.table, step + RULE_IS_LISTED_ONLY) != 0
    if number == 0 and is_single:
        apply_singly(me.words, me.log, me.work, me.table, step, slot, arity)
    else:
        is_listed = number == 0 and changed >= 0
        apply_in_order(me.words, me.log, me.work, slot, arity, is_listed)
    if number == 0 and load(me.words, FAULTS) == 0:
        if changed >= 0:
            store(me.lists, 2 * changed, start)
            store(me.lists, 2 * changed + 1, load(me.log, 0))
        if load(me.table, step + RULE_KEYS_LIST) >= 0:
            list_keys_of(me.words, me.log, me.lists, me.work, me.table, step, me.roots)


@kernel
def apply_rule(me: Worker, morsel: int) -> bool:
    """Apply all sums to all relations of a rule's output; false if it waits for values."""
    step = load(me.plan, morsel + M_STEP)
    arity = load(me.table, step + RULE_ARITY)
    close_lists(me, step)
    store(me.work, STRIDE, (arity + 1) // 2 + 1)
    collect_emissions(me, load(me.plan, morsel + M_EMITTED), 0, arity, WHOLE)
    if load(me.words, FAULTS) != 0 or load(me.work, EMITTED) == 0:
        return True
    request_sorted(me.work, me.table, step, me.verdicts, me.requests)
    if load(me.requests, 0) > 1:
        return False
    sort_emissions(me.work)
    merge_emissions(me.words, me.work)
    if load(me.words, FAULTS) == 0:
        apply_sorted(me.words, me.work, me.table, step, me.verdicts)
    if load(me.words, FAULTS) == 0:
        apply_emissions(me.words, me.log, me.lists, me.work, me.table, step, me.roots)
    return True


# Steps that run whole


@kernel
def run_whole_step(me: Worker, morsel: int, is_resumed: bool) -> int:
    """Run a step that is not striped; returns the number of changes of its inputs, or -1 if it
    waits for verdicts.
    """
    step = load(me.plan, morsel + M_STEP)
    kind = load(me.table, step)
    if kind == TOTAL:
        seeds = gather_factors(me, step, WHOLE)
        step_total(me.words, me.log, me.lists, me.table, step, me.roots)
        return seeds
    if kind in (ORDERED_EDGE, EXTREME_EDGE):
        seeds = gather_list(me, load(me.table, step + EDGE_CHANGED), 2, WHOLE)
        stream = load(me.table, step + EDGE_STREAM)
        seeds += (
            load(me.stream_bounds, stream + 1) - load(me.stream_bounds, stream)
        ) // ENTRY_WORDS
        changed, slot = load(me.table, step + EDGE_LIST), load(me.table, step + EDGE_OUT)
        if kind == EXTREME_EDGE and is_resumed:  # it has listed some keys already
            gather_list(me, changed, 2, WHOLE)
        else:
            open_list(me.words, me.log, me.lists, changed)
        if kind == EXTREME_EDGE:
            step_extreme_edge(
                me.words, me.log, me.lists, me.work, me.stream_bounds, me.entries, me.table, step,
                me.roots, me.verdicts, me.requests,
            )  # fmt: skip
            if load(me.requests, 0) > 1:
                store(me.lists, 2 * changed + 1, load(me.log, 0))
                return -1
            close_list(me.words, me.log, me.lists, changed, slot, NODE_CLASS)
            return seeds
        step_ordered_edge(
            me.words, me.log, me.lists, me.work, me.stream_bounds, me.entries, me.table, step,
            me.roots,
        )  # fmt: skip
        close_list(me.words, me.log, me.lists, changed, slot, SUMMED_CLASS)
        return seeds
    seeds = gather_factors(me, step, WHOLE)
    changed, slot = load(me.table, step + PRODUCT_LIST), load(me.table, step + PRODUCT_OUT)
    open_list(me.words, me.log, me.lists, changed)
    if kind == EXTREME_PRODUCT:
        step_extreme_product(me.words, me.log, me.lists, me.table, step)
        close_list(me.words, me.log, me.lists, changed, slot, NODE_CLASS)
    else:
        step_ordered_product(me.words, me.log, me.lists, me.work, me.table, step, kind == RANKING)
        close_list(me.words, me.log, me.lists, changed, slot, SUMMED_CLASS)
    return seeds
