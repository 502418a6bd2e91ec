"""Random queries in bulk, where Hypothesis would be too slow: up to eight atoms of every kind."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from triegs.sparql.model import Atom, Call, Expression, Form, Query


def random_query(random: Random) -> Query:
    """Trees and denser shapes, constants, repeated variables, variable predicates, any head."""
    size = random.randint(1, 8)
    names = [f"?v{i}" for i in range(random.randint(1, size + 1))]
    tree = random.random() < 0.7
    atoms = []
    for i in range(size):
        s, o = random.choice(names), random.choice(names)
        if tree and i + 1 < len(names):
            s, o = names[random.randint(0, i)], names[i + 1]
        if random.random() < 0.1:
            o = "<c0>"
        p = random.choice(names) if random.random() < 0.08 else f"<p{random.randint(0, 1)}>"
        atoms.append(Atom(s, p, o) if random.random() < 0.5 else Atom(o, p, s))
    used = list(dict.fromkeys(v for atom in atoms for v in atom.variables))
    head = used if random.random() < 0.3 else random.sample(used, random.randint(0, len(used)))
    return Query(Form.SELECT if head else Form.ASK, tuple(head), tuple(atoms))


def with_filters(random: Random, query: Query) -> Query:
    """The query with up to four filters between any two of its variables."""
    filters: list[Expression] = []
    while len(query.variables) > 1 and len(filters) < 4 and random.random() < 0.6:
        filters.append(Call("!=", tuple(random.sample(query.variables, 2))))
    return replace(query, filters=tuple(filters))


def query_text(query: Query) -> str:
    start = f"SELECT {' '.join(query.head)}" if query.head else "ASK"
    lines = [" . ".join(" ".join(atom) for atom in query.atoms)]
    for expression in query.filters:
        assert isinstance(expression, Call)
        lines.append(f"FILTER({' != '.join(map(str, expression.arguments))})")
    return f"{start} {{ {' '.join(lines)} }}"


def random_counts(random: Random, most: int = 9) -> dict[tuple[str, str, str], int]:
    """A small multigraph in which random atoms find matches."""
    return {
        (f"<c{random.randint(0, 2)}>", f"<p{random.randint(0, 1)}>", f"<c{random.randint(0, 2)}>"):
            random.randint(1, 3)
        for _ in range(random.randint(1, most))
    }  # fmt: skip
