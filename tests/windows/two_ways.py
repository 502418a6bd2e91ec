"""An engine whose short paths are off, and what to compare it by with one that takes them."""

from __future__ import annotations

from typing import Any

from triegs import Engine
from triegs.maintain.at_once import IMPOSSIBLE
from triegs.windows.state import capture, list_chunks


def at_once(engine: Engine) -> int:
    """How many slides were made in one call."""
    return engine._windows.publisher.at_once.count


def few(engine: Engine) -> int:
    """How many pushes took the shortest path."""
    return engine._windows._few.count


def hinder(engine: Engine) -> Engine:
    """Let an engine make its slides and pushes in several calls."""
    core: Any = engine._core
    core.slide_at_once = lambda slide: (IMPOSSIBLE, core.store.newest)
    engine._windows._few.push = lambda *_: None  # type: ignore[method-assign]
    return engine


def describe(engine: Engine) -> tuple[Any, list[Any]]:
    """All that is known of streams and windows, as a checkpoint would have it."""
    captured = capture(engine._windows)
    try:
        decode = engine._dictionary.decode_one
        name = engine._windows.identities.decode_one
        events = [
            (stream, is_pending, part.times.tolist(), part.arrivals.tolist(),
             [each if each < 0 else name(each) for each in part.ids.tolist()],
             [(change, *map(decode, row)) for change, *row in part.rows.tolist()])
            for stream, is_pending, part in list_chunks(captured, 1 << 20)
        ]  # fmt: skip
        return captured.fields, events
    finally:
        captured.close()
