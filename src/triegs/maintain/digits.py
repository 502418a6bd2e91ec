"""Numbers as digits: the relations that turn a count into an exact sum.

`Digits` fills a relation ``term -> whole digit``, and another with all other digits, ``(term, digit
number) -> digit``. The sum of a variable is the count of the answers with the digits of the
variable multiplied in: one 64-bit number for each digit that occurs, exact whatever the order and
history of the values. A number is the sum of its digits times the weights of their numbers:

=============  =====================================================================================
`WHOLE`        1; an integer of 64 bits has only this digit
`LARGE` + i    2**(32 i), of larger integers
`SMALL` + i    10**(-9 (i + 1)), of decimals
`BINARY` + i   2**(32 i - 1074), of floats and doubles
`KINDS` + i    0: they count decimals, floats, doubles, infinities, NaN, and what is no number
=============  =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from triegs.jit.words import Words
from triegs.maintain.kernels.digits import ANY, list_fresh
from triegs.maintain.kernels.fill import fill_tuples
from triegs.maintain.model import View, Watch, find_address
from triegs.sparql.aggregates import finish_sum
from triegs.sparql.values import ExpressionError, Number, Rank, value_of
from triegs.store.packed import PackedStore
from triegs.terms.decoder import Terms

Flags = NDArray[np.bool_]

WHOLE = 0
KINDS = 1
DECIMAL, FLOAT, DOUBLE, POSITIVE, NEGATIVE, NAN, ERROR = range(KINDS, KINDS + 7)
BINARY, LARGE, SMALL = 1 << 4, 1 << 10, 1 << 20
_LIMB, _PART = 32, 10**9
LEAST = -(2**63)
_LEAST = 1074  # doubles are multiples of 2**-1074
_RANKS = {Rank.DECIMAL: DECIMAL, Rank.FLOAT: FLOAT, Rank.DOUBLE: DOUBLE}


def digits_of(term: str) -> list[tuple[int, int]]:
    """The digits of a term that are not zero, with their numbers.

    >>> digits_of('"-7"^^<http://www.w3.org/2001/XMLSchema#integer>'), digits_of('"a"')
    ([(0, -7)], [(7, 1)])
    """
    number = value_of(term)
    if not isinstance(number, Number):
        return [(ERROR, 1)]
    found = [(_RANKS[number.rank], 1)] if number.rank in _RANKS else []
    amount = number.amount
    if isinstance(amount, float):
        if math.isnan(amount):
            found.append((NAN, 1))
        elif math.isinf(amount):
            found.append((POSITIVE if amount > 0 else NEGATIVE, 1))
        else:
            found += _split(int(Fraction(amount) * 2**_LEAST), BINARY)
        return found
    exact = Fraction(amount)
    sign = -1 if exact < 0 else 1
    whole, rest = divmod(abs(exact), 1)
    if whole < 2**63:
        found += [(WHOLE, sign * int(whole))] if whole else []
    else:
        found += _split(sign * int(whole), LARGE)
    position = SMALL
    while rest:
        part, rest = divmod(rest * _PART, 1)
        found += [(position, sign * int(part))] if part else []
        position += 1
    return found


def _split(amount: int, first: int) -> list[tuple[int, int]]:
    sign, left = (-1, -amount) if amount < 0 else (1, amount)
    found = []
    while left:
        digit = left & (1 << _LIMB) - 1
        found += [(first, sign * digit)] if digit else []
        left >>= _LIMB
        first += 1
    return found


def weight_of(position: int) -> Fraction:
    """The weight of a digit number; 0 for one that counts a kind of terms."""
    if position == WHOLE:
        return Fraction(1)
    if position < BINARY:
        return Fraction(0)
    if position < LARGE:
        return Fraction(2 ** (_LIMB * (position - BINARY)), 2**_LEAST)
    if position < SMALL:
        return Fraction(2 ** (_LIMB * (position - LARGE)))
    return Fraction(1, _PART ** (position - SMALL + 1))


def sum_of(digits: Iterable[tuple[int, int]], divisor: int = 0) -> Number:
    """The number that summed digits stand for, divided by the divisor if there is one.

    Raises `ExpressionError` if one of the terms was no number.

    >>> sum_of([*digits_of('"0.1"^^<http://www.w3.org/2001/XMLSchema#decimal>'), (WHOLE, 2)])
    Number(rank=<Rank.DECIMAL: 1>, amount=Decimal('2.1'))
    """
    exact, rank, unbounded = Fraction(0), Rank.INTEGER, 0.0
    for position, digit in digits:
        if position == ERROR:
            raise ExpressionError("not a number")
        if position == POSITIVE:
            unbounded += math.inf
        elif position == NEGATIVE:
            unbounded -= math.inf
        elif position == NAN:
            unbounded = math.nan
        elif position in _KINDS:
            rank = max(rank, _KINDS[position])
        else:
            exact += digit * weight_of(position)
    return finish_sum(rank, exact, unbounded, divisor)


_KINDS = {position: rank for rank, position in _RANKS.items()}


class Digits:
    """The digits of all terms that sums have met, as two relations of a store: the whole digits,
    and all others.

    Terms are added before an epoch that needs them, and forgotten when their ids are freed. An
    aborted epoch takes back what it added: call `abort` after the store's, and `commit` at
    publication.
    """

    def __init__(self, store: PackedStore, read: Callable[[Words], Terms]) -> None:
        self._store = store
        self._read = read
        self._views: tuple[View, View] | None = None
        #: Whether the relations have the digits of an id.
        self._known: Flags = np.zeros(0, np.bool_)
        # What the relations have of an id, perhaps of another term that had it before.
        self._whole: Words = np.zeros(0, np.int64)
        self._has_others: Flags = np.zeros(0, np.bool_)
        #: To be undone: ids, and what the relations had of them.
        self._added: list[tuple[Words, Words, Flags]] = []

    def _follow(self, whole: View, others: View) -> None:
        """Take up views that are not the last ones: new, or restored by an abort."""
        if self._views == (whole, others):
            return
        self._views = whole, others
        self.commit()
        digits = {key[0]: digit for key, digit in whole.relation.scan()}
        wide = {key[0] for key, _ in others.relation.scan()}
        self._known = np.zeros(0, np.bool_)
        self._whole = np.zeros(0, np.int64)
        self._has_others = np.zeros(0, np.bool_)
        self._grow(1 + max([*digits, *wide], default=0))
        self._whole[list(digits)] = list(digits.values())
        self._has_others[list(wide)] = True

    def add(self, whole: View, others: View, ids: Words) -> None:
        """Add the digits of these terms, if they are not there."""
        self._follow(whole, others)
        if len(ids):
            self._grow(int(ids.max()) + 1)
            fresh = np.unique(ids[~self._known[ids]])
            self._known[fresh] = True
            self._add_fresh(whole, others, fresh)

    def add_new(self, whole: View, others: View, flat: Words, watches: Sequence[Watch]) -> None:
        """Add the digits of the terms that the insertions of an epoch bring."""
        self._follow(whole, others)
        fresh, count = np.empty(len(watches) * (flat.size // 4), np.int64), 0
        for predicate, column in watches:
            given = ANY if predicate is None else predicate
            found = list_fresh(flat, given, column, self._known, fresh, count)
            if found < 0:
                self._grow(-found)
                found = list_fresh(flat, given, column, self._known, fresh, count)
            count = found
        self._add_fresh(whole, others, fresh[:count])

    def _add_fresh(self, whole: View, others: View, fresh: Words) -> None:
        """Add the digits of distinct terms that are marked as known but are not there."""
        if not len(fresh):
            return
        old, had_others = self._whole[fresh], self._has_others[fresh]
        self._added.append((fresh, old, had_others))
        new, rows = self._find_digits(fresh)
        # Two changes, because the difference of two digits may not fit.
        self._fill(whole, np.concatenate([fresh, fresh, -old, new]).reshape(2, -1))
        if rows or had_others.any():
            gone = [(*key, -digit) for term in fresh[had_others].tolist()
                    for key, digit in others.relation.scan((term,))]  # fmt: skip
            self._fill(others, np.array(gone + rows, np.int64).reshape(-1, 3).T)
            self._has_others[fresh] = False
            self._has_others[np.array([row[0] for row in rows], np.int64)] = True
        self._whole[fresh] = new

    def _find_digits(self, ids: Words) -> tuple[Words, list[tuple[int, int, int]]]:
        """The whole digit of each term, and rows ``(id, digit number, digit)`` of all others."""
        terms = self._read(ids)
        whole = terms.integers
        if len(whole) == len(ids) and not (whole == LEAST).any():
            return whole, []
        whole = np.zeros(len(ids), np.int64)
        whole[terms.is_integer] = terms.integers
        # The least integer is no weight: kernels use it for one that does not fit.
        is_least = whole == LEAST
        whole[is_least] = 0
        rows = [(term, *digit) for term in ids[is_least].tolist() for digit in _split(LEAST, LARGE)]
        others = np.flatnonzero(~terms.is_integer).tolist()
        for at, text in zip(others, terms.texts.to_pylist(), strict=True):
            for position, digit in digits_of(text):
                if position == WHOLE:
                    whole[at] = digit
                else:
                    rows.append((int(ids[at]), position, digit))
        return whole, rows

    def _fill(self, view: View, columns: Words) -> None:
        """Add to the digits of a relation."""
        arity, count = len(columns) - 1, columns.shape[1]
        if not count:
            return
        flat, key = np.ascontiguousarray(columns).reshape(-1), np.empty(arity, np.int64)
        address = find_address(view.relation)

        def fill(words: Words, _: Words) -> None:
            fill_tuples(words, key, address, flat, count, arity)

        self._store.run(fill)

    def forget(self, ids: Words) -> None:
        """Forget freed ids, which may be reused for other terms."""
        if len(self._known):
            self._known[ids[ids < len(self._known)]] = False

    def abort(self) -> None:
        for ids, whole, has_others in reversed(self._added):
            self._known[ids], self._whole[ids], self._has_others[ids] = False, whole, has_others
        self.commit()

    def commit(self) -> None:
        self._added.clear()

    def _grow(self, least: int) -> None:
        if least > len(self._known):
            more = max(1 << 10, 1 << (least - 1).bit_length()) - len(self._known)
            self._known = np.concatenate([self._known, np.zeros(more, np.bool_)])
            self._whole = np.concatenate([self._whole, np.zeros(more, np.int64)])
            self._has_others = np.concatenate([self._has_others, np.zeros(more, np.bool_)])
