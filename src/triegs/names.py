r"""Converts plain names to IRIs under a base, and back.

A name is a table cell such as ``New York``. Its IRI is the base followed by the name, with ``%XX``
for characters that a prefixed name cannot contain, so a query can write ``:New%20York``. Letters
and digits of all scripts are unchanged.

>>> name_iri("New York, café"), read_name("<urn:triegs:New%20York>", BASE)
('<urn:triegs:New%20York%2C%20café>', 'New York')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from triegs.errors import InputError
from triegs.options import check_prefixes
from triegs.terms.term import Kind, iri, parse_term

#: The default base.
BASE = "urn:triegs:"
_LETTERS = (
    r"A-Za-z0-9_.~\-",
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f",
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff",
)
ENCODED = re.compile(f"[^{''.join(_LETTERS)}]")


def check_base(base: str) -> str:
    """The base without brackets; `InputError` if it is not the start of an IRI.

    >>> check_base("<http://bank/>")
    'http://bank/'
    """
    if not isinstance(base, str):
        raise InputError(f"base: {base!r} is not an IRI; an example is http://example.org/")
    bare = base.removeprefix("<").removesuffix(">")
    try:
        iri(bare)
    except ValueError as problem:
        raise InputError(f"base: {problem}") from None
    if ":" not in bare:
        raise InputError(f"base: {base!r} is not an IRI; an example is http://example.org/")
    return bare


def add_base(base: str, prefixes: Mapping[str, str] | None) -> dict[str, str]:
    """The prefixes with the base as the empty one, unless they have another.

    >>> add_base(BASE, {"ex": "http://ex/"})
    {'': 'urn:triegs:', 'ex': 'http://ex/'}
    """
    check_prefixes(prefixes or {})
    return {"": check_base(base), **(prefixes or {})}


def encode_name(name: str) -> str:
    """
    >>> encode_name("a/b 50%")
    'a%2Fb%2050%25'
    """
    return ENCODED.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def name_iri(name: str, base: str = BASE) -> str:
    """The IRI of a name, in N-Triples form."""
    return f"<{base}{encode_name(name)}>"


def read_name(term: str, base: str) -> str | None:
    """The name of an IRI under the base; None for all other terms.

    Only the encoding of `encode_name` counts, so no two terms share a name.
    """
    if not (base and term.startswith("<" + base)):
        return None
    encoded = term[len(base) + 1 : -1]
    if ENCODED.search(encoded) is None:
        return encoded
    try:
        name = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        return None
    return name if encode_name(name) == encoded else None


def read_plain_name(term: str, base: str) -> str | None:
    """Like `read_name`, but also None for a name that could be mistaken for a term."""
    name = read_name(term, base)
    return None if name is None or name.startswith(("<", '"', "_:")) else name


def write_plain(term: str, base: str) -> str:
    """The name of a term, the text of a literal, or else the term itself.

    >>> write_plain('"67.00"^^<http://www.w3.org/2001/XMLSchema#decimal>', BASE)
    '67.00'
    >>> write_plain("<urn:triegs:a%20b>", BASE), write_plain('"a"@en', BASE)
    ('a b', '"a"@en')
    """
    name = read_plain_name(term, base)
    if name is not None:
        return name
    parts = parse_term(term)
    return parts.lexical if parts.kind is Kind.LITERAL and not parts.language else term
