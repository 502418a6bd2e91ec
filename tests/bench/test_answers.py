"""The judge of the benchmarks: digests distinguish results, and equal those of the edges."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from bench.answers import Digest, WrongAnswer, check, digest_columns, imply_digest, judge
from bench.window import Window
from triegs.testing.oracle import answers
from triegs.workloads import (
    Workload,
    clique4,
    diamond,
    path2_ends,
    path3,
    path5_prefix,
    rectangle,
    reply,
    spider4x2,
    star5,
    triangle,
)
from triegs.workloads.stream import name_iri

WORKLOADS = [
    path3(4, window=120, slide=12),
    path3(4, window=120, slide=12, dup=0.3),
    star5(2, window=60, slide=6, dup=0.2),
    spider4x2(2, window=64, slide=8),
    reply(window=80, slide=8, dup=0.2),
    path5_prefix(2, window=60, slide=6),
    path2_ends(3, window=60, slide=6),
    triangle(4, window=48, slide=6),
    triangle(4, window=48, slide=6, zipf=0.8),
    rectangle(4, window=48, slide=6),
    diamond(4, window=48, slide=6),
    clique4(4, window=48, slide=6),
]


def fill_window(workload: Workload, slides: int = 4) -> Window:
    window = Window(workload)
    for slide in islice(workload.slides(), slides):
        window.apply(slide)
    return window


def list_answers(workload: Workload, window: Window) -> list[tuple[int, ...]]:
    """Every answer as often as it counts, by the oracle."""
    updates = [
        ("+", f"<n:{s}>", name_iri(label), f"<n:{o}>")
        for label, (subjects, objects) in window.edges.items()
        for s, o in zip(subjects.tolist(), objects.tolist(), strict=True)
    ]
    found = answers(workload.query, updates)
    return [
        tuple(int(term[3:-1]) for term in row if term is not None)
        for row, count in found.items()
        for _ in range(count)
    ]


def test_digest_knows_no_order_but_columns_values_and_counts() -> None:
    first, second = np.array([1, 2, 3]), np.array([4, 5, 5])
    found = digest_columns([first, second])
    assert found.total == 3
    assert digest_columns([first[::-1], second[::-1]]) == found
    assert digest_columns([second, first]) != found
    assert digest_columns([first, second[::-1]]) != found
    assert digest_columns([first, second], np.array([1, 2, 1])) != found
    twice = digest_columns([np.repeat(first, 2), np.repeat(second, 2)])
    assert digest_columns([first, second], np.full(3, 2)) == twice == found + found


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{w.name} dup {w.dup}")
def test_edges_imply_the_digest_of_the_oracle(workload: Workload) -> None:
    window = fill_window(workload)
    rows = np.array(list_answers(workload, window), np.int64).reshape(-1, len(workload.head))
    assert len(rows)
    expected = digest_columns(list(rows.T))
    assert judge(workload.atoms, workload.head, window.edges) == expected


def test_a_cycle_is_no_tree() -> None:
    workload = triangle(8, window=240, slide=24)
    with pytest.raises(ValueError, match="no tree"):
        imply_digest(workload.atoms, workload.head, fill_window(workload).edges)


def test_a_difference_is_an_error() -> None:
    check(Digest(1, 2), Digest(1, 2), "same")
    with pytest.raises(WrongAnswer, match="some run"):
        check(Digest(1, 2), Digest(1, 3), "some run")
