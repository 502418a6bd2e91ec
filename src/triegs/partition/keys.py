"""The variables by which a query can be partitioned.

An atom that contains all variables of the key is *hashed*: each event goes to the partition that
owns its key. Every other atom is *replicated*: its events go to all partitions. So each valuation
is found in exactly one partition, and partitions need nothing from each other. Replication bounds
the gain: if a fraction f of the events is replicated, N partitions have a speedup of
``1 / ((1 - f) / N + f)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from triegs.partition.statistics import OBJECT, SUBJECT, Key, Positions, StreamStatistics
from triegs.sparql.model import Atom, Duplicates, Form, Query, is_variable

#: A key with more than this multiple of its fair share of the events is worth splitting.
HOT = 1.5
#: Partitioning is not worth its overhead below this speedup.
LEAST_GAIN = 1.2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A key and what it costs.

    ``routes`` has the positions of the key in each atom. ``replicated`` is f; ``hottest`` is the
    share of the hashed events that the most frequent key has. If ``is_summed``, multiplicities must
    be added up over the partitions, because the key is not projected; of a query with aggregates,
    partial groups are merged, because the key is not one of its own. ``split`` is the atom whose
    other variable can split a hot key, or None. ``problem`` says why the key cannot be used.
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
        """The speedup over one partition, by the law of replication.

        >>> Candidate(("?x",), ((0,), ()), replicated=0.25).find_speedup(3)
        2.0
        """
        even = (1 - self.replicated) / partitions + self.replicated
        return 1 / max(even, self.replicated + (1 - self.replicated) * self.hottest)

    def find_copies(self, partitions: int) -> float:
        """How many partitions receive an event, on average."""
        return 1 + self.replicated * (partitions - 1)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The candidates for a query, best first. ``chosen`` is None if partitioning does not help;
    ``reason`` explains the choice.
    """

    partitions: int
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    reason: str


def plan_partitions(
    query: Query, partitions: int, statistics: StreamStatistics | None = None
) -> Partitioning:
    """Choose the partitioning key of a query. Cost: the pairs of its variables.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> query = Query(Form.SELECT, ("?x", "?z"), (Atom("?x", p, "?y"), Atom("?y", q, "?z")))
    >>> plan_partitions(query, 4).reason
    'hashed by ?y: 4.0 times the throughput of one partition'
    """
    if partitions < 1:
        raise ValueError(f"partitions must be at least 1, not {partitions}")
    known = statistics or StreamStatistics()
    problem = _find_problem(query)
    if problem:
        return Partitioning(partitions, (), None, problem)
    found = [_weigh(query, key, partitions, known) for key in _list_keys(query)]
    found.sort(key=lambda c: _rank(c, partitions))
    usable = [candidate for candidate in found if not candidate.problem]
    if not usable:
        reason = found[0].problem if found else "no atom has a variable"
        return Partitioning(partitions, tuple(found), None, reason)
    best = usable[0]
    gain = best.find_speedup(partitions)
    names = " and ".join(best.variables)
    if partitions > 1 and gain < LEAST_GAIN:
        reason = (
            f"with the best key, {names}, {partitions} partitions have only {gain:.2f} times the "
            "throughput of one"
        )
        return Partitioning(partitions, tuple(found), None, reason)
    reason = f"hashed by {names}: {gain:.1f} times the throughput of one partition"
    if best.is_summed and query.grouping is not None:
        reason += "; partial aggregates of the partitions are merged"
    return Partitioning(partitions, tuple(found), best, reason)


def _rank(candidate: Candidate, partitions: int) -> tuple[object, ...]:
    gain = 0.0 if candidate.problem else candidate.find_speedup(partitions)
    return (-round(gain, 6), candidate.is_summed, len(candidate.variables))


def _find_problem(query: Query) -> str:
    """Why no key works; empty if one may."""
    if query.reads_times:
        return "a pattern has the time of its event, which partitions do not keep"
    if any(is_variable(atom.predicate) for atom in query.atoms):
        return "a predicate is a variable, so its atom reads every label"
    if query.form is Form.ASK:
        return "ASK has one answer across all partitions"
    if query.limit is not None or query.offset:
        return "LIMIT and OFFSET count the answers of all partitions"
    if query.order:
        return "ORDER BY sorts the answers of all partitions"
    if not query.atoms:
        return "the query has no atom"
    return ""


def _list_keys(query: Query) -> Iterator[tuple[str, ...]]:
    """Single variables, and pairs that occur together in an atom."""
    for variable in dict.fromkeys(v for atom in query.atoms for v in atom.variables):
        yield (variable,)
    pairs = (pair for atom in query.atoms for pair in combinations(sorted(atom.variables), 2))
    yield from dict.fromkeys(pairs)


