"""Snapshots of a pipeline for the processes of Spark, over a socket of the driver.

A DataFrame of answers is read by a process that is not the driver's. It asks here twice: to plan,
which pins the epoch that the whole scan shows, and to read, which streams its answers as Arrow.
Whoever asks must know the secret of the pipeline, which is in the options of the DataFrame.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from hmac import compare_digest
from secrets import token_hex
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from time import monotonic
from typing import IO, Any

import pyarrow as pa

from triegs.errors import SnapshotExpired, StateError, TriegsError
from triegs.read.snapshot import Snapshot
from triegs.standing_query import StandingQuery

#: How long a scan may take.
LEASE_SECONDS = 600
KINDS = {pa.string(): "string", pa.int64(): "long"}


class Request(StreamRequestHandler):
    """One question, a line of JSON; the answer is a line of JSON, and Arrow behind it."""

    server: SnapshotServer

    def handle(self) -> None:
        try:
            asked = json.loads(self.rfile.readline())
            if not compare_digest(str(asked.get("secret")), self.server.secret):
                return
        except ValueError:
            return
        with suppress(ConnectionError):  # whoever asked has gone
            try:
                self.server.answer(asked, self.wfile)
            except TriegsError as problem:
                self.wfile.write(_line({"problem": str(problem)}))


class SnapshotServer(ThreadingTCPServer):
    """Gives snapshots of queries by name until `close`, in threads of its own."""

    daemon_threads = True

    def __init__(self, host: str, queries: Mapping[str, StandingQuery]) -> None:
        super().__init__((host, 0), Request)
        self._host = host
        self.secret = token_hex(16)
        self._queries = queries
        self._pinned: dict[str, tuple[Snapshot, float]] = {}  # with the end of its lease
        self._guard = Lock()
        Thread(target=self.serve_forever, name="snapshots", daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self._host}:{self.server_address[1]}"

    def answer(self, asked: Mapping[str, Any], out: Any) -> None:
        {"schema": self._describe, "plan": self._plan, "read": self._read}[asked["do"]](asked, out)

    def _describe(self, asked: Mapping[str, Any], out: Any) -> None:
        with self._find(asked["query"]).snapshot() as snapshot:
            out.write(_line({"columns": describe(shape(snapshot).schema)}))

    def _plan(self, asked: Mapping[str, Any], out: Any) -> None:
        lease = timedelta(seconds=LEASE_SECONDS)
        found = self._find(asked["query"]).snapshot(epoch=asked["as_of"], lease=lease)
        pin, now = token_hex(8), monotonic()
        with self._guard:
            for name in [name for name, (_, end) in self._pinned.items() if end < now]:
                del self._pinned[name]
            self._pinned[pin] = found, now + LEASE_SECONDS
        out.write(_line({"pin": pin, "epoch": found.epoch}))

    def _read(self, asked: Mapping[str, Any], out: Any) -> None:
        with self._guard:
            pinned = self._pinned.get(asked["pin"])
        if pinned is None:
            raise SnapshotExpired(f"this scan was planned more than {LEASE_SECONDS} s ago")
        reader = shape(pinned[0])
        out.write(_line({}))
        with pa.ipc.new_stream(out, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)

    def _find(self, name: str) -> StandingQuery:
        try:
            return self._queries[name]
        except KeyError:
            known = ", ".join(self._queries)
            raise StateError(f"there is no query {name!r}; the queries are {known}") from None

    def close(self) -> None:
        """Let all snapshots go."""
        self.shutdown()
        self.server_close()
        with self._guard:
            for snapshot, _ in self._pinned.values():
                snapshot.close()
            self._pinned.clear()


def shape(snapshot: Snapshot) -> pa.RecordBatchReader:
    """The answers as Spark takes them: texts, not dictionaries."""
    given = pa.RecordBatchReader.from_stream(snapshot)
    fields = [
        (field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in given.schema
    ]
    return given.cast(pa.schema(fields))


def describe(schema: pa.Schema) -> str:
    """The schema as Spark writes one."""
    return ", ".join(f"`{field.name}` {KINDS[field.type]}" for field in schema)


@contextmanager
def ask(address: str, secret: str, **asked: Any) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Ask a pipeline; its answer, and what comes behind it."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=600) as link:
        link.sendall(_line({"secret": secret, **asked}))
        with link.makefile("rb") as behind:
            line = behind.readline()
            if not line:
                raise StateError(f"the pipeline at {address} has ended, or is another one")
            told = json.loads(line)
            if "problem" in told:
                raise StateError(told["problem"])
            yield told, behind


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"
