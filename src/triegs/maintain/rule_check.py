"""Checks the deltas of one rule in a table, as read by `triegs.maintain.table_check`.

All deltas of a rule join the same inputs. The roots of a delta are in input order, without its own
input: those before it are read in their current state, those after it before the epoch, except for
fixed inputs.

With symmetry there are two deltas for each orbit of inputs: one reads all others before the epoch,
one reads them now.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from triegs.maintain.kernels.tables import (
    ANY,
    BEFORE,
    BOTH,
    CONSTANT,
    COUNT,
    ENTRIES,
    IS_COARSE,
    IS_EQUAL_TO,
    IS_FINE,
    IS_LOWER,
    IS_UPPER,
    LEADS,
    LIST,
    MOST_LEVELS,
    MOST_VALUES,
    MOST_WORDS,
    NOW,
    PRESENCE,
    RANGED,
    SORTED,
    TERMS,
)

Check = tuple[int, tuple[int, ...]]
#: A level: the variable, whether it is shown, sources, checks, ranges.
LevelRow = tuple[int, int, list[list[int]], list[Check], list[list[int]]]


class Shape(NamedTuple):
    """The arity and form of a relation."""

    arity: int
    is_plain: bool


class Listed(NamedTuple):
    """A list: its relation, and the number of ids per entry."""

    slot: int
    width: int


class DeltaRow(NamedTuple):
    """The words of a delta, with everything they refer to."""

    origin: int
    number: int
    use: int
    slot: int
    regs: list[int]
    checks: list[Check]
    roots: list[list[int]]
    probes: list[list[int]]
    levels: list[LevelRow]
    side: int
    orbit: int


class SymmetryRow(NamedTuple):
    """Inputs as `[variable, variable, orbit]`, renamings of variables, the list with ranks."""

    inputs: list[list[int]]
    images: list[list[int]]
    list: int


class RuleRow(NamedTuple):
    """The words of a rule, with everything they refer to."""

    arity: int
    head: list[int]
    orders: list[list[int]]
    sorted: list[list[int]]
    deltas: list[DeltaRow]
    list: int
    keys: int
    keys_list: int
    is_listed_only: bool
    symmetry: SymmetryRow | None


class InputReading(NamedTuple):
    """An input as a delta reads it: its contents (None: fixed), variables by column, its use."""

    origin: Hashable
    variables: tuple[tuple[int, int], ...]
    use: int


def pair(columns: Sequence[int], variables: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The first columns with their variables, in an order that does not depend on the index."""
    plain = [column for column in columns if not column & (SORTED | CONSTANT)]
    return tuple(sorted(zip(plain, variables, strict=False)))


class Way(NamedTuple):
    """A word that an input has reached: the index of its root, and the number of columns passed."""

    root: int
    depth: int


class KnownSlots(Protocol):
    """What the check of a table knows of slots, lists and streams."""

    origins: dict[int, Hashable]
    columns: dict[int, tuple[int, ...]]
    arities: list[int]
    lists: dict[int, Listed]

    def expect(self, condition: bool, message: str) -> None: ...

    def shape(self, slot: int) -> Shape: ...

    def expect_before(self, slot: int) -> None: ...

    def expect_weights(self, slot: int) -> None: ...


