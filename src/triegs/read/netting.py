"""Changes between two versions that are read by plans of different factors.

A query that stalled is rebuilt with as many order statistics as fit then, and so perhaps with
other factors. Entries of such plans cannot be compared one by one: both results are listed and
netted. Memory and cost: both results.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from triegs.errors import MultiplicityOverflow
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.columns import Columns, Integers, Sizes, read_columns
from triegs.store.packed import PackedVersion


def have_equal_factors(one: EnumerationPlan, other: EnumerationPlan) -> bool:
    """Whether the factors of two plans of a query can be compared number by number."""
    return [(each.columns, each.weighs) for each in one.factors] == [
        (each.columns, each.weighs) for each in other.factors
    ]


def net_results(
    old: tuple[EnumerationPlan, PackedVersion], new: tuple[EnumerationPlan, PackedVersion],
    sizes: Sizes, is_distinct: bool, integers: Integers | None = None,
) -> Iterator[Columns]:  # fmt: skip
    """The changed answers in batches, with their signed changes; an answer counts once with
    `is_distinct`.
    """
    rows, changes = [], []
    for sign, (enumeration, version) in ((1, new), (-1, old)):
        for columns, counts in read_columns(enumeration, version, sizes, integers):
            if (counts < 0).any():
                raise MultiplicityOverflow(
                    "an answer's multiplicity does not fit 64 bits", "answer"
                )
            rows.append(columns.T.copy())
            changes.append(sign * (np.ones_like(counts) if is_distinct else counts))
    if not rows:
        return
    distinct, number = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, number.reshape(-1), np.concatenate(changes))
    distinct, total = distinct[total != 0], total[total != 0]
    start = 0
    while start < len(total):
        end = start + sizes()
        yield np.ascontiguousarray(distinct[start:end].T), total[start:end]
        start = end
