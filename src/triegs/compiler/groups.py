"""Aggregates: the relations that a grouped query keeps, each without the variables it can sum out.

A group is identified by the variables of its keys. The number of its answers is a marginal over
these variables, so a `COUNT` needs no stored answers. A `SUM` is the same marginal with the digits
of the summed variable multiplied in. The whole digit has a source of its own, because integers have
no other: it has the shape of the count, while all other digits add a column. An extreme of a
variable is carried along the path from that variable to the key, if there is one and it has more
than one edge. Every other aggregate needs the values of its argument by group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from triegs.compiler.assembly import SplitQuery, make_nodes, refuse_wide, shift_draft
from triegs.compiler.choices import Chooser, run_all
from triegs.compiler.choose import EXHAUSTIVE, TRIED, Priced, price
from triegs.compiler.component import QueryComponent, build_marginal
from triegs.compiler.elimination import Draft
from triegs.compiler.plan import (
    DIGIT,
    Component,
    Digits,
    Extreme,
    Groups,
    Input,
    Join,
    Measure,
    Node,
    Plan,
    PlanClass,
    Source,
    Use,
    WholeDigit,
    is_by_variable,
)
from triegs.errors import PlanError
from triegs.sparql.model import (
    Aggregate,
    Call,
    Duplicates,
    Expression,
    Form,
    Grouping,
    Query,
    expression_variables,
    is_variable,
)

Choices = Sequence[Sequence[int]]
#: The second measure of each kind of sum.
WHOLE_SUMS = {
    Measure.SUM: Measure.WHOLE_SUM,
    Measure.DISTINCT_SUM: Measure.DISTINCT_WHOLE_SUM,
}
_SUMMED = {Measure.SUM: (DIGIT,), Measure.WHOLE_SUM: ()}
#: The measures that carry an extreme: whether it is the highest.
CARRIED = {Measure.LOWEST: False, Measure.HIGHEST: True}


def compile_groups(query: Query, choices: Choices | None = None) -> Groups:
    """The sources of a grouped query. `choices` are for the first one, and for all extremes."""
    grouping = query.grouping
    assert grouping is not None
    bound = set(query.variables)
    named = [v for key in grouping.keys for v in expression_variables(key.expression)]
    variables = tuple(dict.fromkeys(v for v in named if v in bound))
    wanted: dict[tuple[Measure, tuple[str, ...]], None] = {}
    carried: dict[tuple[Measure, tuple[str, ...]], Plan | None] = {}
    for each in list_aggregates(grouping):
        measure, values = choose_measure(query, each)
        if measure is Measure.VALUES and is_extreme(each):
            extreme = choose_extreme(each), values
            if extreme not in carried:
                carried[extreme] = _carry(query, variables, *extreme, choices)
            if carried[extreme] is not None:
                wanted[extreme] = None
                continue
        wanted[measure, values] = None
        if measure in WHOLE_SUMS:
            wanted[WHOLE_SUMS[measure], values] = None
        if measure is Measure.DISTINCT_SUM:  # an average also needs their number
            wanted[Measure.DISTINCT, values] = None
    if not wanted or not all(measure in CARRIED for measure, _ in wanted):
        # A group with an extreme has answers, so extremes alone need no count.
        wanted = {(Measure.COUNT, ()): None, **wanted}
    sources: list[Source] = []
    first = 0
    for number, (measure, values) in enumerate(wanted):
        plan = carried.get((measure, values)) or compile_source(
            query, variables, measure, values, None if number else choices
        )
        if number:  # names are unique within the query
            nodes = tuple(replace(node, name=f"{node.name}.{number}") for node in plan.nodes)
            plan = replace(plan, nodes=nodes)
        sources.append(Source(measure, values, plan, first + plan.root))
        first += len(plan.nodes)
    found = Groups(variables, tuple(sources), ())
    shown = [column.expression for column in grouping.columns]
    columns = [find_source(query, found, e) if isinstance(e, Aggregate) else None for e in shown]
    return replace(found, columns=tuple(columns))


def find_source(query: Query, groups: Groups, each: Aggregate) -> int:
    """The number of the source that an aggregate is computed from."""
    if is_extreme(each):
        wanted = choose_extreme(each), (each.argument,)
        for number, source in enumerate(groups.sources):
            if (source.measure, source.values) == wanted:
                return number
    return groups.find(*choose_measure(query, each))


def shift_nodes(source: Source) -> Iterator[Node]:
    """The nodes of a source, with their numbers in the plan of the whole query."""
    offset = source.root - source.plan.root
    for node in source.plan.nodes:
        guard = node.guard
        if isinstance(guard, Join):
            moved = tuple(replace(each, node=each.node + offset) for each in guard.inputs)
            guard = replace(guard, inputs=moved)
        children = tuple(child + offset for child in node.children)
        yield replace(node, guard=guard, children=children)


def list_aggregates(grouping: Grouping) -> Iterator[Aggregate]:
    """Every aggregate of the columns and of HAVING."""
    stack: list[Expression] = [*(column.expression for column in grouping.columns)]
    stack += grouping.having
    while stack:
        item = stack.pop()
        if isinstance(item, Aggregate):
            yield item
        elif isinstance(item, Call):
            stack += item.arguments


def choose_measure(query: Query, aggregate: Aggregate) -> tuple[Measure, tuple[str, ...]]:
    """The measure that an aggregate is computed from, and the variables whose values it needs."""
    argument, is_distinct = aggregate.argument, aggregate.duplicates is Duplicates.DISTINCT
    if argument is None:
        if is_distinct and is_direct(query):
            shown = tuple(v for v in query.variables if not v.startswith("?_:"))
            return Measure.DISTINCT, shown
        return Measure.COUNT, ()
    bound = set(query.variables)
    values = tuple(v for v in expression_variables(argument) if v in bound)
    is_plain = isinstance(argument, str) and is_variable(argument) and bool(values)
    assert query.grouping is not None
    if is_distinct and (query.grouping.is_partial or not is_direct(query)):
        return Measure.VALUES, values  # its values may be those of several members or partitions
    if is_plain and aggregate.function == "COUNT":
        return (Measure.DISTINCT, values) if is_distinct else (Measure.COUNT, ())
    if is_plain and aggregate.function in ("SUM", "AVG"):
        return (Measure.DISTINCT_SUM if is_distinct else Measure.SUM), values
    return Measure.VALUES, values


def is_extreme(aggregate: Aggregate) -> bool:
    """Whether an aggregate is the lowest or highest value of a variable; ``SAMPLE`` is the lowest.

    >>> is_extreme(Aggregate("MAX", "?x")), is_extreme(Aggregate("MAX", Call("-", ("?x",))))
    (True, False)
    """
    argument = aggregate.argument
    is_plain = isinstance(argument, str) and is_variable(argument)
    return is_plain and aggregate.function in ("MIN", "MAX", "SAMPLE")


def choose_extreme(aggregate: Aggregate) -> Measure:
    """The measure that an extreme of a variable is read from, if it is carried."""
    return Measure.HIGHEST if aggregate.function == "MAX" else Measure.LOWEST


def _carry(
    query: Query, keys: tuple[str, ...], measure: Measure, values: tuple[str, ...],
    choices: Choices | None,
) -> Plan | None:  # fmt: skip
    """The plan of an extreme that is carried along a path of edges from its variable to the key.

    None if there is no such path, or if it is a single edge, whose values are as easily kept in
    order themselves. Partial groups are merged from all their values.
    """
    assert query.grouping is not None
    if query.grouping.is_partial or len(keys) != 1 or values == keys:
        return None
    try:
        plan = compile_source(query, keys, measure, values, choices)
    except PlanError:
        return None  # these choices are for the shape of another source
    path = list_carrying(plan)
    edges = 0
    for number, below in pairwise(path):
        node = plan.nodes[number]
        if not node.interface or not is_by_variable(plan, node):
            return None
        edges += plan.nodes[below].interface != node.interface
    return plan if edges > 1 and path[0] == plan.root else None


def list_carrying(plan: Plan) -> list[int]:
    """The nodes that carry an extreme, from the top of its component to the leaf."""
    found = [i for i, node in enumerate(plan.nodes) if isinstance(node.guard, Extreme)]
    for number, node in enumerate(plan.nodes):  # children precede parents
        below = list(node.children)
        if isinstance(node.guard, Join):
            below += [each.node for each in node.guard.inputs]
        if found[-1] in below:
            found.append(number)
    return found[::-1]


def is_direct(query: Query) -> bool:
    """Whether each group has one tuple of the variables of its keys: all keys are variables."""
    assert query.grouping is not None
    bound = set(query.variables)
    keys = [key.expression for key in query.grouping.keys]
    return all(isinstance(key, str) and key in bound for key in keys)


def shows_all_keys(query: Query) -> bool:
    """Whether different groups have different rows: all keys are variables, and all are shown."""
    assert query.grouping is not None
    shown = {column.name for column in query.grouping.columns}
    return is_direct(query) and {key.name for key in query.grouping.keys} <= shown


def compile_source(
    query: Query, variables: Sequence[str], measure: Measure, values: tuple[str, ...],
    choices: Choices | None = None,
) -> Plan:  # fmt: skip
    """The plan of one source: the count, or the digits of a sum, of each tuple of its head."""
    is_multiplied = measure in _SUMMED or measure in CARRIED
    shown = variables if is_multiplied else dict.fromkeys((*variables, *values))
    part = replace(
        query, form=Form.SELECT, head=tuple(shown), duplicates=Duplicates.KEEP, limit=None,
        offset=0, grouping=None, order=(),
    )  # fmt: skip
    split = SplitQuery(part, is_marginal=True)
    if choices is not None and len(choices) != len(split.components):
        raise PlanError(f"{len(choices)} lists of choices for {len(split.components)} components")
    builds = [
        _build(component, split.position, None if choices is None else choices[number])
        for number, component in enumerate(split.components)
    ]
    drafts: list[Draft] = []
    components: list[Component] = []
    for (cost, picks, built), atoms in zip(builds, split.atoms, strict=True):
        offset = len(drafts)
        own = [shift_draft(draft, offset) for draft in built.drafts]
        drafts += own
        top = built.top + offset
        bound = {v for draft in own for v in draft.bag}
        if is_multiplied and values[0] in bound:
            top = _multiply(drafts, top, _find_guard(measure, values[0]))
        components.append(
            Component(atoms, built.plan_class, top, built.root, picks, cost, built.warnings)
        )
    root = _join_components(drafts, components, part.head, measure)
    drafts, kept = _drop_unused(drafts, [root, *(c.top for c in components)])
    components = [replace(c, top=kept[c.top]) for c in components]
    root = kept[root]
    nodes = make_nodes(drafts, root, frozenset(part.head), frozenset())
    refuse_wide(nodes)
    order = list(PlanClass)
    worst = max((c.plan_class for c in components), key=order.index, default=order[0])
    return Plan(part, nodes, root, tuple(components), worst, "", (), (), ())


def _build(
    component: QueryComponent, position: dict[str, int], choices: Sequence[int] | None
) -> Priced:
    """The cheapest build, or the one of these choices."""
    if choices is not None:
        chooser = Chooser(choices)
        built = build_marginal(component, position, chooser)
        return price(component, built), chooser.picks, built
    most = TRIED if len(component.guards) <= EXHAUSTIVE else 1
    builds = run_all(lambda chooser: build_marginal(component, position, chooser))
    found = ((price(component, built), picks, built) for picks, built in islice(builds, most))
    return min(found, key=lambda priced: priced[0])


def _join_components(
    drafts: list[Draft], components: Sequence[Component], head: Sequence[str], measure: Measure
) -> int:
    """The rule over the whole head. Components without a head variable are not part of it: they
    multiply all groups alike.
    """
    tops = [c.top for c in components if drafts[c.top].interface]
    if len(tops) == 1:
        return tops[0]
    if not tops:
        drafts.append(Draft((), None, tuple(c.top for c in components), ()))
        return len(drafts) - 1
    inputs = tuple(Input(top, Use.COUNT, drafts[top].interface) for top in tops)
    bag = (*head, *_SUMMED.get(measure, ()))
    drafts.append(Draft(bag, Join(inputs, (), len(inputs)), (), bag))
    return len(drafts) - 1


def _find_guard(measure: Measure, variable: str) -> Digits | WholeDigit | Extreme:
    if measure in CARRIED:
        return Extreme(variable, CARRIED[measure])
    return Digits(variable) if _SUMMED[measure] else WholeDigit(variable)


def _multiply(drafts: list[Draft], top: int, guard: Digits | WholeDigit | Extreme) -> int:
    """Add rules that multiply a relation over a variable into the marginal of a rule, with a column
    for the numbers of its digits if it has any; returns the new top. Only the rules on the way from
    an atom with that variable to the top are new.
    """
    path = _find_path(drafts, top, guard.variable)
    column = guard.variables[1:]
    drafts.append(Draft(guard.variables, guard, (), guard.variables))
    below, old = len(drafts) - 1, -1
    for number in reversed(path):
        draft = drafts[number]
        own, children = draft.guard, draft.children
        if old < 0:
            children = (*children, below)
        elif old in children:
            children = tuple(below if child == old else child for child in children)
        else:
            assert isinstance(own, Join)
            own = replace(own, inputs=tuple(
                Input(below, Use.COUNT, (*each.variables, *column))
                if each.node == old and each.use is Use.COUNT else each for each in own.inputs
            ))  # fmt: skip
        bag = (*draft.bag, *column)
        if column and own is None and not set(bag) <= set(drafts[below].interface):
            # No child covers the bag, as a rule without a guard needs: join them instead.
            inputs = tuple(Input(each, Use.COUNT, drafts[each].interface) for each in children)
            own, children = Join(inputs, (), len(inputs)), ()
        drafts.append(Draft(bag, own, children, (*draft.interface, *column)))
        below, old = len(drafts) - 1, number
    return below


def _find_path(drafts: Sequence[Draft], top: int, variable: str) -> list[int]:
    """The shortest path from the top to a rule whose atom or rows bind a variable, by count."""
    came_from = {top: -1}
    queue = [top]
    for number in queue:
        draft = drafts[number]
        guard = draft.guard
        if guard is not None and not isinstance(guard, Join) and variable in guard.variables:
            path = [number]
            while came_from[path[-1]] >= 0:
                path.append(came_from[path[-1]])
            return path[::-1]
        below = list(draft.children)
        if isinstance(guard, Join):
            below += [each.node for each in guard.inputs if each.use is Use.COUNT]
        for child in below:
            if child not in came_from:
                came_from[child] = number
                queue.append(child)
    raise AssertionError(f"no rule binds {variable}")


def _drop_unused(
    drafts: Sequence[Draft], tops: Sequence[int]
) -> tuple[list[Draft], dict[int, int]]:
    """The drafts that these need, children first, and the new number of each."""
    needed: set[int] = set()
    stack = list(tops)
    while stack:
        number = stack.pop()
        if number not in needed:
            needed.add(number)
            stack += list_below(drafts[number])
    kept = {number: i for i, number in enumerate(sorted(needed))}
    found = []
    for number in kept:
        draft = drafts[number]
        guard = draft.guard
        if isinstance(guard, Join):
            moved = tuple(replace(each, node=kept[each.node]) for each in guard.inputs)
            guard = replace(guard, inputs=moved)
        children = tuple(kept[child] for child in draft.children)
        found.append(replace(draft, guard=guard, children=children))
    return found, kept


def list_below(draft: Draft) -> list[int]:
    """The drafts that a draft reads."""
    inputs = draft.guard.inputs if isinstance(draft.guard, Join) else ()
    return [*draft.children, *(each.node for each in inputs)]
