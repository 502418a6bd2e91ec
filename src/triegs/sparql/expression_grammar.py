"""Expressions: text to :data:`~triegs.sparql.model.Expression`.

Operators are read by precedence climbing, so a plain bracket costs a few Python frames instead
of one per precedence level.
"""

from __future__ import annotations

from typing import NamedTuple

from triegs.sparql.cursor import Cursor
from triegs.sparql.expressions import OPERATORS, Arity, evaluate
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Aggregate, Call, Duplicates, Expression, is_variable
from triegs.sparql.refusals import Place, refused_words
from triegs.sparql.values import ExpressionError

#: Operators may nest this deep (``1 + 1 + 1`` nests twice); ``&&`` and ``||`` chains do not nest.
MAX_DEPTH = 100

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "=": 3,
    "!=": 3,
    "<": 3,
    ">": 3,
    "<=": 3,
    ">=": 3,
    "IN": 3,
    "NOT": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
}
_COMPARISON = 3
_SUM = 4
_CHAINED = ("||", "&&")
_SIGNED = (TokenKind.INTEGER, TokenKind.DECIMAL, TokenKind.DOUBLE)
_FUNCTIONS: dict[str, tuple[str, Arity]] = {
    **{name: (name, arity) for name, arity in OPERATORS.items() if arity.is_function},
    "ISURI": ("ISIRI", OPERATORS["ISIRI"]),
}
_REFUSED = refused_words(Place.EXPRESSION)


class Node(NamedTuple):
    """A part of an expression and how deep its operators nest."""

    expression: Expression
    depth: int


