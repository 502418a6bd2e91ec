"""RDF files to updates by ids: every statement of a file is an insertion."""

from __future__ import annotations

from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as rdf

from triegs.dictionary import Dictionary
from triegs.errors import InvalidUpdate
from triegs.events import Batch

STATEMENTS = 50_000  # encoded at a time
FORMATS = {
    "n-triples": rdf.RdfFormat.N_TRIPLES,
    "n-quads": rdf.RdfFormat.N_QUADS,
    "turtle": rdf.RdfFormat.TURTLE,
    "trig": rdf.RdfFormat.TRIG,
    "rdf-xml": rdf.RdfFormat.RDF_XML,
}
ENDINGS = {"nt": "n-triples", "nq": "n-quads", "ttl": "turtle", "trig": "trig", "rdf": "rdf-xml"}


def read_statements(dictionary: Dictionary, source: Any, name: str | None) -> Batch:
    """All statements of a file as insertions; `InvalidUpdate` if it is not well-formed."""
    is_path = isinstance(source, str | PathLike)
    label = fspath(source) if is_path else str(getattr(source, "name", "the file"))
    chosen = find_format(label, name)
    # A scope of its own keeps the blank nodes of one file apart from those of all others.
    scope = str(Path(label).resolve()) if is_path else f"{label} {id(source)}"
    given: Any = {"path": label} if is_path else {"input": source}
    parts = []
    try:
        statements = rdf.parse(format=chosen, **given)
        while chunk := list(islice(statements, STATEMENTS)):
            columns = [
                dictionary.encode([str(term) for term in column], scope)
                for column in zip(*((s.subject, s.predicate, s.object) for s in chunk), strict=True)
            ]
            for _, problems in columns:
                for position, reason in problems[:1]:
                    raise InvalidUpdate(f"{label}: {chunk[position]}: {reason}; nothing changed")
            ones = np.ones(len(chunk), np.int64)
            parts.append(np.stack([ones, *(ids for ids, _ in columns)], axis=1))
    except (SyntaxError, ValueError, OSError) as problem:
        raise InvalidUpdate(f"{label}: {problem}; nothing changed") from problem
    rows = np.concatenate(parts) if parts else np.empty((0, 4), np.int64)
    return Batch(rows, None, [])


def find_format(label: str, name: str | None) -> Any:
    """The format of that name, or the one that the ending of a file tells.

    >>> find_format("people.ttl", None)
    <RdfFormat Turtle>
    """
    known = name or ENDINGS.get(label.rsplit(".", 1)[-1].lower(), "")
    if known not in FORMATS:
        names = ", ".join(FORMATS)
        asked = f"{name!r} is none" if name else f"the name {label!r} does not tell it"
        raise InvalidUpdate(f"the format is one of {names}; {asked}")
    return FORMATS[known]
