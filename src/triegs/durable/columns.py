"""Named fields and arrays as buffers, and back: the payload of every record and section.

A payload is the length of a JSON text in 8 bytes, the text, and the arrays, each padded to 8 bytes.
The text has the fields, and the name, type and shape of each array. Numbers are little-endian, and
reading never executes anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNED = 8
KINDS = {np.dtype(name): name for name in ("<i8", "<i4", "|u1")}
WRITTEN = {True: "true", False: "false", None: "null"}
DTYPES = {name: dtype for dtype, name in KINDS.items()}


class Content(NamedTuple):
    """The content of a payload."""

    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Columns(NamedTuple):
    """Arrays of a payload: their descriptions for the text, and the padded buffers."""

    described: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()

    def __add__(self, other: Columns) -> Columns:  # type: ignore[override]
        return Columns(self.described + other.described, self.parts + other.parts)


NO_COLUMNS = Columns()


def describe(name: str, kind: str, *shape: int) -> str:
    """The description of an array for the text."""
    return f'["{name}","{kind}",{list(shape)}]'


def lay_out(arrays: Mapping[str, NDArray[Any]]) -> Columns:
    """Arrays for a payload; contiguous ones are not copied."""
    described: list[str] = []
    parts: list[Any] = []
    for name, array in arrays.items():
        described.append(describe(name, KINDS[array.dtype], *array.shape))
        parts.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
        if padding := -array.nbytes % ALIGNED:
            parts.append(bytes(padding))
    return Columns(tuple(described), tuple(parts))


def write_fields(fields: Mapping[str, Any]) -> str:
    """Fields as JSON; whole numbers, booleans and None, which most records have, faster than
    `json` does.

    >>> write_fields({"epoch": 7, "strict": False, "time": None})
    '{"epoch": 7, "strict": false, "time": null}'
    """
    parts = []
    for name, value in fields.items():
        if type(value) is int:
            parts.append(f'"{name}": {value}')
        elif value is None or type(value) is bool:
            parts.append(f'"{name}": {WRITTEN[value]}')
        else:
            return json.dumps(fields)
    return f"{{{', '.join(parts)}}}" if are_plain(tuple(fields)) else json.dumps(fields)


@lru_cache(64)
def are_plain(names: tuple[str, ...]) -> bool:
    """Whether these names are written in JSON as they are."""
    return all(map(str.isidentifier, names)) and all(map(str.isascii, names))


def pack(fields: Mapping[str, Any], columns: Columns = NO_COLUMNS) -> list[Any]:
    """The payload as buffers. Cost: the fields.

    >>> parts = pack({"time": 5}, lay_out({"ids": np.array([1, 2], "<i4")}))
    >>> unpack(b"".join(parts))
    Content(fields={'time': 5}, arrays={'ids': array([1, 2], dtype=int32)})
    """
    text = f"[{write_fields(fields)},[{','.join(columns.described)}]]".encode()
    head = len(text).to_bytes(ALIGNED, "little") + text
    return [head + bytes(-len(head) % ALIGNED), *columns.parts]


def unpack(payload: bytes | memoryview) -> Content:
    """The inverse of `pack`; arrays are read-only views of the payload.

    `ValueError` if it is not a payload, which a valid checksum rules out.
    """
    view = memoryview(payload)
    size = int.from_bytes(view[:ALIGNED], "little")
    fields, described = json.loads(bytes(view[ALIGNED : ALIGNED + size]))
    at = ALIGNED + size
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in described:
        at += -at % ALIGNED
        dtype = DTYPES[kind]
        count = prod(shape)
        arrays[name] = np.frombuffer(view, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return Content(fields, arrays)
