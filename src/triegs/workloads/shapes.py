"""The workloads by name: their atoms, their heads, and the layers that nodes are drawn from.

With n edges of a label in the window, a layer of n / f nodes gives each node f edges of that label
on average. A far end has n nodes, so hardly any of them occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from triegs.workloads.draw import EdgeSource, Layer
from triegs.workloads.stream import Atom, Workload

WINDOW, SLIDE = 30_000, 1_000


def path3(
    fan_out: float = 8,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
    zipf: float = 0.0,
) -> Workload:
    """``A(x,y) B(y,z) C(z,w)``, full head. `zipf` skews y and z: a few become hubs.

    >>> path3(8).labels
    ('A', 'B', 'C')
    """
    atoms = (Atom("A", "x", "y"), Atom("B", "y", "z"), Atom("C", "z", "w"))
    far, inner = _size(window / 3), _size(window / 3 / fan_out)
    layers = _stack([(far, 0), (inner, zipf), (inner, zipf), (far, 0)])
    sources = {a.label: EdgeSource(*ends) for a, ends in zip(atoms, pairwise(layers), strict=True)}
    skew = f" s{zipf:g}" if zipf else ""
    name = f"path3 f{fan_out:g}{skew}"
    return _make(name, atoms, ("x", "y", "z", "w"), sources, window, slide, seed, dup)


def star5(
    branching: float = 3,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``L1 .. L5 (c, xi)`` around one centre, full head."""
    atoms = tuple(Atom(f"L{i}", "c", f"x{i}") for i in range(1, 6))
    leaf = _size(window / 5)
    centre, *leaves = _stack([(_size(window / 5 / branching), 0), *[(leaf, 0.0)] * 5])
    sources = {a.label: EdgeSource(centre, end) for a, end in zip(atoms, leaves, strict=True)}
    head = ("c", *(atom.object for atom in atoms))
    return _make(f"star5 b{branching:g}", atoms, head, sources, window, slide, seed, dup)


