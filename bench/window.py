"""The edges of a window by label, oldest first: what judges and peers compute from."""

from __future__ import annotations

import numpy as np

from bench.answers import Edges, Numbers
from triegs.workloads import Slide, Workload


class Window:
    """A queue of edges for each label. A slide deletes the oldest, so deleting is skipping."""

    def __init__(self, workload: Workload) -> None:
        self._queues = {label: _Queue() for label in workload.labels}

    def apply(self, slide: Slide) -> None:
        for label, (subjects, _) in slide.deletions.items():
            self._queues[label].skip(len(subjects))
        for label, (subjects, objects) in slide.insertions.items():
            self._queues[label].push(subjects, objects)

    def copy_from(self, other: Window) -> None:
        for label, (subjects, objects) in other.edges.items():
            self._queues[label] = _Queue()
            self._queues[label].push(subjects, objects)

    @property
    def edges(self) -> Edges:
        return {label: queue.columns for label, queue in self._queues.items()}


class _Queue:
    """Two columns in buffers with room at the end; moved to the front when the end is reached."""

    def __init__(self) -> None:
        self._buffers = np.zeros((2, 0), np.int64)
        self._start = self._end = 0

    def skip(self, count: int) -> None:
        self._start += count

    def push(self, subjects: Numbers, objects: Numbers) -> None:
        count = len(subjects)
        if self._end + count > self._buffers.shape[1]:
            live = self._buffers[:, self._start : self._end]
            self._buffers = np.zeros((2, 2 * (live.shape[1] + count)), np.int64)
            self._buffers[:, : live.shape[1]] = live
            self._start, self._end = 0, live.shape[1]
        self._buffers[0, self._end : self._end + count] = subjects
        self._buffers[1, self._end : self._end + count] = objects
        self._end += count

    @property
    def columns(self) -> tuple[Numbers, Numbers]:
        subjects, objects = self._buffers[:, self._start : self._end]
        return subjects, objects
