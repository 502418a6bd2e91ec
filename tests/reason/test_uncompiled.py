"""The tests of closures with kernels as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.jit.jit import COMPILED

HERE = Path(__file__).parent
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
#: Without a soak, the closure alone; the engine around it is the same in both ways.
FILES = ["test_closure.py", *(["test_engine_rules.py"] if SOAK else [])]


@pytest.mark.skipif(not COMPILED, reason="this is the run without compilation")
def test_without_compilation() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *(HERE / f for f in FILES),
        ],
        cwd=HERE.parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
