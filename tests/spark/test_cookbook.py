"""The Spark recipe of the cookbook prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]


def test_spark_recipe_prints_what_the_page_shows(spark, tmp_path, monkeypatch, capsys):
    """Spark resolves relative paths against the directory of its JVM, so they become absolute."""
    page = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    program, _, rest = page.partition("```py\n")[2].partition("```\n")
    shown = rest.partition("```text\n")[2].partition("```")[0]
    assert program
    assert shown
    (tmp_path / "docs" / "examples").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "examples" / "payments.csv", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    program = program.replace('"docs/', f'"{tmp_path}/docs/').replace(
        '["rings", alert]', f'["{tmp_path}/rings", alert]'
    )
    exec(program, {"spark": spark.get()})
    assert capsys.readouterr().out == shown
    written = pq.read_table(tmp_path / "rings").to_pylist()
    assert sum(row["change"] for row in written) == len(shown.splitlines()) - 1
