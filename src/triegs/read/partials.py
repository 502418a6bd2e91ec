"""Partial aggregates: the entries of a partition's measures, which add up over partitions.

A query that is registered as partial keeps counts by group, digits of sums, and values with their
numbers of answers (`triegs.compiler.groups`). An entry is the number of its measure, the terms of
the group's variables, the values or the number of a digit, and a count. `triegs.read.merging` makes
rows from the entries of all partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from triegs.compiler.plan import DIGIT, Groups, Source
from triegs.maintain.enumeration_plan import GroupMeasure
from triegs.read.columns import Words
from triegs.read.differences import Side
from triegs.read.group_measures import find_factor, multiply
from triegs.read.group_state import LISTED
from triegs.read.kernels.differences import difference_words
from triegs.read.kernels.groups import list_changed, open_changed, read_counts
from triegs.read.snapshot import Snapshot
from triegs.store.packed import PackedVersion

MEASURE, COUNT = "measure", "count"
#: An entry of this measure says only that a partition has been read.
MARKER = -1
EMPTY = 0  # the root of an empty relation

#: A measure, its keys by row, and their signed counts.
Entries = tuple[int, Words, Words]


def is_partial(snapshot: Snapshot) -> bool:
    """Whether a snapshot has partial groups."""
    grouping = snapshot._reader.plan.query.grouping
    return grouping is not None and grouping.is_partial


def list_value_names(groups: Groups, source: Source) -> tuple[str, ...]:
    """The columns of a measure after the variables of the group: values, `DIGIT`, or none."""
    columns = source.plan.nodes[source.plan.root].interface
    return tuple(name for name in columns if name not in groups.variables)


def make_schema(groups: Groups) -> pa.Schema:
    """The columns of entries: measure, terms of the group, values, count."""
    most = max(len(list_value_names(groups, source)) for source in groups.sources)
    keys = [(f"key{number}", pa.string()) for number in range(len(groups.variables))]
    values = [(f"value{number}", pa.string()) for number in range(most)]
    return pa.schema([(MEASURE, pa.int64()), *keys, *values, (COUNT, pa.int64())])


def read_partials(snapshot: Snapshot) -> pa.Table:
    """All entries of a snapshot, and one of the measure `MARKER`. Cost: the entries."""
    side = Side(snapshot._reader.enumeration, snapshot._version)
    with snapshot._hold():
        entries = list(_list_changes(None, side))
        table = _write(snapshot, entries)
    marker = dict.fromkeys(table.schema.names) | {MEASURE: MARKER, COUNT: 1}
    return pa.concat_tables([pa.Table.from_pylist([marker], table.schema), table])


def diff_partials(new: Snapshot, old: Snapshot) -> pa.Table:
    """The entries whose counts differ, with signed counts. An entry may occur twice. Cost: the
    entries that differ.
    """
    before, after = (Side(each._reader.enumeration, each._version) for each in (old, new))
    with old._hold(), new._hold():
        return _write(new, list(_list_changes(before, after)))


def _list_changes(old: Side | None, new: Side) -> Iterator[Entries]:
    for number, after in enumerate(new.enumeration.measures):
        before = None if old is None else old.enumeration.measures[number]
        if old is None or before is None or not _is_comparable(before, old, after, new):
            yield from _list_all(number, after, new.version, 1)
            if old is not None and before is not None:
                yield from _list_all(number, before, old.version, -1)
        elif after.relation is not None:
            words = max(old.version, new.version, key=lambda version: version.number).words
            at = after.relation.root_at
            roots = int(old.version.roots[at]), int(new.version.roots[at])
            factor = find_factor(after, new.version)
            for keys in _list_differing(words, *roots, len(after.names)):
                counts = [multiply(_count(words, root, keys), factor) for root in roots]
                yield from _subtract(number, keys, *counts)


def _is_comparable(before: GroupMeasure, old: Side, after: GroupMeasure, new: Side) -> bool:
    """Whether the differences of the relation are those of the measure."""
    factors = find_factor(before, old.version), find_factor(after, new.version)
    return before.relation is after.relation and factors[0] == factors[1]


def _list_all(
    number: int, measure: GroupMeasure, version: PackedVersion, sign: int
) -> Iterator[Entries]:
    factor = find_factor(measure, version)
    if factor == 0:
        return
    if measure.relation is None:
        yield number, np.empty((1, 0), np.int64), sign * multiply(np.ones(1, np.int64), factor)
        return
    version.check_held()
    root = int(version.roots[measure.relation.root_at])
    for keys in _list_differing(version.words, EMPTY, root, len(measure.names)):
        yield number, keys, sign * multiply(_count(version.words, root, keys), factor)


def _list_differing(words: Words, old: int, new: int, columns: int) -> Iterator[Words]:
    """The keys whose counts differ in two versions of a relation, in batches."""
    state = np.zeros(difference_words(columns), np.int64)
    open_changed(words, state, old, new)
    while True:
        keys = np.empty(LISTED * columns, np.int64)
        count = list_changed(words, state, columns, columns, keys)
        if count:
            yield keys.reshape(LISTED, columns)[:count]
        if count < LISTED:
            return


def _count(words: Words, root: int, keys: Words) -> Words:
    counts = np.empty(len(keys), np.int64)
    read_counts(words, root, np.ascontiguousarray(keys).reshape(-1), keys.shape[1], counts)
    return counts


def _subtract(number: int, keys: Words, old: Words, new: Words) -> Iterator[Entries]:
    """The differences of counts, in two entries where one does not fit 64 bits."""
    change = new - old
    is_wide = ((new ^ old) & (new ^ change)) < 0
    yield number, keys[~is_wide], change[~is_wide]
    if is_wide.any():
        yield number, keys[is_wide], new[is_wide]
        yield number, keys[is_wide], -old[is_wide]


def _write(snapshot: Snapshot, entries: list[Entries]) -> pa.Table:
    """Entries as a table; numbers of digits are written as decimal texts."""
    plan = snapshot._reader.plan
    groups = plan.groups
    assert groups is not None
    schema = make_schema(groups)
    tables = [schema.empty_table()]
    for number, keys, counts in entries:
        names = snapshot._reader.enumeration.measures[number].names
        columns = [np.full(len(counts), number)]
        values = list_value_names(groups, groups.sources[number])
        for name in (*groups.variables, *values):
            ids = keys[:, names.index(name)]
            column = pa.array(ids) if name == DIGIT else snapshot._decoder.decode(ids)
            columns.append(column.cast(pa.string()))
        columns += [pa.nulls(len(counts), pa.string())] * (len(schema) - 1 - len(columns))
        tables.append(pa.table([*columns, counts], schema))
    return pa.concat_tables(tables)
