"""Routing: on executors, the rows of a micro-batch become encoded batches for the partitions.

Every task sends every partition its events and the range of its event times, even if it has none:
so each partition knows when a micro-batch is complete, and all advance to the same watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.events.mapping.rows import SAME_ROW
from triegs.partition.layout import Layout, Route
from triegs.partition.rule_layout import find_positions
from triegs.partition.rules import Signature
from triegs.partition.sampling import write_term
from triegs.partition.statistics import SUBJECT
from triegs.reason.text import TYPE
from triegs.spark.encoded_batch import make_checker, write_stream
from triegs.spark.partitioned.job import Job
from triegs.spark.tasks import find_batch
from triegs.terms.arrays import Words
from triegs.terms.partition_hash import find_partitions
from triegs.terms.values import TermForm, read_value, write_value
from triegs.windows.sifting import QUORUM

#: What a partition receives: events, the time spans of a task, malformed rows, label counts.
EVENTS, CONTROL, BAD, LABELS = "events", "control", "bad", "labels"
SPARK_SCHEMA = "slot int, task int, number int, kind string, payload binary"
SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("task", pa.int32()),
        ("number", pa.int32()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
    ]
)
SPANS = pa.schema([(name, pa.int64()) for name in ("low", "high", "events")])
#: Marks the first delivery of an event, and the first on each of its routes.
FIRST = "triegs_first"
FIRST_OF_EVENT, FIRST_OF_ROUTE, COPY = 2, 1, 0
TERMS = ("subject", "predicate", "object")


class Delivery(NamedTuple):
    """The rows of a table for one partition, the tag of each, and which are first deliveries."""

    rows: Words
    tags: Words
    first: NDArray[np.int8]


def make_router(
    columns: Mapping[str, str], job: Job
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `DataFrame.mapInArrow`: from rows with these columns to encoded batches for the
    partitions.

    Cost: the rows, once for each route of their label.
    """
    check = make_checker(columns, is_timed=job.is_timed)
    gap = job.event_time.max_ahead

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        number = 0
        spans: list[TimeSpan] = []
        counts: dict[str, int] = {}
        for table, is_bad in check(batches):
            if is_bad:
                yield _make_row(job.slots[0], task, number, BAD, table)
                number += 1
                continue
            if SAME_ROW in table.schema.names:
                # Without deletions, the triples of a row are independent.
                table = table.drop_columns([SAME_ROW])
            count_labels(table, counts)
            if job.is_timed:
                spans = join_spans([*spans, *find_spans(table.column("time"), gap)], gap)
            for partition, rows in split_table(table, job.layout):
                yield _make_row(job.slots[partition], task, number, EVENTS, rows)
                number += 1
        times_sent = pa.Table.from_pylist([span._asdict() for span in spans], SPANS)
        labels = pa.table({"label": list(counts), "events": list(counts.values())})
        if find_batch() == job.retired_in:
            for slot in job.retired:
                yield _make_row(slot, task, number, CONTROL, times_sent)
        for partition, slot in enumerate(job.slots):
            yield _make_row(slot, task, number, CONTROL, times_sent)
            if partition == 0 and counts:
                yield _make_row(slot, task, number + 1, LABELS, labels)

    return route


def _make_row(slot: int, task: int, number: int, kind: str, table: pa.Table) -> pa.RecordBatch:
    row = {
        "slot": slot, "task": task, "number": number, "kind": kind,
        "payload": write_stream(table),
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row], SCHEMA)


def count_labels(table: pa.Table, counts: dict[str, int]) -> None:
    for each in pc.value_counts(table.column("predicate").combine_chunks()).to_pylist():
        label = write_term(each["values"])
        counts[label] = counts.get(label, 0) + each["counts"]


class TimeSpan(NamedTuple):
    """Event times of a batch that are close together: the lowest, the highest, and how many."""

    low: int
    high: int
    events: int


def find_spans(times: Any, gap: int) -> list[TimeSpan]:
    """Group times into spans that are more than `gap` apart.

    >>> [tuple(span) for span in find_spans(pa.chunked_array([[5, 1, 90, 3]]), 10)]
    [(1, 5, 3), (90, 90, 1)]
    """
    values = times.to_numpy()
    if len(values) == 0:
        return []
    first, last = int(values.min()), int(values.max())
    if last - first <= gap:  # the usual case, which needs no sort
        return [TimeSpan(first, last, len(values))]
    values = np.sort(values)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values) > gap) + 1])
    ends = np.append(starts[1:], len(values))
    columns = values[starts], values[ends - 1], ends - starts
    return [TimeSpan(*each) for each in zip(*(c.tolist() for c in columns), strict=True)]


