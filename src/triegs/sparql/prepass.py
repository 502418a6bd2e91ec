"""The pass before rdflib: every token placed, every term read, every refused word found.

rdflib parses SPARQL well and tells little about where a text is wrong; it rewrites the lexical
forms of literals, and names variables of its own. So the text that rdflib gets is written anew
from the tokens: a constant becomes ``<t:7>`` or ``"7"^^<t:>`` and a variable ``?v3``, where 7 is
the number of its token. Whatever rdflib returns then says where it stood and what it meant.

>>> source = read_source("PREFIX ex: <http://ex/> SELECT ?x { ?x ex:p 01 }", {})
>>> source.text
'SELECT ?v0 { ?v0 <t:7> "8"^^<t:> }'
>>> source.constants[8]
'"01"^^<http://www.w3.org/2001/XMLSchema#integer>'
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from triegs.errors import QueryError
from triegs.sparql.expressions import OPERATORS
from triegs.sparql.follow import OPEN, Bracket, Expect, Zone
from triegs.sparql.iri import is_absolute, is_relative, resolve
from triegs.sparql.lexer import Lexer, Token, TokenKind
from triegs.sparql.refusals import REFUSALS
from triegs.sparql.source import Block, Named, Source
from triegs.sparql.stream_clauses import read_block, read_from, read_register
from triegs.terms import XSD, BadEscape, literal, unescape

#: Brackets of any kind may nest this deep.
MAX_NESTING = 64
#: rdflib's time grows with the square of the pattern: half a thousand atoms take seconds.
MAX_PATTERNS = 500
MAX_TOKENS = 50_000
MAX_DIGITS = 18

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_KEYWORDS = """
    SELECT ASK WHERE DISTINCT REDUCED FILTER VALUES GROUP BY HAVING LIMIT OFFSET AS IN NOT
    TRUE FALSE A BASE PREFIX ISURI
