"""A filter over one variable, evaluated for many terms at once, equivalent to `expressions.holds`.

Comparisons of the variable with constants, tests of its kind, and their connectives are vectorised.
Three facts make that exact:

1. Numbers of up to 15 digits compare as doubles do, because doubles keep them distinct and in
   order; with an xsd:double they compare as doubles by definition. Comparing two numbers, or two
   times with zones, is never an error, so connectives are two-valued.
2. An IRI, a blank node or a string without language has no order with a number or a time, and
   equals a constant only if it is that constant. So all terms of one such kind that are not
   constants of the expression have the same result.
3. All other terms are left to `holds`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.sparql.expressions import holds
from triegs.sparql.model import Call, Expression
from triegs.sparql.value_columns import (
    DIGITS,
    read_moments,
    read_numbers,
    take,
    to_mask,
    to_microseconds,
)
from triegs.sparql.values import Moment, Number, Rank, Text, value_of
from triegs.terms.decoder import Terms
from triegs.terms.term import XSD, Kind, canonical_term, parse_term

Truth = NDArray[np.bool_]
#: A vectorised test of numbers or moments.
Test = Callable[[NDArray[Any]], Truth]


class Domain(Enum):
    """The terms that a test applies to; `NAMES` are those of fact 2."""

    NUMBERS = "numbers"
    MOMENTS = "moments"
    NAMES = "names"


#: Up to this many terms, evaluating one by one is faster.
FEW = 16

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_KINDS = ("ISIRI", "ISBLANK", "ISLITERAL", "ISNUMERIC")


class Batch:
    """Evaluates one expression over one variable.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array(words.encode_terms([3, 7, 2.5, "<http://ex/a>"]))
    >>> five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> Batch(Call("<", ("?x", five)), "?x").hold(words.read_terms(ids)).tolist()
    [True, False, True, False]
    """

    def __init__(self, expression: Expression, variable: str) -> None:
        self._expression = expression
        self._variable = variable
        self._constants: set[str] = set()
        self._of_numbers = self._compile(expression, Domain.NUMBERS)
        self._of_moments = self._compile(expression, Domain.MOMENTS)
        self._has_names = self._compile(expression, Domain.NAMES) is not None

    def hold(self, terms: Terms) -> Truth:
        """Whether the filter keeps each term; O(terms), with a Python call per term of fact 3."""
        if self._of_numbers is not None and len(terms.integers) == len(terms.is_integer):
            return self._of_numbers(terms.integers)
        held = np.zeros(len(terms.is_integer), np.bool_)
        if len(terms.integers):
            if self._of_numbers is not None:
                held[terms.is_integer] = self._of_numbers(terms.integers)
            else:
                texts = [f'"{n}"^^<{XSD}integer>' for n in terms.integers.tolist()]
                held[terms.is_integer] = self.hold_each(texts)
        if len(terms.texts):
            held[~terms.is_integer] = self._hold_texts(terms.texts)
        return held

    def hold_each(self, texts: list[str]) -> list[bool]:
        """The same for terms in N-Triples form, one by one; faster for a few."""
        return [holds(self._expression, {self._variable: text}) for text in texts]

    def _hold_texts(self, texts: Any) -> Truth:
        held = np.zeros(len(texts), np.bool_)
        if len(texts) <= FEW:
            held[:] = self.hold_each(texts.to_pylist())
            return held
        is_left = np.ones(len(texts), np.bool_)
        if self._has_names:
            self._hold_names(texts, held, is_left)
        if self._of_numbers is not None and is_left.any():
            rows = np.flatnonzero(is_left)
            numbers = read_numbers(take(texts, rows))
            held[rows[numbers.rows]] = self._of_numbers(numbers.doubles)
            is_left[rows[numbers.rows]] = False
        if self._of_moments is not None and is_left.any():
            rows = np.flatnonzero(is_left)
            moments = read_moments(take(texts, rows))
            held[rows[moments.rows]] = self._of_moments(moments.microseconds)
            is_left[rows[moments.rows]] = False
        if is_left.any():
            rows = np.flatnonzero(is_left)
            held[rows] = self.hold_each(take(texts, rows).to_pylist())
        return held

    def _hold_names(self, texts: Any, held: Truth, is_left: Truth) -> None:
        """Evaluate the first term of each kind; the result holds for all but the constants."""
        is_other = np.ones(len(texts), np.bool_)
        if self._constants:
            is_other[:] = [text not in self._constants for text in texts.to_pylist()]
        for is_kind in (
            pc.starts_with(texts, "<"), pc.starts_with(texts, "_"), pc.ends_with(texts, '"'),
        ):  # fmt: skip
            rows = np.flatnonzero(to_mask(is_kind) & is_other)
            if len(rows):
                held[rows] = self.hold_each([texts[int(rows[0])].as_py()])
                is_left[rows] = False

    # Compiling

    def _compile(self, expression: Expression, domain: Domain) -> Test | None:
        """The test for terms of a domain; None if the facts do not cover the expression.

        For `Domain.NAMES` it matters only whether there is a test.
        """
        if not isinstance(expression, Call):
            return None
        operator, arguments = expression.operator, expression.arguments
        if operator in _COMPARISONS:
            left, right = arguments
            if right == self._variable:
                operator, left, right = _MIRRORED[operator], right, left
            return self._compare(operator, right, domain) if left == self._variable else None
        if operator in ("IN", "NOT IN") and arguments[0] == self._variable:
            tests = _all_known([self._compare("=", a, domain) for a in arguments[1:]])
            is_in = None if tests is None else _any_of(tests)
            return is_in if operator == "IN" else _not(is_in)
        if operator in _KINDS and arguments[0] == self._variable:
            is_numeric = operator == "ISNUMERIC" and domain is Domain.NUMBERS
            return _always(is_numeric or operator == "ISLITERAL")
        if operator == "!":
            return _not(self._compile(arguments[0], domain))
        if operator in ("&&", "||"):
            tests = _all_known([self._compile(a, domain) for a in arguments])
            if tests is not None:
                return _any_of(tests) if operator == "||" else _all_of(tests)
        return None

    def _compare(self, operator: str, constant: Expression, domain: Domain) -> Test | None:
        if not isinstance(constant, str) or constant.startswith("?"):
            return None
        value = value_of(constant)
        if isinstance(value, Number | Moment):
            own = Domain.NUMBERS if isinstance(value, Number) else Domain.MOMENTS
            if domain is own and isinstance(value, Number):
                return _compare_number(_COMPARISONS[operator], value)
            if domain is own and isinstance(value, Moment):
                return _compare_moment(_COMPARISONS[operator], value)
            # In another domain nothing equals it, and an order comparison is an error.
            if domain is Domain.NAMES or operator in ("=", "!="):
                return _always(operator == "!=")
            return None
        is_iri = value is None and parse_term(constant).kind is Kind.IRI
        if operator in ("=", "!=") and (is_iri or isinstance(value, Text)):
            self._constants.add(canonical_term(constant))
            return _always(operator == "!=")
        return None


def _compare_number(compare: Callable[[Any, Any], Any], constant: Number) -> Test | None:
    amount = constant.amount
    if constant.rank is Rank.FLOAT or (isinstance(amount, Decimal) and not _is_short(amount)):
        return None
    if isinstance(amount, int) and not -(2**63) <= amount < 2**63:
        return None
    as_double = float(amount)

    def test(numbers: NDArray[Any]) -> Truth:
        if numbers.dtype == np.int64 and isinstance(amount, int):
            return compare(numbers, amount)  # type: ignore[no-any-return]
        return compare(numbers.astype(np.float64), as_double)  # type: ignore[no-any-return]

    return test


def _is_short(amount: Decimal) -> bool:
    """Whether fact 1 covers a decimal: it is then below all integers that fact 1 leaves out."""
    _, digits, exponent = amount.as_tuple()
    return len(digits) <= DIGITS and -DIGITS <= int(exponent) <= 0


def _compare_moment(compare: Callable[[Any, Any], Any], constant: Moment) -> Test | None:
    microseconds = to_microseconds(constant)
    if microseconds is None:
        return None
    return lambda moments: compare(moments, microseconds)


def _all_known(tests: list[Test | None]) -> list[Test] | None:
    known = [test for test in tests if test is not None]
    return known if len(known) == len(tests) else None


def _always(truth: bool) -> Test:
    return lambda numbers: np.full(len(numbers), truth)


def _not(test: Test | None) -> Test | None:
    return None if test is None else lambda numbers: ~test(numbers)


def _any_of(tests: list[Test]) -> Test:
    def test(numbers: NDArray[Any]) -> Truth:
        truth = np.zeros(len(numbers), np.bool_)
        for one in tests:
            truth |= one(numbers)
        return truth

    return test


def _all_of(tests: list[Test]) -> Test:
    def test(numbers: NDArray[Any]) -> Truth:
        truth = np.ones(len(numbers), np.bool_)
        for one in tests:
            truth &= one(numbers)
        return truth

    return test
