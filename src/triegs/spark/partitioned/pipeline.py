"""A pipeline whose engines run in Spark's executors, one per partition."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import pyarrow as pa

from triegs.durable.directory import Lock as DirectoryLock
from triegs.durable.source import QuerySource
from triegs.errors import StateError
from triegs.partition.layout import QueryPlacement
from triegs.spark.answers import write_once
from triegs.spark.handles import Handle
from triegs.spark.mapped import make_namer
from triegs.spark.owners import NONE_YET, Owners
from triegs.spark.partitioned.checkpoint_plan import (
    PLAN,
    SHUFFLE,
    find_last,
    open_plan,
    read_chunks,
)
from triegs.spark.partitioned.dataflow import (
    CHANGE,
    MULTIPLICITY,
    SETTINGS,
    add_up,
    find_schema,
    make_stream,
    merge,
    write_schema,
)
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.partition import ANSWERS, CHANGES, COUNTED, REPORT
from triegs.spark.partitioned.results import (
    COUNT,
    COUNTS,
    make_counter,
    make_reader,
    merge_changes,
    sum_rows,
    write_rows,
)
from triegs.spark.partitioned.routing import BAD
from triegs.spark.partitioned.statistics import KeyCount, StatisticsCollector
from triegs.spark.request import PipelineRequest

messages = logging.getLogger("triegs.spark")


@contextmanager
def setting(session: Any, wanted: Mapping[str, str]) -> Any:
    """Set options of a session temporarily; a query that is started keeps them."""
    before = {name: session.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


class Distributed(Handle):
    """A running partitioned pipeline, made by `triegs.spark.start` with ``partitions``. Use it in a
    ``with`` statement, or `close` it.

    ``layout`` has the routes and placements; ``query`` is Spark's streaming query.
    """

    def __init__(self, request: PipelineRequest, job: Job) -> None:
        home = request.checkpoint
        super().__init__(request.session, home)
        self._owners: Owners | None = None
        self._base = request.shown_base
        self._sinks = request.sinks
        self._lock = DirectoryLock(home)
        try:
            known = job.queries if (home / PLAN).exists() else ()
            self._owners = Owners(home, request.sinks, known, self._find_delivered())
            self._owners.claim()
            self._plan = open_plan(home, job, self._session, request.static)
            # Only now: rescaling is a batch of Spark's own.
            delivered = self._find_delivered()
            self._firsts = self._owners.begin(delivered)
            self._job = job = self._plan.job
            #: Groups that span partitions; the first batch has all that partitions hold of them.
            self._mergers = {
                name: merger for name in self._sinks if (merger := job.make_merger(name))
            }
            firsts = {
                name: [*several, delivered + 1] if name in self._mergers else several
                for name, several in self._firsts.items()
            }
            self._job = job = job._replace(firsts=list_firsts(firsts))
            self._unread = set(self._mergers)
            self.layout = job.layout
            self._parsed = {n: QuerySource.read(q).parse() for n, q in job.queries.items()}
            self._reports: list[dict[str, Any]] = [{} for _ in job.slots]
            self._figures: dict[str, Any] = {
                "batches": 0, **dict.fromkeys(COUNTED, 0), "changes": 0,
                "hits": 0, "builds": 0, "batch": None, "timing": None,
                "labels": {}, "costs": {},
            }  # fmt: skip
            self._statistics = StatisticsCollector.read(home)
            self._hot: list[dict[str, Any]] = []
            self._add_listener(request.on_progress)
            stream = make_stream(request.events, job, request.columns)
            with setting(self._session, {**SETTINGS, SHUFFLE: str(len(job.slots))}):
                self.query = self._start_query(stream, request)
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        self._remove_listener()
        if self._owners is not None:
            self._owners.close()
        self._lock.close()

    def _find_delivered(self) -> int:
        last = self.batch
        return NONE_YET if last is None else last

    # Batches

    def _take_batch(self, frame: Any, batch: int) -> None:
        begun = perf_counter()
        collected = frame.toArrow().to_pylist()
        marks = [perf_counter() - begun]
        bad = [row["payload"] for row in collected if row["kind"] == BAD]
        if bad:
            table = pa.concat_tables([pa.ipc.open_stream(each).read_all() for each in bad])
            write_once(self.checkpoint / "quarantine", batch, table)
            messages.warning(
                "batch %d: %d rows quarantined in %s; first: %s", batch, table.num_rows,
                self.checkpoint / "quarantine", table.column("reason")[0],
            )  # fmt: skip
        given: dict[tuple[str, str], list[pa.Table]] = {}
        for row in collected:
            if row["kind"] in (CHANGES, ANSWERS):
                found = given.setdefault((row["kind"], row["query"]), [])
                found.append(pa.ipc.open_stream(row["payload"]).read_all())
        for placement in self.layout.queries:
            if placement.name in self._sinks:
                before = self._add_up(placement, given, ANSWERS)
                changes = self._add_up(placement, given, CHANGES)
                self._figures["changes"] += changes.num_rows
                for sink, first in zip(
                    self._sinks[placement.name], self._firsts[placement.name], strict=True
                ):
                    rows = pa.concat_tables([before, changes]) if first == batch else changes
                    sink.write(rows, batch, frame.sparkSession)
        marks.append(perf_counter() - begun - marks[0])
        reports = [json.loads(row["payload"]) for row in collected if row["kind"] == REPORT]
        self._measure(batch, reports, marks)

    def _add_up(
        self, placement: QueryPlacement, given: Mapping[tuple[str, str], list[pa.Table]], kind: str
    ) -> pa.Table:
        """Combine the output of all partitions for a query: its changes, or its answers before
        them.
        """
        name = placement.name
        schema = find_schema(self._job, name, CHANGE)
        tables = given.get((kind, name), [])
        if name in self._mergers:
            return self._merge(name, tables, kind, schema)
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        return sum_rows(rows, rows.schema.names[-1]) if placement.is_summed else rows

    def _merge(self, name: str, tables: list[pa.Table], kind: str, schema: pa.Schema) -> pa.Table:
        merger = self._mergers[name]
        if kind == CHANGES:
            if name in self._unread:
                raise StateError(f"{name}: the first batch lacks the groups of the partitions")
            return merge_changes(merger, pa.concat_tables(tables), schema) if tables else (
                schema.empty_table())  # fmt: skip
        if not tables:
            return schema.empty_table()
        time = None
        for table in tables:
            merger.add(merger.read(table))
            times = [each for each in table.column(0).unique().to_pylist() if each is not None]
            time = max([*times, *([] if time is None else [time])], default=None)
        merger.apply(())
        self._unread.discard(name)
        return write_rows(((time, *row, count) for row, count in merger.rows()), schema)

    def _measure(self, batch: int, reports: Iterable[dict[str, Any]], marks: list[float]) -> None:
        figures = self._figures
        figures["batch"] = batch
        figures["batches"] += 1
        figures["timing"] = dict(zip(("partitions", "sinks"), marks, strict=True))
        labels: dict[str, int] = {}
        keys: list[KeyCount] = []
        costs: dict[str, float] = {}
        for report in reports:
            for name in COUNTED:
                figures[name] += report[name]
            figures["hits" if report["hit"] else "builds"] += 1
            labels |= report.pop("labels", {})
            keys += [KeyCount(k[0], tuple(k[1]), tuple(k[2]), k[3]) for k in report.pop("keys", ())]
            for name, cost in report.pop("costs", {}).items():
                costs[name] = costs.get(name, 0) + cost
            self._reports[report["partition"]] = report
        for label, count in labels.items():
            figures["labels"][label] = figures["labels"].get(label, 0) + count
        for placement in self.layout.queries:
            if placement.name in costs:
                costs[placement.name] /= placement.copies
        figures["costs"] = costs
        self._statistics.add(labels, keys, costs)
        self._statistics.write(self.checkpoint)
        self._look_for_hot_keys()

    def _look_for_hot_keys(self) -> None:
        """Record hot keys for `metrics`, and log each new one that is not split."""
        known = {(each["query"], each["term"]) for each in self._hot}
        self._hot = [
            {
                "query": placement.name, "key": " ".join(placement.key),
                "term": " ".join(key.terms), "share": key.share, "is_split": is_split,
            }
            for placement, key, is_split in self._statistics.list_hot(self.layout, self._parsed)
        ]  # fmt: skip
        for each in self._hot:
            if not each["is_split"] and (each["query"], each["term"]) not in known:
                messages.warning(
                    "%(query)s: %(share).0f%% of the events hashed by %(key)s have the key "
                    "%(term)s and go to one partition; see hot keys in docs/distributed.md",
                    {**each, "share": 100 * each["share"]},
                )

    # Answers

    def table(self, name: str, batch: int | None = None) -> Any:
        """The full result of a query after a batch (default: the last one), as a DataFrame with
        multiplicities.

        Executors read it from Spark's state store, partition by partition, when Spark runs it; the
        stream continues meanwhile. A batch is readable while Spark retains its state, for
        ``spark.sql.streaming.minBatchesToRetain`` batches. Cost: the state and the answers.
        """
        job, chunks = self._read_chunks(name, batch)
        schema = find_schema(job, name, MULTIPLICITY)
        text = write_schema(schema)
        found = self._read_rows(job, chunks, name, schema)
        return found.mapInArrow(make_namer(self._base, schema), text) if self._base else found

    @staticmethod
    def _read_rows(job: Job, chunks: Any, name: str, schema: pa.Schema) -> Any:
        merger = job.make_merger(name)
        if merger is not None:
            entries = merger.schema
            text = write_schema(entries)
            found = chunks.mapInArrow(make_reader(job, name, entries), text)
            return merge(found, job, name, merger, schema)
        found = chunks.mapInArrow(make_reader(job, name, schema), write_schema(schema))
        (placement,) = (each for each in job.layout.queries if each.name == name)
        return add_up(found, schema, job.layout.partitions) if placement.is_summed else found

    def count(self, name: str, batch: int | None = None) -> int:
        """The total multiplicity of the answers after a batch: the sum over the partitions. Groups
        that span partitions are merged to count them.
        """
        job, chunks = self._read_chunks(name, batch)
        if job.make_merger(name) is not None:
            schema = find_schema(job, name, MULTIPLICITY)
            rows = self._read_rows(job, chunks, name, schema).select(f"`{schema.names[-1]}`")
            return sum(rows.toArrow().column(0).to_pylist())
        found = chunks.mapInArrow(make_counter(job, name), write_schema(COUNTS)).toArrow()
        return sum(found.column(COUNT).to_pylist())

    def _read_chunks(self, name: str, batch: int | None) -> tuple[Job, Any]:
        if name not in self._job.queries:
            raise StateError(
                f"there is no query {name!r}; the queries are {', '.join(self._job.queries)}"
            )
        last = self.batch
        if last is None:
            raise StateError("no batch has been committed yet")
        if batch is not None and batch > last:
            raise StateError(f"batch {batch} has not been committed yet; the last one is {last}")
        wanted = last if batch is None else batch
        job = self._plan.find_job(wanted)
        return job, read_chunks(self._session, self.checkpoint, job, wanted)

    @property
    def batch(self) -> int | None:
        """The last committed batch; None before the first."""
        return find_last(self.checkpoint)

    # Operations

    def metrics(self) -> dict[str, Any]:
        """Current figures. Any thread.

        ``changes`` counts what sinks received. ``rows`` counts events that some query reads,
        ``sent`` one for each of their routes, and ``delivered`` what partitions received;
        ``fan_out`` is the average number of partitions per sent event. ``hits`` counts batches of a
        partition that found its engine in the process, ``builds`` those that rebuilt it.
        ``partitions`` has the last report of each partition, such as ``state_bytes`` and
        ``build_s``; ``skew`` is the largest load of a partition in the last batch, as a multiple of
        the fair share. ``hot_keys`` are keys that recently had more than one and a half times a
        partition's share of the hashed events: ``query``, ``key``, ``term``, ``share``,
        ``is_split``. ``costs`` estimates the seconds of the last epoch, by query.
        """
        figures = dict(self._figures)
        given = [report.get("delivered", 0) for report in self._reports]
        looked = figures["hits"] + figures["builds"]
        reports = [dict(report) for report in self._reports]
        return {
            **figures,
            "fan_out": figures["delivered"] / figures["sent"] if figures["sent"] else None,
            "hit_rate": figures["hits"] / looked if looked else None,
            "skew": max(given) * len(given) / sum(given) if sum(given) else None,
            "hot_keys": [dict(each) for each in self._hot],
            "partitions": reports,
            # The former names of the list and of the number.
            "parts": [{**each, "part": each["partition"]} if each else {} for each in reports],
            "spark": self._read_progress(),
        }


def list_firsts(firsts: Mapping[str, list[int]]) -> tuple[tuple[str, int], ...]:
    """Queries with the first batches of their sinks.

    >>> list_firsts({"paths": [0, 4, 0]})
    (('paths', 0), ('paths', 4))
    """
    return tuple((name, first) for name, several in firsts.items() for first in sorted({*several}))
