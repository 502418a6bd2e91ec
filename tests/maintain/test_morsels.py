"""Epochs by several workers: the plan, the five invariants, and when a pool is asked."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from triegs.engine import Engine
from triegs.errors import BadOption, InvalidUpdate, StateError
from triegs.maintain import morsels
from triegs.maintain.kernels import morsel_tables as m
from triegs.maintain.kernels.morsels import run_worker
from triegs.maintain.morsels import WorkerPool, _Trial
from triegs.maintain.schedulers import BY_NAME, Workers
from triegs.placement import find_nodes, plan_placement
from triegs.store.contract import StoreCorrupt
from triegs.store.kernels.layout import EPOCH
from triegs.store.packed import PackedStore

KNOWS, LIKES, SEES = "<u:knows>", "<u:likes>", "<u:sees>"
TEXTS = [
    f"SELECT * {{ ?x {KNOWS} ?y . ?y {LIKES} ?z . ?z {SEES} ?w }}",
    f"SELECT ?x ?z {{ ?x {KNOWS} ?y . ?y {LIKES} ?z }}",
    f"SELECT * {{ ?x {KNOWS} ?y . ?y {KNOWS} ?z . ?z {KNOWS} ?x }}",
    f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {KNOWS} ?y . ?y {LIKES} ?z }} GROUP BY ?x",
]
IDS = 400


def draw(seed: int, count: int = 300) -> list[tuple[str, int, str, int]]:
    """Edges over ids of many stripes."""
    labels = (KNOWS, LIKES, SEES)
    return [
        ("+", (seed * 7919 + i * 31) % IDS, labels[i % 3], (seed * 104_729 + i * 97) % IDS)
        for i in range(count)
    ]  # fmt: skip


def make(workers: int = 3, scheduler: str = "prefix", **options: Any) -> tuple[Engine, WorkerPool]:
    engine = Engine(workers=workers, scheduler=scheduler, **options)  # type: ignore[arg-type]
    for text in TEXTS:
        engine.register(text)
    pool = engine._core.worker_pool
    assert pool is not None
    return engine, pool


def read(engine: Engine) -> list[Counter[str]]:
    found = []
    for query in engine.queries.values():
        with query.snapshot() as snapshot:
            found.append(Counter(map(str, snapshot)))
    return found


def is_noticed(engine: Engine, epochs: list[list[tuple[str, int, str, int]]]) -> bool:
    """Whether the structures or the answers are not what these epochs should have made."""
    try:
        engine._store.check()
        engine._core.views.check()
    except StoreCorrupt:
        return True
    with Engine() as other:
        for text in TEXTS:
            other.register(text)
        for epoch in epochs:
            other.apply(epoch)
        return read(engine) != read(other)


# The plan


def list_kinds(pool: WorkerPool) -> list[set[int]]:
    plan = pool._plan
    assert plan is not None
    return [{each.kind for each in stage} for stage in plan.stages]


def test_a_stage_merges_what_the_one_before_has_written():
    engine, pool = make()
    engine.apply(draw(1))
    kinds = list_kinds(pool)
    assert kinds[:3] == [{m.PARTITION}, {m.JUDGE}, {m.MERGE, m.FILL}]
    written = {m.EDGE_OUTPUT, m.PRODUCT_OUTPUT, m.RULE_OUTPUT}
    for before, stage in pairwise(kinds):
        if before & written:
            assert stage == {m.MERGE}
    assert kinds[-1] == {m.MERGE}


def test_a_plan_covers_every_step_and_row_once():
    engine, pool = make()
    engine.apply(draw(1))
    plan = pool._plan
    assert plan is not None
    outputs = [slot for slot, _, _ in plan.outputs]
    assert len(outputs) == len(set(outputs))
    steps = Counter(
        each.number for stage in plan.stages for each in stage
        if each.number >= 0 and each.kind != m.EMIT and each.stripe in (m.WHOLE, 0)
        and each.order <= 0
    )  # fmt: skip
    assert steps == Counter(range(len(engine._core.table.steps)))


@pytest.mark.parametrize("name", BY_NAME)
def test_every_worker_may_run_every_morsel(name):
    stripes = [-1, 0, 1, 2, 3, 4, 5, -1]
    schedule = BY_NAME[name](stripes, Workers(3, 6, [0, 0, 1]))
    for order in schedule.orders:
        assert sorted(order) == list(range(len(stripes)))
    assert set(schedule.homes) <= {0, 1, 2}


# The five invariants of `docs/maintenance.md`, each broken on purpose


Plant = Callable[[Engine, WorkerPool], Any]


def plant_header(offset: int) -> Plant:
    """The workers' epoch is not that of the arena."""

    def plant(engine: Engine, pool: WorkerPool) -> Any:
        equip = pool._arenas.equip

        def wrong(count: int) -> bool:
            done = equip(count)
            for words in pool._arenas.words:
                words[EPOCH] += offset
            return done

        return mock.patch.object(pool._arenas, "equip", wrong)

    return plant


