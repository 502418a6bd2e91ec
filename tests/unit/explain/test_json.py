"""The JSON form has the documented keys in order, and all references resolve."""

from __future__ import annotations

import json

from triegs.compiler import Plan, compile_query
from triegs.explain import explain

KEYS = [
    "version", "class", "promise", "query", "components", "root", "nodes", "order", "filters",
    "counts", "relations", "cursors", "warnings", "choices", "cost",
]  # fmt: skip


def test_keys_in_order(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    assert list(found) == KEYS
    assert found["class"] in {"full-acyclic", "free-connex", "materialized", "cyclic"}
    for node in found["nodes"]:
        assert list(node) == [
            "name", "kind", "role", "payload", "bag", "interface", "children", "guard", "rule",
            "marginal", "relations", "key",
        ]  # fmt: skip


def test_references_resolve(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    names = [node["name"] for node in found["nodes"]]
    assert len(names) == len(set(names))
    assert found["root"] in names
    assert set(found["order"]) <= set(names)
    assert {component["top"] for component in found["components"]} <= set(names)
    for node in found["nodes"]:
        assert set(node["children"]) <= set(names)
        guard = node["guard"] or {}
        assert {each["node"] for each in guard.get("inputs", [])} <= set(names)
    relations = {each["number"]: each for each in found["relations"]}
    assert list(relations) == list(range(1, 1 + len(found["relations"])))
    for number, each in relations.items():
        assert list(each) == [
            "number", "kind", "name", "slot", "columns", "nodes", "stored", "exact", "numbers",
            "listed", "keys", "of", "inputs", "filters", "differences", "symmetries", "back",
            "used_by", "reads", "reason", "shared", "entries", "work",
        ]  # fmt: skip
        assert set(each["nodes"]) <= set(names)
        for node in found["nodes"]:
            assert (number in node["relations"]) == (node["name"] in each["nodes"])
        for difference in each["differences"]:
            lookups = [*difference["lookups"]]
            lookups += [source for one in difference["bindings"] for source in one["sources"]]
            assert all(number in relations[one["relation"]]["used_by"] for one in lookups)
    for cursor in found["cursors"]:
        assert "answers" in relations[cursor["relation"]]["reads"]


def test_choices_replay(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    assert compile_query(plan.query, choices=found["choices"]) == plan


def test_all_filters_are_placed(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    placed = sorted(one["expression"] for one in found["filters"])
    assert placed == sorted(found["query"]["filters"])
