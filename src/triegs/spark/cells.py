"""What the cells of Spark's columns are: one meaning, whichever way a batch takes to the engine.

A timestamp of Spark's is an instant. Executors get it as Arrow in the zone of the session, the
driver in UTC; so its term is written in UTC, as that of the same instant in an Arrow column in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from triegs.errors import InputError

#: Arrow's types for those of Spark that may be something of an event, by their names in Spark.
KINDS = {
    "string": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "void": pa.null(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def read_instants(column: Any) -> Any:
    """A column of Spark's without the zone of its session. Cost: constant.

    >>> berlin = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    >>> read_instants(berlin).type
    TimestampType(timestamp[us, tz=UTC])
    """
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column


def select_columns(frame: Any, columns: Mapping[str, str]) -> Any:
    """Those columns of a DataFrame that are of events; Spark may have no Arrow for others."""
    return frame.select(*(quote(theirs) for theirs in dict.fromkeys(columns.values())))


def quote(name: str) -> str:
    """A column's name as Spark reads it.

    >>> quote("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def make_empty(schema: Any, columns: Mapping[str, str]) -> pa.RecordBatch:
    """No rows, with the columns that a DataFrame of this schema will have, by their names in it;
    `InputError` for a type that nothing of an event has.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    found = {}
    for ours, theirs in columns.items():
        kind = find_kind(kinds[theirs])
        if kind is None:
            raise InputError(
                f"the column {theirs!r} for {ours} is of {kinds[theirs]}; columns of events are "
                "strings, integers, floats, decimals, booleans, dates and timestamps"
            )
        found[theirs] = pa.array([], kind)
    return pa.RecordBatch.from_pydict(found)


def find_kind(name: str) -> Any:
    """Arrow's type for one of Spark's, by its name; None for one that no column of events has.

    >>> find_kind("decimal(10,2)"), find_kind("map<string,int>")
    (Decimal128Type(decimal128(10, 2)), None)
    """
    if name.startswith("string collate "):
        return pa.string()
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else KINDS.get(name)
