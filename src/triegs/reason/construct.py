"""Rules as SPARQL: ``CONSTRUCT { template } WHERE { basic graph pattern }``, one or several."""

from __future__ import annotations

from collections.abc import Mapping

from triegs.errors import QueryError, RuleError
from triegs.reason.model import TRIPLE, Rule, RuleAtom, RuleSet
from triegs.reason.text import KNOWN_PREFIXES, check_rule
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Atom, is_variable
from triegs.sparql.pattern_parser import Body, PatternParser
from triegs.sparql.reader import Reader
from triegs.sparql.scope import Unknown
from triegs.sparql.window import Window

_ONLY = "a rule has a template and a basic graph pattern"


def parse_construct(text: str, prefixes: Mapping[str, str] | None = None) -> RuleSet:
    """Read rules as SPARQL; each triple of a template is one rule.

    Raises `RuleError` with line and column. Cost: linear in the text.

    >>> print(parse_construct('''PREFIX : <http://ex/>
    ...     CONSTRUCT { ?x :in ?z } WHERE { ?x :of ?y . ?y :in ?z }'''))
    TE(?x, <http://ex/in>, ?z) :- TE(?x, <http://ex/of>, ?y), TE(?y, <http://ex/in>, ?z).
    """
    try:
        return _read(Reader(text, {**KNOWN_PREFIXES, **(prefixes or {})}, None))
    except RuleError:
        raise
    except QueryError as error:
        place = {"line": error.line, "column": error.column}
        raise RuleError(
            error.message, **place, construct=error.construct, hint=error.hint
        ) from None


def _read(reader: Reader) -> RuleSet:
    rules: list[Rule] = []
    while True:
        while reader.skip("PREFIX"):
            name = reader.advance().text
            if reader.token.kind is not TokenKind.IRI:
                raise reader.expected("an IRI in <...> after PREFIX")
            reader.prefixes[name.rstrip(":")] = reader.advance().text[1:-1]
        if reader.is_at_end() and rules:
            return RuleSet(tuple(dict.fromkeys(rules)))
        start = reader.token
        if start.word != "CONSTRUCT":
            raise reader.error("expected CONSTRUCT", start, hint="a file has rules of one kind")
        reader.advance()
        template = PatternParser(reader, {}, []).read()
        reader.skip("WHERE")
        where = reader.token
        windows: dict[str, Window] = {}
        unknown: list[Unknown] = []
        body = PatternParser(reader, windows, unknown).read()
        if not reader.is_at_end() and reader.token.word not in ("CONSTRUCT", "PREFIX", ";"):
            raise _refuse(reader, reader.token, f"{reader.token} is not supported in rules", "")
        reader.skip(";")
        for part, token in ((template, start), (body, where)):
            _check_plain(reader, part, token)
        if not template.atoms:
            raise _refuse(reader, start, "the template is empty", "template")

        def refuse(message: str, construct: str, hint: str = "", token: Token = start) -> RuleError:
            return _refuse(reader, token, message, construct, hint)

        heads, premises = _name_plainly(template, body)
        rules += check_rule(heads, premises, refuse)


def _check_plain(reader: Reader, body: Body, token: Token) -> None:
    """Only triple patterns: a filter, VALUES or a window is refused by name."""
    if body.filters:
        raise _refuse(reader, token, "FILTER is not supported in rules", "FILTER", _ONLY)
    if body.values:
        raise _refuse(reader, token, "VALUES is not supported in rules", "VALUES", _ONLY)
    if any(body.graphs):
        raise _refuse(reader, token, "a window is not supported in rules", "WINDOW", _ONLY)


def _refuse(
    reader: Reader, token: Token, message: str, construct: str, hint: str = _ONLY
) -> RuleError:
    line, column = reader.lexer.position(token.start)
    return RuleError(message, line=line, column=column, construct=construct, hint=hint)


def _name_plainly(template: Body, body: Body) -> tuple[list[RuleAtom], list[RuleAtom]]:
    """The atoms, with names for the variables that stand for blank nodes and steps of paths; those
    of template and pattern are different variables.
    """
    names: dict[tuple[bool, str], str] = {}

    def rename(atom: Atom, is_head: bool) -> RuleAtom:
        terms = []
        for term in atom:
            name = term
            if is_variable(term) and not term[1:].replace("_", "a").isalnum():
                name = names.setdefault((is_head, term), f"?blank_{len(names) + 1}")
            terms.append(name)
        return RuleAtom(TRIPLE, tuple(terms))

    return (
        [rename(atom, True) for atom in template.atoms],
        [rename(atom, False) for atom in body.atoms],
    )
