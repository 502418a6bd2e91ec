"""The state of an engine: taken while updates go on, written part by part, and taken up again.

Only what was told is kept: the counts of assertions, events that wait or that a window retains,
queries, positions. Views follow from these, and are made anew by one epoch, which costs less than
to read them. A part has the definitions of the terms that it is the first to name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triegs.durable.columns import Content
from triegs.durable.source import QuerySource
from triegs.durable.terms import Definer, Definitions
from triegs.maintain.standing import Laid
from triegs.maintain.walk import Level, Walk
from triegs.read.columns import Words, read_columns
from triegs.store.contract import Version
from triegs.windows.state import WindowState, capture, restore

if TYPE_CHECKING:
    from triegs.engine import Engine

CHUNK_ROWS = 1 << 18
COUNTERS = ("_updates", "_refused")
HEAD, WINDOWS, ROWS = "head", "windows", "rows"


class Capture(NamedTuple):
    """What was true at one moment: small things as they were, and a version that is held."""

    sequence: int
    fields: dict[str, Any]
    windows: Content
    version: Version
    graph: list[Laid]
    labels: Words
    release: Callable[[], None]


def capture_state(engine: Engine, sequence: int) -> Capture:
    """Take the state after a record; the updater calls it between two. Cost: the events that wait
    or are retained, and nothing for the graph, which is held until `Capture.release`.
    """
    journal = engine._journal
    assert journal is not None
    store = engine._store
    version = store.pin()
    taken = capture(engine._windows)
    fields = {
        "sequence": sequence,
        "epoch": engine.epoch,
        "time": engine._clock.find(version.number),
        "queries": [query._source.write() for query in engine._queries.values()],
        "positions": dict(journal.positions),
        "holds": dict(engine.holds),
        **{name: getattr(engine, name) for name in COUNTERS},
    }
    spaces = engine._core.origins
    graph = [part for part in engine._core.lay_out() if part.predicate not in spaces]
    return Capture(
        sequence, fields, _describe(engine, taken), version, graph,
        np.array(list(spaces), np.int64), lambda: store.unpin(version),
    )  # fmt: skip


def _describe(engine: Engine, taken: WindowState) -> Content:
    """The windows with the terms and identities that they name."""
    arrays = dict(taken.arrays)
    terms = Definer(engine._dictionary, "term")
    identities = Definer(engine._windows.identities, "identity")
    found: dict[str, Any] = {}
    for stamp, (name, values) in enumerate(taken.arrays.items(), 1):
        defined = {}
        if name.endswith("_rows"):
            defined = terms.define(values, 1, 1, stamp)
        elif name.endswith("_ids"):
            defined = identities.define(values.reshape(-1, 1), 0, 1, stamp)
        found.update({f"{name}/{each}": array for each, array in defined.items()})
    return Content(taken.fields, {**arrays, **found})


def list_parts(taken: Capture, engine: Engine) -> Iterator[tuple[str, Content]]:
    """The parts of a state, one at a time: from any thread, while the version is held."""
    yield HEAD, Content(taken.fields, {})
    yield WINDOWS, taken.windows
    terms = Definer(engine._dictionary, "term")
    stamp = 0
    for relation, predicate, order in taken.graph:
        walk = Walk(len(order), [Level(relation, (), tuple(range(len(order))), True)])
        for columns, counts in read_columns(walk, taken.version, lambda: CHUNK_ROWS):
            stamp += 1
            rows = np.empty((len(counts), 4), np.int64)
            rows[:, 0] = 1
            if predicate is not None:
                rows[:, 2] = predicate
            for column, place in enumerate(order):
                rows[:, 1 + place] = columns[column]
            if predicate is None and len(taken.labels):
                kept = ~np.isin(rows[:, 2], taken.labels)
                rows, counts = rows[kept], counts[kept]
            if not len(rows):
                continue
            arrays = {"rows": rows.astype(np.int32), **terms.define(rows, 1, 1, stamp)}
            if counts.max() > 1:
                arrays["counts"] = counts
            yield ROWS, Content({}, arrays)


def restore_state(engine: Engine, parts: Iterator[tuple[str, Content]]) -> dict[str, Any]:
    """Let a new engine stand where the parts say; returns the fields of the head.

    Queries are registered first, while there is nothing to answer, so that one whose counts do not
    fit is stalled, as it was, and the others are not kept from being opened. Cost: the state.
    """
    _, (fields, _) = next(parts)
    for source in fields["queries"]:
        engine._register(QuerySource.read(source))
    words, windows = engine._dictionary, engine._windows
    terms, identities = Definitions(words, "term"), Definitions(windows.identities, "identity")
    _, (window_fields, arrays) = next(parts)
    for name in [name for name in arrays if "/" not in name]:
        inner = {each.split("/")[1]: a for each, a in arrays.items() if each.startswith(f"{name}/")}
        (identities if name.endswith("_ids") else terms).take(inner)
    restore(windows, WindowState(window_fields, arrays), terms.translate, identities.translate)
    static = _read_rows(parts, terms)
    windows.fill_all(static)
    number = engine._store.newest.number
    events = static.copy()
    events[:, 0] = 1
    if len(static) and static[:, 0].max() > 1:
        events = np.repeat(events, static[:, 0], axis=0)
    words.settle(events, number)
    for name in COUNTERS:
        setattr(engine, name, fields[name])
    engine._clock.restore(fields["time"])
    engine._first = number - fields["epoch"]
    identities.close(0)
    terms.close(number)
    engine._free_terms()
    return fields


def _read_rows(parts: Iterator[tuple[str, Content]], terms: Definitions) -> Words:
    """All assertions with their numbers of events."""
    found: list[Words] = [np.empty((0, 4), np.int64)]
    for _, (_, arrays) in parts:
        terms.take(arrays)
        given = arrays["rows"]
        rows = np.empty(given.shape, np.int64)
        rows[:, 0] = arrays.get("counts", 1)
        rows[:, 1:] = terms.translate(given[:, 1:])
        found.append(rows)
    return np.concatenate(found)
