"""Terms have one spelling, the same that pyoxigraph writes."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.terms import (
    XSD,
    BadEscape,
    Kind,
    Term,
    escape,
    format_term,
    literal,
    parse_term,
    unescape,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
def test_literals_are_spelt_as_by_pyoxigraph(text: str) -> None:
    assert literal(text) == str(ox.Literal(text))
    assert literal(text, language="EN-gb") == str(ox.Literal(text, language="EN-gb"))
    datatype = ox.NamedNode("http://ex/t")
    assert literal(text, datatype.value) == str(ox.Literal(text, datatype=datatype))


@given(texts)
def test_escape_and_back(text: str) -> None:
    assert unescape(escape(text)) == text


datatypes = st.sampled_from([XSD + "string", "http://ex/t"])


@given(
    st.builds(Term, st.just(Kind.LITERAL), texts, datatypes, language=st.just(""))
    | st.sampled_from([Term(Kind.IRI, "http://ex/é"), Term(Kind.BLANK, "b.0")])
)
def test_format_and_parse(term: Term) -> None:
    assert parse_term(format_term(term)) == term


def test_spellings_that_are_not_the_canonical_one_are_read() -> None:
    assert parse_term(r'"\u0041"@EN') == parse_term('"A"@en')
    assert parse_term(f'"a"^^<{XSD}string>') == parse_term('"a"')
    assert parse_term(r"<http://ex/\u0041>").lexical == "http://ex/A"


@pytest.mark.parametrize(
    "text", ["", "a", "?x", '"a', '"a"b', '"a"@', "<a", "_:", '"a"^^b', "<a>b"]
)
def test_not_a_term(text: str) -> None:
    with pytest.raises(ValueError, match="not an N-Triples term"):
        parse_term(text)


@pytest.mark.parametrize("text", [r"\q", r"\u12", r"\uD800", r"\U00110000", "\\"])
def test_bad_escape(text: str) -> None:
    with pytest.raises(BadEscape) as caught:
        unescape("abc" + text)
    assert caught.value.offset == 3