def find_positions(atom: Atom, key: tuple[str, ...]) -> Positions:
    """The positions of a key's variables in an atom; () unless it has all of them.

    >>> find_positions(Atom("?y", "<http://ex/p>", "?x"), ("?x", "?y"))
    (2, 0)
    """
    positions = {atom.object: OBJECT, atom.subject: SUBJECT}
    if any(variable not in positions for variable in key):
        return ()
    return tuple(positions[variable] for variable in key)


def _weigh(
    query: Query, key: tuple[str, ...], partitions: int, statistics: StreamStatistics
) -> Candidate:
    routes = tuple(find_positions(atom, key) for atom in query.atoms)
    shown = set(_find_shown(query))
    is_summed = not shown.issuperset(key)
    problem = _refuse_sum(query) if is_summed else ""
    streams = {(atom.predicate, route) for atom, route in zip(query.atoms, routes, strict=True)}
    whole = sum(statistics.share(label) for label, _ in streams)
    copied = sum(statistics.share(label) for label, route in streams if not route)
    replicated = copied / whole if whole else float(not all(route for _, route in streams))
    hashed = sorted(stream for stream in streams if stream[1])
    load = _find_load(hashed, statistics)
    hottest = max(load.values(), default=0.0)
    split = _find_split(query, key, routes, shown, statistics)
    hot: tuple[str, ...] = ()
    if split is not None and (found := _list_hot(load, partitions)):
        hot = tuple(sorted(each.terms[0] for each in found))
        # Events of a hot key now go to every partition, except those of the split atom.
        apart = (query.atoms[split].predicate, routes[split])
        moved = sum(_find_share(stream, hot, statistics) for stream in hashed if stream != apart)
        total = sum(statistics.share(label) for label, _ in hashed)
        replicated += (1 - replicated) * moved / max(total, 1e-9)
        hottest = max((share for terms, share in load.items() if terms[0] not in hot), default=0.0)
        is_summed |= not shown.issuperset(query.atoms[split].variables)
    return Candidate(key, routes, replicated, hottest, is_summed, split, hot, problem)


def _find_shown(query: Query) -> tuple[str, ...]:
    """The variables that keep the answers of different partitions apart."""
    if query.grouping is None:
        return query.free
    keys = [column.name for column in query.grouping.keys if column.name == column.expression]
    return tuple(name for name in keys if name in query.head)


def _refuse_sum(query: Query) -> str:
    if query.grouping is None and query.duplicates is not Duplicates.KEEP:
        return "it is not projected, and DISTINCT needs the answers of all partitions"
    return ""


def _find_load(
    hashed: list[tuple[str, Positions]], statistics: StreamStatistics
) -> dict[tuple[str, ...], float]:
    """The share of the hashed events that each frequent key has."""
    whole = sum(statistics.share(label) for label, _ in hashed)
    load: dict[tuple[str, ...], float] = {}
    for label, positions in hashed:
        for terms, share in statistics.keys.get((label, positions), ()):
            load[terms] = load.get(terms, 0.0) + share * statistics.share(label) / (whole or 1.0)
    return load


def _list_hot(load: Mapping[tuple[str, ...], float], partitions: int) -> list[Key]:
    found = [Key(terms, share) for terms, share in load.items() if share > HOT / partitions]
    return sorted(found, key=lambda each: -each.share) if partitions > 1 else []


def find_hot(
    query: Query, key: tuple[str, ...], partitions: int, statistics: StreamStatistics
) -> list[Key]:
    """The key values with more than their fair share of the hashed events, hottest first.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> query = Query(Form.SELECT, ("?x",), (Atom("?x", p, "?y"), Atom("?x", q, "?z")))
    >>> keys = {(p, (0,)): (Key(("<http://ex/hub>",), 0.8),)}
    >>> statistics = StreamStatistics({p: 0.5, q: 0.5}, keys)
    >>> find_hot(query, ("?x",), 4, statistics)
    [Key(terms=('<http://ex/hub>',), share=0.4)]
    """
    streams = {(atom.predicate, find_positions(atom, key)) for atom in query.atoms}
    return _list_hot(_find_load(sorted(s for s in streams if s[1]), statistics), partitions)


def _find_share(
    stream: tuple[str, Positions], hot: tuple[str, ...], statistics: StreamStatistics
) -> float:
    """The events of a label that have a hot key, as a share of all events."""
    keys = statistics.keys.get(stream, ())
    return statistics.share(stream[0]) * sum(key.share for key in keys if key.terms[0] in hot)


def _find_split(
    query: Query, key: tuple[str, ...], routes: tuple[Positions, ...], shown: set[str],
    statistics: StreamStatistics,
) -> int | None:  # fmt: skip
    """The most frequent atom whose other variable can split a hot key."""
    if len(key) > 1:
        return None
    found = []
    for number, (atom, route) in enumerate(zip(query.atoms, routes, strict=True)):
        others = [v for v in atom.variables if v not in key]
        if route and others and (shown.issuperset(others) or not _refuse_sum(query)):
            found.append((-statistics.share(atom.predicate), number))
    return min(found)[1] if found else None
