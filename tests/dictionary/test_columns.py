"""Columns of every type give the ids that their values give one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.terms.dictionary import Dictionary
from triegs.terms.encoding import Problem
from triegs.terms.term import XSD, literal, scope_label

INTEGER_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
]


@pytest.mark.parametrize("kind", INTEGER_TYPES)
def test_integers_of_every_width(kind: pa.DataType) -> None:
    words = Dictionary()
    encoded = words.encode(pa.array([1, None, 7, 1], kind))
    assert encoded.problems == [Problem(1, "null")]
    assert encoded.ids.tolist() == [words.encode_one(1), -1, words.encode_one(7), 0]


def test_integers_beyond_64_bits_signed() -> None:
    words = Dictionary()
    values = [2**64 - 1, 2**63, 2**63 - 1, 0, None]
    encoded = words.encode(pa.array(values, pa.uint64()))
    assert words.decode(encoded.ids).to_pylist()[:4] == [
        literal(str(value), XSD + "integer") for value in values[:4]
    ]
    assert encoded.ids.tolist()[:4] == words.encode_terms(values[:4])
    words.check()


VALUES: list[tuple[pa.DataType, list[object]]] = [
    (pa.float64(), [0.5, -0.0, 0.0, float("inf"), None, 0.5]),
    (pa.bool_(), [True, False, None, True]),
    (pa.date32(), [date(2024, 5, 1), None, date(1, 1, 1), date(2024, 5, 1)]),
    (pa.date64(), [date(2024, 5, 1), None]),
    (pa.timestamp("us"), [datetime(2024, 5, 1, 10, 0, 0, 250), None]),  # noqa: DTZ001
    (pa.timestamp("s"), [datetime(2024, 5, 1, 10, 0, 10)]),  # noqa: DTZ001
    (pa.timestamp("ms", "UTC"), [datetime(2024, 5, 1, 10, 0, 0, 250_000, tzinfo=UTC), None]),
    (pa.decimal128(10, 3), [Decimal("1.500"), Decimal("100.000"), None]),
    (pa.null(), [None, None]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_other_types(kind: pa.DataType, values: list[object]) -> None:
    words = Dictionary()
    expected = [-1 if value is None else words.encode_one(value) for value in values]
    column = pa.array(values, kind)
    nulls = [place for place, value in enumerate(values) if value is None]
    for given_column in (column, pa.chunked_array([column, column[:0]])):
        encoded = words.encode(given_column)
        assert encoded.ids.tolist() == expected
        assert encoded.problems == [Problem(place, "null") for place in nulls]


def test_timestamps_keep_nanoseconds_and_zones() -> None:
    words = Dictionary()
    column = pa.array([1_714_557_600_000_000_001], pa.timestamp("ns", "Europe/Berlin"))
    old = pa.array([-3_000_000_000], pa.timestamp("s", "Europe/Berlin"))
    assert words.decode(words.encode(column).ids).to_pylist() == [
        literal("2024-05-01T12:00:00.000000001+02:00", XSD + "dateTime")
    ]
    assert words.decode(words.encode(old).ids).to_pylist() == [
        literal("1874-12-07T18:40:00Z", XSD + "dateTime")
    ]


def test_data_out_of_the_ordinary_never_raises() -> None:
    words = Dictionary()
    far = words.encode(pa.array([10**7, None], pa.int32()).cast(pa.date32()))
    assert words.decode(far.ids).to_pylist() == [literal("29349-01-26", XSD + "date"), None]
    old = words.encode(pa.array([-(10**14)], pa.timestamp("ms", "UTC")))
    assert words.decode(old.ids).to_pylist() == [literal("-1199-02-15T14:13:20Z", XSD + "dateTime")]
    half = words.encode(pa.array([np.float16(0.5), None], pa.float16()))
    assert (half.ids[1], half.problems) == (-1, [Problem(1, "null")])
    assert words.encode([Decimal("1e999999999")]).problems
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 3], np.int32)), pa.py_buffer(b"_:\xff")]
    )
    assert [problem.position for problem in words.encode(bad, scope="a").problems] == [0]
    words.check()


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_single_precision_is_xsd_float(kind: type) -> None:
    words = Dictionary()
    values: Any = np.array([0.1, np.inf, np.nan, 2.0], kind)
    encoded = words.encode(values)
    assert encoded.ids.tolist() == words.encode_terms(values)
    assert words.decode_one(int(encoded.ids[3])) == literal("2.0E0", XSD + "float")


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64, np.bool_, np.str_, np.object_])
def test_numpy_arrays(kind: type) -> None:
    words = Dictionary()
    values = np.array([1, 0, 1]) if kind is not np.str_ else np.array(["<a>", "<b>", "<a>"])
    ids = words.encode(values.astype(kind)).ids.tolist()
    assert ids[0] == ids[2] != ids[1]
    assert words.encode(values.astype(kind)[::-1]).ids.tolist() == ids


@pytest.mark.parametrize("values", [[b"x"], [[1]], [{"a": 1}]])
def test_types_without_terms(values: list[Any]) -> None:
    with pytest.raises(TypeError, match="cannot hold terms"):
        Dictionary().encode(pa.array(values))


def test_polars_columns() -> None:
    polars = pytest.importorskip("polars")
    words = Dictionary()
    assert words.encode(polars.Series(["<a>", None])).ids.tolist() == [0, -1]
    assert words.encode(polars.Series([5, 6])).ids.tolist() == [1, 2]


def keep(column: pa.Array) -> pa.Array:
    return column


def slice_middle(column: pa.Array) -> pa.Array:
    return pa.concat_arrays([column, column])[len(column) :]


def encode_in_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_encode()


def hide_values(column: pa.Array) -> pa.Array:
    """A dictionary with bad values that no row has, which are no problem."""
    dictionary = pa.concat_arrays([pa.array(["unused", None]), column])
    indices = pa.array(np.arange(2, len(column) + 2), pa.int8())
    return pa.DictionaryArray.from_arrays(indices, dictionary)


@pytest.mark.parametrize("change", [keep, slice_middle, encode_in_dictionary, hide_values])
def test_problems_are_named_by_position(change: Callable[[pa.Array], pa.Array]) -> None:
    words = Dictionary()
    column = pa.array(["<a>", "b", None, "<a>", "b", '"', '"x"@EN'])
    encoded = words.encode(change(column))
    wrong = "not an N-Triples term: "
    assert encoded.problems == [
        Problem(1, wrong + "'b'"),
        Problem(2, "null"),
        Problem(4, wrong + "'b'"),
        Problem(5, wrong + "'\"'"),
    ]
    assert encoded.ids.tolist()[:6] == [
        words.find_one("<a>"),
        -1,
        -1,
        words.find_one("<a>"),
        -1,
        -1,
    ]
    assert encoded.ids[6] == words.find_one('"x"@en') >= 0
    words.check()


def test_a_dictionary_of_integers() -> None:
    words = Dictionary()
    column = pa.array([7, 8, None, 7]).dictionary_encode()
    assert words.encode(column).ids.tolist() == [0, 1, -1, 0]


def test_bytes_that_are_no_utf8_are_reported() -> None:
    good, bad = b'"x"', b'"\xff"'
    offsets = pa.py_buffer(np.array([0, 3, 6], np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(good + bad)])
    encoded = Dictionary().encode(column)
    assert encoded.ids.tolist() == [0, -1]
    assert encoded.problems[0].position == 1
    assert "UTF-8" in encoded.problems[0].reason


def test_empty_columns() -> None:
    words = Dictionary()
    for kind in (pa.string(), pa.int64(), pa.float64(), pa.dictionary(pa.int8(), pa.string())):
        assert words.encode(pa.array([], kind)).ids.tolist() == []
        assert words.encode(pa.chunked_array([], kind)).ids.tolist() == []
    assert words.decode([]).to_pylist() == []


@given(
    st.lists(st.sampled_from(["_:b", "_:c.d", "<a>", '"_:b"', None, "_:", "_:.b", "_:-b"])),
    st.sampled_from(["", "a.nt", "b", "é/ü"]),
)
def test_scopes_name_blank_nodes_apart(rows: list[str | None], scope: str) -> None:
    words = Dictionary()
    column = words.encode(pa.array(rows, pa.string()), scope=scope)
    single = words.encode(rows, scope=scope)
    packed = words.encode(pa.array(rows, pa.string()).dictionary_encode(), scope=scope)
    assert column.ids.tolist() == single.ids.tolist() == packed.ids.tolist()
    assert [p.position for p in column.problems] == [p.position for p in single.problems]
    for row, identity in zip(rows, column.ids.tolist(), strict=True):
        if row is not None and identity >= 0:
            assert words.decode_one(identity) == scope_label(row, scope)
            assert (words.encode_one(row, scope="other") == identity) == (row[0] != "_")


def test_finding_adds_nothing() -> None:
    words = Dictionary()
    words.encode_one("<a>")
    found = words.find(pa.array(["<a>", "<b>", None, "x", '"X"@EN']))
    assert found.ids.tolist() == [0, -1, -1, -1, -1]
    assert [problem.position for problem in found.problems] == [2, 3]
    assert words.find(pa.array([1, 2])).ids.tolist() == [-1, -1]
    metrics = words.metrics()
    assert metrics.live + metrics.limbo == 1


def test_decoding_in_batches_shares_the_dictionary() -> None:
    words = Dictionary()
    ids = words.encode(pa.array([f"<{i}>" for i in range(100)])).ids
    decoder = words.decoder()
    first = decoder.decode(ids[:60])
    second = decoder.decode(np.concatenate([ids[40:], [-1]]))
    assert first.to_pylist() == [f"<{i}>" for i in range(60)]
    assert second.to_pylist() == [*(f"<{i}>" for i in range(40, 100)), None]
    assert len(second.dictionary) == 100
    assert decoder.decode_one(3) == decoder.decode_one(3) == "<3>"
    for bad in (100, -2):
        with pytest.raises(IndexError, match=str(bad)):
            decoder.decode([0, bad])
    assert decoder.decode([5]).to_pylist() == ["<5>"]
    with pytest.raises(IndexError):
        words.decode_one(100)
