"""RDFS over one window with other reasoners, which derive it from nothing: shown, without a goal,
because neither keeps a closure.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from time import process_time
from typing import Any

import pyarrow as pa

from bench.report import Figure
from bench.timing import Samples
from triegs import Engine
from triegs.workloads import get

TABLE = "RDFS of one window"
TIMES = 3


def measure_peers(events: pa.Table) -> Iterator[Figure]:
    """Seconds to derive the closure of these events and the schema, once loaded."""
    schema = get("university").static_table()
    facts = pa.concat_tables([schema, events.select(schema.column_names).cast(schema.schema)])
    table = facts.append_column("op", pa.array(["+"] * len(facts)))
    samples = Samples(process_time)
    for _ in range(TIMES):
        with Engine(rules="rdfs") as engine:
            samples.time(engine.apply, table)
    yield Figure("triegs, with terms and graph", "ms", samples.middle * 1e3, table=TABLE)
    if find_spec("rdflib") is None:
        return
    import rdflib

    text = "\n".join(f"{s} {p} {o} ." for s, p, o in zip(*facts.to_pydict().values(), strict=True))
    graph = rdflib.Graph().parse(data=text, format="nt")
    if find_spec("reasonable") is not None:
        reasonable: Any = import_module("reasonable")  # it has no types

        samples = Samples(process_time)
        for _ in range(TIMES):
            reasoner = reasonable.PyReasoner()
            reasoner.from_graph(graph)
            samples.time(reasoner.reason)
        yield Figure("reasonable, OWL RL", "ms", samples.middle * 1e3, table=TABLE)
    if find_spec("owlrl") is not None:
        owlrl: Any = import_module("owlrl")

        samples = Samples(process_time)
        samples.time(owlrl.DeductiveClosure(owlrl.RDFS_Semantics).expand, graph)
        yield Figure("owlrl, RDFS", "ms", samples.middle * 1e3, table=TABLE)
