"""Kernels that number the groups of events, and count the events of each.

Groups are found by a hash table with linear probing: ``table[slot]`` is a group plus one, 0 if the
slot is empty. ``members`` has the key of each group, ``events`` how many events refer to it.
Removing a group moves later entries of its run up, so that no slot is ever marked as deleted.

The code of an event says what it counts for:

==========  ====================================================================
g >= 0      a value of group g
`UNUSABLE`  it matches the pattern, but its value is no number
-2          an unusable event that was deleted
-3 - g      a value of group g that was deleted
==========  ====================================================================
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import kernel
from triegs.jit.words import Words
from triegs.terms.jit import wrapping

UNUSABLE = -1
#: The code of a deleted event is this minus the code that it had.
DELETED = -3

# Of ``sizes``: the groups ever made, the free ones among them, and those in use.
MADE, FREE, USED, SIZES = range(4)


@wrapping
def mix_word(found: int, word: int) -> int:
    mixed = (np.uint64(found) ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(1))  # type: ignore[return-value]


@kernel
def find_home(keys: Words, row: int, slots: int) -> int:
    """The slot where the search for a key begins."""
    found = 0
    for column in range(keys.shape[1]):
        found = mix_word(found, keys[row, column])
    return found & (slots - 1)


@kernel
def find_group(keys: Words, row: int, table: Words, members: Words) -> int:
    """The slot of a key, or of the empty slot for it as -1 - slot."""
    slot = find_home(keys, row, len(table))
    while table[slot] != 0:
        group = table[slot] - 1
        is_equal = True
        for column in range(keys.shape[1]):
            if members[group, column] != keys[row, column]:
                is_equal = False
                break
        if is_equal:
            return slot
        slot = (slot + 1) & (len(table) - 1)
    return -1 - slot


@kernel
def assign_groups(
    keys: Words, table: Words, members: Words, events: Words, free: Words, sizes: Words,
    codes: Words, fresh: Words,
) -> tuple[int, int]:  # fmt: skip
    """Write the group of each key, and count an event for it. New groups are written to `fresh`.
    Returns the rows done, fewer than given if there is no room, and the number of new groups.
    """
    made = 0
    for row in range(len(codes)):
        slot = find_group(keys, row, table, members)
        if slot < 0:
            if 2 * (sizes[USED] + 1) > len(table) or made == len(fresh):
                return row, made
            if sizes[FREE] > 0:
                sizes[FREE] -= 1
                group = free[sizes[FREE]]
            elif sizes[MADE] < len(members):
                group = sizes[MADE]
                sizes[MADE] += 1
            else:
                return row, made
            sizes[USED] += 1
            for column in range(keys.shape[1]):
                members[group, column] = keys[row, column]
            events[group] = 0
            table[-1 - slot] = group + 1
            fresh[made] = group
            made += 1
        else:
            group = table[slot] - 1
        events[group] += 1
        codes[row] = group
    return len(codes), made


@kernel
def link_groups(table: Words, members: Words, groups: Words) -> None:
    """Enter groups into an empty, larger table."""
    for row in range(len(groups)):
        slot = find_group(members, groups[row], table, members)
        table[-1 - slot] = groups[row] + 1


@kernel
def remove_slot(table: Words, members: Words, slot: int) -> None:
    """Empty a slot, and move up the entries of its run that may now be found earlier."""
    mask = len(table) - 1
    gap = slot
    at = (slot + 1) & mask
    while table[at] != 0:
        home = find_home(members, table[at] - 1, len(table))
        # It stays if its home is after the gap, cyclically.
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = table[at]
            gap = at
        at = (at + 1) & mask
    table[gap] = 0


@kernel
def release_groups(
    codes: Words, table: Words, members: Words, events: Words, free: Words, sizes: Words,
    gone: Words,
) -> int:  # fmt: skip
    """Take back an event of each code; groups without events are freed and written to `gone`.
    Returns their number.
    """
    found = 0
    for row in range(len(codes)):
        code = codes[row]
        group = code if code >= 0 else DELETED - code
        if group < 0:
            continue
        events[group] -= 1
        if events[group] == 0:
            remove_slot(table, members, find_group(members, group, table, members))
            free[sizes[FREE]] = group
            sizes[FREE] += 1
            sizes[USED] -= 1
            gone[found] = group
            found += 1
    return found


@kernel
def count_codes(
    codes: Words, change: int, counts: Words, marks: Words, stamp: int, changed: Words, first: int
) -> tuple[int, int]:
    """Add a change to the count of each code's group. Groups that are not marked with the stamp are
    marked and written to `changed` from index `first` on. Returns the end of these, and how many
    codes are of unusable events.
    """
    end = first
    unusable = 0
    for row in range(len(codes)):
        group = codes[row]
        if group == UNUSABLE:
            unusable += 1
        elif group >= 0:
            counts[group] += change
            if marks[group] != stamp:
                marks[group] = stamp
                changed[end] = group
                end += 1
    return end, unusable
