"""The layout of a drawing: layers from the root down, without overlapping boxes.

Each node is drawn below the lowest node that uses it. Each subtree has its own horizontal strip,
with its root centred. Many leaves below one node are stacked, so that a star of a hundred atoms
fits a screen. A node that several joins read has a line to each reader, routed between the boxes
of the layers in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

from triegs.compiler.plan import Plan
from triegs.explain.lines import display_width
from triegs.explain.notation import inputs_of, list_roots, plain

GAP, LAYER_GAP, STACK_GAP = 28.0, 76.0, 14.0
#: The length of the straight, labelled end of a line above its lower box.
DROP = 30.0
#: More leaves than this below one node are stacked.
SIDE_BY_SIDE = 6

Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """A node's rectangle; ``x`` and ``y`` are its upper left corner."""

    number: int
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Link:
    """A line from a node down to one that it uses.

    It starts and ends with a straight segment and is curved between. A line to a stack
    (``is_stacked``) has corners instead and enters the box from the side.
    """

    upper: int
    lower: int
    is_input: bool
    points: tuple[Point, ...]
    is_stacked: bool = False


@dataclass(slots=True)
class _Unit:
    """A box or a stack of leaves, positioned as a unit."""

    boxes: list[Box]
    depth: int
    gutter: float = 0.0
    below: list[_Unit] = field(default_factory=list)
    strip: float = 0.0
    least: float = 0.0

    @property
    def width(self) -> float:
        return max(self.gutter + max(box.width for box in self.boxes), self.least)

    @property
    def height(self) -> float:
        heights = sum(box.height for box in self.boxes)
        return heights + STACK_GAP * (len(self.boxes) - 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by node, lines, the label at the lower end of lines by node, and the total size."""

    boxes: dict[int, Box]
    links: tuple[Link, ...]
    labels: dict[int, str]
    width: float
    height: float


def lay_out(plan: Plan, sizes: Sequence[tuple[float, float]], letter: float) -> Layout:
    """Lay out boxes of the given sizes, one per node; ``letter`` is the letter width of labels."""
    return _Placing(plan, sizes, letter).run()


class _Placing:
    def __init__(self, plan: Plan, sizes: Sequence[tuple[float, float]], letter: float) -> None:
        self.plan = plan
        self.letter = letter
        self.boxes = {i: Box(i, width, height) for i, (width, height) in enumerate(sizes)}
        self.uses: dict[int, list[tuple[int, str, bool]]] = {
            number: _uses(plan, number) for number in range(len(plan.nodes))
        }
        self.homes = self._find_homes()
        self.labels = self._join_labels()
        self.units: list[_Unit] = []
        self.unit_of: dict[int, _Unit] = {}

    def run(self) -> Layout:
        roots = self._make_units()
        tops = self._place_layers()
        self.bottoms = [top - LAYER_GAP for top in tops[1:]]
        for unit in reversed(self.units):
            below = sum(child.strip for child in unit.below) + GAP * (len(unit.below) - 1)
            unit.strip = max(unit.width, below)
        top_left: dict[int, float] = {}
        width = -GAP
        for root in roots:
            top_left[id(root)] = width + GAP
            width += GAP + root.strip
        for unit in self.units:
            self._place_unit(unit, top_left[id(unit)], tops[unit.depth])
            below = sum(child.strip for child in unit.below) + GAP * (len(unit.below) - 1)
            left = top_left[id(unit)] + (unit.strip - below) / 2
            for child in unit.below:
                top_left[id(child)] = left
                left += child.strip + GAP
        boxes = self.boxes
        links = tuple(
            self._link(upper, lower, is_input)
            for upper in boxes
            for lower, _, is_input in self.uses[upper]
        )
        height = max(box.bottom for box in boxes.values())
        return Layout(boxes, links, self.labels, width, height)

    def _join_labels(self) -> dict[int, str]:
        """One label per node, which combines those of all readers."""
        found: dict[int, dict[str, None]] = {}
        for uses in self.uses.values():
            for lower, label, _ in uses:
                found.setdefault(lower, {})[label] = None
        return {lower: " | ".join(labels) for lower, labels in found.items()}

    def _find_homes(self) -> dict[int, int]:
        """For each node, the user below which it is drawn: the first of the deepest."""
        depth = dict.fromkeys(list_roots(self.plan), 0)
        homes: dict[int, int] = {}
        # Users come after their inputs, so the reverse order visits users first.
        for upper in reversed(range(len(self.plan.nodes))):
            for lower, _, _ in self.uses[upper]:
                if depth.get(lower, 0) < depth[upper] + 1:
                    depth[lower] = depth[upper] + 1
                    homes[lower] = upper
        self.depth = depth
        return homes

    def _make_units(self) -> list[_Unit]:
        """Make units from the top down; `units` lists each before those below it."""
        roots = [self._unit([number]) for number in list_roots(self.plan)]
        queue = list(roots)
        while queue:
            unit = queue.pop(0)
            self.units.append(unit)
            lower = [
                number
                for box in unit.boxes
                for number in dict.fromkeys(use[0] for use in self.uses[box.number])
                if self.homes[number] == box.number
            ]
            readers = [use[0] for uses in self.uses.values() for use in uses]
            leaves = [n for n in lower if not self.uses[n] and readers.count(n) == 1]
            if len(leaves) > SIDE_BY_SIDE:
                lower = [n for n in lower if n not in leaves]
                columns = max(SIDE_BY_SIDE, ceil(sqrt(2 * len(leaves))))
                rows = ceil(len(leaves) / columns)
                unit.below += [
                    self._unit(leaves[i : i + rows]) for i in range(0, len(leaves), rows)
                ]
            unit.below += [self._unit([number]) for number in lower]
            queue += unit.below
        return roots

    def _unit(self, numbers: list[int]) -> _Unit:
        unit = _Unit([self.boxes[number] for number in numbers], self.depth[numbers[0]])
        labels = [display_width(self.labels.get(number, "")) for number in numbers]
        longest = (max(labels) + 2) * self.letter
        if len(numbers) > 1:
            unit.gutter = longest + 16
        else:
            unit.least = longest
        for number in numbers:
            self.unit_of[number] = unit
        return unit

    def _place_layers(self) -> list[float]:
        """The upper edge of each layer."""
        heights = [0.0] * (1 + max(unit.depth for unit in self.units))
        for unit in self.units:
            heights[unit.depth] = max(heights[unit.depth], unit.height)
        return [sum(heights[:i]) + LAYER_GAP * i for i in range(len(heights))]

    def _place_unit(self, unit: _Unit, left: float, top: float) -> None:
        x = left + (unit.strip - unit.width) / 2 + unit.gutter
        for box in unit.boxes:
            room = unit.width - unit.gutter
            box.x = x + ((room - box.width) / 2 if len(unit.boxes) == 1 else 0.0)
            box.y = top
            top += box.height + STACK_GAP

    def _link(self, upper: int, lower: int, is_input: bool) -> Link:
        above, below = self.boxes[upper], self.boxes[lower]
        start = (above.middle, above.bottom)
        unit = self.unit_of[lower]
        if len(unit.boxes) > 1:
            spine = below.x - unit.gutter + 6
            side = below.y + below.height / 2
            bus = unit.boxes[0].y - DROP
            corners = ((start[0], bus), (spine, bus), (spine, side))
            points = (start, *corners, (below.x, side))
            return Link(upper, lower, is_input, points, is_stacked=True)
        # The line bends only below the tallest box of the layer.
        free = (above.middle, self.bottoms[self.depth[upper]])
        end = (below.middle, below.y - DROP)
        between = self._pass_between(free, end, self.depth[upper], self.depth[lower])
        curve = (start, free, *between, end, (below.middle, below.y))
        return Link(upper, lower, is_input, curve)

    def _pass_between(self, start: Point, end: Point, first: int, last: int) -> list[Point]:
        """Points in gaps of the layers in between, near the straight line."""
        points: list[Point] = []
        for layer in range(first + 1, last):
            units = [unit for unit in self.units if unit.depth == layer]
            spans = sorted(
                (box.x - unit.gutter, box.x + box.width) for unit in units for box in unit.boxes
            )
            share = (layer - first) / (last - first)
            wanted = start[0] + share * (end[0] - start[0])
            edges = [spans[0][0] - GAP / 2, *(span[1] + GAP / 2 for span in spans), wanted]
            free = [x for x in edges if all(x <= span[0] - 6 or x >= span[1] + 6 for span in spans)]
            x = min(free, key=lambda each: abs(each - wanted))
            points += [(x, units[0].boxes[0].y), (x, self.bottoms[layer])]
        return points


def _uses(plan: Plan, number: int) -> list[tuple[int, str, bool]]:
    """What a node reads: (node, label of the line, whether a join reads it)."""
    node = plan.nodes[number]
    read = [(source.node, _listed(source.variables), True) for source in inputs_of(node)]
    return read + [(child, _listed(plan.nodes[child].interface), False) for child in node.children]


def _listed(variables: Sequence[str]) -> str:
    return " ".join(map(plain, variables)) or "∅"
