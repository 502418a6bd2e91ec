"""Partitions in separate executor processes that are killed, and a driver that is killed: the
output equals that of an undisturbed run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from tests.spark.streams import (
    QUERIES,
    Answers,
    Shown,
    draw_batches,
    expect,
    expect_rows,
    look,
    make_table,
    make_window,
    read_sink,
    sum_changes,
    write_batch,
)

from triegs import Engine
from triegs.options import ModeName
from triegs.spark import SparkMissing
from triegs.spark.session import require_spark
from triegs.testing.window_oracle import Event

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
#: Two executors of one core.
CLUSTER = "local-cluster[2,1,512]"
LOCAL = "local[2]"
BATCHES = draw_batches(32, 24, rows=10)
#: A recomputation has no late events.
EVEN = draw_batches(33, 6, rows=20, is_late=False)
#: How many executors a driver loses, and how often it is killed itself.
KILLS, DEATHS = 32, 32
WINDOWED = {"mode": "multigraph", "is_windowed": True, "times": []}


@pytest.fixture(scope="module")
def _spark() -> None:
    try:
        require_spark()
    except SparkMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, _spark) -> Path:
    """An undisturbed run."""
    home = make_home(tmp_path_factory.mktemp("whole"))
    check(home, Life(home, LOCAL))
    return home


pytestmark = [
    pytest.mark.skipif(not SOAK, reason="takes minutes; make soak runs it"),
    pytest.mark.usefixtures("_spark"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]


def make_home(home: Path, batches: list[list[Event]] = BATCHES) -> Path:
    for number, events in enumerate(batches):
        write_batch(home / "in", number, events)
    return home


class Life:
    """One run of the program, in its own process group."""

    def __init__(self, home: Path, master: str = CLUSTER, **options: Any) -> None:
        self.mark = uuid4().hex
        #: Results read while batches ran: batch, query, answers.
        self.reads: list[dict[str, Any]] = []
        asked = json.dumps({"partitions": 2, **WINDOWED, **options})
        arguments = [sys.executable, "-m", "tests.spark.cluster", str(home), master, self.mark]
        arguments.append(asked)
        self.log = home / f"{self.mark}.log"
        with self.log.open("w") as file:
            self.process: Any = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
            )

    def find_executors(self) -> list[int]:
        """The processes with our mark, except the driver's."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if self.mark.encode() in words and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(path.name))
        return found

    def kill_executor(self, random: Random) -> None:
        if found := self.find_executors():
            os.kill(random.choice(found), signal.SIGKILL)

    def count_lost(self) -> int:
        """Executors that the driver lost by our signal."""
        return len(re.findall(r"Lost executor .* exited with code 137", self.log.read_text()))

    def kill_driver(self) -> bool:
        """False if it had already ended."""
        os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.process.stdout.close()
        for executor in self.find_executors():
            os.kill(executor, signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), self.log.read_text()[-4_000:]
        return bool(code)

    def read_until(self, batches: int) -> bool:
        """Wait until so many batches are done; False if the process ends before."""
        for line in self.process.stdout:
            if line.startswith("batch"):
                batches -= 1
                if batches == 0:
                    return True
            elif line.startswith("{") and line.endswith("\n"):
                told = json.loads(line)
                if "read" in told:
                    self.reads.append(told)
                else:
                    self.found = told
        return False

    def end(self) -> dict[str, Any]:
        """Its final answers."""
        self.read_until(1 << 30)
        code = self.process.wait(120)
        self.process.stdout.close()
        assert code == 0, self.log.read_text()[-4_000:]
        wait_until_gone(self)
        found: dict[str, Any] = self.found
        return found


def wait_until_gone(life: Life) -> None:
    for _ in range(100):
        if not life.find_executors():
            return
        time.sleep(0.1)
    raise AssertionError("executors are left")


def write(answers: Answers) -> list[str]:
    return sorted(str(each) for each in answers.items())


def list_batches(home: Path) -> list[list[Event]]:
    """The events of each batch, by Spark's own log: if the driver dies after its source noted a
    file, but before the log did, the file goes to the next batch, which then has two.
    """
    folder = home / "state" / "spark" / "offsets"
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    ends = [
        json.loads((folder / str(n)).read_text().splitlines()[-1])["logOffset"] for n in numbers
    ]
    batches = []
    for before, last in pairwise([-1, *ends]):
        files = list(range(before + 1, last + 1))
        files.sort(key=lambda n: -(home / "in" / f"{n:05}.parquet").stat().st_size)  # as Spark does
        batches.append([event for n in files for event in BATCHES[n]])
    return batches


def check(home: Path, life: Life) -> None:
    """The final answers, every change in the sinks, and the results read meanwhile."""
    found = life.end()
    batches = list_batches(home)
    assert sum(map(len, batches)) == sum(map(len, BATCHES))
    for name, answers in expect(batches, "multigraph", True)[-1].answers.items():
        assert found["answers"][str(len(batches) - 1)][name] == write(answers)
        assert sum_changes(home / "out" / name, 1) == answers
    for name, rows in expect_rows(batches, "multigraph").items():
        assert read_sink(home / "out" / name) == rows
    check_reads(home, life)


def check_reads(home: Path, life: Life) -> None:
    expected = expect(list_batches(home), "multigraph", True) if life.reads else []
    for told in life.reads:
        batch, name = told["batch"], told["name"]
        assert told["read"] == write(expected[batch].answers[name]), (batch, name)