def join_spans(spans: Iterable[TimeSpan], gap: int) -> list[TimeSpan]:
    """
    >>> spans = [TimeSpan(1, 5, 2), TimeSpan(90, 95, 1), TimeSpan(12, 14, 1)]
    >>> [tuple(span) for span in join_spans(spans, 10)]
    [(1, 14, 3), (90, 95, 1)]
    """
    found: list[TimeSpan] = []
    for low, high, events in sorted(spans):
        if found and low - found[-1].high <= gap:
            last = found[-1]
            found[-1] = TimeSpan(last.low, max(last.high, high), last.events + events)
        else:
            found.append(TimeSpan(low, high, events))
    return found


def find_bounds(
    spans: Iterable[TimeSpan], newest: int | None, gap: int
) -> tuple[int | None, int | None]:
    """The bounds of the stream after a batch: the lowest time that belongs to it (None: no bound),
    and the newest (None before the first event).

    As `triegs.windows.sifting`, but by batch: times near the newest so far belong to the stream,
    and so do at least `QUORUM` events that are near each other. If the first batch has no such
    group, its largest group is taken.

    >>> stray, many = TimeSpan(0, 0, 1), TimeSpan(900, 914, 20)
    >>> find_bounds([stray, many], None, 10), find_bounds([stray], None, 10)
    ((890, 914), (-10, 0))
    >>> find_bounds([TimeSpan(950, 950, 1)], 914, 10), find_bounds([TimeSpan(950, 955, 3)], 914, 10)
    ((None, 914), (None, 955))
    """
    joined = join_spans(spans, gap)
    agreed = [span for span in joined if span.events >= QUORUM]
    if newest is not None:
        near = [span for span in joined if span.low - newest <= gap]
        return None, max([newest, *(span.high for span in near + agreed)])
    if not joined:
        return None, None
    chosen = agreed or [max(joined, key=lambda span: span.events)]
    return chosen[0].low - gap, max(span.high for span in chosen)


