"""A pipeline whose engines are in Spark's executors, one for each part of the stream."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa

from triegs.compiler.layout import Layout, Placed
from triegs.durable.directory import Lock as DirectoryLock
from triegs.durable.source import QuerySource
from triegs.errors import StateError
from triegs.mode import Mode
from triegs.spark.answers import Sink, write_once
from triegs.spark.cells import select_columns
from triegs.spark.distributed.hosting import OUT_SCHEMA, Host
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.parts import ANSWERS, CHANGES, COUNTED, REPORT
from triegs.spark.distributed.plans import (
    PLAN,
    SHUFFLE,
    SPARK,
    find_last,
    keep_plan,
    read_pieces,
)
from triegs.spark.distributed.reading import (
    COUNT,
    COUNTS,
    make_counter,
    make_reader,
    make_summer,
    make_unpacker,
    sum_rows,
)
from triegs.spark.distributed.routing import BAD, SPARK_SCHEMA, make_router
from triegs.spark.distributed.seeing import Counted, Seen
from triegs.spark.distributed.slots import find_slots
from triegs.spark.failures import mute
from triegs.spark.handles import Handle
from triegs.spark.listening import make_listener
from triegs.spark.mapped import make_namer
from triegs.spark.owners import NONE_YET, Owners
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

messages = logging.getLogger("triegs.spark")
#: What the state store must be, whatever the session has.
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch costs the state store what it changes, and not the state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
MULTIPLICITY, CHANGE = "multiplicity", "change"


@contextmanager
def setting(session: Any, wanted: Mapping[str, str]) -> Any:
    """With other settings of a session; a query that is started keeps them."""
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
    """A running pipeline in parts. `triegs.spark.start` makes it, with ``partitions``; use it in a
    ``with`` statement, or `close` it.

    ``layout`` says which part has what; ``query`` is Spark's streaming query.
    """

    def __init__(
        self,
        events: Any,
        job: Job,
        columns: Mapping[str, str],
        home: Path,
        sinks: Mapping[str, list[Sink]],
        trigger: Mapping[str, Any] | None,
        name: str | None,
        tell: Callable[[dict[str, Any]], object] | None,
        static: Any = None,
        base: str = "",
    ) -> None:
        super().__init__()
        mute()
        self.checkpoint = home
        self._session = events.sparkSession
        self._owners: Owners | None = None
        self._base = base  # of results that have names instead of terms
        self._lock = DirectoryLock(home)
        try:
            known = job.queries if (home / PLAN).exists() else ()
            self._owners = Owners(home, sinks, known, self._find_told())
            self._owners.claim()
            self._plan = keep_plan(home, job, self._session, static)
            # Only now: other parts are a batch of Spark's own.
            self._firsts = self._owners.begin(self._find_told())
            self._job = job = self._plan.job._replace(firsts=list_firsts(self._firsts))
            self.layout = job.layout
            self._sinks = sinks
            self._parsed = {n: QuerySource.read(q).parse() for n, q in job.queries.items()}
            self._parts: list[dict[str, Any]] = [{} for _ in job.slots]
            self._figures: dict[str, Any] = {
                "batches": 0, **dict.fromkeys(COUNTED, 0), "changes": 0,
                "hits": 0, "builds": 0, "batch": None, "timing": None,
                "labels": {}, "costs": {},
            }  # fmt: skip
            self._seen = Seen.read(home)
            self._hot: list[dict[str, Any]] = []
            self._listener = make_listener(self._is_ours, self.metrics, tell)
            self._session.streams.addListener(self._listener)
            stream = make_stream(events, job, columns)
            writer = stream.writeStream.foreachBatch(self._take)
            writer = writer.option("checkpointLocation", (home / SPARK).as_uri())
            writer = writer.outputMode("append")
            if name is not None:
                writer = writer.queryName(name)
            if trigger is not None:
                writer = writer.trigger(**trigger)
            with setting(self._session, {**SETTINGS, SHUFFLE: str(len(job.slots))}):
                self.query = writer.start()
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if hasattr(self, "_listener"):
            with suppress(Exception):  # Spark has ended
                self._session.streams.removeListener(self._listener)
        if self._owners is not None:
            self._owners.close()
        self._lock.close()

    def _find_told(self) -> int:
        last = self.batch
        return NONE_YET if last is None else last

    def _is_ours(self, query: str) -> bool:
        return hasattr(self, "query") and str(self.query.id) == query

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
                "batch %d: %d rows are set aside in %s; the first: %s", batch, table.num_rows,
                self.checkpoint / "quarantine", table.column("reason")[0],
            )  # fmt: skip
        given: dict[tuple[str, str], list[pa.Table]] = {}
        for row in collected:
            if row["kind"] in (CHANGES, ANSWERS):
                found = given.setdefault((row["kind"], row["query"]), [])
                found.append(pa.ipc.open_stream(row["payload"]).read_all())
        for placed in self.layout.queries:
            if placed.name in self._sinks:
                changes = self._add_up(placed, given.get((CHANGES, placed.name), []))
                before = self._add_up(placed, given.get((ANSWERS, placed.name), []))
                self._figures["changes"] += changes.num_rows
                for sink, first in zip(
                    self._sinks[placed.name], self._firsts[placed.name], strict=True
                ):
                    rows = pa.concat_tables([before, changes]) if first == batch else changes
                    sink.write(rows, batch, frame.sparkSession)
        marks.append(perf_counter() - begun - marks[0])
        reports = [json.loads(row["payload"]) for row in collected if row["kind"] == REPORT]
        self._measure(batch, reports, marks)

    def _add_up(self, placed: Placed, parts: list[pa.Table]) -> pa.Table:
        """What parts gave of a query, as one table."""
        schema = find_schema(self._job, placed.name, CHANGE)
        rows = pa.concat_tables(parts) if parts else schema.empty_table()
        return sum_rows(rows, rows.schema.names[-1]) if placed.is_summed else rows

    def _measure(self, batch: int, reports: Iterable[dict[str, Any]], marks: list[float]) -> None:
        figures = self._figures
        figures["batch"] = batch
        figures["batches"] += 1
        figures["timing"] = dict(zip(("parts", "sinks"), marks, strict=True))
        labels: dict[str, int] = {}
        keys: list[Counted] = []
        costs: dict[str, float] = {}
        for report in reports:
            for name in COUNTED:
                figures[name] += report[name]
            figures["hits" if report["hit"] else "builds"] += 1
            labels |= report.pop("labels", {})
            keys += [Counted(k[0], tuple(k[1]), tuple(k[2]), k[3]) for k in report.pop("keys", ())]
            for name, cost in report.pop("costs", {}).items():
                costs[name] = costs.get(name, 0) + cost
            self._parts[report["part"]] = report
        for label, count in labels.items():
            figures["labels"][label] = figures["labels"].get(label, 0) + count
        for placed in self.layout.queries:
            if placed.name in costs:
                costs[placed.name] /= placed.copies
        figures["costs"] = costs
        self._seen.add(labels, keys, costs)
        self._seen.write(self.checkpoint)
        self._look_for_hot_keys()

    def _look_for_hot_keys(self) -> None:
        """Note them for `metrics`, and tell each that is new and whole."""
        known = {(each["query"], each["term"]) for each in self._hot}
        self._hot = [
            {
                "query": placed.name, "key": " ".join(placed.key), "term": " ".join(key.terms),
                "share": key.share, "is_split": is_split,
            }
            for placed, key, is_split in self._seen.list_hot(self.layout, self._parsed)
        ]  # fmt: skip
        for each in self._hot:
            if not each["is_split"] and (each["query"], each["term"]) not in known:
                messages.warning(
                    "%(query)s: %(share).0f%% of what is hashed by %(key)s is of %(term)s, and so "
                    "in one part; see hot keys in docs/distributed.md",
                    {**each, "share": 100 * each["share"]},
                )

    # Answers

    def table(self, name: str, batch: int | None = None) -> Any:
        """The full result of a query after a batch, the last one unless given, as a DataFrame with
        multiplicities.

        It is read from Spark's state store, part by part on executors, when Spark runs it; the
        stream goes on meanwhile. A batch can be read while Spark keeps its state, which is for
        ``spark.sql.streaming.minBatchesToRetain`` batches. Cost: the state, and the answers.
        """
        job, pieces = self._read_pieces(name, batch)
        (placed,) = (each for each in job.layout.queries if each.name == name)
        schema = find_schema(job, name, MULTIPLICITY)
        text = write_schema(schema)
        found = pieces.mapInArrow(make_reader(job, name, schema), text)
        if placed.is_summed:
            found = add_up(found, schema, job.layout.partitions)
        return found.mapInArrow(make_namer(self._base, schema), text) if self._base else found

    def count(self, name: str, batch: int | None = None) -> int:
        """The total multiplicity of the answers after a batch: the sum over the parts."""
        job, pieces = self._read_pieces(name, batch)
        found = pieces.mapInArrow(make_counter(job, name), write_schema(COUNTS)).toArrow()
        return sum(found.column(COUNT).to_pylist())

    def _read_pieces(self, name: str, batch: int | None) -> tuple[Job, Any]:
        if name not in self._job.queries:
            raise StateError(
                f"there is no query {name!r}; there are {', '.join(self._job.queries)}"
            )
        last = self.batch
        if last is None:
            raise StateError("no batch is done yet")
        if batch is not None and batch > last:
            raise StateError(f"batch {batch} is not done yet; the last one is {last}")
        wanted = last if batch is None else batch
        job = self._plan.find_job(wanted)
        return job, read_pieces(self._session, self.checkpoint, job, wanted)

    @property
    def batch(self) -> int | None:
        """The last batch that is done for good; None before the first."""
        return find_last(self.checkpoint)

    # Operations

    def metrics(self) -> dict[str, Any]:
        """Figures of the moment. Any thread.

        ``changes`` counts what sinks were given. ``rows`` counts events that some query reads,
        ``sent`` one for each route of theirs, and ``delivered`` what parts got; ``fan_out`` is how
        many parts got what was sent. ``hits`` counts batches of a part that found its engine in the
        process, ``builds`` those that built it. ``parts`` has the last report of each part, such as
        ``state_bytes`` and ``build_s``; ``skew`` is the largest share of a part in the last batch,
        as a multiple of the fair one. ``hot_keys`` are those that have of late more than one and a
        half times a part's share of what is hashed: ``query``, ``key``, ``term``, ``share``,
        ``is_split``. ``costs`` are about the seconds of the last epoch, by query.
        """
        figures = dict(self._figures)
        given = [part.get("delivered", 0) for part in self._parts]
        looked = figures["hits"] + figures["builds"]
        return {
            **figures,
            "fan_out": figures["delivered"] / figures["sent"] if figures["sent"] else None,
            "hit_rate": figures["hits"] / looked if looked else None,
            "skew": max(given) * len(given) / sum(given) if sum(given) else None,
            "hot_keys": [dict(each) for each in self._hot],
            "parts": [dict(part) for part in self._parts],
            "spark": self._read_progress(),
        }


def list_firsts(firsts: Mapping[str, list[int]]) -> tuple[tuple[str, int], ...]:
    """The queries with the first batches of their sinks.

    >>> list_firsts({"paths": [0, 4, 0]})
    (('paths', 0), ('paths', 4))
    """
    return tuple((name, first) for name, several in firsts.items() for first in sorted({*several}))


def make_stream(events: Any, job: Job, columns: Mapping[str, str]) -> Any:
    """What the parts give, as a streaming DataFrame."""
    router = make_router(columns, job)
    routed = select_columns(events, columns).mapInArrow(router, SPARK_SCHEMA)
    return routed.groupBy("slot").transformWithStateInPandas(
        statefulProcessor=Host(job), outputStructType=OUT_SCHEMA, outputMode="Append",
        timeMode="None",
    )  # fmt: skip


def make_changes(stream: Any, job: Job, name: str, quarantine: str | None = None) -> Any:
    """The changes of a query out of what parts give, as a streaming DataFrame; what they set aside
    goes to files in `quarantine`.
    """
    (placed,) = (each for each in job.layout.queries if each.name == name)
    schema = find_schema(job, name, CHANGE)
    rows = stream.where(stream["kind"].isin(CHANGES, BAD)).select("part", "kind", "payload")
    found = rows.mapInArrow(make_unpacker(schema, quarantine), write_schema(schema))
    if placed.is_summed:
        found = add_up(found, schema, job.layout.partitions)
    return found


def observe_figures(stream: Any, name: str) -> Any:
    """A stream of what parts give that tells Spark what it counts, by batch."""
    from pyspark.sql import functions

    told = functions.when(stream["kind"] == REPORT, stream["payload"].cast("string"))
    sums = [
        functions.sum(functions.get_json_object(told, f"$.{each}").cast("long")).alias(each)
        for each in COUNTED
    ]
    return stream.observe(name, *sums)


def add_up(frame: Any, schema: pa.Schema, partitions: int) -> Any:
    """Sums over all parts, of a batch or of a stream."""
    keys = [f"`{column}`" for column in schema.names[:-1]]
    parts = frame.repartition(partitions, *keys) if keys else frame.coalesce(1)
    return parts.mapInArrow(make_summer(schema, schema.names[-1]), write_schema(schema))


def find_schema(job: Job, name: str, weight: str) -> pa.Schema:
    """The columns of a query's answers, or of its changes with their time in front."""
    from triegs.spark.answers import free_name

    heads = [variable[1:] for variable in QuerySource.read(job.queries[name]).parse().head]
    fields = [(head, pa.string()) for head in heads]
    weight = free_name(weight, heads)
    fields.append((weight, pa.int64()))
    if weight.startswith(CHANGE):
        fields.insert(0, (free_name("time", [*heads, weight]), pa.int64()))
    return pa.schema(fields)


def write_schema(schema: pa.Schema) -> str:
    """As Spark writes it."""
    kinds = {pa.string(): "string", pa.int64(): "long"}
    return ", ".join(f"`{field.name}` {kinds[field.type]}" for field in schema)


def make_job(
    layout: Layout, queries: Mapping[str, QuerySource], mode: str | Mode | None,
    window: Window | None, event_time: EventTime | None, stream: str | None, is_timed: bool,
) -> Job:  # fmt: skip
    sources = {name: source.write() for name, source in queries.items()}
    return Job(
        uuid4().hex, layout, find_slots(layout.partitions), sources,
        Mode(mode or Mode.MULTIGRAPH).value, window, event_time or EventTime(), stream, is_timed,
    )  # fmt: skip
