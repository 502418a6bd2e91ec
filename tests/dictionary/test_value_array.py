"""Native values by id: the same columns as from the terms, whatever happens to the ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.dictionary.beside import IRI, read_beside
from tests.dictionary.drawing import canonical
from tests.dictionary.test_term_array import Life

from triegs.errors import TriegsError
from triegs.jit.jit import COMPILED
from triegs.read.output import ArrowOutput
from triegs.terms import room, value_array
from triegs.terms.decoder import Decoder
from triegs.terms.dictionary import Dictionary
from triegs.terms.native import TERMS, join_shapes, read_cell, write_cells
from triegs.terms.term import XSD, literal


def spell(name: str, *texts: str) -> list[str]:
    return [literal(text, XSD + name) for text in texts]


# Terms of each sort: all spellings, the ends of the ranges, and what is beyond them.
POOLS: dict[str, list[str]] = {
    "integer": [
        *spell("integer", "1", "-7", "067", "+5", "-0", str(2**63 - 1), str(-(2**63)), str(2**63)),
        *spell("integer", "9" * 38, "9" * 39, "x", ""), *spell("byte", "127", "128", "-128"),
        *spell("unsignedLong", str(2**64 - 1)),
    ],
    "decimal": [
        *spell("decimal", "67.00", "67", "067.5", ".5", "-.50", "5.", "+1.10", "0", "0.00", "-0.0"),
        *spell("decimal", "1." + "0" * 60, "1." + "3" * 18, "0." + "0" * 18 + "1", "9" * 18),
        *spell("decimal", "9223372036854775807", "9223372036854775808", "-922337203685477580.8"),
        *spell("decimal", "0." + "1" * 38, "0." + "1" * 39, "1e3", "0." + "0" * 25 + "1"),
        *spell("decimal", "9007199254740993.5", "0.1", "0." + "0" * 30, "-922337203685477580.9"),
    ],
    "double": [
        *spell("double", "0.1", "1e3", "-0.0", "0", "INF", "-INF", "+INF", "NaN", "1e999"),
        *spell("double", "4.9e-324", "nan", "1.5E0", "-1E-400", "9007199254740993"),
    ],
    "float": spell("float", "0.1", "-0", "INF", "NaN", "1e39", "16777217", "1e-50", "x"),
    "boolean": spell("boolean", "true", "1", "false", "0", "True"),
    "date": spell(
        "date", "2024-05-01", "1969-12-31Z", "0001-01-01", "9999-12-31", "12000-01-01", "2023-02-29"
    ),
    "time": spell(
        "time", "10:00:00", "23:59:59.999999999", "24:00:00", "00:00:00.1234560001", "10:00:00.5",
        "25:00:00", "10:00:00.1234567",
    ),
    "zoned time": spell("time", "10:00:00Z", "00:30:00.1234567+01:00", "23:30:00-14:00"),
    "moment": spell(
        "dateTime", "2024-05-01T10:00:00", "1969-12-31T23:59:59.999999999", "0001-01-01T00:00:00",
        "9999-12-31T24:00:00", "9999-12-31T23:59:59.9999999", "1678-01-01T00:00:00.000000001",
        "2261-12-31T23:59:59.999999999", "2024-05-01T10:00:00.1230000000", "2024-13-01T10:00:00",
        "1677-12-31T00:00:00.1",
    ),
    "zoned moment": [
        *spell("dateTime", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.1234567+02:00"),
        *spell("dateTime", "0001-01-01T00:00:00+14:00", "1678-01-01T00:00:00.0000001+14:00"),
        *spell("dateTime", "1969-12-31T23:59:59.9999999-00:30", "0001-01-02T00:00:00.1-14:00"),
        *spell("dateTimeStamp", "2024-05-01T10:00:00-05:00", "2024-05-01T10:00:00"),
    ],
    "text": ['""', '"a"', '"a\\nb"', '"é"'],
    "other": ["<a:a>", "_:b", '"a"@en', literal("1", "http://ex/t")],
}  # fmt: skip
ALL = [term for terms in POOLS.values() for term in terms]


def draw_number(name: str, digits: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return digits.map(lambda text: literal(text, XSD + name))


decimals = draw_number("decimal", st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,12})?", fullmatch=True))
doubles = draw_number("double", st.floats().map(repr))
moments = draw_number("dateTime", st.datetimes().map(lambda moment: moment.isoformat()))
numbers = decimals | doubles | draw_number("integer", st.integers(-(2**70), 2**70).map(str))


def draw_column(terms: st.SearchStrategy[str]) -> st.SearchStrategy[list[str | None]]:
    return st.lists(st.none() | terms, max_size=12)


def sample(*names: str) -> st.SearchStrategy[list[str | None]]:
    return draw_column(st.sampled_from([term for name in names for term in POOLS[name]]))


columns = (
    st.one_of([sample(name) for name in POOLS])
    | sample("integer", "decimal")
    | sample("integer", "decimal", "float", "double")
    | st.one_of([draw_column(each) for each in (decimals, doubles, moments, numbers)])
    | draw_column(st.sampled_from(ALL) | canonical)
)


def encode(words: Dictionary, column: Sequence[str | None]) -> Any:
    return np.array([-1 if term is None else words.encode_one(term) for term in column], np.int32)


def write(decoder: Decoder, parts: list[Any], form: str, is_surveyed: bool) -> Any:
    """The type of a column and its batches, or why there are none."""
    output = ArrowOutput(decoder, ["x"], form)
    if is_surveyed:
        for part in parts:
            output.survey([part])
    try:
        written = [output.write([part])[0] for part in parts]
    except TriegsError as error:
        return str(error)
    for column in written:
        column.validate(full=True)
    return output.fields, [(column.type, list_values(column)) for column in written]


def list_values(column: Any) -> Any:
    """The values, with numbers as their bits: zeros have signs, and NaN is not equal to itself."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.view(pa.int32() if kind == pa.float32() else pa.int64())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):  # Python has no nanoseconds
        column = column.view(pa.int64())
    return column.to_pylist()


