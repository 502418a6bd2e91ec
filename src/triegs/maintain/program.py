"""One program for all registered queries: sources and steps, shared by equal sub-plans.

Every node of every plan becomes at most one step; nodes with equal keys are one, counted by how
many plans use it. Steps run children first, which is the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from time import perf_counter
from typing import Any

from triegs.compiler.keys import alias_text, static_text
from triegs.compiler.plan import Alias, Join, Node, Plan, Role, Static, Use
from triegs.errors import MultiplicityOverflow
from triegs.maintain.base import Weights
from triegs.maintain.joins import Accept, JoinInput, JoinOrder, JoinStep, SupportStep
from triegs.maintain.selection import RowsStep, SelectionStep
from triegs.maintain.source import Source
from triegs.maintain.steps import Factor, NodeStep, Step
from triegs.maintain.walk import Climb, Level, Walk
from triegs.sparql.expressions import holds
from triegs.sparql.model import Expression, expression_variables
from triegs.store.contract import Store

Encode = Callable[[str], int]
Decode = Callable[[int], str]


@dataclass(slots=True)
class Part:
    """Something shared: its steps in order, its sources, and how many use it.

    A part whose counts do not fit 64 bits *stalls*, and with it all that depend on it: its sources
    are worthless until a later epoch rebuilds them, and `error` says why.
    """

    steps: list[Step] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    depends: list[Part] = field(default_factory=list)
    uses: int = 0
    error: MultiplicityOverflow | None = None
    #: What the last epoch took.
    seconds: float = 0.0

    def run(self) -> None:
        """Maintain the part; rebuild it where it had stalled."""
        begun = perf_counter()
        stalled = self.error is not None
        self.error = next((part.error for part in self.depends if part.error), None)
        if self.error is not None:
            return
        try:
            if stalled:
                for source in self.sources:
                    source.clear()
            for step in self.steps:
                step.build() if stalled else step.maintain()
        except MultiplicityOverflow as error:
            self.error = error
        self.seconds = perf_counter() - begun


@dataclass(slots=True)
class Built:
    """What a plan's node became: the marginal over its interface, and its live tuples."""

    marginal: Source
    #: The node's interface in the order of the marginal's columns.
    interface: tuple[str, ...]
    live: Source | None
    live_order: tuple[str, ...]
    #: What the node's bindings are listed by, and which of `live_order` each of its columns is.
    cover: Source | None = None
    cover_order: tuple[int, ...] = ()


@dataclass(slots=True)
class Registered:
    """A plan in the program: what its nodes became, and the parts that it holds."""

    built: list[Built] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """What the last epoch took for it, with what it shares with others."""
        return sum(part.seconds for part in self.parts)

    @property
    def error(self) -> MultiplicityOverflow | None:
        """Why the plan is stalled; None while it is not."""
        return next((part.error for part in self.parts if part.error), None)


