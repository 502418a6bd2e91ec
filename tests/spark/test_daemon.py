"""Python workers are forked from a process with their imports done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triegs.spark.daemon import find_archives

PROGRAM = """
import sys
from triegs.spark.daemon import use_installed_pyspark
use_installed_pyspark()
import pyspark, py4j
print(pyspark.__file__, py4j.__file__)
"""


def list_loaded(_: int) -> tuple[list[str], list[str]]:
    """In a worker: our modules and where PySpark is from."""
    import pyspark

    return [name for name in sys.modules if name.startswith("triegs.")], list(pyspark.__path__)


@pytest.mark.skipif(sys.platform != "linux", reason="Spark's own daemon is used")
def test_workers_have_their_imports(spark):
    (found,) = spark.get().sparkContext.parallelize([0], 1).map(list_loaded).collect()
    modules, (home,) = found
    assert "triegs.spark.partitioned.partition" in modules
    assert ".zip" not in home


def test_pyspark_is_imported_from_its_installation() -> None:
    pyspark = pytest.importorskip("pyspark")
    library = Path(pyspark.__file__).parent / "python" / "lib"
    archives = [str(path) for path in sorted(library.glob("*.zip"))]
    assert len(archives) == 2
    path = os.pathsep.join([*archives, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONPATH": path},
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert ".zip" not in done.stdout


def test_other_archives_stay() -> None:
    home = Path("/site/pyspark")
    ours = "/site/pyspark/python/lib/pyspark.zip"
    assert find_archives([ours, "/jobs/job.zip", "/site/pyspark/python"], home) == [ours]
