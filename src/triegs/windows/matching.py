"""Events that match a triple pattern, as columns of keys and values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from triegs.errors import BadOption
from triegs.jit.words import Words
from triegs.sparql.batches import Batch
from triegs.sparql.expressions import holds
from triegs.sparql.model import Atom, Expression, Query, expression_variables, is_variable
from triegs.sparql.value_columns import read_numbers, take
from triegs.sparql.values import Number, Rank, value_of
from triegs.terms.decoder import Terms
from triegs.terms.dictionary import Dictionary

Mask = npt.NDArray[np.bool_]


class Pattern(NamedTuple):
    """A triple pattern with filters, the variables that group its matches, and the variable whose
    value is aggregated, if any.
    """

    atom: Atom
    filters: tuple[Expression, ...]
    group: tuple[str, ...]
    value: str | None

    @property
    def constants(self) -> list[str]:
        return [term for term in self.atom if not is_variable(term)]


def read_pattern(query: Query, group: tuple[str, ...], value: str | None) -> Pattern:
    """The pattern of a parsed ``SELECT *``; raises `BadOption` for more than a triple pattern."""
    if len(query.atoms) != 1 or query.values or query.windows or query.grouping:
        raise BadOption(
            "an aggregate reads one triple pattern, optionally with filters; register a query with "
            "GROUP BY for anything else"
        )
    if query.reads_times:
        raise BadOption("an aggregate cannot read the time of an event; register a query for that")
    atom = query.atoms[0]
    for name in (*group, *(() if value is None else (value,))):
        if name not in atom.variables:
            known = ", ".join(atom.variables)
            raise BadOption(f"the pattern has no variable {name}; its variables are {known}")
    for expression in query.filters:
        if len(expression_variables(expression)) > 1:
            raise BadOption("a filter of an aggregate may use one variable; register a query")
    return Pattern(atom, query.filters, group, value)


class Matches(NamedTuple):
    """Rows that match: their index, keys, values and whether the values are usable; no values if
    none are read.
    """

    rows: Words
    keys: Words
    values: npt.NDArray[Any] | None
    usable: Mask | None


class Matcher:
    """Finds the matches of a pattern among rows ``(change, subject, predicate, object)``.

    >>> words = Dictionary()
    >>> paid = words.encode_one("<http://ex/paid>")
    >>> rows = np.array([[1, words.encode_one(s), paid, words.encode_one(o)]
    ...                  for s, o in (("<http://ex/a>", 5), ("<http://ex/b>", '"x"'))])
    >>> atom = Atom("?who", "<http://ex/paid>", "?v")
    >>> matcher = Matcher(Pattern(atom, (), ("?who",), "?v"), np.float64, words)
    >>> found = matcher.match(rows)
    >>> found.values.tolist(), found.usable.tolist()
    ([5.0, 0.0], [True, False])
    """

    def __init__(
        self,
        pattern: Pattern,
        kind: type[np.int64] | type[np.float64] | None,
        words: Dictionary,
    ) -> None:
        self._words = words
        self._kind = kind
        terms = list(pattern.atom)
        self._constants = [
            (1 + column, words.encode_one(term))
            for column, term in enumerate(terms)
            if not is_variable(term)
        ]
        self._equal = [
            (1 + terms.index(term), 1 + column)
            for column, term in enumerate(terms)
            if is_variable(term) and terms.index(term) < column
        ]
        self._group = [1 + terms.index(name) for name in pattern.group]
        self._value = None if pattern.value is None else 1 + terms.index(pattern.value)
        self._filters: list[tuple[int, Batch]] = []
        self._matches_nothing = False
        for expression in pattern.filters:
            names = expression_variables(expression)
            if names and names[0] in terms:
                self._filters.append((1 + terms.index(names[0]), Batch(expression, names[0])))
            else:
                self._matches_nothing |= not holds(expression, {})

    def match(self, rows: Words) -> Matches:
        """Cost: the rows, and the terms of those that match."""
        mask = np.full(len(rows), not self._matches_nothing)
        for column, term in self._constants:
            mask &= rows[:, column] == term
        for first, second in self._equal:
            mask &= rows[:, first] == rows[:, second]
        found = np.flatnonzero(mask)
        for column, batch in self._filters:
            if len(found):
                distinct, at = np.unique(rows[found, column], return_inverse=True)
                found = found[batch.hold(self._words.read_terms(distinct))[at]]
        keys = rows[found][:, self._group]
        if self._value is None or self._kind is None:
            return Matches(found, keys, None, None)
        terms = self._words.read_terms(rows[found, self._value])
        values, usable = read_values(terms, self._kind)
        return Matches(found, keys, values, usable)


def read_values(
    terms: Terms, kind: type[np.int64] | type[np.float64]
) -> tuple[npt.NDArray[Any], Mask]:
    """The values of terms as doubles or as 64-bit integers, and which terms have one.

    Every number has a double; only integers have an integer.
    """
    values = np.zeros(len(terms.is_integer), kind)
    usable = terms.is_integer.copy()
    values[usable] = terms.integers
    if len(terms.texts) == 0:
        return values, usable
    left = np.flatnonzero(~terms.is_integer)
    texts = terms.texts
    if kind is np.float64:
        numbers = read_numbers(texts)
        values[left[numbers.rows]] = numbers.doubles
        usable[left[numbers.rows]] = True
        is_left = ~usable[left]
        texts, left = take(texts, np.flatnonzero(is_left)), left[is_left]
    for row, text in zip(left.tolist(), texts.to_pylist(), strict=True):
        found = read_value(value_of(text), kind)
        if found is not None:
            values[row], usable[row] = found, True
    return values, usable


def read_value(value: object, kind: type[np.int64] | type[np.float64]) -> int | float | None:
    """A number of the kind; None if there is none."""
    if not isinstance(value, Number):
        return None
    if kind is np.float64:
        try:
            return float(value.amount)
        except OverflowError:  # an integer of more than 300 digits
            return None
    is_word = value.rank is Rank.INTEGER and -(2**63) <= value.amount < 2**63
    return int(value.amount) if is_word else None
