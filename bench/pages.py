"""Write the tables of a run into the page of measurements, and draw its plots.

The page has markers such as ``<!-- bench: changes/against peers -->``, each closed by
``<!-- /bench -->``. The text between them is replaced by that table of that section; sections that
did not run keep their text. ``python -m bench.pages docs bench/history.jsonl`` replays the runs of
a file in order.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import Figure, pivot, read_figure, split_tables

PAGE = "measurements.md"
PLACE = re.compile(r"<!-- bench: (.+?) -->\n.*?<!-- /bench -->", re.DOTALL)
PACKAGES = {
    "numpy": "NumPy", "numba": "Numba", "pyarrow": "pyarrow", "polars": "Polars",
    "duckdb": "DuckDB", "pyoxigraph": "pyoxigraph",
}  # fmt: skip


def publish(folder: Path, record: dict[str, Any]) -> None:
    """Rewrite the tables of the page; draw the plots if matplotlib is installed."""
    page = folder / PAGE
    page.write_text(fill(page.read_text(encoding="utf-8"), record), encoding="utf-8")
    try:
        from bench.plots import draw_plots
    except ModuleNotFoundError as missing:
        if missing.name != "matplotlib":
            raise
        return
    series = {found["section"]: found.get("series", {}) for found in record["sections"]}
    draw_plots(folder / "plots", series)


def fill(text: str, record: dict[str, Any]) -> str:
    """Return the text with the tables of this run between their markers."""
    tables = {}
    for section in record["sections"]:
        figures = [read_figure(found) for found in section["figures"]]
        for name, some in split_tables(figures).items():
            place = f"{section['section']}/{name}" if name else section["section"]
            tables[place] = write_table(some, record)
    if record["title"] == "triegs, benchmark":
        tables["machine"] = describe(record)

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        return found[0] if name not in tables else mark(name, tables[name])

    return PLACE.sub(replace, text)


def mark(name: str, text: str) -> str:
    return f"<!-- bench: {name} -->\n{text}\n<!-- /bench -->"


def write_table(figures: Sequence[Figure], record: dict[str, Any]) -> str:
    columns, rows = pivot(figures, _show_cell)
    lines = [["", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[row, *cells] for row, cells in rows.items()]
    table = "\n".join(" ".join(f"| {' | '.join(line)} |".split()) for line in lines)
    return f"{table}\n\n*Commit {record['machine']['commit']}, {record['time'][:10]}.*"


def describe(record: dict[str, Any]) -> str:
    machine, settings = record["machine"], record["settings"]
    packages = ", ".join(f"{shown} {machine[name]}" for name, shown in PACKAGES.items())
    return (
        f"Machine: {machine['cores']} cores of an {machine['cpu']}, {machine['system']}.\n"
        f"Versions: Python {machine['python']}, {packages}.\n"
        f"Stream: a window of {settings['window']:,} edges that slides by {settings['slide']:,}, "
        f"seed {settings['seed']}."
    )


def _show_cell(figure: Figure) -> str:
    if figure.is_met is None:
        return figure.show()
    return f"{figure.show()} (goal {figure.show_goal()}, {'met' if figure.is_met else 'missed'})"


def main(folder: Path, history: Path) -> None:
    for line in history.read_text(encoding="utf-8").splitlines():
        publish(folder, json.loads(line))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
