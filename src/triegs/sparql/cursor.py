"""The parser's place in the text: one token of look-ahead, names, nesting, and errors.

SPARQL's grammar needs one token to decide (two in a few spots), so the token at which a rule
finds nothing to go on with is the place of the error, exactly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from triegs.errors import QueryError
from triegs.sparql.iri import is_absolute, is_relative, resolve
from triegs.sparql.lexer import Lexer, Token, TokenKind
from triegs.sparql.refusals import REFUSALS
from triegs.terms import XSD, BadEscape, literal, unescape

#: Brackets of any kind may nest this deep, which keeps every recursion far from Python's limit.
MAX_NESTING = 64

_FRESH_NAME = re.compile(r"_:((?:anon|list|path|key)[0-9]+)")
_LOCAL_ESCAPE = re.compile(r"\\(.)")
_NUMBERS = {
    TokenKind.INTEGER: XSD + "integer",
    TokenKind.DECIMAL: XSD + "decimal",
    TokenKind.DOUBLE: XSD + "double",
}


class Cursor:
    """Reads a query text token by token.

    >>> cursor = Cursor("SELECT ?x", {})
    >>> cursor.accept("SELECT") is not None, cursor.token.text
    (True, '?x')
    """

    def __init__(self, text: str, prefixes: Mapping[str, str], base: str | None = None) -> None:
        self.lexer = Lexer(text)
        self.prefixes = dict(prefixes)
        self.base = base
        self.token = self.lexer.read(0)
        self._depth = 0
        self._taken = set(_FRESH_NAME.findall(self.lexer.text))
        self._counters: dict[str, int] = {}

    # Moving

    def advance(self) -> Token:
        """Step over the current token and return it."""
        token = self.token
        self.token = self.peek()
        return token

    def peek(self) -> Token:
        """The token after the current one."""
        return self.lexer.read(self.token.start + len(self.token.text))

    def is_at(self, *words: str) -> bool:
        """Whether the current token is one of these keywords or symbols."""
        return self.token.word in words

    def is_at_kind(self, kind: TokenKind) -> bool:
        return self.token.kind is kind

    def accept(self, word: str) -> Token | None:
        """Step over the current token if it is this keyword or symbol."""
        return self.advance() if self.token.word == word else None

    def expect(self, word: str, after: str = "") -> Token:
        """Step over this keyword or symbol; anything else is an error."""
        if self.token.word != word:
            raise self.expected(f"{word!r}{f' {after}' if after else ''}")
        return self.advance()

    def split_less_than(self) -> None:
        """Read ``<b>`` again as the operator ``<``: only the grammar can tell them apart."""
        length = 2 if self.token.text.startswith("<=") else 1
        self.token = Token(TokenKind.SYMBOL, self.token.text[:length], self.token.start)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Around the inside of a bracket: bounds how deep brackets nest."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self.error(f"brackets nest deeper than {MAX_NESTING}", construct="nesting")
        yield
        self._depth -= 1

    # Errors

    def error(
        self, message: str, token: Token | None = None, construct: str = "syntax", hint: str = ""
    ) -> QueryError:
        return self.lexer.error(message, (token or self.token).start, construct, hint)

    def expected(self, what: str) -> QueryError:
        """The usual syntax error: the grammar wants something else at the current token."""
        return self.error(f"expected {what}, found {self.token}")

    def refusal(self, construct: str, token: Token | None = None) -> QueryError:
        """The refusal of a construct in :data:`REFUSALS`, at its token."""
        row = REFUSALS[construct]
        return self.lexer.error(
            f"{construct} is not supported",
            (token or self.token).start,
            construct,
            f"instead: {row.hint}",
            supported=False,
        )

    def refuse_words(self, words: Collection[str]) -> None:
        """Refuse the current token if it is one of these words."""
        if self.token.word in words:
            raise self.refusal(self.token.word)

    # Terms

    def fresh(self, stem: str) -> str:
        """A variable that the text does not hold.

        >>> Cursor("SELECT * { _:path1 ?p ?o }", {}).fresh("path")
        '?_:path2'
        """
        while True:
            number = self._counters[stem] = self._counters.get(stem, 0) + 1
            if f"{stem}{number}" not in self._taken:
                return f"?_:{stem}{number}"

    def variable(self) -> str:
        """Step over a variable; ``$x`` and ``?x`` are the same one."""
        if not self.is_at_kind(TokenKind.VARIABLE):
            raise self.expected("a variable")
        return "?" + self.advance().text[1:]

    def is_at_iri(self) -> bool:
        return self.token.kind in (TokenKind.IRI, TokenKind.NAME)

    def bare_iri(self) -> str:
        """Step over an IRI or a prefixed name and return the IRI, without brackets."""
        if not self.is_at_iri():
            raise self.expected("an IRI or a prefixed name")
        token = self.advance()
        if token.kind is TokenKind.IRI:
            iri = token.text[1:-1]
            iri = iri if self.base is None else resolve(iri, self.base)
            hint = ""
        else:
            prefix, _, local = token.text.partition(":")
            if prefix not in self.prefixes:
                message = f"unknown prefix '{prefix}:'"
                hint = f"declare it with PREFIX {prefix}: <...>"
                raise self.error(message, token, "prefix", hint)
            iri = self.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)
            hint = f"look at what {prefix}: stands for"
        # Without a base a relative reference stays as it is: <p> then matches <p> in the data.
        if not (is_absolute(iri) or (self.base is None and is_relative(iri))):
            raise self.error(f"<{iri}> is not an IRI", token, "IRI", hint)
        return iri

    def is_at_constant(self) -> bool:
        """Whether the current token starts an IRI or a literal."""
        return (
            self.is_at_iri()
            or self.is_at_kind(TokenKind.STRING)
            or self.token.kind in _NUMBERS
            or self.is_at("TRUE", "FALSE")
        )

    def constant(self) -> str:
        """Step over an IRI or a literal; the literal's lexical form stays as written."""
        if self.is_at_iri():
            return f"<{self.bare_iri()}>"
        if self.is_at("TRUE", "FALSE"):
            return literal(self.advance().text.lower(), XSD + "boolean")
        if self.token.kind in _NUMBERS:
            token = self.advance()
            return literal(token.text, _NUMBERS[token.kind])
        if not self.is_at_kind(TokenKind.STRING):
            raise self.expected("an IRI or a literal")
        text = self._string()
        if self.is_at_kind(TokenKind.LANGUAGE):
            return literal(text, language=self.advance().text[1:])
        if self.accept("^^"):
            return literal(text, self.bare_iri())
        return literal(text)

    def _string(self) -> str:
        token = self.advance()
        width = 3 if token.text[:3] in ('"""', "'''") else 1
        try:
            return unescape(token.text[width:-width])
        except BadEscape as bad:
            raise self.lexer.error(str(bad), token.start + width + bad.offset, "string") from None
