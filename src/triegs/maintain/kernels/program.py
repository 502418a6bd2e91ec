"""One epoch of a whole program. Plans are data, so nothing is compiled per query.

`triegs.maintain.kernels.tables` defines the table of a program. An epoch has four phases:

1. `JUDGE`: updates are sorted by label, judged in order against the counts of their label, and
   passed on to its other rows;
2. `SELECT`: the entries of wholes and selections are chosen from those of labels;
3. `FILL`: these entries are applied to their rows;
4. `STEPS`: every step runs once, children first.

Steps add exact difference terms, such as changed guard tuples times the old child value, then all
guard tuples times the change of the child. Old values are read from the roots of the last version,
which this epoch does not touch. Steps that keep order statistics are in
`triegs.maintain.kernels.order_statistics`, those that carry extremes in
`triegs.maintain.kernels.extremes`, the join step is in `triegs.maintain.kernels.rule`.

A phase or step that needs missing verdicts stops before it changes anything. The caller evaluates
them and calls again, and the epoch resumes at that point.

`run_epoch` is the one kernel of an epoch. If it is told to, it also publishes the epoch, counts the
references to terms and frees some: then nothing of an epoch runs in the interpreter. Of a slide
(`triegs.maintain.kernels.slides`) it makes the updates, too.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged, short_kernel
from triegs.jit.words import (
    Words,
    edit_words,
    load,
    read_ticks,
    release_lock,
    store,
    take_lock,
)
from triegs.maintain.kernels.entries import (
    close_list,
    fill_rows,
    fill_sorted,
    judge_label,
    open_list,
    select_entries,
    select_whole,
    sort_by_label,
)
from triegs.maintain.kernels.extremes import step_extreme_edge, step_extreme_product
from triegs.maintain.kernels.order_statistics import step_ordered_edge, step_ordered_product
from triegs.maintain.kernels.rule import step_rule
from triegs.maintain.kernels.slides import FREED_BESIDE, LONG, SIZE, begin_slide, finish_slide
from triegs.maintain.kernels.steps import step_edge, step_product, step_total
from triegs.maintain.kernels.tables import (
    C_CHANGED,
    C_EMITTED,
    C_SEEDS,
    C_TICKS,
    COUNTER_WORDS,
    D_ARITY,
    D_FROM,
    D_NUMBER,
    DELTA_WORDS,
    EDGE,
    EDGE_CHANGED,
    EDGE_LIST,
    EDGE_OUT,
    EDGE_STREAM,
    ENTRIES,
    ENTRY_WORDS,
    EXTREME_EDGE,
    EXTREME_PRODUCT,
    FACTOR_CHANGED,
    FACTOR_WORDS,
    LABELS,
    ORDERED_EDGE,
    PRODUCT,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_LIST,
    PRODUCT_OUT,
    RANKING,
    ROW_LIST,
    ROW_SLOT,
    RULE,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    S_ROWS_AT,
    S_SOURCE,
    SORTED_ROWS,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    TOTAL,
    WHOLES,
)
from triegs.maintain.kernels.work import EMITTED, FOUND, KEY, PHASE, STEP, UNMERGED
from triegs.store.kernels.epochs import publish_epoch
from triegs.store.kernels.layout import (
    EPOCH,
    FAULTS,
    NODE_CLASS,
    SUMMED_CLASS,
)
from triegs.terms.arrays import LIMBO, Arrays, Bytes, Pairs
from triegs.terms.counting import count_rows, sift_last

JUDGE, SELECT, FILL, RUN_STEPS = range(4)
# A packed program: the offset of each of its arrays and their end, then the arrays. Unboxing four
# arrays instead of one would take a noticeable share of a single update.
PACKED_TABLE, PACKED_LISTS, PACKED_LABELS, PACKED_BOUNDS = range(4)
PACKED_WORDS = 5
# What `run_epoch` is to do: one of the modes, or several. Then what it did: the bindings that all
# calls have touched, the ticks of this one, whether settling has results that Python must see; the
# index of a bad id or -1 (of a slide the id itself), and the results of `sift_last`. At the end
# the address of the words of a slide, and their number, which is 0 for an epoch of given updates.
(
    CALL_MODE, CALL_TOUCHED, CALL_TICKS, CALL_HAS_NEWS, CALL_BAD, CALL_FREED, CALL_CACHED,
    CALL_HELD, CALL_SLIDE, CALL_SLIDE_WORDS, CALL_WORDS,
) = range(11)  # fmt: skip
WITHOUT_LOCK, COUNTING = 1, 2
LISTED_PER_UPDATE = 6  # three new terms, and three that lose their last reference
MOST_LISTED = 16  # ids that small epochs leave in limbo
NEEDS_VERDICTS = -1 << 40  # returned by a kernel that waits for verdicts


@merged
def judge_updates(
    words: Words, log: Words, lists: Words, work: Words, table: Words, label_of: Words,
    updates: Words, bounds: Words, entries: Words, refused: Words,
) -> int:  # fmt: skip
    """Phase 1; returns the number of refused updates."""
    found = sort_by_label(words, updates, label_of, table, bounds, entries, refused, work[KEY:])
    for label in range(load(table, LABELS)):
        start, end = load(bounds, label), load(bounds, label + 1)
        if start == end:
            continue
        stream = load(table, STREAM_ROWS) + STREAM_WORDS * label
        row = load(table, stream + S_ROWS_AT)
        changed, slot = load(table, row + ROW_LIST), load(table, row + ROW_SLOT)
        open_list(words, log, lists, changed)
        found = judge_label(words, log, entries, start, end, table, row, refused, found)
        close_list(words, log, lists, changed, slot, NODE_CLASS)
        fill_rows(words, log, lists, work, entries, table, stream, 1, start, end)
        if load(table, WHOLES) != 0:
            count = updates.size // 4
            for at in range(start, end, ENTRY_WORDS):
                store(refused, count + load(entries, at + 3), load(entries, at + 2))
    return found


@merged
def select_streams(
    work: Words, table: Words, updates: Words, graph_of: Words, bounds: Words, entries: Words,
    refused: Words, verdicts: Words, requests: Words,
) -> None:  # fmt: skip
    """Phase 2: the entries of all streams other than labels. May be repeated."""
    labels, wholes = load(table, LABELS), load(table, WHOLES)
    for number in range(labels, load(table, STREAMS)):
        stream = load(table, STREAM_ROWS) + STREAM_WORDS * number
        top = load(bounds, number)
        if number < labels + wholes:
            graph = load(table, stream + S_SOURCE)
            top = select_whole(updates, graph_of, refused, graph, entries, top)
        else:
            top = select_entries(table, stream, bounds, entries, top, work, verdicts, requests)
        store(bounds, number + 1, top)


@merged
def fill_all_sorted(
    words: Words, work: Words, table: Words, bounds: Words, entries: Words, verdicts: Words,
    requests: Words, is_requesting: bool,
) -> None:  # fmt: skip
    """Apply the entries of all streams to sorted rows, or request the values that this needs."""
    for number in range(load(table, STREAMS)):
        stream = load(table, STREAM_ROWS) + STREAM_WORDS * number
        start, end = load(bounds, number), load(bounds, number + 1)
        fill_sorted(
            words, work, entries, table, stream, start, end, verdicts, requests, is_requesting
        )


@merged
def run_step(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, bounds: Words,
    entries: Words, roots: Words, verdicts: Words, requests: Words,
) -> bool:  # fmt: skip
    """Run one step and write its list; false if it waits for verdicts and must run again, with
    nothing changed or, if it carries extremes, nothing that running again would miss.
    """
    kind = load(table, step)
    if kind == RULE:
        return step_rule(
            words, log, lists, work, bounds, entries, table, step, roots, verdicts, requests
        )
    if kind == EXTREME_EDGE:
        changed, slot = load(table, step + EDGE_LIST), load(table, step + EDGE_OUT)
        if load(lists, 2 * changed) == 0:  # a step that runs again has listed some keys already
            open_list(words, log, lists, changed)
        step_extreme_edge(
            words, log, lists, work, bounds, entries, table, step, roots, verdicts, requests
        )
        if load(requests, 0) > 1:
            return False
        close_list(words, log, lists, changed, slot, NODE_CLASS)
        return True
    if kind == TOTAL:
        step_total(words, log, lists, table, step, roots)
    elif kind in (EDGE, ORDERED_EDGE):
        changed, slot = load(table, step + EDGE_LIST), load(table, step + EDGE_OUT)
        open_list(words, log, lists, changed)
        if kind == EDGE:
            step_edge(words, log, lists, work, bounds, entries, table, step, roots)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
        else:
            step_ordered_edge(words, log, lists, work, bounds, entries, table, step, roots)
            close_list(words, log, lists, changed, slot, SUMMED_CLASS)
    else:
        changed, slot = load(table, step + PRODUCT_LIST), load(table, step + PRODUCT_OUT)
        open_list(words, log, lists, changed)
        if kind == PRODUCT:
            step_product(words, log, lists, table, step)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
        elif kind == EXTREME_PRODUCT:
            step_extreme_product(words, log, lists, table, step)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
        else:
            step_ordered_product(words, log, lists, work, table, step, kind == RANKING)
            close_list(words, log, lists, changed, slot, SUMMED_CLASS)
    return True


@inlined
def count_listed(lists: Words, number: int, stride: int) -> int:
    return (load(lists, 2 * number + 1) - load(lists, 2 * number)) // stride


@inlined
def count_entries(bounds: Words, stream: int) -> int:
    return (load(bounds, stream + 1) - load(bounds, stream)) // ENTRY_WORDS


@kernel
def count_seeds(lists: Words, table: Words, step: int, bounds: Words) -> int:
    """The number of changes in a step's inputs; a step without any is skipped."""
    kind, found = load(table, step), 0
    if kind == RULE:
        delta = load(table, step + RULE_DELTAS_AT)
        for _ in range(load(table, step + RULE_DELTAS)):
            number, width = load(table, delta + D_NUMBER), load(table, delta + D_ARITY)
            if load(table, delta + D_FROM) == ENTRIES:
                found += count_entries(bounds, number)
            else:
                found += count_listed(lists, number, 2 if width == 1 else width + 2)
            delta += DELTA_WORDS
    elif kind in (EDGE, ORDERED_EDGE, EXTREME_EDGE):
        found = count_entries(bounds, load(table, step + EDGE_STREAM))
        if load(table, step + EDGE_CHANGED) >= 0:
            found += count_listed(lists, load(table, step + EDGE_CHANGED), 2)
    else:
        factor = load(table, step + PRODUCT_FACTORS_AT)
        for _ in range(load(table, step + PRODUCT_FACTORS)):
            found += count_listed(lists, load(table, factor + FACTOR_CHANGED), 2)
            factor += FACTOR_WORDS
    return found


