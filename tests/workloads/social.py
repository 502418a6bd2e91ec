"""The eleven window queries of the social network, and what others than the engine answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyoxigraph as ox

from triegs import workloads
from triegs.testing import oracle

SOCIAL = workloads.get("social")
WIDTH_MS, SLIDE_MS = 10_000, 5_000
NAMES = ("time", "op", "subject", "predicate", "object", "id")

Answers = dict[tuple[str | None, ...], int]
Counts = Counter[oracle.Triple]


def read_events(size: int, rate: float) -> pa.Table:
    """So many events, this many of them in a second; where there are few, members are, too."""
    return pa.Table.from_batches(SOCIAL.events(size, rate=rate)).combine_chunks()


def hold_windows(table: pa.Table) -> Iterator[tuple[int, Counts]]:
    """What each slide holds with the static graph, from scratch: the inserts of its time that were
    not deleted, by their ids, by then.
    """
    rows = list(zip(*(table[name].to_pylist() for name in NAMES), strict=True))
    ends = {name: time for time, op, *_, name in rows if op < 0}
    first, last = (-(-rows[place][0] // SLIDE_MS) * SLIDE_MS for place in (0, -1))
    for slide in range(first, last + 1, SLIDE_MS):
        held = Counter(SOCIAL.static)
        held.update(
            (s, p, o)
            for time, op, s, p, o, name in rows
            if op > 0 and slide - WIDTH_MS < time <= slide < ends.get(name, slide + 1)
        )
        yield slide, held


class Oracle:
    """The oracle, hastened: it gets what has the labels of the query, and atoms in an order in
    which each meets the ones before it. Neither changes an answer.
    """

    def __init__(self, text: str) -> None:
        self.question = oracle.read_query(text)
        waiting = list(self.question.atoms)
        self.labels = {predicate.n3() for _, predicate, _ in waiting}
        known = set(waiting[0])
        self.question.atoms = []
        while waiting:
            atom = max(waiting, key=lambda atom: len(known.intersection(atom)))
            known.update(atom)
            waiting.remove(atom)
            self.question.atoms.append(atom)

    def answer(self, held: Counts) -> dict[str, Answers]:
        """By mode; where every count is 1, both are the same."""
        graph = {triple: n for triple, n in held.items() if triple[1] in self.labels}
        found = oracle.answers(self.question, graph, "multigraph")
        is_set = max(graph.values(), default=1) == 1
        return {
            "multigraph": found,
            "rdf": found if is_set else oracle.answers(self.question, graph, "rdf"),
        }


ORACLES = {name: Oracle(text) for name, text in SOCIAL.queries.items()}


def load_store(held: Counts) -> ox.Store:
    """The graph in pyoxigraph, where a triple is there or not."""
    store = ox.Store()
    lines = "".join(f"{' '.join(triple)} .\n" for triple in held)
    store.load(lines.encode(), ox.RdfFormat.N_TRIPLES)
    return store


def ask_store(store: ox.Store, text: str) -> Answers:
    """The answers of pyoxigraph, a row for each match."""
    found = store.query(text)
    assert isinstance(found, ox.QuerySolutions)
    return dict(Counter(tuple(str(term) for term in solution) for solution in found))
