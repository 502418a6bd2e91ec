"""A plan as a standalone SVG picture: boxes sized to their text, lines with interfaces.

Colour shows the role of a node, the outline its kind. Text in boxes is monospaced, so that its size
is known without the font.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil

from triegs.compiler.plan import Node, Plan, Role
from triegs.explain.facts import CLASSES
from triegs.explain.layout import DROP, Box, Layout, Link, Point, lay_out
from triegs.explain.lines import display_width
from triegs.explain.notation import Kind, Notation, kind_of
from triegs.explain.program import Program
from triegs.maintain.lowered import Lowered

MARGIN = 28.0
#: The most width of a monospaced letter, as a fraction of the font size.
LETTER = 0.62
TITLE, RULE, NOTE = 15.0, 13.0, 11.0
PAD, LEADING = 12.0, 1.4
#: Letters per line of a box.
LONGEST = 36
NARROWEST = 620.0

FILLS = {Role.WITNESS: "#e3f0fb", Role.EXISTENTIAL: "#fdf1dc"}
STROKES = {Role.WITNESS: "#1f5f99", Role.EXISTENTIAL: "#a86a12"}
KINDS = {
    Kind.GUARDED: "guarded view",
    Kind.PRODUCT: "product of children",
    Kind.LEAF: "leaf: reads the base",
    Kind.JOIN: "materialised join",
}
STYLE = """
    .plain { font-family: "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif }
    .fixed { font-family: "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace }
    .fixed { white-space: pre }
"""

_Line = tuple[str, float, str, str]


def break_text(text: str, limit: int) -> list[str]:
    """Lines of at most ``limit`` letters, broken after a space, comma or bracket if possible.

    >>> break_text("hasReply(v,z)", 12)
    ['hasReply(v,', 'z)']
    """
    lines: list[str] = []
    line = ""
    for element in re.findall(r"(?:[·←] )?(?:[^\s,/#(]|,(?=\d{3}))*[\s,/#(]?", text):
        if line and display_width((line + element).rstrip()) > limit:
            lines.append(line)
            line = ""
        line += element
        while display_width(line.rstrip()) > limit:
            cut = limit
            while display_width(line[:cut]) > limit:
                cut -= 1
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line] if line or not lines else lines


def break_factors(factors: Sequence[str], limit: int) -> list[str]:
    """The right side of a rule in lines, broken between factors if they fit a line.

    >>> break_factors(["hasReply(v,z)", "Hᵖ(v)", "Lᵖ(z)"], 18)
    ['← hasReply(v,z)', '· Hᵖ(v) · Lᵖ(z)']
    """
    lines: list[str] = []
    for i, factor in enumerate(factors):
        element = f"{'·' if i else '←'} {factor}"
        if lines and display_width(f"{lines[-1].rstrip()} {element}") <= limit:
            lines[-1] = f"{lines[-1].rstrip()} {element}"
        else:
            lines += break_text(element, limit)
    return lines


def explain_svg(lowered: Lowered) -> str:
    plan = lowered.plan
    notation = Notation(plan)
    layout, texts = arrange(Program(notation, lowered))
    width = max(layout.width + 2 * MARGIN, NARROWEST)
    head = _head_lines(plan, width)
    top = MARGIN + _height(head) + 2 * MARGIN
    legend = _legend(plan, width)
    below = top + layout.height + 2 * MARGIN
    foot = _foot_lines(notation, width)
    foot_top = below + legend[1] + (MARGIN / 2 if foot else 0)
    height = foot_top + _height(foot) + MARGIN
    left = (width - layout.width) / 2
    title = f"Plan of class {plan.plan_class.value}"
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *_write(head, MARGIN, MARGIN),
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *(_line(link) for link in layout.links),
        *_tags(layout),
        *(
            element
            for number, box in layout.boxes.items()
            for element in _box(plan.nodes[number], box, texts[number])
        ),
        "</g>",
        f'<g transform="translate({MARGIN} {below:.1f})">',
        *legend[0],
        "</g>",
        *_write(foot, MARGIN, foot_top),
        "</svg>",
    ]
    return "\n".join(elements) + "\n"


def arrange(program: Program) -> tuple[Layout, list[list[_Line]]]:
    """The layout of all boxes and lines, and the text of each box by node."""
    plan = program.notation.plan
    texts = [_box_lines(program, number) for number in range(len(plan.nodes))]
    return lay_out(plan, [_size(lines) for lines in texts], NOTE * LETTER), texts


def _box_lines(program: Program, number: int) -> list[_Line]:
    notation = program.notation
    node = notation.plan.nodes[number]
    title = break_text(notation.view(node), LONGEST)
    rule = break_factors(notation.factors(node), LONGEST)
    payload = " + ".join(payload.value for payload in node.payload)
    small = int(LONGEST * RULE / NOTE)
    notes = break_text(payload, small)
    for text in program.list_kept(node.name):
        notes += break_text(text, small)
    lines: list[_Line] = [(text, TITLE, "fixed bold", "#1b2733") for text in title]
    lines += [(text, RULE, "fixed", "#1b2733") for text in rule]
    return lines + [(text, NOTE, "fixed", "#5a6773") for text in notes]


def _size(lines: Sequence[_Line]) -> tuple[float, float]:
    widest = max(display_width(text.rstrip()) * size * LETTER for text, size, _, _ in lines)
    return widest + 2 * PAD + 6, _height(lines) + 2 * PAD


def _height(lines: Sequence[_Line]) -> float:
    return sum(size * LEADING for _, size, _, _ in lines)


def _write(lines: Sequence[_Line], x: float, y: float, anchor: str = "start") -> list[str]:
    """Lines of text, one below the other, from y on."""
    written: list[str] = []
    for text, size, style, colour in lines:
        family, _, bold = style.partition(" ")
        weight = ' font-weight="bold"' if bold else ""
        y += size * LEADING
        written.append(
            f'<text class="{family}" x="{x:.1f}" y="{y - size * 0.35:.1f}" font-size="{size:g}"'
            f'{weight} text-anchor="{anchor}" fill="{colour}">{escape(text.rstrip())}</text>'
        )
    return written


def _box(node: Node, box: Box, lines: Sequence[_Line]) -> list[str]:
    shape = _outline(kind_of(node), node.role, box.x, box.y, box.width, box.height)
    return [*shape, *_write(lines, box.middle, box.y + PAD, "middle")]


def _outline(kind: Kind, role: Role, x: float, y: float, width: float, height: float) -> list[str]:
    colours = f'fill="{FILLS[role]}" stroke="{STROKES[role]}"'
    radius = {Kind.PRODUCT: min(height / 2, 22.0), Kind.GUARDED: 4.0}.get(kind, 0.0)
    dashes = ' stroke-dasharray="5 3"' if kind is Kind.LEAF else ""
    frame = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    shape = [f'<rect {frame} rx="{radius:g}" {colours} stroke-width="1.5"{dashes}/>']
    if kind is Kind.JOIN:
        inner = f'x="{x + 4:.1f}" y="{y + 4:.1f}" width="{width - 8:.1f}" height="{height - 8:.1f}"'
        shape.append(f'<rect {inner} fill="none" stroke="{STROKES[role]}"/>')
    return shape


def _line(link: Link) -> str:
    path = _cornered_path(link.points) if link.is_stacked else _curved_path(link.points)
    dashes = ' stroke-dasharray="2 4" stroke-linecap="round"' if link.is_input else ""
    return f'<path d="{path}" fill="none" stroke="#6b7885" stroke-width="1.6"{dashes}/>'


def _curved_path(points: Sequence[Point]) -> str:
    path = f"M {_at(points[0])} L {_at(points[1])}"
    for (x1, y1), (x2, y2) in pairwise(points[1:-1]):
        middle = (y1 + y2) / 2
        path += f" C {_at((x1, middle))} {_at((x2, middle))} {_at((x2, y2))}"
    return f"{path} L {_at(points[-1])}"


def _cornered_path(points: Sequence[Point], radius: float = 6.0) -> str:
    """Straight segments with rounded corners."""
    path = f"M {_at(points[0])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path += f" L {_at(_towards(corner, before, radius))} Q {_at(corner)}"
        path += f" {_at(_towards(corner, after, radius))}"
    return f"{path} L {_at(points[-1])}"


def _towards(start: Point, goal: Point, distance: float) -> Point:
    across, down = goal[0] - start[0], goal[1] - start[1]
    length = abs(across) + abs(down)
    share = min(distance / length, 0.5) if length else 0.0
    return start[0] + across * share, start[1] + down * share


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _tags(layout: Layout) -> list[str]:
    """The interfaces, on the straight ends of the lines."""
    tags: list[str] = []
    for link in {link.lower: link for link in layout.links}.values():
        label = layout.labels[link.lower]
        x, y = link.points[-1]
        wide = display_width(label) * NOTE * LETTER + 6
        if link.is_stacked:
            x = (link.points[-2][0] + 6 + x) / 2
        else:
            y -= DROP / 2
        tags.append(
            f'<rect x="{x - wide / 2:.1f}" y="{y - 8:.1f}" width="{wide:.1f}" height="16" rx="3" '
            'fill="#ffffff"/>'
        )
        tags += _write([(label, NOTE, "fixed", "#33404d")], x, y - 8, "middle")
    return tags


def _head_lines(plan: Plan, width: float) -> list[_Line]:
    query = plan.query
    shown = f"{query.form.value} {' '.join(query.head)}".strip()
    lines: list[_Line] = [(plan.plan_class.value, 22.0, "plain bold", "#1b2733")]
    lines += _prose(CLASSES[plan.plan_class], width, 13.0, "#33404d")
    lines += _prose(shown, width, 13.0, "#33404d")
    lines += _prose(plan.promise, width, 12.0, "#5a6773")
    for warning in plan.warnings:
        lines += _prose(f"Warning: {warning}", width, 12.0, "#9a3b26")
    return lines


def _prose(text: str, width: float, size: float, colour: str) -> list[_Line]:
    limit = int((min(width, 1000.0) - 2 * MARGIN) / (size * 0.56))
    return [(line, size, "plain", colour) for line in break_text(text, limit)]


def _foot_lines(notation: Notation, width: float) -> list[_Line]:
    limit = int((width - 2 * MARGIN) / (NOTE * LETTER))
    texts = [
        f"{prefix}: {namespace}" if prefix else f"{namespace}  {', '.join(names)}"
        for prefix, namespace, names in notation.names.legend()
    ]
    return [(line, NOTE, "fixed", "#5a6773") for text in texts for line in break_text(text, limit)]


def _legend(plan: Plan, width: float) -> tuple[list[str], float]:
    """The legend of colours, outlines and lines, in rows, and its height."""
    kinds = {kind_of(node) for node in plan.nodes}
    roles = {node.role for node in plan.nodes}
    items: list[tuple[list[str], str]] = []
    for role, words in (
        (Role.WITNESS, "witness: binds what answers show"),
        (Role.EXISTENTIAL, "existential: only counts"),
    ):
        if role in roles:
            items.append((_swatch(FILLS[role], STROKES[role]), words))
    for kind, words in KINDS.items():
        if kind in kinds:
            outline = _outline(kind, Role.WITNESS, 0, 0, 30, 18)
            grey = [
                element.replace(STROKES[Role.WITNESS], "#6b7885").replace(
                    FILLS[Role.WITNESS], "none"
                )
                for element in outline
            ]
            items.append((grey, words))
    lines = [(False, "child, over the interface named")] if len(plan.nodes) > 1 else []
    lines += [(True, "read by the join above")] if Kind.JOIN in kinds else []
    for is_input, words in lines:
        dashes = ' stroke-dasharray="2 4" stroke-linecap="round"' if is_input else ""
        path = f'<path d="M 0 9 L 30 9" stroke="#6b7885" stroke-width="1.6"{dashes}/>'
        items.append(([path], words))
    column = 38 + max(len(words) for _, words in items) * 12 * 0.54 + 20
    columns = max(1, int((width - 2 * MARGIN) / column))
    elements: list[str] = []
    for i, (shape, words) in enumerate(items):
        elements.append(
            f'<g transform="translate({i % columns * column:.1f} {i // columns * 26})">'
        )
        elements += [*shape, *_write([(words, 12.0, "plain", "#33404d")], 38, 0.5), "</g>"]
    return elements, 26.0 * ceil(len(items) / columns)


def _swatch(fill: str, stroke: str) -> list[str]:
    return [f'<rect width="30" height="18" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>']
