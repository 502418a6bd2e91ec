"""Judges: the filters that kernels refer to by number, and their cached verdicts.

`triegs.maintain.kernels.verdicts` describes the array that kernels read. This module computes the
verdicts: for a filter over one variable once per id until that id is freed, for comparisons such as
`?x < ?y` from the values of the two terms, for any other filter once per tuple and epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.compiler.keys import expression_text
from triegs.jit.words import Words
from triegs.maintain.kernels.sort_keys import write_sort_keys
from triegs.maintain.kernels.verdicts import (
    ACCEPTED,
    COMPARISON,
    COUNT,
    DIFFERENT,
    DIRECTORY,
    DOUBLES,
    EQUAL,
    ERROR,
    FORM,
    GREATER,
    IDS,
    LEFT,
    LEFT_FACTOR,
    LEFT_WHOLE,
    LESS,
    LIMIT,
    LINEAR,
    NOT_LINEAR,
    OFFSET,
    OFFSET_WHOLE,
    PLANES,
    RIGHT,
    RIGHT_FACTOR,
    RIGHT_WHOLE,
    ROW_HEAD,
    SAME,
    SINGLES,
    SLOTS,
    SPREAD,
    STAMP,
    TABLE,
    TEXTS,
    UNDECIDED,
    UNSURE,
    VALUE_JUDGE,
    VALUE_WORDS,
    VALUES,
    WHOLES,
    count_requests,
    forget_ids,
    group_requests,
    judge_rows,
    move_tuples,
    put_bits,
    put_tuples,
    put_values,
)
from triegs.maintain.value_words import value_words, values_of_integers, values_of_texts
from triegs.sparql.batches import FEW, Batch
from triegs.sparql.comparisons import Comparison, find_comparison
from triegs.sparql.expressions import holds
from triegs.sparql.model import Call, Expression
from triegs.sparql.scope import substitute
from triegs.sparql.term_order import total_key
from triegs.terms.decoder import Terms

LEAST_IDS = 1 << 10
LEAST_SLOTS = 1 << 6
#: A table with more slots is shrunk when an epoch ends.
MOST_SLOTS = 1 << 14
LEAST_REQUESTS, MOST_REQUESTS = 1 << 12, 1 << 20
#: The number of rows of a column that are judged at once.
MOST_ROWS = 1 << 14

# The comparison results that each operator accepts, and those that the values alone do not decide.
#: Not an operator of SPARQL.
IS_AFTER = Call("is after", ("?left", "?right"))
_OPERATORS = {
    "=": (EQUAL | SAME, UNSURE),
    "!=": (LESS | GREATER | DIFFERENT | TEXTS, UNSURE),
    "<": (LESS, UNSURE | TEXTS),
    ">": (GREATER, UNSURE | TEXTS),
    "<=": (LESS | EQUAL, UNSURE | TEXTS),
    ">=": (GREATER | EQUAL, UNSURE | TEXTS),
}


@dataclass(slots=True, eq=False)
class _Judge:
    key: tuple[int, str]
    expression: Expression
    variables: tuple[str, ...]
    form: int
    batch: Batch | None = None
    comparison: Comparison | None = None
    stamp: int = 1
    slots: int = LEAST_SLOTS
    used: int = 0

    @property
    def words(self) -> int:
        """Words of the table."""
        return self.slots * (1 + (len(self.variables) + 1) // 2)


class Judges:
    """The judges of one engine, and their verdicts.

    `decode` returns the term of an id; the optional `read` returns many at once, as
    `triegs.terms.dictionary.Dictionary.read_terms` does. Kernels must fetch `words` and `requests`
    for each call, because larger arrays may have replaced them.

    >>> from triegs.sparql.model import Call
    >>> from triegs.terms.dictionary import Dictionary
    >>> dictionary = Dictionary()
    >>> judges = Judges(dictionary.decode_one, dictionary.read_terms)
    >>> five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> number = judges.find(Call("<", ("?x", five)), ["?x"])
    >>> ids = np.array(dictionary.encode_terms([3, 7, "<http://ex/a>"]))
    >>> judges.judge_columns(number, [ids]).tolist()
    [True, False, False]
    """

    def __init__(
        self, decode: Callable[[int], str], read: Callable[[Words], Terms] | None = None
    ) -> None:
        #: The term of an id.
        self.decode = decode
        #: Many terms at once.
        self.read_terms = read or self._read_each
        self._judges: dict[int, _Judge] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._capacity = 0  # of the directory
        #: Whether a relation has sort keys, which need the values of terms.
        self.has_sorted = False
        self._ids = LEAST_IDS
        self.words: Words = np.zeros(DIRECTORY + 1, np.int64)
        self._replace_requests(LEAST_REQUESTS)
        self._lay_out()

    # Judges --------------------------------------------------------------------------------------

    def find(self, expression: Expression, variables: Sequence[str]) -> int:
        """The number of the judge for an expression; ``variables`` gives the order of ids.

        Expressions that differ only in variable names share one judge. A new judge costs O(all
        verdicts).
        """
        if not variables:
            raise ValueError("a judge needs a variable: decide an expression without one at once")
        key = len(variables), expression_text(expression, variables)
        number = self._numbers.get(key)
        if number is not None:
            return number
        number = next(n for n in range(1, len(self._judges) + 2) if n not in self._judges)
        form, batch = TABLE, None
        if len(variables) == 1:
            form, batch = PLANES, Batch(expression, variables[0])
        comparison = find_comparison(expression)
        if comparison is not None:
            form = COMPARISON
        judge = _Judge(key, expression, tuple(variables), form, batch, comparison)
        self._judges[number] = judge
        try:
            self._lay_out()
        except MemoryError:
            del self._judges[number]
            raise
        self._numbers[key] = number
        return number

    def find_order(self) -> int:
        """The number of the judge that accepts a pair of terms if the first comes after the second
        in the order of terms, `triegs.sparql.term_order.total_key`.
        """
        if not self.has_sorted:
            self.has_sorted = True
            self._lay_out()
        return self.find(IS_AFTER, ("?left", "?right"))

    def express(self, number: int, variables: Sequence[str]) -> Expression:
        """The expression of a judge, over these variables in the order of ids."""
        judge = self._judges[number]
        return substitute(judge.expression, dict(zip(judge.variables, variables, strict=True)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all existing judges."""
        return tuple(self._judges)

    def keep(self, numbers: Collection[int]) -> None:
        """Drop all judges except these; the numbers of the dropped ones become free."""
        dropped = [number for number in self._judges if number not in numbers]
        if dropped:
            self.answer()  # no pending request may reach the next owner of a number
            for number in dropped:
                del self._numbers[self._judges.pop(number).key]
                self.words[DIRECTORY + number] = 0
            self._give_room_back()

    @property
    def bytes(self) -> int:
        return int(self.words.nbytes + self.requests.nbytes)

    # Verdicts ------------------------------------------------------------------------------------

    def answer(self) -> bool:
        """Answer all pending requests; returns whether there were any. If so, the kernel must run
        again.

        Cost: a Python step per tuple of several variables, and per id where `triegs.sparql.batches`
        has no faster way.
        """
        requests = self.requests
        end = int(requests[0])
        if end == 1:
            return False
        only = self._read_only(requests[1:end])
        if only is not None:
            requests[0] = 1
            self._answer(*only)
            return True
        sizes = np.zeros(self._capacity + 1, np.int64)
        count_requests(requests, sizes)
        ends = np.cumsum(sizes)
        ids = np.empty(ends[-1], np.int64)
        group_requests(requests, ends - sizes, ids)
        requests[0] = 1
        if 4 * end > 3 * len(requests) and len(requests) < MOST_REQUESTS:
            self._replace_requests(2 * len(requests))
        for number in np.flatnonzero(sizes).tolist():
            self._answer(number, ids[ends[number] - sizes[number] : ends[number]])
        return True

    def _read_only(self, flat: Words) -> tuple[int, Words] | None:
        """The judge and the ids, if all requests are for single ids and to one judge, which is the
        usual case. Such a request is three words, so the first one that is not is found.
        """
        if len(flat) % 3 or 4 * len(flat) > 3 * len(self.requests):
            return None
        rows = flat.reshape(-1, 3)
        if (rows[:, 1] != 1).any() or (rows[:, 0] != rows[0, 0]).any():
            return None
        return int(rows[0, 0]), rows[:, 2].copy()

    def judge_columns(self, number: int, columns: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """The verdicts on many tuples, one column per variable. Each distinct tuple is evaluated
        once, unless there are too many.
        """
        count = len(columns)
        rows = np.ascontiguousarray(np.stack(columns, axis=1), np.int64).reshape(-1)
        verdicts = np.empty(len(rows) // count, np.int64)
        judge = self._judges[number]
        # A chunk small enough for all its requests: two per value comparison, or one per tuple.
        at_once = min(len(verdicts), MOST_ROWS)
        least = 1 + at_once * max(6, 2 + count)
        if len(self.requests) < least:
            self.answer()
            self._replace_requests(least)
        start = 0
        while start < len(verdicts):
            if judge.used > MOST_SLOTS:
                self._empty(number)
            end = start + at_once
            view = rows[start * count : end * count]
            while True:
                judge_rows(self.words, self.requests, number, view, count, verdicts[start:end])
                if not self.answer():
                    break
            start = end
        return verdicts.astype(np.bool_)

    def sort_keys(self, ids: NDArray[np.int64]) -> Words:
        """The sort keys of ids as sets store them, see `triegs.maintain.kernels.sort_keys`."""
        ids = np.ascontiguousarray(ids, np.int64)
        keys = np.zeros(len(ids), np.int64)
        if not self.has_sorted:
            self.has_sorted = True
            self._lay_out()
        for start in range(0, len(ids), MOST_ROWS):
            some = slice(start, start + MOST_ROWS)
            while True:
                write_sort_keys(self.words, self.requests, ids[some], keys[some])
                if not self.answer():
                    break
        return keys

    def forget(self, ids: NDArray[np.int64]) -> None:
        """Discard all verdicts on freed ids, which may be reused for other terms."""
        if len(ids) == 0 or not (self._judges or self.has_sorted):
            return
        forget_ids(self.words, self._capacity, np.ascontiguousarray(ids, np.int64))
        self.end_epoch()

    def end_epoch(self) -> None:
        """Discard the verdicts on tuples, because their ids may be freed from now on."""
        for number, judge in self._judges.items():
            if judge.used:
                self._empty(number)
        large = [judge for judge in self._judges.values() if judge.slots > MOST_SLOTS]
        for judge in large:
            judge.slots = LEAST_SLOTS
        if large:
            self._give_room_back()

    def _replace_requests(self, least: int) -> None:
        self.requests: Words = np.zeros(_round_up(least), np.int64)
        self.requests[0] = 1

    def _empty(self, number: int) -> None:
        judge = self._judges[number]
        judge.stamp += 1
        judge.used = 0
        self.words[self.words[DIRECTORY + number] + STAMP] = judge.stamp

    # Answering -----------------------------------------------------------------------------------

    def _answer(self, number: int, ids: Words) -> None:
        if number == VALUE_JUDGE:
            ids = self._make_room(ids)
            put_values(self.words, ids, self._read_values(ids))
            return
        judge = self._judges[number]
        if judge.batch is not None:
            ids = self._make_room(ids)
            if len(ids) <= FEW:
                held = np.array(judge.batch.hold_each(self._decode_each(ids)), np.int64)
            else:
                held = judge.batch.hold(self.read_terms(ids)).astype(np.int64)
            put_bits(self.words, int(self.words[DIRECTORY + number]), ids, held)
            return
        count = len(judge.variables)
        tuples = np.array(list(set(map(tuple, ids.reshape(-1, count).tolist()))), np.int64)
        held = self._hold_tuples(judge, tuples)
        # Use the sizes in the words: an earlier attempt to enlarge them may have failed.
        if 2 * (judge.used + len(tuples)) > self.words[self.words[DIRECTORY + number] + SLOTS]:
            judge.slots = _round_up(4 * (judge.used + len(tuples)))
            self._lay_out()
        judge.used += len(tuples)
        put_tuples(self.words, int(self.words[DIRECTORY + number]), tuples.reshape(-1), held)

    def _make_room(self, ids: Words) -> Words:
        """The distinct ids, after making room for them in the planes."""
        ids = np.sort(ids)
        is_first = np.ones(len(ids), np.bool_)
        np.not_equal(ids[1:], ids[:-1], out=is_first[1:])
        distinct: Words = ids[is_first]  # `np.unique` takes three times as long for hundreds
        if distinct[-1] >= self.words[IDS]:
            self._ids = _round_up(int(distinct[-1]) + 1)
            self._lay_out()
        return distinct

    def _hold_tuples(self, judge: _Judge, tuples: Words) -> Words:
        distinct, inverse = np.unique(tuples, return_inverse=True)
        terms = self._decode_each(distinct)
        rows: Any = inverse.reshape(tuples.shape).tolist()
        bindings = (
            {v: terms[index] for v, index in zip(judge.variables, row, strict=True)} for row in rows
        )
        if judge.expression == IS_AFTER:
            keys = list(map(total_key, terms))
            return np.array([keys[left] > keys[right] for left, right in rows], np.int64)
        answers = (holds(judge.expression, binding) for binding in bindings)
        return np.fromiter(answers, np.int64, len(tuples))

    def _decode_each(self, ids: Words) -> list[str]:
        return list(map(self.decode, ids.tolist()))

    def _read_values(self, ids: Words) -> Words:
        if len(ids) <= FEW:
            words = map(value_words, self._decode_each(ids))
            return np.array(list(words), np.int64).reshape(-1)
        terms = self.read_terms(ids)
        values = np.zeros((len(ids), VALUE_WORDS), np.int64)
        values[terms.is_integer] = values_of_integers(terms.integers)
        values[~terms.is_integer] = values_of_texts(terms.texts)
        return values.reshape(-1)

    def _read_each(self, ids: Words) -> Terms:
        texts = pa.array(self._decode_each(ids), pa.large_string())
        return Terms(np.zeros(len(ids), np.bool_), np.empty(0, np.int64), texts)

    # Layout --------------------------------------------------------------------------------------

    def _give_room_back(self) -> None:
        with suppress(MemoryError):  # the old, larger array serves as well
            self._lay_out()

    def _lay_out(self) -> None:
        """Write a new array with all judges and verdicts, in the recorded sizes."""
        old, old_ids = self.words, int(self.words[IDS])
        old_values, old_capacity = int(old[VALUES]), self._capacity
        forms = (judge.form for judge in self._judges.values())
        needs_values = self.has_sorted or COMPARISON in forms
        capacity = 1 + max(self._judges, default=0)
        planes = 2 * (self._ids // 64)
        at = DIRECTORY + capacity
        values = at if needs_values else 0
        at += VALUE_WORDS * self._ids if needs_values else 0
        rows = {}
        for number, judge in self._judges.items():
            rows[number] = at
            at += ROW_HEAD + (planes if judge.form == PLANES else judge.words)
        words = np.zeros(at, np.int64)
        words[IDS], words[VALUES] = self._ids, values
        if values and old_values:
            size = VALUE_WORDS * old_ids
            words[values : values + size] = old[old_values : old_values + size]
        for number, judge in self._judges.items():
            row = rows[number]
            words[DIRECTORY + number] = row
            before = int(old[DIRECTORY + number]) if number < old_capacity else 0
            self._write_head(words[row : row + ROW_HEAD], judge)
            if judge.form == PLANES and before:
                size = 2 * (old_ids // 64)
                words[row + ROW_HEAD :][:size] = old[before + ROW_HEAD :][:size]
            elif judge.used and before:
                move_tuples(old, before, words, row, np.empty(len(judge.variables), np.int64))
        self.words, self._capacity = words, capacity

    def _write_head(self, head: Words, judge: _Judge) -> None:
        head[FORM], head[COUNT] = judge.form, len(judge.variables)
        head[STAMP], head[SLOTS] = judge.stamp, judge.slots
        found = judge.comparison
        if found is not None:
            head[LEFT] = judge.variables.index(found.left)
            head[RIGHT] = judge.variables.index(found.right)
            head[ACCEPTED], head[UNDECIDED] = _OPERATORS[found.operator]
            head[LINEAR] = NOT_LINEAR
            if found.has_arithmetic:
                _write_sum(head, found)
                if found.operator == "!=":  # a value that is not a number differs from a sum
                    head[UNDECIDED] |= ERROR


def _write_sum(head: Words, found: Comparison) -> None:
    parts = [found.left_factor, found.right_factor, found.offset]
    doubles: list[Fraction | float] = [*parts, found.spread, found.limit]
    head[[LEFT_FACTOR, RIGHT_FACTOR, OFFSET, SPREAD, LIMIT]] = write_doubles(doubles)
    head[LINEAR] = SINGLES if found.is_coarse else DOUBLES
    if found.is_exact and all(p.denominator == 1 and abs(p) < 2**62 for p in parts):
        head[LINEAR] = WHOLES
        head[[LEFT_WHOLE, RIGHT_WHOLE, OFFSET_WHOLE]] = [int(part) for part in parts]


def write_doubles(numbers: Sequence[Fraction | float]) -> Words:
    """Numbers as the bits of doubles."""
    return np.array([float(number) for number in numbers], np.float64).view(np.int64)


def _round_up(least: int) -> int:
    return 1 << (least - 1).bit_length()
