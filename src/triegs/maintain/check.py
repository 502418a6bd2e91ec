"""Recomputes the views of the core in Python from their definitions, and compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from triegs.maintain.kernels.tables import (
    ANY,
    COUNT,
    COUNTS,
    EDGE,
    EXTREME_EDGE,
    EXTREME_PRODUCT,
    ORDERED_EDGE,
    OWN,
    OWN_IF_PRESENT,
    PRESENCE,
    PRODUCT,
    SAME,
    SORTED_TUPLES,
    TOTAL,
    TUPLES,
)
from triegs.maintain.model import LAYOUTS, Check, Delta, Index, Order, Rule, Step, View, is_counts
from triegs.maintain.views import Views
from triegs.sparql.term_order import total_key
from triegs.store.contract import Key, StoreCorrupt
from triegs.store.kernels.blocks import entry_key, room_of
from triegs.store.kernels.layout import FANOUT, HEAD, LOW
from triegs.store.kernels.order_statistics import ANSWERED, BESIDE, SETS
from triegs.store.kernels.relations import tuple_get
from triegs.store.kernels.trie import find_leaf

Rows = dict[Key, int]
Counts = tuple[int, int]  # answers and rows


def check_views(views: Views) -> None:
    """Compare every index with the counts of its label, and every step with its factors; check that
    the unindexed assertions contain no indexed label. Cost: all entries.
    """
    every = views.by_name.values()
    labels = {view.stream.predicate for view in every if isinstance(view, Index)}
    for (predicate, *_), count in views.unindexed.scan():
        if predicate in labels or count <= 0:
            raise StoreCorrupt(f"unindexed: {count} of label {predicate}")
    for name, view in views.by_name.items():
        if name != view.name or view.relation not in views.store.members:
            raise StoreCorrupt(f"{name}: not its name, or not in the store")
        found = dict(view.relation.scan())
        if is_counts(view):
            if any(count <= 0 for count in found.values()):
                raise StoreCorrupt(f"{name}: a count below 1")
        elif isinstance(view, Index):
            compare(name, found, make_index(views, view))
        elif isinstance(view, Step):
            make = make_extreme_edge if view.kind == EXTREME_EDGE else make_step
            compare(name, found, make(views, view))
            if view.kind in LAYOUTS:
                check_counts(views, view)
        elif isinstance(view, Rule):
            compare(name, found, make_rule(views, view))
        elif isinstance(view, Order) and view.of is not None:
            ordered: Rows = {}
            for key, count in view.of.relation.scan():
                row = make_key(views, key, view.columns)
                ordered[row] = ordered.get(row, 0) + count
            compare(name, found, ordered)
        if view.is_summed:
            check_hubs(views, view, {key: (1, count) for key, count in found.items()})


def compare(name: str, found: Rows, expected: Rows) -> None:
    expected = {key: count for key, count in expected.items() if count}
    for key in found.keys() | expected.keys():
        if found.get(key) != expected.get(key):
            raise StoreCorrupt(f"{name}{key}: {found.get(key)} instead of {expected.get(key)}")


def make_key(views: Views, key: Sequence[int], columns: Sequence[int]) -> Key:
    """A tuple in another column order, which may have sort keys."""
    rows = np.array([[*key, 1]], np.int64).T
    return tuple(views.take_columns(rows, columns)[:-1, 0].tolist())


def make_index(views: Views, index: Index) -> Rows:
    """The entries of an index, from the counts of labels and the unindexed assertions."""
    rows: Rows = {}
    for *key, weight in views.read_stream(index.stream).T.tolist():
        if index.kind == TUPLES:
            row = tuple(key[c] for c in index.order)
        elif index.kind == SORTED_TUPLES:
            beside = {ANY: None, SAME: key[index.column]}.get(index.condition, index.condition)
            if beside is not None and key[1 - index.column] != beside:
                continue
            row = make_key(views, key, index.order)
        else:
            first, other = (key * 2)[index.column], (key * 2)[1 - index.column]
            wanted = {ANY: other, SAME: first}.get(index.condition, index.condition)
            if other != wanted:
                continue
            row = (first,) if index.kind == COUNTS else (first, other)
        rows[row] = rows.get(row, 0) + weight
    return rows


def make_rule(views: Views, rule: Rule) -> Rows:
    """The output of a rule: each tuple of its last input, joined with the other inputs."""
    delta = rule.deltas[-1]
    inputs = list(index_inputs(delta))
    checks = [*delta.checks, *(check for level in delta.levels for check in level.checks)]
    rows: Rows = {}
    for *key, count in views.read(delta.seeds).T.tolist():
        bound = dict(zip(delta.variables, key, strict=True))
        weight = count if delta.use == COUNT else 1
        for found, product in extend(inputs, bound, weight):
            if all(is_accepted(views, check, found) for check in checks):
                row = tuple(found[v] for v in rule.head)
                rows[row] = rows.get(row, 0) + product
    return rows


class IndexedInput(NamedTuple):
    """An input by those of its columns whose variables are bound before it is joined."""

    variables: list[int]
    known: list[int]
    entries: dict[Key, Rows]


def index_inputs(delta: Delta) -> Iterator[IndexedInput]:
    """The other inputs of a delta in their order, each indexed once."""
    variables: dict[int, list[int]] = {}
    uses: dict[int, int] = {}
    moves = [*delta.probes, *(move for level in delta.levels for move in level.sources)]
    for move in moves:
        start = max(root.word for root in delta.roots if root.word <= move.before)
        variables.setdefault(start, []).append(move.variable)
        uses[start] = move.use
    bound = set(delta.variables)
    for root in delta.roots:
        columns = variables.get(root.word, [])
        use = uses.get(root.word, root.use)
        known = [number for number, variable in enumerate(columns) if variable in bound]
        entries: dict[Key, Rows] = {}
        for full, count in root.view.relation.scan():
            key = full[root.is_constant :]
            same = entries.setdefault(tuple(key[number] for number in known), {})
            same[key[: len(columns)]] = count if use == COUNT else 1
        bound.update(columns)
        yield IndexedInput(columns, known, entries)


def extend(
    inputs: Sequence[IndexedInput], bound: dict[int, int], weight: int
) -> list[tuple[dict[int, int], int]]:
    """All ways to bind the other variables, one input after the other."""
    found = [(bound, weight)]
    for variables, known, entries in inputs:
        longer = []
        for binding, product in found:
            key = tuple(binding[variables[number]] for number in known)
            for values, count in entries.get(key, {}).items():
                pairs = zip(variables, values, strict=True)
                longer.append(({**binding, **dict(pairs)}, product * count))
        found = longer
    return found


def is_accepted(views: Views, check: Check, binding: Mapping[int, int]) -> bool:
    columns = [np.array([binding[v]]) for v in check.variables]
    return bool(views.judges.judge_columns(check.judge, columns)[0])


def read_factor(view: View) -> dict[int, int]:
    """The value of each key, as a step reads it."""
    values: dict[int, int] = {}
    for (key, *_), count in view.relation.scan():
        values[key] = 1 if view.reads == PRESENCE else count
    return values


def read_counts(views: Views, view: View) -> dict[int, Counts]:
    """The counts of each key, as a step that keeps order statistics reads them."""
    counts: dict[int, Counts] = {}
    words, root = views.store.words, int(views.store.words[view.address])
    for (key, *_), count in view.relation.scan():
        answers, rows = counts.get(key, (0, 0))
        if view.count_kind == BESIDE:
            at = int(find_leaf(words, root, key)) + HEAD + key % FANOUT
            counts[key] = int(words[at + FANOUT]), int(words[at + 2 * FANOUT])
        elif view.count_kind == SETS:
            counts[key] = answers + 1, rows + count
        elif view.count_kind == ANSWERED:
            counts[key] = count, 1
        else:
            counts[key] = 1, count
    return counts


def check_counts(views: Views, step: Step) -> None:
    """Compare the counts of a step with its factors, and those in hubs with their entries."""
    factors = [read_counts(views, view) for view in step.factors]
    expected: dict[int, Counts] = {}
    entries: dict[Key, Counts] = {}
    if step.kind == ORDERED_EDGE:
        for (v, w), weight in step.relation.scan():
            answers, rows = factors[0][w]
            entries[v, w] = answers, weight * rows if step.is_exact else 0
            known = expected.get(v, (0, 0))
            expected[v] = known[0] + answers, known[1] + entries[v, w][1]
    else:
        for (key,), _ in step.relation.scan():
            answers, rows = 1, 1
            for factor in factors:
                answers, rows = answers * factor[key][0], rows * factor[key][1]
            expected[key] = answers, rows if step.is_exact else 0
    found = read_counts(views, step)
    for key in found.keys() | expected.keys():
        if found.get(key) != expected.get(key):
            counts = f"{found.get(key)} instead of {expected.get(key)}"
            raise StoreCorrupt(f"{step.name}({key}): the counts {counts}")
    check_hubs(views, step, entries)


def check_hubs(views: Views, view: View, entries: Mapping[Key, Counts]) -> None:
    """Compare the counts in the hubs of each set of the last column with the entries below."""
    words = views.store.words
    root = int(words[view.address])
    for prefix in {key[:-1] for key in entries}:
        reference = int(tuple_get(words, root, np.array(prefix, np.int64), len(prefix)))
        sum_set(views, view, reference, prefix, entries)


def sum_set(
    views: Views, view: View, reference: int, prefix: Key, entries: Mapping[Key, Counts]
) -> Counts:
    """The counts of a set, with those of its hubs compared on the way."""
    words = views.store.words
    answers = rows = 0
    if reference & 1:
        hub = reference - 1
        if words[hub + 1] >= 0:
            raise StoreCorrupt(f"{view.name}{prefix}: a hub without counts")
        for digit in range(FANOUT):
            at = hub + HEAD + digit
            below = sum_set(views, view, int(words[at]), prefix, entries) if words[at] else (0, 0)
            beside = int(words[at + FANOUT]), int(words[at + 2 * FANOUT])
            if below != beside:
                raise StoreCorrupt(f"{view.name}{prefix}: {beside} in a hub, instead of {below}")
            answers, rows = answers + below[0], rows + below[1]
        return answers, rows
    header = int(words[reference + 1])
    for index in range(header & LOW):
        key = entry_key(words, reference, room_of(header), index)
        more = entries[*prefix, key]
        answers, rows = answers + more[0], rows + more[1]
    return answers, rows


def make_extreme_edge(views: Views, step: Step) -> Rows:
    """The best word of the neighbours of each key."""
    assert step.by_own is not None
    words: dict[int, int] = read_factor(step.factors[0]) if step.factors else {}
    choose = max if step.is_last else min
    found: dict[int, list[int]] = {}
    for (v, w), _ in step.by_own.relation.scan():
        word = w + 1 if step.neighbours == OWN else words.get(w, 0)
        if step.neighbours == OWN_IF_PRESENT and word:
            word = w + 1
        if word:
            found.setdefault(v, []).append(word)

    def rank(word: int) -> tuple[Any, str]:
        return total_key(views.judges.decode(word - 1))

    return {(v,): choose(each, key=rank) for v, each in found.items()}


def make_step(views: Views, step: Step) -> Rows:
    factors = [read_factor(view) for view in step.factors]
    rows: Rows = {}
    if step.kind == EXTREME_PRODUCT:
        return {
            (key,): word for key, word in factors[0].items()
            if all(factor.get(key) for factor in factors[1:])
        }  # fmt: skip
    if step.kind in (EDGE, ORDERED_EDGE):
        assert step.edge is not None
        column = step.edge.column
        for *pair, weight in views.read_stream(step.edge.stream).T.tolist():
            v, w = pair[column], pair[1 - column]
            value = factors[0].get(w, 0)
            if step.is_exact and step.kind == EDGE:
                rows[v,] = rows.get((v,), 0) + weight * value
            elif value:
                rows[v, w] = weight
        return rows
    for key in factors[0]:
        product = 1
        for factor in factors:
            product *= factor.get(key, 0)
        row = () if step.kind == TOTAL else (key,)
        value = product if step.is_exact and step.kind in (PRODUCT, TOTAL) else min(product, 1)
        rows[row] = rows.get(row, 0) + value
    return rows
