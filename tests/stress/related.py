"""Related queries in one engine: where two of them are nearly alike, sharing can go wrong.

A family is one query and its relatives: an atom reversed, a label or the head changed, variables
renamed or permuted, constants, filters, rows, an atom more or less. They are registered before,
during and after the data, some are closed again, and each is compared with the oracle after every
epoch. The oracle knows of one query at a time, so it cannot share anything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.stress.drawing import (
    LABELS,
    NODES,
    draw_filter,
    draw_head,
    draw_pattern,
    draw_rows,
    draw_triple,
    variables,
)

from triegs.compiler import legal_plans
from triegs.engine import Engine
from triegs.sparql import parse
from triegs.sparql.window import Window
from triegs.testing import oracle
from triegs.testing.strategies import Pattern
from triegs.testing.window_oracle import Event, Shape, WindowOracle

# --- Families ----------------------------------------------------------------------------------


def substitute(pattern: Pattern, names: dict[str, str]) -> Pattern:
    """The pattern with terms replaced everywhere; a head keeps variables only, each once."""
    atoms: Any = tuple(tuple(names.get(t, t) for t in atom) for atom in pattern.atoms)
    head = dict.fromkeys(names.get(v, v) for v in pattern.head)
    extra = tuple(" ".join(names.get(w, w) for w in line.split()) for line in pattern.extra)
    return replace(
        pattern, atoms=atoms, head=tuple(v for v in head if v.startswith("?")), extra=extra
    )


def change_atom(random: Random, pattern: Pattern) -> Pattern:
    """Change an atom's label, or move one of its ends to another variable."""
    place = random.randrange(len(pattern.atoms))
    s, p, o = pattern.atoms[place]
    changed = random.choice(
        [(s, random.choice([*LABELS, "?p"]), o), (s, p, random.choice(variables(pattern) or [o]))]
    )
    atoms = (*pattern.atoms[:place], changed, *pattern.atoms[place + 1 :])
    return keep_bound(replace(pattern, atoms=atoms))


def reverse(random: Random, pattern: Pattern) -> Pattern:
    place = random.randrange(len(pattern.atoms))
    s, p, o = pattern.atoms[place]
    return replace(pattern, atoms=(*pattern.atoms[:place], (o, p, s), *pattern.atoms[place + 1 :]))


def permute_head(random: Random, pattern: Pattern) -> Pattern:
    return replace(pattern, head=tuple(random.sample(pattern.head, len(pattern.head))))


def rename(random: Random, pattern: Pattern) -> Pattern:
    """Other names, or the same ones in another order."""
    names = variables(pattern)
    others = random.choice([random.sample(names, len(names)), [f"?{c}" for c in "zyxwvuts"]])
    return substitute(pattern, dict(zip(names, others, strict=False)))


def reorder(random: Random, pattern: Pattern) -> Pattern:
    return replace(pattern, atoms=tuple(random.sample(pattern.atoms, len(pattern.atoms))))


def fix(random: Random, pattern: Pattern) -> Pattern:
    """A variable becomes a constant, or one with another."""
    names = variables(pattern)
    if len(names) < 2:
        return pattern
    one, other = random.sample(names, 2)
    # A block needs its variables, and each once; so does BOUND.
    lines = tuple(line for line in pattern.extra if not re.match(r"VALUES|.*\bBOUND\b", line))
    pattern = replace(pattern, extra=lines)
    return keep_bound(substitute(pattern, {one: random.choice([*NODES, other])}))


def add_atom(random: Random, pattern: Pattern) -> Pattern:
    """An atom twice, one more, or one less."""
    atoms = list(pattern.atoms)
    chance = random.random()
    if chance < 0.4 and len(atoms) > 1:
        atoms.pop(random.randrange(len(atoms)))
    elif chance < 0.7:
        atoms.append(random.choice(atoms))
    else:
        ends = [random.choice(variables(pattern) or ["?v0"]), "?new"]
        random.shuffle(ends)
        atoms.append((ends[0], random.choice(LABELS), ends[1]))
    return keep_bound(replace(pattern, atoms=tuple(atoms)))


def add_line(random: Random, pattern: Pattern) -> Pattern:
    """A filter inside an atom or across atoms, rows of one or two variables; or none of these."""
    names = variables(pattern)
    if not names or (pattern.extra and random.random() < 0.3):
        return replace(pattern, extra=())
    line = random.choice([draw_filter, draw_filter, draw_rows])(random, names)
    return replace(pattern, extra=(*pattern.extra[-1:], line))


def keep_bound(pattern: Pattern) -> Pattern:
    """Drop from the head and the extra lines what no atom binds any more."""
    names = set(variables(pattern))

    def is_bound(line: str) -> bool:
        return names.issuperset(w for w in line.split() if w.startswith("?"))

    return replace(
        pattern,
        head=tuple(v for v in pattern.head if v in names),
        extra=tuple(line for line in pattern.extra if is_bound(line)),
    )


Change = Callable[[Random, Pattern], Pattern]
CHANGES: list[Change] = [
    reverse, reverse, change_atom, draw_head, draw_head, rename, reorder, fix, add_atom,
    add_line,
]  # fmt: skip


#: Changes that leave the shape as it is: what is kept has the same columns, in another order.
SMALL_CHANGES: list[Change] = [reverse, reverse, reverse, permute_head, rename, reorder]


