"""Lists and emissions of morsels: where each worker left them, and how another one reads them."""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import edit_words, load, store
from triegs.maintain.kernels.morsel_tables import (
    LOG_WORDS,
    P_EMITTED,
    P_LISTS_AT,
    P_LOGS,
    P_RANGES,
    P_STRIPES,
    RANGE_OF_LIST_WORDS,
    S_SHIFT,
    WHOLE,
    Worker,
)
from triegs.maintain.kernels.output import read_column
from triegs.maintain.kernels.work import BUFFER_WORDS, EMITTED, RAW, STRIDE
from triegs.store.kernels.layout import LOG_FULL
from triegs.store.kernels.relations import set_fault
from triegs.store.kernels.stripes import find_stripe


@inlined
def stripe_of(me: Worker, key: int) -> int:
    return find_stripe(key, load(me.state, S_SHIFT), load(me.plan, P_STRIPES))


@inlined
def find_range(me: Worker, number: int, stripe: int) -> int:
    """The offset in the state of where a stripe of a list is; a whole list is in the first."""
    row = number * load(me.plan, P_STRIPES) + max(stripe, 0)
    return load(me.plan, P_RANGES) + RANGE_OF_LIST_WORDS * row


@inlined
def find_emitted(me: Worker, number: int, share: int) -> int:
    """The offset in the state of where a share of some emissions is."""
    row = number * load(me.plan, P_STRIPES) + share
    return load(me.plan, P_EMITTED) + RANGE_OF_LIST_WORDS * row


@inlined
def find_log(me: Worker, worker: int) -> int:
    """The offset in the state of address and size of a worker's log; then of its pool."""
    return load(me.plan, P_LOGS) + LOG_WORDS * worker


@inlined
def is_striped(me: Worker, number: int) -> bool:
    return load(me.plan, load(me.plan, P_LISTS_AT) + number) != 0


@inlined
def note_range(me: Worker, own: int, number: int, stripe: int) -> None:
    """Say where this worker left a stripe of a list."""
    if number >= 0:
        at = find_range(me, number, stripe)
        store(me.state, at, own)
        store(me.state, at + 1, load(me.lists, 2 * number))
        store(me.state, at + 2, load(me.lists, 2 * number + 1))


@kernel
def copy_range(
    me: Worker, number: int, stripe: int, share: int, shares: int, stride: int, only: int
) -> None:
    """Copy a share of one stripe of a list to this worker's log; with `only`, the keys of a
    stripe.
    """
    at = find_range(me, number, stripe)
    start, end = load(me.state, at + 1), load(me.state, at + 2)
    count = (end - start) // stride
    first, last = (
        start + stride * (count * share // shares),
        start + stride * (count * (share + 1) // shares),
    )
    top = load(me.log, 0)
    if first == last:
        return
    if top + last - first > me.log.size:
        set_fault(me.words, LOG_FULL)
        return
    found = find_log(me, load(me.state, at))
    source = edit_words(load(me.state, found), load(me.state, found + 1))
    for entry in range(first, last, stride):
        if only >= 0 and stripe_of(me, load(source, entry)) != only:
            continue
        for word in range(stride):
            store(me.log, top + word, load(source, entry + word))
        top += stride
    store(me.log, 0, top)


@kernel
def gather_list(me: Worker, number: int, stride: int, stripe: int) -> int:
    """Make a list, or with `stripe` that of one stripe of its ids, one of this worker; returns the
    number of its entries.
    """
    if number < 0:
        return 0
    start = load(me.log, 0)
    if not is_striped(me, number):
        copy_range(me, number, 0, 0, 1, stride, stripe)
    elif stripe != WHOLE:
        copy_range(me, number, stripe, 0, 1, stride, -1)
    else:
        for each in range(load(me.plan, P_STRIPES)):
            copy_range(me, number, each, 0, 1, stride, -1)
    store(me.lists, 2 * number, start)
    store(me.lists, 2 * number + 1, load(me.log, 0))
    return (load(me.log, 0) - start) // stride


@kernel
def gather_share(me: Worker, number: int, stride: int, share: int) -> int:
    """Make a share of a list one of this worker: a stripe, or as many of its entries."""
    if is_striped(me, number):
        return gather_list(me, number, stride, share)
    start = load(me.log, 0)
    copy_range(me, number, 0, share, load(me.plan, P_STRIPES), stride, -1)
    store(me.lists, 2 * number, start)
    store(me.lists, 2 * number + 1, load(me.log, 0))
    return (load(me.log, 0) - start) // stride


# Emissions


@kernel
def keep_emissions(me: Worker, own: int, number: int, share: int) -> None:
    """Move the emissions of a rule from the work memory to this worker's pool."""
    count, stride = load(me.work, EMITTED), load(me.work, STRIDE)
    top, raw = load(me.pool, 0), load(me.work, RAW)
    if top + count * stride > me.pool.size:
        set_fault(me.words, LOG_FULL)
        return
    for word in range(count * stride):
        store(me.pool, top + word, load(me.work, raw + word))
    note_emitted(me, own, number, share, top + count * stride)


@inlined
def note_emitted(me: Worker, own: int, number: int, share: int, end: int) -> None:
    """Say where this worker left a share of some emissions: from the top of its pool."""
    at = find_emitted(me, number, share)
    store(me.state, at, own)
    store(me.state, at + 1, load(me.pool, 0))
    store(me.state, at + 2, end)
    store(me.pool, 0, end)


@kernel
def collect_emissions(me: Worker, number: int, column: int, arity: int, stripe: int) -> None:
    """Copy the emissions of all shares to the work memory; unless it is `WHOLE`, those with an id
    of the stripe in a column.
    """
    stride, kept, raw = load(me.work, STRIDE), 0, load(me.work, RAW)
    for share in range(load(me.plan, P_STRIPES)):
        at = find_emitted(me, number, share)
        found = find_log(me, load(me.state, at))
        pool = edit_words(load(me.state, found + 2), load(me.state, found + 3))
        for here in range(load(me.state, at + 1), load(me.state, at + 2), stride):
            if stripe != WHOLE and stripe_of(me, read_column(pool, here, column, arity)) != stripe:
                continue
            if (kept + 1) * stride > load(me.work, BUFFER_WORDS):
                set_fault(me.words, LOG_FULL)
                return
            for word in range(stride):
                store(me.work, raw + word, load(pool, here + word))
            raw += stride
            kept += 1
    store(me.work, EMITTED, kept)
