"""Snapshots of a pipeline for the processes of Spark, over a socket of the driver.

A DataFrame of answers is read by a process that is not the driver's: it asks here, and gets the
answers of one epoch as a stream of Arrow. Whoever asks must know the secret of the pipeline, which
is in the options of the DataFrame.
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
from triegs.spark.asking import write_line
from triegs.spark.mapped import name_terms

#: How Spark writes the types of answers.
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
                self.wfile.write(write_line({"problem": str(problem)}))


class SnapshotServer(ThreadingTCPServer):
    """Gives the answers of queries by name until `close`, in threads of its own."""

    daemon_threads = True

    def __init__(self, host: str, queries: Mapping[str, StandingQuery], base: str = "") -> None:
        super().__init__((host, 0), Request)
        self._base = base  # of answers that have names instead of terms
        self._host = host
        self.secret = token_hex(16)
        self._queries = queries
        Thread(target=self.serve_forever, name="snapshots", daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self._host}:{self.server_address[1]}"

    def answer(self, asked: Mapping[str, Any], out: Any) -> None:
        """The columns of a query, or all its answers."""
        name = asked["query"]
        if name not in self._queries:
            known = ", ".join(self._queries)
            raise StateError(f"there is no query {name!r}; the queries are {known}")
        with self._queries[name].snapshot(epoch=asked["as_of"]) as snapshot:
            reader = shape(snapshot)
            columns = ", ".join(f"`{field.name}` {KINDS[field.type]}" for field in reader.schema)
            out.write(write_line({"columns": columns, "epoch": snapshot.epoch}))
            if asked["do"] == "read":
                with pa.ipc.new_stream(out, reader.schema) as writer:
                    for batch in reader:
                        named = name_terms(pa.Table.from_batches([batch]), self._base)
                        writer.write_table(named)

    def close(self) -> None:
        """Take no more questions."""
        self.shutdown()
        self.server_close()


def shape(snapshot: Snapshot) -> pa.RecordBatchReader:
    """The answers as Spark takes them: texts, not dictionaries."""
    given = pa.RecordBatchReader.from_stream(snapshot)
    fields = [
        (field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in given.schema
    ]
    return given.cast(pa.schema(fields))
