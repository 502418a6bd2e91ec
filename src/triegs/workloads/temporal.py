"""Temporal joins of posts and comments: comments that come soon after their post.

The times are facts of their own, integers in milliseconds, so that a query compares them. The
variants are those of the report: a hot spot, Zipf's law, small, and driven by size alone. There are
no deletes: facts expire with the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from triegs.workloads.draw import Numbers
from triegs.workloads.replies import (
    BLOCK,
    COMMENTS,
    PERSONS,
    Aim,
    aim_at_hot_spot,
    aim_at_own,
    aim_by_zipf,
)
from triegs.workloads.rows import Rows, number_inserts
from triegs.workloads.social import PREFIX, PREFIXES, START
from triegs.workloads.timed import Clock, TimedWorkload, WindowQuery
from triegs.workloads.words import PREDICATES, SHIFT, Kind, Predicate, spell, spell_predicate

#: The event of a post or comment that states its time.
AT = len(PREDICATES)
EVENTS = 2 + 3 * COMMENTS  # per post: its writer and time; of a comment also the post
#: How many posts later the last comment of a post of the small variant comes: too late, at the
#: usual rate.
LATE_BY = 250

_WITHIN = (
    "  ?post snvoc:at ?posted . ?comment snvoc:replyOf ?post . ?comment snvoc:at ?replied\n"
    "  FILTER(?replied >= ?posted && ?replied - ?posted <= 2000)\n"
)
QUERIES = (
    WindowQuery(
        "soon-after",
        "Comments that come at most two seconds after their post, with both times.",
        f"{PREFIX}SELECT ?post ?posted ?comment ?replied WHERE {{\n{_WITHIN}}}",
        "full-acyclic",
    ),
    WindowQuery(
        "soon-per-post",
        "How many comments a post gets within two seconds, and when the first one comes.",
        f"{PREFIX}SELECT ?post (COUNT(*) AS ?comments) (MIN(?replied) AS ?first) WHERE {{\n"
        f"{_WITHIN}}} GROUP BY ?post",
        "cyclic",
    ),
    WindowQuery(
        "soon-per-writer",
        "How many comments the posts of a writer get within two seconds, and the mean delay.",
        f"{PREFIX}SELECT ?writer (COUNT(*) AS ?comments) (AVG(?replied - ?posted) AS ?delay) "
        f"WHERE {{\n  ?post snvoc:hasCreator ?writer .\n{_WITHIN}}} GROUP BY ?writer",
        "cyclic",
    ),
    WindowQuery(
        "soon",
        "How many comments come within two seconds, and the longest of these delays.",
        f"{PREFIX}SELECT (COUNT(*) AS ?comments) (MAX(?replied - ?posted) AS ?longest) WHERE {{\n"
        f"{_WITHIN}}}",
        "cyclic",
    ),
)


def make_draw(aim: Aim) -> Callable[[int, Clock], Iterator[Rows]]:
    """A stream of posts, each followed by comments; `aim` chooses the posts they reply to."""

    def draw(seed: int, clock: Clock) -> Iterator[Rows]:
        number = 0
        while True:
            random = np.random.default_rng([seed, number])
            posts = number * BLOCK + np.arange(BLOCK)
            comments = posts[:, None] * COMMENTS + np.arange(COMMENTS)
            targets = aim(random, np.repeat(posts, COMMENTS)).reshape(BLOCK, COMMENTS)
            writers = PERSONS.draw(random, BLOCK * (1 + COMMENTS)).reshape(BLOCK, 1 + COMMENTS)
            positions = number * BLOCK * EVENTS + np.arange(BLOCK * EVENTS)
            times = clock.tick(positions)
            stated = (int(Kind.TIME) << SHIFT | times).reshape(BLOCK, EVENTS)
            subjects = np.empty((BLOCK, EVENTS), np.int64)
            subjects[:, :2] = (int(Kind.POST) << SHIFT | posts)[:, None]
            subjects[:, 2:] = np.repeat(int(Kind.COMMENT) << SHIFT | comments, 3, axis=1)
            objects = stated.copy()
            objects[:, 0] = writers[:, 0]
            objects[:, 2::3] = int(Kind.POST) << SHIFT | targets
            objects[:, 3::3] = writers[:, 1:]
            labels = np.full((BLOCK, EVENTS), AT)
            labels[:, 0] = int(Predicate.HAS_CREATOR)
            labels[:, 2::3] = int(Predicate.REPLY_OF)
            labels[:, 3::3] = int(Predicate.HAS_CREATOR)
            columns = (column.ravel() for column in (subjects, labels, objects))
            yield number_inserts(int(positions[0]) + 1, times, *columns)
            number += 1

    return draw


def aim_small(random: np.random.Generator, newest: Numbers) -> Numbers:  # noqa: ARG001
    """Of three comments, one goes to the newest post, one to the post before, one is too late."""
    late = np.resize(np.array([0, 1, LATE_BY]), len(newest))
    return np.maximum(newest - late, 0)


def _make(name: str, meaning: str, skew: str, aim: Aim) -> TimedWorkload:
    predicates = (*PREDICATES, spell_predicate("at"))
    return TimedWorkload(
        name, meaning, skew, QUERIES, make_draw(aim), predicates, spell, PREFIXES, START
    )


TEMPORAL = (
    _make(
        "temporal-hotspot",
        "comments soon after their post, most of them on one post",
        "4 of 5 comments on one of 64 posts",
        aim_at_hot_spot,
    ),
    _make(
        "temporal-zipf",
        "comments soon after their post, some posts far more answered than others",
        "Zipf's law, 1.0, by age; hot posts",
        aim_by_zipf,
    ),
    _make(
        "temporal-small",
        "three comments for each post, of which one is too late",
        "none",
        aim_small,
    ),
    _make(
        "temporal-sized",
        "three comments soon after each post; 11n events have 3n answers",
        "none",
        aim_at_own,
    ),
)
