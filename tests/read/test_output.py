"""Columns of ids come out in each form, with one type per column."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.errors import TriegsError
from triegs.read.output import (
    ARROW_FORMS,
    ROW_FORMS,
    ArrowOutput,
    RowOutput,
    integer_table,
)
from triegs.terms import decoder
from triegs.terms.arrays import INTEGER
from triegs.terms.dictionary import Dictionary
from triegs.terms.native import TERMS
from triegs.terms.term import Text

NAIVE, ZONED = datetime.fromisoformat("0001-01-01"), datetime(2024, 5, 1, tzinfo=UTC)
POOLS: dict[Any, list[object]] = {
    pa.int64(): [1, -1, 2**63 - 1, -(2**63)],
    pa.float64(): [0.5, float("inf"), -0.0],
    pa.bool_(): [True, False],
    pa.date32(): [date(2024, 5, 1), date(1, 1, 1)],
    pa.decimal128(38, 2): [Decimal("67.00"), Decimal("-0.50"), Decimal(f"{10**20}.00")],
    pa.time64("us"): [time(10), time(23, 59, 59, 999_999)],
    pa.timestamp("us"): [NAIVE, datetime.fromisoformat("2024-05-01T10:00:00.25")],
    pa.timestamp("us", "UTC"): [ZONED, datetime.max.replace(tzinfo=UTC)],
    pa.string(): [Text("a"), Text("<a:a>"), Text("")],
    TERMS: ["<a:a>", '"x"@en', "_:b"],
}
XSD_TERM = '"{}"^^<http://www.w3.org/2001/XMLSchema#{}>'.format
# Columns of several spellings and kinds, the type that holds them, and their values in it.
COLUMNS: list[tuple[list[tuple[str, str]], Any, list[Any]]] = [
    ([("067", "integer"), ("+5", "int"), ("1", "byte")], pa.int64(), [67, 5, 1]),
    ([("1", "integer"), ("9223372036854775808", "integer")], pa.decimal128(38, 0), [1, 2**63]),
    (
        [("67.00", "decimal"), ("67", "decimal"), (".5", "decimal")],
        pa.decimal128(38, 2),
        [Decimal("67.00"), Decimal("67.00"), Decimal("0.50")],
    ),
    (
        [("67.00", "decimal"), ("5", "integer")],
        pa.decimal128(38, 2),
        [Decimal("67.00"), Decimal("5.00")],
    ),
    ([("1." + "0" * 60, "decimal")], pa.decimal128(38, 0), [Decimal(1)]),
    (
        [("1e3", "double"), ("1000.0", "double"), ("INF", "double")],
        pa.float64(),
        [1e3, 1e3, float("inf")],
    ),
    ([("1.5", "float"), ("2", "float")], pa.float32(), [1.5, 2.0]),
    (
        [("1.5", "float"), ("2", "integer"), ("0.1", "double"), ("67.00", "decimal")],
        pa.float64(),
        [1.5, 2.0, 0.1, 67.0],
    ),
    ([("1" + "0" * 400, "integer"), ("1.0", "double")], pa.float64(), [float("inf"), 1.0]),
    ([("1", "boolean"), ("false", "boolean")], pa.bool_(), [True, False]),
    (
        [("2024-05-01Z", "date"), ("2024-05-02", "date")],
        pa.date32(),
        [date(2024, 5, 1), date(2024, 5, 2)],
    ),
    (
        [("10:00:00+02:00", "time"), ("00:30:00+01:00", "time")],
        pa.time64("us"),
        [time(8), time(23, 30)],
    ),
    (
        [("2024-05-01T10:00:00+02:00", "dateTime"), ("2024-05-01T08:00:00Z", "dateTimeStamp")],
        pa.timestamp("us", "UTC"),
        [datetime(2024, 5, 1, 8, tzinfo=UTC)] * 2,
    ),
]
MIXED: list[list[tuple[str, str]]] = [
    [("67.00", "decimal"), ("x", "decimal")],
    [("1." + "3" * 99, "decimal"), ("67.00", "decimal")],
    [("9" * 39, "integer"), ("1", "integer")],
    [("12000-01-01", "date"), ("2024-05-01", "date")],
    [("2024-05-01T08:00:00Z", "dateTime"), ("2024-05-01T08:00:00", "dateTime")],
    [("08:00:00Z", "time"), ("08:00:00", "time")],
    [("1", "integer"), ("true", "boolean")],
    [("1", "integer"), ("x", "string")],
]
ODD = [10**30, 1, 0.5, "<a:a>", Text("a"), True]
columns = st.sampled_from(sorted(POOLS, key=str)).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.lists(st.none() | st.sampled_from(POOLS[kind]), max_size=12)
    )
)


def encode(words: Dictionary, values: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    ids = [-1 if value is None else words.encode_one(value) for value in values]
    return np.array([ids], np.int64).reshape(1, -1)


def show(words: Dictionary, ids: Any) -> list[str | None]:
    return [None if one < 0 else words.decode_one(one) for one in ids.ravel().tolist()]


@given(columns, st.booleans())
def test_native_columns(drawn: tuple[Any, list[Any]], is_surveyed: bool) -> None:
    kind, values = drawn
    words = Dictionary()
    ids = encode(words, values)
    output = ArrowOutput(words.decoder(), ["x"], "python")
    if is_surveyed:
        output.survey(ids[:, :3])
        output.survey(ids)
    (column,) = output.write(ids)
    column.validate(full=True)
    assert column.to_pylist() == values
    if kind != pa.timestamp("us", "UTC"):  # a zone that Arrow and Python have several objects for
        plain = [value if type(value) is not Text else str(value) for value in values]
        assert repr(column.to_pylist()) == repr(plain)
    has_terms = any(value is not None for value in values)
    assert column.type == output.fields[0].type == (kind if has_terms else TERMS)


@pytest.mark.parametrize(("spelled", "kind", "values"), COLUMNS)
def test_every_spelling_is_native(spelled: Any, kind: Any, values: list[Any]) -> None:
    words = Dictionary()
    ids = encode(words, [XSD_TERM(*each) for each in spelled])
    (column,) = ArrowOutput(words.decoder(), ["x"], "python").write(ids)
    column.validate(full=True)
    assert column.type == kind
    assert column.to_pylist() == values
    pa.table({"x": column}).to_pandas()
    pytest.importorskip("polars").from_arrow(pa.table({"x": column}))


def test_nanoseconds_are_kept_where_they_fit() -> None:
    words = Dictionary()
    ids = encode(
        words, [XSD_TERM(f"2024-05-01T10:00:00.{part}", "dateTime") for part in ("5", "123456789")]
    )
    (column,) = ArrowOutput(words.decoder(), ["x"], "python").write(ids)
    assert column.type == pa.timestamp("ns")
    assert [int(n) % 10**9 for n in column.cast(pa.int64()).to_pylist()] == [
        500_000_000,
        123_456_789,
    ]
    far = encode(
        words, [XSD_TERM(f"{year}-05-01T10:00:00.123456789", "dateTime") for year in (2024, 3024)]
    )
    (column,) = ArrowOutput(words.decoder(), ["x"], "python").write(far)
    assert column.type == pa.timestamp("us")
    assert [each.microsecond for each in column.to_pylist()] == [123_456] * 2


@pytest.mark.parametrize("spelled", MIXED)
def test_a_column_never_mixes_values_and_terms(spelled: Any) -> None:
    words = Dictionary()
    ids = encode(words, [XSD_TERM(*each) for each in spelled])
    for batches in ([ids], [ids[:, :1], ids[:, 1:]]):
        output = ArrowOutput(words.decoder(), ["x"], "python")
        for batch in batches:
            output.survey(batch)
        columns = [output.write(batch)[0] for batch in batches]
        assert {column.type for column in columns} == {TERMS}
        assert [term for column in columns for term in column.to_pylist()] == show(words, ids)


@given(st.lists(st.lists(st.none() | st.sampled_from(ODD), min_size=1, max_size=6), max_size=4))
def test_a_survey_finds_one_type_for_all(batches: list[list[Any]]) -> None:
    words = Dictionary()
    given_ids = [encode(words, values) for values in batches]
    output = ArrowOutput(words.decoder(), ["x"], "python")
    for ids in given_ids:
        output.survey(ids)
    kind = output.fields[0].type
    for ids in given_ids:
        (column,) = output.write(ids)
        assert column.type == kind
        if kind == TERMS:
            assert column.to_pylist() == show(words, ids)
    assert output.fields[0].type == kind


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (1, 10**30),
        (1, "<a:a>"),
        (True, 1),
        (0.5, True),
        (1, 0.5),
        (Decimal("0.5"), Decimal("0.25")),
        (Decimal("0.5"), 0.5),
        (NAIVE, ZONED),
    ],
)
def test_a_stream_keeps_the_type_of_its_first_batch(first: Any, later: Any) -> None:
    words = Dictionary()
    output = ArrowOutput(words.decoder(), ["x"], "python")
    output.write(encode(words, [first, None]))
    ids = encode(words, [first, later])
    with pytest.raises(TriegsError) as error:
        output.write(ids)
    assert words.decode_one(int(ids[0, 1])) in str(error.value)
    assert "the column x began as" in str(error.value)


def test_terms_and_ids() -> None:
    words = Dictionary()
    ids = np.concatenate([encode(words, [1, "<a:a>", None]), encode(words, [2, 2, 1])])
    first, second = ArrowOutput(words.decoder(), ["x", "y"]).write(ids)
    assert first.type == second.type == TERMS
    assert first.to_pylist() == show(words, ids[0])
    assert second.dictionary.to_pylist() == show(words, ids[1, 1:])
    output = ArrowOutput(words.decoder(), ["x", "y"], "ids")
    assert [column.to_pylist() for column in output.write(ids)] == ids.tolist()
    assert not any(field.nullable for field in output.fields)


@pytest.mark.parametrize("form", ROW_FORMS)
def test_rows(form: str) -> None:
    for library in ("rdflib", "pyoxigraph"):
        if form == library:
            pytest.importorskip(library)
    words = Dictionary()
    ids = np.concatenate([encode(words, [1, None, "<a:a>"]), encode(words, [Text("a"), 2.5, 1])])
    rows = list(RowOutput(words.decoder(), form).rows(ids))
    known = "python" if form == "plain" else form  # without a base there are no names
    expected = [
        tuple(
            one if form == "ids" else None if one < 0 else words.decode_one(one, known)
            for one in row
        )
        for row in ids.T.tolist()
    ]
    assert rows == expected
    assert [tuple(map(type, row)) for row in rows] == [tuple(map(type, row)) for row in expected]
    output = RowOutput(words.decoder(), form)
    assert [output.row(row) for row in ids.T.tolist()] == expected
    assert list(output.rows(np.empty((0, 2), np.int64))) == [(), ()]


def test_plain_columns() -> None:
    """Names where there is a base, values of literals, and the rest as it is."""
    words = Dictionary()
    words.base = "http://b/"
    values = ["<http://b/a%20b>", "<http://b/_%3Ax>", "<http://c/a>", "_:x", Text("t"), 5, None]
    ids = encode(words, values)
    shown = ["a b", "<http://b/_%3Ax>", "<http://c/a>", "_:x", "t", 5, None]
    assert [row[0] for row in RowOutput(words.decoder(), "plain").rows(ids)] == shown
    output = ArrowOutput(words.decoder(), ["x"], "plain")
    assert output.write(ids)[0].to_pylist() == [each if each != 5 else "5" for each in shown]
    for column, kind in (([5, 7], pa.int64()), (["<http://b/a>", Text("t")], pa.string())):
        output = ArrowOutput(words.decoder(), ["x"], "plain")
        output.survey(encode(words, column))
        assert output.write(encode(words, column))[0].type == kind


def test_objects_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triegs.read.output.MOST_OBJECTS", 2)
    words = Dictionary()
    output = RowOutput(words.decoder())
    (row,) = output.rows(encode(words, ["<a:a>"]))
    assert next(output.rows(encode(words, ["<a:a>"])))[0] is row[0]
    assert list(output.rows(encode(words, ["<a:b>", "<a:c>"]))) == [("<a:b>",), ("<a:c>",)]
    assert list(output.rows(encode(words, ["<a:a>", None]))) == [("<a:a>",), (None,)]


def test_forms_that_there_are_not() -> None:
    load = Dictionary().decoder()
    with pytest.raises(
        ValueError, match="terms must be one of ntriples, python, plain, ids, not 'rdflib'"
    ):
        ArrowOutput(load, ["x"], "rdflib")
    with pytest.raises(ValueError, match="not 'xml'"):
        RowOutput(load, "xml")
    assert set(ARROW_FORMS) < set(ROW_FORMS)


def test_the_table_of_integers_grows_with_the_dictionary() -> None:
    words = Dictionary()
    reader = words.decoder()
    ids = words.encode(np.arange(5000)).ids
    table = integer_table(reader)
    assert table[ids, 0].tolist() == list(range(5000))
    assert (table[ids, 1] == INTEGER).all()
    assert table[words.encode_one("<a:a>"), 1] != INTEGER


def test_dictionaries_start_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """When they have too many terms, or too many bytes; what was given out stays as it was."""
    words = Dictionary()
    ids = words.encode(pa.array([f"<a:{number:03}>" for number in range(100)])).ids
    for name, limit in (("MOST_TERMS", 25), ("MOST_BYTES", 170), ("MOST_BYTES", 50)):
        with monkeypatch.context() as patch:
            patch.setattr(decoder, name, limit)
            reader = words.decoder()
            batches = [ids[start : start + 10] for start in (*range(0, 100, 10), 50, 0)]
            columns = [reader.decode(batch) for batch in batches]
            for batch, column in zip(batches, columns, strict=True):
                column.validate(full=True)
                assert column.to_pylist() == show(words, batch)
                assert len(column.dictionary) <= 35
