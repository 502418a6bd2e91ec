"""A query text with everything that is known of its tokens, and the text written for rdflib."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from triegs.errors import QueryError
from triegs.sparql.follow import Zone
from triegs.sparql.lexer import Lexer, Token, TokenKind
from triegs.sparql.model import Output
from triegs.sparql.refusals import REFUSALS
from triegs.sparql.window import Window


@dataclass(frozen=True, slots=True)
class Block:
    """A VALUES block as written."""

    token: int
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Named:
    """``( … AS ?name )`` in SELECT or GROUP BY: the opening bracket and the name's token."""

    opening: Token
    name: Token
    clause: str


@dataclass(slots=True)
class Source:
    """A query text, read token by token, and the text written from it for rdflib."""

    lexer: Lexer
    tokens: list[Token] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
    clauses: list[str] = field(default_factory=list)
    constants: dict[int, str] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)
    blanks: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)
    windows: dict[str, Window] = field(default_factory=dict)
    output: Output | None = None
    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(self.pieces)

    def token_at(self, offset: int) -> int:
        """The number of the token that wrote the text for rdflib at an offset."""
        place = bisect_right(self.starts, offset) - 1
        if place >= 0 and offset >= self.starts[place] + len(self.pieces[place]):
            place += 1
        return self.owners[place] if 0 <= place < len(self.owners) else len(self.tokens) - 1

    def write(self, piece: str, token: int) -> None:
        last = self.starts[-1] + len(self.pieces[-1]) + 1 if self.starts else 0
        self.starts.append(last)
        self.pieces.append(piece)
        self.owners.append(token)

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

    def find(self, kind: TokenKind, text: str, clauses: tuple[str, ...]) -> Token:
        """The first token of that text in one of the clauses, else the first of all."""
        for token, clause in zip(self.tokens, self.clauses, strict=True):
            if token.kind is kind and token.text[1:] == text[1:] and clause in clauses:
                return token
        return self.tokens[0]
