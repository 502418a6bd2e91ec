"""The fracture hunt: readers look for a moment that never was, while one unit after another moves.

Every epoch takes units from one label and gives them to another, with deletions, self-joins, and
batches of both kinds (few and many updates). Sums over the two labels are constant: within one
query, and over two queries that are read at the same epoch.
"""

from __future__ import annotations

import os
from random import Random
from threading import Event, Thread
from time import monotonic

import pyarrow as pa

from triegs.engine import Engine

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# A hunt lasts a while by nature; no verdict depends on how long.
SECONDS = 60.0 if SOAK else 4.0
READERS = 4
UNITS = 60

#: All units, each on the left or on the right, at its own holder.
LEFT = "SELECT ?unit ?holder { ?unit <left> ?holder }"
RIGHT = "SELECT ?unit ?holder { ?unit <right> ?holder }"
#: Each unit meets itself: left or right, one way or the other, of a pair that always holds.
PATHS = "SELECT ?unit ?at ?far { ?unit <at> ?at . ?at <next> ?far }"
SELF = "SELECT ?unit { ?unit <at> ?x . ?unit <at> ?y }"


def write_ipc(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def total_rows(snapshot):
    return sum(answer.multiplicity for answer in snapshot)


def total_batches(snapshot):
    return sum(
        sum(batch.column(batch.num_columns - 1).to_pylist()) for batch in snapshot.batches(16)
    )


def total_count(snapshot):
    return snapshot.count()


TOTALS = [total_rows, total_batches, total_count]


class Hunt:
    def __init__(self, engine):
        self.engine = engine
        self.random = Random(1)
        self.stop = Event()
        self.faults: list[str] = []
        self.reads = [0] * READERS
        self.matched = 0
        self.queries = {text: engine.register(text) for text in (LEFT, RIGHT, PATHS, SELF)}
        self.sides = ["<left>"] * UNITS
        self.places = [0] * UNITS
        begin = [("+", f"<u{i}>", "<left>", f"<h{i % 7}>") for i in range(UNITS)]
        begin += [("+", f"<u{i}>", "<at>", "<b0>") for i in range(UNITS)]
        begin += [("+", f"<b{i}>", "<next>", f"<f{i}_{j}>") for i in range(9) for j in range(3)]
        engine.apply(begin)

    def move(self, unit):
        """One unit changes its side, and another place."""
        random, old, place = self.random, self.sides[unit], self.places[unit]
        new = "<right>" if old == "<left>" else "<left>"
        self.sides[unit], self.places[unit] = new, random.randrange(9)
        batch = [
            ("-", f"<u{unit}>", old, f"<h{unit % 7}>"), ("+", f"<u{unit}>", new, f"<h{unit % 7}>"),
            ("-", f"<u{unit}>", "<at>", f"<b{place}>"),
            ("+", f"<u{unit}>", "<at>", f"<b{self.places[unit]}>"),
        ]  # fmt: skip
        random.shuffle(batch)
        if place == self.places[unit] or random.random() < 0.5:
            batch.sort()  # "+" first: a deletion finds its event
        else:
            batch.sort(reverse=True)
        return batch

    def update(self):
        size = self.random.choice([1, 1, 2, 30])
        units = self.random.sample(range(UNITS), size)
        report = self.engine.apply([update for unit in units for update in self.move(unit)])
        assert report.refused == ()

    def read(self, reader):
        """What each query must show by itself, and both sides together."""
        random = Random(reader)
        while not self.stop.is_set() or not self.reads[reader]:
            total = random.choice(TOTALS)
            left, right = (self.queries[text].snapshot() for text in (LEFT, RIGHT))
            if left.epoch == right.epoch:
                self.matched += 1
                if total(left) + total(right) != UNITS:
                    self.faults.append(f"{UNITS} units are not at epoch {left.epoch}")
                units = [answer.unit for snapshot in (left, right) for answer in snapshot]
                if len(set(units)) != UNITS:
                    self.faults.append(f"a unit is twice at epoch {left.epoch}")
            left.close()
            right.close()
            for text, expected in ((PATHS, 3 * UNITS), (SELF, UNITS)):
                with self.queries[text].snapshot() as snapshot:
                    found = total(snapshot), random.choice(TOTALS)(snapshot)
                    if found != (expected, expected):
                        self.faults.append(f"{found} of {text} at epoch {snapshot.epoch}")
            self.reads[reader] += 1


def test_no_reader_sees_a_state_that_never_existed():
    hunt = Hunt(Engine())
    hunt.update()
    pinned = [query.snapshot() for query in hunt.queries.values()]
    at_start = [write_ipc(snapshot.to_arrow()) for snapshot in pinned]
    threads = [Thread(target=hunt.read, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    end = monotonic() + SECONDS
    epochs = 0
    try:
        while monotonic() < end or not all(hunt.reads) or not hunt.matched:
            hunt.update()
            epochs += 1
            if epochs % 500 == 0:  # views are shared anew, and dropped, beside the readers
                hunt.engine.register(
                    "SELECT ?far ?unit { ?unit <at> ?at . ?at <next> ?far }"
                ).close()
    finally:
        hunt.stop.set()
        for thread in threads:
            thread.join()
    assert hunt.faults == []
    assert [write_ipc(snapshot.to_arrow()) for snapshot in pinned] == at_start
    assert hunt.engine.metrics()["retained_bytes"] > 0
    for snapshot in pinned:
        snapshot.close()
    assert hunt.engine.metrics()["retained_bytes"] == 0
    assert hunt.engine._store.held() == []
    hunt.engine._store.check()
    hunt.engine.apply([])
    hunt.engine._dictionary.check()
