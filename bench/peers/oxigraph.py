"""The peer: a triple store with a SPARQL engine, pyoxigraph in memory.

A slide is removals and one `extend`; the full result is one query, written as CSV by the engine
itself, which was no slower in trials than walking its solutions from Python. It offers no choice of
threads; it evaluates a query on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import pyarrow.csv as csv
import pyoxigraph

from bench.answers import Digest, Numbers, digest_columns
from bench.contest import Consumer
from triegs.workloads import Slide, Workload
from triegs.workloads.stream import NAMESPACE

NODE = "n:"


class Oxigraph:
    """A store with the edges of the window."""

    name: ClassVar[str] = "pyoxigraph"
    consumers: ClassVar = frozenset({Consumer.NONE, Consumer.COUNT, Consumer.FULL})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._store = pyoxigraph.Store()
        self._labels = {n: pyoxigraph.NamedNode(f"{NAMESPACE}{n}") for n in workload.labels}
        self._head = workload.head
        shown = " ".join(f"?{name}" for name in workload.head)
        body = workload.query[workload.query.index("WHERE") :]
        prefix = f"PREFIX : <{NAMESPACE}> "
        names = {name for atom in workload.atoms for name in (atom.subject, atom.object)}
        self._are_counted = names != set(workload.head)
        more, group = (" (COUNT(*) AS ?n)", f" GROUP BY {shown}") if self._are_counted else ("", "")
        self._select = f"{prefix}SELECT {shown}{more} {body}{group}"
        self._count = f"{prefix}SELECT (COUNT(*) AS ?n) {body}"
        self._store.bulk_extend(self._make_quads(load.insertions))

    def take(self, slide: Slide) -> None:
        for quad in self._make_quads(slide.deletions):
            self._store.remove(quad)
        self._store.extend(self._make_quads(slide.insertions))

    def read(self) -> bytes:
        found: Any = self._store.query(self._select)
        text: bytes = found.serialize(format=pyoxigraph.QueryResultsFormat.CSV)
        return text

    def count(self) -> int:
        (row,) = self._store.query(self._count)  # type: ignore[union-attr,misc]
        return int(row["n"].value)

    def take_changes(self, slide: Slide) -> Any:
        raise NotImplementedError

    def digest(self, rows: bytes) -> Digest:
        table = csv.read_csv(BytesIO(rows.replace(NODE.encode(), b"")))
        if not table.num_rows:
            return Digest(0, 0)
        columns = [table[name].to_numpy().astype(np.int64) for name in self._head]
        return digest_columns(columns, table["n"].to_numpy() if self._are_counted else None)

    def count_rows(self, rows: bytes) -> int:
        return rows.count(b"\n") - 1

    def _make_quads(self, edges: Mapping[str, tuple[Numbers, Numbers]]) -> list[pyoxigraph.Quad]:
        node, quad = pyoxigraph.NamedNode, pyoxigraph.Quad
        return [
            quad(node(f"{NODE}{subject}"), self._labels[label], node(f"{NODE}{obj}"))
            for label, (subjects, objects) in edges.items()
            for subject, obj in zip(subjects.tolist(), objects.tolist(), strict=True)
        ]
