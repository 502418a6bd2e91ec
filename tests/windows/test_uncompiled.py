"""The tests of event times with kernels as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.jit.jit import COMPILED

HERE = Path(__file__).parent
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# Without a soak, one mode of the longest test; the others have both.
CHOSEN = "not room" if SOAK else "not room and not (one_stream and rdf)"


@pytest.mark.skipif(not COMPILED, reason="this is the run without compilation")
def test_without_compilation() -> None:
    path = HERE / "test_event_times.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN, path],
        cwd=HERE.parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
