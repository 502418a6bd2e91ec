"""A running pipeline whose engine lives in the driver.

The engine's state is in the checkpoint, beside Spark's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

from triegs.durable.source import QuerySource
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import InputError, StateError
from triegs.spark.checks import require_changes, require_heads
from triegs.spark.driver import snapshot_reader
from triegs.spark.driver.label_codes import is_coded
from triegs.spark.driver.micro_batch import DELIVERED, POSITION, MicroBatchRunner, hold_newest
from triegs.spark.driver.snapshot_server import SnapshotServer
from triegs.spark.handles import Handle
from triegs.spark.mapped import MappedColumns
from triegs.spark.owners import NONE_YET, Owners
from triegs.spark.queries import read_source
from triegs.spark.request import PipelineRequest
from triegs.sparql import Query

messages = logging.getLogger("triegs.spark")
#: Names in a checkpoint.
ENGINE, RATE = "engine", "rate.json"
#: The engine position that records that the static graph is loaded.
STATIC = "spark static"
#: The target duration of a micro-batch, for a source that reads the rate file.
BATCH_SECONDS = 1.0


def start_pipeline(request: PipelineRequest, options: Mapping[str, Any]) -> Pipeline:
    """Open the engine of a checkpoint, register the queries and start. `options` are those of
    `Engine.open`.
    """
    home = request.checkpoint
    engine = Engine.open(
        home / ENGINE, request.mode, sync="never", window=request.window,
        event_time=request.event_time, base=request.base, **options,
    )  # fmt: skip
    owners = None
    try:
        # Sinks may still need these epochs; an engine checkpoint or a newly registered query would
        # drop them.
        engine.pace_checkpoints(lambda: False)
        hold_newest(engine)
        parsed = _parse(engine, request.queries)
        require_heads(request.session, parsed, views=request.views)
        require_changes(request.sinks, parsed)
        delivered = engine.positions.get(POSITION, {DELIVERED: NONE_YET})[DELIVERED]
        owners = Owners(home, request.sinks, engine.queries, delivered)
        owners.claim()
        if request.static is not None and not engine.positions.get(STATIC):
            engine.note({STATIC: True})
            if isinstance(request.static, (str, Path)):
                engine.load(request.static)
            else:
                engine.apply(request.static, strict=True)
        _register(engine, request.queries)
        runner = _make_runner(engine, request, owners.begin(delivered))
        return Pipeline(engine, runner, owners, request)
    except BaseException:
        if owners is not None:
            owners.close()
        engine.close()
        raise


def _make_runner(
    engine: Engine, request: PipelineRequest, firsts: Mapping[str, list[int]]
) -> MicroBatchRunner:
    columns = request.columns
    is_timed = engine._windows.is_used
    if is_timed and "time" not in columns:
        has = ", ".join(request.events.columns)
        raise InputError(f"a window needs a time column; the columns are {has}")
    is_mapped = isinstance(columns, MappedColumns) and columns.mapping is not None
    return MicroBatchRunner(
        engine, request.sinks, columns, request.checkpoint, is_timed=is_timed,
        stream=request.stream, has_integers=not is_mapped and is_coded(request.events, columns),
        firsts=firsts,
    )  # fmt: skip


def _parse(engine: Engine, queries: Mapping[str, Mapping[str, Any]]) -> dict[str, Query]:
    """The requested queries. Those in the directory keep the prefixes they were registered with."""
    return {
        name: engine.queries[name].query
        if name in engine.queries
        else read_source(name, given, engine._prefixes).parse()
        for name, given in queries.items()
    }


def _register(engine: Engine, queries: Mapping[str, Mapping[str, Any]]) -> None:
    """Register new queries, and close those that are no longer requested."""
    for name in [name for name in engine.queries if name not in queries]:
        messages.info("closing query %s, which is no longer requested", name)
        engine.queries[name].close()
    for name, given in queries.items():
        known = engine.queries.get(name)
        if known is None:
            options = {key: value for key, value in given.items() if key != "text"}
            engine.register(given["text"], name, **options)
        elif known._source.text != given["text"]:
            raise StateError(
                f"the checkpoint has another query {name!r}; give the new one a different name, "
                "or start once without this one, which closes it"
            )
        else:
            _require_same(known, read_source(name, given, None), given)


def _require_same(known: StandingQuery, given: QuerySource, options: Iterable[str]) -> None:
    """A query that continues has the options that it is given again."""
    for option in sorted(options):
        stored, now = getattr(known._source, option), getattr(given, option)
        if stored != now:
            raise StateError(
                f"the query {known.name!r} of the checkpoint has {option} {stored}, not {now}; "
                "give the new one a different name, or start once without this one, which closes it"
            )


def name_view(query: str, as_of: str | None) -> str:
    """The name of the view of a query.

    >>> name_view("replies", None), name_view("replies", "noon")
    ('replies', 'replies_as_of_noon')
    """
    return query if as_of is None else f"{query}_as_of_{as_of}"


class Pipeline(Handle):
    """A running pipeline, made by `start`. Use it in a ``with`` statement, or `close` it.

    ``query`` is Spark's streaming query, ``engine`` the engine, and ``queries`` its standing
    queries by name. Readers in the driver take snapshots of them from any thread while
    micro-batches run.
    """

    def __init__(
        self, engine: Engine, runner: MicroBatchRunner, owners: Owners, request: PipelineRequest
    ) -> None:
        super().__init__(request.session, request.checkpoint)
        self.engine = engine
        self.queries = runner.queries
        self._runner = runner
        self._owners = owners
        host = self._session.conf.get("spark.driver.host", "127.0.0.1")
        self._server = SnapshotServer(host, self.queries, request.shown_base)
        self._views: set[str] = set()
        try:
            if request.views:
                self._make_views()
            self._add_listener(request.on_progress)
            self.query = self._start_query(request.events, request)
        except BaseException:
            self._remove_listener()
            self._end_views()
            raise

    def table(self, name: str, as_of: int | str | None = None) -> Any:
        """The answers of a query as a DataFrame, with their multiplicity.

        Each time that Spark reads it, it shows the newest epoch, or the epoch with that number or
        name (`hold`). Cost: constant; answers are sent when Spark reads them.
        """
        reader = self._session.read.format("triegs").options(
            **{
                snapshot_reader.ADDRESS: self._server.address,
                snapshot_reader.SECRET: self._server.secret,
                snapshot_reader.QUERY: name,
            }
        )
        if as_of is not None:
            reader = reader.option(snapshot_reader.AS_OF, json.dumps(as_of))
        return reader.load()

    def hold(self, name: str) -> int:
        """Hold the newest epoch under a name, as `Engine.hold`; returns its number.

        ``pipeline.table("replies", as_of=name)`` reads its answers, and with views so does
        ``spark.table("replies_as_of_" + name)``. `release` ends the hold.
        """
        epoch = self.engine.hold(name)
        if self._views:
            self._make_views(name)
        return epoch

    def release(self, name: str) -> None:
        """Release the epoch held under a name, and drop its views."""
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
            with suppress(Exception):  # the session has stopped, and its views are gone
                self._session.catalog.dropTempView(view)

    def _end_views(self) -> None:
        for view in list(self._views):
            self._drop_view(view)
        self._server.close()

    def _take_batch(self, frame: Any, batch: int) -> None:
        self._runner.take(frame, batch)
        rate = self._runner.figures["rows_per_s"]
        if rate is not None:
            content = {"rows_per_second": rate, "seconds": BATCH_SECONDS}
            with suppress(OSError):  # advisory only
                (self.checkpoint / RATE).write_text(json.dumps(content), encoding="utf-8")

    def metrics(self) -> dict[str, Any]:
        """Current figures. Any thread.

        ``batches``, ``rows``, ``changes``, ``quarantined``, ``refused`` and ``replayed`` count from
        the start. ``batch`` is the last micro-batch and ``timing`` its seconds by step;
        ``rows_per_s`` is the measured rate; ``lag_s`` is how far event time is behind the clock;
        ``engine`` is `Engine.metrics`, and ``spark`` is Spark's progress report of the last batch.
        """
        figures = self.engine.metrics()
        watermark = figures["windows"]["watermark"]
        return {
            **self._runner.figures,
            "lag_s": None if watermark is None else time() - watermark / 1000,
            "engine": figures,
            "spark": self._read_progress(),
        }

    def _let_go(self) -> None:
        self._remove_listener()
        self._end_views()
        self._owners.close()
        self.engine.close()
