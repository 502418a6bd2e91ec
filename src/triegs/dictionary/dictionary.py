"""The dictionary: terms to dense ids and back, counted, and freed when nobody names them.

One writer encodes, acquires, releases and collects; any number of readers decode meanwhile (how
that is safe stands in `triegs.dictionary.decoder`). An epoch of the engine goes::

    encode the batch  →  apply it  →  acquire what it names, release what it no longer names
                      →  publish   →  collect

A term is new with count zero; if it was not acquired by the next `collect`, it goes again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from triegs.dictionary.arrays import (
    FREE_IDS,
    HEAP_LIVE,
    LIMBO,
    NAMED,
    TOP,
    Words,
    count_bytes,
    make_arrays,
)
from triegs.dictionary.checks import check_dictionary
from triegs.dictionary.columns import (
    buffer_texts,
    mark_valid,
    read_integers,
    require_values,
    scope_texts,
    to_arrow,
    write_column,
)
from triegs.dictionary.counting import acquire_ids, release_ids, sift
from triegs.dictionary.decoder import Decoder, read_term, to_words
from triegs.dictionary.known import Known
from triegs.dictionary.room import give_room_back, make_room
from triegs.dictionary.table import (
    BAD,
    MISSING,
    NO_ROOM,
    UNSURE,
    find_integers,
    find_texts,
    intern_integers,
    intern_one,
    intern_one_integer,
    intern_texts,
)
from triegs.dictionary.values import BadTerm, TermForm, write_value
from triegs.terms import canonical_term, scope_label

# So many ids are counted faster in Python than by a kernel.
_FEW = 16
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1


class Problem(NamedTuple):
    """A value of a column that is no term."""

    position: int
    reason: str


class Encoded(NamedTuple):
    """A column as ids; -1 stands where `problems` names the row."""

    ids: Words
    problems: list[Problem]


class DictionaryMetrics(NamedTuple):
    """`live` terms are named; `limbo` ones wait to be freed, `held` of them for a reader's pin."""

    live: int
    limbo: int
    held: int
    free_ids: int
    text_bytes: int
    bytes: int


