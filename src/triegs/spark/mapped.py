"""DataFrames whose rows are mapped to triples: which columns the mapping reads, and names instead
of terms in results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from triegs.errors import InputError
from triegs.events.context import COLUMNS, Options, TermReading, find_columns
from triegs.events.mapped import read_mapping
from triegs.events.mapping import Mapping as RowMapping
from triegs.events.time_units import check_unit
from triegs.names import BASE, check_base, write_plain
from triegs.terms.columns import is_text

FRAME = "the DataFrame"
NTRIPLES, PLAIN = "ntriples", "plain"


class MappedColumns(dict[str, str]):
    """The columns of a DataFrame by our names, as from `triegs.spark.encoded_batch.check_columns`,
    and how rows become triples.
    """

    def __init__(
        self, names: Mapping[str, str], mapping: RowMapping | None, stream: str, unit: str | None
    ) -> None:
        super().__init__(names)
        self.mapping = mapping
        self.stream = stream
        self.time_unit = unit

    def __reduce__(self) -> Any:
        return MappedColumns, (dict(self), self.mapping, self.stream, self.time_unit)

    def complete(self, options: Options) -> Options:
        """Add the mapping to the options of a reader."""
        return replace(options, mapping=self.mapping, stream=self.stream, time_unit=self.time_unit)

    @property
    def has_rows(self) -> bool:
        """Whether a row may become several triples."""
        return self.mapping is not None and len(self.mapping.templates) > 1


def map_columns(
    names: Iterable[str],
    columns: Mapping[str, str] | None,
    given: str | Iterable[str] | None,
    *,
    base: str,
    prefixes: Mapping[str, str] | None,
    stream: str | None,
    time_unit: str | None,
) -> MappedColumns:
    """The columns of a DataFrame that a mapping reads; `InputError` for a missing one.

    >>> found = map_columns(["ts", "a", "b"], {"time": "ts"}, "{a} :p {b}", base="urn:triegs:",
    ...                     prefixes=None, stream=None, time_unit=None)
    >>> dict(found)
    {'time': 'ts', '{a}': 'a', '{b}': 'b'}
    """
    there, renamed = list(names), dict(columns or {})
    if unknown := [name for name in renamed if name not in COLUMNS]:
        raise InputError(f"columns maps {unknown[0]!r}, which is not one of {', '.join(COLUMNS)}")
    mapping = read_mapping(given, None if given is None else base, prefixes, renamed)
    options = Options(
        {name: renamed.get(name, name) for name in COLUMNS}, frozenset(renamed),
        TermReading.NTRIPLES, {}, 0, None, mapping,
    )  # fmt: skip
    indexes = find_columns(there, FRAME, options)
    found = {ours: there[number] for ours, number in indexes.items()}
    return MappedColumns(found, mapping, stream or "", check_unit(time_unit))


def choose_base(given: object, base: str | None, terms: str | None) -> tuple[str, str]:
    """The base of names, and the base to remove from results (empty if results are terms).

    >>> choose_base("{a} :p {b}", None, None), choose_base(None, None, None)
    (('urn:triegs:', 'urn:triegs:'), ('urn:triegs:', ''))
    """
    found = check_base(base or BASE)
    chosen = terms or (PLAIN if given is not None else NTRIPLES)
    if chosen not in (NTRIPLES, PLAIN):
        raise InputError(f"terms must be one of {NTRIPLES}, {PLAIN}, not {terms!r}")
    return found, found if chosen == PLAIN else ""


def name_terms(table: pa.Table, base: str) -> pa.Table:
    """Answers with names and values instead of terms, all as strings; unchanged without a base.

    >>> name_terms(pa.table({"x": ["<urn:triegs:a>"], "n": [1]}), "urn:triegs:").to_pylist()
    [{'x': 'a', 'n': 1}]
    """
    if not base:
        return table
    columns = []
    for column in table.columns:
        kind = column.type
        if is_text(kind) or pa.types.is_dictionary(kind):
            coded = column.combine_chunks()
            coded = coded if pa.types.is_dictionary(kind) else coded.dictionary_encode()
            texts = [write_plain(term, base) for term in coded.dictionary.to_pylist()]
            column = pa.array(texts, pa.string()).take(coded.indices)
        columns.append(column)
    return pa.table(columns, table.schema.names)


def make_namer(
    base: str, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`name_terms` for `DataFrame.mapInArrow`."""

    def name(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from name_terms(pa.Table.from_batches([batch]), base).cast(schema).to_batches()

    return name
