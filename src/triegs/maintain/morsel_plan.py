"""Cuts the program of an epoch into morsels: which there are, what each writes, and in which stage.

Everything is read from the table (`triegs.maintain.kernels.tables`), so the plan cannot disagree
with what a serial epoch runs. A step waits for the steps that write what it reads, and for those
that read what it writes; otherwise steps share a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.kernels import morsel_tables as m
from triegs.maintain.kernels.tables import (
    D_FROM,
    D_NUMBER,
    D_ROOTS,
    D_ROOTS_AT,
    D_SLOT,
    DELTA_WORDS,
    EDGE,
    EDGE_BY_OTHER,
    EDGE_BY_OWN,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_LIST,
    EDGE_OUT,
    EXTREME_EDGE,
    FACTOR_CHANGED,
    FACTOR_SLOT,
    FACTOR_WORDS,
    LABELS,
    LIST,
    ORDERED_EDGE,
    PRODUCT,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_LIST,
    PRODUCT_OUT,
    ROOT_SLOT,
    ROOT_WORDS,
    ROW_KIND,
    ROW_LIST,
    ROW_SLOT,
    ROW_WORDS,
    RULE,
    RULE_ARITY,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    RULE_IS_LISTED_ONLY,
    RULE_IS_SUMMED,
    RULE_KEYS,
    RULE_KEYS_LIST,
    RULE_LIST,
    RULE_ORDERS,
    RULE_ORDERS_AT,
    RULE_SORTED,
    RULE_SORTED_AT,
    RULE_SYMMETRY_AT,
    S_ROWS,
    S_ROWS_AT,
    SORTED_TUPLES,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    SUMMED_PAIRS,
    SUMMED_TUPLES,
    SYM_LIST,
    TARGET_SLOT,
    TARGET_WORDS,
    TOTAL,
)
from triegs.maintain.schedulers import Schedule, Scheduler, Workers
from triegs.store.kernels.layout import ARITY, LAYOUT_SHIFT, PLAIN, SLOT_WORDS, SLOTS

BASE = -1  # the number of the step of a base morsel


@dataclass(slots=True)
class Morsel:
    """One row of the plan."""

    kind: int
    step: int = 0
    row: int = 0
    emitted: int = 0
    order: int = 0
    stripe: int = m.WHOLE
    outputs: range = range(0)
    number: int = BASE


@dataclass(slots=True)
class StepUse:
    """What a step reads and writes: addresses of slots, and numbers of lists."""

    reads: set[tuple[str, int]] = field(default_factory=set)
    writes: set[tuple[str, int]] = field(default_factory=set)


class MorselPlan:
    """The plan of a table for some workers, as words; and what Python needs to know of it."""

    def __init__(
        self, table: Words, lists: int, shape_of: Callable[[int], int], workers: Workers,
        scheduler: Scheduler,
    ) -> None:  # fmt: skip
        self._table, self._shape_of, self._workers = table, shape_of, workers
        self.stripes, self.lists = workers.stripes, lists
        self.outputs: list[tuple[int, int, int]] = []  # slot, shape, whether it is whole
        self.striped_lists = np.zeros(lists, np.int64)
        self.stages: list[list[Morsel]] = []
        self._emissions = 0
        self._merges: list[Morsel] = []
        self._cut_base()
        self._cut_steps()
        self.stages = [stage for stage in self.stages if stage]
        self.words = self._write(
            [scheduler([each.stripe for each in stage], workers) for stage in self.stages]
        )

    # What can be striped

    def _is_plain(self, slot: int) -> bool:
        shape = self._shape_of(slot)
        return shape >> LAYOUT_SHIFT == PLAIN and shape & ARITY > 0

    def _output(self, slot: int, *, is_whole: bool) -> range:
        self.outputs.append((slot, self._shape_of(slot), int(is_whole)))
        number = len(self.outputs) - 1
        if not is_whole:
            self._merges.append(Morsel(m.MERGE, outputs=range(number, number + 1)))
        return range(number, number + 1)

    def _whole_outputs(self, slots: Sequence[int]) -> range:
        start = len(self.outputs)
        for slot in slots:
            self._output(slot, is_whole=True)
        return range(start, len(self.outputs))

    def _add(self, stage: list[Morsel], morsel: Morsel, *, is_striped: bool) -> None:
        """Add a morsel, for each stripe if its output is striped."""
        if not is_striped:
            stage.append(morsel)
            return
        stage += [replace(morsel, stripe=stripe) for stripe in range(self.stripes)]

    def _end_level(self, *stages: list[Morsel]) -> None:
        """Add stages, and one that merges what they write."""
        self.stages += [*stages, self._merges]
        self._merges = []

    # Base morsels

    def _cut_base(self) -> None:
        table = self._table
        judged: list[Morsel] = []
        sorting: list[Morsel] = []
        filled: list[Morsel] = []
        sorted_slots: list[int] = []
        labels, streams = int(table[LABELS]), int(table[STREAMS])
        for number in range(labels):
            row = int(table[self._stream(number) + S_ROWS_AT])
            sorting.append(Morsel(m.PARTITION, number, row))
            self._cut_row(judged, m.JUDGE, number, row)
        merged, self._merges = self._merges, []
        for number in range(streams):
            at = self._stream(number)
            for index in range(number < labels, int(table[at + S_ROWS])):
                row = int(table[at + S_ROWS_AT]) + ROW_WORDS * index
                if table[row + ROW_KIND] == SORTED_TUPLES:
                    sorted_slots.append(int(table[row + ROW_SLOT]))
                else:
                    self._cut_row(filled, m.FILL, number, row)
        if sorted_slots:
            filled.append(Morsel(m.FILL_SORTED, outputs=self._whole_outputs(sorted_slots)))
        self.stages += [sorting, judged]
        if streams > labels:
            self.stages.append([*merged, Morsel(m.SELECT)])
            self._end_level(filled)
        else:  # nothing that rows are filled with waits for the merged relations
            self._end_level([*merged, *filled])

    def _stream(self, number: int) -> int:
        return int(self._table[STREAM_ROWS]) + STREAM_WORDS * number

    def _cut_row(self, stage: list[Morsel], kind: int, number: int, row: int) -> None:
        table, slot = self._table, int(self._table[row + ROW_SLOT])
        is_striped = self._is_plain(slot) and table[row + ROW_KIND] not in (
            SUMMED_PAIRS, SUMMED_TUPLES,
        )  # fmt: skip
        if table[row + ROW_LIST] >= 0:
            self.striped_lists[table[row + ROW_LIST]] = is_striped
        outputs = self._output(slot, is_whole=not is_striped)
        self._add(stage, Morsel(kind, number, row, outputs=outputs), is_striped=is_striped)

    # Steps

    def _cut_steps(self) -> None:
        for level in self._find_levels():
            emitting: list[Morsel] = []
            applying: list[Morsel] = []
            for number in level:
                self._cut_step(emitting, applying, number)
            self._end_level(emitting, applying)

    def _cut_step(self, emitting: list[Morsel], applying: list[Morsel], number: int) -> None:
        table = self._table
        step = int(table[STEP_ROWS]) + STEP_WORDS * number
        kind = int(table[step])
        if kind == RULE:
            self._cut_rule(emitting, applying, step, number)
            return
        edges = (EDGE, ORDERED_EDGE, EXTREME_EDGE)
        slot = int(table[step + (EDGE_OUT if kind in edges else PRODUCT_OUT)])
        is_striped = kind in (EDGE, PRODUCT) and self._is_plain(slot)
        if kind != TOTAL:
            self.striped_lists[table[step + (EDGE_LIST if kind in edges else PRODUCT_LIST)]] = (
                is_striped
            )
        outputs = self._output(slot, is_whole=not is_striped)
        if not is_striped:
            applying.append(Morsel(m.WHOLE_STEP, step, outputs=outputs, number=number))
            return
        emitted = 0
        if kind == EDGE:
            emitted = self._emit(emitting, step, number)
        made = m.EDGE_OUTPUT if kind == EDGE else m.PRODUCT_OUTPUT
        morsel = Morsel(made, step, emitted=emitted, outputs=outputs, number=number)
        self._add(applying, morsel, is_striped=True)

    def _emit(self, emitting: list[Morsel], step: int, number: int) -> int:
        emitted = self._emissions
        self._emissions += 1
        morsel = Morsel(m.EMIT, step, emitted=emitted, number=number)
        self._add(emitting, morsel, is_striped=True)
        return emitted

    def _cut_rule(
        self, emitting: list[Morsel], applying: list[Morsel], step: int, number: int
    ) -> None:
        table = self._table
        arity, orders = int(table[step + RULE_ARITY]), int(table[step + RULE_ORDERS])
        orders_at = int(table[step + RULE_ORDERS_AT])
        slots = [int(table[orders_at + (1 + arity) * each]) for each in range(orders)]
        has_keys = table[step + RULE_KEYS_LIST] >= 0
        is_striped = (
            arity > 0
            and not table[step + RULE_IS_SUMMED]
            and not table[step + RULE_SORTED]
            and not (has_keys and table[step + RULE_KEYS] == 0)
            and all(map(self._is_plain, slots))
        )
        for name in (RULE_LIST, RULE_KEYS_LIST):
            if table[step + name] >= 0:
                self.striped_lists[table[step + name]] = is_striped
        emitted = self._emit(emitting, step, number)
        if not is_striped:
            at = int(table[step + RULE_SORTED_AT])
            slots += [
                int(table[at + TARGET_WORDS * each + TARGET_SLOT])
                for each in range(int(table[step + RULE_SORTED]))
            ]
            outputs = self._whole_outputs([] if table[step + RULE_IS_LISTED_ONLY] else slots)
            applying.append(
                Morsel(
                    m.RULE_OUTPUT, step, emitted=emitted, order=m.WHOLE, outputs=outputs,
                    number=number,
                )
            )  # fmt: skip
            return
        for order, slot in enumerate(slots):
            outputs = range(0)
            if not table[step + RULE_IS_LISTED_ONLY]:
                outputs = self._output(slot, is_whole=False)
            morsel = Morsel(
                m.RULE_OUTPUT, step, emitted=emitted, order=order, outputs=outputs, number=number
            )
            self._add(applying, morsel, is_striped=True)

    # Dependencies

    def _find_levels(self) -> list[list[int]]:
        """Steps that may run at the same time, level by level."""
        uses = [self._find_use(number) for number in range(int(self._table[STEPS]))]
        levels: list[int] = []
        for number, use in enumerate(uses):
            level = 0
            for before, earlier in enumerate(uses[:number]):
                clash = use.reads & earlier.writes or use.writes & (earlier.reads | earlier.writes)
                if clash:
                    level = max(level, levels[before] + 1)
            levels.append(level)
        found: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
        for number, level in enumerate(levels):
            found[level].append(number)
        return found

    def _find_use(self, number: int) -> StepUse:
        table = self._table
        step = int(table[STEP_ROWS]) + STEP_WORDS * number
        kind, use = int(table[step]), StepUse()

        def reads(kind: str, *offsets: int) -> None:
            use.reads.update((kind, int(table[at])) for at in offsets if table[at] >= 0)

        def writes(kind: str, *offsets: int) -> None:
            use.writes.update((kind, int(table[at])) for at in offsets if table[at] >= 0)

        if kind in (EDGE, ORDERED_EDGE, EXTREME_EDGE):
            reads("slot", step + EDGE_CHILD, step + EDGE_BY_OTHER)
            reads("list", step + EDGE_CHANGED)
            writes("slot", step + EDGE_OUT)
            writes("list", step + EDGE_LIST)
            if kind == EXTREME_EDGE:
                reads("slot", step + EDGE_BY_OWN)
        elif kind == RULE:
            self._find_rule_use(step, reads, writes)
        else:
            at = int(table[step + PRODUCT_FACTORS_AT])
            for factor in range(
                at, at + FACTOR_WORDS * int(table[step + PRODUCT_FACTORS]), FACTOR_WORDS
            ):
                reads("slot", factor + FACTOR_SLOT)
                reads("list", factor + FACTOR_CHANGED)
            writes("slot", step + PRODUCT_OUT)
            if kind != TOTAL:
                writes("list", step + PRODUCT_LIST)
        return use

    def _find_rule_use(
        self, step: int, reads: Callable[..., None], writes: Callable[..., None]
    ) -> None:
        table = self._table
        at = int(table[step + RULE_DELTAS_AT])
        for delta in range(at, at + DELTA_WORDS * int(table[step + RULE_DELTAS]), DELTA_WORDS):
            if table[delta + D_FROM] == LIST:
                reads("list", delta + D_NUMBER)
                reads("slot", delta + D_SLOT)
            roots = int(table[delta + D_ROOTS_AT])
            for root in range(roots, roots + ROOT_WORDS * int(table[delta + D_ROOTS]), ROOT_WORDS):
                reads("slot", root + ROOT_SLOT)
        if table[step + RULE_SYMMETRY_AT]:
            reads("list", int(table[step + RULE_SYMMETRY_AT]) + SYM_LIST)
        orders, arity = int(table[step + RULE_ORDERS_AT]), int(table[step + RULE_ARITY])
        for each in range(int(table[step + RULE_ORDERS])):
            written = reads if table[step + RULE_IS_LISTED_ONLY] else writes
            written("slot", orders + (1 + arity) * each)
        targets = int(table[step + RULE_SORTED_AT])
        for each in range(int(table[step + RULE_SORTED])):
            writes("slot", targets + TARGET_WORDS * each + TARGET_SLOT)
        writes("list", step + RULE_LIST, step + RULE_KEYS_LIST)

    # Words

    def _write(self, schedules: Sequence[Schedule]) -> Words:
        words, workers = [0] * m.PLAN_HEAD, self._workers.number

        def put(at: int, values: Sequence[int]) -> None:
            words[at] = len(words)
            words.extend(map(int, values))

        starts = np.cumsum([0, *map(len, self.stages)]).tolist()
        morsels, count = [each for stage in self.stages for each in stage], starts[-1]
        homes = [home for schedule in schedules for home in schedule.homes]
        words[m.P_WORKERS], words[m.P_STRIPES] = workers, self.stripes
        words[m.P_STAGES], words[m.P_MORSELS] = len(self.stages), count
        words[m.P_OUTPUTS] = len(self.outputs)
        words[m.P_PATIENCE] = max((each.patience for each in schedules), default=0)
        put(m.P_STAGES_AT, starts)
        put(m.P_MORSELS_AT, [
            word for each, home in zip(morsels, homes, strict=True)
            for word in (each.kind, each.step, each.row, each.emitted, each.order, each.stripe,
                         len(each.outputs), each.outputs.start, each.number, home)
        ])  # fmt: skip
        put(m.P_ORDERS_AT, [
            start + number for worker in range(workers)
            for start, schedule in zip(starts, schedules, strict=False)
            for number in schedule.orders[worker]
        ])  # fmt: skip
        put(m.P_OUTPUTS_AT, [word for output in self.outputs for word in output])
        put(m.P_LISTS_AT, self.striped_lists.tolist())
        put(m.P_NODES_AT, self._workers.nodes)
        sizes = {
            m.P_INSIDE: workers,
            m.P_LOGS: m.LOG_WORDS * workers,
            m.P_CLAIMS: count,
            m.P_DONE: len(self.stages),
            m.P_OWNERS: len(self.outputs) * self.stripes,
            m.P_ROOTS: 2 * len(self.outputs) * workers,
            m.P_MERGED: m.MERGED_WORDS * len(self.outputs),
            m.P_RANGES: m.RANGE_OF_LIST_WORDS * self.lists * self.stripes,
            m.P_EMITTED: m.RANGE_OF_LIST_WORDS * self._emissions * self.stripes,
            m.P_STARTS: (self.stripes + 1) * int(self._table[LABELS]),
            m.P_FOUND: workers,
            m.P_JOINED: workers,
        }
        end = m.STATE_HEAD
        for name, size in sizes.items():
            words[name] = end
            end += size
        words[m.P_END] = end
        return np.array(words, np.int64)


def find_slot(address: int) -> int:
    """The number of the slot at an address."""
    return (address - SLOTS) // SLOT_WORDS
