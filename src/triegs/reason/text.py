"""Rules as Datalog text.

``head :- body.`` over ``TE(s, p, o)`` (also ``triple(…)`` and ``[s, p, o]``), over ``:p(x, y)`` and
``:C(x)`` for a property and a class, and over named predicates of one to four columns, which stay
inside the reasoner. Variables begin with ``?``, ``_`` or a capital letter. The full stop may be
left out at the end of a rule. Comments begin with ``%``, ``#`` or ``//``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from triegs.errors import RuleError
from triegs.reason.model import (
    MOST_ATOMS,
    MOST_COLUMNS,
    MOST_VARIABLES,
    TRIPLE,
    Rule,
    RuleAtom,
    RuleSet,
)
from triegs.sparql.model import is_variable
from triegs.terms.term import XSD, BadEscape, literal, unescape

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TYPE = f"<{RDF}type>"
KNOWN_PREFIXES = {
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": XSD,
}
_SPACE = re.compile(r"(?:\s+|[%#][^\r\n]*|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<IRI><[^<>"{}|^`\\\x00-\x20=-][^<>"{}|^`\\\x00-\x20]*>|<>)
  | (?P<IF>:-|<-|←|<=|=>|->)
  | (?P<DECLARE>@prefix\b|@base\b)
  | (?P<STRING>"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
  | (?P<TYPED>\^\^)
  | (?P<LANGUAGE>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<VARIABLE>[?$]\w+)
  | (?P<BLANK>_:\w+)
  | (?P<NAME>(?:[^\W\d_][\w-]*)?:(?!-)(?:[\w:](?:\.*[\w:%-])*)?)
  | (?P<DOUBLE>[+-]?(?:\d+\.\d*|\.?\d+)[eE][+-]?\d+)
  | (?P<DECIMAL>[+-]?\d*\.\d+)
  | (?P<INTEGER>[+-]?\d+)
  | (?P<WORD>\w+)
  | (?P<SYMBOL>\\\+|!=|>=|[()\[\]{}.,;!~=<>+*/|&-])
    """,
    re.VERBOSE,
)
_NUMBERS = {"INTEGER": "integer", "DECIMAL": "decimal", "DOUBLE": "double"}
_NEGATIONS = ("not", "naf", "!", "~", "\\+", "¬")
_COMPARISONS = ("=", "!=", "<", ">", ">=", "<=", "=>")
_AGGREGATES = ("aggregate", "count", "sum", "min", "max", "avg")


class Token(NamedTuple):
    kind: str
    text: str
    start: int


