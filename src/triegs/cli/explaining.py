"""``triegs explain``: from the options to the text that is printed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import typer

from triegs.cli.queries import check_root, read_query
from triegs.compiler import compile_query, legal_plans
from triegs.explain import Format, explain
from triegs.explain.listing import list_plans

#: Legal plans listed; of more, a sample of this many.
LISTED = 200


def run_explain(
    path: Path | None,
    text: str | None,
    prefixes: Collection[str],
    output: str,
    root: str | None,
    keep: Sequence[str],
    all_plans: bool,
) -> str:
    if all_plans and output not in (Format.TEXT.value, Format.JSON.value):
        raise typer.BadParameter("--all-plans lists as text or json", param_hint="--format")
    query = read_query(path, text, prefixes)
    check_root(query, root)
    chosen = compile_query(query, root=root, keep=keep)
    if not all_plans:
        return explain(chosen, output)
    plans, is_sample = legal_plans(query, keep=keep, limit=LISTED)
    if root is not None:
        wanted = (f"?{root.removeprefix('?')}",)
        plans = [plan for plan in plans if any(c.root == wanted for c in plan.components)]
    return list_plans(plans, chosen, Format(output), is_sample)
