"""The eleven window queries of the social network through windows: at every slide the answers are
those of the oracle, and at a larger scale those of pyoxigraph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from tests.workloads.social import (
    ORACLES,
    SOCIAL,
    Answers,
    Counts,
    ask_store,
    hold_windows,
    load_store,
    read_events,
)

from triegs import Engine, Window
from triegs.options import ModeName


def run(table: pa.Table, mode: ModeName) -> Iterator[tuple[int, Counts, dict[str, Answers]]]:
    """All queries in one engine: each slide's time, what it holds, and what they show."""
    with Engine(mode) as engine:
        engine.apply(SOCIAL.static_table())
        queries = {
            each.name: engine.register(each.text, window=Window(each.width, slide=each.slide))
            for each in SOCIAL.asked
        }
        engine.push(table)
        slides = engine.each_slide(close=True)
        for published, (slide, held) in zip(slides, hold_windows(table), strict=True):
            assert published.time == slide
            shown = {}
            for name, query in queries.items():
                with query.snapshot() as snapshot:
                    rows = [(tuple(answer), answer.multiplicity) for answer in snapshot]
                shown[name] = dict(rows)
                assert len(shown[name]) == len(rows)
            yield slide, held, shown


def test_every_slide_equals_the_oracle() -> None:
    table = read_events(1_300, 100)
    seen: Counter[str] = Counter()
    for one, other in zip(run(table, "multigraph"), run(table, "rdf"), strict=True):
        slide, held, shown = one
        for name, answers in shown.items():
            found = {"multigraph": answers, "rdf": other[2][name]}
            assert found == ORACLES[name].answer(held), (slide, name)
            seen[name] += len(answers)
    assert len(seen) == 11
    assert all(seen.values()), seen


def test_every_slide_equals_pyoxigraph() -> None:
    for slide, held, shown in run(read_events(4_500, 300), "rdf"):
        store = load_store(held)
        for name, answers in shown.items():
            assert answers == ask_store(store, SOCIAL.queries[name]), (slide, name)
