"""Every error that triegs raises on purpose.

::

    TriegsError
    ├── QueryError            the query text is wrong; says where
    │   └── UnsupportedQuery  the query is right SPARQL, outside the fragment
    └── PlanError             a forced plan choice does not fit the query
"""

from __future__ import annotations


class TriegsError(Exception):
    """Base of all errors of this package: ``except TriegsError`` catches each of them."""


class QueryError(TriegsError):
    """A query text that cannot be read; names the place and what would be right.

    >>> error = QueryError("unknown prefix 'ex:'", line=2, column=5, construct="prefix",
    ...                    hint="declare it with PREFIX ex: <…>")
    >>> print(error)
    line 2, column 5: unknown prefix 'ex:'; declare it with PREFIX ex: <…>
    """

    def __init__(
        self, message: str, *, line: int, column: int, construct: str, hint: str = ""
    ) -> None:
        text = f"line {line}, column {column}: {message}"
        super().__init__(f"{text}; {hint}" if hint else text)
        self.message = message
        self.line = line
        self.column = column
        self.construct = construct
        self.hint = hint


class UnsupportedQuery(QueryError):
    """Correct SPARQL that triegs refuses, with what could be written instead in ``hint``."""


class PlanError(TriegsError):
    """A plan choice (root, absorption, payload) that this query does not have."""
