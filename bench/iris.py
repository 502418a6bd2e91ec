"""The workloads with IRIs for nodes, as users have them, in place of integers."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from bench.answers import Digest, Numbers, digest_columns
from bench.subject import Bed
from triegs.workloads import Slide, Workload

BEFORE, AFTER = "<http://ex/node/", ">"


class IriSlide(Slide):
    """A slide whose table has strings in N-Triples form for subjects and objects."""

    @classmethod
    def name(cls, slide: Slide) -> IriSlide:
        return cls(*(getattr(slide, field.name) for field in fields(Slide)))

    @cached_property
    def table(self) -> pa.Table:
        table = super().table
        for place in (1, 3):
            named = name_nodes(table.column(place))
            table = table.set_column(place, table.column_names[place], named)
        return table

    @cached_property
    def columns(self) -> dict[str, tuple[pa.Array, pa.Array]]:
        """The inserted subjects and objects by label."""
        return {
            label: (name_nodes(pa.array(subjects)), name_nodes(pa.array(objects)))
            for label, (subjects, objects) in self.insertions.items()
        }


def name_nodes(numbers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.binary_join_element_wise(BEFORE, numbers.cast(pa.string()), AFTER, "")


def read_nodes(terms: pa.Array) -> Numbers:
    """The number in each IRI; also in entries of a dictionary that no row has."""
    digits = pc.struct_field(pc.extract_regex(terms, r"(?P<n>\d+)>$"), "n")
    numbers: Numbers = digits.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


class IriBed(Bed):
    """One workload with IRIs on one engine."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._stream = map(IriSlide.name, self._stream)
        self._load = IriSlide.name(self._load)

    def draw(self, count: int) -> list[Slide]:
        slides = super().draw(count)
        for slide in slides:
            assert isinstance(slide, IriSlide)
            _ = slide.columns
        return slides

    def digest(self) -> Digest:
        return digest_iris(self.read("ntriples"))


def digest_iris(table: pa.Table) -> Digest:
    """Of answers with IRIs: all columns but the last, which is the multiplicity."""
    total = Digest(0, 0)
    for batch in table.to_batches():
        *columns, counts = batch.columns
        numbers = [read_nodes(each.dictionary)[each.indices.to_numpy()] for each in columns]
        total += digest_columns(numbers, counts.to_numpy())
    return total
