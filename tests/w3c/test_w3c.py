"""The W3C SPARQL tests: every query gives the expected result or is refused, and says why.

The manifests are no part of this repository; without them these tests skip. ``refused.txt``
lists each refusal with its construct, and is held to what really happens.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.w3c.bags import canonical_numbers, equal
from tests.w3c.manifests import Entry, entries, expected, suite

from triegs.errors import QueryError, UnsupportedQuery
from triegs.sparql import parse
from triegs.sparql.model import Query
from triegs.sparql.refusals import REFUSALS
from triegs.testing.reference import solutions

REFUSED_FILE = Path(__file__).with_name("refused.txt")
SUITE = suite()
ENTRIES = list(entries(SUITE)) if SUITE else []

pytestmark = pytest.mark.skipif(
    SUITE is None, reason="the W3C manifests are not here; TRIEGS_W3C may name their folder"
)


def listed_refusals() -> dict[str, str]:
    lines = REFUSED_FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.partition("\t") for line in lines if line and not line.startswith("#")]
    return {name: construct for name, _, construct in rows}


def compiled(entry: Entry) -> Query | QueryError:
    try:
        return parse(entry.query.read_text(encoding="utf-8"), base=entry.base)
    except QueryError as error:
        return error


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry(entry: Entry) -> None:
    outcome = compiled(entry)
    if "Negative" in entry.kind:
        assert isinstance(outcome, QueryError)
        return
    if isinstance(outcome, UnsupportedQuery):
        assert listed_refusals().get(entry.name) == outcome.construct
        assert outcome.construct in REFUSALS
        return
    assert isinstance(outcome, Query), outcome
    assert entry.name not in listed_refusals()
    if entry.kind == "QueryEvaluationTest":
        assert not entry.named_graphs
        assert entry.result is not None
        answers = Counter(solutions(outcome, entry.triples()))
        wanted = Counter(expected(entry.result, outcome.head))
        if outcome.grouping is not None:
            answers = Counter(canonical_numbers(row) for row in answers.elements())
            wanted = Counter(canonical_numbers(row) for row in wanted.elements())
        assert equal(answers, wanted), (answers, wanted)


def test_every_listed_refusal_is_an_entry() -> None:
    assert set(listed_refusals()) <= {entry.name for entry in ENTRIES}


def test_suite_is_not_empty() -> None:
    assert len(ENTRIES) > 250
