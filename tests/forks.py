"""``triegs`` in a process of its own that need not import anything first, which takes a second.

`start_command` names a command to put before the arguments of ``triegs``. It is a small program,
``fork_client.py``, which passes its arguments, environment, folder and standard files to a server
that has imported triegs and has loaded its kernels. The server forks for each command; what it
forks is a real process, with its own end as an interpreter. The client ends as the process does.
A `Command` is such a process to which signals can be sent.

Not for tests of what happens at a start (what is imported or compiled), nor for those with
variables that are read by imports.
"""

from __future__ import annotations

import atexit
import gc
import io
import marshal
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any, NoReturn

CLIENT = Path(__file__).with_name("fork_client.py")
ROOT = Path(__file__).parents[1]
READY = b"ready\n"


def start_command() -> list[str]:
    """The command ``triegs``, for `subprocess`; the first call starts the server."""
    if not hasattr(os, "fork"):
        return [sys.executable, "-c", "import sys; from triegs.cli import main; sys.exit(main())"]
    return [sys.executable, "-I", "-S", str(CLIENT), start_server()]


class Command(subprocess.Popen[Any]):
    """``triegs`` with these arguments, and options of `Popen`."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        super().__init__([*start_command(), *arguments], **options)

    def send_signal(self, sig: int) -> None:
        """To the process itself: passed on by its client it would come later than what a test does
        next.
        """
        if not hasattr(os, "fork"):
            return super().send_signal(sig)
        told = Path(start_server()).with_name(str(self.pid))
        while self.poll() is None:
            if told.exists():
                with suppress(ProcessLookupError):
                    os.kill(int(told.read_text()), sig)
                return None
            sleep(0.01)
        return None


@cache
def start_server() -> str:
    """Start the server of this process, which ends with it. Returns the path of its socket."""
    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "socket")
    # Threads of OpenBLAS would be lost in a fork.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forks", path], cwd=ROOT, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == READY
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # its end is the end of the server
    return path


class Server:
    """Forks a process for each connection, and tells it how the process ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._jobs: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._ended, self._wakes = socket.socketpair()
        for end in (self._ended, self._wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)

    def serve(self) -> list[str] | None:
        """In a forked process, its arguments; in the server None, at the end."""
        watched: tuple[Any, ...] = (self._listener, self._ended, sys.stdin)
        for file in watched:
            self._selector.register(file, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                found: Any = key.fileobj
                if found is sys.stdin:
                    self._kill_all()
                    return None
                if found is self._ended:
                    self._ended.recv(4096)
                    self._reap()
                elif found is self._listener:
                    arguments = self._begin(self._listener.accept()[0])
                    if arguments is not None:
                        return arguments
                elif found in self._jobs.values():  # its client has gone
                    self._forget(found)

    def _begin(self, client: socket.socket) -> list[str] | None:
        size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "little")
        data, files, _, _ = socket.recv_fds(client, size, 3)
        while len(data) < size:
            data += client.recv(size - len(data))
        job = os.fork()
        if job == 0:
            self._leave(client)
            arguments, environment, folder, asker = marshal.loads(data)
            # Whole or not at all, for `Command.send_signal`.
            told = Path(self._path).with_name(f"{asker}")
            told.with_suffix(".part").write_text(f"{os.getpid()}")
            told.with_suffix(".part").replace(told)
            become(files, environment, folder)
            return list(arguments)
        for file in files:
            os.close(file)
        self._jobs[job] = client
        self._selector.register(client, selectors.EVENT_READ)
        return None

    def _leave(self, client: socket.socket) -> None:
        """Forget, in a forked process, what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (client, self._listener, self._ended, self._wakes, *self._jobs.values()):
            file.close()
        self._selector.close()

    def _reap(self) -> None:
        for job in list(self._jobs):
            found, status = os.waitpid(job, os.WNOHANG)
            if found:
                client = self._jobs.pop(job)
                self._selector.unregister(client)
                code = os.waitstatus_to_exitcode(status)
                with client:
                    client.sendall(code.to_bytes(4, "little", signed=True))

    def _forget(self, client: socket.socket) -> None:
        job = next(job for job, its in self._jobs.items() if its is client)
        self._selector.unregister(client)
        self._jobs.pop(job)
        client.close()
        os.kill(job, signal.SIGKILL)
        os.waitpid(job, 0)

    def _kill_all(self) -> None:
        for client in list(self._jobs.values()):
            self._forget(client)


def become(files: list[int], environment: dict[bytes, bytes], folder: str) -> None:
    """Make this process one that a shell has just started with these files."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    coding = environment.get(b"PYTHONIOENCODING", b"utf-8").decode()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115
        text = io.TextIOWrapper(
            raw, encoding=coding, errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2 or raw.isatty(),
        )  # fmt: skip
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    random.seed()
    # What a shell starts in the background ignores interrupts, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare() -> None:
    """Import and load what commands need, by running some."""
    from tests.commands import build_commands_once
    from typer.testing import CliRunner

    from triegs.cli.app import app

    build_commands_once()

    query = "SELECT ?x ?y { ?x <a:p> ?y }"
    events = "time,subject,predicate,object\n1,<a:a>,<a:p>,<a:b>\n2,<a:b>,<a:p>,<a:c>\n"
    for arguments in (
        ["explain", "--text", query],
        ["run", query, "-i", "-", "--input-format", "csv", "--window", "10ms"],
        ["run", query, "-i", "-", "--input-format", "csv", "--format", "csv"],
        ["generate", "path3", "-n", "5"],
    ):
        done = CliRunner().invoke(app, arguments, input=events)
        assert done.exit_code == 0, done.output
    assert threading.active_count() == 1, "a thread would be lost in a fork"


def main(path: str) -> NoReturn:
    prepare()
    server = Server(path)
    gc.collect()
    gc.freeze()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    arguments = server.serve()
    if arguments is None:
        sys.exit()
    del server
    sys.argv = ["triegs", *arguments]
    sys.modules["__main__"].__package__ = ""  # or messages call the command by this module's name
    from triegs.cli import main as run

    run()
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1])
