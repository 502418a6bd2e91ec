"""Where the events of a stream go, and where queries are kept, when there are several parts.

A query is *keyed*, kept by all parts for the keys that each of them has, or it is a *lane*, kept
whole by one of them. An event is sent under a label of its own for each way in which queries want
it: two atoms may read one label and have the key in different places, and what a part has got for
one of them is not for the other. Atoms that want the same share it, in one query and in several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from triegs.compiler.partitions import (
    Candidate,
    Observed,
    Partitioning,
    Positions,
    plan_partitions,
)
from triegs.sparql.model import Query, is_variable

NAMES = {0: "s", 2: "o"}


class Route(NamedTuple):
    """Events of ``label`` get the label ``tag``, and go to the part that the terms at ``positions``
    belong to; or, without any, to all parts in ``to``. Those with a key in ``hot`` go by the terms
    at ``spread`` instead, or without any to all parts.
    """

    label: str
    tag: str
    positions: Positions
    to: tuple[int, ...]
    hot: tuple[str, ...] = ()
    spread: Positions = ()


class Placed(NamedTuple):
    """A query: the labels of its atoms, the parts that keep it, and why; ``key`` is empty for a
    lane.
    """

    name: str
    labels: tuple[str, ...]
    parts: tuple[int, ...]
    key: tuple[str, ...]
    is_summed: bool
    cost: float
    reason: str
    #: How often an event for it is sent, on average.
    copies: float = 1.0


class Layout(NamedTuple):
    """Routes and queries of so many parts; ``problem`` says why parts do not help, if so."""

    partitions: int
    routes: tuple[Route, ...]
    queries: tuple[Placed, ...]
    problem: str = ""

    def write(self) -> dict[str, Any]:
        """As JSON has it."""
        routes = [route._asdict() for route in self.routes]
        return {**self._asdict(), "routes": routes, "queries": [q._asdict() for q in self.queries]}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Layout:
        """
        >>> layout = Layout(1, (Route("<a:p>", "<a:p>", (0,), ()),), ())
        >>> Layout.read(layout.write()) == layout
        True
        """
        routes = tuple(Route(**_freeze(route)) for route in fields["routes"])
        queries = tuple(Placed(**_freeze(query)) for query in fields["queries"])
        return cls(fields["partitions"], routes, queries, fields["problem"])


def _freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}


def lay_out(
    queries: Mapping[str, Query], partitions: int, observed: Observed | None = None
) -> Layout:
    """Place queries, so that the part with most to do has as little as possible.

    Either each query has the key that is best for it, and is a lane if none helps; or all are
    lanes, the most expensive first, each where least is to do. What a query costs was measured, or
    else it is the events that it is given, once for each atom. Cost: as `plan_partitions`.
    """
    seen = observed or Observed()
    for name, query in queries.items():
        has_limit = query.limit is not None or bool(query.offset)
        if has_limit or any(is_variable(atom.predicate) for atom in query.atoms):
            return Layout(
                partitions, (), (), f"{name}: {plan_partitions(query, partitions).reason}"
            )
    plans = {name: plan_partitions(query, partitions, seen) for name, query in queries.items()}
    costs = seen.costs
    if not queries.keys() <= costs.keys():
        costs = {
            name: sum(seen.share(atom.predicate) for atom in query.atoms)
            for name, query in queries.items()
        }
    keyed = {name: plan.chosen for name, plan in plans.items() if plan.chosen is not None}
    shared = sum(costs[name] / chosen.find_speedup(partitions) for name, chosen in keyed.items())
    mixed = _spread_lanes([name for name in queries if name not in keyed], costs, partitions)
    lanes = _spread_lanes(queries, costs, partitions)
    makes_lanes = _find_most(lanes, costs) < shared + _find_most(mixed, costs)
    placed = lanes if makes_lanes else mixed
    problem = ""
    if partitions > 1 and len(set(placed.values())) < 2 and (makes_lanes or not keyed):
        problem = "; ".join(f"{name}: {plan.reason}" for name, plan in plans.items())
    routes: dict[str, Route] = {}
    found = []
    for name, query in queries.items():
        if name in placed:
            found.append(_place_lane(name, query, placed[name], costs[name], plans[name], routes))
        else:
            chosen = keyed[name]
            number = len(found)
            labels = _route_keyed(number, query, chosen, partitions, routes)
            found.append(
                Placed(
                    name, labels, tuple(range(partitions)), chosen.variables, chosen.is_summed,
                    costs[name], plans[name].reason, chosen.find_copies(partitions),
                )
            )  # fmt: skip
    return Layout(partitions, tuple(routes.values()), tuple(found), problem)


def _spread_lanes(
    names: Iterable[str], costs: Mapping[str, float], partitions: int
) -> dict[str, int]:
    """
    >>> _spread_lanes(["a", "b", "c"], {"a": 1.0, "b": 3.0, "c": 2.5}, 2)
    {'b': 0, 'c': 1, 'a': 1}
    """
    load = [(0.0, 0)] * partitions  # of equal ones, that with fewer queries
    found = {}
    for name in sorted(names, key=lambda name: -costs[name]):
        part = found[name] = load.index(min(load))
        load[part] = load[part][0] + costs[name], load[part][1] + 1
    return found


def _find_most(lanes: Mapping[str, int], costs: Mapping[str, float]) -> float:
    load: dict[int, float] = {}
    for name, part in lanes.items():
        load[part] = load.get(part, 0.0) + costs[name]
    return max(load.values(), default=0.0)


def _place_lane(
    name: str, query: Query, part: int, cost: float, plan: Partitioning, routes: dict[str, Route]
) -> Placed:
    labels = []
    for atom in query.atoms:
        tag = name_tag(atom.predicate, "w")
        route = routes.get(tag, Route(atom.predicate, tag, (), ()))
        routes[tag] = route._replace(to=tuple(sorted({*route.to, part})))
        labels.append(tag)
    reason = f"whole, in part {part}"
    if plan.chosen is None:
        reason += f": {plan.reason}"
    return Placed(name, tuple(labels), (part,), (), False, cost, reason)


def _route_keyed(
    number: int, query: Query, key: Candidate, partitions: int, routes: dict[str, Route]
) -> tuple[str, ...]:
    """The labels of the atoms of a query, whose routes are added."""
    labels = []
    for place, (atom, positions) in enumerate(zip(query.atoms, key.routes, strict=True)):
        kind = "".join(NAMES[position] for position in positions) or "a"
        hot = key.hot if positions else ()
        spread: Positions = (0, 2) if hot and place == key.split else ()
        if hot:  # which keys are hot differs by query, and so does the label
            kind += f"-{number}" + ("-split" if spread else "")
        tag = name_tag(atom.predicate, kind)
        to = tuple(range(partitions))
        routes[tag] = Route(atom.predicate, tag, positions, to, hot, spread)
        labels.append(tag)
    return tuple(labels)


def name_tag(label: str, kind: str) -> str:
    """The label under which events go to parts.

    >>> name_tag("<http://ex/p>", "s")
    '<triegs:s:http://ex/p>'
    """
    return f"<triegs:{kind}:{label[1:-1]}>"
