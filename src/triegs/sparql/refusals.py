"""Valid SPARQL that the front end refuses: constructs outside the supported fragment.

Each construct has a name, which errors carry as ``construct``, and an alternative. The reader looks
up words here; the parsers look up symbols and shapes.
"""

from __future__ import annotations

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
_VALUES_INSIDE = "put VALUES inside WHERE, or let it list distinct values of GROUP BY variables"
_SELECT_KEYS = "add to SELECT what ORDER BY sorts by, and all keys of GROUP BY"

#: The alternative to each construct.
REFUSALS: dict[str, str] = {
    "CONSTRUCT": "SELECT the variables and build triples from answers",
    "DESCRIBE": "SELECT ?p ?o { <the resource> ?p ?o }",
    **dict.fromkeys(_UPDATES.split(), "a query only reads; the graph changes by events"),
    "FROM": "load that graph: a query reads the one graph of its engine",
    "unselected ORDER BY": _SELECT_KEYS,
    "OPTIONAL": "register the query with and without that part",
    "MINUS": _SUBTRACT,
    "UNION": _ONE_QUERY_EACH,
    "GRAPH": "a query reads one graph: leave GRAPH out",
    "SERVICE": "load the remote data first",
    "BIND": "write the expression where the variable is used",
    "sub-select": "write its patterns into the outer query",
    "EXISTS": "join the pattern and use SELECT DISTINCT",
    "NOT EXISTS": _SUBTRACT,
    "select expression": _CLIENT,
    "COUNT(DISTINCT *)": "COUNT(DISTINCT ?x) over one variable",
    "VALUES after aggregates": _VALUES_INSIDE,
    "UNDEF": "write one VALUES block per set of bound variables",
    "path *": "a path of fixed length, such as :p/:p",
    "path +": "a path of fixed length, such as :p/:p",
    "path ?": "register the query with and without that step",
    "path |": _ONE_QUERY_EACH,
    "path {n}": "a path of fixed length, such as :p/:p",
    "path !": "a variable predicate with FILTER(?p NOT IN (...))",
    "annotation": "{| triegs:time ?t |}, the time of the event",
    "time of a variable predicate": "name the predicate",
    "function call": _CLIENT,
    "GROUP_CONCAT": "select the rows and join the strings",
    **dict.fromkeys(_TEXT_FUNCTIONS.split(), "REGEX, CONTAINS, STRSTARTS or STRENDS"),
    **dict.fromkeys(_TERM_FUNCTIONS.split(), _CLIENT),
    **dict.fromkeys(_NUMBER_FUNCTIONS.split(), "compare with bounds: ?x > -5 && ?x < 5"),
    **dict.fromkeys(_TIME_FUNCTIONS.split(), "compare dates and times with <, = and >"),
    **dict.fromkeys(_HASH_FUNCTIONS.split(), _CLIENT),
}
