"""The benchmark against another commit, here against itself: answers, figures, goals."""

from __future__ import annotations

from pathlib import Path

from bench.micro.against_commit import show_gain, show_growth, take_turns, write_tables
from bench.report import Sense
from triegs.workloads import path2_ends, star5

SOURCE = Path(__file__).parents[2] / "src"


def test_both_sources_take_turns(tmp_path: Path) -> None:
    workloads = [star5(2, window=60, slide=6), path2_ends(3, window=60, slide=6)]
    write_tables(tmp_path / "tables", workloads, slides=3)
    other = tmp_path / "other"
    other.symlink_to(SOURCE)
    ((ours, theirs),) = take_turns(SOURCE, other, tmp_path / "tables", 1)
    assert ours.keys() == theirs.keys() == {"star5 b2", "path2-ends f3"}
    for name, found in ours.items():
        assert found["answers"] == theirs[name]["answers"] > 0
        assert found["bytes"] == theirs[name]["bytes"] > 0


def test_ratios_are_medians_over_the_turns() -> None:
    def measure(epoch: float, size: int = 200) -> dict[str, dict[str, float]]:
        return {"path3": {"epoch": epoch, "single": epoch / 100, "bytes": size}}

    turns = [
        (measure(2.0), measure(4.0)),
        (measure(9.0), measure(1.0)),
        (measure(3.0), measure(4.0)),
    ]
    growth = {figure.column: figure for figure in show_growth(turns, "abc", 1.05)}
    assert growth["epoch, of abc"].value == growth["one update, of abc"].value == 0.75
    assert growth["MB, of abc"].value == 1
    assert growth["epoch, of abc"].sense is Sense.AT_MOST
    _, gain = show_gain(turns, "abc", 40)
    assert gain.value == 4 / 3
    assert gain.sense is Sense.AT_LEAST
    assert gain.is_met is False
