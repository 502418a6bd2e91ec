"""The peer: the signed changes of a slide by hand-written SQL, in DuckDB on one thread.

A slide leaves edges that were *kept*, takes those that are *gone* and brings those that are *new*.
The answers lost are those over kept and gone with at least one gone edge: a term for each atom, in
which that atom's edge is gone, earlier ones are kept and later ones either. So it is for the
answers won. Each changed answer is in one term, so nothing has to be grouped.

A label is a table with the number of the slide that brought an edge; the statement is prepared once
with the numbers of the slide that goes and the one that comes. In trials this was a third faster
than scanning the window's columns from outside and planning anew.

Where the head hides part of a path, the ways that lead on are counted before and after, and a
change of that count is one more term; then the terms of an answer are summed.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from bench.answers import Digest, Numbers
from bench.contest import Consumer
from bench.peers.duckdb_sql import Database, digest_rows, shown_atoms, write_join, write_ways
from triegs.workloads import Slide, Workload

#: Which edges of a label: those of slides by number, $1 for the one that goes, $2 that comes.
GONE, NEW, KEPT = "t = $1", "t = $2", "t > $1 AND t < $2"
BEFORE, AFTER = "t < $2", "t > $1"


class DuckdbDelta:
    """The changes of one workload's answers, from a table for each label."""

    name: ClassVar[str] = "DuckDB delta SQL"
    consumers: ClassVar = frozenset({Consumer.CHANGES})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._head = workload.head
        self._labels = workload.labels
        self._database = Database()
        for label in workload.labels:
            self._database.do(f"CREATE TABLE {label} (s BIGINT, o BIGINT, t BIGINT)")
        # The load is many blocks, which go one by one; the last of them is slide 0.
        self._blocks = workload.window // workload.slide
        blocks = np.arange(1 - self._blocks, 1).repeat(workload.slide)
        self._insert(load, blocks)
        is_full = len(shown_atoms(workload)) == len(workload.atoms)
        sql = write_changes(workload) if is_full else write_summed_changes(workload)
        self._database.do(f"PREPARE changes AS {sql}")

    def take(self, slide: Slide) -> None:
        raise NotImplementedError

    def read(self) -> pa.Table:
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def take_changes(self, slide: Slide) -> pa.Table:
        gone, new = slide.number - self._blocks, slide.number
        self._database.do("BEGIN")
        self._insert(slide, new)
        rows = self._database.ask(f"EXECUTE changes({gone}, {new})")
        for label in self._labels:
            self._database.do(f"DELETE FROM {label} WHERE t = {gone}")
        self._database.do("COMMIT")
        return rows

    def _insert(self, slide: Slide, block: Numbers | int) -> None:
        chosen = slide.ops > 0
        columns = {"l": slide.labels, "s": slide.subjects, "o": slide.objects}
        found = {name: column[chosen] for name, column in columns.items()}
        self._database.show("slide", found | {"t": np.broadcast_to(block, chosen.sum())})
        for place, label in enumerate(self._labels):
            self._database.do(f"INSERT INTO {label} SELECT s, o, t FROM slide WHERE l = {place}")

    def digest(self, rows: pa.Table) -> Digest:
        return digest_rows(rows, self._head)

    def count_rows(self, rows: pa.Table) -> int:
        return int(rows.num_rows)


def write_changes(workload: Workload) -> str:
    labels = [atom.label for atom in shown_atoms(workload)]
    terms = []
    for sign, changed, rest in ((-1, GONE, BEFORE), (1, NEW, AFTER)):
        for turn in range(len(labels)):
            tables = [
                select(label, KEPT if place < turn else changed if place == turn else rest)
                for place, label in enumerate(labels)
            ]
            terms.append(write_join(workload, tables, sign))
    return " UNION ALL ".join(terms)


def write_summed_changes(workload: Workload) -> str:
    """Changed edges times the ways after, and edges that stood before times the change of ways."""
    head = ", ".join(workload.head)
    hidden = [a for a in workload.atoms if a not in shown_atoms(workload)]
    end = workload.head[-1]  # of a path that goes on
    parts = [
        f"{name} AS ({write_ways(workload, {a.label: select(a.label, side) for a in hidden})})"
        for name, side in (("ways_before", BEFORE), ("ways_after", AFTER))
    ]
    parts.append(
        "ways_change AS (SELECT s, sum(n)::BIGINT AS n FROM (SELECT s, n FROM ways_after "
        "UNION ALL SELECT s, -n FROM ways_before) GROUP BY s HAVING sum(n) <> 0)"
    )
    labels = [atom.label for atom in shown_atoms(workload)]
    standing = write_join(workload, [select(label, BEFORE) for label in labels])
    changed = write_changes(workload)
    terms = [
        f"SELECT {head}, change * n AS change FROM ({changed}) JOIN ways_after ON {end} = s",
        f"SELECT {head}, n AS change FROM ({standing}) JOIN ways_change ON {end} = s",
    ]
    return (
        f"WITH {', '.join(parts)} SELECT {head}, sum(change)::BIGINT AS change "
        f"FROM ({' UNION ALL '.join(terms)}) GROUP BY {head} HAVING sum(change) <> 0"
    )


def select(label: str, which: str) -> str:
    return f"(SELECT s, o FROM {label} WHERE {which})"
