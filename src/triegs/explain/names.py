"""Short names for the constants of a query, and a legend of their namespaces.

An IRI is shown by its local name, the text after its last ``/``, ``#`` or ``:``. If two namespaces
have the same local name, a numbered prefix distinguishes them. An IRI without a usable local name
is shown in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from triegs.sparql.model import Aggregate, Call, Expression, Query, is_variable
from triegs.terms.term import XSD

_IRI = re.compile(r"<(?P<namespace>.*[/#:])(?P<local>[\w.~%+-]+)>")
_LITERAL = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")(?:\^\^(?P<datatype><.*>))?(?P<rest>.*)', re.DOTALL
)
_BARE = {
    f"<{XSD}integer>": re.compile(r"[+-]?\d+"),
    f"<{XSD}decimal>": re.compile(r"[+-]?\d*\.\d+"),
    f"<{XSD}double>": re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+"),
    f"<{XSD}boolean>": re.compile(r"true|false"),
}


class Names:
    """The short names of one query's constants, unique within it.

    >>> names = Names(["<http://a/knows>", "<http://b/knows>", "<http://a/likes>"])
    >>> [names.label(iri) for iri in ("<http://a/knows>", "<http://b/knows>", "<http://a/likes>")]
    ['n1:knows', 'n2:knows', 'likes']
    >>> names.constant("<http://a/likes>"), names.constant('"5"^^<%sinteger>' % XSD)
    (':likes', '5')
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self._namespaces: dict[str, dict[str, str]] = {}
        found: dict[str, set[str]] = {}
        for iri in dict.fromkeys(iri for term in terms for iri in _iris(term)):
            if match := _IRI.fullmatch(iri):
                self._namespaces.setdefault(match["namespace"], {})[iri] = match["local"]
                found.setdefault(match["local"], set()).add(match["namespace"])
        clashing = {space for spaces in found.values() if len(spaces) > 1 for space in spaces}
        numbered = [space for space in self._namespaces if space in clashing]
        self._prefixes = {space: f"n{i}" for i, space in enumerate(numbered, start=1)}
        self._short: dict[str, tuple[str, str]] = {}
        for space, members in self._namespaces.items():
            for iri, local in members.items():
                prefix = self._prefixes[space] if len(found[local]) > 1 else ""
                self._short[iri] = (prefix, local)

    def label(self, iri: str) -> str:
        """A predicate as the name of a relation."""
        prefix, local = self._short.get(iri, ("", iri))
        return f"{prefix}:{local}" if prefix else local

    def constant(self, term: str) -> str:
        """A constant among variables: an IRI has a colon, a plain number is written bare."""
        if term in self._short:
            prefix, local = self._short[term]
            return f"{prefix}:{local}"
        literal = _LITERAL.fullmatch(term)
        if literal is None or literal["datatype"] is None:
            return term
        datatype = literal["datatype"]
        bare = _BARE.get(datatype)
        if bare is not None and bare.fullmatch(literal["text"][1:-1]):
            return literal["text"][1:-1]
        return f"{literal['text']}^^{self.constant(datatype)}"

    def legend(self) -> Iterator[tuple[str, str, list[str]]]:
        """Per namespace: its prefix (often empty), its IRI in angle brackets, its short names."""
        for space, members in self._namespaces.items():
            yield self._prefixes.get(space, ""), f"<{space}>", list(members.values())


def query_constants(query: Query) -> Iterator[str]:
    """Every constant that an explanation of the query may show; rows of VALUES are only counted."""
    for atom, predicate in zip(query.atoms, query.predicates, strict=True):
        yield predicate
        yield atom.predicate
        yield atom.subject
        yield atom.object
    expressions: list[Expression | None] = list(query.filters)
    if query.grouping is not None:
        columns = query.grouping.keys + query.grouping.columns
        expressions += [column.expression for column in columns]
        expressions += query.grouping.having
    expressions += [key.expression for key in query.order]
    while expressions:
        item = expressions.pop(0)
        if isinstance(item, str):
            yield item
        elif isinstance(item, Call):
            yield item.operator
            expressions += item.arguments
        elif isinstance(item, Aggregate):
            expressions.append(item.argument)


def _iris(term: str) -> list[str]:
    if is_variable(term):
        return []
    literal = _LITERAL.fullmatch(term)
    if literal is None:
        return [term]
    datatype = literal["datatype"]
    bare = _BARE.get(datatype or "")
    is_bare = bare is not None and bare.fullmatch(literal["text"][1:-1])
    return [datatype] if datatype and not is_bare else []
