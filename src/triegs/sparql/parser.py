"""The front end: query text in, query model or an error with its place out.

Three steps: `prepass` reads the tokens and refuses, `algebra` lets rdflib parse and translate, and
`from_algebra` makes the query model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from triegs.sparql.model import Query
from triegs.sparql.prepass import read_source


def parse(
    text: str, prefixes: Mapping[str, str] | None = None, *, base: str | None = None
) -> Query:
    r"""The query that a SPARQL text means.

    ``prefixes`` and ``base`` hold where the text declares no others. Raises
    :class:`~triegs.errors.QueryError` for a wrong text and its subclass
    :class:`~triegs.errors.UnsupportedQuery` for one outside the supported fragment, each with
    line and column; raises nothing else on any ``str``. A small query takes a few milliseconds, one
    of 100 triple patterns about 0.2 s.

    >>> query = parse("SELECT ?x WHERE { ?x ex:knows ?y FILTER(?y != ex:me) }",
    ...               {"ex": "http://ex.org/"})
    >>> query.head, query.atoms
    (('?x',), (Atom(subject='?x', predicate='<http://ex.org/knows>', object='?y'),))
    >>> parse("SELECT * {\n  ?x ?p ?y OPTIONAL { ?y ?q ?z } }")
    Traceback (most recent call last):
    triegs.errors.UnsupportedQuery: line 2, column 12: OPTIONAL is not supported; instead: ...
    """
    if not isinstance(text, str):
        raise TypeError(f"a query is a str, not {type(text).__name__}")
    source = read_source(text, prefixes or {}, base)
    # rdflib takes a while to load; a text that is wrong on its face need not wait for it.
    from triegs.sparql.algebra import read_algebra, run_deep
    from triegs.sparql.from_algebra import to_query

    algebra = read_algebra(source)
    return cast(Query, run_deep(lambda: to_query(algebra, source)))
