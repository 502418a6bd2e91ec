"""Figures of running lanes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from triegs.lanes.controller import Controller
from triegs.lanes.crew import Crew
from triegs.lanes.lane_query import LaneQuery
from triegs.lanes.together import Together

#: Figures of engines that add up.
ADDED = (
    "affected_bindings", "stored_answers", "queries", "entries", "live_bytes", "retained_bytes",
    "debt_bytes", "copied_nodes", "retired_nodes", "shared_bytes",
)  # fmt: skip
#: Figures of the graph and its events, which every lane has alike.
EQUAL = ("epochs", "updates", "refused", "holds", "windows")


def collect_metrics(
    together: Together, queries: Iterable[LaneQuery], crew: Crew, controller: Controller
) -> dict[str, Any]:
    """The figures of `triegs.Lanes.metrics`."""
    found = [lane.engine.metrics() for lane in together.lanes]
    names: dict[int, list[str]] = {lane.number: [] for lane in together.lanes}
    for query in queries:
        names[query.lane].append(query.name)
    first = found[0]
    return {
        **{name: first[name] for name in EQUAL},
        **{name: sum(each[name] for each in found) for name in ADDED},
        "terms": {name: sum(each["terms"][name] for each in found) for name in first["terms"]},
        "stalled": sorted(name for each in found for name in each["stalled"]),
        "pins": [pin for each in found for pin in each["pins"]],
        "problem": together.problem,
        "schedule": controller.describe(),
        "placement": crew.placement.describe(),
        "threads": [
            {"cpu_s": cpu, "wall_s": wall}
            for cpu, wall in zip(crew.cpu_s, crew.wall_s, strict=True)
        ],
        "lanes": [
            {
                "epoch": lane.engine.epoch,
                "queries": names[lane.number],
                "epoch_cpu_s": lane.cost,
                "live_bytes": each["live_bytes"],
                "terms": each["terms"]["live"],
            }
            for lane, each in zip(together.lanes, found, strict=True)
        ],
    }
