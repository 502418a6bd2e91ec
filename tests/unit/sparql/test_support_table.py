"""The tables of constructs in docs/semantics.md match front end and engine exactly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from triegs.engine import Engine
from triegs.errors import UnsupportedQuery
from triegs.sparql import parse
from triegs.sparql.expression_parser import MAX_DEPTH
from triegs.sparql.expressions import OPERATORS
from triegs.sparql.lexer import MAX_CHARACTERS
from triegs.sparql.pattern_parser import MAX_PATTERNS
from triegs.sparql.reader import AGGREGATES, MAX_NESTING, MAX_TOKENS
from triegs.sparql.refusals import REFUSALS
from triegs.testing.reference import solutions

PAGE = Path(__file__).parents[3] / "docs" / "semantics.md"
SUPPORTED = "\n| construct | example |"
REFUSED = "\n| refused construct | example |"
TRIPLE = ("<http://ex/a>", "<http://ex/p>", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>')
#: The position of refusals whose construct is not a word of the text.
FIRST_CHARACTERS = {
    "sub-select": "SELECT",
    "select expression": "(",
    "COUNT(DISTINCT *)": "COUNT",
    "path {n}": "{2",
    "VALUES after aggregates": "VALUES",
    "function call": ":f(",
    "unselected ORDER BY": "?y",
    "annotation": ":source",
    "time of a variable predicate": "?p",
}


class Row(NamedTuple):
    names: tuple[str, ...]
    example: str
    is_refused: bool


def read_table(header: str) -> list[Row]:
    _, text = PAGE.read_text(encoding="utf-8").split(f"{header}\n")
    rows = []
    for line in text.splitlines()[1:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert len(cells) == header.count("|") - 1, line
        construct, example = (cell.replace("\\|", "|") for cell in cells)
        names = tuple(re.findall("`(.+?)`", construct))
        rows.append(Row(names, example.strip("`"), header == REFUSED))
    return rows


ROWS = [*read_table(SUPPORTED), *read_table(REFUSED)]


def examples(row: Row) -> list[tuple[str, str]]:
    """Each name of the row with the example rewritten for it."""
    if not row.names:
        return [("", row.example)]
    first = row.names[0].removeprefix("path ")
    found = []
    for name in row.names:
        if row.example.count(first) and name != row.names[0]:
            start = row.example.rindex(first) if len(first) < 3 else row.example.index(first)
            rest = row.example[start + len(first) :]
            found.append((name, row.example[:start] + name.removeprefix("path ") + rest))
        else:
            found.append((name, row.example))
    return found


CASES = [(row, name, text) for row in ROWS for name, text in examples(row)]


def check_on_the_engine(text: str) -> None:
    with Engine(prefixes={"": "http://ex/"}) as engine:
        query = engine.register(text)
        assert engine.apply([("+", *TRIPLE)]).refused == ()
        with query.snapshot() as snapshot:
            expected = solutions(parse(text, {"": "http://ex/"}), [TRIPLE])
            assert {tuple(answer): answer.multiplicity for answer in snapshot} == expected


@pytest.mark.parametrize(("row", "name", "text"), CASES, ids=[f"{n} {t}" for _, n, t in CASES])
def test_row_is_true(row: Row, name: str, text: str) -> None:
    prefixes = {"": "http://ex/"}
    if not row.is_refused:
        assert parse(text, prefixes).text == text
        check_on_the_engine(text)
        return
    with pytest.raises(UnsupportedQuery) as caught:
        parse(text, prefixes)
    error = caught.value
    assert error.construct == name
    assert error.hint == f"instead: {REFUSALS[name]}"
    token = FIRST_CHARACTERS.get(name, name.removeprefix("path "))
    assert text[error.column - 1 :].startswith(token), (error, token)
    assert error.line == 1


def test_every_refusal_has_a_row_and_every_refused_row_a_refusal() -> None:
    assert {name for row in ROWS if row.is_refused for name in row.names} == set(REFUSALS)


def test_every_operator_has_a_row() -> None:
    named = {name for row in ROWS if not row.is_refused for name in row.names}
    assert set(OPERATORS) - {"unbound"} <= named
    assert set(AGGREGATES) <= named


def test_no_row_names_an_unknown_function() -> None:
    operators = {
        name
        for row in ROWS
        if not row.is_refused and "FILTER(" in row.example
        for name in row.names
    } - {"FILTER", "ISURI"}
    assert operators == set(OPERATORS) - {"unbound"}


def test_limits() -> None:
    limits = PAGE.read_text(encoding="utf-8").split("## Limits", 1)[1]
    for limit in (
        f"{MAX_NESTING} deep", f"{MAX_DEPTH} deep", f"{MAX_CHARACTERS:,} characters",
        f"{MAX_PATTERNS} triple patterns", f"{MAX_TOKENS:,} words",
    ):  # fmt: skip
        assert limit in limits
