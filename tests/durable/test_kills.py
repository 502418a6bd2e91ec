"""Processes that are killed, again and again: what each has said is there, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.durable.dying import ANY_MOMENT, POINTS, SYNCS

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
KILLS = 400 if SOAK else 40
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_every_step_survives_and_none_comes_twice(tmp_path, record_property):
    seed = int.from_bytes(os.urandom(2), "little") if SOAK else 1
    command = [sys.executable, "-m", "tests.durable.dying", str(tmp_path), str(KILLS), str(seed)]
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    # The threads of OpenBLAS would be lost in a fork.
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    print(json.dumps(found, indent=1))
    record_property("hits", found["hits"])
    assert [point for point in [*POINTS, ANY_MOMENT] if not found["hits"].get(point)] == []
    assert sum(found["hits"].values()) >= KILLS
    assert set(found["syncs"]) == set(SYNCS)
