"""``triegs run --engine spark`` in its own process: signals, the terminal, the end of Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triegs.spark import SparkMissing
from triegs.spark.session import require_spark

# Background jobs of a shell ignore interrupts, and so do their children.
PROGRAM = (
    "import signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from triegs.cli import main\n"
    "sys.argv[0] = 'triegs'\n"
    "sys.exit(main())"
)
QUERY = "SELECT * { ?x <a:p> ?y }"
FILES = 400

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    try:
        require_spark()
    except SparkMissing as missing:
        pytest.skip(str(missing))


def list_java(folder: Path) -> list[str]:
    """Java processes that work in that directory, by their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "java" in line.partition(" ")[0] and str(folder) in line:
            found.append(line)
    return found


def test_an_interrupt_ends_the_run_and_java(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        path = tmp_path / "in" / f"{number:04}.csv"
        path.write_text(f"time,subject,predicate,object\n{number},<a:{number}>,<a:p>,<a:b>\n")
        os.utime(path, (number, number))
    (tmp_path / "tmp").mkdir()
    given = ["run", QUERY, "--input", str(tmp_path / "in"), "--engine", "spark", "--format", "csv"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *given, "--emit", "changes"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        cwd=tmp_path,
    ) as process:
        try:
            assert process.stdout is not None
            first = [process.stdout.readline() for _ in range(2)]
            if sys.platform == "linux":
                assert list_java(tmp_path / "tmp")
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    rows = [*first, *rest.splitlines()]
    assert process.returncode == 130, errors
    assert errors == "stopped before the end of the input\n"
    assert len(rows) < FILES
    assert "<a:0>" in rows[1]
    deadline = time.monotonic() + 20
    while list_java(tmp_path / "tmp") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list_java(tmp_path / "tmp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "tmp"]
    assert not list((tmp_path / "tmp").glob("triegs-*"))
