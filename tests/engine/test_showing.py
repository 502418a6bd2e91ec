"""How objects show themselves, in a terminal and in a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from triegs import BadOption, Engine, Window

P = "<http://ex/p>"


class Balance(HTMLParser):
    """Checks that tags are closed, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def read_html(thing: Any) -> str:
    found = thing._repr_html_()
    reader = Balance()
    reader.feed(found)
    assert reader.open == []
    assert "<script>" not in found
    assert len(found) < 20_000
    return reader.text


@pytest.fixture
def engine() -> Engine:
    found = Engine()
    found.apply([("+", n, P, '"<script>alert(1)</script>"') for n in range(1_000)])
    return found


def test_representations_say_what_there_is(engine: Engine) -> None:
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}", name="<script>")
    kept = engine.register(f"SELECT ?x {{ ?x {P} ?y }}", name="kept", keep="count")
    assert repr(engine) == "<Engine multigraph, epoch 3, 2 queries>"
    assert repr(query) == "<StandingQuery '<script>', full-acyclic, ?x ?y>"
    with query.snapshot() as snap, kept.snapshot() as counted:
        assert repr(snap) == "<Snapshot of epoch 3: ?x ?y>"
        assert repr(counted) == "<Snapshot of epoch 3: ?x, 1,000 answers>"
        assert repr(counted[3:5]) == "<Selection of epoch 3: ?x, 2 answers>"
        shown = read_html(snap)
        assert "<script>alert(1)</script>" in shown
        assert "the first 10" in shown
        assert shown.count("XMLSchema#integer") == 10
    assert repr(snap) == "<Snapshot of epoch 3: ?x ?y, closed>"
    assert "closed" in read_html(snap)
    assert "kept" in read_html(engine)
    assert "full-acyclic" in read_html(query)
    with query.subscribe() as subscription:
        assert repr(subscription) == "<Subscription to ?x ?y, delivered up to epoch 3>"
        assert "one per" not in read_html(subscription)
    query.close()
    assert repr(query) == "<StandingQuery '<script>', closed, ?x ?y>"
    read_html(query)
    assert "10s" in read_html(Window("10s", slide="5s"))
    engine.close()
    assert repr(engine) == "<Engine multigraph, closed, 1 query>"
    read_html(engine)


def test_a_filter_that_lets_nothing_through_is_not_searched(engine: Engine) -> None:
    """The first answer may come after all others; showing a snapshot must not search for it."""
    text = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?z {P} ?y FILTER(?x > ?z + 5000) }}"
    with engine.register(text).snapshot() as snap:
        assert "not counted" in read_html(snap)


def test_reports_of_many_refusals_stay_short(engine: Engine) -> None:
    report = engine.apply([("-", n, P, 7) for n in range(5_000)])
    assert len(report.refused) == 5_000
    assert "… 4,997 more" in repr(report)
    assert len(repr(report)) < 500
    assert "5,000" in read_html(report)
    windowed = Engine(window=Window("10s"))
    assert len(repr(windowed.push([("soon", 1, P, 2)] * 1_000))) < 800


def test_results_in_the_formats_of_sparql() -> None:
    engine = Engine()
    engine.apply([("+", 1, P, "<http://ex/a>")] * 2)
    pairs = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}")
    with pairs.snapshot() as snap:
        found = json.loads(snap.to_sparql())
        assert found["head"]["vars"] == ["x", "y"]
        assert len(found["results"]["bindings"]) == 2
        assert found["results"]["bindings"][0]["y"] == {"type": "uri", "value": "http://ex/a"}
        assert snap.to_sparql("csv") == "x,y\r\n1,http://ex/a\r\n1,http://ex/a\r\n"
        assert snap.to_sparql("tsv").splitlines()[0] == "?x\t?y"
        assert snap.to_sparql("xml").count("<result>") == 2
        with pytest.raises(BadOption, match="'json', 'xml', 'csv' or 'tsv', not 'yaml'"):
            snap.to_sparql("yaml")  # type: ignore[arg-type]
    with engine.register(f"ASK {{ ?x {P} 9 }}").snapshot() as snap:
        assert json.loads(snap.to_sparql("json"))["boolean"] is False
        assert repr(snap) == "<Snapshot of epoch 3: ASK>"
