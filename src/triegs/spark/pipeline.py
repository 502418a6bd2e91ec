"""One call for a Spark job: a stream of events in, standing queries over it, answers out.

```
DataFrame ──► executors: check, encode ──► driver: engine, one batch after the other ──► sinks
                                                  └──► snapshots for readers in the driver
```
The engine lives in the driver, and its state in the checkpoint beside that of Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any, overload

from triegs.durable.source import QuerySource
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import InputError, StateError
from triegs.mode import Mode
from triegs.names import BASE
from triegs.options import ModeName
from triegs.spark import frames
from triegs.spark.answers import find_folder, list_sinks
from triegs.spark.coding import is_coded
from triegs.spark.distributed.pipeline import Distributed
from triegs.spark.distributed.planning import plan_job, read_source
from triegs.spark.distributed.plans import PLAN
from triegs.spark.failures import mute
from triegs.spark.feeding import POSITION, Feed, hold_newest
from triegs.spark.handles import Handle
from triegs.spark.listening import make_listener
from triegs.spark.mapped import choose_base, map_columns
from triegs.spark.owners import NONE_YET, Owners
from triegs.spark.parcels import check_columns, check_kinds
from triegs.spark.refusing import (
    require_changes,
    require_columns,
    require_heads,
    require_outside,
)
from triegs.spark.serving import SnapshotServer
from triegs.spark.session import register, require_spark
from triegs.sparql import Query
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

messages = logging.getLogger("triegs.spark")
#: Parts of a checkpoint.
SPARK, ENGINE, RATE = "spark", "engine", "rate.json"
#: Where the engines are, as a mode.
DISTRIBUTED = "distributed"
#: What is noted with the epoch of the static graph.
STATIC = "spark static"
#: How many seconds a batch should take, for a source that can be told.
BATCH_SECONDS = 1.0


@overload
def start(
    events: Any, queries: Mapping[str, str | Mapping[str, Any]], *, checkpoint: str | Path,
    partitions: None = None, **options: Any,
) -> Pipeline: ...  # fmt: skip
@overload
def start(
    events: Any, queries: Mapping[str, str | Mapping[str, Any]], *, checkpoint: str | Path,
    partitions: int, **options: Any,
) -> Pipeline | Distributed: ...  # fmt: skip
def start(
    events: Any,
    queries: Mapping[str, str | Mapping[str, Any]],
    *,
    checkpoint: str | Path,
    columns: Mapping[str, str] | None = None,
    sinks: Mapping[str, Any] | None = None,
    static: Any = None,
    mode: Mode | ModeName | None = None,
    window: Window | None = None,
    event_time: EventTime | None = None,
    stream: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    views: bool = True,
    on_progress: Callable[[dict[str, Any]], object] | None = None,
    partitions: int | None = None,
    sample: Any = None,
    map: str | Iterable[str] | None = None,  # noqa: A002
    base: str | None = None,
    time_unit: str | None = None,
    terms: str | None = None,
    **options: Any,
) -> Pipeline | Distributed:
    """Keep standing queries over a streaming DataFrame of events, and start.

    `events` is any streaming DataFrame with the columns subject, predicate, object, and perhaps op
    (``+`` unless given), time and id; `columns` says how they are called in it. Terms are texts in
    N-Triples form, or numbers. Rows are checked and encoded on executors; those that are malformed
    go to the table ``quarantine`` in the checkpoint.

    With `map` it is any DataFrame, whose rows are mapped by templates over its columns, such as
    ``"{from} :paid {to}"``: see `triegs.mapping.parser`. A row is one event. `columns` names those
    of time, op and id, `time_unit` (``"s"``, ``"ms"``, ``"us"``, ``"ns"``) says what times count
    that are numbers. Cells name IRIs of `base`, which is the empty prefix of queries, too; and
    results have names again instead of terms, unless `terms` is ``"ntriples"``.

    `queries` are texts by name, or mappings of what `Engine.register` takes, with ``text``. Without
    windows each batch is one epoch; with windows (in a text, or `window`), time is needed, and each
    slide is one. `sinks` are by query: a directory for Parquet files of changes, a function of a
    DataFrame and the number of the batch, `triegs.spark.Sink`, or several of these.

    `static` is a graph that is there from the beginning, in no window: an Arrow table, or the path
    of an RDF file. It is one epoch, when the checkpoint is new; `InvalidUpdate` if something in it
    is malformed.

    `checkpoint` is a directory that the driver keeps: the engine's state, Spark's own checkpoint,
    and malformed rows. Started again with it, the pipeline goes on where it was: each batch is
    taken exactly once, and each change is in a sink once. A second pipeline on it is refused
    (`DirectoryInUse`).

    With `views` each query is a temporary view of its name: ``spark.table("replies")`` are the
    newest answers when it is read. `on_progress` is called with `Pipeline.metrics` after each
    batch, in a thread of Spark's. `trigger` is as for `DataStreamWriter.trigger`, such as
    ``{"availableNow": True}``; `name` is that of Spark's query; other options are those of
    `Engine.open`.

    With `partitions`, or with ``mode="distributed"``, the engines are in the executors, so many
    parts of the stream: see `triegs.spark.distributed`. `sample`, a DataFrame or an Arrow table of
    events, says what the stream will be like. Where parts would not help, which is told, the engine
    is in the driver.
    """
    require_spark()
    if not getattr(events, "isStreaming", False):
        raise InputError("this DataFrame is no stream; spark.readStream makes one")
    session = events.sparkSession
    register(session)
    if map is None and time_unit is None:
        found = check_columns(events.columns, columns)
    else:
        found = map_columns(
            events.columns, columns, map, base=base or BASE, prefixes=options.get("prefixes"),
            stream=stream, time_unit=time_unit,
        )  # fmt: skip
    require_columns(session, events.columns, found.values())
    check_kinds(events.schema, found)
    root, shown = choose_base(map, base, terms)
    asked = {each: _read_query(each, given) for each, given in queries.items()}
    wanted = list_sinks(sinks, asked)
    wanted = {
        each: [replace(sink, base=shown) for sink in several] for each, several in wanted.items()
    }
    home = find_folder(
        checkpoint,
        f"the checkpoint is a directory that the driver can lock and sync, not {checkpoint}",
    )
    require_outside(wanted, home)
    if mode == DISTRIBUTED or partitions is not None:
        mode = None if mode == DISTRIBUTED else mode
        if partitions is None:
            partitions = session.sparkContext.defaultParallelism
        prefixes = {"": root, **(options.pop("prefixes", None) or {})}
        if options:
            raise StateError(f"{min(options)!r} is an option of an engine in the driver")
        job = plan_job(
            asked, partitions, home, session, columns=found, sample=sample, sinks=wanted, mode=mode,
            window=window, event_time=event_time, stream=stream, prefixes=prefixes,
        )  # fmt: skip
        if job is not None:
            parsed = {each: QuerySource.read(q).parse() for each, q in job.queries.items()}
            require_heads(session, parsed, views=False)
            home.mkdir(parents=True, exist_ok=True)
            return Distributed(
                events, job, found, home, wanted, trigger, name, on_progress, static, shown
            )
        options = {"prefixes": prefixes}
    elif (home / PLAN).exists():
        raise StateError(f"the checkpoint {home} is that of a pipeline in parts; say how many")
    engine = Engine.open(
        home / ENGINE, mode, sync="never", window=window, event_time=event_time, base=root,
        **options,
    )  # fmt: skip
    owners = None
    try:
        # Sinks may have to be told of these epochs: a checkpoint would lose them, and so would a
        # query that is registered now.
        engine.pace_checkpoints(lambda: False)
        hold_newest(engine)
        parsed = _parse(engine, asked)
        require_heads(session, parsed, views=views)
        require_changes(wanted, parsed)
        told = engine.positions.get(POSITION, {"told": NONE_YET})["told"]
        owners = Owners(home, wanted, engine.queries, told)
        owners.claim()
        if static is not None and not engine.positions.get(STATIC):
            engine.note({STATIC: True})
            if isinstance(static, (str, Path)):
                engine.load(static)
            else:
                engine.apply(static, strict=True)
        standing = _register(engine, asked)
        is_timed = engine._windows.is_used
        if is_timed and "time" not in found:
            has = ", ".join(events.columns)
            raise InputError(f"a window needs a column for time; the columns are {has}")
        feed = Feed(
            engine, standing, wanted, found, home, is_timed=is_timed, stream=stream,
            has_integers=map is None and is_coded(events, found), firsts=owners.begin(told),
        )  # fmt: skip
        return Pipeline(
            engine, standing, feed, owners, events, trigger, name, views=views, tell=on_progress,
            base=shown,
        )  # fmt: skip
    except BaseException:
        if owners is not None:
            owners.close()
        engine.close()
        raise


def _read_query(name: str, given: str | Mapping[str, Any]) -> dict[str, Any]:
    found = {"text": given} if isinstance(given, str) else dict(given)
    if "text" not in found:
        raise StateError(f"the query {name!r} has no text")
    return found


def _parse(engine: Engine, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Query]:
    """The queries that are asked for; the directory has its own, with the prefixes of then."""
    return {
        name: engine.queries[name].query
        if name in engine.queries
        else read_source(name, given, engine._prefixes).parse()
        for name, given in asked.items()
    }


def _register(engine: Engine, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, StandingQuery]:
    """The queries: those that the directory knows, and new ones; what is not asked is closed."""
    for name in [name for name in engine.queries if name not in asked]:
        messages.info("the query %s is no longer asked for; it is closed", name)
        engine.queries[name].close()
    for name, given in asked.items():
        known = engine.queries.get(name)
        if known is None:
            rest = {key: value for key, value in given.items() if key != "text"}
            engine.register(given["text"], name, **rest)
        elif known._source.text != given["text"]:
            raise StateError(
                f"the checkpoint has another query {name!r}; give the new one a name of its own, "
                "or start without this one once, which closes it"
            )
    return dict(engine.queries)


def name_view(query: str, as_of: str | None) -> str:
    """The name of the view of a query.

    >>> name_view("replies", None), name_view("replies", "noon")
    ('replies', 'replies_as_of_noon')
    """
    return query if as_of is None else f"{query}_as_of_{as_of}"


class Pipeline(Handle):
    """A running pipeline. `start` makes it; use it in a ``with`` statement, or `close` it.

    ``query`` is Spark's streaming query, ``engine`` the engine, ``queries`` are its standing
    queries by name: readers in the driver take snapshots of them from any thread, while batches go
    on.
    """

    def __init__(
        self,
        engine: Engine,
        queries: Mapping[str, StandingQuery],
        feed: Feed,
        owners: Owners,
        events: Any,
        trigger: Mapping[str, Any] | None,
        name: str | None,
        *,
        views: bool,
        tell: Callable[[dict[str, Any]], object] | None,
        base: str = "",
    ) -> None:
        super().__init__()
        mute()
        self.engine = engine
        self.queries = queries
        self.checkpoint = owners.home
        self._feed = feed
        self._owners = owners
        self._session = events.sparkSession
        host = self._session.conf.get("spark.driver.host", "127.0.0.1")
        self._server = SnapshotServer(host, queries, base)
        self._views: set[str] = set()
        try:
            if views:
                self._make_views()
            self._listener = make_listener(self._is_ours, self.metrics, tell)
            self._session.streams.addListener(self._listener)
            self.query: Any = self._start(events, trigger, name)
        except BaseException:
            self._end_listener()
            self._end_views()
            raise

    def _end_listener(self) -> None:
        with suppress(Exception):  # Spark has ended, or there is none yet
            self._session.streams.removeListener(self._listener)

    def _is_ours(self, query: str) -> bool:
        return hasattr(self, "query") and str(self.query.id) == query

    def _start(self, events: Any, trigger: Mapping[str, Any] | None, name: str | None) -> Any:
        writer = events.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", (self.checkpoint / SPARK).as_uri())
        if name is not None:
            writer = writer.queryName(name)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        return writer.start()

    def table(self, name: str, as_of: int | str | None = None) -> Any:
        """The answers of a query as a DataFrame, with their multiplicity.

        Each time that Spark reads it, it is the newest epoch then, or the one of that number or
        name (`hold`). Cost: constant; the answers go to Spark when they are read.
        """
        reader = self._session.read.format("triegs")
        asked = {frames.ADDRESS: self._server.address, frames.SECRET: self._server.secret}
        reader = reader.options(**asked, **{frames.QUERY: name})
        if as_of is not None:
            reader = reader.option(frames.AS_OF, str(as_of))
        return reader.load()

    def hold(self, name: str) -> int:
        """Keep the newest epoch under a name, as `Engine.hold`; returns its number.

        ``pipeline.table("replies", as_of=name)`` are the answers then, and if there are views, so
        is ``spark.table("replies_as_of_" + name)``. `release` lets it go.
        """
        epoch = self.engine.hold(name)
        if self._views:
            self._make_views(name)
        return epoch

    def release(self, name: str) -> None:
        """Let the epoch go that is held under a name, and its views."""
        self.engine.release(name)
        for query in self.queries:
            self._drop_view(name_view(query, name))

    def _make_views(self, as_of: str | None = None) -> None:
        for query in self.queries:
            view = name_view(query, as_of)
            quoted = "`" + view.replace("`", "``") + "`"
            self.table(query, as_of).createOrReplaceTempView(quoted)
            self._views.add(view)

    def _drop_view(self, view: str) -> None:
        if view in self._views:
            self._views.discard(view)
            with suppress(Exception):  # Spark has ended, and all views with it
                self._session.catalog.dropTempView(view)

    def _end_views(self) -> None:
        for view in list(self._views):
            self._drop_view(view)
        self._server.close()

    def _take_batch(self, frame: Any, batch: int) -> None:
        self._feed.take(frame, batch)
        rate = self._feed.figures["rows_per_s"]
        if rate is not None:
            told = {"rows_per_second": rate, "seconds": BATCH_SECONDS}
            with suppress(OSError):  # it is advice
                (self.checkpoint / RATE).write_text(json.dumps(told), encoding="utf-8")

    def metrics(self) -> dict[str, Any]:
        """Figures of the moment. Any thread.

        ``batches``, ``rows``, ``changes``, ``quarantined``, ``refused`` and ``replayed`` count
        since the start; ``batch`` is the last one, ``timing`` its seconds by step; ``rows_per_s``
        the measured rate; ``lag_s`` how far event time is behind the clock; ``engine`` are those
        of `Engine.metrics`, and ``spark`` is what Spark says of its last batch.
        """
        figures = self.engine.metrics()
        watermark = figures["windows"]["watermark"]
        return {
            **self._feed.figures,
            "lag_s": None if watermark is None else time() - watermark / 1000,
            "engine": figures,
            "spark": self._read_progress(),
        }

    def _let_go(self) -> None:
        self._end_listener()
        self._end_views()
        self._owners.close()
        self.engine.close()