def locate(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def parse_rules(text: str, prefixes: Mapping[str, str] | None = None) -> RuleSet:
    """Read rules as Datalog text; the prefixes rdf, rdfs, owl and xsd are known.

    Raises `RuleError` with line and column. Cost: linear in the text.

    >>> print(parse_rules("@prefix : <http://ex/> . :Person(X) :- :knows(X, Y)."))
    TE(?X, <...#type>, <http://ex/Person>) :- TE(?X, <http://ex/knows>, ?Y).
    >>> parse_rules("p(X) :- q(X), not r(X)")
    Traceback (most recent call last):
    triegs.errors.RuleError: line 1, column 15: negation is not supported; ...
    """
    return _Parser(text, {**KNOWN_PREFIXES, **(prefixes or {})}).read()


class _Parser:
    def __init__(self, text: str, prefixes: dict[str, str]) -> None:
        self.text = text
        self.prefixes = prefixes
        self.base = ""
        self.arities: dict[str, tuple[int, int]] = {}  # columns, and the line of the first use
        self._fresh = 0
        self.token = self._lex(0)

    # Tokens

    def _lex(self, offset: int) -> Token:
        space = _SPACE.match(self.text, offset)
        start = space.end() if space else offset
        match = _TOKEN.match(self.text, start)
        if match is not None:
            return Token(match.lastgroup or "", match[0], start)
        if start == len(self.text):
            return Token("END", "", start)
        character = self.text[start]
        if character in "\"'":
            raise self.error("unterminated string", start, "string", "close its quotes")
        if character == "¬":
            return Token("SYMBOL", character, start)
        raise self.error(f"unexpected character {character!r}", start, "syntax")

    def advance(self) -> Token:
        passed = self.token
        self.token = self._lex(passed.start + len(passed.text))
        return passed

    def skip(self, text: str) -> bool:
        if self.token.text != text:
            return False
        self.advance()
        return True

    def error(self, message: str, offset: int, construct: str, hint: str = "") -> RuleError:
        line, column = locate(self.text, offset)
        return RuleError(message, line=line, column=column, construct=construct, hint=hint)

    def expected(self, what: str, hint: str = "") -> RuleError:
        found = "the end of the text" if self.token.kind == "END" else repr(self.token.text)
        return self.error(f"expected {what}, found {found}", self.token.start, "syntax", hint)

    # Rules

    def read(self) -> RuleSet:
        found: list[Rule] = []
        while self.token.kind != "END":
            if self.token.kind == "DECLARE" or (
                self.token.kind == "WORD" and self.token.text.lower() in ("prefix", "base")
            ):
                self._declare()
            else:
                found += self._rule()
        return RuleSet(tuple(dict.fromkeys(found)))

    def _declare(self) -> None:
        kind = self.advance().text.lower().lstrip("@")
        name = ""
        if kind == "prefix":
            if self.token.kind != "NAME" or not self.token.text.endswith(":"):
                raise self.expected("a prefix such as 'ex:'")
            name = self.advance().text[:-1]
        if self.token.kind != "IRI":
            raise self.expected(f"an IRI in <...> after {kind}")
        iri = self.base + self.advance().text[1:-1] if self.base else self.advance().text[1:-1]
        if kind == "prefix":
            self.prefixes[name] = iri
        else:
            self.base = iri
        self.skip(".")

    def _rule(self) -> list[Rule]:
        start = self.token.start
        heads = [self._atom()]
        while self.skip(","):
            heads.append(self._atom())
        body: list[RuleAtom] = []
        if self.token.kind == "IF":
            if self.token.text in ("=>", "->"):
                message = "a rule is written head :- body"
                raise self.error(message, self.token.start, "syntax", "turn it around")
            self.advance()
            body.append(self._atom())
            while self.skip(","):
                body.append(self._atom())
        if self.token.text in (";", "|"):
            hint = "write one rule for each alternative"
            raise self.error("disjunction is not supported", self.token.start, "disjunction", hint)
        self.skip(".")
        return check_rule(heads, body, lambda *parts: self.error(parts[0], start, *parts[1:]))

    def _atom(self) -> RuleAtom:
        token = self.token
        if token.text.lower() in _NEGATIONS:
            hint = "only positive rules are supported; subtract where answers are read"
            raise self.error("negation is not supported", token.start, "negation", hint)
        if token.text == "[":
            self.advance()
            terms = self._terms("]")
            return self._triple(token, terms)
        if token.kind in ("IRI", "NAME"):
            self.advance()
            return self._property(token)
        if token.kind != "WORD" or token.text[0].isdigit():
            raise self._refuse_atom(token)
        self.advance()
        if self.token.text in _COMPARISONS:
            raise self._refuse_atom(self.token)
        if token.text.lower() in _AGGREGATES and self.token.text == "(":
            message = f"the aggregate {token.text} is not supported in rules"
            raise self.error(message, token.start, "aggregate", "aggregate in a query")
        if not self.skip("("):
            raise self.expected(f"'(' after {token.text}")
        terms = self._terms(")")
        if token.text.upper() == TRIPLE or token.text.lower() == "triple":
            return self._triple(token, terms)
        if not 1 <= len(terms) <= MOST_COLUMNS:
            message = (
                f"{token.text} has {len(terms)} arguments; from 1 to {MOST_COLUMNS} are supported"
            )
            raise self.error(message, token.start, "arity")
        known, line = self.arities.setdefault(
            token.text, (len(terms), locate(self.text, token.start)[0])
        )
        if known != len(terms):
            message = f"{token.text} has {len(terms)} arguments here and {known} in line {line}"
            raise self.error(message, token.start, "arity", "give one of them another name")
        return RuleAtom(token.text, tuple(terms))

    def _refuse_atom(self, token: Token) -> RuleError:
        after = self._lex(token.start + len(token.text)) if token.kind != "END" else token
        is_comparison = token.text in _COMPARISONS or after.text in _COMPARISONS
        if is_comparison and token.kind != "END":
            hint = "filter in a query; a variable that is repeated is compared"
            return self.error(
                "comparisons are not supported in rules", token.start, "comparison", hint
            )
        return self.expected("an atom such as TE(X, rdf:type, Y) or p(X)")

    def _triple(self, token: Token, terms: list[str]) -> RuleAtom:
        if len(terms) != 3:
            message = f"a triple has 3 arguments, not {len(terms)}"
            raise self.error(message, token.start, "arity")
        return RuleAtom(TRIPLE, tuple(terms))

    def _property(self, token: Token) -> RuleAtom:
        iri = self._iri(token)
        if not self.skip("("):
            raise self.expected(f"'(' after {token.text}")
        terms = self._terms(")")
        if len(terms) == 1:
            return RuleAtom(TRIPLE, (terms[0], TYPE, iri))
        if len(terms) == 2:
            return RuleAtom(TRIPLE, (terms[0], iri, terms[1]))
        message = f"an IRI as a predicate has 1 or 2 arguments, not {len(terms)}"
        hint = "write TE(s, p, o) for a triple, or name the predicate by a word"
        raise self.error(message, token.start, "arity", hint)

    # Terms

    def _terms(self, closing: str) -> list[str]:
        if self.skip(closing):
            return []
        found = [self._term()]
        while self.skip(","):
            found.append(self._term())
        if not self.skip(closing):
            raise self.expected(f"',' or '{closing}'")
        return found

    def _term(self) -> str:
        token = self.token
        kind, text = token.kind, token.text
        if kind in ("IRI", "NAME"):
            self.advance()
            self._refuse_function(token)
            return self._iri(token)
        if kind == "VARIABLE":
            self.advance()
            return "?" + text[1:]
        if kind == "STRING":
            return self._string()
        if kind in _NUMBERS:
            self.advance()
            return literal(text, XSD + _NUMBERS[kind])
        if kind == "WORD" and text[0].isdigit() is False:
            self.advance()
            self._refuse_function(token)
            return self._word(token)
        if kind == "BLANK":
            hint = "use a variable"
            raise self.error("a blank node is not a constant", token.start, "blank node", hint)
        raise self.expected("a variable or a constant")

    def _word(self, token: Token) -> str:
        text = token.text
        if text == "_":  # anything, another variable each time
            self._fresh += 1
            return f"?_{self._fresh}"
        if text[0].isupper() or text[0] == "_":
            return f"?{text}"
        if text in ("true", "false"):
            return literal(text, XSD + "boolean")
        if text == "a":
            return TYPE
        hint = f"write <…{text}>, a prefixed name, or a string; variables begin with a capital"
        raise self.error(f"{text} is not an RDF term", token.start, "constant", hint)

    def _refuse_function(self, token: Token) -> None:
        if self.token.text == "(":
            message = f"the function symbol {token.text} is not supported"
            hint = "arguments are variables and constants"
            raise self.error(message, token.start, "function symbol", hint)

    def _string(self) -> str:
        token = self.advance()
        try:
            text = unescape(token.text[1:-1])
        except BadEscape as bad:
            message = f"{bad.sequence} is not a valid escape"
            raise self.error(message, token.start, "string") from None
        if self.token.kind == "LANGUAGE":
            return literal(text, language=self.advance().text[1:])
        if self.token.kind == "TYPED":
            self.advance()
            if self.token.kind not in ("IRI", "NAME"):
                raise self.expected("a datatype")
            return literal(text, self._iri(self.advance())[1:-1])
        return literal(text)

    def _iri(self, token: Token) -> str:
        if token.kind == "IRI":
            text = token.text[1:-1]
            return f"<{text if ':' in text else self.base + text}>"
        prefix, _, local = token.text.partition(":")
        if prefix not in self.prefixes:
            hint = f"declare it: @prefix {prefix}: <…> ."
            raise self.error(f"unknown prefix '{prefix}:'", token.start, "prefix", hint)
        return f"<{self.prefixes[prefix]}{local}>"


def check_rule(heads: list[RuleAtom], body: list[RuleAtom], refuse: object) -> list[Rule]:
    """The rules of some heads and one body, if they are safe and within bounds; `refuse` makes the
    error of a message, a construct and a hint.
    """
    assert callable(refuse)
    if len(body) > MOST_ATOMS:
        raise refuse(f"a body has at most {MOST_ATOMS} atoms, not {len(body)}", "body")
    bound = {term for atom in body for term in atom.terms if is_variable(term)}
    if len(bound) > MOST_VARIABLES:
        raise refuse(f"a rule has at most {MOST_VARIABLES} variables, not {len(bound)}", "body")
    for head in heads:
        for term in head.terms:
            if is_variable(term) and term not in bound:
                hint = "each variable of a head must occur in the body"
                message = f"{term} is in the head and not in the body"
                raise refuse(message, "unsafe variable", hint)
    return [Rule(head, tuple(body)) for head in heads]