class Program:
    """All steps that an epoch runs, over one store.

    `encode` and `decode` translate the constants of queries and the terms that filters see.
    """

    def __init__(self, store: Store, base: Weights, encode: Encode, decode: Decode) -> None:
        self.store = store
        self.base = base
        self._encode = encode
        self._decode = decode
        self._parts: dict[str, Part] = {}
        #: The bindings that epochs have evaluated so far.
        self.affected = 0
        self._built: dict[str, Built] = {}

    # Registration

    def register(self, plan: Plan) -> Registered:
        """Make, or find, what each node of the plan needs; new parts are filled from the graph.

        A part whose counts do not fit is stalled from the start. After an exception the caller
        aborts, and restores what it has saved.
        """
        found = Registered()
        for node in plan.nodes:
            found.built.append(self._register_node(plan, node, found))
        return found

    def release(self, registered: Registered) -> None:
        """Give back what `register` took; what nobody else uses is dropped."""
        for name in reversed(registered.names):
            part = self._parts[name]
            part.uses -= 1
            if part.uses == 0:
                for source in part.sources:
                    source.drop()
                del self._parts[name]
                self._built.pop(name, None)
        for label in registered.labels:
            self.base.release(label)

    def _share(self, name: str, found: Registered, make: Callable[[Part], None]) -> Part:
        part = self._parts.get(name)
        if part is None:
            part = Part()
            make(part)
            part.error = MultiplicityOverflow("not built yet", name)
            part.run()
            self._parts[name] = part
        part.uses += 1
        found.names.append(name)
        found.parts.append(part)
        return part

    def _register_node(self, plan: Plan, node: Node, found: Registered) -> Built:
        guard = self._guard_source(node, found)
        built = found.built

        def make(part: Part) -> None:
            below = [*node.children]
            below += [i.node for i in node.guard.inputs] if isinstance(node.guard, Join) else []
            part.depends += [self._parts[plan.nodes[c].key] for c in below]
            self._built[node.key] = self._make_node(plan, node, guard, built, part)

        self._share(node.key, found, make)
        return self._renamed(node, self._built[node.key])

    @staticmethod
    def _renamed(node: Node, shared: Built) -> Built:
        """The shared part under this plan's names: equal keys number columns equally."""
        names = (*node.interface, *node.introduces)
        return replace(shared, interface=node.interface, live_order=names)

    def _guard_source(self, node: Node, found: Registered) -> Source | None:
        guard = node.guard
        if isinstance(guard, Alias):
            label = None if guard.relation is None else self._encode(guard.relation)
            whole = self.base.source(label)
            self.base.acquire(label)
            found.labels.append(label)
            if _is_plain(guard):
                return whole
            name = alias_text(guard)
            return self._share(name, found, lambda part: self._select(guard, part)).sources[0]
        if isinstance(guard, Static):
            name = static_text(guard)
            return self._share(name, found, lambda part: self._fix(guard, part)).sources[0]
        return None

    def _select(self, alias: Alias, part: Part) -> None:
        label = None if alias.relation is None else self._encode(alias.relation)
        chosen = Source(self.store, alias_text(alias), len(alias.variables))
        terms = [t if t.startswith("?") else self._encode(t) for t in alias.atom]
        if alias.label is not None:
            terms = [terms[0], terms[2]]
        accepts = tuple(self._accept(e, alias.variables) for e in alias.filters)
        step = SelectionStep(
            self.base.source(label), chosen, tuple(terms), alias.variables, accepts
        )
        part.steps.append(step)
        part.sources.append(chosen)

    def _fix(self, static: Static, part: Part) -> None:
        source = Source(self.store, "VALUES " + " ".join(static.variables), len(static.variables))
        rows = [tuple(map(self._encode, row)) for row in static.values.rows]
        accepts = [self._accept(e, static.variables) for e in static.filters]
        kept = [row for row in rows if all(accept(row) for accept in accepts)]
        part.steps.append(RowsStep(source, tuple(kept)))
        part.sources.append(source)

    def _accept(self, expression: Expression, variables: Sequence[str]) -> Accept:
        wanted = [(v, variables.index(v)) for v in expression_variables(expression)]
        decode = self._decode

        def accept(values: tuple[int, ...]) -> bool:
            return holds(expression, {name: decode(values[i]) for name, i in wanted})

        return accept

    def _make_node(
        self, plan: Plan, node: Node, guard: Source | None, built: Sequence[Built], part: Part
    ) -> Built:
        if isinstance(node.guard, Join):
            guard = self._make_join(node, node.guard, built, part)
        bag = node.bag
        children = list(node.children)
        if guard is None and not children:
            # The empty pattern: one answer, of multiplicity one, whatever the graph.
            one = Source(self.store, node.name, 0)
            part.steps.append(RowsStep(one, ((),)))
            part.sources.append(one)
            return Built(one, (), None, ())
        if guard is not None:
            cover, cover_names = guard, _guard_columns(node)
        else:
            whole = next(c for c in children if set(built[c].interface) == set(bag))
            cover, cover_names = built[whole].marginal, built[whole].interface
        columns = tuple(cover_names.index(v) for v in bag)
        factors = []
        for child in children:
            names = built[child].interface
            is_live = plan.nodes[child].role is Role.WITNESS
            factor = Factor(built[child].marginal, tuple(bag.index(v) for v in names), is_live)
            factors.append(factor)
            if factor.source is not cover:
                cover.require([columns[c] for c in factor.columns])
        is_witness = node.role is Role.WITNESS
        marginal = Source(self.store, node.name, len(node.interface))
        live_names = (*node.interface, *node.introduces)
        live = Source(self.store, f"live {node.name}", len(bag)) if is_witness else None
        step = NodeStep(
            node.name, cover, columns, guard is not None, tuple(factors),
            tuple(bag.index(v) for v in node.interface), marginal, live,
            tuple(bag.index(v) for v in live_names),
        )  # fmt: skip
        part.steps.append(step)
        part.sources += step.outputs
        order = tuple(live_names.index(v) for v in cover_names)
        return Built(marginal, node.interface, live, live_names, cover, order)

    def _make_join(self, node: Node, join: Join, built: Sequence[Built], part: Part) -> Source:
        names = join.variables
        inputs = []
        for wanted in join.inputs:
            shown = built[wanted.node]
            source, have = shown.marginal, shown.interface
            if wanted.use is Use.SUPPORT:
                columns = tuple(have.index(v) for v in wanted.variables)
                support = Source(self.store, f"support of {node.name}", len(columns))
                part.steps.append(SupportStep(source, columns, support))
                part.sources.append(support)
                source, have = support, wanted.variables
            variables = tuple(names.index(v) for v in have)
            inputs.append(JoinInput(source, variables, wanted.use is Use.SUPPORT))
        orders = tuple(_join_orders(inputs))
        for other, bound in dict.fromkeys(step for order in orders for step in order):
            inputs[other].source.require(bound)
        output = Source(self.store, f"join {node.name}", len(node.bag))
        keeps = tuple(names.index(v) for v in node.bag)
        accepts = tuple(self._accept(e, names) for e in join.filters)
        step = JoinStep(tuple(inputs), orders, len(names), keeps, accepts, output)
        part.steps.append(step)
        part.sources.append(output)
        return output

    # Epochs

    def maintain(self) -> None:
        """Bring every part from the last epoch to this one, children first."""
        for part in self._parts.values():
            part.run()
            self.affected += sum(s.affected for s in part.steps if isinstance(s, NodeStep))

    def stored_answers(self) -> int:
        """Entries of materialised joins; none where every query is free-connex."""
        steps = (step for part in self._parts.values() for step in part.steps)
        return sum(len(s.output.primary) for s in steps if isinstance(s, JoinStep))

    @property
    def is_used(self) -> bool:
        return bool(self._parts)

    def save(self) -> Any:
        """What `restore` needs after the store has aborted. Cost: the parts."""
        parts = [(name, part, part.uses, part.error) for name, part in self._parts.items()]
        sources = [(source, source.save()) for source in self.sources()]
        return parts, dict(self._built), sources, self.base.save()

    def restore(self, saved: Any) -> None:
        """Be as before, a part that is stalled too: what it keeps must be built again."""
        parts, built, sources, base = saved
        self._parts = {name: part for name, part, _, _ in parts}
        for _, part, uses, error in parts:
            part.uses, part.error = uses, error
        self._built = dict(built)
        self.base.restore(base)
        for source, indexes in sources:
            source.restore(indexes)
        self.end_epoch()

    def end_epoch(self) -> None:
        self.base.end_epoch()
        for part in self._parts.values():
            for source in part.sources:
                source.end_epoch()

    def sources(self) -> Iterable[Source]:
        yield from self.base.sources()
        for part in self._parts.values():
            yield from part.sources


