"""The dictionary against a plain dict: encode, count, pin, collect, reuse, in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.dictionary.drawing import INTEGER, canonical, few, integers, malformed, spellings

from triegs.errors import BadTerm
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import literal


@dataclass
class Entry:
    """What the model knows of a term."""

    identity: int
    count: int = 0
    birth: int | None = None
    stamp: int = -1

    def may_go(self, epoch: int, pins: set[int]) -> bool:
        if self.count > 0 or self.stamp > epoch:
            return False
        return self.birth is None or not any(self.birth <= pin < self.stamp for pin in pins)


terms = few | canonical
columns = st.sampled_from(["string", "large", "view", "dictionary", "chunked", "list"])


class DictionaryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.words = Dictionary()
        self.model: dict[str, Entry] = {}
        self.epoch = 0
        self.pins: dict[int, dict[int, str]] = {}

    def meet(self, term: str, identity: int) -> None:
        if term not in self.model:
            assert identity not in {entry.identity for entry in self.model.values()}
            self.model[term] = Entry(identity)
        assert self.model[term].identity == identity

    @rule(term=terms)
    def encode_one(self, term: str) -> None:
        self.meet(term, self.words.encode_one(term))

    @rule(value=integers)
    def encode_integer(self, value: int) -> None:
        self.meet(literal(str(value), INTEGER), self.words.encode_one(value))

    @rule(pair=spellings)
    def encode_other_spelling(self, pair: tuple[str, str]) -> None:
        self.meet(pair[1], self.words.encode_one(pair[0]))

    @rule(text=malformed)
    def encode_malformed(self, text: str) -> None:
        try:
            self.words.encode_one(text)
        except BadTerm:
            return
        raise AssertionError(f"{text!r} was taken for a term")

    @rule(
        rows=st.lists(
            st.none()
            | terms.map(lambda term: (term, term))
            | spellings
            | malformed.map(lambda text: (text, None)),
            max_size=12,
        ),
        kind=columns,
        skip=st.integers(0, 2),
    )
    def encode_texts(self, rows: list[tuple[str, str | None] | None], kind: str, skip: int) -> None:
        given = [None if row is None else row[0] for row in rows]
        column = pa.array([None] * skip + given, pa.string())[skip:]
        if kind == "large":
            column = column.cast(pa.large_string())
        elif kind == "view":
            column = column.cast(pa.string_view())
        elif kind == "dictionary":
            column = column.dictionary_encode()
        elif kind == "chunked":
            column = pa.chunked_array([column[:3], column[3:]], pa.string())
        encoded = self.words.encode(given if kind == "list" else column)
        expected = {}
        for position, row in enumerate(rows):
            if row is None or row[1] is None:
                expected[position] = row
                assert encoded.ids[position] == -1
            else:
                self.meet(row[1], int(encoded.ids[position]))
        assert [problem.position for problem in encoded.problems] == list(expected)
        for problem in encoded.problems:
            assert (problem.reason == "null") == (rows[problem.position] is None)

    @rule(
        values=st.lists(st.none() | integers, max_size=12),
        kind=st.sampled_from([pa.int64(), pa.int8(), pa.uint64(), pa.int32()]),
    )
    def encode_integers(self, values: list[int | None], kind: pa.DataType) -> None:
        low = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        fitting = [
            None if value is None else (value - low) % 2**kind.bit_width + low for value in values
        ]
        encoded = self.words.encode(pa.array(fitting, kind))
        for value, identity in zip(fitting, encoded.ids.tolist(), strict=True):
            if value is None:
                assert identity == -1
            else:
                self.meet(literal(str(value), INTEGER), identity)

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def apply_epoch(self, data: st.DataObject) -> None:
        """Name some terms, stop naming others, publish: by ids, or by events."""
        after = self.epoch + 1
        term = st.sampled_from(sorted(self.model))
        choice = st.lists(st.tuples(term, term, term), max_size=7)
        born = data.draw(choice)
        died = []
        for entry in (self.model[term] for event in born for term in event):
            entry.count += 1
            entry.birth = after if entry.birth is None else entry.birth
        for event in data.draw(choice):
            if all(self.model[term].count >= event.count(term) for term in event):
                died.append(event)
                for entry in (self.model[term] for term in event):
                    entry.count -= 1
                    entry.stamp = after if entry.count == 0 else entry.stamp
        gone, come = (
            [[self.model[term].identity for term in event] for event in events]
            for events in (died, born)
        )
        way = data.draw(st.sampled_from(["events", "array", "list"]))
        if way == "events":
            rows = [(-1, *event) for event in gone] + [(1, *event) for event in come]
            self.words.settle(np.array(rows, np.int64).reshape(-1, 4), after)
        else:
            for action, events in ((self.words.acquire, come), (self.words.release, gone)):
                ids = [identity for event in events for identity in event]
                action(np.array(ids, np.int64) if way == "array" else ids, after)
        self.epoch = after

    @rule()
    def pin(self) -> None:
        self.pins[self.epoch] = {
            entry.identity: term for term, entry in self.model.items() if entry.count > 0
        }

    @rule(data=st.data())
    @precondition(lambda self: self.pins)
    def unpin(self, data: st.DataObject) -> None:
        del self.pins[data.draw(st.sampled_from(sorted(self.pins)))]

    @rule()
    def collect(self) -> None:
        pins = set(self.pins)
        going = [term for term, entry in self.model.items() if entry.may_go(self.epoch, pins)]
        assert self.words.collect(self.epoch, sorted(pins)) == len(going)
        for term in going:
            del self.model[term]
            assert self.words.find_one(term) == -1

    @invariant()
    def agree(self) -> None:
        self.words.check()
        ids = [entry.identity for entry in self.model.values()]
        assert self.words.decode(ids).to_pylist() == list(self.model)
        assert [self.words.decode_one(identity) for identity in ids] == list(self.model)
        found = self.words.find(pa.array(list(self.model), pa.string()))
        assert found.ids.tolist() == ids
        metrics = self.words.metrics()
        assert metrics.live == sum(entry.count > 0 for entry in self.model.values())
        assert metrics.live + metrics.limbo == len(self.model)

    @invariant()
    def pinned_terms_stay(self) -> None:
        for pinned in self.pins.values():
            assert self.words.decode(list(pinned)).to_pylist() == list(pinned.values())


TestDictionaryMachine = pytest.mark.property(DictionaryMachine.TestCase)
