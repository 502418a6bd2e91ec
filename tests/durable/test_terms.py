"""Rows and terms through a record: what one dictionary writes another reads, whatever the ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.durable.columns import NO_COLUMNS, lay_out, pack, unpack
from triegs.durable.terms import Definer, Definitions
from triegs.terms.dictionary import Dictionary

INTEGERS = st.sampled_from([0, 1, 2, -7, 2**31, 2**40, -(2**62)])
LONG = f'"{"long " * 60}"'  # longer than the memory that a row of it has
TEXTS = st.sampled_from(["<a:p>", "<a:q>", '"x"@en', '"é"', '"1234567"', "_:b", LONG])


def draw_rows(terms):
    return st.lists(st.tuples(st.sampled_from([1, -1]), terms, terms, terms), max_size=7)


RECORDS = st.lists(st.one_of(draw_rows(INTEGERS), draw_rows(INTEGERS | TEXTS)), max_size=6)


def encode(words: Dictionary, rows):
    found = np.empty((len(rows), 4), np.int64)
    for place, (change, *terms) in enumerate(rows):
        found[place] = [change, *words.encode_terms(terms)]
    return found


def decode(words: Dictionary, rows):
    return [(int(change), *map(words.decode_one, map(int, ids))) for change, *ids in rows]


def carry(columns):
    """What is read of what was written."""
    return unpack(b"".join(map(bytes, pack({}, columns)))).arrays


@pytest.mark.property
@given(RECORDS, st.sets(st.integers(1, 5)), st.lists(INTEGERS | TEXTS, max_size=4))
def test_rows_read_back_are_those_that_were_written(records, segments, before):
    """Records of some segments, read with a dictionary in which other terms have the ids."""
    theirs, ours = Dictionary(), Dictionary()
    ours.encode_terms(before)
    writer, reader = Definer(theirs, "term"), Definitions(ours, "term")
    for number, rows in enumerate(records):
        if number in segments:
            writer.begin()
            reader.close(0)
        given_rows = encode(theirs, rows)
        arrays = carry(writer.write_rows(given_rows))
        theirs.settle(np.abs(given_rows), 1)  # from now on held
        reader.take(arrays)
        assert decode(ours, reader.read_rows(arrays)) == decode(theirs, given_rows)
        defined = [arrays.get(f"term_{kind}_ids", ()) for kind in ("integer", "text")]
        assert sum(map(len, defined)) <= len({term for row in rows for term in row[1:]})


def test_a_term_is_defined_once_in_a_segment_unless_its_id_was_given_to_another():
    words = Dictionary()
    writer = Definer(words, "term")
    words.on_free.append(writer.forget)
    rows = encode(words, [(1, 5, 6, 7)])
    assert sorted(carry(writer.write_rows(rows))["term_integers"]) == [5, 6, 7]
    words.settle(rows, 1)
    assert "term_integers" not in carry(writer.write_rows(rows))
    # They go, and others get their ids.
    words.settle(rows * [-1, 1, 1, 1], 2)
    words.collect(9)
    again = encode(words, [(1, 15, 16, 17)])
    assert set(again[0, 1:]) == set(rows[0, 1:])
    arrays = carry(writer.write_rows(again))
    assert sorted(arrays["term_integers"]) == [15, 16, 17]
    words.settle(again, 9)
    writer.begin()
    assert sorted(carry(lay_out(writer.define(again[0, 1:])))["term_integers"]) == [15, 16, 17]


def test_no_rows_and_no_columns():
    words = Dictionary()
    empty = np.empty((0, 4), np.int64)
    assert carry(Definer(words, "term").write_rows(empty))["rows"].shape == (0, 3)
    assert carry(NO_COLUMNS) == {}
