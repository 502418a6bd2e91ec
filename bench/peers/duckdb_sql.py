"""What both DuckDB peers share: a connection on one thread, and SQL for a workload's joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from bench.answers import Digest, Numbers, digest_columns
from bench.subject import to_numbers
from triegs.workloads import Atom, Workload


class Database:
    """Tables, of its own or scanned where they lie, and questions about them."""

    def __init__(self) -> None:
        self._connection: Any = duckdb.connect()
        self._connection.execute("SET threads = 1")

    def do(self, sql: str) -> None:
        self._connection.execute(sql)

    def show(self, name: str, columns: Mapping[str, Numbers]) -> None:
        """Let a table be seen by that name; nothing is copied."""
        self._connection.register(name, pa.table(dict(columns)))

    def ask(self, sql: str) -> pa.Table:
        return self._connection.sql(sql).to_arrow_table()


def write_join(workload: Workload, tables: Sequence[str], sign: int | None = None) -> str:
    """A SELECT of all that the head shows, over one table for each shown atom.

    The order of joins is left to DuckDB.
    """
    columns: dict[str, str] = {}
    conditions = []
    for place, atom in enumerate(shown_atoms(workload)):
        for end, name in (("s", atom.subject), ("o", atom.object)):
            here = f"t{place}.{end}"
            if columns.setdefault(name, here) != here:
                conditions.append(f"{here} = {columns[name]}")
    sources = ", ".join(f"{table} t{place}" for place, table in enumerate(tables))
    shown = ", ".join(f"{columns[name]} AS {name}" for name in workload.head)
    last = "" if sign is None else f", {sign}::BIGINT AS change"
    return f"SELECT {shown}{last} FROM {sources} WHERE {' AND '.join(conditions)}"


def write_grouped(workload: Workload) -> str:
    """A SELECT of the head and a count over all atoms, where the head hides an inner variable."""
    names = tuple(dict.fromkeys(name for atom in workload.atoms for name in atom[1:]))
    joined = write_join(replace(workload, head=names), [atom.label for atom in workload.atoms])
    head = ", ".join(workload.head)
    return f"SELECT {head}, count(*) AS n FROM ({joined}) GROUP BY {head}"


def shown_atoms(workload: Workload) -> list[Atom]:
    return [a for a in workload.atoms if a.subject in workload.head and a.object in workload.head]


def write_ways(workload: Workload, table_of: Mapping[str, str]) -> str | None:
    """How many ways lead on from each last shown node of a path; None if all is shown.

    Counting edge by edge from the far end keeps each step as small as one label.
    """
    hidden = workload.atoms[len(shown_atoms(workload)) :]
    if not hidden:
        return None
    sql = f"SELECT s, count(*) AS n FROM {table_of[hidden[-1].label]} GROUP BY s"
    for atom in reversed(hidden[:-1]):
        table = table_of[atom.label]
        sql = f"SELECT e.s, sum(w.n) AS n FROM {table} e JOIN ({sql}) w ON e.o = w.s GROUP BY e.s"
    return f"SELECT s, n::BIGINT AS n FROM ({sql})"


def digest_rows(table: pa.Table, head: Sequence[str]) -> Digest:
    columns = [to_numbers(table[name]) for name in head]
    counts = [name for name in table.column_names if name in ("n", "change")]
    if not table.num_rows:
        return Digest(0, 0)
    return digest_columns(columns, to_numbers(table[counts[0]]) if counts else None)
