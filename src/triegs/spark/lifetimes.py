"""The lifetime of each event of a log, in Spark SQL alone.

Events are processed in the order of (time, arrival), each at the first slide that can hold it (at
its own time, without a window). A deletion ends the oldest live event of its assertion, or the one
with its id; a repeated id changes nothing, and with different content it is refused. So the events
of an assertion form a list, folded by Spark's ``aggregate``, and assertions are independent of each
other, except those that share an id: they form one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.errors import InputError, WindowError
from triegs.events.context import choose_columns
from triegs.events.signs import CHANGES
from triegs.events.times import GOOD, MISSING, REASONS, read_times
from triegs.spark.cells import INTEGERS, quote, read_instants
from triegs.spark.encoded_batch import check_kinds
from triegs.sparql.window import Kind, Window
from triegs.terms.columns import is_text
from triegs.terms.term_texts import spell_texts, write_terms

TERMS = ("subject", "predicate", "object")
#: Columns of a log; ``order`` breaks ties of time.
COLUMNS = ("time", *TERMS, "op", "id", "order")
NEEDED = ("time", *TERMS)
BORN, DIED = "born", "died"
INTEGER = '"^^<http://www.w3.org/2001/XMLSchema#integer>'
#: Matches most terms that are already in canonical form, without rare cases.
PLAIN = r"""^(<[!#-;=?-\[\]_a-z~]*>|"[ !#-\[\]-~]*"(@[a-z]+)?|_:[A-Za-z0-9]+)$"""
SIGNS = {
    change: [sign for sign, means in CHANGES.items() if means == change and isinstance(sign, str)]
    for change in (1, -1)
}


class Log(NamedTuple):
    """A log with our columns, and whether it has signs and ids."""

    frame: Any
    has_signs: bool
    has_ids: bool


def read_log(events: Any, columns: Mapping[str, str] | None, window: Window | None) -> Log:
    """A DataFrame as a log; `columns` maps our column names to its own.

    A row with a missing value or an invalid sign fails the job that reads it.
    """
    if window is not None and window.kind is Kind.TRIPLES:
        raise WindowError(
            "recompute does not support windows by event count, which have no bounds in time"
        )
    names = _find_columns(events.columns, columns)
    return Log(_select_columns(events, names, window), "op" in names, "id" in names)


def find_lifetimes(log: Log, window: Window | None) -> Any:
    """A DataFrame of the events that entered: their terms, the time at which each was ``born``, and
    the time at which a deletion ended it (``died``), or null.

    Lazy. Cost: two shuffles of the log, and for an assertion the square of the number of its
    events; nothing without the columns ``op`` and ``id``.
    """
    if log.has_signs or log.has_ids:
        return _judge(log.frame, window, log.has_ids)
    return log.frame.selectExpr(*TERMS, f"time AS {BORN}", f"CAST(NULL AS BIGINT) AS {DIED}")


def _find_columns(there: list[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(columns or {})
    if unknown := given.keys() - set(COLUMNS):
        raise InputError(f"columns maps {min(unknown)!r}, which is not one of {', '.join(COLUMNS)}")
    theirs = {ours: given.get(ours, ours) for ours in COLUMNS}
    found = choose_columns(there, "the DataFrame", theirs, {*NEEDED, *given})
    return {ours: theirs[ours] for ours in found}


def _select_columns(events: Any, names: Mapping[str, str], window: Window | None) -> Any:
    from pyspark.sql import functions

    def pick(name: str) -> Any:
        return functions.col(quote(names[name]))

    check_kinds(events.schema, {n: names[n] for n in names if n != "order"})
    kinds = dict(events.dtypes)
    time = _require(_read_time(pick("time"), kinds[names["time"]]), "time")
    order = pick("order") if "order" in names else functions.monotonically_increasing_id()
    sign = _read_sign(pick("op")) if "op" in names else functions.lit(1)
    terms = [_require(_read_term(pick(n), kinds[names[n]]), n).alias(n) for n in TERMS]
    name = pick("id").cast("string") if "id" in names else functions.lit(None).cast("string")
    log = events.select(time.alias("time"), order.alias("order"), sign.alias("sign"), *terms,
                        name.alias("id"))  # fmt: skip
    return log.withColumn("slide", first_slide(functions.col("time"), window))


def _require(column: Any, name: str) -> Any:
    from pyspark.sql import functions

    return functions.coalesce(column, functions.raise_error(f"a row of the log has no {name}"))


def _read_time(column: Any, kind: str) -> Any:
    from pyspark.sql import functions

    if kind in INTEGERS:
        return column.cast("bigint")
    if kind == "timestamp":
        return functions.unix_millis(column)
    return functions.arrow_udf(read_milliseconds, "bigint")(column)


def _read_term(column: Any, kind: str) -> Any:
    """Terms in canonical form. Python gets only those that are not plainly so, and nulls for the
    others.
    """
    from pyspark.sql import functions

    if kind in INTEGERS:
        return functions.concat(functions.lit('"'), column.cast("string"), functions.lit(INTEGER))
    write = functions.arrow_udf(write_texts, "string")
    if kind != "string":
        return write(column)
    is_plain = column.rlike(PLAIN)
    return functions.when(is_plain, column).otherwise(write(functions.when(~is_plain, column)))


def read_milliseconds(column: pa.Array) -> pa.Array:
    """Times of a Spark column; `InputError` for an invalid one."""
    times, states = read_times(read_instants(column))
    for row in np.flatnonzero((states != GOOD) & (states != MISSING)).tolist():
        raise InputError(f"a row of the log has the time {column[row]}: {REASONS[states[row]]}")
    return pa.array(times, pa.int64(), mask=states == MISSING)


def write_texts(column: pa.Array) -> pa.Array:
    """Terms of a Spark column as strings in canonical form; `InputError` for an invalid one.

    >>> write_texts(pa.array(['"a"@EN', None])).to_pylist()
    ['"a"@en', None]
    """
    if is_text(column.type):
        column, problems = spell_texts(column)
        for problem in problems.values():
            raise InputError(f"a row of the log has a bad term: {problem}")
        return column.cast(pa.string())
    return write_terms(read_instants(column)).cast(pa.string())


def _read_sign(column: Any) -> Any:
    from pyspark.sql import functions

    text = column.cast("string")
    wrong = functions.concat(functions.lit("op must be + or - (or 1 or -1), not "), text)
    return (
        functions.when(text.isNull() | text.isin(*SIGNS[1]), 1)
        .when(text.isin(*SIGNS[-1]), -1)
        .otherwise(functions.raise_error(wrong).cast("int"))
    )


def first_slide(time: Any, window: Window | None) -> Any:
    """The first published time that can hold an event of this time, as a Spark expression."""
    from pyspark.sql import functions

    if window is None or window.slide is None:
        return time
    distance = functions.lit(window.start - window.shift) - time
    # Spark's integer division yields fractions; the remainder is exact.
    steps = distance - functions.pmod(distance, functions.lit(window.slide))
    return functions.lit(window.start) - steps


def _judge(log: Any, window: Window | None, has_ids: bool) -> Any:
    from pyspark.sql import functions

    if has_ids:
        log = _join_by_ids(log)
    else:
        log = log.withColumn("list", functions.lit(0))
    keys = [functions.when(functions.col("list") == 0, functions.col(n)).alias(n) for n in TERMS]
    fields = ("time", "order", "slide", "sign", *TERMS, "id")
    events = functions.sort_array(functions.collect_list(functions.struct(*fields)))
    lists = log.groupBy("list", *keys).agg(events.alias("events"))
    # The types must match those of `enter`: Spark does not widen types within a fold.
    entered = (
        "array<struct<subject: string, predicate: string, object: string, id: string, "
        f"{BORN}: bigint, {DIED}: bigint>>"
    )
    folded = functions.aggregate(
        "events", functions.array().cast(entered), lambda held, e: _fold(held, e, window, has_ids)
    )
    return lists.select(functions.inline(folded)).drop("id")


def _join_by_ids(log: Any) -> Any:
    """Add the column ``list``: 1 for assertions that share an id with another, else 0."""
    from pyspark.sql import functions

    named = log.where("id IS NOT NULL").select(*TERMS, "id").distinct()
    shared = named.groupBy("id").count().where("count > 1").select("id")
    together = named.join(shared, "id").select(*TERMS).distinct()
    marked = together.withColumn("list", functions.lit(1))
    return log.join(marked, list(TERMS), "left").fillna(0, ["list"])


def _fold(held: Any, event: Any, window: Window | None, has_ids: bool) -> Any:
    """The events of a list after one more."""
    from pyspark.sql import functions

    def is_held(each: Any) -> Any:
        found = each[DIED].isNull()
        if window is not None and window.width is not None:
            found &= each[BORN] > event["slide"] - (window.shift + window.width)
        return found

    def is_same(each: Any) -> Any:
        found = each["subject"] == event["subject"]
        found &= each["predicate"] == event["predicate"]
        return found & (each["object"] == event["object"])

    def is_named(each: Any) -> Any:
        return is_held(each) & functions.coalesce(each["id"] == event["id"], functions.lit(False))

    def is_taken(each: Any) -> Any:
        oldest = is_held(each) & is_same(each)
        if not has_ids:
            return oldest
        return functions.when(event["id"].isNull(), oldest).otherwise(is_named(each))

    def enter(born: Any) -> Any:
        values = [event[name].alias(name) for name in (*TERMS, "id")]
        never = functions.lit(None).cast("bigint").alias(DIED)
        return functions.struct(*values, born.alias(BORN), never)

    taken = functions.array_position(functions.transform(held, is_taken), True)

    def end(each: Any, index: Any) -> Any:
        died = functions.when(index + 1 == taken, event["slide"]).otherwise(each[DIED])
        return each.withField(DIED, died)

    inserted = functions.concat(held, functions.array(enter(event["time"])))
    deleted = functions.transform(held, end)
    judged = functions.when(event["sign"] < 0, deleted).otherwise(inserted)
    if not has_ids:
        return judged
    is_other = functions.exists(held, lambda each: is_named(each) & ~is_same(each))
    is_repeated = (event["sign"] > 0) & functions.exists(held, is_named)
    return functions.when(is_other | is_repeated, held).otherwise(judged)
