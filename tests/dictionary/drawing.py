"""Terms to draw: every kind, with the spelling that they must come back in."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import strategies as st

from triegs.terms.term import XSD, literal

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGER = XSD + "integer"

iris = st.builds(
    "<http://ex/{}>".format,
    st.text(
        st.characters(
            exclude_categories=["Cs"],
            exclude_characters='<>"{}|^`\\',
            min_codepoint=0x21,
        ).filter(lambda c: c not in "\ufffe\uffff"),
        max_size=6,
    ),
)
blanks = st.sampled_from(["_:b", "_:b.c", "_:0", "_:é", "_:a-b", "_:g1-b"])
languages = st.sampled_from(["en", "en-gb", "de-1996"])
literals = (
    st.builds(literal, texts)
    | st.builds(literal, texts, language=languages)
    | st.builds(literal, texts, st.sampled_from(["http://ex/t", XSD + "decimal", INTEGER]))
)
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
integer_terms = st.builds(lambda value: literal(str(value), INTEGER), st.integers() | integers)
canonical = iris | blanks | literals | integer_terms
few = st.sampled_from(
    ["<http://ex/a>", "<http://ex/b>", "_:b", '""', '"x"@en', literal("5", INTEGER), '"\\n"']
)

# (what a caller may write, the one spelling)
spellings = st.sampled_from(
    [
        ('"A"@EN', '"A"@en'),
        (r'"\u0041"@en', '"A"@en'),
        (f'"x"^^<{XSD}string>', '"x"'),
        ('"a\tb"', r'"a\tb"'),
        ('"\x7f"', r'"\u007F"'),
        (r'"\U0001F600"', '"\U0001f600"'),
        (r"<http://ex/\u00e9>", "<http://ex/é>"),
        (r'"\'"', '"\'"'),
        ('"\ufffe"', r'"\uFFFE"'),
        (rf'"5"^^<{XSD}\u0069nteger>', literal("5", INTEGER)),
    ]
)

malformed = st.sampled_from(
    [
        "",
        "a",
        "?x",
        "<",
        "<a",
        "<a b>",
        "<a>b",
        '<a"b>',
        r"<a\u0020b>",
        r"<a\u003e>",
        "_:",
        "_:-a",
        "_:a.",
        "_:a b",
        '"',
        '"a',
        '"a"b',
        '"a"@',
        '"a"@-',
        '"a"@e n',
        '"a"^^b',
        '"a"^^<b c>',
        r'"\q"',
        r'"\uD800"',
        '"\\',
        "5",
    ]
)

values = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])),
)

FIXED_VALUES: list[tuple[object, str]] = [
    (5, literal("5", INTEGER)),
    (True, literal("true", XSD + "boolean")),
    (1.0, literal("1.0E0", XSD + "double")),
    (-0.0, literal("-0.0E0", XSD + "double")),
    (math.inf, literal("INF", XSD + "double")),
    (-math.inf, literal("-INF", XSD + "double")),
    (1e300, literal("1.0E300", XSD + "double")),
    (Decimal("1.50"), literal("1.50", XSD + "decimal")),
    (Decimal("1e3"), literal("1000", XSD + "decimal")),
    (date(2024, 5, 1), literal("2024-05-01", XSD + "date")),
    (
        datetime.fromisoformat("2024-05-01T10:00:00"),
        literal("2024-05-01T10:00:00", XSD + "dateTime"),
    ),
    (datetime(2024, 5, 1, tzinfo=UTC), literal("2024-05-01T00:00:00Z", XSD + "dateTime")),
    (10**30, literal("1" + "0" * 30, INTEGER)),
]
