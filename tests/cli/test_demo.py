"""``triegs demo``: the running example is as the semantics say, the rest is repeatable."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from triegs.cli.app import app
from triegs.cli.demo import QUERY, STEPS
from triegs.cli.social import generate_epochs
from triegs.reference import Reference


def run_demo() -> str:
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0
    return done.stdout


def read_row(text: str, start: str) -> list[int]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [int(number) for number in line.removeprefix(start).split()]


def test_running_example() -> None:
    text = run_demo()
    assert read_row(text, "H(tweet1,Max)") == [1, 1, 1]
    assert read_row(text, "L(tweet2,Mia)") == [0, 1, 1]
    assert read_row(text, "V1(tweet1,tweet2)") == [2, 2, 1]
    assert read_row(text, "V0(tweet2)") == [0, 2, 1]
    assert read_row(text, "answer (Max,Eva,tweet1,tweet2,Mia)") == [0, 2, 1]


def test_steps_through_the_reference_executor() -> None:
    reference = Reference(QUERY)
    found = []
    for _, updates in STEPS:
        assert reference.apply(updates).refused == ()
        found.append(sum(reference.answers().values()))
    assert found == [0, 2, 1]


def test_is_repeatable_and_fits_a_terminal() -> None:
    text = run_demo()
    assert text == run_demo()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_stream_has_duplicates_deletes_and_refusals() -> None:
    epochs = list(generate_epochs(seed=7))
    updates = [update for batch in epochs for update in batch]
    assert len(epochs) == 12
    assert 200 <= len(updates) <= 500
    added = [update for update in updates if update[0] == "+"]
    assert len(added) > len(set(added))
    assert any(update[0] == "-" for update in updates)
    assert re.search(r"refused.*\(\d+ in all\)", run_demo())
    assert epochs != list(generate_epochs(seed=8))
