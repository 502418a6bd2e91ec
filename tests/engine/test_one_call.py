"""An epoch in one call: what it encodes, refuses, asks for and frees, against model and oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triegs.engine import Engine
from triegs.errors import InvalidUpdate
from triegs.maintain.at_once import FEW_UPDATES, MOST_AT_ONCE
from triegs.maintain.kernels.program import LISTED_PER_UPDATE, MOST_LISTED
from triegs.terms.dictionary import Dictionary
from triegs.testing import oracle

P = "<a:p>"
FILTERED = f"SELECT ?x ?z {{ ?x {P} ?y . ?y {P} ?z FILTER(?x + ?y > ?z && ?z != 3) }}"
JOINED = f"SELECT * {{ ?x {P} ?y . ?y {P} ?z }}"

NUMBER = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'

numbers = st.integers(0, 6)
terms = st.one_of(numbers, st.sampled_from(["<a:a>", "<a:é>", '"x"@EN', '"5"', "_:b", P]))
updates = st.tuples(st.sampled_from("+-"), terms, st.just(P), terms)


def judge(counts, epoch):
    """Apply an epoch to what the oracle knows, which knows terms in one spelling only."""
    known = [(sign, *(write_known(term) for term in triple)) for sign, *triple in epoch]
    return oracle.apply_batch(counts, known)


def write_known(term):
    return NUMBER.format(term) if isinstance(term, int) else term.replace("EN", "en")


def read(query):
    with query.snapshot() as snapshot:
        return {tuple(answer): answer.multiplicity for answer in snapshot}


@given(
    st.lists(st.lists(updates, max_size=4), max_size=30), st.integers(0, 3),
    st.sampled_from(["multigraph", "rdf"]),
)  # fmt: skip
@example([[("+", 1, P, 2)], [("-", 1, P, 2)], [("+", 3, P, 4)], [("-", 3, P, 4)]], 1, "rdf")
def test_small_epochs_with_held_snapshots(epochs, every, mode):
    """Terms come and go with each update; what is held keeps its own."""
    engine = Engine(mode)
    query, question = engine.register(JOINED), oracle.read_query(JOINED)
    counts: Counter[oracle.Triple] = Counter()
    held = []
    for number, epoch in enumerate(epochs):
        report = engine.apply(epoch)
        assert [place for place, _ in report.refused] == judge(counts, epoch)
        expected = oracle.answers(question, counts, mode)
        assert read(query) == expected
        if every and number % every == 0:
            held.append((query.snapshot(), expected))
        if len(held) > 3:
            snapshot, expected = held.pop(0)
            assert {tuple(a): a.multiplicity for a in snapshot} == expected
            snapshot.close()
        engine._dictionary.check()
    for snapshot, expected in held:
        assert {tuple(a): a.multiplicity for a in snapshot} == expected
        snapshot.close()


@pytest.mark.parametrize("size", [1, FEW_UPDATES + 1, MOST_AT_ONCE + 1])
def test_verdicts_that_are_asked_for_meanwhile(size):
    """A call stops for verdicts and resumes, whatever the size of the epoch."""
    engine = Engine()
    query, question = engine.register(FILTERED), oracle.read_query(FILTERED)
    counts: Counter[oracle.Triple] = Counter()
    filler = [("+", f"<a:f{n}>", "<a:other>", n) for n in range(size - 1)]
    for start in range(4):
        for sign in "++-":
            epoch = [(sign, start, P, start + 1), *filler]
            engine.apply(epoch)
            judge(counts, epoch[:1])
            assert read(query) == oracle.answers(question, counts, "multigraph")


def test_fresh_terms_are_freed_a_few_at_a_time():
    """A stream of ever-fresh terms keeps no more of them in limbo than an epoch may list."""
    engine = Engine()
    engine.register(JOINED)
    for number in range(300):
        engine.apply([("+", f"<a:s{number}>", P, number)])
        engine.apply([("-", f"<a:s{number}>", P, number)])
        assert engine._dictionary.metrics().limbo <= MOST_LISTED + LISTED_PER_UPDATE
    metrics = engine._dictionary.metrics()
    assert metrics.live == 1  # the label, which the query names
    engine._dictionary.check()


def test_a_refused_update_references_nothing():
    engine = Engine()
    many = [("+", n, P, n) for n in range(200)]
    report = engine.apply([*many, ("-", "<a:never>", P, "<a:said>")])
    assert [place for place, _ in report.refused] == [200]
    assert engine._dictionary.metrics().live == 201
    assert engine._dictionary.find_one("<a:never>") == -1


TEXTS = [b"<a:a>", b"<a:b>", "<a:é>".encode(), b'"x"@EN', b"7", b"", b"\xff", b"<a:\xff>", None]
columns = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8)


@given(columns, st.booleans(), st.integers(0, 2), st.integers(0, 3))
def test_texts_are_encoded_or_refused_as_one_by_one(texts, is_large, start, chunks):
    """Malformed, missing and invalid texts among others, in slices and in several chunks."""
    kind, raw = (pa.large_string(), pa.large_binary()) if is_large else (pa.string(), pa.binary())
    buffers = pa.array(texts, raw)
    array = pa.Array.from_buffers(kind, len(buffers), buffers.buffers()).slice(start)
    column = array if chunks < 2 else pa.chunked_array([array] * chunks)
    count = len(column)
    table = pa.table({"subject": column, "predicate": [P] * count, "object": [1] * count})
    engine, words = Engine(), Dictionary()
    refused = {place for place, _ in engine.apply(table).refused}
    given = texts[start:] * max(chunks, 1) if chunks >= 2 else texts[start:]
    for place, text in enumerate(given):
        try:
            words.encode_one(text.decode())
            is_term = True
        except (AttributeError, ValueError):
            is_term = False
        assert (place in refused) == (not is_term)
    engine._dictionary.check()


@pytest.mark.parametrize("offsets", [[0, 5, 4000], [0, -5, 10], [5, 0, 10], [-1, 5, 10]])
def test_damaged_offsets_are_refused(offsets):
    """Offsets that change after Arrow has seen them."""
    given = np.array([0, 5, 10], np.int32)
    data = pa.py_buffer(b"<a:a><a:b>")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(given), data])
    table = pa.table({"subject": texts, "predicate": [P, P], "object": [1, 2]})
    given[:] = offsets
    engine = Engine()
    with pytest.raises(InvalidUpdate, match="subject: the column is damaged"):
        engine.apply(table)
    assert engine.epoch == 0
    engine._dictionary.check()


def test_indices_beyond_a_dictionary_are_refused():
    indices = pa.array([0, 9], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["<a:a>"]), safe=False)
    table = pa.table({"subject": [1, 2], "predicate": column, "object": [1, 2]})
    with pytest.raises(InvalidUpdate, match="predicate: the column is damaged"):
        Engine().apply(table)


def test_a_table_that_the_arrays_must_grow_for():
    count = 3_000
    names = [f"<a:name/of/some/length/{n}>" for n in range(count)]
    table = pa.table({
        "op": pa.array([1] * count, pa.int8()), "subject": names,
        "predicate": pa.array([P] * count).dictionary_encode(), "object": range(count),
    })  # fmt: skip
    engine = Engine()
    query = engine.register(f"SELECT * {{ ?x {P} ?y }}")
    engine.apply(table)
    assert read(query) == {(name, NUMBER.format(n)): 1 for n, name in enumerate(names)}
    engine._dictionary.check()
