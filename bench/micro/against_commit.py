"""What a change costs those who gain nothing by it: epochs and bytes against another commit's.

``python -m bench.micro.against_commit COMMIT``. Both run in processes of their own that take turns,
on the same tables, which are written once; a ratio is the median over the turns. Seconds are those
of the thread, so another process on the same core is not counted. The first turn compiles the other
commit's kernels, which takes about a minute, and does not count.

For what was to become faster, ``--shapes path2-ends --least 40 --slides 20 --turns 4`` asks by how
much.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
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
from triegs.workloads import Workload, path2_ends, path3, reply, spider4x2, star5

GOAL = 1.05
SHAPES: dict[str, Callable[..., Workload]] = {
    "path3": path3,
    "star5": star5,
    "spider4x2": spider4x2,
    "reply": reply,
    "path2-ends": path2_ends,
}
#: Where nothing else is asked for: what was in kernels before.
CHOSEN = ("path3", "star5", "spider4x2", "reply")
#: Of the last slide each row is an epoch of its own.
PROGRAM = """
import json, sys
from pathlib import Path
from statistics import median
from time import thread_time
import pyarrow as pa
from triegs import Engine

def take(engine, updates):
    start = thread_time()
    engine.apply(updates)
    return thread_time() - start

found = {}
for path in sorted(Path(sys.argv[1]).glob("*.arrow")):
    with pa.OSFile(str(path)) as file:
        tables = [pa.Table.from_batches([batch]) for batch in pa.ipc.open_stream(file)]
    load, *slides, last = tables
    engine = Engine("multigraph")
    query = engine.register(path.with_suffix(".rq").read_text())
    engine.apply(load)
    epochs = [take(engine, slide) for slide in slides]
    rows = zip(*(last[name].to_pylist() for name in ("op", "subject", "predicate", "object")))
    updates = [("+" if op > 0 else "-", *triple) for op, *triple in rows]
    singles = [take(engine, [update]) for update in updates]
    with query.snapshot() as snapshot:
        answers = snapshot.count()
    found[path.stem] = {
        "epoch": median(epochs), "single": median(singles), "answers": answers,
        "bytes": engine.metrics()["live_bytes"] + engine.metrics().get("shared_bytes", 0),
    }
print(json.dumps(found))
"""
#: The figures of one shape in one process.
Measured = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description="epochs and bytes against those of another commit")
    parser.add_argument("commit")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=CHOSEN)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--slides", type=int, default=300)
    parser.add_argument("--most", type=float, default=GOAL, help="ratio of ours to the other's")
    parser.add_argument("--least", type=float, help="ask how many times faster the epochs are")
    parser.add_argument("--section", default="against", help="the name on the page")
    parser.add_argument("--docs", type=Path, help="write the table into this folder")
    options = parser.parse_args()
    start = perf_counter()
    archive = subprocess.run(
        ["git", "archive", options.commit, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        other, tables = Path(folder, "other"), Path(folder, "tables")
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(other, filter="data")
        write_tables(tables, [SHAPES[name]() for name in options.shapes], options.slides)
        turns = list(take_turns(ROOT / "src", other / "src", tables, options.turns))
    figures = list(
        show_growth(turns, options.commit, options.most)
        if options.least is None
        else show_gain(turns, options.commit, options.least)
    )
    result = Result(options.section, tuple(figures), perf_counter() - start)
    print_result(Console(), result)
    settings = {"turns": options.turns, "slides": options.slides}
    record = make_record(f"against {options.commit}", describe_machine(), settings, [result])
    append_history(HISTORY, record)
    if options.docs is not None:
        publish(options.docs, record)
    return 0


def write_tables(folder: Path, workloads: Sequence[Workload], slides: int) -> None:
    """For each workload its query, and a batch for the load, for each slide and for the singles."""
    folder.mkdir()
    for workload in workloads:
        path = folder / f"{workload.name}.arrow"
        path.with_suffix(".rq").write_text(workload.query, encoding="utf-8")
        tables = (slide.table for slide in islice(workload.slides(), slides + 2))
        first = next(tables)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, first.schema) as stream:
            for table in (first, *tables):
                stream.write_table(table)


def take_turns(
    ours: Path, other: Path, tables: Path, turns: int
) -> Iterator[tuple[dict[str, Measured], dict[str, Measured]]]:
    """Both sources on the same tables, turn by turn; who begins changes."""
    for turn in range(turns + 1):
        order = (ours, other) if turn % 2 else (other, ours)
        found = {source: run(source, tables) for source in order}
        for name, measured in found[ours].items():
            if measured["answers"] != (expected := found[other][name]["answers"]):
                raise SystemExit(f"{name}: {measured['answers']} answers, before {expected}")
        if turn:
            yield found[ours], found[other]


def run(source: Path, tables: Path) -> dict[str, Measured]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tables)], cwd=source, check=True,
        env=os.environ | {"PYTHONPATH": str(source)}, stdout=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    found: dict[str, Measured] = json.loads(done.stdout)
    return found


Turns = Sequence[tuple[Mapping[str, Measured], Mapping[str, Measured]]]


def show_growth(turns: Turns, commit: str, goal: float) -> Iterator[Figure]:
    columns = {"epoch": ("epoch µs", 1e6), "single": ("one update µs", 1e6), "bytes": ("MB", 1e-6)}
    for name in turns[0][0]:
        for key, (column, scale) in columns.items():
            pairs = [(ours[name][key], other[name][key]) for ours, other in turns]
            yield Figure(name, column, scale * median(mine for mine, _ in pairs))
            ratio = median(mine / before for mine, before in pairs)
            what = f"{column.rpartition(' ')[0] or column}, of {commit}"
            yield Figure(name, what, ratio, "x", goal, Sense.AT_MOST)


def show_gain(turns: Turns, commit: str, goal: float) -> Iterator[Figure]:
    for name in turns[0][0]:
        pairs = [(ours[name]["epoch"], other[name]["epoch"]) for ours, other in turns]
        yield Figure(name, "epoch ms", 1e3 * median(mine for mine, _ in pairs), table="faster")
        ratio = median(before / mine for mine, before in pairs)
        yield Figure(name, f"faster than {commit}", ratio, "x", goal, table="faster")


if __name__ == "__main__":
    sys.exit(main())
