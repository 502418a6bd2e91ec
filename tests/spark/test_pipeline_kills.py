"""Driver and Java killed at any point: answers and sinks equal those of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.spark.dying import PLACES, run_pipeline
from tests.spark.streams import QUERIES, draw_batches, expect, read_sink, write_batch

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
BATCHES = draw_batches(21, 5, rows=16)
#: Consecutive runs on one state, each killed when a point is passed for the given time.
FEW = {"windows": [("sliding", 6)]}
MANY = {
    kind: [(place, each) for each in times for place in PLACES]
    + [("any", Random(each).randrange(100, 4_000)) for each in range(4)]
    for kind, times in {"batches": [2], "windows": [1, 3]}.items()
}
DEATHS = MANY if SOAK else FEW


def live(home: Path, kind: str, *death: Any) -> dict[str, Any] | None:
    """One run; its final answers, None if it was killed."""
    arguments = [sys.executable, "-m", "tests.spark.dying", str(home), kind, *map(str, death)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def make_home(home: Path) -> Path:
    for number, events in enumerate(BATCHES):
        write_batch(home / "in", number, events)
    return home


@pytest.mark.property
@pytest.mark.parametrize("kind", list(DEATHS))
def test_nothing_is_lost_and_nothing_is_delivered_twice(spark, tmp_path, kind):
    whole = make_home(tmp_path / "whole")
    expected = run_pipeline(spark.get(), whole, kind == "windows")
    shown = expect(BATCHES, "multigraph", kind == "windows")[-1]
    assert expected["time"] == shown.time
    for name, answers in shown.answers.items():
        assert expected["answers"][name] == sorted(map(str, answers.items()))
    killed = 0
    home = make_home(tmp_path / "0")
    for number, death in enumerate(DEATHS[kind], 1):
        found = live(home, kind, *death)
        if found is None:
            killed += 1
        if found is not None or number % 4 == 0:  # then a last run, and the next state
            assert live(home, kind) == expected, (home, death)
            compare_sinks(home, whole)
            home = make_home(tmp_path / str(number))
    # A Spark that runs already: starting one more takes longer than the run.
    assert run_pipeline(spark.get(), home, kind == "windows") == expected
    compare_sinks(home, whole)
    assert killed >= len(DEATHS[kind]) * 2 // 3


def compare_sinks(home: Path, whole: Path) -> None:
    for name in QUERIES:
        assert read_sink(home / "out" / name) == read_sink(whole / "out" / name)
