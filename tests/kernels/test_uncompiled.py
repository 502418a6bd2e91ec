"""Tests of all parts with kernels as plain Python.

They run in one process, because to start one takes longer than most of them. Programs of
``tests/store``, ``tests/maintain`` and ``tests/stress`` run so, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.jit.jit import COMPILED

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
FILES = {
    "aggregates": (
        "answer_aggregates", "daba", "exact", "fiba", "operators", "shared", "stream_aggregates",
        "windowed",
    ),
    "dictionary": ("columns", "spelling", "checks", "settle", "term_array", "value_array"),
    "events": ("events",),
    "inputs": ("statements", "times", "cells"),
    "maintain": ("judges",),
    "read": ("output",),
    "windows": ("event_times",),
}  # fmt: skip
# Tests of many examples, and those that are about compiled code.
LEFT_OUT = [
    "kernels_know",
    "(test_event_times and room)",
    "(test_judges and (constants or one_variable or large))",
]
# Without a soak, not those that fill the memory, nor the longest of those that are like others.
LONG = [
    "does_not_fit",
    "memory_limit_refused",
    "its_memory_is_counted",
    "(test_event_times and one_stream)",
    "(deletions_against_a_query and 2ms)",
]


@pytest.mark.skipif(not COMPILED, reason="this is the run without compilation")
def test_without_compilation() -> None:
    paths = [f"tests/{folder}/test_{name}.py" for folder, names in FILES.items() for name in names]
    chosen = " and ".join(f"not {each}" for each in LEFT_OUT + ([] if SOAK else LONG))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *paths],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
