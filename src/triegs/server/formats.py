"""Result formats by media type, and the choice by ``Accept``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from triegs.outputs import Format
from triegs.server.problems import Problem

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"


class Choice(NamedTuple):
    """A media type, and what it stands for."""

    media: str
    format: Any


#: The SPARQL formats repeat an answer by its multiplicity; the first is the default.
SPARQL: Mapping[str, Format] = {
    "application/sparql-results+json": Format.SRJ,
    "application/json": Format.SRJ,
    "application/sparql-results+xml": Format.SRX,
    "application/xml": Format.SRX,
    "text/csv": Format.SPARQL_CSV,
    "text/tab-separated-values": Format.SPARQL_TSV,
    ARROW: Format.ARROW,
    PARQUET: Format.PARQUET,
    NDJSON: Format.JSONL,
}
#: Tables have a column for the multiplicity.
SNAPSHOT: Mapping[str, Format] = {
    NDJSON: Format.JSONL,
    "application/sparql-results+json": Format.SRJ,
    "application/json": Format.SRJ,
    "application/sparql-results+xml": Format.SRX,
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.SPARQL_TSV,
    ARROW: Format.ARROW,
    PARQUET: Format.PARQUET,
}
CHANGES: Mapping[str, Format] = {
    NDJSON: Format.JSONL,
    "text/csv": Format.CSV,
    ARROW: Format.ARROW,
    PARQUET: Format.PARQUET,
}
EXPLAIN: Mapping[str, str] = {
    "text/plain": "text",
    "application/json": "json",
    "image/svg+xml": "svg",
    "text/vnd.mermaid": "mermaid",
}


def choose(accept: str | None, known: Mapping[str, Any]) -> Choice:
    """The format with the highest quality in an ``Accept``; the first listed among equals.

    >>> choose("text/html, text/*;q=0.5", SPARQL).media, choose(None, CHANGES).media
    ('text/csv', 'application/x-ndjson')
    >>> choose("image/png", SPARQL)
    Traceback (most recent call last):
    triegs.server.problems.Problem: possible are application/sparql-results+json, ...
    """
    if not accept or not accept.strip():
        accept = "*/*"
    best: tuple[float, int, str] | None = None
    for part in accept.split(","):
        media, *options = (each.strip() for each in part.split(";"))
        quality = read_quality(options)
        kind, _, rest = media.lower().partition("/")
        for number, name in enumerate(known):
            is_exact = name == media.lower()
            fits = is_exact or media == "*/*" or (rest == "*" and name.startswith(f"{kind}/"))
            # Of the same quality, what is named precedes what a wildcard covers.
            rank = quality + (0.0001 if is_exact else 0)
            if fits and quality > 0 and (best is None or rank > best[0]):
                best = (rank, number, name)
                break
    if best is None:
        possible = f"possible are {', '.join(known)}"
        raise Problem(406, "no acceptable format", possible)
    return Choice(best[2], known[best[2]])


def read_quality(options: list[str]) -> float:
    for option in options:
        name, _, value = option.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
