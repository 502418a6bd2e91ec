"""The JSON form has the documented keys, in order, and refers only to what is there."""

from __future__ import annotations

import json

from triegs.compiler import Plan, compile_query
from triegs.explain import explain

KEYS = [
    "version", "class", "promise", "query", "components", "root", "nodes", "order", "filters",
    "indexes", "access_paths", "warnings", "choices", "cost",
]  # fmt: skip


def test_keys_in_order(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    assert list(found) == KEYS
    assert found["class"] in {"full-acyclic", "free-connex", "materialized", "cyclic"}
    for node in found["nodes"]:
        assert list(node) == [
            "name", "kind", "role", "payload", "bag", "interface", "children", "guard", "rule",
            "marginal", "stores", "key",
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
        assert {part["node"] for part in guard.get("inputs", [])} <= set(names)
    for path in found["access_paths"]:
        assert path["node"] in names
        assert path["role"] in {"primary", "secondary", "tertiary"}
        assert 0 <= path["index"] < len(found["indexes"])
    assert sum(index["uses"] for index in found["indexes"]) == len(found["access_paths"])


def test_choices_replay(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    assert compile_query(plan.query, choices=found["choices"]) == plan


def test_all_filters_are_placed(plan: Plan) -> None:
    found = json.loads(explain(plan, "json"))
    placed = sorted(one["expression"] for one in found["filters"])
    assert placed == sorted(found["query"]["filters"])
