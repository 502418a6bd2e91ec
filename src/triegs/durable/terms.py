"""Terms in a log: an id is valid within a segment, once its term has been defined there.

A record has ids, and the definitions of new ones. So an epoch of known terms costs four bytes per
cell, whatever the terms. A reader references every term that a segment defines, so that none is
freed while a later record may use it, and releases them at the end of the segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.durable.columns import Columns, lay_out
from triegs.durable.undefined import ROOM, find_undefined, forget_terms, write_rows
from triegs.jit.words import Words
from triegs.terms.arrays import INTEGER
from triegs.terms.decoder import measure_terms, write_terms
from triegs.terms.dictionary import Dictionary

Arrays = dict[str, NDArray[Any]]


class Definer:
    """Writes the definitions that a record needs of the terms of one dictionary.

    It must `forget` what the dictionary frees, because the ids are given to other terms.
    """

    def __init__(self, words: Dictionary, prefix: str) -> None:
        self._words = words
        self._prefix = prefix
        self._describe_integers = (
            f',["{prefix}_integers","<i8",[%d]],["{prefix}_integer_ids","<i4",[%d]]'
        )
        # A bit per id, so that those of a window of terms stay in the nearest cache.
        self._defined = np.zeros(0, np.int64)

    def begin(self) -> None:
        """A segment begins: nothing is defined. Cost: a bit per id."""
        self._defined.fill(0)

    def forget(self, ids: Words) -> None:
        """Define these ids again when a record needs them: they have other terms then."""
        forget_terms(self._defined, ids)

    def define(self, ids: Words) -> Arrays:
        """The definitions of these terms that a record needs. Cost: the ids."""
        found = np.empty(len(ids), np.int64)
        count = find_undefined(ids, self.find_defined(), found)
        return write_definitions(self._words, found[:count], self._prefix) if count else {}

    def write_rows(self, rows: Words) -> Columns:
        """Rows ``(change, subject, predicate, object)`` for a record, with the definitions that it
        needs. Cost: one pass over the rows, and the new terms.
        """
        size = len(rows)
        words = self._words.arrays
        body = np.empty(ROOM * size, np.int64)
        halves = body.view(np.int32)
        spans, defined = words.spans.reshape(-1), self.find_defined()
        count, texts, _ = write_rows(rows, spans, defined, body, halves)
        described = f'["rows","<i4",[{size}, 3]]'
        used = (3 * size + 1) // 2
        if count:
            described += self._describe_integers % (count, count)
            used += count + (count + 1) // 2
        found = Columns((described,), (body[:used],))
        if not texts:
            return found
        end = len(halves) - 3 * size
        ids = halves[end - texts : end].astype(np.int64)
        return found + lay_out(write_definitions(self._words, ids, self._prefix))

    def find_defined(self) -> Words:
        """Which ids are defined, a bit for each id there is."""
        size = (len(self._words.arrays.births) + 63) // 64
        if len(self._defined) < size:
            larger = np.zeros(size, np.int64)
            larger[: len(self._defined)] = self._defined
            self._defined = larger
        return self._defined


def write_definitions(words: Dictionary, ids: Words, prefix: str) -> Arrays:
    """These ids and their terms, as arrays. Cost: the terms.

    >>> words = Dictionary()
    >>> ids = np.array(words.encode_terms([7, "<a:b>"]))
    >>> list(write_definitions(words, ids, "term"))
    ['term_integer_ids', 'term_integers', 'term_text_ids', 'term_offsets', 'term_texts']
    """
    arrays = words.arrays
    spans = arrays.spans[ids]
    is_integer = spans[:, 1] == INTEGER
    found: Arrays = {}
    if is_integer.any():
        found[f"{prefix}_integer_ids"] = ids[is_integer].astype(np.int32)
        found[f"{prefix}_integers"] = spans[is_integer, 0]
        ids = ids[~is_integer]
    if len(ids):
        offsets = np.empty(len(ids) + 1, np.int64)
        texts = np.empty(measure_terms(arrays.spans, ids, offsets), np.uint8)
        write_terms(arrays.spans, arrays.heap, ids, offsets, texts)
        found[f"{prefix}_text_ids"] = ids.astype(np.int32)
        found[f"{prefix}_offsets"] = offsets
        found[f"{prefix}_texts"] = texts
    return found


class Definitions:
    """Reads definitions: from the ids of a log or a checkpoint to those of a dictionary.

    Every defined term is referenced until `close`.
    """

    def __init__(self, words: Dictionary, prefix: str) -> None:
        self._words = words
        self._prefix = prefix
        self._ids = np.full(1, -1, np.int64)
        self._held: list[Words] = []

    def take(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read the definitions of a record."""
        prefix = self._prefix
        if f"{prefix}_integer_ids" in arrays:
            column = pa.array(arrays[f"{prefix}_integers"])
            self._learn(arrays[f"{prefix}_integer_ids"], column)
        if f"{prefix}_text_ids" in arrays:
            offsets, texts = arrays[f"{prefix}_offsets"], arrays[f"{prefix}_texts"]
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
            column = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
            self._learn(arrays[f"{prefix}_text_ids"], column)

    def _learn(self, given: NDArray[Any], column: Any) -> None:
        ids, problems = self._words.encode(column)
        if problems:
            raise ValueError(f"a malformed term: {problems[0].reason}")
        self._words.acquire(ids)
        self._held.append(ids)
        most = int(given.max())
        if most >= len(self._ids):
            larger = np.full(max(most + 1, 2 * len(self._ids)), -1, np.int64)
            larger[: len(self._ids)] = self._ids
            self._ids = larger
        self._ids[given] = ids

    def translate(self, ids: NDArray[Any]) -> Words:
        """Dictionary ids for ids of the log; negative values stay."""
        found: Words = np.where(ids < 0, ids, self._ids[np.maximum(ids, 0)])
        if ((found < 0) & (ids >= 0)).any():
            raise ValueError("a term is not defined")
        return found

    def read_rows(self, arrays: Mapping[str, NDArray[Any]]) -> Words:
        """Rows of a record or section by dictionary ids; the first column is the change, or the
        number of events if that is stored.
        """
        given = arrays["rows"]
        subjects = given[:, 0]
        is_deletion = subjects < 0
        rows: Words = np.empty((len(given), 4), np.int64)
        rows[:, 0] = arrays.get("counts", np.where(is_deletion, -1, 1))
        rows[:, 1] = self.translate(np.where(is_deletion, ~subjects, subjects))
        rows[:, 2:] = self.translate(given[:, 1:])
        return rows

    def close(self, epoch: int) -> None:
        """Release all terms."""
        for ids in self._held:
            self._words.release(ids, epoch)
        self._held.clear()
        self._ids = np.full(1, -1, np.int64)
