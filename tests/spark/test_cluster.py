"""Parts in executor processes of their own, which are killed, and a driver that is killed: what is
delivered is what a run delivers that nobody disturbs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from tests.spark.streams import QUERIES, draw_batches, expect, read_sink, sum_changes, write_batch

from triegs.spark import SparkMissing
from triegs.spark.session import require_spark

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
#: Two executors of one core.
CLUSTER = "local-cluster[2,1,512]"
LOCAL = "local[2]"
BATCHES = draw_batches(32, 24, rows=10)
#: Lives, and how often executors are killed in each; and how often the driver is.
LIVES, KILLS, DEATHS = 3, 12, 32


@pytest.fixture(scope="module")
def _spark() -> None:
    try:
        require_spark()
    except SparkMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, _spark) -> Path:
    """A life that nothing meets."""
    home = make_home(tmp_path_factory.mktemp("whole"))
    check(home, Life(home, master=LOCAL).end())
    return home


pytestmark = [
    pytest.mark.skipif(not SOAK, reason="takes minutes; make soak runs it"),
    pytest.mark.usefixtures("_spark"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]


def make_home(home: Path) -> Path:
    for number, events in enumerate(BATCHES):
        write_batch(home / "in", number, events)
    return home


class Life:
    """One run of the program, in a process group of its own."""

    def __init__(self, home: Path, partitions: int = 2, master: str = CLUSTER) -> None:
        self.mark = uuid4().hex
        arguments = [sys.executable, "-m", "tests.spark.cluster", str(home), master]
        arguments += [str(partitions), self.mark]
        self.log = home / f"{self.mark}.log"
        with self.log.open("w") as file:
            self.process: Any = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
            )

    def find_executors(self) -> list[int]:
        """The processes that have our mark, without the driver's."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if self.mark.encode() in words and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(path.name))
        return found

    def kill_executor(self, random: Random) -> bool:
        if found := self.find_executors():
            os.kill(random.choice(found), signal.SIGKILL)
        return bool(found)

    def kill_driver(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        for executor in self.find_executors():
            os.kill(executor, signal.SIGKILL)

    def read_until(self, batches: int) -> bool:
        """Wait for the so manieth batch; False if the process ends before."""
        for line in self.process.stdout:
            if line.startswith("batch"):
                batches -= 1
                if batches == 0:
                    return True
            elif line.startswith("{"):
                self.found = json.loads(line)
        return False

    def end(self) -> dict[str, Any]:
        """What it shows at its end."""
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


def check(home: Path, found: dict[str, Any]) -> None:
    """Answers, and the sum of all changes."""
    expected = expect(BATCHES, "multigraph", True)[-1].answers
    for name, answers in expected.items():
        assert found["answers"][name] == sorted(str(each) for each in answers.items())
        assert sum_changes(home / "out" / name, 1) == answers


@pytest.mark.property
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_parts_are_in_processes_of_their_own(tmp_path, partitions):
    home = make_home(tmp_path / "home")
    found = Life(home, partitions).end()
    check(home, found)
    held = [part["state_bytes"] for part in found["figures"]["parts"]]
    assert len(held) == partitions
    assert partitions == 1 or max(held) < sum(held)


@pytest.fixture
def standalone(tmp_path):
    """The address of a master on loopback with two workers of one core."""
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
    home = make_home(tmp_path / "home")
    found = Life(home, 2, standalone).end()
    check(home, found)
    held = [part["state_bytes"] for part in found["figures"]["parts"]]
    assert max(held) < sum(held)


@pytest.mark.property
def test_executors_are_killed(tmp_path, whole):
    random = Random(5)
    killed = 0
    for number in range(LIVES):
        home = make_home(tmp_path / str(number))
        life = Life(home)
        left = KILLS
        while left and life.read_until(1):
            time.sleep(2 * random.random())
            if life.kill_executor(random):
                left -= 1
                killed += 1
        check(home, life.end())
        compare_sinks(home, whole)
    assert killed >= LIVES * KILLS * 2 // 3


@pytest.mark.property
def test_the_driver_is_killed(tmp_path, whole):
    random = Random(6)
    home = make_home(tmp_path / "0")
    for number in range(DEATHS):
        life = Life(home, master=LOCAL)
        if life.read_until(random.randrange(1, 3)):
            time.sleep(random.random() * 2)
        life.kill_driver()
        if number % 8 == 7:
            check(home, Life(home, master=LOCAL).end())
            compare_sinks(home, whole)
            home = make_home(tmp_path / str(number + 1))
    check(home, Life(home, master=LOCAL).end())
    compare_sinks(home, whole)


def compare_sinks(home: Path, whole: Path) -> None:
    for name in QUERIES:
        assert read_sink(home / "out" / name) == read_sink(whole / "out" / name)
