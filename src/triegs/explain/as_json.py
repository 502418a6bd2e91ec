"""A plan as JSON.

The object has these keys, in this order. Terms and variables are written as in the query model
(``?x``, N-Triples), nodes are referred to by name, relations by number.

``version``       of this format: 2; new keys may be added without a new version
``class``         ``full-acyclic``, ``free-connex``, ``materialized`` or ``cyclic``
``promise``       what the plan promises, in words
``query``         ``form``, ``head``, ``atoms`` (triples), ``values`` (``variables``, number of
                  ``rows``), ``filters``, ``duplicates``, ``limit``, ``offset``, ``grouping``,
                  ``windows`` (by name), ``graphs`` (of each atom, if any reads a window), ``text``
``components``    ``class``, ``atoms`` (indexes in the query), ``top`` (a node), ``root`` (its
                  variables), ``choices``, ``cost``, ``warnings``
``root``          the node at the top
``nodes``         children first: ``name``, ``kind``, ``role``, ``payload``, ``bag``, ``interface``,
                  ``children``, ``guard``, ``rule``, ``marginal``, ``relations`` (of the program),
                  ``key``
``order``         the nodes with a cursor, in the order of enumeration
``filters``       ``expression``, ``variables``, ``runs`` (``atom``, ``values``, ``join``,
                  ``enumeration``, ``compilation``), ``node`` (or null)
``counts``        what ``count()``, ``support()`` and positions cost, in words
``relations``     the lowered program, in the order of maintenance: ``number`` (by which others
                  refer to it), ``kind``, ``name``, ``slot``, ``columns``, ``nodes``, ``stored``,
                  ``exact``, ``numbers`` (counts: null, ``answers`` or ``rows``), ``listed``,
                  ``keys`` (whether new and removed keys are listed), ``of``, ``inputs``,
                  ``filters``, ``differences``, ``symmetries`` (the number of variable renamings
                  that change nothing), ``back``, ``used_by``, ``reads`` (whether answers or changes
                  are read from it), ``reason``; of a live engine also ``shared`` (names of
                  queries), ``entries`` and ``work`` (``seeds``, ``emitted``, ``changed``,
                  ``seconds``), else null
``cursors``       of the enumeration: ``relation``, ``binds``
``warnings``      in words
``choices``       picks per component, to replay the compilation
``cost``          by the cost model

A guard is null for a product, else has a ``kind``: ``atom`` (with ``atom``), ``values`` (with
``variables``, ``rows``) or ``join`` (with ``inputs``: ``node``, ``use``, ``variables``; and
``width``), and its ``filters``.

An input has ``relation`` (null for an epoch's changes of an atom), ``atom`` (or null),
``variables``, ``use`` (``count``, ``presence``) and ``fixed``. A difference is the effect of a
change of an input: ``input`` (its index), ``side`` (``both``; in a symmetric rule ``before`` or
``now``), ``lookups``, ``filters``, ``bindings`` (``variable``, ``sources``, ``filters`` and
``range``, those of the filters that an index by value finds; one source is scanned, several are
intersected). A lookup or source has ``relation``, ``variables`` and
``before`` (whether it is read as of before the epoch). At most 64 differences are listed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from triegs.compiler.plan import Alias, Digits, Extreme, Guard, Static, WholeDigit
from triegs.explain.expressions import write_column, write_expression
from triegs.explain.facts import place_filters
from triegs.explain.notation import Notation, kind_of
from triegs.explain.program import REASONS, Program, describe_totals
from triegs.maintain.lowered import Difference, Input, Lookup, Lowered, Relation
from triegs.sparql.model import Expression, Grouping, Query, expression_variables

VERSION = 2


def explain_json(lowered: Lowered) -> str:
    return write_json(describe_plan(lowered))


def write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def describe_plan(lowered: Lowered) -> dict[str, Any]:
    """The plan as the object that this module's docstring describes."""
    plan = lowered.plan
    notation = Notation(plan)
    program = Program(notation, lowered)
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
        "nodes": _nodes(program, names),
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
        "counts": describe_totals(lowered),
        "relations": [
            _relation(program, number, relation)
            for number, relation in enumerate(lowered.relations, 1)
        ],
        "cursors": [
            {"relation": level.relation + 1, "binds": list(level.binds)} for level in lowered.levels
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
        "order_by": [
            {"expression": write_expression(key.expression), "direction": key.direction.value}
            for key in query.order
        ],
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


def _nodes(program: Program, names: Sequence[str]) -> list[dict[str, Any]]:
    notation = program.notation
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
            "relations": [index + 1 for index in program.of_node.get(node.name, ())],
            "key": node.key,
        }
        for node in notation.plan.nodes
    ]


