"""Small streams for audits: pairs of names, and comments that join their posts within a window.

They use the vocabulary of the social network. There are no deletes: facts expire with the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from triegs.workloads.draw import Layer, Numbers
from triegs.workloads.rows import Rows, number_inserts
from triegs.workloads.social import PREFIX, PREFIXES, START
from triegs.workloads.timed import Clock, TimedWorkload, WindowQuery
from triegs.workloads.words import (
    FIRST_NAMES,
    LAST_NAMES,
    PREDICATES,
    SHIFT,
    Kind,
    Predicate,
    spell,
)

BLOCK = 4096  # posts or persons drawn at a time
COMMENTS = 3  # per post, on average
PERSONS = Layer(0, 1000, 0.6)
HOT_FOR = 64  # number of posts for which one post is the hot spot
OTHERS = 256  # posts that share the comments that miss the hot spot

NAMES_QUERY = WindowQuery(
    "person-names",
    "First and last name of each person.",
    f"{PREFIX}SELECT ?person ?firstName ?lastName WHERE {{\n"
    "  ?person snvoc:firstName ?firstName . ?person snvoc:lastName ?lastName\n"
    "}",
    "full-acyclic",
)
REPLY_QUERIES = (
    WindowQuery(
        "post-comment",
        "Comments that come within the window of their post, with both writers.",
        f"{PREFIX}SELECT ?post ?writer ?comment ?replier WHERE {{\n"
        "  ?post snvoc:hasCreator ?writer . ?comment snvoc:replyOf ?post .\n"
        "  ?comment snvoc:hasCreator ?replier\n"
        "}",
        "full-acyclic",
    ),
    WindowQuery(
        "comments-of-post",
        "Posts with comments in the window; the multiplicity is how many.",
        f"{PREFIX}SELECT ?post ?writer WHERE {{\n"
        "  ?post snvoc:hasCreator ?writer . ?comment snvoc:replyOf ?post\n"
        "}",
        "free-connex",
    ),
)

#: Maps a random source and the post numbers so far to the posts that the next comments reply to.
Aim = Callable[[np.random.Generator, Numbers], Numbers]


def draw_names(seed: int, clock: Clock) -> Iterator[Rows]:
    """A first name, then a last name, person by person."""
    firsts, lasts = Layer(0, len(FIRST_NAMES), 0.6), Layer(0, len(LAST_NAMES), 0.6)
    number = 0
    while True:
        random = np.random.default_rng([seed, number])
        persons = number * BLOCK + np.arange(BLOCK)
        names = np.stack(
            [
                int(Kind.FIRST_NAME) << SHIFT | firsts.draw(random, BLOCK),
                int(Kind.LAST_NAME) << SHIFT | lasts.draw(random, BLOCK),
            ],
            axis=1,
        ).ravel()
        labels = np.tile([int(Predicate.FIRST_NAME), int(Predicate.LAST_NAME)], BLOCK)
        positions = number * 2 * BLOCK + np.arange(2 * BLOCK)
        subjects = np.repeat(persons, 2)
        yield number_inserts(2 * number * BLOCK + 1, clock.tick(positions), subjects, labels, names)
        number += 1


def make_draw(aim: Aim) -> Callable[[int, Clock], Iterator[Rows]]:
    """A stream of posts, each followed by comments; `aim` chooses the posts they reply to.

    A post is one event, its writer; a comment is two: what it replies to, and its writer.
    """

    def draw(seed: int, clock: Clock) -> Iterator[Rows]:
        each = 1 + 2 * COMMENTS
        number = 0
        while True:
            random = np.random.default_rng([seed, number])
            posts = number * BLOCK + np.arange(BLOCK)
            comments = posts[:, None] * COMMENTS + np.arange(COMMENTS)
            targets = aim(random, np.repeat(posts, COMMENTS)).reshape(BLOCK, COMMENTS)
            subjects = np.empty((BLOCK, each), np.int64)
            subjects[:, 0] = int(Kind.POST) << SHIFT | posts
            subjects[:, 1:] = np.repeat(int(Kind.COMMENT) << SHIFT | comments, 2, axis=1)
            writers = PERSONS.draw(random, BLOCK * (1 + COMMENTS)).reshape(BLOCK, 1 + COMMENTS)
            objects = np.empty((BLOCK, each), np.int64)
            objects[:, 0] = writers[:, 0]
            objects[:, 1::2] = int(Kind.POST) << SHIFT | targets
            objects[:, 2::2] = writers[:, 1:]
            labels = np.full((BLOCK, each), int(Predicate.HAS_CREATOR))
            labels[:, 1::2] = int(Predicate.REPLY_OF)
            positions = number * BLOCK * each + np.arange(BLOCK * each)
            columns = (column.ravel() for column in (subjects, labels, objects))
            yield number_inserts(int(positions[0]) + 1, clock.tick(positions), *columns)
            number += 1

    return draw


def aim_at_hot_spot(random: np.random.Generator, newest: Numbers) -> Numbers:
    """Four of five comments go to a changing hot post, the others to any recent one."""
    hot = newest // HOT_FOR * HOT_FOR
    others = newest - random.integers(0, np.minimum(newest + 1, OTHERS))
    return np.where(random.random(len(newest)) < 0.8, hot, others)


def aim_by_zipf(random: np.random.Generator, newest: Numbers) -> Numbers:
    """The post of rank r, counted back from the newest, with probability proportional to 1 / r.

    Numbers divisible by powers of two are hot, so that rank is not just age.
    """
    backwards = Layer(0, 1024, 1.0).draw(random, len(newest))
    heat = np.minimum(random.geometric(0.4, len(newest)) - 1, 8)
    targets: Numbers = np.maximum(newest - backwards, 0) >> heat << heat
    return targets


def aim_at_own(random: np.random.Generator, newest: Numbers) -> Numbers:  # noqa: ARG001
    """Every post has its own comments: the number of answers follows from the size alone."""
    return newest


def _make(name: str, meaning: str, skew: str, aim: Aim) -> TimedWorkload:
    return TimedWorkload(
        name, meaning, skew, REPLY_QUERIES, make_draw(aim), PREDICATES, spell, PREFIXES, START
    )


PERSON_NAMES = TimedWorkload(
    "person-names",
    "the two names of each person; n events have n / 2 answers",
    "names by Zipf's law, 0.6",
    (NAMES_QUERY,),
    draw_names,
    PREDICATES,
    spell,
    PREFIXES,
    START,
)
HOT_SPOT = _make(
    "replies-hotspot",
    "posts and comments, most of them on one post",
    "4 of 5 comments on one of 64 posts",
    aim_at_hot_spot,
)
ZIPF = _make(
    "replies-zipf",
    "posts and comments, some posts far more answered than others",
    "Zipf's law, 1.0, by age; hot posts",
    aim_by_zipf,
)
SIZED = _make(
    "replies-sized",
    "posts with three comments each; 7n events have 3n answers",
    "none",
    aim_at_own,
)
