"""Implementation of ``triegs generate``.

A file appears under its name once it is complete. Until then it is a hidden temporary file, which
is removed on failure.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from triegs import workloads
from triegs.cli.output import fail
from triegs.workloads import TimedWorkload
from triegs.workloads.formats import FORMATS, Format, Target
from triegs.workloads.timed import BATCH

STDOUT = "-"
ENDINGS = {"gzip": ".gz", "zstd": ".zst"}
WIDTH = 80


class GenerateOptions(NamedTuple):
    """The options of the command."""

    workload: str
    events: int
    seed: int
    format: str | None
    compression: str | None
    output: str
    per_file: int
    queries: Path | None
    static: Path | None
    rate: float
    start: int | None
    disorder: int
    inserts_only: bool
    integers: bool


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Let the caller handle it; Rich would exit with a failure."""
        raise BrokenPipeError


def list_workloads() -> None:
    """Print a table of all workloads."""
    out = _Screen(width=WIDTH, highlight=False, markup=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("workload", "events", "skew"):
        table.add_column(name, overflow="fold", no_wrap=name == "workload")
    table.add_column("queries", justify="right")
    for name in workloads.names():
        workload = workloads.get(name)
        table.add_row(name, workload.meaning, workload.skew, str(len(workload.asked)))
    out.print(table)


def run_generate(options: GenerateOptions) -> None:
    """Write events, and optionally queries and static facts."""
    workload = _find_workload(options.workload)
    is_folder = options.output.endswith("/") or Path(options.output).is_dir()
    name, packing = _find_format(options, is_folder)
    chosen = FORMATS[name]
    _check(options, workload, name, chosen, packing)
    try:
        batches = workload.events(
            options.events,
            options.seed,
            batch_size=min(BATCH, options.per_file if is_folder else sys.maxsize),
            rate=options.rate,
            start=options.start,
            disorder=options.disorder,
            inserts_only=options.inserts_only,
            integers=options.integers,
        )
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    try:
        _write_extras(options, workload)
        job = _Job(workload, chosen, packing, options.integers)
        begun = time.perf_counter()
        with _show_progress(options) as advance:
            if is_folder:
                size = job.write_folder(Path(options.output), batches, options.per_file, advance)
            elif options.output == STDOUT:
                job.write_stdout(batches, advance)
                return
            else:
                size = job.write_file(Path(options.output), batches, advance)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as problem:
        fail(f"error: {problem}")
    except OSError as problem:
        output = "standard output" if options.output == STDOUT else options.output
        where = problem.filename or output
        fail(f"error: cannot write {where}: {problem.strerror or problem}")
    seconds = time.perf_counter() - begun
    amount = f"{size / 1e6:,.1f} MB, {seconds:.1f} s"
    _say(f"wrote {options.events:,} events to {options.output} ({amount})")


def _find_workload(name: str) -> TimedWorkload:
    if not name:
        raise typer.BadParameter("give a workload; --list shows all of them", param_hint="WORKLOAD")
    try:
        return workloads.get(name)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="WORKLOAD") from None


def _find_format(options: GenerateOptions, is_folder: bool) -> tuple[str, str | None]:
    """Format and compression from the options, else from the file extension.

    Standard output and directories default to CSV.
    """
    if options.output == STDOUT or is_folder:
        return options.format or "csv", options.compression
    parts = Path(options.output).name.lower().split(".")[1:]
    packing = options.compression
    for known, ending in ENDINGS.items():
        if parts and f".{parts[-1]}" == ending:
            if packing not in (None, known):
                _refuse(f"the extension {ending} means {known}, not {packing}", "--compression")
            packing = known
            parts.pop()
    name = options.format or (parts[-1] if parts else "")
    if name not in FORMATS:
        raise typer.BadParameter(
            f"unknown extension of {options.output!r}; choose one of {', '.join(FORMATS)}",
            param_hint="--format",
        )
    return name, packing


def _check(
    options: GenerateOptions,
    workload: TimedWorkload,
    name: str,
    chosen: Format,
    packing: str | None,
) -> None:
    """Reject options that would lose data, or write binary data to a terminal."""
    if workload.has_deletes and not chosen.has_op and not options.inserts_only:
        _refuse(
            f"{name} cannot express the deletions of {workload.name}; "
            "add --inserts-only, or use csv, jsonl, parquet or arrow",
            "--format",
        )
    if options.integers and not chosen.has_op:
        _refuse(f"{name} cannot have integers as subjects", "--integers")
    if packing and chosen.packs_itself is not None and packing not in chosen.packs_itself:
        _refuse(f"{name} files support {', '.join(chosen.packs_itself)}", "--compression")
    if options.static and not workload.static:
        _refuse(f"{workload.name} has no static facts", "--static")
    if options.output == STDOUT and sys.stdout.isatty() and (chosen.is_binary or packing):
        _refuse("will not write binary data to a terminal; give a file", "--output")
    if not chosen.has_time:
        what = "frame" if name == "jelly" else "statement"
        _say(f"note: {name} has no times; readers assign each {what} the next tick")


