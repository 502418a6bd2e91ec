"""MIN, MAX and SAMPLE of a variable, read for all groups at once."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.drawing import KINDS, typed
from tests.stress.standing import read

from triegs.engine import Engine
from triegs.read.extremes import find_extremes, rank_values
from triegs.read.rows import UNBOUND
from triegs.sparql.aggregates import aggregate
from triegs.sparql.model import Duplicates
from triegs.terms.dictionary import Dictionary
from triegs.testing import oracle

TERMS = st.one_of(*(st.sampled_from(some) for some in KINDS.values()))
#: Equal values of different terms, and groups without any.
GROUPS = st.lists(st.lists(TERMS, max_size=6), min_size=1, max_size=6)
QUERY = (
    "SELECT ?x ?k (MIN(?v) AS ?least) (MAX(?v) AS ?most) (SAMPLE(?v) AS ?any) "
    "{ ?x <u:k> ?k . ?x <u:p> ?v } GROUP BY ?x ?k"
)


@given(GROUPS, st.booleans(), st.sampled_from([0, 500]))
def test_extremes(groups: list[list[str]], are_integers: bool, others: int) -> None:
    """Among few other terms, or many."""
    if are_integers:
        groups = [[typed(len(term), "integer") for term in group] for group in groups]
    words, computed = Dictionary(), Dictionary()
    words.encode_terms([f"<far:{number}>" for number in range(others)])
    ids = words.encode_terms([term for group in groups for term in group])
    ends = np.cumsum([len(group) for group in groups])
    values = rank_values(words.arrays, np.array(ids, np.int64), ends)
    for function in ("MIN", "MAX"):
        found = find_extremes(values, function == "MAX", words.arrays, computed)
        for group, chosen in zip(groups, found.tolist(), strict=True):
            if not group:
                assert chosen == UNBOUND
                continue
            # A dictionary has one spelling of each term.
            pairs = [(words.decode_one(words.encode_one(term)), 1) for term in group]
            assert computed.decode_one(chosen) == aggregate(function, pairs, Duplicates.KEEP)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_large_groups(is_mixed: bool) -> None:
    """Of more values than a block holds, which come and go."""
    random = Random(1)
    words = [typed(n, "integer") for n in range(-200, 200)]
    if is_mixed:
        words += [term for some in KINDS.values() for term in some]
    engine, counts = Engine(), Counter[oracle.Triple]()
    query = engine.register(QUERY)
    question = oracle.read_query(QUERY)
    batch = [("+", f"<u:{x}>", "<u:k>", typed(k, "integer")) for x in range(4) for k in range(2)]
    for _ in range(5):
        batch += [
            ("+", f"<u:{random.randrange(4)}>", "<u:p>", random.choice(words)) for _ in range(300)
        ]
        live = [triple for triple in counts.elements() if triple[1] == "<u:p>"]
        batch += [("-", *triple) for triple in random.sample(live, len(live) // 3)]
        engine.apply(batch)
        oracle.apply_batch(counts, batch)
        with query.snapshot() as snapshot:
            assert dict(read(snapshot)) == oracle.answers(question, counts, "multigraph")
        batch = []
    for triple in list(counts.elements()):
        batch.append(("-", *triple))
    engine.apply(batch)
    with query.snapshot() as snapshot:
        assert not dict(read(snapshot))
