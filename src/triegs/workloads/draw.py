"""Sources of the nodes of edges: layers of integers, drawn uniformly or by Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layer:
    """The nodes ``first .. first + size - 1``.

    The node of rank r is drawn with probability proportional to ``1 / r ** exponent``; 0 is
    uniform.

    >>> Layer(10, 3).draw(np.random.default_rng(1), 5).tolist()
    [11, 11, 12, 12, 10]
    """

    first: int
    size: int
    exponent: float = 0.0

    def draw(self, random: np.random.Generator, count: int) -> Numbers:
        """Draw `count` nodes, with repetition. Cost: the count, times a logarithm if skewed."""
        if self.exponent == 0:
            return self.first + random.integers(0, self.size, count)
        ranks = np.searchsorted(_sum_chances(self.size, self.exponent), random.random(count))
        return self.first + np.minimum(ranks, self.size - 1)  # the last sum may fall short of 1


@dataclass(frozen=True, slots=True)
class EdgeSource:
    """The edges of one label; both ends are drawn independently."""

    subjects: Layer
    objects: Layer

    @property
    def capacity(self) -> int:
        """The number of distinct edges."""
        return self.subjects.size * self.objects.size

    def draw(self, random: np.random.Generator, count: int) -> tuple[Numbers, Numbers]:
        return self.subjects.draw(random, count), self.objects.draw(random, count)


@lru_cache(maxsize=8)
def _sum_chances(size: int, exponent: float) -> NDArray[np.float64]:
    chances = np.arange(1, size + 1) ** -exponent
    return np.cumsum(chances / chances.sum())
