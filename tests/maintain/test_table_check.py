"""Tables as they should be, and what the checker says of all others."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.maintain.graph import Graph

from triegs.maintain.kernels import tables as t
from triegs.maintain.table_check import check_table
from triegs.maintain.table_text import describe_table, is_listing
from triegs.mode import Mode
from triegs.store.contract import StoreCorrupt

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
QUERIES = {
    "triangle": "SELECT * { ?x <a> ?y . ?y <a> ?z . ?z <a> ?x }",
    "labels": "SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?x }",
    "ends": "SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z . FILTER(?x < ?z) }",
    "rows": "SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z VALUES (?x ?z) { (<s> <t>) } }",
    "whole": "SELECT ?x ?p { ?x ?p ?y . ?y <b> ?z . ?y <c> <k> . FILTER(?y > 3) }",
    "three": "SELECT * { ?x ?p ?y . ?y <b> ?z }",
    "total": "ASK { ?x <a> ?y . ?y <b> ?z . ?y <c> ?w . ?w <a> ?v }",
    "bags": "SELECT ?x ?w { ?x <a> ?y . ?y <b> ?z . ?z <c> ?x . ?z <d> ?w . ?w <e> ?v }",
}


@cache
def make_core(mode=Mode.MULTIGRAPH):
    graph = Graph("compiled", mode)
    for text in QUERIES.values():
        graph.ask(text)
    numbered = "SELECT * { ?x <a> ?y . ?y <b> ?z . ?y <c> ?w . ?x <c> ?u }"
    graph.ask(numbered, root="x", keep=["count", "slice"])
    graph.ask(QUERIES["labels"], keep=["count", "slice"])
    graph.ask(QUERIES["three"], keep=["count", "slice"])
    return graph.core


def check(words, mode=Mode.MULTIGRAPH):
    core = make_core(mode)
    check_table(words, core.views, len(core.table.lists) + len(core.table.keys))


class Places:
    """Where the rows of the example's table are."""

    def __init__(self, words):
        self.words = words.tolist()
        self.streams = self.rows(0, t.STREAMS, t.STREAM_ROWS, t.STREAM_WORDS)
        self.stream_rows = [
            row for s in self.streams for row in self.rows(s, t.S_ROWS, t.S_ROWS_AT, t.ROW_WORDS)
        ]
        self.tests = [
            row for s in self.streams for row in self.rows(s, t.S_TESTS, t.S_TESTS_AT, t.TEST_WORDS)
        ]
        self.steps = self.rows(0, t.STEPS, t.STEP_ROWS, t.STEP_WORDS)
        self.rules = [step for step in self.steps if self.words[step] == t.RULE]
        self.deltas = [
            row for rule in self.rules
            for row in self.rows(rule, t.RULE_DELTAS, t.RULE_DELTAS_AT, t.DELTA_WORDS)
        ]  # fmt: skip
        self.sided = [delta for delta in self.deltas if self.words[delta + t.D_SIDE] != t.BOTH]
        symmetries = [self.words[rule + t.RULE_SYMMETRY_AT] for rule in self.rules]
        self.symmetry = max(symmetries)
        self.roots = self.below(t.D_ROOTS, t.D_ROOTS_AT, t.ROOT_WORDS)
        self.probes = self.below(t.D_PROBES, t.D_PROBES_AT, t.PROBE_WORDS)
        self.levels = self.below(t.D_LEVELS, t.D_LEVELS_AT, t.LEVEL_WORDS)
        self.checks = [
            row for level in self.levels
            for row in self.rows(level, t.LEVEL_CHECKS, t.LEVEL_CHECKS_AT, t.CHECK_WORDS)
        ] + [
            row for delta in self.deltas
            for row in self.rows(delta, t.D_CHECKS, t.D_CHECKS_AT, t.CHECK_WORDS)
        ]  # fmt: skip

    def rows(self, at, count, rows_at, size):
        first = self.words[at + rows_at]
        return [first + size * n for n in range(self.words[at + count])]

    def below(self, count, rows_at, size):
        return [row for delta in self.deltas for row in self.rows(delta, count, rows_at, size)]

    def step(self, kind):
        return next(step for step in self.steps if self.words[step] == kind)


def kind_row(kind):
    return lambda p: next(row for row in p.stream_rows if p.words[row] == kind) + t.ROW_KIND


