"""One update per epoch: `Engine.apply` of a list of one tuple, with integers and with strings."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

from bench.answers import Digest, Numbers, check, digest_columns, imply_digest
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed, apply_table, read_table
from bench.timing import Samples, take_turns
from triegs.workloads import Slide, path3

#: Microseconds: the median and the 99th of a hundred.
GOALS = {"strings": (8.0, 35.0), "integers": (6.0, 30.0)}
PREFIX, SUFFIX = "<http://ex/node/", ">"
Update = tuple[str, object, str, object]


class _NamedBed(Bed):
    """The same stream with a name for each node."""

    def load(self) -> Bed:
        table = self._load.table
        for place, name in enumerate(table.column_names):
            if name in ("subject", "object"):
                table = table.set_column(place, name, _name_nodes(table[name]))
        apply_table(self.engine, table)
        self.window.apply(self._load)
        return self

    def digest(self) -> Digest:
        with self.query.snapshot() as snapshot:
            table = read_table(snapshot, "ntriples")
        *columns, counts = table.combine_chunks().columns
        return digest_columns([_read_nodes(column) for column in columns], counts.to_numpy())


def measure_single(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    beds = {"strings": _NamedBed(workload).load(), "integers": Bed(workload).load()}
    samples = {kind: Samples() for kind in beds}
    for turn in take_turns(settings.seconds):
        bench.say("single updates")
        for kind, bed in beds.items():
            (slide,) = bed.draw(1)
            updates = list_updates(slide, kind == "strings")
            gc.collect()
            gc.freeze()  # what the benchmark itself keeps is no work for the collector
            _apply_each(bed, updates, samples[kind] if turn else Samples())
            gc.unfreeze()
            bed.window.apply(slide)
    for kind, bed in beds.items():
        expected = imply_digest(workload.atoms, workload.head, bed.window.edges)
        check(bed.digest(), expected, f"single updates, {kind}")
        middle, tail = GOALS[kind]
        found = samples[kind]
        yield Figure(kind, "median µs", 1e6 * found.middle, "", middle, Sense.AT_MOST)
        yield Figure(kind, "p99 µs", 1e6 * found.percentile(0.99), "", tail, Sense.AT_MOST)
        yield Figure(kind, "updates", len(found.seconds))


def list_updates(slide: Slide, are_named: bool) -> list[Update]:
    """The rows of a slide as tuples, deletions and insertions in turn."""
    table = slide.table
    ends = [table["subject"], table["object"]]
    subjects, objects = (
        (_name_nodes(end) if are_named else end).to_pylist() for end in ends
    )  # fmt: skip
    signs = ["+" if op > 0 else "-" for op in slide.ops.tolist()]
    rows = list(zip(signs, subjects, table["predicate"].to_pylist(), objects, strict=True))
    half = len(rows) // 2
    return [row for pair in zip(rows[:half], rows[half:], strict=True) for row in pair]


def _apply_each(bed: Bed, updates: list[Update], samples: Samples) -> None:
    apply, note = bed.engine.apply, samples.seconds.append
    for update in updates:  # no call between the clock and the engine: each would show
        start = perf_counter()
        apply([update])
        note(perf_counter() - start)


def _name_nodes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(PREFIX, column.cast(pa.string()), SUFFIX, "")


def _read_nodes(column: pa.ChunkedArray) -> Numbers:
    column = column.combine_chunks()
    texts = pc.utf8_slice_codeunits(column.dictionary, len(PREFIX), -len(SUFFIX))
    nodes: Numbers = texts.cast(pa.int64()).to_numpy()[column.indices.to_numpy()]
    return nodes
