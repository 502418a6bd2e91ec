"""REGEX by XPath and XML Schema: classes, flags, anchors; in linear time, and within bounds."""

from __future__ import annotations

import sys
import unicodedata
from itertools import pairwise
from random import Random

import pytest
from hypothesis import settings

from triegs import Engine
from triegs.errors import QueryError
from triegs.sparql import parse
from triegs.sparql.code_points import category
from triegs.sparql.unicode_blocks import BLOCKS
from triegs.sparql.values import ExpressionError
from triegs.sparql.xpath_regex import compile_regex
from triegs.testing import oracle
from triegs.testing.oracle_regex import BadPattern, matches

ROUNDS = max(4_000, settings().max_examples * 20)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        # XPath's \w leaves out punctuation, separators and others, and keeps symbols.
        (r"\w", "_", False), (r"\w", "-", False), (r"\w", "$", True), (r"\w", "+", True),
        (r"\w", "\u0301", True), (r"\w", "😀", True), (r"\W", "_", True), (r"\W", "é", False),
        (r"\w", "\u200b", False), (r"[\w]", "_", False), (r"[^\w]", "_", True),
        (r"\d", "٣", True), (r"\d", "²", False), (r"\D", "٣", False),
        (r"\s", "\u00a0", False), (r"\s", "\v", False), (r"\S", "\u00a0", True),
        (r"\s", "\t", True), (r"\s", "\n", True), (r"\s", " ", True), (r"[\s]", "\r", True),
        (r"\i", ":", True), (r"\i", "-", False), (r"\c", "-", True), (r"\I", "1", True),
        (r"\p{L}", "é", True), (r"\p{Lu}", "é", False), (r"\P{Lu}", "é", True),
        (r"\p{Nl}", "Ⅷ", True), (r"\p{Cn}", "\U000e0fff", True), (r"\p{Co}", "\ue000", True),
        (r"\p{IsBasicLatin}", "a", True), (r"\p{IsBasicLatin}", "é", False),
        (r"\P{IsBasicLatin}", "é", True), (r"\p{IsGreek}", "α", True),
        (r"\p{IsGreekandCoptic}", "α", True), (r"\p{IsCyrillic}", "α", False),
        (r"\p{IsLatin-1Supplement}", "é", True), (r"\p{IsEmoticons}", "😀", True),
        (r"[\p{IsGreek}-[α]]", "α", False),
        ("^[a-z-[aeiou]]+$", "xyz", True), ("^[^a-z-[A]]$", "A", False),
        ("^[^a-z-[A]]$", "B", True),
        ("[a-z-[b-y-[m]]]", "m", True), ("[a-z-[b-y-[m]]]", "c", False),
        ("^.$", "😀", True), (".", "\r", False), ("a{0}b", "b", True), ("^(a|)$", "", True),
        ("^*a", "ba", True), ("a{2,}?$", "aaa", True), ("x{00002}", "xx", True),
    ],
)  # fmt: skip
def test_characters(pattern: str, text: str, found: bool) -> None:
    assert compile_regex(pattern, "").matches(text) is found
    assert matches(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "found"),
    [
        ("k", "i", "\u212a", True), ("[A-Z]", "i", "\u212a", True), ("ß", "i", "ẞ", True),
        ("s", "i", "ſ", True), (r"\p{Lu}", "i", "a", False), ("[A-Z-[IO]]", "i", "o", False),
        ("[^q]", "i", "Q", False), ("é", "i", "É", True), ("é", "", "É", False),
        ("^$", "m", "a\n", False), ("^$", "m", "a\n\nb", True), ("^$", "m", "\n", True),
        ("^b$", "m", "a\nb\n", True), ("\n$", "m", "a\n", False), ("b$", "", "b\n", False),
        ("a$\n", "m", "a\n", True), ("a.b", "s", "a\r\nb", False), ("a..b", "s", "a\r\nb", True),
        (" a b ", "x", "ab", True), ("a[ ]b", "x", "a b", True), (r"a\ b", "x", "a b", None),
        ("a.b", "q", "a.b", True), ("a.B", "qi", "A.b", True), ("a b", "qx", "ab", False),
        ("a", "g", "a", None), ("[a b]", "x", " ", True),
    ],
)  # fmt: skip
def test_flags(pattern: str, flags: str, text: str, found: bool | None) -> None:
    if found is None:
        with pytest.raises(ExpressionError):
            compile_regex(pattern, flags)
        with pytest.raises(BadPattern):
            matches(pattern, text, flags)
        return
    assert compile_regex(pattern, flags).matches(text) is found
    assert matches(pattern, text, flags) is found