def _refuse(message: str, option: str) -> NoReturn:
    raise typer.BadParameter(message, param_hint=option)


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def _write_extras(options: GenerateOptions, workload: TimedWorkload) -> None:
    if options.queries is not None:
        options.queries.mkdir(parents=True, exist_ok=True)
        for query in workload.asked:
            path = options.queries / f"{query.name}.rq"
            path.write_text(query.file_text, encoding="utf-8")
        count = len(workload.asked)
        _say(f"wrote {count} {'query' if count == 1 else 'queries'} to {options.queries}")
    if options.static is not None:
        lines = "".join(f"{' '.join(fact)} .\n" for fact in workload.static)
        options.static.write_text(lines, encoding="utf-8")
        _say(f"wrote {len(workload.static)} static facts to {options.static}")


@contextmanager
def _show_progress(options: GenerateOptions) -> Iterator[Any]:
    """A progress bar on a terminal, unless events go there; yields a function that advances it."""
    shares_screen = options.output == STDOUT and sys.stdout.isatty()
    if shares_screen or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} / {task.total:,.0f}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(options.workload, total=options.events, rate="")
        begun = time.perf_counter()

        def advance(count: int) -> None:
            progress.advance(task, count)
            done = progress.tasks[0].completed
            pace = done / max(time.perf_counter() - begun, 1e-9)
            progress.update(task, rate=f"{pace / 1e6:.2f} M/s")

        yield advance


class _Job(NamedTuple):
    """What all files of one call share."""

    workload: TimedWorkload
    format: Format
    packing: str | None
    integers: bool

    def write_file(self, path: Path, batches: Iterator[Any], advance: Any) -> int:
        """Write all events to one file; returns its size in bytes, 0 for a device or a pipe."""
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                self._write(file, batches, advance, is_pipe=True)
            return 0
        path = path.resolve()  # a link stays one
        temporary = path.with_name(f".{path.name}.part")
        try:
            with temporary.open("wb") as file:
                self._write(file, batches, advance, is_pipe=False)
            size = temporary.stat().st_size
            temporary.replace(path)
        except BaseException as problem:
            temporary.unlink(missing_ok=True)
            if isinstance(problem, OSError) and problem.filename == str(temporary):
                problem.filename = str(path)
            raise
        return size

    def write_folder(
        self, folder: Path, batches: Iterator[Any], per_file: int, advance: Any
    ) -> int:
        """Write files of `per_file` events, named in stream order; returns their total size."""
        folder.mkdir(parents=True, exist_ok=True)
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            fail(f"error: {folder} is not empty; its files would be read as part of the stream")
        ending = ENDINGS[self.packing] if self.packing and not self.format.packs_itself else ""
        size = number = 0
        splitter = _FileSplitter(batches, per_file)
        while not number or splitter.has_more():
            name = f"{self.workload.name}-{number:05}.{self.format.ending}{ending}"
            size += self.write_file(folder / name, splitter.next_file(), advance)
            number += 1
        return size

    def write_stdout(self, batches: Iterator[Any], advance: Any) -> None:
        self._write(sys.stdout.buffer, batches, advance, is_pipe=True)
        sys.stdout.buffer.flush()

    def _write(self, file: IO[bytes], batches: Iterator[Any], advance: Any, is_pipe: bool) -> None:
        outer = None if self.format.packs_itself else self.packing
        with _pack(file, outer) as packed:
            schema = self.workload.schema(self.integers)
            target = Target(packed, schema, self.workload.prefixes, self.packing, is_pipe)
            writer = self.format.open(target)
            for batch in batches:
                writer.write(batch)
                advance(batch.num_rows)
            writer.close()


class _FileSplitter:
    """Splits a stream of batches into files of `size` events."""

    def __init__(self, batches: Iterator[Any], size: int) -> None:
        self._batches = batches
        self._size = size
        self._held: Any = None

    def has_more(self) -> bool:
        if self._held is None:
            self._held = next(self._batches, None)
        return self._held is not None

    def next_file(self) -> Iterator[Any]:
        left = self._size
        while left and self.has_more():
            batch, self._held = self._held, None
            if batch.num_rows > left:
                batch, self._held = batch.slice(0, left), batch.slice(left)
            left -= batch.num_rows
            yield batch


@contextmanager
def _pack(file: IO[bytes], compression: str | None) -> Iterator[IO[bytes]]:
    if compression is None:
        yield file
    elif compression == "gzip":
        # Without name and timestamp, so that equal events give equal files.
        with gzip.GzipFile("", "wb", compresslevel=3, fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]
    else:
        import pyarrow as pa

        with pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd") as packed:
            yield packed
