"""The meaning of cells in Spark's columns, the same on every path to the engine.

Spark's timestamps are instants. Executors get them as Arrow in the session's zone, the driver in
UTC; so their terms are written in UTC, as those of an Arrow column in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from triegs.errors import InputError

#: Arrow types for the Spark types that columns of events may have, by Spark's names.
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
#: Spark's integer types.
INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def read_instants(column: Any) -> Any:
    """A column without the session's time zone. Cost: constant.

    >>> berlin = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    >>> read_instants(berlin).type
    TimestampType(timestamp[us, tz=UTC])
    """
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column


def select_columns(frame: Any, columns: Mapping[str, str]) -> Any:
    """The columns of a DataFrame that events need; Spark may have no Arrow type for others."""
    return frame.select(*(quote(theirs) for theirs in dict.fromkeys(columns.values())))


def quote(name: str) -> str:
    """A column name in Spark's syntax.

    >>> quote("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def make_empty(schema: Any, columns: Mapping[str, str]) -> pa.RecordBatch:
    """An empty batch with the columns of a DataFrame of this schema, under its names; `InputError`
    for a type that events cannot have.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    found = {}
    for ours, theirs in columns.items():
        kind = find_kind(kinds[theirs])
        if kind is None:
            raise InputError(
                f"the column {theirs!r} for {ours} has the type {kinds[theirs]}; columns of events "
                "are strings, integers, floats, decimals, booleans, dates and timestamps"
            )
        found[theirs] = pa.array([], kind)
    return pa.RecordBatch.from_pydict(found)


def find_kind(name: str) -> Any:
    """The Arrow type for a Spark type by its name; None for a type that events cannot have.

    >>> find_kind("decimal(10,2)"), find_kind("map<string,int>")
    (Decimal128Type(decimal128(10, 2)), None)
    """
    if name.startswith("string collate "):
        return pa.string()
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else KINDS.get(name)