class Dictionary:
    """Terms and ids, both ways.

    >>> words = Dictionary()
    >>> words.encode_one("<http://ex/a>"), words.encode_one(5)
    (0, 1)
    >>> words.encode_one('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    1
    >>> words.decode_one(0)
    '<http://ex/a>'
    """

    def __init__(self) -> None:
        self._arrays = make_arrays()
        self._known = Known()
        # Ids that only a reader's pin still holds, by that pin.
        self._held: dict[int, list[Words]] = {}
        self._bind()

    def _bind(self) -> None:
        # Plain attributes: the scalar path is a matter of nanoseconds.
        self._texts = self._known.texts
        self._integers = self._known.integers
        self._counts = self._arrays.counts.data

    # Encoding one term -------------------------------------------------------------------------

    def encode_one(self, term: object, scope: str = "") -> int:
        """The id of a term, given as N-Triples text, Python value, rdflib or pyoxigraph term.

        Raises `BadTerm`. A term met before costs one lookup in a dict. ``scope`` names apart
        the blank nodes of one file or feed.

        >>> words = Dictionary()
        >>> words.encode_one('"x"@EN') == words.encode_one('"x"@en')
        True
        >>> words.encode_one("_:b", scope="a.nt") == words.encode_one("_:b", scope="b.nt")
        False
        """
        kind = type(term)
        if kind is str:
            found = None if scope else self._texts.get(term)  # type: ignore[call-overload]
        elif kind is int:
            found = self._integers.get(term)  # type: ignore[call-overload]
        else:
            found = None
        if found is not None:
            return found  # type: ignore[no-any-return]
        return self._seek(term, scope, create=True)

    def find_one(self, term: object, scope: str = "") -> int:
        """The id of a term that is in the dictionary, else -1; adds nothing.

        >>> Dictionary().find_one("<http://ex/a>")
        -1
        """
        return max(self._seek(term, scope, create=False), BAD)

    def encode_terms(self, terms: Iterable[object], scope: str = "") -> list[int]:
        """The ids of a few terms, as `encode_one` gives them.

        >>> Dictionary().encode_terms(["<http://ex/a>", 1, "<http://ex/a>"])
        [0, 1, 0]
        """
        encode = self.encode_one
        return [encode(term, scope) for term in terms]

    def _seek(self, term: object, scope: str, create: bool) -> int:
        if type(term) is int and _LEAST_INTEGER <= term <= _MOST_INTEGER:
            return self._seek_integer(term, create)
        text = term if type(term) is str else write_value(term)
        if scope:
            text = scope_label(text, scope)
        found = self._texts.get(text)
        if found is not None:
            return found
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise BadTerm(f"half of a surrogate pair is no character: {text!a:.80}") from None
        identity = self._seek_bytes(data, create, trusted=False)
        if identity == UNSURE:
            try:
                data = canonical_term(text).encode()
            except ValueError as error:
                raise BadTerm(str(error)) from None
            identity = self._seek_bytes(data, create, trusted=True)
        if identity >= 0:
            self._known.add_text(text, identity, self._arrays.cached)
        return identity

    def _seek_integer(self, value: int, create: bool) -> int:
        identity = int(intern_one_integer(np.int64(value), create, *self._arrays))
        if identity == NO_ROOM:
            self._reserve(0)
            identity = int(intern_one_integer(np.int64(value), create, *self._arrays))
        if identity >= 0:
            self._known.add_integer(value, identity, self._arrays.cached)
        return identity

    def _seek_bytes(self, data: bytes, create: bool, trusted: bool) -> int:
        buffer = np.frombuffer(data, np.uint8)
        identity = int(intern_one(buffer, create, trusted, *self._arrays))
        if identity == NO_ROOM:
            self._reserve(len(data))
            identity = int(intern_one(buffer, create, trusted, *self._arrays))
        return identity

    def _reserve(self, size: int) -> None:
        self._arrays = make_room(self._arrays, size)
        self._counts = self._arrays.counts.data

    # Encoding a column -------------------------------------------------------------------------

    def encode(self, column: Any, scope: str = "") -> Encoded:
        """The ids of a column: Arrow, NumPy, or a sequence of terms of any kind.

        Strings (any Arrow layout), dictionaries of strings and integers are encoded by compiled
        code; floats, decimals, dates and timestamps take a Python step per distinct value, plain
        sequences one per row. Null and malformed values get id -1 and an entry in ``problems``, in
        order of position; data never raises. A column type that has no terms raises `TypeError`.

        >>> words = Dictionary()
        >>> words.encode(pa.array(["<http://ex/a>", None, "a", "<http://ex/a>"]))
        Encoded(ids=array([ 0, -1, -1,  0]), problems=[Problem(position=1, reason='null'), \
Problem(position=2, reason="not an N-Triples term: 'a'")])
        """
        return self._encode(column, scope, create=True)

    def find(self, column: Any, scope: str = "") -> Encoded:
        """As `encode`, but adds nothing: -1 for a term that is not there, which is no problem.

        >>> Dictionary().find([1, 2])
        Encoded(ids=array([-1, -1]), problems=[])
        """
        encoded = self._encode(column, scope, create=False)
        return Encoded(np.maximum(encoded.ids, BAD), encoded.problems)

    def _encode(self, column: Any, scope: str, create: bool) -> Encoded:
        if isinstance(column, (list, tuple)) or (
            isinstance(column, np.ndarray) and column.dtype == np.object_
        ):
            return self._encode_values(column, scope, create)
        parts = [self._encode_array(part, scope, create) for part in to_arrow(column)]
        if len(parts) == 1:
            return parts[0]
        problems = []
        before = 0
        for ids, found in parts:
            problems += [Problem(before + position, reason) for position, reason in found]
            before += len(ids)
        empty: Words = np.empty(0, np.int64)
        return Encoded(np.concatenate([empty, *(ids for ids, _ in parts)]), problems)

    def _encode_values(self, values: Collection[object], scope: str, create: bool) -> Encoded:
        ids = np.empty(len(values), np.int64)
        problems = []
        for position, value in enumerate(values):
            try:
                ids[position] = (
                    self.encode_one(value, scope) if create else self.find_one(value, scope)
                )
            except BadTerm as error:
                ids[position] = BAD
                reason = "null" if value is None else str(error)
                problems.append(Problem(position, reason))
        return Encoded(ids, problems)

    def _encode_array(self, column: Any, scope: str, create: bool) -> Encoded:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._encode_texts(scope_texts(column, scope), create)
        if pa.types.is_string_view(kind):
            return self._encode_texts(scope_texts(column.cast(pa.large_string()), scope), create)
        if pa.types.is_integer(kind):
            return self._encode_integers(column, create)
        if pa.types.is_dictionary(kind):
            return self._encode_dictionary(column, scope, create)
        require_values(kind)
        if pa.types.is_floating(kind):
            return self._encode_floats(column, create)
        return self._encode_dictionary(column.dictionary_encode(), scope, create)

    def _encode_texts(self, column: Any, create: bool) -> Encoded:
        buffers = buffer_texts(column)
        ids = np.empty(len(column), np.int64)
        data, offsets = buffers.data, buffers.offsets
        misses = find_texts(self._arrays, data, offsets, buffers.valid, ids)
        problems = [Problem(int(row), "null") for row in np.flatnonzero(ids == BAD)]
        if misses == 0:
            return Encoded(ids, problems)
        unsure: NDArray[np.intp] = np.flatnonzero(ids == MISSING)
        if create:
            row = intern_texts(self._arrays, data, offsets, ids, 0)
            while row < len(ids):
                self._reserve(int(offsets[row + 1] - offsets[row]))
                row = intern_texts(self._arrays, data, offsets, ids, row)
            unsure = np.flatnonzero(ids == UNSURE)
            if len(unsure) == 0:
                return Encoded(ids, problems)
        # Known spellings that are not the canonical one are found in a dict here, new ones and
        # malformed ones are judged: one step per distinct text.
        distinct = column.take(pa.array(unsure)).dictionary_encode()
        found = self._encode_odd_texts(distinct.dictionary, create)
        places = distinct.indices.to_numpy(zero_copy_only=False)
        ids[unsure] = found.ids[places]
        return Encoded(ids, sorted(problems + _spread(found.problems, places, unsure)))

    def _encode_odd_texts(self, texts: Any, create: bool) -> Encoded:
        values: list[object] = []
        wrong: dict[int, str] = {}
        for row, text in enumerate(texts.cast(pa.large_binary())):
            try:
                values.append(text.as_py().decode())
            except UnicodeDecodeError as error:
                values.append("")
                wrong[row] = f"not UTF-8: {error.reason} at byte {error.start}"
        ids, problems = self._encode_values(values, "", create)
        return Encoded(ids, [Problem(row, wrong.get(row, reason)) for row, reason in problems])

    def _encode_integers(self, column: Any, create: bool) -> Encoded:
        values, large = read_integers(column)
        ids = np.empty(len(values), np.int64)
        misses = int(find_integers(self._arrays.integers, values, ids))
        if misses == 0 and column.null_count == 0 and not large.any():
            return Encoded(ids, [])
        nulls = np.flatnonzero(mark_valid(column) == 0)
        rows = np.flatnonzero(large)
        ids[nulls] = BAD
        ids[rows] = BAD
        if create and misses:
            row = intern_integers(self._arrays, values, ids, 0)
            while row < len(ids):
                self._reserve(0)
                row = intern_integers(self._arrays, values, ids, row)
        unsigned = [int(value) & 2**64 - 1 for value in values[rows]]
        ids[rows] = self._encode_values(unsigned, "", create).ids
        return Encoded(ids, [Problem(int(row), "null") for row in nulls])

    def _encode_floats(self, column: Any, create: bool) -> Encoded:
        # By bits: 0.0 and -0.0 are two terms.
        width = column.type.bit_width
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        bits = values.view(np.dtype(f"i{width // 8}"))
        distinct, places = np.unique(bits, return_inverse=True)
        found = self._encode_values(write_column(pa.array(distinct.view(values.dtype))), "", create)
        ids = found.ids[places]
        if column.null_count == 0:
            return Encoded(ids, [])
        nulls = mark_valid(column) == 0
        ids[nulls] = BAD
        return Encoded(ids, [Problem(int(row), "null") for row in np.flatnonzero(nulls)])

    def _encode_dictionary(self, column: Any, scope: str, create: bool) -> Encoded:
        values = column.dictionary
        if len(values) > 2 * len(column) + 16:  # a slice of a larger column
            column = column.cast(column.type.value_type).dictionary_encode()
            values = column.dictionary
        kind = values.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind):
            found = self._encode_array(values, scope, create)
        else:
            found = self._encode_values(write_column(values), scope, create)
        indices = column.indices
        places = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(values) == 0:
            ids = np.full(len(column), BAD, np.int64)
        else:
            ids = found.ids[places]
        problems = []
        if indices.null_count:
            nulls = np.flatnonzero(mark_valid(indices) == 0)
            ids[nulls] = BAD
            places[nulls] = -1
            problems = [Problem(int(row), "null") for row in nulls]
        if found.problems:
            rows = np.arange(len(ids))
            problems = sorted(problems + _spread(found.problems, places, rows))
        return Encoded(ids, problems)

    # Counting ----------------------------------------------------------------------------------

    def acquire(self, ids: ArrayLike, epoch: int = 0) -> None:
        """Count each id once more, from this epoch on; `KeyError` for one that is not in use.

        >>> words = Dictionary()
        >>> words.acquire([words.encode_one(1), words.encode_one(1)], epoch=1)
        >>> words.metrics().live
        1
        """
        if isinstance(ids, list) and self._count_few(ids, 1, 1):
            return
        words = to_words(ids)
        row = acquire_ids(words, epoch, *self._arrays)
        if row >= 0:
            raise KeyError(f"{words[row]} is not the id of a term")

    def release(self, ids: ArrayLike, epoch: int = 0) -> None:
        """Count each id once less: ``epoch`` is the first that no longer names it.

        `KeyError` for an id that is not in use, or released more often than acquired; nothing
        has changed then.
        """
        if isinstance(ids, list) and self._count_few(ids, -1, 2):
            return
        words = to_words(ids)
        row = release_ids(words, epoch, *self._arrays)
        if row >= 0:
            raise KeyError(f"{words[row]} was released more often than acquired")

    def _count_few(self, ids: list[int], change: int, least: int) -> bool:
        """Change the counts of a few ids here, all of them or none: none if one is below least."""
        counts = self._counts
        if len(ids) > _FEW:
            return False
        for done, identity in enumerate(ids):
            if identity < 0 or identity >= len(counts) or counts[identity] < least:
                for again in ids[:done]:
                    counts[again] -= change
                return False
            counts[identity] += change
        return True

    def collect(self, horizon: int, pins: Sequence[int] = (), at_least: int = 1) -> int:
        """Free what nobody names: count zero, stamp published, no pin that sees it.

        ``horizon`` is the newest published epoch and ``pins`` the epochs that readers hold, in
        ascending order; a term that was named from epoch b up to, not including, s goes when
        s ≤ horizon and no pin p has b ≤ p < s. (Without ``pins``, the oldest epoch that anyone may
        read as ``horizon`` is right too, but one old reader then keeps everything.) Returns how
        many went. O(terms in limbo), plus those that a pin no longer holds; nothing is done while
        limbo has fewer than ``at_least``, which spreads the cost of a call over many small epochs.

        >>> words = Dictionary()
        >>> a = words.encode_one("<http://ex/a>")
        >>> words.acquire([a], epoch=1)
        >>> words.release([a], epoch=3)
        >>> words.collect(3, pins=[2]), words.collect(3)
        (0, 1)
        """
        arrays = self._arrays
        gone = self._held.keys() - set(pins) if self._held else set()
        listed = int(arrays.meta[LIMBO])
        if listed < at_least and not gone:
            return 0
        waiting = [part for pin in gone for part in self._held[pin]]
        ids = np.concatenate([arrays.limbo[:listed], *waiting])
        held_by = np.array(pins, np.int64)
        done, holders = np.empty_like(ids), np.empty_like(ids)
        for pin in gone:
            del self._held[pin]
        arrays.meta[LIMBO] = 0
        freed, held = sift(arrays, ids, horizon, held_by, done, holders)
        if held:
            self._hold(done[-held:], holders[-held:])
        if freed:
            self._known.forget(done[:freed], arrays)
            self._arrays = give_room_back(arrays)
            self._counts = self._arrays.counts.data
        return int(freed)

    def _hold(self, ids: Words, holders: Words) -> None:
        order = np.argsort(holders, kind="stable")
        pins, starts = np.unique(holders[order], return_index=True)
        for pin, part in zip(pins.tolist(), np.split(ids[order], starts[1:]), strict=True):
            self._held.setdefault(pin, []).append(part)

    # Decoding ----------------------------------------------------------------------------------

    def decoder(self) -> Decoder:
        """A `Decoder` for the batches of one snapshot; one per reader and thread."""
        return Decoder(lambda: self._arrays)

    def decode(self, ids: ArrayLike) -> Any:
        """An Arrow dictionary array of N-Triples strings, null for id -1.

        Promise: it holds just the terms needed, each once. O(rows), plus the bytes of the terms.

        >>> words = Dictionary()
        >>> words.decode(words.encode(pa.array([3, 4, 3])).ids).indices.to_pylist()
        [0, 1, 0]
        """
        return self.decoder().decode(ids)

    def decode_values(self, ids: ArrayLike, form: TermForm | str) -> NDArray[np.object_]:
        """Terms as values of another form: ``"python"``, ``"rdflib"``, ``"pyoxigraph"``.

        >>> words = Dictionary()
        >>> words.decode_values(words.encode_terms([3, 2.5, "<http://ex/a>"]), "python").tolist()
        [3, 2.5, '<http://ex/a>']
        """
        return self.decoder().decode_values(ids, form)

    def decode_one(self, identity: int, form: TermForm | str = TermForm.NTRIPLES) -> Any:
        """One term; `IndexError` if the id was never given out.

        >>> words = Dictionary()
        >>> words.decode_one(words.encode_one(True), "python")
        True
        """
        return read_term(self._arrays, identity, form)

    # Looking after it --------------------------------------------------------------------------

    def metrics(self) -> DictionaryMetrics:
        """What there is, and what it takes; O(1). Bytes of the Python caches are estimates.

        >>> Dictionary().metrics().live
        0
        """
        meta = self._arrays.meta
        held = sum(len(part) for parts in self._held.values() for part in parts)
        free, live = int(meta[FREE_IDS]), int(meta[NAMED])
        return DictionaryMetrics(
            live=live,
            limbo=int(meta[TOP]) - free - live,
            held=held,
            free_ids=free,
            text_bytes=int(meta[HEAP_LIVE]),
            bytes=count_bytes(self._arrays) + self._known.bytes + 8 * held,
        )

    def check(self) -> None:
        """Raise `DictionaryCorrupt` if an invariant of `triegs.dictionary.arrays` is broken."""
        held = [part for parts in self._held.values() for part in parts]
        check_dictionary(self._arrays, held, self._known)


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _spread(problems: list[Problem], places: Any, rows: Any) -> list[Problem]:
    """Problems with distinct values, at each row that has one of them."""
    reasons = dict(problems)
    bad = np.isin(places, np.array(list(reasons), np.int64))
    return [
        Problem(int(row), reasons[int(place)])
        for row, place in zip(rows[bad], places[bad], strict=True)
    ]
