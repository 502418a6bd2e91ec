"""The rows of a query with aggregates: one per group, computed from its measures.

A version holds the measures of all groups (`triegs.compiler.groups`), so the rows of a snapshot are
those of its epoch. Kernels read counts and sums of integers. What they do not cover is computed
group by group: other numbers, values, expressions, HAVING.

A *base* is a tuple of ids of the variables of the keys. If all keys are variables, a group has one
base; a group by an expression has one for each combination of values that gives its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.compiler.groups import WHOLE_SUMS, choose_measure, is_direct, is_extreme, shows_all_keys
from triegs.compiler.plan import Groups, Measure
from triegs.maintain.digits import WHOLE, sum_of
from triegs.maintain.enumeration_plan import GroupMeasure
from triegs.read.columns import BATCH_ROWS, Columns, Integers, Sizes, Words, read_columns
from triegs.read.differences import Side
from triegs.read.group_measures import find_factor, multiply
from triegs.read.group_rows import find_row, find_value
from triegs.read.kernels.differences import difference_words
from triegs.read.kernels.groups import (
    CURSOR,
    DECIMALS,
    INTEGERS,
    OTHERS,
    QUOTIENT_BYTES,
    list_changed,
    list_extremes,
    open_changed,
    read_counts,
    read_decimals,
    read_extremes,
    write_quotients,
)
from triegs.read.ordering import Load
from triegs.read.rows import UNBOUND, RowReader
from triegs.sparql.aggregates import aggregate
from triegs.sparql.expressions import UNBOUND as NO_TERM
from triegs.sparql.model import Aggregate, Expression, Grouping
from triegs.sparql.values import DIVISION_PLACES, ExpressionError, Number, Rank, number_term
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import Decoder, read_terms
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import XSD

Base = tuple[int, ...]
Flags = NDArray[np.bool_]
#: Changed keys that are listed at once.
LISTED = 4096
EMPTY = 0  # the root of a relation without entries
MISSING = -2  # instead of an id
#: What follows the digits in the term of a decimal.
DECIMAL = np.frombuffer(bytearray(f'"^^<{XSD}decimal>'.encode()), np.uint8)


class ComputedTerms:
    """The terms that readers of one query compute, with ids of their own."""

    def __init__(self) -> None:
        self.lock = Lock()

    @cached_property
    def dictionary(self) -> Dictionary:
        """Made when it is first needed, because most snapshots compute nothing."""
        return Dictionary()


@dataclass(frozen=True)
class GroupReader(RowReader):
    """Reads the rows of groups from any version of their measures.

    Computed terms have ids of their own, in a dictionary of the reader. Threads may share it.
    """

    computed: ComputedTerms = field(default_factory=ComputedTerms)

    @property
    def values(self) -> Dictionary:
        return self.computed.dictionary

    @property
    def lock(self) -> Lock:
        return self.computed.lock

    @property
    def is_plain(self) -> bool:
        return False

    @cached_property
    def _groups(self) -> Groups:
        assert self.plan.groups is not None
        return self.plan.groups

    @cached_property
    def _grouping(self) -> Grouping:
        assert self.plan.query.grouping is not None
        return self.plan.query.grouping

    @cached_property
    def _is_direct(self) -> bool:
        return is_direct(self.plan.query)

    @cached_property
    def _shown(self) -> list[int | None]:
        """For each column of the head, and each hidden one, the key that it shows; None for a
        computed column.
        """
        names = [key.name for key in self._grouping.keys]
        shown = [column.name for column in self._grouping.columns]
        return [names.index(name) if name in names else None for name in shown]

    @cached_property
    def _is_whole(self) -> bool:
        """Whether different groups have different rows: all keys are shown."""
        return shows_all_keys(self.plan.query)

    def count_rows(self, version: PackedVersion) -> int | None:
        query = self.plan.query
        is_cut = query.limit is not None or query.offset or self._grouping.having
        if is_cut or not self._is_whole:
            return None
        measure = self.enumeration.measures[0]
        if not self._grouping.keys or measure.relation is None:
            return 1
        return version.size(measure.relation) if find_factor(measure, version) else 0

    def list_decoders(self, decoder: Decoder) -> tuple[Decoder, ...]:
        computed, keys = self.values.decoder(), Decoder(decoder.load, decoder.base)
        shown = self._is_computed[: len(self.plan.query.head)]
        return tuple(computed if each else keys for each in shown)

    @cached_property
    def _is_computed(self) -> list[bool]:
        """Whether the terms of each column are those of `values`."""
        keys = [key.expression in self._groups.variables for key in self._grouping.keys]
        return [key is None or not keys[key] for key in self._shown]

    def _list_loads(self) -> list[Load]:
        computed = self.values.decoder().load
        return [computed if each else self.load for each in self._is_computed]

    def _unsorted(self, version: PackedVersion) -> Iterator[Columns]:
        for ids, counts in self._read_rows(_State(self, version), lambda: BATCH_ROWS):
            if len(counts):
                yield ids, np.ones(len(counts), np.int64) if self.drops_counts else counts

    # Rows

    def _read(
        self, version: PackedVersion, sizes: Sizes, integers: Integers | None
    ) -> Iterator[Columns]:
        assert integers is None
        return self._read_rows(_State(self, version), sizes)

    def _pick(self, ids: Words) -> Words:
        return ids

    def changes(
        self, old: Side, new: Side, sizes: Sizes, integers: Integers | None = None
    ) -> Iterator[Columns]:
        assert integers is None
        before, after = (_State(replace_side(self, side), side.version) for side in (old, new))
        if self._is_whole:
            bases = self._list_changed(old, new)
            while len(bases):
                size = sizes()
                yield from self._compare(before, after, bases[:size])
                bases = bases[size:]
            return
        # Groups may share a row, so the rows of all groups are compared.
        counted: dict[tuple[int, ...], int] = {}
        for state, sign in ((before, -1), (after, 1)):
            for ids, counts in self._read_rows(state, sizes):
                signs = [sign if self.drops_counts else sign * count for count in counts.tolist()]
                shown = ids[: len(self.plan.query.head)]
                for row, change in zip(zip(*shown.tolist(), strict=True), signs, strict=True):
                    counted[row] = counted.get(row, 0) + change
        rows = [(*row, change) for row, change in counted.items() if change]
        if rows:
            table = np.array(rows, np.int64).T
            yield table[:-1], table[-1]

    def _read_rows(self, state: _State, sizes: Sizes) -> Iterator[Columns]:
        """Each row once, with the number of its groups; without LIMIT."""
        if self._is_whole:
            for bases in state.list_bases(sizes):
                found = state.find_rows(bases)
                yield found, np.ones(found.shape[1], np.int64)
            return
        yield np.unique(state.find_rows(state.list_all()), axis=1, return_counts=True)

    def _list_changed(self, old: Side, new: Side) -> Words:
        """The bases whose measures differ, a row for each."""
        width = len(self._groups.variables)
        found = [np.empty((0, width), np.int64)]
        words = max(old.version, new.version, key=lambda version: version.number).words
        sides = zip(old.enumeration.measures, new.enumeration.measures, strict=True)
        for before, after in sides:
            if find_factor(before, old.version) != find_factor(after, new.version):
                states = (_State(replace_side(self, side), side.version) for side in (old, new))
                found += [state.list_all() for state in states]
                break
            if before.relation is None or after.relation is None:
                continue
            roots = (old.version.roots[before.relation.root_at],
                     new.version.roots[after.relation.root_at])  # fmt: skip
            if width == 0:
                found.append(np.empty((int(roots[0] != roots[1]), 0), np.int64))
                continue
            found += self._list_differing(words, roots, after)
        rows = np.concatenate(found)
        return rows[:1] if width == 0 else np.unique(rows, axis=0)

    def _list_differing(
        self, words: Words, roots: tuple[int, int], measure: GroupMeasure
    ) -> Iterator[Words]:
        variables, columns = self._groups.variables, len(measure.names)
        order = [measure.names.index(name) for name in variables]
        state = np.zeros(difference_words(columns), np.int64)
        open_changed(words, state, *roots)
        while True:
            keys = np.empty(LISTED * len(variables), np.int64)
            count = list_changed(words, state, columns, len(variables), keys)
            yield keys.reshape(LISTED, -1)[:count][:, order]
            if count < LISTED:
                return

    def _compare(self, before: _State, after: _State, bases: Words) -> Iterator[Columns]:
        """The rows of these groups that differ."""
        (old, was_there), (new, is_there) = before.find_all(bases), after.find_all(bases)
        width = len(self.plan.query.head)
        old, new = old[:width], new[:width]
        is_same = was_there & is_there & (old == new).all(axis=0)
        gone, added = was_there & ~is_same, is_there & ~is_same
        ids = np.concatenate([old[:, gone], new[:, added]], axis=1)
        signs = np.repeat(np.array([-1, 1]), [gone.sum(), added.sum()])
        if len(signs):
            yield ids, signs


def replace_side(reader: GroupReader, side: Side) -> GroupReader:
    """The reader for another enumeration of the same query, with the same computed terms."""
    if side.enumeration is reader.enumeration:
        return reader
    return replace(reader, enumeration=side.enumeration)


class _State:
    """The groups of one version."""

    def __init__(self, reader: GroupReader, version: PackedVersion) -> None:
        self._reader = reader
        self._version = version
        self._groups = reader._groups
        self._grouping = reader._grouping
        self._measures = reader.enumeration.measures
        self._factors = [find_factor(measure, version) for measure in self._measures]

    def list_bases(self, sizes: Sizes) -> Iterator[Words]:
        """The bases of all groups, in batches."""
        if not self._grouping.keys:  # the only group exists always
            yield np.empty((1, 0), np.int64)
            return
        for ids, _ in read_columns(self._reader.enumeration, self._version, sizes):
            yield np.ascontiguousarray(ids.T)

    def list_all(self) -> Words:
        """The bases of all groups."""
        width = len(self._groups.variables)
        return np.concatenate([np.empty((0, width), np.int64), *self.list_bases(lambda: LISTED)])

    def find_rows(self, bases: Words) -> Words:
        """The rows of the groups of these bases, by column, without those that do not exist."""
        rows, is_there = self.find_all(bases)
        return rows[:, is_there]

    def find_all(self, bases: Words) -> tuple[Words, Flags]:
        """A row for each group of these bases, by column, and whether it exists."""
        with self._reader.lock:
            if self._reader._is_direct:
                each: Sequence[list[Base]] = _OneBase(bases)
                groups = bases.T[[self._groups.variables.index(str(key.expression))
                                  for key in self._grouping.keys]]  # fmt: skip
            else:
                found = self._group(bases)
                each = list(found.values())
                groups = np.array([*found], np.int64).reshape(-1, len(self._grouping.keys)).T
            return self._find_rows(groups, bases, each)

    def _group(self, bases: Words) -> dict[Base, list[Base]]:
        """Bases by the ids of their keys: of the engine for variables, else of computed terms."""
        found: dict[Base, list[Base]] = {}
        variables = self._groups.variables
        for base in map(tuple, bases.tolist()):
            binding = self._bind(base)
            key = tuple(
                base[variables.index(key.expression)]
                if isinstance(key.expression, str) and key.expression in variables
                else self._encode(find_value(key.expression, binding))
                for key in self._grouping.keys
            )
            found.setdefault(key, []).append(base)
        return found

    def _find_rows(
        self, groups: Words, bases: Words, each: Sequence[list[Base]]
    ) -> tuple[Words, Flags]:
        count = groups.shape[1] if len(groups) else len(each)
        rows = np.empty((len(self._reader._shown), count), np.int64)
        is_there = np.ones(count, np.bool_)
        if self._grouping.keys and self._reader._is_direct:
            is_there = self._read_counts(0, bases) > 0
        slow = []
        for column, key in enumerate(self._reader._shown):
            expression = self._grouping.columns[column].expression
            ids = groups[key] if key is not None else None
            if ids is None and self._reader._is_direct and isinstance(expression, Aggregate):
                ids = self._read_direct(expression, bases, each)
            if ids is None:
                slow.append(column)
            else:
                rows[column] = ids
        if slow or self._grouping.having:
            for place in np.flatnonzero(is_there).tolist():
                found = self._find_row(groups[:, place].tolist(), each[place], slow)
                if found is None:
                    is_there[place] = False
                else:
                    rows[slow, place] = found
        return rows, is_there

    def _read_direct(
        self, each: Aggregate, bases: Words, members: Sequence[list[Base]]
    ) -> Words | None:
        """The ids of an extreme, or of an aggregate whose values are integers or decimals, or most
        of them; None if it is of another kind.
        """
        measure, values = choose_measure(self._reader.plan.query, each)
        number = self._groups.find(measure, values)
        if measure in (Measure.COUNT, Measure.DISTINCT):
            return self._encode_integers(self._read_counts(number, bases))
        if is_extreme(each) and self._measures[number].by_value is not None:
            return self._read_extremes(each, number, bases)
        if measure not in WHOLE_SUMS:
            return None
        divisors = None
        if each.function == "AVG":
            divisors = self._read_counts(self._find_divisor(measure, values), bases)
        sums = self._read_sums(number, bases)
        ids = np.full(len(bases), MISSING)
        is_integer = sums.kinds == INTEGERS if divisors is None else divisors == 0
        ids[is_integer] = self._encode_integers(sums.whole[is_integer])
        self._encode_quotients(sums, divisors, ids)
        for place in np.flatnonzero(ids == MISSING).tolist():
            found = self._aggregate(each, members[place])
            ids[place] = self._encode(None if found is NO_TERM else str(found))
        return ids

    def _read_extremes(self, each: Aggregate, number: int, bases: Words) -> Words:
        """The ids of an extreme of the values of each base. A value that alone has the best sort
        key is the extreme.
        """
        found, counts = np.zeros(len(bases), np.int64), np.zeros(len(bases), np.int64)
        if self._factors[number] != 0:
            root, keys, width = self._open_sorted(number, bases)
            is_last, cursor = each.function == "MAX", np.zeros(CURSOR, np.int64)
            read_extremes(self._version.words, root, keys, width, is_last, cursor, found, counts)
        ids = np.full(len(bases), UNBOUND, np.int64)
        is_one = counts == 1
        terms, places = np.unique(found[is_one], return_inverse=True)
        ids[is_one] = self._encode_terms(terms)[places]
        for place in np.flatnonzero(counts > 1).tolist():
            values = self._list_extremes(number, each, [tuple(bases[place].tolist())])
            ids[place] = self._encode(aggregate(each.function, values, each.duplicates))
        return ids

    def _list_extremes(
        self, number: int, each: Aggregate, bases: Iterable[Base]
    ) -> Iterator[tuple[str, int]]:
        """The values of a group that may be its extreme: several may share the best sort key, and
        there is one of each kind.
        """
        for base in bases if self._factors[number] != 0 else ():
            root, keys, width = self._open_sorted(number, np.array([base], np.int64))
            is_last, cursor = each.function == "MAX", np.zeros(CURSOR, np.int64)
            found, count = np.empty(1, np.int64), 2
            while count > len(found):
                found = np.empty(count, np.int64)
                count = list_extremes(
                    self._version.words, root, keys, width, is_last, cursor, found
                )
            for identity in found[:count].tolist():
                yield self._reader.decode(identity), 1

    def _open_sorted(self, number: int, bases: Words) -> tuple[int, Words, int]:
        """As `_open`, for the relation with sort keys."""
        relation = self._measures[number].by_value
        assert relation is not None
        _, keys, width = self._open(number, bases)
        if width == 0:
            keys, width = np.zeros(len(bases), np.int64), 1
        return int(self._version.roots[relation.root_at]), keys, width

    def _encode_terms(self, ids: Words) -> Words:
        """The ids of the reader for terms of the engine."""
        terms = read_terms(self._reader.load(), ids)
        found = np.empty(len(ids), np.int64)
        found[terms.is_integer] = self._encode_integers(terms.integers)
        found[~terms.is_integer] = self._reader.values.encode(terms.texts).ids
        return found

    def _encode_quotients(self, sums: _Sums, divisors: Words | None, ids: Words) -> None:
        """Fill in missing ids of sums of decimals, divided by divisors, that fit the kernel."""
        is_chosen = (ids == MISSING) & (sums.kinds != OTHERS)
        for digits in (sums.whole, sums.parts):
            is_chosen &= (digits > -(2**62)) & (digits < 2**62)
        if divisors is None:
            divisors = np.ones(len(ids), np.int64)
        is_chosen &= divisors < 2**59
        count = int(is_chosen.sum())
        if not count:
            return
        offsets = np.empty(count + 1, np.int64)
        data = np.empty(count * (QUOTIENT_BYTES + len(DECIMAL)), np.uint8)
        write_quotients(
            sums.whole[is_chosen], sums.parts[is_chosen], divisors[is_chosen], DECIMAL,
            np.empty(DIVISION_PLACES, np.int64), offsets, data,
        )  # fmt: skip
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        texts = pa.Array.from_buffers(pa.large_string(), count, buffers)
        ids[is_chosen] = self._reader.values.encode(texts).ids

    def _encode_integers(self, integers: Words) -> Words:
        ids: Words = self._reader.values.encode(pa.array(integers)).ids
        return ids

    def _encode(self, term: str | None) -> int:
        return UNBOUND if term is None else self._reader.values.encode_one(term)

    # One group

    def _find_row(
        self, group: list[int], bases: list[Base], columns: list[int]
    ) -> list[int] | None:
        """The ids of some columns of a group; None if HAVING excludes it."""
        named = {}
        for key, identity in zip(self._grouping.keys, group, strict=True):
            if key.expression in self._groups.variables:
                named[key.name] = self._reader.decode(identity)
            elif identity != UNBOUND:
                named[key.name] = self._reader.values.decode_one(identity)
        found = find_row(
            self._grouping, columns, named, lambda each: self._find_aggregate(each, bases)
        )
        return None if found is None else [self._encode(term) for term in found]

    def _bind(self, base: Base) -> Mapping[str, str]:
        names = self._groups.variables
        return {name: self._reader.decode(i) for name, i in zip(names, base, strict=True)}

    def _aggregate(self, each: Aggregate, bases: list[Base]) -> Expression:
        try:
            return self._find_aggregate(each, bases)
        except ExpressionError:
            return NO_TERM

    def _find_aggregate(self, each: Aggregate, bases: list[Base]) -> str:
        measure, values = choose_measure(self._reader.plan.query, each)
        number = self._groups.find(measure, values)
        if measure in (Measure.COUNT, Measure.DISTINCT):
            return number_term(Number(Rank.INTEGER, self._count(number, bases)))
        if measure in (Measure.SUM, Measure.DISTINCT_SUM):
            digits = {WHOLE: self._count(self._find_whole(number), bases)}
            for base in bases:
                for (place,), digit in self._scan(number, base):
                    digits[place] = digits.get(place, 0) + digit
            divisor = 0
            if each.function == "AVG":
                divisor = self._count(self._find_divisor(measure, values), bases)
                if divisor == 0:
                    return number_term(Number(Rank.INTEGER, 0))
            return number_term(sum_of(digits.items(), divisor))
        if is_extreme(each) and self._measures[number].by_value is not None:
            extremes = self._list_extremes(number, each, bases)
            return aggregate(each.function, extremes, each.duplicates)
        return aggregate(each.function, self._list_values(number, each, bases), each.duplicates)

    def _list_values(
        self, number: int, each: Aggregate, bases: Iterable[Base]
    ) -> Iterator[tuple[str | None, int]]:
        """The values of an aggregate's argument in a group, with their numbers of answers."""
        names = self._measures[number].names[len(self._groups.variables) :]
        assert each.argument is not None
        for base in bases:
            known = self._bind(base)
            for key, count in self._scan(number, base):
                terms = map(self._reader.decode, key)
                binding = {**known, **dict(zip(names, terms, strict=True))}
                yield find_value(each.argument, binding), count

    # Measures

    def _scan(self, number: int, base: Base) -> Iterator[tuple[Base, int]]:
        """The entries of a base: the ids that follow it, and the count or digit."""
        measure, factor = self._measures[number], self._factors[number]
        if factor == 0:
            return
        if measure.relation is None:
            yield (), factor
            return
        variables = self._groups.variables
        width = len(variables)
        prefix = tuple(base[variables.index(name)] for name in measure.names[:width])
        for key, count in self._version.scan(measure.relation, prefix):
            yield key[width:], count * factor

    def _count(self, number: int, bases: Iterable[Base]) -> int:
        return sum(count for base in bases for _, count in self._scan(number, base))

    def _read_counts(self, number: int, bases: Words) -> Words:
        counts = np.ones(len(bases), np.int64)
        if self._measures[number].relation is not None:
            root, keys, width = self._open(number, bases)
            read_counts(self._version.words, root, keys, width, counts)
        return multiply(counts, self._factors[number])

    def _read_sums(self, number: int, bases: Words) -> _Sums:
        """The sum of each base, as far as it has digits of integers and decimals."""
        whole = self._read_counts(self._find_whole(number), bases)
        parts, kinds = np.zeros(len(bases), np.int64), np.full(len(bases), INTEGERS)
        factor = self._factors[number]
        root, keys, width = self._open(number, bases)
        if factor != 0 and root != EMPTY:
            cursor = np.zeros(CURSOR, np.int64)
            read_decimals(self._version.words, root, keys, width, cursor, parts, kinds)
            if factor != 1:
                kinds[kinds == DECIMALS] = OTHERS
        return _Sums(whole, parts, kinds)

    def _find_divisor(self, measure: Measure, values: tuple[str, ...]) -> int:
        """The source of the number of values that an average is taken of."""
        if measure is Measure.DISTINCT_SUM:
            return self._groups.find(Measure.DISTINCT, values)
        return self._groups.find(Measure.COUNT, ())

    def _find_whole(self, number: int) -> int:
        """The source of the whole digits of a sum."""
        source = self._groups.sources[number]
        return self._groups.find(WHOLE_SUMS[source.measure], source.values)

    def _open(self, number: int, bases: Words) -> tuple[int, Words, int]:
        """The root of a measure, the bases in the order of its columns, and their width."""
        relation, names = self._measures[number][:2]
        assert relation is not None
        variables = self._groups.variables
        columns = [variables.index(name) for name in names[: len(variables)]]
        self._version.check_held()
        root = int(self._version.roots[relation.root_at])
        return root, np.ascontiguousarray(bases[:, columns]).reshape(-1), len(variables)


class _Sums(NamedTuple):
    """The whole digits of sums, those of 9 decimal places, and which digits each has beside."""

    whole: Words
    parts: Words
    kinds: Words


class _OneBase(Sequence[list[Base]]):
    """Bases, each as the only one of its group."""

    def __init__(self, bases: Words) -> None:
        self._bases = bases

    def __len__(self) -> int:
        return len(self._bases)

    def __getitem__(self, place: int) -> list[Base]:  # type: ignore[override]
        return [tuple(self._bases[place].tolist())]
