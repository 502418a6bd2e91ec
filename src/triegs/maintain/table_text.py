"""Prints the table of a program as text, for debugging.

The text is derived from the words alone; the views only provide names. Variables are registers
`r0`, `r1` …, the words on the path through an input `w0`, `w1` …, relations are numbered by slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from triegs.maintain.kernels.tables import (
    ANY,
    BEFORE,
    BOTH,
    CARRIED,
    CHECK_COUNT,
    CHECK_JUDGE,
    CHECK_REGS_AT,
    CHECK_WORDS,
    CONSTANT,
    COUNT,
    D_ARITY,
    D_CHECKS,
    D_CHECKS_AT,
    D_FROM,
    D_LEVELS,
    D_LEVELS_AT,
    D_NUMBER,
    D_PROBES,
    D_PROBES_AT,
    D_REGS_AT,
    D_ROOTS,
    D_ROOTS_AT,
    D_SIDE,
    D_SLOT,
    D_USE,
    DELTA_WORDS,
    EDGE,
    EDGE_BY_OTHER,
    EDGE_BY_OWN,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_COLUMN,
    EDGE_IS_EXACT,
    EDGE_IS_LAST,
    EDGE_JUDGE,
    EDGE_LIST,
    EDGE_OUT,
    EDGE_READS,
    EDGE_STREAM,
    ENTRIES,
    EXTREME_EDGE,
    EXTREME_PRODUCT,
    FACTOR_CHANGED,
    FACTOR_READS,
    FACTOR_SLOT,
    FACTOR_WORDS,
    FIXED,
    IS_ACCEPTED,
    IS_EQUAL_TO,
    IS_ID,
    IS_LOWER,
    IS_RDF,
    IS_UPPER,
    LABELS,
    LEADS,
    LEVEL_CHECKS,
    LEVEL_CHECKS_AT,
    LEVEL_IS_SHOWN,
    LEVEL_RANGES,
    LEVEL_RANGES_AT,
    LEVEL_REG,
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    LEVEL_WORDS,
    NOW,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    OWN,
    PRESENCE,
    PROBE_IN,
    PROBE_OUT,
    PROBE_REG,
    PROBE_USE,
    PROBE_WORDS,
    PRODUCT,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_IS_EXACT,
    PRODUCT_LIST,
    PRODUCT_OUT,
    RANGE_INTERCEPT,
    RANGE_KIND,
    RANGE_REG,
    RANGE_SIDE,
    RANGE_SLOPE,
    RANGE_WORDS,
    RANKING,
    ROOT_IS_CONSTANT,
    ROOT_IS_OLD,
    ROOT_SLOT,
    ROOT_USE,
    ROOT_WORD,
    ROOT_WORDS,
    ROW_COLUMN,
    ROW_CONDITION,
    ROW_KIND,
    ROW_LIST,
    ROW_SLOT,
    ROW_WIDTH,
    ROW_WORDS,
    RULE,
    RULE_ARITY,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    RULE_HEAD_AT,
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
    S_ARITY,
    S_COLUMNS_AT,
    S_ROWS,
    S_ROWS_AT,
    S_SOURCE,
    S_TESTS,
    S_TESTS_AT,
    SAME,
    SORTED,
    SORTED_TUPLES,
    SOURCE_IN,
    SOURCE_OUT,
    SOURCE_USE,
    SOURCE_WORDS,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    SUMMED_TUPLES,
    SYM_IMAGES,
    SYM_IMAGES_AT,
    SYM_INPUT_FIRST,
    SYM_INPUT_ORBIT,
    SYM_INPUT_WORDS,
    SYM_INPUTS,
    SYM_INPUTS_AT,
    SYM_LIST,
    SYM_VARIABLES,
    TARGET_COLUMNS_AT,
    TARGET_SLOT,
    TARGET_WIDTH,
    TARGET_WORDS,
    TERMS,
    TEST_AT,
    TEST_COLUMN,
    TEST_KIND,
    TEST_VALUE,
    TEST_WORDS,
    TOTAL,
    TUPLES,
    UNINDEXED,
    WHOLES,
)
from triegs.maintain.model import Rule, View
from triegs.maintain.tables import Table
from triegs.maintain.views import Views
from triegs.store.kernels.layout import SLOT_WORDS, SLOTS
from triegs.store.kernels.order_statistics import ANSWERED, BESIDE, COUNTED, SETS

USES = {PRESENCE: "there", COUNT: "count", LEADS: "", FIXED: "fixed count"}
SIDES = {BOTH: "", BEFORE: " before", NOW: " now"}
ROW_KINDS = ("pairs", "counts", "summed pairs", "tuples", "summed tuples", "sorted tuples")
SIDES_OF_RANGES = {IS_LOWER: "from", IS_UPPER: "up to", IS_EQUAL_TO: "at"}
KINDS = {
    EXTREME_EDGE: "extreme edge", EXTREME_PRODUCT: "extreme product",
    EDGE: "edge", PRODUCT: "product", TOTAL: "total", ORDERED_EDGE: "ordered edge",
    ORDERED_PRODUCT: "ordered product", RANKING: "ranking", RULE: "rule",
}  # fmt: skip
NUMBERS = {BESIDE: "counts beside", SETS: "sums of sets", COUNTED: "one answer each",
           ANSWERED: "answers"}  # fmt: skip


def describe_table(table: Table, views: Views) -> str:
    """Every row of a table, one line each. Cost: the table.

    >>> from triegs.maintain.compiled import CompiledCore
    >>> from triegs.maintain.judges import Judges
    >>> from triegs.store.packed import PackedStore
    >>> core = CompiledCore(PackedStore(), len, Judges(str))
    >>> print(describe_table(core.table, core.views))
    0 labels, 0 wholes, 0 selections, 0 steps; the weight of an assertion is its count
    relation 0, arity 3: unindexed
    """
    found = [view for view in views.by_name.values() if not is_listing(view)]
    names = {view.address: view.name for view in found}
    text = TableText(table.words.tolist(), names, [stream.name for stream in table.streams])
    return "\n".join(text.lines(views))


def describe_columns(columns: Sequence[int]) -> list[str]:
    """A column order with sort keys."""
    return [
        "0" if column == CONSTANT else
        f"sort key of {column & ~SORTED}" if column & SORTED else f"column {column}"
        for column in columns
    ]  # fmt: skip


def is_listing(view: View) -> bool:
    """Whether a view has no relation of its own."""
    return isinstance(view, Rule) and view.is_listed_only


class TableText:
    """Reads the words of one table."""

    def __init__(self, words: list[int], names: Mapping[int, str], streams: list[str]) -> None:
        self.words = words
        self.names = names
        self.streams = streams

    def lines(self, views: Views) -> Iterator[str]:
        words = self.words
        labels, wholes, streams, steps = (words[at] for at in (LABELS, WHOLES, STREAMS, STEPS))
        weight = "1 while its count is positive" if words[IS_RDF] else "its count"
        yield (f"{labels} labels, {wholes} wholes, {streams - labels - wholes} selections, "
               f"{steps} steps; the weight of an assertion is {weight}")  # fmt: skip
        arities = {SLOTS + SLOT_WORDS * r.slot: r.arity for r in views.store.members}
        for slot in sorted({words[UNINDEXED], *self.names}):
            name = self.names.get(slot, "unindexed")
            yield f"{self.relation(slot)}, arity {arities.get(slot)}: {name}"
        for number in range(streams):
            yield from self.stream(number, words[STREAM_ROWS] + STREAM_WORDS * number)
        for number in range(steps):
            yield from self.step(number, words[STEP_ROWS] + STEP_WORDS * number)

    # Words

    def relation(self, slot: int) -> str:
        return f"relation {(slot - SLOTS) // SLOT_WORDS}"

    def numbers(self, at: int, count: int) -> list[int]:
        return self.words[at : at + count]

    def regs(self, at: int, count: int) -> str:
        return " ".join(f"r{reg}" for reg in self.numbers(at, count)) or "nothing"

    def rows(self, count: int, at: int, size: int) -> range:
        return range(at, at + count * size, size)

    # Streams

    def stream(self, number: int, at: int) -> Iterator[str]:
        words = self.words
        yield f"stream {number}, {words[at + S_ARITY]} columns: {self.streams[number]}"
        if number >= words[LABELS] + words[WHOLES]:
            columns = self.numbers(words[at + S_COLUMNS_AT], words[at + S_ARITY])
            yield f"  select columns {columns} of stream {words[at + S_SOURCE]}"
            for test in self.rows(words[at + S_TESTS], words[at + S_TESTS_AT], TEST_WORDS):
                yield f"  if {self.test(test)}"
        for row in self.rows(words[at + S_ROWS], words[at + S_ROWS_AT], ROW_WORDS):
            yield f"  {self.row(row, words[at + S_ARITY])}"

    def test(self, at: int) -> str:
        words = self.words
        kind, column, value = (words[at + n] for n in (TEST_KIND, TEST_COLUMN, TEST_VALUE))
        if kind == IS_ACCEPTED:
            return f"judge {value} accepts columns {self.numbers(words[at + TEST_AT], column)}"
        return f"column {column} is {'id' if kind == IS_ID else 'column'} {value}"

    def row(self, at: int, arity: int) -> str:
        words = self.words
        kind, column, condition = (words[at + n] for n in (ROW_KIND, ROW_COLUMN, ROW_CONDITION))
        order: object = self.numbers(column, arity) if kind in (TUPLES, SUMMED_TUPLES) else column
        if kind == SORTED_TUPLES:
            order = describe_columns(self.numbers(column, words[at + ROW_WIDTH]))
        wanted = {ANY: "", SAME: " where the columns are equal"}.get(
            condition, f" where the other column is id {condition}"
        )
        changed = self.listed(words[at + ROW_LIST])
        slot = self.relation(words[at + ROW_SLOT])
        return f"{ROW_KINDS[kind]} by {order}{wanted} into {slot}{changed}"

    def listed(self, number: int, what: str = "") -> str:
        return f", {what}listed as list {number}" if number >= 0 else ""

    # Steps

    def step(self, number: int, at: int) -> Iterator[str]:
        kind = self.words[at]
        if kind == RULE:
            yield from self.rule(number, at)
        elif kind in (EDGE, ORDERED_EDGE):
            yield from self.edge(number, at)
        elif kind == EXTREME_EDGE:
            yield from self.extreme_edge(number, at)
        else:
            yield from self.product(number, at)

    def reads(self, kind: int, reads: int) -> str:
        is_plain = kind in (EDGE, PRODUCT, TOTAL, EXTREME_PRODUCT)
        return USES[reads] if is_plain else NUMBERS[reads]

    def edge(self, number: int, at: int) -> Iterator[str]:
        words, kind = self.words, self.words[at]
        what = "sums" if words[at + EDGE_IS_EXACT] else "live pairs"
        if kind == ORDERED_EDGE:
            what = "live pairs with rows" if words[at + EDGE_IS_EXACT] else "live pairs"
        out, changed = self.relation(words[at + EDGE_OUT]), self.listed(words[at + EDGE_LIST])
        yield f"step {number}, {KINDS[kind]}: {what} into {out}{changed}"
        slot, stream, column = (
            words[at + offset] for offset in (EDGE_BY_OTHER, EDGE_STREAM, EDGE_COLUMN)
        )
        back = f", back by {self.relation(slot)}" if slot else ""
        yield f"  stream {stream} by column {column}{back}"
        reads = self.reads(kind, words[at + EDGE_READS])
        yield self.factor(words[at + EDGE_CHILD], words[at + EDGE_CHANGED], reads)

    def extreme_edge(self, number: int, at: int) -> Iterator[str]:
        words = self.words
        what = "highest" if words[at + EDGE_IS_LAST] else "lowest"
        out, changed = self.relation(words[at + EDGE_OUT]), self.listed(words[at + EDGE_LIST])
        yield f"step {number}, {KINDS[EXTREME_EDGE]}: {what} into {out}{changed}"
        stream, column = words[at + EDGE_STREAM], words[at + EDGE_COLUMN]
        by, own = (self.relation(words[at + offset]) for offset in (EDGE_BY_OTHER, EDGE_BY_OWN))
        yield f"  stream {stream} by column {column}, back by {by}, again by {own}"
        reads = words[at + EDGE_READS]
        if reads == OWN:
            yield "  of its neighbours"
        else:
            kind = "carried" if reads == CARRIED else "the neighbour itself, if present"
            child = self.relation(words[at + EDGE_CHILD])
            yield f"  of {child} ({kind}), changed in list {words[at + EDGE_CHANGED]}"
        yield f"  order of terms by judge {words[at + EDGE_JUDGE]}"

    def factor(self, slot: int, changed: int, reads: str) -> str:
        return f"  times {self.relation(slot)} ({reads}), changed in list {changed}"

    def product(self, number: int, at: int) -> Iterator[str]:
        words, kind = self.words, self.words[at]
        is_exact = words[at + PRODUCT_IS_EXACT]
        if kind in (PRODUCT, TOTAL):
            what = "exact" if is_exact else "0 or 1"
        elif kind == EXTREME_PRODUCT:
            what = "the first factor where all others are present"
        else:
            what = "with rows" if is_exact else "answers"
        out, changed = words[at + PRODUCT_OUT], words[at + PRODUCT_LIST]
        yield (f"step {number}, {KINDS[kind]}: {what} into {self.relation(out)}"
               f"{self.listed(changed)}")  # fmt: skip
        rows = self.rows(words[at + PRODUCT_FACTORS], words[at + PRODUCT_FACTORS_AT], FACTOR_WORDS)
        for row in rows:
            reads = self.reads(kind, words[row + FACTOR_READS])
            yield self.factor(words[row + FACTOR_SLOT], words[row + FACTOR_CHANGED], reads)

    # Rules

    def rule(self, number: int, at: int) -> Iterator[str]:
        words, arity = self.words, self.words[at + RULE_ARITY]
        head = self.regs(words[at + RULE_HEAD_AT], arity)
        changed = self.listed(words[at + RULE_LIST])
        keys = self.listed(words[at + RULE_KEYS_LIST], f"first {words[at + RULE_KEYS]} columns ")
        orders = []
        for order in self.rows(words[at + RULE_ORDERS], words[at + RULE_ORDERS_AT], 1 + arity):
            columns = self.numbers(order + 1, arity)
            by = "" if columns == list(range(arity)) else f" by {columns}"
            orders.append(f"{self.relation(words[order])}{by}")
        targets = words[at + RULE_SORTED], words[at + RULE_SORTED_AT]
        for target in self.rows(*targets, TARGET_WORDS):
            width, columns_at = words[target + TARGET_WIDTH], words[target + TARGET_COLUMNS_AT]
            order_by = describe_columns(self.numbers(columns_at, width))
            orders.append(f"{self.relation(words[target + TARGET_SLOT])} by {order_by}")
        into = "changes of" if words[at + RULE_IS_LISTED_ONLY] else "into"
        summed = ", summed" if words[at + RULE_IS_SUMMED] else ""
        yield f"step {number}, rule: {head} {into} {', '.join(orders)}{summed}{changed}{keys}"
        if words[at + RULE_SYMMETRY_AT]:
            yield from self.symmetry(words[at + RULE_SYMMETRY_AT])
        for delta in range(words[at + RULE_DELTAS]):
            yield from self.delta(delta, words[at + RULE_DELTAS_AT] + DELTA_WORDS * delta)

    def symmetry(self, at: int) -> Iterator[str]:
        words, variables = self.words, self.words[at + SYM_VARIABLES]
        inputs = []
        rows = self.rows(words[at + SYM_INPUTS], words[at + SYM_INPUTS_AT], SYM_INPUT_WORDS)
        for row in rows:
            pair = self.regs(row + SYM_INPUT_FIRST, 2)
            inputs.append(f"{pair} in orbit {words[row + SYM_INPUT_ORBIT]}")
        yield f"  symmetry of {', '.join(inputs)}; ranks by list {words[at + SYM_LIST]}"
        for image in self.rows(words[at + SYM_IMAGES], words[at + SYM_IMAGES_AT], variables):
            yield f"    image {self.regs(image, variables)}"

    def delta(self, number: int, at: int) -> Iterator[str]:
        words, width = self.words, self.words[at + D_ARITY]
        where = "stream" if words[at + D_FROM] == ENTRIES else "list"
        value = f" in {self.relation(words[at + D_SLOT])}" if where == "list" and width == 1 else ""
        use = USES[words[at + D_USE]] + SIDES[words[at + D_SIDE]]
        bound = self.regs(words[at + D_REGS_AT], width)
        yield f"  delta {number}: {where} {words[at + D_NUMBER]} binds {bound} ({use}{value})"
        yield from self.checks("    ", words[at + D_CHECKS], words[at + D_CHECKS_AT])
        for root in self.rows(words[at + D_ROOTS], words[at + D_ROOTS_AT], ROOT_WORDS):
            when = "before" if words[root + ROOT_IS_OLD] else "now"
            slot = self.relation(words[root + ROOT_SLOT])
            below = ", below id 0" if words[root + ROOT_IS_CONSTANT] else ""
            use = self.use(root + ROOT_USE)
            yield f"    w{words[root + ROOT_WORD]} = {slot} {when}{use}{below}"
        for probe in self.rows(words[at + D_PROBES], words[at + D_PROBES_AT], PROBE_WORDS):
            way = self.way(probe + PROBE_IN, probe + PROBE_OUT, probe + PROBE_USE)
            yield f"    probe r{words[probe + PROBE_REG]}: {way}"
        for level in self.rows(words[at + D_LEVELS], words[at + D_LEVELS_AT], LEVEL_WORDS):
            sources = [
                self.way(source + SOURCE_IN, source + SOURCE_OUT, source + SOURCE_USE)
                for source in self.rows(
                    words[level + LEVEL_SOURCES], words[level + LEVEL_SOURCES_AT], SOURCE_WORDS
                )
            ]
            does = "walk" if len(sources) == 1 else "meet"
            if words[level + LEVEL_RANGES]:
                does = "range"
            shown = "" if words[level + LEVEL_IS_SHOWN] else ", summed out"
            yield f"    {does} r{words[level + LEVEL_REG]}: {' and '.join(sources)}{shown}"
            checks_at = words[level + LEVEL_CHECKS_AT]
            yield from self.checks("      ", words[level + LEVEL_CHECKS], checks_at)
            ranges = words[level + LEVEL_RANGES], words[level + LEVEL_RANGES_AT]
            for row in self.rows(*ranges, RANGE_WORDS):
                yield f"      {self.range(row)}"

    def range(self, at: int) -> str:
        words = self.words
        side = SIDES_OF_RANGES[words[at + RANGE_SIDE]]
        value = f"r{words[at + RANGE_REG]}"
        if words[at + RANGE_KIND] != TERMS:
            numbers = np.array([words[at + RANGE_SLOPE], words[at + RANGE_INTERCEPT]], np.int64)
            slope, intercept = numbers.view(np.float64).tolist()
            value = f"{slope:g} * {value} + {intercept:g}"
        return f"{side} {value}"

    def use(self, at: int) -> str:
        found = USES[self.words[at]]
        return f" ({found})" if found else ""

    def way(self, before: int, after: int, use: int) -> str:
        return f"w{self.words[before]} → w{self.words[after]}{self.use(use)}"

    def checks(self, margin: str, count: int, at: int) -> Iterator[str]:
        words = self.words
        for check in self.rows(count, at, CHECK_WORDS):
            regs = self.regs(words[check + CHECK_REGS_AT], words[check + CHECK_COUNT])
            yield f"{margin}if judge {words[check + CHECK_JUDGE]} accepts {regs}"
