"""Expressions are unchanged by writing and parsing."""

from __future__ import annotations

import pytest

from triegs.explain.expressions import write_expression
from triegs.sparql import parse


@pytest.mark.parametrize(
    "text",
    [
        "?a < 5 || ?b > 6 && !(?c = ?d)",
        "(?a < 5 || ?b > 6) && ?c != ?d",
        "?a - (?b - ?c) * 2 < -?d",
        "?a IN (?b, ?c) || ?a NOT IN (1, 2)",
        'REGEX(STR(?a), "^x", "i")',
        "(?a < ?b) = (?c < ?d)",
        "!BOUND(?a) || ISIRI(?b)",
    ],
)
def test_written_expressions_parse_to_the_same(text: str) -> None:
    pattern = "?a <p> ?b . ?c <p> ?d"
    query = parse(f"SELECT * {{ {pattern} FILTER({text}) }}")
    written = " && ".join(f"({write_expression(each)})" for each in query.filters)
    assert parse(f"SELECT * {{ {pattern} FILTER({written}) }}").filters == query.filters