def plant_plan(change: Callable[[Any], None]) -> Plant:
    """A plan that was changed after it was made."""

    def plant(engine: Engine, pool: WorkerPool) -> Any:
        follow = pool._follow

        def wrong(*given: Any) -> Any:
            plan = follow(*given)
            change(plan)
            return plan

        return mock.patch.object(pool, "_follow", wrong)

    return plant


def find_morsels(plan: Any, kind: int) -> list[int]:
    """The offsets of the morsels of a kind."""
    at, count = int(plan.words[m.P_MORSELS_AT]), int(plan.words[m.P_MORSELS])
    rows = range(at, at + m.MORSEL_WORDS * count, m.MORSEL_WORDS)
    return [row for row in rows if plan.words[row + m.M_KIND] == kind]


def forget_dependents(plan: Any) -> None:
    """The steps that read what a rule has changed do not run."""
    for row in find_morsels(plan, m.PRODUCT_OUTPUT):
        plan.words[row + m.M_KIND] = m.MERGE
        plan.words[row + m.M_OUTPUTS] = 0


def take_any_version(plan: Any) -> None:
    """Of a relation that several workers changed, one worker's is installed."""
    for row in find_morsels(plan, m.MERGE)[:-1]:
        plan.words[row + m.M_KIND] = m.PARTITION
        plan.words[row + m.M_STEP] = 0
        plan.words[row + m.M_ROW] = plan.words[find_morsels(plan, m.PARTITION)[0] + m.M_ROW]


def publish_early(plan: Any) -> None:
    """The epoch is published while its last stages are outstanding."""
    plan.words[m.P_STAGES] -= 3


INVARIANTS: dict[str, Plant] = {
    "epoch isolation": plant_header(1),
    "dependency closure": plant_plan(forget_dependents),
    "exact final value": plant_plan(take_any_version),
    "publication barrier": plant_plan(publish_early),
    "snapshot immutability": plant_header(-1),
}


@pytest.mark.parametrize("name", INVARIANTS)
def test_an_invariant_that_is_broken_is_noticed(name):
    engine, pool = make(scheduler="stealing")
    epochs = [draw(1), draw(2)]
    for epoch in epochs:
        engine.apply(epoch)
    assert not is_noticed(engine, epochs)
    with INVARIANTS[name](engine, pool):
        for seed in range(3, 60):  # until another worker was there in time to break it
            gone = [("-", *update[1:]) for update in draw(seed - 2)]
            epochs.append(gone + draw(seed))
            engine.apply(epochs[-1])
            if is_noticed(engine, epochs):
                return
    pytest.fail("the test does not break what it says")


def test_a_held_snapshot_stays_while_workers_replace_everything():
    engine, _ = make()
    engine.apply(draw(1))
    query = engine.queries["query1"]
    with query.snapshot() as held:
        before = Counter(map(str, held))
        for seed in range(2, 12):
            engine.apply([("-", *update[1:]) for update in draw(seed - 1)] + draw(seed))
            assert Counter(map(str, held)) == before
            engine._store.check()
    assert engine.metrics()["retained_bytes"] == 0


# Failures


def test_a_strict_epoch_with_an_invalid_update_changes_nothing():
    engine, pool = make()
    engine.apply(draw(1))
    before = read(engine)
    with pytest.raises(InvalidUpdate):
        engine.apply([*draw(2), ("-", 1, KNOWS, 10**6)], strict=True)
    assert read(engine) == before
    assert pool.epochs == 2
    engine._store.check()
    engine.apply(draw(2))
    assert not is_noticed(engine, [draw(1), draw(2)])


def test_an_exception_in_a_worker_is_raised_and_changes_nothing():
    engine, _ = make()
    engine.apply(draw(1))
    before = read(engine)
    run, broken = run_worker, list[int]()

    def fail(own: int, *given: Any) -> None:
        if own == 1 and not broken:
            broken.append(own)
            raise ZeroDivisionError("planted")
        run(own, *given)

    with mock.patch.object(morsels, "run_worker", fail):
        for seed in range(2, 40):  # the others may be done before that one begins
            try:
                engine.apply(draw(seed))
            except ZeroDivisionError:
                break
            before = read(engine)
    assert broken
    assert read(engine) == before
    engine._store.check()
    engine.apply(draw(50))
    engine._store.check()
    engine._core.views.check()


