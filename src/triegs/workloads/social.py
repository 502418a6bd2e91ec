"""The social network as a workload: the eleven window queries of the report over its stream.

The report names the shapes: triangles, cliques, rectangles, diamonds, dumbbells, forum/tag/class
patterns, profile paths, country/message patterns, friend/content paths and friend-like patterns. As
there, windows are 10 seconds long and slide by 5. A friendship is stated once, for the older
member, so the cyclic shapes find each set of friends once.
"""

from __future__ import annotations

from collections.abc import Iterator

from triegs.workloads.network import EVENTS_PER_ACTIVITY, Network
from triegs.workloads.rows import Rows
from triegs.workloads.timed import Clock, TimedWorkload, WindowQuery
from triegs.workloads.words import BASE, DATA, PREDICATES, VOCABULARY, list_static, spell

START = 1_262_304_000_000  # 2010-01-01, when the network opens
PREFIX = f"PREFIX snvoc: <{VOCABULARY}>\n"
PREFIXES = {
    "sn": DATA,
    "snvoc": VOCABULARY,
    "tag": f"{BASE}tag/",
    "place": f"{BASE}place/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def _ask(name: str, meaning: str, plan_class: str, text: str) -> WindowQuery:
    return WindowQuery(name, meaning, PREFIX + text, plan_class)


QUERIES = (
    _ask(
        "triangle",
        "Three persons who know each other.",
        "cyclic",
        "SELECT ?a ?b ?c WHERE {\n  ?a snvoc:knows ?b . ?b snvoc:knows ?c . ?a snvoc:knows ?c\n}",
    ),
    _ask(
        "clique",
        "Four persons who know each other.",
        "cyclic",
        "SELECT ?a ?b ?c ?d WHERE {\n"
        "  ?a snvoc:knows ?b . ?a snvoc:knows ?c . ?a snvoc:knows ?d .\n"
        "  ?b snvoc:knows ?c . ?b snvoc:knows ?d . ?c snvoc:knows ?d\n"
        "}",
    ),
    _ask(
        "rectangle",
        "Two persons who have two later members as friends in common.",
        "cyclic",
        "SELECT ?a ?b ?c ?d WHERE {\n"
        "  ?a snvoc:knows ?b . ?b snvoc:knows ?d . ?a snvoc:knows ?c . ?c snvoc:knows ?d\n"
        "}",
    ),
    _ask(
        "diamond",
        "Two triangles that share a friendship.",
        "cyclic",
        "SELECT ?a ?b ?c ?d WHERE {\n"
        "  ?a snvoc:knows ?b . ?a snvoc:knows ?c . ?b snvoc:knows ?c .\n"
        "  ?b snvoc:knows ?d . ?c snvoc:knows ?d\n"
        "}",
    ),
    _ask(
        "dumbbell",
        "Two triangles linked by a friendship.",
        "cyclic",
        "SELECT ?a ?b ?c ?d ?e ?f WHERE {\n"
        "  ?a snvoc:knows ?b . ?b snvoc:knows ?c . ?a snvoc:knows ?c .\n"
        "  ?c snvoc:knows ?d .\n"
        "  ?d snvoc:knows ?e . ?e snvoc:knows ?f . ?d snvoc:knows ?f\n"
        "}",
    ),
    _ask(
        "forum-tag-class",
        "Which tags, of which class, the posts of forums have, and how often. Needs static data.",
        "free-connex",
        "SELECT ?tag ?class WHERE {\n"
        "  ?forum snvoc:containerOf ?post . ?post snvoc:hasTag ?tag . ?tag snvoc:hasType ?class\n"
        "}",
    ),
    _ask(
        "profile-path",
        "Names, city and country of a person who joined or moved. Needs static data.",
        "full-acyclic",
        "SELECT ?person ?first ?last ?city ?country WHERE {\n"
        "  ?person snvoc:firstName ?first . ?person snvoc:lastName ?last .\n"
        "  ?person snvoc:isLocatedIn ?city . ?city snvoc:isPartOf ?country\n"
        "}",
    ),
    _ask(
        "country-message",
        "Messages by country: who wrote there, on what.",
        "full-acyclic",
        "SELECT ?country ?message ?person ?tag WHERE {\n"
        "  ?message snvoc:isLocatedIn ?country . ?message snvoc:hasCreator ?person .\n"
        "  ?message snvoc:hasTag ?tag\n"
        "}",
    ),
    _ask(
        "friend-content",
        "What friends wrote, and its tags.",
        "full-acyclic",
        "SELECT ?person ?friend ?message ?tag WHERE {\n"
        "  ?person snvoc:knows ?friend . ?message snvoc:hasCreator ?friend .\n"
        "  ?message snvoc:hasTag ?tag\n"
        "}",
    ),
    _ask(
        "friend-reply-path",
        "Messages that friends replied to, and by how many replies.",
        "materialized",
        "SELECT ?person ?message WHERE {\n"
        "  ?person snvoc:knows ?friend . ?reply snvoc:hasCreator ?friend .\n"
        "  ?reply snvoc:replyOf ?message\n"
        "}",
    ),
    _ask(
        "friend-like",
        "What friends like, and who wrote it.",
        "full-acyclic",
        "SELECT ?person ?friend ?message ?writer WHERE {\n"
        "  ?person snvoc:knows ?friend . ?friend snvoc:likes ?message .\n"
        "  ?message snvoc:hasCreator ?writer\n"
        "}",
    ),
)


def draw_network(seed: int, clock: Clock) -> Iterator[Rows]:
    return Network(seed, clock.start, clock.step * EVENTS_PER_ACTIVITY).draw()


SOCIAL = TimedWorkload(
    name="social",
    meaning="a social network: persons, friends, forums, posts, comments, likes; deep deletes",
    skew="power laws of friends, posts and likes; hot messages; cohorts of friends",
    asked=QUERIES,
    draw=draw_network,
    predicates=PREDICATES,
    spell=spell,
    prefixes=PREFIXES,
    start=START,
    has_deletes=True,
    static=tuple(list_static()),
)