def make_walk(plan: Plan, built: Sequence[Built]) -> Walk:
    """How to enumerate a plan over what the program made of its nodes."""
    place = {name: i for i, name in enumerate(plan.query.free)}
    walk = Walk(len(place))
    if plan.nodes[plan.root].role is Role.EXISTENTIAL:
        walk.multiply(built[plan.root].marginal.primary, ())
    climbs: dict[int, Climb] = {}  # of the children of witness nodes
    for number in plan.order:
        node, made = plan.nodes[number], built[number]
        if made.live is None:
            raise AssertionError(f"the witness node {node.name} keeps no live tuples")
        interface = tuple(place[v] for v in made.interface)
        binds = tuple(place[v] for v in made.live_order[len(interface) :])
        live, climb = made.live.primary, climbs.get(number)
        if binds:
            piece: int | None = walk.add_level(Level(live, interface, binds, weighs=True), climb)
        else:
            piece = walk.multiply(live, interface, climb)
        for child in node.children:
            if piece is not None and built[child].interface:
                climbs[child] = _climb_to(made, piece, built[child].interface, place)
            if plan.nodes[child].role is Role.EXISTENTIAL:
                counts = built[child]
                places = tuple(place[v] for v in counts.interface)
                walk.multiply(counts.marginal.primary, places, climbs.get(child))
    return walk


