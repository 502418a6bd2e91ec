"""Lanes of the benchmark: the simulator against the report, timetables, accounts, checksums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.answers import WrongAnswer
from bench.scale.accounting import Account, compare_checksums, measure_spin
from bench.scale.fixed_work import run_fixed_work
from bench.scale.mixes import MIXES, make_lanes
from bench.scale.open_loop import Arrival, Served, make_timetable, percentiles, replay, serve
from bench.scale.simulator import (
    COSTS,
    WIDTHS,
    LaneCost,
    Machine,
    check_report,
    compare_runs,
    find_ceiling,
    make_mix,
    simulate,
    sweep,
)
from triegs.lanes.schedule import Form, make_schedule

lane_costs = st.lists(
    st.tuples(st.sampled_from(["path", "spider"]), st.integers(1, 40), st.floats(1, 2)).map(
        lambda drawn: LaneCost(drawn[0], float(drawn[1]), drawn[2])
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("check", check_report(), ids=lambda check: check.what)
def test_the_simulator_reproduces_the_report(check):
    assert check.is_met, check


@given(lane_costs, st.integers(1, 16))
def test_no_prediction_breaks_a_law(lanes, cores):
    machine = Machine.of(cores)
    inline = simulate(lanes, machine)
    assert inline.speedup <= min(cores, find_ceiling(lanes)) + 1e-9
    assert inline.utilisation <= 1 + 1e-9
    assert simulate(lanes, machine, Form.ROUND_ROBIN).speedup <= inline.speedup + 1e-9
    hybrid = simulate(lanes, machine, Form.HYBRID, ("spider",))
    assert hybrid.speedup <= cores + 1e-9
    width = max(lane.width for lane in lanes)
    assert hybrid.speedup <= width * find_ceiling(lanes) + 1e-9


def test_a_pool_pays_only_where_gating_leaves_cores_idle():
    mix = make_mix(COSTS, width=1.3)
    gains = {
        cores: simulate(mix, Machine.of(cores), Form.HYBRID, ("spider",)).speedup
        / simulate(mix, Machine.of(cores)).speedup
        for cores in (8, 24)
    }
    assert gains[8] < 1.05
    assert 1.1 < gains[24] <= 1.3
    alike = [LaneCost("spider", 37.0, 1.3)] * 24
    pooled = simulate(alike, Machine.of(24), Form.HYBRID, ("spider",)).speedup
    assert pooled <= simulate(alike, Machine.of(24)).speedup + 1e-9


def test_sweeps_and_runs_are_compared_by_threads():
    mix = make_mix(COSTS)
    found = sweep(mix)
    assert tuple(found) == WIDTHS
    assert found[1].speedup == pytest.approx(1)
    assert compare_runs(mix, {1: 1.0, 2: 1.6})[2] == pytest.approx(found[2].speedup / 1.6)


def test_a_timetable_has_the_load_and_its_bursts():
    steady = make_timetable(3, 4, capacity=6.0, load=0.5)
    assert [at for at, lane in steady if lane == 2] == [0, 1, 2, 3]
    bursts = make_timetable(3, 4, capacity=6.0, load=0.5, burst=2)
    assert [at for at, lane in bursts if lane == 0] == [0, 0, 2, 2]


def test_latency_is_from_the_scheduled_arrival_and_a_lane_serves_in_order():
    """Two slides of one lane arrive at once: the second waits for the first, wherever it runs."""
    arrivals = [Arrival(0.0, 0), Arrival(0.0, 0), Arrival(1.0, 1)]
    inline = make_schedule(Form.INLINE, [2.0, 1.0], 2)
    assert sorted(replay({0: 2.0, 1: 1.0}, inline, arrivals)) == [(0, 2.0), (0, 4.0), (1, 1.0)]
    pooled = make_schedule(Form.POOLED, [2.0, 1.0], 2)
    assert [(lane, latency) for lane, latency in replay({0: 2.0, 1: 1.0}, pooled, arrivals)
            if lane == 0] == [(0, 2.0), (0, 4.0)]  # fmt: skip
    alone = make_schedule(Form.SERIAL, [2.0, 1.0], 1)
    assert max(replay({0: 2.0, 1: 1.0}, alone, arrivals)) == (1, 4.0)


def test_percentiles_are_by_class_and_of_all():
    served = [Served("path", 0.0, float(n)) for n in range(1_000)]
    served += [Served("star", 0.0, 5_000.0)]
    found = percentiles(served)
    assert found["path"][0.999] == 998.0
    assert found["star"][0.5] == 5_000.0
    assert found["all"][0.999] == 999.0


def test_an_account_is_judged_by_its_budget():
    account = Account(2, wall_s=1.0, cpu_s=2.1, busy_s=[0.5, 1.0])
    assert account.is_within_budget
    assert account.utilisation == 0.75
    assert not Account(2, wall_s=1.0, cpu_s=2.11).is_within_budget
    account.add_idle("gate", 0.5)
    account.add_idle("gate", 0.25)
    assert account.idle_s == {"gate": 0.75}


def test_runs_that_did_different_work_are_void():
    compare_checksums({1: "same", 2: "same"})
    with pytest.raises(WrongAnswer, match="1 and 4 threads"):
        compare_checksums({1: "same", 2: "same", 4: "other"})


@pytest.mark.parametrize("mix", MIXES)
def test_every_form_does_the_same_work(mix):
    """Fixed work and a timetable, on real lanes; the last slides come by the timetable."""
    forms = [Form.SERIAL, Form.INLINE, Form.ROUND_ROBIN, Form.POOLED, Form.HYBRID]
    found: dict[int, object] = {}
    for number, form in enumerate(forms):
        lanes = make_lanes(mix, 3, 480, 40, seed=5)
        schedule = make_schedule(form, [3.0, 2.0, 1.0], 2)
        for lane in lanes:
            lane.rewind(lane.bed.draw(2))
        account = run_fixed_work(lanes, schedule)
        assert all(lane.is_done for lane in lanes)
        assert len(account.busy_s) == account.threads == schedule.threads
        for lane in lanes:
            lane.rewind(lane.bed.draw(2))
        served, _ = serve(lanes, schedule, make_timetable(3, 2, 1e4, 0.9))
        assert sorted(each.kind for each in served) == sorted(2 * [lane.kind for lane in lanes])
        found[number] = [lane.check() for lane in lanes]
    compare_checksums(found)


class BrokenLane:
    kind = "broken"

    def run(self):
        raise ValueError("broken")


def test_no_worker_waits_for_a_lane_that_has_failed():
    schedule = make_schedule(Form.POOLED, [1.0, 1.0], 2)
    assert schedule.workers == 2
    with pytest.raises(ValueError, match="broken"):
        serve([BrokenLane()] * 2, schedule, [Arrival(0.0, 0)] * 2)  # type: ignore[list-item]


def test_the_spin_control_runs():
    assert measure_spin(2, 1_000) > 0