def _relation(program: Program, number: int, relation: Relation) -> dict[str, Any]:
    work, readers = relation.work, program.readers[number - 1]
    is_live = relation.entries is not None or work is not None
    return {
        "number": number,
        "kind": relation.kind.value,
        "name": program.title(relation),
        "slot": relation.slot,
        "columns": list(relation.columns),
        "nodes": list(relation.nodes),
        "stored": relation.is_stored,
        "exact": relation.is_exact,
        "numbers": ("rows" if relation.has_rows else "answers") if relation.has_counts else None,
        "listed": relation.is_listed,
        "keys": relation.lists_keys,
        "of": _refer(relation.of),
        "inputs": [_input(each) for each in relation.inputs],
        "filters": _expressions(relation.filters),
        "differences": [_difference(each) for each in relation.differences],
        "symmetries": relation.symmetries,
        "back": _refer(relation.back),
        "used_by": [each for each in readers if isinstance(each, int)],
        "reads": [each for each in readers if isinstance(each, str)],
        "reason": program.reason(relation) or REASONS.get(relation.kind, ""),
        "shared": list(relation.shared) if is_live else None,
        "entries": relation.entries,
        "work": None if work is None else asdict(work),
    }


def _refer(index: int | None) -> int | None:
    return None if index is None else index + 1


def _input(read: Input) -> dict[str, Any]:
    return {
        "relation": _refer(read.relation),
        "atom": None if read.atom is None else list(read.atom.atom),
        "variables": list(read.variables),
        "use": read.reads.value,
        "fixed": read.is_fixed,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "input": difference.input,
        "side": difference.side.value,
        "lookups": [_lookup(each) for each in difference.lookups],
        "filters": _expressions(difference.filters),
        "bindings": [
            {
                "variable": each.variable,
                "sources": [_lookup(source) for source in each.sources],
                "filters": _expressions(each.filters),
                "range": _expressions(each.range),
            }
            for each in difference.bindings
        ],
    }


def _lookup(lookup: Lookup) -> dict[str, Any]:
    return {
        "relation": lookup.relation + 1,
        "variables": list(lookup.variables),
        "before": lookup.is_old,
    }


def _guard(guard: Guard, names: Sequence[str]) -> dict[str, Any]:
    filters = _expressions(guard.filters)
    if isinstance(guard, Alias):
        return {"kind": "atom", "atom": list(guard.atom), "filters": filters}
    if isinstance(guard, Static):
        rows = len(guard.values.rows)
        variables = list(guard.variables)
        return {"kind": "values", "variables": variables, "rows": rows, "filters": filters}
    if isinstance(guard, WholeDigit | Digits):
        kind = "digits" if isinstance(guard, Digits) else "whole digit"
        return {"kind": kind, "variables": [guard.variable], "filters": filters}
    if isinstance(guard, Extreme):
        kind = "highest" if guard.is_last else "lowest"
        return {"kind": kind, "variables": [guard.variable], "filters": filters}
    inputs = [
        {"node": names[each.node], "use": each.use.value, "variables": list(each.variables)}
        for each in guard.inputs
    ]
    return {"kind": "join", "inputs": inputs, "width": guard.width, "filters": filters}


def _expressions(expressions: Sequence[Expression]) -> list[str]:
    return [write_expression(expression) for expression in expressions]