class RuleCheck:
    """Checks one rule of a table."""

    def __init__(self, table: KnownSlots, rule: RuleRow) -> None:
        self.table = table
        self.rule = rule
        self.expect = table.expect

    def run(self) -> None:
        rule = self.rule
        self.expect(len(set(rule.head)) == rule.arity, "[6] a variable is twice in the head")
        if rule.symmetry is not None:
            self.check_symmetry(rule.symmetry)
        inputs = [self.check_delta(number, delta) for number, delta in enumerate(rule.deltas)]
        for number, found in enumerate(inputs):
            self.expect(found == inputs[0], f"[5] delta {number} joins {found}, not {inputs[0]}")
        tested = [self.list_checks(delta) for delta in rule.deltas]
        for number, checks in enumerate(tested):
            self.expect(checks == tested[0], f"[7] delta {number} checks {checks}, not {tested[0]}")

    def check_symmetry(self, symmetry: SymmetryRow) -> None:
        """The renamings preserve the body, and there are two deltas for each orbit. [9]"""
        rule = self.rule
        pairs = [(first, second) for first, second, _ in symmetry.inputs]
        variables = sorted({v for pair in pairs for v in pair})
        self.expect(sorted(rule.head) == variables, "[9] a head that hides a variable")
        self.expect(len(symmetry.images) > 1, "[9] no renaming")
        for number, image in enumerate(symmetry.images):
            self.expect(sorted(image) == variables, f"[9] {image} is no renaming")
            self.expect((image == variables) == (number == 0), "[9] the first image is the body")
            renamed = sorted((image[a], image[b]) for a, b in pairs)
            self.expect(renamed == sorted(pairs), f"[9] {image} makes another body")
        firsts: dict[int, tuple[int, int]] = {}
        for a, b, orbit in symmetry.inputs:
            first = firsts.setdefault(orbit, (a, b))
            alike = any((image[a], image[b]) == first for image in symmetry.images)
            self.expect(alike, f"[9] no renaming makes {first} of {(a, b)}")
        self.expect(list(firsts) == list(range(len(firsts))), f"[9] orbits {list(firsts)}")
        sides = [(delta.side, delta.orbit) for delta in rule.deltas]
        wanted = [(side, orbit) for orbit in firsts for side in (BEFORE, NOW)]
        self.expect(sides == wanted, f"[9] deltas {sides}, not {wanted}")
        for delta in rule.deltas:
            is_seed = tuple(delta.regs) == firsts[delta.orbit]
            self.expect(is_seed, "[9] the first input of an orbit brings its seeds")
            is_listed = delta.origin == LIST and delta.number == symmetry.list
            self.expect(is_listed, "[9] ranks are those of the seeds")
            self.expect(not self.list_checks(delta), "[9] a check is not symmetric")

    def list_checks(self, delta: DeltaRow) -> list[Check]:
        return sorted([*delta.checks, *(check for level in delta.levels for check in level[3])])

    def check_delta(self, number: int, delta: DeltaRow) -> list[InputReading]:
        """Returns the inputs in order, fixed ones last."""
        seed = self.check_seed(delta)
        self.check_roots(number, delta)
        variables, uses = Chains(self, delta).follow()
        self.expect(len(delta.levels) <= MOST_LEVELS, "[8] too many levels")
        keys = {level[0] for level in delta.levels if level[4]}
        changing: list[InputReading] = []
        fixed: list[InputReading] = []
        for root, (_, slot, _, _, _) in enumerate(delta.roots):
            origin = self.table.origins.get(slot)
            named = [variable for variable in variables[root] if variable not in keys]
            columns = self.table.columns.get(slot, (0,) * len(named))
            seen = InputReading(origin, pair(columns, named), uses[root])
            (fixed if origin is None else changing).append(seen)
        changing.insert(self.place_seed(number, delta), seed)
        return changing + fixed

    def place_seed(self, number: int, delta: DeltaRow) -> int:
        """The input that provides the seeds of a delta."""
        if self.rule.symmetry is None:
            self.expect((delta.side, delta.orbit) == (BOTH, 0), "[9] a side without symmetry")
            return number
        return [orbit for *_, orbit in self.rule.symmetry.inputs].index(delta.orbit)

    def check_seed(self, delta: DeltaRow) -> InputReading:
        """The source of the seeds is what other deltas read. [5]"""
        table, width = self.table, len(delta.regs)
        origin: Hashable
        if delta.origin == ENTRIES:
            self.expect(0 <= delta.number < len(table.arities), f"[5] stream {delta.number}")
            self.expect(table.arities[delta.number] == width, "[5] a seed of another width")
            self.expect(delta.use == COUNT, "[5] entries are changes of counts")
            self.expect(delta.slot == 0, "[1] entries have no slot")
            origin, columns = ("stream", delta.number, ANY), tuple(range(width))
        else:
            self.expect(delta.origin == LIST, f"[5] seeds from {delta.origin}")
            self.expect(delta.use in (COUNT, PRESENCE), f"[5] seeds used as {delta.use}")
            found = table.lists.get(delta.number)
            self.expect(found is not None, f"[3] list {delta.number} is not written by then")
            assert found is not None
            self.expect(found.width == width, f"[3] list {delta.number} has other entries")
            if width == 1 or delta.slot != 0:
                self.expect(found.slot == delta.slot, f"[3] list {delta.number}: another slot")
                is_count = delta.use == PRESENCE or table.shape(delta.slot).arity == width
                self.expect(is_count, f"[5] slot {delta.slot} has no counts of so few columns")
            origin, columns = table.origins[found.slot], table.columns[found.slot]
        return InputReading(origin, pair(columns, delta.regs), delta.use)

    def check_roots(self, number: int, delta: DeltaRow) -> None:
        """Inputs before the seed are read now, those after it before the epoch. [5]"""
        changing, symmetry = 0, self.rule.symmetry
        for _, slot, is_old, _, _ in delta.roots:
            self.table.expect_before(slot)
            is_later = False
            if slot in self.table.origins:
                is_later = changing >= number if symmetry is None else delta.side == BEFORE
                changing += 1
            when = "before" if is_later else "now"
            self.expect(is_old == is_later, f"[5] delta {number} must read slot {slot} {when}")
        inputs = len(self.rule.deltas if symmetry is None else symmetry.inputs)
        self.expect(changing == inputs - 1, f"[5] delta {number} misses an input")


