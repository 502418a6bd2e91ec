"""What a feature costs those who do not use it: epochs against those of the commit before it.

``python -m bench.micro.against_commit COMMIT``. Both run in processes of their own that take turns,
each with the slides of two workloads; a ratio is the median over the turns. Seconds are those of
the thread, so another process on the same core is not counted. The first turn compiles the other
commit's kernels, which takes about a minute, and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console

from bench.pages import publish
from bench.report import (
    ROOT,
    Figure,
    Result,
    Sense,
    append_history,
    describe_machine,
    make_record,
    print_result,
)
from bench.run import HISTORY

GOAL = 1.03
#: Prints the middle epoch of each workload in seconds, and a checksum of the answers.
PROGRAM = """
import json
from statistics import median
from time import thread_time
from triegs import Engine
from triegs.workloads import path3, star5
found = {}
for workload in (path3(8), star5(3)):
    engine = Engine("multigraph")
    query = engine.register(workload.query)
    stream = workload.slides()
    engine.apply(next(stream).table)
    seconds = []
    for _ in range(SLIDES):
        table = next(stream).table
        start = thread_time()
        engine.apply(table)
        seconds.append(thread_time() - start)
    with query.snapshot() as snapshot:
        found[workload.name] = median(seconds), snapshot.count()
print(json.dumps(found))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="epochs against those of another commit")
    parser.add_argument("commit")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--slides", type=int, default=600)
    parser.add_argument("--docs", type=Path, help="write the table into this folder")
    options = parser.parse_args()
    start = perf_counter()
    archive = subprocess.run(
        ["git", "archive", options.commit, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    ratios: dict[str, list[float]] = {}
    ours: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        for turn in range(options.turns + 1):
            first, second = (Path(folder), ROOT) if turn % 2 else (ROOT, Path(folder))
            found = {place: _run(place / "src", options.slides) for place in (first, second)}
            for name, (seconds, count) in found[ROOT].items():
                before, expected = found[Path(folder)][name]
                if count != expected:
                    raise SystemExit(f"{name}: {count} answers, {expected} at {options.commit}")
                if turn:
                    ours.setdefault(name, []).append(seconds)
                    ratios.setdefault(name, []).append(seconds / before)
    figures = []
    for name, found_ratios in ratios.items():
        figures += [
            Figure(name, "epoch µs", 1e6 * median(ours[name])),
            Figure(
                name, f"of {options.commit}", median(found_ratios), "x", GOAL, Sense.AT_MOST
            ),
        ]  # fmt: skip
    result = Result("unsubscribed", tuple(figures), perf_counter() - start)
    print_result(Console(), result)
    settings = {"turns": options.turns, "slides": options.slides}
    record = make_record(f"against {options.commit}", describe_machine(), settings, [result])
    append_history(HISTORY, record)
    if options.docs is not None:
        publish(options.docs, record)
    return 0


def _run(source: Path, slides: int) -> dict[str, tuple[float, int]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("SLIDES", str(slides))], cwd=source,
        env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, encoding="utf-8",
        check=True,
    )  # fmt: skip
    found: dict[str, tuple[float, int]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
