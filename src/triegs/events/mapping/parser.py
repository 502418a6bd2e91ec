r"""Parses mappings: Turtle triples with table cells in braces.

==========================  =================================================================
``{from}``                  the IRI of a cell under the base
``{amount:decimal}``        a typed literal with the digits of the cell
``{page:iri}``              the IRI that the cell contains
``:paid``, ``ex:paid``      a prefixed name; the empty prefix defaults to the base
``ex:{from}``, ``<…{a}/b>`` an IRI with cells in it
``"from {from}"@en``        a literal with cells in it
``5``, ``true``, ``"x"``    a literal shared by all rows
``a``                       ``rdf:type``, as a predicate
``[]``                      the node of the row
==========================  =================================================================

Triples end with ``.``; ``;`` keeps the subject, ``,`` keeps subject and predicate. ``{{`` and
``}}`` are literal braces.

>>> mapping = parse_mapping("[] :payer {from} ; :amount {amount:decimal}")
>>> mapping.columns, len(mapping.templates), mapping.has_row_node
(('from', 'amount'), 2, True)
>>> parse_mapping("{from} paid {to}")
Traceback (most recent call last):
triegs.errors.MappingError: the mapping, line 1, column 8: 'paid' is not a term; a name...
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Prefixes
from typing import NamedTuple, NoReturn

from triegs.errors import MappingError
from triegs.events.mapping.model import (
    IRI_TYPE,
    TYPES,
    Constant,
    Filled,
    Form,
    Mapping,
    RowNode,
    Template,
    TermTemplate,
)
from triegs.names import BASE, check_base
from triegs.terms.term import RDF, XSD, BadEscape, canonical_term, iri, literal, unescape

WELL_KNOWN = {"rdf": RDF, "xsd": XSD, "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}
SUPPORTED = (
    'a term is {column}, {column:type}, :name, prefix:name, <IRI>, "text", a number, true, '
    "false, or [] for the node of the row"
)
_CELL = r"\{(?!\{)[^{}]*\}"
_LOCAL = rf"(?:[\w~%:-]|\\.|\{{\{{|\}}\}}|{_CELL})"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<iri><[^<>\n]*>)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<name>(?:[^\W\d_][\w.-]*)?:(?:\.*{_LOCAL})*)
  | (?P<cell>{_CELL})
  | (?P<blank>_:\S*)
  | (?P<number>[+-]?(?:\d+\.?\d*[eE][+-]?\d+|\.\d+[eE][+-]?\d+|\d*\.\d+|\d+)(?![\w]))
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<node>\[\s*\])
  | (?P<symbol>\^\^|[.;,])
  | (?P<word>[^\s.;,]+)
    """,
    re.VERBOSE,
)
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_ESCAPE = re.compile(r"\\(.)")


class Token(NamedTuple):
    kind: str
    text: str
    start: int


def parse_mapping(
    given: str | Iterable[str],
    *,
    base: str = BASE,
    prefixes: Prefixes[str, str] | None = None,
) -> Mapping:
    """Parse one or more texts; `MappingError` gives the location of an error."""
    root = check_base(base)
    known = {**WELL_KNOWN, "": root, **(prefixes or {})}
    texts = [given] if isinstance(given, str) else list(given)
    templates: list[Template] = []
    named: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise MappingError(f"a mapping is a str such as '{{from}} :paid {{to}}', not {text!r}")
        title = "the mapping" if len(texts) == 1 else f"mapping {number}"
        templates += _Parser(text, title, root, known, named).read()
    if not templates:
        raise MappingError("the mapping is empty; an example is {from} :paid {to}")
    if not named:
        raise MappingError("the mapping uses no column; an example is {from} :paid {to}")
    return Mapping(tuple(templates), tuple(named.items()))


