"""Checks the invariants of a table from its words alone; `triegs.maintain.kernels.tables` defines
the words.

Kernels trust the table: a wrong offset reads another row's words, a wrong register a value of the
last seed. Tests therefore check every table before an epoch reads it. Numbers in brackets refer to
the invariants in docs/maintenance.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.kernels import tables as t
from triegs.maintain.kernels.tables import ANY, COUNT, FIXED, PRESENCE, SAME
from triegs.maintain.kernels.verdicts import COUNT as JUDGE_COUNT
from triegs.maintain.kernels.verdicts import DIRECTORY
from triegs.maintain.kernels.work import MOST_COLUMNS
from triegs.maintain.rule_check import (
    Check,
    DeltaRow,
    Listed,
    RuleCheck,
    RuleRow,
    Shape,
    SymmetryRow,
)  # fmt: skip
from triegs.maintain.views import Views
from triegs.store.contract import StoreCorrupt
from triegs.store.kernels.layout import PLAIN
from triegs.store.kernels.order_statistics import ANSWERED, BESIDE, COUNTED, SETS
from triegs.store.kernels.relations import slot_at

ORDERED_STEPS = (t.ORDERED_EDGE, t.ORDERED_PRODUCT, t.RANKING)


def check_table(words: Words, views: Views, lists: int) -> None:
    """Raise `StoreCorrupt` if a table is not what the kernels expect. Cost: the table, unless the
    same one has passed before.
    """
    shapes = tuple(
        (slot_at(relation.slot), Shape(relation.arity, relation.layout == PLAIN))
        for relation in views.store.members
    )
    verdicts, numbers = views.judges.words, views.judges.numbers
    judges = tuple((n, int(verdicts[verdicts[DIRECTORY + n] + JUDGE_COUNT])) for n in numbers)
    check_words(words.tobytes(), shapes, judges, lists)


@lru_cache(maxsize=1024)  # most tables are of plans that another engine had, too
def check_words(
    words: bytes, shapes: tuple[tuple[int, Shape], ...], judges: tuple[tuple[int, int], ...],
    lists: int,
) -> None:  # fmt: skip
    """As `check_table`, of values; what fails is not remembered."""
    TableCheck(np.frombuffer(words, np.int64).tolist(), dict(shapes), dict(judges), lists).run()


class TableCheck:
    """One pass over a table. Marks all words it reads, so that none is read twice or left out."""

    def __init__(
        self, words: list[int], shapes: Mapping[int, Shape], judges: Mapping[int, int], lists: int
    ) -> None:
        self.words = words
        self.shapes = shapes
        self.judges = judges
        self.most_lists = lists
        self.owners: list[str] = [""] * len(words)
        #: By slot, the contents of its relation; relations that never change are absent.
        self.origins: dict[int, Hashable] = {}
        #: By slot, the source column of each of its columns.
        self.columns: dict[int, tuple[int, ...]] = {}
        self.lists: dict[int, Listed] = {}
        self.claimed: set[int] = set()
        #: By slot of a pair index: its stream and the column of its key.
        self.pairs: dict[int, tuple[int, int]] = {}
        #: The counts that decide whether a deletion is valid.
        self.judging: set[int] = set()
        self.arities: list[int] = []
        self.where = "head"

    def run(self) -> None:
        words = self.words
        self.take(0, t.TABLE_HEAD, "the head")
        labels, wholes, streams, steps = (
            words[at] for at in (t.LABELS, t.WHOLES, t.STREAMS, t.STEPS)
        )
        self.expect(
            labels >= 0 and wholes >= 0 and labels + wholes <= streams, "[4] counts of streams"
        )
        self.expect(words[t.IS_RDF] in (0, 1), "[4] IS_RDF is 0 or 1")
        self.expect(
            self.shape(words[t.UNINDEXED]).arity == 3,
            "[2] the unindexed relation has three columns",
        )
        self.claim_slot(words[t.UNINDEXED], "unindexed", range(3))
        for number, at in enumerate(self.rows(streams, words[t.STREAM_ROWS], t.STREAM_WORDS)):
            self.where = f"stream {number}"
            self.check_stream(number, at)
        # No step may read the output of a later one; to detect that, collect all outputs first.
        rows = self.rows(steps, words[t.STEP_ROWS], t.STEP_WORDS)
        self.later = Counter(slot for at in rows for slot in self.outputs(at))
        for number, at in enumerate(rows):
            self.where = f"step {number}"
            for slot in self.outputs(at):
                self.later[slot] -= 1
            self.check_step(number, at)
        self.where = "table"
        unread = [at for at, owner in enumerate(self.owners) if not owner]
        self.expect(not unread, f"[1] nobody reads the words {unread[:5]}")

    # Words

    def fail(self, message: str) -> None:
        raise StoreCorrupt(f"table, {self.where}: {message}")

    def expect(self, condition: bool, message: str) -> None:
        if not condition:
            self.fail(message)

    def take(self, at: int, count: int, what: str) -> list[int]:
        """Read words that nothing else reads. [1]"""
        is_inside = count >= 0 and 0 <= at <= len(self.words) - count
        self.expect(is_inside, f"[1] {what} at {at}: outside the table")
        if any(self.owners[at : at + count]):
            offset = next(n for n in range(at, at + count) if self.owners[n])
            self.fail(f"[1] word {offset} of {what} belongs to {self.owners[offset]}")
        self.owners[at : at + count] = [f"{self.where}, {what}"] * count
        return self.words[at : at + count]

    def rows(self, count: int, at: int, size: int) -> range:
        """Rows of one kind; returns the offset of each."""
        self.take(at, count * size, "rows")
        return range(at, at + count * size, size)

    def shape(self, slot: int) -> Shape:
        if slot not in self.shapes:
            self.fail(f"[2] no relation has the slot {slot}")
        return self.shapes[slot]

    def expect_arity(self, slot: int, arity: int) -> None:
        found = self.shape(slot).arity
        self.expect(found == arity, f"[2] slot {slot} has {found} columns, not {arity}")

    def expect_judge(self, judge: int, count: int) -> None:
        self.expect(
            self.judges.get(judge) == count, f"[7] judge {judge} over {count} variables: unknown"
        )

    def claim_slot(self, slot: int, origin: Hashable, columns: Iterable[int]) -> None:
        self.expect(slot not in self.origins, f"[3] slot {slot} is written twice")
        self.origins[slot], self.columns[slot] = origin, tuple(columns)

    def claim_list(self, number: int, slot: int, width: int) -> None:
        """A list that a row or step writes. [3]"""
        self.number_list(number)
        self.lists[number] = Listed(slot, width)

    def number_list(self, number: int) -> None:
        self.expect(0 <= number < self.most_lists, f"[3] list {number}: there is none")
        self.expect(number not in self.claimed, f"[3] list {number} is written twice")
        self.claimed.add(number)

    # Streams

    def check_stream(self, number: int, at: int) -> None:
        words = self.words
        labels, wholes = words[t.LABELS], words[t.WHOLES]
        arity, tests = words[at + t.S_ARITY], words[at + t.S_TESTS]
        source, change = words[at + t.S_SOURCE], words[at + t.S_CHANGE]
        rows = self.rows(words[at + t.S_ROWS], words[at + t.S_ROWS_AT], t.ROW_WORDS)
        if number < labels:
            self.expect(arity == 2 and len(rows) > 0, "[4] a label has two columns and a first row")
            self.expect((source, change, tests) == (0, 0, 0), "[4] a label selects nothing")
        elif number < labels + wholes:
            self.expect(arity == 3, "[4] a whole has three columns")
            self.expect((change, tests) == (0, 0), "[4] a whole tests nothing")
        else:
            self.check_selection(number, at)
        self.arities.append(arity)
        for position, row in enumerate(rows):
            self.check_row(number, row, arity, is_first=number < labels and position == 0)

    def check_selection(self, number: int, at: int) -> None:
        words = self.words
        source, arity = words[at + t.S_SOURCE], words[at + t.S_ARITY]
        self.expect(0 <= source < number, f"[4] selects from stream {source}, which comes later")
        width = self.arities[source]
        self.expect(words[at + t.S_CHANGE] == max(width, 2), "[4] wrong offset of the change")
        self.expect(0 <= arity <= 3, "[4] an entry has no room for these columns")
        columns = self.take(words[at + t.S_COLUMNS_AT], arity, "columns")
        is_good = len(set(columns)) == arity and all(0 <= c < width for c in columns)
        self.expect(is_good, f"[4] columns {columns} of {width}")
        for test in self.rows(words[at + t.S_TESTS], words[at + t.S_TESTS_AT], t.TEST_WORDS):
            kind, column, value, columns_at = words[test : test + t.TEST_WORDS]
            tested = [column]
            if kind == t.IS_ACCEPTED:
                tested = self.take(columns_at, column, "tested columns")
                self.expect_judge(value, column)
            elif kind == t.IS_EQUAL:
                tested.append(value)
                self.expect(value != column, "[4] a column is compared with itself")
            else:
                self.expect(kind == t.IS_ID and value >= 0, f"[4] test {kind} of id {value}")
            self.expect(kind == t.IS_ACCEPTED or columns_at == 0, "[1] this test has no columns")
            self.expect(all(0 <= c < width for c in tested), f"[4] tests columns {tested}")

    def check_row(self, number: int, at: int, arity: int, is_first: bool) -> None:
        kind, column, slot, changed, condition, width, key = self.words[at : at + t.ROW_WORDS]
        self.expect(condition >= 0 or condition in (ANY, SAME), f"[4] condition {condition}")
        if kind == t.SORTED_TUPLES:
            order = self.take(column, width, "an order")
            self.check_sorted(slot, order, arity)
            is_good = condition == ANY or (arity == 2 and key in (0, 1))
            self.expect(is_good, "[4] a condition on no column")
            self.expect(changed < 0, "[3] tuples of a stream keep no list")
        elif kind in (t.TUPLES, t.SUMMED_TUPLES):
            order = self.take(column, arity, "an order")
            self.expect(sorted(order) == list(range(arity)), f"[4] {order} is no order of columns")
            self.expect(condition == ANY, "[4] tuples are of all entries")
            self.expect_arity(slot, arity)
            self.expect(changed < 0, "[3] tuples of a stream keep no list")
        else:
            self.expect(t.ADJACENCY <= kind <= t.SUMMED_PAIRS, f"[4] a row of kind {kind}")
            self.expect(0 <= column < arity <= 2, f"[4] a row by column {column} of {arity}")
            order = [column] if kind == t.COUNTS else [column, 1 - column]
            self.expect_arity(slot, len(order))
            self.expect(kind == t.ADJACENCY or changed >= 0, "[3] this row must be listed")
            self.expect(condition == ANY or arity == 2, "[4] a condition on no column")
            if kind != t.COUNTS:
                self.pairs[slot] = number, column
                self.expect(arity == 2 and condition == ANY, "[4] pairs are of all entries")
        self.expect(self.shape(slot).is_plain, "[2] a row is a plain relation")
        is_sorted = kind == t.SORTED_TUPLES
        self.expect(is_sorted or (width, key) == (0, 0), "[4] a width, but no sort keys")
        self.expect(not is_sorted or self.words[t.SORTED_ROWS] == 1, "[4] SORTED_ROWS is 1")
        if is_first:
            self.expect(slot in self.pairs, "[4] deletions are judged by pairs")
            self.judging.add(slot)
        self.claim_slot(slot, ("stream", number, condition), order)
        if changed != -1:
            self.claim_list(changed, slot, 1)

    def check_sorted(self, slot: int, order: list[int], arity: int) -> None:
        """A sorted relation begins with an id or a constant. [2]"""
        self.expect_arity(slot, len(order))
        columns = [c & ~t.SORTED for c in order[order[:1] == [t.CONSTANT] :]]
        self.expect(any(c & t.SORTED for c in order), f"[2] no sort keys in {order}")
        self.expect(not order[0] & t.SORTED, f"[2] {order} begins with a sort key")
        self.expect(all(0 <= c < arity for c in columns), f"[2] {order} of {arity} columns")

    # Steps

    def outputs(self, at: int) -> list[int]:
        """The slots that a step writes."""
        words, kind = self.words, self.words[at]
        if kind in (t.EDGE, t.ORDERED_EDGE, t.EXTREME_EDGE):
            return [words[at + t.EDGE_OUT]]
        if kind != t.RULE:
            return [words[at + t.PRODUCT_OUT]]
        if words[at + t.RULE_IS_LISTED_ONLY]:
            return []
        found = []
        for count, first, width in (
            (words[at + t.RULE_ORDERS], words[at + t.RULE_ORDERS_AT], 1 + words[at + t.RULE_ARITY]),
            (words[at + t.RULE_SORTED], words[at + t.RULE_SORTED_AT], t.TARGET_WORDS),
        ):
            offsets = (first + width * n for n in range(min(count, len(words))))
            found += [words[offset] for offset in offsets if 0 <= offset < len(words)]
        return found

    def check_step(self, number: int, at: int) -> None:
        kind = self.words[at]
        used = {
            t.RULE: t.RULE_SORTED_AT, t.EDGE: t.EDGE_LIST, t.ORDERED_EDGE: t.EDGE_LIST,
            t.EXTREME_EDGE: t.EDGE_JUDGE,
        }  # fmt: skip
        rest = self.words[at + 1 + used.get(kind, t.PRODUCT_FACTORS_AT) : at + t.STEP_WORDS]
        self.expect(not any(rest), "[1] a word after the last one is not zero")
        if kind in (t.EDGE, t.ORDERED_EDGE):
            self.check_edge(number, at)
        elif kind == t.EXTREME_EDGE:
            self.check_extreme_edge(number, at)
        elif kind in (t.EXTREME_PRODUCT, t.PRODUCT, t.TOTAL, t.ORDERED_PRODUCT, t.RANKING):
            self.check_product(number, at)
        elif kind == t.RULE:
            self.check_rule(number, at)
        else:
            self.fail(f"[1] a step of kind {kind}")

    def expect_before(self, slot: int) -> None:
        """A relation is complete when read: from a stream, an earlier step, or fixed. [3]"""
        self.shape(slot)
        self.expect(self.later[slot] == 0, f"[3] slot {slot} is read before it is written")

    def expect_list(self, number: int, slot: int, width: int) -> None:
        """The list of a relation's changes; empty for a relation that never changes. [3]"""
        self.expect(0 <= number < self.most_lists, f"[3] list {number}: there is none")
        found = self.lists.get(number)
        if slot in self.origins:
            self.expect(found == Listed(slot, width), f"[3] list {number} is not of slot {slot}")
        else:
            self.expect(found is None, f"[3] slot {slot} is fixed, list {number} is not")

    def expect_weights(self, slot: int) -> None:
        """In RDF mode the counts of a label are not weights. [5]"""
        is_counts = self.words[t.IS_RDF] == 1 and slot in self.judging
        self.expect(not is_counts, f"[5] slot {slot} has counts of events, no weights")

    def check_factor(self, slot: int, changed: int, reads: int, is_ordered: bool) -> None:
        self.expect_before(slot)
        self.expect_list(changed, slot, 1)
        known = (BESIDE, SETS, COUNTED, ANSWERED) if is_ordered else (PRESENCE, COUNT, FIXED)
        self.expect(reads in known, f"[5] slot {slot} is read as {reads}")
        arity, is_plain = self.shape(slot)
        if is_ordered:
            self.expect(is_plain == (reads != BESIDE), f"[5] slot {slot} is read as {reads}")
        else:
            is_good = arity > 0 if reads == PRESENCE else arity == 1
            self.expect(reads != FIXED or slot not in self.origins, f"[5] slot {slot} is not fixed")
            self.expect(is_good, f"[5] slot {slot} of {arity} columns is read as {reads}")

    def check_edge(self, number: int, at: int) -> None:
        _, stream, column, by_other, reads, child, changed, is_exact, out, own = (
            self.words[at : at + t.EDGE_LIST + 1]
        )  # fmt: skip
        is_ordered = self.words[at] == t.ORDERED_EDGE
        self.expect(column in (0, 1) and is_exact in (0, 1), "[5] a column and a flag are 0 or 1")
        if reads == FIXED and not is_ordered:
            self.expect(by_other == 0, "[5] an index that is not read")
        else:
            self.expect(self.pairs.get(by_other) == (stream, 1 - column),
                        f"[5] slot {by_other} does not lead back in stream {stream}")  # fmt: skip
            self.expect_weights(by_other)
        self.check_factor(child, changed, reads, is_ordered)
        self.expect_arity(out, 1 if is_exact and not is_ordered else 2)
        self.finish_step(number, out, own, is_ordered)

    def check_extreme_edge(self, number: int, at: int) -> None:
        (_, stream, column, by_other, reads, child, changed, is_last, out, own, by_own, judge) = (
            self.words[at : at + t.EDGE_JUDGE + 1]
        )
        self.expect(column in (0, 1) and is_last in (0, 1), "[5] a column and a flag are 0 or 1")
        for slot, by in ((by_other, 1 - column), (by_own, column)):
            self.expect(self.pairs.get(slot) == (stream, by),
                        f"[5] slot {slot} is no index of stream {stream} by {by}")  # fmt: skip
        self.expect(reads in (t.OWN, t.OWN_IF_PRESENT, t.CARRIED), f"[5] words read as {reads}")
        if reads == t.OWN:
            self.expect((child, changed) == (0, -1), "[5] a child that is not read")
        else:
            self.check_factor(child, changed, COUNT if reads == t.CARRIED else PRESENCE, False)
        self.expect(judge in self.judges, f"[7] there is no judge {judge}")
        self.expect_arity(out, 1)
        self.finish_step(number, out, own, False)

    def check_product(self, number: int, at: int) -> None:
        kind, is_exact, out, own, factors, factors_at = (
            self.words[at : at + t.PRODUCT_FACTORS_AT + 1]
        )  # fmt: skip
        is_ordered = kind in ORDERED_STEPS
        self.expect(is_exact in (0, 1) and factors > 0, "[5] a product has a flag and factors")
        for row in self.rows(factors, factors_at, t.FACTOR_WORDS):
            reads, slot, changed = self.words[row : row + t.FACTOR_WORDS]
            self.check_factor(slot, changed, reads, is_ordered)
        self.expect_arity(out, 0 if kind == t.TOTAL else 1)
        if kind == t.TOTAL:  # it has a list that it never writes
            self.number_list(own)
            self.claim_slot(out, ("step", number), ())
        else:
            self.finish_step(number, out, own, is_ordered)

    def finish_step(self, number: int, out: int, own: int, is_ordered: bool) -> None:
        self.expect(self.shape(out).is_plain != is_ordered, f"[2] slot {out}: another layout")
        self.claim_slot(out, ("step", number), range(self.shape(out).arity))
        self.claim_list(own, out, 1)

    # Rules

    def check_rule(self, number: int, at: int) -> None:
        rule = self.read_rule(at)
        RuleCheck(self, rule).run()
        slots = [order[0] for order in rule.orders]
        for order in rule.orders:
            self.expect_arity(order[0], rule.arity)
            self.expect(self.shape(order[0]).is_plain, f"[2] slot {order[0]} is not plain")
            is_order = sorted(order[1:]) == list(range(rule.arity))
            self.expect(is_order, f"[2] {order[1:]} is no order of columns")
        self.expect(len(slots) > 0, "[2] a rule keeps a relation")
        is_first = rule.orders[0][1:] == list(range(rule.arity))
        self.expect(is_first, "[2] the first order is not that of the head")
        if rule.is_listed_only:
            origin = self.origins.get(slots[0])
            streams = [("stream", d.number, ANY) for d in rule.deltas if d.origin == t.ENTRIES]
            is_row = len(slots) == 1 and streams == [origin] and rule.deltas[0].regs == rule.head
            self.expect(is_row, "[5] a rule that lists only is over the entries of its relation")
            self.expect(rule.list >= 0 > rule.keys_list, "[3] a rule that lists only has one list")
        else:
            for slot, *columns in rule.orders:
                self.claim_slot(slot, ("step", number), columns)
        for slot, *columns in rule.sorted:
            self.check_sorted(slot, columns, rule.arity)
            self.expect(self.shape(slot).is_plain, f"[2] slot {slot} is not plain")
            self.expect(not rule.is_listed_only, "[2] sort keys of a rule that lists only")
            self.claim_slot(slot, ("step", number), columns)
        if rule.list != -1:
            self.claim_list(rule.list, slots[0], rule.arity)
        self.expect(rule.keys == 1, "[3] the keys of a list are one column")
        if rule.keys_list != -1:
            self.expect(rule.arity > 1, "[3] the keys of one column are listed as its tuples")
            self.claim_list(rule.keys_list, slots[0], 1)

    def read_rule(self, at: int) -> RuleRow:
        words = self.words
        (_, arity, head_at, deltas, deltas_at, orders, orders_at, own, keys, keys_list, only,
         symmetry_at, is_summed, targets, targets_at) = (
            words[at : at + t.RULE_SORTED_AT + 1]
        )  # fmt: skip
        self.expect(0 <= arity <= MOST_COLUMNS and only in (0, 1), "[8] arity or flag")
        is_fit = is_summed == 0 or (is_summed == 1 and arity > 1 and not only)
        self.expect(is_fit, f"[2] summed as {is_summed}")
        self.expect(targets > 0 or targets_at == 0, "[1] an offset of no sorted relations")
        head = self.take(head_at, arity, "the head")
        offsets = self.rows(orders, orders_at, 1 + arity)
        rows = self.rows(deltas, deltas_at, t.DELTA_WORDS)
        found = [self.read_delta(row) for row in rows]
        targeted = [
            [slot, *self.take(columns_at, width, "an order")]
            for slot, width, columns_at in self.read(targets, targets_at, t.TARGET_WORDS)
        ]
        return RuleRow(
            arity, head, [words[p : p + 1 + arity] for p in offsets], targeted, found, own, keys,
            keys_list, bool(only), self.read_symmetry(symmetry_at),
        )  # fmt: skip

    def read_symmetry(self, at: int) -> SymmetryRow | None:
        if at == 0:
            return None
        inputs, inputs_at, images, images_at, variables, number = (
            self.take(at, t.SYM_WORDS, "a symmetry")
        )  # fmt: skip
        self.expect(variables > 0, "[9] a symmetry of no variables")
        rows = self.read(inputs, inputs_at, t.SYM_INPUT_WORDS)
        return SymmetryRow(rows, self.read(images, images_at, variables), number)

    def read_delta(self, at: int) -> DeltaRow:
        words = self.words
        (origin, number, width, use, slot, regs_at, checks, checks_at, roots, roots_at, probes,
         probes_at, levels, levels_at, side, orbit) = words[at : at + t.DELTA_WORDS]  # fmt: skip
        self.expect(width >= 0, "[1] a delta without columns")
        found = DeltaRow(
            origin, number, use, slot, self.take(regs_at, width, "registers of a seed"),
            self.read_checks(checks, checks_at), self.read(roots, roots_at, t.ROOT_WORDS),
            self.read(probes, probes_at, t.PROBE_WORDS), [], side, orbit,
        )  # fmt: skip
        for level in self.read(levels, levels_at, t.LEVEL_WORDS):
            (reg, count, sources_at, is_shown, level_checks, level_checks_at, ranges,
             ranges_at, is_covered) = level  # fmt: skip
            before = found.levels[-1][4] if found.levels else []
            is_good = is_covered == 0 or (is_covered == 1 and len(before) >= max(level_checks, 1))
            self.expect(is_good, "[7] a check that no range implies is left out")
            sources = self.read(count, sources_at, t.SOURCE_WORDS)
            tests = self.read_checks(level_checks, level_checks_at)
            self.expect(ranges > 0 or ranges_at == 0, "[1] an offset of no ranges")
            bounds = self.read(ranges, ranges_at, t.RANGE_WORDS)
            found.levels.append((reg, is_shown, sources, tests, bounds))
        return found

    def read(self, count: int, at: int, size: int) -> list[list[int]]:
        return [self.words[row : row + size] for row in self.rows(count, at, size)]

    def read_checks(self, count: int, at: int) -> list[Check]:
        found = []
        for judge, size, regs_at in self.read(count, at, t.CHECK_WORDS):
            regs = self.take(regs_at, size, "registers of a check")
            self.expect_judge(judge, size)
            found.append((judge, tuple(regs)))
        return found
