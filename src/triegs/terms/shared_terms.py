"""Terms that other processes decode, where the updater has them.

What decoding reads of `triegs.terms.arrays` is in shared memory: heap, spans, births, states and
counters. Another process reads it as a thread of the updater's process does (`decoder`), for the
same reason: the terms of a held snapshot are not free, so neither their spans nor their bytes
change, and replaced arrays stay as they are. So nothing is copied for readers, and ids alone cost
them nothing.

Arrays that are replaced are moved to new files. Growing copies them once more than without sharing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from triegs.shared_memory import (
    FileRef,
    ReadMapping,
    find_mapping,
    find_offset,
    move_to_file,
)
from triegs.terms.arrays import TOP, Arrays
from triegs.terms.decoder import Decoder, read_term
from triegs.terms.term_array import TermArray
from triegs.terms.value_array import ValueArray
from triegs.terms.values import TermForm

READ = ("heap", "spans", "births", "states", "meta")


class ArrayRef(NamedTuple):
    """An array in one of several files."""

    name: str
    file: int
    kind: str
    shape: tuple[int, ...]
    offset: int


class TermsRef(NamedTuple):
    """The arrays that readers need; those of a higher number are newer."""

    number: int
    files: tuple[FileRef, ...]
    arrays: tuple[ArrayRef, ...]


def share_arrays(arrays: Arrays) -> Arrays:
    """The arrays, with those that readers need in shared memory. Copies what is not there yet."""
    names = [name for name in READ if find_mapping(getattr(arrays, name)) is None]
    if not names:
        return arrays
    moved = move_to_file("terms", [getattr(arrays, name) for name in names])
    return arrays._replace(**dict(zip(names, moved, strict=True)))


def refer_to_arrays(arrays: Arrays, number: int) -> TermsRef:
    files: list[FileRef] = []
    found = []
    for name in READ:
        array = getattr(arrays, name)
        mapping = find_mapping(array)
        assert mapping is not None
        ref = mapping.file.refer()
        if ref not in files:
            files.append(ref)
        offset = find_offset(array, mapping)
        found.append(ArrayRef(name, files.index(ref), array.dtype.str, array.shape, offset))
    return TermsRef(number, tuple(files), tuple(found))


class _Current:
    arrays: Arrays


class SharedTerms:
    """The terms of another process's engine. From any thread.

    Its readers share what they derive from terms: the array of all, and native values.
    """

    def __init__(self) -> None:
        self._number = -1
        current = self._current = _Current()
        self._files: dict[str, ReadMapping] = {}
        self._array = TermArray()
        self._values = ValueArray(lambda: current.arrays)  # no cycle, see `Dictionary`

    def follow(self, ref: TermsRef) -> None:
        """Read these arrays from now on, unless they are older than the current ones. The terms of
        every snapshot that is held are in both.
        """
        if ref.number <= self._number:
            return
        known = self._files
        self._files = {file.name: known.get(file.name) or ReadMapping(file) for file in ref.files}
        found: dict[str, Any] = {}
        for array in ref.arrays:
            mapping = self._files[ref.files[array.file].name]
            found[array.name] = mapping.view(array.kind, array.shape, array.offset)
        words, flags = np.empty(0, np.int64), np.empty(0, np.uint8)
        self._current.arrays = Arrays(
            **found, texts=words, integers=words.reshape(0, 2), stamps=words, cached=flags,
            free=words, limbo=words, counts=found["births"],
        )  # fmt: skip
        self._number = ref.number
        self._array.shrink(int(found["meta"][TOP]))
        self._values.shrink(int(found["meta"][TOP]))

    def load(self) -> Arrays:
        return self._current.arrays

    def decode_one(self, identity: int) -> str:
        return str(read_term(self.load(), identity, TermForm.NTRIPLES))

    def decoder(self, base: str) -> Decoder:
        """A decoder for one snapshot, as `triegs.terms.dictionary.Dictionary.decoder` gives."""
        load_all = partial(self._array.load, self.load)
        return Decoder(self.load, base, load_all, self._values.gather)
