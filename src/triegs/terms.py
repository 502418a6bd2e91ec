r"""RDF terms as strings: the N-Triples form, taken apart and put together.

Everywhere in the package a term is one string in N-Triples form, and two terms are the same
exactly if their strings are. That needs one spelling per term: ``"x"^^xsd:string`` is written
``"x"``, language tags are in lower case, and control characters are always escaped the same way
(the spelling that ``str()`` of a pyoxigraph term gives).

>>> parse_term('"01"^^<http://www.w3.org/2001/XMLSchema#integer>').lexical
'01'
>>> literal("say \"hi\"", language="EN")
'"say \\"hi\\""@en'
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD_STRING = XSD + "string"
RDF_LANG_STRING = RDF + "langString"


class Kind(Enum):
    IRI = "iri"
    BLANK = "blank"
    LITERAL = "literal"


class Term(NamedTuple):
    """A term in parts. ``lexical`` is the IRI, the blank label or the literal's text.

    ``datatype`` (a bare IRI) is empty for what is not a literal, ``language`` for what has none.
    """

    kind: Kind
    lexical: str
    datatype: str = ""
    language: str = ""


_UNESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPES = {plain: "\\" + letter for letter, plain in _UNESCAPES.items() if plain != "'"}
_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f]')
_TO_UNESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)
_TERM = re.compile(
    r"<(?P<iri>[^<>]*)>"
    r"|_:(?P<blank>\S+)"
    r'|"(?P<text>(?:[^"\\]|\\.)*)"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)'
    r"|\^\^<(?P<datatype>[^<>]*)>)?",
    re.DOTALL,
)


class BadEscape(ValueError):
    """A backslash sequence that means nothing; ``offset`` says where in the text it starts."""

    def __init__(self, sequence: str, offset: int) -> None:
        super().__init__(f"bad escape sequence {sequence!r}")
        self.sequence = sequence
        self.offset = offset


def escape(text: str) -> str:
    r"""The text between the quotes of an N-Triples literal.

    >>> escape('a"\n\x00')
    'a\\"\\n\\u0000'
    """
    return _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04X}", text)


def unescape(text: str) -> str:
    r"""The inverse of :func:`escape`; also reads ``\'``, ``\uXXXX`` and ``\UXXXXXXXX``.

    >>> unescape("\\u0041\\n")
    'A\n'
    """

    def plain(match: re.Match[str]) -> str:
        hexadecimal = match[1] or match[2]
        if hexadecimal is None:
            if match[3] in _UNESCAPES:
                return _UNESCAPES[match[3]]
            raise BadEscape(match[0], match.start())
        code = int(hexadecimal, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise BadEscape(match[0], match.start())
        return chr(code)

    return _TO_UNESCAPE.sub(plain, text) if "\\" in text else text


@lru_cache(maxsize=1 << 16)
def parse_term(text: str) -> Term:
    """The parts of a term in N-Triples form; ``ValueError`` if it is none.

    >>> parse_term('"hi"@en').language, parse_term("_:b").kind
    ('en', <Kind.BLANK: 'blank'>)
    """
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"not an N-Triples term: {text!r}")
    if match["iri"] is not None:
        return Term(Kind.IRI, unescape(match["iri"]))
    if match["blank"] is not None:
        return Term(Kind.BLANK, match["blank"])
    if match["language"] is not None:
        return Term(
            Kind.LITERAL, unescape(match["text"]), RDF_LANG_STRING, match["language"].lower()
        )
    return Term(Kind.LITERAL, unescape(match["text"]), match["datatype"] or XSD_STRING)


def format_term(term: Term) -> str:
    """The one N-Triples spelling of a term.

    >>> format_term(Term(Kind.BLANK, "b0"))
    '_:b0'
    """
    if term.kind is Kind.IRI:
        return f"<{term.lexical}>"
    if term.kind is Kind.BLANK:
        return f"_:{term.lexical}"
    return literal(term.lexical, term.datatype or XSD_STRING, term.language)


def literal(text: str, datatype: str = XSD_STRING, language: str = "") -> str:
    """A literal in N-Triples form; a language tag wins over the datatype.

    >>> literal("5", XSD + "integer")
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    quoted = f'"{escape(text)}"'
    if language:
        return f"{quoted}@{language.lower()}"
    return quoted if datatype == XSD_STRING else f"{quoted}^^<{datatype}>"
