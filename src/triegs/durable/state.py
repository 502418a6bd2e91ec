"""The state of an engine: taken while updates go on, written part by part, and taken up again.

Only what was told is kept: the counts of assertions, events that wait or that a window retains,
queries, positions. Views follow from these, and are made anew by one epoch. A part has the
definitions of the terms that it is the first to name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triegs.durable.checkpoints import Part
from triegs.durable.columns import Content, lay_out
from triegs.durable.source import register_again
from triegs.durable.terms import Definer, Definitions
from triegs.maintain.standing import Laid
from triegs.maintain.walk import Level, Walk
from triegs.read.columns import Words, read_columns
from triegs.store.packed import PackedVersion
from triegs.windows.pending import Timed
from triegs.windows.state import Captured, Piece, capture, list_pieces, restore

if TYPE_CHECKING:
    from triegs.engine import Engine

CHUNK_ROWS = 1 << 18
COUNTERS = ("_updates", "_refused")
HEAD, EVENTS, ROWS = "head", "events", "rows"


class Capture(NamedTuple):
    """What was true at one moment: small things as they were, and what is held to be copied."""

    fields: dict[str, Any]
    windows: Captured
    version: PackedVersion
    graph: list[Laid]
    labels: Words
    release: Callable[[], None]

    def close(self) -> None:
        """Let go of what is held."""
        self.windows.close()
        self.release()


def capture_state(engine: Engine, sequence: int) -> Capture:
    """Take the state after a record; the updater calls it between two. Cost: the queries, and the
    events that wait; graph and retained events are held until `Capture.close`, and copied by
    `list_parts`.
    """
    journal = engine._journal
    assert journal is not None
    store = engine._store
    version = store.pin()
    fields = {
        "sequence": sequence,
        "epoch": engine.epoch,
        "time": engine._clock.find(version.number),
        "queries": [query._source.write() for query in engine._queries.values()],
        "positions": dict(journal.positions),
        "holds": dict(engine.holds),
        "limit": store.memory_limit,
        **{name: getattr(engine, name) for name in COUNTERS},
    }
    origins = engine._core.origins
    graph = [part for part in engine._core.lay_out() if not origins.has(part.predicate)]
    labels = origins.list_labels()
    windows = capture(engine._windows)
    return Capture(fields, windows, version, graph, labels, lambda: store.unpin(version))


def list_parts(taken: Capture, engine: Engine) -> Iterator[Part]:
    """The parts of a state, one at a time: from any thread, until it is closed."""
    yield Part(HEAD, {**taken.fields, "windows": taken.windows.fields})
    terms = Definer(engine._dictionary, "term")
    identities = Definer(engine._windows.identities, "identity")
    stamps = count(1)
    for stream, is_pending, events in list_pieces(taken.windows, CHUNK_ROWS):
        stamp = next(stamps)
        more = {
            "times": events.times,
            "ids": events.ids,
            "arrivals": events.arrivals,
            **identities.define(events.ids, stamp),
        }
        changes = events.rows[:, 0]
        if not changes.all():  # some were deleted within the window
            more["counts"] = changes
        columns = terms.write_rows(events.rows, stamp) + lay_out(more)
        yield Part(EVENTS, {"stream": stream, "pending": is_pending}, columns)
    for rows, counts in list_rows(taken):
        columns = terms.write_rows(rows, next(stamps))
        if counts.max() > 1:
            columns += lay_out({"counts": counts})
        yield Part(ROWS, {}, columns)


def list_rows(taken: Capture) -> Iterator[tuple[Words, Words]]:
    """The assertions that are in no window, each once, and their counts; a piece at a time."""
    for relation, predicate, order in taken.graph:
        walk = Walk(len(order), [Level(relation, (), tuple(range(len(order))), True)])
        for found, counts in read_columns(walk, taken.version, lambda: CHUNK_ROWS):
            rows = np.empty((len(counts), 4), np.int64)
            rows[:, 0] = 1
            if predicate is not None:
                rows[:, 2] = predicate
            for column, place in enumerate(order):
                rows[:, 1 + place] = found[column]
            if predicate is None and len(taken.labels):
                kept = ~np.isin(rows[:, 2], taken.labels)
                rows, counts = rows[kept], counts[kept]
            if len(rows):
                yield rows, counts


def list_events(taken: Capture) -> Iterator[tuple[Words | None, Words]]:
    """What a new engine must be told to stand where this one does: events of windows with their
    times, and those of the graph without, as signed rows; a piece at a time.
    """
    for _, _, events in list_pieces(taken.windows, CHUNK_ROWS):
        is_live = np.flatnonzero(events.rows[:, 0])
        yield events.times[is_live], events.rows[is_live]
    for rows, counts in list_rows(taken):
        yield None, np.repeat(rows, counts, axis=0)


def restore_state(engine: Engine, parts: Iterator[tuple[str, Content]]) -> dict[str, Any]:
    """Let a new engine stand where the parts say; returns the fields of the head.

    Queries are registered first, while there is nothing to answer, so that one whose counts do not
    fit is stalled, as it was, and the others are not kept from being opened. Cost: the state.
    """
    _, (fields, _) = next(parts)
    fields["lost_queries"] = {}
    for source in fields["queries"]:
        fields["lost_queries"] |= register_again(engine, source)
    words, windows = engine._dictionary, engine._windows
    terms, identities = Definitions(words, "term"), Definitions(windows.identities, "identity")
    pieces: list[Piece] = []
    found: list[Words] = [np.empty((0, 4), np.int64)]
    for name, (said, arrays) in parts:
        terms.take(arrays)
        identities.take(arrays)
        rows = terms.read_rows(arrays)
        if name == ROWS:
            found.append(rows)
            continue
        ids = identities.translate(arrays["ids"])
        events = Timed(arrays["times"], rows, ids, arrays["arrivals"])
        pieces.append(Piece(said["stream"], said["pending"], events))
    restore(windows, fields["windows"], pieces)
    static = np.concatenate(found)
    windows.fill_all(static)
    number = engine._store.newest.number
    words.settle(_list_events(static), number)
    for name in COUNTERS:
        setattr(engine, name, fields[name])
    engine._clock.restore(fields["time"])
    engine._clock.first = number - fields["epoch"]
    identities.close(number)
    terms.close(number)
    engine._free_terms()
    return fields


def _list_events(static: Words) -> Words:
    """One row per event: each of them holds its terms."""
    events = static.copy()
    events[:, 0] = 1
    if len(static) and static[:, 0].max() > 1:
        events = np.repeat(events, static[:, 0], axis=0)
    return events
