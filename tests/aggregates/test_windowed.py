"""The parts of window aggregates: groups by key, queues of events, entries that are replaced."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.aggregates.models import AFFINE, BITS, fold

from triegs.aggregates.swag.fiba import Fiba
from triegs.aggregates.swag.operators import MAX, SUM, Operator
from triegs.aggregates.windowed.events import EventQueue
from triegs.aggregates.windowed.groups import GroupTable
from triegs.jit.jit import COMPILED

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
STEPS = 300 if COMPILED else 60
# Each takes four seconds to compile; the run without compilation has them all.
OPERATORS = [MAX, AFFINE] if COMPILED and not SOAK else [SUM, MAX, BITS, AFFINE]


@pytest.mark.parametrize("width", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_groups_against_a_dictionary(width: int, seed: int) -> None:
    """Keys that come and go, in a table that grows and whose runs are closed up."""
    random, table = Random(seed), GroupTable(width)
    events: list[tuple[tuple[int, ...], int]] = []
    for step in range(STEPS):
        spread = 3 if step % 3 else 400
        keys = [
            tuple(random.randrange(spread) for _ in range(width))
            for _ in range(random.randrange(40))
        ]
        codes, fresh = table.assign(np.array(keys, np.int64).reshape(len(keys), width))
        before = {code for _, code in events}
        events += zip(keys, codes.tolist(), strict=True)
        assert sorted(fresh.tolist()) == sorted({*codes.tolist()} - before)
        random.shuffle(events)
        count = random.randrange(len(events) + 1)
        gone, events = events[:count], events[count:]
        freed = table.release(np.array([code for _, code in gone], np.int64))
        numbers = dict(events)
        assert len({*numbers.values()}) == len(numbers) == len(table)
        assert all(numbers[key] == code for key, code in events)
        assert {*freed.tolist()} == {code for _, code in gone} - {*numbers.values()}
        for key, code in numbers.items():
            assert tuple(table.members[code].tolist()) == key


def test_a_queue_against_a_list() -> None:
    random, queue, plain = Random(4), EventQueue(), list[tuple[int, ...]]()
    first, time, position = 0, 0, 0
    for _ in range(200):
        for _ in range(random.randrange(60)):
            time += random.randrange(2)
            position += random.randrange(1, 3)
            plain.append((time, position, position % 5, -position))
            queue.append(*(np.array([cell]) for cell in plain[-1]))
        kept = random.randrange(first, len(plain) + 1)
        codes = queue.retire(kept)
        assert codes.tolist() == [row[2] for row in plain[first:kept]]
        first = kept
        assert (queue.start, queue.end) == (first, len(plain))
        found = queue.read(first, len(plain))
        assert list(zip(*(c.tolist() for c in found), strict=True)) == plain[first:]
        at = random.randrange(time + 2)
        assert queue.find(at) - first == sum(row[0] <= at for row in plain[first:])
        wanted = sorted(random.sample(range(position + 3), min(9, position + 3)))
        indexes = queue.find_positions(np.array(wanted))
        assert [plain[i][1] for i in indexes] == [
            p for p in wanted if any(row[1] == p for row in plain[first:])
        ]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
def test_replaced_entries_against_a_dictionary(operator: Operator) -> None:
    """Small nodes make deep trees: entries on the spines and inside are replaced."""
    random, tree = Random(5), Fiba(operator, 2, slots=4)
    plain: list[dict[int, list[Any]]] = [{}, {}]
    low = 0
    for step in range(STEPS):
        group = random.randrange(2)
        entries = plain[group]
        for _ in range(random.randrange(6)):
            time = low + 1 + random.randrange(60 + step)
            value = random.randrange(100)
            tree.insert([time], [value], [group])
            entries.setdefault(time, []).append(value)
        if entries and random.random() < 0.8:
            time = random.choice(sorted(entries))
            entries[time] = entries[time][1:]
            tree.replace([time], tree.fold(entries[time])[None], [group])
        if random.random() < 0.2:
            low += random.randrange(20)
            tree.evict([low, low], [0, 1])
            plain = [{t: v for t, v in each.items() if t > low} for each in plain]
        until = low + random.randrange(1, 80 + step)
        for number, each in enumerate(plain):
            values = [value for t in sorted(each) for value in each[t]]
            inside = [value for t in sorted(each) if t <= until for value in each[t]]
            assert tree.query(number) == fold(operator, values)
            state = tree.query_groups([number], low, until)[0]
            assert operator.lower(*operator.read(state)) == fold(operator, inside)
    with pytest.raises(KeyError):
        tree.replace([low], tree.fold([1])[None], [0])