class Chains:
    """The words of a delta's inputs, and its registers: each is read only after it is set."""

    def __init__(self, rule: RuleCheck, delta: DeltaRow) -> None:
        self.rule = rule
        self.expect = rule.expect
        self.delta = delta
        self.bound: set[int] = set()
        self.ranged: set[Way] = set()
        self.written: set[int] = set()
        self.open: dict[int, Way] = {}
        self.variables: list[list[int]] = [[] for _ in delta.roots]
        self.uses: list[int] = [LEADS for _ in delta.roots]

    def follow(self) -> tuple[list[list[int]], list[int]]:
        """Returns for each root the variables of its input and how it is used. [6]"""
        delta = self.delta
        for reg in delta.regs:
            self.bind(reg)
        self.check(delta.checks)
        for root, (word, slot, _, use, is_constant) in enumerate(delta.roots):
            has_constant = self.rule.table.columns.get(slot, ())[:1] == (CONSTANT,)
            is_known = slot not in self.rule.table.origins  # fixed rows have no columns here
            self.expect(is_known or bool(is_constant) == has_constant, "[6] a constant, or none")
            self.reach(word, Way(root, is_constant), slot, use)
        for reg, before, is_trie, after, use in delta.probes:
            self.expect(reg in self.bound, f"[6] a probe by r{reg}, which no seed binds")
            self.move(reg, before, is_trie, after, use)
        for reg, is_shown, sources, checks, ranges in delta.levels:
            self.expect(len(sources) > 0, f"[6] nothing binds r{reg}")
            self.check_ranges(reg, sources, ranges)
            befores = [source[0] for source in sources]
            is_ready = all(word in self.open for word in befores)
            self.expect(is_ready, f"[6] a source of r{reg} leads from a word that is not there")
            for before, is_trie, after, use in sources:
                self.move(reg, before, is_trie, after, use)
            self.bind(reg)
            is_in_head = reg in self.rule.rule.head
            self.expect(is_shown == is_in_head, f"[6] r{reg} is shown, or is not")
            self.check(checks, reg)
        self.expect(not self.open, f"[6] inputs end too early, at the words {sorted(self.open)}")
        self.expect(set(self.rule.rule.head) <= self.bound, "[6] the head has an unbound variable")
        return self.variables, self.uses

    def is_sort_key(self, way: Way) -> bool:
        """Whether the next column has sort keys; fixed relations do not say so."""
        slot = self.delta.roots[way.root][1]
        columns = self.rule.table.columns.get(slot)
        if columns is None:
            return way in self.ranged
        return bool(columns[way.depth] & SORTED)

    def check_ranges(self, reg: int, sources: list[list[int]], ranges: list[list[int]]) -> None:
        """A ranged source is alone, and is bounded by registers that are bound. [6]"""
        kinds = [source[1] for source in sources]
        is_ranged = RANGED in kinds
        self.expect(
            not is_ranged or len(sources) == 1, f"[6] r{reg}: a range among several sources"
        )
        self.expect(
            is_ranged == bool(ranges), f"[6] r{reg}: a range without bounds, or the reverse"
        )
        if is_ranged and sources[0][0] in self.open:
            self.ranged.add(self.open[sources[0][0]])
        for other, side, kind, *_ in ranges:
            self.expect(other in self.bound, f"[6] a range by r{other}, which is not bound")
            is_good = side in (IS_LOWER, IS_UPPER, IS_EQUAL_TO)
            self.expect(is_good and kind in (TERMS, IS_FINE, IS_COARSE), f"[6] a range of {kind}")

    def bind(self, reg: int) -> None:
        self.expect(0 <= reg < MOST_VALUES, f"[8] register {reg}")
        self.expect(reg not in self.bound, f"[6] r{reg} is bound twice")
        self.bound.add(reg)

    def check(self, checks: list[Check], own: int | None = None) -> None:
        for judge, regs in checks:
            self.expect(set(regs) <= self.bound, f"[6] judge {judge} reads an unbound register")
            self.expect(own is None or own in regs, f"[7] judge {judge} could be asked earlier")

    def reach(self, word: int, way: Way, slot: int, use: int) -> None:
        self.expect(0 <= word < MOST_WORDS, f"[8] word {word}")
        self.expect(word not in self.written, f"[6] w{word} is written twice")
        self.written.add(word)
        arity = self.rule.table.shape(slot).arity
        if use == LEADS:
            self.expect(way.depth < arity, f"[6] w{word} leads nowhere: slot {slot} ends here")
            self.open[word] = way
            return
        self.expect(use in (COUNT, PRESENCE), f"[6] w{word} is used as {use}")
        is_count = use == PRESENCE or way.depth == arity
        self.expect(is_count, f"[6] w{word} is no count: slot {slot} has more columns")
        if use == COUNT:
            self.rule.table.expect_weights(slot)
        self.uses[way.root] = use

    def move(self, reg: int, before: int, is_trie: int, after: int, use: int) -> None:
        way = self.open.pop(before, None)
        self.expect(way is not None, f"[6] r{reg} is sought in w{before}, which is not there")
        assert way is not None
        is_sort_key = self.is_sort_key(way)
        wanted = RANGED if is_sort_key else int(way.depth == 0)
        self.expect(is_trie == wanted, f"[6] w{before} is read as {is_trie}, not as {wanted}")
        self.variables[way.root].append(reg)
        slot = self.delta.roots[way.root][1]
        self.reach(after, Way(way.root, way.depth + 1), slot, use)