def first(rows, word, wanted=lambda p, row: True):
    return lambda p: next(row for row in getattr(p, rows) if wanted(p, row)) + word


def in_step(kind, word):
    return lambda p: p.step(kind) + word


def seeded(delta_from):
    return lambda p, row: p.words[row + t.D_FROM] == delta_from


def is_test(kind):
    return lambda p, row: p.words[row + t.TEST_KIND] == kind


def has(word, least=1):
    return lambda p, row: p.words[row + word] >= least


def in_symmetry(rows_at, word):
    return lambda p: p.words[p.symmetry + rows_at] + word


#: What is broken: the word, by how much or into what, and the number of the invariant.
BROKEN = {
    "a place beyond the table": (lambda p: t.STEP_ROWS, lambda old: 10**6, 1),
    "a place before the table": (first("deltas", t.D_ROOTS_AT, has(t.D_ROOTS)), lambda old: -3, 1),
    "rows that overlap": (first("deltas", t.D_ROOTS_AT, has(t.D_ROOTS)), lambda old: old - 1, 1),
    "a row that nobody reads": (first("streams", t.S_TESTS, has(t.S_TESTS)),
                                lambda old: old - 1, 1),
    "an input that is no seed": (
        first("rules", t.RULE_DELTAS, lambda p, r: p.words[r + t.RULE_DELTAS] > 1 and not
              p.words[r + t.RULE_SYMMETRY_AT]), lambda old: old - 1, 5),
    "an index by its other column": (lambda p: p.stream_rows[1] + t.ROW_COLUMN,
                                     lambda old: 1 - old, 5),
    "another variable of a seed": (lambda p: p.words[p.deltas[0] + t.D_REGS_AT],
                                   lambda old: 900, 6),
    "a step of no kind": (lambda p: p.steps[0], lambda old: 99, 1),
    "a word behind a step": (in_step(t.EDGE, t.EDGE_LIST + 1), lambda old: 1, 1),
    "no relation": (first("roots", t.ROOT_SLOT), lambda old: old + 1, 2),
    "no unindexed": (lambda p: t.UNINDEXED, lambda old: old + 2, 2),
    "a relation of other width": (in_step(t.EDGE, t.EDGE_OUT), lambda old: 1024, 2),
    "a head in another order": (lambda p: p.words[p.rules[0] + t.RULE_ORDERS_AT] + 1,
                                lambda old: old + 1, 2),
    "a slot written twice": (first("stream_rows", t.ROW_SLOT), lambda old: 1024, 2),
    "a list written twice": (in_step(t.PRODUCT, t.PRODUCT_LIST), lambda old: 0, 3),
    "no list": (in_step(t.EDGE, t.EDGE_LIST), lambda old: 10**4, 3),
    "another one's list": (in_step(t.EDGE, t.EDGE_CHANGED), lambda old: old + 1, 3),
    "a list of seeds that is not yet there": (
        first("deltas", t.D_NUMBER, lambda p, r: seeded(t.LIST)(p, r) and r not in p.sided),
        lambda old: 10**4, 3),
    "sums that are not listed": (
        lambda p: next(r for r in p.stream_rows if p.words[r] == t.COUNTS) + t.ROW_LIST,
        lambda old: -1, 3),
    "a stream that selects from a later one": (
        lambda p: p.streams[-1] + t.S_SOURCE, lambda old: 10**3, 4),
    "a change elsewhere": (lambda p: p.streams[-1] + t.S_CHANGE, lambda old: old - 1, 4),
    "a label without rows": (lambda p: p.streams[0] + t.S_ROWS, lambda old: 0, 4),
    "a column that is not there": (lambda p: p.words[p.streams[-1] + t.S_COLUMNS_AT],
                                   lambda old: 7, 4),
    "a test of no kind": (first("tests", t.TEST_KIND), lambda old: 9, 4),
    "a test of another column": (first("tests", t.TEST_COLUMN, is_test(t.IS_ID)),
                                 lambda old: 3, 4),
    "a row of no kind": (kind_row(t.ADJACENCY), lambda old: 8, 4),
    "a row by a column that is not there": (
        first("stream_rows", t.ROW_COLUMN), lambda old: 2, 4),
    "more labels than streams": (lambda p: t.LABELS, lambda old: 10**3, 4),
    "an edge that leads nowhere back": (in_step(t.EDGE, t.EDGE_COLUMN), lambda old: 1 - old, 5),
    "an edge of another stream": (in_step(t.EDGE, t.EDGE_STREAM), lambda old: old + 1, 5),
    "counts read as presence of pairs": (in_step(t.EDGE, t.EDGE_READS), lambda old: 2, 5),
    "a later input that is read now": (
        first("roots", t.ROOT_IS_OLD, has(t.ROOT_IS_OLD)), lambda old: 0, 5),
    "an earlier input that is read before": (
        first("roots", t.ROOT_IS_OLD, lambda p, r: not p.words[r + t.ROOT_IS_OLD]),
        lambda old: 1, 5),
    "seeds of another stream": (first("deltas", t.D_NUMBER, seeded(t.ENTRIES)),
                                lambda old: old + 1, 5),
    "entries used by their presence": (first("deltas", t.D_USE, seeded(t.ENTRIES)),
                                       lambda old: t.PRESENCE, 5),
    "a probe by a variable that nobody binds": (first("probes", t.PROBE_REG), lambda old: 900, 6),
    "a probe from a word that is not there": (first("probes", t.PROBE_IN), lambda old: 900, 6),
    "a probe into a word that is taken": (
        lambda p: p.probes[0] + t.PROBE_OUT, lambda old: old - 1, 6),
    "a trie read as a set": (first("probes", t.PROBE_IS_TRIE), lambda old: 1 - old, 6),
    "an input that ends early": (
        first("probes", t.PROBE_USE, lambda p, r: p.words[r + t.PROBE_USE] == t.LEADS),
        lambda old: t.COUNT, 6),
    "a variable bound twice": (
        lambda p: p.levels[0] + t.LEVEL_REG, lambda old: 0 if old else 1, 6),
    "a shown variable summed out": (
        first("levels", t.LEVEL_IS_SHOWN), lambda old: 1 - old, 6),
    "a head that is not bound": (lambda p: p.words[p.rules[0] + t.RULE_HEAD_AT],
                                 lambda old: 900, 6),
    "no judge": (first("checks", t.CHECK_JUDGE), lambda old: 900, 7),
    "a judge of fewer variables": (first("checks", t.CHECK_COUNT), lambda old: old - 1, 7),
    "a judge of a selection that is gone": (
        first("tests", t.TEST_VALUE, is_test(t.IS_ACCEPTED)), lambda old: 900, 7),
    "too many columns": (first("rules", t.RULE_ARITY), lambda old: 33, 8),
    "too large a register": (lambda p: p.words[p.deltas[0] + t.D_REGS_AT],
                             lambda old: t.MOST_VALUES, 8),
    "too large a word": (first("roots", t.ROOT_WORD), lambda old: t.MOST_WORDS, 8),
    "a rule of one column with summed hubs": (
        first("rules", t.RULE_IS_SUMMED, lambda p, r: p.words[r + t.RULE_ARITY] < 2),
        lambda old: 1, 2),
    "a renaming that makes another body": (in_symmetry(t.SYM_IMAGES_AT, 3), lambda old: old + 1, 9),
    "an input in no orbit": (in_symmetry(t.SYM_INPUTS_AT, t.SYM_INPUT_ORBIT), lambda old: 5, 9),
    "ranks by another list": (lambda p: p.symmetry + t.SYM_LIST, lambda old: old + 1, 9),
    "another side": (lambda p: p.sided[0] + t.D_SIDE, lambda old: t.NOW, 9),
    "a side without symmetry": (
        first("deltas", t.D_SIDE, lambda p, r: p.words[r + t.D_SIDE] == t.BOTH),
        lambda old: t.NOW, 9),
}  # fmt: skip


