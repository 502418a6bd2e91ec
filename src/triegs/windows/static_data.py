"""Epochs of the static graph, in an engine that has windows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from triegs.errors import InvalidUpdate
from triegs.jit.words import Words
from triegs.maintain.preparing import Preparing
from triegs.maintain.standing import NO_EVENT, Epoch, Refused
from triegs.windows.window_graphs import WindowGraphs


class StaticCore(Protocol):
    """What static data needs of the core."""

    def apply(self, rows: Words, is_strict: bool = False) -> Epoch: ...

    def prepare(self, rows: Words, is_strict: bool = False) -> Preparing[Epoch]: ...

    def count(self, subject: int, predicate: int, obj: int) -> int: ...


def apply_static(
    core: StaticCore, graphs: WindowGraphs, rows: Words, is_strict: bool, pauses: bool
) -> Preparing[Epoch]:
    """An epoch of the static graph, applied to every window graph that includes it. It pauses
    before it publishes if asked to.
    """
    refused = judge_static(core, rows)
    if refused and is_strict:
        message = f"{len(refused)} updates of a strict epoch were invalid; nothing changed"
        raise InvalidUpdate(message, refused)
    kept = np.delete(rows, [row for row, _ in refused], axis=0) if refused else rows
    with_static = [graph for graph in graphs.by_number.values() if graph.key.has_static]
    labelled = [graph.translate(kept, graphs.newest) for graph in with_static]
    changed = np.concatenate([kept, *labelled])
    version, _ = (yield from core.prepare(changed)) if pauses else core.apply(changed)
    for graph, changes in zip(with_static, labelled, strict=True):
        graph.count(changes, version.number)
    return Epoch(version, refused)


def judge_static(core: StaticCore, rows: Words) -> tuple[Refused, ...]:
    """The deletions of a static batch that match nothing. Cost: the deletions."""
    deleted = rows[rows[:, 0] < 0, 1:].tolist()
    counts = {key: core.count(*key) for key in map(tuple, deleted)}
    refused = []
    for row, (change, *terms) in enumerate(rows.tolist() if counts else ()):
        key = tuple(terms)
        if key not in counts:
            continue
        if counts[key] + change < 0:
            refused.append(Refused(row, NO_EVENT))
        else:
            counts[key] += change
    return tuple(refused)