def random_family(random: Random, size: int) -> list[Pattern]:
    """So many relatives, each one or two changes away from another."""
    family = [draw_pattern(random)]
    changes = random.choice([CHANGES, SMALL_CHANGES])
    while len(family) < size:
        relative = family[0] if random.random() < 0.5 else random.choice(family)
        for _ in range(random.randint(1, 2)):
            relative = random.choice(changes)(random, relative)
        if 0 < len(relative.atoms) <= 5:
            family.append(relative)
    return family


# --- Lives -------------------------------------------------------------------------------------


def read(query: Any) -> dict[tuple[str | None, ...], int]:
    with query.snapshot() as snapshot:
        rows = [(tuple(answer), answer.multiplicity) for answer in snapshot]
    found = dict(rows)
    assert len(found) == len(rows)
    return found


class Member:
    """A registered relative, with its question to the oracle and the window that it reads."""

    def __init__(self, query: Any, text: str, window: int = 0) -> None:
        self.query, self.text, self.window = query, text, window
        self.question = oracle.read_query(text)

    def check(self, counts: Counter, mode: str, family: list[str]) -> None:
        expected = oracle.answers(self.question, counts, mode)
        assert read(self.query) == expected, "\n".join([self.text, "registered:", *family])


class Hunt:
    """An engine with some of a family; members come and go."""

    def __init__(self, random: Random, engine: Engine) -> None:
        self.random, self.engine = random, engine
        self.mode = engine.mode.value
        self.family = random_family(random, random.randint(4, 7))
        self.members: list[Member] = []

    def register(self, windows: list[Window] | None = None) -> None:
        random = self.random
        text = random.choice(self.family).text
        keep: Any = random.choice([[], [], ["count"], ["slice"]])
        options: dict[str, Any] = {"keep": keep}
        if random.random() < 0.3:
            plan = random.choice(legal_plans(parse(text), keep=keep, limit=5).plans)
            heads = [v for component in plan.components for v in component.root]
            if len(heads) == 1:
                options["root"] = heads[0]
        place = 0
        if windows:
            place = random.randrange(len(windows))
            options["window"] = windows[place]
        self.members.append(Member(self.engine.register(text, **options), text, place))

    def come_and_go(self, windows: list[Window] | None = None) -> None:
        random = self.random
        if len(self.members) < 7 and random.random() < 0.6:
            self.register(windows)
        if len(self.members) > 2 and random.random() < 0.2:
            self.members.pop(random.randrange(len(self.members))).query.close()

    def check(self, held: list[Counter]) -> None:
        texts = [member.text for member in self.members]
        for member in self.members:
            member.check(held[member.window], self.mode, texts)


def hunt_in_epochs(seed: int, epochs: int) -> int:
    """Relatives over applied epochs; returns how many results were compared."""
    random = Random(seed)
    engine = Engine(random.choice(["multigraph", "rdf"]))
    hunt = Hunt(random, engine)
    counts: Counter[oracle.Triple] = Counter()
    compared = 0
    for _ in range(epochs):
        hunt.come_and_go()
        live = list(counts)
        batch = [
            ("-", *random.choice(live)) if len(live) > 6 or (live and random.random() < 0.3)
            else ("+", *draw_triple(random))
            for _ in range(random.randint(1, 4))
        ]  # fmt: skip
        report = engine.apply(batch)
        assert [place for place, _ in report.refused] == oracle.apply_batch(counts, batch)
        hunt.check([counts])
        compared += len(hunt.members)
    engine.close()
    return compared


SHAPES = [Shape(width=6, slide=3), Shape(width=3, slide=3), Shape(width=9, slide=3), Shape(last=3)]


def to_window(shape: Shape) -> Window:
    if shape.last is not None:
        return Window.triples(shape.last)
    assert shape.width is not None
    return Window(shape.width, shape.slide)


def hunt_in_windows(seed: int, steps: int) -> int:
    """Relatives over several windows of one stream, beside a static graph.

    A query that stays keeps each window alive, so that a late one finds what the oracle has.
    """
    random = Random(seed)
    engine = Engine(random.choice(["multigraph", "rdf"]))
    shapes = random.sample(SHAPES, 2)
    windows = [to_window(shape) for shape in shapes]
    expected = WindowOracle(shapes)
    for window in windows:
        engine.register("SELECT * { ?s <p0> ?o }", window=window)
    static = Counter(draw_triple(random) for _ in range(random.choice([0, 0, 2])))
    if static:
        engine.apply([("+", *triple) for triple in static.elements()])
    hunt = Hunt(random, engine)
    held: list[Counter] = [Counter() for _ in shapes]
    now = compared = 0
    for _ in range(steps):
        hunt.come_and_go(windows)
        hunt.check([each + static for each in held])
        now += random.randint(1, 3)
        events = [
            Event(now, random.choice("++++-"), draw_triple(random))
            for _ in range(random.randint(1, 3))
        ]
        engine.push([(e.time, *e.triple, e.sign) for e in events])
        expected.push(events)
        moments = expected.advance(now)
        for report, moment in zip(engine.each_slide(now), moments, strict=True):
            assert report.time == moment.time
            held = moment.held
            hunt.check([each + static for each in held])
            compared += len(hunt.members)
    engine.close()
    return compared