CHARACTERS = [*"abKk\u212aßẞ_- \n\réÉ1٣ſs$€Ωωα.\t😀中"]
PIECES = [
    r"a",
    r"b",
    r"k",
    r"K",
    r"ß",
    r"é",
    r"s",
    r".",
    r"^",
    r"$",
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"\i",
    r"\c",
    r"\I",
    r"\C",
    r"\p{L}",
    r"\P{L}",
    r"\p{Lu}",
    r"\p{IsGreek}",
    r"[k-a]",
    r"\P{IsBasicLatin}",
    r"[a-k]",
    r"[^a-k]",
    r"[\w-[a-k]]",
    r"[^\s-[é]]",
    r"[A-Z-[K]]",
    r"[\-ab]",
    r"[a-]",
    r"[_]",
    r"\.",
    r"\$",
    r"\n",
    r"(a|b)",
    r"(?:a|)",
    r"(",
    r")",
    r"|",
    r"[",
    r"]",
    r"*",
    r"+",
    r"?",
    r"{2}",
    r"{1,2}",
    r"{0,}",
    r"{",
    r"-",
    r"\1",
    r"[\p{Ll}-[a-z-[k]]]",
    r"()",
    r"\-",
    r"[.]",
    r"[$^]",
    r"(?=",
    r"a**",
    r"\q",
    r"\p{Q}",
    r"{2,1}",
]


def test_two_readings_of_the_specification_agree() -> None:
    """A translation to RE2 and sets of positions: different methods, same answers."""
    source = Random(5)
    refused = 0
    for _ in range(ROUNDS):
        pattern = "".join(
            source.choice(PIECES) + source.choice(["", "", "", "*", "+", "?", "{1,2}", "*?", " "])
            for _ in range(source.randrange(1, 6))
        )
        flags = "".join(flag for flag in "smixq" if source.random() < 0.2)
        text = "".join(source.choice(CHARACTERS) for _ in range(source.randrange(6)))
        try:
            found: bool | None = compile_regex(pattern, flags).matches(text)
        except ExpressionError:
            found = None
        try:
            expected: bool | None = matches(pattern, text, flags)
        except BadPattern:
            expected = None
        assert found == expected, (pattern, flags, text)
        refused += found is None
    assert 0 < refused < ROUNDS


def test_categories_are_those_of_python() -> None:
    names = {unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)}
    held = {
        code: name
        for name in names
        for low, high in category(name)
        for code in range(low, high + 1)
    }
    assert held == {code: unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)}


def test_blocks_are_apart() -> None:
    aliases = {"Greek", "CombiningMarksforSymbols", "PrivateUse"}
    ranges = sorted(r for name, (r,) in ((n, BLOCKS[n]) for n in BLOCKS.keys() - aliases))
    assert all(low <= high for low, high in ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    assert BLOCKS["PrivateUse"] == ((0xE000, 0xF8FF), (0xF0000, 0xFFFFF), (0x100000, 0x10FFFF))


SLOW = [
    "^(a+)+$", "^(a|a)*$", "^(a|aa)+$", r"^(\w+\s?)*$", "(a*)*(a*)*(a*)*b", "(.*a){20}b",
    "(a?){50}a{50}b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SLOW)
def test_no_pattern_backtracks(pattern: str) -> None:
    assert not compile_regex(pattern, "").matches("a" * 20_000 + "!")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(.)\1", "back-reference"), ("a{1001}", "more than 1000 times"),
        ("(a{100}){100}", "more than 1000 times"), (r"\w{0,900}", "too large"),
        (r"(\p{L}{0,30}){0,30}", "too large"), (r"\w" * 60_000, "too large"),
        ("(" * 101 + ")" * 101, "deeper than 100"), ("[a-" * 200, "deeper than 100"),
        ("(" * 40_000, "deeper than 100"), ("a{" + "9" * 5_000 + "}", "more than 1000 times"),
        (r"\p{IsNowhere}", "unknown block"), ("a{3,2}", "reversed"), ("(a", "unterminated"),
    ],
)  # fmt: skip
def test_bounds(pattern: str, says: str) -> None:
    text = "SELECT ?x {\n ?x <p> ?y FILTER(REGEX(?y, '" + pattern.replace("\\", "\\\\") + "')) }"
    with pytest.raises(QueryError, match=says) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (2, 29)
    assert caught.value.construct == "REGEX"


def test_patterns_from_the_data() -> None:
    """An invalid pattern in the data is an error of its row only."""
    rows = [("a_b", r"^\w+$"), ("ab", r"^\w+$"), ("aa", r"(.)\1"), ("a" * 3_000 + "!", "^(a+)+$"),
            ("x", "("), ("a.b", "^a[.]b$")]  # fmt: skip
    query = "SELECT ?r ?t ?p { ?r <u:text> ?t ; <u:pattern> ?p FILTER(REGEX(?t, ?p)) }"
    updates = [
        update
        for number, (text, pattern) in enumerate(rows)
        for update in (
            ("+", f"<u:{number}>", "<u:text>", f'"{text}"'),
            ("+", f"<u:{number}>", "<u:pattern>", '"' + pattern.replace("\\", "\\\\") + '"'),
        )
    ]
    with Engine() as engine:
        standing = engine.register(query)
        engine.apply(updates)
        with standing.snapshot() as snapshot:
            found = {tuple(answer): answer.multiplicity for answer in snapshot}
    assert found == oracle.answers(query, updates)
    assert {row[0] for row in found} == {"<u:1>", "<u:5>"}
