"""Options that are one of a few words, as types: editors offer the words, mypy knows no others.

A word that is none of them is `triegs.errors.BadOption`, which lists those that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
#: Terms of rows, of Arrow columns, and of a stream of them without end.
RowTerms: TypeAlias = Literal["ntriples", "python", "plain", "ids", "rdflib", "pyoxigraph"]
ArrowTerms: TypeAlias = Literal["ntriples", "python", "plain", "ids"]
StreamTerms: TypeAlias = Literal["ntriples", "ids"]
SparqlFormat: TypeAlias = Literal["json", "xml", "csv", "tsv"]

MODES: tuple[str, ...] = get_args(ModeName)
SPARQL_FORMATS: tuple[str, ...] = get_args(SparqlFormat)


def check_text(text: object) -> None:
    """Refuse the path of a query; what else is no text is refused where it is read."""
    if isinstance(text, PathLike):
        raise TypeError(f"a query is a str, not {type(text).__name__}; give path.read_text()")


def check_prefixes(prefixes: object) -> None:
    """Refuse what are no prefixes.

    >>> check_prefixes("http://ex/")
    Traceback (most recent call last):
    triegs.errors.BadOption: prefixes are IRIs by name, {'ex': 'http://ex/'}, not 'http://ex/'
    """
    pairs = prefixes.items() if isinstance(prefixes, Mapping) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(iri, str) for name, iri in pairs):
        raise BadOption(f"prefixes are IRIs by name, {{'ex': 'http://ex/'}}, not {prefixes!r}")


def check_number(name: str, value: object) -> None:
    """Refuse what is no integer from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadOption(f"{name} is an integer from 0 on, not {value!r}")


def check_word(name: str, word: object, words: Iterable[str]) -> None:
    """Refuse what is none of the words of an option.

    >>> check_word("mode", "fast", MODES)
    Traceback (most recent call last):
    triegs.errors.BadOption: mode is 'multigraph' or 'rdf', not 'fast'
    """
    known = list(words)
    if word not in known:
        shown = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
        raise BadOption(f"{name} is {shown}, not {word!r}")
