"""Random queries of every class, and the terms of the graphs that they meet.

Cyclic cores of up to five atoms over one label or two, alone or with tails; trees, paths and stars;
atoms side by side over the same variables; variables as predicates, so that atoms share up to three
variables; queries in two pieces. Any head, filters of every kind, rows for one to three variables,
groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

from triegs.testing.strategies import FILTERS, Pattern

Atom = tuple[str, str, str]
Atoms = list[Atom]
Pair = tuple[int, int]

NODES = [f"<c{i}>" for i in range(3)]
LABELS = ["<p0>", "<p1>"]
ONE = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
#: Ends of edges: nodes mostly; a label, which a variable can be as predicate and as subject; and
#: literals, which filters tell from the rest.
TERMS = [*NODES, *NODES, LABELS[0], ONE, '"c0"']
MOST_ATOMS = 5
FUNCTIONS = ["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE"]


def variables(pattern: Pattern) -> list[str]:
    return list(dict.fromkeys(t for atom in pattern.atoms for t in atom if t.startswith("?")))


# --- Shapes --------------------------------------------------------------------------------------


def draw_ring(random: Random) -> list[Pair]:
    size = random.choice([2, 3, 3, 3, 4, 4, 5])
    return [(i, (i + 1) % size) for i in range(size)]


def draw_clique(random: Random) -> list[Pair]:
    """Of four, without one to three edges: a diamond, a rectangle, a triangle with a tail."""
    return random.sample(list(combinations(range(4), 2)), random.choice([3, 4, 5, 5]))


def draw_tree(random: Random) -> list[Pair]:
    """Paths and stars among them."""
    near = random.choice([lambda _: 0, lambda i: i, lambda i: random.randint(0, i)])
    return [(near(i), i + 1) for i in range(random.choice([1, 1, 2, 2, 3, 4]))]


def draw_dense(random: Random) -> list[Pair]:
    """Few variables, so that atoms lie side by side, and on themselves."""
    names = random.randint(1, 3)
    pairs = random.randint(1, 4)
    return [(random.randrange(names), random.randrange(names)) for _ in range(pairs)]


SHAPES: list[Callable[[Random], list[Pair]]] = [
    draw_ring, draw_ring, draw_clique, draw_tree, draw_tree, draw_dense,
]  # fmt: skip


def draw_atoms(random: Random) -> Atoms:
    pairs = random.choice(SHAPES)(random)
    labels = random.choice([LABELS, LABELS[:1]])
    last = max(max(pair) for pair in pairs)
    while len(pairs) < MOST_ATOMS and random.random() < 0.25:  # a tail, or a piece of its own
        last += 1
        if random.random() < 0.8:
            pairs.append((random.randrange(last), last))
        else:
            pairs.append((last, last + 1))
            last += 1
    atoms: Atoms = []
    for pair in pairs:
        start, end = (f"?v{number}" for number in random.sample(pair, 2))
        atoms.append((start, random.choice(labels), end))
    random.shuffle(atoms)
    return atoms


# --- Twists --------------------------------------------------------------------------------------


def free_predicates(random: Random, atoms: Atoms) -> Atoms:
    """Some labels become a variable: one for all, one each, or one that is an end of an edge."""
    ends = [t for s, _, o in atoms for t in (s, o)]
    names = random.choice([["?p"], ["?p", "?q"], [*ends, "?p"]])
    share = random.choice([0.3, 1])
    return [
        (s, random.choice(names) if random.random() < share else p, o) for s, p, o in atoms
    ]  # fmt: skip


def fix_end(random: Random, atoms: Atoms) -> Atoms:
    """A variable becomes a constant, at one place or everywhere."""
    name = random.choice([t for s, _, o in atoms for t in (s, o)])
    term = random.choice([*NODES, LABELS[0], "1"])
    places = random.choice([range(len(atoms)), [random.randrange(len(atoms))]])
    return [
        (*(term if t == name and i in places else t for t in atom),)  # type: ignore[misc]
        for i, atom in enumerate(atoms)
    ]


def merge_ends(random: Random, atoms: Atoms) -> Atoms:
    """Two variables become one: an edge from a node to itself, or a smaller pattern."""
    names = list(dict.fromkeys(t for s, _, o in atoms for t in (s, o)))
    one, other = random.choice(names), random.choice(names)
    return [(*(other if t == one else t for t in atom),) for atom in atoms]  # type: ignore[misc]


def add_parallel(random: Random, atoms: Atoms) -> Atoms:
    """An atom again, over another label, or the other way round."""
    s, p, o = random.choice(atoms)
    more = random.choice([(s, p, o), (s, random.choice(LABELS), o), (o, p, s)])
    return [*atoms, more] if len(atoms) < MOST_ATOMS else atoms


TWISTS: list[Callable[[Random, Atoms], Atoms]] = [
    free_predicates, free_predicates, fix_end, merge_ends, add_parallel,
]  # fmt: skip


def draw_head(random: Random, pattern: Pattern) -> Pattern:
    """All variables, any, or the ends alone, whose link must then be materialised."""
    names = variables(pattern)
    uses = Counter(t for atom in pattern.atoms for t in set(atom))
    ends = [v for v in names if uses[v] == 1]
    shown = random.choice([names, random.sample(names, random.randint(0, len(names))), ends])
    shown = random.sample(shown, len(shown))
    return replace(pattern, head=tuple(shown), distinct=random.random() < 0.1)


def draw_filter(random: Random, names: list[str]) -> str:
    """Inside an atom or across some, over what the head shows or not."""
    x, y, z = random.choices(names, k=3)
    condition = random.choice(FILTERS)
    return f"FILTER( {condition.format(x=x, y=y, z=z, constant=random.choice(NODES))} )"


def draw_rows(random: Random, names: list[str]) -> str:
    """Rows for one to three variables, some twice, or none at all."""
    shown = random.sample(names, min(len(names), random.choice([1, 1, 2, 3])))
    cells = [*NODES, *NODES, LABELS[0], "1"]
    rows = [random.choices(cells, k=len(shown)) for _ in range(random.choice([0, 1, 2, 3, 4]))]
    rows += rows[:1] if random.random() < 0.3 else []
    lines = " ".join(f"( {' '.join(row)} )" for row in rows)
    return f"VALUES ( {' '.join(shown)} ) {{ {lines} }}"


def draw_pattern(random: Random) -> Pattern:
    """A query of any class, without LIMIT and OFFSET."""
    atoms = draw_atoms(random)
    while random.random() < 0.3:
        atoms = random.choice(TWISTS)(random, atoms)
    atoms = [(s, LABELS[0] if p == "1" else p, o) for s, p, o in atoms]  # no literal says what
    pattern = draw_head(random, Pattern(tuple(atoms), ()))
    names = variables(pattern)
    extra: list[str] = []
    while names and len(extra) < 2 and random.random() < 0.4:
        extra.append(random.choice([draw_filter, draw_filter, draw_rows])(random, names))
    return replace(pattern, extra=tuple(extra))


def draw_groups(random: Random, pattern: Pattern) -> str:
    """The text of a grouped query over a pattern."""
    names = variables(pattern)
    keys = random.sample(names, random.randint(0, min(2, len(names))))
    where = pattern.text.partition("WHERE")[2]
    columns = list(keys)
    for number in range(random.choice([1, 1, 2])):
        distinct = random.choice(["", "", "DISTINCT "])
        argument = random.choice(names)
        argument += random.choice(["", "", "", " + 1"])
        columns.append(f"( {random.choice(FUNCTIONS)}( {distinct}{argument} ) AS ?n{number} )")
    groups = [*keys, *random.choice([[], [], [], [f"( isIRI( {random.choice(names)} ) )"]])]
    text = f"SELECT {' '.join(columns)} WHERE{where}"
    text += f" GROUP BY {' '.join(groups)}" if groups else ""
    if random.random() < 0.2:
        text += f" HAVING ( COUNT( * ) {random.choice('<>=')} {random.randrange(4)} )"
    return text


def draw_text(random: Random, *, cuts: bool = True) -> str:
    """The text of one, now and then with groups; with `cuts` now and then with LIMIT or OFFSET."""
    pattern = draw_pattern(random)
    text = pattern.text
    if variables(pattern) and random.random() < 0.2:
        return draw_groups(random, pattern)
    if cuts and pattern.head and random.random() < 0.1:
        text += f" OFFSET {random.randrange(4)}" if random.random() < 0.6 else ""
        text += f" LIMIT {random.randrange(6)}" if random.random() < 0.8 else ""
    return text


def draw_triple(random: Random) -> Atom:
    return random.choice(TERMS), random.choice(LABELS), random.choice(TERMS)
