"""The server in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

PATIENCE_S = 120.0


class ServerProcess:
    """A server process: its address, its process, and what it logs."""

    def __init__(self, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.address = address
        self.process = process
        self._log = log

    def read_log(self) -> str:
        return self._log.read_text("utf-8")

    def measure(self) -> int:
        """The bytes of memory that the process has."""
        text = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def serving(*options: str) -> Iterator[ServerProcess]:
    """``triegs serve``, until the end of the block. Its log goes to a file, which cannot block."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        program = Path(sys.executable).with_name("triegs")
        with log.open("wb") as sink:
            command = [str(program), "serve", "--port", "0", *options]
            process = subprocess.Popen(command, stderr=sink)
        try:
            yield ServerProcess(find_address(process, log), process, log)
        finally:
            process.kill()
            process.wait()


def find_address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = monotonic() + PATIENCE_S
    while monotonic() < until:
        text = log.read_text("utf-8")
        if found := re.search(r"serving (http://[\w.:]+)", text):
            return found[1]
        assert process.poll() is None, text
        sleep(0.02)
    raise AssertionError("the server did not start in time")
