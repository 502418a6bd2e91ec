"""The notebooks in ``examples`` run, and show what they have stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.docs.notebooks import read_notebook, run_cell, run_cells

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


def read_texts(outputs: list[dict[str, Any]]) -> list[str]:
    """What a reader without HTML sees."""
    return ["".join(each.get("text") or each["data"]["text/plain"]) for each in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_show_what_is_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    notebook = read_notebook(path)
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [read_texts(each) for each in run_cells(notebook)] == [read_texts(s) for s in stored]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


def test_cell_shows_its_prints_and_its_last_value() -> None:
    names: dict[str, Any] = {}
    assert read_texts(run_cell("x = 1\nprint(x)\nx + 1", names, 1)) == ["1\n", "2"]
    assert read_texts(run_cell("x = 3", names, 2)) == []
