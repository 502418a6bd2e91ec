"""Judges say what `holds` says, of every term and tuple, however they come to know it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.jit.jit import COMPILED
from triegs.maintain.judges import LEAST_IDS, LEAST_REQUESTS, MOST_SLOTS, Judges
from triegs.maintain.kernels.verdicts import accepts_id, accepts_tuple
from triegs.sparql.expressions import holds
from triegs.sparql.model import Call, Expression
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import XSD, canonical_term

COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")
LEXICAL = {
    "integer": "0 -0 1 01 -1 +1 7 100 16777216 16777217 9007199254740992 9007199254740993 "
    "999999999999999 1000000000000001 9223372036854775807 -9223372036854775808 "
    "9223372036854775808 1e1 1.0",
    "int": "1 100 2147483648 x",
    "long": "1 7 16777217 9223372036854775808",
    "byte": "7 200",
    "decimal": "0.0 1.0 1. .5 -0.5 0.1 0.10 100.00 16777217.0 9007199254740993.0 2.5 "
    "0.1000000000000000055511151231257827 0.1000000000000000000000001 "
    "19.99 -19.990 -7.25 -7 123456789012345.6 9223372036854775807.5 1e1",
    "double": "0 -0.0 1 1.0E0 0.1 2.5 16777217 9007199254740993 1e15 1E400 INF -INF NaN +INF x "
    "1e-7 0.10000000000000000000000000000000000000001",
    "float": "0 -0 1 0.1 2.5 16777216 16777217 INF NaN",
    "boolean": "true false 1 0 yes",
    "dateTime": "2024-05-01T10:00:00Z 2024-05-01T12:00:00+02:00 2024-05-01T10:00:00 "
    "2024-05-02T10:00:00 2024-05-01T10:00:00.25Z 2024-05-01T10:00:00.0000000000000000001Z "
    "2024-05-01T24:00:00Z 2024-05-02T00:00:00Z 2024-02-30T00:00:00Z -0044-03-15T00:00:00Z "
    "2024-05-01T08:00:00.250000-02:00 0999-05-01T10:00:00Z 9999-12-31T23:59:59.999999Z "
    "2024-05-01T10:00:00.2500001Z 1000-01-01T00:00:00Z 2024-02-29T00:00:00Z 2023-02-29T00:00:00Z "
    "2024-04-31T00:00:00Z 2024-05-01T23:59:59-13:59 2024-05-01T10:00:00+14:00",
    "date": "2024-05-01 2024-05-01Z 2024-05-02 2024-05-02+14:00",
    "gYear": "2024 2025",
    "string": "a b",
}
TERMS = [
    *dict.fromkeys(
        canonical_term(text)
        for text in [
            "<http://ex/a>", "<http://ex/b>", "_:a", "_:b", '""', '"a"', '"b"', '"1"', '"é"',
            '"a"@en', '"b"@en', '"a"@de', '"x"^^<http://ex/type>', '"y"^^<http://ex/type>',
            *(f'"{text}"^^<{XSD}{name}>' for name, ts in LEXICAL.items() for text in ts.split()),
            f'"{"9" * 400}"^^<{XSD}integer>', f'"{"9" * 400}.5"^^<{XSD}decimal>',
            f'"{"9" * 1001}"^^<{XSD}integer>',
        ]
    )
]  # fmt: skip


class World:
    """Terms with ids, and judges over them, notified of each freed id."""

    def __init__(self, terms: list[str] = TERMS, reads: bool = True) -> None:
        self.dictionary = Dictionary()
        self.terms = terms
        self.ids = np.array(self.dictionary.encode_terms(terms), np.int64)
        read = self.dictionary.read_terms if reads else None
        self.judges = Judges(self.dictionary.decode_one, read)
        self.dictionary.on_free.append(self.judges.forget)

    def check(self, expression: Expression, variables: list[str], rows: np.ndarray) -> None:
        """Rows of indexes into `terms`."""
        number = self.judges.find(expression, variables)
        said = self.judges.judge_columns(number, [self.ids[column] for column in rows.T])
        for row, verdict in zip(rows.tolist(), said.tolist(), strict=True):
            binding = {v: self.terms[place] for v, place in zip(variables, row, strict=True)}
            assert verdict == holds(expression, binding), (expression, binding)
        drop(self.judges, number)


def drop(judges: Judges, number: int) -> None:
    judges.keep([each for each in judges.numbers if each != number])


WORLDS = [World(), World(reads=False)]
PLACES = np.arange(len(TERMS)).reshape(-1, 1)


def run(world: World, number: int, rows: Sequence[tuple[int, ...]]) -> list[bool]:
    """As a kernel is run: repeatedly, until it requests no verdict."""
    while True:
        judges = world.judges
        said = []
        for row in rows:
            ids = np.array(row, np.int64)
            several = accepts_tuple(judges.words, judges.requests, number, ids, len(row))
            if len(row) == 1:
                assert several == accepts_id(judges.words, judges.requests, number, row[0])
            said.append(bool(several))
        if not judges.answer():
            return said


# Against holds


@pytest.mark.parametrize("operator", COMPARISONS)
def test_comparisons_of_all_pairs(operator: str) -> None:
    pairs = np.array(list(product(range(len(TERMS)), repeat=2)))[:: 1 if COMPILED else 11]
    WORLDS[0].check(Call(operator, ("?x", "?y")), ["?x", "?y"], pairs)
    WORLDS[0].check(Call(operator, ("?x", "?y")), ["?y", "?x"], pairs[::7])
    WORLDS[0].check(Call(operator, ("?x", "?x")), ["?y", "?x"], pairs[::7])


@pytest.mark.parametrize("operator", COMPARISONS)
def test_sums_compared_with_all_terms(operator: str) -> None:
    """Also with terms that are no numbers, which differ from every number."""
    pairs = np.array(list(product(range(len(TERMS)), repeat=2)))[:: 1 if COMPILED else 11]
    one = f'"1"^^<{XSD}integer>'
    for arguments in ((Call("+", ("?x", one)), "?y"), ("?y", Call("-", ("?x",)))):
        WORLDS[0].check(Call(operator, arguments), ["?x", "?y"], pairs[::7])


@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize("name", ["double", "float", "decimal"])
def test_a_whole_constant_makes_sums_of_its_type(operator: str, name: str) -> None:
    """An integer plus a double is a double, which may be the next one to the exact sum."""
    places = [TERMS.index(f'"{n}"^^<{XSD}integer>') for n in (2**53 + 1, 2**53, 2**63 - 1, 1)]
    pairs = np.array(list(product(places, repeat=2)))
    one = f'"1"^^<{XSD}{name}>'
    for left in (Call("+", ("?x", one)), Call("*", ("?x", one)), Call("-", (one, "?x"))):
        WORLDS[0].check(Call(operator, (left, "?y")), ["?x", "?y"], pairs)


@pytest.mark.parametrize("operator", COMPARISONS)
def test_comparisons_with_all_constants(operator: str) -> None:
    for constant in TERMS:
        if constant.startswith("_:"):
            continue
        for arguments in (("?x", constant), (constant, "?x")):
            WORLDS[0].check(Call(operator, arguments), ["?x"], PLACES)
        negated = Call("!", (Call(operator, ("?x", constant)),))  # errors differ from no
        WORLDS[0].check(negated, ["?x"], PLACES)


constants = st.sampled_from([term for term in TERMS if not term.startswith("_:")])


def expressions(variables: list[str]) -> st.SearchStrategy[Expression]:
    names = st.sampled_from(variables)
    leaves = st.one_of(
        st.builds(lambda o, a, b: Call(o, (a, b)), st.sampled_from(COMPARISONS), names, constants),
        st.builds(lambda o, a, b: Call(o, (a, b)), st.sampled_from(COMPARISONS), names, names),
        st.builds(lambda o, a, b: Call(o, (a, b)), st.sampled_from(COMPARISONS), constants, names),
        st.builds(
            lambda o, a, b: Call(o, (a, *b)),
            st.sampled_from(["IN", "NOT IN"]), names, st.lists(constants, max_size=3),
        ),
        st.builds(
            lambda o, a: Call(o, (a,)),
            st.sampled_from(["ISIRI", "ISBLANK", "ISLITERAL", "ISNUMERIC", "BOUND"]), names,
        ),
        st.builds(lambda a, b: Call("SAMETERM", (a, b)), names, names),
        st.builds(lambda a, b: Call("=", (Call("+", (a, b)), b)), names, constants),
        st.builds(lambda a: Call("STRSTARTS", (Call("STR", (a,)), '"1"')), names),
        names, constants,
    )  # fmt: skip
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a: Call("!", (a,)), inner),
            st.builds(
                lambda o, a: Call(o, tuple(a)),
                st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3),
            ),
        ),
        max_leaves=5,
    )  # fmt: skip


@given(expressions(["?x"]), st.sampled_from(WORLDS))
def test_one_variable(expression: Expression, world: World) -> None:
    world.check(expression, ["?x"], PLACES)


@given(expressions(["?x", "?y"]), st.randoms(use_true_random=False))
def test_two_variables(expression: Expression, random: Random) -> None:
    rows = [[random.randrange(len(TERMS)) for _ in range(2)] for _ in range(60)]
    WORLDS[0].check(expression, ["?y", "?x"], np.array(rows))


@given(expressions(["?x", "?y", "?z"]), st.randoms(use_true_random=False))
def test_three_variables(expression: Expression, random: Random) -> None:
    rows = [[random.randrange(len(TERMS)) for _ in range(3)] for _ in range(60)]
    WORLDS[0].check(expression, ["?x", "?y", "?z"], np.array(rows))


# What is decided without a question


def test_values_decide_what_they_can() -> None:
    """Once its value is known, no verdict on such pairs is requested."""
    numbers = ["5", "16777217", "9007199254740993"]
    world = World([
        *("<http://ex/a>", "_:b", '"a"@en', '"x"^^<http://ex/type>'),
        *(f'"{n}"^^<{XSD}integer>' for n in numbers), f'"19.99"^^<{XSD}decimal>',
        f'"19.99"^^<{XSD}double>', f'"2024-05-01"^^<{XSD}date>',
        f'"2024-05-01T10:00:00Z"^^<{XSD}dateTime>', f'"true"^^<{XSD}boolean>',
    ])  # fmt: skip
    pairs = list(product(world.ids.tolist(), repeat=2))
    for operator in COMPARISONS:
        number = world.judges.find(Call(operator, ("?x", "?y")), ["?x", "?y"])
        run(world, number, [(key, key) for key in world.ids.tolist()])
        judges = world.judges
        for pair in pairs:
            accepts_tuple(judges.words, judges.requests, number, np.array(pair), 2)
        assert not judges.answer()


def test_no_verdict_is_requested_twice() -> None:
    world = World()
    judges = world.judges
    number = judges.find(Call("REGEX", ("?x", '"a"')), ["?x"])
    across = judges.find(Call("SAMETERM", ("?x", "?y")), ["?x", "?y"])
    single = [(int(key),) for key in world.ids]
    pairs = [(a, b) for (a,), (b,) in zip(single, reversed(single), strict=True)]
    for judge, rows in ((number, single), (across, pairs)):
        run(world, judge, rows)
        for row in rows:
            accepts_tuple(judges.words, judges.requests, judge, np.array(row), len(row))
        assert not judges.answer()


# Ids that come and go


def test_reused_ids_are_judged_again() -> None:
    world = World([])
    dictionary, judges = world.dictionary, world.judges
    five = f'"5"^^<{XSD}integer>'
    number = judges.find(Call("<", ("?x", five)), ["?x"])
    across = judges.find(Call("<", ("?x", "?y")), ["?x", "?y"])
    three = judges.find(Call("=", (Call("+", ("?x", "?y")), "?z")), ["?x", "?y", "?z"])
    before = dictionary.encode_terms([1, 2, 3])
    one, two, _ = before
    assert run(world, number, [(one,)]) == [True]
    assert run(world, across, [(one, two), (two, one)]) == [True, False]
    assert run(world, three, [tuple(before)]) == [True]
    assert dictionary.collect(1) == 3
    after = dictionary.encode_terms([7, 8, 9])
    assert after == before[::-1]  # so the order of the first two is another one now
    assert run(world, number, [(one,)]) == [False]
    assert run(world, across, [(one, two), (two, one)]) == [False, True]
    assert run(world, three, [tuple(before)]) == [False]


def test_freed_ids_are_reported() -> None:
    dictionary = Dictionary()
    told: list[int] = []
    dictionary.on_free.append(lambda ids: told.extend(ids.tolist()))
    ids = dictionary.encode_terms(range(3000))
    dictionary.acquire(ids, 1)
    assert dictionary.collect(1) == 0
    assert not told
    dictionary.release(ids[1000:], 2)
    assert dictionary.collect(2, pins=[1]) == 0
    assert not told
    dictionary.collect(2)
    assert sorted(told) == ids[1000:]
    dictionary.release(ids[:1000], 3)
    dictionary.collect(3)  # also makes the arrays smaller
    assert sorted(told) == ids
    assert dictionary.metrics().free_ids < 3000


def test_tuples_last_an_epoch() -> None:
    names = ['"a"', '"b"']
    judges = Judges(names.__getitem__)
    number = judges.find(Call("STRSTARTS", ("?x", "?y")), ["?x", "?y"])
    row = [np.array([0]), np.array([1])]
    assert judges.judge_columns(number, row).tolist() == [False]
    names[1] = '"a"'
    assert judges.judge_columns(number, row).tolist() == [False]
    judges.end_epoch()
    assert judges.judge_columns(number, row).tolist() == [True]


# Growth


def test_planes_grow_with_ids() -> None:
    count = 5 * LEAST_IDS
    world = World([f'"{n}"^^<{XSD}integer>' for n in range(count)])
    judges, ids = world.judges, world.ids.tolist()
    less = judges.find(Call("<", ("?x", f'"{count // 2}"^^<{XSD}integer>')), ["?x"])
    pair = judges.find(Call("<", ("?x", "?y")), ["?x", "?y"])
    few = [ids[0], ids[63], ids[64], ids[LEAST_IDS - 1]]
    assert all(run(world, less, [(key,) for key in few]))
    assert run(world, pair, [(few[0], few[1])]) == [True]
    assert run(world, less, [(ids[-1],)]) == [False]
    for key in few:  # known still
        assert accepts_id(judges.words, judges.requests, less, key)
    assert accepts_tuple(judges.words, judges.requests, pair, np.array(few[:2]), 2)
    assert not judges.answer()
    said = judges.judge_columns(less, [world.ids])
    assert said.tolist() == [n < count // 2 for n in range(count)]
    judges.forget(np.array([ids[-1], 10**9]))  # one that was never requested
    accepts_id(judges.words, judges.requests, less, ids[-1])
    assert judges.answer()


SUM = Call("=", (Call("+", ("?x", "?y")), "?z"))
NUMBERS = [f'"{n}"^^<{XSD}integer>' for n in range(40)]


def test_tables_grow() -> None:
    world = World(NUMBERS)
    judges = world.judges
    number = judges.find(SUM, ["?x", "?y", "?z"])
    rows = [(a, b, a + b) for a in range(0, 20, 2) for b in range(20)]
    rows += [(a, b, a + b + 1) for a in range(0, 20, 2) for b in range(20)]
    ids = [tuple(world.ids[list(row)].tolist()) for row in rows]
    size = judges.bytes
    for start in range(0, len(ids), 50):
        assert run(world, number, ids[start : start + 50]) == [start < 200] * 50
    for row in ids:  # what the small table had is in the large one
        accepts_tuple(judges.words, judges.requests, number, np.array(row), 3)
    assert not judges.answer()
    assert judges.bytes > size


def test_large_tables_shrink() -> None:
    world = World(NUMBERS[:30])
    judges = world.judges
    number = judges.find(SUM, ["?x", "?y", "?z"])
    cube = np.array(list(product(range(30), repeat=3)))
    assert len(cube) > MOST_SLOTS
    said = judges.judge_columns(number, list(world.ids[cube].T))
    assert said.tolist() == [a + b == c for a, b, c in cube.tolist()]
    large = judges.words.nbytes
    judges.end_epoch()
    assert judges.words.nbytes < large
    assert run(world, number, [tuple(world.ids[[1, 2, 3]].tolist())]) == [True]


def test_a_full_list_of_requests() -> None:
    """Requests that find no room are repeated when the kernel runs again."""
    count = LEAST_REQUESTS
    world = World([f'"{n}"^^<{XSD}integer>' for n in range(count)])
    judges = world.judges
    number = judges.find(Call("<", ("?x", f'"7"^^<{XSD}integer>')), ["?x"])
    for key in world.ids.tolist():
        accepts_id(judges.words, judges.requests, number, key)
    used = int(judges.requests[0])
    assert LEAST_REQUESTS - 3 < used <= LEAST_REQUESTS
    across = judges.find(Call("SAMETERM", ("?x", "?y")), ["?x", "?y"])
    accepts_tuple(judges.words, judges.requests, across, world.ids[:2], 2)
    assert judges.requests[0] == used
    assert judges.answer()
    assert len(judges.requests) > LEAST_REQUESTS  # more room the next time
    assert run(world, number, [(key,) for key in world.ids.tolist()]) == [
        n < 7 for n in range(count)
    ]
    assert not judges.answer()


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for more, nothing has changed, and it may be tried again."""
    count = 2 * LEAST_IDS
    world = World([f'"{n}"^^<{XSD}integer>' for n in range(count)])
    judges, ids = world.judges, world.ids.tolist()
    number = judges.find(Call("<", ("?x", NUMBERS[7])), ["?x"])
    across = judges.find(SUM, ["?x", "?y", "?z"])
    rows = [(ids[n], ids[n], ids[2 * n]) for n in range(200)]

    def fail(_: Judges) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Judges, "_lay_out", fail)
        with pytest.raises(MemoryError):
            judges.find(Call("ISIRI", ("?x",)), ["?x"])
        with pytest.raises(MemoryError):
            run(world, number, [(ids[-1],)])
        with pytest.raises(MemoryError):
            run(world, across, rows)
    assert run(world, number, [(ids[-1],), (ids[6],)]) == [False, True]
    assert run(world, across, rows) == [True] * 200
    with monkeypatch.context() as patch:
        patch.setattr(Judges, "_lay_out", fail)
        drop(judges, number)
    iri = judges.find(Call("ISIRI", ("?x",)), ["?x"])
    assert iri == number
    assert run(world, iri, [(ids[-1],), (ids[6],)]) == [False, False]


