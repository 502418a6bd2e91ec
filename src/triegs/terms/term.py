r"""RDF terms as strings in N-Triples form.

Throughout the package a term is a string in N-Triples form, and two terms are equal exactly if
their strings are. This requires a canonical spelling: ``"x"^^xsd:string`` is written ``"x"``,
language tags are lower case, and control characters are always escaped the same way (the spelling
of ``str()`` of a pyoxigraph term).

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
#: The minimum and maximum of each integer datatype, None for unbounded.
INTEGER_RANGES: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    **{
        name: (-(1 << bits - 1), (1 << bits - 1) - 1)
        for name, bits in [("long", 64), ("int", 32), ("short", 16), ("byte", 8)]
    },
    **{
        name: (0, (1 << bits) - 1)
        for name, bits in [
            ("unsignedLong", 64),
            ("unsignedInt", 32),
            ("unsignedShort", 16),
            ("unsignedByte", 8),
        ]
    },
}


class Kind(Enum):
    IRI = "iri"
    BLANK = "blank"
    LITERAL = "literal"


class Term(NamedTuple):
    """A parsed term. ``lexical`` is the IRI, the blank node label or the text of the literal.

    ``datatype`` (a bare IRI) is empty for IRIs and blank nodes; ``language`` may be empty.
    """

    kind: Kind
    lexical: str
    datatype: str = ""
    language: str = ""


_UNESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPES = {plain: "\\" + letter for letter, plain in _UNESCAPES.items() if plain != "'"}
_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f\ufffe\uffff]')
_TO_UNESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)
_TERM = re.compile(
    r"<(?P<iri>[^<>]*)>"
    r"|_:(?P<blank>\S+)"
    r'|"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)'
    r"|\^\^<(?P<datatype>[^<>]*)>)?",
    re.DOTALL,
)
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LABEL_START = (
    r"A-Za-z0-9_:\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D"
    r"\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_LABEL_REST = _LABEL_START + r"\-\u00B7\u0300-\u036F\u203F-\u2040"
_LABEL = re.compile(rf"[{_LABEL_START}](?:[{_LABEL_REST}.]*[{_LABEL_REST}])?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class BadEscape(ValueError):
    """An invalid escape sequence; ``offset`` is its start in the text."""

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
    """Parse a term in N-Triples form; ``ValueError`` if it is not one.

    >>> parse_term('"hi"@en').language, parse_term("_:b").kind
    ('en', <Kind.BLANK: 'blank'>)
    """
    return _split_term(text)


def _split_term(text: str) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"not an N-Triples term: {_shorten(text)}")
    if match["iri"] is not None:
        return Term(Kind.IRI, unescape(match["iri"]))
    if match["blank"] is not None:
        return Term(Kind.BLANK, match["blank"])
    if match["language"] is not None:
        return Term(
            Kind.LITERAL, unescape(match["text"]), RDF_LANG_STRING, match["language"].lower()
        )
    return Term(Kind.LITERAL, unescape(match["text"]), unescape(match["datatype"] or XSD_STRING))


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "…")


def canonical_term(text: str) -> str:
    r"""The canonical spelling of a term; ``ValueError`` if a text is not a term.

    Stricter than :func:`parse_term`, which expects valid terms: also checks the characters of IRIs
    and blank node labels, and that the text can be encoded as UTF-8. Linear; nothing is cached.

    >>> canonical_term('"\\u0041"@EN-us'), canonical_term('"x"^^<http://www.w3.org/2001/XMLSchema#string>')
    ('"A"@en-us', '"x"')
    >>> canonical_term("<http://ex/a b>")
    Traceback (most recent call last):
    ValueError: an IRI cannot contain ' ': 'http://ex/a b'
    """
    term = _split_term(text)
    if _LONE_SURROGATE.search(text):
        raise ValueError(f"a lone surrogate is not a character: {_shorten(text)}")
    if term.kind is Kind.BLANK and _LABEL.fullmatch(term.lexical) is None:
        raise ValueError(f"not a blank node label: {_shorten(term.lexical)}")
    if term.kind is Kind.IRI:
        return iri(term.lexical)
    if term.kind is Kind.LITERAL and not term.language:
        iri(term.datatype)
    return format_term(term)


def iri(text: str) -> str:
    """An IRI in N-Triples form; ``ValueError`` for an invalid character.

    >>> iri("http://ex/é")
    '<http://ex/é>'
    """
    wrong = _NOT_IN_IRI.search(text)
    if wrong is not None:
        raise ValueError(f"an IRI cannot contain {wrong[0]!r}: {_shorten(text)}")
    return f"<{text}>"


def scope_label(term: str, scope: str) -> str:
    """A blank node with a label unique to its file or stream; other terms are unchanged.

    The new label contains the scope and its length, so different pairs of scope and label never
    collide, in this process or another. A malformed label is unchanged and stays an error.

    >>> scope_label("_:b", "a.nt"), scope_label("_:b", ""), scope_label("<http://ex/b>", "a.nt")
    ('_:g6-a-2Ent-b', '_:b', '<http://ex/b>')
    """
    if not scope or not term.startswith("_:") or _LABEL.match(term, 2) is None:
        return term
    return scope_prefix(scope) + term[2:]


def scope_prefix(scope: str) -> str:
    """The replacement for ``_:`` in :func:`scope_label`.

    >>> scope_prefix("é")
    '_:g6--C3-A9-'
    """
    token = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"-{byte:02X}"
        for byte in scope.encode("utf-8", "surrogatepass")
    )
    return f"_:g{len(token)}-{token}-"


class Text(str):
    """The text of a plain literal as a Python value; prints and compares like a ``str``.

    A ``str`` is a term in N-Triples form; a `Text` is the value of a literal without language and
    datatype, and is encoded as that literal again.

    >>> Text("hi") == "hi", Text("hi").term
    (True, '"hi"')
    """

    __slots__ = ()

    @property
    def term(self) -> str:
        return literal(self)


def format_term(term: Term) -> str:
    """The canonical N-Triples spelling of a term.

    >>> format_term(Term(Kind.BLANK, "b0"))
    '_:b0'
    """
    if term.kind is Kind.IRI:
        return f"<{term.lexical}>"
    if term.kind is Kind.BLANK:
        return f"_:{term.lexical}"
    return literal(term.lexical, term.datatype or XSD_STRING, term.language)


def literal(text: str, datatype: str = XSD_STRING, language: str = "") -> str:
    """A literal in N-Triples form from plain text; a language overrides the datatype.

    Use it to pass plain text where a ``str`` would be read as a whole term.

    >>> literal("hello"), literal("hello", language="en")
    ('"hello"', '"hello"@en')
    >>> literal("5", XSD + "integer")
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    quoted = f'"{escape(text)}"'
    if language:
        return f"{quoted}@{language.lower()}"
    return quoted if datatype == XSD_STRING else f"{quoted}^^<{datatype}>"
