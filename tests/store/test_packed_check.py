"""Each invariant of docs/trie.md, broken on purpose, is found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triegs.store.contract import StoreCorrupt
from triegs.store.kernels.blocks import room_of
from triegs.store.kernels.free import join_runs
from triegs.store.kernels.layout import (
    BARE,
    BUMP,
    CLASS,
    CLASS_BITS,
    DIRECTORY,
    EPOCH,
    FREE,
    FREE_COUNT,
    FRESH,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    OFFSET,
    RETAINED,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SHARED_WORDS,
    SLOTS,
)
from triegs.store.packed import PackedStore, PackedVersion


class Example:
    """A store with a held version, a newer one, and changes on their way.

    `knows` has a block of 2 (for 7), a block of 8 slots (for 9), a shared block (for 11) and a hub
    (for 40).
    """

    def __init__(self) -> None:
        self.store = PackedStore()
        self.words = self.store.words
        self.numbers = self.store.create("numbers", 1)
        self.knows = self.store.create("knows", 2)
        self.facts = self.store.create("facts", 3)
        self.total = self.store.create("total", 0)
        for each in [1, 2, 33, 2_000]:
            self.numbers.set((each,), each)
        for x, ys in [(7, range(2)), (9, range(6)), (40, range(100))]:
            for y in ys:
                self.knows.set((x, y), y + 1)
        self.knows.set((11, 3), 1)
        for z in range(3):
            self.facts.set((1, 5, z), 1)
        self.total.set((), 3)
        self.held: PackedVersion = self.store.pin(self.store.publish())
        self.numbers.set((1,), 5)
        self.knows.set((7, 1), 9)
        self.knows.set((40, 50), 0)
        self.store.publish()
        self.numbers.set((2,), 6)
        self.knows.set((9, 1), 0)
        self.facts.set((1, 5, 2), 0)
        self.facts.set((2, 5, 2), 1)
        self.facts.set((2, 5, 2), 0)  # leaves free nodes
        self.store.check()

    def root(self, relation_slot: int) -> int:
        return int(self.words[SLOTS + 2 * relation_slot])

    def leaf(self, relation_slot: int, key: int) -> int:
        """The leaf of an id, found the slow way."""
        root = self.root(relation_slot)
        node = root & OFFSET
        for height in range(root >> HEIGHT_SHIFT, 0, -1):
            node = int(self.words[node + HEAD + (key >> 5 * height & 31)])
        return node

    def word_at(self, relation_slot: int, key: int) -> int:
        return self.leaf(relation_slot, key) + HEAD + (key & 31)

    def block(self, x: int) -> int:
        return int(self.words[self.word_at(1, x)])

    def hub(self) -> int:
        return self.block(40) - 1


def clear_bit(example: Example) -> None:
    example.words[example.leaf(0, 33) + 1] = 0


def set_bit_without_child(example: Example) -> None:
    example.words[example.leaf(0, 2) + 1] |= 1 << 9


def flag_an_inner_node(example: Example) -> None:
    example.words[(example.root(0) & OFFSET) + 1] |= 1 << 40


def flag_a_hub(example: Example) -> None:
    example.words[example.hub() + 1] |= 1 << 40


def zero_a_count(example: Example) -> None:
    block = example.block(9)
    example.words[block + HEAD + room_of(int(example.words[block + 1]))] = 0


def count_once(example: Example) -> None:
    """A plain block all of whose words are 1."""
    block = example.block(9)
    header = int(example.words[block + 1])
    start = block + HEAD + room_of(header)
    example.words[start : start + (header & LOW)] = 1


def bare_a_block(example: Example) -> None:
    example.words[example.block(9) + 1] |= BARE


def empty_a_leaf(example: Example) -> None:
    example.words[example.word_at(0, 33)] = 0
    example.words[example.leaf(0, 33) + 1] = 0


def raise_a_trie(example: Example) -> None:
    """A top node whose only child is the first."""
    root = example.root(1)
    top = int(example.words[BUMP])
    example.words[BUMP] += 34
    example.words[top : top + 34] = 0
    example.words[top] = example.words[EPOCH]
    example.words[top + 1] = 1
    example.words[top + HEAD] = root & OFFSET
    example.words[SLOTS + 2] = top | ((root >> HEIGHT_SHIFT) + 1) << HEIGHT_SHIFT


def make_a_trie_too_high(example: Example) -> None:
    example.words[SLOTS] = (example.root(0) & OFFSET) | 9 << HEIGHT_SHIFT


def repeat_a_key(example: Example) -> None:
    block = example.block(9)
    example.words[block + HEAD + 1] = example.words[block + HEAD]


def misplace_a_key(example: Example) -> None:
    child = int(example.words[example.hub() + HEAD + 3])
    example.words[child + HEAD] = 4


def use_a_key_that_is_too_large(example: Example) -> None:
    example.words[example.block(9) + HEAD] = 2**60


def overfill_a_block(example: Example) -> None:
    block = example.block(7)
    example.words[block + 1] = 5 | (int(example.words[block + 1]) >> 32 << 32)


def underfill_a_block(example: Example) -> None:
    block = example.block(9)
    example.words[block + 1] = 2 | (int(example.words[block + 1]) >> 32 << 32)


def name_no_class(example: Example) -> None:
    example.words[example.block(9) + 1] |= 7 << 32


def empty_a_block(example: Example) -> None:
    example.words[example.block(7) + 1] &= ~LOW


def thin_a_hub(example: Example) -> None:
    hub = example.hub()
    for digit in range(2, 32):
        example.words[hub + HEAD + digit] = 0
    example.words[hub + 1] = 3


def bear_in_the_future(example: Example) -> None:
    example.words[example.block(9)] = int(example.words[EPOCH]) + 1


def bear_after_the_parent(example: Example) -> None:
    example.words[example.leaf(0, 2_000)] = example.words[EPOCH]


def change_a_held_node(example: Example) -> None:
    root = int(example.held.roots[0])
    node = root & OFFSET
    for height in range(root >> HEIGHT_SHIFT, 0, -1):
        node = int(example.words[node + HEAD + (1 >> 5 * height & 31)])
    example.words[node + HEAD + 1] = 77


def change_a_held_root(example: Example) -> None:
    example.held.roots[6] = 4


def miscount_entries(example: Example) -> None:
    example.words[SLOTS + 1] += 1


def miscount_a_held_version(example: Example) -> None:
    example.held.roots[1] += 1


def fill_an_unused_slot(example: Example) -> None:
    example.store.drop(example.total)
    example.words[SLOTS + 6] = 1


def share_a_block(example: Example) -> None:
    example.words[example.word_at(1, 9)] = example.block(7)


def point_nowhere(example: Example) -> None:
    example.words[example.word_at(1, 9)] = 2**40


def free_a_live_node(example: Example) -> None:
    block = example.block(7)
    size_class = int(example.words[block + 1]) >> 32
    example.words[FREE + size_class] = block
    example.words[FREE_COUNT + size_class] = 1
    example.words[block] = 0


def free_a_retained_node(example: Example) -> None:
    """A node that waits for a reader is on the free list as well."""
    chunk = int(example.store.holds[1])
    entry = int(example.words[chunk + HEAD])
    node, size_class = entry >> CLASS_BITS, entry & CLASS
    example.words[node] = example.words[FREE + size_class]
    example.words[FREE + size_class] = node
    example.words[FREE_COUNT + size_class] += 1


def lose_a_node(example: Example) -> None:
    example.words[BUMP] += 10


def close_the_free_list(example: Example) -> None:
    free = next(c for c in range(3) if example.words[FREE + c])
    example.words[example.words[FREE + free]] = example.words[FREE + free]


def miscount_free_nodes(example: Example) -> None:
    example.words[FREE_COUNT] += 1


def make_a_run(example: Example) -> int:
    """Free words between nodes; returns the kind of the run."""
    for key, count in [((50, 1), 1), ((51, 1), 1), ((50, 1), 0)]:
        example.knows.set(key, count)
    join_runs(example.words)
    example.store.check()
    return next(kind for kind in range(RUN_LISTS) if example.words[RUNS + kind])


def lose_a_run(example: Example) -> None:
    kind = make_a_run(example)
    run = int(example.words[RUNS + kind])
    example.words[RUN_WORDS] -= example.words[run + 1]
    example.words[RUNS + kind] = example.words[run]


def list_a_run_by_another_class(example: Example) -> None:
    kind = make_a_run(example)
    example.words[RUNS] = example.words[RUNS + kind]
    example.words[RUNS + kind] = 0


def lengthen_a_run(example: Example) -> None:
    kind = make_a_run(example)
    example.words[int(example.words[RUNS + kind]) + 1] += 2
    example.words[RUN_WORDS] += 2


def miscount_runs(example: Example) -> None:
    example.words[RUN_WORDS] += 2


def miscount_retained_words(example: Example) -> None:
    example.words[RETAINED] += 2


def write_to_the_null_node(example: Example) -> None:
    example.words[5] = 1


def forget_a_retirement(example: Example) -> None:
    chunk = int(example.words[FRESH])
    example.words[chunk + HEAD] = example.words[chunk + HEAD + 1]


def retire_a_live_node(example: Example) -> None:
    chunk = int(example.words[FRESH])
    example.words[chunk + HEAD] = example.leaf(0, 33) << 2 | 2


def forget_a_retained_node(example: Example) -> None:
    chunk = int(example.store.holds[1])
    example.words[chunk + HEAD] = example.leaf(0, 33) << 2 | 2


def break_a_list(example: Example) -> None:
    example.words[int(example.store.holds[1]) + 1] = 99


def change_a_shared_block(example: Example) -> None:
    example.words[example.block(11) + HEAD] = 4


def change_the_rest_of_a_page(example: Example) -> None:
    example.words[example.block(11) + SHARED_WORDS + HEAD] = 3


def own_a_block_of_one_id(example: Example) -> None:
    block = int(example.words[BUMP])
    example.words[BUMP] += 6
    example.words[block : block + 6] = [example.words[EPOCH], 1 | BARE, 3, 0, 0, 0]
    example.words[example.word_at(1, 11)] = block


def forget_the_pages(example: Example) -> None:
    example.words[DIRECTORY] = 0


CORRUPTIONS: list[tuple[int, Callable[[Example], None]]] = [
    (1, raise_a_trie),
    (1, make_a_trie_too_high),
    (1, repeat_a_key),
    (1, misplace_a_key),
    (1, use_a_key_that_is_too_large),
    (2, clear_bit),
    (2, set_bit_without_child),
    (2, flag_an_inner_node),
    (2, flag_a_hub),
    (3, zero_a_count),
    (3, empty_a_leaf),
    (4, overfill_a_block),
    (4, underfill_a_block),
    (4, name_no_class),
    (4, count_once),
    (4, bare_a_block),
    (4, empty_a_block),
    (5, thin_a_hub),
    (6, bear_in_the_future),
    (6, bear_after_the_parent),
    (7, change_a_held_node),
    (7, change_a_held_root),
    (8, miscount_entries),
    (8, miscount_a_held_version),
    (8, fill_an_unused_slot),
    (9, share_a_block),
    (9, point_nowhere),
    (9, lose_a_node),
    (9, close_the_free_list),
    (9, break_a_list),
    (9, lose_a_run),
    (9, list_a_run_by_another_class),
    (9, lengthen_a_run),
    (10, miscount_free_nodes),
    (10, miscount_runs),
    (10, miscount_retained_words),
    (11, write_to_the_null_node),
    (12, retire_a_live_node),
    (12, forget_a_retained_node),
    (14, change_a_shared_block),
    (14, change_the_rest_of_a_page),
    (14, own_a_block_of_one_id),
    (14, forget_the_pages),
]


@pytest.mark.parametrize(
    ("invariant", "corrupt"), CORRUPTIONS, ids=[corrupt.__name__ for _, corrupt in CORRUPTIONS]
)
def test_corruption_is_found(invariant: int, corrupt: Callable[[Example], None]) -> None:
    example = Example()
    corrupt(example)
    with pytest.raises(StoreCorrupt, match=f"invariant {invariant}:"):
        example.store.check()


@pytest.mark.parametrize("corrupt", [free_a_live_node, free_a_retained_node, forget_a_retirement])
def test_corruption_of_several_invariants_is_found(corrupt: Callable[[Example], None]) -> None:
    example = Example()
    corrupt(example)
    with pytest.raises(StoreCorrupt):
        example.store.check()


def test_every_invariant_has_a_corruption() -> None:
    assert {invariant for invariant, _ in CORRUPTIONS} == {*range(1, 13), 14}


def test_one_relation_checks_itself() -> None:
    example = Example()
    miscount_entries(example)
    example.knows.check()
    with pytest.raises(StoreCorrupt, match="numbers"):
        example.numbers.check()
