"""Spark in local mode, started on first use, with its log in a file."""

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
from typing import Any
from weakref import WeakSet

from triegs.closing import Closing
from triegs.errors import TriegsError

OLDEST_JAVA = 17
OLDEST_PYSPARK = (4, 2)
LOG_NAME = "spark.log"
#: Settings of a session that we start. Users can add others with SPARK_CONF_DIR, as for any Spark.
SETTINGS = {
    "spark.app.name": "triegs",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # We collect micro-batches, and choose their size ourselves.
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The strings of a batch may exceed 2 GB.
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A batch writes a few small files to the checkpoint. Checksum files beside them, and checksums
    # of those, took longer than the batch: each starts a chmod process.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
#: Saves each Python worker a second of imports. Elsewhere forking after imports is not safe.
DAEMON = {"spark.python.daemon.module": "triegs.spark.daemon"} if sys.platform == "linux" else {}


#: Sessions with our formats registered; Spark warns about repeated registration.
_registered: WeakSet[Any] = WeakSet()


class SparkMissing(TriegsError):
    """Spark cannot run here; the message says what to install."""


class LocalSpark(Closing):
    """A Spark session that is shared by the users of this object. `get` starts it, `close` stops
    it.

    Spark logs to a file in ``folder``, a temporary directory that `close` removes. A session that
    already runs in this process is reused, and left running. Starting one takes some seconds.

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
        """The session. Any thread."""
        with self._lock:
            if self._closed.is_set():
                raise SparkMissing("LocalSpark was closed before it was used")
            if self._session is None:
                self._session = _find_running()
                self._is_ours = self._session is None
            if self._session is None:
                self._session = _start(self.folder)
            if self._closed.is_set():
                self._stop()
                raise SparkMissing("LocalSpark was closed while Spark was starting")
            return self._session

    def read_log(self) -> str:
        """What Spark has logged so far."""
        path = self.folder / LOG_NAME
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def close(self) -> None:
        """Stop Spark and its Java process. A session that is still starting stops when it is ready,
        or with this process.
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


def require_spark() -> None:
    """Raise `SparkMissing` without PySpark 4.2 and Java 17. Cost: one start of ``java``."""
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
        raise SparkMissing(f"{needed}, but there is no java on PATH or in JAVA_HOME")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkMissing(f"{needed}, but {java} does not run: {error}") from None
    found = read_java_version(done.stderr + done.stdout)
    if found is not None and found < OLDEST_JAVA:
        raise SparkMissing(f"{needed}; {java} is Java {found}")


def register(session: Any) -> None:
    """Register ``format("rdf")`` and ``format("triegs")`` with a Spark session. For a local
    session, also make it run the current Python, unless ``PYSPARK_PYTHON`` or
    ``spark.pyspark.python`` is set. `triegs.spark.start` calls it.

    Spark discovers both formats itself if its own Python has the package; but that is the
    ``python3`` on PATH, not the one of a virtual environment that is not activated.

    >>> from pyspark.sql import SparkSession                     # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()               # doctest: +SKIP
    >>> triegs.spark.register(spark)                             # doctest: +SKIP
    >>> frame = spark.read.format("rdf").load("data/")           # doctest: +SKIP
    """
    from triegs.spark.data_source import TriegsDataSource
    from triegs.spark.rdf.source import RdfSource

    context = session.sparkContext
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if context.master.startswith("local") and not is_chosen:
        context.pythonExec = sys.executable  # read when functions and formats are created
    if session in _registered:
        return
    _registered.add(session)
    for source in (RdfSource, TriegsDataSource):
        try:
            session.dataSource.register(source)
        except Exception as problem:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(problem):  # Spark has discovered it
                raise


def find_java() -> str | None:
    """The ``java`` that Spark will start: from JAVA_HOME, or else from PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def read_java_version(text: str) -> int | None:
    """The version in the output of ``java -version``; None if it is not recognized.

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
    """Start a session whose Java process writes to the log instead of the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster("local[*]").setAll(list(SETTINGS.items()))
    # Local executors must run this Python; PySpark would use the one on PATH.
    if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) == sys.executable:
        conf.setAll(list(DAEMON.items()))  # another Python may lack this package
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
        reason = next((line for line in lines if "rror" in line or "xception" in line), str(error))
        raise SparkMissing(f"Spark did not start: {reason.strip()}") from None
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
        # The Java process ends when its standard input closes.
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
