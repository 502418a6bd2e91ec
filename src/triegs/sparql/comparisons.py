"""Comparisons of two variables, with or without arithmetic, in a normal form."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from triegs.sparql.model import Call, Expression, is_variable
from triegs.sparql.values import Number, Rank, value_of

#: Each operator of comparison, and what it is after swapping the sides.
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: Expressions with larger or smaller factors are left to evaluation: `FACTORS` bounds the error of
#: doubles too small to be exact.
FACTORS = Fraction(2) ** 64
#: Products and sums of doubles below this are finite.
LARGE = 1e307


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left_factor * left + right_factor * right + offset``, compared with 0; or, without
    arithmetic, ``left`` compared with ``right`` as terms of any type.

    `spread` bounds the size of all constants that are added on the way, for the error of doubles;
    `peak` is the largest factor of a variable on the way, for their overflow. `is_coarse` says that
    some constant is an xsd:float, so that sums are rounded to floats, and `is_exact` that none is
    an xsd:double either, so that sums of integers and decimals are not rounded at all.
    """

    operator: str
    left: str
    right: str
    has_arithmetic: bool
    left_factor: Fraction = Fraction(1)
    right_factor: Fraction = Fraction(-1)
    offset: Fraction = Fraction(0)
    spread: Fraction = Fraction(0)
    peak: Fraction = Fraction(1)
    is_coarse: bool = False
    is_exact: bool = True

    @property
    def is_range(self) -> bool:
        """Whether the values that pass are a range: not for inequality, nor for the equality of
        terms, which need no order.
        """
        return self.operator != "!=" and (self.operator != "=" or self.has_arithmetic)

    @property
    def limit(self) -> float:
        """Doubles up to this size do not overflow on the way."""
        return LARGE / float(self.peak + self.spread)

    def solve(self, variable: str) -> Comparison:
        """The same comparison with a variable on the left, whose factor is 1.

        >>> comparison = find_comparison(Call("<", ("?x", Call("*", ("?y", '"2"^^<'
        ...     'http://www.w3.org/2001/XMLSchema#integer>')))))
        >>> solved = comparison.solve("?y")
        >>> solved.operator, solved.right, solved.right_factor
        ('>', '?x', Fraction(-1, 2))
        """
        operator = self.operator
        factor, other, name = self.left_factor, self.right_factor, self.right
        if variable != self.left:
            factor, other, name = other, factor, self.left
        if factor < 0:
            operator = MIRRORED[operator]
        return Comparison(
            operator, variable, name, self.has_arithmetic, Fraction(1), other / factor,
            self.offset / factor, self.spread / abs(factor), self.peak, self.is_coarse,
            self.is_exact,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sum:
    factors: tuple[tuple[str, Fraction], ...] = ()
    offset: Fraction = Fraction(0)
    spread: Fraction = Fraction(0)
    peak: Fraction = Fraction(1)
    #: Of its constants.
    ranks: frozenset[Rank] = frozenset()

    @property
    def fits(self) -> bool:
        sizes = [abs(factor) for _, factor in self.factors]
        return all(1 / FACTORS <= size <= FACTORS for size in sizes) and self.spread <= FACTORS

    def scale(self, by: Fraction, ranks: frozenset[Rank] = frozenset()) -> _Sum:
        factors = tuple((name, factor * by) for name, factor in self.factors)
        peak = max([self.peak, *(abs(factor) for _, factor in factors)])
        spread = self.spread * max(abs(by), Fraction(1))
        return _Sum(factors, self.offset * by, spread, peak, self.ranks | ranks)

    def add(self, other: _Sum) -> _Sum:
        return _Sum(
            self.factors + other.factors, self.offset + other.offset, self.spread + other.spread,
            max(self.peak, other.peak), self.ranks | other.ranks,
        )  # fmt: skip


def find_comparison(expression: Expression) -> Comparison | None:
    """The normal form of a comparison of two variables; None if the expression is anything else.

    >>> find_comparison(Call("<", ("?x", "?y")))
    Comparison(operator='<', left='?x', right='?y', has_arithmetic=False, ...)
    >>> find_comparison(Call("<", ("?x", "?x"))) is None
    True
    """
    if not isinstance(expression, Call) or expression.operator not in MIRRORED:
        return None
    left, right = expression.arguments
    if _is_variable(left) and _is_variable(right):
        assert isinstance(left, str)
        assert isinstance(right, str)
        return Comparison(expression.operator, left, right, False) if left != right else None
    first, second = _read(left), _read(right)
    if first is None or second is None:
        return None
    both = first.add(second.scale(Fraction(-1)))
    if len(both.factors) != 2:
        return None
    (name, factor), (other_name, other_factor) = both.factors
    if name == other_name:
        return None
    return Comparison(
        expression.operator, name, other_name, True, factor, other_factor, both.offset,
        both.spread, both.peak, Rank.FLOAT in both.ranks,
        both.ranks <= {Rank.INTEGER, Rank.DECIMAL},
    )  # fmt: skip


def _is_variable(expression: Expression) -> bool:
    return isinstance(expression, str) and is_variable(expression)


def _read(expression: Expression) -> _Sum | None:
    """An expression as a sum, if it has only variables, numbers, ``+``, ``-`` and products with a
    number.
    """
    if isinstance(expression, str):
        if is_variable(expression):
            return _Sum(((expression, Fraction(1)),))
        value = value_of(expression)
        if not isinstance(value, Number):
            return None
        if isinstance(value.amount, float) and not isfinite(value.amount):
            return None
        amount = Fraction(value.amount)
        found = _Sum((), amount, abs(amount), Fraction(1), frozenset({value.rank}))
        return found if found.fits else None
    if not isinstance(expression, Call) or expression.operator not in ("+", "-", "*"):
        return None
    parts = [_read(argument) for argument in expression.arguments]
    first, last = parts[0], parts[-1]
    if first is None or last is None:
        return None
    sign = Fraction(-1 if expression.operator == "-" else 1)
    if len(parts) == 1:
        return first.scale(sign)
    if expression.operator != "*":
        return first.add(last.scale(sign))
    if first.factors and last.factors:
        return None
    scaled, by = (last, first) if last.factors else (first, last)
    product = scaled.scale(by.offset, by.ranks)
    return product if product.fits else None
