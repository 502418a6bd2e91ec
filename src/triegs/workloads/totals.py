"""The window queries of the social network as aggregates: totals instead of matches."""

from __future__ import annotations

from dataclasses import replace

from triegs.workloads.social import PREFIX, QUERIES, SOCIAL
from triegs.workloads.timed import WindowQuery

#: By the name of a window query: what its aggregate says, SELECT, GROUP BY, and the class.
_TOTALS = {
    "triangle": (
        "The triangles of each person, by their oldest member.",
        "?a (COUNT(*) AS ?triangles)", "?a", "cyclic",
    ),
    "clique": ("The number of cliques of four.", "(COUNT(*) AS ?cliques)", "", "cyclic"),
    "rectangle": (
        "For each two persons, how many pairs of friends they have in common.",
        "?a ?d (COUNT(*) AS ?pairs)", "?a ?d", "cyclic",
    ),
    "diamond": (
        "The diamonds on each friendship, and how many persons are at its ends.",
        "?b ?c (COUNT(*) AS ?diamonds) (COUNT(DISTINCT ?a) AS ?ends)", "?b ?c", "cyclic",
    ),
    "dumbbell": (
        "The dumbbells on each friendship that links two triangles.",
        "?c ?d (COUNT(*) AS ?dumbbells)", "?c ?d", "cyclic",
    ),
    "forum-tag-class": (
        "Tagged posts and their forums, by class. Needs static data.",
        "?class (COUNT(*) AS ?posts) (COUNT(DISTINCT ?forum) AS ?forums)", "?class", "free-connex",
    ),
    "profile-path": (
        "Persons who joined or moved, by country. Needs static data.",
        "?country (COUNT(DISTINCT ?person) AS ?persons)", "?country", "free-connex",
    ),
    "country-message": (
        "Messages and writers by country.",
        "?country (COUNT(DISTINCT ?message) AS ?messages) (COUNT(DISTINCT ?person) AS ?writers)",
        "?country", "free-connex",
    ),
    "friend-content": (
        "How many tags friends used, and how often.",
        "?person (COUNT(*) AS ?uses) (COUNT(DISTINCT ?tag) AS ?tags)", "?person", "free-connex",
    ),
    "friend-reply-path": (
        "How many replies of friends a person sees, and to how many messages.",
        "?person (COUNT(*) AS ?replies) (COUNT(DISTINCT ?message) AS ?messages)",
        "?person", "free-connex",
    ),
    "friend-like": (
        "Writers whom friends of a person like, and how often.",
        "?person (COUNT(*) AS ?likes) (COUNT(DISTINCT ?writer) AS ?writers)",
        "?person", "free-connex",
    ),
}  # fmt: skip


def _total(query: WindowQuery) -> WindowQuery:
    meaning, shown, keys, plan_class = _TOTALS[query.name]
    body = query.text[query.text.index("WHERE") :]
    group = f" GROUP BY {keys}" if keys else ""
    text = f"{PREFIX}SELECT {shown} {body}{group}"
    return WindowQuery(f"{query.name}-total", meaning, text, plan_class)


SOCIAL_TOTALS = replace(
    SOCIAL,
    name="social-totals",
    meaning="the social network, with aggregates of its window queries",
    asked=tuple(map(_total, QUERIES)),
)