def check(words: Dictionary, parts: list[Any], forms: Sequence[str] = ("python", "plain")) -> None:
    """Every column is as it is from its terms."""
    decoder = words.decoder()
    from_terms = Decoder(decoder.load, decoder.base)
    for form in forms:
        for is_surveyed in (True, False):
            found = write(decoder, parts, form, is_surveyed)
            assert found == write(from_terms, parts, form, is_surveyed)


@contextmanager
def count_parsed() -> Iterator[list[str]]:
    """The terms that are parsed meanwhile."""
    parsed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def read(term: str) -> Any:
            parsed.append(term)
            return read_cell(term)

        patch.setattr(value_array, "read_cell", read)
        patch.setattr("triegs.read.output.read_cell", read)
        yield parsed


@given(column=columns, cut=st.integers(0, 12))
@example(column=POOLS["decimal"], cut=3)
@example(column=[*POOLS["decimal"][:7], *POOLS["integer"][:3]], cut=2)
@example(column=[*POOLS["double"][:10], *POOLS["decimal"][:7], *POOLS["integer"][:7]], cut=5)
@example(column=[*spell("decimal", "5", "0.00001" + "0" * 15), *spell("integer", "7")], cut=0)
@example(column=[None, *POOLS["moment"][:2]], cut=1)
@example(column=spell("double", "-0.0") + spell("decimal", "-0.0", "0.0"), cut=3)
def test_columns_are_as_from_terms(column: list[str | None], cut: int) -> None:
    words = Dictionary()
    ids = encode(words, column)
    check(words, [ids[:cut], ids[cut:], ids])


@pytest.mark.parametrize("name", POOLS)
def test_every_value_alone_and_with_every_other(name: str) -> None:
    words = Dictionary()
    ids = encode(words, POOLS[name])
    for row, first in enumerate(ids):
        check(words, [np.array([first, -1], np.int32)])
        for second in ids[:row]:
            check(words, [np.array([first, second, first], np.int32)], forms=("python",))


