"""A program that runs a pipeline, and kills itself and Spark's Java process at a chosen point.

``python -m tests.spark.dying HOME PLACE TIMES``: when the point is passed for the given time, both
processes get SIGKILL. Without a point it runs to the end, and prints the final answers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

from tests.spark.streams import QUERIES, look, make_window, read_stream

from triegs.durable.files import DiskFile, DiskFiles
from triegs.spark import LocalSpark, start
from triegs.spark.driver.micro_batch import MicroBatchRunner

#: Points by name: the function, and whether to die before it, after it, or in the middle.
BEFORE, BEHIND, MIDDLE = "before", "behind", "middle"
PLACES: dict[str, tuple[Any, str, str]] = {
    "planned": (MicroBatchRunner, "take", BEFORE),
    "collected": (MicroBatchRunner, "_quarantine", BEFORE),
    "writing": (DiskFile, "write", MIDDLE),
    "applied": (MicroBatchRunner, "_apply", BEHIND),
    "sliding": (MicroBatchRunner, "_hold_newest", BEHIND),
    "synced": (MicroBatchRunner, "_deliver", BEFORE),
    "in a sink": (DiskFiles, "replace", BEFORE),
    "delivered": (MicroBatchRunner, "_deliver", BEHIND),
    "settled": (MicroBatchRunner, "_settle", BEHIND),
    "taken": (MicroBatchRunner, "take", BEHIND),
}


class Death:
    """Kills this process and Spark's at the given call."""

    def __init__(self, times: int) -> None:
        self._left = times
        self.java = 0

    def watch(self, owner: Any, name: str, where: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and where == MIDDLE:
                whole = b"".join(bytes(part) for part in arguments[1])
                call(arguments[0], [whole[: len(whole) // 2]])
            if self._left == 0 and where != BEHIND:
                self.end()
            found = call(*arguments)
            if self._left == 0:
                self.end()
            return found

        setattr(owner, name, watched)

    def end(self) -> None:
        os.kill(self.java, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def run_pipeline(session: Any, home: Path, is_windowed: bool) -> dict[str, Any]:
    """Process all batches; returns the final answers."""
    with start(
        read_stream(session, home / "in"), QUERIES, checkpoint=home / "state",
        window=make_window(is_windowed), trigger={"availableNow": True}, views=False,
        sinks={name: home / "out" / name for name in QUERIES}, checkpoint_bytes=2_000,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        time, shown = look(pipeline.queries)
        found = {name: sorted(map(str, each.items())) for name, each in shown.items()}
        return {"time": time, "epoch": pipeline.engine.epoch, "answers": found}


def main(home: Path, place: str | None, times: int, is_windowed: bool) -> None:
    death = Death(times)
    with LocalSpark() as spark:
        session = spark.get()
        death.java = session._jvm.java.lang.ProcessHandle.current().pid()
        if place == "any":
            Timer(times / 1000, death.end).start()
        elif place is not None:
            death.watch(*PLACES[place])
        print(json.dumps(run_pipeline(session, home, is_windowed)))
        if place == "any":
            death.end()  # the timer was too late


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    main(Path(folder), rest[1] if len(rest) > 1 else None, int(rest[2]) if len(rest) > 2 else 0,
         rest[0] == "windows")  # fmt: skip