def test_an_epoch_that_the_pool_gives_up_is_made_by_one_worker():
    engine, pool = make()
    engine.apply(draw(1))
    with mock.patch.object(pool._arenas, "make_pages", return_value=False):
        engine.apply(draw(2))
    assert pool.epochs == 1
    assert not is_noticed(engine, [draw(1), draw(2)])


def test_scratch_memory_follows_the_updates_whatever_the_table():
    """A table with many selections needs more memory for few updates than one without for many."""
    engine = Engine(workers=2, scheduler="prefix")
    filtered = [
        engine.register(f"SELECT * {{ ?x {KNOWS} ?y . ?y {LIKES} {n} FILTER(?x > {n}) }}")
        for n in range(12)
    ]
    engine.apply(draw(1))
    for query in filtered:
        query.close()
    engine.register(TEXTS[0])
    batch = draw(2, 4_000)
    report = engine.apply([*batch, *(("-", 10**6 + n, SEES, n) for n in range(500))])
    assert len(report.refused) == 500
    engine._store.check()
    engine._core.views.check()
    pool = engine._core.worker_pool
    assert pool is not None
    assert (pool.epochs, pool.failed) == (2, 0)


def test_a_fault_counts_although_another_worker_waits():
    """To go on would wait for ever for what the worker with the fault has left undone."""
    engine, pool = make()
    engine.apply(draw(1))
    launched = []

    def fail(own: int, *given: Any) -> None:
        if own == 0:
            launched.append(own)
            state = given[11]
            state[m.S_FAULTY], state[m.S_STOPPED] = 1, m.WAITING if len(launched) == 1 else m.FAULTY

    with mock.patch.object(morsels, "run_worker", fail):
        engine.apply(draw(2))
    assert len(launched) == pool.failed == 1
    assert not is_noticed(engine, [draw(1), draw(2)])


# Options


def test_options_are_checked():
    with pytest.raises(BadOption, match="workers must be an integer from 1 to 16, not 17"):
        Engine(workers=17)
    with pytest.raises(BadOption, match="workers must be"):
        Engine(workers=True)
    with pytest.raises(BadOption, match="scheduler must be 'serial'"):
        Engine(scheduler="fair")  # type: ignore[arg-type]
    with pytest.raises(StateError, match="default store"):
        Engine(workers=2, store=PackedStore())


def test_one_worker_needs_no_crew():
    assert Engine()._core.worker_pool is None
    assert "workers" not in Engine().metrics()


def test_metrics_say_who_works():
    engine, pool = make(2)
    engine.apply(draw(1))
    found = engine.metrics()["workers"]
    assert (found["workers"], found["scheduler"], found["epochs"]) == (2, "prefix", 1)
    assert found["given_up"] == pool.failed == 0


def test_workers_are_pinned_where_that_is_asked_for():
    engine, pool = make(2, placement=[0, 0], scheduler="numa")
    engine.apply(draw(1))
    assert not is_noticed(engine, [draw(1)])
    assert engine.metrics()["workers"]["placement"]["cpus"] == [[0], [0]]
    assert pool.nodes == [0, 0]
    other, _ = make(2)
    assert other.metrics()["workers"]["placement"]["cpus"] is None
    with pytest.raises(BadOption, match="placement must be"):
        Engine(workers=2, placement="far")  # type: ignore[arg-type]


def test_nodes_are_those_of_the_cpus():
    placed = plan_placement("cpus", 4, {0: (0, 1), 1: (2, 3)})
    assert find_nodes(placed, 4) == [0, 0, 1, 1]


def test_threads_end_with_their_engine():
    before = set(threading.enumerate())
    engine, _ = make(4)
    other, _ = make(4)
    threads = set(threading.enumerate()) - before
    assert len(threads) == 6
    engine.close()
    del engine, other, _
    gc.collect()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_adaptive_takes_the_faster_way_and_tries_the_other_again():
    trial, chosen = _Trial(), []
    for _ in range(200):
        way = trial.choose()
        chosen.append(way)
        trial.note(1.0 if way else 2.0, is_shared=way)
    assert chosen[:6] == [False] * 3 + [True] * 3
    assert 190 < sum(chosen) < 200


def test_adaptive_leaves_small_epochs_to_one_worker():
    engine, pool = make(scheduler="adaptive")
    pool.hand_off = 1e-5
    assert not pool.wants(1000, expected_ns=1e4)
    engine.apply(draw(1))
    assert pool.epochs == 0
    assert not is_noticed(engine, [draw(1)])