@pytest.mark.parametrize("column", [
    spell("double", "0.1", "NaN", "-0.0"), spell("decimal", "67.00", "67", "-.5"),
    spell("float", "0.1"), spell("boolean", "1", "false"), spell("integer", "067", "5"),
    spell("date", "2024-05-01"), spell("time", "10:00:00Z", "10:00:00.1234567+02:00"),
    spell("dateTime", "2024-05-01T10:00:00", "2024-05-01T10:00:00.1234567"),
    [*spell("double", "0.1"), *spell("decimal", "67.00"), *spell("integer", "5")],
    [*spell("integer", "5", "1" * 15), *spell("decimal", "67.00")],
])  # fmt: skip
def test_a_second_read_parses_nothing(column: list[str]) -> None:
    words = Dictionary()
    ids = encode(words, [*column, None, *column])
    with count_parsed() as parsed:
        found = write(words.decoder(), [ids, ids], "python", False)
        assert found[1][0][0] != TERMS
        assert len(parsed) == len(set(parsed))
        assert set(parsed) >= {
            term for term in column if words.arrays.spans[encode(words, [term])[0], 1] >= 0
        }
        parsed.clear()
        assert write(words.decoder(), [ids, ids], "python", True) == found
        assert parsed == []
        more = encode(words, [*column, *spell("double", "7.25")])
        write(words.decoder(), [more], "python", True)
        write(words.decoder(), [more], "plain", True)
        assert parsed[:1] == spell("double", "7.25")
        assert parsed[1:] == [] or write(words.decoder(), [more], "python", True)[1][0][0] == TERMS


def test_nodes_are_not_parsed() -> None:
    words = Dictionary()
    with count_parsed() as parsed:
        found = write(words.decoder(), [encode(words, ["<a:a>", "_:b", None])], "python", True)
        assert found[1] == [(TERMS, ["<a:a>", "_:b", None])]
        assert parsed == []


STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(ALL) | numbers, unique=True, max_size=6),
        st.lists(st.integers(0, 30), max_size=6),
        st.sampled_from(["read", "move and read", "move", ""]),
    ),
    max_size=8,
)


def check_terms(life: Life) -> None:
    """Each live id has the value of its term, and is parsed no more."""
    for _ in range(2):
        for identity, term in life.terms.items():
            batch = life.words._values.gather([identity])
            assert batch is not None
            cells = [read_cell(term)]
            shape = join_shapes(cells)
            assert shape is not None
            assert batch.join(None) == shape
            column = batch.write(shape)
            if column is not None:
                assert list_values(column) == list_values(write_cells(cells, shape))
    check(life.words, [np.array([*life.terms, -1], np.int64)])


def move_heap(words: Dictionary) -> None:
    words._interner.replace(room._replace_heap(words.arrays, 0))


@given(steps=STEPS)
@example(  # freed and given to another term, whose span is the same in a new heap
    steps=[
        (spell("decimal", "1.0"), [], "read"),
        ([], [0], ""),
        (spell("decimal", "2.0"), [], "move and read"),
    ]
)
@example(  # the same, with a text that the other one begins with
    steps=[(['"1"'], [], "read"), ([], [0], ""), (spell("double", "1"), [], "move and read")]
)
def test_ids_that_are_freed_and_reused(steps) -> None:
    life = Life()
    for fresh, gone, done in steps:
        life.step([term for term in fresh if term != '""'], gone)
        if "move" in done:
            move_heap(life.words)
        if "read" in done:
            check_terms(life)
    check_terms(life)


def test_a_reused_id_has_its_new_value() -> None:
    life = Life()
    life.step(spell("double", "1", "2"), [])
    assert gather_doubles(life) == [1.0, 2.0]
    life.step([], [0])
    life.step(spell("double", "3"), [])
    assert sorted(life.terms) == [0, 1]
    assert gather_doubles(life) == [3.0, 2.0]


def gather_doubles(life: Life) -> list[float]:
    batch = life.words._values.gather([0, 1])
    assert batch is not None
    found: list[float] = batch.words.view(np.float64).tolist()
    return found


