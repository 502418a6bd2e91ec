"""Updates as tuples and as tables give the same rows, and refuse the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.errors import InvalidUpdate
from triegs.events.updates import Batch, encode_table, encode_tuples
from triegs.reasons import Reason
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import Text, literal

SEVEN = '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'
GOOD = [("+", "<a:a>", "<a:p>", "<a:b>"), ("-", "<a:a>", "<a:p>", "<a:c>")]
SIGNS: dict[Any, int] = {"+": 1, "-": -1, 1: 1, -1: -1, "1": 1, "+1": 1, "-1": -1, "": 1, None: 1}

subjects = st.sampled_from(["<a:a>", "<a:b>", '"x"@EN', "_:b", "bad", None])
predicates = st.sampled_from(["<a:p>", "<a:q>", "<a:p>", "<a b>"])
numbers = st.integers(-3, 3) | st.sampled_from([2**40, None])
signs = st.sampled_from(["+", "-", "+1", "-1", "1", "?", "", "++", "+2", None])
small = st.sampled_from([1, -1, 1, -1, 0, 2, None])


def decode(words: Dictionary, batch: Batch) -> list[tuple[Any, ...]]:
    """Change and terms of each row, with its index."""
    assert batch.rows.dtype == np.int64
    assert batch.rows.flags.c_contiguous
    assert batch.rows.flags.writeable
    places = range(len(batch.rows)) if batch.kept is None else batch.kept.tolist()
    return [
        (place, change, *map(words.decode_one, ids))
        for place, (change, *ids) in zip(places, batch.rows.tolist(), strict=True)
    ]


def expect(rows: list[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """What a plain reading keeps, and the indexes of what it refuses."""
    words = Dictionary()
    kept, refused = [], []
    for place, (sign, *terms) in enumerate(rows):
        try:
            ids = [words.encode_one(term) for term in terms]
            kept.append((place, SIGNS[sign], *map(words.decode_one, ids)))
        except (KeyError, ValueError):
            refused.append(place)
    return kept, refused


def same(column: pa.Array) -> pa.Array:
    return column


def code(column: pa.Array) -> pa.Array:
    return column.dictionary_encode()


def split(column: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([column[:3], column[3:4], column[4:]], column.type)


def slide(column: pa.Array) -> pa.Array:
    return pa.concat_arrays([column, column])[len(column) :]


SHAPES: list[Callable[[pa.Array], Any]] = [same, code, split, slide]
shapes = st.sampled_from(SHAPES)


@given(
    rows=st.lists(st.tuples(signs | small, subjects, predicates, numbers), max_size=12),
    as_lists=st.booleans(),
)
def test_tuples(rows: list[tuple[Any, ...]], as_lists: bool) -> None:
    words = Dictionary()
    given_rows: Any = (list(row) for row in rows) if as_lists else rows
    batch = encode_tuples(words, given_rows)
    kept, refused = expect(rows)
    assert decode(words, batch) == kept
    assert [place for place, _ in batch.refused] == refused
    assert (batch.kept is None) == (not refused)
    words.check()


@given(data=st.data(), with_numbers=st.booleans(), in_shape=st.tuples(*[shapes] * 4))
def test_tables(data: st.DataObject, with_numbers: bool, in_shape: tuple[Any, ...]) -> None:
    sign = small if with_numbers else signs
    rows = data.draw(st.lists(st.tuples(sign, subjects, predicates, numbers), max_size=12))
    if with_numbers:
        kind = data.draw(st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64()]))
    else:
        kind = data.draw(st.sampled_from([pa.string(), pa.large_string()]))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    kinds = (kind, pa.string(), pa.large_string(), pa.int64())
    op, subject, predicate, obj = (
        shape(pa.array(column, kind))
        for shape, column, kind in zip(in_shape, columns, kinds, strict=True)
    )
    table = pa.table({"object": obj, "op": op, "subject": subject, "predicate": predicate})
    words = Dictionary()
    batch = encode_table(words, table)
    kept, refused = expect(rows)
    assert decode(words, batch) == kept
    assert [place for place, _ in batch.refused] == refused
    assert (batch.kept is None) == (not refused)
    words.check()


@pytest.mark.parametrize("update", [(), ("+", 1, 2), ("+", 1, 2, 3, 4), "+abc", None, 5])
def test_what_is_no_update(update: Any) -> None:
    for updates in ([update], [update, GOOD[0]]):
        batch = encode_tuples(Dictionary(), updates)
        assert len(batch.rows) == len(updates) - 1
        assert batch.refused[0].reason.startswith("bad row: an update must be (sign, subject, ")


def test_reasons() -> None:
    batch = encode_tuples(Dictionary(), [("?", 1, 2, 3), ([], 1, 2, 3), ("+", 1, "b" * 200, 3)])
    sign, unhashable, term = (reason for _, reason in batch.refused)
    assert sign == "bad op: the sign must be + or - (or 1 or -1), not '?'"
    assert unhashable.endswith("not []")
    assert term.startswith("bad term: predicate: not an N-Triples term: 'bbb")
    assert len(term) < 150
    table = pa.table({"subject": ["<a:a>", "a"], "predicate": [1, None], "object": [2, 2]})
    (refused,) = encode_table(Dictionary(), table).refused
    assert refused == (1, "bad term: subject: not an N-Triples term: 'a'")
    assert refused.reason.kind is Reason.BAD_TERM
    assert pickle.loads(pickle.dumps(refused)).reason.kind is Reason.BAD_TERM


def test_values_of_other_types_are_not_taken_for_texts_or_integers() -> None:
    words = Dictionary()
    words.encode_terms(["<a:a>", 1, 0])
    batch = encode_tuples(words, [("+", Text("<a:a>"), True, 1.0)])
    assert words.decode_one(int(batch.rows[0, 1])) == literal("<a:a>")
    assert len({*batch.rows[0, 1:].tolist(), *words.encode_terms(["<a:a>", 1])}) == 5


def test_many_forms_of_a_table() -> None:
    words = Dictionary()
    table = pa.table({"subject": [1, 2], "predicate": ["<a:p>", "<a:p>"], "object": [2, 3]})
    first = encode_table(words, table).rows.tolist()
    assert [row[0] for row in first] == [1, 1]
    batch = table.to_batches()[0]
    reader = pa.RecordBatchReader.from_batches(table.schema, [batch])
    for form in (batch, reader, pa.concat_tables([table[:1], table[1:]])):
        assert encode_table(words, form).rows.tolist() == first
    assert encode_table(words, table[:0]).rows.shape == (0, 4)


def test_polars_frames() -> None:
    polars = pytest.importorskip("polars")
    words = Dictionary()
    frame = polars.DataFrame(
        {"subject": ["<a:a>"], "predicate": ["<a:p>"], "object": [7], "op": ["-"]}
    )
    ((sign, *ids),) = encode_table(words, frame).rows.tolist()
    assert (sign, words.decode(ids).to_pylist()) == (-1, ["<a:a>", "<a:p>", SEVEN])


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint64()])
def test_unsigned_signs(kind: pa.DataType) -> None:
    largest = 2**kind.bit_width - 1
    table = pa.table(
        {
            "subject": [1, 1],
            "predicate": [1, 1],
            "object": [1, 1],
            "op": pa.array([1, largest], kind),
        }
    )
    batch = encode_table(Dictionary(), table)
    assert batch.rows[:, 0].tolist() == [1]
    assert batch.refused == [(1, f"bad op: the sign must be + or - (or 1 or -1), not {largest}")]


def test_tables_that_are_wrong_as_a_whole() -> None:
    good = pa.table({"subject": [1], "predicate": [1], "object": [1]})
    with pytest.raises(InvalidUpdate, match="no column 'object'"):
        encode_table(Dictionary(), good.drop_columns("object"))
    with pytest.raises(InvalidUpdate, match="more than one column 'op'"):
        encode_table(
            Dictionary(), good.append_column("op", pa.array(["+"])).append_column("op", [[1]])
        )
    with pytest.raises(InvalidUpdate, match="object: a binary column cannot hold terms"):
        encode_table(Dictionary(), good.set_column(2, "object", pa.array([b"x"])))
    column = pa.array([1], pa.timestamp("s", "Nowhere/Atall"))
    with pytest.raises(InvalidUpdate, match=r"object: .*timezone"):
        encode_table(Dictionary(), good.set_column(2, "object", column))
    with pytest.raises(InvalidUpdate, match="op: a double column cannot hold signs"):
        encode_table(Dictionary(), good.append_column("op", pa.array([1.0])))
    empty = encode_table(Dictionary(), good.append_column("op", pa.nulls(1)))
    assert empty.rows[:, 0].tolist() == [1]


def test_many_predicates() -> None:
    """More than are looked up one by one, and some that no row has."""
    words = Dictionary()
    texts = [f"<a:{number}>" for number in range(100)] + ["bad", None]
    places = np.arange(99, -1, -1)
    predicate = pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), pa.array(texts))
    table = pa.table({"subject": places, "predicate": predicate, "object": places})
    batch = encode_table(words, table)
    assert batch.kept is None
    assert words.decode(batch.rows[:, 2]).to_pylist() == [texts[place] for place in places]
    few = predicate[:3].cast(pa.string()).dictionary_encode()
    batch = encode_table(words, table[:3].set_column(1, "predicate", few))
    assert words.decode(batch.rows[:, 2]).to_pylist() == ["<a:99>", "<a:98>", "<a:97>"]
