"""By which variables a query may be cut into parts that machines keep apart from each other.

An atom that has all variables of the key is *hashed*: an event goes to the one part that its key
belongs to. Any other atom is *replicated*: its events go to all parts. So every valuation is found
in exactly one part, and the parts need nothing of each other. What is replicated bounds the gain:
with a fraction f of the events replicated, N parts do the work of ``1 / ((1 - f) / N + f)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from triegs.sparql.model import Atom, Duplicates, Form, Query, is_variable

#: Where the variables of a key stand in a triple, in the order of the key; () for a replicated one.
Positions = tuple[int, ...]
SUBJECT, OBJECT = 0, 2
#: A key with more than this many times its fair part of the events is worth to be split.
HOT = 1.5
#: Parts that do less than so many times the work of one are not worth their trouble.
LEAST_GAIN = 1.2


class Key(NamedTuple):
    """A frequent key: its terms, and its share of the events of a label."""

    terms: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Observed:
    """What a stream was seen to have: the share of each label, and the most frequent keys of a
    label by positions, the first one first. Of a label that was not seen nothing is known, and
    without any they are taken to be equal. ``costs`` are what queries took, by name; they compare
    queries with each other.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[tuple[str, Positions], tuple[Key, ...]] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)

    def share(self, label: str) -> float:
        return self.shares.get(label, 0.0) if self.shares else 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A key, and what it costs.

    ``routes`` has the positions of the key in each atom. ``replicated`` is f, ``hottest`` the share
    of the hashed events that the most frequent key has. The parts' multiplicities must be summed
    if ``is_summed``: the head does not show the key. ``split`` is the atom by whose other variable
    a hot key may be split, or None. ``problem`` says why the key cannot be used.
    """

    variables: tuple[str, ...]
    routes: tuple[Positions, ...]
    replicated: float = 1.0
    hottest: float = 0.0
    is_summed: bool = False
    split: int | None = None
    hot: tuple[str, ...] = ()
    problem: str = ""

    def find_speedup(self, partitions: int) -> float:
        """How much more so many parts do than one, by the law of replication.

        >>> Candidate(("?x",), ((0,), ()), replicated=0.25).find_speedup(3)
        2.0
        """
        even = (1 - self.replicated) / partitions + self.replicated
        return 1 / max(even, self.replicated + (1 - self.replicated) * self.hottest)

    def find_copies(self, partitions: int) -> float:
        """How often an event is delivered, on average."""
        return 1 + self.replicated * (partitions - 1)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The candidates for a query, the best first; ``chosen`` is None if parts do not help, and
    ``reason`` says why it is so.
    """

    partitions: int
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    reason: str


def plan_partitions(
    query: Query, partitions: int, observed: Observed | None = None
) -> Partitioning:
    """Choose the key of a query for so many parts. Cost: the pairs of its variables.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> query = Query(Form.SELECT, ("?x", "?z"), (Atom("?x", p, "?y"), Atom("?y", q, "?z")))
    >>> plan_partitions(query, 4).reason
    'hashed by ?y: 4.0 times the work of one part'
    """
    if partitions < 1:
        raise ValueError(f"there is at least one part, not {partitions}")
    seen = observed or Observed()
    problem = _find_problem(query)
    if problem:
        return Partitioning(partitions, (), None, problem)
    found = [_weigh(query, key, partitions, seen) for key in _list_keys(query)]
    found.sort(key=lambda c: _rank(c, partitions))
    usable = [candidate for candidate in found if not candidate.problem]
    if not usable:
        reason = found[0].problem if found else "no atom has a variable"
        return Partitioning(partitions, tuple(found), None, reason)
    best = usable[0]
    gain = best.find_speedup(partitions)
    names = " and ".join(best.variables)
    if partitions > 1 and gain < LEAST_GAIN:
        reason = f"by {names}, the best key, {partitions} parts do {gain:.2f} times the work of one"
        return Partitioning(partitions, tuple(found), None, reason)
    reason = f"hashed by {names}: {gain:.1f} times the work of one part"
    return Partitioning(partitions, tuple(found), best, reason)


def _rank(candidate: Candidate, partitions: int) -> tuple[object, ...]:
    gain = 0.0 if candidate.problem else candidate.find_speedup(partitions)
    return (-round(gain, 6), candidate.is_summed, len(candidate.variables))


def _find_problem(query: Query) -> str:
    """Why no key can do, if so."""
    if any(is_variable(atom.predicate) for atom in query.atoms):
        return "a predicate is a variable, so an atom reads events of every label"
    if query.form is Form.ASK:
        return "ASK is one answer for all parts"
    if query.limit is not None or query.offset:
        return "LIMIT and OFFSET count the answers of all parts"
    if not query.atoms:
        return "there is no atom"
    return ""


def _list_keys(query: Query) -> Iterator[tuple[str, ...]]:
    """Single variables, and pairs that some atom has both of."""
    for variable in dict.fromkeys(v for atom in query.atoms for v in atom.variables):
        yield (variable,)
    pairs = (pair for atom in query.atoms for pair in combinations(sorted(atom.variables), 2))
    yield from dict.fromkeys(pairs)