@pytest.mark.parametrize("mode", list(Mode))
def test_the_example_is_as_it_should_be(mode):
    check(make_core(mode).table.words, mode)
    places = Places(make_core(mode).table.words)
    kinds = {places.words[step] for step in places.steps}
    assert kinds == set(range(t.EDGE, t.RULE + 1))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_word_is_found(name):
    find, change, number = BROKEN[name]
    words = make_core().table.words.copy()
    at = find(Places(words))
    assert words[at] != change(words[at])
    words[at] = change(words[at])
    with pytest.raises(StoreCorrupt, match=rf"\[{number}\]"):
        check(words)


def test_counts_of_events_are_no_weights():
    """In RDF mode the first row of a label has counts, which no rule or edge may multiply by."""
    core = make_core(Mode.RDF)
    words = core.table.words.copy()
    places = Places(words)
    label = next(s for s in places.streams if places.words[s + t.S_ROWS] > 1)
    counts = places.words[places.words[label + t.S_ROWS_AT] + t.ROW_SLOT]
    column = places.words[places.words[label + t.S_ROWS_AT] + t.ROW_COLUMN]
    weights = next(
        places.words[row + t.ROW_SLOT] for row in places.stream_rows
        if (places.words[row], places.words[row + t.ROW_COLUMN]) == (t.ADJACENCY, column)
        and places.words[row + t.ROW_SLOT] != counts
    )  # fmt: skip
    for root in places.roots:
        if words[root + t.ROOT_SLOT] == weights:
            words[root + t.ROOT_SLOT] = counts
    with pytest.raises(StoreCorrupt, match=r"\[5\]"):
        check(words, Mode.RDF)


