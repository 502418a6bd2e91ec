"""A program that runs ``triegs run`` many times, and has it killed at chosen operations.

It reads a list from standard input, as JSON: each entry has ``arguments``, and ``kills``, which
says of each life at which operation it ends; once one comes to its end by itself, a last one
follows. It prints the exit codes of each entry (-9: killed). Lives are forked, so everything is
imported and compiled once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from tests.commands import build_commands_once

from triegs import Engine, Window
from triegs.cli.app import app
from triegs.durable import checkpoint_manager
from triegs.durable.files import DiskFile, DiskFiles
from triegs.events import lines, open_input
from triegs.outputs.sinks import Outputs
from triegs.run.reporter import Reporter

BATCH_ROWS = 7
CHECKPOINT_BYTES = 3_000
#: Where a life may end: before or after it; for a write also in the middle.
PLACES: list[tuple[Any, str]] = [
    (DiskFile, "write"), (DiskFile, "follow"), (DiskFile, "sync"), (DiskFiles, "replace"),
    (DiskFiles, "remove"), (DiskFiles, "sync_folder"), (Outputs, "write"), (Outputs, "flush"),
    (Reporter, "publish"),
]  # fmt: skip


BEHIND, MIDDLE, BEFORE = -3, -2, -1


class Death:
    """Counts operations, each at three points, and ends the process at one of them."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._lock = Lock()  # the log is synced, and checkpoints are written, by other threads

    def watch(self, owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def watched(this: Any, *arguments: Any) -> Any:
            with self._lock:
                self._left -= 3
                left = self._left
            if left == MIDDLE and (owner, name) == PLACES[0]:
                whole = b"".join(bytes(part) for part in arguments[0])
                call(this, [whole[: len(whole) // 2]])
            if left in (BEFORE, MIDDLE):
                end()
            try:
                return call(this, *arguments)
            finally:
                if left == BEHIND:
                    end()

        setattr(owner, name, watched)


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def live(arguments: list[str], at: int | None) -> int:
    """One life: the exit code, if it comes so far."""
    checkpoint_manager.LEAST_BYTES = CHECKPOINT_BYTES
    lines.LEAST_BYTES = 64
    defaults: Any = open_input.__kwdefaults__
    defaults["batch_rows"] = BATCH_ROWS
    if at is not None:
        death = Death(at)
        for owner, name in PLACES:
            death.watch(owner, name)
    try:
        app(arguments, standalone_mode=True)
    except SystemExit as found:
        return int(found.code or 0)
    return 0


def go_through(arguments: list[str], kills: list[int]) -> list[int]:
    """The exit codes of all lives."""
    codes: list[int] = []
    for at in [*kills, None, None]:
        if at is not None and codes[-1:] == [0]:
            continue
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            code = 70
            try:
                code = live(arguments, at)
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        codes.append(os.waitstatus_to_exitcode(status))
    return codes


def warm_up() -> None:
    """Load what every life needs, without starting a thread that a fork would not have."""
    import triegs.cli.run_command  # noqa: F401

    build_commands_once()
    with redirect_stdout(StringIO()), suppress(SystemExit):
        app(["explain", "ASK { ?x ?p ?y }"])  # the parser of the command line imports on first use
    with TemporaryDirectory() as folder:
        for _ in range(2):
            with Engine.open(f"{folder}/state", sync="never", window=Window(4)) as engine:
                if "all" not in engine.queries:
                    engine.register("SELECT ?x ?z { ?x <a:p> ?y . ?y <a:p> ?z }", "all")
                with engine.queries["all"].snapshot() as before:
                    moment = 10 * engine.epoch
                    engine.push([(moment, 1, "<a:p>", 1), (moment + 6, 1, "<a:p>", 2, "-")])
                    engine.advance(moment + 9)
                    with engine.queries["all"].snapshot() as now:
                        now.diff(before).to_arrow()


def main() -> None:
    given = json.load(sys.stdin)
    warm_up()
    print(json.dumps([go_through(each["arguments"], each["kills"]) for each in given]))


if __name__ == "__main__":
    main()
