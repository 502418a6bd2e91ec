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
#: The least and the largest value of each datatype of integers, None for no bound.
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
    """A term in parts. ``lexical`` is the IRI, the blank label or the literal's text.

    ``datatype`` (a bare IRI) is empty for what is not a literal, ``language`` for what has none.
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
    r"""The one spelling of a term; ``ValueError`` says why a text is no term.

    Stricter than :func:`parse_term`, which takes terms apart that are known to be good: an IRI has
    only characters that an IRI may have, a blank node a label that N-Triples allows, and every
    character can be written in UTF-8. Linear in the text; nothing is kept.

    >>> canonical_term('"\\u0041"@EN-us'), canonical_term('"x"^^<http://www.w3.org/2001/XMLSchema#string>')
    ('"A"@en-us', '"x"')
    >>> canonical_term("<http://ex/a b>")
    Traceback (most recent call last):
    ValueError: an IRI cannot contain ' ': 'http://ex/a b'
    """
    term = _split_term(text)
    if _LONE_SURROGATE.search(text):
        raise ValueError(f"half of a surrogate pair is no character: {_shorten(text)}")
    if term.kind is Kind.BLANK and _LABEL.fullmatch(term.lexical) is None:
        raise ValueError(f"not a blank node label: {_shorten(term.lexical)}")
    if term.kind is Kind.IRI:
        return iri(term.lexical)
    if term.kind is Kind.LITERAL and not term.language:
        iri(term.datatype)
    return format_term(term)


def iri(text: str) -> str:
    """An IRI in N-Triples form; ``ValueError`` for a character that none may have.

    >>> iri("http://ex/é")
    '<http://ex/é>'
    """
    wrong = _NOT_IN_IRI.search(text)
    if wrong is not None:
        raise ValueError(f"an IRI cannot contain {wrong[0]!r}: {_shorten(text)}")
    return f"<{text}>"


def scope_label(term: str, scope: str) -> str:
    """A blank node named apart from those of other files or feeds; any other term as it is.

    The new label spells out the scope and its length, so two different pairs of scope and label
    never meet, in this process or the next. A term that is no blank node is not changed, nor is
    one without a label, which stays the error that it was.

    >>> scope_label("_:b", "a.nt"), scope_label("_:b", ""), scope_label("<http://ex/b>", "a.nt")
    ('_:g6-a-2Ent-b', '_:b', '<http://ex/b>')
    """
    if not scope or not term.startswith("_:") or _LABEL.match(term, 2) is None:
        return term
    return scope_prefix(scope) + term[2:]


def scope_prefix(scope: str) -> str:
    """What :func:`scope_label` puts in place of ``_:``.

    >>> scope_prefix("é")
    '_:g6--C3-A9-'
    """
    token = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"-{byte:02X}"
        for byte in scope.encode("utf-8", "surrogatepass")
    )
    return f"_:g{len(token)}-{token}-"


class Text(str):
    """The plain text of a literal, as a value: prints and compares as the text it is.

    A ``str`` stands for a term in N-Triples form; this is how a literal without language and
    datatype looks among Python values, and it is encoded as that literal again.

    >>> Text("hi") == "hi", Text("hi").term
    (True, '"hi"')
    """

    __slots__ = ()

    @property
    def term(self) -> str:
        return literal(self)


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
    """A literal in N-Triples form, from its text as it reads; a language wins over the datatype.

    Elsewhere a ``str`` is a whole term, so this is how plain text is given.

    >>> literal("hello"), literal("hello", language="en")
    ('"hello"', '"hello"@en')
    >>> literal("5", XSD + "integer")
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    quoted = f'"{escape(text)}"'
    if language:
        return f"{quoted}@{language.lower()}"
    return quoted if datatype == XSD_STRING else f"{quoted}^^<{datatype}>"
