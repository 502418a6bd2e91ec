"""The least or greatest value of each group, for `MIN`, `MAX` and `SAMPLE` of a variable.

The values of all groups are read at once, and ranked once for all groups. Cost: the values, and a
sort of the different ones unless all are integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from triegs.read.columns import Words
from triegs.read.rows import UNBOUND
from triegs.sparql.term_order import rank_terms, rank_texts
from triegs.terms.arrays import INTEGER, Arrays
from triegs.terms.decoder import build_texts, read_terms
from triegs.terms.dictionary import Dictionary

LARGEST_SHARE = (
    8  # ids are numbered by an array if the largest is at most so many times their count
)


class RankedValues(NamedTuple):
    """Where the values of each group end, the rank of each value, and the ids by rank; without
    these, the ranks are the values.
    """

    ends: Words
    ranks: Words
    by_rank: Words | None


def rank_values(arrays: Arrays, ids: Words, ends: Words) -> RankedValues:
    if not len(ids):
        return RankedValues(ends, ids, None)
    distinct, rows = _number(ids)
    spans = arrays.spans[distinct]
    if (spans[:, 1] == INTEGER).all():
        return RankedValues(ends, np.ascontiguousarray(spans[:, 0])[rows], None)
    ranks = rank_terms(read_terms(arrays, distinct))
    order = np.argsort(ranks)
    if (np.diff(ranks[order]) == 0).any():  # different terms of equal order: by their texts
        order = np.lexsort((rank_texts(build_texts(arrays, distinct)), ranks))
    rank_of = np.empty(len(distinct), np.int64)
    rank_of[order] = np.arange(len(distinct))
    return RankedValues(ends, rank_of[rows], distinct[order])


def _number(ids: Words) -> tuple[Words, Words]:
    """The different ids, and the number of each id among them."""
    top = int(ids.max()) + 1
    if top > LARGEST_SHARE * len(ids):
        distinct, rows = np.unique(ids, return_inverse=True)
        return distinct, rows.reshape(-1)
    number_of = np.zeros(top, np.int64)  # without a sort
    number_of[ids] = 1
    distinct = np.flatnonzero(number_of)
    number_of[distinct] = np.arange(len(distinct))
    return distinct, number_of[ids]


def find_extremes(
    values: RankedValues, is_greatest: bool, arrays: Arrays, computed: Dictionary
) -> Words:
    """The extreme of each group, as an id among the computed terms; unbound for an empty group."""
    ends, ranks, by_rank = values
    found = np.full(len(ends), UNBOUND)
    sizes = np.diff(ends, prepend=0)
    is_there = sizes > 0
    if not is_there.any():
        return found
    choose = np.maximum if is_greatest else np.minimum
    best = choose.reduceat(ranks, (ends - sizes)[is_there])
    if by_rank is None:
        found[is_there] = computed.encode(pa.array(best)).ids
        return found
    chosen, rows = np.unique(by_rank[best], return_inverse=True)
    terms = read_terms(arrays, chosen)
    ids = np.empty(len(chosen), np.int64)
    ids[terms.is_integer] = computed.encode(pa.array(terms.integers)).ids
    ids[~terms.is_integer] = computed.encode(terms.texts).ids
    found[is_there] = ids[rows.reshape(-1)]
    return found
