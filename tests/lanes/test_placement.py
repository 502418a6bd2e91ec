"""CPUs and NUMA nodes: read from a tree of files, given to threads, and undone with them."""

from __future__ import annotations

import os

import pytest

from triegs import placement
from triegs.errors import BadOption
from triegs.lanes import Lanes
from triegs.lanes.crew import Crew
from triegs.placement import plan_placement, read_nodes

CAN_PIN = hasattr(os, "sched_setaffinity")
needs_affinity = pytest.mark.skipif(not CAN_PIN, reason="this system cannot pin threads")


def make_nodes(root, lists):
    for number, text in lists.items():
        folder = root / f"node{number}"
        folder.mkdir()
        (folder / "cpulist").write_text(text)
    (root / "has_cpu").write_text("0-1")


def test_nodes_are_read_by_number_and_limited_to_what_the_process_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "find_allowed", lambda: {0, 1, 2, 9, 10})
    make_nodes(tmp_path, {10: "9-11\n", 2: "2-3", 0: "0-1", 3: "4-8", 4: ""})
    assert read_nodes(tmp_path) == {0: (0, 1), 2: (2,), 10: (9, 10)}


def test_without_a_tree_or_with_a_broken_one_there_is_one_node(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "find_allowed", lambda: {3, 1})
    assert read_nodes(tmp_path / "none") == {0: (1, 3)}
    make_nodes(tmp_path, {0: "zero"})
    assert read_nodes(tmp_path) == {0: (1, 3)}


def test_a_node_is_filled_before_the_next_and_then_it_starts_over(monkeypatch):
    monkeypatch.setattr(placement, "find_allowed", lambda: {0, 1, 2})
    nodes = {0: (0, 1), 1: (2,)}
    assert plan_placement("cpus", 4, nodes).cpus == ((0,), (1,), (2,), (0,))
    assert plan_placement("nodes", 4, nodes).cpus == ((0, 1), (0, 1), (2,), (0, 1))
    assert plan_placement([2, 0], 3, nodes).cpus == ((2,), (0,), (2,))


def test_a_system_without_affinity_pins_nothing_and_says_so(monkeypatch):
    monkeypatch.setattr(placement, "find_allowed", lambda: None)
    found = plan_placement("cpus", 2)
    assert found.cpus is None
    assert found.describe()["why"] == "this system cannot pin threads"
    assert plan_placement(None, 2).describe()["why"] == "not asked for"


@pytest.mark.parametrize("wrong", ["sockets", [], [100_000]])
@needs_affinity
def test_a_placement_that_cannot_be_is_refused(wrong):
    with pytest.raises(BadOption, match="placement"):
        plan_placement(wrong, 2)


@needs_affinity
def test_threads_run_where_they_were_put_and_the_caller_is_left_alone():
    own = os.sched_getaffinity(0)
    crew = Crew(2, plan_placement("cpus", 2))
    assert crew.placement.cpus is not None
    seen: list = [None, None]

    def look(at):
        seen[at] = os.sched_getaffinity(0)

    crew.run([lambda: look(0), lambda: look(1)])
    crew.close()
    assert [tuple(each) for each in seen] == list(crew.placement.cpus)
    assert os.sched_getaffinity(0) == own


@needs_affinity
def test_lanes_say_where_they_run():
    with Lanes(2, threads=2, placement="nodes", schedule="inline") as lanes:
        lanes.apply([("+", n, "<p>", n) for n in range(100)])
        found = lanes.metrics()["placement"]
    assert found["kind"] == "nodes"
    assert len(found["cpus"]) == 2
    with Lanes(2) as lanes:
        assert lanes.metrics()["placement"]["kind"] == "none"
