"""Option values as literal types, for editors and type checkers.

At run time, an invalid value raises `triegs.errors.BadOption`, which lists the valid ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from os import PathLike
from typing import Literal, TypeAlias, get_args

from triegs.errors import BadOption

ModeName: TypeAlias = Literal["multigraph", "rdf"]
KeepName: TypeAlias = Literal["count", "slice"]
LateName: TypeAlias = Literal["drop", "quarantine"]
BoundsName: TypeAlias = Literal["(]", "[)"]
OperatorName: TypeAlias = Literal["RSTREAM", "ISTREAM", "DSTREAM"]
PolicyName: TypeAlias = Literal["slide", "change", "non-empty", "periodic"]
ExplainName: TypeAlias = Literal["text", "mermaid", "svg", "json"]
#: Term forms of rows, of Arrow columns, and of unbounded streams of them.
RowTerms: TypeAlias = Literal["ntriples", "python", "plain", "ids", "rdflib", "pyoxigraph"]
ArrowTerms: TypeAlias = Literal["ntriples", "python", "plain", "ids"]
StreamTerms: TypeAlias = Literal["ntriples", "ids"]
LayoutName: TypeAlias = Literal["flat", "factorised"]
SparqlFormat: TypeAlias = Literal["json", "xml", "csv", "tsv"]
SchedulerName: TypeAlias = Literal["serial", "fifo", "stealing", "prefix", "numa", "adaptive"]

MODES: tuple[str, ...] = get_args(ModeName)
LAYOUTS: tuple[str, ...] = get_args(LayoutName)
SPARQL_FORMATS: tuple[str, ...] = get_args(SparqlFormat)
SCHEDULERS: tuple[str, ...] = get_args(SchedulerName)
MOST_WORKERS = 16


def check_text(text: object) -> None:
    """Reject a path given as a query; other types are rejected by the parser."""
    if isinstance(text, PathLike):
        raise TypeError(f"a query must be a str, not {type(text).__name__}; pass path.read_text()")


def check_prefixes(prefixes: object) -> None:
    """Reject invalid prefixes.

    >>> check_prefixes("http://ex/")
    Traceback (most recent call last):
    triegs.errors.BadOption: prefixes must map names to IRIs: {'ex': 'http://…'}, not 'http://ex/'
    """
    pairs = prefixes.items() if isinstance(prefixes, Mapping) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(iri, str) for name, iri in pairs):
        raise BadOption(f"prefixes must map names to IRIs: {{'ex': 'http://…'}}, not {prefixes!r}")


def check_name(name: object) -> None:
    """Reject a name of a query, a hold, a subscription or an aggregate that is not a str."""
    if not isinstance(name, str):
        raise BadOption(f"a name must be a str, not {name!r}")


def check_number(name: str, value: object) -> None:
    """Reject anything but a non-negative integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadOption(f"{name} must be a non-negative integer, not {value!r}")


def check_least(name: str, value: object, least: int) -> None:
    """Reject anything but an integer of at least `least`.

    >>> check_least("rows", 0, 1)
    Traceback (most recent call last):
    triegs.errors.BadOption: rows must be an integer of at least 1, not 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise BadOption(f"{name} must be an integer of at least {least}, not {value!r}")


def check_workers(workers: object) -> None:
    """Reject a number of workers that an engine cannot have.

    >>> check_workers(0)
    Traceback (most recent call last):
    triegs.errors.BadOption: workers must be an integer from 1 to 16, not 0
    """
    is_number = isinstance(workers, int) and not isinstance(workers, bool)
    if not is_number or not 1 <= workers <= MOST_WORKERS:  # type: ignore[operator]
        raise BadOption(f"workers must be an integer from 1 to {MOST_WORKERS}, not {workers!r}")


def check_word(name: str, word: object, words: Iterable[str]) -> None:
    """Reject an unknown value of an option.

    >>> check_word("mode", "fast", MODES)
    Traceback (most recent call last):
    triegs.errors.BadOption: mode must be 'multigraph' or 'rdf', not 'fast'
    """
    known = list(words)
    if word not in known:
        shown = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
        raise BadOption(f"{name} must be {shown}, not {word!r}")
