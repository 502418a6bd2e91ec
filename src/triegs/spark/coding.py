"""Events whose ends are integers, without Python on the executors: numbers are ids already, and
Spark itself puts numbers for the labels that queries read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.spark.cells import quote
from triegs.sparql.model import Query, is_variable

#: Kinds of columns of Spark's that are integers.
INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: Labels that get numbers, at most: Spark compares with one after the other.
MOST_LABELS = 64
CODE, REST = "triegs_code", "triegs_rest"


def list_labels(queries: Iterable[Query]) -> list[str]:
    """The labels that queries read."""
    found = {atom.predicate for query in queries for atom in query.atoms}
    return sorted(label for label in found if not is_variable(label))[:MOST_LABELS]


def is_coded(frame: Any, columns: Mapping[str, str]) -> bool:
    """Whether the ends of events are integers, and their labels are not."""
    kinds = dict(frame.dtypes)
    ends = [kinds[columns[name]] in INTEGERS for name in ("subject", "object")]
    return all(ends) and kinds[columns["predicate"]] == "string"


def code_labels(frame: Any, columns: Mapping[str, str], labels: Iterable[str]) -> Any:
    """The columns of events, with a number instead of each label that is known."""
    from pyspark.sql import functions

    label = functions.col(quote(columns["predicate"]))
    code = functions.lit(None).cast("int")
    for number, known in reversed(list(enumerate(labels))):
        code = functions.when(label == known, number).otherwise(code)
    others = [quote(theirs) for ours, theirs in columns.items() if ours != "predicate"]
    rest = functions.when(code.isNull(), label)
    return frame.select(*others, code.alias(CODE), rest.alias(REST))


def decode_labels(table: pa.Table, name: str, labels: list[str]) -> Iterator[pa.RecordBatch]:
    """The same with a dictionary of labels in the column of that name.

    >>> table = pa.table({CODE: pa.array([0, None], pa.int32()), REST: [None, "<a:q>"]})
    >>> [batch.column("p").to_pylist() for batch in decode_labels(table, "p", ["<a:p>"])]
    [['<a:p>', '<a:q>']]
    """
    for batch in table.to_batches():
        rest = batch.column(REST).dictionary_encode()
        words = pa.concat_arrays([pa.array(labels, rest.dictionary.type), rest.dictionary])
        shifted = pc.add(rest.indices, pa.scalar(len(labels), pa.int32()))
        codes = pc.coalesce(batch.column(CODE), shifted)
        coded = pa.DictionaryArray.from_arrays(codes, words)
        yield batch.drop_columns([CODE, REST]).append_column(name, coded)
