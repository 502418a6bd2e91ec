"""Rows of a table to triples: how many a second, and what the mapping adds to taking them in.

``python -m bench.micro.mapping [rows]``
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
import pyarrow as pa

from triegs import Engine, Window
from triegs.events.mapping import parse_mapping
from triegs.events.mapping.rows import map_rows

MAPPINGS = {
    "one triple": "{from} :paid {to}",
    "three triples": "{from} :paid {to} ; :sent {amount:decimal} ; :by :{channel}",
    "node of the row": "[] :from {from} ; :to {to} ; :amount {amount:decimal}",
    "joined cells": "<http://x/{from}/{to}> :amount {amount:decimal}",
}
TURNS = 5


def draw_payments(rows: int, names: int) -> pa.Table:
    random = np.random.default_rng(7)
    people = pa.array([f"account {number}" for number in range(names)])
    return pa.table({
        "ts": pa.array(np.arange(rows)),
        "from": people.take(pa.array(random.integers(0, names, rows))),
        "to": people.take(pa.array(random.integers(0, names, rows))),
        "amount": pa.array([f"{value:.2f}" for value in random.random(rows) * 1000]),
        "channel": pa.array(["card", "wire", "cash"]).take(pa.array(random.integers(0, 3, rows))),
    })  # fmt: skip


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    sys.stdout.write(f"{'mapping':18}{'names':>10}{'triples/s':>14}\n")
    for names in (1_000, rows // 2):
        table = draw_payments(rows, names)
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        nodes = pa.array([f"_:row{number}" for number in range(rows)])
        for title, text in MAPPINGS.items():
            mapping = parse_mapping(text)
            seconds = []
            for _ in range(TURNS):
                start = perf_counter()
                map_rows(mapping, columns, rows, nodes, np.ones(rows, np.bool_))
                seconds.append(perf_counter() - start)
            rate = rows * len(mapping.templates) / sorted(seconds)[TURNS // 2]
            sys.stdout.write(f"{title:18}{names:>10,}{rate:>14,.0f}\n")
        engine = Engine(window=Window("1h", slide="1h"))
        start = perf_counter()
        engine.push(table, map=MAPPINGS["one triple"], columns={"time": "ts"})
        rate = rows / (perf_counter() - start)
        sys.stdout.write(f"{'push, one triple':18}{names:>10,}{rate:>14,.0f}\n")


if __name__ == "__main__":
    main()
