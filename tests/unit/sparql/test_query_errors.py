"""Invalid texts: the error message, and its line and column."""

from __future__ import annotations

import inspect
import sys

import pytest

from triegs.errors import QueryError, UnsupportedQuery
from triegs.sparql import Query, parse
from triegs.sparql.lexer import MAX_CHARACTERS


def error_of(text: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text)  # type: ignore[arg-type]
    assert not isinstance(caught.value, UnsupportedQuery)
    return caught.value


MARKED = [
    # The error must be at the character after ‸.
    ("‸", "empty"),
    ("# only a comment\n‸", "empty"),
    ("‸SELEKT * { }", "unknown word 'SELEKT'"),
    ("SELECT ‸{ ?s ?p ?o }", "after SELECT"),
    ("SELECT * WHERE ‸?s ?p ?o", "expected '{'"),
    ("SELECT * ‸{ ?s ?p ?o ", "never closed"),
    ("SELECT * { ?s ?p ‸. }", "an object"),
    ("SELECT * { ?s ‸. }", "a predicate"),
    ("SELECT * { ?s ?p ?o ‸?x }", "after a triple pattern"),
    ("SELECT * { ?s ‸'lit' ?o }", "a predicate"),
    ("SELECT * { ?s ‸A ?o }", "unknown word 'A'"),
    ("SELECT * {\n  ?s ‸ex:p ?o }", "unknown prefix 'ex:'"),
    ("SELECT * { ?s <http://a/> 'x'^^‸t:u }", "unknown prefix 't:'"),
    ("SELECT * { ?s ‸<http://a/%zz> ?o }", "not an IRI"),
    ("SELECT * { ?s ‸<:x> ?o }", "not an IRI"),
    ("SELECT * { ?s ‸<http://a b> ?o }", "a predicate"),
    ("BASE ‸<relative> ASK {}", "not an absolute IRI"),
    ("PREFIX ‸ex <http://a/> ASK {}", "a prefix such as"),
    ("PREFIX ex: ‸ex: ASK {}", "an IRI in <...>"),
    ("SELECT * { ?s ?p ‸'never ends }", "unterminated string"),
    ("SELECT * { ?s ?p ‸'never\nends' }", "unterminated string"),
    ("SELECT * { ?s ?p ‸\"\"\"never ends\"\" }", "unterminated string"),
    (r"SELECT * { ?s ?p 'a‸\q' }", "bad escape"),
    (r"SELECT * { ?s ?p 'a‸\uD800' }", "bad escape"),
    (r"SELECT * { ?s ?p 'a‸\U99999999' }", "bad escape"),
    (r"SELECT * { ?s ?p ‸\uD800 }", "not a character"),
    ("SELECT * { ?s ?p ‸\x00 }", "unexpected character"),
    ("SELECT * { ?s ?p '‸\ud800' }", "lone surrogate"),
    ("SELECT * { ?s ?p ‸§ }", "unexpected character"),
    ("SELECT * { FILTER ‸?x }", "after FILTER"),
    ("SELECT * { FILTER ‸<http://a/> }", "a function after FILTER"),
    ("SELECT * { FILTER(‸) }", "an expression"),
    ("SELECT * { FILTER(?x ‸?y) }", "expected ')' or an operator"),
    ("SELECT * { FILTER(1 < 2 ‸< 3) }", "&& or || after a comparison"),
    ("SELECT * { FILTER(1 IN () ‸-1) }", "&& or || after a comparison"),
    ("SELECT * { FILTER(! ‸! true) }", "an expression"),
    ("SELECT * { FILTER(‸STR()) }", "STR takes 1 argument, not 0"),
    ("SELECT * { FILTER(‸REGEX('a')) }", "REGEX takes 2 to 3 arguments"),
    ("SELECT * { FILTER(REGEX('a', ‸'(')) }", "REGEX: bad regular expression"),
    ("SELECT * { FILTER(REGEX('a', ‸'a', 'z')) }", "flags"),
    ("SELECT * { FILTER(‸FOO(1)) }", "unknown function"),
    ("SELECT * { FILTER(BOUND(‸1)) }", "a variable"),
    ("SELECT * { FILTER(‸COUNT(*) > 1) }", "aggregates are not allowed in a FILTER"),
    ("SELECT (SUM(‸COUNT(*)) AS ?x) { }", "aggregates are not allowed inside an aggregate"),
    ("SELECT * { VALUES (?x ‸?x) { } }", "duplicate variable ?x in VALUES"),
    ("SELECT * { VALUES (?x ?y) { ‸(1) } }", "a row of 1 values for 2"),
    ("SELECT * { VALUES ?x { ‸_:b } }", "an IRI or a literal"),
    ("SELECT * { VALUES ?x { ‸?y } }", "an IRI or a literal"),
    ("SELECT * { _:b ?p ?o . { ‸_:b ?q ?r } }", "two basic graph patterns"),
    ("SELECT * { _:b ?p ?o VALUES ?x { 1 } ‸_:b ?q ?r }", "two basic graph patterns"),
    ("SELECT * { [] ‸}", "a predicate"),
    ("SELECT * { () ‸. }", "a predicate"),
    ("SELECT * { ?s ?p [ ?x ‸] }", "an object"),
    ("SELECT ‸* { ?x ?p ?y } GROUP BY ?x", "cannot be grouped"),
    ("SELECT * { ?x ?p ?y } ORDER ‸?x", "BY after ORDER"),
    ("SELECT * { ?x ?p ?y } ORDER BY ‸", "ends too early"),
    ("SELECT * { ?x ?p ?y } ORDER BY ‸LIMIT 1", "a variable, an expression, ASC or DESC"),
    ("SELECT * { ?x ?p ?y } ORDER BY DESC ‸?x", "'(' after DESC"),
    ("SELECT * { ?x ?p ?y } ORDER BY ASC(?x ‸?y)", "expected ')' or an operator"),
    ("SELECT * { ?x ?p ?y } ORDER BY ?x ‸1", "the end of the query"),
    ("SELECT * { ?x ?p ?y } LIMIT 1 ‸ORDER BY ?x", "the end of the query"),
    ("SELECT ?x { ?x ?p ?y } GROUP BY ?x ORDER BY ‸?y", "neither a grouping key"),
    ("SELECT ‸?x { ?x ?p ?y } ORDER BY COUNT(*)", "neither a grouping key"),
    ("SELECT ‸?x (COUNT(*) AS ?n) { ?x ?p ?y }", "neither a grouping key"),
    ("SELECT ?x (‸?y + COUNT(*) AS ?n) { ?x ?p ?y } GROUP BY ?x", "neither a grouping key"),
    ("SELECT (‸?n + 1 AS ?m) (COUNT(*) AS ?n) { ?x ?p ?y }", "neither a grouping key"),
    ("SELECT ?x { ?x ?p ?y } GROUP BY ?x HAVING (‸?y > COUNT(*))", "neither a grouping key"),
    ("SELECT (COUNT(*) AS ?n) { ?x ?p ?y } HAVING (‸?n > 1)", "neither a grouping key"),
    ("SELECT (COUNT(*) AS ‸?x) { ?x ?p ?y }", "is already in use"),
    ("SELECT (COUNT(*) AS ?n) (SUM(?x) AS ‸?n) { ?x ?p ?y }", "is already in use"),
    ("SELECT ?n (COUNT(*) AS ‸?n) { ?x ?p ?y } GROUP BY ?n", "is already in use"),
    ("SELECT ?k { ?x ?p ?y } GROUP BY (1 AS ?k) (2 AS ‸?k)", "is already in use"),
    ("SELECT (COUNT(*) ‸) { }", "AS and a variable"),
    ("SELECT ?x { } GROUP BY ‸LIMIT 1", "after GROUP BY"),
    ("SELECT ?x { } GROUP ‸?x", "BY after GROUP"),
    ("SELECT ?x { } HAVING ‸?x", "after HAVING"),
    ("SELECT ?x { } LIMIT ‸-1", "a number without sign"),
    ("SELECT ?x { } LIMIT ‸9999999999999999999", "more than 18 digits"),
    ("SELECT ?x { } LIMIT 1 ‸LIMIT 2", "duplicate LIMIT"),
    ("SELECT ?x { } ‸}", "unmatched '}'"),
    ("SELECT * {\r\n  ?s\t?p\r\n ‸}", "an object"),
    (r"SELECT ?\u0061 { ?\u0061\U0001F600 <u:\u0062> ‸. }", "an object"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "says"), MARKED)
def test_position_and_message(marked: str, says: str) -> None:
    before, _, after = marked.partition("‸")
    error = error_of(before + after)
    assert says in error.message
    position = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert (error.line, error.column) == position, str(error)


@pytest.mark.parametrize("clause", ["HAVING (?n > 1)", "GROUP BY ?x HAVING (?n > 1)"])
def test_a_name_of_select_in_having(clause: str) -> None:
    """Its minimum, the hint for variables of the pattern, would be unbound."""
    text = str(error_of(f"SELECT (COUNT(*) AS ?n) {{ ?x ?p ?y }} {clause}"))
    assert "write the expression of ?n again" in text
    assert "MIN(" not in text


@pytest.mark.parametrize("text", [None, b"ASK {}", 5])
def test_not_a_text(text: object) -> None:
    with pytest.raises(TypeError):
        parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [65, 10_000])
@pytest.mark.parametrize(
    "nest",
    [
        lambda n: "SELECT * { FILTER(" + "(" * n + "1" + ")" * n + ") }",
        lambda n: "SELECT * " + "{" * n + "}" * n,
        lambda n: "SELECT * { ?x ?p " + "[ ?p " * n + "1" + "]" * n + " }",
        lambda n: "SELECT * { ?x ?p " + "(" * n + "1" + ")" * n + " }",
        lambda n: "SELECT * { ?x " + "(" * n + "a" + ")" * n + " ?y }",
        lambda n: "SELECT * { FILTER(" + "STR(" * n + "1" + ")" * n + ") }",
        lambda n: "SELECT (" + "(" * n + "COUNT(*)" + ")" * n + " AS ?n) { }",
    ],
)
def test_deep_nesting(nest, depth: int) -> None:
    error = error_of(nest(depth))
    assert "deeper than 64" in error.message


def test_long_arithmetic_chain() -> None:
    assert "nest deeper than 100" in error_of(f"ASK {{ FILTER({'1+' * 200}1) }}").message
    parse(f"ASK {{ FILTER({'1+' * 99}1) }}")


def test_long_text() -> None:
    assert str(MAX_CHARACTERS) in error_of("ASK {} #" + "x" * MAX_CHARACTERS).message


DEEPEST = [
    "SELECT * { FILTER(" + "(" * 62 + "1" + ")" * 62 + ") }",
    "SELECT * { FILTER" + "(1 || 1 && 1 = 1 + 1 * " * 16 + "1" + ")" * 16 + " }",
    "SELECT * { FILTER(" + "!(" * 62 + "1" + ")" * 62 + ") }",
    "SELECT * " + "{" * 64 + "}" * 64,
    "SELECT * { ?x ?p " + "[ ?p " * 63 + "1" + "]" * 63 + " }",
    "SELECT * { ?x ?p " + "(" * 63 + "1" + ")" * 63 + " }",
    "SELECT * { ?x " + "^(" * 63 + "a/a" + ")" * 63 + " ?y }",
]


@pytest.mark.parametrize("text", DEEPEST)
def test_the_deepest_nesting_needs_half_the_stack(text: str) -> None:
    """The grammar's recursion is bounded: no allowed nesting ends in RecursionError."""

    def descend(frames: int) -> Query:
        return descend(frames - 1) if frames else parse(text)

    assert descend(sys.getrecursionlimit() - len(inspect.stack()) - 500) == parse(text)


@pytest.mark.parametrize("sign", ["!", "-", "+", "NOT ", "^"])
def test_a_long_row_of_signs_is_not_nesting(sign: str) -> None:
    error = error_of(f"ASK {{ FILTER({sign * 40_000} ?x) }}")
    assert (error.line, "expected" in error.message) == (1, True)


def test_too_many_patterns() -> None:
    text = "SELECT * {\n" + " .\n".join(["?x ?p ?y"] * 501) + " }"
    error = error_of(text)
    assert "more than 500 triple patterns" in error.message
    assert (error.line, error.column) == (502, 7)
    assert len(parse(text.replace(" .\n?x ?p ?y", "", 1)).atoms) == 500


@pytest.mark.parametrize(
    "pattern",
    [
        "?x <p>\n" + ",\n".join(["?y"] * 501),
        "?x\n" + ";\n".join(["<p> ?y"] * 501),
        "?x\n" + "/\n".join(["<p>"] * 501) + " ?y",
        "?x <p> [\n" + ";\n".join(["<p> ?y"] * 501) + "]",
        "(\n" + "\n".join(["?y"] * 251) + ")",
        "\n".join(["{ ?x <p> ?y }"] * 501),
    ],
)
def test_too_many_patterns_however_they_are_written(pattern: str) -> None:
    error = error_of("SELECT * {" + pattern + "}")
    assert "more than 500 triple patterns" in error.message
    assert error.line >= 251


def test_a_number_of_triples_without_bound() -> None:
    text = f"SELECT * FROM STREAM <s> [TRIPLES {'9' * 5_000}] {{ ?x ?p ?y }}"
    assert "more than 18 digits" in error_of(text).message
