r"""Converts terms in N-Triples form to the texts of the output formats.

Three properties of canonical terms (`triegs.terms.term`) make this cheap: they contain no raw tabs,
line ends or other control characters; the text between the quotes of a literal is valid inside a
JSON string; and only a backslash escapes other characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import TriegsError
from triegs.names import write_plain
from triegs.terms.term import RDF, XSD, XSD_STRING, Kind, parse_term, unescape

#: Arrow array of distinct N-Triples strings to the array of their texts.
Spell = Callable[[Any], Any]

_LITERAL = r'^"(?P<text>(?s:.*))"(?:@(?P<language>[a-z0-9-]+)|\^\^<(?P<datatype>[^<>]*)>)?$'
_LOCAL = re.compile(r"(?:[\w](?:[\w.-]*[\w-])?)?")
_BARE = {
    XSD + "integer": re.compile(r"[+-]?\d+"),
    XSD + "decimal": re.compile(r"[+-]?\d*\.\d+"),
    XSD + "double": re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+"),
    XSD + "boolean": re.compile(r"true|false"),
}
_PREFIX = re.compile(r"\bPREFIX\s+([^\s:]*):\s*<([^<>\s]+:[^<>\s]*)>", re.IGNORECASE)
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_XML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;",
        "\r": "&#13;"}  # fmt: skip
_XML_SPECIAL = re.compile('[&<>"\t\n\r]')
WELL_KNOWN = {"rdf": RDF, "xsd": XSD, "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}


def join(*parts: Any) -> Any:
    """Concatenate arrays and single texts row by row."""
    return pc.binary_join_element_wise(*parts, "")


def keep_ntriples(terms: Any) -> Any:
    """The terms unchanged."""
    return terms


def spell_plain(terms: Any) -> Any:
    r"""IRIs without brackets, literals as plain text. Drops datatypes and languages.

    >>> spell_plain(pa.array(["<http://ex/a>", '"x \\"y\\""@en', "_:b"])).to_pylist()
    ['http://ex/a', 'x "y"', '_:b']
    """
    texts = pc.replace_substring_regex(terms, r"^<(.*)>$", r"\1")
    literal = pc.starts_with(terms, '"')
    if not pc.any(literal).as_py():
        return texts
    inner = pc.replace_substring_regex(terms, r'^"((?s:.*))"(?:@[a-z0-9-]+|\^\^<[^<>]*>)?$', r"\1")
    hidden = pc.and_(literal, pc.match_substring(terms, "\\"))
    if pc.any(hidden).as_py():
        clear = [unescape(text) for text in inner.filter(hidden).to_pylist()]
        inner = pc.replace_with_mask(inner, hidden, pa.array(clear, inner.type))
    return pc.if_else(literal, inner, texts)


def spell_names(base: str) -> Spell:
    """Like `spell_plain`, but IRIs under the base become names, and others keep their brackets.

    >>> spell = spell_names("urn:triegs:")
    >>> spell(pa.array(["<urn:triegs:a%20b>", '"5"^^<%sinteger>' % XSD, "<http://ex/a>"])).to_pylist()
    ['a b', '5', '<http://ex/a>']
    """
    return partial(_spell_each, partial(write_plain, base=base)) if base else spell_plain


def spell_short(prefixes: Mapping[str, str]) -> Spell:
    """Prefixed names and bare numbers. Cost: a Python call per distinct term.

    >>> spell = spell_short({"ex": "http://ex/"})
    >>> terms = ["<http://ex/a>", '"5"^^<%sinteger>' % XSD, '"d"^^<%sdate>' % XSD, "<http://ex/a/b>"]
    >>> spell(pa.array(terms)).to_pylist()
    ['ex:a', '5', '"d"^^xsd:date', '<http://ex/a/b>']
    """
    known = dict(prefixes)
    for name, space in WELL_KNOWN.items():
        if space not in known.values():
            known.setdefault(name, space)
    # The longest namespace first, for the shortest local name.
    spaces = sorted(known.items(), key=lambda item: -len(item[1]))

    def shorten_iri(iri: str) -> str:
        for name, space in spaces:
            if space and iri.startswith(space) and _LOCAL.fullmatch(iri, len(space)):
                return f"{name}:{iri[len(space) :]}"
        return f"<{iri}>"

    def shorten(text: str) -> str:
        term = parse_term(text)
        if term.kind is Kind.IRI:
            return shorten_iri(term.lexical)
        if term.kind is Kind.BLANK or term.language or term.datatype == XSD_STRING:
            return text
        bare = _BARE.get(term.datatype)
        if bare is not None and bare.fullmatch(term.lexical):
            return term.lexical
        return f"{text.rpartition('^^')[0]}^^{shorten_iri(term.datatype)}"

    return partial(_spell_each, shorten)


def _spell_each(spell: Callable[[str], str], terms: Any) -> Any:
    return pa.array([spell(term) for term in terms.to_pylist()], pa.string())


def quote_csv(texts: Any) -> Any:
    """Quote texts with commas, quotes, line ends, or spaces at either end.

    The empty text is quoted too, to distinguish it from unbound.

    >>> quote_csv(pa.array(["a", 'say "x" now', "a,b"])).to_pylist()
    ['a', '"say ""x"" now"', '"a,b"']
    """
    special = pc.match_substring_regex(texts, '[",\r\n]|^\\s|\\s$|^$')
    if not pc.any(special).as_py():
        return texts
    return pc.if_else(special, join('"', pc.replace_substring(texts, '"', '""'), '"'), texts)


def quote_json(texts: Any) -> Any:
    r"""Texts as JSON strings.

    >>> quote_json(pa.array(['"a\\n"', "b"])).to_pylist()
    ['"\\"a\\\\n\\""', '"b"']
    """
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    control = pc.match_substring_regex(escaped, "[\x01-\x1f\\x00]")
    if pc.any(control).as_py():
        clear = [_escape_controls(text) for text in escaped.filter(control).to_pylist()]
        escaped = pc.replace_with_mask(escaped, control, pa.array(clear, escaped.type))
    return join('"', escaped, '"')


def _escape_controls(text: str) -> str:
    return re.sub("[\x00-\x1f]", lambda m: f"\\u{ord(m[0]):04x}", text)


def spell_srj(terms: Any) -> Any:
    """Terms for SPARQL 1.1 Query Results JSON.

    >>> spell_srj(pa.array(["<http://ex/a>", '"x"@en', "_:b"])).to_pylist()[1]
    '{"type":"literal","value":"x","xml:lang":"en"}'
    """
    inside = pc.utf8_slice_codeunits(terms, 1, -1)
    iris = join('{"type":"uri","value":"', inside, '"}')
    blanks = join('{"type":"bnode","value":"', pc.utf8_slice_codeunits(terms, 2), '"}')
    texts = pc.if_else(pc.starts_with(terms, "<"), iris, blanks)
    literal = pc.starts_with(terms, '"')
    if not pc.any(literal).as_py():
        return texts
    parts = pc.extract_regex(terms, _LITERAL)
    language, datatype = (pc.struct_field(parts, name) for name in ("language", "datatype"))
    tail = pc.if_else(
        pc.greater(pc.binary_length(language), 0),
        join('","xml:lang":"', language, '"}'),
        pc.if_else(
            pc.greater(pc.binary_length(datatype), 0),
            join('","datatype":"', datatype, '"}'),
            '"}',
        ),
    )
    found = join('{"type":"literal","value":"', pc.struct_field(parts, "text"), tail)
    return pc.if_else(literal, found, texts)


def spell_srx(terms: Any) -> Any:
    """Terms for the SPARQL Query Results XML Format. Cost: a Python call per distinct term.

    XML cannot represent most control characters: a term with one raises `TriegsError`.

    >>> spell_srx(pa.array(["<http://ex/a>", '"x < y"@en'])).to_pylist()
    ['<uri>http://ex/a</uri>', '<literal xml:lang="en">x &lt; y</literal>']
    """
    return _spell_each(_write_xml_term, terms)


def _write_xml_term(text: str) -> str:
    term = parse_term(text)
    wrong = _NOT_IN_XML.search(term.lexical)
    if wrong is not None:
        raise TriegsError(
            f"XML cannot represent the character U+{ord(wrong[0]):04X} in {text[:80]}; "
            "use srj or sparql-tsv"
        )
    value = escape_xml(term.lexical)
    if term.kind is Kind.IRI:
        return f"<uri>{value}</uri>"
    if term.kind is Kind.BLANK:
        return f"<bnode>{value}</bnode>"
    if term.language:
        return f'<literal xml:lang="{term.language}">{value}</literal>'
    if term.datatype == XSD_STRING:
        return f"<literal>{value}</literal>"
    return f'<literal datatype="{escape_xml(term.datatype)}">{value}</literal>'


def escape_xml(text: str) -> str:
    """
    >>> escape_xml("a < b")
    'a &lt; b'
    """
    escaped = _XML_SPECIAL.sub(lambda match: _XML[match[0]], text)
    if escaped[:1] == " " or escaped[-1:] == " ":  # some XML readers would strip it
        inner = escaped.strip(" ")
        before = len(escaped) - len(escaped.lstrip(" "))
        after = len(escaped) - before - len(inner)
        return "&#32;" * before + inner + "&#32;" * after
    return escaped


def find_prefixes(texts: Iterable[str]) -> dict[str, str]:
    """The prefixes declared in query texts; the first declaration of a name wins.

    >>> find_prefixes(["PREFIX ex: <http://ex/> SELECT * { ?x ex:p ?y }"])
    {'ex': 'http://ex/'}
    """
    found: dict[str, str] = {}
    for text in texts:
        for name, space in _PREFIX.findall(text):
            found.setdefault(name, space)
    return found
