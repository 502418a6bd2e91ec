"""``triegs demo --example``: the running example as the semantics say; the rest is repeatable."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app
from triegs.cli.social import generate_epochs

GOLDEN = Path(__file__).parent / "golden" / "example.txt"


@pytest.fixture(scope="module")
def text() -> str:
    done = CliRunner().invoke(app, ["demo", "--example"])
    assert done.exit_code == 0, done.output
    return done.stdout


def read_row(text: str, start: str) -> list[int]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [int(number) for number in line.removeprefix(start).split()]


def test_running_example(text: str) -> None:
    assert read_row(text, "H(tweet1,Max)") == [1, 1, 1]
    assert read_row(text, "L(tweet2,Mia)") == [0, 1, 1]
    assert read_row(text, "V1(tweet1,tweet2)") == [2, 2, 1]
    assert read_row(text, "V0(tweet2)") == [0, 2, 1]
    assert read_row(text, "answer (Max,Eva,tweet1,tweet2,Mia)") == [0, 2, 1]
    # A reader that pinned t1 still reads 2 after t2.
    assert read_row(text, "the same, read from a snapshot of t1") == [2, 2]


def test_everything_shown(text: str) -> None:
    """Set TRIEGS_REFRESH=1 to rewrite the golden file; then read the difference.

    Bytes are left out: they follow the layout of nodes.
    """
    found = re.sub(r"(bytes[a-z ]*[a-z]) +[\d,]+$", r"\1 …", text, flags=re.MULTILINE)
    found = re.sub(r"[\d,]+ bytes", "… bytes", re.sub(r" +$", "", found, flags=re.MULTILINE))
    if os.environ.get("TRIEGS_REFRESH"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_a_held_snapshot_never_changes(text: str) -> None:
    rows = [line.split() for line in text.splitlines() if re.match(r"\d+ +\d+ updates", line)]
    assert len(rows) == 12
    held = {" ".join(row[-3:]) for row in rows[4:]}
    assert len(held) == 1
    assert len({" ".join(row[2:7]) for row in rows[4:]}) == 8


def test_fits_a_terminal(text: str) -> None:
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_stream_has_duplicates_deletes_and_refusals(text: str) -> None:
    epochs = list(generate_epochs(seed=7))
    updates = [update for batch in epochs for update in batch]
    assert len(epochs) == 12
    assert 200 <= len(updates) <= 500
    added = [update for update in updates if update[0] == "+"]
    assert len(added) > len(set(added))
    assert any(update[0] == "-" for update in updates)
    assert re.search(r"Refused.*\(\d+ in total\)", text)
    assert epochs != list(generate_epochs(seed=8))
