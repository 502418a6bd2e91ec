"""The incremental core against the oracle, after every epoch, for queries of every class."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from tests.property.random_queries import query_text, random_query, with_filters

from triegs.compiler import compile_query, legal_plans
from triegs.errors import InvalidUpdate, MultiplicityOverflow
from triegs.maintain.core import Core
from triegs.mode import Mode
from triegs.read.walk import enumerate_answers, make_walk
from triegs.sparql import parse
from triegs.sparql.expressions import holds
from triegs.store.packed import PackedStore
from triegs.store.plain import PlainStore
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
NODES = [f"<c{i}>" for i in range(3)]
LABELS = ["<p0>", "<p1>"]


class Terms:
    """A dictionary for tests: ids in order of appearance."""

    def __init__(self):
        self.ids: dict[str, int] = {}

    def encode(self, term):
        return self.ids.setdefault(term, len(self.ids))

    def decode(self, number):
        return list(self.ids)[number]


class Standing:
    """A registered plan with its walk and its oracle."""

    def __init__(self, core, query, plan):
        self.query, self.plan = query, plan
        self.core, self.handle = core, core.register(plan)
        self.walk = make_walk(plan, self.handle.built)
        self.question = oracle.read_query(query.text or query_text(query))

    def answers(self, version, terms):
        found = {}
        for row, count in enumerate_answers(self.walk, version):
            names = {v: terms.decode(i) for v, i in zip(self.query.free, row, strict=True)}
            if all(holds(e, names) for e in self.plan.filters):
                answer = tuple(names[v] for v in self.query.head)
                assert answer not in found
                found[answer] = count
        return found if self.query.head else dict.fromkeys(found, 1)


def make_core(mode=Mode.MULTIGRAPH, store=PlainStore):
    terms = Terms()
    return Core(store(), terms.encode, terms.decode, mode), terms


def apply_updates(core, terms, batch, is_strict=False):
    ids = [(1 if sign == "+" else -1, *map(terms.encode, triple)) for sign, *triple in batch]
    return core.apply(ids, is_strict)


def random_batch(random):
    return [
        (random.choice("++-"), random.choice(NODES), random.choice(LABELS), random.choice(NODES))
        for _ in range(random.randint(0, 5))
    ]


def register_random(random, core):
    query = with_filters(random, random_query(random))
    while len(query.atoms) > 5:
        query = with_filters(random, random_query(random))
    return Standing(core, query, random.choice(legal_plans(query, limit=10).plans))


@pytest.mark.parametrize("seed", range(200 if SOAK else 40))
def test_answers_after_every_epoch(seed):
    random = Random(seed)
    mode = list(Mode)[seed % 2]
    core, terms = make_core(mode, PackedStore if seed // 2 % 2 else PlainStore)
    standing = [register_random(random, core) for _ in range(random.randint(1, 3))]
    counts: Counter = Counter()
    held: list = []
    for _ in range(12):
        batch = random_batch(random)
        refused = oracle.apply_batch(counts, batch)
        epoch = apply_updates(core, terms, batch)
        assert [place for place, _ in epoch.refused] == refused
        if random.random() < 0.15:
            standing.append(register_random(random, core))
        if random.random() < 0.15 and standing:
            core.release(standing.pop(random.randrange(len(standing))).handle)
        version = core.store.newest
        core.store.check()
        expected = [oracle.answers(one.question, counts, mode.value) for one in standing]
        for one, wanted in zip(standing, expected, strict=True):
            assert one.answers(version, terms) == wanted, query_text(one.query)
        held.append((core.store.pin(), list(standing), expected))
    # What was held never changed, whatever came later.
    for version, queries, expected in held:
        for one, wanted in zip(queries, expected, strict=True):
            assert one.answers(version, terms) == wanted
        core.store.unpin(version)
    assert core.store.statistics().retained_bytes == 0
    for one in standing:
        core.release(one.handle)
    assert [source.name for source in core.program.sources()] == ["counts"]


def test_two_factors_that_die_in_one_epoch():
    """The report's filter on positive siblings would leave the view of ?x alive here."""
    core, terms = make_core()
    query = parse("SELECT ?x { ?x <a> ?y . ?x <b> ?z . ?x <c> ?w }")
    one = Standing(core, query, compile_query(query, root="x"))
    batch = [("+", "<s>", p, "<o>") for p in ("<a>", "<b>", "<c>")]
    apply_updates(core, terms, batch)
    assert one.answers(core.store.newest, terms) == {("<s>",): 1}
    apply_updates(core, terms, [("-", *update[1:]) for update in batch[:2]])
    assert one.answers(core.store.newest, terms) == {}
    apply_updates(core, terms, batch[:2])
    assert one.answers(core.store.newest, terms) == {("<s>",): 1}