def split_table(table: pa.Table, layout: Layout) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a table for each partition, under the tags of the routes, in order.

    The first delivery of an event counts it; events with a label that no query reads are dropped.
    """
    table = table.combine_chunks()
    if layout.statements:
        yield from split_statements(table, layout)
        return
    tags = pa.array([route.tag for route in layout.routes])
    for partition, found in enumerate(deliver(table, layout)):
        if len(found.rows):
            rows = table.take(pa.array(found.rows))
            labels = pa.DictionaryArray.from_arrays(pa.array(found.tags, pa.int32()), tags)
            column = rows.schema.get_field_index("predicate")
            rows = rows.set_column(column, "predicate", labels)
            yield partition, rows.append_column(FIRST, pa.array(found.first))


def deliver(table: pa.Table, layout: Layout) -> list[Delivery]:
    """Which rows of a table go to each partition."""
    by_label = group_rows(table.column("predicate").combine_chunks())
    counted = np.zeros(table.num_rows, np.bool_)
    hashes: dict[tuple[int, ...], Words] = {}
    deliveries: list[tuple[Words, Words, Words, NDArray[np.int8]]] = []
    for number, route in enumerate(layout.routes):
        mine = by_label.get(route.label)
        if mine is None:
            continue
        rows, targets, is_once = _choose(table, mine, route, layout.partitions, hashes)
        first = np.where(counted[rows], FIRST_OF_ROUTE, FIRST_OF_EVENT).astype(np.int8)
        first[~is_once] = COPY
        counted[mine] = True
        deliveries.append((targets, rows, np.full(len(rows), number), first))
    if not deliveries:
        none = np.zeros(0, np.int64)
        return [Delivery(none, none, none.astype(np.int8))] * layout.partitions
    targets, rows, tags, marks = (
        np.concatenate(column) for column in zip(*deliveries, strict=True)
    )
    found = []
    for partition in range(layout.partitions):
        here = np.flatnonzero(targets == partition)
        here = here[np.argsort(rows[here], kind="stable")]
        found.append(Delivery(rows[here], tags[here], marks[here]))
    return found


def split_statements(table: pa.Table, layout: Layout) -> Iterator[tuple[int, pa.Table]]:
    """With rules: the rows of a table for each partition, under their own labels, in order."""
    is_sent, owners = find_owners(table, layout)
    subjects = owners[SUBJECT]
    for partition in range(layout.partitions):
        here = is_sent[:, partition]
        rows = np.flatnonzero(here)
        if len(rows) == 0:
            continue
        # The owner of its subject has every event that is sent, and counts it.
        first = np.full(len(rows), COPY, np.int8)
        first[subjects[rows] == partition] = FIRST_OF_EVENT
        yield partition, table.take(pa.array(rows)).append_column(FIRST, pa.array(first))


def find_owners(table: pa.Table, layout: Layout) -> tuple[NDArray[np.bool_], dict[int, Words]]:
    """Which partitions get each row, and the owners of its terms by column. Rules are asked once
    for each signature.
    """
    columns = {position for each in layout.statements for position in each.positions}
    owners = {
        position: find_partitions([table.column(TERMS[position])], layout.partitions)
        for position in {SUBJECT, *columns}
    }
    is_sent = np.zeros((table.num_rows, layout.partitions), np.bool_)
    for signature, rows in group_signatures(table):
        positions = find_positions(layout.statements, signature)
        if positions is None:
            continue
        if not positions:
            is_sent[rows] = True
        for position in positions:
            is_sent[rows, owners[position][rows]] = True
    return is_sent, owners


def group_signatures(table: pa.Table) -> Iterator[tuple[Signature, Words]]:
    """The rows of each signature."""
    for label, rows in group_rows(table.column("predicate").combine_chunks()).items():
        name = write_term(label)
        if name != TYPE:
            yield Signature(name), rows
            continue
        classes = table.column("object").combine_chunks().take(pa.array(rows))
        for each, mine in group_rows(classes).items():
            yield Signature(name, write_term(each)), rows[mine]


def group_rows(labels: Any) -> dict[str, Words]:
    """The rows of each label, in order. Cost: the rows, whatever the number of routes.

    >>> {label: rows.tolist() for label, rows in group_rows(pa.array(["p", "q", "p"])).items()}
    {'p': [0, 2], 'q': [1]}
    """
    coded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    names = coded.dictionary.to_pylist()
    codes = coded.indices.to_numpy()
    if len(names) <= 1 << 16:  # NumPy sorts 16-bit keys in linear time
        codes = codes.astype(np.uint16)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    groups = {name: order[bounds[n] : bounds[n + 1]] for n, name in enumerate(names)}
    return {name: rows for name, rows in groups.items() if len(rows)}


def _choose(
    table: pa.Table, rows: Words, route: Route, partitions: int, hashes: dict[Any, Words]
) -> tuple[Words, Words, NDArray[np.bool_]]:
    """The rows of a route, their target partitions, and which are the first delivery: a row that
    goes to several partitions is repeated.
    """
    if not route.positions:
        return _copy(rows, np.asarray(route.to, np.int64))
    targets = _find_targets(table, route.positions, partitions, hashes)[rows]
    if not route.hot:
        return rows, targets, np.ones(len(rows), np.bool_)
    column = table.column(TERMS[route.positions[0]]).combine_chunks()
    is_hot = mark_terms(column, route.hot)[rows]
    hot, cold = rows[is_hot], rows[~is_hot]
    if route.spread:
        apart = _find_targets(table, route.spread, partitions, hashes)[hot]
        moved = hot, apart, np.ones(len(hot), np.bool_)
    else:
        moved = _copy(hot, np.arange(partitions))
    whole = cold, targets[~is_hot], np.ones(len(cold), np.bool_)
    chosen, to, is_once = (np.concatenate(pair) for pair in zip(whole, moved, strict=True))
    return chosen, to, is_once


def _copy(rows: Words, targets: Words) -> tuple[Words, Words, NDArray[np.bool_]]:
    is_once = np.tile(np.arange(len(targets)) == 0, len(rows))
    return np.repeat(rows, len(targets)), np.tile(targets, len(rows)), is_once


def _find_targets(
    table: pa.Table, positions: tuple[int, ...], partitions: int, hashes: dict[Any, Words]
) -> Words:
    if positions not in hashes:
        columns = [table.column(TERMS[position]) for position in positions]
        hashes[positions] = find_partitions(columns, partitions)
    return hashes[positions]


def mark_terms(column: Any, terms: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows have one of these terms; integers are compared as terms."""
    if pa.types.is_integer(column.type):
        values = [read_value(term, TermForm.PYTHON) for term in terms]
        whole = [
            n
            for n, term in zip(values, terms, strict=True)
            if type(n) is int and write_value(n) == term
        ]  # "05" is a different term
        return np.isin(column.to_numpy(), whole)
    marked: NDArray[np.bool_] = pc.is_in(column, pa.array(terms)).to_numpy(zero_copy_only=False)
    return marked