def show_directly(mode: ModeName, is_windowed: bool) -> list[Shown]:
    """The answers of one local engine after each batch."""
    shown = []
    with Engine(mode=mode, window=make_window(is_windowed)) as engine:
        queries = {name: engine.register(text, name=name) for name, text in QUERIES.items()}
        for events in EVEN:
            rows = make_table(events)
            if is_windowed:
                engine.push(rows)
                engine.advance()
            else:
                engine.apply(rows.drop_columns(["time"]))
            shown.append(look(queries))
    return shown


def list_times(mode: str, is_windowed: bool) -> list[int | None]:
    """The time of each batch's answers: its last slide, or the newest event."""
    if is_windowed:
        return [shown.time for shown in expect(EVEN, mode, True)]
    ends = accumulate((max((e.time for e in events), default=0) for events in EVEN), max)
    return [*ends]


def live_evenly(
    home: Path, master: str = CLUSTER, partitions: int = 2, mode: ModeName = "multigraph",
    is_windowed: bool = True,
) -> None:  # fmt: skip
    """A run over `EVEN`, every batch of which is compared."""
    make_home(home, EVEN)
    times = list_times(mode, is_windowed)
    asked = sorted({time for time in times if time is not None})
    found = Life(
        home, master, partitions=partitions, mode=mode, is_windowed=is_windowed, times=asked
    ).end()
    check_each_batch(home, found, mode, is_windowed)
    held = [report["state_bytes"] for report in found["figures"]["partitions"]]
    assert len(held) == partitions
    assert partitions == 1 or max(held) < sum(held)


def check_each_batch(home: Path, found: dict[str, Any], mode: ModeName, is_windowed: bool) -> None:
    """Compare with the oracle, an engine, Spark's own joins and the changes in the sinks."""
    direct = show_directly(mode, is_windowed)
    times = list_times(mode, is_windowed)
    for batch, shown in enumerate(expect(EVEN, mode, is_windowed)):
        assert direct[batch].answers == shown.answers
        for name, answers in shown.answers.items():
            assert found["answers"][str(batch)][name] == write(answers), (batch, name)
            assert sum_changes(home / "out" / name, 1, batch) == answers, (batch, name)
            if times[batch] is not None:
                anew = found["anew"][name].get(str(times[batch]), [])
                assert anew == write(answers), (batch, name)


ALL = [(1, "multigraph", True), (2, "rdf", True), (4, "multigraph", True), (2, "rdf", False)]


@pytest.mark.property
@pytest.mark.parametrize(("partitions", "mode", "is_windowed"), ALL)
def test_partitions_run_in_their_own_processes(tmp_path, partitions, mode, is_windowed):
    live_evenly(tmp_path, CLUSTER, partitions, mode, is_windowed)


@pytest.fixture
def standalone(tmp_path):
    """The address of a master on loopback with two single-core workers."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port = find_port()
    environment = {**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "work")}
    master = ["org.apache.spark.deploy.master.Master", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"]
    worker += ["--webui-port", "0", f"spark://127.0.0.1:{port}"]
    started = []
    try:
        for name, arguments in (("master", master), ("one", worker), ("two", worker)):
            kind, *rest = arguments
            given = [program, kind, "--host", "127.0.0.1", *rest]
            with (tmp_path / f"{name}.log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        given, stdout=log, stderr=log, env=environment, start_new_session=True
                    )
                )
        for name in ("one", "two"):
            wait_for_text(tmp_path / f"{name}.log", "Successfully registered with master")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def find_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


def wait_for_text(path: Path, text: str) -> None:
    for _ in range(300):
        if text in path.read_text():
            return
        time.sleep(0.2)
    raise AssertionError(path.read_text()[-2_000:])


@pytest.mark.property
def test_a_master_and_workers_of_their_own(tmp_path, standalone):
    live_evenly(tmp_path / "home", standalone)


@pytest.mark.property
def test_executors_are_killed(tmp_path, whole):
    random = Random(5)
    lost = read = 0
    while lost < KILLS:
        home = make_home(tmp_path / str(lost))
        life = Life(home)
        while lost + life.count_lost() < KILLS and life.read_until(1):
            time.sleep(2 * random.random())
            life.kill_executor(random)
        check(home, life)
        compare_sinks(home, whole)
        assert life.count_lost()
        lost += life.count_lost()
        read += len(life.reads)
    assert read > KILLS


@pytest.mark.property
def test_the_driver_is_killed(tmp_path, whole):
    random = Random(6)
    killed = 0
    home = make_home(tmp_path / "0")
    while killed < DEATHS:
        life = Life(home, LOCAL)
        if life.read_until(random.randrange(1, 3)):
            time.sleep(random.random() * 2)
        is_killed = life.kill_driver()
        killed += is_killed
        check_reads(home, life)
        if not is_killed or killed % 6 == 0:
            check(home, Life(home, LOCAL))
            compare_sinks(home, whole)
            home = make_home(tmp_path / f"{killed}-{is_killed}")
    check(home, Life(home, LOCAL))
    compare_sinks(home, whole)


def compare_sinks(home: Path, whole: Path) -> None:
    """Row by row; equal if the batches are."""
    if list_batches(home) != BATCHES:
        return
    for name in QUERIES:
        assert read_sink(home / "out" / name) == read_sink(whole / "out" / name)