def spider4x2(
    branching: float = 2,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """Four legs of two edges, ``Pi(c, mi) Qi(mi, ei)``, full head."""
    inner, end = _size(window / 8 / branching), _size(window / 8)
    centre, *rest = _stack([(inner, 0), *[(inner, 0.0)] * 4, *[(end, 0.0)] * 4])
    atoms: list[Atom] = []
    sources: dict[str, EdgeSource] = {}
    for i in range(1, 5):
        middle, last = rest[i - 1], rest[i + 3]
        atoms += [Atom(f"P{i}", "c", f"m{i}"), Atom(f"Q{i}", f"m{i}", f"e{i}")]
        sources |= {f"P{i}": EdgeSource(centre, middle), f"Q{i}": EdgeSource(middle, last)}
    head = ("c", *(atom.object for atom in atoms))
    name = f"spider4x2 b{branching:g}"
    return _make(name, tuple(atoms), head, sources, window, slide, seed, dup)


def reply(*, window: int = WINDOW, slide: int = SLIDE, seed: int = 1, dup: float = 0.0) -> Workload:
    """Messages, replies, their creators and those who like the reply; a few of each are popular.

    ``hasCreator(v,x) hasCreator(z,y) hasReply(v,z) likedBy(z,w)``, full head. The label hasCreator
    occurs in two atoms.
    """
    messages, people = _stack([(max(4, _size(window * 0.2)), 0), (max(4, _size(window * 0.1)), 0)])
    writers = Layer(people.first, people.size, 0.6)
    popular = Layer(messages.first, messages.size, 0.8)
    answered = Layer(messages.first, messages.size, 0.4)
    atoms = (
        Atom("hasCreator", "v", "x"),
        Atom("hasCreator", "z", "y"),
        Atom("hasReply", "v", "z"),
        Atom("likedBy", "z", "w"),
    )
    sources = {
        "hasCreator": EdgeSource(messages, writers),
        "hasReply": EdgeSource(popular, answered),
        "likedBy": EdgeSource(popular, writers),
    }
    shares = {"hasCreator": 3, "hasReply": 3, "likedBy": 4}
    head = ("v", "x", "z", "y", "w")
    return _make("reply", atoms, head, sources, window, slide, seed, dup, shares)


def path5_prefix(
    fan_out: float = 3,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``A .. E`` along x0 .. x5, with head x0, x1, x2: counts are true sums."""
    atoms = tuple(Atom(label, f"x{i}", f"x{i + 1}") for i, label in enumerate("ABCDE"))
    far, inner = _size(window / 5), _size(window / 5 / fan_out)
    layers = _stack([(far, 0), *[(inner, 0.0)] * 4, (far, 0)])
    sources = {a.label: EdgeSource(*ends) for a, ends in zip(atoms, pairwise(layers), strict=True)}
    name = f"path5-prefix f{fan_out:g}"
    return _make(name, atoms, ("x0", "x1", "x2"), sources, window, slide, seed, dup)


def path2(
    fan_out: float = 8,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``A(x,y) B(y,z)``, full head."""
    atoms = (Atom("A", "x", "y"), Atom("B", "y", "z"))
    far, inner = _size(window / 2), _size(window / 2 / fan_out)
    first, middle, last = _stack([(far, 0), (inner, 0), (far, 0)])
    sources = {"A": EdgeSource(first, middle), "B": EdgeSource(middle, last)}
    return _make(f"path2 f{fan_out:g}", atoms, ("x", "y", "z"), sources, window, slide, seed, dup)


def path2_ends(
    fan_out: float = 8,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``A(x,y) B(y,z)`` between layers of equal size, with head x, z.

    Not free-connex: the pairs connected by a path must be materialised.

    >>> path2_ends(8).head
    ('x', 'z')
    """
    atoms = (Atom("A", "x", "y"), Atom("B", "y", "z"))
    first, middle, last = _stack([(_size(window / 2 / fan_out), 0.0)] * 3)
    sources = {"A": EdgeSource(first, middle), "B": EdgeSource(middle, last)}
    return _make(f"path2-ends f{fan_out:g}", atoms, ("x", "z"), sources, window, slide, seed, dup)


def triangle(
    fan_out: float = 30,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
    zipf: float = 0.0,
) -> Workload:
    """``E(a,b) E(b,c) E(c,a)`` over window / f nodes, full head. `zipf` creates hubs."""
    return _make_cycle("triangle", "ab bc ca", fan_out, window, slide, seed, dup, zipf)


def rectangle(
    fan_out: float = 8,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``E(a,b) E(b,c) E(c,d) E(d,a)`` over window / f nodes, full head."""
    return _make_cycle("rectangle", "ab bc cd da", fan_out, window, slide, seed, dup)


def diamond(
    fan_out: float = 8,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """``E(a,b) E(a,c) E(b,d) E(c,d)``: two paths from a to d, full head.

    Both paths may be the same, so an edge can match two atoms of one answer.
    """
    return _make_cycle("diamond", "ab ac bd cd", fan_out, window, slide, seed, dup)


def clique4(
    fan_out: float = 30,
    *,
    window: int = WINDOW,
    slide: int = SLIDE,
    seed: int = 1,
    dup: float = 0.0,
) -> Workload:
    """Four nodes with an edge from each to all later ones, full head."""
    return _make_cycle("clique4", "ab ac ad bc bd cd", fan_out, window, slide, seed, dup)


def _make_cycle(
    name: str,
    pairs: str,
    fan_out: float,
    window: int,
    slide: int,
    seed: int,
    dup: float,
    zipf: float = 0.0,
) -> Workload:
    """Edges of one label among window / f nodes; the atoms as pairs of variables."""
    nodes = Layer(0, max(4, _size(window / fan_out)), zipf)
    atoms = tuple(Atom("E", *pair) for pair in pairs.split())
    head = tuple(sorted(set(pairs) - {" "}))
    skew = f" s{zipf:g}" if zipf else ""
    sources = {"E": EdgeSource(nodes, nodes)}
    return _make(f"{name} f{fan_out:g}{skew}", atoms, head, sources, window, slide, seed, dup)


def _size(nodes: float) -> int:
    return max(2, round(nodes))


def _stack(layers: Iterable[tuple[int, float]]) -> list[Layer]:
    """Layers of these sizes and exponents, far enough apart to be disjoint."""
    layers = list(layers)
    stride = 1_000_000
    while stride < max(size for size, _ in layers):
        stride *= 10
    return [Layer(index * stride, size, s) for index, (size, s) in enumerate(layers)]


def _make(
    name: str,
    atoms: tuple[Atom, ...],
    head: tuple[str, ...],
    sources: Mapping[str, EdgeSource],
    window: int,
    slide: int,
    seed: int,
    dup: float,
    shares: Mapping[str, int] | None = None,
) -> Workload:
    return Workload(
        name, atoms, head, sources, shares or dict.fromkeys(sources, 1), window, slide, seed, dup
    )
