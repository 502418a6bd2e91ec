"""What multiplies the measures of groups: counts of components without variables of the keys."""

from __future__ import annotations

from math import prod

from triegs.errors import MultiplicityOverflow
from triegs.maintain.enumeration_plan import GroupMeasure
from triegs.read.columns import LARGEST, Words
from triegs.store.packed import PackedVersion


def find_factor(measure: GroupMeasure, version: PackedVersion) -> int:
    """What multiplies a measure of all groups alike."""
    factor = prod(version.get(relation, key) for relation, key in measure.totals)
    return min(factor, 1) if measure.is_distinct else factor


def multiply(counts: Words, factor: int) -> Words:
    """Counts times a factor of all groups; `MultiplicityOverflow` if one does not fit 64 bits."""
    if factor in (0, 1) or not counts.any():
        return counts * min(factor, 1)
    if max(-int(counts.min()), int(counts.max())) > LARGEST // abs(factor):
        message = "an aggregate of a disconnected pattern does not fit 64 bits"
        raise MultiplicityOverflow(message, "aggregate")
    return counts * factor
