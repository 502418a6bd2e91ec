"""Where a label comes from: in the core a predicate within a space is a label of its own."""

from __future__ import annotations

import numpy as np

from triegs.kernels.words import Words

STATIC = 0  # the space of the engine's own graph


class Origins:
    """By label: the number of its space, and the predicate that it is there.

    `words` has both for the kernels, `[space, predicate]` by label; those beyond it, and those of
    space 0, are predicates of the engine's own graph.

    >>> origins = Origins()
    >>> origins.add(5, 3, 2)
    >>> [view.tolist() for view in origins.find(np.array([2, 5, 9]))]
    [[0, 3, 0], [2, 2, 9]]
    """

    def __init__(self) -> None:
        self.words: Words = np.zeros(2, np.int64)

    def add(self, label: int, space: int, predicate: int) -> None:
        if 2 * label + 1 >= self.words.size:
            more = np.zeros(4 * (label + 1), np.int64)
            more[: self.words.size] = self.words
            self.words = more
        self.words[2 * label : 2 * label + 2] = space, predicate

    def remove(self, label: int) -> int:
        """Forget a label; returns its predicate."""
        predicate = int(self.words[2 * label + 1])
        self.words[2 * label : 2 * label + 2] = 0
        return predicate

    def find(self, labels: Words) -> tuple[Words, Words]:
        """The spaces of labels, and their predicates."""
        known = self.words.reshape(-1, 2)
        there = np.minimum(labels, len(known) - 1)
        spaces = np.where(labels < len(known), known[there, 0], STATIC)
        return spaces, np.where(spaces == STATIC, labels, known[there, 1])

    def list_labels(self) -> Words:
        """The labels of all windows' spaces."""
        return np.flatnonzero(self.words[::2])

    def has(self, label: int | None) -> bool:
        """Whether a label is of a window's space."""
        return label is not None and 2 * label < self.words.size and self.words[2 * label] != STATIC
