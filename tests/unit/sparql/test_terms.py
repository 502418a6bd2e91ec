"""Terms have one spelling, the same that pyoxigraph writes."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.terms.term import (
    XSD,
    BadEscape,
    Kind,
    Term,
    Text,
    canonical_term,
    escape,
    format_term,
    iri,
    literal,
    parse_term,
    scope_label,
    unescape,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
def test_literals_are_spelt_as_by_pyoxigraph(text: str) -> None:
    assert literal(text) == str(ox.Literal(text))
    assert literal(text, language="EN-gb") == str(ox.Literal(text, language="EN-gb"))
    datatype = ox.NamedNode("http://ex/t")
    assert literal(text, datatype.value) == str(ox.Literal(text, datatype=datatype))


def test_characters_that_are_always_escaped() -> None:
    for character in [*map(chr, range(0x20)), *'"\\\x7f\ufffe\uffff']:
        assert literal(character) == str(ox.Literal(character))


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


@given(texts, st.sampled_from(["", "en", "de-1996"]))
def test_the_canonical_spelling_is_a_fixed_point(text: str, language: str) -> None:
    term = literal(text, "http://ex/t", language)
    assert canonical_term(term) == term
    assert parse_term(canonical_term(term)).lexical == text


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        (r'"\u0041"@EN', '"A"@en'),
        (f'"a"^^<{XSD}string>', '"a"'),
        (rf'"a"^^<{XSD}\u0073tring>', '"a"'),
        ('"\t"', r'"\t"'),
        (r"<http://ex/\U000000e9>", "<http://ex/é>"),
        ("_:b.c", "_:b.c"),
    ],
)
def test_each_term_has_one_spelling(text: str, spelling: str) -> None:
    assert canonical_term(text) == spelling


@pytest.mark.parametrize(
    "text",
    [
        *("<a b>", r"<a\u003Eb>", r"<a\u005Cu0041>", '"a"^^<b c>'),
        *("_:-a", "_:a.", '_:a"b', '"\ud800"', "x" * 1_000_000),
    ],
)
def test_not_a_term_in_the_strict_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        canonical_term(text)
    assert len(str(caught.value)) < 200


def test_plain_iris_are_not_unescaped() -> None:
    with pytest.raises(ValueError, match="cannot contain"):
        iri(r"http://ex/\u0041")


scopes = st.text(max_size=4)
labels = st.sampled_from(["b", "b-c", "g1-a-b", "a.b", "é"])


@given(scopes, labels, scopes, labels)
def test_scopes_and_labels_never_collide(s: str, a: str, t: str, b: str) -> None:
    one, two = scope_label("_:" + a, s), scope_label("_:" + b, t)
    if s and t:
        assert (one == two) == ((s, a) == (t, b))
    assert canonical_term(one) == one


def test_text_is_a_literal() -> None:
    assert canonical_term(Text('a"').term) == literal('a"')
