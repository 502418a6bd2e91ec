"""A plan as JSON, for programs.

The object has these keys, in this order; terms and variables are written as in the query model
(``?x``, N-Triples), nodes are referred to by name, indexes by their place in the list.

``version``       of this shape: 1; new keys may come without a new version
``class``         ``full-acyclic``, ``free-connex``, ``materialized`` or ``cyclic``
``promise``       what the plan promises, in words
``query``         ``form``, ``head``, ``atoms`` (triples), ``values`` (``variables``, ``rows``: how
                  many), ``filters``, ``duplicates``, ``limit``, ``offset``, ``grouping``,
                  ``windows`` (by name), ``graphs`` (of each atom, if any reads a window), ``text``
``components``    ``class``, ``atoms`` (places in the query), ``top`` (a node), ``root`` (its
                  variables), ``choices``, ``cost``, ``warnings``
``root``          the node at the top
``nodes``         children first: ``name``, ``kind``, ``role``, ``payload``, ``bag``, ``interface``,
                  ``children``, ``guard``, ``rule``, ``marginal``, ``stores``, ``key``
``order``         the nodes with a cursor, in the order of enumeration
``filters``       ``expression``, ``variables``, ``runs`` (``atom``, ``values``, ``join``,
                  ``enumeration``, ``compilation``), ``node`` (or null)
``indexes``       ``relation``, ``columns``, ``base``, ``node`` (that keeps it, or null), ``uses``
``access_paths``  ``node``, ``role`` (``primary``, ``secondary``, ``tertiary``), ``index``,
                  ``reason``
``warnings``      in words
``choices``       picks per component, to replay the compilation
``cost``          by the cost model

A guard is null for a product, else has a ``kind``: ``atom`` (with ``atom``), ``values`` (with
``variables``, ``rows``) or ``join`` (with ``inputs``: ``node``, ``use``, ``variables``; and
``width``), and its ``filters``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from triegs.compiler.plan import Alias, Guard, Plan, Static
from triegs.explain.expressions import write_column, write_expression
from triegs.explain.facts import describe_storage, place_filters
from triegs.explain.notation import Notation, kind_of
from triegs.sparql.model import Expression, Grouping, Query, expression_variables

VERSION = 1


def explain_json(plan: Plan) -> str:
    return write_json(describe_plan(plan))


def write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def describe_plan(plan: Plan) -> dict[str, Any]:
    """The plan as the object that this module's text describes."""
    notation = Notation(plan)
    names = [node.name for node in plan.nodes]
    return {
        "version": VERSION,
        "class": plan.plan_class.value,
        "promise": plan.promise,
        "query": _query(plan.query),
        "components": [
            {
                "class": component.plan_class.value,
                "atoms": list(component.atoms),
                "top": names[component.top],
                "root": list(component.root),
                "choices": list(component.choices),
                "cost": component.cost,
                "warnings": list(component.warnings),
            }
            for component in plan.components
        ],
        "root": names[plan.root],
        "nodes": _nodes(notation, names),
        "order": [names[number] for number in plan.order],
        "filters": [
            {
                "expression": write_expression(placed.expression),
                "variables": list(expression_variables(placed.expression)),
                "runs": placed.runs.value,
                "node": None if placed.node is None else names[placed.node],
            }
            for placed in place_filters(plan)
        ],
        "indexes": [
            {
                "relation": index.relation,
                "columns": list(index.columns),
                "kind": index.kind.value,
                "node": None if index.stored_for is None else names[index.stored_for],
                "uses": len(notation.users[number]),
            }
            for number, index in enumerate(plan.indexes)
        ],
        "access_paths": [
            {
                "node": names[path.node],
                "role": path.role.value,
                "index": path.index,
                "reason": path.reason,
            }
            for path in plan.access_paths
        ],
        "warnings": list(plan.warnings),
        "choices": [list(picks) for picks in plan.choices],
        "cost": plan.cost,
    }


def _query(query: Query) -> dict[str, Any]:
    return {
        "form": query.form.value,
        "head": list(query.head),
        "atoms": [list(atom) for atom in query.atoms],
        "values": [
            {"variables": list(block.variables), "rows": len(block.rows)} for block in query.values
        ],
        "filters": _expressions(query.filters),
        "duplicates": query.duplicates.value,
        "limit": query.limit,
        "offset": query.offset,
        "grouping": None if query.grouping is None else _grouping(query.grouping),
        "windows": {name: str(window) for name, window in query.windows},
        "graphs": list(query.graphs),
        "text": query.text,
    }


def _grouping(grouping: Grouping) -> dict[str, Any]:
    return {
        "keys": [write_column(column) for column in grouping.keys],
        "columns": [write_column(column) for column in grouping.columns],
        "having": _expressions(grouping.having),
    }


def _nodes(notation: Notation, names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": node.name,
            "kind": kind_of(node).value,
            "role": node.role.value,
            "payload": [payload.value for payload in node.payload],
            "bag": list(node.bag),
            "interface": list(node.interface),
            "children": [names[child] for child in node.children],
            "guard": None if node.guard is None else _guard(node.guard, names),
            "rule": notation.rule(node),
            "marginal": notation.marginal_rule(node),
            "stores": describe_storage(notation, number),
            "key": node.key,
        }
        for number, node in enumerate(notation.plan.nodes)
    ]


def _guard(guard: Guard, names: Sequence[str]) -> dict[str, Any]:
    filters = _expressions(guard.filters)
    if isinstance(guard, Alias):
        return {"kind": "atom", "atom": list(guard.atom), "filters": filters}
    if isinstance(guard, Static):
        rows = len(guard.values.rows)
        variables = list(guard.variables)
        return {"kind": "values", "variables": variables, "rows": rows, "filters": filters}
    inputs = [
        {"node": names[part.node], "use": part.use.value, "variables": list(part.variables)}
        for part in guard.inputs
    ]
    return {"kind": "join", "inputs": inputs, "width": guard.width, "filters": filters}


def _expressions(expressions: Sequence[Expression]) -> list[str]:
    return [write_expression(expression) for expression in expressions]
