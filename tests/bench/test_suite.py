"""The whole benchmark runs on tiny windows, fills its page and draws its plots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.pages import PLACE, fill
from bench.suite import SECTIONS
from triegs import Engine

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "measurements.md"
SUMMARY = ROOT / "docs" / "performance.md"


def test_suite(tmp_path: Path) -> None:
    """In a process of its own, because Polars takes its threads when it is imported."""
    for name in ("polars", "duckdb", "matplotlib"):
        pytest.importorskip(name)
    Engine().close()  # compiles, if it must, with a message that is not the benchmark's
    shutil.copy(PAGE, tmp_path)
    history = tmp_path / "history.jsonl"
    sizes = ["--window", "1800", "--slide", "60", "--seconds", "0", "--large-window", "2000"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bench.suite", *sizes, "--history", str(history),
         "--docs", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "FAILED" not in done.stdout
    record = json.loads(history.read_text(encoding="utf-8"))
    assert {found["section"] for found in record["sections"]} == set(SECTIONS)
    page = (tmp_path / PAGE.name).read_text(encoding="utf-8")
    written = f"*Commit {record['machine']['commit']}, {record['time'][:10]}.*"
    filled = {name for name, text in find_places(page).items() if written in text}
    tables = {
        f"{found['section']}/{figure['table']}".removesuffix("/")
        for found in record["sections"]
        for figure in ({"table": ""} | each for each in found["figures"])
    }
    assert filled == tables & find_places(page).keys()
    shown = find_places(page).keys()
    assert {name for name in tables if name not in shown} == set()
    summary = SUMMARY.read_text(encoding="utf-8")
    plots = {path.name for path in (tmp_path / "plots").iterdir()}
    for name in ("consumers", "breakeven", "share", "sweeps", "readers", "delay"):
        assert {f"{name}.png", f"{name}.svg"} <= plots
        assert f"plots/{name}.png" in summary


def find_places(page: str) -> dict[str, str]:
    return {found[1]: found[0] for found in PLACE.finditer(page)}


def test_a_marked_section_is_rewritten_and_others_are_kept() -> None:
    figure = {"row": "r", "column": "c", "value": 4.0, "unit": "x", "goal": 3.0, "sense": "≥"}
    record = {
        "time": "2026-01-02T03:04:05", "title": "some", "machine": {"commit": "abc"},
        "sections": [{"section": "s", "figures": [figure]}],
    }  # fmt: skip
    page = "a\n<!-- bench: s -->\nold\n<!-- /bench -->\n<!-- bench: t -->\nkept\n<!-- /bench -->\n"
    once = fill(page, record)
    assert "old" not in once
    assert "kept" in once
    assert "| r | 4x (goal ≥ 3x, met) |" in once
    assert "*Commit abc, 2026-01-02.*" in once
    assert fill(once, record) == once
