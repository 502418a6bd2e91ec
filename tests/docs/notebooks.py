"""Run a notebook's code cells without a kernel: one namespace, top to bottom.

``python -m tests.docs.notebooks examples/payments.ipynb`` runs the cells and stores what they show.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_cells(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell: what it prints, then the value of its last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [run_cell("".join(cell["source"]), names, i) for i, cell in enumerate(codes, start=1)]


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            value = eval(compile(shown, f"cell {number}", "eval"), names)  # noqa: S307 - our own text
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": split_lines(text)})
    if value is not None:
        data = {"text/plain": split_lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = split_lines(value._repr_html_())
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": data,
            }
        )
    return outputs


def split_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def read_notebook(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def store_outputs(path: Path) -> None:
    """Run a notebook and write its outputs into it."""
    notebook = read_notebook(path)
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(codes, run_cells(notebook), strict=True), 1):
        cell["outputs"], cell["execution_count"] = outputs, number
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    paths = [Path(name).resolve() for name in sys.argv[1:]]
    os.chdir(ROOT)
    for path in paths:
        store_outputs(path)
