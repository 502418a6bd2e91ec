"""The process that Spark forks its Python workers from, with the imports of the workers done.

Spark's own daemon imports nothing before it forks, so each worker spends more than a second of
processor time on imports. It also loads PySpark from an archive without bytecode, and compiles it
in each process.

Spark runs it as ``python -m triegs.spark.daemon WORKER_MODULE``, by ``spark.python.daemon.module``.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

WORKER = "pyspark.worker"
#: Imported before the first fork. The only thread that they start is of Arrow, which expects forks.
PRELOADED = (
    WORKER, "pandas", "pyarrow.parquet", "triegs.spark.partitioned.partition",
    "triegs.spark.partitioned.processor",
)  # fmt: skip


def find_archives(path: list[str], package: Path) -> list[str]:
    """The archives on a search path that Spark ships inside its Python package."""
    return [each for each in path if each.endswith(".zip") and package in Path(each).parents]


def use_installed_pyspark() -> None:
    """Import PySpark from its installation, if the archives in front of it belong to that."""
    search = list(sys.path)
    sys.path[:] = [each for each in search if not each.endswith(".zip")]
    spec, bridge = find_spec("pyspark"), find_spec("py4j")
    sys.path[:] = search
    if spec is None or spec.origin is None or bridge is None:
        return
    for each in find_archives(search, Path(spec.origin).parent):
        sys.path.remove(each)
        sys.path_importer_cache.pop(each, None)  # workers would read its directory for each task


def load_kernels() -> None:
    """Load the compiled code that partitions run, if it exists; compiling would block Spark."""
    from triegs import Engine, Window
    from triegs.engine.warmth import is_warm

    if not is_warm():
        return
    with Engine(window=Window(4, 2)) as engine:
        query = engine.register("SELECT ?x ?z { ?x <a:p> ?y . ?y <a:p> ?z }", "all")
        for moment in (0, 10):
            with query.snapshot() as before:
                engine.push([(moment, 1, "<a:p>", 1), (moment + 6, 1, "<a:p>", 2)])
                engine.advance(moment + 9)
                with query.snapshot() as now:
                    now.to_arrow()
                    now.diff(before).to_arrow()


def main() -> None:
    use_installed_pyspark()
    if sys.argv[1:] == [WORKER]:
        # OpenBLAS starts its threads on import.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        for name in PRELOADED:
            import_module(name)
        load_kernels()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
