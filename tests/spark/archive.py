"""What makes Spark start faster in tests: an archive of the classes that it loads, and a home
without its archive of PySpark.

A start of Spark takes about half the processor time with the classes, and a run of the tests starts
Spark some ten times. The archive of PySpark has no bytecode, and is first on the search path of
Spark's Python processes: each compiles PySpark, half a second. Without it they import PySpark from
its installation.

``python -m tests.spark.archive`` makes both, once for each installation of Java and Spark. Without
them the tests are the same, but slower.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from triegs.spark.session import LocalSpark, SparkMissing, find_java

VENV = Path(__file__).parents[2] / ".venv"
# Java spends more time on compiling well than tests have it run: a third less of it this way.
# That code does not fit the room that Java has for it, which costs more than compiling it; nor do
# plans the room for new objects. Nobody looks at the status that Spark keeps of its jobs. Hadoop
# starts a process for each file that it makes, which takes half the time without Java's helper.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -Xmn256m "
    "-Djdk.lang.Process.launchMechanism=VFORK "
    "-Dspark.ui.liveUpdate.period=-1 -Dspark.sql.ui.explainMode=simple"
)
# An archive that does not fit is ignored; a warning would go to standard output.
QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def find_archive() -> Path | None:
    """Where the archive for this Java and this Spark is, or belongs; None without either."""
    java, spark = find_java(), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        return None
    digest = blake2b(digest_size=8)
    for path in (Path(java).resolve(), Path(spark.origin)):
        digest.update(f"{path} {path.stat().st_mtime_ns}\0".encode())
    digest.update(str(VENV).encode())  # an archive fits one path of the libraries
    return VENV / f"spark-{digest.hexdigest()}.jsa"


def find_home(archive: Path | None) -> Path | None:
    """The home of Spark that belongs to an archive, if there is one."""
    home = None if archive is None else archive.with_suffix("")
    return home if home is not None and home.is_dir() else None


def make_home(archive: Path) -> None:
    """A directory with Spark's programs and Java libraries, but without its ``python``."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home = archive.with_suffix("")
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        if not (home / name).exists():
            (home / name).symlink_to(Path(spark.origin).parent / name)


def choose_environment() -> dict[str, str]:
    """Variables for the processes of a run of tests that start Spark."""
    home = find_home(find_archive())
    found = {"SPARK_SUBMIT_OPTS": choose_options()}
    return found if home is None else {**found, "SPARK_HOME": str(home)}


def choose_options() -> str:
    """Options for Java, with the archive if there is one."""
    archive = find_archive()
    if archive is None or not archive.exists() or " " in str(archive):
        return OPTIONS
    return f"{OPTIONS} {QUIET} -XX:SharedArchiveFile={archive}"


def make_archive(archive: Path) -> None:
    """Run a pipeline of each kind; Java writes the archive when it ends."""
    make_home(archive)
    os.environ["SPARK_HOME"] = str(find_home(archive))
    from pyspark import SparkContext
    from tests.spark.streams import QUERIES, draw_batches, make_window, read_stream, write_all

    from triegs.spark import start

    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        folder = Path(name)
        made = folder / "made.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} {QUIET} -XX:ArchiveClassesAtExit={made}"
        spark = LocalSpark()
        session = spark.get()
        stream = read_stream(session, write_all(folder / "in", draw_batches(1, 2)))
        for partitions in (None, 2):
            home = folder / str(partitions)
            with start(
                stream, QUERIES, checkpoint=home / "state", window=make_window(True),
                sinks={name: home / name for name in QUERIES}, partitions=partitions,
                trigger={"availableNow": True},
            ) as pipeline:  # fmt: skip
                pipeline.wait()
        gateway = SparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()  # `spark.close` would not wait until the archive is written
        shutil.rmtree(spark.folder, ignore_errors=True)
        if made.exists():
            made.replace(archive)


if __name__ == "__main__":
    archive = find_archive()
    if archive is not None and not archive.exists():
        print("Making an archive of Spark's classes (once) …", flush=True)
        try:
            make_archive(archive)
        except SparkMissing as missing:
            print(missing, file=sys.stderr)
