"""Figures with their goals: what was measured, as a table for people and a line for the record."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).parents[1]
PACKAGES = ("numpy", "numba", "pyarrow", "polars", "duckdb", "pyoxigraph")


class Sense(Enum):
    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number: what it is of (a row), what it says (a column), and its goal if it has one.

    A section with several tables names the table; a note stands behind the number.
    """

    row: str
    column: str
    value: float
    unit: str = ""
    goal: float | None = None
    sense: Sense = Sense.AT_LEAST
    table: str = ""
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.sense is Sense.AT_LEAST else self.value <= self.goal

    def show(self) -> str:
        return f"{show_number(self.value)}{self.unit}{self.note}"

    def show_goal(self) -> str:
        return "" if self.goal is None else f"{self.sense.value} {self.goal:g}{self.unit}"


@dataclass(frozen=True, slots=True)
class Result:
    """What one section found; `problem` says why it found less, `has_failed` that it was wrong."""

    section: str
    figures: tuple[Figure, ...]
    seconds: float
    problem: str = ""
    has_failed: bool = False
    #: What plots are drawn from, as JSON has it.
    series: Mapping[str, Any] = field(default_factory=dict)


def show_number(value: float) -> str:
    """Three digits or all before the point.

    >>> show_number(12345.6), show_number(12.345), show_number(0.01234), show_number(float("inf"))
    ('12,346', '12.3', '0.0123', 'never')
    """
    if value == float("inf"):
        return "never"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def describe_machine() -> dict[str, str]:
    """What a figure depends on; nothing that names the machine."""
    return {
        "cpu": _read_cpu(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _read_version(name) for name in PACKAGES},
        "commit": _read_commit(),
    }


def print_header(console: Console, title: str, machine: dict[str, str]) -> None:
    console.print(f"[bold]{title}[/]", highlight=False)
    packages = " ".join(f"{name} {machine[name]}" for name in PACKAGES)
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}\n"
        f"Python {machine['python']}, {packages}, commit {machine['commit']}",
        highlight=False,
    )


def print_result(console: Console, result: Result) -> None:
    """One table, or one for each name: a line for each row of figures, a mark where is a goal."""
    title = f"{result.section} ({result.seconds:.0f} s)"
    for name, figures in split_tables(result.figures).items():
        heading = f"{title}: {name}" if name else title
        columns, rows = pivot(figures, _show_cell)
        table = Table("", *columns, title=heading, title_justify="left", box=box.SIMPLE_HEAD)
        for column in table.columns[1:]:
            column.justify = "right"
        for row, cells in rows.items():
            table.add_row(row, *cells)
        console.print(table)
    if result.problem:
        word = "[red]FAILED[/]" if result.has_failed else "left out"
        console.print(f"{word} {result.section}: {escape(result.problem)}", highlight=False)


def split_tables(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.table, []).append(figure)
    return found


def pivot(
    figures: Sequence[Figure], show: Callable[[Figure], str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The names of columns, and the cells of each row; empty where there is no figure."""
    columns = list(dict.fromkeys(figure.column for figure in figures))
    cells = {(figure.row, figure.column): show(figure) for figure in figures}
    rows = dict.fromkeys(figure.row for figure in figures)
    return columns, {row: [cells.get((row, column), "") for column in columns] for row in rows}


def print_goals(console: Console, results: Iterable[Result]) -> None:
    table = Table("section", "", "figure", "value", "goal", "met", box=box.SIMPLE_HEAD)
    table.columns[3].justify = table.columns[4].justify = "right"
    for result in results:
        for figure in result.figures:
            if figure.is_met is not None:
                word = "[green]yes[/]" if figure.is_met else "[red]no[/]"
                table.add_row(
                    result.section, figure.row, f"{figure.table} {figure.column}".strip(),
                    figure.show(),
                    figure.show_goal(), word,
                )  # fmt: skip
    if table.row_count:
        console.print(table)


def make_record(
    title: str, machine: dict[str, str], settings: dict[str, Any], results: Iterable[Result]
) -> dict[str, Any]:
    """The whole run as JSON has it."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": title,
        "machine": machine,
        "settings": settings,
        "sections": [
            {
                "section": result.section,
                "seconds": round(result.seconds, 2),
                "problem": result.problem,
                "failed": result.has_failed,
                "figures": [_record_figure(figure) for figure in result.figures],
                "series": result.series,
            }
            for result in results
        ],
    }


def append_history(path: Path, record: dict[str, Any]) -> None:
    """One JSON line for the run."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _record_figure(figure: Figure) -> dict[str, Any]:
    found = {
        "row": figure.row,
        "column": figure.column,
        "value": figure.value,
        "unit": figure.unit,
        "goal": figure.goal,
        "met": figure.is_met,
    }
    more = {"table": figure.table, "note": figure.note}
    if figure.goal is not None:
        more["sense"] = figure.sense.value
    return found | {name: text for name, text in more.items() if text}


def read_figure(found: Mapping[str, Any]) -> Figure:
    """A figure as it was recorded."""
    return Figure(
        found["row"], found["column"], found["value"], found["unit"], found["goal"],
        Sense(found.get("sense", Sense.AT_LEAST.value)), found.get("table", ""),
        found.get("note", ""),
    )  # fmt: skip


def _show_cell(figure: Figure) -> str:
    if figure.is_met is None:
        return figure.show()
    return f"[green]{figure.show()} ✓[/]" if figure.is_met else f"[red]{figure.show()} ✗[/]"


def _read_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def _read_cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _read_commit() -> str:
    try:
        commit = _run_git("rev-parse", "--short", "HEAD")
        return commit + (" with changes" if _run_git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _run_git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    ).stdout.strip()
