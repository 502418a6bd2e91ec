"""A cursor over the tokens of a query text, with open brackets and error messages.

The parsers of clauses, patterns and expressions share one reader. Unexpected tokens end in
`Reader.unexpected`, which first checks for constructs that are refused on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from triegs.errors import QueryError
from triegs.names import BASE
from triegs.sparql.expressions import OPERATORS
from triegs.sparql.iri import is_absolute, is_relative, resolve
from triegs.sparql.lexer import Lexer, Token, TokenKind
from triegs.sparql.refusals import REFUSALS
from triegs.terms.term import XSD, BadEscape, literal, unescape

#: The nesting limit of brackets, which bounds the recursion of the parsers.
MAX_NESTING = 64
MAX_TOKENS = 50_000
MAX_DIGITS = 18

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE")
FUNCTIONS = {name for name, arity in OPERATORS.items() if arity.is_function} | {"ISURI"}
IRIS = (TokenKind.IRI, TokenKind.NAME)
NUMBERS = {
    TokenKind.INTEGER: XSD + "integer",
    TokenKind.DECIMAL: XSD + "decimal",
    TokenKind.DOUBLE: XSD + "double",
}
BOOLEANS = ("TRUE", "FALSE")
CONSTANTS = (*IRIS, TokenKind.STRING, *NUMBERS)
_KEYWORDS = """
    SELECT ASK WHERE DISTINCT REDUCED FILTER VALUES GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET AS
    IN NOT TRUE FALSE BASE PREFIX WINDOW STREAM REGISTER
