"""Aggregates of the oracle, by hand from SPARQL 1.1, sections 17.3, 17.4 and 18.5.1."""

from __future__ import annotations

import pytest

from triegs.testing import oracle

XSD = "http://www.w3.org/2001/XMLSchema#"


def term(text: str) -> str:
    """``5:integer`` and ``x@en`` are literals, ``<u:a>`` and ``_:b`` themselves, ``-`` is None."""
    if text.startswith(("<", "_:")):
        return text
    lexical, _, kind = text.rpartition(":")
    if kind in ("", "string"):
        return f'"{lexical}"'
    return f'"{lexical}"@{kind[1:]}' if kind.startswith("@") else f'"{lexical}"^^<{XSD}{kind}>'


def ask(expression: str, values: str) -> str | None:
    updates = [("+", "<u:s>", "<u:p>", term(value)) for value in values.split()]
    found = oracle.answers(f"SELECT ({expression} AS ?r) {{ ?s <u:p> ?v }}", updates)
    ((row, count),) = found.items()
    assert count == 1
    return row[0]


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        # No solutions.
        ("COUNT(*)", "", "0:integer"),
        ("COUNT(?v)", "", "0:integer"),
        ("SUM(?v)", "", "0:integer"),
        ("AVG(?v)", "", "0:integer"),
        ("MIN(?v)", "", None),
        ("MAX(?v)", "", None),
        ("SAMPLE(?v)", "", None),
        # Types of results.
        ("SUM(?v)", "1:integer 2:byte", "3:integer"),
        ("SUM(?v)", "1:integer 0.50:decimal", "1.5:decimal"),
        ("SUM(?v)", "1:integer 0.5:float", "1.5E0:float"),
        ("SUM(?v)", "1.5:decimal 0.5:double", "2.0E0:double"),
        ("SUM(?v)", "0.5:float 0.5:double", "1.0E0:double"),
        ("AVG(?v)", "1:integer 2:integer", "1.5:decimal"),
        ("AVG(?v)", "1:integer 3:integer", "2:decimal"),
        ("AVG(?v)", "1:integer 1:integer 0:integer", "0.666666666666666666:decimal"),
        ("AVG(?v)", "1:float 2:integer", "1.5E0:float"),
        # Exact, and rounded once.
        ("SUM(?v)", "9223372036854775807:integer 9223372036854775807:integer",
         "18446744073709551614:integer"),
        ("SUM(?v)", "0.1:decimal 0.2:decimal 1E0:double -1E0:double", "3.0E-1:double"),
        ("SUM(?v)", "1e16:double 1:double -1e16:double", "1.0E0:double"),
        ("SUM(?v)", "0.1:double 0.2:double", "3.0000000000000004E-1:double"),
        ("SUM(?v)", "1:float 5.9604644775390625E-8:float 1E-20:float", "1.0000001E0:float"),
        ("SUM(?v)", "0.1234567890123456789012345:decimal 1:integer",
         "1.1234567890123456789012345:decimal"),
        # Infinities, NaN, negative zero.
        ("SUM(?v)", "INF:double 1:integer", "INF:double"),
        ("SUM(?v)", "INF:double -INF:float", "NaN:double"),
        ("SUM(?v)", "NaN:float 1:decimal", "NaN:float"),
        ("SUM(?v)", "1.7e308:double 1.7e308:double", "INF:double"),
        ("AVG(?v)", "1.7e308:double 1.7e308:double", "1.7E308:double"),
        ("SUM(?v)", "-0.0:double", "0.0E0:double"),
        ("SUM(-?v)", "0:integer", "0:integer"),
        ("MIN(-?v)", "0:double", "-0.0E0:double"),
        ("MIN(?v)", "NaN:double 1:integer -INF:double", "NaN:double"),
        ("MAX(?v)", "NaN:double 1:integer", "1:integer"),
        # Errors.
        ("SUM(?v)", "1:integer x:string", None),
        ("AVG(?v)", "1:integer <u:a>", None),
        ("SUM(?v)", "1:integer 300:byte", None),
        ("COUNT(?v + 1)", "1:integer x:string", "1:integer"),
        ("MIN(?v + 1)", "1:integer x:string", None),
        ("SAMPLE(?v + 1)", "1:integer x:string", "2:integer"),
        ("SUM(1 / ?v)", "1:integer 0:integer", None),
        ("SUM(1 / ?v)", "1:integer 0:double", "INF:double"),
        ("COUNT(?nothing)", "1:integer", "0:integer"),
        ("SUM(?nothing)", "1:integer", None),
        ("SUM(?v) / COUNT(*)", "1:integer 2:integer", "1.5:decimal"),
        ("SUM(?v) / 0", "1:integer", None),
        # DISTINCT goes by term: 1 and 1.0 are two.
        ("COUNT(DISTINCT ?v)", "1:integer 1:integer 1.0:decimal", "2:integer"),
        ("SUM(DISTINCT ?v)", "1:integer 1:integer 1.0:decimal", "2:decimal"),
        ("AVG(DISTINCT ?v)", "1:integer 1:integer 4:integer", "2.5:decimal"),
        ("COUNT(DISTINCT *)", "1:integer 1:integer 2:integer", "2:integer"),
        # Order: blank nodes, IRIs, numbers, booleans, dates, times, texts, others.
        ("MIN(?v)", "<u:a> 1:integer _:b", "_:b"),
        ("MIN(?v)", "<u:a> 1:integer", "<u:a>"),
        ("MAX(?v)", "<u:a> 1:integer", "1:integer"),
        ("MAX(?v)", "10:integer 9:double 9.5:decimal", "10:integer"),
        ("MAX(?v)", "1:integer 1.0:decimal", "1.0:decimal"),
        ("MIN(?v)", "1:boolean false:boolean", "false:boolean"),
        ("MAX(?v)", "5:integer true:boolean", "true:boolean"),
        ("MIN(?v)", "2020-01-02T00:00:00Z:dateTime 2020-01-02T00:30:00+01:00:dateTime",
         "2020-01-02T00:30:00+01:00:dateTime"),
        ("MIN(?v)", "2020-01-02:date 1999-01-01T00:00:00Z:dateTime", "2020-01-02:date"),
        ("MAX(?v)", "a:string Z:string", "a:string"),
        ("MAX(?v)", "b:string a:@en", "a:@en"),
        ("MAX(?v)", "b:string P1D:duration", "P1D:duration"),
    ],
)  # fmt: skip
def test_aggregates(expression, values, expected):
    assert ask(expression, values) == (None if expected is None else term(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ?k (COUNT(*) AS ?n) { ?s <u:p> ?v } GROUP BY (?v > 1 AS ?k)",
         {("true:boolean", "2:integer"): 1, ("false:boolean", "1:integer"): 1,
          (None, "1:integer"): 1}),
        ("SELECT (COUNT(*) AS ?n) { ?s <u:p> ?v } GROUP BY (?v > 1)",
         {("2:integer",): 1, ("1:integer",): 2}),
        ("SELECT DISTINCT (COUNT(*) AS ?n) { ?s <u:p> ?v } GROUP BY (?v > 1)",
         {("2:integer",): 1, ("1:integer",): 1}),
        ("SELECT ?s { ?s <u:p> ?v } GROUP BY ?s HAVING (SUM(?v) > 0)", {}),
        ("SELECT ?s { ?s <u:p> ?v } GROUP BY ?s HAVING (COUNT(?v) > 3)", {("<u:s>",): 1}),
        ("SELECT ?v (SAMPLE(?v) = ?v AS ?n) { ?s <u:p> ?v FILTER(?v > 2) } GROUP BY ?v",
         {("3:integer", "true:boolean"): 1}),
        ("SELECT ?v (COUNT(*) AS ?n) { ?s <u:p> ?v } GROUP BY ?v HAVING (?v = 3)",
         {("3:integer", "1:integer"): 1}),
    ],
)  # fmt: skip
def test_groups(text, expected):
    values = ["1:integer", "2:integer", "3:integer", "x:string"]
    updates = [("+", "<u:s>", "<u:p>", term(value)) for value in values]
    wanted = {
        tuple(None if each is None else term(each) for each in row): n
        for row, n in expected.items()
    }
    assert oracle.answers(text, updates) == wanted
