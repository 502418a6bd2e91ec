"""The dictionary: reference-counted terms with dense ids.

One writer encodes, acquires, releases and collects, while any number of readers decode
(`triegs.terms.decoder` explains why this is safe). An epoch of the engine runs::

    encode the batch  →  apply it  →  acquire new references, release old ones
                      →  publish   →  collect

A new term has count zero; if it is not acquired before the next `collect`, it is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from triegs.terms.arrays import (
    FREE_IDS,
    HEAP_LIVE,
    INTEGER,
    LIMBO,
    NAMED,
    TOP,
    Arrays,
    Bytes,
    Words,
    count_bytes,
)
from triegs.terms.checks import check_dictionary
from triegs.terms.counting import acquire_ids, release_ids, settle_rows, sift
from triegs.terms.decoder import Decoder, Terms, read_term, read_terms, to_words
from triegs.terms.encoding import ColumnEncoder, Encoded, Problem
from triegs.terms.interning import Interner
from triegs.terms.row_encoding import RowEncoder
from triegs.terms.shared_terms import share_arrays
from triegs.terms.table import BAD
from triegs.terms.term_array import TermArray
from triegs.terms.value_array import ValueArray
from triegs.terms.values import TermForm

# Up to this many ids are counted faster in Python than by a kernel.
_FEW = 16
_NO_PINS: Words = np.empty(0, np.int64)
_NO_TEXTS = pa.nulls(0, pa.large_string())  # `pa.array` would import pandas


class DictionaryMetrics(NamedTuple):
    """`live` terms are referenced; `limbo` terms wait to be freed, `held` of them for a pin.
    `bytes` includes `array_bytes`: the terms that large results share, and native values.
    """

    live: int
    limbo: int
    held: int
    free_ids: int
    text_bytes: int
    array_bytes: int
    bytes: int


class Dictionary:
    """Maps terms to ids and back.

    >>> words = Dictionary()
    >>> words.encode_one("<http://ex/a>"), words.encode_one(5)
    (0, 1)
    >>> words.encode_one('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    1
    >>> words.decode_one(0)
    '<http://ex/a>'

    With `shared_memory` other processes can decode (`triegs.terms.shared_terms`).
    """

    def __init__(self, *, shared_memory: bool = False) -> None:
        interner = self._interner = Interner(share_arrays if shared_memory else None)
        self._columns = ColumnEncoder(self._interner)
        self._rows = RowEncoder(self._interner)
        # Plain attributes, because looking up a cached term takes nanoseconds.
        self._texts = self._interner.cache.texts
        self._integers = self._interner.cache.integers
        # Ids that only a pin still holds, by pin.
        self._held: dict[int, list[Words]] = {}
        self._array = TermArray()
        # Not `self._load`: without a cycle, all arrays are freed at once with the dictionary.
        self._values = ValueArray(lambda: interner.arrays)
        #: The base of plain names, for decoding them.
        self.base = ""
        #: Each is called with freed ids before they can be reused.
        self.on_free: list[Callable[[Words], None]] = []

    @property
    def arrays(self) -> Arrays:
        """The current arrays: read-only, and valid until the next change."""
        return self._interner.arrays

    def lose(self) -> None:
        """Forget all terms, in a process that was forked from the one that has them."""
        self._interner.lose()

    # Encoding one term -------------------------------------------------------------------------

    def encode_one(self, term: object, scope: str = "") -> int:
        """The id of a term, given as N-Triples text, Python value, rdflib or pyoxigraph term.

        Raises `BadTerm`. A cached term costs one dict lookup. ``scope`` separates the blank nodes
        of files and streams.

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
        return self._interner.seek(term, scope, create=True)

    def find_one(self, term: object, scope: str = "") -> int:
        """The id of a term, or -1 if it is not in the dictionary; adds nothing.

        >>> Dictionary().find_one("<http://ex/a>")
        -1
        """
        return max(self._interner.seek(term, scope, create=False), BAD)

    def encode_terms(self, terms: Iterable[object], scope: str = "") -> list[int]:
        """The ids of a few terms, as by `encode_one`.

        >>> Dictionary().encode_terms(["<http://ex/a>", 1, "<http://ex/a>"])
        [0, 1, 0]
        """
        encode = self.encode_one
        return [encode(term, scope) for term in terms]

    # Encoding a column -------------------------------------------------------------------------

    def encode(self, column: Any, scope: str = "") -> Encoded:
        """The ids of a column: Arrow, NumPy, or a sequence of terms of any kind.

        Strings (any Arrow layout), dictionaries of strings, and integers are encoded by compiled
        code; floats, decimals, dates and timestamps take a Python step per distinct value, plain
        sequences one per row. Null and malformed values get id -1 and an entry in ``problems``, in
        order of position. Only an unsupported column type raises: `TypeError`.

        >>> import pyarrow as pa
        >>> words = Dictionary()
        >>> words.encode(pa.array(["<http://ex/a>", None, "a", "<http://ex/a>"]))
        Encoded(ids=array([ 0, -1, -1,  0]), problems=[Problem(position=1, reason='null'), \
Problem(position=2, reason="not an N-Triples term: 'a'")])
        """
        return self._columns.encode(column, scope, create=True)

    def encode_into(self, column: Any, out: Words) -> list[Problem]:
        """Like `encode` for an Arrow column, but writes the ids to ``out``.

        >>> import pyarrow as pa
        >>> rows = np.zeros((2, 4), np.int64)
        >>> Dictionary().encode_into(pa.array([7, 8]), rows[:, 3])
        []
        >>> rows.tolist()
        [[0, 0, 0, 0], [0, 0, 0, 1]]
        """
        return self._columns.encode_into(column, out)

    def encode_rows(self, columns: Sequence[Any], rows: Words) -> list[int]:
        """Encode four Arrow columns, changes or None and three of terms, into ``rows`` at once.

        Returns the numbers of the columns that are left for `encode_into`, because they are of
        other kinds than signs, integers and texts, have nulls, or have something that must be
        parsed or refused. Cost: one pass over the columns. They need not be validated before.

        >>> import pyarrow as pa
        >>> rows = np.zeros((2, 4), np.int64)
        >>> columns = [None, pa.array([7, 8]), pa.array(["<a:p>", "a"]), pa.array([8, 7])]
        >>> Dictionary().encode_rows(columns, rows), rows[:, 3].tolist()
        ([2], [1, 0])
        """
        return self._rows.encode(columns, rows)

    def find(self, column: Any, scope: str = "") -> Encoded:
        """Like `encode`, but adds nothing: an unknown term has id -1 and is not a problem.

        >>> Dictionary().find([1, 2])
        Encoded(ids=array([-1, -1]), problems=[])
        """
        encoded = self._columns.encode(column, scope, create=False)
        return Encoded(np.maximum(encoded.ids, BAD), encoded.problems)

    # Counting ----------------------------------------------------------------------------------

    def acquire(self, ids: ArrayLike, epoch: int = 0) -> None:
        """Increment the count of each id as of this epoch; `KeyError` for an unused id.

        >>> words = Dictionary()
        >>> words.acquire([words.encode_one(1), words.encode_one(1)], epoch=1)
        >>> words.metrics().live
        1
        """
        if isinstance(ids, list) and self._count_few(ids, 1, 1):
            return
        words = to_words(ids)
        row = acquire_ids(words, epoch, *self._interner.arrays)
        if row >= 0:
            raise KeyError(f"{words[row]} is not the id of a term")

    def release(self, ids: ArrayLike, epoch: int = 0) -> None:
        """Decrement the count of each id; ``epoch`` is the first that no longer references it.

        `KeyError`, changing nothing, for an id that is unused or was released more often than
        acquired.
        """
        if isinstance(ids, list) and self._count_few(ids, -1, 2):
            return
        words = to_words(ids)
        row = release_ids(words, epoch, *self._interner.arrays)
        if row >= 0:
            raise KeyError(f"{words[row]} was released more often than acquired")

    def _count_few(self, ids: list[int], change: int, least: int) -> bool:
        """Change the counts of a few ids in Python; all, or none if one is below ``least``."""
        counts = self._interner.counts
        if len(ids) > _FEW:
            return False
        for done, identity in enumerate(ids):
            if identity < 0 or identity >= len(counts) or counts[identity] < least:
                for again in ids[:done]:
                    counts[again] -= change
                return False
            counts[identity] += change
        return True

    def settle(self, rows: Words, epoch: int = 0) -> None:
        """Count rows ``(change, subject, predicate, object)``, as made by `triegs.events.updates`.

        Change 1 acquires the three ids of a row, -1 releases them, and 0 is ignored. All
        acquisitions come first, so the order within an epoch does not matter. ``rows`` is an int64
        array with contiguous rows. Raises `KeyError` like `acquire` and `release`.

        >>> words = Dictionary()
        >>> a, p = words.encode_terms(["<http://ex/a>", "<http://ex/p>"])
        >>> words.settle(np.array([(1, a, p, a), (1, a, p, p), (-1, a, p, a)]), epoch=1)
        >>> words.metrics().live
        2
        """
        flat = rows.reshape(-1)
        index = settle_rows(flat, epoch, *self._interner.counted)
        if index >= 0:
            raise explain_row(flat, int(index))

    @property
    def counted(self) -> tuple[Words, Words, Words, Bytes, Words, Words]:
        """Those of the current arrays that `triegs.terms.counting.count_rows` takes."""
        return self._interner.counted

    def is_due(self, at_least: int) -> bool:
        """Whether `collect` may have work: enough terms in limbo, or terms held by a pin."""
        return self._interner.meta[LIMBO] >= at_least or bool(self._held)

    def collect(self, horizon: int, pins: Sequence[int] = (), at_least: int = 1) -> int:
        """Free unreferenced terms: count zero, stamp published, not visible to any pin.

        ``horizon`` is the newest published epoch and ``pins`` the epochs that readers hold, in
        ascending order. A term referenced from epoch b up to, but excluding, s is freed when
        s ≤ horizon and no pin p has b ≤ p < s. (Without ``pins``, the oldest readable epoch also
        works as ``horizon``, but a single old reader then retains everything.) Returns the number
        of freed terms. Cost: the terms in limbo, plus those that a pin no longer holds. A no-op
        while limbo has fewer than ``at_least`` terms, which amortizes the call over small epochs.

        >>> words = Dictionary()
        >>> a = words.encode_one("<http://ex/a>")
        >>> words.acquire([a], epoch=1)
        >>> words.release([a], epoch=3)
        >>> words.collect(3, pins=[2]), words.collect(3)
        (0, 1)
        """
        held, arrays = self._held, self._interner.arrays
        gone = held.keys() - set(pins) if held else ()
        if self._interner.meta[LIMBO] < at_least and not gone:
            return 0
        if gone:
            part = np.concatenate([part for pin in gone for part in held.pop(pin)])
            end = self._interner.meta[LIMBO]
            arrays.limbo[end : end + len(part)] = part
            self._interner.meta[LIMBO] = end + len(part)
        kept = np.empty(2 * self._interner.meta[LIMBO], np.int64)
        seen_by = np.array(pins, np.int64) if pins else _NO_PINS
        freed, cached, waiting = sift(horizon, seen_by, kept, *arrays)
        self.note_sifted(kept, freed, cached, waiting)
        return int(freed)

    def note_sifted(self, kept: Words, freed: int, cached: int, held: int) -> None:
        """Follow a kernel that sifted limbo: its results, see `triegs.terms.counting.sift_last`.

        To be called before anything is encoded. Cost: what was freed.
        """
        if held:
            pairs = kept[len(kept) - 2 * held :].reshape(-1, 2)
            self._hold(pairs[:, 0], pairs[:, 1])
        if cached:
            self._interner.forget_cached(kept[:cached])
        if freed:
            end = self._interner.meta[FREE_IDS]
            for note_freed in self.on_free:
                note_freed(self._interner.arrays.free[end - freed : end])
            self._interner.give_room_back()
            self._array.shrink(self._interner.meta[TOP])
            self._values.shrink(self._interner.meta[TOP])

    def _hold(self, ids: Words, holders: Words) -> None:
        first = int(holders[0])
        if (holders == first).all():  # the usual case, in every epoch while a snapshot is held
            self._held.setdefault(first, []).append(ids.copy())
            return
        order = np.argsort(holders, kind="stable")
        pins, starts = np.unique(holders[order], return_index=True)
        for pin, part in zip(pins.tolist(), np.split(ids[order], starts[1:]), strict=True):
            self._held.setdefault(pin, []).append(part)

    # Decoding ----------------------------------------------------------------------------------

    def decoder(self, *, shared: bool = False) -> Decoder:
        """A `Decoder` for the batches of one snapshot. Use one per reader and thread.

        With ``shared``, large results share an array of all terms. They may then contain only
        terms that were acquired, and need one in every row.
        """
        load_all = partial(self._array.load, self._load) if shared else None
        return Decoder(self._load, self.base, load_all, self._values.gather)

    def _load(self) -> Arrays:
        return self._interner.arrays

    def decode(self, ids: ArrayLike) -> Any:
        """An Arrow dictionary array of N-Triples strings, null for id -1.

        It contains exactly the needed terms, each once. Cost: the rows, plus the terms' bytes.

        >>> import pyarrow as pa
        >>> words = Dictionary()
        >>> words.decode(words.encode(pa.array([3, 4, 3])).ids).indices.to_pylist()
        [0, 1, 0]
        """
        return self.decoder().decode(ids)

    def decode_values(self, ids: ArrayLike, form: TermForm | str) -> NDArray[np.object_]:
        """Terms in another form: ``"python"``, ``"rdflib"``, ``"pyoxigraph"``.

        >>> words = Dictionary()
        >>> words.decode_values(words.encode_terms([3, 2.5, "<http://ex/a>"]), "python").tolist()
        [3, 2.5, '<http://ex/a>']
        """
        return self.decoder().decode_values(ids, form)

    def decode_one(self, identity: int, form: TermForm | str = TermForm.NTRIPLES) -> Any:
        """One term; `IndexError` if the id was never assigned.

        >>> words = Dictionary()
        >>> words.decode_one(words.encode_one(True), "python")
        True
        """
        return read_term(self._interner.arrays, identity, form)

    def read_terms(self, ids: Words) -> Terms:
        """Terms for computation: integers as numbers, all others as Arrow strings.

        >>> words = Dictionary()
        >>> terms = words.read_terms(np.array(words.encode_terms([3, "<http://ex/a>"])))
        >>> terms.is_integer.tolist(), terms.integers.tolist(), terms.texts.to_pylist()
        ([True, False], [3], ['<http://ex/a>'])
        """
        spans = self._interner.arrays.spans[ids]
        is_integer = spans[:, 1] == INTEGER
        if is_integer.all():  # the usual case of a column that is summed
            return Terms(is_integer, spans[:, 0].copy(), _NO_TEXTS)
        return read_terms(self._interner.arrays, ids)

    # Metrics and checks ------------------------------------------------------------------------

    def metrics(self) -> DictionaryMetrics:
        """Counts and memory; O(1). Bytes of the Python caches are estimates.

        >>> Dictionary().metrics().live
        0
        """
        meta = self._interner.arrays.meta
        held = sum(len(part) for parts in self._held.values() for part in parts)
        free, live = int(meta[FREE_IDS]), int(meta[NAMED])
        array = self._array.bytes + self._values.bytes
        return DictionaryMetrics(
            live=live,
            limbo=int(meta[TOP]) - free - live,
            held=held,
            free_ids=free,
            text_bytes=int(meta[HEAP_LIVE]),
            array_bytes=array,
            bytes=count_bytes(self._interner.arrays)
            + self._interner.cache.bytes
            + 8 * held
            + array,
        )

    def check(self) -> None:
        """Raise `DictionaryCorrupt` if an invariant of `triegs.terms.arrays` is violated."""
        held = [part for parts in self._held.values() for part in parts]
        check_dictionary(self._interner.arrays, held, self._interner.cache)


def explain_row(rows: Words, index: int) -> KeyError:
    """The error for the index of a bad id that `settle_rows` returned."""
    if rows[index - index % 4] > 0:
        return KeyError(f"{rows[index]} is not the id of a term")
    return KeyError(f"{rows[index]} was released more often than acquired")
