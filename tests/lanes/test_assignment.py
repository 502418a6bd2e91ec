"""Lanes on threads: LPT and its bound, schedules and their budget, the controller's choice."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.lanes.assignment import (
    assign,
    assign_longest_first,
    assign_round_robin,
    find_makespan,
)
from triegs.lanes.balance import choose_lane, plan_moves
from triegs.lanes.controller import LASTING, TRIALS, Controller
from triegs.lanes.schedule import Form, list_candidates, make_schedule

costs = st.lists(st.integers(0, 50).map(float), min_size=1, max_size=24)
few_costs = st.lists(st.integers(1, 20).map(float), min_size=1, max_size=7)


def find_best(costs: list[float], threads: int) -> float:
    """The least makespan of all assignments."""
    return min(
        max(
            sum(cost for cost, at in zip(costs, chosen, strict=True) if at == t)
            for t in range(threads)
        )
        for chosen in product(range(threads), repeat=len(costs))
    )


@given(few_costs, st.integers(1, 3))
def test_longest_first_is_within_its_bound(costs, threads):
    found = find_makespan(costs, assign_longest_first(costs, threads))
    assert 3 * threads * found <= (4 * threads - 1) * find_best(costs, threads) + 1e-9


@given(costs, st.integers(1, 9))
def test_an_assignment_is_never_worse_than_round_robin(costs, threads):
    found = find_makespan(costs, assign(costs, threads))
    in_turn = find_makespan(costs, assign_round_robin(len(costs), threads))
    assert found <= min(in_turn, find_makespan(costs, assign_longest_first(costs, threads)))


def test_longest_first_alone_can_be_worse_than_round_robin():
    costs = [2.0, 3.0, 2.0, 3.0, 2.0]
    in_turn = find_makespan(costs, assign_round_robin(5, 2))
    assert find_makespan(costs, assign_longest_first(costs, 2)) > in_turn
    assert find_makespan(costs, assign(costs, 2)) == in_turn


@given(costs, st.integers(1, 9), st.sampled_from(list(Form)))
def test_a_schedule_runs_each_lane_once_within_its_budget(costs, threads, form):
    schedule = make_schedule(form, costs, threads)
    lanes = [lane for lanes in schedule.inline for lane in lanes] + list(schedule.pooled)
    assert sorted(lanes) == list(range(len(costs)))
    assert schedule.threads <= threads
    assert bool(schedule.pooled) == bool(schedule.workers)
    in_pool = [costs[lane] for lane in schedule.pooled]
    assert in_pool == sorted(in_pool, reverse=True)
    if schedule.form is Form.HYBRID:
        assert schedule.inline
        assert all(schedule.inline)
        inline = [costs[lane] for lanes in schedule.inline for lane in lanes]
        assert min(in_pool) >= max(inline)


@given(costs, st.integers(2, 9))
def test_threads_that_help_each_other_are_within_graham_s_bound(costs, threads):
    schedule = make_schedule(Form.HYBRID, costs, threads)
    inline = find_makespan(costs, schedule.inline)
    ideal = sum(costs) / schedule.threads + max(costs)
    assert schedule.predict(costs) <= max(inline, ideal) + 1e-6


def run_trials(controller: Controller, seconds: dict[Form, float]) -> None:
    while controller.is_measuring:
        form = controller.choose([1.0] * 6).form
        controller.note(seconds[form])


SECONDS = {Form.SERIAL: 5.0, Form.INLINE: 3.0, Form.POOLED: 2.0, Form.HYBRID: 4.0}


@pytest.mark.parametrize("best", list(SECONDS))
def test_the_controller_picks_what_measured_best(best):
    controller = Controller(6, 2)
    run_trials(controller, SECONDS | {best: 1.0})
    assert controller.form is best
    assert controller.choose([1.0] * 6).form is best
    assert set(controller.describe()["measured"]) == {form.value for form in SECONDS}


def test_a_latency_target_is_met_if_a_form_meets_it():
    """The fastest on average has one slow epoch."""
    controller = Controller(6, 2, latency_s=3.5)
    count = 0
    while controller.is_measuring:
        form = controller.choose([1.0] * 6).form
        count += 1
        is_slow = form is Form.POOLED and count > len(SECONDS) * (TRIALS - 1)
        controller.note(9.0 if is_slow else SECONDS[form])
    assert controller.form is Form.INLINE
    assert "within 3.5 s" in controller.why
    other = Controller(6, 2, latency_s=0.5)
    run_trials(other, SECONDS)
    assert other.form is Form.POOLED
    assert "no form was within" in other.why


def test_the_controller_measures_again_when_costs_move_or_time_passes():
    controller = Controller(6, 2)
    run_trials(controller, SECONDS)
    for _ in range(LASTING):
        controller.choose([1.0] * 6)
        controller.note(2.0)
    assert controller.is_measuring
    run_trials(controller, SECONDS | {Form.HYBRID: 1.0})
    assert controller.form is Form.HYBRID
    controller.choose([9.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert controller.is_measuring


def test_one_thread_leaves_no_choice_and_a_given_form_is_not_questioned():
    assert list_candidates(5, 1) == (Form.SERIAL,)
    assert Controller(5, 1).form is Form.SERIAL
    controller = Controller(5, 2, Form.ROUND_ROBIN)
    for _ in range(3):
        assert controller.choose([3.0, 2.0, 1.0, 0.0, 0.0]).form is Form.ROUND_ROBIN
        controller.note(1.0)
    assert controller.why == "given"


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 30).map(float), max_size=12),
       st.integers(1, 4), st.data())  # fmt: skip
def test_moves_lower_the_slowest_lane_and_leave_what_is_fixed(costs, count, data):
    lanes = {name: data.draw(st.integers(0, count - 1)) for name in costs}
    fixed = {name for name in costs if data.draw(st.booleans())}
    loads = [sum(costs[n] for n in costs if lanes[n] == lane) for lane in range(count)]
    moves = plan_moves(costs, lanes, count, fixed)
    assert not fixed & {move.query for move in moves}
    after = lanes | {move.query: move.target for move in moves}
    found = [sum(costs[n] for n in costs if after[n] == lane) for lane in range(count)]
    if moves:
        assert max(found) <= 0.9 * max(loads)
    assert all(lanes[move.query] == move.source != move.target for move in moves)


def test_new_queries_are_spread_before_anything_is_measured():
    counts = [0, 0, 0]
    for _ in range(7):
        counts[choose_lane([0.0] * 3, counts, counts)] += 1
    assert counts == [3, 2, 2]
