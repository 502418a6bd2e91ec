"""What breaks the invariants of docs/maintenance.md is found: a rule that is wrong in one way."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.maintain.rules import INTEGER, PAYS, Bench, Given, X, Y, Z, edges, play, triangle

from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.one_step import run_step
from triegs.store.kernels.layout import BUMP

ROOT = Path(__file__).parents[2]


def break_deltas(bench, change):
    """Write the rule's table with other deltas."""
    bench.write([change(number, delta) for number, delta in enumerate(bench.deltas)])
    return bench


def read_later_inputs_now(number, delta):
    return replace(delta, roots=tuple(replace(root, is_old=False) for root in delta.roots))


def read_earlier_inputs_before(number, delta):
    return replace(delta, roots=tuple(replace(root, is_old=True) for root in delta.roots))


@pytest.mark.parametrize("change", [read_later_inputs_now, read_earlier_inputs_before])
def test_reading_all_inputs_at_one_time_is_wrong(change):
    """Invariant 10."""
    bench = break_deltas(triangle(), change)
    with pytest.raises(AssertionError):
        play(bench, edges((1, 1)))


def test_leaving_one_occurrence_out_is_wrong():
    """Invariant 10."""
    bench = triangle()
    bench.write(list(bench.deltas[:2]))
    with pytest.raises(AssertionError):
        play(bench, edges((0, 1), (1, 2)), edges((2, 0)))


def test_entries_instead_of_a_net_list_are_wrong_for_presence():
    """Invariant 11."""
    bench = Bench([2])
    bench.make_rule([Given(0, (X, Y), PRESENCE)], (X,))
    entries = replace(bench.deltas[0].seeds, view=None, stream=bench.bases[0].stream)
    break_deltas(bench, lambda number, delta: replace(delta, seeds=entries))
    play(bench, edges((1, 5)))
    with pytest.raises(AssertionError):
        play(bench, edges((1, 5)))


# As plain Python, because a compiled step would not see the replacement, and to compile each of the
# kernels that a step calls takes half a minute.
WITHOUT_NETTING = """
from tests.maintain.rules import edges, play, triangle
from triegs.maintain.kernels import rule
bench = triangle()
play(bench, edges((0, 1), (1, 2), (2, 0)))
cancelled = [*edges((0, 1), change=-1), *edges((0, 1))]
play(bench, cancelled)
rule.merge_emissions = lambda words, work: None
try:
    play(bench, cancelled)
except AssertionError:
    print("found")
"""


def test_a_rule_that_does_not_net_lists_what_has_not_changed():
    """Invariant 12."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETTING], cwd=ROOT, capture_output=True, encoding="utf-8",
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "found", done.stderr


def test_a_verdict_that_outlives_its_id_is_wrong():
    """Invariant 13: an id comes to name another term; until told, the judge goes by the first."""
    names = {0: "0", 1: "1"}
    bench = Bench([1])
    bench.judges.decode = lambda number: f'"{names[number]}"^^{INTEGER}'
    bench.make_rule([Given(0, (X,), COUNT)], (X,), [(X,)])
    bench.run_epoch([(0, (1,), 1)])
    assert bench.found() == {}
    bench.run_epoch([(0, (1,), -1)])
    names[1] = "5"
    bench.run_epoch([(0, (1,), 1)])
    assert bench.found() == {}  # stale
    bench.run_epoch([(0, (1,), -1)])
    bench.judges.forget(np.array([1]))
    bench.run_epoch([(0, (1,), 1)])
    assert bench.found() == {(1,): 1}


def make_checked():
    """A rule with a check over two variables."""
    bench = Bench([2])
    bench.make_rule([Given(0, v, COUNT, True) for v in PAYS], (X, Y, Z), [(X, Y), (Y, Z)])
    return bench


def test_a_step_with_requests_and_is_not_run_again_is_wrong():
    """Invariant 14: what is not known counts as no."""
    bench = make_checked()
    bench.run_step = lambda *arguments: run_step(*arguments) or True
    with pytest.raises(AssertionError):
        play(bench, edges((0, 1), (1, 2), (2, 0)))


def test_a_step_with_requests_has_changed_nothing():
    """Invariant 14."""
    bench = make_checked()
    requested = []

    def run(words, log, lists, *others):
        used = words[: int(words[BUMP])]  # what lies behind is only reserved
        before = [used.copy(), log.copy(), lists.copy()]
        is_done = run_step(words, log, lists, *others)
        if not is_done:
            requested.append(True)
            pairs = zip(before, (used, log, lists), strict=True)
            assert all(np.array_equal(*pair) for pair in pairs)
        return is_done

    bench.run_step = run
    play(bench, edges((0, 1), (1, 2), (2, 0)), edges((0, 3), (3, 4), (4, 0)))
    assert len(requested) > 1
