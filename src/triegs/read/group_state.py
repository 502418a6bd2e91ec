"""The groups of one version: their bases, and the rows computed from their measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.compiler.groups import CARRIED, WHOLE_SUMS, is_extreme
from triegs.compiler.plan import Measure
from triegs.errors import MultiplicityOverflow
from triegs.maintain.digits import WHOLE, sum_of
from triegs.read.columns import Columns, NotIntegers, Sizes, Words, read_columns
from triegs.read.group_measures import find_factor, multiply
from triegs.read.group_rows import find_row, find_value
from triegs.read.kernels.groups import (
    CURSOR,
    DECIMALS,
    INTEGERS,
    OTHERS,
    QUOTIENT_BYTES,
    list_extremes,
    read_counts,
    read_decimals,
    read_extremes,
    write_quotients,
)
from triegs.read.output import take_integers
from triegs.read.rows import UNBOUND
from triegs.sparql.aggregates import aggregate
from triegs.sparql.expressions import UNBOUND as NO_TERM
from triegs.sparql.model import Aggregate, Expression
from triegs.sparql.term_order import total_key
from triegs.sparql.values import DIVISION_PLACES, ExpressionError, Number, Rank, number_term
from triegs.store.packed import PackedVersion
from triegs.terms.term import XSD

if TYPE_CHECKING:
    from triegs.read.groups import GroupReader

Base = tuple[int, ...]
Flags = NDArray[np.bool_]
#: Bases that are listed at once.
LISTED = 4096
EMPTY = 0  # the root of a relation without entries
MISSING = -2  # instead of an id
#: What follows the digits in the term of a decimal.
DECIMAL = np.frombuffer(bytearray(f'"^^<{XSD}decimal>'.encode()), np.uint8)


class GroupState:
    """The groups of one version, as a reader shows them."""

    def __init__(self, reader: GroupReader, version: PackedVersion) -> None:
        self._reader = reader
        self._version = version
        self._groups = reader.groups
        self._grouping = reader.grouping
        self._measures = reader.enumeration.measures
        self._factors = [find_factor(measure, version) for measure in self._measures]

    def list_bases(self, sizes: Sizes) -> Iterator[Columns]:
        """The bases of all groups, in batches, with what the first source counts for them, which is
        negative where it does not fit 64 bits.
        """
        if not self._grouping.keys:  # the only group exists always
            yield np.empty((1, 0), np.int64), np.ones(1, np.int64)
            return
        for ids, counts in read_columns(self._reader.enumeration, self._version, sizes):
            yield np.ascontiguousarray(ids.T, np.int64), counts

    def list_all(self) -> Words:
        """The bases of all groups."""
        listed = [bases for bases, _ in self.list_bases(lambda: LISTED)]
        return np.concatenate([np.empty((0, len(self._groups.variables)), np.int64), *listed])

    def complete(self, bases: Words) -> Words:
        """All bases of the groups of these bases. Cost: the keys of all bases, if a group may have
        several.
        """
        if self._reader.is_direct:
            return bases
        with self._reader.lock:
            groups = self._group(bases).keys()
            found = self._group(self.list_all())
        chosen = [base for key, each in found.items() if key in groups for base in each]
        return np.array(chosen, np.int64).reshape(len(chosen), bases.shape[1])

    def find_integers(self, bases: Words, counts: Words, spans: Words) -> Words:
        """The values of a row for each base, by column; `NotIntegers` unless all are integers.
        `counts` is what the first source counts, `spans` has the integers of the engine by id.
        """
        rows = np.empty((len(self._reader.shown), len(bases)), np.int64)
        for column, key in enumerate(self._reader.shown):
            if key is not None:
                name = str(self._grouping.keys[key].expression)
                ids = np.ascontiguousarray(bases[:, self._groups.variables.index(name)])
                _take_integers(spans, ids, rows[column])
                continue
            number = self._groups.columns[column]
            assert number is not None
            measure = self._groups.sources[number].measure
            if measure in WHOLE_SUMS:
                if self._open(number, bases[:0])[0] != EMPTY:
                    raise NotIntegers
                number = self._find_whole(number)
            if number == 0 and measure is Measure.COUNT:
                if (counts < 0).any():
                    raise NotIntegers
                rows[column] = counts
                continue
            try:
                found = self._read_counts(number, bases)
            except MultiplicityOverflow:
                raise NotIntegers from None
            if measure in CARRIED:
                _take_integers(spans, found - 1, rows[column])
            else:
                rows[column] = found
        return rows

    def find_rows(self, bases: Words) -> Words:
        """The rows of the groups of these bases, by column, without those that do not exist."""
        rows, is_there = self.find_all(bases)
        return rows[:, is_there]

    def find_all(self, bases: Words) -> tuple[Words, Flags]:
        """A row for each group of these bases, by column, and whether it exists."""
        with self._reader.lock:
            if self._reader.is_direct:
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
        rows = np.empty((len(self._reader.shown), count), np.int64)
        is_there = np.ones(count, np.bool_)
        if self._grouping.keys and self._reader.is_direct:
            is_there = self._has_answers(bases)
        slow = []
        for column, key in enumerate(self._reader.shown):
            expression = self._grouping.columns[column].expression
            ids = groups[key] if key is not None else None
            if ids is None and self._reader.is_direct and isinstance(expression, Aggregate):
                ids = self._read_direct(expression, bases, each)
            if ids is None:
                slow.append(column)
            else:
                rows[column] = ids
        if slow or self._grouping.having:
            for row in np.flatnonzero(is_there).tolist():
                found = self._find_row(groups[:, row].tolist(), each[row], slow)
                if found is None:
                    is_there[row] = False
                else:
                    rows[slow, row] = found
        return rows, is_there

    def _read_direct(
        self, each: Aggregate, bases: Words, members: Sequence[list[Base]]
    ) -> Words | None:
        """The ids of an extreme, or of an aggregate whose values are integers or decimals, or most
        of them; None if it is of another kind.
        """
        number = self._reader.find_source(each)
        measure = self._groups.sources[number].measure
        if measure in CARRIED:
            return self._read_counts(number, bases) - 1  # UNBOUND where there is none
        if is_extreme(each) and self._measures[number].by_value is not None:
            return self._read_extremes(each, number, bases)
        try:
            if measure in (Measure.COUNT, Measure.DISTINCT):
                return self._encode_integers(self._read_counts(number, bases))
            return self._read_quotients(each, bases, members) if measure in WHOLE_SUMS else None
        except MultiplicityOverflow:  # what is stored fits 64 bits, but not times a component
            return np.array([self._encode_aggregate(each, one) for one in members], np.int64)

    def _read_quotients(
        self, each: Aggregate, bases: Words, members: Sequence[list[Base]]
    ) -> Words:
        """The ids of sums or averages."""
        number = self._reader.find_source(each)
        source = self._groups.sources[number]
        measure, values = source.measure, source.values
        divisors = None
        if each.function == "AVG":
            divisors = self._read_counts(self._find_divisor(measure, values), bases)
        sums = self._read_sums(number, bases)
        ids = np.full(len(bases), MISSING)
        is_integer = sums.kinds == INTEGERS if divisors is None else divisors == 0
        ids[is_integer] = self._encode_integers(sums.whole[is_integer])
        self._encode_quotients(sums, divisors, ids)
        for row in np.flatnonzero(ids == MISSING).tolist():
            ids[row] = self._encode_aggregate(each, members[row])
        return ids

    def _read_extremes(self, each: Aggregate, number: int, bases: Words) -> Words:
        """The engine's ids of an extreme of each base's values. A value that alone has the best
        sort key is the extreme.
        """
        found, counts = np.zeros(len(bases), np.int64), np.zeros(len(bases), np.int64)
        if self._factors[number] != 0:
            root, keys, width = self._open_sorted(number, bases)
            is_last, cursor = each.function == "MAX", np.zeros(CURSOR, np.int64)
            read_extremes(self._version.words, root, keys, width, is_last, cursor, found, counts)
        found[counts == 0] = UNBOUND
        choose = max if each.function == "MAX" else min
        for row in np.flatnonzero(counts > 1).tolist():
            tied = self._list_extremes(number, each, [tuple(bases[row].tolist())])
            found[row] = choose(tied, key=lambda one: total_key(self._reader.decode(one)))
        return found

    def _list_extremes(self, number: int, each: Aggregate, bases: Iterable[Base]) -> Iterator[int]:
        """The ids of a group's values that may be its extreme: several may share the best sort key,
        and there is one of each kind.
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
            yield from found[:count].tolist()

    def _open_sorted(self, number: int, bases: Words) -> tuple[int, Words, int]:
        """As `_open`, for the relation with sort keys."""
        relation = self._measures[number].by_value
        assert relation is not None
        _, keys, width = self._open(number, bases)
        if width == 0:
            keys, width = np.zeros(len(bases), np.int64), 1
        return int(self._version.roots[relation.root_at]), keys, width

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

    def _encode_aggregate(self, each: Aggregate, bases: list[Base]) -> int:
        found = self._aggregate(each, bases)
        return self._encode(None if found is NO_TERM else str(found))

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
        number = self._reader.find_source(each)
        source = self._groups.sources[number]
        measure, values = source.measure, source.values
        if measure in (Measure.COUNT, Measure.DISTINCT):
            return number_term(Number(Rank.INTEGER, self._count(number, bases)))
        if measure in (Measure.SUM, Measure.DISTINCT_SUM):
            digits = {WHOLE: self._count(self._find_whole(number), bases)}
            for base in bases:
                for (position,), digit in self._scan(number, base):
                    digits[position] = digits.get(position, 0) + digit
            divisor = 0
            if each.function == "AVG":
                divisor = self._count(self._find_divisor(measure, values), bases)
                if divisor == 0:
                    return number_term(Number(Rank.INTEGER, 0))
            return number_term(sum_of(digits.items(), divisor))
        if measure in CARRIED:
            words = self._read_counts(number, np.array(bases, np.int64)).tolist()
            return self._choose(each, [word - 1 for word in words if word])
        if is_extreme(each) and self._measures[number].by_value is not None:
            return self._choose(each, self._list_extremes(number, each, bases))
        return aggregate(each.function, self._list_values(number, each, bases), each.duplicates)

    def _choose(self, each: Aggregate, ids: Iterable[int]) -> str:
        """The extreme of terms of the engine."""
        terms = ((self._reader.decode(one), 1) for one in ids)
        return aggregate(each.function, terms, each.duplicates)

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

    def _has_answers(self, bases: Words) -> Flags:
        """Whether the group of each base exists."""
        found: Flags = self._read_stored(0, bases) > 0
        return found if self._factors[0] else np.zeros_like(found)

    def _read_stored(self, number: int, bases: Words) -> Words:
        """The counts of a measure, without the factor of other components."""
        counts = np.ones(len(bases), np.int64)
        if self._measures[number].relation is not None:
            root, keys, width = self._open(number, bases)
            read_counts(self._version.words, root, keys, width, counts)
        return counts

    def _read_counts(self, number: int, bases: Words) -> Words:
        counts, factor = self._read_stored(number, bases), self._factors[number]
        is_carried = self._groups.sources[number].measure in CARRIED
        return multiply(counts, min(factor, 1) if is_carried else factor)

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


def _take_integers(spans: Words, ids: Words, values: Words) -> None:
    """Write the values of terms of the engine; `NotIntegers` unless all are integers."""
    row, has_gaps = take_integers(spans, ids, values)
    if row >= 0 or has_gaps:
        raise NotIntegers


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

    def __getitem__(self, row: int) -> list[Base]:  # type: ignore[override]
        return [tuple(self._bases[row].tolist())]
