"""The whole query: prologue, form, head, body and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from triegs.sparql.cursor import Cursor
from triegs.sparql.expression_grammar import ExpressionParser
from triegs.sparql.iri import is_absolute, resolve
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Duplicates, Expression, Form, Values
from triegs.sparql.pattern_grammar import Body, PatternParser, parse_values
from triegs.sparql.refusals import Place, refused_words

_REFUSED_FORMS = refused_words(Place.START)
_MAX_SLICE_DIGITS = 18


@dataclass
class Item:
    """One entry of SELECT or GROUP BY, with what its expression mentions."""

    token: Token
    expression: Expression
    #: The name after AS, or of a plain variable; empty for a key without a name.
    name: str
    is_plain: bool = True
    name_token: Token | None = None
    aggregates: list[Token] = field(default_factory=list)
    outside: list[Token] = field(default_factory=list)


@dataclass
class Parsed:
    """A query as written, before the rules that span several of its clauses are checked."""

    form: Form
    duplicates: Duplicates = Duplicates.KEEP
    #: None for ``SELECT *``.
    projection: list[Item] | None = None
    star: Token | None = None
    body: Body = field(default_factory=Body)
    keys: list[Item] = field(default_factory=list)
    having: list[Item] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0
    trailing: Values | None = None
    trailing_token: Token | None = None


class QueryParser:
    """Reads one query from the start to the end of the text."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def query(self) -> Parsed:
        cursor = self.cursor
        if cursor.is_at_kind(TokenKind.END):
            raise cursor.error("the query is empty", hint="a query starts with SELECT or ASK")
        self._prologue()
        cursor.refuse_words(_REFUSED_FORMS)
        if cursor.accept("SELECT"):
            parsed = Parsed(Form.SELECT)
            self._select(parsed)
        elif cursor.accept("ASK"):
            parsed = Parsed(Form.ASK, projection=[])
        else:
            raise cursor.expected("SELECT or ASK")
        if cursor.is_at("FROM"):
            raise cursor.refusal("FROM")
        cursor.accept("WHERE")
        parsed.body = PatternParser(cursor).group()
        self._modifiers(parsed)
        if cursor.is_at("VALUES"):
            parsed.trailing_token = cursor.advance()
            parsed.trailing = parse_values(cursor)
        if not cursor.is_at_kind(TokenKind.END):
            raise cursor.expected("the end of the query")
        return parsed

    def _prologue(self) -> None:
        cursor = self.cursor
        while True:
            if cursor.accept("BASE"):
                token = cursor.token
                cursor.base = self._declared_iri("after BASE")
                if not is_absolute(cursor.base):
                    raise cursor.error(f"{token} is not a whole IRI", token, "BASE")
            elif cursor.accept("PREFIX"):
                name = cursor.token
                if name.kind is not TokenKind.NAME or name.text.index(":") != len(name.text) - 1:
                    raise cursor.expected("a prefix such as 'ex:'")
                cursor.advance()
                cursor.prefixes[name.text[:-1]] = self._declared_iri("after the prefix")
            else:
                return

    def _declared_iri(self, where: str) -> str:
        cursor = self.cursor
        if not cursor.is_at_kind(TokenKind.IRI):
            raise cursor.expected(f"an IRI in <...> {where}")
        reference = cursor.advance().text[1:-1]
        return reference if cursor.base is None else resolve(reference, cursor.base)

    def _select(self, parsed: Parsed) -> None:
        cursor = self.cursor
        if cursor.accept("DISTINCT"):
            parsed.duplicates = Duplicates.DISTINCT
        elif cursor.accept("REDUCED"):
            parsed.duplicates = Duplicates.REDUCED
        if cursor.is_at("*"):
            parsed.star = cursor.advance()
            return
        parsed.projection = []
        while cursor.is_at_kind(TokenKind.VARIABLE) or cursor.is_at("("):
            token = cursor.token
            if cursor.is_at_kind(TokenKind.VARIABLE):
                name = cursor.variable()
                parsed.projection.append(Item(token, name, name, outside=[token]))
            else:
                parsed.projection.append(self._named(must_have_name=True))
        if not parsed.projection:
            raise cursor.expected("a variable, '(' or '*' after SELECT")

    def _named(self, *, must_have_name: bool) -> Item:
        """``( expression AS ?name )``; only a grouping key may go without a name."""
        cursor = self.cursor
        opening = cursor.expect("(")
        with cursor.nested():
            reason = "" if must_have_name else "in GROUP BY"
            parser = ExpressionParser(cursor, aggregates=reason)
            item = Item(opening, parser.expression(), "", is_plain=False)
            item.aggregates, item.outside = parser.aggregates, parser.outside
            if must_have_name or cursor.is_at("AS"):
                cursor.expect("AS", "and a variable")
                item.name_token = cursor.token
                item.name = cursor.variable()
            cursor.expect(")")
        return item

    def _modifiers(self, parsed: Parsed) -> None:
        cursor = self.cursor
        if cursor.accept("GROUP"):
            cursor.expect("BY", "after 'GROUP'")
            self._keys(parsed)
        if cursor.accept("HAVING"):
            self._having(parsed)
        if cursor.is_at("ORDER"):
            raise cursor.refusal("ORDER BY")
        seen: set[str] = set()
        while cursor.is_at("LIMIT", "OFFSET") and cursor.token.word not in seen:
            word = cursor.advance().word
            seen.add(word)
            if word == "LIMIT":
                parsed.limit = self._count(word)
            else:
                parsed.offset = self._count(word)

    def _keys(self, parsed: Parsed) -> None:
        cursor = self.cursor
        while True:
            token = cursor.token
            if token.kind is TokenKind.VARIABLE:
                name = cursor.variable()
                parsed.keys.append(Item(token, name, name, outside=[token]))
            elif cursor.is_at("("):
                parsed.keys.append(self._named(must_have_name=False))
            else:
                parser = ExpressionParser(cursor, aggregates="in GROUP BY")
                if not parser.at_call():
                    break
                expression = parser.constraint("after GROUP BY")
                item = Item(token, expression, "", is_plain=False, outside=parser.outside)
                parsed.keys.append(item)
        if not parsed.keys:
            raise cursor.expected("a variable or an expression after GROUP BY")

    def _having(self, parsed: Parsed) -> None:
        cursor = self.cursor
        while True:
            parser = ExpressionParser(cursor)
            if parsed.having and not (cursor.is_at("(") or parser.at_call()):
                return
            token = cursor.token
            expression = parser.constraint("after HAVING")
            item = Item(token, expression, "", is_plain=False, outside=parser.outside)
            item.aggregates = parser.aggregates
            parsed.having.append(item)

    def _count(self, word: str) -> int:
        cursor = self.cursor
        if not cursor.is_at_kind(TokenKind.INTEGER) or not cursor.token.text.isdigit():
            raise cursor.expected(f"a number after {word}")
        if len(cursor.token.text) > _MAX_SLICE_DIGITS:
            raise cursor.error(f"{word} has more than {_MAX_SLICE_DIGITS} digits")
        return int(cursor.advance().text)
