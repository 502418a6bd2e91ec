"""The changes of a query as a streaming DataFrame, for whatever sink Spark has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triegs.errors import InputError, UnsupportedQuery
from triegs.mode import Mode
from triegs.spark.distributed.pipeline import (
    SETTINGS,
    make_changes,
    make_stream,
    observe_figures,
)
from triegs.spark.distributed.planning import plan_job
from triegs.spark.distributed.plans import SHUFFLE
from triegs.spark.parcels import check_columns, check_kinds
from triegs.spark.refusing import require_columns
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
    """The signed changes of a query's answers, kept in so many parts: a streaming DataFrame with
    ``time``, the head's variables and ``change``, whose rows go from executors to the sink.

    `events` is as for `triegs.spark.start`. What became of the events of a batch is in the progress
    of Spark's query, as observed metrics of this `name`: ``rows``, ``refused``, ``late``,
    ``ahead``, and ``quarantined``: the malformed ones, those too far ahead, and late ones if
    `event_time` says so. These are Parquet files in the directory `quarantine` if there is one;
    executors must see it.

    The checkpoint of the stream that is made of it has the state, so it is started again with the
    same query and parts. Settings of the session that it needs when it is started are made here:
    the state store, and as many tasks of a shuffle as there are parts. Raises `UnsupportedQuery`
    for a query that parts cannot keep.
    """
    require_spark()
    if not getattr(events, "isStreaming", False):
        raise InputError("this DataFrame is no stream; spark.readStream makes one")
    session = events.sparkSession
    register(session)
    found = check_columns(events.columns, columns)
    require_columns(session, events.columns, found.values())
    check_kinds(events.schema, found)
    job = plan_job(
        {NAME: {"text": query}}, partitions, None, session, columns=found, sample=None, sinks={},
        mode=mode, window=window, event_time=event_time, stream=stream, prefixes=prefixes,
    )  # fmt: skip
    if job is None:
        raise UnsupportedQuery(
            "parts do not help this query", line=1, column=1, construct="query",
            hint="`triegs explain --partitions` says why; start() keeps it in the driver",
        )  # fmt: skip
    for setting, value in {**SETTINGS, SHUFFLE: str(partitions)}.items():
        session.conf.set(setting, value)
    job = job._replace(wanted=(NAME,))
    given = observe_figures(make_stream(events, job, found), name)
    return make_changes(
        given, job, NAME, None if quarantine is None else str(Path(quarantine).absolute())
    )
