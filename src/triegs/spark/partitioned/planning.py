"""From a request to the job of a partitioned pipeline, or to the reason why partitioning fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import pyarrow as pa

from triegs.durable.source import QuerySource
from triegs.engine import Engine, warn_about
from triegs.engine.exercise import call_everything
from triegs.engine.warmth import warm_up
from triegs.errors import InputError, StateError, WindowError
from triegs.events import open_input
from triegs.mode import Mode
from triegs.partition.layout import lay_out
from triegs.partition.rule_layout import lay_out_rules
from triegs.partition.rules import Signature
from triegs.partition.sampling import sample_statistics
from triegs.partition.statistics import StreamStatistics
from triegs.spark.answers import SNAPSHOT, Sink
from triegs.spark.cells import select_columns
from triegs.spark.encoded_batch import check_kinds, make_checker
from triegs.spark.mapped import MappedColumns
from triegs.spark.partitioned.checkpoint_plan import PLAN
from triegs.spark.partitioned.job import Job, make_job
from triegs.spark.partitioned.routing import group_signatures
from triegs.spark.partitioned.seeds import read_static
from triegs.spark.partitioned.statistics import StatisticsCollector
from triegs.spark.queries import read_source
from triegs.spark.request import PipelineRequest
from triegs.spark.session import SparkMissing
from triegs.sparql.model import Query
from triegs.sparql.window import Kind

messages = logging.getLogger("triegs.spark")
TERMS = ["subject", "predicate", "object"]
#: The most rows of a sample that are read.
SAMPLE_ROWS = 1_000_000
#: The rows of a sample that queries are tried with; few, because their state may grow
#: quadratically.
TRIAL_ROWS = 2_000
#: The engine directory, in the checkpoint of a pipeline whose engine runs in the driver.
ENGINE = "engine"


def plan_job(request: PipelineRequest, partitions: int, sample: Any = None) -> Job | None:
    """A job with so many partitions; None if partitioning does not help, with the reason logged.

    An existing checkpoint decides between partitioned and driver.
    """
    require_protobuf()
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise TypeError(f"partitions must be a number of engines, not {partitions!r}")
    if partitions < 1:
        raise ValueError(f"partitions must be at least 1, not {partitions}")
    home, columns, window = request.home, request.columns, request.window
    if home is not None and (home / ENGINE).exists():
        messages.warning("%s has its engine in the driver, so this pipeline runs there", home)
        return None
    _refuse(columns, request.sinks)
    sources = {
        name: read_source(name, given, request.prefixes) for name, given in request.queries.items()
    }
    parsed = {name: source.parse() for name, source in sources.items()}
    windows = [window, *(source.window for source in sources.values())]
    windows += [each for query in parsed.values() for _, each in query.windows]
    for each in windows:
        if each is not None and (each.kind is Kind.TRIPLES or each.slide is None):
            raise WindowError(
                "a window that advances by events needs their total order and cannot be partitioned"
            )
    is_timed = any(each is not None for each in windows)
    if is_timed and "time" not in columns:
        raise InputError("a window needs a time column")
    warm_up(partial(call_everything, Engine, open_input))  # local executors share the cache
    events = read_sample(sample, columns)
    statistics = try_out(sources, request.mode, events)
    if statistics is None and home is not None:
        statistics = StatisticsCollector.read(home).summarize()
    if request.rules.rules:
        counts = None if events is None else count_signatures(events, request.static)
        layout, _ = lay_out_rules(parsed, request.rules, partitions, counts)
    else:
        layout = lay_out(parsed, partitions, statistics)
    if layout.problem and not (home is not None and (home / PLAN).exists()):
        messages.warning(
            "partitioning does not help, so the engine runs in the driver: %s", layout.problem
        )
        return None
    folder = request.session.conf.get("spark.local.dir", None)
    for query in parsed.values():
        warn_about(query, stacklevel=4)
    job = make_job(
        layout, sources, request.mode, window, request.event_time, request.stream, is_timed
    )
    return job._replace(folder=folder, wanted=tuple(request.sinks), rules=str(request.rules))


def count_signatures(sample: pa.Table, static: Any) -> Counter[Signature]:
    """How many triples of a sample and of the static graph have each signature."""
    found: Counter[Signature] = Counter()
    for table in [sample, *(read_static(static) if static is not None else ())]:
        found.update({each: len(rows) for each, rows in group_signatures(table)})
    return found


def require_protobuf() -> None:
    """Raise `SparkMissing` without protobuf, which PySpark's state store client needs."""
    try:
        import_module("google.protobuf")
    except ImportError:
        raise SparkMissing(
            "partitioned pipelines need protobuf: pip install -U 'triegs[spark]'"
        ) from None


def _refuse(columns: Mapping[str, str], sinks: Mapping[str, Iterable[Sink]]) -> None:
    if "id" in columns:
        raise InputError(
            "partitions cannot check whether an id was used before; leave out the id column, or "
            "run the engine in the driver"
        )
    if isinstance(columns, MappedColumns) and columns.has_rows and "op" in columns:
        raise InputError(
            "partitions cannot delete a row of several triples as a whole; leave op out of "
            "columns, or run the engine in the driver"
        )
    for name, several in sinks.items():
        if any(sink.what == SNAPSHOT for sink in several):
            raise StateError(
                f"the sink of {name!r} needs snapshots, which partitioned pipelines do not "
                "deliver; Distributed.table reads the full result of a batch"
            )


def read_sample(sample: Any, columns: Mapping[str, str]) -> pa.Table | None:
    """The events of a sample (a DataFrame or an Arrow table with the columns of the stream),
    checked as the stream would be; None if there are none.
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
    check = make_checker(names, is_timed=False, batch_name="sample")
    found = [rows.select(TERMS) for rows, is_bad in check(iter(table.to_batches())) if not is_bad]
    return pa.concat_tables(found).unify_dictionaries() if found else None


class _Plain(QuerySource):
    """A query over a single graph, without its windows."""

    def parse(self, *, refuse_patterns: bool = True) -> Query:
        return replace(super().parse(refuse_patterns=refuse_patterns), windows=(), graphs=())


def try_out(
    sources: Mapping[str, QuerySource], mode: Mode | str | None, sample: pa.Table | None
) -> StreamStatistics | None:
    """Statistics of a sample, with the cost of each query on its first events. Raises what
    `Engine.register` raises for unsupported queries.
    """
    with Engine(Mode(mode or Mode.MULTIGRAPH).value) as engine:
        queries = [engine._register(_Plain(*s)._replace(window=None)) for s in sources.values()]
        if sample is None:
            return None
        trial = sample.slice(0, TRIAL_ROWS)
        half = trial.num_rows // 2
        engine.apply(trial.slice(0, half))  # excludes one-time costs of the process
        engine.apply(trial.slice(half))
        return replace(
            sample_statistics(sample), costs={each.name: each._measure() for each in queries}
        )
