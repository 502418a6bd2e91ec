"""The array of all terms by id: right at every id in use, and for good in the hands of a caller."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.dictionary.beside import IRI, read_beside
from tests.dictionary.drawing import canonical, few

from triegs.jit.jit import COMPILED
from triegs.terms import room, term_array
from triegs.terms.dictionary import Dictionary
from triegs.terms.term_array import TermArray

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


def load(words: Dictionary) -> Any:
    load_all = words.decoder(shared=True).load_all
    assert load_all is not None
    return load_all()


def read(words: Dictionary) -> pa.Array:
    found = load(words)
    found.validate(full=True)
    return found


def check(array: pa.Array, terms: dict[int, str]) -> None:
    """It has the term of each id, and no entry twice."""
    entries = array.to_pylist()
    assert {identity: entries[identity] for identity in terms} == terms
    assert None not in entries
    assert len(set(entries)) == len(entries)


class Life:
    """A dictionary, and what its ids stand for."""

    def __init__(self) -> None:
        self.words = Dictionary()
        self.terms: dict[int, str] = {}
        self.epoch = 0

    def step(self, fresh: list[str], gone: list[int]) -> None:
        self.epoch += 1
        ids = self.words.encode_terms(fresh)
        self.words.acquire(ids, self.epoch)
        chosen = sorted(self.terms)
        dead = {chosen[place % len(chosen)] for place in gone} if chosen else set()
        dead -= set(ids)
        self.words.release(sorted(dead), self.epoch)
        for identity, term in zip(ids, fresh, strict=True):
            if identity in self.terms:  # it was referenced already
                self.words.release([identity], self.epoch)
            self.terms[identity] = term
        for identity in dead:
            del self.terms[identity]
        self.words.collect(self.epoch)


STEPS = st.lists(
    st.tuples(
        st.lists(few | canonical, unique=True, max_size=6),
        st.lists(st.integers(0, 30), max_size=6),
        st.booleans(),
    ),
    max_size=8,
)


@given(steps=STEPS)
@example(  # freed and given to another term, and the old term under another id
    steps=[(["<a:a>", "<a:b>"], [], True), ([], [0], True), (["<a:c>", "<a:a>"], [], True)]
)
@example(  # the last id is freed, and given to another term
    steps=[(["<a:a>", "<a:b>"], [], True), ([], [1], True), (["<a:longer>", "<a:c>"], [], True)]
)
def test_every_array_stays_as_it_was_read(steps) -> None:
    life = Life()
    kept = []
    for fresh, gone, is_read in steps:
        life.step(fresh, gone)
        if is_read:
            found = read(life.words)
            check(found, life.terms)
            kept.append((found, found.to_pylist(), dict(life.terms)))
    for found, entries, terms in kept:
        assert found.to_pylist() == entries
        check(found, terms)


def data_address(array: pa.Array) -> int:
    return int(array.buffers()[2].address)


def test_growth_goes_on_in_the_same_buffers() -> None:
    life = Life()
    life.step([IRI(n) for n in range(500)], [])
    first = read(life.words)
    again = read(life.words)
    assert data_address(again) == data_address(first)
    assert len(again) == len(first)
    life.step([IRI(n) for n in range(500, 520)], [])
    more = read(life.words)
    assert data_address(more) == data_address(first)
    assert (len(first), len(more)) == (500, 520)
    check(first, {n: IRI(n) for n in range(500)})
    check(more, life.terms)


def test_the_last_ids_are_not_overwritten() -> None:
    life = Life()
    life.step([IRI(n) for n in range(500)], [])
    first = read(life.words)
    life.step([], [499, 498])
    check(read(life.words), life.terms)
    life.step([IRI(f"longer{n}") for n in range(4)], [])
    check(read(life.words), life.terms)
    check(first, {n: IRI(n) for n in range(500)})


def test_an_array_of_replaced_spans_is_made_again(monkeypatch) -> None:
    """An id is freed and reused meanwhile, but the span of its new term is in a new array."""
    life = Life()
    life.step([IRI(n) for n in range(50)], [])
    real = term_array.write_texts
    calls: list[int] = []

    def interrupt(*given: Any) -> None:
        real(*given)
        if not calls:
            calls.append(1)
            life.step([], [3])
            life.words._interner.replace(room._replace_heap(life.words.arrays, 0))
            life.step(["<a:other>"], [])

    monkeypatch.setattr(term_array, "write_texts", interrupt)
    check(read(life.words), life.terms)


def test_reuse_makes_new_buffers() -> None:
    life = Life()
    life.step([IRI(n) for n in range(500)], [])
    first = read(life.words)
    life.step([], [7, 9])
    holes = read(life.words)
    check(holes, life.terms)
    life.step(["<a:other>"], [])
    other = read(life.words)
    assert len({data_address(each) for each in (first, holes, other)}) == 3
    check(other, life.terms)
    check(first, {n: IRI(n) for n in range(500)})
    assert [holes[at].as_py() for at in (7, 9)] == ["<triegs:free:7>", "<triegs:free:9>"]


def test_compaction_of_the_heap_changes_nothing() -> None:
    life = Life()
    for round_ in range(30 if COMPILED or SOAK else 10):  # every other one is a compaction
        fresh = [IRI(f"{round_}/{n}/{'x' * 400}") for n in range(40)]
        life.step(fresh, list(range(40)) if round_ else [])
        check(read(life.words), life.terms)
    life.words.check()


def test_equal_spans_in_another_heap_are_other_terms() -> None:
    life = Life()
    life.step([IRI(10 + n) for n in range(40)], [])
    first = read(life.words)
    life.step([], list(range(40)))
    life.step([IRI(50 + n) for n in range(40)], [])
    interner = life.words._interner
    before = interner.arrays
    interner.replace(room._replace_heap(before, 0))
    assert (interner.arrays.spans[:40, 0] == np.arange(40) * len(IRI(10))).all()
    check(read(life.words), life.terms)
    check(first, {n: IRI(10 + n) for n in range(40)})


def test_terms_that_were_never_referenced_are_left_out() -> None:
    words = Dictionary()
    words.acquire(words.encode_terms(["<a:a>", 5]), 1)
    words.encode_terms(["<a:waits>", 6])
    assert read(words).to_pylist() == ["<a:a>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>']


def test_too_many_bytes_are_not_shared(monkeypatch) -> None:
    life = Life()
    life.step([IRI(n) for n in range(100)], [])
    monkeypatch.setattr(term_array, "MOST_BYTES", 1000)
    assert load(life.words) is None
    assert life.words.metrics().array_bytes < 100
    monkeypatch.undo()
    check(read(life.words), life.terms)


def test_its_memory_is_counted_and_given_back(monkeypatch) -> None:
    monkeypatch.setattr(term_array, "LEAST_SHARED", 8)
    life = Life()
    before = life.words.metrics()
    life.step([IRI(n) for n in range(5000)], [])
    array = read(life.words)
    found = life.words.metrics()
    assert before.array_bytes < 100
    assert found.array_bytes > array.nbytes
    assert found.bytes > found.array_bytes
    life.step([], list(range(1, 5000)))
    assert life.words.metrics().array_bytes < 100
    check(array, {n: IRI(n) for n in range(5000)})
    check(read(life.words), life.terms)


def test_a_term_that_changes_meanwhile_is_read_again(monkeypatch) -> None:
    """The updater comes between the copy and the check."""
    life = Life()
    life.step([IRI(n) for n in range(50)], [])
    real = term_array.write_texts
    calls: list[int] = []

    def interrupt(*given: Any) -> None:
        real(*given)
        calls.append(1)
        if len(calls) <= 2:
            life.step([], [3])
            life.step([f"<a:new{len(calls)}>"], [])

    monkeypatch.setattr(term_array, "write_texts", interrupt)
    check(read(life.words), life.terms)
    assert len(calls) == 3


def test_an_array_that_never_comes_to_rest_is_given_up(monkeypatch) -> None:
    life = Life()
    life.step([IRI(n) for n in range(50)], [])
    real = term_array.write_texts
    calls: list[int] = []

    def interrupt(*given: Any) -> None:
        real(*given)
        calls.append(1)
        life.step([], [3])
        life.step([f"<a:new{len(calls)}>"], [])

    monkeypatch.setattr(term_array, "write_texts", interrupt)
    assert load(life.words) is None
    monkeypatch.undo()
    check(read(life.words), life.terms)


EPOCHS = 200


@pytest.mark.skipif(not COMPILED, reason="kernels release the lock only if they are compiled")
def test_readers_beside_a_writer() -> None:
    """A constant part is held; terms of all lengths come and go, and ids with them."""
    words = Dictionary()
    held = [f'"é{n}{"ü" * (n % 7)}"@en' for n in range(300)]
    ids = words.encode_terms(held)
    words.acquire(ids, 1)
    expected = dict(zip(ids, held, strict=True))
    shared = TermArray()
    kept: list[tuple[Any, int]] = []

    def draw(epoch: int, size: int) -> list[str]:
        return [f'"{epoch % 5}-{row}{"é" * (row % 30)}"' for row in range(size)]

    def look() -> None:
        for found in (load(words), shared.load(lambda: words.arrays)):
            if found is not None:
                found.validate(full=True)
                check(found, expected)
                kept.append((found, hash(tuple(found.to_pylist()))))

    read_beside(words, EPOCHS, draw, look)
    assert kept
    assert all(hash(tuple(found.to_pylist())) == before for found, before in kept[-100:])


@pytest.mark.parametrize("count", [0, 1, 10, 11, 101, 1001])
def test_holes_of_every_number_of_digits(count) -> None:
    words = Dictionary()
    ids = words.encode_terms([IRI(n) for n in range(count + 1)])
    words.acquire(ids[-1:], 1)
    assert read(words).to_pylist() == [*(f"<triegs:free:{n}>" for n in range(count)), IRI(count)]
