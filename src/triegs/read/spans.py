"""Reading by several threads, each a span of ids of the first variable at a time.

The first level of an enumeration is a trie in ascending order, so its subtrees are spans of ids,
and their answers in order are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.columns import Columns, Span
from triegs.store.kernels.layout import BITS, FANOUT, HEAD, HEIGHT_SHIFT, LOW, OFFSET
from triegs.store.packed import PackedVersion

#: More spans than workers, because spans have different numbers of answers.
SPANS_PER_WORKER = 8


def split_first(enumeration: EnumerationPlan, version: PackedVersion, least: int) -> list[Span]:
    """At least so many disjoint spans of the first level, in order, if it has so many subtrees."""
    version.check_held()
    root = int(version.roots[enumeration.levels[0].relation.root_at])
    words, height = version.words, root >> HEIGHT_SHIFT
    nodes = [(root & OFFSET, 0)] if root else []
    while len(nodes) < least and height > 0:
        nodes = [
            (int(words[node + HEAD + digit]), prefix * FANOUT + digit)
            for node, prefix in nodes
            for digit in range(FANOUT)
            if (int(words[node + 1]) & LOW) >> digit & 1
        ]
        height -= 1
    shift = BITS * (height + 1)
    return [(prefix << shift, (prefix + 1) << shift) for _, prefix in nodes]


def read_spans(
    spans: list[Span], workers: int, read: Callable[[Span], list[Columns]]
) -> list[Columns]:
    """The batches of all spans, in order, read by several threads."""
    with ThreadPoolExecutor(workers) as pool:
        return [batch for batches in pool.map(read, spans) for batch in batches]
