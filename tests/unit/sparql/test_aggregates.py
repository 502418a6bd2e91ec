"""Aggregates over weighted terms, and grouping."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.sparql import parse
from triegs.sparql.aggregates import Answers, aggregate, group
from triegs.sparql.model import Duplicates
from triegs.sparql.values import ExpressionError
from triegs.terms.term import XSD, literal

KEEP, DISTINCT = Duplicates.KEEP, Duplicates.DISTINCT


def integer(number: int) -> str:
    return literal(str(number), XSD + "integer")


def decimal(text: str) -> str:
    return literal(text, XSD + "decimal")


def double(text: str) -> str:
    return literal(text, XSD + "double")


@pytest.mark.parametrize(
    ("function", "values", "duplicates", "result"),
    [
        ("COUNT", [], KEEP, integer(0)),
        ("COUNT", [(integer(1), 3), (None, 2), ("<http://ex/a>", 1)], KEEP, integer(4)),
        ("COUNT", [(integer(1), 3), (None, 2), (integer(1), 1)], DISTINCT, integer(1)),
        ("SUM", [], KEEP, integer(0)),
        ("SUM", [(integer(2), 3), (integer(-1), 1)], KEEP, integer(5)),
        ("SUM", [(integer(2), 3), (integer(2), 1)], DISTINCT, integer(2)),
        ("SUM", [(integer(1), 2), (literal("01", XSD + "integer"), 1)], DISTINCT, integer(2)),
        ("SUM", [(decimal("0.1"), 10)], KEEP, decimal("1")),
        ("SUM", [(double("0.1"), 10)], KEEP, double("1.0E0")),
        ("SUM", [(double("9e99"), 1), (integer(1), 1), (double("-9e99"), 1)], KEEP,
         double("1.0E0")),
        ("SUM", [(double("INF"), 1), (integer(1), 1)], KEEP, double("INF")),
        ("SUM", [(double("INF"), 1), (double("-INF"), 5)], KEEP, double("NaN")),
        ("SUM", [(double("NaN"), 1), (double("-INF"), 5)], KEEP, double("NaN")),
        ("SUM", [(literal("0.1", XSD + "float"), 1)], KEEP, literal("1.0E-1", XSD + "float")),
        ("AVG", [], KEEP, integer(0)),
        ("AVG", [(integer(1), 1), (integer(2), 3)], KEEP, decimal("1.75")),
        ("AVG", [(integer(1), 1), (integer(2), 3)], DISTINCT, decimal("1.5")),
        ("AVG", [(integer(1), 3), (integer(2), 0), (integer(1), 0)], KEEP, decimal("1")),
        ("MIN", [(integer(10), 1), (decimal("9.5"), 2)], KEEP, decimal("9.5")),
        ("MAX", [(integer(10), 1), (double("9.5"), 2)], KEEP, integer(10)),
        ("MIN", [(integer(1), 1), ("<http://ex/a>", 1), ("_:b", 1)], KEEP, "_:b"),
        ("MAX", [(literal("b"), 1), ("<http://ex/z>", 1), (literal("a"), 1)], KEEP, literal("b")),
    ],
)  # fmt: skip
def test_value(function: str, values: list, duplicates: Duplicates, result: str) -> None:
    assert aggregate(function, values, duplicates) == result


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("SUM", [(integer(1), 1), (None, 1)]),
        ("SUM", [(literal("a"), 1)]),
        ("AVG", [(literal("x", XSD + "integer"), 1)]),
        ("MIN", [(integer(1), 1), (None, 1)]),
        ("MIN", []),
        ("MAX", []),
    ],
)
def test_error(function: str, values: list) -> None:
    with pytest.raises(ExpressionError):
        aggregate(function, values, KEEP)


terms = st.sampled_from(
    [integer(1), integer(2), literal("01", XSD + "integer"), decimal("1.0"), double("1e-3"),
     double("0.1"), double("1e17"), literal("NaN", XSD + "double"), literal("a"), literal("b"),
     literal("a", language="en"), "<http://ex/a>", "_:b", literal("2020-01-01", XSD + "date"),
     literal("2020-01-01Z", XSD + "date"), literal("q", "http://ex/t"), literal("x", XSD + "int"),
     literal("1", XSD + "unsignedInt"), literal("2020-01-01T10:00:00", XSD + "dateTime"),
     literal("2020-01-01T09:00:00Z", XSD + "dateTime"), literal("true", XSD + "boolean"),
     literal("2020-01-01T11:00:00Z", XSD + "dateTime")]
)  # fmt: skip


def outcome(function: str, values: list, duplicates: Duplicates) -> str | None:
    try:
        return aggregate(function, values, duplicates)
    except ExpressionError:
        return None


@given(st.lists(st.tuples(terms, st.integers(1, 3)), max_size=4), st.sampled_from([KEEP, DISTINCT]))
def test_neither_order_nor_expansion_matters(values: list, duplicates: Duplicates) -> None:
    expanded = [(term, 1) for term, count in values for _ in range(count)]
    for function in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        wanted = outcome(function, expanded, duplicates)
        for order in itertools.permutations(values):
            assert outcome(function, list(order), duplicates) == wanted, function


# Grouping


def test_group_by_variable() -> None:
    query = parse("SELECT ?x (SUM(?y) AS ?s) { ?x <p> ?y } GROUP BY ?x")
    assert query.free == ("?x", "?y")
    answers: Answers = {("<a>", integer(1)): 2, ("<a>", integer(3)): 1, ("<b>", literal("z")): 1}
    assert group(query, answers) == {("<a>", integer(5)): 1, ("<b>", None): 1}
    assert group(query, {}) == {}


def test_one_group_without_keys() -> None:
    query = parse("SELECT (COUNT(*) AS ?n) (AVG(?y) AS ?a) (MAX(?y) AS ?m) { ?x <p> ?y }")
    assert group(query, {}) == {(integer(0), integer(0), None): 1}
    assert group(query, {(integer(4),): 3}) == {(integer(3), decimal("4"), integer(4)): 1}


def test_groups_with_equal_rows_add_up() -> None:
    query = parse("SELECT (COUNT(*) AS ?n) { ?x <p> ?y } GROUP BY ?x")
    assert group(query, {("<a>",): 2, ("<b>",): 2, ("<c>",): 1}) == {
        (integer(2),): 2, (integer(1),): 1,
    }  # fmt: skip


def test_having_and_expressions_over_aggregates() -> None:
    query = parse("""SELECT ?x (SUM(?y) / COUNT(*) + 1 AS ?m) { ?x <p> ?y }
                     GROUP BY ?x HAVING (COUNT(*) > 1 && MAX(?y) < 10)""")
    answers: Answers = {("<a>", integer(1)): 2, ("<b>", integer(3)): 1, ("<c>", integer(30)): 2}
    assert group(query, answers) == {("<a>", decimal("2")): 1}


def test_computed_key_and_its_errors() -> None:
    query = parse("""SELECT ?k (COUNT(*) AS ?n) (COUNT(?k) AS ?bound) { ?x <p> ?y }
                     GROUP BY (?y + 1 AS ?k)""")
    answers: Answers = {(integer(1),): 1, (decimal("1"),): 1, (literal("z"),): 4, ("<u>",): 1}
    assert group(query, answers) == {
        (integer(2), integer(1), integer(1)): 1,
        (decimal("2"), integer(1), integer(1)): 1,
        (None, integer(5), integer(0)): 1,
    }


def test_ask_over_groups() -> None:
    query = parse("ASK { ?x <p> ?y } GROUP BY ?x HAVING (COUNT(*) > 1)")
    assert group(query, {("<a>",): 1, ("<b>",): 2, ("<c>",): 2}) == {(): 2}


def test_query_without_grouping() -> None:
    with pytest.raises(ValueError, match="no grouping"):
        group(parse("ASK { }"), {})


def test_an_expression_may_use_the_names_of_earlier_columns() -> None:
    short = "SELECT ?x (SUM(?y) AS ?s) (?s / COUNT(*) AS ?m) (?m - ?s AS ?d) { ?x <p> ?y }"
    full = (
        "SELECT ?x (SUM(?y) AS ?s) (SUM(?y) / COUNT(*) AS ?m) "
        "(SUM(?y) / COUNT(*) - SUM(?y) AS ?d) { ?x <p> ?y }"
    )
    found, expected = (parse(f"{text} GROUP BY ?x").grouping for text in (short, full))
    assert found is not None
    assert found == expected
