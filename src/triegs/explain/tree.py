"""The join tree as text: every node's rule from the root down, its marginal to the right.

Single lines lead to children, double lines to inputs of a join. A node that two joins read is drawn
once. A subtree that would start too far to the right is drawn separately below.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from triegs.explain.lines import WIDTH, display_width, fold
from triegs.explain.notation import Notation, inputs_of, list_roots

#: Beyond this column a subtree is drawn below instead.
DEEPEST = 30
#: The largest column of marginals; a longer rule has its marginal on the next line.
FURTHEST = 48

_Pending = tuple[int, str, str]


class _Entry(NamedTuple):
    """A node's drawn rule; ``rest`` starts the lines that follow within the same node."""

    lines: list[str]
    marginal: str
    rest: str


def draw_tree(notation: Notation, width: int = WIDTH) -> list[str]:
    """The lines of the drawing.

    >>> from triegs.compiler import compile_query
    >>> from triegs.sparql.model import Atom, Form, Query
    >>> atoms = (Atom("?x", "<http://ex/a>", "?y"), Atom("?y", "<http://ex/c>", "?z"))
    >>> plan = compile_query(Query(Form.SELECT, ("?y", "?z"), atoms), root="y")
    >>> print(*draw_tree(Notation(plan)), sep=chr(10))
    V0(y) ← Aᵖ(y) · Cᵖ(y)
    ├─ A(x,y) ← a(x,y)   Aᵖ(y) = Σ_x A(x,y)
    └─ C(y,z) ← c(y,z)   Cᵖ(y) = Σ_z C(y,z)
    """
    drawing = _Drawing(notation, width)
    entries = drawing.draw()
    ends = [display_width(entry.lines[-1]) for entry in entries if entry.marginal]
    column = 3 + max((end for end in ends if end <= FURTHEST), default=0)
    lines: list[str] = []
    for entry in entries:
        lines += entry.lines
        end = display_width(lines[-1])
        if not entry.marginal:
            continue
        if end < column and column + display_width(entry.marginal) <= width:
            lines[-1] += " " * (column - end) + entry.marginal
        else:
            lines += fold(entry.marginal.split(), entry.rest, entry.rest + "  ", width)
    return lines


class _Drawing:
    def __init__(self, notation: Notation, width: int) -> None:
        self.notation = notation
        self.width = width
        self.nodes = notation.plan.nodes
        self.entries: list[_Entry] = []
        self.drawn: set[int] = set()
        self.waiting: deque[int] = deque(list_roots(notation.plan))

    def draw(self) -> list[_Entry]:
        while self.waiting:
            if self.entries:
                self.entries.append(_Entry([""], "", ""))
            stack: list[_Pending] = [(self.waiting.popleft(), "", "")]
            while stack:
                stack += reversed(self._draw_node(*stack.pop()))
        return self.entries

    def _draw_node(self, number: int, first: str, rest: str) -> list[_Pending]:
        """Draw one node; returns the nodes below it, with their line prefixes."""
        node = self.nodes[number]
        below = [(source.node, "╞═ ", "╘═ ") for source in inputs_of(node)]
        below += [(child, "├─ ", "└─ ") for child in node.children]
        elsewhere = "as above" if number in self.drawn else ""
        if not elsewhere and below and len(rest) > DEEPEST:
            self.waiting.append(number)
            elsewhere = "drawn below"
        if elsewhere:
            line = f"{first}{self.notation.marginal(node)}, {elsewhere}"
            self.entries.append(_Entry([line], "", rest))
            return []
        self.drawn.add(number)
        further = rest + ("│   " if below else "    ")
        factors = self.notation.factors(node)
        words = [f"{self.notation.view(node)} ←", factors[0], *(f"· {f}" for f in factors[1:])]
        is_root = self.notation.plan.groups is None and number == self.notation.plan.root
        marginal = "" if is_root else self.notation.marginal_rule(node)
        self.entries.append(_Entry(fold(words, first, further, self.width), marginal, further))
        last = len(below) - 1
        return [
            (lower, rest + (tee if i < last else corner), rest + ("│  " if i < last else "   "))
            for i, (lower, tee, corner) in enumerate(below)
        ]