"""
_KNOWN = {*_KEYWORDS.split(), *OPERATORS, *AGGREGATES}
_FUNCTIONS = {name for name, arity in OPERATORS.items() if arity.is_function}
_FUNCTIONS |= {"ISURI", *AGGREGATES}
_CLAUSES = ("SELECT", "ASK", "GROUP", "HAVING", "LIMIT", "OFFSET")
_NUMBERS = {
    TokenKind.INTEGER: XSD + "integer",
    TokenKind.DECIMAL: XSD + "decimal",
    TokenKind.DOUBLE: XSD + "double",
}
_STREAM_CLAUSES = {"FROM": read_from, "WINDOW": read_block, "STREAM": read_block}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LOCAL_ESCAPE = re.compile(r"\\(.)")


def read_source(text: str, prefixes: Mapping[str, str], base: str | None = None) -> Source:
    """Read a text; raises `QueryError` at the first token that cannot stand where it is."""
    return Reader(text, prefixes, base).read()


class Reader:
    def __init__(self, text: str, prefixes: Mapping[str, str], base: str | None) -> None:
        self.source = Source(Lexer(text))
        self.prefixes = dict(prefixes)
        self.base = base
        self.brackets: list[Bracket] = []
        self.clause = ""
        self.place = 0
        self.pattern = 0
        self.separators = 0
        self.opens_window = False
        self.pattern_of_blank: dict[str, int] = {}

    def read(self) -> Source:
        source = self.source
        self._prologue()
        read_register(self)
        self._prologue()
        first = self.place
        while not self._is_at_end():
            self._step()
        if self.place == first:
            hint = "a query starts with SELECT or ASK"
            raise source.error("the query is empty", self.token, hint=hint)
        if self.brackets:
            opening = self.brackets[-1].token
            raise source.error(f"this '{opening.text}' is never closed", opening, "bracket")
        source.zones.append(Zone.TOP)
        source.clauses.append("")
        return source

    # Tokens, read a few ahead at most

    @property
    def token(self) -> Token:
        return self.after(0)

    def after(self, steps: int = 1) -> Token:
        tokens, lexer = self.source.tokens, self.source.lexer
        while len(tokens) <= self.place + steps:
            last = tokens[-1] if tokens else None
            if last is not None and last.kind is TokenKind.END:
                return last
            tokens.append(lexer.read(last.start + len(last.text) if last else 0))
            if len(tokens) > MAX_TOKENS:
                message = f"a query of more than {MAX_TOKENS} words"
                raise self.source.error(
                    message, tokens[-1], "text", "split it into several queries"
                )
        return tokens[self.place + steps]

    def _is_at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def _split_less_than(self) -> None:
        """Read ``<?y && ?x>`` again: after an operand it is a comparison, not an IRI."""
        tokens, token = self.source.tokens, self.token
        symbol = "<=" if token.text.startswith("<=") else "<"
        tokens[self.place :] = [Token(TokenKind.SYMBOL, symbol, token.start)]

    @property
    def zone(self) -> Zone:
        return self.brackets[-1].zone if self.brackets else Zone.TOP

    def _mark(self) -> None:
        """Remember where the current token stands."""
        self.source.zones.append(self.zone)
        self.source.clauses.append(self.brackets[-1].clause if self.brackets else self.clause)

    def _write(self, piece: str) -> None:
        self.source.write(piece, self.place)
        self._mark()
        self.place += 1

    # Prologue: read here and not written, so that rdflib never resolves a name

    def _prologue(self) -> None:
        while self.token.word in ("BASE", "PREFIX"):
            word = self.token.word
            name = ""
            self.skip()
            if word == "PREFIX":
                if self.token.kind is not TokenKind.NAME or not self.token.text.endswith(":"):
                    raise self.expected("a prefix such as 'ex:'")
                name = self.token.text[:-1]
                self.skip()
            if self.token.kind is not TokenKind.IRI:
                raise self.expected(f"an IRI in <...> after {word}")
            reference = self.token.text[1:-1]
            iri = reference if self.base is None else resolve(reference, self.base)
            if word == "BASE":
                if not is_absolute(iri):
                    raise self.source.error(f"<{iri}> is not a whole IRI", self.token, "BASE")
                self.base = iri
            else:
                self.prefixes[name] = iri
            self.skip()

    def skip(self) -> None:
        self._mark()
        self.place += 1

    def expected(self, what: str) -> QueryError:
        return self.source.error(f"expected {what}, found {self.token}", self.token)

    # One token

    def _step(self) -> None:
        token = self.token
        if token.kind is TokenKind.WORD:
            self._word(token)
        elif token.kind is TokenKind.SYMBOL:
            self._symbol(token)
        elif token.kind is TokenKind.VARIABLE:
            self._accept("variable")
            names = self.source.variables
            self._write(f"?v{names.setdefault('?' + token.text[1:], len(names))}")
        elif token.kind is TokenKind.BLANK:
            self._accept("blank")
            self._blank(token)
        elif token.kind in (TokenKind.IRI, TokenKind.NAME):
            self._constant_iri(token)
        elif token.kind is TokenKind.STRING:
            self._accept("literal")
            self._string()
        elif token.kind in _NUMBERS:
            self._number(token)
        else:
            raise self.source.error(f"a query cannot hold {token} here", token)

    @property
    def expect(self) -> Expect:
        return self.brackets[-1].expect if self.brackets else Expect.ANYTHING

    def _accept(self, kind: str) -> None:
        """Check that a token of that kind may stand here."""
        if self.brackets and not self.brackets[-1].accept(kind):
            raise self.expected(self.expect.value.strip())

    def _constant_iri(self, token: Token) -> None:
        if token.kind is TokenKind.IRI and self.expect is Expect.OPERATOR:
            self._split_less_than()
            return
        may_call = (Expect.OPERAND, Expect.PRIMARY, Expect.CONSTRAINT)
        if self.after().text == "(" and (self.expect in may_call or not self.brackets):
            raise self.source.refusal("function call", token)
        self._accept("iri")
        self.source.constants[self.place] = f"<{self.iri(token)}>"
        self._write(f"<t:{self.place}>")

    def _word(self, token: Token) -> None:
        source, word = self.source, token.word
        following = self.after().word
        if word == "NOT" and following == "EXISTS":
            raise source.refusal("NOT EXISTS", token)
        if word == "ORDER":
            raise source.refusal("ORDER BY", token)
        if word in _STREAM_CLAUSES and _STREAM_CLAUSES[word](self):
            return
        if word in REFUSALS:
            raise source.refusal(word, token)
        if word == "SELECT" and self.brackets:
            raise source.refusal("sub-select", token)
        if word not in _KNOWN or (word == "A" and token.text != "a"):
            kind = "function" if following == "(" else "word"
            hint = "a query starts with SELECT or ASK" if not self.clause else ""
            raise source.error(f"unknown {kind} {token}", token, kind, hint)
        if word in AGGREGATES:
            self._check_aggregate(token)
        if word in _CLAUSES and not self.brackets:
            self.clause = word
        if word == "VALUES":
            self._accept(word)
            self._values(token)
        elif word in ("TRUE", "FALSE"):
            self._accept("literal")
            source.constants[self.place] = literal(word.lower(), XSD + "boolean")
            self._write(f'"{self.place}"^^<t:>')
        else:
            if word == "AS" and self.after().kind is TokenKind.VARIABLE and self.brackets:
                bracket = self.brackets[-1]
                source.named.append(Named(bracket.token, self.after(), bracket.clause))
            self._accept("a" if word == "A" else "function" if word in _FUNCTIONS else word)
            self._write("a" if word == "A" else word)

    def _check_aggregate(self, token: Token) -> None:
        clauses = [bracket.clause for bracket in self.brackets]
        reason = ""
        if any(clause in AGGREGATES for clause in clauses):
            reason = "inside an aggregate"
        elif "FILTER" in clauses or self.expect is Expect.CONSTRAINT:
            reason = "in a FILTER; use HAVING"
        elif "GROUP" in clauses or (not self.brackets and self.clause == "GROUP"):
            reason = "in GROUP BY"
        if reason:
            raise self.source.error(f"no aggregate {reason}", token, token.word)
        if [self.after(i).word for i in (1, 2, 3)] == ["(", "DISTINCT", "*"]:
            raise self.source.refusal("COUNT(DISTINCT *)", token)

    def _symbol(self, token: Token) -> None:
        symbol = token.text
        if symbol in _CLOSING:
            self._open(token)
        elif symbol in _CLOSING.values():
            self._close(token)
        else:
            in_pattern = bool(self.brackets) and self.zone is Zone.PATTERN
            if symbol in ("|", "?") or (symbol in ("*", "+", "!") and in_pattern):
                raise self.source.refusal(f"path {symbol}", token)
            if symbol == "*" and self.expect is Expect.OPERAND and not self._counts_rows():
                raise self.expected(self.expect.value)
            self._accept(symbol)
            self.separators += symbol in (".", ";", ",") and in_pattern
            if self.separators > MAX_PATTERNS:
                message = f"a query of more than {MAX_PATTERNS} triple patterns"
                raise self.source.error(message, token, "text", "split it into several queries")
            self._write(symbol)

    def _counts_rows(self) -> bool:
        call = self.brackets[-1].call
        return call is not None and call.word == "COUNT"

    def _open(self, token: Token) -> None:
        if len(self.brackets) == MAX_NESTING:
            message = f"brackets nest deeper than {MAX_NESTING}"
            raise self.source.error(message, token, "nesting")
        outer = self.brackets[-1] if self.brackets else None
        counts = self.after().kind in _NUMBERS or self.after().text == ","
        if token.text == "{" and outer is not None and counts:
            raise self.source.refusal("path {n}", token)
        before = self.source.tokens[self.place - 1] if self.place else token
        call = before if before.kind is TokenKind.WORD and before.word in _FUNCTIONS else None
        clause = outer.clause if outer is not None else self.clause
        inside = Expect.STATEMENT if token.text == "{" else Expect.OPERAND
        opened_at = self.expect
        if outer is not None and outer.expect is not Expect.ANYTHING:
            if (token.text, outer.expect) not in OPEN:
                raise self.expected(outer.expect.value.strip())
            inside, after = OPEN[token.text, outer.expect]
            is_filter = outer.zone is Zone.PATTERN and inside is Expect.OPERAND
            outer.expect = Expect.STATEMENT if is_filter else after
            outer.is_empty = False
            clause = "FILTER" if is_filter else clause
        if token.text == "{":
            clause = "WINDOW" if self.opens_window else "WHERE"
            self.opens_window = False
            self.pattern += 1
        if call is not None and call.word in AGGREGATES:
            clause = call.word
        zone = Zone.EXPRESSION if inside is Expect.OPERAND else Zone.PATTERN
        if call is not None and call.word == "BOUND":
            inside = Expect.VARIABLE
        self._write(token.text)
        self.brackets.append(Bracket(token, zone, clause, inside, opened_at, call))

    def _close(self, token: Token) -> None:
        if not self.brackets or _CLOSING[self.brackets[-1].token.text] != token.text:
            raise self.source.error(f"'{token.text}' closes nothing", token, "bracket")
        bracket = self.brackets[-1]
        if bracket.call is not None and bracket.may_close():
            self._check_arity(bracket)
        elif not bracket.may_close():
            raise self.expected(bracket.expect.value.strip())
        self._write(token.text)
        self.brackets.pop()
        self.pattern += token.text == "}"
        outer = self.brackets[-1] if self.brackets else None
        if outer is not None and outer.expect is Expect.SUBJECT_DONE and not bracket.is_empty:
            # A subject in brackets that says something may stand alone.
            outer.expect = Expect.MORE

    def _check_arity(self, bracket: Bracket) -> None:
        call = bracket.call
        if call is None or call.word in AGGREGATES:
            return
        arity = OPERATORS["ISIRI" if call.word == "ISURI" else call.word]
        count = 0 if bracket.is_empty else bracket.commas + 1
        if not arity.allows(count):
            message = f"{call.word} takes {arity}, not {count}"
            raise self.source.error(message, call, call.word)

    # Terms

    def iri(self, token: Token) -> str:
        """The IRI of a token; without a base ``<p>`` stays as it is, and matches ``<p>``."""
        if token.kind is TokenKind.IRI:
            iri, hint = token.text[1:-1], ""
            iri = iri if self.base is None else resolve(iri, self.base)
        else:
            prefix, _, local = token.text.partition(":")
            if prefix not in self.prefixes:
                hint = f"declare it with PREFIX {prefix}: <...>"
                raise self.source.error(f"unknown prefix '{prefix}:'", token, "prefix", hint)
            iri = self.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)
            hint = f"look at what {prefix}: stands for"
        if not (is_absolute(iri) or (self.base is None and is_relative(iri))):
            raise self.source.error(f"<{iri}> is not an IRI", token, "IRI", hint)
        return iri

    def _blank(self, token: Token) -> None:
        if self.pattern_of_blank.setdefault(token.text, self.pattern) != self.pattern:
            message = f"the blank node {token.text} is used in two basic graph patterns"
            raise self.source.error(message, token, "blank node", "use a variable instead")
        self._write(f"_:b{self.source.blanks.setdefault(token.text, len(self.source.blanks))}")

    def _string(self) -> None:
        """A string with its language or datatype, as one constant."""
        start = self.place
        term = self._literal_term()
        self.source.constants[start] = term
        self.source.write(f'"{start}"^^<t:>', start)

    def _literal_term(self) -> str:
        """Read the literal at the current token and step over it."""
        token = self.token
        width = 3 if token.text[:3] in ('"""', "'''") else 1
        try:
            text = unescape(token.text[width:-width])
        except BadEscape as bad:
            offset = token.start + width + bad.offset
            raise self.source.lexer.error(str(bad), offset, "string") from None
        self.skip()
        if self.token.kind is TokenKind.LANGUAGE:
            language = self.token.text[1:]
            self.skip()
            return literal(text, language=language)
        if self.token.text == "^^":
            self.skip()
            if self.token.kind not in (TokenKind.IRI, TokenKind.NAME):
                raise self.expected("a datatype after '^^'")
            datatype = self.iri(self.token)
            self.skip()
            return literal(text, datatype)
        return literal(text)

    def _number(self, token: Token) -> None:
        if self.zone is Zone.TOP:
            if token.kind is not TokenKind.INTEGER or not token.text.isdigit():
                raise self.expected("a number without sign or fraction")
            if len(token.text) > MAX_DIGITS:
                raise self.source.error(f"{self.clause} has more than {MAX_DIGITS} digits", token)
            self._write(token.text)
            return
        text = token.text
        if text[0] in "+-" and self.expect is Expect.OPERATOR:
            self._accept("signed")
            self.source.write(text[0], self.place)
            text = text[1:]
        else:
            self._accept("literal")
        self.source.constants[self.place] = literal(text, _NUMBERS[token.kind])
        self._write(f'"{self.place}"^^<t:>')

    # VALUES

    def _values(self, token: Token) -> None:
        """A whole block: rdflib would drop the values of a row that is too long."""
        start = self.place
        self.pattern += 1
        outer = self.clause
        self._write("VALUES")
        data = Bracket(token, Zone.DATA, "VALUES", Expect.ANYTHING, Expect.ANYTHING)
        self.brackets.append(data)
        is_wide = self.token.text == "("
        names = self._value_names(is_wide)
        if self.token.text != "{":
            raise self.expected("'{'")
        self._write("{")
        rows: list[tuple[str, ...]] = []
        while self.token.text != "}":
            rows.append(self._value_row(len(names)) if is_wide else (self._value(),))
        self._write("}")
        self.brackets.pop()
        self.clause = outer
        self.source.blocks.append(Block(start, names, tuple(rows)))

    def _value_names(self, is_wide: bool) -> tuple[str, ...]:
        names: list[str] = []
        if is_wide:
            self._write("(")
        while self.token.kind is TokenKind.VARIABLE and (is_wide or not names):
            name = "?" + self.token.text[1:]
            if name in names:
                raise self.source.error(f"{name} is twice in one VALUES", self.token, "VALUES")
            names.append(name)
            self._step()
        if is_wide:
            if self.token.text != ")":
                raise self.expected("a variable or ')'")
            self._write(")")
        elif not names:
            raise self.expected("'(' or a variable after 'VALUES'")
        return tuple(names)

    def _value_row(self, width: int) -> tuple[str, ...]:
        opening = self.token
        if opening.text != "(":
            raise self.expected("'(' or '}'")
        self._write("(")
        row: list[str] = []
        while self.token.text != ")":
            row.append(self._value())
        self._write(")")
        if len(row) != width:
            message = f"a row of {len(row)} values for {width} variables"
            raise self.source.error(message, opening, "VALUES")
        return tuple(row)

    def _value(self) -> str:
        token, place = self.token, self.place
        is_boolean = token.word in ("TRUE", "FALSE")
        kinds = (TokenKind.IRI, TokenKind.NAME, TokenKind.STRING, *_NUMBERS)
        if token.word == "UNDEF":
            raise self.source.refusal("UNDEF", token)
        if token.kind not in kinds and not is_boolean:
            raise self.expected("an IRI or a literal")
        self._step()
        return self.source.constants[place]
