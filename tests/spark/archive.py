"""What makes Spark faster in tests: an archive of the classes that it loads, a home without its
archive of PySpark, and files without processes.

A start of Spark takes about half the processor time with the classes, and a run of the tests starts
Spark some ten times. The archive of PySpark has no bytecode, and is first on the search path of
Spark's Python processes: each compiles PySpark, half a second. Without it they import PySpark from
its installation. Hadoop starts a process for each file that it makes, and four for each that it
renames, which took a fifth of the processor time of a stream; ``PlainFiles.java`` starts none.

``python -m tests.spark.archive`` makes all, once for each installation of Java and Spark. Without
them the tests are the same, but slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from triegs.spark.session import SETTINGS, LocalSpark, SparkMissing, find_java

VENV = Path(__file__).parents[2] / ".venv"
# Java spends more time on compiling well than tests have it run: a third less of it this way.
# That code does not fit the room that Java has for it, which costs more than compiling it; nor do
# plans the room for new objects. Nobody looks at the status that Spark keeps of its jobs. Where
# Hadoop still starts a process, it takes half the time without Java's helper.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -Xmn256m "
    "-Djdk.lang.Process.launchMechanism=VFORK "
    "-Dspark.ui.liveUpdate.period=-1 -Dspark.sql.ui.explainMode=simple"
)
# An archive that does not fit is ignored; a warning would go to standard output.
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
FILES = Path(__file__).with_name("PlainFiles.java")
#: For all processes, and for the session that tests share: streams of others have the setting of
#: `triegs.spark.session`.
FILES_OPTION = "-Dspark.hadoop.fs.file.impl=tests.PlainFiles"
CHECKPOINTS = {
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "tests.PlainFiles$Checkpoints",
}


def find_archive() -> Path | None:
    """Where the archive for this Java and this Spark is, or belongs; None without either."""
    java, spark = find_java(), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        return None
    digest = blake2b(digest_size=8)
    for path in (Path(java).resolve(), Path(spark.origin)):
        digest.update(f"{path} {path.stat().st_mtime_ns}\0".encode())
    digest.update(str(VENV).encode())  # an archive fits one path of the libraries
    digest.update(FILES.read_bytes())
    return VENV / f"spark-{digest.hexdigest()}.jsa"


def find_home(archive: Path | None) -> Path | None:
    """The home of Spark that belongs to an archive, if there is one."""
    home = None if archive is None else archive.with_suffix("")
    return home if home is not None and home.is_dir() else None


def make_home(archive: Path) -> None:
    """A directory with Spark's programs and Java libraries, and with `FILES`, but without its
    ``python``.
    """
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home, source = archive.with_suffix(""), Path(spark.origin).parent
    shutil.rmtree(home, ignore_errors=True)
    (home / "jars").mkdir(parents=True)
    for name in ("bin", "sbin"):
        (home / name).symlink_to(source / name)
    for library in (source / "jars").iterdir():
        (home / "jars" / library.name).symlink_to(library)
    make_files(home / "jars")


def make_files(libraries: Path) -> None:
    """Compile `FILES` into a library, if there is a compiler beside ``java``."""
    java = find_java()
    assert java is not None
    tools = str(Path(java).resolve().parent)
    compiler, packer = shutil.which("javac", path=tools), shutil.which("jar", path=tools)
    if compiler is None or packer is None:
        return
    with tempfile.TemporaryDirectory() as made:
        compiled = [compiler, "-nowarn", "-cp", f"{libraries}/*", "-d", made, str(FILES)]
        subprocess.run(compiled, check=True)
        packed = [packer, "--create", "--file", str(libraries / FILES.with_suffix(".jar").name)]
        subprocess.run([*packed, "-C", made, "."], check=True)


def has_files(home: Path | None) -> bool:
    return home is not None and (home / "jars" / FILES.with_suffix(".jar").name).exists()


def choose_environment() -> dict[str, str]:
    """Variables for the processes of a run of tests that start Spark."""
    home = find_home(find_archive())
    found = {"SPARK_SUBMIT_OPTS": choose_options()}
    return found if home is None else {**found, "SPARK_HOME": str(home)}


def choose_settings() -> dict[str, str]:
    """Settings of Spark for the session that tests share."""
    home = find_home(find_archive())
    is_home = home is not None and os.environ.get("SPARK_HOME") == str(home)
    return CHECKPOINTS if is_home and has_files(home) else {}


def choose_options() -> str:
    """Options for Java, with the archive if there is one."""
    archive = find_archive()
    if archive is None or not archive.exists() or " " in str(archive):
        return OPTIONS
    files = f"{FILES_OPTION} " if has_files(find_home(archive)) else ""
    return f"{OPTIONS} {files}{QUIET} -XX:SharedArchiveFile={archive}"


def make_archive(archive: Path) -> None:
    """Run a pipeline of each kind; Java writes the archive when it ends."""
    make_home(archive)
    home = find_home(archive)
    os.environ["SPARK_HOME"] = str(home)
    from pyspark import SparkContext
    from tests.spark.streams import QUERIES, draw_batches, make_window, read_stream, write_all

    from triegs.spark import start

    files = FILES_OPTION if has_files(home) else ""
    SETTINGS.update(choose_settings())
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        folder = Path(name)
        made = folder / "made.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = (
            f"{OPTIONS} {files} {QUIET} -XX:ArchiveClassesAtExit={made}"
        )
        spark = LocalSpark()
        session = spark.get()
        stream = read_stream(session, write_all(folder / "in", draw_batches(1, 2)))
        for partitions in (None, 2):
            place = folder / str(partitions)
            with start(
                stream, QUERIES, checkpoint=place / "state", window=make_window(True),
                sinks={name: place / name for name in QUERIES}, partitions=partitions,
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
