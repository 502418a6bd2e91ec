"""The front end: parses query text into the query model, or raises an error with line and column.

A recursive-descent parser over the tokens of `lexer`. This module reads the clauses of a query,
`pattern_parser` graph patterns, `expression_parser` expressions, `stream_clauses` windows, and
`grouping` combines GROUP BY, aggregates and ORDER BY. Brackets nest at most 64 deep, and nothing
else recurses.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from triegs.sparql.expression_parser import Condition, ExpressionParser, starts_constraint
from triegs.sparql.grouping import Grouper, Ordering, Selected, commutes
from triegs.sparql.iri import is_absolute, resolve
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import (
    Direction,
    Duplicates,
    Form,
    Grouping,
    OrderKey,
    Query,
    Values,
)
from triegs.sparql.pattern_parser import Body, PatternParser, read_values
from triegs.sparql.reader import Reader, name_of
from triegs.sparql.scope import Unknown, limit_scope
from triegs.sparql.stream_clauses import read_from, read_register
from triegs.sparql.window import Window

_DUPLICATES = {"DISTINCT": Duplicates.DISTINCT, "REDUCED": Duplicates.REDUCED}
_DIRECTIONS = {direction.value: direction for direction in Direction}
_START = "a query starts with SELECT or ASK"


def parse(
    text: str,
    prefixes: Mapping[str, str] | None = None,
    *,
    base: str | None = None,
    refuse_patterns: bool = True,
) -> Query:
    r"""Parse a SPARQL query.

    ``prefixes`` and ``base`` apply unless the text declares its own. Raises
    :class:`~triegs.errors.QueryError` for an invalid text and its subclass
    :class:`~triegs.errors.UnsupportedQuery` for one outside the supported fragment, each with line
    and column, and nothing else on any ``str``. Without ``refuse_patterns`` a ``REGEX`` with an
    invalid constant pattern is no error and matches nothing. Cost: linear in the text, about
    100,000 tokens per second.

    >>> query = parse("SELECT ?x WHERE { ?x ex:knows ?y FILTER(?y != ex:me) }",
    ...               {"ex": "http://ex.org/"})
    >>> query.head, query.atoms
    (('?x',), (Atom(subject='?x', predicate='<http://ex.org/knows>', object='?y'),))
    >>> parse("SELECT * {\n  ?x ?p ?y OPTIONAL { ?y ?q ?z } }")
    Traceback (most recent call last):
    triegs.errors.UnsupportedQuery: line 2, column 12: OPTIONAL is not supported; instead: ...
    >>> parse("SELECT ?x { ?x <knows> ?friend FILTER(?freind != <me>) }").warnings
    ('line 1, column 39: FILTER uses ?freind, which is not bound; did you mean ?friend?',)
    """
    if not isinstance(text, str):
        raise TypeError(f"a query is a str, not {type(text).__name__}")
    reader = Reader(text, prefixes or {}, base)
    reader.refuses_patterns = refuse_patterns
    return _QueryParser(reader).read()


class _QueryParser:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.windows: dict[str, Window] = {}
        self.unknown: list[Unknown] = []
        self.duplicates = Duplicates.KEEP
        #: The ``*`` of ``SELECT *``.
        self.star: Token | None = None
        self.selected: list[Selected] = []
        #: None without GROUP BY.
        self.keys: list[Condition] | None = None
        self.having: list[Condition] = []
        self.order: list[Ordering] = []
        self.slices: dict[str, int] = {}

    def read(self) -> Query:
        reader = self.reader
        self._prologue()
        output = read_register(reader)
        self._prologue()
        if reader.is_at_end():
            raise reader.error("the query is empty", reader.token, hint=_START)
        form = Form.ASK if reader.skip("ASK") else Form.SELECT
        if form is Form.SELECT:
            if not reader.skip("SELECT"):
                raise reader.unexpected("SELECT or ASK", _START)
            self._select()
        while reader.token.word == "FROM":
            read_from(reader, self.windows)
        reader.skip("WHERE")
        body = PatternParser(reader, self.windows, self.unknown).read()
        self._modifiers()
        if form is Form.ASK:
            self.order = []  # one answer has no order
        last = reader.token
        trailing = read_values(reader) if last.word == "VALUES" else None
        if not reader.is_at_end():
            raise reader.unexpected("the end of the query")
        head, grouping, order = self._head(body, trailing, last)
        return Query(
            form, head, body.atoms, tuple(body.values), tuple(body.filters), self.duplicates,
            self.slices.get("LIMIT"), self.slices.get("OFFSET", 0), grouping,
            reader.lexer.original, body.graphs, tuple(self.windows.items()), output,
            self._warnings(body), order,
        )  # fmt: skip

    # Clauses

    def _prologue(self) -> None:
        reader = self.reader
        while word := reader.skip("BASE", "PREFIX"):
            name = reader.token.text
            if word == "PREFIX":
                if reader.token.kind is not TokenKind.NAME or not name.endswith(":"):
                    raise reader.expected("a prefix such as 'ex:'")
                reader.advance()
            if reader.token.kind is not TokenKind.IRI:
                raise reader.expected(f"an IRI in <...> after {word}")
            reference = reader.token.text[1:-1]
            iri = reference if reader.base is None else resolve(reference, reader.base)
            if word == "PREFIX":
                reader.prefixes[name[:-1]] = iri
            elif is_absolute(iri):
                reader.base = iri
            else:
                raise reader.error(f"<{iri}> is not an absolute IRI", reader.token, "BASE")
            reader.advance()

    def _select(self) -> None:
        reader = self.reader
        word = reader.skip(*_DUPLICATES)
        self.duplicates = _DUPLICATES.get(word, Duplicates.KEEP)
        if reader.token.text == "*":
            self.star = reader.advance()
            return
        while reader.token.kind is TokenKind.VARIABLE or reader.token.text == "(":
            if reader.token.kind is TokenKind.VARIABLE:
                self.selected.append(Selected(reader.advance()))
                continue
            opening = reader.open("(")
            parser = ExpressionParser(reader)
            condition = Condition(parser.read(), parser)
            if not reader.skip("AS"):
                raise reader.unexpected("an operator, or AS and a variable")
            self.selected.append(Selected(reader.need_variable(), condition, opening))
            reader.close()
        if not self.selected:
            raise reader.unexpected(f"a variable, '(' or '*' after {word or 'SELECT'}")

    def _modifiers(self) -> None:
        reader = self.reader
        if reader.skip("GROUP"):
            reader.need("BY", "GROUP")
            self.keys = [self._key()]
            while self._starts_key():
                self.keys.append(self._key())
        if reader.skip("HAVING"):
            self.having = [self._condition()]
            while starts_constraint(reader):
                self.having.append(self._condition())
        if reader.skip("ORDER"):
            reader.need("BY", "ORDER")
            self.order = [self._order_key()]
            while reader.token.word in _DIRECTIONS or self._starts_key():
                self.order.append(self._order_key())
        while word := reader.skip("LIMIT", "OFFSET"):
            if word in self.slices:
                token = reader.tokens[reader.index - 1]
                raise reader.error(f"duplicate {word}", token, word)
            self.slices[word] = reader.whole_number(word)

    def _starts_key(self) -> bool:
        """Whether a key of GROUP BY or ORDER BY follows."""
        return starts_constraint(self.reader) or self.reader.token.kind is TokenKind.VARIABLE

    def _order_key(self) -> Ordering:
        reader, start = self.reader, self.reader.token
        word = reader.skip(*_DIRECTIONS)
        if word and reader.token.text != "(":
            raise reader.unexpected(f"'(' after {word}")
        if not self._starts_key():
            raise reader.unexpected("a variable, an expression, ASC or DESC after ORDER BY")
        parser = ExpressionParser(reader)
        condition = Condition(parser.read_primary(), parser)
        return Ordering(condition, _DIRECTIONS.get(word, Direction.ASCENDING), start)

    def _key(self) -> Condition:
        reader = self.reader
        parser = ExpressionParser(reader, "in GROUP BY")
        if reader.token.text != "(":
            if not self._starts_key():
                raise reader.unexpected("a variable or an expression after GROUP BY")
            return Condition(parser.read_primary(), parser)
        reader.open("(")
        expression = parser.read()
        name = reader.need_variable() if reader.skip("AS") else None
        reader.close("')', an operator, or AS and a variable")
        return Condition(expression, parser, name)

    def _condition(self) -> Condition:
        parser = ExpressionParser(self.reader)
        return Condition(parser.read_constraint("HAVING"), parser)

    # Combining clauses

    def _head(
        self, body: Body, trailing: Values | None, last: Token
    ) -> tuple[tuple[str, ...], Grouping | None, tuple[OrderKey, ...]]:
        """The columns, the grouping and the order; adds HAVING and trailing VALUES to the body."""
        reader = self.reader
        computed = [each.condition for each in self.selected if each.condition is not None]
        ordered = [each.condition for each in self.order]
        has_aggregate = any(
            each.parser.has_aggregate for each in [*computed, *self.having, *ordered]
        )
        if self.keys is not None or has_aggregate:
            if self.star is not None:
                hint = "name the keys and aggregates"
                raise reader.error("SELECT * cannot be grouped", self.star, "SELECT *", hint)
            grouper = Grouper(reader, body, self.unknown)
            grouping = grouper.group(self.keys or [], self.selected, self.having)
            head = tuple(column.name for column in grouping.columns)
            grouping, order = grouper.order(grouping, self.order)
            if trailing is not None:
                if not commutes(trailing, grouping):
                    raise reader.refusal("VALUES after aggregates", last)
                body.values.append(trailing)
            return head, grouping, order
        if computed:
            opening = next(each.opening for each in self.selected if each.opening is not None)
            raise reader.refusal("select expression", opening)
        for each in self.having:
            body.filters += each.limited(body.variables, "HAVING", self.unknown)
        if trailing is not None:
            body.values.append(trailing)
            body.variables.update(trailing.variables)
        if self.star is not None:
            named = [token for token in reader.tokens if token.kind is TokenKind.VARIABLE]
            head = tuple(dict.fromkeys(v for v in map(name_of, named) if v in body.variables))
            return head, None, self._order(body, head)
        shown = {name_of(each.name): each.name for each in self.selected}
        self.unknown += [
            Unknown(token, "SELECT") for v, token in shown.items() if v not in body.variables
        ]
        return tuple(shown), None, self._order(body, tuple(shown))

    def _order(self, body: Body, head: tuple[str, ...]) -> tuple[OrderKey, ...]:
        """The keys of a query without groups, over the head: an answer that hides a key would have
        several places in the order.
        """
        found = []
        for condition, direction, _ in self.order:
            for token in condition.parser.outside:
                name = name_of(token)
                if name not in body.variables:
                    self.unknown.append(Unknown(token, "ORDER BY"))
                elif name not in head:
                    raise self.reader.refusal("unselected ORDER BY", token)
            found.append(OrderKey(limit_scope(condition.expression, body.variables), direction))
        return tuple(found)

    def _warnings(self, body: Body) -> tuple[str, ...]:
        """One warning per clause and variable that is not bound there."""
        first = {(name_of(each.token), each.clause): each for each in reversed(self.unknown)}
        found: list[str] = []
        for (name, clause), each in sorted(first.items(), key=lambda item: item[1].token.start):
            line, column = self.reader.lexer.position(each.token.start)
            if name in body.variables:
                what = f"{name} is bound outside the group of this {clause} and not visible in it"
            else:
                what = f"{clause} uses {name}, which is not bound"
                close = get_close_matches(name, sorted(body.variables), 1)
                what += f"; did you mean {close[0]}?" if close else ""
            found.append(f"line {line}, column {column}: {what}")
        return tuple(found)
