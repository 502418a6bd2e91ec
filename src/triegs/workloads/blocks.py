"""The block workloads as timed streams: one edge per tick, no deletes.

Edge i has time i, counted from 1. So a window of as many milliseconds as the block workload has
edges holds the same edges at the end of each slide, and so does a window that counts events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from triegs.workloads.draw import Numbers
from triegs.workloads.rows import Rows, number_inserts
from triegs.workloads.stream import NAMESPACE, Workload, name_iri
from triegs.workloads.timed import Clock, TimedWorkload, WindowQuery

if TYPE_CHECKING:
    import pyarrow as pa


def spell_node(codes: Numbers) -> pa.Array:
    """
    >>> spell_node(np.array([7, 1000000])).to_pylist()
    ['<http://ex/n7>', '<http://ex/n1000000>']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.array(codes).cast(pa.string())
    return pc.binary_join_element_wise(f"<{NAMESPACE}n", texts, ">", "")


def make_timed(
    make: Callable[..., Workload], name: str, meaning: str, skew: str, plan_class: str
) -> TimedWorkload:
    """A block workload as a timed one, with its default window unless specified."""
    workload = make()

    def draw(seed: int, clock: Clock) -> Iterator[Rows]:
        done = 0
        for slide in make(seed=seed).slides():
            new = slide.ops > 0
            times = clock.tick(done + np.arange(int(np.count_nonzero(new))))
            yield number_inserts(
                done + 1, times, slide.subjects[new], slide.labels[new], slide.objects[new]
            )
            done += len(times)

    query = WindowQuery(
        name,
        meaning[0].upper() + meaning[1:] + ".",
        workload.query,
        plan_class,
        f"{workload.window // 1000}s",
        f"{workload.slide // 1000}s",
    )
    return TimedWorkload(
        name=name,
        meaning=meaning,
        skew=skew,
        asked=(query,),
        draw=draw,
        predicates=tuple(map(name_iri, workload.labels)),
        spell=spell_node,
        prefixes={"": NAMESPACE},
        has_integers=True,
    )
