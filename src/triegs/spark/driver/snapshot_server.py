"""Serves snapshots of a pipeline to Spark's processes over a socket of the driver.

A process of Spark that reads a DataFrame of answers connects here, and receives the answers of one
epoch as an Arrow stream. It must send the pipeline's secret, which is among the options of the
DataFrame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hmac import compare_digest
from secrets import token_hex
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pyarrow as pa

from triegs.engine.standing_query import StandingQuery
from triegs.errors import StateError, TriegsError
from triegs.read.snapshot import Snapshot
from triegs.spark.driver.snapshot_client import write_line
from triegs.spark.mapped import name_terms

#: Spark's names of the answer types.
KINDS = {pa.string(): "string", pa.int64(): "long"}


class RequestHandler(StreamRequestHandler):
    """One request as a line of JSON; the response is a line of JSON followed by Arrow."""

    server: SnapshotServer

    def handle(self) -> None:
        try:
            request = json.loads(self.rfile.readline())
            if not compare_digest(str(request.get("secret")), self.server.secret):
                return
        except ValueError:
            return
        with suppress(ConnectionError):  # the client has gone
            try:
                self.server.answer(request, self.wfile)
            except TriegsError as problem:
                self.wfile.write(write_line({"problem": str(problem)}))


class SnapshotServer(ThreadingTCPServer):
    """Serves the answers of queries by name until `close`, in its own threads."""

    daemon_threads = True

    def __init__(self, host: str, queries: Mapping[str, StandingQuery], base: str = "") -> None:
        super().__init__((host, 0), RequestHandler)
        self._base = base  # removed from IRIs; empty if answers are terms
        self._host = host
        self.secret = token_hex(16)
        self._queries = queries
        Thread(target=self.serve_forever, name="snapshots", daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self._host}:{self.server_address[1]}"

    def answer(self, request: Mapping[str, Any], out: Any) -> None:
        """Send the columns of a query, or all its answers."""
        name = request["query"]
        if name not in self._queries:
            known = ", ".join(self._queries)
            raise StateError(f"there is no query {name!r}; the queries are {known}")
        with self._queries[name].snapshot(epoch=request["as_of"]) as snapshot:
            reader = shape_answers(snapshot)
            columns = ", ".join(f"`{field.name}` {KINDS[field.type]}" for field in reader.schema)
            out.write(write_line({"columns": columns, "epoch": snapshot.epoch}))
            if request["do"] == "read":
                with pa.ipc.new_stream(out, reader.schema) as writer:
                    for batch in reader:
                        named = name_terms(pa.Table.from_batches([batch]), self._base)
                        writer.write_table(named)

    def close(self) -> None:
        """Accept no more requests."""
        self.shutdown()
        self.server_close()


def shape_answers(snapshot: Snapshot) -> pa.RecordBatchReader:
    """The answers as Spark accepts them: strings, not dictionaries."""
    given = pa.RecordBatchReader.from_stream(snapshot)
    fields = [
        (field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in given.schema
    ]
    return given.cast(pa.schema(fields))