@inlined
def note(counters: Words, at: int, count: int) -> None:
    store(counters, at, load(counters, at) + count)


@inlined
def note_step(
    lists: Words, work: Words, table: Words, step: int, at: int, seeds: int, ticks: int
) -> None:
    """Add the work of a step to its counters."""
    kind = load(table, step)
    note(lists, at + C_SEEDS, seeds)
    note(lists, at + C_TICKS, ticks)
    if kind == RULE:
        note(lists, at + C_EMITTED, load(work, UNMERGED))
        note(lists, at + C_CHANGED, load(work, EMITTED))
    else:
        is_edge = kind in (EDGE, ORDERED_EDGE, EXTREME_EDGE)
        number = load(table, step + (EDGE_LIST if is_edge else PRODUCT_LIST))
        note(lists, at + C_CHANGED, count_listed(lists, number, 2))


@merged
def run_phases(
    words: Words, log: Words, lists: Words, work: Words, table: Words, label_of: Words,
    graph_of: Words, updates: Words, bounds: Words, entries: Words, refused: Words, roots: Words,
    verdicts: Words, requests: Words,
) -> int:  # fmt: skip
    """Judge the updates `(change, subject, predicate, object)…`, then run every step once, starting
    at the progress recorded in `work`.

    Returns the number of refused updates, with their indices in `refused`; or `NEEDS_VERDICTS`.
    After a fault the epoch must be aborted; the result is -1 for a fault while judging, else -2
    minus the number of the step.
    """
    if load(work, PHASE) == JUDGE:
        store(log, 0, 1)
        for index in range(lists.size - COUNTER_WORDS * load(table, STEPS)):
            store(lists, index, 0)
        store(work, FOUND, judge_updates(
            words, log, lists, work, table, label_of, updates, bounds, entries, refused
        ))  # fmt: skip
        store(work, PHASE, SELECT)
        store(work, STEP, 0)
    if load(work, PHASE) == SELECT:
        if load(words, FAULTS) == 0 and load(table, STREAMS) > load(table, LABELS):
            select_streams(
                work, table, updates, graph_of, bounds, entries, refused, verdicts, requests
            )
        has_sorted = load(words, FAULTS) == 0 and load(table, SORTED_ROWS) != 0
        if has_sorted:
            fill_all_sorted(words, work, table, bounds, entries, verdicts, requests, True)
        if load(requests, 0) > 1:
            return NEEDS_VERDICTS
        if has_sorted:
            fill_all_sorted(words, work, table, bounds, entries, verdicts, requests, False)
        if load(words, FAULTS) == 0 and load(table, STREAMS) > load(table, LABELS):
            for number in range(load(table, LABELS), load(table, STREAMS)):
                stream = load(table, STREAM_ROWS) + STREAM_WORDS * number
                start, end = load(bounds, number), load(bounds, number + 1)
                if start != end:
                    fill_rows(words, log, lists, work, entries, table, stream, 0, start, end)
        store(work, PHASE, RUN_STEPS)
    if load(words, FAULTS) != 0:
        return -1
    steps = load(table, STEPS)
    before = read_ticks()
    while load(work, STEP) < steps:
        number = load(work, STEP)
        step = load(table, STEP_ROWS) + STEP_WORDS * number
        seeds = count_seeds(lists, table, step, bounds)
        if seeds != 0:
            is_done = run_step(
                words, log, lists, work, table, step, bounds, entries, roots, verdicts, requests
            )
            if load(words, FAULTS) != 0:
                return -2 - number
            if not is_done:
                return NEEDS_VERDICTS
            at = lists.size - COUNTER_WORDS * (steps - number)
            now = read_ticks()
            note_step(lists, work, table, step, at, seeds, now - before)
            before = now
        store(work, STEP, number + 1)
    return load(work, FOUND)


