"""Plans the deltas of a rule: for each input, which variables are bound in which order.

Rules refer to variables by number. The changed tuples of each input in turn are seeds; the other
variables are then bound one by one, always choosing the one that most inputs can restrict. Each
input is read with its columns in binding order, which determines the index it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import permutations

from triegs.maintain.kernels.tables import (
    BEFORE,
    CONSTANT,
    IS_EQUAL_TO,
    IS_LOWER,
    IS_UPPER,
    LEADS,
    MOST_LEVELS,
    MOST_VALUES,
    MOST_WORDS,
    NOW,
    SORTED,
)
from triegs.maintain.model import (
    Binding,
    Check,
    Delta,
    Input,
    Move,
    Operand,
    Range,
    Root,
    Symmetry,
    View,
)

MOST_RENAMED = 6  # variables
MOST_SORTED = 16  # columns
#: The side of a range that each comparison bounds.
SIDES = {"<": IS_UPPER, "<=": IS_UPPER, ">": IS_LOWER, ">=": IS_LOWER, "=": IS_EQUAL_TO}
FindOrder = Callable[[Operand, tuple[int, ...]], View]


def plan_deltas(
    inputs: Sequence[Input], head: Sequence[int], checks: Sequence[Check], find_order: FindOrder
) -> tuple[Delta, ...]:
    """One delta per input; `find_order` returns an operand's index in a given column order.

    Cost: quadratic in the inputs, because each delta reads all others.
    """
    planner = _Planner(inputs, frozenset(head), checks, find_order)
    return tuple(planner.plan(seed) for seed in range(len(inputs)))


class _Planner:
    """Plans the deltas of one rule. Caches the few ways in which each input is read."""

    def __init__(
        self, inputs: Sequence[Input], shown: frozenset[int], checks: Sequence[Check],
        find_order: FindOrder,
    ) -> None:  # fmt: skip
        self.inputs = inputs
        self.shown = shown
        self.checks = checks
        self.find_order = find_order
        self.holders: dict[int, list[int]] = {}
        for number, each in enumerate(inputs):
            for variable in each.variables:
                self.holders.setdefault(variable, []).append(number)
        #: For each variable the checks that allow a range of its values.
        self.compared: dict[int, list[Check]] = {}
        for check in checks:
            if check.comparison is not None and check.comparison.is_range:
                for variable in check.variables:
                    self.compared.setdefault(variable, []).append(check)
        #: Keyed by input, column order, first word, and whether the old version is read.
        self.reads: dict[tuple[int, tuple[int, ...], int, bool], tuple[Root, list[Move]]] = {}

    def plan(self, seed: int) -> Delta:
        own = self.inputs[seed]
        if own.operand.is_fixed and not self.inputs[-1].operand.is_fixed:
            # It never changes, and the rule is filled from its last input: nothing reads this.
            return Delta(own.operand, own.variables, own.use, tuple(self.checks), (), (), ())
        later = order_variables(self.inputs, seed, self.holders, self.compared)
        bound_at = {variable: i for i, variable in enumerate((*own.variables, *later))}
        ranged = self.find_ranged(later, bound_at)
        bound = len(own.variables)
        roots: list[Root] = []
        probes: list[Move] = []
        sources: dict[int, list[Move]] = {variable: [] for variable in later}
        sort_keys: dict[int, Move] = {}
        word = 0
        for number, each in enumerate(self.inputs):
            if number == seed:
                continue
            columns = order_columns(each.variables, bound_at)
            columns = add_sort_keys(each.variables, columns, ranged)
            root, moves = self.read(number, columns, word, number > seed)
            roots.append(root)
            for move in moves:
                if move.is_sort_key:
                    sort_keys[move.variable] = move
                elif bound_at[move.variable] < bound:
                    probes.append(move)
                else:
                    sources[move.variable].append(move)
            word += len(columns) + 1
        count = len(later) + len(sort_keys)
        fits = word <= MOST_WORDS and count <= MOST_LEVELS and 2 * len(bound_at) <= MOST_VALUES
        assert fits, "the parser takes no query of so many patterns"
        when: dict[int, list[Check]] = {}
        for check in self.checks:
            when.setdefault(max(bound_at[v] for v in check.variables), []).append(check)
        levels = []
        for v in later:
            if v in sort_keys:
                # A sort key has a register of its own, after those of all variables.
                sort_key = len(bound_at) + v
                levels.append(Binding(sort_key, (sort_keys[v],), False, (), tuple(ranged[v])))
            checked = tuple(when.get(bound_at[v], ()))
            bounds = [each.comparison for each in ranged.get(v, ())]
            is_covered = v in sort_keys and all(
                check.comparison is not None and check.solve(v) in bounds for check in checked
            )
            levels.append(Binding(v, tuple(sources[v]), v in self.shown, checked, (), is_covered))
        first = tuple(check for at in range(bound) for check in when.get(at, ()))
        return Delta(
            own.operand, own.variables, own.use, first, tuple(roots), tuple(probes), tuple(levels)
        )

    def find_ranged(
        self, later: Sequence[int], bound_at: Mapping[int, int]
    ) -> dict[int, list[Range]]:
        """The variables that a single input holds and that comparisons with bound variables
        restrict: they are found in a range.
        """
        ranged: dict[int, list[Range]] = {}
        for variable in later:
            for check in self.compared.get(variable, ()):
                other = next(v for v in check.variables if v != variable)
                if bound_at[other] < bound_at[variable] and len(self.holders[variable]) == 1:
                    found = Range(other, check.solve(variable))
                    ranged.setdefault(variable, []).append(found)
        return ranged

    def read(
        self, number: int, columns: tuple[int, ...], word: int, is_later: bool
    ) -> tuple[Root, list[Move]]:
        """The root of an input, and a move for each of its columns, starting at the given word."""
        key = number, columns, word, is_later
        found = self.reads.get(key)
        if found is None:
            each = self.inputs[number]
            view = self.find_order(each.operand, columns)
            is_old = is_later and not each.operand.is_fixed
            is_constant = columns[:1] == (CONSTANT,)
            root = Root(word, view, is_old, LEADS if columns else each.use, is_constant)
            uses = [LEADS] * (len(columns) - 1) + [each.use]
            moves = [
                Move(
                    each.variables[column & ~SORTED], word + depth, depth == 0, word + depth + 1,
                    use, bool(column & SORTED),
                )
                for depth, (column, use) in enumerate(zip(columns, uses, strict=False))
                if column != CONSTANT
            ]  # fmt: skip
            if is_constant:  # the root leads to its set at once
                root = replace(root, word=word + 1)
            found = self.reads[key] = root, moves
        return found


def order_columns(variables: tuple[int, ...], bound_at: Mapping[int, int]) -> tuple[int, ...]:
    """The columns of an input in the order in which their variables are bound."""
    if len(variables) == 2:
        return (0, 1) if bound_at[variables[0]] <= bound_at[variables[1]] else (1, 0)
    return tuple(sorted(range(len(variables)), key=lambda column: bound_at[variables[column]]))


def add_sort_keys(
    variables: tuple[int, ...], columns: tuple[int, ...], ranged: Collection[int]
) -> tuple[int, ...]:
    """A column order with the sort key of each ranged variable before the variable itself. A sort
    key is never the first column.

    >>> add_sort_keys((5, 7), (1, 0), {7}) == (CONSTANT, SORTED | 1, 1, 0)
    True
    """
    is_ranged = [variables[column] in ranged for column in columns]
    if not any(is_ranged) or len(columns) + sum(is_ranged) + is_ranged[0] > MOST_SORTED:
        return columns
    found = [CONSTANT] if is_ranged[0] else []
    for column, is_sorted in zip(columns, is_ranged, strict=True):
        found += [SORTED | column, column] if is_sorted else [column]
    return tuple(found)


def plan_symmetric(
    inputs: Sequence[Input], symmetry: Symmetry, find_order: FindOrder
) -> tuple[Delta, ...]:
    """Two deltas per orbit of inputs: the answers of its changed tuples before the epoch and
    now.
    """
    variables = tuple(dict.fromkeys(v for each in inputs for v in each.variables))
    planner = _Planner(inputs, frozenset(variables), (), find_order)
    deltas: list[Delta] = []
    for orbit in range(1 + max(symmetry.orbits)):
        seed = symmetry.orbits.index(orbit)
        found = planner.plan(seed)
        for side in (BEFORE, NOW):  # the last one fills a new rule
            roots = tuple(replace(root, is_old=side == BEFORE) for root in found.roots)
            deltas.append(replace(found, roots=roots, side=side, orbit=orbit))
    return tuple(deltas)


def find_symmetry(inputs: Sequence[Input]) -> Symmetry | None:
    """The non-trivial renamings of variables that map a body over one relation to itself, if any.
    Tries all permutations, so it is limited to few variables.

    >>> edges = [Input(Operand(2), pair, 1) for pair in [(0, 1), (1, 2), (2, 0)]]
    >>> find_symmetry(edges)
    Symmetry(orbits=(0, 0, 0), images=((0, 1, 2), (1, 2, 0), (2, 0, 1)))
    """
    pairs = [each.variables for each in inputs]
    count = 1 + max(v for pair in pairs for v in pair)
    if count > MOST_RENAMED:
        return None
    body = sorted(pairs)
    images = [
        image for image in permutations(range(count))
        if sorted(tuple(image[v] for v in pair) for pair in pairs) == body
    ]  # fmt: skip
    if len(images) == 1:
        return None
    orbits: list[int] = []
    for pair in pairs:
        alike = {tuple(image[v] for v in pair) for image in images}
        known = [orbit for other, orbit in zip(pairs, orbits, strict=False) if other in alike]
        orbits.append(known[0] if known else 1 + max(orbits, default=-1))
    return Symmetry(tuple(orbits), tuple(images))


def order_variables(
    inputs: Sequence[Input], seed: int, holders: Mapping[int, Sequence[int]],
    compared: Mapping[int, Sequence[Check]],
) -> list[int]:  # fmt: skip
    """The variables after the seed's: always the one that most inputs can restrict by bound
    variables, then the one that occurs in most inputs; if no input restricts any, one that is
    compared with a bound variable. `holders` lists the inputs of each variable.

    Cost: about linear in the inputs.
    """
    near = dict.fromkeys(holders, 0)
    bound: set[int] = set()
    reached = [False] * len(inputs)
    # Variables that no input restricts come last; most bodies never reach this.
    remote = iter(sorted(holders, key=lambda variable: (-len(holders[variable]), variable)))
    waiting: list[tuple[int, int, int]] = []

    def bind(variable: int) -> None:
        bound.add(variable)
        for number in holders[variable]:
            if not reached[number]:
                reached[number] = True
                for other in inputs[number].variables:
                    if other not in bound:
                        near[other] += 1
                        heappush(waiting, (-near[other], -len(holders[other]), other))

    for variable in inputs[seed].variables:
        bind(variable)
    order: list[int] = []
    while len(bound) < len(holders):
        if waiting:
            count, _, variable = heappop(waiting)
            if variable in bound or -count != near[variable]:
                continue
        else:
            near_by = [
                each for each in compared if each not in bound
                and any(bound.intersection(check.variables) for check in compared[each])
            ]  # fmt: skip
            variable = near_by[0] if near_by else next(v for v in remote if v not in bound)
        order.append(variable)
        bind(variable)
    return order
