"""IRI references: the examples of RFC 3986, section 5.4, and what is not an IRI."""

from __future__ import annotations

import pytest

from triegs.sparql.iri import is_absolute, is_relative, resolve

BASE = "http://a/b/c/d;p?q"


@pytest.mark.parametrize(
    ("reference", "iri"),
    [
        ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"), ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"), ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"), (";x", "http://a/b/c/;x"), ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"), ("..", "http://a/b/"), ("../g", "http://a/b/g"),
        ("../..", "http://a/"), ("../../g", "http://a/g"), ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"), ("./g/.", "http://a/b/c/g/"), ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"), ("g?y/../x", "http://a/b/c/g?y/../x"),
    ],
)  # fmt: skip
def test_resolve(reference: str, iri: str) -> None:
    assert resolve(reference, BASE) == iri


@pytest.mark.parametrize(
    "iri",
    ["http://a", "x:", "urn:a:b", "http://[::1]:80/", "http://u:p@h:8/p?q#f", "mailto:a@b",
     "http://é.org/ü?ñ#ß", "file:///a/b", "http://a/%41", "tag:a@b,2020:c"],
)  # fmt: skip
def test_absolute(iri: str) -> None:
    assert is_absolute(iri)


@pytest.mark.parametrize(
    "iri",
    ["", "a", "//a", ":a", "1x:a", "http://a b", "http://a/%4", "http://a/[", "http://a/{b}",
     "http://a/\\", "http://a/\x00", "http://a/\ufffe", "http://a#b#c", "http://a:b/"],
)  # fmt: skip
def test_not_absolute(iri: str) -> None:
    assert not is_absolute(iri)


def test_relative() -> None:
    assert all(is_relative(text) for text in ["", "a", "../b", "#c", "?d", "//h/p"])
    assert not any(is_relative(text) for text in ["x:y", ":a", "a b", "%"])
