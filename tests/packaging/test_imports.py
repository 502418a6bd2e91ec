"""What an import loads. The order of imports as written is checked by ``lint-imports``."""

from __future__ import annotations

import subprocess
import sys


def list_loaded(module: str) -> set[str]:
    """The modules that a fresh interpreter has after importing this one."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_oracle_loads_nothing_of_the_engine() -> None:
    oracle = "triegs.testing.oracle"
    ours = {name for name in list_loaded(oracle) if name.partition(".")[0] == "triegs"}
    assert {name for name in ours if not name.startswith(oracle)} == {"triegs", "triegs.testing"}
