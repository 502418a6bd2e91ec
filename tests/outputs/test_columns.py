"""CSV, JSON lines, Arrow and Parquet: rows come back as they were, in columns of one schema."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.outputs.answers import NASTY, Row, make_batch, make_result, terms, write

from triegs.errors import TriegsError
from triegs.outputs import (
    Format,
    Head,
    Kind,
    Multiplicity,
    Options,
    ResultBatch,
    TermText,
    result_batch,
)
from triegs.outputs.columns import GROUP_ROWS
from triegs.outputs.result_batch import cut, expand
from triegs.terms.term import parse_term

NAMES = ("x", "y")
HEAD = Head("q", NAMES, prefixes={"ex": "http://example.org/"})
ROWS: list[Row] = [(a, b) for a, b in zip(NASTY, [None, *NASTY[1:]], strict=True)]
COUNTS = [place + 1 for place in range(len(ROWS))]
TABULAR = [Format.CSV, Format.JSONL, Format.ARROW, Format.PARQUET]


def read(text: bytes, kind: Format) -> list[dict[str, Any]]:
    """The rows as dictionaries; of CSV, numbers are numbers again and nothing is None."""
    if kind is Format.CSV:
        rows = list(csv.DictReader(io.StringIO(text.decode(), newline="")))
        numbers = ("epoch", "time", "multiplicity", "change")
        return [
            {n: None if v == "" else int(v) if n in numbers else v for n, v in row.items()}
            for row in rows
        ]
    if kind is Format.JSONL:
        return [json.loads(line) for line in text.decode().split("\n")[:-1]]
    if kind is Format.PARQUET:
        found: list[dict[str, Any]] = pq.read_table(pa.BufferReader(text)).to_pylist()
        return found
    return list(pa.ipc.open_stream(text).read_all().to_pylist())


def expected(
    rows: list[Row], counts: list[int], epoch: int = 3, time: int | None = 20
) -> list[dict[str, Any]]:
    return [
        {"epoch": epoch, "time": time, "x": x, "y": y, "multiplicity": count}
        for (x, y), count in zip(rows, counts, strict=True)
    ]


@pytest.mark.parametrize("kind", TABULAR)
def test_rows_come_back(kind: Format) -> None:
    text = write(
        HEAD, Options(kind), make_result(NAMES, ROWS, COUNTS),
        make_result(NAMES, [], [], epoch=4),
        make_result(NAMES, ROWS[:2], [1, 1], epoch=5, time=None),
    )  # fmt: skip
    wanted = expected(ROWS, COUNTS) + expected(ROWS[:2], [1, 1], 5, None)
    assert read(text, kind) == wanted


@pytest.mark.parametrize("kind", TABULAR)
@given(st.lists(st.tuples(terms, st.none() | terms), max_size=6))
def test_any_rows_come_back(kind: Format, rows: list[Row]) -> None:
    counts = list(range(1, len(rows) + 1))
    text = write(HEAD, Options(kind), make_result(NAMES, rows, counts))
    assert read(text, kind) == expected(rows, counts)


def test_arrow_file_and_csv_for_arrow() -> None:
    result = make_result(NAMES, ROWS, COUNTS)
    text = write(HEAD, Options(Format.ARROW), result, is_stream=False)
    assert pa.ipc.open_file(text).read_all().to_pylist() == expected(ROWS, COUNTS)
    table = pyarrow.csv.read_csv(
        pa.BufferReader(write(HEAD, Options(Format.CSV), result)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        ),
    )
    assert table.to_pylist() == expected(ROWS, COUNTS)


def test_consecutive_batches_share_their_texts() -> None:
    """A dictionary that grows, and one that starts over."""
    whole = make_batch(NAMES, ROWS, COUNTS)
    growing = [whole.slice(0, 3), whole.slice(3)]
    other = make_batch(NAMES, ROWS[::-1], COUNTS)
    text = write(
        HEAD, Options(Format.JSONL), ResultBatch(Kind.SNAPSHOT, 3, 20, [*growing, other, whole])
    )
    assert read(text, Format.JSONL) == expected(
        [*ROWS, *ROWS[::-1], *ROWS], [*COUNTS, *COUNTS, *COUNTS]
    )
    short = pa.array(["<a:a>"]).dictionary_encode()
    longer = pa.array(["<a:a>", "<a:b>"]).dictionary_encode()
    for columns in ([short, longer], [longer, short]):
        batches = [
            pa.record_batch([column, pa.array([1] * len(column))], ["x", "n"]) for column in columns
        ]
        text = write(
            Head("q", ("x",)), Options(Format.JSONL), ResultBatch(Kind.SNAPSHOT, 1, 1, batches)
        )
        found = [row["x"] for row in read(text, Format.JSONL)]
        assert found == [value for column in columns for value in column.to_pylist()]


@pytest.mark.parametrize("kind", TABULAR)
def test_multiplicity_by_choice(kind: Format) -> None:
    rows: list[Row] = [("<a:a>", None), ("<a:b>", "<a:c>")]
    result = make_result(NAMES, rows, [2, 1])
    none = read(write(HEAD, Options(kind, multiplicity=Multiplicity.NONE), result), kind)
    assert [tuple(row) for row in none] == [("epoch", "time", "x", "y")] * 2
    many = read(write(HEAD, Options(kind, multiplicity=Multiplicity.EXPAND), result), kind)
    assert [(row["x"], row["y"]) for row in many] == [rows[0], rows[0], rows[1]]


@pytest.mark.parametrize("kind", TABULAR)
def test_changes(kind: Format) -> None:
    head = replace(HEAD, kinds=(Kind.CHANGES,))
    rows: list[Row] = [("<a:a>", None), ("<a:b>", "<a:c>")]
    found = read(write(head, Options(kind), make_result(NAMES, rows, [2, -3], Kind.CHANGES)), kind)
    assert [(row["x"], row["change"]) for row in found] == [("<a:a>", 2), ("<a:b>", -3)]
    assert "multiplicity" not in found[0]


@pytest.mark.parametrize("kind", TABULAR)
def test_both_have_a_column_each(kind: Format) -> None:
    head = replace(HEAD, kinds=(Kind.SNAPSHOT, Kind.CHANGES))
    one: list[Row] = [("<a:a>", None)]
    results = make_result(NAMES, one, [2]), make_result(NAMES, one, [-1], Kind.CHANGES)
    found = read(write(head, Options(kind), *results), kind)
    assert [(row["multiplicity"], row["change"]) for row in found] == [(2, None), (None, -1)]


@pytest.mark.parametrize("kind", TABULAR)
def test_columns_without_stamps_and_with_queries(kind: Format) -> None:
    result = make_result(NAMES, [("<a:a>", "<a:b>")], [1])
    bare = Options(kind, multiplicity=Multiplicity.NONE, stamps=False)
    assert read(write(HEAD, bare, result), kind) == [{"x": "<a:a>", "y": "<a:b>"}]
    mixed = write(Head('q,"1"', NAMES), bare, result, is_mixed=True)
    assert read(mixed, kind) == [{"query": 'q,"1"', "x": "<a:a>", "y": "<a:b>"}]


@pytest.mark.parametrize("kind", TABULAR)
def test_names_that_variables_have_taken(kind: Format) -> None:
    names = ("epoch", "multiplicity", "time")
    text = write(Head("q", names), Options(kind), make_result(names, [("<a:a>",) * 3], [7]))
    row = pa.ipc.open_stream(text).read_all() if kind is Format.ARROW else None
    if row is None and kind is Format.CSV:
        header = text.decode().split("\n")[0].split(",")
    elif row is None and kind is Format.JSONL:
        header = list(json.loads(text))
    else:
        header = (row if row is not None else pq.read_table(pa.BufferReader(text))).column_names
    assert header == ["epoch_", "time_", *names, "multiplicity_"]


@pytest.mark.parametrize("kind", TABULAR)
def test_yes_or_no(kind: Format) -> None:
    head = Head("q", (), is_ask=True)
    results = [make_result((), [()] * n, [1] * n, epoch=n) for n in (0, 1)]
    found = read(write(head, Options(kind), *results), kind)
    verdicts = [{"true": True, "false": False}.get(row["answer"], row["answer"]) for row in found]
    assert verdicts == [False, True]
    assert list(found[0]) == ["epoch", "time", "answer"]
    flips = [make_result((), [()], [sign], Kind.CHANGES) for sign in (1, -1)]
    calm = make_result((), [], [], Kind.CHANGES)
    found = read(write(replace(head, kinds=(Kind.CHANGES,)), Options(kind), *flips, calm), kind)
    assert [str(row["answer"]).lower() for row in found] == ["true", "false"]


@pytest.mark.parametrize("kind", [Format.CSV, Format.JSONL])
def test_answers_without_columns(kind: Format) -> None:
    result = make_result((), [()], [3])
    assert read(write(Head("q", ()), Options(kind), result), kind) == [
        {"epoch": 3, "time": 20, "multiplicity": 3}
    ]
    none = Options(kind, multiplicity=Multiplicity.NONE)
    assert read(write(Head("q", ()), none, result), kind) == [{"epoch": 3, "time": 20}]


@pytest.mark.parametrize("kind", [Format.ARROW, Format.PARQUET])
def test_no_columns_at_all(kind: Format) -> None:
    none = Options(kind, multiplicity=Multiplicity.NONE, stamps=False)
    with pytest.raises(TriegsError, match="has no columns to write"):
        write(Head("q", ()), none, make_result((), [()], [1]))


@pytest.mark.parametrize("kind", TABULAR)
def test_plain_and_short_terms(kind: Format) -> None:
    result = make_result(NAMES, [(term, None) for term in NASTY], [1] * len(NASTY))
    found = read(write(HEAD, Options(kind, terms=TermText.PLAIN), result), kind)
    plain = [parse_term(t).lexical if t[0] != "_" else t for t in NASTY]
    assert [row["x"] or "" for row in found] == plain
    short = read(write(HEAD, Options(kind, terms=TermText.SHORT), result), kind)
    assert [short[place]["x"] for place in (0, 21, 22, 25)] == [
        "ex:a", "5", "05", '"2024-01-01"^^xsd:date',
    ]  # fmt: skip


def test_a_lone_unbound_column_is_a_row_in_csv() -> None:
    bare = Options(Format.CSV, multiplicity=Multiplicity.NONE, stamps=False)
    text = write(Head("q", ("x",)), bare, make_result(("x",), [(None,), ('""',)], [1, 1]))
    assert text == b'x\n""\n""""""\n'


@given(st.lists(st.integers(-4, 4).filter(bool), max_size=8), st.integers(1, 5))
def test_expanding_is_repeating(counts: list[int], most: int) -> None:
    batch = pa.record_batch(
        [pa.array(range(len(counts)), pa.int64()), pa.array(counts, pa.int64())], ["x", "n"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_batch, "MOST_ROWS", most)
        parts = list(expand(batch))
    assert all(part.num_rows <= max(most, len(counts)) for part in parts)
    found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    wanted = [(place, 1 if n > 0 else -1) for place, n in enumerate(counts) for _ in range(abs(n))]
    assert found == wanted


def test_expanding_starts_at_once_however_many_rows_it_makes() -> None:
    batch = pa.record_batch([pa.array(["a"]), pa.array([-(2**63)])], ["x", "n"])
    first = next(expand(batch))
    assert first.column("n")[0].as_py() == -1


def test_a_batch_of_long_terms_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A term of 10 MB in each of 65,536 rows is 655 GB of text."""
    monkeypatch.setattr(result_batch, "MOST_BYTES", 100)
    rows: list[Row] = [(f'"{"x" * size}"', "<a:b>") for size in (10, 200, 10, 10, 60, 60, 1)]
    parts = list(cut(make_batch(NAMES, rows, [1] * len(rows))))
    assert [part.num_rows for part in parts] == [1, 1, 2, 1, 2]
    assert [tuple(row.values())[:2] for part in parts for row in part.to_pylist()] == rows
    assert max(part.column(0).dictionary.nbytes for part in parts[2:]) < 200


def test_small_result_batches_are_merged_into_row_groups() -> None:
    results = [make_result(NAMES, ROWS, COUNTS, epoch=n) for n in range(50)]
    found = pq.ParquetFile(pa.BufferReader(write(HEAD, Options(Format.PARQUET), *results)))
    assert found.metadata.num_row_groups == 1
    assert found.metadata.num_rows == 50 * len(ROWS) < GROUP_ROWS
