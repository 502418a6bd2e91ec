"""The graph of a label: in the core, a predicate within a window graph is a label of its own."""

from __future__ import annotations

import numpy as np

from triegs.jit.words import Words

STATIC = 0  # the static graph


class LabelGraphs:
    """For each label: the number of its graph, and the predicate that it represents there.

    `words` holds both for the kernels, `[graph, predicate]` by label. Labels beyond it, and those
    of graph 0, are predicates of the static graph.

    >>> label_graphs = LabelGraphs()
    >>> label_graphs.add(5, 3, 2)
    >>> [each.tolist() for each in label_graphs.find(np.array([2, 5, 9]))]
    [[0, 3, 0], [2, 2, 9]]
    """

    def __init__(self) -> None:
        self.words: Words = np.zeros(2, np.int64)

    def add(self, label: int, graph: int, predicate: int) -> None:
        if 2 * label + 1 >= self.words.size:
            more = np.zeros(4 * (label + 1), np.int64)
            more[: self.words.size] = self.words
            self.words = more
        self.words[2 * label : 2 * label + 2] = graph, predicate

    def add_all(self, labels: Words, graph: int, predicates: Words) -> None:
        """Add labels of one graph."""
        last = int(labels.argmax())
        self.add(int(labels[last]), graph, int(predicates[last]))
        self.words.reshape(-1, 2)[labels, 0] = graph
        self.words.reshape(-1, 2)[labels, 1] = predicates

    def remove(self, labels: Words) -> Words:
        """Remove labels; returns their predicates."""
        words = self.words.reshape(-1, 2)
        predicates: Words = words[labels, 1]
        words[labels] = 0
        return predicates

    def find(self, labels: Words) -> tuple[Words, Words]:
        """The graphs of labels, and their predicates."""
        known = self.words.reshape(-1, 2)
        there = np.minimum(labels, len(known) - 1)
        graphs = np.where(labels < len(known), known[there, 0], STATIC)
        return graphs, np.where(graphs == STATIC, labels, known[there, 1])

    def list_labels(self) -> Words:
        """The labels of all window graphs."""
        return np.flatnonzero(self.words[::2])

    def has(self, label: int | None) -> bool:
        """Whether a label belongs to a window graph."""
        return label is not None and 2 * label < self.words.size and self.words[2 * label] != STATIC
