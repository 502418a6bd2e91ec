"""Names for nodes, close to the report's: `V0` is the root, `V1`, `V2`, … the views below it from
the top down, `B1`, … the materialised joins, and a leaf takes the initial of its label (`L` for
likedBy, `H` for hasCreator, then `H2`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import Alias, Join, Static


def local_name(term: str) -> str:
    """The part of an IRI, or of any term, that people read.

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

    for place in _from_top(drafts, root):
        draft = drafts[place]
        if place == root:
            names[place] = "V0"
        elif isinstance(draft.guard, Join):
            names[place] = numbered("B", 1)
        elif draft.children:
            names[place] = numbered("V", 1)
    for place, draft in enumerate(drafts):
        if not names[place]:
            stem = _initial(draft)
            counts[stem] = counts.get(stem, 0) + 1
            names[place] = stem if counts[stem] == 1 else f"{stem}{counts[stem]}"
    return names


def _initial(draft: Draft) -> str:
    if isinstance(draft.guard, Static):
        return "Values"
    if isinstance(draft.guard, Alias) and draft.guard.label is not None:
        letters = re.sub(r"[^A-Za-z]", "", local_name(draft.guard.label))
        # V and B are taken by views and joins.
        return letters[:1].upper() if letters and letters[0] not in "vVbB" else "Leaf"
    return "Triples"


def _from_top(drafts: Sequence[Draft], root: int) -> list[int]:
    order: list[int] = []
    queue = [root]
    while queue:
        place = queue.pop(0)
        if place in order:
            continue
        order.append(place)
        guard = drafts[place].guard
        queue += drafts[place].children
        queue += [source.node for source in guard.inputs] if isinstance(guard, Join) else []
    return order
