"""The changes of a query as a streaming DataFrame, for any sink of Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triegs.errors import InputError, UnsupportedQuery
from triegs.mode import Mode
from triegs.spark.checks import require_columns
from triegs.spark.encoded_batch import check_columns, check_kinds
from triegs.spark.partitioned.checkpoint_plan import SHUFFLE
from triegs.spark.partitioned.dataflow import (
    SETTINGS,
    make_changes,
    make_stream,
    observe_figures,
)
from triegs.spark.partitioned.planning import plan_job
from triegs.spark.request import PipelineRequest
from triegs.spark.session import register, require_spark
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

NAME = "changes"


def changes(
    events: Any,
    query: str,
    *,
    partitions: int,
    columns: Mapping[str, str] | None = None,
    mode: Mode | str | None = None,
    window: Window | None = None,
    event_time: EventTime | None = None,
    stream: str | None = None,
    prefixes: Mapping[str, str] | None = None,
    name: str = "triegs",
    quarantine: str | Path | None = None,
) -> Any:
    """The signed changes of a query's answers, maintained in so many partitions: a streaming
    DataFrame with ``time``, the projected variables and ``change``. Its rows go from the executors
    to the sink.

    `events` is as for `triegs.spark.start`. The progress of Spark's query has the counts of each
    batch, as observed metrics of this `name`: ``rows``, ``refused``, ``late``, ``ahead``, and
    ``quarantined`` (malformed events, those too far ahead, and late ones if `event_time` says so).
    Quarantined events are written as Parquet files to the directory `quarantine`, if given;
    executors must be able to reach it.

    The checkpoint of the resulting stream has the state, so restart it with the same query and
    number of partitions. This function sets the session options that the stream needs: the state
    store, and one shuffle task per partition. Raises `UnsupportedQuery` for a query that cannot be
    partitioned.
    """
    require_spark()
    if not getattr(events, "isStreaming", False):
        raise InputError("events is not a streaming DataFrame; make one with spark.readStream")
    session = events.sparkSession
    register(session)
    found = check_columns(events.columns, columns)
    require_columns(session, events.columns, found.values())
    check_kinds(events.schema, found)
    request = PipelineRequest(
        events, found, {NAME: {"text": query}}, mode=None if mode is None else Mode(mode),
        window=window, event_time=event_time,
        stream=stream, prefixes=prefixes,
    )  # fmt: skip
    job = plan_job(request, partitions)
    if job is None:
        raise UnsupportedQuery(
            "partitioning does not help this query", line=1, column=1, construct="query",
            hint="`triegs explain --partitions` explains why; start() runs it in the driver",
        )  # fmt: skip
    for setting, value in {**SETTINGS, SHUFFLE: str(partitions)}.items():
        session.conf.set(setting, value)
    job = job._replace(wanted=(NAME,))
    observed = observe_figures(make_stream(events, job, found), name)
    return make_changes(
        observed, job, NAME, None if quarantine is None else str(Path(quarantine).absolute())
    )
