"""What is known about a stream: label frequencies, frequent keys, query costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Positions of a key's variables in a triple, in key order; () if the atom is replicated.
Positions = tuple[int, ...]
SUBJECT, OBJECT = 0, 2


class Key(NamedTuple):
    """A frequent key: its terms, and its share of the events of a label."""

    terms: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """The share of each label, the most frequent keys of a label by position (most frequent first),
    and the measured cost of each query by name.

    Without any shares, all labels count as equally frequent. Costs are relative: they compare
    queries with each other.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[tuple[str, Positions], tuple[Key, ...]] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)

    def share(self, label: str) -> float:
        return self.shares.get(label, 0.0) if self.shares else 1.0
