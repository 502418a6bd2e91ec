"""Encodes single values as ids, through the caches or the kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from triegs.errors import BadTerm
from triegs.terms.arrays import Arrays, Words, make_arrays
from triegs.terms.room import give_room_back, make_room
from triegs.terms.table import NO_ROOM, UNSURE, intern_one, intern_one_integer
from triegs.terms.term import canonical_term, scope_label
from triegs.terms.term_cache import TermCache
from triegs.terms.values import write_value

_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1


class Interner:
    """The current arrays and the caches in front of them. Belongs to the writer.

    Readers only load ``arrays``, atomically.
    """

    def __init__(self, settle: Callable[[Arrays], Arrays] | None = None) -> None:
        self.cache = TermCache()
        #: Moves arrays to where other processes can read them.
        self._settle = settle
        self.replace(make_arrays())

    def replace(self, arrays: Arrays) -> None:
        """Switch to these arrays; the old ones stay unchanged."""
        if self._settle is not None:
            arrays = self._settle(arrays)
        self.arrays = arrays
        # Memoryviews are faster than NumPy for single numbers.
        self.counts = arrays.counts.data
        self.meta = arrays.meta.data
        self._spans = arrays.spans.data
        self._cached = arrays.cached.data
        self.counted = (
            arrays.counts,
            arrays.births,
            arrays.stamps,
            arrays.states,
            arrays.limbo,
            arrays.meta,
        )

    def lose(self) -> None:
        """Forget the arrays, in a process that was forked from the one that has them."""
        self._settle = None
        self.replace(make_arrays())

    def reserve(self, size: int) -> None:
        """Make room for one more term of ``size`` bytes."""
        self.replace(make_room(self.arrays, size))

    def give_room_back(self) -> None:
        """Shrink the arrays if they are mostly empty."""
        arrays = self.arrays
        smaller = give_room_back(arrays, self.meta)
        if smaller is not arrays:
            self.replace(smaller)

    def forget_cached(self, ids: Words) -> None:
        """Remove freed ids, marked as cached, from the caches. Cost: a Python step each."""
        spans, flags = self._spans, self._cached
        forget = self.cache.forget
        for identity in ids.tolist():
            forget(identity, spans[identity, 0])
            flags[identity] = 0

    def seek(self, term: object, scope: str, create: bool) -> int:
        """The id of a term, created if needed with ``create``, else a negative number.

        Raises `BadTerm` for a value that is not a term.
        """
        if type(term) is int and _LEAST_INTEGER <= term <= _MOST_INTEGER:
            found = self.cache.integers.get(term)
            return self._seek_integer(term, create) if found is None else found
        text = term if type(term) is str else write_value(term)
        if scope:
            text = scope_label(text, scope)
        found = self.cache.texts.get(text)
        if found is not None:
            return found
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise BadTerm(f"a lone surrogate is not a character: {text!a:.80}") from None
        identity = self._seek_bytes(data, create, trusted=False)
        if identity == UNSURE:
            try:
                data = canonical_term(text).encode()
            except ValueError as error:
                raise BadTerm(str(error)) from None
            identity = self._seek_bytes(data, create, trusted=True)
        if identity >= 0:
            self.cache.add_text(text, identity, self.arrays.cached)
        return identity

    def _seek_integer(self, value: int, create: bool) -> int:
        identity = int(intern_one_integer(np.int64(value), create, *self.arrays))
        if identity == NO_ROOM:
            self.reserve(0)
            identity = int(intern_one_integer(np.int64(value), create, *self.arrays))
        if identity >= 0:
            self.cache.add_integer(value, identity, self.arrays.cached)
        return identity

    def _seek_bytes(self, data: bytes, create: bool, trusted: bool) -> int:
        buffer = np.frombuffer(data, np.uint8)
        identity = int(intern_one(buffer, create, trusted, *self.arrays))
        if identity == NO_ROOM:
            self.reserve(len(data))
            identity = int(intern_one(buffer, create, trusted, *self.arrays))
        return identity