@given(st.data())
def test_no_change_of_words_upsets_the_checker(data):
    """Whatever the words are, it says so in its own terms, or the table is another good one."""
    words = make_core().table.words.copy()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        other = data.draw(st.integers(0, len(words) - 1))
        words[at] = data.draw(
            st.sampled_from([-1, 0, 1, 2, 900, 2**40, words[at] + 1, words[other]])
        )
    with suppress(StoreCorrupt):
        check(words)


def list_idle(places):
    """The words that say where nothing is."""
    idle = set()
    pairs = {
        "streams": [(t.S_ROWS, t.S_ROWS_AT), (t.S_TESTS, t.S_TESTS_AT),
                    (t.S_TESTS, t.S_COLUMNS_AT)],
        "deltas": [(t.D_CHECKS, t.D_CHECKS_AT), (t.D_ROOTS, t.D_ROOTS_AT),
                   (t.D_PROBES, t.D_PROBES_AT), (t.D_LEVELS, t.D_LEVELS_AT)],
        "levels": [(t.LEVEL_CHECKS, t.LEVEL_CHECKS_AT)],
    }  # fmt: skip
    for rows, words in pairs.items():
        for row in getattr(places, rows):
            idle |= {row + at for count, at in words if places.words[row + count] == 0}
    for level in places.levels:  # any double is a good bound of a range
        start, count = places.words[level + t.LEVEL_RANGES_AT], places.words[level + t.LEVEL_RANGES]
        for row in range(start, start + t.RANGE_WORDS * count, t.RANGE_WORDS):
            idle |= set(range(row + t.RANGE_SLOPE, row + t.RANGE_WORDS))
    return idle


CHANGES = [1, -1, 64]


@pytest.mark.parametrize("change", CHANGES)
def test_nearly_every_word_matters(change):
    """One word after the other is wrong. What passes means another good table: an id in a test, a
    flag, a register under a name that nobody else has. Without a soak, each word is wrong once.
    """
    good = make_core().table.words
    idle = list_idle(Places(good))
    passed = []
    chosen = range(len(good)) if SOAK else range(CHANGES.index(change), len(good), len(CHANGES))
    for at in chosen:
        words = good.copy()
        words[at] += change
        try:
            check(words)
            passed.append(at)
        except StoreCorrupt:
            pass
    assert len(set(passed) - idle) < len(chosen) // 20, set(passed) - idle


def test_the_text_has_every_row():
    core = make_core()
    text = describe_table(core.table, core.views)
    places = Places(core.table.words)
    lines = text.splitlines()
    assert text == describe_table(core.table, core.views)
    assert sum(line.startswith("stream ") for line in lines) == len(places.streams)
    assert sum(line.startswith("step ") for line in lines) == len(places.steps)
    assert sum(line.startswith("  delta ") for line in lines) == len(places.deltas)
    assert sum(line.startswith("    probe ") for line in lines) == len(places.probes)
    assert sum(" = relation " in line for line in lines) == len(places.roots)
    levels = ("    walk ", "    meet ", "    range ")
    assert sum(line.startswith(levels) for line in lines) == len(places.levels)
    assert sum(" into relation " in line and line.startswith("  ") for line in lines) == len(
        places.stream_rows
    )
    assert sum(line.startswith("  if judge") for line in lines) == sum(
        places.words[row] == t.IS_ACCEPTED for row in places.tests
    )
    assert sum(line.startswith("    ") and "if judge" in line for line in lines) == len(
        places.checks
    )
    for view in core.views.by_name.values():
        assert view.name in text or is_listing(view)