def find_positions(atom: Atom, key: tuple[str, ...]) -> Positions:
    """Where an atom has the variables of a key; () unless it has all of them.

    >>> find_positions(Atom("?y", "<http://ex/p>", "?x"), ("?x", "?y"))
    (2, 0)
    """
    places = {atom.object: OBJECT, atom.subject: SUBJECT}
    if any(variable not in places for variable in key):
        return ()
    return tuple(places[variable] for variable in key)


def _weigh(query: Query, key: tuple[str, ...], partitions: int, seen: Observed) -> Candidate:
    routes = tuple(find_positions(atom, key) for atom in query.atoms)
    shown = set(_find_shown(query))
    is_summed = not shown.issuperset(key)
    problem = _refuse_sum(query) if is_summed else ""
    streams = {(atom.predicate, route) for atom, route in zip(query.atoms, routes, strict=True)}
    whole = sum(seen.share(label) for label, _ in streams)
    copied = sum(seen.share(label) for label, route in streams if not route)
    replicated = copied / whole if whole else float(not all(route for _, route in streams))
    hashed = sorted(stream for stream in streams if stream[1])
    load = _find_load(hashed, seen)
    hottest = max(load.values(), default=0.0)
    split = _find_split(query, key, routes, shown, seen)
    hot: tuple[str, ...] = ()
    if split is not None and (found := _list_hot(load, partitions)):
        hot = tuple(sorted(each.terms[0] for each in found))
        # What was of a hot key is now in every part, but for the atom that is split.
        apart = (query.atoms[split].predicate, routes[split])
        moved = sum(_find_share(stream, hot, seen) for stream in hashed if stream != apart)
        replicated += (1 - replicated) * moved / max(sum(seen.share(s[0]) for s in hashed), 1e-9)
        hottest = max((share for terms, share in load.items() if terms[0] not in hot), default=0.0)
        is_summed |= not shown.issuperset(query.atoms[split].variables)
    return Candidate(key, routes, replicated, hottest, is_summed, split, hot, problem)


def _find_shown(query: Query) -> tuple[str, ...]:
    """The variables that keep answers of different parts apart."""
    if query.grouping is None:
        return query.free
    return tuple(column.name for column in query.grouping.keys if column.name == column.expression)


def _refuse_sum(query: Query) -> str:
    if query.grouping is not None:
        return "GROUP BY does not have it, so a group would be in several parts"
    if query.duplicates is not Duplicates.KEEP:
        return "the head does not show it, and DISTINCT looks at the answers of all parts"
    return ""


def _find_load(hashed: list[tuple[str, Positions]], seen: Observed) -> dict[tuple[str, ...], float]:
    """The share of the hashed events that each frequent key has."""
    whole = sum(seen.share(label) for label, _ in hashed)
    load: dict[tuple[str, ...], float] = {}
    for label, positions in hashed:
        for terms, share in seen.keys.get((label, positions), ()):
            load[terms] = load.get(terms, 0.0) + share * seen.share(label) / (whole or 1.0)
    return load


def _list_hot(load: Mapping[tuple[str, ...], float], partitions: int) -> list[Key]:
    found = [Key(terms, share) for terms, share in load.items() if share > HOT / partitions]
    return sorted(found, key=lambda each: -each.share) if partitions > 1 else []


def find_hot(query: Query, key: tuple[str, ...], partitions: int, seen: Observed) -> list[Key]:
    """The values of a key with more than their fair part of the hashed events, the hottest first.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> query = Query(Form.SELECT, ("?x",), (Atom("?x", p, "?y"), Atom("?x", q, "?z")))
    >>> seen = Observed({p: 0.5, q: 0.5}, {(p, (0,)): (Key(("<http://ex/hub>",), 0.8),)})
    >>> find_hot(query, ("?x",), 4, seen)
    [Key(terms=('<http://ex/hub>',), share=0.4)]
    """
    streams = {(atom.predicate, find_positions(atom, key)) for atom in query.atoms}
    return _list_hot(_find_load(sorted(s for s in streams if s[1]), seen), partitions)


def _find_share(stream: tuple[str, Positions], hot: tuple[str, ...], seen: Observed) -> float:
    """The events of a label that have a hot key, as a share of all events."""
    keys = seen.keys.get(stream, ())
    return seen.share(stream[0]) * sum(key.share for key in keys if key.terms[0] in hot)


def _find_split(
    query: Query, key: tuple[str, ...], routes: tuple[Positions, ...], shown: set[str],
    seen: Observed,
) -> int | None:  # fmt: skip
    """The atom with most events whose other variable may split a hot key."""
    if len(key) > 1:
        return None
    found = []
    for place, (atom, route) in enumerate(zip(query.atoms, routes, strict=True)):
        others = [v for v in atom.variables if v not in key]
        if route and others and (shown.issuperset(others) or not _refuse_sum(query)):
            found.append((-seen.share(atom.predicate), place))
    return min(found)[1] if found else None
