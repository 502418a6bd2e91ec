"""All legal plans of a query side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triegs.compiler.plan import Plan
from triegs.explain.as_json import write_json
from triegs.explain.formats import Format
from triegs.explain.lines import fold
from triegs.explain.notation import inputs_of, list_roots, plain, tuple_of


def list_plans(
    plans: Sequence[Plan], chosen: Plan, output: Format = Format.TEXT, is_sample: bool = False
) -> str:
    """One line per plan, the chosen one marked; as JSON, a list of objects.

    A chosen plan that is not among the (sampled) plans is added at the end. Raises ``ValueError``
    for Mermaid and SVG, which draw single plans.
    """
    listed = list(plans)
    position = next((i for i, plan in enumerate(listed) if plan.nodes == chosen.nodes), None)
    if position is None:
        position = len(listed)
        listed.append(chosen)
    if output is Format.JSON:
        return write_json([_describe(plan, i == position) for i, plan in enumerate(listed)])
    if output is not Format.TEXT:
        raise ValueError(f"plans are listed as text or json, not as {output.value}")
    return "\n".join(_table(listed, position, is_sample)) + "\n"


def _describe(plan: Plan, is_chosen: bool) -> dict[str, Any]:
    return {
        "chosen": is_chosen,
        "root": [list(component.root) for component in plan.components],
        "cost": plan.cost,
        "nodes": len(plan.nodes),
        "choices": [list(picks) for picks in plan.choices],
        "tree": outline(plan),
    }


def _table(plans: Sequence[Plan], chosen: int, is_sample: bool) -> list[str]:
    many = "1 legal plan" if len(plans) == 1 else f"{len(plans)} legal plans"
    note = ", a random sample of more" if is_sample else ""
    lines = [f"{many}{note}; → marks the chosen one", ""]
    rows = [("", "cost", "nodes", "root", "join tree, by the variables of its nodes")]
    rows += [
        (str(i + 1), f"{plan.cost:g}", str(len(plan.nodes)), _root(plan), outline(plan))
        for i, plan in enumerate(plans)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    widths[3] = min(widths[3], 20)
    for i, row in enumerate(rows):
        cells = [row[0].rjust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2])]
        mark = "→ " if i == chosen + 1 else "  "
        first = mark + "  ".join([*cells, row[3].ljust(widths[3]), ""])
        rest = " " * (sum(widths) + 10)
        words = row[4].split(" ")
        if len(row[3]) > widths[3]:
            lines.append(first.rstrip())
            first = rest
        lines += fold(words, first, rest)
    return lines


def _root(plan: Plan) -> str:
    roots = [" ".join(map(plain, component.root)) or "–" for component in plan.components]
    return " | ".join(roots) or "–"


def outline(plan: Plan) -> str:
    """The join tree in one line: ``(z)[(z,y) (v,z)[(v,x)] (z,w)]``."""
    texts: list[str] = []
    # Children come first, so their texts exist when a node needs them.
    for node in plan.nodes:
        below = [texts[source.node] for source in inputs_of(node)]
        below += [texts[child] for child in node.children]
        texts.append(tuple_of(node.bag) + (f"[{' '.join(below)}]" if below else ""))
    return " ".join(texts[number] for number in list_roots(plan))
