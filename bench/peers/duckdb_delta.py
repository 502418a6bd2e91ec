"""The peer: the signed changes of a slide by hand-written SQL, in DuckDB on one thread.

A slide leaves edges that were *kept*, takes those that are *gone* and brings those that are *new*.
The answers lost are those over kept and gone with at least one gone edge: a term for each atom, in
which that atom's edge is gone, earlier ones are kept and later ones either. So it is for the
answers won. Each changed answer is in one term, so nothing has to be grouped.

Where the head hides part of a path, the ways that lead on are counted before and after, and a
change of that count is one more term; then the terms of an answer are summed.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from bench.answers import Digest
from bench.contest import Consumer
from bench.peers.duckdb_sql import Database, digest_rows, shown_atoms, write_join, write_ways
from bench.window import Window
from triegs.workloads import Slide, Workload

GONE, NEW, KEPT, BEFORE, AFTER = "gone", "new", "kept", "before", "after"


class DuckdbDelta:
    """The changes of one workload's answers from its window before and after a slide."""

    name: ClassVar[str] = "DuckDB delta SQL"
    consumers: ClassVar = frozenset({Consumer.CHANGES})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:  # noqa: ARG002
        self._head = workload.head
        self._labels = workload.labels
        self._database = Database()
        self._window = Window(workload)
        atoms = shown_atoms(workload)
        if len(atoms) == len(workload.atoms):
            self._sql = write_changes(workload)
        else:
            self._sql = write_summed_changes(workload)
        self.take(load)

    def take(self, slide: Slide) -> None:
        self._window.apply(slide)

    def read(self) -> pa.Table:
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def take_changes(self, slide: Slide) -> pa.Table:
        before = self._window.edges
        self._window.apply(slide)
        after = self._window.edges
        for label in self._labels:
            gone, new = slide.deletions[label], slide.insertions[label]
            subjects, objects = after[label]
            kept = len(subjects) - len(new[0])
            self._database.show(
                {
                    f"{label}_{GONE}": gone,
                    f"{label}_{NEW}": new,
                    f"{label}_{KEPT}": (subjects[:kept], objects[:kept]),
                    f"{label}_{BEFORE}": before[label],
                    f"{label}_{AFTER}": after[label],
                }
            )
        return self._database.ask(self._sql)

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
                f"{label}_{KEPT if place < turn else changed if place == turn else rest}"
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
        f"{name} AS ({write_ways(workload, {a.label: f'{a.label}_{side}' for a in hidden})})"
        for name, side in (("ways_before", BEFORE), ("ways_after", AFTER))
    ]
    parts.append(
        "ways_change AS (SELECT s, sum(n)::BIGINT AS n FROM (SELECT s, n FROM ways_after "
        "UNION ALL SELECT s, -n FROM ways_before) GROUP BY s HAVING sum(n) <> 0)"
    )
    labels = [atom.label for atom in shown_atoms(workload)]
    standing = write_join(workload, [f"{label}_{BEFORE}" for label in labels])
    changed = write_changes(workload)
    terms = [
        f"SELECT {head}, j.change * w.n AS change FROM ({changed}) j JOIN ways_after w ON {end} = s",
        f"SELECT {head}, w.n AS change FROM ({standing}) j JOIN ways_change w ON {end} = s",
    ]
    return (
        f"WITH {', '.join(parts)} SELECT {head}, sum(change)::BIGINT AS change "
        f"FROM ({' UNION ALL '.join(terms)}) GROUP BY {head} HAVING sum(change) <> 0"
    )
