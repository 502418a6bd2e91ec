"""Batches of ids as dictionary columns, of 32 and of 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.terms.decoder import BLOCK_ROWS
from triegs.terms.dictionary import Dictionary

TERMS = [f"<http://ex/{number}>" for number in range(40)]
#: Runs of an id, -1 for no term: shorter and longer than a block.
RUNS = st.lists(
    st.tuples(st.integers(-1, len(TERMS) - 1), st.sampled_from([1, 2, 60, 2 * BLOCK_ROWS])),
    max_size=12,
)


@given(st.lists(RUNS, min_size=1, max_size=4), st.sampled_from([np.int32, np.int64]))
def test_a_column_has_the_term_of_each_id(batches, kind):
    words = Dictionary()
    identities = words.encode_terms(TERMS)
    decoder = words.decoder()
    met: set[str] = set()
    for runs in batches:
        rows = [number for number, length in runs for _ in range(length)]
        ids = np.array([identities[row] if row >= 0 else -1 for row in rows], kind)
        column = decoder.decode(ids)
        expected = [TERMS[row] if row >= 0 else None for row in rows]
        assert column.to_pylist() == expected
        met.update(term for term in expected if term is not None)
        assert sorted(column.dictionary.to_pylist()) == sorted(met)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("wrong", [-2, 2, 1_000_000])
@pytest.mark.parametrize("row", [0, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS + 5])
def test_an_id_that_was_never_assigned(kind, wrong, row):
    words = Dictionary()
    decoder = words.decoder()
    ids = np.array(words.encode_terms([1, 2]) * (2 * BLOCK_ROWS), kind)
    decoder.decode(ids)
    ids[row] = wrong
    with pytest.raises(IndexError, match=f"{wrong} is not the id"):
        decoder.decode(ids)
    ids[row] = 0
    assert decoder.decode(ids).to_pylist()[row] == '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