class _Parser:
    """Parses one text; ``named`` collects the location of each new column."""

    def __init__(
        self, text: str, title: str, base: str, prefixes: Prefixes[str, str], named: dict[str, str]
    ) -> None:
        self._text = text
        self._title = title
        self._base = base
        self._prefixes = prefixes
        self._named = named
        self._tokens = [token for token in self._split() if token.kind != "space"]
        self._at = 0

    def _split(self) -> list[Token]:
        found, at = [], 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            assert match is not None
            found.append(Token(str(match.lastgroup), match[0], at))
            at = match.end()
        return [*found, Token("end", "", at)]

    def _fail(self, at: int, problem: str) -> NoReturn:
        raise MappingError(f"{self._locate(at)}: {problem}")

    def _locate(self, at: int) -> str:
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        return f"{self._title}, line {line}, column {column}"

    # Triples

    def read(self) -> list[Template]:
        found: list[Template] = []
        while self._peek().kind != "end":
            subject = self._read_term("a subject")
            while True:
                predicate = self._read_predicate()
                while True:
                    found.append(Template(subject, predicate, self._read_term("an object")))
                    if not self._take(","):
                        break
                is_more = False
                while self._take(";"):
                    is_more = True
                if not is_more or self._peek().text == "." or self._peek().kind == "end":
                    break
            token = self._peek()
            if not self._take(".") and token.kind != "end":
                self._fail(token.start, f"unexpected {token.text!r} after a triple; write . ; or ,")
        return found

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self, symbol: str) -> bool:
        is_there = self._peek().kind == "symbol" and self._peek().text == symbol
        self._at += is_there
        return is_there

    def _read_predicate(self) -> TermTemplate:
        token = self._peek()
        if token.kind == "word" and token.text == "a":
            self._at += 1
            return Constant(f"<{RDF}type>")
        found = self._read_term("a predicate")
        is_literal = isinstance(found, Constant) and not found.term.startswith("<")
        if is_literal or (isinstance(found, Filled) and found.form is Form.LITERAL):
            self._fail(token.start, f"a predicate must be an IRI, not the literal {token.text}")
        if isinstance(found, RowNode):
            self._fail(token.start, "a predicate must be an IRI, not the node of the row")
        return found

    # Terms

    def _read_term(self, what: str) -> TermTemplate:
        token = self._peek()
        self._at += 1
        kind, text = token.kind, token.text
        if kind in ("end", "symbol", "blank", "word", "language") and text not in ("true", "false"):
            self._refuse(token, what)
        if kind == "node":
            return RowNode()
        if kind == "cell":
            return self._read_cell(token)
        if kind == "iri":
            return self._read_iri(token)
        if kind == "name":
            return self._read_name(token)
        if kind == "string":
            return self._read_string(token)
        if kind == "number":
            is_double = "e" in text.lower()
            datatype = "double" if is_double else "decimal" if "." in text else "integer"
            return Constant(literal(text, XSD + datatype))
        return Constant(literal(text, XSD + "boolean"))

    def _refuse(self, token: Token, what: str) -> NoReturn:
        kind, text = token.kind, token.text
        if kind in ("end", "symbol"):
            shown = "the end" if kind == "end" else repr(text)
            self._fail(token.start, f"{what} is missing before {shown}; {SUPPORTED}")
        if kind == "blank":
            self._fail(
                token.start,
                f"{text!r}: the only blank node is [], the node of the row",
            )
        if text.startswith("["):
            self._fail(token.start, "[ … ] is not supported; write [] and ; between its properties")
        if "{" in text or "}" in text:
            self._fail(token.start, f"{text!r}: unbalanced brace; {{{{ and }}}} are literal braces")
        hint = f"a name has a colon, :{text}" if text.isidentifier() else SUPPORTED
        self._fail(token.start, f"{text!r} is not a term; {hint}")

    def _read_cell(self, token: Token) -> Filled:
        column, sign, kind = token.text[1:-1].rpartition(":")
        is_typed = sign and kind.strip() in (*TYPES, IRI_TYPE)
        name = (column if is_typed else token.text[1:-1]).strip()
        self._note(name, token.start)
        if not is_typed:
            return Filled(Form.IRI, (self._base, ""), (name,))
        if kind.strip() == IRI_TYPE:
            return Filled(Form.WHOLE_IRI, ("", ""), (name,))
        return Filled(Form.LITERAL, ("", ""), (name,), kind.strip())

    def _note(self, column: str, at: int) -> None:
        if not column:
            self._fail(at, "{} names no column")
        self._named.setdefault(column, self._locate(at))

    def _split_cells(self, text: str, at: int) -> tuple[list[str], list[str]]:
        """The texts before, between and after cells, and the columns."""
        texts, columns, done = [""], [], 0
        for match in _PART.finditer(text):
            texts[-1] += text[done : match.start()]
            done = match.end()
            if match[0] in ("{{", "}}"):
                texts[-1] += match[0][0]
            elif match[1] is None:
                self._fail(at + match.start(), "unbalanced brace; {{ and }} are literal braces")
            else:
                self._note(match[1].strip(), at + match.start())
                columns.append(match[1].strip())
                texts.append("")
        texts[-1] += text[done:]
        return texts, columns

    def _read_iri(self, token: Token) -> TermTemplate:
        texts, columns = self._split_cells(token.text[1:-1], token.start + 1)
        if columns and not texts[0]:
            self._fail(token.start, f"an IRI must start with text; for a cell that is an IRI write "
                       f"{{{columns[0]}:iri}}")  # fmt: skip
        return self._fill_iri(texts, columns, token)

    def _read_name(self, token: Token) -> TermTemplate:
        prefix, _, local = token.text.partition(":")
        if prefix not in self._prefixes:
            known = ", ".join(f"{name}:" for name in self._prefixes)
            self._fail(token.start, f"undeclared prefix {prefix + ':'!r}; known prefixes: {known}")
        texts, columns = self._split_cells(local, token.start + len(prefix) + 1)
        plain = [_ESCAPE.sub(r"\1", text) for text in texts]
        return self._fill_iri([self._prefixes[prefix] + plain[0], *plain[1:]], columns, token)

    def _fill_iri(self, texts: list[str], columns: list[str], token: Token) -> TermTemplate:
        try:
            clear = [unescape(text) for text in texts]
            for text in clear:
                iri(text)
        except ValueError as problem:
            self._fail(token.start, f"{token.text}: {problem}")
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", clear[0]):
            name = clear[0].strip("/#") or "name"
            self._fail(token.start, f"{token.text} has no scheme such as http:; a name under the "
                       f"base is :{name}")  # fmt: skip
        if not columns:
            return Constant(iri(clear[0]))
        return Filled(Form.IRI, tuple(clear), tuple(columns))

    def _read_string(self, token: Token) -> TermTemplate:
        texts, columns = self._split_cells(token.text[1:-1], token.start + 1)
        try:
            clear = [unescape(text) for text in texts]
            canonical_term(literal("".join(clear)))
        except (BadEscape, ValueError) as problem:
            self._fail(token.start, f"{token.text}: {problem}")
        language, datatype = "", ""
        if self._peek().kind == "language":
            language = self._peek().text[1:].lower()
            self._at += 1
        elif self._take("^^"):
            datatype = self._read_datatype()
        if not columns:
            return Constant(canonical_term(literal(clear[0], datatype or XSD + "string", language)))
        short = datatype.removeprefix(XSD)
        kind = short if datatype == XSD + short and short in TYPES else datatype
        return Filled(Form.LITERAL, tuple(clear), tuple(columns), kind, language)

    def _read_datatype(self) -> str:
        token = self._peek()
        self._at += 1
        found = None
        if token.kind in ("iri", "name"):
            found = self._read_iri(token) if token.kind == "iri" else self._read_name(token)
        if not isinstance(found, Constant):
            self._fail(token.start, f"a datatype must be an IRI, not {token.text!r}")
        return found.term[1:-1]
