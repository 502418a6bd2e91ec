"""MIN, MAX and SAMPLE of a variable, read for all groups at once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.aggregates.drawing import KINDS, typed
from tests.stress.standing import read

from triegs.engine import Engine
from triegs.testing import oracle

QUERY = (
    "SELECT ?x ?k (MIN(?v) AS ?least) (MAX(?v) AS ?most) (SAMPLE(?v) AS ?any) "
    "{ ?x <u:k> ?k . ?x <u:p> ?v } GROUP BY ?x ?k"
)


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
