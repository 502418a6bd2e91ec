"""The benchmarks run on tiny windows and judge their answers. No test looks at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import full, quick, run
from bench.pages import PLACE
from bench.sections import slides
from bench.sections.beds import WORKLOADS
from bench.subject import Bed
from triegs import Engine
from triegs.workloads import Slide

ROOT = Path(__file__).parents[2]
TINY = ["--window", "480", "--slide", "40", "--seconds", "0", "--large-window", "1200"]
QUICK = {
    ("slides", "path3 f8", "maintain : Polars"): 35,
    ("slides", "reply", "and read : Polars"): 2.5,
    ("iris", "reply", "IRIs : Polars"): 2.5,
    ("iris", "path3 f3", "IRIs : ids"): 1,
    ("enumeration", "spider4x2 b2", "share of copying"): 40,
    ("memory", "star5 b3", "bytes/edge/atom"): 60,
    ("single", "strings", "p99 µs"): 35,
    ("sharing", "100 queries, 10 shapes", "ratio"): 12,
    ("sharing", "100 queries, 10 classes", "ratio"): 12,
    ("classes", "filter, ?z", "ratio"): 1.5,
    ("classes", "constant, half", "ratio"): 1.5,
    ("classes", "variable predicate", "ratio"): 4,
    ("classes", "parallel atoms", "beside it"): 1,
    ("projection", "path2-ends f8", "than dict delta join"): 4,
    ("cycles", "triangle f15", "than Python sets"): 2,
    ("cycles", "triangle f10 s0.8", "than DuckDB again"): 1,
    ("cycles", "diamond f8", "than Polars again"): 8,
    ("cycles", "triangle f15, 4,800", "than DuckDB again"): 50,
    ("cycles", "triangle f15, 4,800", "of the small window's"): 1.5,
    ("large", "path3 f8, 1,200", "share of that"): 50,
    ("aggregates", "path3 f8, COUNT SUM", "and read : Polars"): 15,
    ("aggregates", "path3 f8, MIN MAX", "and read : Polars"): 8,
    ("aggregates", "path3 f8, DISTINCT", "and read : Polars"): 8,
    ("aggregates", "path3 f8, MIN MAX DISTINCT", "and read : Polars"): 8,
    ("aggregates", "path3 f8, COUNT SUM", 'epoch : keep=["count"]'): 1.5,
    ("aggregates", "path3 f8, COUNT SUM", "epoch with 10x the edges"): 1.3,
    ("aggregates", "DABA Lite, in order, 1,000", "M events/s"): 10,
    ("aggregates", "FiBA, displaced, 4,000", "M events/s"): 2,
    ("aggregates", "DABA Lite, in order, 4,000", "longest by median step"): 20,
    ("aggregates", "960 events, 10 matches", "than DuckDB again"): 20,
    ("aggregates", "960 events, 10 matches", "than bisect"): 3,
    ("lanes", "4 lanes, Path3", "on 2, LPT"): 1.8,
    ("lanes", "4 lanes, Spider4x2", "on 2, LPT"): 1.8,
    ("lanes", "4 lanes, Mix3", "on 2, LPT"): 1.8,
    ("lanes", "4 lanes, Mix3", "LPT : round robin"): 0.97,
    ("lanes", "4 lanes, Mix3", "hybrid : best pure"): 0.98,
    ("lanes", "4 lanes, Mix3", "chosen : best"): 0.97,
}


def read_figures(history: Path) -> dict[tuple[str, str, str], Any]:
    (line,) = history.read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert [s["problem"] for s in record["sections"] if s["problem"]] == []
    return {
        (section["section"], figure["row"], figure["column"]): figure
        for section in record["sections"]
        for figure in section["figures"]
    }


def test_quick(tmp_path: Path) -> None:
    """In a process of its own, because Polars takes its threads when it is imported."""
    pytest.importorskip("polars")
    Engine(workers=2).close()  # compiles, if it must, with a message that is not the benchmark's
    history = tmp_path / "history.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "bench.quick", *TINY, "--history", str(history)],
        cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # no progress bar without a terminal
    assert "FAILED" not in done.stdout
    found = read_figures(history)
    assert {key: found[key]["goal"] for key in QUICK} == QUICK
    differences = {key for key in found if key[2] == "beside it"}
    assert all(found[key]["value"] > 0 for key in found.keys() - differences)


def test_goals_have_a_place_on_the_page() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    shown = {found[1].partition("/")[0] for found in PLACE.finditer(page)}
    assert quick.SECTIONS.keys() - shown == {"windows"}


def test_peer_is_left_out_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")  # so that what main sets is taken back
    monkeypatch.setattr(slides, "find_peer", lambda: None)
    for name in list(WORKLOADS)[1:]:
        monkeypatch.delitem(WORKLOADS, name)
    assert run.main("tiny", quick.SECTIONS, ["slides", *TINY, "--no-history"]) == 0
    shown = capsys.readouterr().out
    assert "pip install '.[bench]'" in shown
    assert "maintain" in shown


def test_a_wrong_answer_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    draw = Bed.draw

    def lose_a_row(bed: Bed, count: int) -> list[Slide]:
        found = draw(bed, count)
        bed.engine.apply([("+", 0, "<http://ex/A>", 1_000_000)])
        return found

    monkeypatch.setattr(Bed, "draw", lose_a_row)
    assert run.main("tiny", quick.SECTIONS, ["memory", *TINY, "--no-history"]) == 1
    assert "FAILED memory: path3 f8" in capsys.readouterr().out


def test_a_large_window_that_loads_too_long_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    options = ["large", *TINY, "--large-seconds", "0", "--no-history"]
    assert run.main("tiny", quick.SECTIONS, options) == 0
    assert "did not load" in capsys.readouterr().out


def test_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the cold starts, which compile for long, and Spark, which ``tests/spark`` has."""
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    monkeypatch.setattr("bench.sections.interference.TURN_SECONDS", 0.05)
    chosen = [name for name in full.SECTIONS if name not in ("cold", "pipeline", "parts")]
    history = tmp_path / "history.jsonl"
    sizes = ["--window", "640", "--slide", "64", "--seconds", "0", "--large-window", "6400"]
    options = [*chosen, *sizes, "--history", str(history)]
    assert run.main("tiny", full.SECTIONS, options) == 0, capsys.readouterr().out
    found = read_figures(history)
    assert ("growth", "path3 f8, 6,400", "maintain /s") in found
    assert found["interference", "reader", "kept"]["goal"] == 80
    assert {name for name, _, _ in found} == set(chosen)


def test_unknown_sections_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main("tiny", quick.SECTIONS, ["sliders"])
    assert "no section sliders; there are slides" in capsys.readouterr().err
