"""Numbers as digits: the relation that turns a count into an exact sum.

`Digits` is a relation ``(term, digit number) -> digit``. The sum of a variable is the count of the
answers with the digits of the variable multiplied in: one 64-bit number for each digit that occurs,
exact whatever the order and history of the values. A number is the sum of its digits times the
weights of their numbers:

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
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from triegs.jit.words import Words
from triegs.maintain.kernels.fill import fill_tuples
from triegs.maintain.kernels.tables import COUNT
from triegs.maintain.model import DigitView, View, find_address
from triegs.sparql.aggregates import finish_sum
from triegs.sparql.values import ExpressionError, Number, Rank, value_of
from triegs.store.packed import PackedStore
from triegs.terms.decoder import Terms

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
    place = SMALL
    while rest:
        part, rest = divmod(rest * _PART, 1)
        found += [(place, sign * int(part))] if part else []
        place += 1
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


def weight_of(place: int) -> Fraction:
    """The weight of a digit number; 0 for one that counts a kind of terms."""
    if place == WHOLE:
        return Fraction(1)
    if place < BINARY:
        return Fraction(0)
    if place < LARGE:
        return Fraction(2 ** (_LIMB * (place - BINARY)), 2**_LEAST)
    if place < SMALL:
        return Fraction(2 ** (_LIMB * (place - LARGE)))
    return Fraction(1, _PART ** (place - SMALL + 1))


def sum_of(digits: Iterable[tuple[int, int]], divisor: int = 0) -> Number:
    """The number that summed digits stand for, divided by the divisor if there is one.

    Raises `ExpressionError` if one of the terms was no number.

    >>> sum_of([*digits_of('"0.1"^^<http://www.w3.org/2001/XMLSchema#decimal>'), (WHOLE, 2)])
    Number(rank=<Rank.DECIMAL: 1>, amount=Decimal('2.1'))
    """
    exact, rank, unbounded = Fraction(0), Rank.INTEGER, 0.0
    for place, digit in digits:
        if place == ERROR:
            raise ExpressionError("not a number")
        if place == POSITIVE:
            unbounded += math.inf
        elif place == NEGATIVE:
            unbounded -= math.inf
        elif place == NAN:
            unbounded = math.nan
        elif place in _KINDS:
            rank = max(rank, _KINDS[place])
        else:
            exact += digit * weight_of(place)
    return finish_sum(rank, exact, unbounded, divisor)


_KINDS = {place: rank for rank, place in _RANKS.items()}


class Digits:
    """The digits of all terms that sums have met, as a relation of a store.

    Terms are added before an epoch that needs them, and forgotten when their ids are freed. An
    aborted epoch takes back what it added: call `abort` after the store's, and `commit` at
    publication.
    """

    def __init__(self, store: PackedStore, read: Callable[[Words], Terms]) -> None:
        self._store = store
        self._read = read
        self._known: NDArray[np.bool_] = np.zeros(1 << 10, np.bool_)
        #: Ids that were freed: what the relation has of them belongs to other terms.
        self._stale: NDArray[np.bool_] = np.zeros(1 << 10, np.bool_)
        self._view: View | None = None
        self._added: list[Words] = []
        self._cleaned: list[Words] = []

    def make_view(self, name: str) -> View:
        """The relation as a view; it is empty."""
        relation = self._store.create(name, 2)
        return DigitView(name, relation, COUNT)

    def _follow(self, view: View) -> None:
        """Take up a view that is not the last one: a new one, or an old one that an abort restored.
        Zeros have no digits, so to take them for new terms does no harm.
        """
        self._view = view
        self.commit()
        ids = np.array(sorted({key[0] for key, _ in view.relation.scan()}), np.int64)
        self._known = np.zeros(1 << 10, np.bool_)
        self._stale = np.zeros(1 << 10, np.bool_)
        if len(ids):
            self._grow(int(ids[-1]) + 1)
            self._known[ids] = True

    def add(self, view: View, ids: Words) -> None:
        """Add the digits of these terms, if they are not there."""
        if view is not self._view:
            self._follow(view)
        if not len(ids):
            return
        self._grow(int(ids.max()) + 1)
        fresh = np.unique(ids[~self._known[ids]])
        if not len(fresh):
            return
        stale = fresh[self._stale[fresh]]
        rows = [(key, -digit) for term in stale.tolist()
                for key, digit in view.relation.scan((term,))]  # fmt: skip
        columns = [np.array([(*key, digit) for key, digit in rows], np.int64).reshape(-1, 3)]
        terms = self._read(fresh)
        is_usual = terms.is_integer
        usual = np.stack([fresh[is_usual], np.zeros(is_usual.sum(), np.int64), terms.integers], 1)
        # The least integer is no weight: kernels use it for one that does not fit.
        columns.append(usual[(usual[:, 2] != 0) & (usual[:, 2] != LEAST)])
        least = usual[usual[:, 2] == LEAST, 0].tolist()
        other = [(term, *digit) for term in least for digit in _split(LEAST, LARGE)]
        other += [
            (term, *digit)
            for term, text in zip(fresh[~is_usual].tolist(), terms.texts.to_pylist(), strict=True)
            for digit in digits_of(text)
        ]
        columns.append(np.array(other, np.int64).reshape(-1, 3))
        flat = np.ascontiguousarray(np.concatenate(columns).T).reshape(-1)
        count, key, address = len(flat) // 3, np.empty(2, np.int64), find_address(view.relation)

        def fill(words: Words, _: Words) -> None:
            fill_tuples(words, key, address, flat, count, 2)

        self._store.run(fill)
        self._known[fresh], self._stale[stale] = True, False
        self._added.append(fresh)
        self._cleaned.append(stale)

    def forget(self, ids: Words) -> None:
        """Forget freed ids, which may be reused for other terms."""
        ids = ids[ids < len(self._known)]
        self._stale[ids] |= self._known[ids]
        self._known[ids] = False

    def abort(self) -> None:
        for ids in self._added:
            self._known[ids] = False
        for ids in self._cleaned:
            self._stale[ids] = True
        self.commit()

    def commit(self) -> None:
        self._added.clear()
        self._cleaned.clear()

    def _grow(self, least: int) -> None:
        if least > len(self._known):
            size = 1 << (least - 1).bit_length()
            self._known = np.concatenate([self._known, np.zeros(size - len(self._known), np.bool_)])
            self._stale = np.concatenate([self._stale, np.zeros(size - len(self._stale), np.bool_)])
