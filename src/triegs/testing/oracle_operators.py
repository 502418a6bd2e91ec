"""Operators of the oracle, where rdflib follows Python and not the standard."""

from __future__ import annotations

from types import MethodType
from typing import Any

import rdflib
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.parserutils import value as rdflib_value
from rdflib.plugins.sparql.sparql import SPARQLError

from triegs.testing import oracle_values as values
from triegs.testing.oracle_regex import BadPattern, matches
from triegs.testing.oracle_terms import STRING, number, spell, value_of

BOOLEANS = {each: rdflib.Literal(each) for each in (False, True)}


def follow_standard(expression: Any) -> None:
    """Evaluate operators and REGEX inside an expression by the functions below."""
    if isinstance(expression, list):
        for each in expression:
            follow_standard(each)
    elif isinstance(expression, CompValue):
        if expression.name in OPERATORS:
            expression._evalfn = MethodType(OPERATORS[expression.name], expression)
        follow_standard(list(dict.values(expression)))


def operands(expression: Any) -> list[Any]:
    """The operands, unevaluated: one of them may be an error without being needed."""
    first, others = dict.get(expression, "expr"), dict.get(expression, "other")
    if others is None or others == rdflib.RDF.nil:
        return [first]
    return [first, *others] if isinstance(others, list) else [first, others]


def evaluate_operand(operand: Any, ctx: Any) -> Any:
    found = rdflib_value(ctx, operand)
    if isinstance(found, SPARQLError):
        raise found
    return found


def standard(function: Any) -> Any:
    """Turn the errors of `oracle_values` into those of rdflib."""

    def run(expression: Any, ctx: Any) -> Any:
        try:
            return function(expression, ctx)
        except values.EvaluationError as error:
            raise SPARQLError(str(error)) from None

    return run


@standard
def calculate(expression: Any, ctx: Any) -> Any:
    """``+ - * /`` from left to right."""
    parts = [evaluate_operand(operand, ctx) for operand in operands(expression)]
    found = parts[0]
    for sign, other in zip(dict.get(expression, "op") or (), parts[1:], strict=True):
        found = number(values.calculate(str(sign), value_of(found), value_of(other)))
    return found


@standard
def change_sign(expression: Any, ctx: Any) -> Any:
    found = value_of(evaluate_operand(operands(expression)[0], ctx))
    factor = values.read("-1" if expression.name == "UnaryMinus" else "1", str(rdflib.XSD.integer))
    return number(values.calculate("*", found, factor))


@standard
def compare(expression: Any, ctx: Any) -> Any:
    """``= != < > <= >= IN NOT IN``."""
    sign, items = dict.get(expression, "op"), operands(expression)
    left = evaluate_operand(items[0], ctx)
    if sign is None:
        return left
    if sign in ("IN", "NOT IN"):
        return BOOLEANS[is_among(left, items[1:], ctx) == (sign == "IN")]
    right = evaluate_operand(items[1], ctx)
    if sign in ("=", "!="):
        return BOOLEANS[is_same(left, right) == (sign == "=")]
    order = values.compare(value_of(left), value_of(right))
    wanted = {"<": (-1,), ">": (1,), "<=": (-1, 0), ">=": (0, 1)}[sign]
    return BOOLEANS[order in wanted]


def is_among(wanted: Any, items: list[Any], ctx: Any) -> bool:
    """Whether a term equals one of the list; an error counts only if none does."""
    errors = []
    for item in items:
        try:
            if is_same(wanted, evaluate_operand(item, ctx)):
                return True
        except (SPARQLError, values.EvaluationError) as error:
            errors.append(error)
    if errors:
        raise values.EvaluationError(str(errors[0]))
    return False


def is_same(left: Any, right: Any) -> bool:
    first, second = value_of(left), value_of(right)
    if first is not None and second is not None:
        return values.are_equal(first, second)
    if spell(left) == spell(right):
        return True
    are_literals = isinstance(left, rdflib.Literal) and isinstance(right, rdflib.Literal)
    if are_literals and not (left.language or right.language):
        raise values.EvaluationError("literals without known values")
    return False


def is_true(found: Any) -> bool:
    """The effective boolean value; false for an ill-typed number or boolean."""
    seen = value_of(found)
    kind = str(getattr(found, "datatype", "")).removeprefix(values.XSD)
    if seen is None and (kind in values.NUMERIC or kind == "boolean"):
        return False
    return values.is_true(seen)


def is_met(condition: Any, ctx: Any) -> bool:
    """Whether a filter keeps a solution: an error drops it."""
    try:
        return is_true(evaluate_operand(condition, ctx))
    except (SPARQLError, values.EvaluationError):
        return False


@standard
def negate(expression: Any, ctx: Any) -> Any:
    return BOOLEANS[not is_true(evaluate_operand(operands(expression)[0], ctx))]


@standard
def connect(expression: Any, ctx: Any) -> Any:
    """``&&`` and ``||``: one operand may decide in spite of errors in others."""
    items = operands(expression)
    if len(items) == 1:
        return evaluate_operand(items[0], ctx)
    deciding, errors = expression.name == "ConditionalOrExpression", []
    for item in items:
        try:
            if is_true(evaluate_operand(item, ctx)) == deciding:
                return BOOLEANS[deciding]
        except (SPARQLError, values.EvaluationError) as error:
            errors.append(error)
    if errors:
        raise values.EvaluationError(str(errors[0]))
    return BOOLEANS[not deciding]


def regex(call: Any, _context: Any) -> Any:
    arguments = [call.text, call.pattern] + ([call.flags] if call.flags is not None else [])
    text, *others = arguments
    kinds = (None, STRING)
    is_text = isinstance(text, rdflib.Literal) and (text.language or text.datatype in kinds)
    if not is_text or not all(
        isinstance(o, rdflib.Literal) and o.datatype in kinds and not o.language for o in others
    ):
        raise SPARQLError("REGEX takes strings")
    try:
        return BOOLEANS[matches(str(others[0]), str(text), *map(str, others[1:]))]
    except BadPattern as problem:
        raise SPARQLError(str(problem)) from None


def take_text(call: Any, context: Any) -> Any:
    found = evaluate_operand(dict.get(call, "arg"), context)
    if isinstance(found, rdflib.BNode):
        raise SPARQLError("a blank node has no text")
    return rdflib.Literal(str(found))


def is_numeric(call: Any, context: Any) -> Any:
    found = value_of(evaluate_operand(dict.get(call, "arg"), context))
    return BOOLEANS[isinstance(found, values.Number)]


OPERATORS = {
    "AdditiveExpression": calculate,
    "MultiplicativeExpression": calculate,
    "UnaryMinus": change_sign,
    "UnaryPlus": change_sign,
    "RelationalExpression": compare,
    "UnaryNot": negate,
    "ConditionalAndExpression": connect,
    "ConditionalOrExpression": connect,
    "Builtin_REGEX": regex,
    "Builtin_STR": take_text,
    "Builtin_isNUMERIC": is_numeric,
}
