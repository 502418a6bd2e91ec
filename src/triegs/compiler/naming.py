"""Names of nodes: `V0` is the root, `V1`, `V2`, … are the views below it from the top down, `B1`, …
the materialised joins. A leaf takes the initial of its label: `L` for likedBy, `H` for hasCreator,
then `H2`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import Alias, Digits, Extreme, Join, Static, WholeDigit


def local_name(term: str) -> str:
    """The readable end of an IRI or any other term.

    >>> local_name("<http://example.org/ns#hasReply>"), local_name('"5"^^<http://w3/integer>')
    ('hasReply', '"5"')
    """
    if term.startswith('"'):
        return term.partition("^^")[0]
    return re.split(r"[/#:]", term.strip("<>").rstrip("/#:"))[-1] or term


def name_nodes(drafts: Sequence[Draft], root: int) -> list[str]:
    """One name per rule, unique within the plan."""
    names = ["" for _ in drafts]
    counts: dict[str, int] = {}

    def numbered(stem: str, first: int) -> str:
        counts[stem] = counts.get(stem, first - 1) + 1
        return f"{stem}{counts[stem]}"

    for number in _from_top(drafts, root):
        draft = drafts[number]
        if number == root:
            names[number] = "V0"
        elif isinstance(draft.guard, Join):
            names[number] = numbered("B", 1)
        elif draft.children:
            names[number] = numbered("V", 1)
    for number, draft in enumerate(drafts):
        if not names[number]:
            stem = _initial(draft)
            counts[stem] = counts.get(stem, 0) + 1
            names[number] = stem if counts[stem] == 1 else f"{stem}{counts[stem]}"
    return names


def _initial(draft: Draft) -> str:
    if isinstance(draft.guard, Static):
        return "Values"
    if isinstance(draft.guard, WholeDigit):
        return "Whole"
    if isinstance(draft.guard, Digits):
        return "Digits"
    if isinstance(draft.guard, Extreme):
        return "Highest" if draft.guard.is_last else "Lowest"
    label = None
    if isinstance(draft.guard, Alias):
        label = draft.guard.event_label or draft.guard.label
    if label is not None:
        letters = re.sub(r"[^A-Za-z]", "", local_name(label))
        # V and B are reserved for views and joins.
        return letters[:1].upper() if letters and letters[0] not in "vVbB" else "Leaf"
    return "Triples"


def _from_top(drafts: Sequence[Draft], root: int) -> list[int]:
    order: list[int] = []
    queue = [root]
    while queue:
        number = queue.pop(0)
        if number in order:
            continue
        order.append(number)
        guard = drafts[number].guard
        queue += drafts[number].children
        queue += [source.node for source in guard.inputs] if isinstance(guard, Join) else []
    return order
