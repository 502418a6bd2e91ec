"""The role of each view in a plan, for explanations.

A view knows no variables: plans share it, and each has its own names.
"""

from __future__ import annotations

from dataclasses import dataclass

from triegs.compiler.plan import Alias, Static
from triegs.errors import MultiplicityOverflow
from triegs.maintain.model import View

TOO_LARGE = "a count or sum that the query keeps does not fit 64 bits"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The role of a view in one plan: the name of its node; its variables, which are those of its
    columns or, for a rule, of its registers; and the atom or `VALUES` block that it holds. For a
    rule also the atoms of those inputs that are streams.
    """

    node: str
    variables: tuple[str, ...]
    guard: Alias | Static | None = None
    atoms: tuple[Alias | None, ...] = ()


#: In the order in which they were recorded; a plan may use one view in several places.
Held = dict[View, dict[Meaning, None]]


def describe_overflow(view: View, held: Held) -> MultiplicityOverflow:
    """The error for a count that does not fit, by the names that ``explain`` shows."""
    meaning = next(iter(held.get(view, {})), None)
    if meaning is None:
        return MultiplicityOverflow(TOO_LARGE, view.name)
    shown = f"{meaning.node}({', '.join(meaning.variables)})"
    message = f"a count or sum of {shown}, as explain() names it, does not fit 64 bits"
    return MultiplicityOverflow(message, meaning.node)
