"""Which CPUs threads run on: any, one each, or those of one NUMA node after another.

Nodes are read from ``/sys`` on Linux. Where a system has no thread affinity, nothing is pinned, and
`Placement.describe` says so. Memory follows by first touch: an arena grows on the thread that runs
its lane.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from triegs.errors import BadOption

NODES = Path("/sys/devices/system/node")
KINDS = ("cpus", "nodes")
PlacementName = Literal["cpus", "nodes"]


class Placement(NamedTuple):
    """The CPUs of each thread; None where threads are not pinned, and why."""

    kind: str
    cpus: tuple[tuple[int, ...], ...] | None
    nodes: dict[int, tuple[int, ...]]
    why: str = ""

    def describe(self) -> dict[str, Any]:
        """For the metrics of engines and lanes."""
        cpus = None if self.cpus is None else [list(each) for each in self.cpus]
        nodes = {node: list(cpus) for node, cpus in self.nodes.items()}
        return {"kind": self.kind, "cpus": cpus, "nodes": nodes, "why": self.why}


def plan_placement(
    kind: str | Sequence[int] | None, threads: int, nodes: dict[int, tuple[int, ...]] | None = None
) -> Placement:
    """The CPUs of that many threads: ``"cpus"`` gives each its own CPU, node by node; ``"nodes"``
    gives each all CPUs of a node, which is filled before the next one is used; a sequence of
    numbers names the CPUs. With more threads than CPUs, CPUs are reused.

    >>> plan_placement("cpus", 3, {0: (0, 1), 1: (2, 3)}).cpus
    ((0,), (1,), (2,))
    >>> plan_placement("nodes", 3, {0: (0, 1), 1: (2, 3)}).cpus
    ((0, 1), (0, 1), (2, 3))
    """
    found = read_nodes() if nodes is None else nodes
    if kind is None:
        return Placement("none", None, found, "not asked for")
    named = None if isinstance(kind, str) else tuple(kind)
    if named is None and kind not in KINDS:
        raise BadOption(f"placement must be 'cpus', 'nodes' or numbers of CPUs, not {kind!r}")
    allowed = find_allowed()
    if allowed is None:
        return Placement("none", None, found, "this system cannot pin threads")
    if named is not None:
        wrong = [cpu for cpu in named if cpu not in allowed] if nodes is None else []
        if wrong or not named:
            what = f"CPU {wrong[0]}" if wrong else "no CPU"
            raise BadOption(f"placement names {what}; this process may use {sorted(allowed)}")
        slots: list[tuple[int, ...]] = [(cpu,) for cpu in named]
    elif kind == "cpus":
        slots = [(cpu,) for cpus in found.values() for cpu in cpus]
    else:
        slots = [cpus for cpus in found.values() for _ in cpus]
    chosen = tuple(slots[thread % len(slots)] for thread in range(threads))
    return Placement("cpus" if named else str(kind), chosen, found)


def read_nodes(root: Path = NODES) -> dict[int, tuple[int, ...]]:
    """The CPUs of each NUMA node that this process may use; one node where none can be read."""
    allowed = find_allowed()
    found: dict[int, tuple[int, ...]] = {}
    for folder in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        try:
            cpus = parse_cpus((folder / "cpulist").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        kept = tuple(cpu for cpu in cpus if allowed is None or cpu in allowed)
        if kept:
            found[int(folder.name[4:])] = kept
    every = sorted(allowed) if allowed is not None else range(os.cpu_count() or 1)
    return found or {0: tuple(every)}


def parse_cpus(text: str) -> list[int]:
    """
    >>> parse_cpus("0-2,8")
    [0, 1, 2, 8]
    """
    found: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found


def find_allowed() -> set[int] | None:
    """The CPUs that this process may use; None if the system has no thread affinity."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def count_cpus() -> int:
    """The number of CPUs that this process may use."""
    allowed = find_allowed()
    return (os.cpu_count() or 1) if allowed is None else len(allowed)


def find_nodes(placement: Placement, threads: int) -> list[int]:
    """The NUMA node of each thread; 0 for threads that are not pinned.

    >>> placed = Placement("cpus", ((0,), (2,)), {0: (0, 1), 1: (2, 3)})
    >>> find_nodes(placed, 2)
    [0, 1]
    """
    if placement.cpus is None:
        return [0] * threads
    node_of = {cpu: node for node, cpus in placement.nodes.items() for cpu in cpus}
    return [node_of.get(cpus[0], 0) for cpus in placement.cpus]


def pin_thread(cpus: Sequence[int]) -> None:
    """Let the calling thread run on these CPUs only."""
    os.sched_setaffinity(0, cpus)
