"""Bodies of requests, within limits of size and time."""

from __future__ import annotations

import asyncio
import zlib

from starlette.requests import Request

from triegs.server.budget import Share
from triegs.server.problems import Problem

CHUNK = 1 << 18


async def read_body(request: Request, limit: int, seconds: float, share: Share | None) -> bytes:
    """The body as it was sent, compressed or not.

    `Problem` 413 if it is larger than `limit`, 408 if it takes longer than `seconds`, and 429 if
    the queue has no room for it.
    """
    length = request.headers.get("content-length")
    if length is not None and length.isdecimal() and int(length) > limit:
        raise refuse_size(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise refuse_size(limit)
                if share is not None:
                    share.take(size)
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            408, "the body is too slow", f"it must arrive within {seconds:g} seconds"
        ) from None
    return b"".join(chunks)


def unpack_body(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its ``Content-Encoding``; never more than `limit` bytes are unpacked.

    >>> import gzip
    >>> unpack_body(gzip.compress(b"a" * 100), "gzip", 100) == b"a" * 100
    True
    >>> unpack_body(gzip.compress(b"a" * 101), "gzip", 100)
    Traceback (most recent call last):
    triegs.server.problems.Problem: a body may have 100 bytes, also when it is decompressed
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise Problem(
            415, "unknown content encoding", f"{encoding!r} is not supported; use gzip",
            headers={"Accept-Encoding": "gzip"},
        )  # fmt: skip
    found = bytearray()
    unpacker = zlib.decompressobj(wbits=31)
    packed = body
    try:
        while True:
            chunk = unpacker.decompress(packed, min(CHUNK, limit + 1 - len(found)))
            found += chunk
            if len(found) > limit:
                raise refuse_size(limit)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed = unpacker.unused_data
                if not packed:
                    break
                unpacker = zlib.decompressobj(wbits=31)
            elif not packed and not chunk:
                raise Problem(400, "the body is not valid gzip", "its end is missing")
    except zlib.error:
        raise Problem(400, "the body is not valid gzip") from None
    return bytes(found)


def refuse_size(limit: int) -> Problem:
    return Problem(
        413, "the body is too large",
        f"a body may have {limit:,} bytes, also when it is decompressed",
    )  # fmt: skip
