"""The total order of terms, which ORDER BY, MIN and MAX share.

SPARQL orders unbound values before blank nodes, IRIs and literals, and literals by ``<``. Where
``<`` is undefined, this order goes by kind (see `Sort`) and then by text, so that results do not
depend on the order of the rows. Numbers compare by exact value. Promotion, as in ``<``, is not
transitive: two integers may equal the same double.

`order_key` is the definition, and `rank_terms` the same for many terms at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.sparql.value_columns import EPOCH_SECONDS, read_moments, read_numbers, take, to_mask
from triegs.sparql.values import Moment, MomentKind, Number, Text, value_of
from triegs.terms.decoder import Terms
from triegs.terms.term import Kind, parse_term

Ranks = NDArray[np.int64]
#: Up to this many terms, ranking one by one is faster.
FEW = 16
#: Doubles represent all integers up to this size.
_EXACT = 2**53
_WORD = 2**63


class Sort(IntEnum):
    """The kinds of terms that ORDER BY keeps apart, in their order."""

    UNBOUND = 0
    BLANK = 1
    IRI = 2
    NAN = 3
    NUMBER = 4
    DATE = 5
    DATE_TIME = 6
    STRING = 7
    #: A string with a language; ordered by language first.
    TAGGED = 8
    BOOLEAN = 9
    #: Unknown datatypes and ill-typed literals; ordered by datatype first.
    OTHER = 10


Key = tuple[Sort, Any]
_MOMENTS = {MomentKind.DATE: Sort.DATE, MomentKind.DATE_TIME: Sort.DATE_TIME}


def order_key(term: str | None) -> Key:
    """The key of a term, None for unbound; equal for terms that ORDER BY does not distinguish.

    >>> integer = "http://www.w3.org/2001/XMLSchema#integer"
    >>> terms = [f'"10"^^<{integer}>', '"b"', f'"9"^^<{integer}>', "<http://ex/a>", None]
    >>> sorted(terms, key=order_key) == [terms[4], terms[3], terms[2], terms[0], terms[1]]
    True
    """
    if term is None:
        return Sort.UNBOUND, 0
    match value_of(term):
        case Number(amount=float(amount)) if not math.isfinite(amount):
            return (Sort.NAN, 0) if math.isnan(amount) else (Sort.NUMBER, amount)
        case Number(amount=amount):
            return Sort.NUMBER, Fraction(amount)
        case Moment(kind=kind, seconds=seconds):
            return _MOMENTS[kind], seconds
        case Text(text=text, language=language):
            return (Sort.TAGGED, (language, text)) if language else (Sort.STRING, text)
        case bool(truth):
            return Sort.BOOLEAN, truth
    parts = parse_term(term)
    if parts.kind is Kind.LITERAL:
        return Sort.OTHER, (parts.datatype, parts.lexical)
    return (Sort.IRI if parts.kind is Kind.IRI else Sort.BLANK), parts.lexical


def total_key(term: str | None) -> tuple[Key, str]:
    """As `order_key`, and different terms have different keys."""
    return order_key(term), term or ""


def rank_terms(terms: Terms) -> Ranks:
    """Integers in the order of the terms, equal where `order_key` is. Cost: O(n log n), with Python
    objects only for unusual numbers and times, dates, and strings with a language or an escape.

    >>> from triegs.terms.dictionary import Dictionary
    >>> words = Dictionary()
    >>> ids = np.array(words.encode_terms([30, "<http://ex/a>", 4, 4.0]))
    >>> rank_terms(words.read_terms(ids)).tolist()
    [2, 0, 1, 1]
    """
    if len(terms.is_integer) <= FEW:
        keys = iter(map(order_key, terms.texts.to_pylist()))
        integers = iter(terms.integers.tolist())
        return rank_keys(
            [(Sort.NUMBER, next(integers)) if each else next(keys) for each in terms.is_integer]
        )
    return _Ranking(terms).rank()


def rank_keys(keys: Sequence[Any]) -> Ranks:
    """The rank of each key among the different ones.

    >>> rank_keys(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], np.int64)


def rank_texts(texts: Any) -> Ranks:
    """The rank of each string of an Arrow array by code points, which UTF-8 preserves."""
    ranks = pc.rank(texts, "ascending", tiebreaker="dense")
    return np.frombuffer(ranks.buffers()[1], np.uint64, len(texts)).astype(np.int64)