"""
_KNOWN = {*_KEYWORDS.split(), *FUNCTIONS, *AGGREGATES}
_CLOSING = {"(": ")", "[": "]", "{": "}", "{|": "|}"}
_LOCAL_ESCAPE = re.compile(r"\\(.)")


class Reader:
    """Reads tokens one by one; `token` is the current one."""

    def __init__(self, text: str, prefixes: Mapping[str, str], base: str | None) -> None:
        self.lexer = Lexer(text)
        self.prefixes = {"triegs": BASE, **prefixes}
        self.base = base
        #: Whether a REGEX with an invalid pattern is an error; see `parse`.
        self.refuses_patterns = True
        self.tokens: list[Token] = []
        self.index = 0
        self.brackets: list[Token] = []
        self.token = self.after(0)

    def after(self, steps: int = 1) -> Token:
        """The token that many steps ahead."""
        tokens = self.tokens
        while len(tokens) <= self.index + steps:
            last = tokens[-1] if tokens else None
            if last is not None and last.kind is TokenKind.END:
                return last
            tokens.append(self.lexer.read(last.start + len(last.text) if last else 0))
            if len(tokens) > MAX_TOKENS:
                message = f"the query has more than {MAX_TOKENS} tokens"
                raise self.error(message, tokens[-1], "text", "split it into several queries")
        return tokens[self.index + steps]

    def is_at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def advance(self) -> Token:
        """Move to the next token; returns the one before."""
        passed = self.token
        self.index += 1
        self.token = self.after(0)
        return passed

    def split(self, length: int, kind: TokenKind) -> None:
        """Read the current token as a symbol of that length and what follows it.

        The lexer has no context: after an operand, ``<?y && ?x>`` is no IRI and ``-1`` no number.
        """
        token = self.token
        rest = [] if kind is TokenKind.IRI else [Token(kind, token.text[length:], token.start + 1)]
        symbol = Token(TokenKind.SYMBOL, token.text[:length], token.start)
        self.tokens[self.index :] = [symbol, *rest]
        self.token = symbol

    # Brackets and words

    def open(self, symbol: str, what: str = "") -> Token:
        """Read an opening bracket; `what` describes it in the error if it is missing."""
        token = self.token
        if token.text != symbol:
            raise self.unexpected(what or f"'{symbol}'")
        if len(self.brackets) == MAX_NESTING:
            raise self.error(f"brackets nest deeper than {MAX_NESTING}", token, "nesting")
        self.brackets.append(token)
        return self.advance()

    def close(self, what: str = "") -> Token:
        """Read the bracket that closes the last open one."""
        closing = _CLOSING[self.brackets[-1].text]
        if self.token.text != closing:
            raise self.unexpected(what or f"'{closing}'")
        self.brackets.pop()
        return self.advance()

    def skip(self, *words: str) -> str:
        """Read one of these words or symbols if present; returns it, or an empty string."""
        word = self.token.word
        if word not in words:
            return ""
        self.advance()
        return word

    def need(self, word: str, before: str) -> None:
        if not self.skip(word):
            raise self.expected(f"{word} after {before}")

    def need_variable(self, what: str = "a variable") -> Token:
        if self.token.kind is not TokenKind.VARIABLE:
            raise self.unexpected(what)
        return self.advance()

    # Errors

    def error(
        self, message: str, token: Token, construct: str = "syntax", hint: str = ""
    ) -> QueryError:
        return self.lexer.error(message, token.start, construct, hint)

    def refusal(self, construct: str, token: Token) -> QueryError:
        """The refusal of a construct in `REFUSALS`, at its token."""
        return self.lexer.error(
            f"{construct} is not supported", token.start, construct,
            f"instead: {REFUSALS[construct]}", supported=False,
        )  # fmt: skip

    def unexpected(self, what: str, hint: str = "") -> QueryError:
        """The error for the current token, where `what` was expected."""
        token = self.token
        opening = self.brackets[-1] if self.brackets else None
        if self.is_at_end():
            if opening is not None:
                return self.error(f"this '{opening.text}' is never closed", opening, "bracket")
            return self.error(f"the query ends too early: expected {what}", token, hint=hint)
        if token.kind is TokenKind.WORD:
            word = token.word
            construct = "NOT EXISTS" if word == "NOT" and self.after().word == "EXISTS" else word
            if word == "SELECT" and opening is not None:
                construct = "sub-select"
            if construct in REFUSALS:
                return self.refusal(construct, token)
            if word not in _KNOWN and token.text != "a":
                kind = "function" if self.after().text == "(" else "word"
                return self.error(f"unknown {kind} {token}", token, kind, hint)
        if token.text in _CLOSING.values() and (
            opening is None or _CLOSING[opening.text] != token.text
        ):
            return self.error(f"unmatched '{token.text}'", token, "bracket")
        return self.expected(what, hint)

    def expected(self, what: str, hint: str = "") -> QueryError:
        """As `unexpected`, where any word is possible, so that no word names a construct."""
        return self.error(f"expected {what}, found {self.token}", self.token, hint=hint)

    # Terms

    def whole_number(self, clause: str, what: str = "a number without sign or fraction") -> int:
        """The number of a clause such as LIMIT."""
        token = self.token
        if token.kind is not TokenKind.INTEGER or not token.text.isdigit():
            raise self.unexpected(what)
        if len(token.text) > MAX_DIGITS:
            raise self.error(f"{clause} has more than {MAX_DIGITS} digits", token)
        return int(self.advance().text)

    def is_constant(self) -> bool:
        return self.token.kind in CONSTANTS or self.token.word in BOOLEANS

    def constant(self) -> str:
        """Read an IRI or a literal, in N-Triples form; only if `is_constant`."""
        token = self.token
        if token.kind in IRIS:
            iri = self.iri(token)
            self.advance()
            return f"<{iri}>"
        if token.kind is TokenKind.STRING:
            return self._literal()
        self.advance()
        if token.kind in NUMBERS:
            return literal(token.text, NUMBERS[token.kind])
        return literal(token.word.lower(), XSD + "boolean")

    def iri(self, token: Token) -> str:
        """The IRI of a token; without a base, a relative IRI stays relative."""
        hint = ""
        if token.kind is TokenKind.IRI:
            iri = token.text[1:-1]
            iri = iri if self.base is None else resolve(iri, self.base)
        else:
            prefix, _, local = token.text.partition(":")
            if prefix not in self.prefixes:
                hint = f"declare it with PREFIX {prefix}: <...>"
                raise self.error(f"unknown prefix '{prefix}:'", token, "prefix", hint)
            iri = self.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)
            hint = f"check the declaration of prefix {prefix}:"
        if not (is_absolute(iri) or (self.base is None and is_relative(iri))):
            raise self.error(f"<{iri}> is not an IRI", token, "IRI", hint)
        return iri

    def _literal(self) -> str:
        """A string with its language or datatype."""
        token = self.advance()
        width = 3 if token.text[:3] in ('"""', "'''") else 1
        try:
            text = unescape(token.text[width:-width])
        except BadEscape as bad:
            offset = token.start + width + bad.offset
            raise self.lexer.error(str(bad), offset, "string") from None
        if self.token.kind is TokenKind.LANGUAGE:
            return literal(text, language=self.advance().text[1:])
        if self.skip("^^"):
            if self.token.kind not in IRIS:
                raise self.unexpected("a datatype after '^^'")
            datatype = self.iri(self.token)
            self.advance()
            return literal(text, datatype)
        return literal(text)


def name_of(token: Token) -> str:
    """The name of a variable; ``$x`` and ``?x`` are the same."""
    return "?" + token.text[1:]
