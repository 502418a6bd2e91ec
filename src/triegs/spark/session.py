"""Spark in local mode, quiet, started when it is first needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Any
from weakref import WeakSet

from triegs.errors import TriegsError

OLDEST_JAVA = 17
OLDEST_PYSPARK = (4, 2)
LOG_NAME = "spark.log"
#: Of a session of ours. What else a user wants comes by SPARK_CONF_DIR, as for all of Spark.
SETTINGS = {
    "spark.app.name": "triegs",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # What is collected is a micro-batch, and how large those are is our own choice.
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Long texts of a batch may have more than 2 GB in all.
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A batch writes a handful of small files to the checkpoint. With a file of sums beside each,
    # and one of sums beside that, these took longer than the batch: each starts a process, chmod.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


#: Sessions that know our formats; Spark warns of those that are made known twice.
_registered: WeakSet[Any] = WeakSet()


class SparkMissing(TriegsError):
    """Spark cannot be used here; the message says what to install."""


class LocalSpark:
    """One Spark session for whoever shares this object; `get` starts it, `close` ends it.

    What Spark logs goes to a file in ``folder``, a temporary directory that `close` removes. A
    session that runs in this process already is used, and left running. Else one is started, which
    takes some seconds.

    Raises `SparkMissing` at once, without starting anything, if PySpark or Java is missing.
    """

    def __init__(self) -> None:
        require_spark()
        self._session: Any = None
        self._is_ours = False
        self._lock = Lock()
        self._closed = Event()
        self.folder = Path(tempfile.mkdtemp(prefix="triegs-spark-"))

    def get(self) -> Any:
        """The session; any thread."""
        with self._lock:
            if self._closed.is_set():
                raise SparkMissing("Spark was closed before it was used")
            if self._session is None:
                self._session = _find_running()
                self._is_ours = self._session is None
            if self._session is None:
                self._session = _start(self.folder)
            if self._closed.is_set():
                self._stop()
                raise SparkMissing("Spark was closed while it was started")
            return self._session

    def read_log(self) -> str:
        """What Spark has logged so far."""
        path = self.folder / LOG_NAME
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def close(self) -> None:
        """Stop Spark and its Java process; one that is just starting ends once it has started, or
        with this process.
        """
        self._closed.set()
        if self._lock.acquire(timeout=0.1):
            try:
                self._stop()
            finally:
                self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self) -> None:
        if self._session is not None and self._is_ours:
            _stop(self._session)
        self._session = None

    def __enter__(self) -> LocalSpark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def require_spark() -> None:
    """Raise `SparkMissing` unless PySpark 4.2 and Java 17 are there. Cost: a start of ``java``."""
    if find_spec("pyspark") is None:
        raise SparkMissing("PySpark is not installed: pip install 'triegs[spark]'")
    from pyspark import __version__

    if tuple(map(int, re.findall(r"\d+", __version__)[:2])) < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise SparkMissing(
            f"PySpark {__version__} is too old, {oldest} is needed: pip install -U 'triegs[spark]'"
        )
    needed = f"Spark needs Java {OLDEST_JAVA} or newer"
    java = find_java()
    if java is None:
        raise SparkMissing(f"{needed}, and there is no java on PATH or in JAVA_HOME")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkMissing(f"{needed}, and {java} does not run: {error}") from None
    found = read_java_version(done.stderr + done.stdout)
    if found is not None and found < OLDEST_JAVA:
        raise SparkMissing(f"{needed}; {java} is Java {found}")


def register(session: Any) -> None:
    """Let a Spark session use this package: know ``format("rdf")`` and ``format("triegs")``, and,
    if it is a local one, run the Python that runs this, unless ``PYSPARK_PYTHON`` or
    ``spark.pyspark.python`` says otherwise. `triegs.spark.start` does it.

    Spark finds both formats by itself where its own Python has the package; but that is the
    ``python3`` of PATH, and not the one of an environment that is not activated.

    >>> from pyspark.sql import SparkSession                     # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()               # doctest: +SKIP
    >>> triegs.spark.register(spark)                             # doctest: +SKIP
    >>> frame = spark.read.format("rdf").load("data/")           # doctest: +SKIP
    """
    from triegs.spark.rdf.source import RdfSource
    from triegs.spark.sink import TriegsDataSource

    context = session.sparkContext
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if context.master.startswith("local") and not is_chosen:
        context.pythonExec = sys.executable  # functions and formats take it when they are made
    if session in _registered:
        return
    _registered.add(session)
    for source in (RdfSource, TriegsDataSource):
        try:
            session.dataSource.register(source)
        except Exception as problem:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(problem):  # Spark has found it by itself
                raise


def find_java() -> str | None:
    """The ``java`` that Spark will start: that of JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def read_java_version(text: str) -> int | None:
    """The version that ``java -version`` tells; None if that is not understood.

    >>> read_java_version('openjdk version "17.0.15" 2025-04-15'), read_java_version('"1.8.0_292"')
    (17, 8)
    """
    found = re.search(r'"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _find_running() -> Any:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    has_one = SparkContext._active_spark_context is not None
    return SparkSession.builder.getOrCreate() if has_one else None


def _start(folder: Path) -> Any:
    """A new session whose Java process writes to the log and not to the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster("local[*]").setAll(list(SETTINGS.items()))
    # The executors of a local session have what we have; PySpark would take the python of PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf.set("spark.local.dir", str(folder / "local"))
    conf.set("spark.sql.warehouse.dir", str(folder / "warehouse"))
    log = folder / LOG_NAME
    try:
        with log.open("wb") as file:
            gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
        context = SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, OSError) as error:
        lines = (
            log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        )
        told = next((line for line in lines if "rror" in line or "xception" in line), str(error))
        raise SparkMissing(f"Spark did not start: {told.strip()}") from None
    return SparkSession(context)


def _stop(session: Any) -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        # The Java process ends when nothing can be read from this end any more.
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
