"""What the views of a plan are in that plan, for those who explain it.

A view knows no variable: plans share it, and each has its own names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from triegs.compiler.plan import Alias, Static

if TYPE_CHECKING:
    from triegs.maintain.model import View


@dataclass(frozen=True, slots=True)
class Meaning:
    """A view in one plan: the node that it is of, by name; its variables, which are those of its
    columns or, of a rule, of its registers; and the atom or `VALUES` block that it holds. Of a rule
    also the atoms that its inputs see, where they are streams.
    """

    node: str
    variables: tuple[str, ...]
    guard: Alias | Static | None = None
    atoms: tuple[Alias | None, ...] = ()


#: In the order in which they were noted; a plan may use one view in several places.
Held = dict["View", dict[Meaning, None]]
