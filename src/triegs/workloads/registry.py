"""All timed workloads by name."""

from __future__ import annotations

from triegs.workloads import shapes
from triegs.workloads.blocks import make_timed
from triegs.workloads.replies import HOT_SPOT, PERSON_NAMES, SIZED, ZIPF
from triegs.workloads.social import SOCIAL
from triegs.workloads.temporal import TEMPORAL
from triegs.workloads.timed import TimedWorkload
from triegs.workloads.totals import SOCIAL_TOTALS
from triegs.workloads.university import UNIVERSITY

_BLOCKS = (
    make_timed(shapes.path3, "path3", "paths of three edges", "none, fan-out 8", "full-acyclic"),
    make_timed(shapes.star5, "star5", "five edges at a centre", "none, 3 each", "full-acyclic"),
    make_timed(
        shapes.spider4x2, "spider4x2", "four legs of two edges", "none, 2 each", "full-acyclic"
    ),
    make_timed(
        shapes.reply,
        "reply",
        "messages, replies, writers, likes",
        "Zipf's law, 0.4 to 0.8",
        "full-acyclic",
    ),
    make_timed(
        shapes.path5_prefix,
        "path5_prefix",
        "paths of five edges, of which two are shown",
        "none, fan-out 3",
        "free-connex",
    ),
    make_timed(
        shapes.triangle, "triangle", "directed cycles of three edges", "none, 30 each", "cyclic"
    ),
)
_ALL = {
    workload.name: workload
    for workload in (
        SOCIAL,
        PERSON_NAMES,
        HOT_SPOT,
        ZIPF,
        SIZED,
        *TEMPORAL,
        SOCIAL_TOTALS,
        UNIVERSITY,
        *_BLOCKS,
    )
}


def names() -> tuple[str, ...]:
    """The names of all workloads.

    >>> names()[:3]
    ('social', 'person-names', 'replies-hotspot')
    """
    return tuple(_ALL)


def get(name: str) -> TimedWorkload:
    """The workload with that name; `ValueError` if there is none.

    >>> get("social").queries["triangle"].splitlines()[1]
    'SELECT ?a ?b ?c WHERE {'
    """
    if name not in _ALL:
        raise ValueError(f"there is no workload {name!r}; there are {', '.join(_ALL)}")
    return _ALL[name]
