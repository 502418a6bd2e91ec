"""Columns of ids come out in each form, with one type per column."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.dictionary import Dictionary, decoder
from triegs.dictionary.arrays import INTEGER
from triegs.errors import TriegsError
from triegs.read.output import (
    ARROW_FORMS,
    ROW_FORMS,
    TERMS,
    ArrowOutput,
    RowOutput,
    integer_table,
)
from triegs.terms import Text

POOLS: dict[Any, list[object]] = {
    pa.int64(): [1, -1, 2**63 - 1, -(2**63)],
    pa.float64(): [0.5, float("inf"), -0.0],
    pa.bool_(): [True, False],
    pa.date32(): [date(2024, 5, 1), date(1, 1, 1)],
    pa.string(): [Text("a"), Text("<a:a>"), Text("")],
    TERMS: ["<a:a>", '"x"@en', "_:b"],
}
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
    assert repr(column.to_pylist()) == repr([v if type(v) is not Text else str(v) for v in values])
    has_terms = any(value is not None for value in values)
    assert column.type == output.fields[0].type == (kind if has_terms else TERMS)


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


@pytest.mark.parametrize(("first", "later"), [(1, 10**30), (1, "<a:a>"), (True, 1), (0.5, True)])
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
        ValueError, match="terms is one of ntriples, python, plain, ids, not 'rdflib'"
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


def test_dictionaries_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
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
