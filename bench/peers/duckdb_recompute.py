"""The peer: the whole window joined again on each slide, in DuckDB on one thread.

The window's columns are scanned where they lie: in trials that was as fast as tables of its own,
which also have to be inserted into and deleted from. A count alone lists nothing: DuckDB is told
to group along the tree of atoms, as the Polars peer is.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from bench.answers import Digest
from bench.contest import Consumer
from bench.peers.duckdb_sql import (
    Database,
    digest_rows,
    shown_atoms,
    write_grouped,
    write_join,
    write_ways,
)
from bench.window import Window
from triegs.workloads import Slide, Workload


class DuckdbRecompute:
    """Answers of one workload from its window as it stands."""

    name: ClassVar[str] = "DuckDB again"
    consumers: ClassVar = frozenset({Consumer.NONE, Consumer.COUNT, Consumer.FULL})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._head = workload.head
        self._database = Database()
        self._window = Window(workload)
        self._join = write_full(workload)
        self._count = write_count(workload)
        self.take(load)

    def take(self, slide: Slide) -> None:
        self._window.apply(slide)

    def read(self) -> pa.Table:
        self._show()
        return self._database.ask(self._join)

    def count(self) -> int:
        self._show()
        found = self._database.ask(self._count)["n"][0].as_py()
        return 0 if found is None else int(found)

    def take_changes(self, slide: Slide) -> Any:
        raise NotImplementedError

    def digest(self, rows: pa.Table) -> Digest:
        return digest_rows(rows, self._head)

    def count_rows(self, rows: pa.Table) -> int:
        return int(rows.num_rows)

    def _show(self) -> None:
        for label, (subjects, objects) in self._window.edges.items():
            self._database.show(label, {"s": subjects, "o": objects})


def write_full(workload: Workload) -> str:
    shown = shown_atoms(workload)
    if {name for atom in shown for name in atom[1:]} != set(workload.head):
        return write_grouped(workload)
    join = write_join(workload, [atom.label for atom in shown])
    ways = write_ways(workload, {label: label for label in workload.labels})
    if ways is None:
        return join
    end = workload.head[-1]  # of a path that goes on
    return f"SELECT j.*, w.n FROM ({join}) j JOIN ({ways}) w ON j.{end} = w.s"


def write_count(workload: Workload) -> str:
    """The total, by grouping from the leaves to one variable; a plain count for a cycle."""
    atoms = workload.atoms
    names = [name for atom in atoms for name in (atom.subject, atom.object)]
    if len(set(names)) != len(atoms) + 1:
        return f"SELECT count(*) AS n FROM ({write_join(workload, [a.label for a in atoms])})"

    def below(name: str, came_by: int) -> str | None:
        factors = []
        for place, atom in enumerate(atoms):
            if place == came_by or name not in (atom.subject, atom.object):
                continue
            here, there, other = "s", "o", atom.object
            if name == atom.object:
                here, there, other = "o", "s", atom.subject
            inner = below(other, place)
            if inner is None:
                sql = f"SELECT {here} AS v, count(*) AS n FROM {atom.label} GROUP BY {here}"
            else:
                sql = (
                    f"SELECT e.{here} AS v, sum(b.n)::BIGINT AS n FROM {atom.label} e "
                    f"JOIN ({inner}) b ON e.{there} = b.v GROUP BY e.{here}"
                )
            factors.append(f"({sql}) f{place}")
        if not factors:
            return None
        aliases = [factor.rsplit(" ", 1)[1] for factor in factors]
        tables = factors[0] + "".join(f" JOIN {factor} USING (v)" for factor in factors[1:])
        return f"SELECT v, {' * '.join(f'{alias}.n' for alias in aliases)} AS n FROM {tables}"

    centre = max(dict.fromkeys(names), key=names.count)
    return f"SELECT sum(n)::BIGINT AS n FROM ({below(centre, -1)})"
