"""Which partition gets which events, and which partitions maintain which queries.

A query is either *keyed*, maintained by all partitions, each for its own keys; or a *lane*,
maintained whole by one partition. An event is sent once for each way in which queries need it, each
time under a label of its own (a tag): two atoms may read one label with the key in different
positions, and what a partition received for one must not reach the other. Atoms with the same needs
share a tag, within a query and across queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from triegs.partition.keys import Candidate, Partitioning, plan_partitions
from triegs.partition.statistics import Positions, StreamStatistics
from triegs.sparql.model import Query, is_variable

NAMES = {0: "s", 2: "o"}
#: A field name in the layout of a checkpoint, fixed by the format.
PARTS = "parts"


class Route(NamedTuple):
    """Events of ``label`` are sent under the label ``tag`` to the partition that owns the terms at
    ``positions``; without positions, to all partitions in ``to``. Events with a key in ``hot`` are
    routed by the terms at ``spread`` instead; without ``spread``, to all partitions.
    """

    label: str
    tag: str
    positions: Positions
    to: tuple[int, ...]
    hot: tuple[str, ...] = ()
    spread: Positions = ()


class StatementRoute(NamedTuple):
    """With rules, how stated triples with a predicate, and of types with a class, reach partitions:
    to all of them, or to the owners of the terms at ``positions``. An empty name means any. Routes
    that are not ``known`` are for triples that no known one matches.
    """

    predicate: str
    type: str
    positions: Positions
    known: bool = True


class QueryPlacement(NamedTuple):
    """A query: the tags of its atoms, the partitions that maintain it, and why. ``key`` is empty
    for a lane.
    """

    name: str
    labels: tuple[str, ...]
    partitions: tuple[int, ...]
    key: tuple[str, ...]
    is_summed: bool
    cost: float
    reason: str
    #: How many partitions receive an event of this query, on average.
    copies: float = 1.0

    def write(self) -> dict[str, Any]:
        """As JSON. Checkpoints call the partitions ``parts``."""
        return {PARTS if name == "partitions" else name: v for name, v in self._asdict().items()}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> QueryPlacement:
        values = _freeze(fields)
        return cls(partitions=values.pop(PARTS), **values)


class Layout(NamedTuple):
    """Routes and placements. ``problem`` says why partitioning does not help, if it does not.

    With rules, events are sent by ``statements``, under their own labels. Each partition derives
    from what it has, and its queries read under the tags of ``routes`` what it owns of the closure.
    """

    partitions: int
    routes: tuple[Route, ...]
    queries: tuple[QueryPlacement, ...]
    problem: str = ""
    statements: tuple[StatementRoute, ...] = ()

    def write(self) -> dict[str, Any]:
        """As JSON."""
        routes = [route._asdict() for route in self.routes]
        queries = [placement.write() for placement in self.queries]
        found = {**self._asdict(), "routes": routes, "queries": queries}
        found["statements"] = [each._asdict() for each in self.statements]
        return found

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Layout:
        """
        >>> layout = Layout(1, (Route("<a:p>", "<a:p>", (0,), ()),), ())
        >>> Layout.read(layout.write()) == layout
        True
        """
        routes = tuple(Route(**_freeze(route)) for route in fields["routes"])
        queries = tuple(QueryPlacement.read(query) for query in fields["queries"])
        given = fields.get("statements", ())  # checkpoints without rules may lack them
        statements = tuple(StatementRoute(**_freeze(each)) for each in given)
        return cls(fields["partitions"], routes, queries, fields["problem"], statements)


def _freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}


def lay_out(
    queries: Mapping[str, Query], partitions: int, statistics: StreamStatistics | None = None
) -> Layout:
    """Place queries so that the busiest partition has as little work as possible.

    Either each query gets its best key, and becomes a lane if no key helps; or all queries are
    lanes, the most expensive first, each in the least loaded partition. A query's cost is measured,
    or else estimated by the events it reads, once for each atom. Cost: as `plan_partitions`.
    """
    known = statistics or StreamStatistics()
    if problem := find_unsuited(queries, partitions):
        return Layout(partitions, (), (), problem)
    plans = {name: plan_partitions(query, partitions, known) for name, query in queries.items()}
    costs = known.costs
    if not queries.keys() <= costs.keys():
        costs = {
            name: sum(known.share(atom.predicate) for atom in query.atoms)
            for name, query in queries.items()
        }
    keyed = {name: plan.chosen for name, plan in plans.items() if plan.chosen is not None}
    shared = sum(costs[name] / chosen.find_speedup(partitions) for name, chosen in keyed.items())
    mixed = _spread_lanes([name for name in queries if name not in keyed], costs, partitions)
    lanes = _spread_lanes(queries, costs, partitions)
    makes_lanes = _find_most(lanes, costs) < shared + _find_most(mixed, costs)
    chosen_lanes = lanes if makes_lanes else mixed
    problem = ""
    if partitions > 1 and len(set(chosen_lanes.values())) < 2 and (makes_lanes or not keyed):
        problem = "; ".join(f"{name}: {plan.reason}" for name, plan in plans.items())
    routes: dict[str, Route] = {}
    found = []
    for name, query in queries.items():
        if name in chosen_lanes:
            found.append(
                _place_lane(name, query, chosen_lanes[name], costs[name], plans[name], routes)
            )
        else:
            chosen = keyed[name]
            number = len(found)
            labels = route_keyed(number, query, chosen, partitions, routes)
            found.append(
                QueryPlacement(
                    name, labels, tuple(range(partitions)), chosen.variables, chosen.is_summed,
                    costs[name], plans[name].reason, chosen.find_copies(partitions),
                )
            )  # fmt: skip
    return Layout(partitions, tuple(routes.values()), tuple(found), problem)


def find_unsuited(queries: Mapping[str, Query], partitions: int) -> str:
    """Why a query cannot run in partitions, not even whole in one of them; empty if all can."""
    for name, query in queries.items():
        is_listed = query.limit is not None or query.offset or query.order
        is_open = query.reads_times or any(is_variable(atom.predicate) for atom in query.atoms)
        if is_listed or is_open:
            return f"{name}: {plan_partitions(query, partitions).reason}"
    return ""


def _spread_lanes(
    names: Iterable[str], costs: Mapping[str, float], partitions: int
) -> dict[str, int]:
    """
    >>> _spread_lanes(["a", "b", "c"], {"a": 1.0, "b": 3.0, "c": 2.5}, 2)
    {'b': 0, 'c': 1, 'a': 1}
    """
    load = [(0.0, 0)] * partitions  # on a tie, the one with fewer queries
    found = {}
    for name in sorted(names, key=lambda name: -costs[name]):
        partition = found[name] = load.index(min(load))
        load[partition] = load[partition][0] + costs[name], load[partition][1] + 1
    return found


def _find_most(lanes: Mapping[str, int], costs: Mapping[str, float]) -> float:
    load: dict[int, float] = {}
    for name, partition in lanes.items():
        load[partition] = load.get(partition, 0.0) + costs[name]
    return max(load.values(), default=0.0)


def _place_lane(
    name: str,
    query: Query,
    partition: int,
    cost: float,
    plan: Partitioning,
    routes: dict[str, Route],
) -> QueryPlacement:
    labels = []
    for atom in query.atoms:
        tag = name_tag(atom.predicate, "w")
        route = routes.get(tag, Route(atom.predicate, tag, (), ()))
        routes[tag] = route._replace(to=tuple(sorted({*route.to, partition})))
        labels.append(tag)
    reason = f"whole, in partition {partition}"
    if plan.chosen is None:
        reason += f": {plan.reason}"
    return QueryPlacement(name, tuple(labels), (partition,), (), False, cost, reason)


def route_keyed(
    number: int, query: Query, key: Candidate, partitions: int, routes: dict[str, Route]
) -> tuple[str, ...]:
    """Add the routes of a keyed query; returns the tags of its atoms."""
    labels = []
    for index, (atom, positions) in enumerate(zip(query.atoms, key.routes, strict=True)):
        kind = "".join(NAMES[position] for position in positions) or "a"
        hot = key.hot if positions else ()
        spread: Positions = (0, 2) if hot and index == key.split else ()
        if hot:  # hot keys differ by query, so the tags must, too
            kind += f"-{number}" + ("-split" if spread else "")
        tag = name_tag(atom.predicate, kind)
        to = tuple(range(partitions))
        routes[tag] = Route(atom.predicate, tag, positions, to, hot, spread)
        labels.append(tag)
    return tuple(labels)


def name_tag(label: str, kind: str) -> str:
    """The label under which events are sent to partitions.

    >>> name_tag("<http://ex/p>", "s")
    '<triegs:s:http://ex/p>'
    """
    return f"<triegs:{kind}:{label[1:-1]}>"
