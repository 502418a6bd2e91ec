"""Changes against two full readings, where sets grow to hubs, shrink again, and stay shared."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from triegs import Engine

A, B, C = (f"<http://ex/{name}>" for name in "abc")
#: The last two levels of a phase, as blocks: below the seed, above it, and with a weight between.
QUERIES = [
    f"SELECT * {{ ?a {A} ?b . ?b {B} ?c . ?c {C} ?d }}",
    f"SELECT * {{ ?b {A} ?a . ?b {B} ?c . ?b {C} ?d }}",
    f"SELECT * {{ ?a {A} ?b . ?b {A} ?c . ?c {A} ?d }}",
    f"SELECT ?a ?b ?c {{ ?a {A} ?b . ?b {B} ?c . ?c {C} ?d }}",
]


def read(result) -> Counter:
    table = result.to_arrow("python")
    *columns, counts = table.to_pydict().values()
    rows = list(zip(*columns, strict=True))
    found = Counter(dict(zip(rows, counts, strict=True)))
    assert len(found) == len(rows), "an answer came twice"
    return found


def draw_batch(draw, live, spread, size):
    """Insertions around a few nodes, and deletions that undo whole hubs at times."""
    batch = []
    for _ in range(size):
        if live and draw.random() < 0.3:
            batch.append(("-", *live.pop(draw.integers(len(live)))))
        else:
            label = (A, B, C)[draw.integers(3)]
            edge = (int(draw.integers(3)), label, int(draw.integers(spread)))
            if draw.random() < 0.5:
                edge = (edge[2], label, edge[0])
            live.append(edge)
            batch.append(("+", *edge))
    if live and draw.random() < 0.05:
        node = live[draw.integers(len(live))][0]
        gone = [edge for edge in live if node in (edge[0], edge[2])]
        live[:] = [edge for edge in live if node not in (edge[0], edge[2])]
        batch += [("-", *edge) for edge in gone]
    return batch


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("is_text", [False, True], ids=["integers", "texts"])
def test_changes_are_the_difference_of_two_readings(text, mode, is_text):
    draw = np.random.default_rng(len(text))
    with Engine(mode) as engine:
        query = engine.register(text)
        live: list = []
        held = []
        most = 0
        for number in range(60):
            batch = draw_batch(draw, live, (4, 24, 60)[number // 20], 1 + 5 * (number % 5))
            if is_text:
                batch = [(sign, f"'{s}'", p, f"'{o}'") for sign, s, p, o in batch]
                batch = [tuple(each.replace("'", '"') for each in update) for update in batch]
            engine.apply(batch)
            held.append(query.snapshot())
            if len(held) > 6:
                held.pop(draw.integers(len(held))).close()
            old, new = (held[place] for place in draw.integers(len(held), size=2))
            before, after = read(old), read(new)
            most = max(most, len(after))
            expected = {row: after[row] - before[row] for row in before | after}
            expected = {row: change for row, change in expected.items() if change}
            assert dict(read(new.diff(old))) == expected
        assert most > 200
