"""From what a caller asks for to a job in parts, or to the reason why there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from triegs.compiler.layout import lay_out
from triegs.compiler.observing import observe
from triegs.compiler.partitions import Observed
from triegs.durable.source import QuerySource
from triegs.engine import Engine, warn_about
from triegs.engine.exercise import call_everything
from triegs.errors import InputError, StateError, WindowError
from triegs.inputs import open_input
from triegs.kernels.warmth import warm_up
from triegs.mode import Mode
from triegs.spark.answers import SNAPSHOT, Sink
from triegs.spark.cells import select_columns
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.pipeline import make_job
from triegs.spark.distributed.plans import PLAN
from triegs.spark.distributed.seeing import Seen
from triegs.spark.mapped import MappedColumns
from triegs.spark.parcels import check_kinds, make_checker
from triegs.spark.session import SparkMissing
from triegs.sparql.model import Query
from triegs.sparql.window import Kind, Window
from triegs.windows.settings import EventTime

messages = logging.getLogger("triegs.spark")
TERMS = ["subject", "predicate", "object"]
#: Rows of a sample that are looked at.
SAMPLE_ROWS = 1_000_000
#: Rows of it that queries are tried with; few, because what is kept of them may be their square.
TRIED_ROWS = 2_000
#: The engine's directory, in a checkpoint of a pipeline whose engine is in the driver.
ENGINE = "engine"


def plan_job(
    queries: Mapping[str, Mapping[str, Any]],
    partitions: int,
    home: Path | None,
    session: Any,
    *,
    columns: Mapping[str, str],
    sample: Any,
    sinks: Mapping[str, Iterable[Sink]],
    mode: Mode | str | None,
    window: Window | None,
    event_time: EventTime | None,
    stream: str | None,
    prefixes: Mapping[str, str] | None,
) -> Job | None:
    """A job in so many parts; None if they do not help, which is told in the log.

    A checkpoint, if there is one, decides what it was made for.
    """
    require_protobuf()
    if partitions < 1:
        raise ValueError(f"there is at least one part, not {partitions}")
    if home is not None and (home / ENGINE).exists():
        messages.warning("%s has its engine in the driver; so has this pipeline", home)
        return None
    _refuse(columns, sinks)
    sources = {name: read_source(name, given, prefixes) for name, given in queries.items()}
    parsed = {name: source.parse() for name, source in sources.items()}
    windows = [window, *(source.window for source in sources.values())]
    windows += [each for query in parsed.values() for _, each in query.windows]
    for each in windows:
        if each is not None and (each.kind is Kind.TRIPLES or each.slide is None):
            raise WindowError("a window that events move needs the order of all of them, not parts")
    is_timed = any(each is not None for each in windows)
    if is_timed and "time" not in columns:
        raise InputError("a window needs a column for time")
    warm_up(partial(call_everything, Engine, open_input))  # as executors of this machine would
    observed = try_out(sources, mode, read_sample(sample, columns))
    if observed is None and home is not None:
        observed = Seen.read(home).observe()
    layout = lay_out(parsed, partitions, observed)
    if layout.problem and not (home is not None and (home / PLAN).exists()):
        messages.warning("parts do not help; the engine is in the driver: %s", layout.problem)
        return None
    folder = session.conf.get("spark.local.dir", None)
    for query in parsed.values():
        warn_about(query, stacklevel=4)
    job = make_job(layout, sources, mode, window, event_time, stream, is_timed)
    return job._replace(folder=folder, wanted=tuple(sinks))


def require_protobuf() -> None:
    """Raise `SparkMissing` without what PySpark's client of the state store needs."""
    try:
        import_module("google.protobuf")
    except ImportError:
        raise SparkMissing("parts need protobuf: pip install -U 'triegs[spark]'") from None


def _refuse(columns: Mapping[str, str], sinks: Mapping[str, Iterable[Sink]]) -> None:
    if "id" in columns:
        raise InputError(
            "parts cannot tell whether an id was used before; leave the column out, or have the "
            "engine in the driver"
        )
    if isinstance(columns, MappedColumns) and columns.has_rows and "op" in columns:
        raise InputError(
            "parts cannot take back a row of several triples as a whole; leave op out of columns, "
            "or have the engine in the driver"
        )
    for name, several in sinks.items():
        if any(sink.what == SNAPSHOT for sink in several):
            raise StateError(
                f"the sink of {name!r} wants snapshots, which parts do not send; "
                "Distributed.table reads the result of any batch"
            )


def read_source(
    name: str, given: Mapping[str, Any], prefixes: Mapping[str, str] | None
) -> QuerySource:
    """A query as the caller wrote it; `StateError` for what is no part of one."""
    known = {"text", "root", "keep", "window"}
    if unknown := given.keys() - known:
        raise StateError(f"the query {name!r} has {min(unknown)!r}, which is none of {known}")
    keep = tuple(given.get("keep", ()))
    window = given.get("window")
    return QuerySource(given["text"], name, given.get("root"), keep, window, dict(prefixes or {}))


def read_sample(sample: Any, columns: Mapping[str, str]) -> pa.Table | None:
    """Events of a sample, a DataFrame or an Arrow table with the columns of the stream, as the
    stream would have them; None if there are none.
    """
    if sample is None:
        return None
    names: Mapping[str, str] = {name: columns[name] for name in TERMS if name in columns}
    if isinstance(columns, MappedColumns) and columns.mapping is not None:
        names = columns
    there = sample.schema.names
    if missing := set(names.values()) - set(there):
        raise InputError(f"the sample has no column {min(missing)!r}")
    if isinstance(sample, pa.Table):
        table = sample
    else:
        check_kinds(sample.schema, names)
        table = select_columns(sample.limit(SAMPLE_ROWS), names).toArrow()
    check = make_checker(names, is_timed=False, place="sample")
    found = [rows.select(TERMS) for rows, is_bad in check(iter(table.to_batches())) if not is_bad]
    return pa.concat_tables(found).unify_dictionaries() if found else None


class _Plain(QuerySource):
    """A query over one graph, whatever windows it has."""

    def parse(self, *, refuse_patterns: bool = True) -> Query:
        return replace(super().parse(refuse_patterns=refuse_patterns), windows=(), graphs=())


def try_out(
    sources: Mapping[str, QuerySource], mode: Mode | str | None, sample: pa.Table | None
) -> Observed | None:
    """What a sample says, and what an engine takes for each query with its first events. Refuses,
    as an engine does, what no part could keep.
    """
    with Engine(Mode(mode or Mode.MULTIGRAPH).value) as engine:
        queries = [engine._register(_Plain(*s)._replace(window=None)) for s in sources.values()]
        if sample is None:
            return None
        tried = sample.slice(0, TRIED_ROWS)
        half = tried.num_rows // 2
        engine.apply(tried.slice(0, half))  # what is done once in a process is not theirs
        engine.apply(tried.slice(half))
        return replace(observe(sample), costs={each.name: each._measure() for each in queries})
