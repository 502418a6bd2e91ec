"""Window events are copied while updates continue, as of the moment of capture."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.durable.play import draw_script, make_options, play

from triegs import Engine, Window
from triegs.windows import log
from triegs.windows.pending import Timed
from triegs.windows.state import capture, list_chunks


def read(captured):
    return [
        (piece.stream, piece.is_pending, *(column.tolist() for column in piece.events))
        for piece in list_chunks(captured, 3)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_captured_stays_as_it_was(seed, monkeypatch):
    monkeypatch.setattr(log, "SMALLEST", 4)  # so that the ring is full at once, and grows
    random = Random(seed)
    script = draw_script(random, 40, is_windowed=True)
    with Engine(**make_options(random, is_windowed=True)) as engine:
        cut = random.randrange(8, len(script))
        for step in script[:cut]:
            play(engine, step)
        captured = capture(engine._windows)
        expected = read(captured)
        for step in script[cut:]:
            play(engine, step)
            if random.random() < 0.3:
                assert read(captured) == expected
        assert read(captured) == expected
        captured.close()


def test_a_ring_grows_rather_than_write_over_what_is_copied():
    ring = log.Log()
    size = len(ring.times)

    def make(first: int, count: int) -> Timed:
        positions = np.arange(first, first + count)
        rows = np.ones((count, 4), np.int64)
        return Timed(positions, rows, np.full(count, -1), positions)

    ring.append(make(0, size))
    frozen = ring.freeze()
    ring.retire(size // 2)
    ring.append(make(size, size // 2))
    assert frozen.read(0, size).times.tolist() == list(range(size))
    frozen.close()
    ring.retire(size)
    before = ring.times
    ring.append(make(2 * size, 10))
    assert ring.times is before


@pytest.mark.parametrize("first", [True, False], ids=["read before", "read after"])
def test_what_is_deleted_meanwhile_was_alive(first):
    with Engine(window=Window(10, 5)) as engine:
        edges = [(n, 1, "<a:p>", n) for n in range(1, 5)]
        engine.push(edges)
        engine.advance(5)
        captured = capture(engine._windows)
        seen = read(captured) if first else None
        engine.push([(6, *edge[1:], "-") for edge in edges[:2]])
        engine.advance(10)
        with engine.register("SELECT ?x ?y { ?x <a:p> ?y }").snapshot() as snapshot:
            assert len(snapshot) == 2
        found = read(captured)
        assert seen is None or found == seen
        assert [row[0] for part in found for row in part[3]] == [1, 1, 1, 1]
        captured.close()
