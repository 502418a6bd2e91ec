"""The RULE kernel by itself: against nested loops, and in every trap that is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from tests.maintain.rules import (
    PAYS,
    Bench,
    Fault,
    Given,
    W,
    X,
    Y,
    Z,
    edges,
    play,
    triangle,
)

from triegs.maintain.kernels.emissions import (
    ID_BITS,
    open_emissions,
    sort_columns,
    sort_emissions,
)
from triegs.maintain.kernels.tables import (
    COUNT,
    PRESENCE,
    RULE_SYMMETRY_AT,
    STEP_ROWS,
    SYM_IMAGES,
    SYM_LIST,
)
from triegs.maintain.kernels.work import EMITTED, RAW, STRIDE
from triegs.maintain.relations import make_work
from triegs.store.kernels.layout import OVERFLOW

ROOT = Path(__file__).parents[2]
# Random rules

ARITIES = st.lists(st.integers(0, 3), min_size=1, max_size=3)
SMALL = st.sampled_from([1, 1, 2, 3])
LARGE = st.sampled_from([1, 3, 2**20, 2**31, 2**61, 2**62 - 1])


@st.composite
def rules(draw):
    """Bases, and a rule over them: any join of up to five inputs."""
    arities = draw(ARITIES)
    given = []
    for _ in range(draw(st.integers(1, 5))):
        base = draw(st.integers(0, len(arities) - 1))
        arity = arities[base]
        variables = draw(st.permutations(range(5)))[:arity]
        use = draw(st.sampled_from([COUNT, COUNT, PRESENCE]))
        if use == PRESENCE and arity > 1 and draw(st.booleans()):
            variables = variables[:1]
        from_entries = use == COUNT and arity != 1 and draw(st.booleans())
        given.append(Given(base, tuple(variables), use, from_entries))
    used = sorted({v for each in given for v in each.variables})
    head = tuple(draw(st.permutations(used))[: draw(st.integers(0, len(used)))])
    checks = []
    for _ in range(draw(st.integers(0, 2)) if used else 0):
        width = draw(st.integers(1, min(3, len(used))))
        checks.append(tuple(draw(st.permutations(used))[:width]))
    orders = [tuple(draw(st.permutations(range(len(head)))))] if len(head) > 1 else []
    return arities, given, head, checks, [o for o in orders if o != tuple(range(len(head)))]


@st.composite
def batches(draw, arities, rows, counts):
    """Changes of any bases that leave no count below zero; a tuple may come and go at once."""
    changes = []
    for _ in range(draw(st.integers(0, 8))):
        base = draw(st.integers(0, len(arities) - 1))
        key = tuple(draw(st.integers(0, 2)) for _ in range(arities[base]))
        known = rows[base][key]
        if known and draw(st.integers(0, 2)) > 0:
            change = -draw(st.sampled_from([1, known]))
        else:
            change = draw(counts)
        if known + change < 2**62:
            rows[base][key] += change
            changes.append((base, key, change))
    return changes


@drawn(st.data())
def test_any_rule_equals_nested_loops(data):
    arities, given, head, checks, orders = data.draw(rules())
    bench = Bench(arities)
    rows: list[Counter] = [Counter() for _ in arities]
    fixed: dict = {}
    if data.draw(st.booleans()):  # something is there already: the rule is filled from it
        for number, key, change in data.draw(batches(arities, rows, SMALL)):
            fixed[number, key] = fixed.get((number, key), 0) + change
        for (number, key), count in fixed.items():
            base = bench.bases[number]
            base.view.relation.set(key, count)
            base.rows[key] = count
            base.rows = +base.rows
    bench.make_rule(given, head, checks, orders, has_keys=data.draw(st.booleans()))
    assert bench.found() == bench.expected()
    for _ in range(data.draw(st.integers(1, 4))):
        play(bench, data.draw(batches(arities, rows, SMALL)))


@drawn(st.data())
def test_counts_of_any_size_are_exact_or_refused(data):
    """A fault only where some product or sum may not fit; never a wrong number."""
    arities, given, head, checks, _ = data.draw(rules())
    bench = Bench(arities)
    bench.make_rule(given, head, checks)
    rows: list[Counter] = [Counter() for _ in arities]
    for _ in range(data.draw(st.integers(1, 3))):
        changes = data.draw(batches(arities, rows, LARGE))
        before = bench.found()
        known = [Counter(base.rows) for base in bench.bases]
        fault, told = None, {}
        try:
            told, _ = bench.run_epoch(changes)
        except Fault as caught:
            fault = caught
        if fault is not None:
            assert fault.args == (OVERFLOW,)
            assert bound_of(given, known, changes) >= 2**63
            return
        bench.compare(before, told, None)


def bound_of(given, known, changes):
    """No number that the deltas of a rule multiply and add up is larger."""
    bound = len(given)
    for each in given:
        size = sum(known[each.base].values())
        size += sum(abs(change) for base, _, change in changes if base == each.base)
        bound *= max(1, size)
    return bound


# Traps


def test_an_edge_that_plays_every_role_is_one_answer():
    """A loop: each of its three roles is a seed, and only one of them finds the answer."""
    bench = triangle()
    assert play(bench, edges((1, 1))) == {(1, 1, 1): 1}
    assert play(bench, edges((1, 1))) == {(1, 1, 1): 8}
    assert play(bench, edges((1, 1), change=-2)) == {}


@pytest.mark.parametrize("from_entries", [True, False])
def test_an_edge_in_two_roles_with_an_edge_that_is_new_too(from_entries):
    bench = triangle(from_entries)
    play(bench, edges((0, 0)))
    found = play(bench, edges((0, 1), (1, 0)))
    assert found == {(0, 0, 0): 1, (0, 0, 1): 1, (0, 1, 0): 1, (1, 0, 0): 1}


def test_what_comes_and_goes_in_one_epoch_touches_nothing():
    bench = triangle()
    play(bench, edges((0, 1), (1, 2), (2, 0)))
    copied = bench.store.statistics()
    told, _ = bench.run_epoch([*edges((0, 1), change=-1), *edges((0, 1))])
    assert told == {}
    assert bench.store.statistics().entries == copied.entries


def test_a_tuple_that_is_touched_twice_counts_once_as_present():
    """Duplicates in a list are harmless for counts, and wrong for presence: lists are net."""
    bench = Bench([2, 1])
    bench.make_rule([Given(0, (X, Y), PRESENCE), Given(1, (Y,), COUNT)], (X,))
    play(bench, [(1, (5,), 3)], [(0, (1, 5), 1), (0, (1, 5), 1)], [(0, (1, 5), 4)])
    assert bench.found() == {(1,): 3}
    assert play(bench, [(0, (1, 5), -6)]) == {}


def test_a_product_that_does_not_fit_is_no_fault_where_nothing_is_emitted():
    """2**62 times 4 meets no third tuple: its zero comes after the overflow."""
    bench = Bench([1, 1, 1])
    bench.make_rule([Given(n, (X,), COUNT) for n in range(3)], (X,))
    play(bench, [(0, (1,), 2**62)], [(1, (1,), 4)])
    assert play(bench, [(2, (2,), 1)]) == {}
    with pytest.raises(Fault) as caught:
        bench.run_epoch([(2, (1,), 1)])
    assert caught.value.args == (OVERFLOW,)
    assert play(bench, [(1, (1,), -4)], [(2, (1,), 1)], [(1, (1,), 1)]) == {(1,): 2**62}


def test_a_sum_that_does_not_fit_is_a_fault():
    bench = Bench([2])
    bench.make_rule([Given(0, (X, Y), COUNT, True)], (X,))
    play(bench, edges((1, 0), change=2**62), edges((1, 1), change=2**62 - 1))
    with pytest.raises(Fault):
        bench.run_epoch(edges((1, 2), change=1))
    play(bench, [*edges((1, 2), change=1), *edges((1, 0), change=-1)])


@pytest.mark.parametrize("hidden", [False, True])
def test_buffers_grow_until_everything_fits(hidden):
    """Emissions, runs of levels and the log are too short, one after the other."""
    bench = Bench([2], buffer=64, log_words=512)
    bench.make_rule([Given(0, v, COUNT, True) for v in PAYS], (X,) if hidden else (X, Y, Z))
    play(bench, edges(*((a, b) for a in range(9) for b in range(9) if a != b)))
    assert bench.grown > 1
    assert sum(bench.found().values()) == 9 * 8 * 7


def test_a_rule_is_filled_in_portions():
    bench = Bench([2], buffer=64, log_words=1 << 14)
    pairs = {(a, b): 1 for a in range(12) for b in range(12)}
    for key in pairs:
        bench.bases[0].view.relation.set(key, 1)
    bench.bases[0].rows.update(pairs)
    bench.make_rule([Given(0, (X, Y), COUNT, True), Given(0, (Y, Z), COUNT, True)], (X, Y, Z))
    assert bench.found() == bench.expected()
    assert len(bench.found()) == 12**3


def test_judges_are_requested_in_the_middle_of_a_step():
    """What is not known counts as no; the step then begins again, and nothing was changed."""
    bench = Bench([2])
    bench.make_rule([Given(0, v, COUNT, True) for v in PAYS], (X, Y, Z), [(X, Y), (Y, Z)])
    play(bench, edges((0, 1), (1, 2), (2, 0)))
    assert bench.answered > 0
    assert bench.found() == {(0, 1, 2): 1}


def test_requests_that_find_no_room_are_made_again():
    bench = Bench([2])
    bench.make_rule([Given(0, (X, Y), COUNT, True)], (X, Y), [(X, Y), (X,)])
    bench.judges._replace_requests(16)
    play(bench, edges(*((a, b) for a in range(6) for b in range(6))))
    assert bench.answered > 2


def test_an_input_without_columns_multiplies():
    bench = Bench([0, 1, 0])
    given = [Given(0, (), COUNT, True), Given(1, (X,), COUNT), Given(2, (), PRESENCE)]
    bench.make_rule(given, (X,))
    play(bench, [(1, (4,), 2)], [(0, (), 3)])
    assert play(bench, [(2, (), 5)]) == {(4,): 6}
    assert play(bench, [(0, (), -1), (2, (), -4)]) == {(4,): 4}
    assert play(bench, [(2, (), -1)]) == {}


def test_fixed_rows_are_never_seeds_and_never_old():
    bench = Bench([2, 2])
    bench.bases[1].view.relation.set((7, 8), 2)
    bench.bases[1].rows[7, 8] = 2
    bench.make_rule([Given(0, (X, Y), COUNT, True), Given(1, (Y, Z), COUNT, is_fixed=True)], (X, Z))
    assert len(bench.rule_part.deltas) == 2
    assert play(bench, edges((1, 7))) == {(1, 8): 2}


def test_the_worked_example():
    """As docs/maintenance.md has it: a payment to oneself, in every role; each delta by itself."""
    told = []
    for number in range(3):
        bench = triangle()
        play(bench, edges((1, 2), (2, 1)))
        bench.write([bench.deltas[number]])
        told.append(bench.run_epoch(edges((1, 1)))[0])
    assert told == [
        {(1, 1, 2): (0, 1)},
        {(2, 1, 1): (0, 1)},
        {(1, 1, 1): (0, 1), (1, 2, 1): (0, 1)},
    ]
    bench = symmetric(PAYS)
    play(bench, edges((1, 2), (2, 1)), edges((1, 1)))
    assert bench.found() == dict.fromkeys([(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)], 1)


# Symmetry

BODIES = {
    "triangle": PAYS,
    "rectangle": [(X, Y), (Y, Z), (Z, W), (W, X)],
    "diamond": [(X, Y), (X, Z), (Y, W), (Z, W)],
    "there and back": [(X, Y), (Y, X)],
    "twice there and back": [(X, Y), (X, Y), (Y, X), (Y, X)],
    "star": [(X, Y), (X, Z), (X, W)],
    "clique": [(X, Y), (Y, X), (X, Z), (Z, X), (Y, Z), (Z, Y)],
    "two orbits": [(X, Y), (X, Z), (Y, Z), (Z, Y)],
    "side by side": [(X, Y), (Z, W)],
}


def symmetric(pairs):
    bench = Bench([2])
    head = tuple(sorted({v for pair in pairs for v in pair}))
    assert bench.make_symmetric(pairs, head)
    return bench


@drawn(st.sampled_from(sorted(BODIES)), st.data())
def test_symmetric_bodies_equal_nested_loops(name, data):
    """Few ids, so that a pair often plays several roles, and images of an answer are one."""
    pairs = BODIES[name]
    head = data.draw(st.permutations(sorted({v for pair in pairs for v in pair})))
    bench = Bench([2])
    rows: list[Counter] = [Counter()]
    if data.draw(st.booleans()):
        for _, key, change in data.draw(batches([2], rows, SMALL)):
            bench.bases[0].rows[key] += change
        bench.bases[0].rows = +bench.bases[0].rows
        for key, count in bench.bases[0].rows.items():
            bench.bases[0].view.relation.set(key, count)
    assert bench.make_symmetric(pairs, tuple(head))
    assert bench.found() == bench.expected()
    for _ in range(data.draw(st.integers(1, 4))):
        play(bench, data.draw(batches([2], rows, SMALL)))


def test_two_pairs_of_one_rank_tell_an_answer_twice():
    """Invariant 9: an answer belongs to the changed pair of the lowest rank."""
    bench = symmetric(PAYS)
    play(bench, edges((0, 1), (1, 2), (2, 0)))
    play(bench, edges((0, 1), (1, 2), (2, 0), change=-1))
    at = int(bench.table[bench.table[STEP_ROWS] + RULE_SYMMETRY_AT])
    bench.table[at + SYM_LIST] = len(bench.lists)  # a list without entries: no pair has a rank
    with pytest.raises(AssertionError):
        play(bench, edges((0, 1), (1, 2), (2, 0)))


def test_leaving_an_image_out_is_wrong():
    """Invariant 9."""
    bench = symmetric(PAYS)
    at = int(bench.table[bench.table[STEP_ROWS] + RULE_SYMMETRY_AT])
    bench.table[at + SYM_IMAGES] -= 1
    with pytest.raises(AssertionError):
        play(bench, edges((0, 1), (1, 2), (2, 0)))


# Sorting


@drawn(st.integers(0, 7), st.sampled_from([0, 5, 24, 25, 200]), st.integers(0, 31), st.randoms())
def test_emissions_are_sorted_by_head(arity, count, bits, random):
    """All arities, ids of all sizes, below and above the number that is sorted by insertion."""
    rows = [[random.getrandbits(bits) for _ in range(arity)] for _ in range(count)]
    if rows and arity:
        rows[0][0] = 2**31 - 1
    sort_rows(rows, arity)


@pytest.mark.parametrize("bits", [[3, 31, 0], [13, 13, 13], [31, 31, 31], [1, 2, 7]])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_many_emissions_are_sorted_by_wide_digits(arity, bits):
    """Digits that begin in one id and end in the other, and ids without any bit."""
    random = Random(arity)
    rows = [[random.getrandbits(bits[c]) for c in range(arity)] for _ in range(9_000)]
    for count in (300, 5_000, 9_000):
        sort_rows(rows[:count], arity)


def sort_rows(rows, arity):
    work, packed = pack_rows(rows, arity)
    sort_emissions(work)
    found = read_rows(work, len(rows))
    order = sorted(range(len(rows)), key=lambda n: rows[n])  # stable, as the kernel is
    assert [row[-1] for row in found] == order
    assert found == [packed[n] for n in order]


def pack_rows(rows, arity):
    """Emissions whose weights are their positions."""
    count = len(rows)
    work = make_work(4096 + count * (arity + 1))
    open_emissions(work, arity)
    packed = []
    for number, row in enumerate(rows):
        pairs = [row[c : c + 2] for c in range(0, arity, 2)]
        packed.append([p[0] if len(p) == 1 else p[0] << ID_BITS | p[1] for p in pairs] + [number])
    flat = np.array(packed, np.int64).reshape(-1)
    work[int(work[RAW]) : int(work[RAW]) + flat.size] = flat
    work[EMITTED] = count
    return work, packed


def read_rows(work, count):
    stride = int(work[STRIDE])
    return work[int(work[RAW]) :][: count * stride].reshape(-1, stride).tolist()


@pytest.mark.parametrize("arity", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [25, 300, 9_000])
def test_emissions_are_sorted_by_leading_columns_only(arity, count):
    """Equal ones keep their order; high bits that all share are no digits, of either id."""
    random = Random(arity * count)
    shared = [random.getrandbits(15) << 16 for _ in range(arity)]
    rows = [[high | random.randrange(7) << 4 for high in shared] for _ in range(count)]
    for columns in range(1, arity):
        work, packed = pack_rows(rows, arity)
        sort_columns(work, columns)
        heads = [row[:columns] for row in rows]
        order = sorted(range(count), key=heads.__getitem__)
        assert read_rows(work, count) == [packed[n] for n in order]


# Seeds


@pytest.mark.parametrize("seeds", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("others", [3, 7, 8, 12])
def test_seeds_are_probed_ahead(seeds, others):
    """More seeds and more probes than are looked up at once; some lead nowhere, some are void."""
    random = Random(seeds * others)
    bench = Bench([2, 1, 2], buffer=1 << 12)
    given = [Given(0, (0, 1), COUNT), *(Given(1, (n % 2,), COUNT) for n in range(others))]
    given += [Given(2, (0, 2), COUNT), Given(2, (1, 2), PRESENCE)]
    bench.make_rule(given, (0, 1, 2))
    keys = [(random.randrange(60), random.randrange(60)) for _ in range(seeds)]
    changes: list[tuple[int, tuple[int, ...], int]] = [(0, key, 1) for key in keys]
    changes.append((0, (1, 1), 0))
    for change in (1, -1):
        changes += [(1, (n,), change) for n in range(0, 60, 2 + (change < 0))]
        changes += [(2, (n, m), change) for n in range(60) for m in range(0, 45, 1 + n % 9)]
        before = bench.found()
        bench.compare(before, *bench.run_epoch(changes))
        changes = [(0, key, -1) for key in keys[: seeds // 2]]


# Meetings

SIZES = [0, 1, 3, 4, 9, 16, 17, 40, 300]
SPREADS = {"dense": 1, "by digits": 32, "by high digits": 32**3}


@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS)
@pytest.mark.parametrize("others", [1, 2])
def test_sets_of_all_sizes_meet(spread, others):
    """Blocks, hubs, a hub against a block; two sets, and three of which the smallest meet."""
    bench = Bench([2] * (1 + others), buffer=1 << 14, log_words=1 << 17)
    bench.make_rule([Given(n, (X, Y), COUNT) for n in range(1 + others)], (X, Y))
    changes, at = [], 0
    for size in SIZES:
        for other in SIZES:
            changes += [(0, (at, spread * n), 2) for n in range(size)]
            changes += [(1, (at, spread * (3 * n)), 3) for n in range(other)]
            if others == 2:
                changes += [(2, (at, spread * (2 * n)), 5) for n in range(max(size, other))]
            at += 1
    rows = dict.fromkeys((x, y) for base, (x, y), _ in changes)
    play_large(bench, changes)
    assert 0 < len(bench.found()) < len(rows)
    play_large(bench, [(base, key, -n) for base, key, n in changes if key[1] % (2 * spread)])


def play_large(bench, changes):
    """As `play`, with a quicker brute force: the inputs have the same columns."""
    bench.run_epoch(changes)
    expected = {}
    for key, count in bench.bases[0].rows.items():
        for base in bench.bases[1:]:
            count *= base.rows[key]
        if count:
            expected[key] = count
    assert bench.found() == expected


@pytest.mark.parametrize("size", [3, 20, 200])
def test_a_walk_and_a_sum_over_sets_of_any_size(size):
    bench = Bench([2, 2], buffer=1 << 14, log_words=1 << 14)
    bench.make_rule([Given(0, (X, Y), COUNT, True), Given(1, (Y, Z), COUNT, True)], (X,))
    play(bench, [(1, (5, 32 * n), 2) for n in range(size)], [(0, (n, 5), 1) for n in range(3)])
    assert bench.found() == {(n,): 2 * size for n in range(3)}
