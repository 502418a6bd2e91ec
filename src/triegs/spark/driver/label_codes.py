"""Events with integer subjects and objects, without Python on the executors: the integers are ids
already, and Spark itself replaces the labels that queries read by codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.spark.cells import INTEGERS, quote
from triegs.sparql.model import Query, is_variable

#: The most labels that get codes: Spark compares with one after the other.
MOST_LABELS = 64
CODE, OTHER = "triegs_code", "triegs_other"


def list_labels(queries: Iterable[Query]) -> list[str]:
    """The labels that the queries read."""
    found = {predicate for query in queries for predicate in query.predicates}
    return sorted(label for label in found if not is_variable(label))[:MOST_LABELS]


def is_coded(frame: Any, columns: Mapping[str, str]) -> bool:
    """Whether subjects and objects are integers, and predicates strings."""
    kinds = dict(frame.dtypes)
    ends = [kinds[columns[name]] in INTEGERS for name in ("subject", "object")]
    return all(ends) and kinds[columns["predicate"]] == "string"


def code_labels(frame: Any, columns: Mapping[str, str], labels: Iterable[str]) -> Any:
    """The columns of events, with a code instead of each known label."""
    from pyspark.sql import functions

    label = functions.col(quote(columns["predicate"]))
    code = functions.lit(None).cast("int")
    for number, known in reversed(list(enumerate(labels))):
        code = functions.when(label == known, number).otherwise(code)
    others = [quote(theirs) for ours, theirs in columns.items() if ours != "predicate"]
    other = functions.when(code.isNull(), label)
    return frame.select(*others, code.alias(CODE), other.alias(OTHER))


def decode_labels(table: pa.Table, name: str, labels: list[str]) -> Iterator[pa.RecordBatch]:
    """The inverse: the column `name` as a dictionary of labels.

    >>> table = pa.table({CODE: pa.array([0, None], pa.int32()), OTHER: [None, "<a:q>"]})
    >>> [batch.column("p").to_pylist() for batch in decode_labels(table, "p", ["<a:p>"])]
    [['<a:p>', '<a:q>']]
    """
    for batch in table.to_batches():
        other = batch.column(OTHER).dictionary_encode()
        words = pa.concat_arrays([pa.array(labels, other.dictionary.type), other.dictionary])
        shifted = pc.add(other.indices, pa.scalar(len(labels), pa.int32()))
        codes = pc.coalesce(batch.column(CODE), shifted)
        coded = pa.DictionaryArray.from_arrays(codes, words)
        yield batch.drop_columns([CODE, OTHER]).append_column(name, coded)
