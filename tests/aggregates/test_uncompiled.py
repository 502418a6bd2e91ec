"""The same tests with kernels as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.jit.jit import COMPILED

HERE = Path(__file__).parent
NAMES = (
    "answer_aggregates", "daba", "exact", "fiba", "operators", "shared", "stream_aggregates",
)  # fmt: skip
FILES = [HERE / f"test_{name}.py" for name in NAMES]
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# Without a soak, not those that fill the memory.
CHOSEN = [] if SOAK else ["-k", "not does_not_fit and not memory_limit_refused"]


@pytest.mark.skipif(not COMPILED, reason="this is the run without compilation")
def test_without_compilation() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *CHOSEN, *map(str, FILES)],
        cwd=HERE.parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
