"""A plan as a Mermaid flowchart, for Markdown pages that render it.

Shapes by kind: a guarded view is a box, a product a stadium, a leaf a cylinder, a join a box with
double sides. Solid lines lead to children and carry the interface; dotted lines lead to inputs of a
join. Below its rule, a node lists the relations of the program that store it.
"""

from __future__ import annotations

from collections.abc import Sequence

from triegs.compiler.plan import Use
from triegs.explain.notation import Kind, Notation, inputs_of, kind_of, plain, top_down
from triegs.explain.program import Program
from triegs.maintain.lowered import Lowered

SHAPES = {
    Kind.GUARDED: ("[", "]"),
    Kind.PRODUCT: ("([", "])"),
    Kind.LEAF: ("[(", ")]"),
    Kind.JOIN: ("[[", "]]"),
}
STYLES = (
    "classDef witness fill:#e3f0fb,stroke:#1f5f99,color:#14324d",
    "classDef existential fill:#fdf1dc,stroke:#a86a12,color:#4d3208",
)
#: As Mermaid entities; a plain hash or semicolon would start or end one.
ESCAPES = str.maketrans(
    {char: f"#{ord(char)};" for char in "#;&<>\"'`\\{}[]|"} | {"\n": " ", "\r": " ", "\t": " "}
)


def escape(text: str) -> str:
    """
    >>> escape('"a" <b>')
    '#34;a#34; #60;b#62;'
    """
    return text.translate(ESCAPES)


def explain_mermaid(lowered: Lowered) -> str:
    plan = lowered.plan
    notation = Notation(plan)
    program = Program(notation, lowered)
    lines = ["flowchart TD"]
    for number in top_down(plan):
        node = plan.nodes[number]
        opening, closing = SHAPES[kind_of(node)]
        factors = notation.factors(node)
        kept = map(escape, program.list_kept(node.name))
        label = "<br/>".join([f"{escape(notation.view(node))} ←", *_rows(factors), *kept])
        lines.append(f'n{number}{opening}"{label}"{closing}:::{node.role.value}')
    for number in top_down(plan):
        node = plan.nodes[number]
        for source in inputs_of(node):
            use = "" if source.use is Use.COUNT else "exists "
            label = use + _interface(source.variables)
            lines.append(f'n{number} -. "{label}" .- n{source.node}')
        lines += [
            f'n{number} -- "{_interface(plan.nodes[child].interface)}" --- n{child}'
            for child in node.children
        ]
    lines += STYLES
    return "\n    ".join(lines) + "\n"


def _interface(variables: Sequence[str]) -> str:
    return escape(" ".join(map(plain, variables))) or "∅"


def _rows(factors: Sequence[str], width: int = 40) -> list[str]:
    """Factors in rows of about ``width`` characters."""
    rows = [factors[0]]
    for factor in factors[1:]:
        if len(rows[-1]) + len(factor) > width:
            rows.append(f"· {factor}")
        else:
            rows[-1] += f" · {factor}"
    return [escape(row) for row in rows]
