"""Hypothesis strategies for queries and for streams of updates.

Both draw from one small vocabulary, so that random atoms match random assertions: nodes
``http://example.org/n0`` …, labels ``http://example.org/p0`` …, and a few integers as objects.
Needs the extra ``dev``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from hypothesis import strategies as st

NAMESPACE = "http://example.org/"
LABELS = 3
NODES = 5

Pair = tuple[str, str]
Update = tuple[str, str, str, str]


class Shape(Enum):
    """How atoms connect the variables of a query, before `Twist`s are applied."""

    PATH = "path"
    STAR = "star"
    TREE = "tree"
    CYCLE = "cycle"
    CLIQUE = "clique, without some edges"
    WIDE = "wide: variables as predicates, so that two atoms may share two variables and more"
    ANY = "any"
    DISCONNECTED = "disconnected"


class Twist(Enum):
    """A modification of a shape."""

    SELF_JOIN = "all atoms over one label"
    CONSTANT = "a variable becomes a constant"
    REPEATED = "two variables become one"
    VARIABLE_PREDICATE = "a label becomes a variable"
    TWICE = "an atom is written twice"
    PARALLEL = "an atom beside another, over the same two variables"
    FILTER = "a filter over one, two or three variables"
    VALUES = "one to three variables are given rows"


ALL_TWISTS = tuple(Twist)

#: Conditions over up to three variables and a constant, with spaces between all words.
FILTERS = (
    "{x} != {y}",
    "{x} = {y}",
    "{x} < {y}",
    "{x} >= {y}",
    "{x} != {constant}",
    "{x} IN ( {y} , {constant} )",
    "{x} NOT IN ( 1 , {constant} )",
    "{x} + 1 > {y}",
    "{x} * 2 = {y} + {z}",
    "{x} <= 1",
    "isIRI( {x} )",
    "isLITERAL( {x} ) || {x} = {y}",
    "BOUND( {x} ) && sameTerm( {y} , {constant} )",
    'REGEX( STR( {x} ) , "[02]$" )',
    "STR( {x} ) < STR( {y} )",
    "{x} != {y} && {y} != {z}",
    "! ( {x} = {y} && {y} = {z} )",
)


@dataclass(frozen=True)
class Pattern:
    """A query by its clauses; `text` is its SPARQL."""

    atoms: tuple[tuple[str, str, str], ...]
    head: tuple[str, ...]
    extra: tuple[str, ...] = ()
    distinct: bool = False

    @property
    def text(self) -> str:
        body = " .\n  ".join([*(" ".join(atom) for atom in self.atoms)])
        where = "WHERE {\n  " + "\n  ".join([body, *self.extra]) + "\n}"
        if not self.head:
            return f"ASK {where}"
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{' '.join(self.head)} {where}"


def node(number: int) -> str:
    return f"<{NAMESPACE}n{number}>"


def label(number: int) -> str:
    return f"<{NAMESPACE}p{number}>"


@st.composite
def patterns(
    draw: st.DrawFn,
    shapes: Sequence[Shape] = tuple(Shape),
    twists: Sequence[Twist] = ALL_TWISTS,
    max_atoms: int = 8,
) -> Pattern:
    """Queries of every shape; the head shows all variables, some, or none (ASK)."""
    shape = draw(st.sampled_from(shapes))
    size = draw(st.integers(1, max_atoms))
    pairs = _PAIRS[shape](draw, size)
    flips = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    atoms = [
        (b, label(draw(st.integers(0, LABELS - 1))), a) if flip
        else (a, label(draw(st.integers(0, LABELS - 1))), b)
        for (a, b), flip in zip(pairs, flips, strict=True)
    ]  # fmt: skip
    if shape is Shape.WIDE:
        atoms = [(s, _variable(draw(st.integers(0, size))), o) for s, _, o in atoms[:4]]
    applied = draw(st.lists(st.sampled_from(twists), max_size=2, unique=True)) if twists else []
    extra: list[str] = []
    for twist in applied:
        atoms, more = _twist(draw, twist, atoms)
        extra += more
    atoms = atoms[:max_atoms]
    used = list(dict.fromkeys(t for atom in atoms for t in atom if t.startswith("?")))
    extra = [line for line in extra if set(_names(line)) <= set(used)]
    head = used
    if used and not draw(st.booleans()):
        head = list(draw(st.lists(st.sampled_from(used), unique=True)))
    return Pattern(tuple(atoms), tuple(head), tuple(extra), draw(st.booleans()))


def queries(**options: object) -> st.SearchStrategy[str]:
    """Query texts; options as for `patterns`."""
    return patterns(**options).map(lambda pattern: pattern.text)  # type: ignore[arg-type]


def updates(
    nodes: int = NODES, labels: int = LABELS, deletes: bool = True
) -> st.SearchStrategy[Update]:
    """One update. Low numbers are more frequent, so low nodes are hubs, equal updates repeat, and
    many deletions have nothing to delete.
    """
    hub = st.integers(0, nodes * nodes - 1).map(lambda n: nodes - 1 - int(n**0.5))
    value = st.integers(0, 2).map(lambda n: f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>')
    return st.tuples(
        st.sampled_from("++-" if deletes else "+"),
        hub.map(node),
        st.integers(0, labels - 1).map(label),
        st.one_of(hub.map(node), hub.map(node), value),
    )


@st.composite
def streams(
    draw: st.DrawFn, max_epochs: int = 6, max_updates: int = 8, deletes: bool = True
) -> list[list[Update]]:
    """Epochs of updates: empty ones, single updates, repetitions of one update, and deletions of
    what the previous epoch added.
    """
    epochs: list[list[Update]] = []
    for _ in range(draw(st.integers(1, max_epochs))):
        epoch = draw(st.lists(updates(deletes=deletes), max_size=max_updates))
        if epoch and draw(st.integers(0, 3)) == 0:
            epoch += [epoch[0]] * draw(st.integers(1, max_updates))
        if deletes and epochs and draw(st.integers(0, 3)) == 0:
            epoch += [("-", *update[1:]) for update in epochs[-1] if update[0] == "+"]
        epochs.append(epoch)
    return epochs


# --- Shapes: each gives the variable pairs of its atoms ---------------------------------------


def _variable(number: int) -> str:
    return f"?v{number}"


def _path(_draw: st.DrawFn, size: int) -> list[Pair]:
    return [(_variable(i), _variable(i + 1)) for i in range(size)]


def _star(_draw: st.DrawFn, size: int) -> list[Pair]:
    return [(_variable(0), _variable(i + 1)) for i in range(size)]


def _tree(draw: st.DrawFn, size: int) -> list[Pair]:
    return [(_variable(draw(st.integers(0, i))), _variable(i + 1)) for i in range(size)]


def _cycle(draw: st.DrawFn, size: int) -> list[Pair]:
    around = draw(st.integers(1, size))
    ring = [(_variable(i), _variable((i + 1) % around)) for i in range(around)]
    tails = [(_variable(draw(st.integers(0, i))), _variable(i + 1)) for i in range(around, size)]
    return ring + tails


def _clique(draw: st.DrawFn, size: int) -> list[Pair]:
    pairs = [(_variable(a), _variable(b)) for a in range(4) for b in range(a + 1, 4)]
    kept = draw(st.permutations(pairs))[:size]
    return kept + [(_variable(i - 4), _variable(i)) for i in range(4, 4 + size - len(kept))]


def _any(draw: st.DrawFn, size: int) -> list[Pair]:
    variable = st.integers(0, size).map(_variable)
    return [draw(st.tuples(variable, variable)) for _ in range(size)]


def _disconnected(draw: st.DrawFn, size: int) -> list[Pair]:
    first = draw(st.integers(0, size - 1))
    second = [(f"{a}b", f"{b}b") for a, b in _tree(draw, size - first)]
    return _tree(draw, first) + second


_PAIRS: dict[Shape, Callable[[st.DrawFn, int], list[Pair]]] = {
    Shape.PATH: _path,
    Shape.STAR: _star,
    Shape.TREE: _tree,
    Shape.CYCLE: _cycle,
    Shape.CLIQUE: _clique,
    Shape.WIDE: _any,
    Shape.ANY: _any,
    Shape.DISCONNECTED: _disconnected,
}


# --- Twists ------------------------------------------------------------------------------------


def _names(text: str) -> list[str]:
    return [word.strip("()") for word in text.split() if word.strip("()").startswith("?")]


def _replace(atoms: list[tuple[str, str, str]], old: str, new: str) -> list[tuple[str, str, str]]:
    return [tuple(new if term == old else term for term in atom) for atom in atoms]  # type: ignore[misc]


def _twist(
    draw: st.DrawFn, twist: Twist, atoms: list[tuple[str, str, str]]
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """The atoms after one twist, and lines to add to the group."""
    variables = list(dict.fromkeys(t for atom in atoms for t in atom if t.startswith("?")))
    index = draw(st.integers(0, len(atoms) - 1))
    if twist is Twist.SELF_JOIN:
        return [(s, label(0), o) for s, _, o in atoms], []
    if twist is Twist.TWICE:
        return [atoms[index], *atoms], []
    if twist is Twist.PARALLEL:
        s, _, o = atoms[index]
        ends = draw(st.sampled_from([(s, o), (o, s)]))
        return [(ends[0], label(draw(st.integers(0, LABELS - 1))), ends[1]), *atoms], []
    if twist is Twist.VARIABLE_PREDICATE:
        name = draw(st.sampled_from(["?p", *variables[:2]]))
        return [(s, name, o) if i == index else (s, p, o) for i, (s, p, o) in enumerate(atoms)], []
    if len(variables) < 2:
        return atoms, []
    one, other, *more = draw(st.permutations(variables))
    if twist is Twist.CONSTANT:
        return _replace(atoms, one, node(draw(st.integers(0, NODES - 1)))), []
    if twist is Twist.REPEATED:
        return _replace(atoms, one, other), []
    if twist is Twist.FILTER:
        third = more[0] if more else one
        constant = node(draw(st.integers(0, NODES - 1)))
        condition = draw(st.sampled_from(FILTERS))
        return atoms, [f"FILTER( {condition.format(x=one, y=other, z=third, constant=constant)} )"]
    names = [one, other, *more][: draw(st.integers(1, 3))]
    cells = st.integers(0, 2).map(node)
    rows = draw(st.lists(st.tuples(*[cells] * len(names)), min_size=1, max_size=3))
    shown = " ".join(f"( {' '.join(row)} )" for row in rows)
    return atoms, [f"VALUES ( {' '.join(names)} ) {{ {shown} }}"]