def _climb_to(made: Built, piece: int, interface: Sequence[str], place: Mapping[str, int]) -> Climb:
    """The way from a child with that interface to the bindings of its parent."""
    names = [made.live_order[i] for i in made.cover_order]
    if made.cover is None or set(interface) == set(names):
        return Climb(piece)
    index, order = made.cover.find_index([names.index(v) for v in interface])
    return Climb(piece, index, tuple(place[names[c]] for c in order))


def _is_plain(alias: Alias) -> bool:
    """Whether the atom is the whole base relation: its columns are the atom's variables."""
    open_terms = sum(term.startswith("?") for term in alias.atom)
    return not alias.is_selected and open_terms == (2 if alias.label is not None else 3)


def _guard_columns(node: Node) -> tuple[str, ...]:
    return node.bag if isinstance(node.guard, Join) or node.guard is None else node.guard.variables


def _join_orders(inputs: Sequence[JoinInput]) -> list[JoinOrder]:
    """For each input that may have changed, how to visit the others."""
    holders: dict[int, list[int]] = {}
    for place, source in enumerate(inputs):
        for variable in source.variables:
            holders.setdefault(variable, []).append(place)
    return [_join_order(inputs, start, holders) for start in range(len(inputs))]


def _join_order(
    inputs: Sequence[JoinInput], start: int, holders: Mapping[int, Sequence[int]]
) -> JoinOrder:
    """Visit the other inputs so that each is looked up by as many bound columns as can be.

    Cost: about linear in the inputs, so quadratic for all starts together.
    """
    bound: set[int] = set()
    known = [0] * len(inputs)
    # The most bound columns first, then the first input; an entry that is out of date is skipped.
    waiting = [(0, place) for place in range(len(inputs))]
    is_left = [True] * len(inputs)
    order: list[tuple[int, tuple[int, ...]]] = []
    following = start
    while True:
        is_left[following] = False
        variables = inputs[following].variables
        if following != start:
            order.append((following, tuple([c for c, v in enumerate(variables) if v in bound])))
            if len(order) == len(inputs) - 1:
                return tuple(order)
        elif len(inputs) == 1:
            return ()
        for variable in variables:
            if variable not in bound:
                bound.add(variable)
                for place in holders[variable]:
                    if is_left[place]:
                        known[place] += 1
                        heappush(waiting, (-known[place], place))
        while True:
            count, following = heappop(waiting)
            if is_left[following] and -count == known[following]:
                break
