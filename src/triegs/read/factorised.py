"""Results as Arrow columns of runs.

An answer repeats the values of outer variables for every combination of inner ones. In the layout
``"factorised"`` each column but one is run-end encoded: a value, and the row after its last
repetition. Terms that have no native type are strings, because not all readers of runs know
dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.read.columns import Column, Ids, Words, are_ones
from triegs.read.output import ArrowOutput
from triegs.terms.decoder import wrap

END = pa.int32()
#: Columns, and the multiplicities.
RunBatch = tuple[list[Column], Words]


def find_runs(values: Ids) -> Column:
    """The runs of a column.

    >>> found = find_runs(np.array([7, 7, 3, 3, 3]))
    >>> found.ids.tolist(), found.ends.tolist()
    ([7, 3], [2, 5])
    """
    if are_ones(values):
        return Column(values[:1], np.array([len(values)][: len(values)], np.int32))
    ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
    ends = ends[: len(values)].astype(np.int32)
    return Column(values[ends - 1], ends)


def encode_runs(ids: Ids, flat: int) -> list[Column]:
    """Columns of ids as runs, except for one."""
    return [
        Column(values) if number == flat else find_runs(values) for number, values in enumerate(ids)
    ]


class IntegerOutput:
    """Writes columns of values as they are."""

    def __init__(self, names: Sequence[str]) -> None:
        self.fields = [pa.field(name, pa.int64()) for name in names]

    def survey(self, ids: Sequence[Ids]) -> None:
        """All types are known."""

    def write(self, ids: Sequence[Ids]) -> list[Any]:
        return [wrap(values) for values in ids]


class RunOutput:
    """Writes batches of runs; `output` converts their values, and `flat` is not a run."""

    def __init__(self, output: ArrowOutput | IntegerOutput, flat: int) -> None:
        self._output = output
        self._flat = flat

    def survey(self, columns: Sequence[Column]) -> None:
        """As `ArrowOutput.survey`."""
        self._output.survey([column.ids for column in columns])

    def write(self, batch: RunBatch) -> list[Any]:
        columns, counts = batch
        arrays = self._output.write([column.ids for column in columns])
        written = [write_runs(*each) for each in zip(arrays, columns, strict=True)]
        return [*written, write_counts(counts)]

    def fields(self, count: str) -> list[Any]:
        return [
            field if number == self._flat else factorise_field(field)
            for number, field in enumerate([*self._output.fields, count_field(count)])
        ]


def write_runs(values: Any, column: Column) -> Any:
    """An Arrow column of runs with these values."""
    if column.ends is None:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    ends = wrap(np.ascontiguousarray(column.ends, np.int32))
    return pa.RunEndEncodedArray.from_arrays(ends, values)


def write_counts(counts: Words) -> Any:
    """The multiplicities as runs."""
    found = find_runs(counts)
    return write_runs(wrap(found.ids), found)


def count_field(name: str) -> Any:
    return pa.field(name, pa.int64(), nullable=False)


def factorise_field(field: Any) -> Any:
    """The field of a column of runs."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.field(field.name, pa.run_end_encoded(END, kind), nullable=field.nullable)


def join_batches(batches: Iterable[list[Any]], fields: Sequence[Any]) -> Any:
    """An Arrow table of batches."""
    schema = pa.schema(fields)
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in batches], schema
    )