def test_growth_and_compaction_parse_no_term_again() -> None:
    life = Life()
    terms = spell("double", *(f"{n}.5E0" for n in range(500)))
    values: list[int] = []
    with count_parsed() as parsed:
        for round_ in range(8):
            life.step(
                terms[50 * round_ :][:50] + [IRI(f"{round_}/{n}/{'x' * 400}") for n in range(80)],
                [],
            )
            if round_ % 3 == 2:
                move_heap(life.words)
            ids = np.array([i for i, term in life.terms.items() if term[0] == '"'])
            kind, values = write(life.words.decoder(), [ids], "python", False)[1][0]
            assert kind == pa.float64()
        assert sorted(parsed) == sorted(terms[:400])
    assert sorted(np.array(values).view(np.float64)) == [n + 0.5 for n in range(400)]


def test_more_kinds_than_codes(monkeypatch) -> None:
    monkeypatch.setattr(value_array, "MOST_KINDS", 4)
    words = Dictionary()
    ids = encode(words, ALL)
    for term in ids:
        check(words, [np.array([term, -1], np.int32)])
    check(words, [ids])


def test_small_batches_of_many_ids_make_no_array(monkeypatch) -> None:
    monkeypatch.setattr(value_array, "FEW_IDS", 50)
    life = Life()
    life.step(spell("double", *map(str, range(100))), [])
    ids = np.array(sorted(life.terms))
    assert life.words._values.gather(ids) is None
    assert life.words.metrics().array_bytes < 100
    check(life.words, [ids])
    monkeypatch.setattr(value_array, "LEAST_SHARED", 100)
    assert life.words._values.gather(ids) is not None
    assert life.words._values.gather(ids[:1]) is not None


def test_its_memory_is_counted_and_given_back(monkeypatch) -> None:
    monkeypatch.setattr(value_array, "LEAST_SHARED", 8)
    life = Life()
    before = life.words.metrics()
    life.step(spell("double", *map(str, range(5000))), [])
    check(life.words, [np.array(sorted(life.terms))])
    found = life.words.metrics()
    assert before.array_bytes < 100
    assert found.array_bytes >= 32 * 5000
    assert found.bytes > found.array_bytes
    life.step([], list(range(1, 5000)))
    assert life.words.metrics().array_bytes < 100
    check_terms(life)


def test_it_is_freed_with_its_dictionary() -> None:
    words = Dictionary()
    check(words, [encode(words, spell("double", "1"))])
    left = ref(words._values)
    del words
    assert left() is None


def test_bad_ids_are_refused_as_before() -> None:
    words = Dictionary()
    ids = encode(words, spell("double", "1", "2"))
    for bad in (-2, len(ids), 10**6):
        with pytest.raises(IndexError):
            ArrowOutput(words.decoder(), ["x"], "python").write([np.array([*ids, bad])])


def test_a_term_that_changes_meanwhile_is_not_noted(monkeypatch) -> None:
    """No reader holds it, and it comes back with another term after its text was read."""
    life = Life()
    life.step(spell("double", "1", "2"), [])
    calls: list[str] = []

    def interrupt(term: str) -> Any:
        calls.append(term)
        if len(calls) == 1:
            life.step([], [0])
            life.step(spell("double", "3"), [])
        return read_cell(term)

    monkeypatch.setattr(value_array, "read_cell", interrupt)
    assert gather_doubles(life) == [3.0, 2.0]
    check_terms(life)


EPOCHS = 200


@pytest.mark.skipif(not COMPILED, reason="kernels release the lock only if they are compiled")
def test_readers_beside_a_writer() -> None:
    """A constant part is held; values of all sorts come and go, and ids with them."""
    words = Dictionary()
    held = spell("decimal", *(f"{n}.{n % 100:02}" for n in range(300)))
    held += spell("dateTime", *(f"2024-05-01T10:00:{n % 60:02}.{n}Z" for n in range(300)))
    ids = words.encode_terms(held)
    words.acquire(ids, 1)
    halves = [np.array(ids[:300], np.int32), np.array(ids[300:], np.int32)]
    terms = Decoder(words.decoder().load)
    expected = [write(terms, [half], "python", False) for half in halves]

    def draw(epoch: int, size: int) -> list[str]:
        return spell("double", *(f"{epoch % 5}.{row}{'0' * (row % 30)}" for row in range(size)))

    def look() -> None:
        assert [write(words.decoder(), [half], "python", False) for half in halves] == expected

    with count_parsed() as parsed:
        read_beside(words, EPOCHS, draw, look)
    assert sorted(parsed) == sorted(held)
