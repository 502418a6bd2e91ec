"""The driver and Java process of ``format("triegs")`` are killed; everything counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.feed import FILES, find_expected, open_engine, read_answers, start, write_files

from triegs.spark import LocalSpark
from triegs.spark.inbox.claims import read_claims

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
CHILD = """
import os, sys
from pathlib import Path
from triegs.spark import LocalSpark
from tests.spark.faulty import Faulty
from tests.spark.feed import start
os.environ["FAULTY"] = f"{sys.argv[1]} {sys.argv[2]} {os.getpid()}"
folder = Path(sys.argv[3])
with LocalSpark() as spark:
    session = spark.get()
    session.dataSource.register(Faulty)
    start(session, folder / "in", folder / "engine", "faulty").awaitTermination()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the Java process in /proc")
def test_killed_at_every_point(spark: LocalSpark, tmp_path: Path) -> None:
    """Driver and Java are killed by SIGKILL; whatever is taken meanwhile counts once."""
    rows = write_files(tmp_path / "in")
    (tmp_path / "tmp").mkdir()
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path / "tmp")}
    points = ["written 1", "staged 2", "problems 3", "committed 4", "noted 5"]
    if not SOAK:  # starting Spark is slow
        points = ["committed 2"]
    for number, point in enumerate(points):
        given = [sys.executable, "-c", CHILD, *point.split(), str(tmp_path)]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        if number % 2:
            with open_engine(tmp_path / "engine") as engine:
                assert all(each.problem is None for each in engine.take_inbox())
    start(spark.get(), tmp_path / "in", tmp_path / "engine").awaitTermination()
    with open_engine(tmp_path / "engine") as engine:
        engine.take_inbox()
        assert read_answers(engine) == find_expected(rows)
    (claim,) = read_claims(tmp_path / "engine").values()
    assert (claim.last, claim.rows) == (FILES - 1, len(rows))
    assert claim.quarantined == {"bad term": FILES}
    assert len(list((tmp_path / "engine" / "quarantine").iterdir())) == FILES
    assert not list((tmp_path / "engine" / "staging").glob("*/*"))
