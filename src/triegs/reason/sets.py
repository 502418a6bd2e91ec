"""Rule sets by name, and where the rules of an engine come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path

from triegs.errors import BadOption, InputError, RuleError
from triegs.reason.construct import parse_construct
from triegs.reason.model import RuleSet
from triegs.reason.text import parse_rules

RDFS = """
% rdfs2, rdfs3: domain and range
TE(X, rdf:type, C) :- TE(P, rdfs:domain, C), TE(X, P, Y).
TE(Y, rdf:type, C) :- TE(P, rdfs:range, C), TE(X, P, Y).
% rdfs5, rdfs7: subproperties
TE(P, rdfs:subPropertyOf, R) :- TE(P, rdfs:subPropertyOf, Q), TE(Q, rdfs:subPropertyOf, R).
TE(X, Q, Y) :- TE(P, rdfs:subPropertyOf, Q), TE(X, P, Y).
% rdfs9, rdfs11: subclasses
TE(X, rdf:type, D) :- TE(C, rdfs:subClassOf, D), TE(X, rdf:type, C).
TE(C, rdfs:subClassOf, E) :- TE(C, rdfs:subClassOf, D), TE(D, rdfs:subClassOf, E).
"""
RDFS_PLUS = (
    RDFS
    + """
% prp-inv1, prp-inv2, prp-symp, prp-trp
TE(Y, Q, X) :- TE(P, owl:inverseOf, Q), TE(X, P, Y).
TE(Y, P, X) :- TE(P, owl:inverseOf, Q), TE(X, Q, Y).
TE(Y, P, X) :- TE(P, rdf:type, owl:SymmetricProperty), TE(X, P, Y).
TE(X, P, Z) :- TE(P, rdf:type, owl:TransitiveProperty), TE(X, P, Y), TE(Y, P, Z).
% scm-eqc1, scm-eqp1: equal classes and properties are below each other
TE(C, rdfs:subClassOf, D), TE(D, rdfs:subClassOf, C) :- TE(C, owl:equivalentClass, D).
TE(P, rdfs:subPropertyOf, Q), TE(Q, rdfs:subPropertyOf, P) :- TE(P, owl:equivalentProperty, Q).
% scm-eqc2, scm-eqp2
TE(C, owl:equivalentClass, D) :- TE(C, rdfs:subClassOf, D), TE(D, rdfs:subClassOf, C).
TE(P, owl:equivalentProperty, Q) :- TE(P, rdfs:subPropertyOf, Q), TE(Q, rdfs:subPropertyOf, P).
"""
)
#: The sets that rules can be given by.
NAMED_SETS = {"rdfs": RDFS, "rdfs-plus": RDFS_PLUS}
_CONSTRUCT = re.compile(
    r"(?:\s+|#[^\n]*|(?:PREFIX|BASE)\s+(?:[\w-]*:\s*)?<[^<>]*>)*CONSTRUCT\b", re.IGNORECASE
)
_TEXT = re.compile(r":-|<-|←|\n|\bCONSTRUCT\b|[)\]]\s*\.?\s*$", re.IGNORECASE)

#: A set by name, a file, or rule text; or several of them.
RuleSource = str | PathLike[str]
RuleSources = RuleSource | Iterable[RuleSource] | RuleSet


def read_text(text: str, prefixes: Mapping[str, str] | None = None) -> RuleSet:
    """Rules as Datalog or as SPARQL text.

    >>> len(read_text("p(X) :- q(X). q(X) :- r(X, Y).").rules)
    2
    """
    parse = parse_construct if _CONSTRUCT.match(text) else parse_rules
    return parse(text, prefixes)


def read_file(path: RuleSource, prefixes: Mapping[str, str] | None = None) -> RuleSet:
    """The rules of a file; an error names the file."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise InputError(f"{fspath(path)}: {reason}", file=fspath(path)) from None
    try:
        return read_text(text, prefixes)
    except RuleError as error:
        raise RuleError(
            f"{fspath(path)}: {error.message}", line=error.line, column=error.column,
            construct=error.construct, hint=error.hint,
        ) from None  # fmt: skip


def read_rules(sources: RuleSources | None, prefixes: Mapping[str, str] | None = None) -> RuleSet:
    """Rules from sets by name, files and texts.

    >>> len(read_rules("rdfs").rules), len(read_rules(["rdfs", "p(X) :- TE(X, Y, Z)."]).rules)
    (6, 7)
    >>> read_rules("rdfs-full")
    Traceback (most recent call last):
    triegs.errors.BadOption: rules are rdfs, rdfs-plus, a file or rule text, not 'rdfs-full'
    """
    if sources is None:
        return RuleSet()
    if isinstance(sources, RuleSet):
        return sources
    if not isinstance(sources, str | PathLike):
        if not isinstance(sources, Iterable):
            raise _refuse(sources)
        found = RuleSet()
        for source in sources:
            if not isinstance(source, str | PathLike | RuleSet):
                raise _refuse(source)
            found = found + read_rules(source, prefixes)
        return found
    if isinstance(sources, str):
        if sources in NAMED_SETS:
            return parse_rules(NAMED_SETS[sources])
        if _TEXT.search(sources):
            return read_text(sources, prefixes)
        if not Path(sources).exists():
            raise _refuse(sources)
    return read_file(sources, prefixes)


def _refuse(source: object) -> BadOption:
    return BadOption(f"rules are {', '.join(NAMED_SETS)}, a file or rule text, not {source!r}")
