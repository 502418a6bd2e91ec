"""From a file to maintained answers: how fast, against pyoxigraph that only iterates the file.

The edges of path3 as N-Triples with IRIs, and as Parquet with integers. Each run reads the file in
batches and applies each batch as an epoch, under the standing query.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as rdf

from bench.answers import WrongAnswer, imply_digest
from bench.report import Figure
from bench.run import Bench
from bench.subject import Engine, apply_table
from bench.timing import take_turns
from bench.window import Window
from triegs.events import open_input
from triegs.workloads import Workload, path3

FAN_OUT = 8
WINDOWS = 10  # so many windows of edges, to have more than a batch
STATEMENTS_GOAL = 30
PARQUET_GOAL = 5


def measure_inputs(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    size = WINDOWS * settings.window
    workload = path3(FAN_OUT, window=size, slide=settings.slide, seed=settings.seed)
    with TemporaryDirectory() as folder:
        bench.say(f"writing {size:,} edges")
        statements, table, expected = _write_files(workload, Path(folder))
        works: dict[str, Callable[[], object]] = {
            "pyoxigraph": lambda: _iterate(statements),
            "N-Triples": lambda: _read(statements),
            "Parquet": lambda: _read(table),
            "N-Triples, maintained": lambda: _maintain(workload, statements),
            "Parquet, maintained": lambda: _maintain(workload, table),
        }
        for path in (statements, table):
            found = _maintain(workload, path, is_counted=True)
            if found != expected:
                raise WrongAnswer(f"{path.name}: {found:,} answers, expected {expected:,}")
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for turn in take_turns(settings.seconds):
            bench.say(f"reading, turn {turn + 1}")
            for name, work in works.items():
                start = perf_counter()
                work()
                seconds[name].append(perf_counter() - start)
    for name, samples in seconds.items():
        yield Figure(name, "events/s", size / median(samples))
    share = _compare(seconds["pyoxigraph"], seconds["N-Triples, maintained"])
    yield Figure("N-Triples, maintained", "of pyoxigraph", 100 * share, "%", STATEMENTS_GOAL)
    times = _compare(seconds["N-Triples, maintained"], seconds["Parquet, maintained"])
    yield Figure("Parquet, maintained", "N-Triples", times, "x", PARQUET_GOAL)


def _compare(theirs: list[float], ours: list[float]) -> float:
    return median(a / b for a, b in zip(theirs, ours, strict=True))


def _write_files(workload: Workload, folder: Path) -> tuple[Path, Path, int]:
    """The same edges twice, and the number of answers that they have."""
    slide = next(workload.slides())
    window = Window(workload)
    window.apply(slide)
    table = slide.table
    statements, parquet = folder / "edges.nt", folder / "edges.parquet"
    with statements.open("w", encoding="utf-8") as file:
        for edge in table.select(["subject", "predicate", "object"]).to_pylist():
            subject, label, target = edge.values()
            file.write(f"<http://ex/node/{subject}> {label} <http://ex/node/{target}> .\n")
    pq.write_table(table.append_column("time", pa.array(range(table.num_rows))), parquet)
    return statements, parquet, imply_digest(workload.atoms, workload.head, window.edges).total


def _iterate(path: Path) -> None:
    deque(rdf.parse(path=str(path), format=rdf.RdfFormat.N_TRIPLES), maxlen=0)


def _read(path: Path) -> None:
    deque(open_input(path, strict=True), maxlen=0)


def _maintain(workload: Workload, path: Path, is_counted: bool = False) -> int:
    with Engine("multigraph") as engine:
        query = engine.register(workload.query)
        for batch in open_input(path, strict=True):
            apply_table(engine, pa.Table.from_batches([batch]))
        if not is_counted:
            return 0
        with query.snapshot() as snapshot:
            found: int = snapshot.count()
            return found
