"""Nothing is lost on the way in and out: N-Triples, Python, rdflib and pyoxigraph."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.dictionary.drawing import FIXED_VALUES, canonical, spellings, texts, values

from triegs.errors import BadTerm
from triegs.sparql.values import Number, Rank, number_term
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import XSD, Text, literal
from triegs.terms.values import TermForm


@given(canonical)
def test_ntriples(term: str) -> None:
    words = Dictionary()
    assert words.decode_one(words.encode_one(term)) == term


@given(spellings)
def test_other_spellings_are_the_same_term(pair: tuple[str, str]) -> None:
    words = Dictionary()
    assert words.encode_one(pair[0]) == words.encode_one(pair[1])
    assert words.decode_one(0) == pair[1]


@given(values)
@example(0.1)
@example(-0.0)
@example(2**63)
@example(Decimal("-0.0"))
@example(date(1, 1, 1))
def test_python_values(value: Any) -> None:
    words = Dictionary()
    back = words.decode_one(words.encode_one(value), "python")
    assert type(back) is type(value)
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(back)
    else:
        assert back == value
        assert math.copysign(1, back) == math.copysign(1, value) if type(value) is float else True


@pytest.mark.parametrize(("value", "term"), FIXED_VALUES)
def test_spelling_of_python_values(value: object, term: str) -> None:
    words = Dictionary()
    assert words.decode_one(words.encode_one(value)) == term


@given(texts)
def test_plain_text_comes_back_as_text(text: str) -> None:
    words = Dictionary()
    back = words.decode_one(words.encode_one(literal(text)), "python")
    assert type(back) is Text
    assert back == text
    assert words.encode_one(back) == 0


@given(st.floats())
def test_doubles_are_spelt_as_by_query_arithmetic(value: float) -> None:
    words = Dictionary()
    identity = words.encode_one(value)
    assert words.decode_one(identity) == number_term(Number(Rank.DOUBLE, value))


@given(canonical)
def test_pyoxigraph(term: str) -> None:
    words = Dictionary()
    identity = words.encode_one(term)
    try:
        back = words.decode_one(identity, "pyoxigraph")
    except ValueError:
        assume(False)  # an IRI that pyoxigraph does not take
    assert words.encode_one(back) == identity
    assert words.encode([back]).ids.tolist() == [identity]


@given(texts, st.sampled_from(["", "en-gb"]), st.sampled_from([XSD + "string", XSD + "integer"]))
def test_literals_of_pyoxigraph(text: str, language: str, datatype: str) -> None:
    term = (
        ox.Literal(text, language=language)
        if language
        else ox.Literal(text, datatype=ox.NamedNode(datatype))
    )
    words = Dictionary()
    assert words.decode_one(words.encode_one(term)) == str(term)
    assert words.decode_one(0, "pyoxigraph") == term


@given(canonical)
def test_rdflib(term: str) -> None:
    words = Dictionary()
    identity = words.encode_one(term)
    back = words.decode_one(identity, "rdflib")
    assert words.encode_one(back) == identity


def test_rdflib_terms_of_every_kind() -> None:
    words = Dictionary()
    terms = [
        rdflib.URIRef("http://ex/é"),
        rdflib.BNode("b0"),
        rdflib.Literal("x"),
        rdflib.Literal("x", lang="en"),
        rdflib.Literal("05", datatype=rdflib.XSD.integer, normalize=False),
        rdflib.Literal(5),
        rdflib.Literal('a"\n\\'),
    ]
    assert words.decode_values(words.encode(terms).ids, "rdflib").tolist() == terms
    assert words.encode_one(rdflib.Literal(5)) == words.encode_one(5)


@pytest.mark.parametrize(
    "value",
    [
        None,
        object(),
        b"x",
        rdflib.Variable("x"),
        rdflib.URIRef("http://ex/a b"),
        rdflib.URIRef("http://ex/\\u0041"),
        rdflib.BNode("a b"),
        ox.DefaultGraph(),
        ox.Literal("x", language="ar", direction=ox.BaseDirection.RTL),
        Decimal("NaN"),
        "\ud800",
        '"\ud800"',
    ],
)
def test_values_that_are_no_terms(value: object) -> None:
    words = Dictionary()
    with pytest.raises(BadTerm):
        words.encode_one(value)
    assert [problem.position for problem in words.encode([1, value]).problems] == [1]
    assert words.find([value]).problems
    words.check()


def test_numpy_scalars_are_the_values_they_hold() -> None:
    words = Dictionary()
    assert words.encode_one(np.int32(5)) == words.encode_one(5)
    assert words.encode_one(np.float64(0.5)) == words.encode_one(0.5)
    assert words.encode_one(np.bool_(True)) == words.encode_one(True)
    assert words.encode_one(True) != words.encode_one(1)
    assert words.encode_one(1.0) != words.encode_one(1)


def test_a_very_long_literal() -> None:
    words = Dictionary()
    long = literal("é\n" * 3_500_000)
    identity = words.encode_one(long)
    assert words.encode_one(long) == identity
    assert words.decode_one(identity) == long
    assert words.decode([identity]).to_pylist() == [long]
    assert words.encode_one(long[:-1] + 'x"') != identity


def test_forms_have_names() -> None:
    words = Dictionary()
    words.encode_one(1)
    assert words.decode_values([0, -1, 0], TermForm.PYTHON).tolist() == [1, None, 1]
    with pytest.raises(ValueError, match="turtle"):
        words.decode_one(0, "turtle")


def test_libraries_are_not_imported_for_terms() -> None:
    code = (
        "import sys; from triegs.terms.dictionary import Dictionary; "
        "Dictionary().encode_terms([1, 2.5, '<http://ex/a>']); "
        "assert 'rdflib' not in sys.modules and 'pyoxigraph' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
