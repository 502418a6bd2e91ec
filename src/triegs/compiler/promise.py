"""The promise of a plan in words: the guarantee of its class, and conditions."""

from __future__ import annotations

from triegs.compiler.plan import Alias, Join, Measure, Payload, Plan, PlanClass, Role, Static
from triegs.sparql.model import expression_variables

PROMISES = {
    PlanClass.FULL_ACYCLIC: (
        "constant delay between answers; no answer is stored; an update costs the state it affects"
    ),
    PlanClass.FREE_CONNEX: (
        "constant delay between answers; no answer is stored: what the head does not show "
        "is summed into exact counts; an update costs the state it affects"
    ),
    PlanClass.MATERIALIZED: (
        "constant delay between answers; update cost and space include the materialised components"
    ),
    PlanClass.CYCLIC: (
        "constant delay between answers; update cost and space include the materialised bags"
    ),
}

SCALAR = "one exact number, read in constant time"

#: The bound holds with liveness only, one window width and no explicit deletes (CROWN, Lemma 6.9).
AMORTISED_ATOMS = 2


def describe_groups(plan: Plan) -> str:
    """What a query with aggregates keeps, and what an update costs."""
    assert plan.groups is not None
    sources = plan.groups.sources
    measures = {source.measure for source in sources}
    kept = "counts and sums"
    if measures & {Measure.VALUES, Measure.DISTINCT}:
        kept = "counts, sums and values"
    sentences = [f"the {kept} of each group are kept, and its row is computed when it is read"]
    extremes = {Measure.LOWEST, Measure.HIGHEST}
    if measures & extremes:
        if measures <= extremes:
            sentences = []
        sentences.append(
            "extremes are carried to each group: a change stops where the extreme stays, and one "
            "that goes is sought among the neighbours"
        )
    classes = {source.plan.plan_class for source in sources}
    if PlanClass.MATERIALIZED in classes or PlanClass.CYCLIC in classes:
        sentences.append("update cost and space include the materialised components")
    else:
        sentences.append("no answer is stored; an update costs the state it affects")
    if plan.query.windows and len(plan.query.atoms) == 1:
        sentences.append(
            "views are used because results are exact SPARQL terms; Engine.aggregate needs none, "
            "if doubles or 64-bit integers are enough"
        )
    return "; ".join(sentences)


def describe_promise(plan: Plan) -> str:
    """The promise of the plan's class, adjusted to this plan."""
    if plan.groups is not None:
        return describe_groups(plan)
    top = plan.nodes[plan.root]
    sentences = [PROMISES[plan.plan_class]]
    if top.role is Role.EXISTENTIAL:
        sentences = [PROMISES[plan.plan_class].replace("constant delay between answers", SCALAR)]
    if plan.filters:
        sentences.append("a filter during enumeration adds the answers it drops to the delay")
    if _only_liveness(plan) and _atoms_on_path(plan) <= AMORTISED_ATOMS:
        sentences.append(
            "updates are amortised constant while all data slides in one window "
            "and nothing is deleted explicitly"
        )
    return "; ".join(sentences)


def query_warnings(plan: Plan) -> tuple[str, ...]:
    """What a user should know before relying on the plan."""
    found = [text for component in plan.components for text in component.warnings]
    query = plan.query
    for expression in plan.filters:
        names = " ".join(expression_variables(expression))
        found.append(f"a filter on {names} spans several atoms and runs during enumeration")
    found += query.warnings
    if len(plan.components) > 1:
        found.append(
            f"disconnected: {len(plan.components)} components share no variable; "
            "the answers are their cross product"
        )
    return tuple(found)


def _only_liveness(plan: Plan) -> bool:
    """Whether all state is liveness: exact counts and rows that never expire have no amortised
    bound.
    """
    bare = (Payload.LIVENESS,)
    return all(n.payload == bare and not isinstance(n.guard, Static) for n in plan.nodes)


def _atoms_on_path(plan: Plan) -> int:
    """The most base atoms on a path from the root to a leaf."""
    longest = [0] * len(plan.nodes)
    for number, node in enumerate(plan.nodes):
        below = [longest[c] for c in node.children]
        if isinstance(node.guard, Join):
            below += [longest[source.node] for source in node.guard.inputs]
        longest[number] = max(below, default=0) + isinstance(node.guard, Alias)
    return longest[plan.root]
