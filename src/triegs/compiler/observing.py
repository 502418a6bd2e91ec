"""What a sample of a stream says of its labels and keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.compiler.partitions import OBJECT, SUBJECT, Key, Observed
from triegs.dictionary.term_texts import write_terms
from triegs.dictionary.values import write_value

COLUMNS = {SUBJECT: "subject", OBJECT: "object"}
#: So many keys of a label are looked at, the most frequent ones.
MOST_KEYS = 16


def observe(events: Any) -> Observed:
    """Shares of labels, and the most frequent subjects and objects of each, from an Arrow table of
    events, with texts in their one spelling. Cost: the table, twice.

    >>> p, q = "<http://ex/p>", "<http://ex/q>"
    >>> table = pa.table({"subject": [1, 1, 2, 3], "predicate": [p, p, p, q], "object": [5] * 4})
    >>> seen = observe(table)
    >>> seen.shares[p], seen.keys[p, (0,)][0].share
    (0.75, 0.6666666666666666)
    """
    names = ("predicate", *COLUMNS.values())
    events = pa.table({name: _write_column(events.column(name)) for name in names})
    counts = events.group_by("predicate").aggregate([([], "count_all")]).to_pylist()
    labels = {write_term(each["predicate"]): each for each in counts}
    shares = {label: each["count_all"] / events.num_rows for label, each in labels.items()}
    keys: dict[tuple[str, tuple[int, ...]], tuple[Key, ...]] = {}
    for position, name in COLUMNS.items():
        found = events.group_by(["predicate", name]).aggregate([([], "count_all")])
        for label, whole in labels.items():
            mine = found.filter(pc.equal(found.column("predicate"), whole["predicate"]))
            top = mine.sort_by([("count_all", "descending")]).slice(0, MOST_KEYS).to_pylist()
            keys[label, (position,)] = tuple(
                Key((write_term(each[name]),), each["count_all"] / whole["count_all"])
                for each in top
            )
    return Observed(shares, keys)


def _write_column(column: Any) -> Any:
    """Terms as texts or integers, which can be counted."""
    chunks = [write_terms(chunk) for chunk in column.chunks]
    if chunks and pa.types.is_dictionary(chunks[0].type):
        return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks])
    return pa.chunked_array(chunks, None if chunks else pa.int64())


def write_term(term: object) -> str:
    """A term of a column, as text: integers are columns of their own."""
    return term if isinstance(term, str) else write_value(term)
