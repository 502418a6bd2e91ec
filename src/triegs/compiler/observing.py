"""What a sample of a stream says of its labels and keys."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from triegs.compiler.partitions import OBJECT, SUBJECT, Key, Observed
from triegs.dictionary.values import write_value

COLUMNS = {SUBJECT: "subject", OBJECT: "object"}
#: So many keys of a label are looked at, the most frequent ones.
MOST_KEYS = 16


def observe(events: Any) -> Observed:
    """Shares of labels, and the most frequent subjects and objects of each, from an Arrow table of
    events. Cost: the table, twice.

    >>> import pyarrow as pa
    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> table = pa.table({"subject": [1, 1, 2, 3], "predicate": [p, p, p, q], "object": [5] * 4})
    >>> seen = observe(table)
    >>> seen.shares[p], seen.keys[p, (0,)][0].share
    (0.75, 0.6666666666666666)
    """
    rows = events.num_rows
    counts = events.group_by("predicate").aggregate([([], "count_all")]).to_pylist()
    shares = {str(each["predicate"]): each["count_all"] / rows for each in counts}
    keys: dict[tuple[str, tuple[int, ...]], tuple[Key, ...]] = {}
    for position, name in COLUMNS.items():
        found = events.group_by(["predicate", name]).aggregate([([], "count_all")])
        for label, share in shares.items():
            mine = found.filter(pc.equal(found.column("predicate"), label))
            top = mine.sort_by([("count_all", "descending")]).slice(0, MOST_KEYS).to_pylist()
            whole = share * rows
            keys[label, (position,)] = tuple(
                Key((write_term(each[name]),), each["count_all"] / whole) for each in top
            )
    return Observed(shares, keys)


def write_term(term: object) -> str:
    """A term of a column, as text: integers are columns of their own."""
    return term if isinstance(term, str) else write_value(term)
