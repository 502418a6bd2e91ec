"""Mermaid and SVG: well-formed, complete, without overlaps."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from triegs.compiler import Plan, compile_query
from triegs.explain import explain
from triegs.explain.layout import Layout, Link, Point
from triegs.explain.lines import display_width
from triegs.explain.mermaid import escape
from triegs.explain.notation import Notation, inputs_of
from triegs.explain.program import Program
from triegs.explain.svg import arrange, break_text
from triegs.maintain.lowered import describe
from triegs.sparql.model import Atom, Form, Query

SVG = "{http://www.w3.org/2000/svg}"
LABEL = r'"[^"`\n]*"'
SHAPE = rf"(\[{LABEL}\]|\(\[{LABEL}\]\)|\[\({LABEL}\)\]|\[\[{LABEL}\]\])"
MERMAID_LINE = re.compile(
    rf"    (n\d+{SHAPE}:::(witness|existential)"
    rf"|n\d+ -- {LABEL} --- n\d+|n\d+ -\. {LABEL} \.- n\d+"
    r"|classDef \w+ fill:#\w+,stroke:#\w+,color:#\w+)"
)


def test_mermaid_lines(plan: Plan) -> None:
    first, *rest = explain(plan, "mermaid").splitlines()
    assert first == "flowchart TD"
    assert [line for line in rest if not MERMAID_LINE.fullmatch(line)] == []
    assert sum(":::" in line for line in rest) == len(plan.nodes)
    edges = sum(len(node.children) + len(inputs_of(node)) for node in plan.nodes)
    assert sum(" -- " in line or " -. " in line for line in rest) == edges


def test_mermaid_escapes_everything_that_ends_a_label() -> None:
    assert set('"<>`|[]{}').isdisjoint(escape('a "b" <c> `d` | [e] {f}'))
    assert escape("a#b;") == "a#35;b#59;"


def test_svg_is_well_formed_and_complete(plan: Plan) -> None:
    root = ElementTree.fromstring(explain(plan, "svg"))
    assert root.tag == f"{SVG}svg"
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    shown = re.sub(r"\s", "", "".join(texts))
    for node in plan.nodes:
        assert re.sub(r"\s", "", Notation(plan).view(node)) in shown
    assert plan.plan_class.value in texts


def test_svg_boxes_and_lines_do_not_overlap(plan: Plan) -> None:
    check_layout(*arrange(Program(Notation(plan), describe(plan))))


def test_svg_stays_inside_its_frame(plan: Plan) -> None:
    root = ElementTree.fromstring(explain(plan, "svg"))
    layout, _ = arrange(Program(Notation(plan), describe(plan)))
    assert layout.width <= float(root.attrib["width"])
    assert layout.height <= float(root.attrib["height"])


@given(st.data())
def test_svg_of_any_plan(data: st.DataObject) -> None:
    names = [f"?v{i}" for i in range(8)]
    pair = st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True)
    pairs = data.draw(st.lists(pair, min_size=1, max_size=10))
    atoms = tuple(Atom(one, "<http://example.org/p>", other) for one, other in pairs)
    bound = sorted({name for atom in atoms for name in atom.variables})
    head = data.draw(st.lists(st.sampled_from(bound), unique=True))
    plan = compile_query(Query(Form.SELECT, tuple(head), atoms))
    check_layout(*arrange(Program(Notation(plan), describe(plan))))


def test_break_text_never_exceeds_its_limit() -> None:
    for text in ("a" * 50, "one, two, three", "f(a,b) · g(c)", "漢字" * 20, ""):
        lines = break_text(text, 12)
        assert "".join(lines) == text
        assert all(display_width(line.rstrip()) <= 12 for line in lines)


def check_layout(layout: Layout, texts: list) -> None:
    """1. No two boxes overlap. 2. Text fits its box. 3. No line crosses a box that it does not
    lead to. 4. All is inside the drawing.
    """
    boxes = layout.boxes
    for one, other in combinations(boxes.values(), 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert beside or one.bottom <= other.y or other.bottom <= one.y
    for number, lines in enumerate(texts):
        for text, size, _, _ in lines:
            assert display_width(text.rstrip()) * size * 0.602 <= boxes[number].width
    for link in layout.links:
        for box in boxes.values():
            if box.number in (link.upper, link.lower):
                continue
            for x, y in walk(link):
                inside = box.x < x < box.x + box.width and box.y < y < box.bottom
                assert not inside, (link, box)
    for box in boxes.values():
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= layout.width + 0.01
        assert box.bottom <= layout.height + 0.01


def walk(link: Link) -> list[Point]:
    """Points along a line as drawn."""
    found: list[Point] = []
    for (x1, y1), (x2, y2) in pairwise(link.points):
        for step in range(21):
            t = step / 20
            # With both handles at half height, x follows this curve of t.
            bend = t if link.is_stacked else 3 * t**2 - 2 * t**3
            y = y1 + (y2 - y1) * (t if link.is_stacked else 1.5 * t * (1 - t) + t**3)
            found.append((x1 + (x2 - x1) * bend, y))
    return found
