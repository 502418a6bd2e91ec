"""`triegs.spark.start`: validate the arguments, then start a pipeline in the driver or partitioned.

```
            ┌─ triegs.spark.driver        one engine, in the driver
start ──────┤
            └─ triegs.spark.partitioned   one engine per partition, in the executors
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from triegs.durable.source import QuerySource
from triegs.errors import InputError, StateError
from triegs.mode import Mode
from triegs.names import BASE
from triegs.options import ModeName
from triegs.reason.sets import read_rules
from triegs.spark.answers import find_folder, list_sinks
from triegs.spark.checks import require_columns, require_heads, require_outside
from triegs.spark.driver.pipeline import Pipeline, start_pipeline
from triegs.spark.encoded_batch import check_columns, check_kinds
from triegs.spark.mapped import choose_base, map_columns
from triegs.spark.partitioned.checkpoint_plan import PLAN
from triegs.spark.partitioned.pipeline import Distributed
from triegs.spark.partitioned.planning import plan_job
from triegs.spark.request import PipelineRequest
from triegs.spark.session import register, require_spark
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

#: A mode that means: partitioned, in as many partitions as Spark has cores.
DISTRIBUTED = "distributed"


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
    """Start a pipeline that maintains standing queries over a streaming DataFrame of events.

    `events` has the columns subject, predicate and object, and optionally op (default ``+``), time
    and id; `columns` maps these names to the DataFrame's own. Terms are strings in N-Triples form,
    or numbers. Executors check and encode the rows; malformed rows go to the table ``quarantine``
    in the checkpoint.

    With `map`, `events` is any DataFrame, and templates over its columns, such as
    ``"{from} :paid {to}"``, map each row to an event: see `triegs.events.mapping.parser`. `columns`
    then names the columns of time, op and id, and `time_unit` (``"s"``, ``"ms"``, ``"us"``,
    ``"ns"``) the unit of numeric times. Cells are names of IRIs under `base`, which is also the
    empty prefix of queries. Results are names again, unless `terms` is ``"ntriples"``.

    `queries` maps names to query texts, or to the arguments of `Engine.register` with ``text``.
    Without windows, each micro-batch is one epoch. With windows (in a query text, or `window`), a
    time column is required and each slide is one epoch. `sinks` maps query names to a directory for
    Parquet files of changes, a function of a DataFrame and a batch number, a `triegs.spark.Sink`,
    or a list of these.

    `static` is a graph that exists from the start, outside all windows: an Arrow table, or the path
    of an RDF file. A new checkpoint loads it as one epoch; `InvalidUpdate` if it is malformed.

    `checkpoint` is a directory on the driver's disk for the engine's state, Spark's checkpoint and
    malformed rows. A restart with the same checkpoint resumes: each micro-batch is applied exactly
    once, and each change reaches a sink exactly once. A second pipeline on the same checkpoint
    raises `DirectoryInUse`.

    With `views`, each query is a temporary view of its name: ``spark.table("replies")`` reads the
    newest answers. `on_progress` is called with `Pipeline.metrics` after each micro-batch, in one
    of Spark's threads. `trigger` is as for `DataStreamWriter.trigger`, such as
    ``{"availableNow": True}``; `name` is the name of Spark's query; other options go to
    `Engine.open`.

    With `partitions`, or with ``mode="distributed"``, the engines run in the executors, one per
    partition: see `triegs.spark.partitioned`. `sample`, a DataFrame or Arrow table of events, gives
    statistics of the stream. Where partitioning does not help, the engine runs in the driver, with
    a warning in the log.
    """
    require_spark()
    if not getattr(events, "isStreaming", False):
        raise InputError("events is not a streaming DataFrame; make one with spark.readStream")
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
    asked = _read_queries(queries)
    wanted = {
        each: [replace(sink, base=shown) for sink in several]
        for each, several in list_sinks(sinks, asked).items()
    }
    home = find_folder(
        checkpoint,
        f"checkpoint must be a directory that the driver can lock and sync, not {checkpoint}",
    )
    require_outside(wanted, home)
    request = PipelineRequest(
        events, found, asked, home, wanted, static, mode, window, event_time, stream,
        trigger=trigger, name=name, views=views, on_progress=on_progress, base=root,
        shown_base=shown,
    )  # fmt: skip
    if mode == DISTRIBUTED or partitions is not None:
        request = _make_partitioned(request, options)
        count = session.sparkContext.defaultParallelism if partitions is None else partitions
        job = plan_job(request, count, sample)
        if job is not None:
            parsed = {each: QuerySource.read(query).parse() for each, query in job.queries.items()}
            require_heads(session, parsed, views=False)
            home.mkdir(parents=True, exist_ok=True)
            return Distributed(request, job)
        options = {"prefixes": request.prefixes}
        if request.rules.rules:
            options["rules"] = request.rules
    elif (home / PLAN).exists():
        raise StateError(f"the checkpoint {home} belongs to a partitioned pipeline; set partitions")
    return start_pipeline(request, options)


def _make_partitioned(request: PipelineRequest, options: Mapping[str, Any]) -> PipelineRequest:
    """A request for a partitioned pipeline, which has no engine options but prefixes and rules."""
    if others := options.keys() - {"prefixes", "rules"}:
        raise StateError(f"{min(others)!r} is an option of an engine in the driver")
    mode = None if request.mode == DISTRIBUTED else request.mode
    prefixes = {"": request.base, **(options.get("prefixes") or {})}
    rules = read_rules(options.get("rules"), prefixes)
    return replace(request, mode=mode, prefixes=prefixes, rules=rules)


def _read_queries(given: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise TypeError(f"queries maps names to texts, such as {{'all': 'SELECT …'}}, not {kind}")
    return {name: _read_query(name, each) for name, each in given.items()}


def _read_query(name: str, given: str | Mapping[str, Any]) -> dict[str, Any]:
    found = dict(given) if isinstance(given, Mapping) else {"text": given}
    if "text" not in found:
        raise StateError(f"the query {name!r} has no text")
    return found