@short_kernel
def read_clock() -> int:
    """The tick counter that times steps."""
    return read_ticks()


@inlined
def note_settled(call: Words, freed: int, cached: int, held: int, bad: int) -> None:
    store(call, CALL_HAS_NEWS, freed + held + (bad >= 0))
    store(call, CALL_BAD, bad)
    store(call, CALL_FREED, freed)
    store(call, CALL_CACHED, cached)
    store(call, CALL_HELD, held)


@inlined
def settle_terms(
    updates: Words, refused: Words, found: int, version: int, holds: Words, kept: Words,
    call: Words, arrays: Arrays,
) -> None:  # fmt: skip
    """Count the terms of a published epoch, except those of refused updates, and free some.

    An update adds at most `LISTED_PER_UPDATE` ids to limbo, so limbo stays short, and no epoch pays
    for many others.
    """
    for index in range(found):
        store(updates, 4 * load(refused, index), 0)
    bad = count_rows(
        updates, version, arrays.counts, arrays.births, arrays.stamps, arrays.states, arrays.limbo,
        arrays.meta,
    )  # fmt: skip
    freed, cached, held = 0, 0, 0
    most = min(LISTED_PER_UPDATE * (updates.size // 4) + FREED_BESIDE, kept.size // 2)
    if most > MOST_LISTED or arrays.meta[LIMBO] > MOST_LISTED:
        freed, cached, held = sift_last(most, version, holds, 2, kept, arrays)
    note_settled(call, freed, cached, held, bad)


@short_kernel
def run_epoch(
    words: Words, roots: Words, next_roots: Words, holds: Words, updates: Words, log: Words,
    work: Words, packed: Words, graph_of: Words, entries: Words, refused: Words, verdicts: Words,
    requests: Words, call: Words, kept: Words, heap: Bytes, spans: Pairs, texts: Words,
    integers: Pairs, counts: Words, births: Words, stamps: Words, states: Bytes, cached: Bytes,
    free: Words, limbo: Words, meta: Words,
) -> int:  # fmt: skip
    """`run_phases` of a new epoch, or of one that waited for verdicts.

    With `next_roots` it is also published, unless there is a fault; then, if `call` says so, the
    terms of its updates are settled. What that did is in `call` and `kept`. A slide writes the
    updates itself, in front of `updates`, and its result may be one of `begin_slide`.
    """
    started, version = read_ticks(), load(words, EPOCH)
    is_long = load(call, CALL_MODE) & WITHOUT_LOCK != 0
    slide = edit_words(load(call, CALL_SLIDE), load(call, CALL_SLIDE_WORDS))
    if slide.size != 0:
        if load(work, PHASE) == JUDGE:  # else it waited for verdicts
            made = begin_slide(slide, updates)
            if made < 0:
                return made
        updates = updates[: 4 * load(slide, SIZE)]
        is_long = load(slide, SIZE) > load(slide, LONG)
    lock = release_lock() if is_long else 0
    found = run_phases(
        words, log, packed[packed[PACKED_LISTS]:packed[PACKED_LISTS + 1]], work,
        packed[packed[PACKED_TABLE]:packed[PACKED_TABLE + 1]],
        packed[packed[PACKED_LABELS]:packed[PACKED_LABELS + 1]], graph_of, updates,
        packed[packed[PACKED_BOUNDS]:packed[PACKED_BOUNDS + 1]], entries, refused, roots, verdicts,
        requests,
    )  # fmt: skip
    if found >= 0 and next_roots.size != 0:
        publish_epoch(words, next_roots, holds)
        arrays = Arrays(
            heap, spans, texts, integers, counts, births, stamps, states, cached, free, limbo, meta
        )
        if slide.size != 0:
            freed, cached_freed, held, bad = finish_slide(
                slide, updates, version, holds, kept, MOST_LISTED, arrays
            )
            note_settled(call, freed, cached_freed, held, bad)
        elif load(call, CALL_MODE) & COUNTING != 0:
            settle_terms(updates, refused, found, version, holds, kept, call, arrays)
    if found != NEEDS_VERDICTS:
        store(work, PHASE, JUDGE)  # the next call begins an epoch
    if found >= 0:
        note(call, CALL_TOUCHED, load(log, 0) >> 1)
    store(call, CALL_TICKS, read_ticks() - started)
    if is_long:
        take_lock(lock)
    return found
