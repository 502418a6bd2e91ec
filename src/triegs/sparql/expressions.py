r"""Expressions evaluated over one binding, by SPARQL 1.1, section 17.

Terms are N-Triples strings. An evaluation error is the exception
:class:`~triegs.sparql.values.ExpressionError`, which never leaves the package: a filter with an
error drops its row, a column with an error is unbound.

>>> from triegs.sparql.model import Call
>>> holds(Call("<", ("?x", '"7"^^<http://www.w3.org/2001/XMLSchema#integer>')),
...       {"?x": '"5.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'})
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from triegs.sparql.model import Aggregate, Call, Expression, is_variable
from triegs.sparql.values import (
    NUMERIC_DATATYPES,
    ExpressionError,
    Number,
    Rank,
    Text,
    boolean_term,
    calculate,
    compare,
    number_term,
    same_value,
    value_of,
)
from triegs.sparql.xpath_regex import compile_regex
from triegs.terms.term import XSD, Kind, Term, literal, parse_term

Binding = Mapping[str, str]


class Arity(NamedTuple):
    """How many arguments an operator takes; ``most`` is None for any number."""

    least: int
    most: int | None
    is_function: bool = False

    def allows(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return "1 argument" if self.least == 1 else f"{self.least} arguments"
        return f"{self.least} to {self.most} arguments"


#: Every operator that a :class:`~triegs.sparql.model.Call` may name.
OPERATORS: dict[str, Arity] = {
    "||": Arity(2, None),
    "&&": Arity(2, None),
    "!": Arity(1, 1),
    "=": Arity(2, 2),
    "!=": Arity(2, 2),
    "<": Arity(2, 2),
    ">": Arity(2, 2),
    "<=": Arity(2, 2),
    ">=": Arity(2, 2),
    "IN": Arity(1, None),
    "NOT IN": Arity(1, None),
    "+": Arity(1, 2),
    "-": Arity(1, 2),
    "*": Arity(2, 2),
    "/": Arity(2, 2),
    "BOUND": Arity(1, 1, is_function=True),
    "ISIRI": Arity(1, 1, is_function=True),
    "ISBLANK": Arity(1, 1, is_function=True),
    "ISLITERAL": Arity(1, 1, is_function=True),
    "ISNUMERIC": Arity(1, 1, is_function=True),
    "STR": Arity(1, 1, is_function=True),
    "LANG": Arity(1, 1, is_function=True),
    "LANGMATCHES": Arity(2, 2, is_function=True),
    "DATATYPE": Arity(1, 1, is_function=True),
    "REGEX": Arity(2, 3, is_function=True),
    "CONTAINS": Arity(2, 2, is_function=True),
    "STRSTARTS": Arity(2, 2, is_function=True),
    "STRENDS": Arity(2, 2, is_function=True),
    "SAMETERM": Arity(2, 2, is_function=True),
    # A variable that nothing in its scope binds; always an error, except inside BOUND.
    "unbound": Arity(0, 0),
}

UNBOUND = Call("unbound", ())


def evaluate(expression: Expression, binding: Binding) -> str:
    """The value of an expression under a binding; :class:`ExpressionError` if it has none.

    >>> evaluate(Call("STR", ("?x",)), {"?x": "<http://ex/a>"})
    '"http://ex/a"'
    """
    if isinstance(expression, str):
        if not is_variable(expression):
            return expression
        if expression not in binding:
            raise ExpressionError(f"{expression} is unbound")
        return binding[expression]
    if isinstance(expression, Aggregate):
        raise ExpressionError("an aggregate has no value for one row")
    return _EVALUATORS[expression.operator](expression.arguments, binding)


def holds(expression: Expression, binding: Binding) -> bool:
    """Whether a filter keeps the row: its effective boolean value, False on an error."""
    try:
        return effective_boolean(evaluate(expression, binding))
    except ExpressionError:
        return False


def effective_boolean(term: str) -> bool:
    """The truth of a term (section 17.2.2); :class:`ExpressionError` if it has none.

    >>> effective_boolean('"0.0"^^<http://www.w3.org/2001/XMLSchema#double>')
    False
    """
    value = value_of(term)
    if isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return bool(value.amount == value.amount and value.amount != 0)
    if isinstance(value, Text):
        return value.text != ""
    parts = parse_term(term)
    if parts.datatype in NUMERIC_DATATYPES or parts.datatype == XSD + "boolean":
        return False
    raise ExpressionError("this term is neither true nor false")


# Logic

Arguments = tuple[Expression, ...]
Evaluator = Callable[[Arguments, Binding], str]


def _truth(expression: Expression, binding: Binding) -> bool | None:
    """True, False, or None for an error."""
    try:
        return effective_boolean(evaluate(expression, binding))
    except ExpressionError:
        return None


def _decide(deciding: bool) -> Evaluator:
    """``||`` (decided by True) and ``&&`` (decided by False); a decision overrides errors."""

    def evaluator(arguments: Arguments, binding: Binding) -> str:
        erred = False
        for argument in arguments:
            truth = _truth(argument, binding)
            if truth is deciding:
                return boolean_term(deciding)
            erred = erred or truth is None
        if erred:
            raise ExpressionError("an argument of a connective is an error")
        return boolean_term(not deciding)

    return evaluator


def _not(arguments: Arguments, binding: Binding) -> str:
    return boolean_term(not effective_boolean(evaluate(arguments[0], binding)))


def _is_in(arguments: Arguments, binding: Binding) -> bool:
    erred = False
    wanted = evaluate(arguments[0], binding)
    for argument in arguments[1:]:
        try:
            if same_value(wanted, evaluate(argument, binding)):
                return True
        except ExpressionError:
            erred = True
    if erred:
        raise ExpressionError("an element of the list cannot be compared")
    return False


def _bound(arguments: Arguments, binding: Binding) -> str:
    """BOUND, also of an expression: a name in GROUP BY is bound if its expression has a value."""
    try:
        evaluate(arguments[0], binding)
    except ExpressionError:
        return boolean_term(False)
    return boolean_term(True)


def _unbound(_arguments: Arguments, _binding: Binding) -> str:
    raise ExpressionError("no variable of this name is bound here")


# Comparison and arithmetic


def _ordered(accepted: tuple[int, ...]) -> Evaluator:
    def evaluator(arguments: Arguments, binding: Binding) -> str:
        left = value_of(evaluate(arguments[0], binding))
        right = value_of(evaluate(arguments[1], binding))
        if left is None or right is None:
            raise ExpressionError("these terms have no order")
        return boolean_term(compare(left, right) in accepted)

    return evaluator


def _number(expression: Expression, binding: Binding) -> Number:
    value = value_of(evaluate(expression, binding))
    if not isinstance(value, Number):
        raise ExpressionError("not a number")
    return value


def _arithmetic(operator: str) -> Evaluator:
    def evaluator(arguments: Arguments, binding: Binding) -> str:
        numbers = [_number(argument, binding) for argument in arguments]
        if len(numbers) == 1:
            only = numbers[0]
            minus_one = Number(Rank.INTEGER, -1 if operator == "-" else 1)
            return number_term(calculate("*", only, minus_one))
        return number_term(calculate(operator, *numbers))

    return evaluator


# Functions on terms: the arguments are evaluated first

Function = Callable[..., str]


def _strict(function: Function) -> Evaluator:
    """A function that needs the values of all its arguments."""

    def evaluator(arguments: Arguments, binding: Binding) -> str:
        return function(*[evaluate(argument, binding) for argument in arguments])

    return evaluator


def _is_kind(kind: Kind) -> Evaluator:
    return _strict(lambda term: boolean_term(parse_term(term).kind is kind))


def _literal_parts(term: str) -> Term:
    parts = parse_term(term)
    if parts.kind is not Kind.LITERAL:
        raise ExpressionError("not a literal")
    return parts


def _str(term: str) -> str:
    parts = parse_term(term)
    if parts.kind is Kind.BLANK:
        raise ExpressionError("a blank node has no string form")
    return literal(parts.lexical)


def _text(term: str) -> Text:
    value = value_of(term)
    if not isinstance(value, Text):
        raise ExpressionError("not a string")
    return value


def _simple(term: str) -> str:
    text = _text(term)
    if text.language:
        raise ExpressionError("a string with a language tag is not allowed here")
    return text.text


def _language_matches(tag: str, wanted: str) -> str:
    language, pattern = _simple(tag).lower(), _simple(wanted).lower()
    if pattern == "*":
        return boolean_term(language != "")
    return boolean_term(language == pattern or language.startswith(pattern + "-"))


def _regex(text: str, pattern: str, flags: str = '""') -> str:
    compiled = compile_regex(_simple(pattern), _simple(flags))
    return boolean_term(compiled.matches(_text(text).text))


def _compatible(test: Callable[[str, str], bool]) -> Evaluator:
    """A test on two strings; the second has no language tag, or the same as the first."""

    def function(first: str, second: str) -> str:
        whole, part = _text(first), _text(second)
        if part.language and part.language != whole.language:
            raise ExpressionError("the language tags of the two strings differ")
        return boolean_term(test(whole.text, part.text))

    return _strict(function)


_EVALUATORS: dict[str, Evaluator] = {
    "||": _decide(True),
    "&&": _decide(False),
    "!": _not,
    "=": _strict(lambda a, b: boolean_term(same_value(a, b))),
    "!=": _strict(lambda a, b: boolean_term(not same_value(a, b))),
    "<": _ordered((-1,)),
    ">": _ordered((1,)),
    "<=": _ordered((-1, 0)),
    ">=": _ordered((0, 1)),
    "IN": lambda arguments, binding: boolean_term(_is_in(arguments, binding)),
    "NOT IN": lambda arguments, binding: boolean_term(not _is_in(arguments, binding)),
    **{operator: _arithmetic(operator) for operator in "+-*/"},
    "BOUND": _bound,
    "ISIRI": _is_kind(Kind.IRI),
    "ISBLANK": _is_kind(Kind.BLANK),
    "ISLITERAL": _is_kind(Kind.LITERAL),
    "ISNUMERIC": _strict(lambda term: boolean_term(isinstance(value_of(term), Number))),
    "STR": _strict(_str),
    "LANG": _strict(lambda term: literal(_literal_parts(term).language)),
    "LANGMATCHES": _strict(_language_matches),
    "DATATYPE": _strict(lambda term: f"<{_literal_parts(term).datatype}>"),
    "REGEX": _strict(_regex),
    "CONTAINS": _compatible(lambda whole, part: part in whole),
    "STRSTARTS": _compatible(str.startswith),
    "STRENDS": _compatible(str.endswith),
    "SAMETERM": _strict(lambda a, b: boolean_term(a == b)),
    "unbound": _unbound,
}
