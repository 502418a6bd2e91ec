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
# Room for the text of a record of rows, which has some numbers and names, and for its frame.
BEFORE = 1024
ZEROS = bytes(ALIGNED)
KINDS = {np.dtype(name): name for name in ("<i8", "<i4", "|u1")}
WRITTEN = {True: "true", False: "false", None: "null"}
DTYPES = {name: dtype for dtype, name in KINDS.items()}


class Content(NamedTuple):
    """The content of a payload."""

    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class RecordBuffer:
    """Memory for one record at a time: arrays, and before them room for what precedes them."""

    def __init__(self) -> None:
        self._allocate(0)

    def _allocate(self, words: int) -> None:
        whole = np.empty(BEFORE // ALIGNED + words, np.int64)
        self._bytes = whole.data.cast("B")
        self._body = whole[BEFORE // ALIGNED :]
        self._halves = self._body.view(np.int32)
        self._octets = self._body.view(np.uint8)
        #: Of all of it.
        self.address = int(whole.ctypes.data)

    def take(self, words: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Memory for at least that many words, and the same by half words and by bytes."""
        if len(self._body) < words:
            self._allocate(words)
        return self._body, self._halves, self._octets

    def put_before(self, text: bytes, room: int, size: int) -> memoryview:
        """Complete a payload: write its text and the length of it directly before the first `size`
        bytes of the arrays. Returns the payload with `room` more bytes before it.
        """
        length = len(text)
        begin = BEFORE - ALIGNED - length - -length % ALIGNED
        if begin < room:
            raise ValueError(f"there is no room for a text of {length} bytes")
        self._bytes[begin:BEFORE] = b"%b%b%b" % (
            length.to_bytes(ALIGNED, "little"), text, ZEROS[: -length % ALIGNED],
        )  # fmt: skip
        return self._bytes[begin - room : BEFORE + size]


class Columns(NamedTuple):
    """Arrays of a payload: their descriptions for the text, and the padded buffers.

    If `record` is given, there is one buffer, which is the begin of its memory, and one text.
    """

    described: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()
    record: RecordBuffer | None = None

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
