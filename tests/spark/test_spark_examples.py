"""The jobs in ``examples/spark`` run, and print what they document."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
SHOWN = {
    "windows": ["|<http://example.org/Cy>", "-1    |"],
    "rdf_files": ["|<http://example.org/p2>|<http://example.org/p4>|1"],
    "inbox": ["0 Report(epoch=2, refused=())", "Answer(a='<http://example.org/2>'"],
}


@pytest.mark.parametrize("name", list(SHOWN))
def test_an_example_runs(spark, tmp_path, capsys, name):
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    example["main"](spark.get(), tmp_path)
    shown = capsys.readouterr().out
    for text in SHOWN[name]:
        assert text in shown, shown


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)
