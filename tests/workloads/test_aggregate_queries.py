"""The aggregates of the workloads through windows: at every slide those of pyoxigraph or of the
oracle.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.workloads.social import Answers, Counts, Oracle, ask_store, hold_windows, load_store

from triegs import Engine, Window, workloads
from triegs.options import ModeName
from triegs.workloads import TimedWorkload
from triegs.workloads.temporal import TEMPORAL

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
TOTALS = workloads.get("social-totals")


def read_events(workload: TimedWorkload, size: int, rate: float) -> pa.Table:
    return pa.Table.from_batches(workload.events(size, rate=rate)).combine_chunks()


def run(
    workload: TimedWorkload, table: pa.Table, mode: ModeName
) -> Iterator[tuple[int, Counts, dict[str, Answers]]]:
    """All queries in one engine: each slide's time, what it holds, and what they show."""
    with Engine(mode) as engine:
        engine.apply(TOTALS.static_table())
        queries = {
            each.name: engine.register(each.text, window=Window(each.width, slide=each.slide))
            for each in workload.asked
        }
        engine.push(table)
        slides = engine.each_slide(close=True)
        for published, (slide, held) in zip(slides, hold_windows(table), strict=True):
            assert published.time == slide
            shown: dict[str, Answers] = {}
            for name, query in queries.items():
                with query.snapshot() as snapshot:
                    shown[name] = {tuple(answer): answer.multiplicity for answer in snapshot}
            yield slide, held, shown


def test_totals_equal_those_of_pyoxigraph() -> None:
    seen: Counter[str] = Counter()
    for slide, held, shown in run(TOTALS, read_events(TOTALS, 4_500, 300), "rdf"):
        store = load_store(held)
        for name, answers in shown.items():
            assert answers == ask_store(store, TOTALS.queries[name]), (slide, name)
            seen[name] += len(answers)
    assert len(seen) == 11
    assert all(seen.values()), seen


@pytest.mark.parametrize("workload", TEMPORAL, ids=lambda workload: workload.name)
def test_temporal_joins_equal_the_oracle(workload: TimedWorkload) -> None:
    """In both modes at once, because the oracle takes longer than the engines."""
    oracles = {name: Oracle(text) for name, text in workload.queries.items()}
    table = read_events(workload, 1_000 if SOAK else 600, 60)
    seen: Counter[str] = Counter()
    modes: tuple[ModeName, ...] = ("multigraph", "rdf")
    for slides in zip(*(run(workload, table, mode) for mode in modes), strict=True):
        slide, held, _ = slides[0]
        for name, asked in oracles.items():
            expected = asked.answer(held)
            for mode, (_, _, shown) in zip(modes, slides, strict=True):
                assert shown[name] == expected[mode], (slide, name, mode)
            seen[name] += len(expected["rdf"])
    assert all(seen.values()), seen


def test_sizes_of_temporal_joins() -> None:
    """Each post of the sized one has three comments in time; of the small one, two."""
    for name, comments in (("temporal-sized", 3), ("temporal-small", 2)):
        workload = workloads.get(name)
        with Engine() as engine:
            query = engine.register(workload.queries["soon-per-post"])
            for batch in workload.events(1_000 * 11):
                engine.apply(pa.table(batch.select(["op", "subject", "predicate", "object"])))
            with query.snapshot() as snapshot:
                counts = Counter(answer.comments for answer in snapshot.answers("python"))
        # The first posts of the small one get the late comments of those that follow.
        assert counts[comments] >= 998
