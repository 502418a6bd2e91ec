"""Columns of every type as names and values, and names there and back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs import Engine, InputError
from triegs.events.mapping import parse_mapping
from triegs.events.mapping.encoding import encode_names
from triegs.events.mapping.rows import map_rows
from triegs.names import BASE, encode_name, name_iri, read_name
from triegs.terms.term import canonical_term

XSD = "http://www.w3.org/2001/XMLSchema#"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def read_objects(column, place):
    mapping = parse_mapping(f":s :p {place}")
    found = map_rows(mapping, {"c": column}, len(column), None, np.ones(len(column), np.bool_))
    return found.columns["object"].to_pylist()


@pytest.mark.parametrize(
    ("column", "place", "terms"),
    [
        (pa.array([5, None]), "{c}", ["<urn:triegs:5>"]),
        (pa.array([5.0, 0.25]), "{c}", ["<urn:triegs:5>", "<urn:triegs:0.25>"]),
        (pa.array([5]), "{c:decimal}", [f'"5"^^<{XSD}decimal>']),
        (pa.array([1e20, 2.5]), "{c:decimal}",
         [f'"100000000000000000000"^^<{XSD}decimal>', f'"2.5"^^<{XSD}decimal>']),
        (pa.array([1500.0]), "{c:double}", [f'"1.5E3"^^<{XSD}double>']),
        (pa.array([np.nan, np.inf, -np.inf]), "{c:float}",
         [f'"{text}"^^<{XSD}float>' for text in ("NaN", "INF", "-INF")]),
        (pa.array([np.nan, np.inf], pa.float32()), "{c:double}",
         [f'"{text}"^^<{XSD}double>' for text in ("NaN", "INF")]),
        (pa.array([Decimal("67.00")]), "{c:decimal}", [f'"67.00"^^<{XSD}decimal>']),
        (pa.array([True]), "{c:boolean}", [f'"true"^^<{XSD}boolean>']),
        (pa.array(["True", " false"]), "{c:boolean}",
         [f'"true"^^<{XSD}boolean>', f'"false"^^<{XSD}boolean>']),
        (pa.array([date(2024, 5, 1)]), "{c:date}", [f'"2024-05-01"^^<{XSD}date>']),
        (pa.array([date(2024, 5, 1)]), "{c}", ["<urn:triegs:2024-05-01>"]),
        (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), "{c:dateTime}",
         [f'"2024-05-01T12:00:00Z"^^<{XSD}dateTime>']),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "{c}",
         ["<urn:triegs:a>", "<urn:triegs:b>", "<urn:triegs:a>"]),
        (pa.DictionaryArray.from_arrays([0, 1], ["a", None]), "{c}", ["<urn:triegs:a>"]),
        (pa.array(["a"], pa.large_string()), "{c}", ["<urn:triegs:a>"]),
        (pa.array(["a"], pa.string_view()), '"{c}"', ['"a"']),
        (pa.array(["tab\there", "nul\x00"]), "{c:string}", ['"tab\\there"', '"nul\\u0000"']),
    ],
)  # fmt: skip
def test_columns_of_every_type(column, place, terms):
    assert read_objects(column, place) == terms


def test_a_long_column_of_distinct_cells_is_read_as_a_short_one():
    cells = [None if n % 17 == 0 else f"n {n}" for n in range(5_000)] + ["n 1", "n 2"]
    expected = [f"<urn:triegs:n%20{cell[2:]}>" for cell in cells if cell]
    for kind in (pa.string(), pa.large_string()):
        assert read_objects(pa.array(cells, kind), "{c}") == expected
    numbers = [None if n % 17 == 0 else "x" if n % 1000 == 1 else str(n) for n in range(5_000)]
    mapping = parse_mapping(":s :p {c:integer}")
    found = map_rows(mapping, {"c": pa.array(numbers)}, 5_000, None, np.ones(5_000, np.bool_))
    wrong = "'x' is not a valid integer"
    rows = [row for row, text in found.problems.items() if wrong in text]
    assert rows == [1, 1001, 2001, 3001, 4001]
    assert len(found.columns["object"]) == sum(n is not None and n != "x" for n in numbers)


def test_a_column_without_texts_is_reported():
    engine = Engine()
    with pytest.raises(InputError, match="b: a binary column cannot be mapped"):
        engine.apply(pa.table({"a": ["x"], "b": [b"y"]}), map="{a} :p {b}")
    with pytest.raises(InputError, match=r"expected a table .* not a list"):
        engine.apply([("+", 1, 2, 3)], map="{a} :p {b}")
    with pytest.raises(InputError, match="columns renames only time, op, id, not subject"):
        engine.apply(pa.table({"a": ["x"]}), map="{a} :p {a}", columns={"subject": "a"})


@given(st.text())
def test_a_name_comes_back(name):
    term = name_iri(name)
    assert canonical_term(term) == term
    assert read_name(term, BASE) == name
    assert encode_names(pa.array([name, None])).to_pylist() == [encode_name(name), None]


def test_letters_of_all_scripts_stay_as_they_are():
    """So that ``:Åsa`` in a query names what a cell names."""
    for name in ("Åsa", "Zoë", "Ærø", "北京", "Ολγα", "a-b_c.d~e"):
        assert name_iri(name) == f"<{BASE}{name}>"
    assert name_iri("a b") == f"<{BASE}a%20b>"
    assert name_iri("\u00a0×") == f"<{BASE}%C2%A0%C3%97>"


def test_what_is_no_name_is_none():
    for rest in ("a/b", "%41", "a%2f", "%FF", "a b"):
        assert read_name(f"<{BASE}{rest}>", BASE) is None
    assert read_name("<http://ex/a>", BASE) is None
    assert read_name(f"<{BASE}a>", "") is None
