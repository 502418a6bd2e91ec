"""Statistics of a stream from a sample of its events."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.partition.statistics import OBJECT, SUBJECT, Key, StreamStatistics
from triegs.terms.term_texts import write_terms
from triegs.terms.values import write_value

COLUMNS = {SUBJECT: "subject", OBJECT: "object"}
#: The most frequent keys of a label that are kept.
MOST_KEYS = 16


def sample_statistics(events: Any) -> StreamStatistics:
    """Label shares, and the most frequent subjects and objects of each label, from an Arrow table
    of events with terms in canonical form. Cost: two passes over the table.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> table = pa.table({"subject": [1, 1, 2, 3], "predicate": [p, p, p, q], "object": [5] * 4})
    >>> found = sample_statistics(table)
    >>> found.shares[p], found.keys[p, (0,)][0].share
    (0.75, 0.6666666666666666)
    """
    names = ("predicate", *COLUMNS.values())
    events = pa.table({name: _write_column(events.column(name)) for name in names})
    counts = events.group_by("predicate").aggregate([([], "count_all")]).to_pylist()
    labels = {write_term(each["predicate"]): each for each in counts}
    shares = {label: each["count_all"] / events.num_rows for label, each in labels.items()}
    keys: dict[tuple[str, tuple[int, ...]], tuple[Key, ...]] = {}
    for position, name in COLUMNS.items():
        counted = events.group_by(["predicate", name]).aggregate([([], "count_all")])
        for label, whole in labels.items():
            mine = counted.filter(pc.equal(counted.column("predicate"), whole["predicate"]))
            top = mine.sort_by([("count_all", "descending")]).slice(0, MOST_KEYS).to_pylist()
            keys[label, (position,)] = tuple(
                Key((write_term(each[name]),), each["count_all"] / whole["count_all"])
                for each in top
            )
    return StreamStatistics(shares, keys)


def _write_column(column: Any) -> Any:
    """Terms as strings or integers, which Arrow can group by."""
    chunks = [write_terms(chunk) for chunk in column.chunks]
    if chunks and pa.types.is_dictionary(chunks[0].type):
        return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks])
    return pa.chunked_array(chunks, None if chunks else pa.int64())


def write_term(term: object) -> str:
    """A term of a column as a string; integers are stored in columns of their own."""
    return term if isinstance(term, str) else write_value(term)
