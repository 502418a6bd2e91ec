"""Runs a check of a test module without compilation, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def check_uncompiled(module: str, check: str) -> None:
    """Assert an expression over the names of a module, with kernels as plain Python."""
    program = (
        "from triegs.jit.jit import COMPILED\n"
        f"from {module} import *\n"
        "assert not COMPILED\n"
        f"assert {check}\n"
        "print('same')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr
