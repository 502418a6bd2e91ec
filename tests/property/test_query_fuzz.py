"""Whatever the text: a query, or a QueryError that points into the text. Nothing else, ever."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.sparql.corpus import QUERIES, VOCABULARY, WORDS, mutate

from triegs.errors import QueryError
from triegs.sparql import parse
from triegs.sparql.lexer import tokens
from triegs.sparql.model import Query

#: How many texts each bulk test tries; together they are more than 20,000.
ROUNDS = max(7_000, settings().max_examples * 50)

#: Not in the corpus, because other parsers do not read the syntax of SPARQL 1.2.
ANNOTATED = (
    "PREFIX : <http://ex/>\nSELECT ?x ?t { ?x :p ?y {| triegs:time ?t |}, [ :q 'a {|' ] "
    "{| <urn:triegs:time> 5 |} ; :r ?z . # |}\n FILTER(?t - 5 <= 10 || ?x) }"
)

CHARACTERS = "".join(sorted(set("".join(QUERIES)))) + "\x00\t\r\u00a0\ud800\udfff\u2028é\U0001f600`"


def outcome(text: str, prefixes: dict[str, str] | None = None, base: str | None = None) -> object:
    try:
        return parse(text, prefixes, base=base)
    except QueryError as error:
        return error


def check(text: str, prefixes: dict[str, str] | None = None, base: str | None = None) -> None:
    found = outcome(text, prefixes, base)
    if isinstance(found, QueryError):
        lines = text.split("\n")
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
        assert found.construct
        assert found.message
        assert str(found).startswith(f"line {found.line}, column {found.column}: ")
    else:
        assert isinstance(found, Query)
        assert found.text == text


def test_mutated_words() -> None:
    source = random.Random(1)
    for _ in range(ROUNDS):
        words = list(source.choice(WORDS))
        for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
            mutate(words, VOCABULARY, source)
        check(source.choice([" ", " ", "\n"]).join(words))


def test_mutated_characters() -> None:
    source = random.Random(2)
    for _ in range(ROUNDS):
        characters = list(source.choice(QUERIES))
        for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
            mutate(characters, list(CHARACTERS), source)
        check("".join(characters))


def test_mutated_annotations() -> None:
    source = random.Random(4)
    words = [token.text for token in tokens(ANNOTATED)][:-1]
    for _ in range(ROUNDS // 2):
        drawn = list(words)
        for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
            mutate(drawn, [*VOCABULARY, *["{|", "|}", "triegs:time"] * 20], source)
        check(" ".join(drawn))


def test_mixed_words() -> None:
    source = random.Random(3)
    starts = ["SELECT * {", "SELECT ?x { FILTER(", "SELECT (", "ASK {", "PREFIX : <a:>", ""]
    for _ in range(ROUNDS):
        count = source.randrange(12)
        drawn = [source.choice(VOCABULARY) for _ in range(count)]
        check(" ".join([source.choice(starts), *drawn]))


@pytest.mark.parametrize("query", [*QUERIES, ANNOTATED])
def test_every_beginning(query: str) -> None:
    for end in range(len(query)):
        check(query[:end])


@given(st.text() | st.text(CHARACTERS))
@example("")
@example("\ufeffASK {}")
@example("SELECT * { ?x ?p \\u0022")
@example("ASK { FILTER(1<2>3) }")
@example("ASK { FILTER(?x<?y>?z) }")
@example("ASK { VALUES ?x { '''\\''' } }")
@example("\\U0001F600 \\u12")
def test_any_text(text: str) -> None:
    check(text)
    check("SELECT * {" + text)
    check("SELECT * { ?x ?p ?y FILTER(" + text + ") }")


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=10)), st.text(max_size=10))
def test_any_prefixes_and_base(prefixes: dict[str, str], base: str) -> None:
    for text in ["ASK { a:b : <c> }", "ASK { <../c?d> ?p <#e> }", "ASK { ?x ?y 1, 'a'^^: }"]:
        check(text, prefixes, base)
