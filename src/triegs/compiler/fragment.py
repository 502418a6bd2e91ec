"""Which plans the compiled core runs, and which are left to the general program.

The compiled core (`triegs.maintain.lowering`) takes a plan by variables: every node is over one
label, or over the rows of one variable, and shares at most one variable with each neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

from triegs.compiler.plan import Alias, Guard, Node, Plan, Static


class NotCompiled(Exception):
    """The plan has something that the kernel does not know; the general program runs it."""


def check_plan(plan: Plan) -> None:
    """Raise `NotCompiled` for a plan that is outside the fragment; see the module's text."""
    for node in plan.nodes:
        if not _is_known(node, [plan.nodes[c].interface for c in node.children]):
            raise NotCompiled(f"the rule of {node.name}")


def _is_known(node: Node, below: Sequence[tuple[str, ...]]) -> bool:
    guard = node.guard
    if any(len(interface) > 1 for interface in (node.interface, *below)):
        return False
    if not node.bag:  # one assertion, or components side by side
        return bool(below) if guard is None else _is_plain(guard) and not below
    if () in below:
        return False
    if guard is None or isinstance(guard, Static):
        return len(node.bag) == 1 and (_is_plain(guard) if guard else bool(below))
    return _is_plain(guard)


def _is_plain(guard: Guard) -> bool:
    if isinstance(guard, Alias):
        return guard.label is not None and not guard.filters
    return isinstance(guard, Static) and not guard.filters


def is_compiled(plan: Plan) -> bool:
    """Whether the compiled core runs a plan."""
    try:
        check_plan(plan)
    except NotCompiled:
        return False
    return True
