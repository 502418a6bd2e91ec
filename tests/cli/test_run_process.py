"""``triegs run`` in a process of its own: signals, pipes, growing files, terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from tests.forks import Command, start_command

EX = "http://example.org/"
LIKES = "PREFIX : <http://example.org/> SELECT ?x ?y { ?x :likes ?y }"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEADER = "time,subject,predicate,object\n"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    from triegs import Engine

    Engine().close()


def event(time: int, subject: str, target: str) -> str:
    return f"{time},<{EX}{subject}>,<{EX}likes>,<{EX}{target}>\n"


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The command; it is killed if a test leaves it running."""
    with Command(
        "run", *arguments,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8", **options,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def give(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def read_lines(stream: IO[str] | None, count: int) -> list[str]:
    assert stream is not None
    return [stream.readline() for _ in range(count)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_after_its_epoch(number: int, code: int) -> None:
    """While it waits for input; the epoch that had begun is written."""
    with running(LIKES, "-i", "-", "--input-format", "csv", "--format", "csv") as process:
        give(process, HEADER + event(1, "a", "b") + event(2, "b", "c"))
        assert read_lines(process.stdout, 2)[1] == f"2,1,<{EX}a>,<{EX}b>,1\n"
        time.sleep(0.5)  # now it waits
        process.send_signal(number)
        rest, message = process.communicate(timeout=60)
    assert process.returncode == code
    assert [line[:4] for line in rest.splitlines()] == ["3,2,", "3,2,"]
    assert message == "stopped before the end of the input\n"


def test_a_stop_in_the_middle_of_a_file_completes_files(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path, out = tmp_path / "events.csv", tmp_path / "out.parquet"
    with path.open("w") as file:
        file.write(HEADER)
        file.writelines(event(n, f"a{n % 50}", f"b{n % 50}") for n in range(200_000))
    with running(
        LIKES, "-i", str(path), "--emit", "snapshot", "--output", str(out), "--log-level", "debug"
    ) as process:
        assert process.stderr is not None
        while "epoch 3," not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert pq.read_table(out).num_rows >= 3


def test_a_stop_leaves_slides_that_are_not_due() -> None:
    with running(
        LIKES, "-i", "-", "--input-format", "csv", "--format", "csv", "--window", "10"
    ) as process:
        give(process, HEADER + event(5, "a", "b") + event(15, "b", "c"))
        assert read_lines(process.stdout, 2)[1] == f"2,10,<{EX}a>,<{EX}b>,1\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, "")


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(HEADER + event(1, "a", "b") + event(2, "b", "c")[:20])
    with running(LIKES, "-i", str(path), "--follow", "--format", "csv") as process:
        assert read_lines(process.stdout, 1) == ["epoch,time,x,y,multiplicity\n"]
        with path.open("a") as file:
            file.write(event(2, "b", "c")[20:])
        assert read_lines(process.stdout, 1) == [f"2,1,<{EX}a>,<{EX}b>,1\n"]
        with path.open("a") as file:
            file.write(event(3, "c", "d"))
        assert sorted(line[:4] for line in read_lines(process.stdout, 2)) == ["3,2,", "3,2,"]
        time.sleep(0.5)  # now it waits
        process.send_signal(signal.SIGTERM)
        rest, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (0, "")
    assert {line[:4] for line in rest.splitlines()} == {"4,3,"}


def test_a_truncated_followed_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.nt"
    path.write_text(f"<{EX}a> <{EX}likes> <{EX}b> .\n" * 3)
    with running(LIKES, "-i", str(path), "--follow", "--format", "csv") as process:
        read_lines(process.stdout, 2)
        path.write_text("")
        _, message = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the file shrank" in message


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "".join(event(n, f"a{n}", "b") for n in range(300)))
    for name in ("csv", "arrow"):
        with running(LIKES, "-i", str(path), "--format", name) as process:
            assert process.stdout is not None
            process.stdout.close()
            process.wait(timeout=60)
            assert process.stderr is not None
            assert (process.returncode, process.stderr.read()) == (0, "")


def test_binary_results_in_a_pipe(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("arrow", "parquet"):
        done = subprocess.run(
            [*start_command(), "run", LIKES, "-i", "-", "--input-format", "csv", "--format", name],
            input=(HEADER + event(1, "a", "b")).encode(), capture_output=True, check=True,
        )  # fmt: skip
        read = (
            pq.read_table if name == "parquet" else lambda data: pa.ipc.open_stream(data).read_all()
        )
        assert read(pa.BufferReader(done.stdout)).num_rows == 1


class Terminal:
    """A terminal of a given size, and what was written to it."""

    def __init__(self, columns: int) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read(self) -> str:
        os.close(self.theirs)
        text = b""
        try:
            while part := os.read(self.ours, 65_536):
                text += part
        except OSError:
            pass
        os.close(self.ours)
        return text.decode()


def show(
    *arguments: str, columns: int = 80, start: list[str] | None = None, **environment: str
) -> str:
    terminal = Terminal(columns)
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "TERM")}
    with subprocess.Popen(
        [*(start or start_command()), "run", *arguments], stdin=subprocess.DEVNULL,
        stdout=terminal.theirs, stderr=terminal.theirs,
        env={**clean, "TERM": "xterm", **environment},
    ) as process:  # fmt: skip
        text = terminal.read()
    assert process.returncode == 0
    return text


def test_a_table_on_terminals() -> None:
    given = [str(EXAMPLES / "replies.rq"), "-i", str(EXAMPLES / "replies.csv")]
    given.append("--no-progress")
    text = show(*given, columns=40)
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in text.split("\r\n")) <= 40
    assert "\x1b[1m" in text
    assert "\x1b[" not in show(*given, NO_COLOR="1")


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    """A slow input shows it; results take its place while they are written."""
    path = tmp_path / "events.csv"
    path.write_text(HEADER + "".join(event(n // 9, f"a{n}", "b") for n in range(30_000)))
    program = (  # it shows every change, however soon it comes
        "import sys\n"
        "from triegs.cli import main, progress\n"
        "progress.FIRST = progress.PAUSE = 0\n"
        "sys.exit(main())\n"
    )
    given = [LIKES, "-i", str(path), "--every", "500ms", "--rows", "1"]
    text = show(*given, start=[sys.executable, "-c", program])
    shown = re.findall(r"\r\x1b\[2K[^\r]*events[^\r]*", text)
    assert shown
    assert "watermark" in shown[-1]
    assert "lag" in shown[-1]
    assert re.search(r"\d+%", shown[-1])
    assert max(len(line) for line in shown) <= 80 + len("\r\x1b[2K")
    quiet = show(*given, "--no-progress")
    assert "\x1b[2K" not in quiet


def test_results_for_programs_are_not_for_terminals(tmp_path: Path) -> None:
    terminal = Terminal(80)
    with Command(
        "run", LIKES, "-i", str(EXAMPLES / "replies.csv"), "--format", "parquet",
        stdin=subprocess.DEVNULL, stdout=terminal.theirs, stderr=terminal.theirs,
    ) as process:  # fmt: skip
        text = terminal.read()
    assert process.returncode == 2
    assert "to a terminal; give a file" in " ".join(text.split())


def test_a_second_signal_ends_at_once() -> None:
    with running(LIKES, "-i", "-", "--input-format", "csv", "--format", "csv") as process:
        give(process, HEADER + event(1, "a", "b") + event(2, "b", "c"))
        read_lines(process.stdout, 2)  # it has begun, however long that takes
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)


def test_a_signal_while_a_run_begins_is_not_lost() -> None:
    """Python only reports an exception in a finaliser, and continues."""
    program = (
        "import os, signal\n"
        "from triegs.run.stop import exiting_on_interrupt\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Closing:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); signal.getsignal(2)\n"
        "with exiting_on_interrupt():\n"
        "    closing = Closing()\n"
        "    del closing\n"
        "    print('lost')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stdout == b""
