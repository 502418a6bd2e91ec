"""The fraud example runs, on its generated stream and on a file of ratings."""

from __future__ import annotations

import runpy
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

EXAMPLE = Path(__file__).parents[2] / "examples" / "fraud.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def run(example: dict[str, Any], *arguments: Path) -> str:
    text = StringIO()
    example["main"](Console(file=text, width=100), *arguments)
    return text.getvalue()


def test_generated_payments(example: dict[str, Any]) -> None:
    lines = run(example).splitlines()
    assert lines[0] == "422 payments, a window of 10m every 1m"
    alerts = [line[18:] for line in lines if line.startswith("2024-05-01")]
    assert alerts.count("+ ring      Xu → Yin → Zoe → Xu") == 1  # paid twice, and reported once
    assert alerts.count("- ring      Xu → Yin → Zoe → Xu") == 1
    assert "+ fan-in    Mule 15" in alerts
    assert "~ fan-in    Mule 15 → 14" in alerts
    assert "+ high sum  Mule 240" in alerts
    table = lines[next(i for i, line in enumerate(lines) if "Top ten" in line) :]
    rows = [line.strip("│ ").split("│") for line in table if line.startswith("│")]
    sums = [int(sent) for _, sent, _ in rows]
    assert rows[0][0].strip() == "Mule"
    assert len(sums) == 10
    assert sums == sorted(sums, reverse=True)


def test_a_file_of_ratings(example: dict[str, Any], tmp_path: Path) -> None:
    day = 86_400
    ratings = [(1, 2, 10, 3.5 * day), (3, 1, -2, 2 * day), (2, 3, 5, day)]
    path = tmp_path / "ratings.csv"
    path.write_text("".join(f"{a},{b},{rating},{time}\n" for a, b, rating, time in ratings))
    lines = run(example, path).splitlines()
    assert lines[0] == "3 payments, a window of 30d every 1d"
    assert lines[1] == "1970-01-05 00:00  + ring      u1 → u2 → u3 → u1"
    assert "Alerts: 1 ring, 0 fan-in, 0 high sum" in lines
