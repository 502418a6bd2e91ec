"""The state of an engine: captured while updates go on, written by section, and restored.

Only inputs are stored: the counts of assertions, pending and retained events, queries, positions.
Views follow from these, and one epoch rebuilds them. A section defines the terms that it is the
first to name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from triegs.durable.aggregate_source import SavedEvents
from triegs.durable.checkpoints import Section
from triegs.durable.columns import Content, lay_out
from triegs.durable.protocol import RecoverableEngine
from triegs.durable.registering import register_again
from triegs.durable.terms import Definer, Definitions
from triegs.maintain.enumeration_plan import EnumerationPlan, Level
from triegs.maintain.standing import BaseRelation
from triegs.read.columns import Words, read_columns
from triegs.reason.text import parse_rules
from triegs.store.packed import PackedVersion
from triegs.windows.pending import Timed
from triegs.windows.state import Captured, EventChunk, capture, list_chunks, restore

CHUNK_ROWS = 1 << 18
HEAD, EVENTS, ROWS, ANSWERS = "head", "events", "rows", "answers"


class Capture(NamedTuple):
    """The state of one moment: small parts as a copy, large ones held to be copied later."""

    fields: dict[str, Any]
    windows: Captured
    version: PackedVersion
    graph: list[BaseRelation]
    labels: Words
    answers: dict[str, SavedEvents]
    release: Callable[[], None]
    #: With rules, the static statements: the graph also has what they derive.
    static: Words | None = None

    def close(self) -> None:
        """Release what is held."""
        self.windows.close()
        self.release()


def capture_state(engine: RecoverableEngine, sequence: int) -> Capture:
    """Capture the state after a record; the updater calls it between two. Cost: the queries, the
    pending events, those of aggregates over answers, and with rules the static graph; graph and
    retained events are held until `Capture.close`, and copied by `list_sections`.
    """
    journal = engine.journal
    assert journal is not None
    store = engine.store
    version = store.pin()
    fields = {
        "sequence": sequence,
        "epoch": engine.epoch,
        "time": engine.clock.find(version.number),
        "queries": [source.write() for source in engine.list_sources()],
        "aggregates": engine.list_aggregates(),
        "rules": engine.list_rules(),
        "positions": dict(journal.positions),
        "holds": dict(engine.holds),
        "limit": store.memory_limit,
        "_updates": engine.updates,
        "_refused": engine.refused,
    }
    label_graphs = engine.core.label_graphs
    graph = [
        part for part in engine.core.list_base_relations() if not label_graphs.has(part.predicate)
    ]
    labels = label_graphs.list_labels()
    windows = capture(engine.windows)
    answers = engine.save_answers()
    reasoning = engine.windows.reasoning
    static = reasoning.read_static() if reasoning.is_used else None
    return Capture(
        fields, windows, version, graph, labels, answers, lambda: store.unpin(version), static
    )


def list_sections(taken: Capture, engine: RecoverableEngine) -> Iterator[Section]:
    """The sections of a state, one at a time: from any thread, until it is closed."""
    yield Section(HEAD, {**taken.fields, "windows": taken.windows.fields})
    terms = Definer(engine.dictionary, "term")
    identities = Definer(engine.windows.identities, "identity")
    for stream, is_pending, events in list_chunks(taken.windows, CHUNK_ROWS):
        more = {
            "times": events.times,
            "ids": events.ids,
            "arrivals": events.arrivals,
            **identities.define(events.ids),
        }
        changes = events.rows[:, 0]
        if not changes.all():  # some were deleted within the window
            more["counts"] = changes
        columns = terms.write_rows(events.rows) + lay_out(more)
        yield Section(EVENTS, {"stream": stream, "pending": is_pending}, columns)
    for rows, counts in list_rows(taken):
        columns = terms.write_rows(rows)
        if counts.max() > 1:
            columns += lay_out({"counts": counts})
        yield Section(ROWS, {}, columns)
    for name, saved in taken.answers.items():
        keys = np.ascontiguousarray(saved.keys).reshape(-1)
        defined = terms.define(keys[keys >= 0])
        columns = lay_out({**saved._asdict(), "keys": keys, **defined})
        yield Section(ANSWERS, {"aggregate": name, "width": saved.keys.shape[1]}, columns)


def list_rows(taken: Capture) -> Iterator[tuple[Words, Words]]:
    """The assertions outside windows, each once, and their counts; a chunk at a time."""
    if taken.static is not None:
        for first in range(0, len(taken.static), CHUNK_ROWS):
            rows = taken.static[first : first + CHUNK_ROWS].copy()
            counts = rows[:, 0].copy()
            rows[:, 0] = 1
            yield rows, counts
        return
    for relation, predicate, order in taken.graph:
        enumeration = EnumerationPlan(
            len(order), [Level(relation, (), tuple(range(len(order))), True)]
        )
        for found, counts in read_columns(enumeration, taken.version, lambda: CHUNK_ROWS):
            rows = np.empty((len(counts), 4), np.int64)
            rows[:, 0] = 1
            if predicate is not None:
                rows[:, 2] = predicate
            for column, target in enumerate(order):
                rows[:, 1 + target] = found[column]
            if predicate is None and len(taken.labels):
                kept = ~np.isin(rows[:, 2], taken.labels)
                rows, counts = rows[kept], counts[kept]
            if len(rows):
                yield rows, counts


def list_events(taken: Capture) -> Iterator[tuple[Words | None, Words]]:
    """The events that bring a new engine to this state, as signed rows, a chunk at a time: those of
    windows with their times, those of the graph without.
    """
    for _, _, events in list_chunks(taken.windows, CHUNK_ROWS):
        is_live = np.flatnonzero(events.rows[:, 0])
        yield events.times[is_live], events.rows[is_live]
    for rows, counts in list_rows(taken):
        yield None, np.repeat(rows, counts, axis=0)


def restore_state(
    engine: RecoverableEngine, sections: Iterator[tuple[str, Content]]
) -> dict[str, Any]:
    """Restore a new engine from the sections of a checkpoint; returns the fields of the head.

    Queries are registered first, while the graph is empty. So a query whose counts do not fit is
    stalled, as it was, and does not prevent the others from opening. Cost: the state.
    """
    _, (fields, _) = next(sections)
    engine.load_rules(parse_rules(fields.get("rules", "")))
    fields["lost_queries"] = {}
    for source in fields["queries"]:
        fields["lost_queries"] |= register_again(engine, source)
    for source in fields.get("aggregates", ()):
        engine.aggregate(source)
    words, windows = engine.dictionary, engine.windows
    terms, identities = Definitions(words, "term"), Definitions(windows.identities, "identity")
    chunks: list[EventChunk] = []
    answers: dict[str, SavedEvents] = {}
    found: list[Words] = [np.empty((0, 4), np.int64)]
    for name, (described, arrays) in sections:
        terms.take(arrays)
        identities.take(arrays)
        if name == ANSWERS:
            saved = (arrays[each].astype(np.int64) for each in ("times", "values", "usable"))
            times, values, usable = saved
            keys = terms.translate(arrays["keys"]).reshape(len(times), described["width"])
            answers[described["aggregate"]] = SavedEvents(times, keys, values, usable)
            continue
        rows = terms.read_rows(arrays)
        if name == ROWS:
            found.append(rows)
            continue
        ids = identities.translate(arrays["ids"])
        events = Timed(arrays["times"], rows, ids, arrays["arrivals"])
        chunks.append(EventChunk(described["stream"], described["pending"], events))
    restore(windows, fields["windows"], chunks)
    static = np.concatenate(found)
    windows.usage.fill_all(static)
    number = engine.store.newest.number
    words.settle(_list_events(static), number)
    engine.updates, engine.refused = fields["_updates"], fields["_refused"]
    engine.clock.restore(fields["time"])
    engine.clock.first = number - fields["epoch"]
    engine.restore_aggregates(answers)
    identities.close(number)
    terms.close(number)
    engine.free_terms()
    return fields


def _list_events(static: Words) -> Words:
    """One row per event: each references its terms."""
    events = static.copy()
    events[:, 0] = 1
    if len(static) and static[:, 0].max() > 1:
        events = np.repeat(events, static[:, 0], axis=0)
    return events
