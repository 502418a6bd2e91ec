"""Updates as they are given, to updates by ids: tuples, or columns of an Arrow table.

What is malformed is refused row by row, with the reason; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from triegs.dictionary import Dictionary
from triegs.errors import InvalidUpdate
from triegs.maintain.core import Refused

SIGNS = {"+": 1, "-": -1}
COLUMNS = ("subject", "predicate", "object")


class Batch(NamedTuple):
    """Updates by ids, the place of each in what was given, and what was refused."""

    updates: list[tuple[int, int, int, int]]
    places: Sequence[int]
    refused: list[Refused]


def encode_tuples(dictionary: Dictionary, updates: Iterable[Sequence[Any]]) -> Batch:
    """``(sign, subject, predicate, object)`` each.

    >>> encode_tuples(Dictionary(), [("+", "<a:a>", "<a:p>", 1), ("?", 1, 2, 3)])
    Batch(updates=[(1, 0, 1, 2)], places=[0], refused=[Refused(place=1, reason=...)])
    """
    encode = dictionary.encode_one
    batch: list[tuple[int, int, int, int]] = []
    places: list[int] = []
    refused: list[Refused] = []
    for place, update in enumerate(updates):
        try:
            sign, subject, predicate, obj = update
            if sign not in SIGNS:
                raise ValueError(f"the sign is '+' or '-', not {sign!r}")
            batch.append((SIGNS[sign], encode(subject), encode(predicate), encode(obj)))
            places.append(place)
        except (TypeError, ValueError) as problem:
            refused.append(Refused(place, str(problem)))
    return Batch(batch, places, refused)


def encode_table(dictionary: Dictionary, updates: Any) -> Batch:
    """The columns subject, predicate, object, and ``op`` (all ``+`` if it is not there)."""
    import numpy as np
    import pyarrow as pa

    table = pa.table(updates)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InvalidUpdate(f"the table has no column {', '.join(missing)}; nothing changed")
    reasons: dict[int, str] = {}
    columns = []
    for name in COLUMNS:
        ids, problems = dictionary.encode(table[name])
        columns.append(ids)
        for place, reason in problems:
            reasons.setdefault(place, f"{name}: {reason}")
    signs = np.ones(table.num_rows, np.int64)
    if "op" in table.column_names:
        given = table["op"].to_pylist()
        signs = np.array([SIGNS.get(sign, 0) for sign in given], np.int64)
        for place in np.flatnonzero(signs == 0).tolist():
            reasons.setdefault(place, f"the sign is '+' or '-', not {given[place]!r}")
    kept = np.ones(table.num_rows, np.bool_)
    kept[list(reasons)] = False
    places = np.flatnonzero(kept)
    rows = np.stack([signs, *columns], axis=1)[places] if table.num_rows else signs.reshape(0, 4)
    refused = [Refused(place, reason) for place, reason in sorted(reasons.items())]
    return Batch(list(map(tuple, rows.tolist())), places.tolist(), refused)
