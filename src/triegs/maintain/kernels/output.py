"""The output of a rule: applies netted emissions to its relations, and changes to its lists.

Emissions arrive in key order, so each set is descended to once, and a block is rewritten once for
all of its emissions. For a relation with another column order they are sorted again.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    LINE_WORDS,
    Words,
    bit,
    checked_add,
    load,
    prefetch,
    store,
    trailing_zeros,
)
from triegs.maintain.kernels.emissions import ID, ID_BITS, rearrange, sort_columns, unpack
from triegs.maintain.kernels.sort_keys import request_values, write_key
from triegs.maintain.kernels.tables import (
    RULE_ARITY,
    RULE_IS_LISTED_ONLY,
    RULE_IS_SUMMED,
    RULE_KEYS,
    RULE_KEYS_LIST,
    RULE_LIST,
    RULE_ORDERS,
    RULE_ORDERS_AT,
    RULE_SORTED,
    RULE_SORTED_AT,
    TARGET_COLUMNS_AT,
    TARGET_SLOT,
    TARGET_WIDTH,
    TARGET_WORDS,
)
from triegs.maintain.kernels.work import (
    ADDED,
    CHANGED,
    EMITTED,
    FRAMES,
    GROUPS,
    KEY,
    LEAF,
    LEAF_IDS,
    MOST_GROUPS,
    OTHER_KEY,
    RAW,
    REMOVED,
    SCRATCH,
    STRIDE,
)
from triegs.store.kernels.arena import drop
from triegs.store.kernels.blocks import (
    class_for,
    class_of_block,
    copy_entries,
    entry_key,
    entry_word,
    find_entry,
    is_bare_entry,
    make_block,
    room_of,
    slots_of,
    write_entry,
)
from triegs.store.kernels.free import has_room
from triegs.store.kernels.layout import (
    BARE,
    BITS,
    DIGIT,
    FAULTS,
    FULL_BARE,
    FULL_BLOCK,
    HEAD,
    LOG_FULL,
    LOW,
    NODE_CLASS,
    OVERFLOW,
    SLOTS,
)
from triegs.store.kernels.order_statistics import summed_change
from triegs.store.kernels.relations import (
    mark_word,
    set_fault,
    tuple_change,
    tuple_get,
)
from triegs.store.kernels.sets import set_change, set_get, set_offset
from triegs.store.kernels.shared import share_block
from triegs.store.kernels.trie import find_leaf, trie_leaf

MOST_FETCHED = 32  # at most this many emissions of a set have their blocks prefetched
NOT_DONE = -1 << 62


@inlined
def has_log(words: Words, log: Words, count: int) -> bool:
    if load(log, 0) + count <= log.size:
        return True
    set_fault(words, LOG_FULL)
    return False


@inlined
def list_change(words: Words, log: Words, work: Words, width: int, before: int, now: int) -> None:
    """Log the first ids of the current tuple."""
    if not has_log(words, log, width + 2):
        return
    top = load(log, 0)
    for column in range(width):
        store(log, top + column, load(work, KEY + column))
    store(log, top + width, before)
    if width == 1:
        store(log, 0, top + 2)
    else:
        store(log, top + width + 1, now)
        store(log, 0, top + width + 2)


@inlined
def is_same_set(work: Words, at: int, other: int, stride: int) -> bool:
    """Whether two emissions differ only in the last column."""
    for word in range(stride - 2):
        if load(work, at + word) != load(work, other + word):
            return False
    last = stride - 2  # a single id has no high bits here
    return load(work, at + last) >> ID_BITS == load(work, other + last) >> ID_BITS


@inlined
def last_id(work: Words, at: int, stride: int, arity: int) -> int:
    pair = load(work, at + stride - 2)
    return pair if arity & 1 else pair & ID


@inlined
def read_column(work: Words, at: int, column: int, arity: int) -> int:
    """One id of an emission."""
    pair = load(work, at + (column >> 1))
    if column & 1:
        return pair & ID
    return pair >> ID_BITS if column + 1 < arity else pair


@inlined
def fetch_set(words: Words, reference: int) -> None:
    """Prefetch a hub or the first slots of a block, which a change copies."""
    start = reference & ~1
    prefetch(words, start)
    prefetch(words, start + LINE_WORDS)
    prefetch(words, start + 2 * LINE_WORDS)
    if reference & 1:
        prefetch(words, start + 3 * LINE_WORDS)
        prefetch(words, start + 4 * LINE_WORDS)


@merged
def fetch_groups(words: Words, work: Words, root: int, count: int, stride: int, arity: int) -> None:
    """Prefetch the sets of all groups level by level, so that their cache misses overlap."""
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        x = read_column(work, load(work, group), 0, arity)
        offset = find_leaf(words, root, x) + HEAD + (x & DIGIT)
        prefetch(words, offset)
        store(work, group + 1, offset)
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        reference = load(words, load(work, group + 1))
        fetch_set(words, reference)
        store(work, group + 1, reference)
    for column in range(1, arity - 1):
        for group in range(GROUPS, GROUPS + 2 * count, 2):
            hub = load(work, group + 1) - 1
            if hub & 1 == 0:
                key = read_column(work, load(work, group), column, arity)
                child = load(words, hub + HEAD + (key & DIGIT))
                for line in range(3):
                    prefetch(words, child + line * LINE_WORDS)
        for group in range(GROUPS, GROUPS + 2 * count, 2):
            key = read_column(work, load(work, group), column, arity)
            reference = set_get(words, load(work, group + 1), key)
            fetch_set(words, reference)
            store(work, group + 1, reference)
    for group in range(GROUPS, GROUPS + 2 * count, 2):
        hub = load(work, group + 1) - 1
        if hub & 1 == 0:
            at, end = load(work, group), load(work, group + 2)
            for here in range(at, min(end, at + MOST_FETCHED * stride), stride):
                key = last_id(work, here, stride, arity)
                child = load(words, hub + HEAD + (key & DIGIT))
                prefetch(words, child)
                prefetch(words, child + LINE_WORDS)


@kernel
def list_groups(
    words: Words, work: Words, root: int, at: int, end: int, stride: int, arity: int
) -> int:
    """Record where the next groups of emissions start, one group per set, and prefetch the sets.

    Returns the number of groups. `GROUPS` holds two words per group, followed by the end of the
    last group.
    """
    count = 0
    while at < end and count < MOST_GROUPS:
        store(work, GROUPS + 2 * count, at)
        count += 1
        first = at
        at += stride
        while at < end and is_same_set(work, first, at, stride):
            at += stride
    store(work, GROUPS + 2 * count, at)
    if count > 1:
        fetch_groups(words, work, root, count, stride, arity)
    return count


@inlined
def count_shared(work: Words, at: int, arity: int) -> int:
    """How many leading columns, the last excluded, an emission shares with the tuple in `KEY`."""
    shared = 0
    while shared < arity - 1 and read_column(work, at, shared, arity) == load(work, KEY + shared):
        shared += 1
    return shared


@inlined
def is_left_bare(words: Words, work: Words, block: int, header: int, changed: int) -> bool:
    """Whether what stays of a block could be bare, given the new counts of changed entries."""
    room = room_of(header)
    for index in range(header & LOW):
        word = entry_word(words, block, room, index)
        if (changed >> index) & 1:
            word = load(work, CHANGED + index)
        if word != 0 and not is_bare_entry(entry_key(words, block, room, index), word):
            return False
    return True


@inlined
def find_left(words: Words, work: Words, block: int, header: int, changed: int) -> int:
    """The one id that stays of a block; if there is none, the first new one."""
    for index in range(header & LOW):
        if not (changed >> index) & 1 or load(work, CHANGED + index) != 0:
            return entry_key(words, block, room_of(header), index)
    return load(work, ADDED)


@inlined
def copy_left(
    words: Words, work: Words, target: int, room: int, block: int, header: int, changed: int
) -> int:
    """Copy what stays of a block into another one; returns the number of its entries."""
    own_room = room_of(header)
    kept = 0
    for index in range(header & LOW):
        word = entry_word(words, block, own_room, index)
        if (changed >> index) & 1:
            word = load(work, CHANGED + index)
        if word != 0:
            key = entry_key(words, block, own_room, index)
            write_entry(words, target, room, kept, key, word)
            kept += 1
    return kept


@inlined
def copy_all(
    words: Words, work: Words, target: int, room: int, block: int, own_room: int, size: int,
    changed: int,
) -> int:  # fmt: skip
    """Like `copy_left`, between blocks of one kind of which the new one has as many slots. Copies
    words whole; the last entries then fill the gaps, highest first.
    """
    copy_entries(words, target, room, 0, block, own_room, size)
    removed = 0
    while changed != 0:
        index = trailing_zeros(changed)
        changed ^= bit(index)
        word = load(work, CHANGED + index)
        if word == 0:
            store(work, REMOVED + removed, index)
            removed += 1
        elif room != 0:
            store(words, target + HEAD + room + index, word)
    while removed > 0:
        removed -= 1
        size -= 1
        index = load(work, REMOVED + removed)
        if index < size:
            key, word = entry_key(words, target, room, size), entry_word(words, target, room, size)
            write_entry(words, target, room, index, key, word)
    return size


@merged
def change_block(
    words: Words, work: Words, at: int, first: int, end: int, stride: int, arity: int
) -> int:
    """Apply emissions to a set that is empty or a block, and write the new block once.

    Old counts go to the scratch buffer. Returns the change in the number of entries; `NOT_DONE`,
    with nothing changed, if the set would become a hub or a sum overflows.
    """
    block = load(words, at)
    header = load(words, block + 1)
    size, room = header & LOW, room_of(header)
    olds = load(work, SCRATCH)
    changed, inserted, left = 0, 0, size
    bare = BARE if size == 0 else header & BARE
    for here in range(first, end, stride):
        key, change = last_id(work, here, stride, arity), load(work, here + stride - 1)
        index = find_entry(words, block, header, key)
        old = 0
        if index == size:
            if inserted == FULL_BARE:
                return NOT_DONE
            store(work, ADDED + 2 * inserted, key)
            store(work, ADDED + 2 * inserted + 1, change)
            inserted += 1
            if not is_bare_entry(key, change):
                bare = 0
        else:
            old = entry_word(words, block, room, index)
            new, overflow = checked_add(old, change)
            if overflow:
                set_fault(words, OVERFLOW)
                return NOT_DONE
            store(work, CHANGED + index, new)
            changed |= bit(index)
            if new == 0:
                left -= 1
            elif new != 1:
                bare = 0
        store(work, olds, old)
        olds += 1
    count = left + inserted
    if room != 0 and count <= FULL_BLOCK and is_left_bare(words, work, block, header, changed):
        bare = BARE
        for number in range(inserted):
            word = load(work, ADDED + 2 * number + 1)
            if not is_bare_entry(load(work, ADDED + 2 * number), word):
                bare = 0
    if count > (FULL_BARE if bare else FULL_BLOCK):
        return NOT_DONE
    size_class = class_of_block(header)
    if count == 0:
        if size != 0:
            drop(words, block, size_class)
            store(words, at, 0)
        return -size
    if count == 1 and bare:
        store(words, at, share_block(words, find_left(words, work, block, header, changed)))
        if size != 0:
            drop(words, block, size_class)
        return 1 - size
    slots = slots_of(header)
    new_class = size_class
    is_alike = size != 0 and bare == header & BARE
    if not is_alike or count > slots or (size_class > 0 and count <= slots >> 2):
        new_class = class_for(count, bare)
    target = make_block(words, count, new_class, bare)
    new_room = room_of(load(words, target + 1))
    if is_alike and new_class >= size_class:
        kept = copy_all(words, work, target, new_room, block, room, size, changed)
    else:
        kept = copy_left(words, work, target, new_room, block, header, changed)
    for number in range(inserted):
        key, word = load(work, ADDED + 2 * number), load(work, ADDED + 2 * number + 1)
        write_entry(words, target, new_room, kept + number, key, word)
    if size != 0:
        drop(words, block, size_class)
    store(words, at, target)
    return count - size


@merged
def change_set(
    words: Words, work: Words, at: int, first: int, end: int, stride: int, arity: int
) -> int:
    """Apply emissions to one set; returns the change in the number of its entries."""
    more = NOT_DONE
    if end - first > stride and load(words, at) & 1 == 0:
        more = change_block(words, work, at, first, end, stride, arity)
    if more != NOT_DONE:
        return more
    more = 0
    olds = load(work, SCRATCH)
    for here in range(first, end, stride):
        if not has_room(words):
            break
        key, change = last_id(work, here, stride, arity), load(work, here + stride - 1)
        old, new = set_change(words, at, key, change, False)
        more += (1 if new != 0 else 0) - (1 if old != 0 else 0)
        store(work, olds, old)
        olds += 1
    return more


@merged
def apply_in_order(
    words: Words, log: Words, work: Words, slot: int, arity: int, is_listed: bool
) -> None:
    """Apply the sums to a relation of two or more columns, one set at a time.

    Emissions are sorted, so those of one set are adjacent, and each descent resumes at the first
    column that differs.
    """
    stride, raw = load(work, STRIDE), load(work, RAW)
    end = raw + load(work, EMITTED) * stride
    shared, group, groups_end = 0, 0, 0
    store(work, LEAF_IDS, -1)
    at = raw
    while at < end:
        if group == groups_end:
            count = list_groups(words, work, load(words, slot), at, end, stride, arity)
            group, groups_end = GROUPS, GROUPS + 2 * count
        group += 2
        following = load(work, group)
        if not has_room(words):
            return
        shared = min(shared, count_shared(work, at, arity))
        unpack(work, at, arity)
        x = load(work, KEY)
        if shared == 0:
            if x >> BITS != load(work, LEAF_IDS):
                store(work, LEAF, trie_leaf(words, slot, x, NODE_CLASS, NODE_CLASS))
                store(work, LEAF_IDS, x >> BITS)
            store(work, FRAMES, load(work, LEAF) + HEAD + (x & DIGIT))
            shared = 1
        top = load(work, FRAMES)
        before = load(words, top)
        offset = load(work, FRAMES + shared - 1)
        for level in range(shared, arity - 1):
            offset = set_offset(words, offset, load(work, KEY + level))
            store(work, FRAMES + level, offset)
        more = change_set(words, work, offset, at, following, stride, arity)
        level = arity - 2
        while level > 0 and load(words, load(work, FRAMES + level)) == 0:
            level -= 1  # the set became empty: its id leaves the set above
            set_change(words, load(work, FRAMES + level), load(work, KEY + level + 1), 0, True)
        shared = level + 1
        store(words, slot + 1, load(words, slot + 1) + more)
        after = load(words, top)
        mark_word(words, slot, load(work, LEAF), x, before, after)
        if after == 0:  # the leaf may have been pruned
            shared = 0
            store(work, LEAF_IDS, -1)
        if load(words, FAULTS) != 0:
            return
        if is_listed:
            olds = load(work, SCRATCH)
            for here in range(at, following, stride):
                store(work, KEY + arity - 1, last_id(work, here, stride, arity))
                change, old = load(work, here + stride - 1), load(work, olds)
                list_change(words, log, work, arity, old, old + change)
                if load(words, FAULTS) != 0:
                    return
                olds += 1
        at = following


@merged
def list_keys_of(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, roots: Words
) -> None:
    """List the keys, over the first columns, that appeared or disappeared; equal ones adjoin."""
    arity, stride = load(table, step + RULE_ARITY), load(work, STRIDE)
    keys, changed = load(table, step + RULE_KEYS), load(table, step + RULE_KEYS_LIST)
    slot = load(table, load(table, step + RULE_ORDERS_AT))
    root = load(words, slot)
    old_root = load(roots, slot - SLOTS) if slot - SLOTS < roots.size else 0
    raw = load(work, RAW)
    store(lists, 2 * changed, load(log, 0))
    for column in range(keys):
        store(work, OTHER_KEY + column, -1)
    for at in range(raw, raw + load(work, EMITTED) * stride, stride):
        unpack(work, at, arity)
        is_new = keys == 0 and at == raw
        for column in range(keys):
            value = load(work, KEY + column)
            if value != load(work, OTHER_KEY + column):
                is_new = True
                store(work, OTHER_KEY + column, value)
        if is_new:
            before = tuple_get(words, old_root, work[KEY:], keys) != 0
            now = tuple_get(words, root, work[KEY:], keys) != 0
            if before != now:
                list_change(words, log, work, keys, 1 if before else 0, 1 if now else 0)
    store(lists, 2 * changed + 1, load(log, 0))


@merged
def apply_singly(
    words: Words, log: Words, work: Words, table: Words, step: int, slot: int, arity: int
) -> None:
    """Apply the sums tuple by tuple: to a map, or to hubs with counts; or only list them."""
    is_listed = load(table, step + RULE_LIST) >= 0
    is_listed_only = load(table, step + RULE_IS_LISTED_ONLY)
    is_summed = load(table, step + RULE_IS_SUMMED)
    stride, raw = load(work, STRIDE), load(work, RAW)
    end = raw + load(work, EMITTED) * stride
    fetched = raw
    for at in range(raw, end, stride):
        if arity > 1 and at == fetched:
            count = list_groups(words, work, load(words, slot), at, end, stride, arity)
            fetched = load(work, GROUPS + 2 * count)
        unpack(work, at, arity)
        change = load(work, at + stride - 1)
        if is_listed_only:
            new = tuple_get(words, load(words, slot), work[KEY:], arity)
            old = new - change
        elif is_summed:
            old, new = summed_change(words, slot, work[KEY:], arity, change)
        else:
            old, new = tuple_change(words, slot, work[KEY:], arity, change, False)
        if is_listed:
            list_change(words, log, work, arity, old, new)
        if load(words, FAULTS) != 0:
            return


@merged
def apply_emissions(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, roots: Words
) -> None:
    """Apply the sums to all relations of the output, and list the changes.

    The first relation has the column order of the head. For each other one, the emissions are
    rearranged and sorted; lists are complete by then.
    """
    arity, changed = load(table, step + RULE_ARITY), load(table, step + RULE_LIST)
    is_single = arity < 2 or load(table, step + RULE_IS_SUMMED) != 0
    is_single = is_single or load(table, step + RULE_IS_LISTED_ONLY) != 0
    order = load(table, step + RULE_ORDERS_AT)
    for number in range(load(table, step + RULE_ORDERS)):
        slot, start = load(table, order), load(log, 0)
        if number == 1:
            for column in range(arity):
                store(work, OTHER_KEY + column, column)
        if number > 0:
            sort_columns(work, rearrange(work, table, order, arity))
        if number == 0 and is_single:
            apply_singly(words, log, work, table, step, slot, arity)
        else:
            apply_in_order(words, log, work, slot, arity, number == 0 and changed >= 0)
        if load(words, FAULTS) != 0:
            return
        if number == 0:
            if changed >= 0:
                store(lists, 2 * changed, start)
                store(lists, 2 * changed + 1, load(log, 0))
            if load(table, step + RULE_KEYS_LIST) >= 0:
                list_keys_of(words, log, lists, work, table, step, roots)
        order += 1 + arity


# Sorted relations


@kernel
def request_sorted(work: Words, table: Words, step: int, verdicts: Words, requests: Words) -> None:
    """Ask for the values of all ids whose sort keys the output needs."""
    arity, stride, raw = load(table, step + RULE_ARITY), load(work, STRIDE), load(work, RAW)
    target = load(table, step + RULE_SORTED_AT)
    for _ in range(load(table, step + RULE_SORTED)):
        columns_at, width = (
            load(table, target + TARGET_COLUMNS_AT), load(table, target + TARGET_WIDTH)
        )  # fmt: skip
        for at in range(raw, raw + load(work, EMITTED) * stride, stride):
            unpack(work, at, arity)
            request_values(table, work, KEY, columns_at, width, verdicts, requests)
        target += TARGET_WORDS


@kernel
def apply_sorted(words: Words, work: Words, table: Words, step: int, verdicts: Words) -> None:
    """Apply the sums to all sorted relations of the output."""
    arity, stride, raw = load(table, step + RULE_ARITY), load(work, STRIDE), load(work, RAW)
    target = load(table, step + RULE_SORTED_AT)
    for _ in range(load(table, step + RULE_SORTED)):
        slot, width = load(table, target + TARGET_SLOT), load(table, target + TARGET_WIDTH)
        columns_at = load(table, target + TARGET_COLUMNS_AT)
        for at in range(raw, raw + load(work, EMITTED) * stride, stride):
            unpack(work, at, arity)
            write_key(table, work, KEY, OTHER_KEY, columns_at, width, verdicts)
            change = load(work, at + stride - 1)
            tuple_change(words, slot, work[OTHER_KEY:], width, change, False)
            if load(words, FAULTS) != 0:
                return
        target += TARGET_WORDS
