"""24 lanes on one thread and on two: strong scaling, schedules, open loop, and many queries.

Two sets of lanes get the same slides. One runs them on one thread, the other on two, in a form that
changes from turn to turn; a ratio is of one turn. In the end both sets must have the checksums that
their windows imply. What is simulated says so.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import median

from bench.lanes import Lane, run_lanes
from bench.report import Figure, Sense
from bench.run import Bench
from bench.scale.accounting import Account, compare_checksums, measure_spin
from bench.scale.fixed_work import run_fixed_work
from bench.scale.mixes import MIXES, make_lanes
from bench.scale.open_loop import make_timetable, percentiles, serve
from bench.scale.simulator import LaneCost, check_report, compare_runs, sweep
from bench.sections.sharing import list_shapes
from bench.timing import take_turns
from triegs.lanes.controller import Controller
from triegs.lanes.schedule import Form, Schedule, make_schedule
from triegs.workloads import path5_prefix

COUNT, THREADS = 24, 2
#: A smaller window than usual has fewer lanes and queries, so that a small run is a quick one.
EDGES_PER_LANE, EDGES_PER_QUERY = 1_250, 30
GOAL = 1.8
#: Slides in a window: with 5,000 updates the kernels of a slide run without the interpreter's lock.
BLOCKS = 6
SLIDES = 2  # of each lane in a turn
ROUNDS = 5  # while costs are measured
FORMS = (Form.SERIAL, Form.INLINE, Form.ROUND_ROBIN, Form.POOLED, Form.HYBRID)
PURE = (Form.INLINE, Form.POOLED)
LOADS = (0.7, 0.93)
QUERIES = (100, 1_000)
#: The gain of the report's pooled spiders: what a lane can gain from a pool if its epoch is
#: divided. Those of these lanes are not, so only the simulation uses it.
REPORTED_WIDTH = 1.1


class Contest:
    """Two sets of the same lanes, and what their turns took."""

    def __init__(self, bench: Bench, mix: str) -> None:
        sizes = bench.settings
        window = sizes.window // BLOCKS * BLOCKS
        self.count = max(4, min(COUNT, sizes.window // EDGES_PER_LANE))
        make = (mix, self.count, window, window // BLOCKS, sizes.seed)
        self.one, self.two = make_lanes(*make), make_lanes(*make)
        self.alone: list[Account] = []
        self.accounts: dict[Form, list[Account]] = {form: [] for form in FORMS}
        self.ratios: dict[Form, list[float]] = {form: [] for form in FORMS}
        self.costs = [1.0] * self.count
        self.controller = Controller(self.count, THREADS)

    def give_slides(self, count: int) -> None:
        for one, two in zip(self.one, self.two, strict=True):
            slides = one.bed.draw(count)
            two.bed.draw(count)  # the same ones: both streams have one seed
            one.rewind(slides)
            two.rewind(slides)

    def measure_costs(self) -> None:
        """The seconds of a slide, lane by lane, on one thread: the median of some rounds."""
        found: list[list[float]] = []
        for _ in range(ROUNDS):
            self.give_slides(SLIDES)
            found.append([])
            for number, lane in enumerate(self.one):
                only = Schedule(Form.SERIAL, ((number,),))
                found[-1].append(run_fixed_work(self.one, only).busy_s[0] / SLIDES)
                assert lane.is_done
            run_fixed_work(self.two, make_schedule(Form.INLINE, self.costs, THREADS))
        self.costs = [median(each) for each in zip(*found, strict=True)]

    def take_turn(self, form: Form) -> None:
        self.give_slides(SLIDES)
        serial = make_schedule(Form.SERIAL, self.costs, 1)
        self.alone.append(run_fixed_work(self.one, serial))
        account = run_fixed_work(self.two, make_schedule(form, self.costs, THREADS))
        self.accounts[form].append(account)
        self.ratios[form].append(self.alone[-1].wall_s / account.wall_s)

    def let_choose(self) -> None:
        """Let the controller of `triegs.Lanes` try its candidates on these lanes."""
        while self.controller.is_measuring:
            form = self.controller.choose(self.costs).form
            self.take_turn(form)
            self.controller.note(self.accounts[form][-1].wall_s)

    def check(self) -> None:
        """Raise `WrongAnswer` unless both sets have the checksums of their windows."""
        compare_checksums({
            1: [lane.check() for lane in self.one], THREADS: [lane.check() for lane in self.two],
        })  # fmt: skip

    def describe(self) -> list[LaneCost]:
        pairs = zip(self.one, self.costs, strict=True)
        return [LaneCost(lane.kind, cost, REPORTED_WIDTH) for lane, cost in pairs]


def measure_lanes(bench: Bench) -> Iterator[Figure]:
    series = bench.series["lanes"] = {"mixes": {}}
    for mix in MIXES:
        bench.say(f"lanes of {mix}")
        contest = Contest(bench, mix)
        contest.measure_costs()
        contest.let_choose()
        for turn in take_turns(2 * bench.settings.seconds, least=len(FORMS)):
            contest.take_turn(FORMS[turn % len(FORMS)])
        yield from _sum_up(contest, f"{contest.count} lanes, {mix}")
        lanes = contest.describe()
        speedup = median(contest.ratios[Form.INLINE])
        series["mixes"][mix] = {
            "measured": {1: 1.0, THREADS: speedup},
            "inline": {n: found.speedup for n, found in sweep(lanes).items()},
            "round-robin": {n: f.speedup for n, f in sweep(lanes, Form.ROUND_ROBIN).items()},
            "hybrid": {n: f.speedup for n, f in sweep(lanes, Form.HYBRID, ("spider",)).items()},
        }
        if mix == "Mix3":
            yield from _measure_open_loop(bench, contest)
        bench.say(f"checksums of {mix}")
        contest.check()
    for check in check_report():
        row, table = check.what, "simulated, against the report"
        yield Figure(row, "report", check.report, table=table)
        yield Figure(row, "simulated", check.simulated, table=table)
    yield from _measure_queries(bench)


def _sum_up(contest: Contest, row: str) -> Iterator[Figure]:
    walls = [account.wall_s for account in contest.alone]
    yield Figure(row, "slides/s on 1", SLIDES * contest.count / median(walls))
    found = {form: median(ratios) for form, ratios in contest.ratios.items()}
    yield Figure(row, "on 2, LPT", found[Form.INLINE], "x", GOAL)
    yield Figure(row, "spin control", measure_spin(THREADS), "x")
    yield Figure(row, "round robin", found[Form.ROUND_ROBIN], "x")
    yield Figure(row, "LPT : round robin", found[Form.INLINE] / found[Form.ROUND_ROBIN], "", 0.97)
    best = max(found[form] for form in PURE)
    yield Figure(row, "hybrid : best pure", found[Form.HYBRID] / best, "", 0.98)
    form = contest.controller.form
    assert form is not None
    chosen = found[form] / max(found.values())
    yield Figure(row, "chosen : best", chosen, "", 0.97, note=f" ({form.value})")
    table = "accounts, on 2 threads"
    for form, some in contest.accounts.items():
        name = f"{row}, {form.value}"
        yield Figure(name, "wall s", median(each.wall_s for each in some), table=table)
        yield Figure(name, "CPU s", median(each.cpu_s for each in some), table=table)
        yield Figure(name, "of the budget", median(
            each.cpu_s / (each.wall_s * each.threads) for each in some
        ), "", 1.05, Sense.AT_MOST, table=table)  # fmt: skip
        yield Figure(name, "utilisation", median(each.utilisation for each in some), table=table)
        if form is Form.SERIAL:
            continue
        idle = median(sum(each.idle_s.values()) for each in some)
        reasons = ", ".join(sorted({reason for each in some for reason in each.idle_s}))
        yield Figure(name, "idle s", idle, table=table, note=f" ({reasons})")
    lanes = contest.describe()
    for threads, ratio in compare_runs(lanes, {1: 1.0, THREADS: found[Form.INLINE]}).items():
        yield Figure(row, f"simulated : measured, {threads}", ratio)


def _measure_open_loop(bench: Bench, contest: Contest) -> Iterator[Figure]:
    """Latency by class at shares of the measured capacity, steady and in bursts of four."""
    arrivals = max(4, int(8 * bench.settings.seconds))
    walls = [account.wall_s for account in contest.accounts[Form.INLINE]]
    capacity = SLIDES * contest.count / median(walls)
    for load in LOADS:
        for burst in (1, 4):
            for form in (Form.INLINE, Form.HYBRID):
                bench.say(f"open loop at {load:.0%} of capacity, {form.value}")
                contest.give_slides(arrivals)
                run_fixed_work(contest.one, make_schedule(Form.SERIAL, contest.costs, 1))
                times = make_timetable(contest.count, arrivals, capacity, load, burst)
                schedule = make_schedule(form, contest.costs, THREADS)
                served, account = serve(contest.two, schedule, times)
                row = f"{form.value}, load {load:.0%}" + (", bursts of 4" if burst > 1 else "")
                table = "open loop, Mix3, ms"
                for kind, found in percentiles(served).items():
                    for share, seconds in found.items():
                        if share != 0.9:
                            name = f"{kind} p{100 * share:g}".replace(".", "")
                            yield Figure(row, name, 1e3 * seconds, table=table)
                yield Figure(row, "utilisation", account.utilisation, table=table)


def _measure_queries(bench: Bench) -> Iterator[Figure]:
    """Many queries of ten shapes over one stream, in one engine that shares their views, and as
    engines that share nothing: the sum of the ten, each as often as it was drawn.
    """
    sizes = bench.settings
    shapes = list_shapes()
    alone = [Lane([question]) for question in shapes]
    many = {}
    chance = random.Random(sizes.seed)
    for most in QUERIES:
        count = max(len(shapes), most * min(1_000, sizes.window // EDGES_PER_QUERY) // 1_000)
        bench.say(f"registering {count:,} queries")
        drawn = shapes + chance.choices(shapes, k=count - len(shapes))
        many[count] = drawn, Lane([question.reword(chance) for question in drawn])
    bench.say("slides of many queries")
    workload = path5_prefix(3, window=sizes.window, slide=sizes.slide, seed=sizes.seed)
    run_lanes(workload, [*(lane for _, lane in many.values()), *alone], sizes.seconds)
    costs = {shape.name: median(lane.middles) for shape, lane in zip(shapes, alone, strict=True)}
    one = median(costs.values())
    table = "queries of ten shapes, in epochs of one query"
    for count, (drawn, lane) in many.items():
        row = f"{count:,} queries"
        yield Figure(row, "with sharing", median(lane.middles) / one, "x", table=table)
        apart = sum(costs[question.name] for question in drawn)
        yield Figure(row, "without", apart / one, "x", table=table)
