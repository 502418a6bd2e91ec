"""``triegs demo`` without Spark; ``tests/spark`` has it with Spark."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app
from triegs.cli.demo import EVENTS, HELD_AFTER, PER_FILE, READ_DURING, run_demo
from triegs.cli.screen import WIDTH, Screen
from triegs.spark import session

EVENTS_HERE = 80_000


@pytest.fixture(scope="module")
def text() -> str:
    file = StringIO()
    run_demo("direct", Screen(file=file), EVENTS_HERE)
    return file.getvalue()


def test_a_line_for_each_slide(text: str) -> None:
    rows = re.findall(r"^(\d\d:\d\d:\d\d) +([\d,]+) ", text, re.MULTILINE)
    assert [time for time, _ in rows] == [
        f"00:{second // 60:02}:{second % 60:02}" for second in range(5, 5 + 5 * len(rows), 5)
    ]
    assert 0 <= len(rows) - EVENTS_HERE // 5_000 <= 2
    assert rows[-1][1] == f"{EVENTS_HERE:,}"


def test_the_slow_reader_reads_what_it_pinned(text: str) -> None:
    rows = [line for line in text.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    pinned = rows[HELD_AFTER - 1].split("k", 1)[1].split()[0]
    assert f"read {pinned} of its {pinned} answers" in text
    assert f"while {READ_DURING} more slides were published" in text
    assert re.search(r"retained [1-9][\d.]* [kM]?B, and once closed 0 B\.", text)


def test_it_fits_a_terminal(text: str) -> None:
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b" not in text


def test_without_spark_it_says_so_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    file = StringIO()
    run_demo(None, Screen(file=file), PER_FILE)
    told = "Without Spark (PySpark is not installed: pip install 'triegs[spark]')"
    assert file.getvalue().startswith(told)
    assert "read by this process" in file.getvalue()


def test_spark_is_required_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["demo", "--engine", "spark"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: PySpark is not installed")


def test_the_reader_has_the_slides_that_it_needs() -> None:
    assert EVENTS // 5_000 > HELD_AFTER + READ_DURING
