"""Windows over one sequence of grouped events, which share the events and partial aggregates.

An event is appended once, whatever the number of windows. What a window does with it depends on the
function:

- counts are kept for every window;
- exact sums of doubles are kept per window: an event is added when it enters, subtracted when it
  leaves;
- for any other operator, a single window is a `DabaLite`, which takes constant time per event.
  Several windows, or events that are deleted before they expire, take a `Fiba` of all events: a
  window is then a range of it. A commutative operator combines the events of a *pane*, the greatest
  common divisor of all widths and slides, into one entry of the tree.

Results are computed at each slide for the groups that it changes, so reading them costs nothing
more, and an event that is already in the tree has no effect on a window before its next slide.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from triegs.aggregates.exact import ROW_WORDS, ExactSums
from triegs.aggregates.kernels.grouping import DELETED, UNUSABLE, count_codes
from triegs.aggregates.swag.daba import DabaLite
from triegs.aggregates.swag.fiba import Fiba
from triegs.aggregates.windowed.events import EventColumns, EventQueue
from triegs.aggregates.windowed.functions import Function, Method
from triegs.aggregates.windowed.groups import GroupTable
from triegs.jit.words import Words

#: Before every time.
BEFORE = -(1 << 62)


class Grid(NamedTuple):
    """The times at which a window can begin or end: `origin` plus multiples of `step`."""

    origin: int
    step: int


class Rows(NamedTuple):
    """The results of one window at one slide: keys, states and numbers of values by row, and how
    many events of the window have no usable value.
    """

    keys: Words
    states: Words
    counts: Words
    unusable: int


class WindowResults:
    """One window: the indexes of its first and after its last event, and its results by group."""

    def __init__(self, function: Function, grid: Grid) -> None:
        self.grid = grid
        self.head = self.tail = 0
        self.low = BEFORE
        self.unusable = 0
        self.counts = np.zeros(0, np.int64)
        self.states = np.zeros((0, function.width), np.int64)
        self.sums = ExactSums(0) if function.method is Method.SUMS else None
        self._identity = function.make_identity()

    @property
    def used_bytes(self) -> int:
        sums = 0 if self.sums is None else self.sums.used_bytes
        return self.counts.nbytes + self.states.nbytes + sums

    def grow(self, groups: int) -> None:
        more = groups - len(self.counts)
        if more > 0:
            self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])
            states = np.zeros((more, self.states.shape[1]), np.int64)
            self.states = np.concatenate([self.states, states])
            if self.sums is not None:
                self.sums.add_groups(more)

    def read(self, members: Words) -> Rows:
        """A copy of all rows. Cost: the groups."""
        found = np.flatnonzero(self.counts > 0)
        if len(found) == 0 and members.shape[1] == 0:  # without grouping there is always a row
            nothing = np.zeros(1, np.int64)
            return Rows(members[:1].copy(), self._identity[None].copy(), nothing, self.unusable)
        return Rows(members[found], self.states[found], self.counts[found], self.unusable)


class Aggregation:
    """All windows with one function over one sequence of events.

    >>> from triegs.aggregates.windowed.functions import find_function
    >>> aggregation = Aggregation(find_function("max", "integer"), 1)
    >>> window = aggregation.add_window(Grid(0, 10))
    >>> aggregation.append(np.array([1, 4, 12]), np.array([[7], [7], [8]]), np.array([5, 3, 9]))
    array([0, 1])
    >>> aggregation.slide(window, 10, 0)
    >>> window.read(aggregation.groups.members).states.tolist()
    [[5]]
    """

    def __init__(self, function: Function, key_width: int) -> None:
        self.function = function
        self._key_width = key_width
        self.windows: list[WindowResults] = []
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self.groups = GroupTable(self._key_width)
        self.events = EventQueue()
        self._structure: DabaLite | Fiba | None = None
        self._inserted = 0  # the index of the first event that the structure lacks
        self._grid = Grid(0, 1)
        self._marks = np.zeros(self.groups.capacity, np.int64)
        self._stamp = 0
        grids = [window.grid for window in self.windows]
        self.windows = []
        for grid in grids:
            self.add_window(grid)

    def add_window(self, grid: Grid) -> WindowResults:
        """Add a window, before any event."""
        window = WindowResults(self.function, grid)
        self.windows.append(window)
        first = self.windows[0].grid
        apart = [each.grid.origin - first.origin for each in self.windows]
        self._grid = Grid(first.origin, gcd(*apart, *(each.grid.step for each in self.windows)))
        operator = self.function.operator
        if operator is not None:
            if not operator.commutative:
                self._grid = Grid(0, 1)
            kind = DabaLite if len(self.windows) == 1 else Fiba
            if not isinstance(self._structure, kind):
                self._structure = kind(operator, 0)
        return window

    @property
    def structure_name(self) -> str:
        """How the function is maintained now."""
        if self._structure is None:
            return self.function.method.value
        return "DABA Lite" if isinstance(self._structure, DabaLite) else "FiBA"

    @property
    def used_bytes(self) -> int:
        structure = 0 if self._structure is None else self._structure.used_bytes
        windows = sum(window.used_bytes for window in self.windows)
        return structure + windows + self.events.used_bytes + self.groups.used_bytes

    def measure(self, keys: Words) -> int:
        """At most the bytes that events with these keys take. Cost: sorting the keys."""
        fresh = len(np.unique(keys, axis=0)) if keys.shape[1] else min(1, len(keys))
        more = self.groups.measure(fresh) - self.groups.capacity
        per_group = 8 * (self._key_width + 2 + 2)
        per_group += len(self.windows) * 8 * (1 + self.function.width)
        if self.function.method is Method.SUMS:
            per_group += len(self.windows) * ROW_WORDS * 8
        found = self.events.measure(len(keys)) + more * per_group
        if self._structure is not None:
            groups = self.groups.capacity + more - self._structure.groups
            found += self._structure.measure(groups, len(keys), fresh)
        return found

    # Events

    def append(
        self, times: Words, keys: Words, values: npt.NDArray[Any] | None,
        positions: Words | None = None, usable: npt.NDArray[np.bool_] | None = None,
    ) -> Words:  # fmt: skip
        """Append events in order of time; returns the groups that are new.

        `positions` are those of the source, ascending. Events that are not `usable` have a key and
        no value: they are only counted.
        """
        count = len(times)
        codes = np.full(count, UNUSABLE, np.int64)
        if usable is None or usable.all():
            codes, fresh = self.groups.assign(keys)
        else:
            codes[usable], fresh = self.groups.assign(keys[usable])
        words = np.zeros(count, np.int64)
        if values is not None and count:
            words = np.ascontiguousarray(values, self.function.values).view(np.int64)
        if positions is None:
            positions = np.arange(self.events.end, self.events.end + count)
        self.events.append(times, positions, codes, words)
        return fresh

    def bury(self, positions: Words) -> None:
        """Delete events by position, if they are there and not deleted yet. The windows that have
        them still count them: see `slide`.
        """
        indexes = self.events.find_positions(positions)
        events = self.events.read(self.events.start, self.events.end)
        at = indexes - self.events.start
        at = at[events.codes[at] >= UNUSABLE]
        if len(at) == 0:
            return
        codes = events.codes[at]
        events.codes[at] = DELETED - codes
        if self._structure is None:
            return
        is_inserted = (codes >= 0) & (at + self.events.start < self._inserted)
        if not is_inserted.any():
            return
        if isinstance(self._structure, DabaLite):
            self._turn_to_tree()
            return
        for index, group in zip(at[is_inserted].tolist(), codes[is_inserted].tolist(), strict=True):
            self._fold_again(self._structure, int(events.times[index]), group)

    def _fold_again(self, tree: Fiba, time: int, group: int) -> None:
        """Compute an entry of the tree from the events that are left. Cost: those of its pane."""
        key = int(self._find_keys(np.array([time]))[0])
        first, end = self.events.find(key - self._grid.step), self.events.find(key)
        pane = self.events.read(first, min(end, self._inserted))
        state = tree.fold(self._view(pane.values[pane.codes == group]))
        tree.replace([key], state[None], [group])

    def _turn_to_tree(self) -> None:
        """Continue with a tree of the events that the single window has. Cost: those."""
        operator = self.function.operator
        assert operator is not None
        self._structure = Fiba(operator, self.groups.capacity)
        self._inserted, end = self.windows[0].head, self._inserted
        self._insert_until(end)

    # Slides

    def slide(
        self, window: WindowResults, edge: int, low: int, deleted: Words | None = None
    ) -> None:
        """Move a window to the events later than `low` and not later than `edge`.

        All of these are appended. `deleted` are positions of events that were buried while the
        window contained them. Cost: what the slide changes.
        """
        events = self.events
        window.grow(self.groups.capacity)
        if len(self._marks) < self.groups.capacity:
            more = np.zeros(self.groups.capacity - len(self._marks), np.int64)
            self._marks = np.concatenate([self._marks, more])
        tail = max(window.tail, events.find(edge))
        head = max(window.head, events.find(low))
        buried = self._read_buried(deleted, window)
        expired = events.read(window.head, max(window.head, min(head, window.tail)))
        arrived = events.read(max(head, window.tail), max(tail, head))
        self._stamp += 1
        changed = np.empty(self.groups.capacity, np.int64)
        end = 0
        for columns, change in ((buried, -1), (expired, -1), (arrived, 1)):
            if len(columns.codes):
                end, unusable = count_codes(
                    columns.codes, change, window.counts, self._marks, self._stamp, changed, end
                )
                window.unusable += change * unusable
        self._move(expired, arrived, tail)
        window.head, window.tail, window.low = head, max(tail, head), low
        if window.sums is not None:
            for columns, change in ((buried, -1), (expired, -1), (arrived, 1)):
                self._add(window.sums, columns, change)
        self._read_changed(window, changed[:end], edge)

    def _read_buried(self, deleted: Words | None, window: WindowResults) -> EventColumns:
        """Deleted events of a window, with the codes that they had."""
        indexes = np.zeros(0, np.int64)
        if deleted is not None and len(deleted):
            indexes = self.events.find_positions(np.sort(deleted))
            indexes = indexes[(indexes >= window.head) & (indexes < window.tail)]
        at = indexes - self.events.start
        times, positions, codes, values = (
            column[at] for column in self.events.read(self.events.start, self.events.end)
        )
        return EventColumns(times, positions, DELETED - codes, values)

    def _add(self, sums: ExactSums, columns: EventColumns, change: int) -> None:
        is_value = columns.codes >= 0
        codes, values = columns.codes, columns.values
        if not is_value.all():
            codes, values = codes[is_value], values[is_value]
        if len(codes):
            counts = np.full(len(codes), change, np.int64)
            sums.add(values.view(np.float64), codes, counts)

    def _move(self, expired: EventColumns, arrived: EventColumns, tail: int) -> None:
        """Insert what arrives into the structure; evict what expires."""
        structure = self._structure
        if structure is None:
            return
        if structure.groups < self.groups.capacity:
            structure.add_groups(self.groups.capacity - structure.groups)
        if isinstance(structure, Fiba):
            self._insert_until(tail)
            return
        codes = expired.codes[expired.codes >= 0]
        structure.evict(np.ones(len(codes), np.int64), codes)
        is_value = arrived.codes >= 0
        values = self._view(arrived.values[is_value])
        structure.insert(arrived.times[is_value], values, arrived.codes[is_value])
        self._inserted = max(self._inserted, tail)

    def _insert_until(self, end: int) -> None:
        """Insert events into the tree, up to an index."""
        if end <= self._inserted:
            return
        tree = self._structure
        assert isinstance(tree, Fiba)
        events = self.events.read(max(self._inserted, self.events.start), end)
        rows = np.flatnonzero(events.codes >= 0)
        # By group: a run of one group is inserted in one walk.
        rows = rows[np.argsort(events.codes[rows], kind="stable")]
        keys = self._find_keys(events.times[rows])
        tree.insert(keys, self._view(events.values[rows]), events.codes[rows])
        self._inserted = end

    def _find_keys(self, times: Words) -> Words:
        """The end of the pane of each time: a pane has the times after the end of the last one."""
        origin, step = self._grid
        found: Words = origin - (origin - times) // step * step
        return found

    def _view(self, words: Words) -> npt.NDArray[Any]:
        """Words as values of the function's type."""
        assert self.function.values is not None
        return np.ascontiguousarray(words).view(self.function.values)

    def _read_changed(self, window: WindowResults, changed: Words, edge: int) -> None:
        groups = changed[window.counts[changed] > 0]
        if len(groups) == 0:
            return
        if window.sums is not None:
            window.states[groups, 0] = window.sums.read(groups).view(np.int64)
        elif isinstance(self._structure, DabaLite):
            window.states[groups] = self._structure.query_states(groups)
        elif self._structure is not None:
            window.states[groups] = self._structure.query_groups(groups, window.low, edge)

    def retire(self) -> Words:
        """Drop the events that no window contains or will contain; returns the keys of the groups
        that are gone. Call it after the slides of a moment.
        """
        until = min((window.head for window in self.windows), default=self.events.end)
        if until <= self.events.start:
            return self.groups.members[:0]
        codes = self.events.retire(until)
        if isinstance(self._structure, Fiba):
            low = min(window.low for window in self.windows)
            groups = np.where(codes >= 0, codes, DELETED - codes)
            groups = np.unique(groups[groups >= 0])
            self._structure.evict(np.full(len(groups), low), groups)
        self._inserted = max(self._inserted, until)
        gone = self.groups.release(codes)
        return self.groups.members[gone]
