"""The result formats of SPARQL, read back by rdflib and by pyoxigraph."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib.query import Result
from tests.outputs.answers import NASTY, NOT_IN_XML, Row, make_result, terms, write

from triegs.errors import TriegsError
from triegs.outputs import Format, Head, Multiplicity, Options
from triegs.outputs import Kind as ResultKind
from triegs.terms.term import Kind, canonical_term, parse_term
from triegs.terms.values import write_value

NAMES = ("x", "y")
HEAD = Head("q", NAMES)
OX = {
    Format.SRJ: ox.QueryResultsFormat.JSON,
    Format.SRX: ox.QueryResultsFormat.XML,
    Format.SPARQL_TSV: ox.QueryResultsFormat.TSV,
}
RDFLIB = {Format.SRJ: "json", Format.SRX: "xml", Format.SPARQL_CSV: "csv", Format.SPARQL_TSV: "tsv"}
EXACT = list(OX)


def read_ox(text: bytes, kind: Format) -> list[Row]:
    found = ox.parse_query_results(text, OX[kind])
    assert isinstance(found, ox.QuerySolutions)
    width = len(found.variables)
    return [
        tuple(None if row[i] is None else canonical_term(str(row[i])) for i in range(width))
        for row in found
    ]


def read_rdflib(text: bytes, kind: Format) -> list[Row]:
    found = Result.parse(io.BytesIO(text), format=RDFLIB[kind])
    assert found.vars is not None
    return [
        tuple(None if row.get(v) is None else write_value(row[v]) for v in found.vars)
        for row in found.bindings
    ]


def expanded(rows: Sequence[Row], counts: Sequence[int]) -> list[Row]:
    return [row for row, count in zip(rows, counts, strict=True) for _ in range(count)]


PAIRS = [(a, b) for a, b in zip(NASTY, [*NASTY[1:], None], strict=True)]


@pytest.mark.parametrize("kind", EXACT)
def test_nasty_terms_come_back_through_pyoxigraph(kind: Format) -> None:
    rows = [row for row in PAIRS if kind is not Format.SRX or NOT_IN_XML.isdisjoint(row)]
    text = write(HEAD, Options(kind), make_result(NAMES, rows, [1] * len(rows)))
    assert read_ox(text, kind) == rows


@pytest.mark.parametrize("kind", [Format.SRJ, Format.SRX])
def test_nasty_terms_come_back_through_rdflib(
    kind: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdflib.NORMALIZE_LITERALS", False)
    rows = [row for row in PAIRS if kind is not Format.SRX or NOT_IN_XML.isdisjoint(row)]
    text = write(HEAD, Options(kind), make_result(NAMES, rows, [1] * len(rows)))
    assert read_rdflib(text, kind) == rows


def test_csv_has_the_texts_alone() -> None:
    text = write(HEAD, Options(Format.SPARQL_CSV), make_result(NAMES, PAIRS, [1] * len(PAIRS)))
    header, *rows = csv.reader(io.StringIO(text.decode(), newline=""))
    plain = {None: ""} | {term: read_text(term) for term in NASTY}
    assert header == list(NAMES)
    assert rows == [[plain[a], plain[b]] for a, b in PAIRS]


def read_text(term: str) -> str:
    parts = parse_term(term)
    return f"_:{parts.lexical}" if parts.kind is Kind.BLANK else parts.lexical


@given(
    st.lists(st.tuples(terms, st.none() | terms), max_size=6),
    st.data(),
    st.sampled_from([Format.SRJ, Format.SPARQL_TSV]),
)
def test_any_terms_come_back(rows: list[Row], data: st.DataObject, kind: Format) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    text = write(HEAD, Options(kind), make_result(NAMES, rows, counts))
    assert read_ox(text, kind) == expanded(rows, counts)


@pytest.mark.parametrize("kind", EXACT)
def test_rows_are_as_many_as_the_multiplicity_says(kind: Format) -> None:
    rows, counts = [("<a:a>", "<a:b>"), ("<a:b>", None)], [3, 2]
    result = make_result(NAMES, rows, counts)
    assert Counter(read_ox(write(HEAD, Options(kind), result), kind)) == {rows[0]: 3, rows[1]: 2}
    none = Options(kind, multiplicity=Multiplicity.NONE)
    assert read_ox(write(HEAD, none, result), kind) == rows
    column = Options(kind, multiplicity=Multiplicity.COLUMN)
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    assert read_ox(write(HEAD, column, result), kind) == [
        (*row, integer(count)) for row, count in zip(rows, counts, strict=True)
    ]


@pytest.mark.parametrize("kind", EXACT)
def test_changes_have_their_sign(kind: Format) -> None:
    rows = [("<a:a>", "<a:b>"), ("<a:b>", "<a:c>")]
    text = write(
        HEAD, Options(kind, multiplicity=Multiplicity.COLUMN),
        make_result(NAMES, rows, [2, -1], ResultKind.CHANGES),
    )  # fmt: skip
    assert [row[-1].split('"')[1] for row in read_ox(text, kind) if row[-1]] == ["2", "-1"]


@pytest.mark.parametrize("kind", list(Format)[5:])
@pytest.mark.parametrize(("counts", "verdict"), [([1], True), ([], False)])
def test_yes_or_no(kind: Format, counts: list[int], verdict: bool) -> None:
    head = Head("q", (), is_ask=True)
    text = write(head, Options(kind), make_result((), [()] * len(counts), counts))
    if kind in (Format.SRJ, Format.SRX):
        assert bool(ox.parse_query_results(text, OX[kind])) is verdict
        assert Result.parse(io.BytesIO(text), format=RDFLIB[kind]).askAnswer is verdict
    else:
        assert text.strip() == str(verdict).lower().encode()


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("names", [(), ("x",), NAMES])
def test_no_answers_make_a_document_too(kind: Format, names: tuple[str, ...]) -> None:
    text = write(Head("q", names), Options(kind), make_result(names, [], []))
    found = ox.parse_query_results(text, OX[kind])
    assert isinstance(found, ox.QuerySolutions)
    assert [v.value for v in found.variables] == list(names)
    assert list(found) == []


@pytest.mark.parametrize("kind", [Format.SRJ, Format.SRX])
def test_answers_without_columns(kind: Format) -> None:
    text = write(Head("q", ()), Options(kind), make_result((), [()], [3]))
    assert read_ox(text, kind) == [(), (), ()]


def test_a_lone_unbound_column_is_a_row_in_csv() -> None:
    text = write(Head("q", ("x",)), Options(Format.SPARQL_CSV), make_result(("x",), [(None,)], [1]))
    assert text == b'x\r\n""\r\n'


def test_json_documents_follow_one_another_in_lines() -> None:
    result = make_result(NAMES, PAIRS, [1] * len(PAIRS))
    lines = write(HEAD, Options(Format.SRJ), result, result).decode().rstrip("\n").split("\n")
    assert len(lines) == 2
    assert len(json.loads(lines[1])["results"]["bindings"]) == len(PAIRS)


@pytest.mark.parametrize("term", sorted(NOT_IN_XML))
def test_what_xml_cannot_say_is_refused(term: str) -> None:
    result = make_result(NAMES, [(term, term)], [1])
    with pytest.raises(TriegsError, match=r"XML cannot represent the character U\+00.*srj"):
        write(HEAD, Options(Format.SRX), result)
