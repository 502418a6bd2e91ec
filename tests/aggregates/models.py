"""Windows as plain lists, recomputed after every step; and operators that need order."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from triegs.aggregates.swag import templates
from triegs.aggregates.swag.kernels import tree
from triegs.aggregates.swag.operators import Operator

PRIME = 1_000_003


def lift_affine(value):
    return (value % 1_000 + 2, value % 777)


def compose_affine(a, b):
    """First x ↦ a0·x + a1, then x ↦ b0·x + b1: associative, not commutative."""
    return (a[0] * b[0] % PRIME, (a[1] * b[0] + b[1]) % PRIME)


def lift_mixed(value):
    return (1, value, value)


def combine_mixed(a, b):
    """Number, largest and last value: an integer and floats."""
    last = b[2] if b[0] > 0 else a[2]
    return (a[0] + b[0], max(a[1], b[1]), last)


def lift_bits(value):
    return (1 << (value & 31),)


def unite_bits(a, b):
    """Commutative, and not invertible."""
    return (a[0] | b[0],)


DIGEST = blake2b(Path(__file__).read_bytes(), digest_size=4).hexdigest()
BITS = Operator(f"bits_{DIGEST}", (0,), lift_bits, unite_bits, commutative=True)
AFFINE = Operator(f"affine_{DIGEST}", (1, 0), lift_affine, compose_affine)
MIXED = Operator(f"mixed_{DIGEST}", (0, -np.inf, 0.0), lift_mixed, combine_mixed, values=np.float64)


def compile_copy(function: Any, options: dict[str, Any], *, cached: bool) -> Any:
    """Keep the kernels of these operators on disk, too: half a minute of compilation. They are kept
    by name, and a change of this file is a change of the names. `test_operators.py` has operators
    whose kernels are not kept.
    """
    return COMPILE_COPY(function, options, cached=cached or DIGEST in function.__qualname__)


COMPILE_COPY, templates.compile_copy = templates.compile_copy, compile_copy


def fold(operator: Operator, values: list[Any]) -> Any:
    """The aggregate of values in order, by definition."""
    state = operator.identity
    for value in values:
        lifted = operator.lift(operator.values(value))
        state = operator.combine(state, tuple(word.item() if hasattr(word, "item") else word
                                              for word in lifted))  # fmt: skip
    return operator.lower(*state)


class PlainWindow:
    """Events in order of (time, arrival)."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.events: list[tuple[int, Any]] = []

    def insert(self, time: int, value: Any) -> None:
        self.events.append((time, value))
        self.events.sort(key=lambda event: event[0])  # stable

    def evict_until(self, time: int) -> None:
        self.events = [event for event in self.events if event[0] > time]

    def query(self) -> Any:
        return fold(self.operator, [value for _, value in self.events])

    def query_range(self, after: int, until: int) -> Any:
        return fold(self.operator, [v for time, v in self.events if after < time <= until])


def check_tree(window: Any, group: int = 0) -> int:
    """The invariants of `triegs.aggregates.swag.kernels.tree`. Returns the height."""
    words, kernels, operator = window._words, window._kernels, window.operator
    at = group * window._header_words
    root = int(window._headers[at + tree.ROOT])
    oldest, newest = (int(window._headers[at + place]) for place in (tree.OLDEST, tree.NEWEST))
    if root == 0:
        assert oldest == newest == 0
        return -1
    slots = kernels.SLOTS if hasattr(kernels, "SLOTS") else tree.SLOTS

    def read(place: int) -> Any:
        return operator.read(words[place : place + operator.width])

    def fold_node(node: int) -> Any:
        state = operator.identity
        for index in range(int(words[node + tree.COUNT])):
            state = operator.combine(state, read(int(kernels.find_total(node, index))))
        return state

    def visit(node: int, level: int, side: int, parent: int) -> tuple[list[int], Any]:
        """The times below a node, and its total by definition."""
        count = int(words[node + tree.COUNT])
        assert 1 <= count <= slots
        found = [int(words[node + place]) for place in (tree.LEVEL, tree.SIDE, tree.PARENT)]
        assert found == [level, side, parent]
        keys = [int(words[kernels.find_key(node, index)]) for index in range(count)]
        if level == 0:
            assert (node == oldest) == bool(side & tree.LEFT)
            assert (node == newest) == bool(side & tree.RIGHT)
            assert keys == sorted(set(keys))
            return keys, fold_node(node)
        times: list[int] = []
        total = operator.identity
        for index in range(count):
            child = int(words[kernels.find_child(node, index)])
            child_side = side & (
                (tree.LEFT if index == 0 else 0) | (tree.RIGHT if index == count - 1 else 0)
            )
            below, state = visit(child, level - 1, child_side, node)
            if index > 0:
                assert times[-1] < keys[index] <= below[0]
            if child_side == 0:  # invariant 1
                assert read(int(kernels.find_total(node, index))) == state
            times += below
            total = operator.combine(total, state)
        assert side != tree.LEFT | tree.RIGHT or count > 1  # invariant 4
        return times, total

    height = int(words[root + tree.LEVEL])
    visit(root, height, tree.LEFT | tree.RIGHT, 0)
    return height
