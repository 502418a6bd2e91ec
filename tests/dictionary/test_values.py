"""One rule for values: a term has the digits of its value, and every spelling is a value."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
import rdflib
from hypothesis import example, given
from hypothesis import strategies as st

from triegs.errors import BadTerm
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import XSD, literal, parse_term
from triegs.terms.values import write_value

pd = pytest.importorskip("pandas")
BERLIN = ZoneInfo("Europe/Berlin")
DATE_TIME = XSD + "dateTime"
zones = st.none() | st.sampled_from([UTC, *(timezone(timedelta(minutes=m)) for m in (-840, 90))])
decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda value: abs(value.adjusted()) < 1000
)
values = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False), decimals, st.dates(),
    st.times(timezones=zones), st.datetimes(timezones=zones),
)  # fmt: skip


def read(term: str) -> Any:
    words = Dictionary()
    return words.decode_one(words.encode_one(term), "python")


@given(values)
@example(Decimal("67.00"))
@example(Decimal("-0.00"))
@example(Decimal("1E+3"))
def test_a_value_is_its_term_and_back(value: Any) -> None:
    words = Dictionary()
    identity = words.encode_one(value)
    back = words.decode_one(identity, "python")
    assert type(back) is type(value)
    assert back == value
    if isinstance(value, Decimal):
        assert f"{back:f}" == f"{value:f}"
    # The same term again: who reads a value can name what it was written as.
    assert words.encode_one(back) == identity


@given(values)
def test_rdflib_reads_the_same_value(value: Any) -> None:
    parts = parse_term(write_value(value))
    found = rdflib.Literal(parts.lexical, datatype=rdflib.URIRef(parts.datatype)).value
    assert found == value


SPELLINGS: list[tuple[str, str, Any]] = [
    ("067", "integer", 67), ("+5", "integer", 5), ("-0", "integer", 0),
    ("9" * 30, "integer", int("9" * 30)),
    *((lexical, kind, int(lexical)) for kind in ("long", "int", "short", "byte",
      "nonNegativeInteger", "positiveInteger", "unsignedLong", "unsignedInt",
      "unsignedShort", "unsignedByte")
      for lexical in ("7", "+07")),
    ("-1", "negativeInteger", -1), ("0", "nonPositiveInteger", 0),
    ("067.00", "decimal", Decimal("67.00")), (".5", "decimal", Decimal("0.5")),
    ("5.", "decimal", Decimal(5)), ("+5", "decimal", Decimal(5)),
    ("1." + "3" * 99, "decimal", Decimal("1." + "3" * 99)),
    ("1e3", "double", 1000.0), ("1.0E3", "double", 1000.0), ("1000", "double", 1000.0),
    ("INF", "double", math.inf), ("-INF", "float", -math.inf), ("+INF", "double", math.inf),
    ("0.1", "float", float(np.float32("0.1"))), ("1e60", "float", math.inf),
    ("1", "boolean", True), ("0", "boolean", False), ("true", "boolean", True),
    ("2024-05-01", "date", date(2024, 5, 1)), ("2024-05-01Z", "date", date(2024, 5, 1)),
    ("2024-05-01-05:00", "date", date(2024, 5, 1)),
    ("10:00:00.250", "time", time(10, 0, 0, 250_000)), ("10:00:00Z", "time", time(10, tzinfo=UTC)),
    ("24:00:00", "time", time(0)),
    ("2024-05-01T10:00:00.100", "dateTime", datetime.fromisoformat("2024-05-01T10:00:00.1")),
    ("2024-05-01T10:00:00-00:00", "dateTime", datetime(2024, 5, 1, 10, tzinfo=UTC)),
    ("2024-05-01T10:00:00.1234567Z", "dateTimeStamp", datetime(2024, 5, 1, 10, 0, 0, 123_456, UTC)),
    ("2024-12-31T24:00:00", "dateTime", datetime.fromisoformat("2025-01-01T00:00:00")),
]  # fmt: skip


@pytest.mark.parametrize(("lexical", "kind", "value"), SPELLINGS)
def test_every_spelling_is_a_value(lexical: str, kind: str, value: Any) -> None:
    found = read(literal(lexical, XSD + kind))
    assert type(found) is type(value)
    assert found == value
    if isinstance(value, Decimal):
        assert found.as_tuple() == value.as_tuple()
    if isinstance(value, datetime | time):
        assert found.utcoffset() == value.utcoffset()


def test_not_a_number() -> None:
    for kind in ("double", "float"):
        assert math.isnan(read(literal("NaN", XSD + kind)))


@pytest.mark.parametrize(
    ("lexical", "kind"),
    [
        ("five", "integer"), (" 5", "integer"), ("1_000", "integer"), ("٥", "integer"),
        ("", "integer"), ("300", "byte"), ("-1", "unsignedInt"), ("0", "positiveInteger"),
        ("1e3", "decimal"),
        ("nan", "double"), ("inf", "double"), ("TRUE", "boolean"), ("2023-02-29", "date"),
        ("20240501", "date"), ("2024-05-01 10:00:00", "dateTime"), ("2024-05-01T10:00", "dateTime"),
        ("2024-05-01T24:00:01", "dateTime"), ("2024-05-01T10:00:00+15:00", "dateTime"),
        ("25:00:00", "time"), ("2024-05-01T10:00:00", "dateTimeStamp"),
        # What Python has no value for.
        ("12000-01-01", "date"), ("-0001-01-01", "date"), ("12000-01-01T00:00:00", "dateTime"),
        ("9999-12-31T24:00:00", "dateTime"), ("0001-01-01T00:00:00+01:00", "dateTime"),
        ("9" * 5000, "integer"), ("P1D", "duration"), ("5", "other"),
    ],
)  # fmt: skip
def test_a_literal_without_a_value_stays_a_term(lexical: str, kind: str) -> None:
    term = literal(lexical, XSD + kind)
    assert read(term) == term


COLUMNS: list[tuple[Any, list[Any]]] = [
    (pa.decimal128(10, 2), [Decimal("67.00"), Decimal("-0.50")]),
    (pa.decimal256(60, 4), [Decimal("67.0000")]),
    (pa.decimal128(5, -2), [Decimal(6700)]),
    (pa.float64(), [67.0, 1e300, -0.0]),
    (pa.float32(), [np.float32(0.1)]),
    (pa.bool_(), [True]),
    (pa.int8(), [67]),
    (pa.date32(), [date(2024, 5, 1)]),
    (pa.time32("s"), [time(10, 0, 1)]),
    (pa.time64("us"), [time(10, 0, 1, 250_000)]),
    (pa.timestamp("ms"), [datetime.fromisoformat("2024-05-01T10:00:00.250")]),
    (pa.timestamp("ns", "UTC"), [pd.Timestamp("2024-05-01T10:00:00.123456789Z")]),
    (pa.timestamp("us", BERLIN.key), [datetime(2024, 5, 1, 10, tzinfo=BERLIN)]),
    (pa.timestamp("us", BERLIN.key), [datetime(1880, 5, 1, 10, tzinfo=BERLIN)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), COLUMNS)
def test_a_column_has_the_terms_of_its_values(kind: Any, given: list[Any]) -> None:
    words = Dictionary()
    one_by_one = words.encode_terms(given)
    assert words.encode(pa.array(given, kind)).ids.tolist() == one_by_one
    coded = pa.array(given, kind)
    if not pa.types.is_float32(kind):
        assert words.encode(coded.dictionary_encode()).ids.tolist() == one_by_one


def test_small_decimals_of_arrow() -> None:
    words = Dictionary()
    column = pa.array([Decimal("1.50"), None]).cast(pa.decimal128(5, 2)).cast(pa.decimal32(5, 2))
    ids, problems = words.encode(column)
    assert words.decode_one(int(ids[0])) == literal("1.50", XSD + "decimal")
    assert [problem.position for problem in problems] == [1]


@pytest.mark.parametrize(
    ("value", "term"),
    [
        (Decimal("67.00"), literal("67.00", XSD + "decimal")),
        (np.datetime64("2024-05-01"), literal("2024-05-01", XSD + "date")),
        (np.datetime64("2024-05-01T10"), literal("2024-05-01T10:00:00", XSD + "dateTime")),
        (np.datetime64("2024-05-01T10:00:00.250"), literal("2024-05-01T10:00:00.25", DATE_TIME)),
        (pd.Timestamp("2024-05-01T10:00:00.000000001"),
         literal("2024-05-01T10:00:00.000000001", DATE_TIME)),
        (np.int16(5), literal("5", XSD + "integer")),
        (time(10, tzinfo=UTC), literal("10:00:00Z", XSD + "time")),
    ],
)  # fmt: skip
def test_values_of_other_libraries(value: object, term: str) -> None:
    assert write_value(value) == term


@pytest.mark.parametrize(
    "value",
    [pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64(5, "s"), timedelta(1), Decimal("Infinity"),
     np.datetime64("2024-05"), time(10, tzinfo=timezone(timedelta(hours=15)))],
)  # fmt: skip
def test_values_without_a_term(value: object) -> None:
    with pytest.raises(BadTerm):
        write_value(value)


def test_years_before_the_first() -> None:
    words = Dictionary()
    for kind, text in ((pa.date32(), "-0221-09-04"), (pa.timestamp("s"), "-0221-09-04T00:00:00")):
        days = pa.array([-800_000 * (1 if kind == pa.date32() else 86_400)], pa.int64())
        column = days.cast(pa.int32()).cast(kind) if kind == pa.date32() else days.cast(kind)
        (term,) = words.decode(words.encode(column).ids).to_pylist()
        assert parse_term(term).lexical == text
