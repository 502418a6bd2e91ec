"""`triegs.spark.derive`: the closure of a DataFrame of triples under rules, on the executors.

Triples are partitioned by subject, and whatever else the rules need is sent to all partitions
(`triegs.partition.rules`). Each partition derives its share in its own engine; together they have
the closure of one engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from triegs.errors import BadOption, InputError
from triegs.partition.rules import RulePartitioning, Signature, plan_rules
from triegs.reason.model import RuleSet
from triegs.reason.sets import RuleSources, read_rules
from triegs.reason.text import TYPE, parse_rules
from triegs.terms.partition_hash import find_partitions

if TYPE_CHECKING:
    from triegs.engine import Engine

TERMS = ("subject", "predicate", "object")
#: The column with the partition; prefixed, so that it cannot clash with others.
PARTITION = "triegs_partition"
SCHEMA = "subject string, predicate string, object string"
ALL = "SELECT ?subject ?predicate ?object { ?subject ?predicate ?object }"


def derive(triples: Any, rules: RuleSources, *, partitions: int | None = None) -> Any:
    """The closure of triples under rules, as a DataFrame with each triple once.

    `triples` is a batch DataFrame with the columns subject, predicate and object, terms in
    N-Triples form; `rules` are as for `Engine`. The signatures of the triples (their predicates,
    and the classes of types) are counted first, which is a job of its own; the result is lazy. A
    partition must fit the memory of an executor. `partitions` defaults to Spark's parallelism.
    ``triegs explain --rules FILE --partitions N --sample FILE`` shows what is sent to all.
    """
    wanted = read_rules(rules)
    missing = [name for name in TERMS if name not in triples.columns]
    if missing:
        raise InputError(f"there is no column {missing[0]!r}", columns=tuple(triples.columns))
    count = (
        triples.sparkSession.sparkContext.defaultParallelism if partitions is None else partitions
    )
    if type(count) is not int or count < 1:
        raise BadOption(f"partitions must be an integer of at least 1, not {partitions!r}")
    plan = plan_rules(wanted, counts=count_signatures(triples))
    routed = triples.select(*TERMS).mapInArrow(
        make_router(plan, count), f"{PARTITION} int, {SCHEMA}"
    )
    return routed.groupBy(PARTITION).applyInArrow(make_deriver(wanted), SCHEMA).distinct()


def count_signatures(triples: Any) -> dict[Signature, int]:
    """The number of triples of each signature."""
    from pyspark.sql import functions

    predicate = functions.col("predicate")
    kind = functions.when(predicate == TYPE, functions.col("object")).otherwise("")
    grouped = triples.groupBy(predicate.alias("name"), kind.alias("kind")).count().collect()
    return {Signature(row["name"], row["kind"]): row["count"] for row in grouped}


def make_router(
    plan: RulePartitioning, count: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `DataFrame.mapInArrow`: each triple with its partition, or with all of them."""
    replicated = set(plan.replicated)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name) for name in TERMS]
            homes = find_partitions([columns[0]], count)
            pairs = zip(columns[1].to_pylist(), columns[2].to_pylist(), strict=True)
            is_sent = np.array(
                [Signature(p, o if p == TYPE else "") in replicated for p, o in pairs], np.bool_
            )
            for partition in range(count):
                rows = np.flatnonzero(is_sent | (homes == partition))
                names = pa.array(np.full(len(rows), partition, np.int32))
                taken = [column.take(pa.array(rows)) for column in columns]
                yield pa.record_batch([names, *taken], names=[PARTITION, *TERMS])

    return route


def make_deriver(rules: RuleSet) -> Callable[[pa.Table], pa.Table]:
    """For `GroupedData.applyInArrow`: the closure of one partition."""
    text = str(rules)

    def derive_partition(table: pa.Table) -> pa.Table:
        from triegs.engine import Engine

        with Engine("rdf", rules=parse_rules(text)) as engine:
            return close_table(engine, table)

    return derive_partition


def close_table(engine: Engine, table: pa.Table) -> pa.Table:
    """The triples of an engine after it has taken those of a table."""
    found = engine.register(ALL)
    signs = pa.array(np.ones(len(table), np.int8))
    engine.apply(table.select(list(TERMS)).append_column("op", signs), strict=True)
    with found.snapshot() as snapshot:
        closed = snapshot.to_arrow()
    # Spark has large strings or not, as its session is set.
    return pa.table({name: closed[name].cast(table.schema.field(name).type) for name in TERMS})