# Sharing


def test_equal_expressions_share_a_judge() -> None:
    world = World()
    judges = world.judges
    first = judges.find(Call("<", ("?x", "?y")), ["?x", "?y"])
    assert judges.find(Call("<", ("?a", "?b")), ["?a", "?b"]) == first
    swapped = judges.find(Call("<", ("?x", "?y")), ["?y", "?x"])
    wider = judges.find(Call("<", ("?x", "?y")), ["?x", "?y", "?z"])
    single = judges.find(Call("ISIRI", ("?x",)), ["?x"])
    assert len({first, swapped, wider, single}) == 4
    iri, one = int(world.ids[0]), int(world.ids[TERMS.index(f'"1"^^<{XSD}integer>')])
    two = int(world.ids[TERMS.index(f'"7"^^<{XSD}integer>')])
    assert run(world, single, [(iri,), (one,)]) == [True, False]
    assert run(world, first, [(one, two)]) == [True]
    drop(judges, first)
    assert run(world, swapped, [(one, two), (two, one)]) == [False, True]
    assert run(world, wider, [(one, two, iri)]) == [True]
    assert accepts_id(judges.words, judges.requests, single, iri)
    assert not judges.answer()
    again = judges.find(Call("ISBLANK", ("?x",)), ["?x"])
    assert again == first
    assert run(world, again, [(iri,)]) == [False]


def test_a_request_for_a_judge_that_is_removed() -> None:
    world = World()
    judges = world.judges
    number = judges.find(Call("SAMETERM", ("?x", "?y")), ["?x", "?y"])
    accepts_tuple(judges.words, judges.requests, number, world.ids[:2], 2)
    drop(judges, number)
    number = judges.find(Call("ISIRI", ("?x",)), ["?x"])
    assert not judges.answer()
    assert run(world, number, [(int(world.ids[0]),)]) == [True]


def test_a_judge_needs_a_variable() -> None:
    with pytest.raises(ValueError, match="needs a variable"):
        World([]).judges.find(Call("ISIRI", ("<http://ex/a>",)), [])