def test_equal_sub_plans_are_one():
    core, _ = make_core()
    texts = ["SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", "SELECT ?u ?w { ?u <a> ?w . ?w <b> ?t }"]
    first = core.register(compile_query(parse(texts[0])))
    sources = len(list(core.program.sources()))
    second = core.register(compile_query(parse(texts[1])))
    assert len(list(core.program.sources())) == sources
    assert [b.marginal for b in first.built] == [b.marginal for b in second.built]
    core.release(first)
    assert len(list(core.program.sources())) == sources
    core.release(second)
    assert len(list(core.program.sources())) < sources


def test_a_strict_epoch_is_refused_as_a_whole():
    core, terms = make_core()
    before = core.store.newest.number
    with pytest.raises(InvalidUpdate) as caught:
        apply_updates(core, terms, [("+", "<s>", "<p>", "<o>"), ("-", "<s>", "<p>", "<x>")], True)
    assert [place for place, _ in caught.value.refused] == [1]
    assert core.store.newest.number == before
    assert list(core.counts()) == []


def test_an_exception_inside_an_epoch_leaves_everything_as_it_was():
    core, terms = make_core()
    query = parse("SELECT ?x { ?x <a> ?y . ?x <b> ?z }")
    one = Standing(core, query, compile_query(query))
    apply_updates(core, terms, [("+", "<s>", "<a>", "<o>"), ("+", "<s>", "<b>", "<o>")])
    before = one.answers(core.store.newest, terms)
    marginal = core.program.base.source(terms.encode("<a>"))
    original, marginal.set = marginal.set, failing
    with pytest.raises(RuntimeError):
        apply_updates(core, terms, [("+", "<t>", "<b>", "<o>"), ("+", "<t>", "<a>", "<o>")])
    marginal.set = original
    assert one.answers(core.store.newest, terms) == before
    apply_updates(core, terms, [("+", "<t>", "<b>", "<o>"), ("+", "<t>", "<a>", "<o>")])
    assert len(one.answers(core.store.newest, terms)) == 2


def failing(*_):
    raise RuntimeError("planted")


def set_count(core, terms, triple, count):
    """An epoch that gives an assertion any count at once."""
    core.program.base.change(*map(terms.encode, triple), count)
    core.program.maintain()
    return core._publish()


def is_stalled(one):
    return isinstance(one.handle.error, MultiplicityOverflow)


def test_a_count_that_does_not_fit_stalls_its_query_alone():
    core, terms = make_core()
    asked, shown = (parse(t) for t in ("ASK { ?x <a> ?y . ?x <b> ?z }", "SELECT * { ?x <a> ?y }"))
    product = Standing(core, asked, compile_query(asked))
    plain = Standing(core, shown, compile_query(shown))
    big = 2**40
    set_count(core, terms, ("<s>", "<b>", "<o>"), big)
    good = set_count(core, terms, ("<s>", "<a>", "<o>"), 1)
    assert dict(enumerate_answers(product.walk, good)) == {(): big}
    set_count(core, terms, ("<s>", "<a>", "<o>"), big)
    assert is_stalled(product)
    version = core.show(product.handle)
    assert version.number == good.number
    assert dict(enumerate_answers(product.walk, version)) == {(): big}
    core.store.unpin(version)
    assert plain.answers(core.store.newest, terms) == {("<s>", "<o>"): big}
    apply_updates(core, terms, [("+", "<t>", "<c>", "<o>")])
    assert is_stalled(product)
    # Once the count fits again, the next epoch rebuilds the views.
    newest = set_count(core, terms, ("<s>", "<a>", "<o>"), 3)
    assert not is_stalled(product)
    assert dict(enumerate_answers(product.walk, core.show(product.handle))) == {(): 3 * big}
    assert core.store.newest is newest


def test_a_query_that_overflows_at_once_is_not_registered():
    core, terms = make_core()
    for label in ("<a>", "<b>"):
        set_count(core, terms, ("<s>", label, "<o>"), 2**40)
    with pytest.raises(MultiplicityOverflow):
        core.register(compile_query(parse("ASK { ?x <a> ?y . ?x <b> ?z }")))
    assert core.standing == []
    assert [source.name for source in core.program.sources()] == ["counts"]


def test_the_empty_pattern_has_one_answer():
    core, terms = make_core()
    query = parse("SELECT * { }")
    one = Standing(core, query, compile_query(query))
    assert dict(enumerate_answers(one.walk, core.store.newest)) == {(): 1}
    apply_updates(core, terms, [("+", "<s>", "<p>", "<o>")])
    assert dict(enumerate_answers(one.walk, core.store.newest)) == {(): 1}
