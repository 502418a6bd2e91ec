"""Expressions, by precedence climbing: operators at the current level or above, then operands.

>>> from triegs.sparql.reader import Reader
>>> ExpressionParser(Reader("?x + 1 < 2 * ?y", {}, None)).read()
Call(operator='<', arguments=(Call(operator='+', ...), Call(operator='*', ...)))
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from triegs.errors import QueryError
from triegs.sparql.expressions import OPERATORS, evaluate
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Aggregate, Call, Duplicates, Expression, is_variable
from triegs.sparql.reader import AGGREGATES, FUNCTIONS, IRIS, NUMBERS, Reader, name_of
from triegs.sparql.scope import Unknown, conjuncts, limit_scope
from triegs.sparql.values import ExpressionError

#: Operators may nest this deep (``1 + 1 + 1`` nests twice); ``&&`` and ``||`` chains do not nest.
MAX_DEPTH = 100

_OR, _AND, _COMPARISON, _SUM, _PRODUCT = range(5)
_LEVELS = {
    "||": _OR, "&&": _AND, **dict.fromkeys(["=", "!=", "<", ">", "<=", ">=", "IN"], _COMPARISON),
    "NOT": _COMPARISON, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT,
}  # fmt: skip
_NESTED = "inside an aggregate"
_SAME_FUNCTION = {"ISURI": "ISIRI"}


class _Parsed(NamedTuple):
    """An expression, and how deep its operators nest."""

    expression: Expression
    depth: int


def starts_constraint(reader: Reader) -> bool:
    """Whether the current token starts a bracket or a call."""
    token = reader.token
    is_call = token.kind in IRIS and reader.after().text == "("
    return token.text == "(" or is_call or token.word in FUNCTIONS or token.word in AGGREGATES


class ExpressionParser:
    """Reads expressions, and records the variables that they name.

    `no_aggregate` is where aggregates are not allowed, for the error; empty if they are allowed.
    """

    def __init__(self, reader: Reader, no_aggregate: str = "") -> None:
        self.reader = reader
        self.no_aggregate = no_aggregate
        #: The variables outside aggregates, and those inside.
        self.outside: list[Token] = []
        self.inside: list[Token] = []
        self.has_aggregate = False

    def read(self) -> Expression:
        """The longest expression at the current token."""
        return self._read(_OR).expression

    def read_primary(self) -> Expression:
        """A term, a call, or an expression in brackets."""
        return self._primary().expression

    def read_constraint(self, clause: str) -> Expression:
        """What FILTER and HAVING take: an expression in brackets, or a call."""
        if starts_constraint(self.reader):
            return self._primary().expression
        raise self.reader.unexpected(f"'(' or a function after {clause}")

    def _read(self, least: int) -> _Parsed:
        left = self._unary()
        highest = _PRODUCT
        while True:
            operator = self._operator()
            level = _LEVELS.get(operator)
            if level is None or level < least:
                return left
            if level > highest:
                raise self._no_operand()
            token = self.reader.token
            if level <= _AND:
                operands = [left]
                while self._operator() == operator:
                    self.reader.advance()
                    operands.append(self._read(level + 1))
                left = self._chain(operator, operands, token)
            elif operator in ("IN", "NOT"):
                left = self._in(left)
            else:
                self.reader.advance()
                left = self._call(token, operator, [left, self._read(level + 1)])
            # Only && and || may follow a comparison.
            highest = level if level > _COMPARISON else min(level, _AND)

    def _operator(self) -> str:
        """The operator at the current token, which the lexer may have read as IRI or number."""
        token = self.reader.token
        if token.kind is TokenKind.IRI:
            self.reader.split(2 if token.text.startswith("<=") else 1, TokenKind.IRI)
        elif token.kind in NUMBERS and token.text[0] in "+-":
            self.reader.split(1, token.kind)
        return self.reader.token.word

    def _no_operand(self) -> QueryError:
        hint = "combine comparisons with &&, or put one in brackets" if not self._is_sum() else ""
        return self.reader.unexpected("')', && or || after a comparison", hint)

    def _is_sum(self) -> bool:
        return _LEVELS.get(self.reader.token.word, _OR) > _COMPARISON

    def _call(self, token: Token, operator: str, operands: list[_Parsed]) -> _Parsed:
        """A call; an error if operators nest too deep."""
        depth = 1 + max((operand.depth for operand in operands), default=0)
        if depth > MAX_DEPTH:
            hint = "split the expression into several FILTERs, or store some of it as a triple"
            message = f"operators nest deeper than {MAX_DEPTH}"
            raise self.reader.error(message, token, "nesting", hint)
        return _Parsed(Call(operator, tuple(operand.expression for operand in operands)), depth)

    def _chain(self, operator: str, operands: list[_Parsed], token: Token) -> _Parsed:
        """Flatten nested ``&&`` or ``||``, which are associative even with errors."""
        flat: list[_Parsed] = []
        for operand in operands:
            call = operand.expression
            if isinstance(call, Call) and call.operator == operator:
                flat += [_Parsed(argument, operand.depth - 1) for argument in call.arguments]
            else:
                flat.append(operand)
        return self._call(token, operator, flat)

    def _in(self, left: _Parsed) -> _Parsed:
        token = self.reader.token
        operator = "IN"
        if self.reader.token.word == "NOT":
            if self.reader.after().word != "IN":
                self.reader.advance()
                raise self.reader.unexpected("IN after NOT")
            self.reader.advance()
            operator = "NOT IN"
        self.reader.advance()
        self.reader.open("(", "'(' after IN")
        return self._call(token, operator, [left, *self._arguments()[0]])

    def _arguments(self) -> tuple[list[_Parsed], list[Token]]:
        """Comma-separated expressions up to the closing bracket, and the token each starts at."""
        operands: list[_Parsed] = []
        starts: list[Token] = []
        if self.reader.token.text != ")":
            while True:
                starts.append(self.reader.token)
                operands.append(self._read(_OR))
                if not self.reader.skip(","):
                    break
        self.reader.close("')' or an operator")
        return operands, starts

    def _bracketed(self) -> _Parsed:
        self.reader.open("(")
        found = self._read(_OR)
        self.reader.close("')' or an operator")
        return found

    def _unary(self) -> _Parsed:
        token = self.reader.token
        if token.text in ("!", "-", "+"):
            self.reader.advance()
            return self._call(token, token.text, [self._primary()])
        return self._primary()

    def _primary(self) -> _Parsed:
        reader, token = self.reader, self.reader.token
        if token.kind is TokenKind.VARIABLE:
            (self.inside if self.no_aggregate == _NESTED else self.outside).append(token)
            reader.advance()
            return _Parsed(name_of(token), 0)
        if token.text == "(":
            return self._bracketed()
        if token.kind in IRIS and reader.after().text == "(":
            raise reader.refusal("function call", token)
        if reader.is_constant():
            return _Parsed(reader.constant(), 0)
        if token.word in AGGREGATES:
            return self._aggregate()
        if token.word in FUNCTIONS:
            return self._function()
        raise reader.unexpected("an expression")

    def _function(self) -> _Parsed:
        reader = self.reader
        token = reader.advance()
        name = _SAME_FUNCTION.get(token.word, token.word)
        reader.open("(", "'(' after the name of a function")
        if name == "BOUND" and reader.token.kind is not TokenKind.VARIABLE:
            raise reader.unexpected("a variable")
        operands, starts = self._arguments()
        if not OPERATORS[name].allows(len(operands)):
            message = f"{token.word} takes {OPERATORS[name]}, not {len(operands)}"
            raise reader.error(message, token, token.word)
        if name == "BOUND" and not isinstance(operands[0].expression, str):
            raise reader.error("BOUND takes a variable", starts[0], "BOUND")
        if name == "REGEX":
            self._check_pattern([operand.expression for operand in operands[1:]], starts[1])
        return self._call(token, name, operands)

    def _check_pattern(self, arguments: list[Expression], at: Token) -> None:
        """Refuse an invalid constant pattern, which would silently match nothing."""
        is_constant = all(isinstance(a, str) and not is_variable(a) for a in arguments)
        if is_constant and self.reader.refuses_patterns:
            try:
                evaluate(Call("REGEX", ('""', *arguments)), {})
            except ExpressionError as problem:
                raise self.reader.error(f"REGEX: {problem}", at, "REGEX") from None

    def _aggregate(self) -> _Parsed:
        reader, token = self.reader, self.reader.token
        if self.no_aggregate:
            raise reader.error(f"aggregates are not allowed {self.no_aggregate}", token, token.word)
        self.has_aggregate = True
        reader.advance()
        reader.open("(", "'(' after the name of a function")
        distinct = Duplicates.DISTINCT if reader.skip("DISTINCT") else Duplicates.KEEP
        if token.word == "COUNT" and reader.token.text == "*":
            if distinct is Duplicates.DISTINCT:
                raise reader.refusal("COUNT(DISTINCT *)", token)
            reader.advance()
            reader.close()
            return _Parsed(Aggregate("COUNT", None), 1)
        self.no_aggregate = _NESTED
        argument = self._read(_OR)
        self.no_aggregate = ""
        reader.close("')' or an operator")
        return _Parsed(Aggregate(token.word, argument.expression, distinct), argument.depth + 1)


class Condition(NamedTuple):
    """An expression as read, with the name that GROUP BY or SELECT gives it, if any."""

    expression: Expression
    parser: ExpressionParser
    name: Token | None = None

    def limited(
        self, bound: Collection[str], clause: str, unknown: list[Unknown]
    ) -> list[Expression]:
        """The conjuncts where only `bound` is bound; other variables are added to `unknown`."""
        unknown += [Unknown(t, clause) for t in self.parser.outside if name_of(t) not in bound]
        return [limit_scope(each, bound) for each in conjuncts(self.expression)]
