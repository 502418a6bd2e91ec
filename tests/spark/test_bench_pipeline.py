"""The pipeline benchmark on small data: compares answers, not goals."""

from __future__ import annotations

import os

import pytest

from bench.run import Bench, Settings
from bench.sections import pipeline
from triegs.spark import LocalSpark

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
SMALL = {
    "EVENTS": 2_000, "BATCHES": 2, "NODES": 200, "TINY_BATCHES": 4, "SKIPPED": 1,
    "WINDOW_MS": 2_000, "SLIDE_MS": 500, "SLIDES": 8,
}  # fmt: skip


@pytest.mark.skipif(not SOAK, reason="takes a minute; make soak runs it")
def test_every_table_has_its_figures(spark: LocalSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.get()
    for name, value in SMALL.items():
        monkeypatch.setattr(pipeline, name, value)
    found = list(pipeline.measure_pipeline(Bench(Settings(), lambda _: None)))
    assert {figure.table for figure in found} == {
        "a batch of a million", "where its time goes", "a tiny batch", "slides",
    }  # fmt: skip
    goals = [figure.column for figure in found if figure.goal is not None]
    assert goals == ["of its rate", "of its rate", "adds ms", "times the join", "times that"]
