"""Run sections one after the other: options, progress, tables, the record, the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import report
from bench.answers import WrongAnswer
from bench.report import Figure, Result

HISTORY = Path(__file__).with_name("history.jsonl")
NO_PEER = "Polars is not installed: pip install '.[bench]'"


class LeftOut(Exception):
    """A section, or the rest of it, cannot be measured here; says why."""


@dataclass(frozen=True)
class Settings:
    """Sizes and times that sections share."""

    window: int = 30_000
    slide: int = 1_000
    seconds: float = 1.5
    large_window: int = 3_000_000
    large_seconds: float = 15.0
    seed: int = 1


DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Bench:
    """What a section is given: the settings, and a way to say where it is."""

    settings: Settings
    say: Callable[[str], None]
    #: What one section made and a later one may use again, such as a loaded engine.
    kept: dict[str, object] = field(default_factory=dict)
    #: What the plots of a section are drawn from, by its name: whatever JSON can hold.
    series: dict[str, dict[str, Any]] = field(default_factory=dict)


Section = Callable[[Bench], Iterator[Figure]]
#: Writes tables and plots of a run into a folder of documentation.
Publish = Callable[[Path, dict[str, Any]], None]


def main(
    title: str,
    sections: Mapping[str, Section],
    arguments: Sequence[str],
    defaults: Settings = DEFAULTS,
    publish: Publish | None = None,
) -> int:
    """Measure what was asked for; 1 if any answer was wrong, whatever the goals say."""
    # Before the first import of Polars: afterwards it is too late.
    os.environ["POLARS_MAX_THREADS"] = "1"
    options = _read_options(title, sections, arguments, defaults, publish is not None)
    settings = Settings(
        options.window, options.slide, options.seconds, options.large_window,
        options.large_seconds, options.seed,
    )  # fmt: skip
    console = Console()
    if console.width < 110 and not console.is_terminal:
        console = Console(width=110)
    machine = report.describe_machine()
    report.print_header(console, title, machine)
    results = []
    errors = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
        console=errors, transient=True, disable=not errors.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("")
        bench = Bench(settings, lambda text: bar.update(task, description=text))
        for name in options.sections or sections:
            bench.say(name)
            results.append(run_section(name, sections[name], bench))
    for result in results:
        report.print_result(console, result)
    report.print_goals(console, results)
    record = report.make_record(title, machine, asdict(settings), results)
    if options.history is not None:
        report.append_history(options.history, record)
    has_failed = any(result.has_failed for result in results)
    if publish is not None and options.docs is not None and not has_failed:
        publish(options.docs, record)
    return int(has_failed)


def run_section(name: str, section: Section, bench: Bench) -> Result:
    """All figures of a section, or those until it found a wrong answer or had to stop."""
    figures: list[Figure] = []
    start = perf_counter()
    problem, has_failed = "", False
    try:
        figures.extend(section(bench))  # keeps what came before an exception
    except LeftOut as reason:
        problem = str(reason)
    except WrongAnswer as wrong:
        problem, has_failed = str(wrong), True
    seconds = perf_counter() - start
    series = bench.series.get(name, {})
    return Result(name, tuple(figures), seconds, problem, has_failed, series)


def _read_options(
    title: str,
    sections: Mapping[str, Section],
    arguments: Sequence[str],
    defaults: Settings,
    can_publish: bool,
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("sections", nargs="*", help=f"all, or some of: {', '.join(sections)}")
    parser.add_argument("--window", type=int, default=defaults.window, help="edges in the window")
    parser.add_argument("--slide", type=int, default=defaults.slide, help="edges in a block")
    parser.add_argument(
        "--seconds", type=float, default=defaults.seconds, help="about how long to measure each row"
    )
    parser.add_argument("--large-window", type=int, default=defaults.large_window)
    parser.add_argument(
        "--large-seconds", type=float, default=defaults.large_seconds,
        help="how long to wait for the large window to load",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--history", type=Path, default=HISTORY, help="append a JSON line here")
    parser.add_argument("--no-history", dest="history", action="store_const", const=None)
    if can_publish:
        parser.add_argument("--docs", type=Path, help="write tables and plots into this folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in sections]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(sections)}")
    return options


def start(
    title: str,
    sections: Mapping[str, Section],
    defaults: Settings = DEFAULTS,
    publish: Publish | None = None,
) -> None:
    sys.exit(main(title, sections, sys.argv[1:], defaults, publish))