class _Ranking:
    """Sorts terms into kinds, and ranks each kind by itself."""

    def __init__(self, terms: Terms) -> None:
        self._rows_of_texts = np.flatnonzero(~terms.is_integer)
        self._texts = terms.texts
        self._integers = terms.integers
        self._sorts = np.full(len(terms.is_integer), Sort.NUMBER, np.int64)
        self._row_of_integer = np.flatnonzero(terms.is_integer)
        #: The values of numbers and times, rounded; those in `_rounded` compare exactly in ties.
        self._doubles = np.zeros(len(terms.is_integer))
        self._moments = np.zeros(len(terms.is_integer), np.int64)
        self._rounded = np.zeros(len(terms.is_integer), np.bool_)
        self._doubles[terms.is_integer] = terms.integers
        is_large = (terms.integers > _EXACT) | (terms.integers < -_EXACT)
        self._rounded[self._row_of_integer[is_large]] = True
        #: The keys that were read one by one, by row.
        self._keys: dict[int, Any] = {}
        #: The row of each text.
        self._at = np.full(len(terms.is_integer), -1, np.int64)
        self._at[self._rows_of_texts] = np.arange(len(self._rows_of_texts))

    def rank(self) -> Ranks:
        if len(self._texts):
            self._read_texts()
        ranks = np.zeros(len(self._sorts), np.int64)
        first = 0
        for sort in Sort:
            rows = np.flatnonzero(self._sorts == sort)
            if len(rows):
                ranks[rows] = first + self._rank_sort(sort, rows)
                first = int(ranks[rows].max()) + 1
        return ranks

    def _read_texts(self) -> None:
        texts, rows = self._texts, self._rows_of_texts
        is_left = np.ones(len(texts), np.bool_)
        is_plain = to_mask(pc.ends_with(texts, '"')) & ~to_mask(pc.match_substring(texts, "\\"))
        for sort, is_sort in (
            (Sort.IRI, to_mask(pc.starts_with(texts, "<"))),
            (Sort.BLANK, to_mask(pc.starts_with(texts, "_"))),
            (Sort.STRING, is_plain),
        ):
            self._sorts[rows[is_sort]] = sort
            is_left[is_sort] = False
        left = np.flatnonzero(is_left)
        if len(left):
            others = take(texts, left)
            numbers, moments = read_numbers(others), read_moments(others)
            at = rows[left[numbers.rows]]
            self._doubles[at] = numbers.doubles
            # A decimal such as 0.1 is rounded; a double of the same digits is another number.
            is_whole = numbers.doubles == np.floor(numbers.doubles)
            self._rounded[at] = ~numbers.is_double & ~is_whole
            at = rows[left[moments.rows]]
            self._sorts[at] = Sort.DATE_TIME
            self._moments[at] = moments.microseconds
            is_left[left[numbers.rows]] = is_left[left[moments.rows]] = False
        left = np.flatnonzero(is_left)
        if len(left):
            for row, text in zip(rows[left].tolist(), take(texts, left).to_pylist(), strict=True):
                self._read_one(row, order_key(text))

    def _read_one(self, row: int, key: Key) -> None:
        sort, value = key
        self._sorts[row] = sort
        self._keys[row] = value
        if sort is Sort.NUMBER:
            self._doubles[row] = _round(value)
            self._rounded[row] = float(self._doubles[row]) != value
        elif sort is Sort.DATE_TIME:
            exact = (value - EPOCH_SECONDS) * 10**6
            word = max(-_WORD, min(_WORD - 1, math.floor(exact)))
            self._moments[row] = word
            self._rounded[row] = exact != word

    def _rank_sort(self, sort: Sort, rows: Ranks) -> Ranks:
        if sort is Sort.NUMBER:
            return self._rank_words(self._doubles[rows], rows)
        if sort is Sort.DATE_TIME:
            return self._rank_words(self._moments[rows], rows)
        if sort in (Sort.IRI, Sort.BLANK, Sort.STRING):
            return self._rank_strings(sort, rows)
        return rank_keys([self._keys[row] for row in rows.tolist()])

    def _rank_words(self, words: NDArray[Any], rows: Ranks) -> Ranks:
        _, ranks, counts = np.unique(words, return_inverse=True, return_counts=True)
        is_rounded = self._rounded[rows]
        is_tied = np.zeros(len(counts), np.bool_)
        is_tied[ranks[is_rounded]] = True
        tied = np.flatnonzero((is_tied & (counts > 1))[ranks])
        if not len(tied):
            return ranks
        exact = rank_keys([self._find_exact(row) for row in rows[tied].tolist()])
        wide = ranks * (len(tied) + 1)
        wide[tied] += exact
        return np.unique(wide, return_inverse=True)[1]

    def _find_exact(self, row: int) -> Any:
        if row in self._keys:
            return self._keys[row]
        if self._at[row] < 0:
            return int(self._integers[np.searchsorted(self._row_of_integer, row)])
        return order_key(self._texts[int(self._at[row])].as_py())[1]

    def _rank_strings(self, sort: Sort, rows: Ranks) -> Ranks:
        is_read = np.array([row in self._keys for row in rows.tolist()]) if self._keys else (
            np.zeros(len(rows), np.bool_))  # fmt: skip
        whole = take(self._texts, self._at[rows[~is_read]])
        # Without the brackets, which would take part in the comparison of a text with its prefix.
        texts = whole if sort is Sort.BLANK else pc.utf8_slice_codeunits(whole, 1, -1)
        if is_read.any():
            read = build_strings(self._keys[row] for row in rows[is_read].tolist())
            texts = pa.concat_arrays([texts.cast(pa.large_string()), read])
        ranks = np.empty(len(rows), np.int64)
        ranks[np.concatenate([np.flatnonzero(~is_read), np.flatnonzero(is_read)])] = rank_texts(
            texts
        )
        return ranks


def build_strings(texts: Iterable[str]) -> Any:
    """An Arrow array of strings; `pa.array` of a list would import pandas."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def _round(amount: float | Fraction) -> float:
    try:
        return float(amount)
    except OverflowError:
        return math.inf if amount > 0 else -math.inf
