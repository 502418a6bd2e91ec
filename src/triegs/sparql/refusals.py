"""What the front end refuses on purpose: correct SPARQL outside the supported fragment.

One row per construct: its name (which errors carry as ``construct``), how it is recognised, and
what could be written instead. The grammar looks up words here; symbols and shapes that need
context are named by the grammar rule that meets them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Place(Enum):
    """Where in a query a refused word is recognised."""

    START = "as the first word of the query"
    PATTERN = "inside a group pattern"
    EXPRESSION = "inside an expression"
    CLAUSE = "after the SELECT or WHERE clause"
    SHAPE = "by its shape, in the grammar rule that meets it"


class Refusal(NamedTuple):
    construct: str
    place: Place
    hint: str


_UPDATES = "INSERT DELETE LOAD CLEAR DROP CREATE ADD MOVE COPY WITH"
_TEXT_FUNCTIONS = (
    "STRLEN SUBSTR UCASE LCASE STRBEFORE STRAFTER ENCODE_FOR_URI CONCAT REPLACE STRLANG STRDT"
)
_TERM_FUNCTIONS = "IRI URI BNODE UUID STRUUID COALESCE IF"
_NUMBER_FUNCTIONS = "ABS ROUND CEIL FLOOR RAND"
_TIME_FUNCTIONS = "NOW YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ"
_HASH_FUNCTIONS = "MD5 SHA1 SHA256 SHA384 SHA512"

_ONE_QUERY_EACH = "register one query per alternative and add up their answers"
_SUBTRACT = "register both sides and subtract where they are read"
_CLIENT = "compute it from the answers, or store it as a triple"


def _rows(words: str, place: Place, hint: str) -> Iterable[Refusal]:
    return [Refusal(word, place, hint) for word in words.split()]


#: Every refusal by its construct.
REFUSALS: dict[str, Refusal] = {
    row.construct: row
    for row in [
        Refusal("CONSTRUCT", Place.START, "SELECT the variables and build triples from answers"),
        Refusal("DESCRIBE", Place.START, "SELECT ?p ?o { <the resource> ?p ?o }"),
        *_rows(_UPDATES, Place.START, "data changes through Engine.apply and Engine.push"),
        Refusal("FROM", Place.CLAUSE, "load that graph: a query reads the one graph of its engine"),
        Refusal("ORDER BY", Place.CLAUSE, "sort the answers where they are read"),
        Refusal("OPTIONAL", Place.PATTERN, "register the query with and without that part"),
        Refusal("MINUS", Place.PATTERN, _SUBTRACT),
        Refusal("UNION", Place.PATTERN, _ONE_QUERY_EACH),
        Refusal("GRAPH", Place.PATTERN, "a query reads one graph: leave GRAPH out"),
        Refusal("SERVICE", Place.PATTERN, "load the remote data first"),
        Refusal("BIND", Place.PATTERN, "write the expression where the variable is used"),
        Refusal("sub-select", Place.SHAPE, "write its patterns into the outer query"),
        Refusal("EXISTS", Place.EXPRESSION, "join the pattern and use SELECT DISTINCT"),
        Refusal("NOT EXISTS", Place.EXPRESSION, _SUBTRACT),
        Refusal("select expression", Place.SHAPE, _CLIENT),
        Refusal("COUNT(DISTINCT *)", Place.SHAPE, "COUNT(DISTINCT ?x) over one variable"),
        Refusal(
            "VALUES after aggregates",
            Place.SHAPE,
            "put VALUES inside WHERE, or let it list distinct values of GROUP BY variables",
        ),
        Refusal("UNDEF", Place.SHAPE, "write one VALUES block per set of bound variables"),
        Refusal("path *", Place.SHAPE, "a path of fixed length, such as :p/:p"),
        Refusal("path +", Place.SHAPE, "a path of fixed length, such as :p/:p"),
        Refusal("path ?", Place.SHAPE, "register the query with and without that step"),
        Refusal("path |", Place.SHAPE, _ONE_QUERY_EACH),
        Refusal("path {n}", Place.SHAPE, "a path of fixed length, such as :p/:p"),
        Refusal("path !", Place.SHAPE, "a variable predicate with FILTER(?p NOT IN (...))"),
        Refusal("function call", Place.SHAPE, _CLIENT),
        Refusal("GROUP_CONCAT", Place.EXPRESSION, "select the rows and join the strings"),
        Refusal("SAMPLE", Place.EXPRESSION, "MIN or MAX picks one value of each group"),
        *_rows(_TEXT_FUNCTIONS, Place.EXPRESSION, "REGEX, CONTAINS, STRSTARTS or STRENDS"),
        *_rows(_TERM_FUNCTIONS, Place.EXPRESSION, _CLIENT),
        *_rows(_NUMBER_FUNCTIONS, Place.EXPRESSION, "compare with bounds: ?x > -5 && ?x < 5"),
        *_rows(_TIME_FUNCTIONS, Place.EXPRESSION, "compare dates and times with <, = and >"),
        *_rows(_HASH_FUNCTIONS, Place.EXPRESSION, _CLIENT),
    ]
}


def refused_words(place: Place) -> frozenset[str]:
    """The single words that are refused at a place.

    >>> "OPTIONAL" in refused_words(Place.PATTERN)
    True
    """
    return frozenset(row.construct for row in REFUSALS.values() if row.place is place)
