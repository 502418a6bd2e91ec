r"""The tokens of a query text, with their offsets.

Tokens are read on demand, so a text is read no further than its first error. Errors refer to the
original text, also if a ``\uXXXX`` outside a string stands for one character.

>>> [token.text for token in tokens("SELECT ?x { ?x a <u:C> } # end")]
['SELECT', '?x', '{', '?x', 'a', '<u:C>', '}', '']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from triegs.errors import QueryError, UnsupportedQuery
from triegs.terms.term import BadEscape, unescape

#: A text longer than this is refused, which bounds the time that one parse can take.
MAX_CHARACTERS = 1_000_000


class TokenKind(Enum):
    """The kind of a token; the value is used in error messages."""

    IRI = "an IRI"
    NAME = "a prefixed name"
    BLANK = "a blank node"
    VARIABLE = "a variable"
    STRING = "a string"
    DOUBLE = "a number"
    DECIMAL = "a decimal number"
    INTEGER = "an integer"
    LANGUAGE = "a language tag"
    WORD = "a word"
    SYMBOL = "a symbol"
    END = "the end of the query"


class Token(NamedTuple):
    kind: TokenKind
    text: str
    start: int

    @property
    def word(self) -> str:
        """The keyword in upper case, or the symbol itself; empty for all other tokens."""
        if self.kind not in (TokenKind.WORD, TokenKind.SYMBOL):
            return ""
        return self.text.upper()

    def __str__(self) -> str:
        if self.kind is TokenKind.END:
            return str(self.kind.value)
        return repr(self.text if len(self.text) <= 40 else self.text[:37] + "...")


_LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_VARIABLE = f"_0-9\u00b7\u0300-\u036f\u203f-\u2040{_LETTER}"
_NAME = f"{_VARIABLE}\\-"
_ESCAPED = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?\#@%]"
_STRING_ESCAPE = r"""\\[tbnrf"'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"""
_STRING = rf'''
    """(?:"{{0,2}}(?:[^"\\]|{_STRING_ESCAPE}))*"""
  | \'\'\'(?:'{{0,2}}(?:[^'\\]|{_STRING_ESCAPE}))*\'\'\'
  | "(?:[^"\\\n\r]|{_STRING_ESCAPE})+" | ""(?!")
  | '(?:[^'\\\n\r]|{_STRING_ESCAPE})+' | \'\'(?!')
'''
_IRI_CHARACTER = r'[^<>"{}|^`\\\x00-\x20]'
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_TOKEN = re.compile(
    rf"""
    (?P<IRI><{_IRI_CHARACTER}*>)
  | (?P<BLANK>_:[_0-9{_LETTER}](?:\.*[{_NAME}])*)
  | (?P<NAME>(?:[{_LETTER}](?:\.*[{_NAME}])*)?:
      (?:(?:[_:0-9{_LETTER}]|{_ESCAPED})(?:\.*(?:[:{_NAME}]|{_ESCAPED}))*)?)
  | (?P<VARIABLE>[?$][_0-9{_LETTER}][{_VARIABLE}]*)
  | (?P<STRING>{_STRING})
  | (?P<DOUBLE>[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+)
  | (?P<DECIMAL>[+-]?[0-9]*\.[0-9]+)
  | (?P<INTEGER>[+-]?[0-9]+)
  | (?P<LANGUAGE>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<WORD>[A-Za-z][A-Za-z0-9_]*)
  | (?P<SYMBOL>\{{\||\|\}}|\^\^|\|\||&&|!=|<=|>=|[{{}}()\[\].,;*/|^?!=<>+-])
    """,
    re.VERBOSE,
)
_CODEPOINT = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
# Strings, comments and IRIs come first so that a quote or a # inside one opens nothing.
_EXPANDABLE = re.compile(
    rf"(?P<kept>{_STRING}|\#[^\r\n]*)|<(?:{_IRI_CHARACTER}|{_CODEPOINT})*>|{_CODEPOINT}",
    re.VERBOSE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BAD_ESCAPE = re.compile(r"\\(?!u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[tbnrf\"'\\])")


class Lexer:
    """Reads tokens at any offset, and makes errors with line and column."""

    def __init__(self, text: str) -> None:
        self.original = text
        self.text = text
        self._origins: list[int] | None = None
        surrogate = _SURROGATE.search(text)
        if surrogate is not None:
            raise self.error("a lone surrogate is not a character", surrogate.start(), "text")
        if len(text) > MAX_CHARACTERS:
            message = f"the text is longer than {MAX_CHARACTERS} characters"
            raise self.error(message, MAX_CHARACTERS, "text")
        if "\\u" in text or "\\U" in text:
            self._expand()

    def _expand(self) -> None:
        r"""Replace ``\uXXXX`` outside strings, recording the origin of each character."""
        pieces: list[str] = []
        origins: list[int] = []
        done = 0
        for match in _EXPANDABLE.finditer(self.original):
            if match["kept"] is not None or "\\" not in match[0]:
                continue
            for escape in re.finditer(_CODEPOINT, match[0]):
                start = match.start() + escape.start()
                try:
                    character = unescape(escape[0])
                except BadEscape as bad:
                    raise self.error(f"{bad.sequence} is not a character", start, "text") from None
                pieces += [self.original[done:start], character]
                origins += [*range(done, start), start]
                done = match.start() + escape.end()
        if done:
            self.text = "".join([*pieces, self.original[done:]])
            self._origins = [*origins, *range(done, len(self.original) + 1)]

    def read(self, offset: int) -> Token:
        """The first token at or after an offset into ``self.text``."""
        space = _SPACE.match(self.text, offset)
        start = space.end() if space else offset
        match = _TOKEN.match(self.text, start)
        if match is not None:
            return Token(TokenKind[match.lastgroup or ""], match[0], start)
        if start == len(self.text):
            return Token(TokenKind.END, "", start)
        raise self._unreadable(start)

    def _unreadable(self, start: int) -> QueryError:
        character = self.text[start]
        if character in "\"'":
            long = self.text.startswith(character * 3, start)
            end = -1 if long else self.text.find("\n", start)
            bad = _BAD_ESCAPE.search(self.text, start, end if end >= 0 else len(self.text))
            if bad is not None:
                sequence = self.text[bad.start() : bad.start() + 2]
                return self.error(
                    f"bad escape sequence {sequence!r}",
                    bad.start(),
                    "string",
                    "write \\\\ for one backslash",
                )
            hint = "close it with the quotes that opened it"
            return self.error("unterminated string", start, "string", hint)
        return self.error(f"unexpected character {character!r}", start, "syntax")

    def error(
        self, message: str, offset: int, construct: str, hint: str = "", *, supported: bool = True
    ) -> QueryError:
        """An error at an offset into ``self.text``; ``supported=False`` makes it a refusal."""
        line, column = self.position(offset)
        kind = QueryError if supported else UnsupportedQuery
        return kind(message, line=line, column=column, construct=construct, hint=hint)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset into ``self.text``, both from 1, in the original text."""
        origin = offset if self._origins is None else self._origins[offset]
        before = self.original[:origin]
        return before.count("\n") + 1, origin - before.rfind("\n")


def tokens(text: str) -> Iterator[Token]:
    """All tokens of a text, including the final END."""
    lexer = Lexer(text)
    offset = 0
    while True:
        token = lexer.read(offset)
        yield token
        if token.kind is TokenKind.END:
            return
        offset = token.start + len(token.text)
