"""The block workloads: what a stream may hold, and how its edges are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from triegs.compiler import compile_query
from triegs.compiler.plan import PlanClass
from triegs.sparql import parse
from triegs.workloads import (
    Slide,
    Workload,
    clique4,
    diamond,
    path2,
    path2_ends,
    path3,
    path5_prefix,
    rectangle,
    reply,
    spider4x2,
    star5,
    triangle,
)

Make = Callable[..., Workload]
MAKERS: dict[str, Make] = {
    "path3": path3,
    "path3 with hubs": lambda **sizes: path3(4, zipf=0.8, **sizes),
    "star5": star5,
    "spider4x2": spider4x2,
    "reply": reply,
    "path5-prefix": path5_prefix,
    "path2": path2,
    "path2-ends": path2_ends,
    "triangle": lambda **sizes: triangle(12, **sizes),
    "triangle with hubs": lambda **sizes: triangle(8, zipf=0.8, **sizes),
    "rectangle": rectangle,
    "diamond": diamond,
    "clique4": lambda **sizes: clique4(12, **sizes),
}
CLASSES = {
    "path5-prefix": PlanClass.FREE_CONNEX,
    "path2-ends": PlanClass.MATERIALIZED,
    **dict.fromkeys(("triangle", "rectangle", "diamond", "clique4"), PlanClass.CYCLIC),
}
every_workload = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def list_edges(slide: Slide, op: int) -> list[tuple[int, int, int]]:
    rows = np.flatnonzero(slide.ops == op)
    columns = (slide.labels, slide.subjects, slide.objects)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


def load(workload: Workload) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    return next(workload.slides()).insertions


def share_of_first(nodes: np.ndarray, size: int) -> float:
    """How much of a column falls on the lowest tenth of its layer."""
    return float(np.mean(nodes - nodes.min() < size / 10))


@every_workload
@pytest.mark.parametrize("dup", [0.0, 0.3])
def test_a_slide_deletes_the_oldest_block_and_inserts_a_new_one(make: Make, dup: float) -> None:
    workload = make(window=1200, slide=100, dup=dup)
    first, *later = islice(workload.slides(), 40)
    assert first.number == 0
    assert len(first) == 1200
    assert (first.ops == 1).all()
    window = list_edges(first, 1)
    for number, slide in enumerate(later, start=1):
        assert slide.number == number
        assert slide.ops.tolist() == [-1] * 100 + [1] * 100
        assert list_edges(slide, -1) == window[:100]
        window = window[100:] + list_edges(slide, 1)


@every_workload
def test_no_edge_twice_in_a_window(make: Make) -> None:
    held: Counter[tuple[int, int, int]] = Counter()
    returned: set[tuple[int, int, int]] = set()
    seen: set[tuple[int, int, int]] = set()
    for slide in islice(make(window=600, slide=60).slides(), 200):
        held.subtract(list_edges(slide, -1))
        new = list_edges(slide, 1)
        returned |= seen & set(new)
        seen |= set(new)
        held.update(new)
        assert set(held.values()) <= {0, 1}
    assert returned  # an edge that has left may come again


def test_dup_is_the_share_of_repeated_edges() -> None:
    workload = path3(3, window=3000, slide=300, dup=0.25)
    window = list_edges(next(workload.slides()), 1)
    repeated = 1 - len(set(window)) / len(window)
    assert 0.15 < repeated < 0.27  # the first block repeats nothing


@every_workload
def test_the_seed_decides(make: Make) -> None:
    def read(seed: int) -> list[list[int]]:
        slides = islice(make(window=600, slide=60, seed=seed).slides(), 5)
        return [slide.subjects.tolist() + slide.objects.tolist() for slide in slides]

    assert read(1) == read(1)
    assert read(1) != read(2)


@pytest.mark.parametrize("slide", [60, 100])
@every_workload
def test_labels_share_a_block(make: Make, slide: int) -> None:
    """Equally, but for the remainder, which goes round."""
    workload = make(window=1200, slide=slide)
    total = sum(workload.shares.values())
    all_rows: Counter[int] = Counter()
    first, *later = islice(workload.slides(), 25)
    for some in later:
        block = some.labels[some.ops == 1]
        all_rows.update(block.tolist())
        for place, label in enumerate(workload.labels):
            exact = slide * workload.shares[label] / total
            assert abs(np.count_nonzero(block == place) - exact) < 1
    for place, label in enumerate(workload.labels):
        part = workload.shares[label] / total
        assert abs(all_rows[place] - 24 * slide * part) <= 1
        assert abs(np.count_nonzero(first.labels == place) - 1200 * part) <= 1


def test_reply_shares() -> None:
    workload = reply()
    counts = {label: len(ends[0]) for label, ends in load(workload).items()}
    assert counts == {"hasCreator": 9_000, "hasReply": 9_000, "likedBy": 12_000}


@pytest.mark.parametrize("fan_out", [3, 8])
def test_path3_layers(fan_out: int) -> None:
    edges = load(path3(fan_out))
    inner = round(10_000 / fan_out)
    assert edges["A"][0].max() < 10_000
    for nodes, layer in [(edges["A"][1], 1), (edges["B"][0], 1), (edges["B"][1], 2)]:
        ranks = nodes - layer * 1_000_000
        assert ranks.min() >= 0
        assert ranks.max() < inner
        assert abs(share_of_first(nodes, inner) - 0.1) < 0.02
    assert len(np.intersect1d(edges["B"][1], edges["C"][0])) > 0.9 * inner
    assert edges["C"][1].min() >= 3_000_000


def test_star_and_spider_layers() -> None:
    star = load(star5(3))
    assert all(ends[0].max() < 2_000 for ends in star.values())
    assert 5_500 < star["L4"][1].max() - 4_000_000 < 6_000
    spider = load(spider4x2(2))
    assert spider["P2"][0].max() < 1_875
    assert np.array_equal(np.unique(spider["P2"][1] // 1_000_000), [2])
    assert np.array_equal(np.unique(spider["Q2"][0] // 1_000_000), [2])
    assert (spider["Q2"][0] - 2_000_000).max() < 1_875
    assert 3_600 < (spider["Q2"][1] - 6_000_000).max() < 3_750


def test_pairs_are_many_and_cycles_have_the_stated_size() -> None:
    ends = load(path2_ends(8))
    assert ends["A"][0].max() < 1_875
    assert np.intersect1d(ends["A"][1], ends["B"][0]).size > 1_800
    nodes = load(triangle(30))["E"]
    assert max(end.max() for end in nodes) < 1_000
    hubs = load(triangle(10, zipf=0.8))["E"]
    assert all(share_of_first(end, 3_000) > 0.35 for end in hubs)


def test_a_layer_grows_with_the_window() -> None:
    """Beyond a million nodes the layers move apart."""
    layers = path3(8, window=6_000_000, slide=1_000).sources
    assert layers["A"].subjects.size == 2_000_000
    assert layers["A"].objects.first == 10_000_000


def test_skew() -> None:
    even, skewed = load(path3(8, window=30_000)), load(path3(8, window=30_000, zipf=0.8))
    assert share_of_first(even["B"][0], 1250) < 0.13
    assert share_of_first(skewed["B"][0], 1250) > 0.35
    assert share_of_first(skewed["A"][0], 10_000) < 0.13  # far ends stay even
    messages = load(reply())
    likes, creators = messages["likedBy"], messages["hasCreator"]
    assert share_of_first(likes[0], 6_000) > 0.4
    assert share_of_first(likes[1], 3_000) > 0.3
    assert share_of_first(creators[0], 6_000) < 0.13
    replying, answered = (share_of_first(nodes, 6_000) for nodes in messages["hasReply"])
    assert replying > answered > 0.2


@every_workload
def test_queries_compile(make: Make) -> None:
    workload = make(window=1200, slide=100)
    plan = compile_query(parse(workload.query))
    assert [name.lstrip("?") for name in plan.query.head] == list(workload.head)
    expected = CLASSES.get(workload.name.split()[0], PlanClass.FULL_ACYCLIC)
    assert plan.plan_class is expected


def test_table() -> None:
    slide = list(islice(path3(3, window=300, slide=30).slides(), 2))[1]
    table = slide.table
    assert table.column_names == ["op", "subject", "predicate", "object"]
    assert table.schema.field("op").type == pa.int8()
    assert table.schema.field("subject").type == table.schema.field("object").type == pa.int64()
    assert table.schema.field("predicate").type == pa.dictionary(pa.int32(), pa.string())
    names = [f"<http://ex/{slide.label_names[place]}>" for place in slide.labels]
    assert table["predicate"].to_pylist() == names
    assert table["subject"].to_pylist() == slide.subjects.tolist()
    assert slide.table is table
    for place, label in enumerate(slide.label_names):
        ends = [(s, o) for at, s, o in list_edges(slide, -1) if at == place]
        assert list(zip(*(e.tolist() for e in slide.deletions[label]), strict=True)) == ends


def test_another_query_over_the_same_stream() -> None:
    workload = path3(3, window=300, slide=30)
    shorter = workload.with_query(workload.atoms[:2], ("x",))
    assert shorter.query.endswith("SELECT ?x WHERE { ?x :A ?y . ?y :B ?z }")
    assert np.array_equal(next(shorter.slides()).subjects, next(workload.slides()).subjects)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: path3(3, window=1000, slide=300), "not a whole number of blocks"),
        (lambda: path3(3, window=300, slide=30, dup=1.5), "dup must be a share"),
        (lambda: path3(8, window=30, slide=3), "only 4 different edges"),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], Workload], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
