"""The cost model: the expected cost of a plan per update, the sum of three terms.

- **stored relations**: a private index of live tuples (weight 3), a map of exact marginals (2), a
  product of several factors (1), an atom's selection by filter or repeated variable (2). Other
  leaves store nothing: they read the shared base index.
- **base indexes**: 1 for every distinct (relation, key columns) that the plan needs.
- **expected fan-out**: for every atom, the bindings that one changed tuple is expected to touch
  on its way to the root. A changed child entry meets `FAN_OUT` guard tuples for each variable that
  it does not bind, and every second one changes in turn. This penalises deep trees: beyond two base
  atoms on a root-to-leaf path, sliding windows lose amortised constant updates.

Only costs of plans of one component are comparable. Statistics of the graph are not used: the same
query compiles to the same plan everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import Alias, Join, Static

FAN_OUT = 4.0
CHANGES_ONE_IN = 2.0
LIVE_INDEX, EXACT_MAP, PRODUCT, BASE_INDEX = 3.0, 2.0, 1.0, 1.0
#: Keeps the cost of long paths within the range of floats.
LARGEST = 1e30


def plan_cost(drafts: Sequence[Draft], top: int, head: frozenset[str]) -> float:
    """The expected cost of one component's rules."""
    stored = sum(_stored(draft, head) for draft in drafts)
    return stored + BASE_INDEX * len(_base_indexes(drafts)) + _fan_out(drafts, top)


def _stored(draft: Draft, head: frozenset[str]) -> float:
    if isinstance(draft.guard, Join):
        return EXACT_MAP * draft.guard.width
    selected = isinstance(draft.guard, Alias) and draft.guard.is_selected
    if not draft.children:
        return EXACT_MAP if selected else 0.0
    if draft.guard is None:
        return PRODUCT if len(draft.children) > 1 else 0.0
    return LIVE_INDEX if head.issuperset(draft.bag) else EXACT_MAP


def _base_indexes(drafts: Sequence[Draft]) -> set[tuple[object, ...]]:
    wanted: set[tuple[object, ...]] = set()
    for draft in drafts:
        if isinstance(draft.guard, Alias):
            atom = draft.guard.atom
            for interface in [draft.interface, *(drafts[c].interface for c in draft.children)]:
                columns = tuple(i for i, term in enumerate(atom) if term in interface)
                wanted.add((draft.guard.label, columns))
    return wanted


def _fan_out(drafts: Sequence[Draft], top: int) -> float:
    """Walks down from the top; `above` is the cost, above a node, of one change of its marginal."""
    total = 0.0
    stack = [(top, 0.0)]
    while stack:
        number, above = stack.pop()
        draft = drafts[number]
        changed = 1.0 + above / CHANGES_ONE_IN
        if isinstance(draft.guard, Alias | Static | Join):
            total += changed
        for child in draft.children:
            open_variables = len(draft.bag) - len(drafts[child].interface)
            stack.append((child, min(changed * FAN_OUT**open_variables, LARGEST)))
        if isinstance(draft.guard, Join):
            # A change of an input meets tuples of the others on every variable it leaves open.
            names = len(draft.guard.variables)
            stack += [
                (source.node, min(changed * FAN_OUT ** (names - len(source.variables)), LARGEST))
                for source in draft.guard.inputs
            ]
    return total
