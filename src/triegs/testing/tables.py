"""Streams and answers as small text tables, for readable tests.

A table has a header line and one line per row, cells separated by ``|``. A bare word is an IRI
under ``http://example.org/``, digits are an ``xsd:integer``, ``-`` alone is an unbound cell, and
anything in N-Triples form is used unchanged. Empty lines and lines that start with ``#`` are
ignored.

>>> read_updates('''
...     op | subject | predicate  | object
...     +  | tweet1  | hasCreator | Max
...     -  | tweet1  | length     | 140
... ''')  # doctest: +NORMALIZE_WHITESPACE
[('+', '<http://example.org/tweet1>', '<http://example.org/hasCreator>',
  '<http://example.org/Max>'),
 ('-', '<http://example.org/tweet1>', '<http://example.org/length>',
  '"140"^^<http://www.w3.org/2001/XMLSchema#integer>')]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from triegs.testing.oracle import Answers, Event

NAMESPACE = "http://example.org/"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
MULTIPLICITY = "×"


def read_term(cell: str) -> str:
    """A cell as an N-Triples term.

    >>> read_term("Max"), read_term("5"), read_term('"hi"@en')
    ('<http://example.org/Max>', '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"hi"@en')
    """
    if re.fullmatch(r"[-+]?\d+", cell):
        return f'"{cell}"^^<{INTEGER}>'
    return cell if cell.startswith(("<", '"', "_:")) else f"<{NAMESPACE}{cell}>"


def write_term(term: str | None) -> str:
    """The shortest cell that reads as the term.

    >>> write_term("<http://example.org/Max>"), write_term(None)
    ('Max', '-')
    """
    if term is None:
        return "-"
    short = term.removeprefix(f"<{NAMESPACE}").removesuffix(">")
    if term.endswith(f"^^<{INTEGER}>"):
        short = term.split('"')[1]
    return short if read_term(short) == term else term


def read_rows(text: str) -> list[dict[str, str]]:
    """The rows of a table as cells by column name."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    header, *rows = cells or [[]]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells under {len(header)} columns: {' | '.join(row)}")
    return [dict(zip(header, row, strict=True)) for row in rows]


def read_updates(text: str) -> list[tuple[str, str, str, str]]:
    """Updates from the columns ``op`` (``+`` if absent), subject, predicate, object."""
    return [_update(row) for row in read_rows(text)]


def read_epochs(text: str) -> list[list[tuple[str, str, str, str]]]:
    """Updates grouped by the column ``epoch``, numbered from 0; missing epochs are empty.

    >>> table = '''epoch | subject | predicate | object
    ...            0     | a       | knows     | b
    ...            2     | b       | knows     | c'''
    >>> [len(epoch) for epoch in read_epochs(table)]
    [1, 0, 1]
    """
    rows = read_rows(text)
    epochs: list[list[tuple[str, str, str, str]]] = []
    for row in rows:
        number = int(row["epoch"])
        epochs += [[] for _ in range(number + 1 - len(epochs))]
        epochs[number].append(_update(row))
    return epochs


def read_events(text: str) -> list[Event]:
    """Timed events from the columns time, op, subject, predicate, object and optionally id."""
    return [Event(int(row["time"]), *_update(row), row.get("id")) for row in read_rows(text)]


def read_answers(text: str) -> Answers:
    """Answers from one column per output variable and ``×`` for the multiplicity.

    >>> read_answers('''x   | y | ×
    ...                 Max | - | 2''')
    {('<http://example.org/Max>', None): 2}
    """
    found: Answers = {}
    for row in read_rows(text):
        count = int(row.pop(MULTIPLICITY, "1"))
        terms = tuple(None if cell == "-" else read_term(cell) for cell in row.values())
        found[terms] = found.get(terms, 0) + count
    return found


def write_answers(head: Sequence[str], answers: Mapping[tuple[str | None, ...], int]) -> str:
    """Answers as a table that `read_answers` reads, rows sorted.

    >>> print(write_answers(["x"], {("<http://example.org/Max>",): 2}))
    x   | ×
    Max | 2
    """
    rows = sorted([*map(write_term, row), str(count)] for row, count in answers.items())
    table = [[*(name.lstrip("?") for name in head), MULTIPLICITY], *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [" | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
    return "\n".join(line.rstrip() for line in lines)


def _update(row: Mapping[str, str]) -> tuple[str, str, str, str]:
    subject, predicate, obj = (read_term(row[c]) for c in ("subject", "predicate", "object"))
    return (row.get("op", "+"), subject, predicate, obj)
