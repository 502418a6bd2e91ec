"""ORDER BY: sorts rows of ids, or selects the first of them, with as few terms read as possible.

Rows are compared by the keys of ORDER BY, and in ties by all columns of the head, so that the order
of a snapshot is total and does not depend on how its answers are stored. Each key is ranked only
for rows that all keys before it left tied. Integers are their own ranks; other terms are ranked
once for each distinct id, numbers, times, IRIs and strings without a Python object for each, see
`triegs.sparql.term_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from triegs.read.columns import Columns, Words
from triegs.sparql.expressions import evaluate
from triegs.sparql.model import Direction, Expression, OrderKey, expression_variables
from triegs.sparql.term_order import order_key, rank_keys, rank_terms, rank_texts
from triegs.sparql.values import ExpressionError
from triegs.terms.arrays import INTEGER, Arrays
from triegs.terms.decoder import build_texts, read_term, read_terms
from triegs.terms.values import TermForm

#: The terms of a column's ids.
Load = Callable[[], Arrays]
#: The order of some rows by one key: equal ranks are ties.
Ranker = Callable[[Words], Words]


def no_terms() -> Arrays:
    """For readers that do not sort."""
    raise AssertionError("this reader has no terms to sort by")


class RowOrder:
    """The order of one query's rows: columns of ids, in which -1 is unbound.

    `names` are the columns, of which the first `width` are those of the head; `loads` has the
    terms of each.
    """

    def __init__(
        self, keys: Sequence[OrderKey], names: Sequence[str], loads: Sequence[Load], width: int
    ) -> None:
        self._loads = loads
        self._column_of: Mapping[str, int] = {name: i for i, name in enumerate(names)}
        self._rankers = [self._rank_by(key) for key in keys]
        for column in range(width):
            if OrderKey(names[column]) not in keys:
                self._rankers.append(self._value_ranker(column))
            self._rankers.append(self._term_ranker(column))

    def sort(self, ids: Words, counts: Words, most: int | None = None) -> Columns:
        """The rows in order, or the first `most` of them. Cost: O(n log n) for keys that are
        distinct; with `most`, later keys cost only the rows that are still in question.
        """
        order = self._find_order(ids, most)
        return ids[:, order], counts[order]

    def _find_order(self, ids: Words, most: int | None) -> Words:
        order = np.arange(ids.shape[1])
        #: The position of the first row that is tied with each row.
        start = np.zeros(len(order), np.int64)
        if most == 0:
            return order[:0]
        for rank in self._rankers:
            sizes = np.bincount(start, minlength=len(start))
            tied = np.flatnonzero(sizes[start] > 1)
            if not len(tied):
                break
            ranks = rank(ids[:, order[tied]])
            if most is not None and most < len(tied) == len(order) and start[-1] == 0:
                kept = ranks <= np.partition(ranks, most - 1)[most - 1]
                order, start, ranks = order[kept], start[kept], ranks[kept]
                tied = np.arange(len(order))
            by_rank = np.lexsort((ranks, start[tied]))
            order[tied] = order[tied[by_rank]]
            start[tied] = _find_starts(start[tied], ranks[by_rank], tied)
            if most is not None:
                kept = start < most
                order, start = order[kept], start[kept]
        return order[:most]

    def _rank_by(self, key: OrderKey) -> Ranker:
        expression = key.expression
        if isinstance(expression, str) and expression in self._column_of:
            rank = self._value_ranker(self._column_of[expression])
        else:
            rank = self._expression_ranker(expression)
        if key.direction is Direction.ASCENDING:
            return rank
        return lambda ids: ~rank(ids)  # the least integer has no negative

    def _value_ranker(self, column: int) -> Ranker:
        load = self._loads[column]

        def rank(ids: Words) -> Words:
            arrays, words = load(), ids[column]
            if len(words) and words.min() >= 0:
                spans = arrays.spans[words]
                if (spans[:, 1] == INTEGER).all():
                    values: Words = spans[:, 0]  # a span has the value of an integer
                    return values
            return _rank_distinct(words, lambda found: rank_terms(read_terms(arrays, found)))

        return rank

    def _term_ranker(self, column: int) -> Ranker:
        load = self._loads[column]
        return lambda ids: _rank_distinct(
            ids[column], lambda found: rank_texts(build_texts(load(), found))
        )

    def _expression_ranker(self, expression: Expression) -> Ranker:
        """Evaluates once for each distinct combination of its variables."""
        names = [v for v in expression_variables(expression) if v in self._column_of]
        columns = [self._column_of[v] for v in names]

        def rank(ids: Words) -> Words:
            if not columns:
                return np.zeros(ids.shape[1], np.int64)
            distinct, rows = np.unique(ids[columns], axis=1, return_inverse=True)
            arrays = [self._loads[column]() for column in columns]
            keys = []
            for found in distinct.T.tolist():
                binding = {
                    name: read_term(each, i, TermForm.NTRIPLES)
                    for name, each, i in zip(names, arrays, found, strict=True)
                    if i >= 0
                }
                keys.append(order_key(_value(expression, binding)))
            return rank_keys(keys)[rows.reshape(-1)]

        return rank


def _find_starts(groups: Words, ranks: Words, positions: Words) -> Words:
    """Of rows in order, the position of the first one with the same group and rank."""
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = (groups[1:] != groups[:-1]) | (ranks[1:] != ranks[:-1])
    found: Words = positions[is_first][np.cumsum(is_first) - 1]
    return found


def _rank_distinct(ids: Words, rank: Callable[[Words], Words]) -> Words:
    """Rank each distinct id once; unbound comes first."""
    distinct, rows = np.unique(ids, return_inverse=True)
    ranks = np.full(len(distinct), -1, np.int64)
    bound = np.flatnonzero(distinct >= 0)
    if len(bound):
        ranks[bound] = rank(np.ascontiguousarray(distinct[bound], np.int64))
    found: Words = ranks[rows.reshape(-1)]
    return found


def _value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    try:
        return evaluate(expression, binding)
    except ExpressionError:
        return None


def select_first(order: RowOrder, batches: Iterator[Columns], most: int) -> Columns | None:
    """The first `most` rows of all batches, in order; None without rows. Memory: `most` rows and
    one batch, or twice `most` if that is more.
    """
    kept: Columns | None = None
    waiting: list[Columns] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += len(batch[1])
        if size >= most:  # so that a large `most` is not sorted again for each batch
            kept = order.sort(*join_columns([*([] if kept is None else [kept]), *waiting]), most)
            waiting, size = [], 0
    if waiting:
        kept = order.sort(*join_columns([*([] if kept is None else [kept]), *waiting]), most)
    return kept


def join_columns(batches: Sequence[Columns]) -> Columns:
    """The rows of all batches."""
    if len(batches) == 1:
        return batches[0]
    ids = np.concatenate([ids for ids, _ in batches], axis=1)
    return ids, np.concatenate([counts for _, counts in batches])