class ExpressionParser:
    """Reads one expression and remembers what the caller must check about it."""

    def __init__(self, cursor: Cursor, *, aggregates: str = "") -> None:
        """``aggregates`` says why there may be none; empty if there may."""
        self.cursor = cursor
        self.aggregates: list[Token] = []
        #: The variables that stand outside every aggregate.
        self.outside: list[Token] = []
        self._no_aggregates = aggregates

    def expression(self) -> Expression:
        return self._binary(1).expression

    def constraint(self, what: str) -> Expression:
        """What may follow FILTER or HAVING: a bracketed expression or a call."""
        if not (self.cursor.is_at("(") or self.at_call()):
            raise self.cursor.expected(f"'(' or a function {what}")
        is_iri = self.cursor.is_at_iri()
        found = self._primary().expression
        if is_iri:
            raise self.cursor.expected("'(' after the name of a function")
        return found

    def at_call(self) -> bool:
        """Whether a function or aggregate call starts here."""
        word = self.cursor.token.word
        return (
            word in _FUNCTIONS
            or word in AGGREGATES
            or word in _REFUSED
            or word == "NOT"
            or self.cursor.is_at_iri()
        )

    # Operators

    def _binary(self, lowest: int) -> Node:
        left = self._unary()
        compared = False
        while True:
            token = self.cursor.token
            if token.kind is TokenKind.IRI:
                self.cursor.split_less_than()
                token = self.cursor.token
            operator = token.word
            if token.kind in _SIGNED and token.text[0] in "+-":
                operator = token.text[0]
            level = _PRECEDENCE.get(operator, 0)
            if level < max(lowest, 1) or (compared and level > _COMPARISON):
                return left
            if level == _COMPARISON:
                if compared:
                    hint = "join two comparisons with &&"
                    raise self.cursor.error("comparisons do not chain", token, hint=hint)
                compared = True
                left = self._comparison(left)
            elif operator in _CHAINED:
                left = self._chain(left, operator)
            else:
                self._step_over_operator()
                left = self._call(operator, (left, self._binary(level + 1)), token)

    def _chain(self, first: Node, operator: str) -> Node:
        """``a && b && c`` as one call: both connectives are associative, errors included."""
        token = self.cursor.token
        nodes = [first]
        while self.cursor.accept(operator):
            nodes.append(self._binary(_PRECEDENCE[operator] + 1))
        flat: list[Node] = []
        for node in nodes:
            if isinstance(node.expression, Call) and node.expression.operator == operator:
                flat += [Node(part, node.depth - 1) for part in node.expression.arguments]
            else:
                flat.append(node)
        return self._call(operator, tuple(flat), token)

    def _step_over_operator(self) -> None:
        """Step over an operator, which may be glued to a number: ``?x -1`` is a subtraction."""
        token = self.cursor.token
        if token.kind in _SIGNED:
            self.cursor.token = Token(token.kind, token.text[1:], token.start + 1)
        else:
            self.cursor.advance()

    def _comparison(self, left: Node) -> Node:
        token = self.cursor.advance()
        operator = token.word
        if operator == "NOT":
            self.cursor.expect("IN", "after 'NOT'")
            operator = "NOT IN"
        if operator in ("IN", "NOT IN"):
            return self._call(operator, (left, *self._arguments()), token)
        return self._call(operator, (left, self._binary(_SUM)), token)

    def _call(self, operator: str, nodes: tuple[Node, ...], token: Token) -> Node:
        depth = 1 + max((node.depth for node in nodes), default=0)
        if depth > MAX_DEPTH:
            message = f"operators nest deeper than {MAX_DEPTH}"
            raise self.cursor.error(message, token, "nesting")
        return Node(Call(operator, tuple(node.expression for node in nodes)), depth)

    def _unary(self) -> Node:
        if self.cursor.is_at("!", "+", "-"):
            token = self.cursor.advance()
            return self._call(token.word, (self._primary(),), token)
        return self._primary()

    # Primaries

    def _primary(self) -> Node:
        cursor = self.cursor
        token = cursor.token
        if cursor.is_at("("):
            cursor.advance()
            with cursor.nested():
                inside = self._binary(1)
                cursor.expect(")", "or an operator")
            return inside
        if token.kind is TokenKind.VARIABLE:
            self.outside.append(token)
            return Node(cursor.variable(), 0)
        if cursor.is_at_constant():
            return self._constant_or_function()
        if token.word == "NOT" and cursor.peek().word == "EXISTS":
            raise cursor.refusal("NOT EXISTS")
        cursor.refuse_words(_REFUSED)
        if token.word in AGGREGATES:
            return self._aggregate()
        if token.word in _FUNCTIONS:
            return self._function()
        if token.kind is TokenKind.WORD and cursor.peek().word == "(":
            raise cursor.error(f"unknown function {token}", construct="function")
        raise cursor.expected("an expression")

    def _constant_or_function(self) -> Node:
        token = self.cursor.token
        is_iri = self.cursor.is_at_iri()
        constant = self.cursor.constant()
        if is_iri and self.cursor.is_at("("):
            raise self.cursor.refusal("function call", token)
        return Node(constant, 0)

    def _arguments(self) -> tuple[Node, ...]:
        """A list in round brackets, possibly empty."""
        cursor = self.cursor
        cursor.expect("(")
        with cursor.nested():
            found: list[Node] = []
            if not cursor.is_at(")"):
                found.append(self._binary(1))
                while cursor.accept(","):
                    found.append(self._binary(1))
            cursor.expect(")", "or ','" if found else "")
        return tuple(found)

    def _function(self) -> Node:
        token = self.cursor.advance()
        operator, arity = _FUNCTIONS[token.word]
        if operator == "BOUND":
            self.cursor.expect("(")
            self.outside.append(self.cursor.token)
            node = Node(self.cursor.variable(), 0)
            self.cursor.expect(")")
            return self._call(operator, (node,), token)
        arguments = self._arguments()
        if not arity.allows(len(arguments)):
            message = f"{token.word} takes {arity}, not {len(arguments)}"
            raise self.cursor.error(message, token, construct=operator)
        if operator == "REGEX":
            self._check_pattern(arguments, token)
        return self._call(operator, arguments, token)

    def _check_pattern(self, arguments: tuple[Node, ...], token: Token) -> None:
        """A constant pattern that is wrong would silently match nothing: say so instead."""
        constants = [node.expression for node in arguments[1:]]
        if all(isinstance(part, str) and not is_variable(part) for part in constants):
            try:
                evaluate(Call("REGEX", ('""', *constants)), {})
            except ExpressionError as problem:
                raise self.cursor.error(f"REGEX: {problem}", token, "REGEX") from None

    def _aggregate(self) -> Node:
        cursor = self.cursor
        token = cursor.advance()
        if self._no_aggregates:
            raise cursor.error(f"no aggregate {self._no_aggregates}", token, token.word)
        self.aggregates.append(token)
        cursor.expect("(")
        with cursor.nested():
            distinct = cursor.accept("DISTINCT") is not None
            duplicates = Duplicates.DISTINCT if distinct else Duplicates.KEEP
            if token.word == "COUNT" and cursor.is_at("*"):
                if distinct:
                    raise cursor.refusal("COUNT(DISTINCT *)")
                cursor.advance()
                node = None
            else:
                outside, self.outside = self.outside, []
                self._no_aggregates = "inside an aggregate"
                node = self._binary(1)
                self._no_aggregates = ""
                self.outside = outside
            cursor.expect(")")
        argument = None if node is None else node.expression
        depth = 1 + (0 if node is None else node.depth)
        return Node(Aggregate(token.word, argument, duplicates), depth)
